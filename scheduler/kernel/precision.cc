#include "scheduler/kernel/precision.h"

#include <algorithm>
#include <cmath>

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

// Whether the reduction sums up what elements lack of their own maximum, in f32, as an exponential.
bool IsSumOfTerms(const TileKernel& tile, const TileReduction& sum) {
  if (sum.op != OpKind::Sum || sum.over != Over::Columns || sum.merge || sum.products ||
      sum.dtype != DType::F32) {
    return false;
  }
  const TileValue& term = tile.values[sum.operands[0]];
  if (!IsMap(term, OpKind::Exp) && !IsMap(term, OpKind::Exp2)) return false;
  const TileValue& lack = tile.values[term.operands[0]];
  if (!IsMap(lack, OpKind::Sub) || lack.dtype != DType::F32) return false;
  const TileValue& result = tile.values[lack.operands[1]];
  if (result.kind != TileKind::ReduceResult) return false;
  const TileReduction& max = tile.reductions[result.reduction];
  return max.op == OpKind::Max && max.over == Over::Columns && !max.merge && max.neighbours == 1 &&
         sum.neighbours == 1 && max.operands[0] == lack.operands[0] &&
         tile.passes[max.pass].space == tile.passes[sum.pass].space;
}

// Per value: an exponential that is nothing but a term of such sums.
std::vector<bool> FindTerms(const TileKernel& tile) {
  std::vector<bool> term(tile.values.size()), more(tile.values.size());
  for (const TileReduction& r : tile.reductions) {
    for (TileId operand : r.operands) (IsSumOfTerms(tile, r) ? term : more)[operand] = true;
  }
  for (const TileValue& v : tile.values) {
    for (TileId operand : v.operands) more[operand] = true;
  }
  for (const TileStore& store : tile.stores) more[store.value] = true;
  for (const TileLet& let : tile.lets) more[let.value] = true;
  for (size_t id = 0; id < term.size(); ++id) term[id] = term[id] && !more[id];
  return term;
}

// Per value: whether anything is made of it but its logarithm.
std::vector<bool> FindUsedBesideLog(const TileKernel& tile) {
  std::vector<bool> used(tile.values.size());
  for (const TileReduction& r : tile.reductions) {
    for (TileId operand : r.operands) used[operand] = true;
  }
  for (const TileValue& v : tile.values) {
    if (IsMap(v, OpKind::Log)) continue;
    for (TileId operand : v.operands) used[operand] = true;
  }
  for (const TileStore& store : tile.stores) used[store.value] = true;
  for (const TileLet& let : tile.lets) used[let.value] = true;
  return used;
}

}  // namespace

std::vector<Precision> FindPrecisions(const TileKernel& tile) {
  const size_t n = tile.values.size();
  const std::vector<bool> inexact = FindInexact(tile), term = FindTerms(tile),
                          beside_log = FindUsedBesideLog(tile);

  // From users to operands: `used` by something, and by nothing that wants every bit.
  std::vector<bool> used(n), strict(n);
  for (const TileStore& store : tile.stores) strict[store.value] = true;
  for (const TileLet& let : tile.lets) strict[let.value] = true;
  std::vector<bool> sum_used(tile.reductions.size()), sum_strict(tile.reductions.size());
  std::vector<std::vector<size_t>> reduced_by(n);
  for (size_t r = 0; r < tile.reductions.size(); ++r) {
    for (TileId operand : tile.reductions[r].operands) reduced_by[operand].push_back(r);
  }
  std::vector<bool> exact(tile.reductions.size());  // More is wanted than the logarithm.
  // A constant beside which an error function has no more digits than its own sum with it.
  const auto is_large = [&](TileId id) {
    const TileValue& c = tile.values[id];
    return c.kind == TileKind::Constant && IsFloat(c.dtype) && std::abs(c.constant.f) >= 1;
  };
  std::vector<Precision> precisions(n, Precision::kFull);
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
      const bool in_one_pass = tile.reductions[v.reduction].exponential.has_value();
      const bool enough = v.dtype == DType::F32 && (free || !beside_log[id]);
      if (!enough) exact[v.reduction] = true;
      if (enough && in_one_pass && v.component == 1) precisions[id] = Precision::kTerm;
      sum_used[v.reduction] = true;
      if (!free) sum_strict[v.reduction] = true;
      continue;
    }
    const bool rounds = IsMap(v, OpKind::Cast) && IsFloat(v.dtype) && DTypeBytes(v.dtype) <= 2;
    const bool passes_on = free && (IsMap(v, OpKind::Mul) || IsMap(v, OpKind::Div));
    const bool beside_one = free && IsMap(v, OpKind::Add) && absl::c_any_of(v.operands, is_large);
    for (TileId operand : v.operands) {
      used[operand] = true;
      const bool erf = IsMap(tile.values[operand], OpKind::Erf);
      if (erf ? !beside_one : !rounds && !passes_on) strict[operand] = true;
    }
    const bool loose =
        free && (IsMap(v, OpKind::Exp) || IsMap(v, OpKind::Sigmoid) || IsMap(v, OpKind::Erf) ||
                 (IsMap(v, OpKind::Div) && (inexact[v.operands[0]] || inexact[v.operands[1]])));
    const bool of_exact = absl::c_any_of(reduced_by[id], [&](size_t r) { return exact[r]; });
    if (term[id] && !of_exact) {
      precisions[id] = Precision::kTerm;
    } else if (loose) {
      precisions[id] = Precision::kLoose;
    }
  }
  return precisions;
}

}  // namespace seam::kernel
