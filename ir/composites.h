// Composites: well-known operations that a builder function expands into primitive expressions.
//
// Common to all:
//  - Arithmetic is done in ComputeType(dtype of x): f16, bf16 and f8 are widened to f32, f64 stays.
//    Results of x's shape come back in x's dtype, gradients in the dtype of what they belong to;
//    statistics and losses stay in the compute type.
//  - Statistics lack the axes that they were reduced over: a [rows, cols] layer norm has [rows].
//  - An optional operand that is absent is an invalid ValId, and so is the result that would belong
//    to it.
//  - Axes may be negative. An empty list of axes means all of them.
//  - Errors go to the builder, with the composite's name; the results are then invalid ids.
// Thread-safety: that of the FusionBuilder.
#pragma once

#include "ir/fusion_builder.h"

namespace seam {

// --- Statistics ---

// sum(x) / n over `axes`, in the compute type. NaN over no elements.
ValId Mean(FusionBuilder& b, ValId x, AxisVector axes);

struct Moments {
  ValId mean, variance;
};
// variance = sum((x - mean)^2) / max(n - correction, 0) over `axes`, in the compute type: 0 is the
// biased variance, 1 Bessel's. By Welford's expression, or by two reductions, of x and of (x -
// mean)^2.
Moments Variance(FusionBuilder& b, ValId x, AxisVector axes, double correction = 0);
Moments VarianceTwoPass(FusionBuilder& b, ValId x, AxisVector axes, double correction = 0);

// --- Softmax ---

// y = exp(x - max(x)) / sum(exp(x - max(x))) along `axis`.
ValId Softmax(FusionBuilder& b, ValId x, int axis);
// dx = y * (grad - sum(grad * y)). `y`: the softmax.
ValId SoftmaxBackward(FusionBuilder& b, ValId grad, ValId y, int axis);

// y = x - max(x) - log(sum(exp(x - max(x)))) along `axis`.
ValId LogSoftmax(FusionBuilder& b, ValId x, int axis);
// dx = grad - exp(y) * sum(grad). `y`: the log-softmax.
ValId LogSoftmaxBackward(FusionBuilder& b, ValId grad, ValId y, int axis);

// --- Normalizations ---
// rstd = 1 / sqrt(variance + eps), xhat = (x - mean) * rstd; the variance is the biased one, by
// Welford.

struct NormResult {
  ValId y, mean, rstd;
};
struct NormGradients {
  ValId x, weight, bias;
};

// y = xhat * weight + bias, statistics over `axes`; weight and bias, both optional, have the shape
// of `axes`.
NormResult LayerNorm(FusionBuilder& b, ValId x, AxisVector axes, ValId weight, ValId bias,
                     double eps);
// With g = grad * weight: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), dweight = sum(grad *
// xhat) and dbias = sum(grad) over the axes that are not in `axes`. The bias gradient is made with
// the weight's and has its dtype.
NormGradients LayerNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                ValId weight, AxisVector axes);

struct RmsNormResult {
  ValId y, rstd;
};
struct RmsNormGradients {
  ValId x, weight;
};
// y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) over `axes`, whose shape the optional
// weight has.
RmsNormResult RmsNorm(FusionBuilder& b, ValId x, AxisVector axes, ValId weight, double eps);
// With g = grad * weight and xhat = x * rstd: dx = rstd * (g - xhat * mean(g * xhat)),
// dweight = sum(grad * xhat).
RmsNormGradients RmsNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId rstd, ValId weight,
                                 AxisVector axes);

struct BatchNormResult {
  ValId y, mean, rstd;              // Statistics: [C].
  ValId running_mean, running_var;  // The updated ones.
};
// Training: statistics over all axes but `channel_axis`, of extent C; weight, bias and running
// statistics are [C] and optional, the last two together. running' = (1 - momentum) * running +
// momentum * statistic, where the running variance takes the one with Bessel's correction.
BatchNormResult BatchNorm(FusionBuilder& b, ValId x, ValId weight, ValId bias, ValId running_mean,
                          ValId running_var, double momentum, double eps, int channel_axis = 1);
// y = (x - running_mean) / sqrt(running_var + eps) * weight + bias.
ValId BatchNormInference(FusionBuilder& b, ValId x, ValId weight, ValId bias, ValId running_mean,
                         ValId running_var, double eps, int channel_axis = 1);
// Of the training form. With s = sum(grad) and t = rstd * sum(grad * (x - mean)) over the reduced
// axes, of n elements:
// dx = rstd * weight * (grad - s/n - (x - mean) * rstd * t/n), dweight = t, dbias = s.
NormGradients BatchNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                ValId weight, int channel_axis = 1);
// Of the inference form: dx = grad * weight / sqrt(running_var + eps), dweight and dbias as above.
NormGradients BatchNormInferenceBackward(FusionBuilder& b, ValId grad, ValId x, ValId running_mean,
                                         ValId running_var, ValId weight, double eps,
                                         int channel_axis = 1);

// Statistics of each sample (axis 0) and channel, over all other axes: [N, C]. Weight and bias:
// [C], optional. The gradients are BatchNormBackward's, those of weight and bias summed over
// samples.
NormResult InstanceNorm(FusionBuilder& b, ValId x, ValId weight, ValId bias, double eps,
                        int channel_axis = 1);
NormGradients InstanceNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                   ValId weight, int channel_axis = 1);

// Statistics of each sample (axis 0) and group of C / groups neighbouring channels: [N, groups].
// Weight and bias: [C], optional. channel_axis 1 is NCHW, -1 channels last.
NormResult GroupNorm(FusionBuilder& b, ValId x, int64_t groups, ValId weight, ValId bias,
                     double eps, int channel_axis = 1);
NormGradients GroupNormBackward(FusionBuilder& b, ValId grad, ValId x, ValId mean, ValId rstd,
                                int64_t groups, ValId weight, int channel_axis = 1);

// --- Activations ---

enum class GeluKind {
  Erf,   // x / 2 * (1 + erf(x / sqrt(2)))
  Tanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
};
ValId Gelu(FusionBuilder& b, ValId x, GeluKind kind);
ValId GeluBackward(FusionBuilder& b, ValId grad, ValId x, GeluKind kind);
ValId Silu(FusionBuilder& b, ValId x);  // x * sigmoid(x)
ValId SiluBackward(FusionBuilder& b, ValId grad, ValId x);
ValId SwiGlu(FusionBuilder& b, ValId gate, ValId up);  // silu(gate) * up; both of one shape.

// --- Dropout ---

struct DropoutResult {
  ValId y, mask;  // mask: bool, of x's shape, true where the element is kept.
};
// y = x / (1 - p) where mask, else 0. An element is kept when its uniform number, a function of
// `seed`, `offset` (0-d i64) and its index, is at least p, 0 <= p <= 1.
DropoutResult Dropout(FusionBuilder& b, ValId x, double p, ValId seed, ValId offset);
ValId DropoutBackward(FusionBuilder& b, ValId grad, ValId mask, double p);

// --- Cross-entropy ---

struct CrossEntropyResult {
  ValId loss;         // 0-d.
  ValId log_sum_exp;  // [rows]: log(sum(exp(logits))) of each row, kept for the backward pass.
};
// Mean over rows of log_sum_exp - logits[row, target[row]]. logits [rows, classes]; target [rows],
// integers; of one outside 0..classes-1, negative ones too, the logit counts as 0.
CrossEntropyResult CrossEntropy(FusionBuilder& b, ValId logits, ValId target);
// dlogits = (exp(logits - log_sum_exp) - (class == target)) * grad / rows. grad: 0-d.
ValId CrossEntropyBackward(FusionBuilder& b, ValId grad, ValId logits, ValId target,
                           ValId log_sum_exp);

// --- Rotary embedding ---

// With x = [x1, x2], the halves of the last axis of extent D: y = [x1 * cos - x2 * sin, x2 * cos +
// x1 * sin]. x [..., D], D provably even; cos and sin [..., D / 2], leading axes broadcast to x's.
// The backward pass is the same with -sin.
ValId RotaryEmbedding(FusionBuilder& b, ValId x, ValId cos, ValId sin);

}  // namespace seam
