// Products that are added to something, as one instruction: a * b + c as fma(a, b, c), which also
// rounds once less.
//
//   %5 = mul(%3, %4)
//   %6 = sub(%2, %5)                    ->   %5 = neg(%4), %6 = fma(%3, %5, %2)
//
// Only where the reference does not say every bit either: in what follows from a reduction or an
// approximate function (FindInexact). And only at points: what a row has one of, a variance above
// all that someone takes as the mean of squares less the square of the mean, is computed as
// written, and so is a sum or difference of two products, which may be equal.
//
// Thread-safety: pure.
#pragma once

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// Rewrites sums and differences in f32 and f64 whose product nothing else reads. Linear in the
// kernel.
void ContractProducts(TileKernel& tile);

}  // namespace seam::kernel
