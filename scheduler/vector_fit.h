// How well a schedule's vectors fit what a group moves: how much of it goes element by element.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/choose.h"
#include "scheduler/trace.h"

namespace seam {

// The bytes of accesses to `large` tensors, inputs or outputs of the group, that are neither whole
// vectors of the schedule nor single elements that all of a vector share. With tiles vectors lie
// along rows or columns, and single elements along the axis that the tensor does. Each element
// counts once, wherever it is wanted: of masked loads, a concatenation's, as many as a sample of
// the mask says. Stops above `limit`. `traced` is the group's. Errors: those of ValueOf.
absl::StatusOr<double> BytesByElement(const SizedGroup& sized, const TracedKernel& traced,
                                      const std::vector<ValId>& large, const Schedule& schedule,
                                      double limit);

}  // namespace seam
