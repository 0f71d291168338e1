// The functions of each scheduler, one namespace and one file each; scheduler.cc puts them into the
// table.
#pragma once

#include <optional>

#include "scheduler/scheduler.h"

namespace seam {

// A row of at most this many elements fits one CTA's registers, whatever its dtype.
inline constexpr int64_t kOneCtaElements = 16384;
// Elements that an SM must have under way for memory to be busy: by Little's law 4.25 TB/s for
// about 1 us on 132 SMs are 32 KB each.
inline constexpr int64_t kBusyElements = 8192;

namespace alias {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule);
}  // namespace alias
namespace pointwise {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
}  // namespace pointwise
namespace horizontal {
// Of islands; a group that is one island is none of this scheduler's.
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes,
                     absl::Span<const GroupSummary> islands);
absl::Status CheckLowers(const Fusion& group);  // As seam::CheckLowers, of every island.
// An island's schedule with so many threads a CTA, as its neighbours have. A thread may then have
// fewer registers, so it also has less in hand: of the numbers of threads that can share a row the
// largest of which each still has a vector. The schedule itself where its threads depend on more,
// or rows need more of them.
Schedule WithThreads(const Schedule& island, int threads);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule);
}  // namespace horizontal
namespace reduction {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
// The axes of the rows of a group that CanSchedule accepts, and those of what a thread folds by
// itself for a row (scheduler/unrolled.h): what has no others is the same along all columns. Of
// rows in sections, and where the summary has only the first reductions, those of the grid.
AxisSet AxesOfRows(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
double FractionOfPeak(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
                      const GroupSummary& summary, const DeviceInfo& device);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
// What Choose would give if neighbouring columns, which are rows of their own in `chosen`, were
// not, or the other way round; nothing where there is no such choice. Errors: those of Choose.
absl::StatusOr<std::optional<Schedule>> ChooseOtherNeighbours(const Fusion& group,
                                                              const ScheduleContext& context,
                                                              const Schedule& chosen);
}  // namespace reduction
namespace library {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule);
}  // namespace library

}  // namespace seam
