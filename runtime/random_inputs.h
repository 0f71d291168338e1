// Inputs to try a graph on: random floats; integers that may be indices small and not negative.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/reference/host_tensor.h"
#include "runtime/size_binding.h"

namespace seam {

// One a declared input, with its strides: normal floats; integers of 32 and 64 bits 0 to 4. Errors:
// those of TensorFor and of HostTensor::MakeStrided.
absl::StatusOr<std::vector<HostTensor>> RandomInputs(const Fusion& fusion, const SizeBinding& sizes,
                                                     uint64_t seed);

}  // namespace seam
