// What a row that stays in registers keeps of itself between its passes: inputs, or values computed
// from them, whichever is cheapest.
//
//   pass 0:  m = amax(x)              between 0 and 1:  x, 16 bits
//   pass 1:  s = sum(exp(x - m))      between 1 and 2:  exp(x - m), 32 bits, and x no more
//   pass 2:  store exp(x - m) / s
//
// Between each two passes a minimum cut of the values that later passes need: a value is kept, for
// its registers, or computed again in each of them, for its instructions and what it needs itself.
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// As many elements of a narrow type a thread holds unpacked: unpacking them in every pass costs
// more than their registers.
inline constexpr int kUnpacked = 16;

// A thread's registers for kept values that leave room for as many threads as hide latency.
inline constexpr double kMostKeptWords = 40;

// What a thread has to keep them in.
struct HoldLimits {
  explicit HoldLimits(int points) : points(points), unpacked(points <= kUnpacked) {}
  int points;     // Of a row that it has.
  bool unpacked;  // Elements of a narrow type are kept as the numbers that they are.
  double words = kMostKeptWords;
};

struct Holds {
  // Per tile value: computed, not loaded, and kept from the pass that first computes it. Loads stay
  // where they are needed in any case.
  std::vector<bool> computed;
  double words = 0;  // The most 32-bit registers that what is kept of a point takes.
};

// `resident` says of which spaces rows stay in registers. Where the cheapest choice takes more than
// the limit's words, it is the one that takes the fewest. Polynomial in the values of one space;
// for more than kMostHoldValues of them nothing computed is kept.
Holds ChooseHolds(const TileKernel& tile, const std::vector<bool>& resident,
                  const HoldLimits& limits);

inline constexpr int kMostHoldValues = 2000;

// One line: "kept between passes: %7 = add(%3, %6)"; empty where there is nothing.
std::string PrintHolds(const TileKernel& tile, const Holds& holds);

}  // namespace seam::kernel
