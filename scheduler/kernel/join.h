// Kernels joined into one launch: side by side, where the first CTAs run the first kernel, those
// after them the second, and so on; or as phases, where all CTAs run one after the other.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

// Whether a kernel's CTAs may be some of a larger grid: they have neither clusters nor barriers of
// the grid and take no tickets, and it is not known that there are none. Linear in the statements.
bool CanStandBeside(const Kernel& kernel);

// Whether kernels that stand side by side have parameters of their own each, or the same values for
// as many.
enum class Parameters : uint8_t { kOwn, kCommon };

// Shared memory of such a kernel: arrays of one type lie upon each other, since a CTA runs one of
// the kernels, those of other types beside them. Linear in the arrays of all for each one.
int64_t SharedBytesSideBySide(absl::Span<const Kernel* const> kernels);

// One kernel of kernels that have the same number of threads. Its buffers are theirs, the first
// kernel's first. So are its parameters, the common ones once, but behind those of each kernel
// comes one more, which holds how many CTAs the kernels up to it have together. Linear in the
// kernels. Errors: kInvalidArgument where the threads differ, or how many bulk copies are a batch,
// or how many common parameters there are, there are no kernels, or one cannot stand beside others.
absl::StatusOr<Kernel> SideBySide(std::string name, absl::Span<const Kernel> kernels,
                                  Parameters parameters);

// One kernel that does what `kernels` do, launched one after the other with the same values for
// their parameters, of which the first one may have more, behind these. Barriers of the grid lie
// between them; it has the first one's grid, whose CTAs take those of each later kernel in turn.
// buffers[k][i] says which of its buffers is the i-th of kernel k; they are numbered in the order
// in which they first appear. Linear in the kernels. Errors: kInvalidArgument where threads differ,
// a later kernel has more parameters, there are no kernels, or one has clusters.
absl::StatusOr<Kernel> InPhases(std::string name, absl::Span<const Kernel> kernels,
                                absl::Span<const std::vector<int>> buffers);

}  // namespace seam::kernel
