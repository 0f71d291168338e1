#include "scheduler/reshape_map.h"

#include <vector>

#include "ir/reshape_blocks.h"

namespace seam {
namespace {

SymInt Radix(SymInt extent) { return extent.is_constant() ? Max(extent, 1) : extent; }

// Dimensions that have their elements among themselves.
struct Block {
  std::vector<size_t> from, to;
};

// Those of more than one element: the index of others is 0.
std::vector<size_t> LongOnes(const SymVector& extents) {
  std::vector<size_t> list;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (!extents[i].is_same(1)) list.push_back(i);
  }
  return list;
}

std::vector<Block> BlocksOf(const SymVector& from_extents, const SymVector& to_extents) {
  const std::vector<size_t> from = LongOnes(from_extents), to = LongOnes(to_extents);
  const auto at = [](const SymVector& extents, const std::vector<size_t>& dims) {
    SymVector list;
    for (size_t d : dims) list.push_back(extents[d]);
    return list;
  };
  const SymVector have = at(from_extents, from), want = at(to_extents, to);
  const auto slice = [](const std::vector<size_t>& dims, size_t begin, size_t end) {
    return std::vector<size_t>(dims.begin() + static_cast<int64_t>(begin),
                               dims.begin() + static_cast<int64_t>(end));
  };
  std::vector<Block> blocks;
  const bool joins = from.size() > to.size();
  size_t begin = 0;
  for (size_t end : joins ? PartsOfEach(want, have) : PartsOfEach(have, want)) {
    const size_t i = blocks.size();
    blocks.push_back(joins ? Block{slice(from, begin, end), slice(to, i, i + 1)}
                           : Block{slice(from, i, i + 1), slice(to, begin, end)});
    begin = end;
  }
  if (!blocks.empty()) return blocks;
  size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    // The smallest block with equal products. One that never closes takes all that is left.
    const size_t f_begin = f, t_begin = t;
    SymInt from_product = 1, to_product = 1;
    if (f < from.size()) from_product = have[f++];
    if (t < to.size()) to_product = want[t++];
    while (!ProvablyEqual(from_product, to_product)) {
      const bool take_from =
          t == to.size() || (f < from.size() && ProvablyLe(from_product, to_product));
      if (take_from && f < from.size()) {
        from_product *= have[f++];
      } else if (t < to.size()) {
        to_product *= want[t++];
      } else {
        break;
      }
    }
    blocks.push_back({slice(from, f_begin, f), slice(to, t_begin, t)});
  }
  return blocks;
}

}  // namespace

SymVector MapReshape(const SymVector& from, const SymVector& to, const SymVector& index) {
  SymVector at(from.size(), SymInt(0));
  for (const Block& block : BlocksOf(from, to)) {
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
