// Random numbers as a pure function of (seed, offset, logical index): the same on the host, in the
// simulator and on the GPU, whatever kernel computes them.
//
// The generator is Philox 4x32 with 10 rounds: key = seed, counter = (block, offset), each 64 bits
// split into (low, high) words, giving four 32-bit lanes.
//  * Uniform over [0, 1). f64: block = index / 2, the top 53 bits of lanes (2k, 2k+1), k = index %
//  2, lane 2k
//    low. Other floats of p significand digits: block = index / 4, the top p bits of lane index
//    % 4. Either way a multiple of 2^-p below 1, exactly representable.
//  * Normal, by Box-Muller: sqrt(-2 ln u) * cos(2 pi v) for even indices, sin for odd ones, with
//    u = (bits + 1) / 2^p and v = bits / 2^p. f64: block = index / 2, u from lanes (0, 1) and v
//    from lanes (2, 3), p = 53. Other floats: block = index / 4, u from lane 2k and v from lane 2k
//    + 1, k = index % 4 / 2, p = 24, computed in f32.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "ir/dtype.h"
#include "ir/scalar.h"

namespace seam {

inline std::array<uint32_t, 4> Philox4x32(uint64_t block, uint64_t offset, uint64_t seed) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(offset), c3 = static_cast<uint32_t>(offset >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// An element of random_uniform; exact.
inline double RandomUniformValue(DType dtype, int64_t seed, int64_t offset, int64_t index) {
  const uint64_t i = static_cast<uint64_t>(index);
  const uint64_t s = static_cast<uint64_t>(seed), o = static_cast<uint64_t>(offset);
  if (dtype == DType::F64) {
    const auto lanes = Philox4x32(i / 2, o, s);
    const uint64_t bits = uint64_t{lanes[2 * (i % 2) + 1]} << 32 | lanes[2 * (i % 2)];
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }
  const int digits = SignificandBits(dtype);
  return std::ldexp(static_cast<double>(Philox4x32(i / 4, o, s)[i % 4] >> (32 - digits)), -digits);
}

// An element of random_normal, in double before rounding to `dtype`.
inline double RandomNormalValue(DType dtype, int64_t seed, int64_t offset, int64_t index) {
  const uint64_t i = static_cast<uint64_t>(index);
  const uint64_t s = static_cast<uint64_t>(seed), o = static_cast<uint64_t>(offset);
  double u, v;
  if (dtype == DType::F64) {
    const auto lanes = Philox4x32(i / 2, o, s);
    u = static_cast<double>(((uint64_t{lanes[1]} << 32 | lanes[0]) >> 11) + 1) * 0x1p-53;
    v = static_cast<double>((uint64_t{lanes[3]} << 32 | lanes[2]) >> 11) * 0x1p-53;
  } else {
    const auto lanes = Philox4x32(i / 4, o, s);
    u = static_cast<double>((lanes[i % 4 / 2 * 2] >> 8) + 1) * 0x1p-24;
    v = static_cast<double>(lanes[i % 4 / 2 * 2 + 1] >> 8) * 0x1p-24;
  }
  // The angle less its nearest multiple of a quarter turn, exactly; an odd index is a quarter turn
  // behind.
  const double quarter = std::nearbyint(4 * v);
  const double angle = (v - quarter / 4) * 6.283185307179586;
  const int turn = (static_cast<int>(quarter) + (i % 2 == 1 ? 3 : 0)) % 4;
  const double wave = turn == 0   ? std::cos(angle)
                      : turn == 1 ? -std::sin(angle)
                      : turn == 2 ? -std::cos(angle)
                                  : std::sin(angle);
  return std::sqrt(-2 * std::log(u)) * wave;
}

}  // namespace seam
