#include "scheduler/reduction_turns.h"

namespace seam::reduction {

bool TakesTickets(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kOneStateColumns = 12288, kStatesColumns = 4096;
  return sized.context.any_order && !s.shift && sized.widest_bytes < 4 &&
         sized.columns <= (ColumnStates(sized) == 1 ? kOneStateColumns : kStatesColumns);
}

bool HasFewTurns(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kFewest = 4, kMost = 64;
  const int sms = sized.context.device.sms;
  return ColumnStates(sized) > 0 && sized.widest_bytes < 4 && s.cluster == 1 &&
         s.min_ctas_per_sm == 1 && sized.rows >= kFewest * sms * s.rows_per_cta() &&
         sized.rows <= kMost * sms * s.rows_per_cta();
}

int PaceOf(const SizedGroup& sized, int64_t stage_bytes, const Schedule& s) {
  constexpr int64_t kTurnBytes = 16000, kLongestTurnBytes = 131072, kShortColumns = 512;
  constexpr int kMostThreads = 512;
  const bool narrow = sized.widest_bytes < 4;
  const bool single = s.stages == 1 && ColumnStates(sized) == 1 && stage_bytes >= kLongestTurnBytes;
  if (s.tickets || (s.stages < 3 && !single) || HasFewTurns(sized, s)) return 0;
  if (s.shift && narrow) return s.threads() > kLargeShifted && ColumnStates(sized) > 1 ? 2 : 0;
  if (narrow && ColumnStates(sized) == 1 && sized.columns > kShortColumns && s.cluster <= 2)
    return 0;
  if (s.cluster > 1) return s.min_ctas_per_sm > 1 ? 2 : 1;
  const bool long_turn = s.rows_per_cta() == 1 && stage_bytes >= kTurnBytes;
  return long_turn && s.threads() <= kMostThreads ? 1 : 2;
}

}  // namespace seam::reduction
