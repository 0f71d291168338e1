// CTAs that take rows in turn: by ticket or in a fixed order, how many turns, and how they stay
// together. Source of the limits: schedules timed side by side on an H200, docs/schedulers.md.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "scheduler/choose.h"

namespace seam::reduction {

// Whether rows that are summed up go by ticket if the caller lets them: longer ones, of one state a
// column and of several, and wider ones do as well in a fixed order.
bool TakesTickets(const SizedGroup& sized, const Schedule& schedule);

// Whether CTAs that keep states of their columns, of 16-bit data and one CTA an SM, have few turns
// each: what then counts is how soon the last one is done, and how many states they leave.
bool HasFewTurns(const SizedGroup& sized, const Schedule& schedule);

// Turns after which CTAs that take rows in a fixed order, with `stage_bytes` of each, look whether
// they are ahead: that must not cost more than a turn has to hide. CTAs that keep one state of each
// narrow column stay together by themselves unless rows are short or go to larger clusters. Those
// with a single stage of the longest rows hide nothing and gain by it, with one state a column.
int PaceOf(const SizedGroup& sized, int64_t stage_bytes, const Schedule& schedule);

// Threads of a CTA of shifted rows that is a large one: it has to keep pace, and rows in registers.
inline constexpr int kLargeShifted = 512;

}  // namespace seam::reduction
