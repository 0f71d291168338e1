#include "segmenter/islands.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "segmenter/closer_look.h"

namespace seam {
namespace {

// Of more slices of one value nobody looks which overlap.
constexpr size_t kMostSlices = 32;

// The expressions of a group, each by its place among them, and what connects them.
class Parts {
 public:
  Parts(const Fusion& fusion, const AxisMap& axes, const ValueFacts& facts,
        absl::Span<const ExprId> exprs)
      : fusion_(fusion), axes_(axes), facts_(facts), exprs_(exprs), parent_(exprs.size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (size_t n = 0; n < exprs.size(); ++n) {
      for (int r = 0; r < fusion.num_results(exprs[n]); ++r)
        place_.emplace(fusion.result(exprs[n], r), n);
    }
    FindCarried();
    FollowData();
    for (size_t n = 0; n < exprs.size(); ++n) {
      if (!carried_[n]) spaces_[Root(n)].insert(axes.space_number(exprs[n]));
    }
  }

  bool is_carried(size_t n) const { return carried_[n]; }
  size_t Root(size_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

  // Joins parts that read a value whole, but for slices of it that do not overlap.
  void JoinSharing() {
    struct Readers {
      std::vector<size_t> roots;                      // That read all of it.
      std::vector<std::pair<ExprId, size_t>> slices;  // And who reads the slice.
    };
    absl::flat_hash_map<ValId, Readers> readers;
    std::vector<absl::flat_hash_set<size_t>> takers(exprs_.size());  // Of what is carried.
    for (size_t n = exprs_.size(); n-- > 0;) {
      if (!carried_[n]) takers[n] = {Root(n)};
      for (ValId v : fusion_.operands(exprs_[n])) {
        const auto at = place_.find(v);
        if (at != place_.end() && !carried_[at->second]) continue;
        if (at != place_.end()) takers[at->second].insert(takers[n].begin(), takers[n].end());
        if (!facts_.connects_readers[v.index()]) continue;
        const std::optional<Read> read = ReadBy(n, v);
        for (size_t root : takers[n]) {
          if (!IsWhole(read ? read->axes : AxisSet(), root)) continue;
          if (fusion_.op(exprs_[n]) == OpKind::Slice) {
            readers[v].slices.emplace_back(exprs_[n], root);
          } else {
            readers[v].roots.push_back(root);
          }
        }
      }
    }
    for (auto& [v, of] : readers) {
      const bool all = !of.roots.empty() || of.slices.size() > kMostSlices;
      for (size_t i = 0; i < of.slices.size(); ++i) {
        if (all) of.roots.push_back(of.slices[i].second);
        for (size_t j = all ? i : 0; j < i; ++j) {
          if (of.slices[i].first == of.slices[j].first ||
              !AreDisjoint(of.slices[i].first, of.slices[j].first)) {
            Join(of.slices[i].second, of.slices[j].second);
          }
        }
      }
      for (size_t root : of.roots) Join(root, of.roots.front());
    }
  }

  std::vector<ValId> ConnectingReads() {
    absl::btree_set<ValId> values;
    for (size_t n = 0; n < exprs_.size(); ++n) {
      if (carried_[n]) continue;
      for (ValId v : fusion_.operands(exprs_[n])) {
        const std::optional<Read> read = ReadBy(n, v);
        if (read && !read->sliced && facts_.connects_readers[read->val.index()] &&
            IsWhole(read->axes, Root(n))) {
          values.insert(read->val);
        }
      }
    }
    return {values.begin(), values.end()};
  }

 private:
  void Join(size_t a, size_t b) {
    a = Root(a);
    b = Root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

  // What each island that uses it has by itself: what is weightless, and other looks at what is
  // read.
  void FindCarried() {
    std::vector<bool> is_read(exprs_.size());
    for (ExprId e : exprs_) {
      for (ValId v : fusion_.operands(e)) {
        if (const auto at = place_.find(v); at != place_.end()) is_read[at->second] = true;
      }
    }
    const auto is_look = [&](ExprId e) {
      const OpClass c = fusion_.info(e).op_class;
      return c == OpClass::View || c == OpClass::Broadcast ||
             (c == OpClass::Cast && DTypeBytes(fusion_.dtype(fusion_.result(e))) >
                                        DTypeBytes(fusion_.dtype(fusion_.operands(e)[0])));
    };
    for (size_t n = 0; n < exprs_.size(); ++n) {
      const ExprId e = exprs_[n];
      carried_.push_back(
          facts_.weightless[fusion_.result(e).index()] ||
          (is_read[n] && is_look(e) && absl::c_all_of(fusion_.operands(e), [&](ValId v) {
             const auto at = place_.find(v);
             return at == place_.end() || carried_[at->second];
           })));
    }
  }

  void FollowData() {
    for (size_t n = 0; n < exprs_.size(); ++n) {
      if (carried_[n]) continue;
      for (ValId v : fusion_.operands(exprs_[n])) {
        const auto at = place_.find(v);
        if (at != place_.end() && !carried_[at->second]) Join(at->second, n);
      }
    }
  }

  // What others computed that the n-th expression reads by reading `v`, through what is carried.
  struct Read {
    ValId val;
    AxisSet axes;         // Along which memory is read.
    bool sliced = false;  // Through a slice.
  };
  // None for what is computed here, or of nothing.
  std::optional<Read> ReadBy(size_t n, ValId v) const {
    Read read{v};
    for (;;) {
      read.sliced |= fusion_.op(exprs_[n]) == OpKind::Slice;
      const auto at = place_.find(read.val);
      if (at == place_.end()) break;
      n = at->second;
      if (!carried_[n] || fusion_.operands(exprs_[n]).empty()) return std::nullopt;
      read.val = fusion_.operands(exprs_[n])[0];
    }
    const ExprId e = exprs_[n];
    if (fusion_.op(e) == OpKind::Slice) {
      read.axes = axes_.axes(fusion_.result(e));
      return read;
    }
    for (int i = 0; i < static_cast<int>(fusion_.operands(e).size()); ++i) {
      for (int d = 0; fusion_.operands(e)[i] == read.val && d < fusion_.rank(read.val); ++d) {
        for (AxisId axis : axes_.operand_atoms(e, i, d)) read.axes.push_back(axis);
      }
    }
    absl::c_sort(read.axes);
    read.axes.erase(std::unique(read.axes.begin(), read.axes.end()), read.axes.end());
    return read;
  }

  // Whether what is read is as large as what the part computes: no space of it has more axes.
  bool IsWhole(const AxisSet& read, size_t root) const {
    return absl::c_none_of(spaces_.at(root), [&](uint32_t number) {
      const AxisSet& space = axes_.sets()[number];
      return read.size() < space.size() && IsSubset(read, space);
    });
  }

  bool AreDisjoint(ExprId a, ExprId b) const {
    const Attributes &of_a = fusion_.attributes(a), &of_b = fusion_.attributes(b);
    for (size_t d = 0; d < of_a.start.size(); ++d) {
      if (ProvablyLe(of_a.stop[d], of_b.start[d]) || ProvablyLe(of_b.stop[d], of_a.start[d]))
        return true;
    }
    return false;
  }

  const Fusion& fusion_;
  const AxisMap& axes_;
  const ValueFacts& facts_;
  const absl::Span<const ExprId> exprs_;
  absl::flat_hash_map<ValId, size_t> place_;  // Who computes a value.
  std::vector<bool> carried_;
  std::vector<size_t> parent_;
  // Of parts between which nothing flows, by root: the numbers of their expressions' spaces.
  absl::flat_hash_map<size_t, absl::btree_set<uint32_t>> spaces_;
};

}  // namespace

std::vector<std::vector<ExprId>> IslandsOf(const Fusion& fusion, const AxisMap& axes,
                                           const ValueFacts& facts,
                                           absl::Span<const ExprId> exprs) {
  Parts parts(fusion, axes, facts, exprs);
  parts.JoinSharing();
  absl::flat_hash_map<size_t, size_t> island_of;  // By root.
  for (size_t n = 0; n < exprs.size(); ++n) {
    if (!parts.is_carried(n)) island_of.try_emplace(parts.Root(n), island_of.size());
  }
  std::vector<std::vector<ExprId>> islands(island_of.size());
  std::vector<absl::flat_hash_set<ValId>> wanted(islands.size());
  const auto take = [&](size_t island, size_t n) {
    islands[island].push_back(exprs[n]);
    const auto operands = fusion.operands(exprs[n]);
    wanted[island].insert(operands.begin(), operands.end());
  };
  for (size_t n = exprs.size(); n-- > 0;) {
    if (!parts.is_carried(n)) {
      take(island_of[parts.Root(n)], n);
      continue;
    }
    bool taken = false;
    for (size_t i = 0; i < islands.size(); ++i) {
      if (!wanted[i].contains(fusion.result(exprs[n]))) continue;
      take(i, n);
      taken = true;
    }
    if (taken) continue;
    islands.emplace_back();
    wanted.emplace_back();
    take(islands.size() - 1, n);
  }
  for (std::vector<ExprId>& island : islands) std::reverse(island.begin(), island.end());
  return islands;
}

std::vector<ValId> ConnectingReads(const Fusion& fusion, const AxisMap& axes,
                                   const ValueFacts& facts, absl::Span<const ExprId> exprs) {
  return Parts(fusion, axes, facts, exprs).ConnectingReads();
}

Decision CanScheduleIslands(const SchedulabilityGuard& guard, const Fusion& fusion,
                            const AxisMap& axes, const ValueFacts& facts,
                            absl::Span<const std::vector<ExprId>> islands) {
  std::vector<GroupSummary> summaries;
  for (const std::vector<ExprId>& island : islands)
    summaries.push_back(Summarize(fusion, axes, facts, island));
  return guard.CanScheduleIslands(fusion, axes, summaries);
}

Decision CanScheduleAs(SchedulerKind as, const SchedulabilityGuard& guard, const Fusion& fusion,
                       const AxisMap& axes, const ValueFacts& facts,
                       absl::Span<const ExprId> exprs) {
  if (as != SchedulerKind::kHorizontal) return AskGuard(guard, fusion, axes, facts, exprs);
  return CanScheduleIslands(guard, fusion, axes, facts, IslandsOf(fusion, axes, facts, exprs));
}

}  // namespace seam
