// GroupSummary: what the schedulers need to know of a group to say yes or no, small and mergeable,
// so that a trial costs the values that cross between two groups and not the groups.
//
// The rule that it serves: a reduction with kept axes K is free if everything downstream of it in
// the group neither reduces nor uses an axis outside K, otherwise held. The grid axes P of a group
// are the intersection of its maximal expression spaces, of the kept axes of its held reductions,
// and, for every exchange of a value that has a reduction upstream in the group, of that value's
// axes that are not exchanged. One expression alone is always legal. Fields marked exact equal what
// is computed from the group's expressions from scratch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "segmenter/axes.h"

namespace seam {

// Why a group is what it is for the schedulers' purpose.
struct GroupSummary {
  std::vector<AxisSet> spaces;  // Exact. Antichain of the maximal expression spaces, sorted.
  std::vector<AxisSet>
      held;  // Exact. Antichain of the minimal kept sets of held reductions and exchanges, sorted.
  std::vector<AxisSet>
      kept;  // Exact. Distinct kept sets of all reductions (held and free), sorted.
  int num_exprs = 0;
  int num_reductions = 0;
  bool views_only = false;  // Every expression makes a view (a candidate for alias).
  bool moves = false;       // Some expression reads at other places than its own,
  bool turns = false;       // or has its operand's axes in another order.
  bool library = false;     // A library call; alone by rule.
  bool barrier = false;     // A segment_set; alone by rule.
  bool connected = true;    // One component through data edges or shared inputs.
  // Upper bound on how often a computed value is needed under different index maps: the product
  // over values read under k > 1 maps inside the group of k. 1 when there is none.
  int recompute_factor = 1;
  // How often one kernel would compute each expression, where somebody has taken a closer look
  // (segmenter/closer_look.h); else empty.
  struct Computed {
    ExprId expr;
    int times = 1;  // At most kMostTimes + 1.
    ExprId at;      // At each point of this one's space.
    // On how many lines along each dimension of the result these points lie: neighbours along it
    // have all but one of each line's in common. Empty for a single point.
    absl::InlinedVector<int, 4> lines;
    friend bool operator==(const Computed&, const Computed&) = default;
  };
  static constexpr size_t kMostTimes = 64;
  std::vector<Computed> computed;
  // Values that the kernel would read or write, at most; 0 where nobody has counted them, as an
  // expression does not say who else reads it.
  int num_tensors = 0;
  // Bytes that it would move at the sizes that prices are for; 0 where nobody has counted them.
  int64_t moved_bytes = 0;
  // For prices: the expressions that reduce, ascending, at most the first so many (for reasons),
  // and the dtype sizes.
  static constexpr size_t kNamedReductions = 16;
  std::vector<ExprId> reductions;

  AxisSet GridAxes() const;  // P: intersection of spaces and held; empty if there are no spaces.
  bool IsScalar() const;     // Every space is empty: nothing to divide over a grid.
  friend bool operator==(const GroupSummary&, const GroupSummary&) = default;
};

// What summaries ask of a value whatever the groups are.
struct ValueFacts {
  // Derived from factories and one-element inputs alone, without axes of its own: costs no memory
  // traffic and connects nobody who shares it.
  std::vector<bool> weightless;
  // Whether those who read it are connected by that: all but what is weightless or one element,
  // which nobody saves much by reading once.
  std::vector<bool> connects_readers;
  // An input, or views of one: reading it under many maps is many loads, and no value is computed
  // again.
  std::vector<bool> is_view_of_source;
  // What loads give: these, and casts of them to a wider type.
  std::vector<bool> is_read_of_source;
  // What a group of views can hand on without a copy: to other groups, which read it as dense in
  // the order of its dimensions or, through permutations alone, in another one; and to the caller,
  // who takes any strides unless he names some, of memory that is his.
  std::vector<bool> is_free_to_read, is_free_to_return;
  // Whether some expression reads no more of it than it returns (ReadsInPart of traffic.h).
  std::vector<bool> is_read_in_part;
  // Per expression: one that no group has, whose reading asks nothing of what it reads.
  std::vector<bool> left_out;
};
// All but the last per value. `kept` marks the expressions that groups have, all if it is empty.
// Linear.
ValueFacts FactsOf(const Fusion& fusion, const std::vector<bool>& kept = {});

// The summary of a group of these expressions (ascending, each once), from the definitions above.
// What groups carry is kept incrementally (segmenter/segmented_fusion.h) and must equal this.
// Linear in the expressions.
GroupSummary Summarize(const Fusion& fusion, const AxisMap& axes, const ValueFacts& facts,
                       absl::Span<const ExprId> exprs);

// Adds `set` to a family none of which covers another: `covers(a, b)` says that b is not needed
// beside a.
template <typename Family, typename Set, typename Covers>
void AddToAntichain(Family& family, const Set& set, Covers covers) {
  for (const Set& member : family) {
    if (covers(member, set)) return;
  }
  family.erase(std::remove_if(family.begin(), family.end(),
                              [&](const Set& member) { return covers(set, member); }),
               family.end());
  family.push_back(set);
}

// Whether an expression does nothing but view its operand's memory: a pad writes what is not there.
bool MakesView(const Fusion& fusion, ExprId e);
// Whether its elements come from other places than their own: all views but broadcasts and
// reshapes, lookups and concatenations.
bool ReadsOtherPlaces(const Fusion& fusion, ExprId e);

// GroupSummary::recompute_factor of values that are read under these numbers of maps: `log` is the
// sum of RecomputeLog over them. Integers, so that the sum does not depend on its order.
int64_t RecomputeLog(uint32_t num_maps);
int RecomputeFactor(int64_t log);

}  // namespace seam
