// Pointwise: any mix of elementwise operations, casts, views, lookups and random numbers. Every
// point is computed from the inputs at its own indices; 16 bytes a thread and tensor, one tile a
// CTA, which is what a copy kernel wants too. Where results have unlike axes, a CTA takes a tile of
// each: rows along the axes that they have in common, one pass over columns for each kind of
// result.
#include <algorithm>

#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/schedulers.h"
#include "scheduler/workload.h"

namespace seam::pointwise {

Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary) {
  (void)fusion, (void)axes;
  const SchedulerKind me = SchedulerKind::kPointwise;
  if (summary.num_reductions > 0) {
    return Decision::Refuse(me, ReasonCode::kUnsupported, summary.reductions,
                            "a reduction is not pointwise");
  }
  if (summary.spaces.size() > 1 && summary.GridAxes().empty()) {
    return Decision::Refuse(me, ReasonCode::kNoCommonAxis, {},
                            "the expressions run over spaces that have no axis in common");
  }
  return Decision::Accept(me);
}

namespace {

// A warp along what is contiguous, eight of them in a CTA, and as many CTAs a row as cover it in
// one step.
void ArrangeColumns(const SizedGroup& sized, Schedule& s) {
  constexpr int kWarps = 8;
  if (s.outer) {
    while (s.lanes_per_row < 32 && int64_t{32} / s.lanes_per_row * s.vector > sized.rows)
      s.lanes_per_row *= 2;
    while (s.warps_per_row < kWarps && s.columns_per_step() < sized.columns) s.warps_per_row *= 2;
  } else {
    while (s.lanes_per_row < 32 && s.columns_per_step() < sized.columns) s.lanes_per_row *= 2;
    while (s.warps_per_row < kWarps && s.columns_per_step() < sized.columns) s.warps_per_row *= 2;
  }
  s.row_warps = kWarps / s.warps_per_row;
  s.split = static_cast<int>(
      std::min<int64_t>((sized.columns + s.columns_per_step() - 1) / s.columns_per_step(), 65535));
}

}  // namespace

absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context) {
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context));
  Schedule s;
  s.kind = SchedulerKind::kPointwise;
  s.outer = sized.shape.outer || sized.columns <= 1;
  const int limit = std::clamp(16 / sized.narrowest_bytes, 1, 8);
  SEAM_RETURN_IF_ERROR(ChooseVector(sized, MostPoints(WorkloadOf(group), limit), s));
  if (sized.columns > 1) {
    ArrangeColumns(sized, s);
    return s;
  }
  // Small problems spread over more SMs.
  const int64_t per_wave = int64_t{context.device.sms} * 256 * s.vector;
  s.row_warps = sized.rows >= per_wave ? 8 : 4;
  return s;
}

}  // namespace seam::pointwise
