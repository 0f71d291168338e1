#include "scheduler/alternatives.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/row_alternatives.h"
#include "scheduler/schedule_collector.h"
#include "scheduler/schedulers.h"
#include "scheduler/stencils.h"
#include "scheduler/workload.h"

namespace seam {
namespace {

// Adds other vectors, CTAs and tiles of other sizes, several steps a CTA.
void AddPointAlternatives(const SizedGroup& sized, const Schedule& chosen,
                          ScheduleCollector& collector) {
  const DeviceInfo& device = sized.context.device;
  const double words = WorkloadOf(*sized.group).words;
  const auto add = [&](const Schedule& s) {
    const int points = s.vector * s.registers * s.points_of_thread();
    if (!CheckSchedule(s).ok() || words * points > kMostWords) return;
    collector.Add(s, collector.Cost(s, words * points, sized.input_words * 4 * points, 1),
                  (s.vector != chosen.vector) + (s.threads() != chosen.threads()) +
                      (s.min_ctas_per_sm != chosen.min_ctas_per_sm) +
                      (s.registers != chosen.registers) +
                      (s.lanes_per_row != chosen.lanes_per_row));
  };
  for (int vector = chosen.vector; vector >= std::max(1, chosen.vector / 4); vector /= 2) {
    for (int warps = 1; warps <= 32; warps *= 2) {
      for (const int threads : {0, 1024, 1536, 2048}) {
        Schedule s = chosen;
        s.vector = vector;
        if (threads > device.max_threads_per_sm) continue;
        s.min_ctas_per_sm = threads / (32 * warps);
        if (threads > 0 && s.min_ctas_per_sm > 32) continue;  // Of an SM's CTAs there are 32.
        if (sized.columns <= 1) {
          s.row_warps = warps;
          add(s);
          continue;
        }
        for (int row_warps = 1; row_warps <= warps; row_warps *= 2) {
          s.row_warps = row_warps;
          s.warps_per_row = warps / row_warps;
          const auto add_in_columns = [&](int registers) {
            s.registers = registers;
            if (s.columns_per_step() > 2 * sized.columns && s.warps_per_row * registers > 1) return;
            s.split = static_cast<int>(
                std::min<int64_t>(CeilDivide(sized.columns, s.columns_per_step()), 65535));
            add(s);
          };
          if (!chosen.tiles) {
            for (const int registers : {1, 2, 4}) add_in_columns(registers);
            continue;
          }
          for (const int lanes : {2, 4, 8, 16, 32}) {
            s.lanes_per_row = lanes;
            add_in_columns(std::max(1, chosen.registers * vector / chosen.vector));
          }
        }
      }
    }
  }
}

// Points of a pointwise group.
absl::StatusOr<std::vector<Schedule>> PointAlternatives(const SizedGroup& sized,
                                                        const Schedule& chosen) {
  ScheduleCollector collector(sized, chosen);
  AddPointAlternatives(sized, chosen, collector);
  if (chosen.tiles) return collector.Take();
  SEAM_ASSIGN_OR_RETURN(const std::vector<Schedule> others, OtherPoints(sized, chosen));
  for (const Schedule& other : others) AddPointAlternatives(sized, other, collector);
  return collector.Take();
}

// Islands: CTAs of other sizes for all of them, narrower vectors of what is pointwise. What an
// island would like by itself cannot be had, as all have as many threads.
std::vector<Schedule> IslandAlternatives(const Schedule& chosen) {
  std::vector<Schedule> list;
  for (const int narrower : {1, 2}) {
    for (const int warps : {4, 8, 16, 2, 32, 1}) {
      Schedule s = chosen;
      bool fits = true;
      for (Schedule& island : s.islands) {
        if (island.apart) continue;
        if (island.kind == SchedulerKind::kReduction) {
          island = horizontal::WithThreads(island, 32 * warps);
          continue;
        }
        island.vector = std::max(1, island.vector / narrower);
        fits &= warps % island.warps_per_row == 0;
        island.row_warps = std::max(1, warps / island.warps_per_row);
        fits &= CheckSchedule(island).ok();
      }
      if (fits && !(s == chosen) && !absl::c_linear_search(list, s)) list.push_back(std::move(s));
    }
  }
  return list;
}

// Rows of a reduction, neighbouring columns as `chosen` has them and as it has not, by turns.
absl::StatusOr<std::vector<Schedule>> ReductionAlternatives(const Fusion& group,
                                                            const ScheduleContext& context,
                                                            const SizedGroup& sized,
                                                            const Schedule& chosen) {
  SEAM_ASSIGN_OR_RETURN(std::vector<Schedule> list, RowAlternatives(sized, chosen));
  SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> other,
                        reduction::ChooseOtherNeighbours(group, context, chosen));
  if (!other) return list;
  SEAM_ASSIGN_OR_RETURN(const SizedGroup resized, SizeGroup(group, context, *other));
  SEAM_ASSIGN_OR_RETURN(std::vector<Schedule> others, RowAlternatives(resized, *other));
  others.insert(others.begin(), *other);
  std::vector<Schedule> both;
  for (size_t i = 0; i < std::max(list.size(), others.size()); ++i) {
    if (i < others.size()) both.push_back(std::move(others[i]));
    if (i < list.size()) both.push_back(std::move(list[i]));
  }
  both.resize(std::min(both.size(), kMostAlternatives));
  return both;
}

}  // namespace

absl::StatusOr<std::vector<Schedule>> Alternatives(const Fusion& group, const Schedule& chosen,
                                                   const ScheduleContext& context) {
  if (chosen.kind == SchedulerKind::kHorizontal) return IslandAlternatives(chosen);
  if (chosen.kind != SchedulerKind::kPointwise && chosen.kind != SchedulerKind::kReduction)
    return std::vector<Schedule>();
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context, chosen));
  if (sized.rows == 0) return std::vector<Schedule>();
  if (chosen.kind == SchedulerKind::kPointwise) return PointAlternatives(sized, chosen);
  return ReductionAlternatives(group, context, sized, chosen);
}

}  // namespace seam
