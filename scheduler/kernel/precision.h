// How near f32 values must be that may be off by a little.
//
// Loose: values that are rounded to 16 bits or fewer wherever they go, and whose errors nothing on
// the way enlarges; a part in 10^5, where bf16 has 256 steps to a doubling and f16 2048.
//
//   e = exp(x - m)         loose: e is added up and divided, and the quotient is rounded
//   s = sum(e)             exponentials have one sign: the sum is as near as its terms
//   y = bf16(e / s)        the quotient is loose
//
// So is an error function that only goes into sums with a constant of 1 or more, a gelu's: to a few
// units of the last place of 1, of which such a sum has no more.
//
// Terms: exponentials of what elements lack of their maximum, of which there is nothing but the
// sum, whatever becomes of that. A term e^-a is off by a rounding of a, which is a parts in 2^24 of
// it at most: since a e^-a is less than 0.37, and a term of the sum is 1, less than half a unit of
// the sum's last place for each unit that its terms make up. What is below 2^-126 may vanish.
//
//   s = sum(exp(x - m))    terms: log(s) + m is stored in f32
//
// Either takes less than half of the instructions. Thread-safety: pure functions.
#pragma once

#include <vector>

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// Per value; not kFull for exponentials, sigmoids, error functions and divisions only. A division
// is loose if something in it is inexact already: where the reference has one right answer, so have
// kernels. Linear in the values and reductions.
std::vector<Precision> FindPrecisions(const TileKernel& tile);

}  // namespace seam::kernel
