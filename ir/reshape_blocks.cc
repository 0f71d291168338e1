#include "ir/reshape_blocks.h"

#include <algorithm>
#include <utility>

namespace seam {
namespace {

constexpr size_t kMostParts = 4;

// Dimensions of more than one element.
struct Dims {
  explicit Dims(absl::Span<const SymInt> all) {
    for (size_t d = 0; d < all.size(); ++d) {
      if (all[d].is_same(1)) continue;
      index.push_back(d);
      extents.push_back(all[d]);
    }
  }
  size_t size() const { return index.size(); }
  absl::InlinedVector<size_t, 8> index;
  absl::InlinedVector<SymInt, 8> extents;
};

// Whether one of the parts is what the others divide `whole` into.
bool IsCutInto(SymInt whole, absl::Span<const SymInt> parts) {
  if (parts.size() == 1) return ProvablyEqual(whole, parts[0]);
  for (size_t i = 0; i < parts.size(); ++i) {
    SymInt others = 1;
    for (size_t j = 0; j < parts.size(); ++j) {
      if (j != i) others *= parts[j];
    }
    if (!others.is_valid() || others == SymInt(0)) return false;
    if (FloorDiv(whole, others).is_same(parts[i])) return true;
  }
  return false;
}

}  // namespace

std::vector<ReshapeBlock> CutBlocks(absl::Span<const SymInt> from, absl::Span<const SymInt> to) {
  Dims wholes(from), parts(to);
  const bool joins = wholes.size() > parts.size();
  if (joins) std::swap(wholes, parts);
  std::vector<ReshapeBlock> blocks;
  size_t at = 0;
  for (size_t i = 0; i < wholes.size(); ++i) {
    const SymInt whole = wholes.extents[i];
    if (whole == SymInt(0)) return {};
    const size_t most = std::min(kMostParts, parts.size() - at);
    size_t n = 1;
    while (n <= most && !IsCutInto(whole, absl::MakeConstSpan(parts.extents).subspan(at, n))) ++n;
    if (n > most) return {};
    ReshapeBlock& block = blocks.emplace_back();
    block.from = {wholes.index[i]};
    block.to.assign(parts.index.begin() + at, parts.index.begin() + at + n);
    if (joins) std::swap(block.from, block.to);
    at += n;
  }
  if (at != parts.size()) blocks.clear();
  return blocks;
}

}  // namespace seam
