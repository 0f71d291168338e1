// Elements that lie beside each other are loaded and stored together.
#pragma once

#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

// A thread's loads of single elements of a buffer that nobody writes, and its stores, become
// accesses of 4 to 16 bytes, or 2 of single bytes, where they are proven to lie beside each other
// from a multiple of the width on and are wanted in the same case. That is so where a thread has
// several points along the axis in which memory runs:
//
//   load a = x[8 * t], load b = x[8 * t + 1], ..     load w[0..7] = x[8 * t ..], a = w[0], ..
//   ..                                            -> ..
//   store y[2 * t] = c, y[2 * t + 1] = d             w[0] = c, w[1] = d, store y[2 * t ..] =
//   w[0..1]
//
// Loads of half of such elements bring the others as well, if they are in the buffer. A load moves
// ahead to the first of them, a store back to the last, within statements without loop, condition
// or barrier. Linear in the statements, but for sorting.
void WidenAccesses(Kernel& kernel);

}  // namespace seam::kernel
