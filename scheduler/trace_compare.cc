// Comparisons of an index, in 32 bits where it has no more: with another such index, or with a
// number that a row's columns have alike, a class or a position. This one is first taken to the
// nearest number of 32 bits that compares alike with all indices; once a row, where 64 bits would
// cost each column three instructions instead of one.
//
//   index < n   ->   int32(index) < int32(clamp(n, -1, 2^31 - 1)),  0 <= index <= 2^31 - 2
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/tracer.h"

namespace seam {

using kernel::TileId;
using kernel::TileKind;
using kernel::TileValue;

namespace {

constexpr int64_t kBelow = -1, kAbove = std::numeric_limits<int32_t>::max();

bool Compares(OpKind op) {
  switch (op) {
    case OpKind::Eq:
    case OpKind::Ne:
    case OpKind::Lt:
    case OpKind::Le:
    case OpKind::Gt:
    case OpKind::Ge:
      return true;
    default:
      return false;
  }
}

bool IsNarrowIndex(const TileValue& v) {
  if (v.kind != TileKind::Index || v.dtype != DType::I64) return false;
  const SymRange range = RangeOf(v.index);
  return range.lo > kBelow && range.hi < kAbove;
}

}  // namespace

TileId Tracer::Compare(OpKind op, std::vector<TileId> operands) {
  const auto narrow = [&](TileId id) { return IsNarrowIndex(tile_.values[id]); };
  if (!Compares(op) || absl::c_none_of(operands, narrow))
    return Map(op, DType::Bool, std::move(operands));
  const std::vector<bool> varies = kernel::VaryingWithColumn(tile_);
  const bool columns = absl::c_any_of(
      tile_.spaces, [](const kernel::TileSpace& space) { return space.column.is_symbolic(); });
  const auto alike = [&](TileId id) {
    return columns && tile_.values[id].dtype == DType::I64 && !varies[id];
  };
  const auto in_32_bits = [&](TileId id) {
    if (narrow(id)) return IndexOf(tile_.values[id].index, DType::I32);
    const TileId below = Constant(DType::I64, IntScalar(kBelow));
    const TileId above = Constant(DType::I64, IntScalar(kAbove));
    const TileId least = Map(OpKind::Maximum, DType::I64, {id, below});
    return Cast(Map(OpKind::Minimum, DType::I64, {least, above}), DType::I32);
  };
  if (absl::c_all_of(operands, [&](TileId id) { return narrow(id) || alike(id); })) {
    for (TileId& id : operands) id = in_32_bits(id);
  }
  return Map(op, DType::Bool, std::move(operands));
}

}  // namespace seam
