// Kernel IR to CUDA C++ text.
//
// The text is one extern "C" __global__ function named as the kernel, after the prelude sections
// that it uses and a comment with the kernel's summary. Its arguments are the buffers' pointers in
// order, then the parameters as `long long` in order. Shared arrays are dynamic shared memory:
// launch with kernel.SharedBytes() bytes. Options for the compiler: --fmad=false.
//
// A kernel of several phases takes two more arguments: an `unsigned*` to memory that is 0 before
// its first launch, and an `int`. Where that is -1, all phases run: launch it cooperatively, and no
// two that use the same memory at once; otherwise the phase of that number alone runs, and nothing
// is read from the memory.
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
