// CutModel: a few neighbouring groups taken apart into units, to try other cuts of them by set
// arithmetic on 64-bit masks before anything of the segmentation changes.
//
// A unit is what an initial group was: an expression with the cheap producers that it takes along
// (segmenter/passes.h). Every group is a set of units, and stays one through all merges and splits.
// A cut is a list of disjoint blocks, masks of units, that together are all units of the model.
// What a block costs and whether a guard accepts it depends on the block alone and is remembered.
// Groups between those of the model, on paths that leave it and return, are kept as they are.
// Thread-safety: none. What it is made from must outlive it and stay the same meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "segmenter/guard.h"
#include "segmenter/segmented_fusion.h"
#include "segmenter/sizes.h"

namespace seam {

// What the initial groups were made of. Per expression: whether one was made for it, and then the
// cheap producers that went along (ascending).
struct Units {
  std::vector<bool> is_unit;
  std::vector<std::vector<ExprId>> producers;
};

// What a guard has said of sets of units, by the sums of their hashes. It is the same in every
// model of a segmentation.
struct Judgement {
  bool accepted = false;
  SchedulerKind scheduler = SchedulerKind::kNone;
  int num_exprs = 0;
  std::unique_ptr<GroupSummary> summary;  // Of an accepted one; models count its tensors anew.
};
using Judgements = absl::flat_hash_map<uint64_t, Judgement>;

using UnitMask = uint64_t;
using Cut = std::vector<UnitMask>;

class CutModel {
 public:
  static constexpr int kMaxUnits = 64;  // With the groups between.

  // `groups` and `between` together have at most kMaxUnits units and groups. Linear in both.
  CutModel(const SegmentedFusion& segmented, const Units& units, const SizeHints& sizes,
           const SchedulabilityGuard& guard, Judgements& judgements,
           absl::Span<const GroupId> groups, absl::Span<const GroupId> between);

  int num_units() const { return num_units_; }
  // The units of groups[i].
  const Cut& groups() const { return groups_; }
  ExprId expr(int unit) const { return expr_of_unit_[unit]; }  // That the unit is for.
  // Whether a unit reads a value of a cheap expression that its group has as another unit's copy.
  // Parted from that one it would depend on a group that it does not depend on now.
  bool has_borrowed_copies() const { return has_borrowed_copies_; }
  // All expressions of a block, ascending.
  std::vector<ExprId> Exprs(UnitMask block) const;

  struct Price {
    bool legal = false;  // What follows says nothing otherwise.
    SchedulerKind scheduler = SchedulerKind::kNone;
    // Device memory traffic, over the fraction of the memory's rate, and kLaunchBytes if it
    // launches.
    int64_t bytes = 0;
  };
  // Linear in the units of the model the first time, and in the expressions of the block if the
  // guard has not been asked about it.
  const Price& PriceOf(UnitMask block);
  int64_t num_priced_exprs() const { return num_priced_exprs_; }  // The work done so far.
  // Of all blocks, every one of which is legal.
  int64_t BytesOf(absl::Span<const UnitMask> cut);

  // Whether the blocks and the groups between have no cycle.
  bool IsAcyclic(absl::Span<const UnitMask> cut) const;
  // Unions of blocks of the cut: `block` with all blocks on paths that leave it and return. Zero if
  // such a path leads through a group between.
  UnitMask Close(absl::Span<const UnitMask> cut, UnitMask block) const;

  // The parts of `block` between which no value flows within it. Of the cut's order nothing is
  // promised but that it is always the same.
  Cut Components(UnitMask block) const;
  // The blocks of a cut without cycle in an order in which they can run.
  Cut Sorted(absl::Span<const UnitMask> cut) const;
  // Units outside of `block` that read or compute what it reads, or read what it computes.
  UnitMask Neighbours(UnitMask block) const;
  // Equal for models of equal structure and sizes, however they are named, and an equal purpose.
  uint64_t Fingerprint(UnitMask focus, absl::string_view purpose, int effort) const;

  // Units that a unit reads from, and that read from it, within the model.
  UnitMask producers(int unit) const { return producers_[unit]; }
  UnitMask consumers(int unit) const { return consumers_[unit]; }
  // All units within `block` that lead to `unit` or that it leads to, itself included.
  UnitMask Upstream(int unit, UnitMask block) const { return Cone(producers_, unit, block); }
  UnitMask Downstream(int unit, UnitMask block) const { return Cone(consumers_, unit, block); }

 private:
  struct Read {
    int val;
    int64_t bytes;
  };
  struct LocalExpr {
    ExprId expr;
    UnitMask units = 0;    // Those that compute it.
    int writer = -1;       // The unit whose block writes its results if somebody needs them.
    int first_result = 0;  // In vals_; the others follow it.
    int num_results = 1;
    std::vector<Read> reads;  // Of each operand.
  };
  struct LocalVal {
    ValId val;
    int64_t bytes = 0;
    UnitMask computed = 0;   // By units.
    UnitMask read = 0;       // By units that do not compute it,
    UnitMask wholly = 0;     // and by those of them that read all of it.
    int writer = -1;         // That of its expression.
    bool is_result = false;  // Of the SegmentedFusion.
    bool leaves = false;     // A group outside reads it.
    // Expressions that read a part of it, and how much.
    absl::InlinedVector<std::pair<int, int64_t>, 1> partial;
  };

  static constexpr size_t kMaxJudgements = 1 << 14;  // Of which the memory is a few MB.

  int LocalIndex(ValId v);
  Judgement& JudgementOf(UnitMask block);
  void AddUnit(ExprId e, const Units& units);
  void AddReads(const SegmentedFusion& s);
  void AddDependences(const SegmentedFusion& s, absl::Span<const GroupId> between);
  int64_t ReadBytesOf(const LocalVal& v, UnitMask block) const;
  bool IsFirst(UnitMask block, UnitMask left) const;
  bool IsFreeView(UnitMask block) const;
  UnitMask Cone(const std::vector<UnitMask>& next, int unit, UnitMask block) const;
  UnitMask Reach(absl::Span<const UnitMask> cut, const std::vector<UnitMask>& next,
                 UnitMask from) const;

  const Fusion& f_;
  const AxisMap& axes_;
  const ValueFacts& facts_;
  const SizeHints& sizes_;
  const SchedulabilityGuard& guard_;
  Judgements& judgements_;
  int num_units_ = 0, num_nodes_ = 0;  // Units, then the groups between.
  Cut groups_;
  std::vector<UnitMask> producers_, consumers_;  // Per node.
  std::vector<UnitMask> neighbours_;             // Per unit.
  std::vector<ExprId> expr_of_unit_;
  std::vector<uint64_t> hash_of_unit_;
  std::vector<LocalExpr> exprs_;
  // Whether some block may compute values several times over: arithmetic is part of every price.
  bool looks_closer_ = false;
  std::vector<LocalVal> vals_;
  std::vector<std::vector<int>> exprs_of_unit_;  // Indices in exprs_.
  absl::flat_hash_map<ValId, int> val_index_;
  absl::flat_hash_map<ExprId, int> expr_index_;
  absl::flat_hash_map<UnitMask, Price> prices_;
  int64_t num_priced_exprs_ = 0;
  bool has_borrowed_copies_ = false;
};

}  // namespace seam
