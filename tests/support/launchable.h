// Plans of the heuristics, held against the device that they are for.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/scheduler.h"

namespace seam::testing {

// The plan for a group of M and N: every guard holds, and CTAs have the threads and the shared
// memory that they take.
LaunchPlan ExpectLaunchable(const std::string& text, int64_t m, int64_t n,
                            const DeviceInfo& device);

}  // namespace seam::testing
