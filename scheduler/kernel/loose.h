// Which values may be off by a little: f32 values that are rounded to 16 bits or fewer wherever
// they go, and whose errors nothing on the way enlarges.
//
//   e = exp(x - m)         loose: e is added up and divided, and the quotient is rounded
//   s = sum(e)             exponentials have one sign: the sum is as near as its terms
//   y = bf16(e / s)        the quotient is loose
//
// Such an exponential or quotient takes less than half of the instructions: a part in 10^5, where
// bf16 has 256 steps to a doubling and f16 2048. Thread-safety: pure functions.
#pragma once

#include <vector>

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// Per value; true for exponentials, divisions, and the results of sums of exponentials that come
// with their maxima: those exponentials then. A division counts if something in it is
// inexact already: where the reference has one right answer, so have kernels. Linear in the values
// and reductions.
std::vector<bool> FindLoose(const TileKernel& tile);

}  // namespace seam::kernel
