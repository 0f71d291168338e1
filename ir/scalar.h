// One element of a tensor on the host, and every conversion between dtypes.
//
// Invariants: a Scalar of a float dtype holds a double that is already rounded to the dtype; one of
// an integer dtype holds an int64 already wrapped to the dtype; a bool holds 0 or 1. Which member
// is active follows from the dtype, which the caller knows: IsFloat(dtype) means `f`, everything
// else `i`.
//
// The conversion rules, the same in the reference, the simulator and the emitted CUDA:
//  * to f64: exact from every dtype but i64, which rounds to nearest even.
//  * to f32: round to nearest even, subnormals kept, overflow to infinity.
//  * to f16, bf16, f8e4m3, f8e5m2: first to f32, then to the dtype, each step to nearest even with
//    subnormals kept. f16 and bf16 overflow to infinity.
//  * to f8e4m3 (OCP "e4m3fn": no infinity, largest 448): out of range saturates to +-448, infinity
//  too.
//    to f8e5m2: a finite value out of range saturates to +-57344, an infinity stays one, so that
//    rounding is idempotent on every value the dtype can hold. (The hardware's satfinite conversion
//    differs from this in f32 infinity to f8e5m2 alone.) NaN stays NaN; its payload and sign do not
//    matter.
//  * float to integer: truncates, saturates at the dtype's range, NaN gives 0.
//  * integer to integer: wraps (two's complement). bool to a number: 0 or 1. To bool: != 0, so NaN
//  is true.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/dtype.h"

namespace seam {

union Scalar {
  double f;
  int64_t i;
};
inline Scalar FloatScalar(double value) {
  Scalar s;
  s.f = value;
  return s;
}
inline Scalar IntScalar(int64_t value) {
  Scalar s;
  s.i = value;
  return s;
}

// `value` rounded to the float dtype. Idempotent.
double RoundToDType(DType dtype, double value);
// The same in one step, past f32, which is how literals are rounded: never off by more than half a
// unit.
double RoundOnce(DType dtype, double value);
// `value` wrapped to the integer dtype; for bool, value != 0.
int64_t WrapToDType(DType dtype, int64_t value);
// The smallest and largest integer of an integer dtype or bool; the largest finite value of a float
// dtype.
int64_t MinInteger(DType dtype);
int64_t MaxInteger(DType dtype);
double MaxFinite(DType dtype);
// Digits of the significand with the hidden one: 53, 24, 11, 8, 4, 3. Distance from 1 to the next
// value is 2^(1-digits).
int SignificandBits(DType dtype);
// Distance between the two neighbours of `value` in the float dtype (one unit in the last place);
// the smallest subnormal near zero, that of the largest finite value for infinities.
double UlpOf(DType dtype, double value);

Scalar CastScalar(DType from, DType to, Scalar value);
void CastScalars(DType from, DType to, const Scalar* values, Scalar* results, size_t n);

// The bit pattern of the element in memory, zero-extended, and back.
uint64_t EncodeBits(DType dtype, Scalar value);
Scalar DecodeBits(DType dtype, uint64_t bits);

// One element at `address` (any alignment). A bool byte other than 0 reads as true.
Scalar LoadScalar(DType dtype, const void* address);
void StoreScalar(DType dtype, Scalar value, void* address);
// `n` elements, `stride_bytes` apart in memory, contiguous as scalars.
void LoadScalars(DType dtype, const void* address, ptrdiff_t stride_bytes, Scalar* values,
                 size_t n);
void StoreScalars(DType dtype, const Scalar* values, void* address, ptrdiff_t stride_bytes,
                  size_t n);

}  // namespace seam
