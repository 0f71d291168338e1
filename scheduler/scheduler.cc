#include "scheduler/scheduler.h"

#include <algorithm>

#include "ir/status.h"
#include "scheduler/arithmetic.h"
#include "scheduler/group_shape.h"
#include "scheduler/kernel/instructions.h"
#include "scheduler/lower.h"
#include "scheduler/schedulers.h"
#include "scheduler/trace.h"

namespace seam {
namespace {

// What no kernel is given: a group of more expressions takes the compiler longer than a second
// launch costs.
constexpr int kMaxExprsPerGroup = 1000;
// More of them than this do not fit a thread's registers, of which it has 255.
constexpr int kMaxTensorsPerGroup = 160;
// What is computed at more places than this, by an upper bound, somebody has to look at closely.
constexpr int kMaxRecompute = 8;
// Elements of a window that a row which is reduced computes for each of its own. Those of a
// depthwise 7x7 convolution, with the norm behind it, spill (1728 us, 64x56x56x96 on an H100,
// 2026-11-26), and take 530 where the padded image is written first; with 3x3 one kernel is faster.
constexpr int kMaxWindowOfRows = 20;
// A byte of traffic is worth as many instructions: an H200's SMs issue 132 x 4 x 32 a cycle, about
// 3e13 a second, and it moves 4.8e12 bytes. That is for what comes on top of the traffic.
constexpr double kAddedInstructionsPerByte = 6;

constexpr Scheduler kSchedulers[] = {
    {SchedulerKind::kAlias, "views of inputs; nothing is launched", alias::CanSchedule,
     alias::Choose, alias::Lower},
    {SchedulerKind::kPointwise, "elementwise operations, views, lookups, random numbers",
     pointwise::CanSchedule, pointwise::Choose, Lower},
    {SchedulerKind::kHorizontal, "groups that share nothing large, side by side in one launch",
     nullptr, horizontal::Choose, horizontal::Lower},
    {SchedulerKind::kReduction, "reductions and normalizations, along rows and across them",
     reduction::CanSchedule, reduction::Choose, Lower},
    {SchedulerKind::kLibrary, "one library call", library::CanSchedule, library::Choose,
     library::Lower},
};

}  // namespace

absl::Span<const Scheduler> Schedulers() { return kSchedulers; }

const Scheduler* FindScheduler(SchedulerKind kind) {
  for (const Scheduler& s : kSchedulers) {
    if (s.kind == kind) return &s;
  }
  return nullptr;
}

absl::StatusOr<LaunchPlan> ScheduleGroup(const Fusion& group, SchedulerKind kind,
                                         const ScheduleContext& context) {
  const Scheduler* scheduler = FindScheduler(kind);
  if (scheduler == nullptr) return absl::InvalidArgumentError("no such scheduler");
  SEAM_ASSIGN_OR_RETURN(const Schedule schedule, scheduler->choose(group, context));
  return scheduler->lower(group, schedule);
}

absl::Status CheckLowers(const Fusion& group, SchedulerKind kind) {
  if (kind == SchedulerKind::kHorizontal) return horizontal::CheckLowers(group);
  if (kind != SchedulerKind::kPointwise && kind != SchedulerKind::kReduction)
    return absl::OkStatus();
  SEAM_ASSIGN_OR_RETURN(const GroupShape shape, AnalyzeGroup(group));
  return Trace(group, shape, TraceOptions()).status();
}

Decision RealGuard::CanSchedule(const Fusion& fusion, const AxisMap& axes,
                                const GroupSummary& summary) const {
  const bool library_or_barrier = summary.library || summary.barrier;
  if (library_or_barrier && summary.num_exprs > 1) {
    return Decision::Refuse(summary.library ? SchedulerKind::kLibrary : SchedulerKind::kPointwise,
                            summary.library ? ReasonCode::kLibrary : ReasonCode::kBarrier, {},
                            summary.library ? "a library call shares its launch with nothing"
                                            : "the graph asks for a border here");
  }
  if (summary.library) return library::CanSchedule(fusion, axes, summary);
  if (summary.num_exprs > kMaxExprsPerGroup) {
    return Decision::Refuse(SchedulerKind::kNone, ReasonCode::kCapacity, {},
                            "the kernel would hold more than 1000 expressions");
  }
  if (summary.computed.empty() && summary.recompute_factor > kMaxRecompute) {
    return Decision::Refuse(SchedulerKind::kNone, ReasonCode::kRecompute, {},
                            "values would be computed more than eight times over");
  }
  for (const GroupSummary::Computed& c : summary.computed) {
    if (static_cast<size_t>(c.times) > GroupSummary::kMostTimes) {
      return Decision::Refuse(SchedulerKind::kNone, ReasonCode::kRecompute, {c.expr},
                              "it would be computed more than 64 times over");
    }
  }
  if (!summary.connected) {
    return Decision::Refuse(SchedulerKind::kNone, ReasonCode::kUnconnected, {},
                            "no data flow between them and no input in common");
  }
  if (Decision d = alias::CanSchedule(fusion, axes, summary); d.ok) return d;
  const Decision pointwise = pointwise::CanSchedule(fusion, axes, summary);
  if (summary.num_reductions == 0 || pointwise.ok) return pointwise;
  for (const GroupSummary::Computed& c : summary.computed) {
    if (c.times > kMaxWindowOfRows && !IsSubset(axes.space(c.expr), summary.GridAxes())) {
      return Decision::Refuse(
          SchedulerKind::kReduction, ReasonCode::kRecompute, {c.expr},
          "threads that hold rows have no registers for windows of more than 20 "
          "elements");
    }
  }
  return reduction::CanSchedule(fusion, axes, summary);
}

double RealGuard::FractionOfPeak(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
                                 const GroupSummary& summary) const {
  if (summary.num_tensors > kMaxTensorsPerGroup) return 0;
  double fraction = summary.num_reductions == 0
                        ? 1
                        : reduction::FractionOfPeak(fusion, axes, sizes, summary, device_);
  const double beside = BytesBesideArithmetic(fusion, axes, sizes, summary);
  if (beside > 0 && summary.moved_bytes > 0)
    fraction = std::min(fraction, static_cast<double>(summary.moved_bytes) / beside);
  return fraction;
}

double RealGuard::BytesOfArithmetic(const Fusion& fusion, ExprId e) const {
  return kernel::InstructionsOf(fusion.op(e)) / kAddedInstructionsPerByte;
}

Decision RealGuard::CanScheduleIslands(const Fusion& fusion, const AxisMap& axes,
                                       absl::Span<const GroupSummary> islands) const {
  return horizontal::CanSchedule(fusion, axes, islands);
}

}  // namespace seam
