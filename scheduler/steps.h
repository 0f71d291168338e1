// Steps: results that are computed one from the other, as those of a loop that someone has written
// step by step and put beside each other at the end. A thread that has all of them computes each
// once; one that has one of them, all that come before it. The same holds of whatever else is put
// beside each other and has much in common.
#pragma once

#include "absl/status/statusor.h"
#include "scheduler/choose.h"

namespace seam {

// A pointwise group's schedule `s`, or one whose threads have all of an axis along which such
// results are concatenated, if that takes far less arithmetic. Source:
// docs/schedulers/pointwise.md, "Steps of a loop". Errors: those of Trace.
absl::StatusOr<Schedule> OrAllSteps(const SizedGroup& sized, Schedule s);

}  // namespace seam
