// The emitted text of every operation, run on the CPU: the kernels that write_kernels.cc wrote are
// compiled here as C++, with CUDA's keywords empty and its intrinsics written out, and must give
// what the reference gives. So the spelling is checked, for the oldest architecture, where there is
// no GPU. (ops_on_device_test.cc does the rest.)
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "ir/scalar.h"
#include "tests/support/op_samples.h"

namespace {

struct Coordinate {
  long long x = 0;
};
Coordinate blockIdx, blockDim, threadIdx;

#define __device__
#define __global__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __CUDA_ARCH__ 750

struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<long long>(high) << 32 | static_cast<unsigned>(low));
}
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
  return bits == 0 ? low : low >> bits | high << (32 - bits);
}
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
// The host's cube root of a double errs by several units in the last place; CUDA's by one.
inline double cbrt(double x) { return static_cast<double>(cbrtl(x)); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
// Truncation that saturates, as the instructions do; NaN is kept from them.
template <typename Integer, typename Float>
Integer Truncate(Float x) {
  const Float limit = std::ldexp(Float{1}, 8 * sizeof(Integer) - 1);
  if (x >= limit) return std::numeric_limits<Integer>::max();
  return x < -limit ? std::numeric_limits<Integer>::min() : static_cast<Integer>(x);
}
inline int __float2int_rz(float x) { return Truncate<int>(x); }
inline int __double2int_rz(double x) { return Truncate<int>(x); }
inline long long __float2ll_rz(float x) { return Truncate<long long>(x); }
inline long long __double2ll_rz(double x) { return Truncate<long long>(x); }
// The two conversions that are instructions on every architecture.
inline unsigned short seam_f16_bits(float x) {
  return static_cast<unsigned short>(seam::EncodeBits(seam::DType::F16, seam::FloatScalar(x)));
}
inline float seam_f16_value(unsigned short x) {
  return static_cast<float>(seam::DecodeBits(seam::DType::F16, x).f);
}

using SampleKernelFunction = void(const void*, const void*, const void*, void*, long long);
#include "op_kernels.inc"

// Whether `got` is right where the table allows `max_ulps`. The host's own functions of f32 and f64
// err by up to a unit too, and so does the reference in f64.
bool IsRight(seam::DType dtype, double max_ulps, seam::Scalar got, seam::Scalar want) {
  if (!seam::IsFloat(dtype)) return got.i == want.i;
  if (got.f != got.f || want.f != want.f) return got.f != got.f && want.f != want.f;
  if (max_ulps == 0) return got.f == want.f && std::signbit(got.f) == std::signbit(want.f);
  return got.f == want.f ||
         std::fabs(got.f - want.f) <= (max_ulps + 1) * seam::UlpOf(dtype, want.f);
}

TEST(SpellingOnHost, EveryOperationOnEveryDType) {
  const std::vector<seam::testing::OpSample> samples = seam::testing::AllOpSamples();
  ASSERT_EQ(samples.size(), std::size(kKernels));
  blockDim.x = 256;
  for (size_t k = 0; k < samples.size(); ++k) {
    const seam::testing::OpSample& sample = samples[k];
    const size_t n = sample.operands[0].size();
    std::vector<std::vector<char>> operands(3);
    for (size_t j = 0; j < sample.operands.size(); ++j) {
      const int bytes = seam::DTypeBytes(sample.operand_dtypes[j]);
      operands[j].resize(n * static_cast<size_t>(bytes));
      seam::StoreScalars(sample.operand_dtypes[j], sample.operands[j].data(), operands[j].data(),
                         bytes, n);
    }
    const int bytes = seam::DTypeBytes(sample.out);
    std::vector<char> result(n * static_cast<size_t>(bytes));
    for (size_t i = 0; i < n; ++i) {
      blockIdx.x = static_cast<long long>(i / 256);
      threadIdx.x = static_cast<long long>(i % 256);
      kKernels[k](operands[0].data(), operands[1].data(), operands[2].data(), result.data(),
                  static_cast<long long>(n));
    }
    std::vector<seam::Scalar> got(n);
    seam::LoadScalars(sample.out, result.data(), bytes, got.data(), n);
    const std::vector<seam::Scalar> want = sample.Reference();
    const double max_ulps = seam::GetOpInfo(sample.kind).max_ulps;
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!IsRight(sample.out, max_ulps, got[i], want[i]) && wrong++ == 0) first = i;
    }
    EXPECT_EQ(wrong, 0u) << sample.Name() << ", the first at sample " << first;
  }
}

// In its ranges a quotient by a shared divisor is that of the division, to the last bit, zeros'
// signs included; what it says of ranges is exact.
TEST(SharedDivisor, QuotientsAreTheDivisions) {
  const auto flagged = [](float a) { return std::fabs(a) >= 0x1p-100f && std::fabs(a) < 0x1p100f; };
  uint64_t state = 1;
  const auto next = [&] {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<unsigned>(state >> 32);
  };
  // Significands at the ends of their range and anywhere.
  const auto draw = [&](int low, int high) {
    const unsigned end = next() % 8;
    const unsigned significand = end == 0 ? next() % 4 : end == 1 ? 0x7fffff - next() % 4 : next();
    const int exponent = low + static_cast<int>(next() % static_cast<unsigned>(high - low));
    const float x = std::bit_cast<float>(0x3f800000 | (significand & 0x7fffff));
    return std::ldexp(next() % 2 ? x : -x, exponent);
  };
  for (int i = 0; i < 300000; ++i) {
    const float a = draw(-100, 100), b = std::fabs(draw(-26, 26));
    bool exact = seam_divides(b);
    const float quotient = seam_quotient(a, b, exact);
    ASSERT_TRUE(exact) << a << " / " << b;
    ASSERT_EQ(quotient, a / b) << a << " / " << b;
    for (const float c : {b, -b}) {
      exact = seam_divides_signed(c);
      const float of_signed = seam_quotient_signed(a, c, exact);
      ASSERT_TRUE(exact) << a << " / " << c;
      ASSERT_EQ(of_signed, a / c) << a << " / " << c;
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float a : {0.0f, -0.0f, 1e-45f, 0x1p-100f, 0x1.fffffep-101f, -0x1.fffffep99f, 0x1p100f,
                        -infinity, infinity, infinity - infinity}) {
    for (const float b : {3.0f, 0x1.8p25f, 0x1p-26f}) {
      bool exact = seam_divides(b);
      const float quotient = seam_quotient(a, b, exact);
      EXPECT_EQ(exact, flagged(a) || a == 0) << a << " / " << b;
      if (exact) EXPECT_EQ(std::bit_cast<unsigned>(quotient), std::bit_cast<unsigned>(a / b));
      for (const float c : {b, -b}) {
        exact = seam_divides_signed(c);
        const float of_signed = seam_quotient_signed(a, c, exact);
        EXPECT_EQ(exact, flagged(a) || a == 0) << a << " / " << c;
        if (exact) EXPECT_EQ(std::bit_cast<unsigned>(of_signed), std::bit_cast<unsigned>(a / c));
      }
    }
  }
  for (const float b : {0.0f, -0.0f, 1e-45f, 0x1.fffffep-27f, 0x1p26f, infinity, -infinity, -3.0f})
    EXPECT_FALSE(seam_divides(b)) << b;
  EXPECT_FALSE(seam_divides(infinity - infinity));
  for (const float b :
       {0.0f, -0.0f, -1e-45f, -0x1.fffffep-27f, -0x1p26f, -infinity, infinity - infinity}) {
    EXPECT_FALSE(seam_divides_signed(b)) << b;
  }
}

// Vectors of `Storage` that start anywhere, up to the last element that there is.
template <typename Storage, typename Kernel>
void CopyUnaligned(Kernel kernel, int width, Storage minus_one, bool inside = false) {
  alignas(16) std::array<Storage, 70> x;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<Storage>(i + 1);
  for (long long s = 0; s < 9; ++s) {
    std::vector<Storage> y(32 * static_cast<size_t>(width));
    for (threadIdx.x = 0; threadIdx.x < 32; ++threadIdx.x)
      kernel(x.data(), y.data(), s, static_cast<long long>(x.size()));
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t end = static_cast<size_t>(s) + (i / width + (inside ? 2 : 1)) * width;
      ASSERT_EQ(y[i], end <= x.size() ? x[static_cast<size_t>(s) + i] : minus_one)
          << "element " << i << " from " << s;
    }
  }
}

TEST(UnalignedLoads, StartAnywhere) {
  CopyUnaligned<unsigned short>(unaligned_bf16::copy, 8, 0xbf80);
  CopyUnaligned<float>(unaligned_f32::copy, 4, -1);
  CopyUnaligned<double>(unaligned_f64::copy, 2, -1);
  CopyUnaligned<unsigned short>(inside_bf16::copy, 8, 0xbf80, true);
  CopyUnaligned<float>(inside_f32::copy, 4, -1, true);
  CopyUnaligned<double>(inside_f64::copy, 2, -1, true);
  CopyUnaligned<float>([](const float* x, float* y, long long s,
                          long long n) { inside_f32_beside_narrower::copy(x, y, nullptr, s, n); },
                       4, -1, true);
}

}  // namespace
