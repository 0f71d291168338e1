#include "segmenter/islands.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "segmenter/closer_look.h"

namespace seam {

std::vector<std::vector<ExprId>> IslandsOf(const Fusion& fusion, const ValueFacts& facts,
                                           absl::Span<const ExprId> exprs) {
  const auto is_node = [&](ExprId e) { return !facts.weightless[fusion.result(e).index()]; };
  std::vector<size_t> parent(exprs.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto find = [&](size_t n) {
    while (parent[n] != n) n = parent[n] = parent[parent[n]];
    return n;
  };
  // Who computes a value or reads it first.
  absl::flat_hash_map<ValId, size_t> known;
  for (size_t n = 0; n < exprs.size(); ++n) {
    if (!is_node(exprs[n])) continue;
    for (ValId v : fusion.operands(exprs[n])) {
      const bool connects =
          known.contains(v) ? !facts.weightless[v.index()] : facts.connects_readers[v.index()];
      if (!connects) continue;
      const size_t a = find(known.try_emplace(v, n).first->second), b = find(n);
      parent[std::max(a, b)] = std::min(a, b);
    }
    for (int r = 0; r < fusion.num_results(exprs[n]); ++r) known[fusion.result(exprs[n], r)] = n;
  }
  absl::flat_hash_map<size_t, size_t> island_of;  // By root.
  std::vector<size_t> root(exprs.size());
  for (size_t n = 0; n < exprs.size(); ++n) {
    root[n] = find(n);
    if (is_node(exprs[n]) && root[n] == n) island_of.emplace(n, island_of.size());
  }
  std::vector<std::vector<ExprId>> islands(island_of.size());
  std::vector<absl::flat_hash_set<ValId>> wanted(islands.size());
  const auto take = [&](size_t island, size_t n) {
    islands[island].push_back(exprs[n]);
    const auto operands = fusion.operands(exprs[n]);
    wanted[island].insert(operands.begin(), operands.end());
  };
  for (size_t n = exprs.size(); n-- > 0;) {
    if (is_node(exprs[n])) {
      take(island_of[root[n]], n);
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

Decision CanScheduleAs(SchedulerKind as, const SchedulabilityGuard& guard, const Fusion& fusion,
                       const AxisMap& axes, const ValueFacts& facts,
                       absl::Span<const ExprId> exprs) {
  if (as != SchedulerKind::kHorizontal) return AskGuard(guard, fusion, axes, facts, exprs);
  std::vector<GroupSummary> islands;
  for (const std::vector<ExprId>& island : IslandsOf(fusion, facts, exprs))
    islands.push_back(Summarize(fusion, axes, facts, island));
  return guard.CanScheduleIslands(fusion, axes, islands);
}

}  // namespace seam
