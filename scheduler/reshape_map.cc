#include "scheduler/reshape_map.h"

#include <vector>

#include "ir/reshape_blocks.h"

namespace seam {
namespace {

SymInt Radix(SymInt extent) { return extent.is_constant() ? Max(extent, 1) : extent; }

// The next dimension of more than one element: the index of others is 0, in no block.
size_t SkipOnes(const SymVector& extents, size_t i) {
  while (i < extents.size() && extents[i].is_same(1)) ++i;
  return i;
}

std::vector<ReshapeBlock> BlocksOf(const SymVector& from, const SymVector& to) {
  std::vector<ReshapeBlock> blocks = CutBlocks(from, to);
  if (!blocks.empty()) return blocks;
  size_t f = SkipOnes(from, 0), t = SkipOnes(to, 0);
  while (f < from.size() || t < to.size()) {
    // The smallest block with equal products. One that never closes takes all that is left.
    ReshapeBlock& block = blocks.emplace_back();
    SymInt have = 1, want = 1;
    const auto take_from = [&] {
      have *= from[f];
      block.from.push_back(f);
      f = SkipOnes(from, f + 1);
    };
    const auto take_to = [&] {
      want *= to[t];
      block.to.push_back(t);
      t = SkipOnes(to, t + 1);
    };
    if (f < from.size()) take_from();
    if (t < to.size()) take_to();
    while ((f < from.size() || t < to.size()) && !ProvablyEqual(have, want)) {
      if (f < from.size() && (t == to.size() || ProvablyLe(have, want))) {
        take_from();
      } else {
        take_to();
      }
    }
  }
  return blocks;
}

}  // namespace

SymVector MapReshape(const SymVector& from, const SymVector& to, const SymVector& index) {
  SymVector at(from.size(), SymInt(0));
  for (const ReshapeBlock& block : BlocksOf(from, to)) {
    SymInt linear = 0, stride = 1;
    for (size_t i : block.to) linear = linear * Radix(to[i]) + index[i];
    for (size_t i = block.from.size(); i-- > 0;) {
      const size_t d = block.from[i];
      const SymInt quotient = FloorDiv(linear, stride), extent = Radix(from[d]);
      at[d] = i == 0 ? quotient : Mod(quotient, extent);
      stride *= extent;
    }
  }
  return at;
}

}  // namespace seam
