#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "segmenter/closer_look.h"
#include "segmenter/passes.h"

namespace seam {

// Downwards, so that a cheap expression is seen after all who could take it along.
absl::StatusOr<InitialGroups> MakeInitialGroups(const Fusion& fusion, const AxisMap& axes,
                                                const ValueFacts& facts,
                                                const SchedulabilityGuard& guard,
                                                const std::vector<bool>& kept,
                                                Privatized privatized) {
  const auto opaque = [&](ExprId e) { return AxisMap::IsSource(fusion, fusion.result(e)); };
  std::vector<bool> alone(fusion.num_exprs(), false);    // Needs a group of its own although cheap.
  std::vector<bool> taken(fusion.num_exprs(), false);    // Somebody takes it along.
  std::vector<std::pair<ExprId, SchedulerKind>> groups;  // Their main expressions, descending.
  for (uint32_t i = fusion.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    // A view of an input that is returned costs nothing, unless a kernel writes it.
    const ValId result = fusion.result(e);
    const OpClass c = fusion.info(e).op_class;
    alone[i] = alone[i] ||
               ((c == OpClass::View || c == OpClass::Broadcast) && fusion.is_output(result) &&
                facts.is_view_of_source[result.index()] && facts.is_free_to_return[result.index()]);
    if (!kept[i] || (privatized.cheap[i] && taken[i] && !alone[i])) continue;
    std::vector<ExprId>& producers = privatized.producers[i];
    Decision decision;
    if (!producers.empty() && !opaque(e)) {
      std::vector<ExprId> exprs = producers;
      exprs.push_back(e);
      decision = AskGuard(guard, fusion, axes, facts, exprs);
    }
    if (!decision.ok) {
      producers.clear();
      for (ValId v : fusion.operands(e)) {
        if (fusion.definition(v).valid()) alone[fusion.definition(v).index()] = true;
      }
      decision = guard.CanSchedule(fusion, axes, Summarize(fusion, axes, facts, {e}));
      if (!decision.ok) {
        return absl::InternalError(absl::StrCat(
            "no scheduler accepts `", fusion.name(fusion.result(e)), "` = ", OpName(fusion.op(e)),
            " alone: ", ReasonName(decision.reason), ", ", decision.detail));
      }
    }
    for (ExprId p : producers) taken[p.index()] = true;
    groups.emplace_back(e, decision.scheduler);
  }
  InitialGroups result;
  Partition& partition = result.partition;
  partition.home.resize(fusion.num_exprs());
  partition.num_groups = static_cast<uint32_t>(groups.size());
  std::reverse(groups.begin(), groups.end());
  for (uint32_t g = 0; g < groups.size(); ++g) {
    partition.home[groups[g].first.index()] = GroupId(g);
    result.schedulers.push_back(groups[g].second);
  }
  // The first who takes a cheap expression along is its home, unless it has one.
  for (uint32_t g = 0; g < groups.size(); ++g) {
    for (ExprId p : privatized.producers[groups[g].first.index()]) {
      GroupId& home = partition.home[p.index()];
      if (home.valid()) {
        partition.copies.emplace_back(p, GroupId(g));
      } else {
        home = GroupId(g);
      }
    }
  }
  result.units.is_unit.resize(fusion.num_exprs());
  for (const auto& [e, scheduler] : groups) result.units.is_unit[e.index()] = true;
  result.units.producers = std::move(privatized.producers);
  return result;
}

}  // namespace seam
