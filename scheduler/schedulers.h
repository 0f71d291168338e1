// The functions of each scheduler, one namespace and one file each; scheduler.cc puts them into the
// table.
#pragma once

#include "scheduler/scheduler.h"

namespace seam {

// A row of at most this many elements fits one CTA's registers, whatever its dtype.
inline constexpr int64_t kOneCtaElements = 16384;

namespace alias {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule);
}  // namespace alias
namespace pointwise {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
}  // namespace pointwise
namespace reduction {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
}  // namespace reduction
namespace library {
Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context);
absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule);
}  // namespace library

}  // namespace seam
