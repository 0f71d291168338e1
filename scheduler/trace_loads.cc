// Two loads of one tensor of which one at most is wanted at each point, as of the halves of a
// concatenation that both need what the other one lies beside: one load of what is wanted.
//
//   where(i < D, x[i] c[i], x[i] c[i - D])
//
//   x[i] if i < D,  x[i] if D <= i          ->   x[i]
//   c[i] if i < D,  c[i - D] if D <= i      ->   c[i - (i < D ? 0 : D)]
//
// Vectors, which lie on one side, then load once, and without a mask of their own.
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/access.h"
#include "scheduler/tracer.h"

namespace seam {

using kernel::TileId;
using kernel::TileKind;
using kernel::TileValue;

void Tracer::JoinLoads() {
  const auto is_some = [](const TileValue& v) {
    return v.kind == TileKind::Load && v.lets.empty() && v.predicate.is_symbolic();
  };
  // The same distance from each other everywhere, so that neighbours stay neighbours.
  const auto moves = [&](SymInt distance) {
    return (tile_.row.is_symbolic() && kernel::DependsOn(distance, tile_.row)) ||
           kernel::DependsOnColumn(tile_, distance);
  };
  // A value is of one space's columns at most. One that is of none may be read beside all of them,
  // and stays so.
  const auto in_one_space = [&](const TileValue& a, const TileValue& b) {
    return tile_.spaces.size() <= 1 ||
           absl::c_all_of(tile_.spaces, [&](const kernel::TileSpace& space) {
             const auto is_of = [&](const TileValue& v) {
               return space.column.is_symbolic() && (kernel::DependsOn(v.index, space.column) ||
                                                     kernel::DependsOn(v.predicate, space.column));
             };
             return is_of(a) == is_of(b);
           });
  };
  std::vector<TileValue>& values = tile_.values;
  std::vector<TileId> of(values.size());  // Where a value is in the end.
  std::vector<TileValue> kept;
  std::vector<TileId> loads;  // Those in `kept` that more may be joined to.
  for (size_t id = 0; id < values.size(); ++id) {
    TileValue& v = values[id];
    for (TileId& operand : v.operands) operand = of[operand];
    const auto found = absl::c_find_if(loads, [&](TileId other) {
      const TileValue& before = kept[other];
      return is_some(v) && before.buffer == v.buffer && before.dtype == v.dtype &&
             Decide(SymAnd(before.predicate, v.predicate)) == false &&
             !moves(before.index - v.index) && in_one_space(before, v);
    });
    if (found != loads.end()) {
      TileValue& before = kept[*found];
      // Neighbours are seen in the sum.
      before.index = v.index + SymSelect(before.predicate, before.index - v.index, 0);
      before.predicate = SymOr(before.predicate, v.predicate);
      of[id] = *found;
      continue;
    }
    of[id] = static_cast<TileId>(kept.size());
    if (is_some(v)) loads.push_back(of[id]);
    kept.push_back(std::move(v));
  }
  values = std::move(kept);
  for (kernel::TileLet& let : tile_.lets) let.value = of[let.value];
  for (kernel::TileStore& store : tile_.stores) store.value = of[store.value];
  for (kernel::TileReduction& r : tile_.reductions) {
    for (TileId& operand : r.operands) operand = of[operand];
  }
}

}  // namespace seam
