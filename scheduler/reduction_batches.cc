// Rows of batches, each of which has states of its own columns (GroupShape::batch): CTAs take rows
// of one batch in turn, and so many of them each that all together fill the machine.
//
//   batch 0   CTA 0: rows 0, 2, 4 ...    CTA 1: rows 1, 3, 5 ...    -> states of batch 0, 2 of each
//   column batch 1   CTA 2: rows 0, 2, 4 ...    CTA 3: ...
#include <algorithm>

#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {
namespace {

// A CTA has whole sets of a batch's rows.
void DivideBatch(int64_t rows, Schedule& s) {
  while (rows % s.rows_per_cta() != 0) {
    if (s.row_warps > 1) {
      --s.row_warps;
    } else {
      s.lanes_per_row *= 2;
      s.registers = (s.registers + 1) / 2;
    }
  }
}

// CTAs, or clusters of them, of each batch: as few as leave little of the machine without work,
// with several turns each.
int64_t TeamsOf(int64_t batches, int64_t sets, int64_t resident) {
  constexpr int64_t kLeastTurns = 4;
  constexpr double kEnough = 0.9;
  int64_t best = 1;
  double most = 0;
  const int64_t limit = std::clamp<int64_t>(sets / kLeastTurns, 1, resident);
  for (int64_t teams = 1; teams <= limit; ++teams) {
    const int64_t all = batches * teams, waves = CeilDivide(all, resident);
    const double busy = static_cast<double>(all) / static_cast<double>(waves * resident);
    if (busy <= most) continue;
    most = busy;
    best = teams;
    if (busy >= kEnough) break;
  }
  return best;
}

}  // namespace

absl::Status ChooseBatches(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const int64_t batches = std::max<int64_t>(1, sized.batches);
  // A batch on its share of the machine.
  SizedGroup one = sized;
  one.rows = std::max<int64_t>(1, sized.rows / batches);
  one.context.device.sms = static_cast<int>(std::max<int64_t>(1, one.context.device.sms / batches));
  one.context.device.l2_bytes = std::max<int64_t>(1, one.context.device.l2_bytes / batches);
  SEAM_RETURN_IF_ERROR(ChooseCrossed(one, rows, s));
  s.pace = 0;
  s.tickets = false;
  DivideBatch(one.rows, s);
  const int64_t resident = std::max<int64_t>(1, ResidentCtas(s, sized.context.device) / s.cluster);
  const int64_t sets = std::max<int64_t>(1, one.rows / s.rows_per_cta());
  s.grid = static_cast<int>(TeamsOf(batches, sets, resident) * s.cluster);
  return absl::OkStatus();
}

}  // namespace seam::reduction
