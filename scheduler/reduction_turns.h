// CTAs that take rows in turn: by ticket or in a fixed order, how many turns, and how they stay
// together. Source of the limits: schedules timed side by side on an H200,
// docs/schedulers/turns.md.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "scheduler/choose.h"

namespace seam::reduction {

// Whether 32 bits count the rows, as tickets and pace do.
bool MayCountRows(const SizedGroup& sized);

// Whether rows that are summed up go by ticket if the caller lets them: longer ones, of one state a
// column and of several, and wider ones do as well in a fixed order.
bool TakesTickets(const SizedGroup& sized, const Schedule& schedule);

// Whether CTAs that keep states of their columns, of 16-bit data, have few turns each, but more
// than two: what then counts is how soon the last one is done, and how many states they leave.
bool HasFewTurns(const SizedGroup& sized, const Schedule& schedule);

// Sets after how many turns CTAs that take rows in a fixed order, with `stage_bytes` of each, look
// whether they are ahead, and whether they await their first loads. Looking must not cost more than
// a turn has to hide: each turn where rows that an SM has in hand are long enough, else each second
// one. A thread that first reads in a turn what was loaded before all of them waits for its turn's
// own loads too; in few turns that costs less than what compilers make of it otherwise.
void StayTogether(const SizedGroup& sized, int64_t stage_bytes, Schedule& schedule);

// CTAs in clusters that take rows in turn: as many as the device holds, or, of few rows, a cluster
// each, up to the next multiple of a quarter of a power of two, so that a kernel serves many
// numbers of rows, and of Schedule::grid_step unless `all` have some. 0: the device holds fewer
// than that.
int CtasOfClusters(const SizedGroup& sized, const Schedule& schedule, bool all = false);

// Whether clusters would have so few rows in turn that what goes ahead of the first one and lags
// behind the last costs more than they gain over a CTA for each row.
bool AreTurnsTooFew(const SizedGroup& sized, const Schedule& schedule);

}  // namespace seam::reduction
