#include "scheduler/kernel/contract.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/loose.h"

namespace seam::kernel {
namespace {

bool IsMap(const TileValue& v, OpKind op) { return v.kind == TileKind::Map && v.op == op; }

// Whether each value is another one at another column.
std::vector<bool> FindPoints(const TileKernel& tile) {
  std::vector<bool> points(tile.values.size());
  for (size_t id = 0; id < points.size(); ++id) {
    const TileValue& v = tile.values[id];
    const auto of_column = [&](const TileSpace& space) {
      return space.column.is_symbolic() &&
             (DependsOn(v.index, space.column) || DependsOn(v.predicate, space.column));
    };
    points[id] = absl::c_any_of(tile.spaces, of_column) ||
                 absl::c_any_of(v.operands, [&](TileId operand) { return points[operand]; }) ||
                 absl::c_any_of(v.lets, [&](int let) { return points[tile.lets[let].value]; });
  }
  return points;
}

std::vector<int> CountReaders(const TileKernel& tile) {
  std::vector<int> readers(tile.values.size());
  for (const TileValue& value : tile.values)
    for (TileId id : value.operands) ++readers[id];
  for (const TileLet& let : tile.lets) ++readers[let.value];
  for (const TileReduction& r : tile.reductions)
    for (TileId id : r.operands) ++readers[id];
  for (const TileStore& store : tile.stores) ++readers[store.value];
  return readers;
}

}  // namespace

void ContractProducts(TileKernel& tile) {
  const std::vector<bool> inexact = FindInexact(tile), points = FindPoints(tile);
  const std::vector<int> readers = CountReaders(tile);
  // Which operand is the product, of what is to be contracted; and the products, which then go.
  std::vector<int> product(tile.values.size(), -1);
  std::vector<bool> gone(tile.values.size());
  for (size_t id = 0; id < tile.values.size(); ++id) {
    const TileValue& v = tile.values[id];
    const bool sums = IsMap(v, OpKind::Add) || IsMap(v, OpKind::Sub);
    const bool wide = v.dtype == DType::F32 || v.dtype == DType::F64;
    if (!sums || !wide || !inexact[id] || !points[id]) continue;
    const auto is_product = [&](int k) { return IsMap(tile.values[v.operands[k]], OpKind::Mul); };
    if (is_product(0) == is_product(1)) continue;
    const int k = is_product(0) ? 0 : 1;
    if (readers[v.operands[k]] > 1) continue;
    product[id] = k;
    gone[v.operands[k]] = true;
  }

  std::vector<TileValue> old = std::exchange(tile.values, {});
  std::vector<TileId> renamed(old.size(), -1);
  const auto add = [&](TileValue value) {
    tile.values.push_back(std::move(value));
    return static_cast<TileId>(tile.values.size()) - 1;
  };
  const auto negated = [&](TileId id) {
    TileValue value;
    value.kind = TileKind::Map;
    value.dtype = tile.values[id].dtype;
    value.op = OpKind::Neg;
    value.operands = {id};
    return add(std::move(value));
  };
  for (size_t id = 0; id < old.size(); ++id) {
    if (gone[id]) continue;
    TileValue& v = old[id];
    for (TileId& operand : v.operands)
      if (!gone[operand]) operand = renamed[operand];
    if (const int k = product[id]; k >= 0) {
      const TileValue& mul = old[v.operands[k]];
      std::vector<TileId> factors = {renamed[mul.operands[0]], renamed[mul.operands[1]]};
      TileId rest = v.operands[1 - k];
      if (v.op == OpKind::Sub && k == 0) {
        rest = negated(rest);
      } else if (v.op == OpKind::Sub) {
        // Of the factor that a row has one of, if there is one.
        TileId& factor = factors[points[mul.operands[0]] ? 1 : 0];
        factor = negated(factor);
      }
      v.op = OpKind::Fma;
      v.operands = {factors[0], factors[1], rest};
    }
    renamed[id] = add(std::move(v));
  }
  for (TileLet& let : tile.lets) let.value = renamed[let.value];
  for (TileReduction& r : tile.reductions)
    for (TileId& operand : r.operands) operand = renamed[operand];
  for (TileStore& store : tile.stores) store.value = renamed[store.value];
}

}  // namespace seam::kernel
