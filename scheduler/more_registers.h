// Fewer CTAs an SM, so that each thread has more registers. How many a kernel needs only its
// compiler knows: the heuristics estimate it, and where NVRTC then says that a kernel spills, this
// is the next schedule to try.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>

#include "scheduler/device.h"
#include "scheduler/schedule.h"

namespace seam {

// The schedule with the most CTAs an SM of which a thread may have more registers than of `s`;
// where CTAs take rows in turn there are then no more of them than the device holds at once. None
// if `s` asks for one CTA an SM or for none in particular, if a thread has all that it can have, or
// if CTAs that share rows have to be there at once.
std::optional<Schedule> WithMoreRegisters(const Schedule& s, const DeviceInfo& device);

}  // namespace seam
