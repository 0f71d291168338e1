// Statistics, softmax, activations, dropout, cross-entropy, rotary embedding. The normalizations
// are in ir/normalizations.cc.
#include "ir/composites.h"

#include <utility>
#include <vector>

#include "ir/composite_expansion.h"

namespace seam {

// --- Statistics ---

ValId Mean(FusionBuilder& b, ValId x, AxisVector axes) {
  Expansion e(b, "mean", x);
  if (!e.ok()) return ValId();
  axes = e.Axes(std::move(axes));
  return e.ok() ? e.Mean(e.Widen(x), axes) : ValId();
}

namespace {

// What a sum of squares of so many elements is divided by: not less than 0, so that fewer than the
// correction have a variance of infinity or NaN, as PyTorch's, and none below 0.
ValId Corrected(Expansion& e, ValId count, SymInt elements, double correction) {
  if (correction == 0) return count;
  const ValId less = e.b.Sub(count, e.Number(correction));
  if (static_cast<double>(RangeOf(elements).lo) >= correction) return less;
  return e.b.Op(OpKind::Maximum, {less, e.Number(0)});
}

}  // namespace

Moments Variance(FusionBuilder& b, ValId x, AxisVector axes, double correction) {
  Expansion e(b, "variance", x);
  if (!e.ok()) return {};
  axes = e.Axes(std::move(axes));
  if (!e.ok()) return {};
  const ValId mean = b.Welford(e.Widen(x), axes);
  ValId count = b.ResultOf(mean, 2);
  count = Corrected(e, count, e.Elements(x, axes), correction);
  return {mean, b.Div(b.ResultOf(mean, 1), count)};
}

Moments VarianceTwoPass(FusionBuilder& b, ValId x, AxisVector axes, double correction) {
  Expansion e(b, "variance", x);
  if (!e.ok()) return {};
  axes = e.Axes(std::move(axes));
  if (!e.ok()) return {};
  const ValId wide = e.Widen(x);
  const ValId mean = e.Mean(wide, axes);
  const ValId deviation = b.Sub(wide, b.Broadcast(mean, axes));
  ValId count = e.Count(wide, axes);
  count = Corrected(e, count, e.Elements(x, axes), correction);
  return {mean, b.Div(e.Sum(b.Mul(deviation, deviation), axes), count)};
}

// --- Softmax ---

ValId Softmax(FusionBuilder& b, ValId x, int axis) {
  Expansion e(b, "softmax", x);
  if (!e.ok()) return ValId();
  const AxisVector axes = e.Axes({axis});
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(x);
  const ValId exp = b.Op(OpKind::Exp, {b.Sub(wide, e.MaxKept(wide, axes))});
  return e.Narrow(b.Div(exp, e.SumKept(exp, axes)), x);
}

ValId SoftmaxBackward(FusionBuilder& b, ValId grad, ValId y, int axis) {
  Expansion e(b, "softmax_backward", y);
  e.CheckSameShapeAsX(grad, "grad");
  if (!e.ok()) return ValId();
  const AxisVector axes = e.Axes({axis});
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(y), g = e.Widen(grad);
  return e.Narrow(b.Mul(wide, b.Sub(g, e.SumKept(b.Mul(g, wide), axes))), y);
}

ValId LogSoftmax(FusionBuilder& b, ValId x, int axis) {
  Expansion e(b, "log_softmax", x);
  if (!e.ok()) return ValId();
  const AxisVector axes = e.Axes({axis});
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(x);
  const ValId shifted = b.Sub(wide, e.MaxKept(wide, axes));
  const ValId log = b.Op(OpKind::Log, {e.SumKept(b.Op(OpKind::Exp, {shifted}), axes)});
  return e.Narrow(b.Sub(shifted, log), x);
}

ValId LogSoftmaxBackward(FusionBuilder& b, ValId grad, ValId y, int axis) {
  Expansion e(b, "log_softmax_backward", y);
  e.CheckSameShapeAsX(grad, "grad");
  if (!e.ok()) return ValId();
  const AxisVector axes = e.Axes({axis});
  if (!e.ok()) return ValId();
  const ValId g = e.Widen(grad), probability = b.Op(OpKind::Exp, {e.Widen(y)});
  return e.Narrow(b.Sub(g, b.Mul(probability, e.SumKept(g, axes))), y);
}

// --- Activations ---

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// What a gelu takes of x. The tanh form's is (1 + tanh(u)) / 2, which is sigmoid(2 u), without its
// cancellation where x is negative; u = sqrt(2 / pi) * (x + 0.044715 * x^3).
ValId TanhShare(Expansion& e, ValId x, ValId x_squared) {
  FusionBuilder& b = e.b;
  const ValId cubic = b.Mul(b.Mul(x_squared, x), e.Number(kGeluCubic));
  return b.Op(OpKind::Sigmoid, {b.Mul(b.Add(x, cubic), e.Number(2 * kSqrtTwoOverPi))});
}

// (1 + erf(x / sqrt(2))) / 2
ValId ErfShare(Expansion& e, ValId x) {
  const ValId erf = e.b.Op(OpKind::Erf, {e.b.Mul(x, e.Number(kSqrtHalf))});
  return e.b.Mul(e.b.Add(erf, e.Number(1)), e.Number(0.5));
}

}  // namespace

ValId Gelu(FusionBuilder& b, ValId x, GeluKind kind) {
  Expansion e(b, "gelu", x);
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(x);
  const ValId share =
      kind == GeluKind::Erf ? ErfShare(e, wide) : TanhShare(e, wide, b.Mul(wide, wide));
  return e.Narrow(b.Mul(wide, share), x);
}

ValId GeluBackward(FusionBuilder& b, ValId grad, ValId x, GeluKind kind) {
  Expansion e(b, "gelu_backward", x);
  e.CheckSameShapeAsX(grad, "grad");
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(x);
  const ValId square = b.Mul(wide, wide);
  ValId share, slope;  // The derivative is share + x * slope.
  if (kind == GeluKind::Erf) {
    share = ErfShare(e, wide);
    slope = b.Mul(b.Op(OpKind::Exp, {b.Mul(square, e.Number(-0.5))}), e.Number(kInvSqrtTwoPi));
  } else {
    share = TanhShare(e, wide, square);
    const ValId inner = b.Mul(b.Add(b.Mul(square, e.Number(3 * kGeluCubic)), e.Number(1)),
                              e.Number(2 * kSqrtTwoOverPi));
    slope = b.Mul(b.Mul(share, b.Sub(e.Number(1), share)), inner);
  }
  return e.Narrow(b.Mul(e.Widen(grad), b.Add(share, b.Mul(wide, slope))), x);
}

ValId Silu(FusionBuilder& b, ValId x) {
  Expansion e(b, "silu", x);
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(x);
  return e.Narrow(b.Mul(wide, b.Op(OpKind::Sigmoid, {wide})), x);
}

ValId SiluBackward(FusionBuilder& b, ValId grad, ValId x) {
  Expansion e(b, "silu_backward", x);
  e.CheckSameShapeAsX(grad, "grad");
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(x), one = e.Number(1);
  const ValId sigmoid = b.Op(OpKind::Sigmoid, {wide});
  const ValId slope = b.Mul(sigmoid, b.Add(b.Mul(wide, b.Sub(one, sigmoid)), one));
  return e.Narrow(b.Mul(e.Widen(grad), slope), x);
}

ValId SwiGlu(FusionBuilder& b, ValId gate, ValId up) {
  Expansion e(b, "swiglu", gate);
  e.CheckSameShapeAsX(up, "up");
  if (!e.ok()) return ValId();
  const ValId wide = e.Widen(gate);
  const ValId silu = b.Mul(wide, b.Op(OpKind::Sigmoid, {wide}));
  return e.Narrow(b.Mul(silu, e.Widen(up)), gate);
}

// --- Dropout ---

namespace {

// v / (1 - p) where mask, else 0, in v's dtype.
ValId KeepScaled(Expansion& e, ValId v, ValId mask, double p) {
  const ValId scaled = e.b.Mul(e.Widen(v), e.Number(p < 1 ? 1 / (1 - p) : 0));
  return e.Narrow(e.b.Op(OpKind::Where, {mask, scaled, e.Number(0)}), v);
}

void CheckProbability(Expansion& e, double p) {
  if (e.ok() && !(p >= 0 && p <= 1)) e.Fail("probability ", p, " is not in 0..1");
}

}  // namespace

DropoutResult Dropout(FusionBuilder& b, ValId x, double p, ValId seed, ValId offset) {
  Expansion e(b, "dropout", x);
  CheckProbability(e, p);
  e.CheckScalar(seed, "seed", Expansion::kI64);
  e.CheckScalar(offset, "offset", Expansion::kI64);
  if (!e.ok()) return {};
  Attributes attributes;
  for (int axis = 0; axis < b.rank(x); ++axis) attributes.sizes.push_back(b.extent(x, axis));
  const ValId uniform = b.Op(OpKind::RandomUniform, {seed, offset}, std::move(attributes));
  const ValId mask = b.Op(OpKind::Ge, {uniform, b.Constant(p, DType::F32)});
  return {KeepScaled(e, x, mask, p), mask};
}

ValId DropoutBackward(FusionBuilder& b, ValId grad, ValId mask, double p) {
  Expansion e(b, "dropout_backward", grad);
  CheckProbability(e, p);
  if (e.ok()) {
    e.CheckShape(mask, "mask", e.Axes({}), Expansion::kRequired, Expansion::kBool);
  }
  return e.ok() ? KeepScaled(e, grad, mask, p) : ValId();
}

// --- Cross-entropy ---

namespace {

// [rows, classes] bool: whether the class is the row's target.
ValId IsTarget(FusionBuilder& b, ValId logits, ValId target) {
  Attributes attributes;
  attributes.axes = {1};
  attributes.sizes = {1, b.extent(logits, 1)};
  attributes.dtype = DType::I64;  // Holds every class, whatever the targets' dtype.
  const ValId classes = b.Op(OpKind::Iota, {}, std::move(attributes));
  return b.Op(OpKind::Eq, {classes, b.Broadcast(b.Cast(target, DType::I64), {1})});
}

// [rows]: the logit of the row's target, 0 if that is no class. A gather counts negative indices
// from the end, which are no classes either.
ValId OfTarget(FusionBuilder& b, ValId logits, ValId target) {
  const ValId wide = b.Cast(target, DType::I64), zero = b.IntConstant(0, DType::I64);
  const ValId none = b.Size(b.extent(logits, 1), DType::I64);
  const ValId index = b.Op(OpKind::Where, {b.Op(OpKind::Ge, {wide, zero}), wide, none});
  Attributes along_classes;
  along_classes.axes = {1};
  return b.Op(OpKind::Squeeze,
              {b.Op(OpKind::Gather, {logits, b.Broadcast(index, {1})}, along_classes)},
              along_classes);
}

void CheckLogits(Expansion& e, ValId logits, ValId target) {
  if (e.ok() && e.b.rank(logits) != 2) {
    e.Fail("logits are ", e.b.type(logits).ToString(), ", expected [rows, classes]");
  }
  e.CheckShape(target, "target", {0}, Expansion::kRequired, Expansion::kInteger);
}

}  // namespace

CrossEntropyResult CrossEntropy(FusionBuilder& b, ValId logits, ValId target) {
  Expansion e(b, "cross_entropy", logits);
  CheckLogits(e, logits, target);
  if (!e.ok()) return {};
  const ValId wide = e.Widen(logits);
  const ValId max = b.Reduce(OpKind::Max, wide, {1});
  const ValId exp = b.Op(OpKind::Exp, {b.Sub(wide, b.Broadcast(max, {1}))});
  const ValId log_sum_exp = b.Add(max, b.Op(OpKind::Log, {e.Sum(exp, {1})}));
  return {e.Mean(b.Sub(log_sum_exp, e.Widen(OfTarget(b, logits, target))), {0}), log_sum_exp};
}

ValId CrossEntropyBackward(FusionBuilder& b, ValId grad, ValId logits, ValId target,
                           ValId log_sum_exp) {
  Expansion e(b, "cross_entropy_backward", logits);
  CheckLogits(e, logits, target);
  e.CheckScalar(grad, "grad", Expansion::kFloat);
  e.CheckShape(log_sum_exp, "log_sum_exp", {0});
  if (!e.ok()) return ValId();
  const ValId probability = b.Op(OpKind::Exp, {b.Sub(e.Widen(logits), e.Spread(log_sum_exp, {0}))});
  const ValId one_hot =
      b.Op(OpKind::Where, {IsTarget(b, logits, target), e.Number(1), e.Number(0)});
  const ValId per_row = b.Div(e.Widen(grad), e.Count(logits, {0}));
  return e.Narrow(b.Mul(b.Sub(probability, one_hot), per_row), logits);
}

// --- Rotary embedding ---

namespace {

// Elements begin..end-1 of the last axis.
ValId SliceLast(FusionBuilder& b, ValId v, SymInt begin, SymInt end) {
  Attributes attributes;
  for (int axis = 0; axis < b.rank(v); ++axis) {
    attributes.start.push_back(0);
    attributes.stop.push_back(b.extent(v, axis));
  }
  attributes.start.back() = begin;
  attributes.stop.back() = end;
  return b.Op(OpKind::Slice, {v}, std::move(attributes));
}

}  // namespace

ValId RotaryEmbedding(FusionBuilder& b, ValId x, ValId cos, ValId sin) {
  Expansion e(b, "rotary_embedding", x);
  if (!e.ok()) return ValId();
  const int rank = b.rank(x);
  const SymInt extent = rank > 0 ? b.extent(x, -1) : 1;
  const SymInt half = FloorDiv(extent, 2);
  if (rank == 0 || !ProvablyDivisible(extent, 2)) {
    e.Fail("the last axis of ", b.type(x).ToString(), " is not known to be even");
    return ValId();
  }
  for (ValId table : {cos, sin}) {
    const TensorType type = b.type(table);
    bool fits = table.valid() && IsFloat(type.dtype) && type.rank() >= 1 && type.rank() <= rank &&
                ProvablyEqual(type.domain.back().extent, half);
    for (int i = 2; fits && i <= type.rank(); ++i) {
      const IterDomain& axis = type.domain[type.rank() - i];
      fits = axis.is_broadcast() || ProvablyEqual(axis.extent, b.extent(x, -i));
    }
    if (!fits) {
      e.Fail("cos or sin is ", type.ToString(), ", expected floats [..., ", half.ToString(),
             "] that broadcast to ", b.type(x).ToString());
      return ValId();
    }
  }
  const ValId wide = e.Widen(x);
  const ValId x1 = SliceLast(b, wide, 0, half), x2 = SliceLast(b, wide, half, extent);
  const std::vector<ValId> aligned = b.AlignRanks({x1, e.Widen(cos), e.Widen(sin)});
  const ValId c = aligned[1], s = aligned[2];
  const ValId y1 = b.Sub(b.Mul(x1, c), b.Mul(x2, s));
  const ValId y2 = b.Add(b.Mul(x2, c), b.Mul(x1, s));
  Attributes last;
  last.axes = {rank - 1};
  return e.Narrow(b.Op(OpKind::Cat, {y1, y2}, std::move(last)), x);
}

}  // namespace seam
