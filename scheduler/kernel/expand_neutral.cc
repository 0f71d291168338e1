// What values are where the mask does not hold. Loads fill in there, zero or what suits an
// extremum, and some reductions of what is computed from them need no mask therefore.
#include <algorithm>
#include <cmath>

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
    return r.products ? IsZeroProduct(r.operands[0], r.operands[1]) : IsZeroOutside(r.operands[0]);
  }
  const TileId load = LoadUnderCasts(r.operands[0]);
  // What is the same in all columns changes no maximum, but the sum beside it.
  if (r.exponential && load >= 0 && levels_[load] < Level::kUnit) return false;
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

Scalar Expander::FillOf(TileId load) const {
  const auto fill = fills_.find(load);
  return fill == fills_.end() ? Scalar{} : fill->second;
}

bool Expander::IsZeroOutside(TileId id) {
  auto [it, first] = zero_outside_.try_emplace(id, false);
  if (!first) return it->second;
  const TileValue& value = tile_.values[id];
  const auto all = [&](size_t begin) {
    return std::all_of(value.operands.begin() + begin, value.operands.end(),
                       [&](TileId operand) { return IsZeroOutside(operand); });
  };
  bool zero = false;
  if (value.kind == TileKind::Constant) {
    zero = IsFloat(value.dtype) ? value.constant.f == 0 : value.constant.i == 0;
  } else if (value.kind == TileKind::Load) {
    // What is loaded once for all turns is masked by columns alone.
    zero = !fills_.contains(id) && value.lets.empty() && levels_[id] >= Level::kUnit &&
           (options_.grid == 0 || IsOfRow(value));
  } else if (value.kind == TileKind::Map) {
    switch (value.op) {
      case OpKind::Where:
        zero = all(1);
        break;
      case OpKind::Div:
        zero = IsZeroOutside(value.operands[0]) && IsPlainConstant(tile_.values[value.operands[1]]);
        break;
      case OpKind::Mul:
        zero = IsZeroProduct(value.operands[0], value.operands[1]);
        break;
      case OpKind::Cast:
      case OpKind::Copy:
      case OpKind::Neg:
      case OpKind::Abs:
      case OpKind::Add:
      case OpKind::Sub:
        zero = all(0);
        break;
      default:
        break;
    }
  }
  return zero_outside_[id] = zero;
}

// Zero times a number, not times an infinity or NaN.
bool Expander::IsZeroProduct(TileId a, TileId b) {
  return IsZeroOutside(a) ? IsZeroOutside(b) || IsPlainConstant(tile_.values[b])
                          : IsZeroOutside(b) && IsPlainConstant(tile_.values[a]);
}

}  // namespace seam::kernel
