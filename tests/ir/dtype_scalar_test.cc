// Rounding, wrapping, casts and bit patterns, for every dtype.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ir/dtype.h"
#include "ir/scalar.h"
#include "tests/support/special_values.h"

namespace seam {
namespace {

using testing::kInf;
using testing::kNan;

const std::vector<DType> kSmallFloats = {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2};

std::vector<DType> AllDTypes() {
  std::vector<DType> all;
  for (int d = 0; d < kNumDTypes; ++d) all.push_back(static_cast<DType>(d));
  return all;
}

TEST(DTypeTest, NamesAreReadBack) {
  for (DType dtype : AllDTypes()) EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
  EXPECT_EQ(ParseDType("f33"), std::nullopt);
  EXPECT_EQ(ParseDType(""), std::nullopt);
  EXPECT_EQ(ParseDType("F32"), std::nullopt);
}

TEST(DTypeTest, ComputeTypes) {
  EXPECT_EQ(ComputeType(DType::F64), DType::F64);
  for (DType dtype : kSmallFloats) EXPECT_EQ(ComputeType(dtype), DType::F32);
  EXPECT_EQ(ComputeType(DType::U8), DType::I64);
  EXPECT_EQ(ComputeType(DType::Bool), DType::I64);
}

// All values of a small float format with their patterns, by the definition of the format.
double ValueOfPattern(DType dtype, uint32_t bits, int mantissa, int bias, int width) {
  const uint32_t fraction = bits & ((1u << mantissa) - 1);
  const int exponent = static_cast<int>(bits >> mantissa & ((1u << (width - 1 - mantissa)) - 1));
  const int top = (1 << (width - 1 - mantissa)) - 1;
  const double sign = bits >> (width - 1) ? -1 : 1;
  if (exponent == top) {
    if (dtype == DType::F8E4M3) {
      if (fraction == 7) return kNan;
    } else {
      return fraction == 0 ? sign * kInf : kNan;
    }
  }
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias - mantissa)
                       : sign * std::ldexp((1u << mantissa) + fraction, exponent - bias - mantissa);
}

TEST(ScalarTest, SmallFloatsDecodeByDefinitionAndEncodeBack) {
  const int mantissa[] = {10, 7, 3, 2}, bias[] = {15, 127, 7, 15}, width[] = {16, 16, 8, 8};
  for (int f = 0; f < 4; ++f) {
    const DType dtype = kSmallFloats[static_cast<size_t>(f)];
    for (uint32_t bits = 0; bits < (1u << width[f]); ++bits) {
      const double expected = ValueOfPattern(dtype, bits, mantissa[f], bias[f], width[f]);
      const Scalar value = DecodeBits(dtype, bits);
      if (expected != expected) {
        EXPECT_TRUE(value.f != value.f) << DTypeName(dtype) << " " << bits;
        EXPECT_TRUE(std::isnan(DecodeBits(dtype, EncodeBits(dtype, value)).f));
        continue;
      }
      ASSERT_EQ(value.f, expected) << DTypeName(dtype) << " " << bits;
      ASSERT_EQ(std::signbit(value.f), std::signbit(expected));
      ASSERT_EQ(EncodeBits(dtype, value), bits) << DTypeName(dtype);
      ASSERT_EQ(RoundToDType(dtype, value.f), value.f) << DTypeName(dtype);
    }
  }
}

// Between every two neighbours: the midpoint goes to the even pattern, its f32 neighbours to the
// nearer value.
TEST(ScalarTest, SmallFloatsRoundToNearestEven) {
  for (DType dtype : kSmallFloats) {
    const uint64_t max_bits = EncodeBits(dtype, FloatScalar(MaxFinite(dtype)));
    for (uint64_t bits = 0; bits < max_bits; ++bits) {
      const double low = DecodeBits(dtype, bits).f, high = DecodeBits(dtype, bits + 1).f;
      const double middle = (low + high) / 2;
      if (static_cast<float>(middle) != middle) continue;  // Below f32's own subnormals.
      const float f = static_cast<float>(middle);
      ASSERT_EQ(RoundToDType(dtype, middle), bits % 2 == 0 ? low : high)
          << DTypeName(dtype) << bits;
      ASSERT_EQ(RoundToDType(dtype, -middle), bits % 2 == 0 ? -low : -high);
      if (std::nextafter(f, 0.0f) > low) {
        ASSERT_EQ(RoundToDType(dtype, std::nextafter(f, 0.0f)), low) << DTypeName(dtype) << bits;
        ASSERT_EQ(RoundToDType(dtype, std::nextafter(f, INFINITY)), high)
            << DTypeName(dtype) << bits;
      }
    }
  }
}

TEST(ScalarTest, OverflowAndSpecialValues) {
  for (DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    const double half_ulp = UlpOf(dtype, kInf) / 2;
    EXPECT_EQ(RoundToDType(dtype, MaxFinite(dtype) + half_ulp), kInf) << DTypeName(dtype);
    EXPECT_EQ(RoundToDType(dtype, -MaxFinite(dtype) - half_ulp), -kInf) << DTypeName(dtype);
    EXPECT_EQ(RoundToDType(dtype, MaxFinite(dtype) + 0.99 * half_ulp), MaxFinite(dtype));
  }
  EXPECT_EQ(RoundToDType(DType::F8E4M3, 1e9), 448);
  EXPECT_EQ(RoundToDType(DType::F8E4M3, -kInf), -448);
  EXPECT_EQ(RoundToDType(DType::F8E5M2, 1e9), 57344);
  EXPECT_EQ(RoundToDType(DType::F8E5M2, -1e300), -kInf);  // Infinite in f32 already.
  EXPECT_EQ(RoundToDType(DType::F8E5M2, kInf), kInf);
  for (DType dtype : AllDTypes()) {
    if (!IsFloat(dtype)) continue;
    EXPECT_TRUE(std::isnan(RoundToDType(dtype, kNan))) << DTypeName(dtype);
    EXPECT_TRUE(std::signbit(RoundToDType(dtype, -0.0))) << DTypeName(dtype);
    EXPECT_TRUE(std::signbit(RoundToDType(dtype, -UlpOf(dtype, 0) / 4))) << DTypeName(dtype);
  }
}

TEST(ScalarTest, UlpIsTheDistanceToTheNextValue) {
  EXPECT_EQ(UlpOf(DType::F32, 1.0), 0x1p-23);
  EXPECT_EQ(UlpOf(DType::F32, 0.0), 0x1p-149);
  EXPECT_EQ(UlpOf(DType::F64, -1.0), 0x1p-52);
  EXPECT_EQ(UlpOf(DType::F16, 1024.0), 1.0);
  EXPECT_EQ(UlpOf(DType::BF16, kInf), 0x1p120);
  EXPECT_EQ(UlpOf(DType::F8E4M3, 448.0), 32.0);
  for (DType dtype : kSmallFloats) {
    for (uint64_t bits = 0; bits < EncodeBits(dtype, FloatScalar(MaxFinite(dtype))); ++bits) {
      const double value = DecodeBits(dtype, bits).f;
      ASSERT_EQ(value + UlpOf(dtype, value), DecodeBits(dtype, bits + 1).f) << DTypeName(dtype);
    }
  }
}

TEST(ScalarTest, IntegersWrap) {
  EXPECT_EQ(WrapToDType(DType::I8, 128), -128);
  EXPECT_EQ(WrapToDType(DType::U8, -1), 255);
  EXPECT_EQ(WrapToDType(DType::I16, 65535), -1);
  EXPECT_EQ(WrapToDType(DType::I32, int64_t{1} << 31), -(int64_t{1} << 31));
  EXPECT_EQ(WrapToDType(DType::Bool, 256), 1);
  EXPECT_EQ(MinInteger(DType::I16), -32768);
  EXPECT_EQ(MaxInteger(DType::I64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(MinInteger(DType::I64), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(MinInteger(DType::U8), 0);
  EXPECT_EQ(MaxInteger(DType::U8), 255);
}

TEST(ScalarTest, FloatsTruncateAndSaturateToIntegers) {
  const auto cast = [](DType to, double x) { return CastScalar(DType::F64, to, FloatScalar(x)).i; };
  EXPECT_EQ(cast(DType::I32, -1.99), -1);
  EXPECT_EQ(cast(DType::I32, 3e9), 2147483647);
  EXPECT_EQ(cast(DType::I32, -kInf), -2147483648LL);
  EXPECT_EQ(cast(DType::I64, 0x1p63), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(cast(DType::I64, -0x1p63), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(cast(DType::I64, 0x1.fffffffffffffp62), 0x7ffffffffffffc00);
  EXPECT_EQ(cast(DType::I8, 127.9), 127);
  EXPECT_EQ(cast(DType::U8, -0.5), 0);
  EXPECT_EQ(cast(DType::U8, 256), 255);
  for (DType to : {DType::I64, DType::I32, DType::I16, DType::I8, DType::U8}) {
    EXPECT_EQ(cast(to, kNan), 0) << DTypeName(to);
  }
  EXPECT_EQ(cast(DType::Bool, kNan), 1);
  EXPECT_EQ(cast(DType::Bool, -0.0), 0);
  EXPECT_EQ(cast(DType::Bool, 0.25), 1);
}

TEST(ScalarTest, IntegersRoundOnceToF32AndF64) {
  const auto cast = [](DType to, int64_t x) { return CastScalar(DType::I64, to, IntScalar(x)).f; };
  // Halfway in f32 but for the last bit, which f64 loses.
  const int64_t tricky = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  EXPECT_EQ(cast(DType::F32, tricky), 0x1.000002p60);
  EXPECT_EQ(cast(DType::F64, tricky), 0x1.000001p60);
  EXPECT_EQ(cast(DType::F16, 100000), kInf);
  EXPECT_EQ(cast(DType::F8E4M3, -100000), -448);
  EXPECT_EQ(CastScalar(DType::Bool, DType::BF16, IntScalar(1)).f, 1);
  EXPECT_EQ(CastScalar(DType::I32, DType::Bool, IntScalar(256)).i, 1);
  EXPECT_EQ(CastScalar(DType::I64, DType::U8, IntScalar(-2)).i, 254);
}

TEST(ScalarTest, LoadAndStoreEveryDTypeAtAnyStride) {
  std::mt19937_64 random(1);
  for (DType dtype : AllDTypes()) {
    const int bytes = DTypeBytes(dtype);
    for (ptrdiff_t stride :
         {static_cast<ptrdiff_t>(bytes), static_cast<ptrdiff_t>(bytes * 2 + 1)}) {
      constexpr size_t kCount = 33;
      std::vector<char> memory(kCount * static_cast<size_t>(stride) + 1), copy;
      for (char& c : memory) c = static_cast<char>(random());
      std::vector<Scalar> values(kCount);
      LoadScalars(dtype, memory.data() + 1, stride, values.data(), kCount);
      for (size_t i = 0; i < kCount; ++i) {
        uint64_t bits = 0;
        std::memcpy(&bits, memory.data() + 1 + i * static_cast<size_t>(stride),
                    static_cast<size_t>(bytes));
        const Scalar expected = DecodeBits(dtype, bits);
        if (IsFloat(dtype) && expected.f != expected.f) {
          EXPECT_TRUE(std::isnan(values[i].f));
          values[i].f = 0;
        } else {
          EXPECT_EQ(values[i].i, expected.i) << DTypeName(dtype);  // All the bits of a double too.
        }
      }
      copy = memory;
      StoreScalars(dtype, values.data(), copy.data() + 1, stride, kCount);
      std::vector<Scalar> again(kCount);
      LoadScalars(dtype, copy.data() + 1, stride, again.data(), kCount);
      for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(again[i].i, values[i].i) << DTypeName(dtype);
      // Nothing between the elements was touched.
      for (size_t i = 0; i + 1 < kCount; ++i) {
        for (ptrdiff_t gap = bytes; gap < stride; ++gap) {
          const size_t at = 1 + i * static_cast<size_t>(stride) + static_cast<size_t>(gap);
          EXPECT_EQ(copy[at], memory[at]) << DTypeName(dtype);
        }
      }
    }
  }
}

}  // namespace
}  // namespace seam
