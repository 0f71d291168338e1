#include "scheduler/kernel/products.h"

#include <vector>

namespace seam::kernel {

void SumProducts(TileKernel& tile) {
  std::vector<bool> read(tile.values.size());  // By anything but such a sum.
  for (const TileValue& value : tile.values)
    for (TileId id : value.operands) read[id] = true;
  for (const TileLet& let : tile.lets) read[let.value] = true;
  for (const TileStore& store : tile.stores) read[store.value] = true;
  const auto sums = [](const TileReduction& r) {
    return r.op == OpKind::Sum && IsFloat(r.dtype) && !r.merge && !r.products;
  };
  for (const TileReduction& r : tile.reductions) {
    if (!sums(r))
      for (TileId id : r.operands) read[id] = true;
  }
  for (TileReduction& r : tile.reductions) {
    if (!sums(r) || read[r.operands[0]]) continue;
    const TileValue& value = tile.values[r.operands[0]];
    if (value.kind != TileKind::Map || value.op != OpKind::Mul || value.dtype != r.dtype) continue;
    r.operands = value.operands;
    r.products = true;
  }
}

}  // namespace seam::kernel
