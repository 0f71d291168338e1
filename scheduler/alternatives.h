// The schedules of a group that are worth timing beside the one that the heuristic chooses.
//
// They differ from it in how rows are shared among threads, CTAs and clusters, in what is brought
// ahead, kept or read again, and in how many threads an SM is asked to hold; what fits neither
// registers nor shared memory, or leaves many threads idle, is not among them. The best come first
// by an estimate of the time: passes over memory, over the share of the threads that have work and
// the share of the memory's latency that is covered. Among equals come first those that differ from
// the heuristic's in least.
//
// Thread-safety: pure function.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"

namespace seam {

inline constexpr size_t kMostAlternatives = 60;

// `chosen` is what the scheduler of its kind chooses for the group in this context. Every result is
// one that the scheduler lowers, with guards that hold at the context's sizes; `chosen` is not
// among them. None for kinds without a choice (views, library calls) and where there are no rows.
// Errors: those of choosing. Some thousand schedules are looked at.
absl::StatusOr<std::vector<Schedule>> Alternatives(const Fusion& group, const Schedule& chosen,
                                                   const ScheduleContext& context);

}  // namespace seam
