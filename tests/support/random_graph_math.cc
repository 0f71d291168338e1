// Steps of random graphs that compute: elementwise, reductions, products, composites.
#include <utility>

#include "ir/composites.h"
#include "tests/support/graph_generator.h"

namespace seam::testing {

void GraphGenerator::Elementwise() {
  static const std::vector<OpKind>* const ops = [] {
    auto* list = new std::vector<OpKind>;
    for (const OpInfo& info : AllOps()) {
      if (info.op_class == OpClass::Elementwise) list->push_back(info.kind);
    }
    return list;
  }();
  // What graphs are full of, more often than its share.
  static const std::vector<OpKind> common = {OpKind::Add,     OpKind::Sub,   OpKind::Mul,
                                             OpKind::Maximum, OpKind::Where, OpKind::Lt};
  const Value a = Pick();
  const OpKind op = dice_.Chance(0.3) ? dice_.Of(common) : dice_.Of(*ops);
  const OpInfo& info = GetOpInfo(op);
  DType dtype = b_.dtype(a.id);
  for (int attempt = 0; !TakesDType(op, dtype) && attempt < 60; ++attempt) dtype = AnyDType();
  if (!TakesDType(op, dtype)) return;
  std::vector<ValId> operands;
  if (op == OpKind::Where) operands.push_back(Partner(a, DType::Bool));
  operands.push_back(b_.Cast(a.id, dtype));
  while (static_cast<int>(operands.size()) < info.num_operands) {
    std::optional<ValId> broadcast;
    if (dice_.Chance(0.35)) broadcast = BroadcastPartner(a, dtype);
    operands.push_back(broadcast ? *broadcast : Partner(a, dtype));
  }
  Add(b_.Op(op, operands));
}

void GraphGenerator::Cast() {
  const Value a = Pick();
  const DType dtype = AnyDType();
  if (dtype != b_.dtype(a.id)) Add(b_.Cast(a.id, dtype));
}

// No kernel is fused across it.
void GraphGenerator::Barrier() { Add(b_.Op(OpKind::SegmentSet, {Pick().id})); }

// At least one axis of a value that has some.
AxisVector GraphGenerator::SomeAxes(const Value& a) {
  AxisVector axes;
  const int only = dice_.Below(a.rank());
  for (int d = 0; d < a.rank(); ++d) {
    if (d == only || dice_.Chance(0.25)) axes.push_back(d);
  }
  return axes;
}

bool GraphGenerator::HasEmptyAxis(const Value& a, const AxisVector& axes) const {
  return std::any_of(axes.begin(), axes.end(),
                     [&](int axis) { return a.shape[axis].lowest() == 0; });
}

void GraphGenerator::Reduce() {
  const Value a = PickRanked();
  if (a.rank() == 0) return;
  static const std::vector<OpKind> ops = {
      OpKind::Sum, OpKind::Sum,    OpKind::Max,    OpKind::Min,     OpKind::Prod,   OpKind::Any,
      OpKind::All, OpKind::ArgMax, OpKind::ArgMin, OpKind::Welford, OpKind::Welford};
  const OpKind op = dice_.Of(ops);
  AxisVector axes = SomeAxes(a);
  const bool arg = op == OpKind::ArgMax || op == OpKind::ArgMin;
  if (arg) axes.resize(1);
  // Of nothing there is no largest.
  if ((arg || op == OpKind::Max || op == OpKind::Min) && HasEmptyAxis(a, axes)) return;
  ValId operand = a.id;
  if (op == OpKind::Any || op == OpKind::All) operand = b_.Cast(operand, DType::Bool);
  if (op == OpKind::Welford)
    operand = b_.Cast(operand, dice_.Chance(0.8) ? DType::F32 : DType::F64);
  if (!TakesDType(op, b_.dtype(operand))) operand = b_.Cast(operand, DType::F32);
  const ValId first = b_.Reduce(op, operand, axes);
  for (int i = 0; i < GetOpInfo(op).num_results && first.valid(); ++i)
    Add(FusionBuilder::ResultOf(first, i));
  // A statistic that meets its data again is what normalizations are made of.
  if (dice_.Chance(0.5) && b_.status().ok()) {
    const ValId back = b_.Broadcast(b_.Cast(values_.back().id, DType::F32), axes);
    Add(b_.Sub(b_.Cast(a.id, DType::F32), back));
  }
}

void GraphGenerator::Product() {
  const Value a = PickRanked();
  const int rank = a.rank();
  if (rank < 2) return;
  const DType dtype = AnyFloat();
  Shape shape = a.shape;
  if (dice_.Chance(0.5)) {  // Times its own transpose.
    AxisVector order;
    for (int d = 0; d < rank; ++d) order.push_back(d);
    std::swap(order[rank - 1], order[rank - 2]);
    shape[rank - 1] = shape[rank - 2];
    if (!Fits(shape)) return;
    const ValId x = b_.Cast(a.id, dtype);
    Add(b_.Op(OpKind::Matmul, {x, b_.Permute(x, order)}));
    return;
  }
  Shape other = a.shape;
  other[rank - 2] = a.shape[rank - 1];
  other[rank - 1] = dice_.Of(extents_);
  shape[rank - 1] = other[rank - 1];
  if (!Fits(shape) || !Fits(other)) return;
  Add(b_.Op(OpKind::Matmul, {b_.Cast(a.id, dtype), Parameter(dtype, other)}));
}

void GraphGenerator::Composite() {
  const Value a = PickRanked();
  const ValId x = b_.Cast(a.id, AnyFloat());
  const int kind = dice_.Below(10);
  if (kind < 2 || a.rank() == 0) return Activation(a, x);
  if (kind < 6) return Normalization(a, x);
  if (kind < 8) return ChannelNormalization(a, x);
  Loss(a, x);
}

void GraphGenerator::Activation(const Value& a, ValId x) {
  const DType dtype = b_.dtype(x);
  const GeluKind gelu = dice_.Chance(0.5) ? GeluKind::Erf : GeluKind::Tanh;
  switch (dice_.Below(6)) {
    case 0:
      Add(Gelu(b_, x, gelu));
      return;
    case 1:
      Add(GeluBackward(b_, SameShaped(a, dtype), x, gelu));
      return;
    case 2:
      Add(Silu(b_, x));
      return;
    case 3:
      Add(SiluBackward(b_, SameShaped(a, dtype), x));
      return;
    case 4:
      Add(SwiGlu(b_, x, SameShaped(a, dtype)));
      return;
    default: {
      const ValId seed = b_.IntConstant(dice_.Below(1000), DType::I64),
                  offset = Parameter(DType::I64, {});
      const DropoutResult dropped = Dropout(b_, x, 0.25 * dice_.Below(5), seed, offset);
      Add(dropped.y);
      Add(dropped.mask);
      if (dice_.Chance(0.4)) Add(DropoutBackward(b_, SameShaped(a, dtype), dropped.mask, 0.25));
      return;
    }
  }
}

// Over axes of a's choice; parameters have the shape of these axes.
void GraphGenerator::Normalization(const Value& a, ValId x) {
  const DType dtype = b_.dtype(x);
  const AxisVector axes = dice_.Chance(0.6) ? AxisVector{a.rank() - 1} : SomeAxes(a);
  Shape parameters;
  for (int axis : axes) parameters.push_back(a.shape[axis]);
  const double eps = 1e-3;
  switch (dice_.Below(6)) {
    case 0:
    case 1: {
      if (HasEmptyAxis(a, axes)) return;
      const bool log = dice_.Chance(0.4);
      const Value y = Add(log ? LogSoftmax(b_, x, axes[0]) : Softmax(b_, x, axes[0]));
      if (!dice_.Chance(0.4) || !y.id.valid()) return;
      const ValId grad = SameShaped(a, dtype);
      Add(log ? LogSoftmaxBackward(b_, grad, y.id, axes[0])
              : SoftmaxBackward(b_, grad, y.id, axes[0]));
      return;
    }
    case 2:
    case 3: {
      const ValId weight = MaybeParameter(dtype, parameters),
                  bias = MaybeParameter(dtype, parameters);
      const NormResult norm = LayerNorm(b_, x, axes, weight, bias, eps);
      if (dice_.Chance(0.5)) Add(norm.mean);
      Add(norm.y);
      if (!dice_.Chance(0.4)) return;
      const NormGradients gradients =
          LayerNormBackward(b_, SameShaped(a, dtype), x, norm.mean, norm.rstd, weight, axes);
      if (weight.valid()) Add(gradients.weight);
      Add(gradients.x);
      return;
    }
    case 4: {
      const ValId weight = MaybeParameter(dtype, parameters);
      const RmsNormResult norm = RmsNorm(b_, x, axes, weight, eps);
      Add(norm.y);
      if (!dice_.Chance(0.4)) return;
      const RmsNormGradients gradients =
          RmsNormBackward(b_, SameShaped(a, dtype), x, norm.rstd, weight, axes);
      if (weight.valid()) Add(gradients.weight);
      Add(gradients.x);
      return;
    }
    default: {
      const double correction = dice_.Below(2);
      const Moments moments = dice_.Chance(0.5) ? Variance(b_, x, axes, correction)
                                                : VarianceTwoPass(b_, x, axes, correction);
      Add(moments.mean);
      Add(moments.variance);
      return;
    }
  }
}

// Batch, instance and group norm: one axis is that of the channels, which the parameters have.
void GraphGenerator::ChannelNormalization(const Value& a, ValId x) {
  if (a.rank() < 2) return;
  const DType dtype = b_.dtype(x);
  const double eps = 1e-3;
  const int channel = dice_.Chance(0.5) ? a.rank() - 1 : 1;
  const Shape channels = {a.shape[channel]};
  const ValId weight = MaybeParameter(dtype, channels), bias = MaybeParameter(dtype, channels);
  switch (dice_.Below(4)) {
    case 0: {
      ValId mean, variance;
      if (dice_.Chance(0.5)) {
        mean = Parameter(DType::F32, channels);
        variance = b_.Op(OpKind::Abs, {Parameter(DType::F32, channels)});
      }
      const BatchNormResult norm =
          BatchNorm(b_, x, weight, bias, mean, variance, 0.1, eps, channel);
      Add(norm.y);
      if (norm.running_mean.valid()) Add(norm.running_mean);
      if (norm.running_var.valid()) Add(norm.running_var);
      if (dice_.Chance(0.3)) {
        Add(BatchNormBackward(b_, SameShaped(a, dtype), x, norm.mean, norm.rstd, weight, channel)
                .x);
      }
      return;
    }
    case 1: {
      const ValId mean = Parameter(DType::F32, channels);
      const ValId variance = b_.Op(OpKind::Abs, {Parameter(DType::F32, channels)});
      Add(BatchNormInference(b_, x, weight, bias, mean, variance, eps, channel));
      return;
    }
    case 2: {
      if (a.rank() < 3) return;
      const int at = channel == 0 ? 1 : channel;
      const NormResult norm = InstanceNorm(b_, x, weight, bias, eps, at);
      Add(norm.y);
      if (dice_.Chance(0.3)) {
        Add(InstanceNormBackward(b_, SameShaped(a, dtype), x, norm.mean, norm.rstd, weight, at).x);
      }
      return;
    }
    default: {
      const int64_t divisor = KnownDivisor(channels[0].extent);
      const int64_t groups = divisor % 4 == 0   ? dice_.Of<int64_t>({2, 4})
                             : divisor % 3 == 0 ? 3
                                                : 1;
      const NormResult norm = GroupNorm(b_, x, groups, weight, bias, eps, channel);
      Add(norm.y);
      if (dice_.Chance(0.3)) {
        Add(GroupNormBackward(b_, SameShaped(a, dtype), x, norm.mean, norm.rstd, groups, weight,
                              channel)
                .x);
      }
      return;
    }
  }
}

void GraphGenerator::Loss(const Value& a, ValId x) {
  const DType dtype = b_.dtype(x);
  if (a.rank() == 2 && a.shape[1].lowest() > 0 && dice_.Chance(0.6)) {
    const ValId target = Parameter(DType::I64, {a.shape[0]});
    const CrossEntropyResult loss = CrossEntropy(b_, x, target);
    Add(loss.loss);
    if (dice_.Chance(0.5) && loss.loss.valid()) {
      Add(CrossEntropyBackward(b_, Parameter(dtype, {}), x, target, loss.log_sum_exp));
    }
    return;
  }
  if (KnownDivisor(a.shape.back().extent) % 2 != 0) return;
  Shape half = a.shape;
  half.back() = Evaluate(FloorDiv(half.back().extent, 2));
  const ValId cos = Parameter(dtype, half), sin = Parameter(dtype, half);
  Add(RotaryEmbedding(b_, x, cos, sin));
}

}  // namespace seam::testing
