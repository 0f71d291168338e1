// Sums of products without the products: one instruction a point for each, and one rounding less.
//
//   %5 = mul(%3, %4)                    ->   reduction 0 = products sum f32(%3, %4)
//   reduction 0 = sum f32(%5)                an fma adds each product to the sum
//
// Thread-safety: pure.
#pragma once

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// Rewrites the f32 and f64 sums of products that nothing else reads. Linear in the kernel.
void SumProducts(TileKernel& tile);

}  // namespace seam::kernel
