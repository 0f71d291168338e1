#include "scheduler/kernel/loose.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace seam::kernel {
namespace {

bool IsMap(const TileValue& v, OpKind op) { return v.kind == TileKind::Map && v.op == op; }

// Per value: whether something in it, a float sum or a function that is not correctly rounded, has
// no one right answer.
std::vector<bool> FindInexact(const TileKernel& tile) {
  std::vector<bool> inexact(tile.values.size());
  const auto any = [&](const std::vector<TileId>& ids) {
    return absl::c_any_of(ids, [&](TileId id) { return inexact[id]; });
  };
  for (size_t id = 0; id < inexact.size(); ++id) {
    const TileValue& v = tile.values[id];
    inexact[id] = any(v.operands) || (v.kind == TileKind::Map && GetOpInfo(v.op).max_ulps > 0);
    if (v.kind != TileKind::ReduceResult || !IsFloat(v.dtype)) continue;
    const TileReduction& r = tile.reductions[v.reduction];
    const bool picks = r.op == OpKind::Max || r.op == OpKind::Min;
    inexact[id] = !picks || v.component > 0 || any(r.operands);
  }
  return inexact;
}

}  // namespace

std::vector<bool> FindLoose(const TileKernel& tile) {
  const size_t n = tile.values.size();
  const std::vector<bool> inexact = FindInexact(tile);

  // From users to operands: `used` by something, and by nothing that wants every bit.
  std::vector<bool> used(n), strict(n);
  for (const TileStore& store : tile.stores) strict[store.value] = true;
  for (const TileLet& let : tile.lets) strict[let.value] = true;
  std::vector<bool> sum_used(tile.reductions.size()), sum_strict(tile.reductions.size());
  std::vector<std::vector<size_t>> reduced_by(n);
  for (size_t r = 0; r < tile.reductions.size(); ++r) {
    for (TileId operand : tile.reductions[r].operands) reduced_by[operand].push_back(r);
  }
  std::vector<bool> loose(n);
  for (size_t id = n; id-- > 0;) {
    const TileValue& v = tile.values[id];
    for (const size_t r : reduced_by[id]) {
      const TileReduction& sum = tile.reductions[r];
      const bool one_sign = IsMap(v, OpKind::Exp);
      used[id] = true;
      if (sum.op != OpKind::Sum || sum.merge || sum.products || sum.over != Over::Columns ||
          !one_sign || !sum_used[r] || sum_strict[r]) {
        strict[id] = true;
      }
    }
    const bool free = v.dtype == DType::F32 && used[id] && !strict[id];
    if (v.kind == TileKind::ReduceResult) {
      loose[id] =
          free && v.component == 1 && tile.reductions[v.reduction].exponential == OpKind::Exp;
      sum_used[v.reduction] = true;
      if (!free) sum_strict[v.reduction] = true;
      continue;
    }
    const bool rounds = IsMap(v, OpKind::Cast) && IsFloat(v.dtype) && DTypeBytes(v.dtype) <= 2;
    const bool passes_on = free && (IsMap(v, OpKind::Mul) || IsMap(v, OpKind::Div));
    for (TileId operand : v.operands) {
      used[operand] = true;
      if (!rounds && !passes_on) strict[operand] = true;
    }
    loose[id] =
        free && (IsMap(v, OpKind::Exp) ||
                 (IsMap(v, OpKind::Div) && (inexact[v.operands[0]] || inexact[v.operands[1]])));
  }
  return loose;
}

}  // namespace seam::kernel
