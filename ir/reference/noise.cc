#include "ir/reference/noise.h"

#include <bit>
#include <cmath>

#include "ir/ops.h"

namespace seam::reference {

bool Noise::Coin(uint64_t result) {
  if (mode_ == Perturbation::kPattern) {
    // The rows of a Hadamard matrix: columns 1..7 are balanced, and so is any pair of them.
    static_assert(kNumPatterns == 8);
    return std::popcount(seed_ & (1 + result % (kNumPatterns - 1))) % 2 == 0;
  }
  return (Next() & 1) != 0;
}

int Noise::Pick(int n) {
  const uint64_t bits = mode_ == Perturbation::kPattern ? seed_ + result_ : Next();
  return static_cast<int>(bits % static_cast<uint64_t>(n));
}

// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 (SplitMix64).
uint64_t Noise::Next() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double Noise::Move(double value, double bound) {
  if (!active() || !std::isfinite(value) || !std::isfinite(bound)) return value;
  if (mode_ == Perturbation::kAnywhere) {
    // Zero is where operations jump: what may be it is it in some runs.
    if (value != 0 && std::fabs(value) < bound && Coin()) return 0;
    return value + bound * (static_cast<double>(static_cast<int64_t>(Next())) * 0x1p-63);
  }
  return Coin() ? value + bound : value - bound;
}

double Noise::MoveRounding(double value, double bound) {
  return Coin(rounding_) ? value + bound : value - bound;
}

std::vector<bool> InexactValues(const Fusion& fusion) {
  std::vector<bool> inexact(fusion.num_vals(), false);
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    const ExprId e(i);
    const OpInfo& op = fusion.info(e);
    const bool accumulates = op.kind == OpKind::Sum || op.kind == OpKind::Prod ||
                             op.op_class == OpClass::Welford || op.op_class == OpClass::Library;
    bool result = op.max_ulps > 0 || (accumulates && IsFloat(fusion.dtype(fusion.result(e))));
    for (ValId operand : fusion.operands(e)) result = result || inexact[operand.index()];
    for (int r = 0; r < fusion.num_results(e); ++r) inexact[fusion.result(e, r).index()] = result;
  }
  return inexact;
}

}  // namespace seam::reference
