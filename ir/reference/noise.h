// What the reference's own rounding may do to a result: in some runs inexact results are moved
// within their bounds, so that the range of all runs holds what any order of rounding gives.
//
// Thread-safety: an object is one thread's.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/reference/interpreter.h"

namespace seam::reference {

// Moves inexact results within their bounds.
class Noise {
 public:
  Noise(Perturbation mode, uint64_t seed) : mode_(mode), seed_(seed), state_(seed) {}
  bool active() const { return mode_ != Perturbation::kNone; }
  // Called before the elements of each inexact result.
  void NextResult() { ++result_; }
  // Called before those of each exact result that is rounded anew. Patterns count both by
  // themselves: they stay the same for inexact results, however many others lie between.
  void NextRounding() { ++rounding_; }
  // value + bound, value - bound or, by the mode, a value between; `value` if it is not finite.
  double Move(double value, double bound);
  // The same for what only its rounding moves, at one of the ends.
  double MoveRounding(double value, double bound);
  bool Coin() { return Coin(result_); }  // One of two ways.
  int Pick(int n);                       // One of n.

 private:
  bool Coin(uint64_t result);
  uint64_t Next();  // Random bits.

  const Perturbation mode_;
  const uint64_t seed_;
  uint64_t state_;
  uint64_t result_ = 0, rounding_ = 0;
};

// For every value, whether something inexact leads to it: whether noise moves it.
std::vector<bool> InexactValues(const Fusion& fusion);

}  // namespace seam::reference
