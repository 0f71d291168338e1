// Kernels joined into one launch: side by side, where the first CTAs run the first kernel, those
// after them the second, and so on; or as phases, where all CTAs run one after the other.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

// One kernel of kernels that have the same number of threads. Its buffers are theirs, the first
// kernel's first; so are its parameters, but behind those of each kernel comes one more, which
// holds how many CTAs the kernels up to it have together. Linear in the kernels. Errors:
// kInvalidArgument where the threads differ, there are no kernels, or one is known to have no CTAs
// or has clusters of them.
absl::StatusOr<Kernel> SideBySide(std::string name, absl::Span<const Kernel> kernels);

// One kernel that does what `kernels` do, launched one after the other with the same values for
// their parameters, which must be as many. Barriers of the grid lie between them; it has the first
// one's grid, whose CTAs take those of each later kernel in turn. buffers[k][i] says which of its
// buffers is the i-th of kernel k; they are numbered in the order in which they first appear.
// Linear in the kernels. Errors: kInvalidArgument where threads or parameters differ, there are no
// kernels, or one has clusters.
absl::StatusOr<Kernel> InPhases(std::string name, absl::Span<const Kernel> kernels,
                                absl::Span<const std::vector<int>> buffers);

}  // namespace seam::kernel
