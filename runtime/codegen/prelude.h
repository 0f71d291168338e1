// How values and operations are spelled in the emitted CUDA, and the device functions those
// spellings call.
//
// A dtype has a storage type, in memory, and a register type, in which kernels hold it:
//   f64: double, double              f32: float, float
//   f16, bf16: unsigned short, float  f8e4m3, f8e5m2: unsigned char, float
//   i64: long long, long long        i32: int, int        i16: short, int
//   i8: signed char, int             u8: unsigned char, int    bool: unsigned char, bool
// Invariant: a register value is always one of its dtype (rounded or wrapped), so that conversion
// to storage is exact and every backend gives what ir/op_semantics.h gives, up to the ulps in the
// table.
//
// The text needs no include. Kernels are compiled with --fmad=false and the other defaults of NVRTC
// (exact division and square root, subnormals kept). Works from sm_75 on. Thread-safety: pure
// functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/ops.h"
#include "ir/scalar.h"

namespace seam {

absl::string_view CudaStorageType(DType dtype);
absl::string_view CudaRegisterType(DType dtype);

// The operation's expression over register values `args`, rounded or wrapped to `out`. Takes the
// class Elementwise (`in` is the dtype of the data operands, as for EvalElementwise) and Cast (`in`
// to `out`). An argument's text may be repeated, so pass names rather than long expressions.
std::string CudaExpression(OpKind kind, DType in, DType out, absl::Span<const std::string> args);

// A value of the dtype's register type: finite values in hexadecimal, infinities and NaN by their
// bits.
std::string CudaConstant(DType dtype, Scalar value);

// An element of random_uniform or random_normal (ir/philox.h); `seed`, `offset`, `index` are long
// long.
std::string CudaRandom(OpKind kind, DType dtype, absl::string_view seed, absl::string_view offset,
                       absl::string_view index);

// Storage to register and back.
std::string CudaLoadConvert(DType dtype, absl::string_view stored);
std::string CudaStoreConvert(DType dtype, absl::string_view value);

// Two neighbouring elements of f16 or bf16 in one `unsigned`, the first in the low half; of f8 in
// the low 16 bits. Cheaper than two single conversions. HasCudaPairs says for which dtypes they
// exist.
bool HasCudaPairs(DType dtype);
std::string CudaLoadPairElement(DType dtype, absl::string_view packed, int element);
std::string CudaStorePair(DType dtype, absl::string_view first, absl::string_view second);

// The definitions of all prelude functions (named seam_...) that `kernel_text` calls, directly or
// through others, in an order that compiles. Linear in the text.
std::string PreludeFor(absl::string_view kernel_text);

}  // namespace seam
