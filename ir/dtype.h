// The element types of tensors.
//
// Invariants: the order of the enumerators is part of the text form's and the C API's contract.
// Thread-safety: free functions, all pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace seam {

enum class DType : uint8_t { F64, F32, F16, BF16, F8E4M3, F8E5M2, I64, I32, I16, I8, U8, Bool };
inline constexpr int kNumDTypes = 12;

// The spelling in the text form: "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64" ... "bool".
absl::string_view DTypeName(DType dtype);
std::optional<DType> ParseDType(absl::string_view name);

int DTypeBytes(DType dtype);  // Size of one element in memory; bool takes one byte.
constexpr bool IsFloat(DType d) { return d <= DType::F8E5M2; }
constexpr bool IsInteger(DType d) { return d >= DType::I64 && d <= DType::U8; }  // bool is neither.
constexpr bool IsSigned(DType d) { return d != DType::U8 && d != DType::Bool; }

// The type in which sums, products and statistics of `dtype` are accumulated and pointwise
// arithmetic is carried out before rounding: f64 for f64, f32 for the other floats, i64 for
// integers and bool.
DType ComputeType(DType dtype);

}  // namespace seam
