// The schedulers: a table in priority order, each a file, each the same few functions.
//
// A group goes through them in the order can_schedule (structure), choose (sizes, device), lower
// (kernels). Thread-safety: pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "scheduler/device.h"
#include "scheduler/launch_plan.h"
#include "scheduler/schedule.h"
#include "segmenter/guard.h"

namespace seam {

// For which call a schedule is chosen.
struct ScheduleContext {
  std::vector<int64_t>
      sizes;  // Values of the group Fusion's symbols, in the order of env().symbols().
  int alignment_bytes =
      16;  // Of every base address: a power of two; what is above 16 does not matter.
  DeviceInfo device;
  // What is summed over rows may be summed in an order that differs from run to run, where that is
  // faster; else every run gives the same bits.
  bool any_order = false;
};

struct Scheduler {
  SchedulerKind kind;
  const char* doc;
  // Whether a group with this summary can be one plan of this scheduler. Null: it takes only
  // islands.
  Decision (*can_schedule)(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary);
  // The schedule for a group at these sizes.
  absl::StatusOr<Schedule> (*choose)(const Fusion& group, const ScheduleContext& context);
  // The kernels of a schedule; a pure function of its arguments.
  absl::StatusOr<LaunchPlan> (*lower)(const Fusion& group, const Schedule& schedule);
};

// In priority order.
absl::Span<const Scheduler> Schedulers();
const Scheduler* FindScheduler(SchedulerKind kind);

// Chooses and lowers in one step. `group` is an extracted group (segmenter/extract.h) that `kind`
// accepted.
absl::StatusOr<LaunchPlan> ScheduleGroup(const Fusion& group, SchedulerKind kind,
                                         const ScheduleContext& context);

// Whether kernels can be made of an extracted group at all, whatever its sizes: what a guard
// promised of it. Errors: those of AnalyzeGroup and Trace. Linear in the group.
absl::Status CheckLowers(const Fusion& group, SchedulerKind kind);

// The guard that asks all schedulers in priority order and tells the refusal of the one that came
// closest. What is fast it judges for one device.
class RealGuard : public SchedulabilityGuard {
 public:
  explicit RealGuard(const DeviceInfo& device = Devices().front()) : device_(device) {}
  Decision CanSchedule(const Fusion& fusion, const AxisMap& axes,
                       const GroupSummary& summary) const override;
  double FractionOfPeak(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
                        const GroupSummary& summary) const override;
  double BytesOfArithmetic(const Fusion& fusion, ExprId e) const override;
  Decision CanScheduleIslands(const Fusion& fusion, const AxisMap& axes,
                              absl::Span<const GroupSummary> islands) const override;

 private:
  DeviceInfo device_;
};

}  // namespace seam
