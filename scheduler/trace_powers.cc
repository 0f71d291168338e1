// Powers with an exponent that is known: some multiplications instead of hundreds of instructions.
//
//   x**2 -> x * x     x**3 -> x * x * x     x**-1 -> 1 / x     x**0.5 -> sqrt(x)
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "scheduler/tracer.h"

namespace seam {

using kernel::TileId;
using kernel::TileKind;

TileId Tracer::Power(DType dtype, std::vector<TileId> operands) {
  const TileId x = operands[0];
  const kernel::TileValue& exponent = tile_.values[operands[1]];
  const bool known = exponent.kind == TileKind::Constant && IsFloat(dtype);
  const double power = known ? exponent.constant.f : 0;
  const auto constant = [&](double value) { return Constant(dtype, FloatScalar(value)); };
  const auto map = [&](OpKind op, std::vector<TileId> of) { return Map(op, dtype, std::move(of)); };
  // Two roundings are one too many for types whose results are right to the last bit.
  const bool rounds_twice = DTypeBytes(dtype) >= 4;
  if (power == 1) return x;
  if (power == 2) return map(OpKind::Mul, {x, x});
  if (power == -1) return map(OpKind::Div, {constant(1), x});
  if (power == 3 && rounds_twice) return map(OpKind::Mul, {map(OpKind::Mul, {x, x}), x});
  if (power == -2 && rounds_twice) {
    // The square of the inverse, which is 0 or infinite no sooner than the power.
    const TileId inverse = map(OpKind::Div, {constant(1), x});
    return map(OpKind::Mul, {inverse, inverse});
  }
  if (power == 4 && rounds_twice) {
    const TileId square = map(OpKind::Mul, {x, x});
    return map(OpKind::Mul, {square, square});
  }
  if (std::abs(power) == 0.5) {
    // Unlike roots, powers of -0 and of -infinity are positive.
    const double infinity = std::numeric_limits<double>::infinity();
    const TileId positive = map(OpKind::Add, {x, constant(0)});
    const TileId root = map(power > 0 ? OpKind::Sqrt : OpKind::Rsqrt, {positive});
    const TileId below = Map(OpKind::Eq, DType::Bool, {x, constant(-infinity)});
    return map(OpKind::Where, {below, constant(power > 0 ? infinity : 0), root});
  }
  return map(OpKind::Pow, std::move(operands));
}

}  // namespace seam
