#include "segmenter/guard.h"

namespace seam {

absl::string_view ReasonName(ReasonCode code) {
  switch (code) {
    case ReasonCode::kOk:
      return "ok";
    case ReasonCode::kGridBarrier:
      return "grid-barrier";
    case ReasonCode::kNoCommonAxis:
      return "no-common-axis";
    case ReasonCode::kSiblingsGridBarrier:
      return "siblings-grid-barrier";
    case ReasonCode::kSiblingsNoCommonAxis:
      return "siblings-no-common-axis";
    case ReasonCode::kUnconnected:
      return "unconnected";
    case ReasonCode::kBarrier:
      return "barrier";
    case ReasonCode::kLibrary:
      return "library";
    case ReasonCode::kNotConvex:
      return "not-convex";
    case ReasonCode::kNoGain:
      return "no-gain";
    case ReasonCode::kBudget:
      return "budget";
    case ReasonCode::kUnsupported:
      return "unsupported";
    case ReasonCode::kRecompute:
      return "recompute";
    case ReasonCode::kCapacity:
      return "capacity";
    case ReasonCode::kSlower:
      return "slower";
  }
  return "unknown";
}

absl::string_view SchedulerName(SchedulerKind kind) {
  switch (kind) {
    case SchedulerKind::kNone:
      return "none";
    case SchedulerKind::kAlias:
      return "alias";
    case SchedulerKind::kPointwise:
      return "pointwise";
    case SchedulerKind::kHorizontal:
      return "horizontal";
    case SchedulerKind::kReduction:
      return "reduction";
    case SchedulerKind::kLibrary:
      return "library";
    case SchedulerKind::kTemplate:
      return "template";
    case SchedulerKind::kCommunication:
      return "communication";
  }
  return "unknown";
}

Decision SchedulabilityGuard::CanScheduleIslands(const Fusion&, const AxisMap&,
                                                 absl::Span<const GroupSummary>) const {
  return Decision::Refuse(SchedulerKind::kNone, ReasonCode::kUnconnected, {},
                          "no data flow between them and no input in common");
}

}  // namespace seam
