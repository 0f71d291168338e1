#include "scheduler/reduction_turns.h"

#include <algorithm>

#include "scheduler/kernel/rows_ahead.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {

bool MayCountRows(const SizedGroup& sized) { return sized.rows <= kIndex32Limit; }

bool TakesTickets(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kOneStateColumns = 12288, kStatesColumns = 4096;
  return sized.context.any_order && MayCountRows(sized) && !s.shift && sized.widest_bytes < 4 &&
         sized.columns <= (ColumnStates(sized) == 1 ? kOneStateColumns : kStatesColumns);
}

namespace {

constexpr int64_t kMostFewTurns = 64;

// Rows that the device has in hand at once.
int64_t RowsAtOnce(const SizedGroup& sized, const Schedule& s) {
  return s.rows_per_cta() * std::max(1, s.min_ctas_per_sm) * sized.context.device.sms / s.cluster;
}

int PaceOf(const SizedGroup& sized, int64_t stage_bytes, const Schedule& s) {
  constexpr int64_t kTurnBytes = 16000, kSmTurnBytes = 32000, kLongestTurnBytes = 131072;
  constexpr int kSmallCta = 96, kUnevenSmallCta = 160, kManyVectors = 5, kMostVectors = 7,
                kMostThreads = 512, kUnpacedVectors = 512, kPacedCluster = 2;
  const bool narrow = sized.widest_bytes < 4, one_state = ColumnStates(sized) == 1;
  const bool single =
      s.stages == 1 && (one_state || s.slices > 1) && stage_bytes >= kLongestTurnBytes;
  if (s.tickets || (s.stages < 3 && !single) || HasFewTurns(sized, s)) return 0;
  // Turns of half as much cost more to look at than there is to hide.
  if (!s.shift && IsOneInputWithStates(sized)) return 0;
  const bool several = s.min_ctas_per_sm > 1 && s.cluster > kPacedCluster;
  if (s.shift && s.cluster > 1)
    return several && !narrow && sized.large_inputs == 1 && ColumnStates(sized) == 0 ? 2 : 1;
  if (s.shift && narrow) return s.threads() * s.registers > kUnpacedVectors ? 1 : 0;
  const bool lines = sized.columns * sized.widest_bytes % kernel::kLineBytes == 0;
  const bool short_rows = narrow && s.rows_per_cta() > 1;
  if (short_rows && s.registers >= kMostVectors) return 1;
  if (short_rows && !lines)
    return !one_state || s.registers <= 2 ? 0 : s.registers < kManyVectors ? 2 : 1;
  // A row of few threads: none with little each, or with two CTAs an SM, where it does not fill
  // lines.
  const int small = lines ? kSmallCta : kUnevenSmallCta;
  if (narrow && !one_state && s.cluster == 1 && s.rows_per_cta() == 1 && s.threads() <= small)
    return s.registers <= 2 || s.min_ctas_per_sm <= 2 ? 0 : 2;
  if (s.cluster > 1 && !(narrow && one_state)) return several ? 2 : 1;
  const bool long_turn = narrow ? stage_bytes * std::max(1, s.min_ctas_per_sm) >= kSmTurnBytes
                                : stage_bytes >= kTurnBytes && s.threads() <= kMostThreads;
  return long_turn && s.rows_per_cta() == 1 ? 1 : 2;
}

}  // namespace

bool HasFewTurns(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kFewest = 3;
  const int states = ColumnStates(sized);
  const int64_t at_once = RowsAtOnce(sized, s);
  const int64_t most = states == 1 && s.rows_per_cta() > 1 ? kMostFewTurns / 2 : kMostFewTurns;
  // Beside a residual's gradient several rows of two vectors a thread are better in several CTAs.
  const bool few_inputs = sized.large_inputs < 3 || s.registers == 1 ||
                          (s.registers == 2 && s.rows_per_cta() == 1 && s.min_ctas_per_sm == 1);
  return states > 0 && few_inputs && sized.widest_bytes < 4 && s.cluster == 1 &&
         sized.rows >= kFewest * at_once && sized.rows <= most * at_once;
}

void StayTogether(const SizedGroup& sized, int64_t stage_bytes, Schedule& s) {
  s.pace = MayCountRows(sized) ? PaceOf(sized, stage_bytes, s) : 0;
  // Slices leave no registers for what would be there early.
  s.settled =
      ColumnStates(sized) > 0 && s.slices == 1 && sized.rows > kMostFewTurns * RowsAtOnce(sized, s);
}

int CtasOfClusters(const SizedGroup& sized, const Schedule& s, bool all) {
  const int64_t unit = all ? s.cluster : s.grid_step();
  const int64_t step = PowerOfTwoAtLeast(CeilDivide(sized.rows + 1, 8), 1 << 13);
  const int64_t clusters = CeilDivide(sized.rows, step) * step;
  const int64_t ctas = CeilDivide(clusters * s.cluster, unit) * unit;
  const int64_t most = ResidentCtas(s, sized.context.device) / unit * unit;
  return static_cast<int>(std::min(ctas, most));
}

bool AreTurnsTooFew(const SizedGroup& sized, const Schedule& s) {
  constexpr int kFewTurns = 20;
  return sized.rows * s.cluster < kFewTurns * ResidentCtas(s, sized.context.device);
}

}  // namespace seam::reduction
