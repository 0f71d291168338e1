// Kernel IR to CUDA C++ text.
//
// The text is one extern "C" __global__ function named as the kernel, after the prelude sections
// that it uses and a comment with the kernel's summary. Its arguments are the buffers' pointers in
// order, then the parameters as `long long` in order. Shared arrays are dynamic shared memory:
// launch with kernel.SharedBytes() bytes. Options for the compiler: --fmad=false.
//
// Invariants: the same kernel gives the same bytes; the text includes nothing.
// Thread-safety: pure function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam {

// Error: kInvalidArgument if the kernel does not verify.
absl::StatusOr<std::string> EmitCuda(const kernel::Kernel& kernel);

}  // namespace seam
