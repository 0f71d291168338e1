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
// Terms: exponentials of what elements lack of their maximum, of which nothing is wanted but the
// logarithm of their sum, or a sum that is loose. A term e^-a is off by a rounding of a, which is a
// parts in 2^24 of it, so the sum is by the mean of a, weighted by the terms, in such parts: terms
// are small where a is not, and N of them make that about ln N at the most, 7 for 50,257 that are
// alike. That is half a unit of the last place of a logarithm of as much. What is below 2^-126 may
// vanish. A maximum and sum in one pass shrink by such terms too (expand_online.cc).
//
//   s = sum(exp(x - m))    terms: log(s) + m is stored in f32
//
// Either takes less than half of the instructions. Thread-safety: pure functions.
#pragma once

#include <vector>

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// Per value; not kFull for exponentials, sigmoids, error functions and divisions only, and for sums
// in one pass with their maximum, whose terms these are. A division is loose if something in it is
// inexact already: where the reference has one right answer, so have kernels. Linear in the values
// and reductions.
std::vector<Precision> FindPrecisions(const TileKernel& tile);

}  // namespace seam::kernel
