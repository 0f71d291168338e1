// Rounding, wrapping and the bit patterns of every dtype.
#include "ir/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace seam {
namespace {

// A float format of 8 or 16 bits: `mantissa` stored bits of the significand, exponent bias, largest
// finite value. Formats without infinity or with saturation say what an overflow becomes.
struct F16Format {
  static constexpr int kMantissa = 10, kBias = 15, kBits = 16;
  static constexpr float kMax = 65504.0f, kOverflow = std::numeric_limits<float>::infinity(),
                         kInfinity = std::numeric_limits<float>::infinity();
  static constexpr uint32_t kInfinityBits = 0x7c00, kNanBits = 0x7fff;
};
struct BF16Format {
  static constexpr int kMantissa = 7, kBias = 127, kBits = 16;
  static constexpr float kMax = 0x1.fep127f, kOverflow = std::numeric_limits<float>::infinity(),
                         kInfinity = std::numeric_limits<float>::infinity();
  static constexpr uint32_t kInfinityBits = 0x7f80, kNanBits = 0x7fff;
};
struct F8E4M3Format {
  static constexpr int kMantissa = 3, kBias = 7, kBits = 8;
  static constexpr float kMax = 448.0f, kOverflow = 448.0f, kInfinity = 448.0f;
  static constexpr uint32_t kInfinityBits = 0x7e, kNanBits = 0x7f;
};
struct F8E5M2Format {
  static constexpr int kMantissa = 2, kBias = 15, kBits = 8;
  static constexpr float kMax = 57344.0f, kOverflow = 57344.0f,
                         kInfinity = std::numeric_limits<float>::infinity();
  static constexpr uint32_t kInfinityBits = 0x7c, kNanBits = 0x7f;
};

// Below this magnitude values are multiples of the smallest subnormal; as the bits of an f32.
template <typename F>
constexpr uint32_t kMinNormalBits = static_cast<uint32_t>(F::kBias == 127 ? 0 : 128 - F::kBias)
                                    << 23;
// The smallest subnormal of a format whose exponent range is narrower than f32's.
template <typename F>
constexpr float kQuantum = std::bit_cast<float>(static_cast<uint32_t>(128 - F::kBias - F::kMantissa)
                                                << 23);

// Round to nearest even: normal results by carrying into the kept bits of the pattern, subnormal
// ones by adding and subtracting a constant whose unit in the last place is the format's smallest
// subnormal.
template <typename F>
float RoundSmall(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude_bits = bits & 0x7fffffffu;
  const float magnitude = std::bit_cast<float>(magnitude_bits);
  constexpr int kDropped = 23 - F::kMantissa;
  uint32_t rounded_bits =
      magnitude_bits + ((1u << (kDropped - 1)) - 1) + ((magnitude_bits >> kDropped) & 1);
  rounded_bits &= ~((1u << kDropped) - 1);
  float rounded = std::bit_cast<float>(rounded_bits);
  if constexpr (F::kBias != 127) {
    constexpr float kShift = kQuantum<F> * 0x1p23f;
    const float subnormal = (magnitude + kShift) - kShift;
    if (magnitude_bits < kMinNormalBits<F>) rounded = subnormal;
  }
  if (!(rounded <= F::kMax)) rounded = F::kOverflow;
  if (magnitude_bits == 0x7f800000u) rounded = F::kInfinity;
  if (magnitude_bits > 0x7f800000u) return value;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) | (bits & 0x80000000u));
}

template <typename F>
uint64_t EncodeSmall(double exact) {
  const float value = RoundSmall<F>(static_cast<float>(exact));
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 31) << (F::kBits - 1);
  if (magnitude > 0x7f800000u) return F::kNanBits;
  if (magnitude == 0x7f800000u) return sign | F::kInfinityBits;
  if (magnitude < kMinNormalBits<F>) {
    return sign | static_cast<uint32_t>(std::bit_cast<float>(magnitude) / kQuantum<F>);
  }
  return sign |
         ((magnitude - (static_cast<uint32_t>(127 - F::kBias) << 23)) >> (23 - F::kMantissa));
}

template <typename F>
double DecodeSmall(uint32_t bits) {
  const uint32_t magnitude = bits & ((1u << (F::kBits - 1)) - 1);
  float value;
  if (magnitude > F::kInfinityBits) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude == F::kInfinityBits) {
    value = F::kInfinity;
  } else if (F::kBias != 127 && magnitude < (1u << F::kMantissa)) {
    value = static_cast<float>(magnitude) * kQuantum<F>;
  } else {
    value = std::bit_cast<float>((magnitude << (23 - F::kMantissa)) +
                                 (static_cast<uint32_t>(127 - F::kBias) << 23));
  }
  return (bits >> (F::kBits - 1)) & 1 ? -value : value;
}

int64_t SaturateToInteger(DType dtype, double value) {
  if (value != value) return 0;
  const int64_t lowest = MinInteger(dtype), highest = MaxInteger(dtype);
  // The largest int64 is not a double; every double from 2^63 on saturates.
  if (value >= static_cast<double>(highest)) return highest;
  if (value <= static_cast<double>(lowest)) return lowest;
  return static_cast<int64_t>(value);
}

template <typename T>
T LoadAs(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

// Calls `body` with an index for each element; a template so that the dtype switch stays outside
// the loop.
template <typename Body>
void ForEach(size_t n, Body body) {
  for (size_t i = 0; i < n; ++i) body(i);
}

}  // namespace

double RoundToDType(DType dtype, double value) {
  switch (dtype) {
    case DType::F32:
      return static_cast<float>(value);
    case DType::F16:
      return RoundSmall<F16Format>(static_cast<float>(value));
    case DType::BF16:
      return RoundSmall<BF16Format>(static_cast<float>(value));
    case DType::F8E4M3:
      return RoundSmall<F8E4M3Format>(static_cast<float>(value));
    case DType::F8E5M2:
      return RoundSmall<F8E5M2Format>(static_cast<float>(value));
    default:
      return value;
  }
}

double RoundOnce(DType dtype, double value) {
  if (dtype == DType::F64 || dtype == DType::F32) return RoundToDType(dtype, value);
  // An inexact step to f32 that leaves an odd last bit hides no tie from the step that follows.
  // Source: Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
  float narrow = static_cast<float>(value);
  if (narrow != value && std::bit_cast<uint32_t>(narrow) % 2 == 0) {
    narrow = std::nextafter(narrow, static_cast<float>(value > narrow ? INFINITY : -INFINITY));
  }
  return RoundToDType(dtype, narrow);
}

int64_t WrapToDType(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::I32:
      return static_cast<int32_t>(value);
    case DType::I16:
      return static_cast<int16_t>(value);
    case DType::I8:
      return static_cast<int8_t>(value);
    case DType::U8:
      return static_cast<uint8_t>(value);
    case DType::Bool:
      return value != 0;
    default:
      return value;
  }
}

int64_t MinInteger(DType dtype) {
  return IsInteger(dtype) && IsSigned(dtype)
             ? std::numeric_limits<int64_t>::min() >> (64 - 8 * DTypeBytes(dtype))
             : 0;
}

int64_t MaxInteger(DType dtype) {
  if (dtype == DType::Bool) return 1;
  if (dtype == DType::U8) return 255;
  return std::numeric_limits<int64_t>::max() >> (64 - 8 * DTypeBytes(dtype));
}

double MaxFinite(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return std::numeric_limits<double>::max();
    case DType::F32:
      return std::numeric_limits<float>::max();
    case DType::F16:
      return F16Format::kMax;
    case DType::BF16:
      return BF16Format::kMax;
    case DType::F8E4M3:
      return F8E4M3Format::kMax;
    case DType::F8E5M2:
      return F8E5M2Format::kMax;
    default:
      return static_cast<double>(MaxInteger(dtype));
  }
}

int SignificandBits(DType dtype) {
  static constexpr int kBits[] = {53, 24, 11, 8, 4, 3};
  return IsFloat(dtype) ? kBits[static_cast<int>(dtype)] : 64;
}

double UlpOf(DType dtype, double value) {
  static constexpr int kMinExponents[] = {-1022, -126, -14, -126, -6, -14};
  if (!IsFloat(dtype)) return 1;
  double magnitude = std::fabs(value);
  if (!(magnitude < MaxFinite(dtype))) magnitude = MaxFinite(dtype);  // That of NaN as well.
  // The reference asks for every element of every run: by the bits of an f64, without libm.
  const int of_value = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023;
  const int exponent =
      std::max(of_value, kMinExponents[static_cast<int>(dtype)]) - (SignificandBits(dtype) - 1);
  return exponent >= -1022 ? std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52)
                           : std::bit_cast<double>(uint64_t{1} << (exponent + 1074));
}

void CastScalars(DType from, DType to, const Scalar* values, Scalar* results, size_t n) {
  if (IsFloat(from) && IsFloat(to)) {
    ForEach(n, [=](size_t i) { results[i].f = RoundToDType(to, values[i].f); });
  } else if (IsFloat(from) && to == DType::Bool) {
    ForEach(n, [=](size_t i) { results[i].i = values[i].f != 0; });
  } else if (IsFloat(from)) {
    ForEach(n, [=](size_t i) { results[i].i = SaturateToInteger(to, values[i].f); });
  } else if (to == DType::F64) {
    ForEach(n, [=](size_t i) { results[i].f = static_cast<double>(values[i].i); });
  } else if (IsFloat(to)) {
    ForEach(n, [=](size_t i) { results[i].f = RoundToDType(to, static_cast<float>(values[i].i)); });
  } else {
    ForEach(n, [=](size_t i) { results[i].i = WrapToDType(to, values[i].i); });
  }
}

Scalar CastScalar(DType from, DType to, Scalar value) {
  Scalar result;
  CastScalars(from, to, &value, &result, 1);
  return result;
}

uint64_t EncodeBits(DType dtype, Scalar value) {
  switch (dtype) {
    case DType::F64:
      return std::bit_cast<uint64_t>(value.f);
    case DType::F32:
      return std::bit_cast<uint32_t>(static_cast<float>(value.f));
    case DType::F16:
      return EncodeSmall<F16Format>(value.f);
    case DType::BF16:
      return EncodeSmall<BF16Format>(value.f);
    case DType::F8E4M3:
      return EncodeSmall<F8E4M3Format>(value.f);
    case DType::F8E5M2:
      return EncodeSmall<F8E5M2Format>(value.f);
    case DType::Bool:
      return value.i != 0;
    default: {
      const int bits = 8 * DTypeBytes(dtype);
      return static_cast<uint64_t>(value.i) & (~uint64_t{0} >> (64 - bits));
    }
  }
}

Scalar DecodeBits(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::F64:
      return FloatScalar(std::bit_cast<double>(bits));
    case DType::F32:
      return FloatScalar(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case DType::F16:
      return FloatScalar(DecodeSmall<F16Format>(static_cast<uint32_t>(bits)));
    case DType::BF16:
      return FloatScalar(DecodeSmall<BF16Format>(static_cast<uint32_t>(bits)));
    case DType::F8E4M3:
      return FloatScalar(DecodeSmall<F8E4M3Format>(static_cast<uint32_t>(bits)));
    case DType::F8E5M2:
      return FloatScalar(DecodeSmall<F8E5M2Format>(static_cast<uint32_t>(bits)));
    default:
      return IntScalar(WrapToDType(dtype, static_cast<int64_t>(bits)));
  }
}

Scalar LoadScalar(DType dtype, const void* address) {
  Scalar value;
  LoadScalars(dtype, address, 0, &value, 1);
  return value;
}

void StoreScalar(DType dtype, Scalar value, void* address) {
  StoreScalars(dtype, &value, address, 0, 1);
}

void LoadScalars(DType dtype, const void* address, ptrdiff_t stride_bytes, Scalar* values,
                 size_t n) {
  const char* p = static_cast<const char*>(address);
  const auto load = [&](auto decode) {
    ForEach(n, [=](size_t i) { decode(p + static_cast<ptrdiff_t>(i) * stride_bytes, values[i]); });
  };
  switch (dtype) {
    case DType::F64:
      return load([](const char* at, Scalar& value) { value.f = LoadAs<double>(at); });
    case DType::F32:
      return load([](const char* at, Scalar& value) { value.f = LoadAs<float>(at); });
    case DType::F16:
      return load([](const char* at, Scalar& value) {
        value.f = DecodeSmall<F16Format>(LoadAs<uint16_t>(at));
      });
    case DType::BF16:
      return load([](const char* at, Scalar& value) {
        value.f = DecodeSmall<BF16Format>(LoadAs<uint16_t>(at));
      });
    case DType::F8E4M3:
      return load([](const char* at, Scalar& value) {
        value.f = DecodeSmall<F8E4M3Format>(LoadAs<uint8_t>(at));
      });
    case DType::F8E5M2:
      return load([](const char* at, Scalar& value) {
        value.f = DecodeSmall<F8E5M2Format>(LoadAs<uint8_t>(at));
      });
    case DType::I64:
      return load([](const char* at, Scalar& value) { value.i = LoadAs<int64_t>(at); });
    case DType::I32:
      return load([](const char* at, Scalar& value) { value.i = LoadAs<int32_t>(at); });
    case DType::I16:
      return load([](const char* at, Scalar& value) { value.i = LoadAs<int16_t>(at); });
    case DType::I8:
      return load([](const char* at, Scalar& value) { value.i = LoadAs<int8_t>(at); });
    case DType::U8:
      return load([](const char* at, Scalar& value) { value.i = LoadAs<uint8_t>(at); });
    case DType::Bool:
      return load([](const char* at, Scalar& value) { value.i = LoadAs<uint8_t>(at) != 0; });
  }
}

void StoreScalars(DType dtype, const Scalar* values, void* address, ptrdiff_t stride_bytes,
                  size_t n) {
  char* p = static_cast<char*>(address);
  const auto store = [&](auto encode) {
    ForEach(n, [=](size_t i) {
      const auto element = encode(values[i]);
      std::memcpy(p + static_cast<ptrdiff_t>(i) * stride_bytes, &element, sizeof element);
    });
  };
  switch (dtype) {
    case DType::F64:
      return store([](Scalar value) { return value.f; });
    case DType::F32:
      return store([](Scalar value) { return static_cast<float>(value.f); });
    case DType::F16:
      return store(
          [](Scalar value) { return static_cast<uint16_t>(EncodeSmall<F16Format>(value.f)); });
    case DType::BF16:
      return store(
          [](Scalar value) { return static_cast<uint16_t>(EncodeSmall<BF16Format>(value.f)); });
    case DType::F8E4M3:
      return store(
          [](Scalar value) { return static_cast<uint8_t>(EncodeSmall<F8E4M3Format>(value.f)); });
    case DType::F8E5M2:
      return store(
          [](Scalar value) { return static_cast<uint8_t>(EncodeSmall<F8E5M2Format>(value.f)); });
    case DType::I64:
      return store([](Scalar value) { return value.i; });
    case DType::I32:
      return store([](Scalar value) { return static_cast<int32_t>(value.i); });
    case DType::I16:
      return store([](Scalar value) { return static_cast<int16_t>(value.i); });
    case DType::I8:
    case DType::U8:
      return store([](Scalar value) { return static_cast<uint8_t>(value.i); });
    case DType::Bool:
      return store([](Scalar value) { return static_cast<uint8_t>(value.i != 0); });
  }
}

}  // namespace seam
