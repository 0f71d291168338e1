// Random choices that are the same for the same seed everywhere, unlike the distributions of
// <random>.
#pragma once

#include <cstdint>
#include <vector>

namespace seam::testing {

// Splitmix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int Below(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }
  bool Chance(double p) { return static_cast<double>(Next() >> 11) * 0x1.0p-53 < p; }
  template <typename T>
  const T& Of(const std::vector<T>& list) {
    return list[Below(static_cast<int>(list.size()))];
  }

 private:
  uint64_t state_;
};

}  // namespace seam::testing
