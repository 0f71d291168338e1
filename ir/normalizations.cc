// Every normalization is one forward and one backward expansion, told which axes the statistics run
// over and which axes the parameters have; a group norm is the same after its channels are split in
// two axes.
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/composite_expansion.h"
#include "ir/composites.h"

namespace seam {
namespace {

// --- The two expansions of all normalizations ---

struct NormAxes {
  AxisVector reduced;     // Of the statistics.
  AxisVector parameters;  // Of weight and bias.
};

// v - a * b, rounded once.
ValId Less(Expansion& e, ValId v, ValId a, ValId b) {
  return e.b.Op(OpKind::Fma, {a, e.b.Op(OpKind::Neg, {b}), v});
}

// Of the axes `kept` those, by their numbers among them, that parameters lack.
AxisVector WithoutParameters(const AxisVector& kept, const AxisVector& parameters) {
  AxisVector others;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!absl::c_binary_search(parameters, kept[i])) others.push_back(static_cast<int>(i));
  }
  return others;
}

// rstd times a weight that may be absent; `others` are the axes of rstd that it lacks.
ValId Weighted(Expansion& e, ValId rstd, ValId weight, const AxisVector& others) {
  if (!weight.valid() || !e.ok()) return rstd;
  weight = e.Widen(weight);
  return e.b.Mul(rstd, others.empty() ? weight : e.b.Broadcast(weight, others));
}

// xhat * weight + bias, in x's dtype; with both rounded once.
ValId ScaleAndShift(Expansion& e, ValId x, ValId xhat, ValId weight, ValId bias,
                    const AxisVector& axes) {
  FusionBuilder& b = e.b;
  if (weight.valid() && bias.valid()) {
    xhat = b.Op(OpKind::Fma, {xhat, e.Spread(weight, axes), e.Spread(bias, axes)});
  } else if (weight.valid()) {
    xhat = b.Mul(xhat, e.Spread(weight, axes));
  } else if (bias.valid()) {
    xhat = b.Add(xhat, e.Spread(bias, axes));
  }
  return e.Narrow(xhat, x);
}

struct NormForward {
  NormResult result;
  ValId m2, count;  // Of Welford's expression.
};

NormForward Normalize(Expansion& e, ValId x, ValId weight, ValId bias, double eps,
                      const NormAxes& axes) {
  FusionBuilder& b = e.b;
  e.CheckShape(weight, "weight", axes.parameters, Expansion::kOptional);
  e.CheckShape(bias, "bias", axes.parameters, Expansion::kOptional);
  if (!e.ok()) return {};
  const ValId wide = e.Widen(x);
  const ValId mean = b.Welford(wide, axes.reduced);
  const ValId m2 = b.ResultOf(mean, 1), count = b.ResultOf(mean, 2);
  const ValId rstd = e.Rsqrt(b.Div(m2, count), eps);
  const ValId centered = b.Sub(wide, b.Broadcast(mean, axes.reduced));
  const AxisVector kept = Complement(axes.reduced, b.rank(x));
  if (!absl::c_includes(kept, axes.parameters)) {
    const ValId xhat = b.Mul(centered, b.Broadcast(rstd, axes.reduced));
    return {{ScaleAndShift(e, x, xhat, weight, bias, axes.parameters), mean, rstd}, m2, count};
  }
  // What is normalized together has one weight, which is multiplied with rstd once for all.
  const ValId scale = b.Broadcast(
      Weighted(e, rstd, weight, WithoutParameters(kept, axes.parameters)), axes.reduced);
  const ValId y = bias.valid()
                      ? b.Op(OpKind::Fma, {centered, scale, e.Spread(bias, axes.parameters)})
                      : b.Mul(centered, scale);
  return {{e.Narrow(y, x), mean, rstd}, m2, count};
}

// Gradients of weight and bias, in the weight's dtype.
void ParameterGradients(Expansion& e, ValId grad, ValId xhat, ValId x, ValId weight,
                        const AxisVector& axes, NormGradients& gradients) {
  if (!weight.valid() || !e.ok()) return;
  const AxisVector others = Complement(axes, e.b.rank(x));
  // Over no axes: an empty list would mean all of them.
  const auto sum = [&](ValId v) { return others.empty() ? v : e.Sum(v, others); };
  gradients.weight = e.Narrow(sum(e.b.Mul(grad, xhat)), weight);
  gradients.bias = e.Narrow(sum(grad), weight);
}

// Where what is normalized together has one weight, it and rstd come out of the sums, and the
// parameters' gradients are made of these: two sums a point instead of four. PyTorch's batch norm
// computes the same.
NormGradients BackwardWithOneWeight(Expansion& e, ValId grad, ValId centered, ValId x, ValId rstd,
                                    ValId weight, const AxisVector& kept, const NormAxes& axes) {
  FusionBuilder& b = e.b;
  if (!e.ok()) return {};
  const ValId scale = e.Widen(rstd), count = e.Count(x, axes.reduced);
  const ValId sum = e.Sum(grad, axes.reduced);
  const ValId along = b.Mul(scale, e.Sum(b.Mul(grad, centered), axes.reduced));
  const ValId slope = b.Div(b.Mul(scale, along), count);
  const auto spread = [&](ValId v) { return b.Broadcast(v, axes.reduced); };
  const ValId left = Less(e, b.Sub(grad, spread(b.Div(sum, count))), centered, spread(slope));
  const AxisVector others = WithoutParameters(kept, axes.parameters);
  const ValId weighted = Weighted(e, scale, weight, others);
  NormGradients gradients;
  gradients.x = e.Narrow(b.Mul(spread(weighted), left), x);
  if (!weight.valid()) return gradients;
  const auto over_others = [&](ValId v) { return others.empty() ? v : e.Sum(v, others); };
  gradients.weight = e.Narrow(over_others(along), weight);
  gradients.bias = e.Narrow(over_others(sum), weight);
  return gradients;
}

NormGradients NormalizeBackward(Expansion& e, ValId grad, ValId x, ValId mean, ValId rstd,
                                ValId weight, const NormAxes& axes) {
  FusionBuilder& b = e.b;
  if (!e.ok()) return {};
  const AxisVector kept = Complement(axes.reduced, b.rank(x));
  e.CheckSameShapeAsX(grad, "grad");
  e.CheckShape(mean, "mean", kept);
  e.CheckShape(rstd, "rstd", kept);
  e.CheckShape(weight, "weight", axes.parameters, Expansion::kOptional);
  if (!e.ok()) return {};
  const ValId wide_grad = e.Widen(grad);
  const ValId scale = e.Spread(rstd, kept);
  const ValId centered = b.Sub(e.Widen(x), e.Spread(mean, kept));
  if (absl::c_includes(kept, axes.parameters)) {
    return BackwardWithOneWeight(e, wide_grad, centered, x, rstd, weight, kept, axes);
  }
  const ValId xhat = b.Mul(centered, scale);
  const ValId g = weight.valid() ? b.Mul(wide_grad, e.Spread(weight, axes.parameters)) : wide_grad;
  const ValId along = e.MeanKept(b.Mul(g, xhat), axes.reduced);
  const ValId left = Less(e, b.Sub(g, e.MeanKept(g, axes.reduced)), xhat, along);
  NormGradients gradients;
  gradients.x = e.Narrow(b.Mul(scale, left), x);
  ParameterGradients(e, wide_grad, xhat, x, weight, axes.parameters, gradients);
  return gradients;
}

// The axes of a norm with statistics for each channel, and for each sample where `per_sample`.
NormAxes ChannelAxes(Expansion& e, ValId x, int channel_axis, bool per_sample) {
  if (!e.ok()) return {};
  const int rank = e.b.rank(x);
  NormAxes axes;
  axes.parameters = e.Axes({channel_axis});
  AxisVector kept = axes.parameters;
  if (per_sample && e.ok()) {
    if (kept[0] == 0) e.Fail("the channel axis is the sample axis 0");
    kept.insert(kept.begin(), 0);
  }
  axes.reduced = Complement(kept, rank);
  if (axes.reduced.empty() && e.ok()) {
    e.Fail(e.b.type(x).ToString(), " has no axes to take statistics over");
  }
  return axes;
}

}  // namespace

NormResult LayerNorm(FusionBuilder& b, ValId x, AxisVector axes, ValId weight, ValId bias,
                     double eps) {
  Expansion e(b, "layer_norm", x);
  if (!e.ok()) return {};
  axes = e.Axes(std::move(axes));
  return Normalize(e, x, weight, bias, eps, {axes, axes}).result;
}

NormGradients LayerNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                ValId weight, AxisVector axes) {
  Expansion e(b, "layer_norm_backward", x);
  if (!e.ok()) return {};
  axes = e.Axes(std::move(axes));
  return NormalizeBackward(e, grad, x, mean, rstd, weight, {axes, axes});
}

RmsNormResult RmsNorm(FusionBuilder& b, ValId x, AxisVector axes, ValId weight, double eps) {
  Expansion e(b, "rms_norm", x);
  if (!e.ok()) return {};
  axes = e.Axes(std::move(axes));
  e.CheckShape(weight, "weight", axes, Expansion::kOptional);
  if (!e.ok()) return {};
  const ValId wide = e.Widen(x);
  const ValId rstd = e.Rsqrt(e.Mean(b.Mul(wide, wide), axes), eps);
  const ValId xhat = b.Mul(wide, b.Broadcast(rstd, axes));
  return {ScaleAndShift(e, x, xhat, weight, ValId(), axes), rstd};
}

RmsNormGradients RmsNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId rstd, ValId weight,
                                 AxisVector axes) {
  Expansion e(b, "rms_norm_backward", x);
  if (!e.ok()) return {};
  axes = e.Axes(std::move(axes));
  const AxisVector kept = Complement(axes, b.rank(x));
  e.CheckSameShapeAsX(grad, "grad");
  e.CheckShape(rstd, "rstd", kept);
  e.CheckShape(weight, "weight", axes, Expansion::kOptional);
  if (!e.ok()) return {};
  const ValId wide_grad = e.Widen(grad);
  const ValId scale = e.Spread(rstd, kept);
  const ValId xhat = b.Mul(e.Widen(x), scale);
  const ValId g = weight.valid() ? b.Mul(wide_grad, e.Spread(weight, axes)) : wide_grad;
  const ValId along = e.MeanKept(b.Mul(g, xhat), axes);
  RmsNormGradients gradients;
  gradients.x = e.Narrow(b.Mul(scale, Less(e, g, xhat, along)), x);
  if (weight.valid()) {
    const ValId product = b.Mul(wide_grad, xhat);
    gradients.weight = e.Narrow(kept.empty() ? product : e.Sum(product, kept), weight);
  }
  return gradients;
}

BatchNormResult BatchNorm(FusionBuilder& b, ValId x, ValId weight, ValId bias, ValId running_mean,
                          ValId running_var, double momentum, double eps, int channel_axis) {
  Expansion e(b, "batch_norm", x);
  const NormAxes axes = ChannelAxes(e, x, channel_axis, /*per_sample=*/false);
  const bool has_running = running_mean.valid() || running_var.valid();
  if (has_running) {
    e.CheckShape(running_mean, "running_mean", axes.parameters);
    e.CheckShape(running_var, "running_var", axes.parameters);
  }
  const NormForward forward = Normalize(e, x, weight, bias, eps, axes);
  if (!e.ok()) return {};
  BatchNormResult result{forward.result.y, forward.result.mean, forward.result.rstd, ValId(),
                         ValId()};
  if (has_running) {
    const auto update = [&](ValId running, ValId statistic) {
      return e.Narrow(b.Add(b.Mul(e.Widen(running), e.Number(1 - momentum)),
                            b.Mul(statistic, e.Number(momentum))),
                      running);
    };
    result.running_mean = update(running_mean, result.mean);
    result.running_var = update(running_var, b.Div(forward.m2, b.Sub(forward.count, e.Number(1))));
  }
  return result;
}

namespace {

// What the two passes of the inference form share: the running statistics as those of a
// normalization.
struct FixedStatistics {
  AxisVector channel;
  ValId mean, rstd;  // Spread over x.
};

FixedStatistics RunningStatistics(Expansion& e, ValId x, ValId weight, ValId running_mean,
                                  ValId running_var, double eps, int channel_axis) {
  FixedStatistics s;
  s.channel = ChannelAxes(e, x, channel_axis, /*per_sample=*/false).parameters;
  e.CheckShape(running_mean, "running_mean", s.channel);
  e.CheckShape(running_var, "running_var", s.channel);
  e.CheckShape(weight, "weight", s.channel, Expansion::kOptional);
  if (!e.ok()) return s;
  s.mean = e.Spread(running_mean, s.channel);
  s.rstd = e.Spread(e.Rsqrt(e.Widen(running_var), eps), s.channel);
  return s;
}

}  // namespace

ValId BatchNormInference(FusionBuilder& b, ValId x, ValId weight, ValId bias, ValId running_mean,
                         ValId running_var, double eps, int channel_axis) {
  Expansion e(b, "batch_norm_inference", x);
  const FixedStatistics s =
      RunningStatistics(e, x, weight, running_mean, running_var, eps, channel_axis);
  e.CheckShape(bias, "bias", s.channel, Expansion::kOptional);
  if (!e.ok()) return ValId();
  const ValId xhat = b.Mul(b.Sub(e.Widen(x), s.mean), s.rstd);
  return ScaleAndShift(e, x, xhat, weight, bias, s.channel);
}

NormGradients BatchNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                ValId weight, int channel_axis) {
  Expansion e(b, "batch_norm_backward", x);
  const NormAxes axes = ChannelAxes(e, x, channel_axis, /*per_sample=*/false);
  return NormalizeBackward(e, grad, x, mean, rstd, weight, axes);
}

NormGradients BatchNormInferenceBackward(FusionBuilder& b, ValId grad, ValId x, ValId running_mean,
                                         ValId running_var, ValId weight, double eps,
                                         int channel_axis) {
  Expansion e(b, "batch_norm_inference_backward", x);
  e.CheckSameShapeAsX(grad, "grad");
  const FixedStatistics s =
      RunningStatistics(e, x, weight, running_mean, running_var, eps, channel_axis);
  if (!e.ok()) return {};
  const ValId wide_grad = e.Widen(grad);
  const ValId xhat = b.Mul(b.Sub(e.Widen(x), s.mean), s.rstd);
  const ValId g = weight.valid() ? b.Mul(wide_grad, e.Spread(weight, s.channel)) : wide_grad;
  NormGradients gradients;
  gradients.x = e.Narrow(b.Mul(g, s.rstd), x);
  ParameterGradients(e, wide_grad, xhat, x, weight, s.channel, gradients);
  return gradients;
}

NormResult InstanceNorm(FusionBuilder& b, ValId x, ValId weight, ValId bias, double eps,
                        int channel_axis) {
  Expansion e(b, "instance_norm", x);
  const NormAxes axes = ChannelAxes(e, x, channel_axis, /*per_sample=*/true);
  return Normalize(e, x, weight, bias, eps, axes).result;
}

NormGradients InstanceNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                   ValId weight, int channel_axis) {
  Expansion e(b, "instance_norm_backward", x);
  const NormAxes axes = ChannelAxes(e, x, channel_axis, /*per_sample=*/true);
  return NormalizeBackward(e, grad, x, mean, rstd, weight, axes);
}

namespace {

// x with its channel axis C as two axes [groups, C / groups], and back. Checks all that is of x's
// shape or of shape [C] before they are split.
class GroupedChannels {
 public:
  GroupedChannels(FusionBuilder& b, absl::string_view name, ValId x, int64_t groups,
                  int channel_axis)
      : e_(b, name, x) {
    if (!e_.ok()) return;
    channel_ = e_.Axes({channel_axis});
    if (!e_.ok()) return;
    const int axis = channel_[0];
    const SymInt channels = b.extent(x, axis);
    if (axis == 0) e_.Fail("the channel axis is the sample axis 0");
    if (groups < 1) e_.Fail(groups, " groups given, at least 1 expected");
    if (Decide(SymEq(Mod(channels, groups), 0)) == false) {
      e_.Fail(channels.ToString(), " channels are no multiple of ", groups, " groups");
    }
    if (!e_.ok()) return;
    for (int i = 0; i < b.rank(x); ++i) sizes_.push_back(b.extent(x, i));
    parameter_sizes_ = {groups, FloorDiv(channels, groups)};
    axes_.parameters = {axis, axis + 1};
    axes_.reduced = Complement({0, axis}, b.rank(x) + 1);
  }

  const NormAxes& axes() const { return axes_; }

  ValId Split(ValId v, absl::string_view what) {
    e_.CheckSameShapeAsX(v, what);
    if (!e_.ok()) return ValId();
    SymVector sizes = sizes_;
    sizes[channel_[0]] = parameter_sizes_[1];
    sizes.insert(sizes.begin() + channel_[0], parameter_sizes_[0]);
    return e_.b.Reshape(v, std::move(sizes));
  }
  ValId Join(ValId v) { return e_.b.Reshape(v, sizes_); }

  // The same for a parameter, which may be absent.
  ValId SplitParameter(ValId v, absl::string_view what) {
    e_.CheckShape(v, what, channel_, Expansion::kOptional);
    return v.valid() && e_.ok() ? e_.b.Reshape(v, parameter_sizes_) : ValId();
  }
  ValId JoinParameter(ValId v) { return v.valid() ? e_.b.Reshape(v, {sizes_[channel_[0]]}) : v; }

 private:
  Expansion e_;
  AxisVector channel_;
  SymVector sizes_, parameter_sizes_;
  NormAxes axes_;
};

}  // namespace

NormResult GroupNorm(FusionBuilder& b, ValId x, int64_t groups, ValId weight, ValId bias,
                     double eps, int channel_axis) {
  constexpr absl::string_view kName = "group_norm";
  GroupedChannels grouped(b, kName, x, groups, channel_axis);
  const ValId split = grouped.Split(x, "x");
  const ValId w = grouped.SplitParameter(weight, "weight"),
              shift = grouped.SplitParameter(bias, "bias");
  Expansion e(b, kName, split);
  NormResult result = Normalize(e, split, w, shift, eps, grouped.axes()).result;
  if (!b.status().ok()) return {};
  result.y = grouped.Join(result.y);
  return result;
}

NormGradients GroupNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                int64_t groups, ValId weight, int channel_axis) {
  constexpr absl::string_view kName = "group_norm_backward";
  GroupedChannels grouped(b, kName, x, groups, channel_axis);
  const ValId split = grouped.Split(x, "x"), g = grouped.Split(grad, "grad");
  const ValId w = grouped.SplitParameter(weight, "weight");
  Expansion e(b, kName, split);
  const NormGradients gradients = NormalizeBackward(e, g, split, mean, rstd, w, grouped.axes());
  if (!b.status().ok()) return {};
  return {grouped.Join(gradients.x), grouped.JoinParameter(gradients.weight),
          grouped.JoinParameter(gradients.bias)};
}

}  // namespace seam
