// What values are where the mask does not hold. Loads fill in there, zero or what suits an
// extremum, and some reductions of what is computed from them need no mask therefore. What a row
// has one of can be cleared there as well, a selection for each vector instead of some for each
// element:
//
//   d = x - mean, s = sum(d * d)        x = 0 outside; with mean = 0 there, so is d
#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

// A float by which zero is multiplied or divided without becoming NaN.
bool IsPlainConstant(const TileValue& value) {
  return value.kind == TileKind::Constant && IsFloat(value.dtype) &&
         std::isfinite(value.constant.f) && value.constant.f != 0;
}

}  // namespace

// Whether folding what is outside changes nothing.
bool Expander::IsNeutralOutside(const Accumulator& a) {
  const TileReduction& r = tile_.reductions[a.id];
  if (r.merge || a.pivot >= 0 || !r.predicate.is_same(1)) return false;
  if (r.op == OpKind::Sum) {
    return (r.products ? ProductOutside(r.operands[0], r.operands[1])
                       : ZeroOutside(r.operands[0])) != Outside::kAnything;
  }
  const TileId load = LoadUnderCasts(r.operands[0]);
  // What is the same in all columns changes no maximum, but the sum beside it; and it may be
  // cleared for another reduction.
  if (load >= 0 && levels_[load] < Level::kUnit) return false;
  const auto fill = fills_.find(load);
  return fill != fills_.end() && fill->second.f == NeutralState(r)[0].constant.f;
}

// The load that the value is, in another float type perhaps; -1 if it is something else.
TileId Expander::LoadUnderCasts(TileId id) const {
  for (;; id = tile_.values[id].operands[0]) {
    const TileValue& value = tile_.values[id];
    // Of 8 bits some have no infinity.
    if (!IsFloat(value.dtype) || DTypeBytes(value.dtype) < 2) return -1;
    if (value.kind == TileKind::Load) return id;
    if (value.kind != TileKind::Map || value.op != OpKind::Cast) return -1;
  }
}

void Expander::ChooseFills() {
  for (const TileReduction& r : tile_.reductions) {
    if ((r.op != OpKind::Max && r.op != OpKind::Min) || r.merge) continue;
    const TileId load = LoadUnderCasts(r.operands[0]);
    if (load < 0 || !IsOfRow(tile_.values[load]) || !tile_.values[load].lets.empty() ||
        !tile_.values[load].predicate.is_same(1)) {
      continue;
    }
    fills_.emplace(load, NeutralState(r)[0].constant);
  }
}

// What no reduction is computed from is only stored, and not where the mask does not hold.
void Expander::FindFolded() {
  folded_.assign(tile_.values.size(), false);
  std::vector<TileId> open;
  const auto reach = [&](TileId id) {
    if (folded_[id]) return;
    folded_[id] = true;
    open.push_back(id);
  };
  for (const TileReduction& r : tile_.reductions) absl::c_for_each(r.operands, reach);
  while (!open.empty()) {
    const TileId id = open.back();
    open.pop_back();
    absl::c_for_each(tile_.values[id].operands, reach);
  }
}

Scalar Expander::FillOf(TileId load) const {
  const auto fill = fills_.find(load);
  return fill == fills_.end() ? Scalar{} : fill->second;
}

// Vectors along rows have rows of their own in each element. Left out where copies bring whole
// vectors to threads that keep states of columns, whether they keep pace or not: where they do it
// lost, a layer norm's backward pass of 8192 bf16 columns 0.98 to 0.81 of a copy's speed, and
// where they do not it gained nothing. Why was not found out.
bool Expander::MayClear() const {
  const bool keeps_states =
      absl::c_any_of(tile_.reductions, [](const TileReduction& r) { return r.over == Over::Rows; });
  return !outer_ && (options_.stages == 0 || has_ends_ || !keeps_states);
}

Expander::Outside Expander::ZeroOutside(TileId id) {
  auto [it, first] = zero_outside_.try_emplace(id, Outside::kAnything);
  if (!first) return it->second;
  const TileValue& value = tile_.values[id];
  const auto all = [&](size_t begin) {
    Outside outside = Outside::kZero;
    for (size_t i = begin; i < value.operands.size(); ++i)
      outside = std::max(outside, ZeroOutside(value.operands[i]));
    return outside;
  };
  const auto zero_if = [](bool zero) { return zero ? Outside::kZero : Outside::kAnything; };
  Outside outside = Outside::kAnything;
  if (value.kind == TileKind::Constant) {
    outside = zero_if(IsFloat(value.dtype) ? value.constant.f == 0 : value.constant.i == 0);
  } else if (levels_[id] == Level::kRow) {
    if (IsFloat(value.dtype) && MayClear()) outside = Outside::kZeroIfCleared;
  } else if (value.kind == TileKind::Load) {
    // What is loaded once for all turns is masked by columns alone.
    outside = zero_if(!fills_.contains(id) && value.lets.empty() && levels_[id] >= Level::kUnit &&
                      (options_.grid == 0 || IsOfRow(value) || row_mask_.is_same(1)));
  } else if (value.kind == TileKind::Map) {
    switch (value.op) {
      case OpKind::Where:
        outside = all(1);
        break;
      case OpKind::Div:
        if (IsPlainConstant(tile_.values[value.operands[1]]))
          outside = ZeroOutside(value.operands[0]);
        break;
      case OpKind::Mul:
        outside = ProductOutside(value.operands[0], value.operands[1]);
        break;
      case OpKind::Fma:
        outside = std::max(ProductOutside(value.operands[0], value.operands[1]),
                           ZeroOutside(value.operands[2]));
        break;
      case OpKind::Cast:
      case OpKind::Copy:
      case OpKind::Neg:
      case OpKind::Abs:
      case OpKind::Add:
      case OpKind::Sub:
        outside = all(0);
        break;
      default:
        break;
    }
  }
  // What is kept between passes was computed when nobody may have cleared anything.
  if (holds_.computed[id] && outside == Outside::kZeroIfCleared) outside = Outside::kAnything;
  return zero_outside_[id] = outside;
}

// Zero times a number, not times an infinity or NaN.
Expander::Outside Expander::ProductOutside(TileId a, TileId b) {
  if (IsPlainConstant(tile_.values[a])) return ZeroOutside(b);
  if (IsPlainConstant(tile_.values[b])) return ZeroOutside(a);
  return std::max(ZeroOutside(a), ZeroOutside(b));
}

// Of the accumulators that need no mask: clears, for a vector, what has to be for that.
void Expander::ClearOutside(const std::vector<Accumulator>& accumulators,
                            const std::vector<bool>& neutral, SymInt mask) {
  if (Decide(mask) == true) return;
  // From users to operands: of what is zero if they are cleared, what the row has one of.
  std::vector<bool> used(tile_.values.size());
  const auto use = [&](const std::vector<TileId>& ids) {
    for (TileId id : ids) used[id] = true;
  };
  for (size_t i = 0; i < accumulators.size(); ++i)
    if (neutral[i]) use(tile_.reductions[accumulators[i].id].operands);
  std::vector<TileId> cleared;
  for (TileId id = static_cast<TileId>(used.size()); id-- > 0;) {
    const auto it = zero_outside_.find(id);
    if (!used[id] || it == zero_outside_.end() || it->second != Outside::kZeroIfCleared) continue;
    if (levels_[id] == Level::kRow) {
      cleared.push_back(id);
    } else {
      use(tile_.values[id].operands);
    }
  }
  if (cleared.empty()) return;
  const Operand inside = w_.Index(DType::Bool, mask);
  std::map<TileId, Operand> copies;
  for (TileId id : cleared) {
    const DType t = tile_.values[id].dtype;
    copies[id] = w_.Make(t, OpKind::Where, {inside, Read(id), BlockWriter::Number(t, 0)});
  }
  cleared_ = std::move(copies);
}

}  // namespace seam::kernel
