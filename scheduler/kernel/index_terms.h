// How large the numbers come to that a kernel's indices are computed from.
//
// An index is a sum that has been simplified for all sizes at once. Its terms may be far larger
// than what they add up to: of `S*(i mod N)`, which is written as `S*i - S*N*(i//N)`, each is. A
// kernel of 32-bit indices (Kernel::index32) has room for the sums by the guard that bounds the
// tensors; for such terms it takes a guard of its own. So does what no tensor bounds: a product of
// sizes that a value is, or that is divided.
#pragma once

#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

// The most, over all CTAs, threads and turns, of what is made of parameters alone, of what is
// divided, and of the positive terms, or the negative ones, of any sum that has both: of the
// kernel's parameters, in its environment; 0 if nothing may be beyond 32 bits. Terms of one sign
// are no larger than their sum. Invalid where that is no expression that SymInt can hold. Linear in
// the distinct nodes of the kernel's indices, loop bounds and conditions, times what adding up
// their terms takes.
SymInt LargestNumber(const Kernel& kernel);

}  // namespace seam::kernel
