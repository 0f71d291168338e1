// Library: one expression that a library computes, a matrix product above all. The reference
// interpreter runs it where data are on the host; there is no GPU code for it yet, and the runtime
// says so.
#include "scheduler/schedulers.h"

namespace seam::library {

Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary) {
  (void)fusion, (void)axes;
  const SchedulerKind me = SchedulerKind::kLibrary;
  if (!summary.library)
    return Decision::Refuse(me, ReasonCode::kUnsupported, {}, "there is no library call");
  if (summary.num_exprs > 1) {
    return Decision::Refuse(me, ReasonCode::kLibrary, {},
                            "a library call shares its launch with nothing");
  }
  return Decision::Accept(me);
}

absl::StatusOr<Schedule> Choose(const Fusion&, const ScheduleContext&) {
  Schedule s;
  s.kind = SchedulerKind::kLibrary;
  s.alignment_bytes = 1;
  return s;
}

absl::StatusOr<LaunchPlan> Lower(const Fusion&, const Schedule& schedule) {
  LaunchPlan plan;
  plan.schedule = schedule;
  plan.library = true;
  return plan;
}

}  // namespace seam::library
