// The spelling of types, values, operations and conversions, from the rows of ir/ops.def.
#include "runtime/codegen/prelude.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/codegen/identifiers.h"

namespace seam {
namespace {

// Wraps anything but a plain name, number, element or call in parentheses.
std::string AsOperand(absl::string_view text) {
  int depth = 0;
  for (char c : text) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (depth == 0 && !IsWordChar(c) && c != '.' && c != ')' && c != ']') {
      return absl::StrCat("(", text, ")");
    }
  }
  return text.empty() || text[0] == '(' ? absl::StrCat("(", text, ")") : std::string(text);
}

// Puts the arguments, the suffix of float functions and the width into a table row's text.
std::string Substitute(absl::string_view pattern, DType in, absl::Span<const std::string> args) {
  std::string result;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '@') {
      if (in != DType::F64) result += 'f';
      ++at;
      continue;
    }
    if (!IsWordChar(pattern[at])) {
      result += pattern[at++];
      continue;
    }
    size_t end = at;
    while (end < pattern.size() && IsWordChar(pattern[end])) ++end;
    const absl::string_view word = pattern.substr(at, end - at);
    if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'c') {
      const size_t index = static_cast<size_t>(word[0] - 'a');
      if (index < args.size()) result += AsOperand(args[index]);
    } else if (word == "width") {
      absl::StrAppend(&result, 8 * DTypeBytes(in));
    } else {
      absl::StrAppend(&result, word);
    }
    at = end;
  }
  return result;
}

bool IsSmallFloat(DType dtype) {
  return IsFloat(dtype) && dtype != DType::F64 && dtype != DType::F32;
}

// An int or long long expression wrapped to the dtype; a float one rounded to it.
std::string Normalise(DType dtype, std::string text) {
  switch (dtype) {
    case DType::I16:
      return absl::StrCat("(int)(short)(", text, ")");
    case DType::I8:
      return absl::StrCat("(int)(signed char)(", text, ")");
    case DType::U8:
      return absl::StrCat("(int)(unsigned char)(", text, ")");
    default:
      if (IsSmallFloat(dtype)) return absl::StrCat("seam_round_", DTypeName(dtype), "(", text, ")");
      return text;
  }
}

std::string CudaCast(DType from, DType to, const std::string& arg) {
  const std::string x = AsOperand(arg);
  if (from == to) return arg;
  if (to == DType::Bool) return absl::StrCat(x, " != 0");
  if (IsFloat(to)) {
    if (to == DType::F64) return absl::StrCat("(double)", x);
    const std::string value =
        IsFloat(from) && from != DType::F64 ? arg : absl::StrCat("(float)", x);
    return Normalise(to, value);
  }
  if (IsFloat(from)) {
    if (to == DType::I64) return absl::StrCat("seam_to_i64(", arg, ")");
    const std::string value = absl::StrCat("seam_to_i32(", arg, ")");
    if (to == DType::I32) return value;
    return absl::StrCat("seam_clamp(", value, ", ", MinInteger(to), ", ", MaxInteger(to), ")");
  }
  if (to == DType::I64) return absl::StrCat("(long long)", x);
  if (to == DType::I32) return absl::StrCat("(int)", x);
  return Normalise(to, arg);
}

bool IsMove(OpKind kind) {
  switch (kind) {
#define SEAM_MOVE(kind, ...) case OpKind::kind:
#include "ir/ops.def"
    return true;
    default:
      return false;
  }
}

}  // namespace

absl::string_view CudaStorageType(DType dtype) {
  static constexpr const char* kTypes[kNumDTypes] = {
      "double",    "float", "unsigned short", "unsigned short", "unsigned char", "unsigned char",
      "long long", "int",   "short",          "signed char",    "unsigned char", "unsigned char"};
  return kTypes[static_cast<int>(dtype)];
}

absl::string_view CudaRegisterType(DType dtype) {
  if (dtype == DType::Bool) return "bool";
  if (dtype == DType::F64) return "double";
  if (IsFloat(dtype)) return "float";
  return dtype == DType::I64 ? "long long" : "int";
}

std::string CudaExpression(OpKind kind, DType in, DType out, absl::Span<const std::string> args) {
  if (kind == OpKind::Cast) return CudaCast(in, out, args[0]);
  const OpInfo& op = GetOpInfo(kind);
  std::string text = Substitute(IsFloat(in) ? op.cuda_float : op.cuda_integer, in, args);
  return IsMove(kind) || out == DType::Bool ? text : Normalise(out, std::move(text));
}

std::string CudaConstant(DType dtype, Scalar value) {
  char buffer[64];
  if (IsFloat(dtype)) {
    const bool wide = dtype == DType::F64;
    if (!std::isfinite(value.f)) {
      if (wide)
        return absl::StrCat("__longlong_as_double(0x", absl::Hex(EncodeBits(dtype, value)), "ull)");
      return absl::StrCat("__int_as_float(0x", absl::Hex(EncodeBits(DType::F32, value)), ")");
    }
    std::snprintf(buffer, sizeof buffer, "%a%s", value.f, wide ? "" : "f");
    return value.f < 0 || std::signbit(value.f) ? absl::StrCat("(", buffer, ")") : buffer;
  }
  if (dtype == DType::Bool) return value.i ? "true" : "false";
  // The smallest integers have no literal: the minus is an operator on one that does not fit.
  const bool lowest = value.i == MinInteger(dtype) && (dtype == DType::I64 || dtype == DType::I32);
  const std::string suffix = dtype == DType::I64 ? "ll" : "";
  if (lowest) return absl::StrCat("(", value.i + 1, suffix, " - 1)");
  return value.i < 0 ? absl::StrCat("(", value.i, suffix, ")") : absl::StrCat(value.i, suffix);
}

std::string CudaRandom(OpKind kind, DType dtype, absl::string_view seed, absl::string_view offset,
                       absl::string_view index) {
  const std::string arguments = absl::StrCat("(", seed, ", ", offset, ", ", index, ")");
  if (kind == OpKind::RandomUniform) {
    if (dtype == DType::F64) return absl::StrCat("seam_uniform_f64", arguments);
    return absl::StrCat("seam_uniform<", SignificandBits(dtype), ">", arguments);
  }
  if (dtype == DType::F64) return absl::StrCat("seam_normal_f64", arguments);
  return Normalise(dtype, absl::StrCat("seam_normal", arguments));
}

std::string CudaLoadConvert(DType dtype, absl::string_view stored) {
  if (IsSmallFloat(dtype)) return absl::StrCat("seam_", DTypeName(dtype), "_value(", stored, ")");
  if (dtype == DType::Bool) return absl::StrCat(AsOperand(stored), " != 0");
  return std::string(stored);
}

std::string CudaStoreConvert(DType dtype, absl::string_view value) {
  if (IsSmallFloat(dtype)) return absl::StrCat("seam_", DTypeName(dtype), "_bits(", value, ")");
  if (CudaStorageType(dtype) == CudaRegisterType(dtype)) return std::string(value);
  return absl::StrCat("(", CudaStorageType(dtype), ")", AsOperand(value));
}

bool HasCudaPairs(DType dtype) { return IsSmallFloat(dtype); }

std::string CudaLoadPairElement(DType dtype, absl::string_view packed, int element) {
  const bool half = DTypeBytes(dtype) == 2;
  const std::string x = AsOperand(packed);
  if (dtype == DType::BF16) {
    return element == 0 ? absl::StrCat("__uint_as_float(", x, " << 16)")
                        : absl::StrCat("__uint_as_float(", x, " & 0xffff0000u)");
  }
  const std::string shifted = element == 0 ? x : absl::StrCat("(", x, half ? " >> 16)" : " >> 8)");
  return CudaLoadConvert(dtype,
                         absl::StrCat(half ? "(unsigned short)" : "(unsigned char)", shifted));
}

std::string CudaStorePair(DType dtype, absl::string_view first, absl::string_view second) {
  return absl::StrCat("seam_", DTypeName(dtype), "_pair(", first, ", ", second, ")");
}

}  // namespace seam
