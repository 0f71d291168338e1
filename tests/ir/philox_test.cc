// The generator against its authors' known answers, and the distributions.
#include "ir/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace seam {
namespace {

// Source: known-answer vectors of the Random123 library, philox4x32 with 10 rounds.
TEST(PhiloxTest, KnownAnswers) {
  using Lanes = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox4x32(0, 0, 0), (Lanes{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (Lanes{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822),
            (Lanes{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformStaysBelowOneAndFitsTheDType) {
  for (DType dtype :
       {DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    const int n = 20000;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const double u = RandomUniformValue(dtype, 42, 7, i);
      ASSERT_GE(u, 0);
      ASSERT_LT(u, 1);
      ASSERT_EQ(RoundToDType(dtype, u), u) << DTypeName(dtype);
      sum += u;
      squares += u * u;
    }
    // Multiples of 2^-p average half a step below 1/2.
    const double mean = 0.5 - std::ldexp(0.5, -SignificandBits(dtype));
    EXPECT_NEAR(sum / n, mean, 0.01) << DTypeName(dtype);
    EXPECT_NEAR(squares / n - mean * mean, 1.0 / 12, 0.005) << DTypeName(dtype);
  }
}

TEST(PhiloxTest, NormalHasTheRightMomentsAndNoCorrelationInPairs) {
  for (DType dtype : {DType::F64, DType::F32}) {
    const int n = 40000;
    double sum = 0, squares = 0, fourth = 0, product = 0;
    for (int i = 0; i < n; i += 2) {
      const double a = RandomNormalValue(dtype, -3, 1, i),
                   b = RandomNormalValue(dtype, -3, 1, i + 1);
      ASSERT_TRUE(std::isfinite(a) && std::isfinite(b));
      sum += a + b;
      squares += a * a + b * b;
      fourth += a * a * a * a + b * b * b * b;
      product += a * b;
    }
    EXPECT_NEAR(sum / n, 0, 0.02);
    EXPECT_NEAR(squares / n, 1, 0.03);
    EXPECT_NEAR(fourth / n, 3, 0.2);
    EXPECT_NEAR(product / n, 0, 0.02);
  }
}

TEST(PhiloxTest, SeedOffsetAndIndexAllMatter) {
  const double u = RandomUniformValue(DType::F64, 1, 2, 3);
  EXPECT_NE(RandomUniformValue(DType::F64, 2, 2, 3), u);
  EXPECT_NE(RandomUniformValue(DType::F64, 1, 3, 3), u);
  EXPECT_NE(RandomUniformValue(DType::F64, 1, 2, 2), u);
  EXPECT_NE(RandomUniformValue(DType::F64, 1 + (int64_t{1} << 32), 2, 3), u);
  EXPECT_NE(RandomUniformValue(DType::F64, 1, 2 + (int64_t{1} << 32), 3), u);
  EXPECT_NE(RandomUniformValue(DType::F64, 1, 2, 3 + (int64_t{1} << 33)), u);
}

}  // namespace
}  // namespace seam
