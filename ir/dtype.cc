// Names and sizes of the element types.
#include "ir/dtype.h"

namespace seam {
namespace {

struct DTypeInfo {
  const char* name;
  int bytes;
  DType compute;
};
constexpr DTypeInfo kDTypes[kNumDTypes] = {
    {"f64", 8, DType::F64},  {"f32", 4, DType::F32},    {"f16", 2, DType::F32},
    {"bf16", 2, DType::F32}, {"f8e4m3", 1, DType::F32}, {"f8e5m2", 1, DType::F32},
    {"i64", 8, DType::I64},  {"i32", 4, DType::I64},    {"i16", 2, DType::I64},
    {"i8", 1, DType::I64},   {"u8", 1, DType::I64},     {"bool", 1, DType::I64},
};

}  // namespace

absl::string_view DTypeName(DType dtype) {
  return static_cast<int>(dtype) < kNumDTypes ? kDTypes[static_cast<int>(dtype)].name : "no dtype";
}

std::optional<DType> ParseDType(absl::string_view name) {
  for (int d = 0; d < kNumDTypes; ++d) {
    if (name == kDTypes[d].name) return static_cast<DType>(d);
  }
  return std::nullopt;
}

int DTypeBytes(DType dtype) { return kDTypes[static_cast<int>(dtype)].bytes; }

DType ComputeType(DType dtype) { return kDTypes[static_cast<int>(dtype)].compute; }

}  // namespace seam
