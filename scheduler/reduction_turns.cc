#include "scheduler/reduction_turns.h"

#include <algorithm>

namespace seam::reduction {

bool TakesTickets(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kOneStateColumns = 12288, kStatesColumns = 4096;
  return sized.context.any_order && !s.shift && sized.widest_bytes < 4 &&
         sized.columns <= (ColumnStates(sized) == 1 ? kOneStateColumns : kStatesColumns);
}

bool HasFewTurns(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kFewest = 3, kMost = 64;
  const int64_t at_once =
      sized.context.device.sms * std::max(1, s.min_ctas_per_sm) * s.rows_per_cta();
  return ColumnStates(sized) > 0 && sized.widest_bytes < 4 && s.cluster == 1 &&
         sized.rows >= kFewest * at_once && sized.rows <= kMost * at_once;
}

namespace {

int PaceOf(const SizedGroup& sized, int64_t stage_bytes, const Schedule& s) {
  constexpr int64_t kTurnBytes = 16000, kSmTurnBytes = 32000, kLongestTurnBytes = 131072;
  constexpr int kMostThreads = 512;
  const bool narrow = sized.widest_bytes < 4, one_state = ColumnStates(sized) == 1;
  const bool single = s.stages == 1 && one_state && stage_bytes >= kLongestTurnBytes;
  if (s.tickets || (s.stages < 3 && !single) || HasFewTurns(sized, s)) return 0;
  if (s.shift && narrow) return s.threads() > kLargeShifted ? 1 : 0;
  if (s.cluster > 1 && !(narrow && one_state)) return s.min_ctas_per_sm > 1 ? 2 : 1;
  const bool long_turn = narrow ? stage_bytes * std::max(1, s.min_ctas_per_sm) >= kSmTurnBytes
                                : stage_bytes >= kTurnBytes && s.threads() <= kMostThreads;
  return long_turn && s.rows_per_cta() == 1 ? 1 : 2;
}

}  // namespace

void StayTogether(const SizedGroup& sized, int64_t stage_bytes, Schedule& s) {
  s.pace = PaceOf(sized, stage_bytes, s);
  s.settled = ColumnStates(sized) > 0 && !HasFewTurns(sized, s);
}

}  // namespace seam::reduction
