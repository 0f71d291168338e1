// Kernels side by side in one launch: the first CTAs run the first kernel, those after them the
// second, and so on.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

// One kernel of kernels that have the same number of threads. Its buffers are theirs, the first
// kernel's first; so are its parameters, but behind those of each kernel comes one more, which
// holds how many CTAs the kernels up to it have together. Linear in the kernels. Errors:
// kInvalidArgument where the threads differ, there are no kernels, or one is known to have no CTAs.
absl::StatusOr<Kernel> SideBySide(std::string name, absl::Span<const Kernel> kernels);

}  // namespace seam::kernel
