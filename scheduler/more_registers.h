// Schedules whose threads have more registers, or need less. How many a kernel needs only its
// compiler knows: the heuristics estimate it, and where NVRTC then says that a kernel spills, these
// are the next schedules to try; and where its threads leave more for each other than the shared
// memory of a CTA holds.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/device.h"
#include "scheduler/schedule.h"

namespace seam {

// The schedule with the most CTAs an SM of which a thread may have more registers than of `s`;
// where CTAs take rows in turn there are then no more of them than the device holds at once. None
// if `s` asks for one CTA an SM or for none in particular, if a thread has all that it can have, or
// if CTAs that share rows have to be there at once.
std::optional<Schedule> WithMoreRegisters(const Schedule& s, const DeviceInfo& device);

// The schedule with fewer vectors a thread: half as many of rows that are gone through step by
// step, of others as many more warps as hold the same columns. None if a thread has one, if no
// number of warps does that exactly, or if rows lie in shared memory by vectors.
std::optional<Schedule> WithFewerVectors(const Schedule& s);

// What to try instead of `s`, in this order: fewer CTAs an SM, half of them at least, since they
// hide more than it costs to spill a little; fewer vectors a thread, half of them at least; fewer
// points a thread, and not all of an axis; and a kernel of its own for what this one finishes. Of
// islands: a launch for each, then with the last of these for each.
std::vector<Schedule> EasierSchedules(const Schedule& s, const DeviceInfo& device);

// What to try instead of `s` where a CTA has too little shared memory: EasierSchedules, then less
// of rows ahead, in the end nothing, and fewer rows a CTA.
std::vector<Schedule> SmallerSchedules(const Schedule& s, const DeviceInfo& device);

}  // namespace seam
