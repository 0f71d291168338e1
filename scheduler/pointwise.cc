// Pointwise: any mix of elementwise operations, casts, views, lookups and random numbers, and
// reductions of a few neighbours that are pooled (unrolled.h). Every point is computed from the
// inputs at its own indices; 16 bytes a thread and tensor, one tile a CTA, which is what a copy
// kernel wants too. Where results have unlike axes, a CTA takes a tile of each: rows along the axes
// that they have in common, one pass over columns for each kind of result. Where some tensors lie
// across others, as x does in transpose(x) + y, a thread has a tile of rows and columns, and moves
// each tensor in vectors along its own axis.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/divisions.h"
#include "scheduler/kernel/access.h"
#include "scheduler/schedulers.h"
#include "scheduler/stencils.h"
#include "scheduler/steps.h"
#include "scheduler/trace.h"
#include "scheduler/unrolled.h"
#include "scheduler/workload.h"

namespace seam::pointwise {

Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary) {
  const SchedulerKind me = SchedulerKind::kPointwise;
  const bool pooled = summary.num_reductions > 0 &&
                      summary.reductions.size() == static_cast<size_t>(summary.num_reductions) &&
                      ArePooled(fusion, axes, summary.reductions);
  if (summary.num_reductions > 0 && !pooled) {
    return Decision::Refuse(me, ReasonCode::kUnsupported, summary.reductions,
                            "a reduction is not pointwise");
  }
  // Of what is pooled results may be all that is left.
  AxisSet common = summary.GridAxes();
  for (const AxisSet& kept : summary.kept) common = Intersection(common, kept);
  if (summary.spaces.size() + summary.kept.size() > (pooled ? 2 : 1) && common.empty()) {
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
    while (s.lanes_per_row < 32 && int64_t{32} / s.lanes_per_row * s.vector > sized.rows / s.points)
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

// Lanes that fill sectors along either axis. Of columns that do not come in vectors a warp has as
// many as it has lanes, since results lie along them: the rows of several warps share sectors.
// Where there are few rows, more lanes and warps lie along the columns; a small problem has smaller
// CTAs. CTAs then.
int64_t ArrangeTiles(const SizedGroup& sized, Schedule& s) {
  const auto arrange = [&](int warps) {
    int lanes = s.registers == 1 ? 32 : s.vector == 1 ? 4 : 8, of_columns = 2;
    const auto too_many_rows = [&](int side_by_side) {
      return int64_t{32} / lanes * side_by_side * s.vector >= 2 * sized.rows;
    };
    while (lanes < 32 && too_many_rows(1)) lanes *= 2;
    while (of_columns < warps && too_many_rows(warps / of_columns)) of_columns *= 2;
    s.lanes_per_row = s.warps_per_row = 1;
    while (s.lanes_per_row < lanes && s.columns_per_step() < sized.columns) s.lanes_per_row *= 2;
    while (s.warps_per_row < of_columns && s.columns_per_step() < sized.columns)
      s.warps_per_row *= 2;
    s.row_warps = warps / s.warps_per_row;
    s.split =
        static_cast<int>(std::min<int64_t>(CeilDivide(sized.columns, s.columns_per_step()), 65535));
    return CeilDivide(sized.rows, s.rows_per_cta()) * s.split;
  };
  const int64_t ctas = arrange(8);
  return ctas >= 2 * sized.context.device.sms ? ctas : arrange(4);
}

// Where some tensors lie across others: tiles that move each of them in vectors along its own axis
// or, where rows or columns are odd, element by element in neighbouring lanes. Source:
// docs/schedulers/across.md.
absl::StatusOr<std::optional<Schedule>> ChooseTiles(const Fusion& group,
                                                    const ScheduleContext& context) {
  Schedule s;
  s.kind = SchedulerKind::kPointwise;
  s.tiles = s.outer = true;
  const absl::StatusOr<SizedGroup> sized = SizeGroup(group, context, s);
  if (absl::IsUnimplemented(sized.status())) return std::nullopt;
  SEAM_RETURN_IF_ERROR(sized.status());
  SEAM_ASSIGN_OR_RETURN(const bool across, LieAcross(*sized));
  if (!across) return std::nullopt;
  const int most = std::clamp(16 / sized->narrowest_bytes, 1, 8);
  const Workload workload = WorkloadOf(group);
  for (const auto& [rows, columns] : {std::pair(most, most), {1, most}, {most, 1}, {1, 1}}) {
    // The widest that gives every SM a CTA, or the narrowest.
    std::optional<Schedule> chosen;
    for (int widest = std::max(rows, columns); widest > 1 || rows * columns == 1; widest /= 2) {
      s.vector = std::min(rows, widest);
      s.registers = std::min(columns, widest);
      const int points = s.vector * s.registers;
      if (MostPoints(workload, points) == points) {
        SEAM_ASSIGN_OR_RETURN(const bool fits, ChooseFacts(*sized, s));
        const bool enough = fits && ArrangeTiles(*sized, s) >= context.device.sms;
        if (fits) chosen = s;
        if (enough) break;
      }
      if (widest == 1) break;
    }
    if (chosen) return chosen;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context) {
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context));
  Schedule s;
  s.kind = SchedulerKind::kPointwise;
  s.outer = sized.shape.outer || sized.columns <= 1;
  const int limit = std::clamp(16 / sized.narrowest_bytes, 1, 8);
  SEAM_RETURN_IF_ERROR(ChooseVector(sized, MostPoints(WorkloadOf(group), limit), s));
  if (s.vector == 1 && limit > 1) {
    SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> tiles, ChooseTiles(group, context));
    if (tiles) return OrPointsAlongMemory(sized, *tiles);
  }
  // Small problems spread over more SMs.
  const int64_t per_wave = int64_t{context.device.sms} * 256 * s.vector;
  if (sized.columns <= 1) s.row_warps = sized.rows >= per_wave ? 8 : 4;
  SEAM_ASSIGN_OR_RETURN(s, FitStencil(sized, std::move(s)));
  SEAM_ASSIGN_OR_RETURN(s, OrAllSteps(sized, std::move(s)));
  if (sized.columns > 1) {
    ArrangeColumns(sized, s);
  } else {
    SEAM_RETURN_IF_ERROR(SpareDivisions(sized, /*may_pin=*/true, s));
  }
  return s;
}

}  // namespace seam::pointwise
