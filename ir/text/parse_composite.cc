// Composites in the text form: each row of the table is a signature and the builder function behind
// it.
//
// Tensors are given by position or by keyword, everything else by keyword. Results that belong to
// absent operands are left out. Where one value is expected, the first result is it.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/composites.h"
#include "ir/text/parser_impl.h"

namespace seam::text {
namespace {

struct Parameter {
  enum class Kind : uint8_t { kTensor, kOptionalTensor, kAxes, kInteger, kNumber };
  absl::string_view name;
  Kind kind = Kind::kTensor;
  std::optional<double> default_value;  // Required without one; any default of axes means all axes.
};
constexpr Parameter Tensor(absl::string_view name) {
  return {name, Parameter::Kind::kTensor, std::nullopt};
}
constexpr Parameter Optional(absl::string_view name) {
  return {name, Parameter::Kind::kOptionalTensor, 0};
}
constexpr Parameter Number(absl::string_view name, std::optional<double> value = std::nullopt) {
  return {name, Parameter::Kind::kNumber, value};
}
constexpr Parameter Integer(absl::string_view name, std::optional<double> value = std::nullopt) {
  return {name, Parameter::Kind::kInteger, value};
}
constexpr Parameter Axes(std::optional<double> value = std::nullopt) {
  return {"axes", Parameter::Kind::kAxes, value};
}

// What a call gives for the parameters of each kind, in the order of the signature.
struct Arguments {
  std::vector<ValId> t;
  std::vector<double> number;
  std::vector<int32_t> integer;
  AxisVector axes;
};

using Results = std::vector<ValId>;
Results List(const Moments& r) { return {r.mean, r.variance}; }
Results List(const NormResult& r) { return {r.y, r.mean, r.rstd}; }
Results List(const NormGradients& r) { return {r.x, r.weight, r.bias}; }
Results List(const RmsNormResult& r) { return {r.y, r.rstd}; }
Results List(const RmsNormGradients& r) { return {r.x, r.weight}; }
Results List(const BatchNormResult& r) {
  return {r.y, r.mean, r.rstd, r.running_mean, r.running_var};
}
Results List(const DropoutResult& r) { return {r.y, r.mask}; }
Results List(const CrossEntropyResult& r) { return {r.loss, r.log_sum_exp}; }
Results List(ValId r) { return {r}; }

struct Composite {
  absl::string_view name;
  std::vector<Parameter> parameters;
  Results (*build)(FusionBuilder& b, Arguments& a);
  bool folds = false;  // Its axes are those that a reduction of x folds: it takes keepdims.
};

const std::vector<Composite>& Composites() {
  using B = FusionBuilder;
  using A = Arguments;
  const Parameter x = Tensor("x"), grad = Tensor("grad"), y = Tensor("y"), mean = Tensor("mean"),
                  rstd = Tensor("rstd"), weight = Optional("weight"), bias = Optional("bias"),
                  running_mean = Tensor("running_mean"), running_var = Tensor("running_var"),
                  eps = Number("eps", 1e-5), axis = Integer("axis", -1),
                  channel_axis = Integer("channel_axis", 1), logits = Tensor("logits"),
                  target = Tensor("target");
  static const auto& table = *new std::vector<Composite>{
      {"mean", {x, Axes(0)}, [](B& b, A& a) { return List(Mean(b, a.t[0], a.axes)); }, true},
      {"variance",
       {x, Axes(0), Number("correction", 0)},
       [](B& b, A& a) { return List(Variance(b, a.t[0], a.axes, a.number[0]).variance); },
       true},
      {"moments",
       {x, Axes(0), Number("correction", 0)},
       [](B& b, A& a) { return List(Variance(b, a.t[0], a.axes, a.number[0])); },
       true},
      {"moments_two_pass",
       {x, Axes(0), Number("correction", 0)},
       [](B& b, A& a) { return List(VarianceTwoPass(b, a.t[0], a.axes, a.number[0])); },
       true},
      {"softmax", {x, axis}, [](B& b, A& a) { return List(Softmax(b, a.t[0], a.integer[0])); }},
      {"softmax_backward",
       {grad, y, axis},
       [](B& b, A& a) { return List(SoftmaxBackward(b, a.t[0], a.t[1], a.integer[0])); }},
      {"log_softmax",
       {x, axis},
       [](B& b, A& a) { return List(LogSoftmax(b, a.t[0], a.integer[0])); }},
      {"log_softmax_backward",
       {grad, y, axis},
       [](B& b, A& a) { return List(LogSoftmaxBackward(b, a.t[0], a.t[1], a.integer[0])); }},
      {"layer_norm",
       {x, weight, bias, Axes(), eps},
       [](B& b, A& a) { return List(LayerNorm(b, a.t[0], a.axes, a.t[1], a.t[2], a.number[0])); }},
      {"layer_norm_backward",
       {grad, x, mean, rstd, weight, Axes()},
       [](B& b, A& a) {
         return List(LayerNormBackward(b, a.t[0], a.t[1], a.t[2], a.t[3], a.t[4], a.axes));
       }},
      {"rms_norm",
       {x, weight, Axes(), eps},
       [](B& b, A& a) { return List(RmsNorm(b, a.t[0], a.axes, a.t[1], a.number[0])); }},
      {"rms_norm_backward",
       {grad, x, rstd, weight, Axes()},
       [](B& b, A& a) { return List(RmsNormBackward(b, a.t[0], a.t[1], a.t[2], a.t[3], a.axes)); }},
      {"batch_norm",
       {x, weight, bias, Optional("running_mean"), Optional("running_var"), Number("momentum", 0.1),
        eps, channel_axis},
       [](B& b, A& a) {
         return List(BatchNorm(b, a.t[0], a.t[1], a.t[2], a.t[3], a.t[4], a.number[0], a.number[1],
                               a.integer[0]));
       }},
      {"batch_norm_inference",
       {x, weight, bias, running_mean, running_var, eps, channel_axis},
       [](B& b, A& a) {
         return List(BatchNormInference(b, a.t[0], a.t[1], a.t[2], a.t[3], a.t[4], a.number[0],
                                        a.integer[0]));
       }},
      {"batch_norm_backward",
       {grad, x, mean, rstd, weight, channel_axis},
       [](B& b, A& a) {
         return List(BatchNormBackward(b, a.t[0], a.t[1], a.t[2], a.t[3], a.t[4], a.integer[0]));
       }},
      {"batch_norm_inference_backward",
       {grad, x, running_mean, running_var, weight, eps, channel_axis},
       [](B& b, A& a) {
         return List(BatchNormInferenceBackward(b, a.t[0], a.t[1], a.t[2], a.t[3], a.t[4],
                                                a.number[0], a.integer[0]));
       }},
      {"instance_norm",
       {x, weight, bias, eps, channel_axis},
       [](B& b, A& a) {
         return List(InstanceNorm(b, a.t[0], a.t[1], a.t[2], a.number[0], a.integer[0]));
       }},
      {"instance_norm_backward",
       {grad, x, mean, rstd, weight, channel_axis},
       [](B& b, A& a) {
         return List(InstanceNormBackward(b, a.t[0], a.t[1], a.t[2], a.t[3], a.t[4], a.integer[0]));
       }},
      {"group_norm",
       {x, weight, bias, Integer("groups"), eps, channel_axis},
       [](B& b, A& a) {
         return List(GroupNorm(b, a.t[0], a.integer[0], a.t[1], a.t[2], a.number[0], a.integer[1]));
       }},
      {"group_norm_backward",
       {grad, x, mean, rstd, weight, Integer("groups"), channel_axis},
       [](B& b, A& a) {
         return List(GroupNormBackward(b, a.t[0], a.t[1], a.t[2], a.t[3], a.integer[0], a.t[4],
                                       a.integer[1]));
       }},
      {"gelu", {x}, [](B& b, A& a) { return List(Gelu(b, a.t[0], GeluKind::Erf)); }},
      {"gelu_backward",
       {grad, x},
       [](B& b, A& a) { return List(GeluBackward(b, a.t[0], a.t[1], GeluKind::Erf)); }},
      {"gelu_tanh", {x}, [](B& b, A& a) { return List(Gelu(b, a.t[0], GeluKind::Tanh)); }},
      {"gelu_tanh_backward",
       {grad, x},
       [](B& b, A& a) { return List(GeluBackward(b, a.t[0], a.t[1], GeluKind::Tanh)); }},
      {"silu", {x}, [](B& b, A& a) { return List(Silu(b, a.t[0])); }},
      {"silu_backward",
       {grad, x},
       [](B& b, A& a) { return List(SiluBackward(b, a.t[0], a.t[1])); }},
      {"swiglu",
       {Tensor("gate"), Tensor("up")},
       [](B& b, A& a) { return List(SwiGlu(b, a.t[0], a.t[1])); }},
      {"dropout",
       {x, Tensor("seed"), Tensor("offset"), Number("p")},
       [](B& b, A& a) { return List(Dropout(b, a.t[0], a.number[0], a.t[1], a.t[2])); }},
      {"dropout_backward",
       {grad, Tensor("mask"), Number("p")},
       [](B& b, A& a) { return List(DropoutBackward(b, a.t[0], a.t[1], a.number[0])); }},
      {"cross_entropy",
       {logits, target},
       [](B& b, A& a) { return List(CrossEntropy(b, a.t[0], a.t[1])); }},
      {"cross_entropy_backward",
       {grad, logits, target, Tensor("log_sum_exp")},
       [](B& b, A& a) { return List(CrossEntropyBackward(b, a.t[0], a.t[1], a.t[2], a.t[3])); }},
      {"rotary_embedding",
       {x, Tensor("cos"), Tensor("sin")},
       [](B& b, A& a) { return List(RotaryEmbedding(b, a.t[0], a.t[1], a.t[2])); }},
  };
  return table;
}

}  // namespace

std::vector<absl::string_view> CompositeNames() {
  std::vector<absl::string_view> names;
  for (const Composite& composite : Composites()) names.push_back(composite.name);
  return names;
}

Operand Parser::CallComposite(Call call) {
  const auto composite = absl::c_find_if(
      Composites(), [&](const Composite& row) { return row.name == call.name.text; });
  std::vector<absl::string_view> names;
  for (const Parameter& parameter : composite->parameters) names.push_back(parameter.name);
  if (composite->folds) names.push_back("keepdims");
  // One axis may be written either way.
  for (absl::string_view name : names) {
    if ((name != "axes" && name != "axis") || FindKeyword(call, name) != nullptr) continue;
    for (KeywordArgument& keyword : call.keywords) {
      if (keyword.name.text == (name == "axes" ? "axis" : "axes")) keyword.name.text = name;
    }
  }
  CheckKeywords(call, names);

  Arguments arguments;
  size_t position = 0;
  for (const Parameter& parameter : composite->parameters) {
    const KeywordArgument* keyword = FindKeyword(call, parameter.name);
    const bool is_tensor = parameter.kind <= Parameter::Kind::kOptionalTensor;
    const bool by_position = is_tensor && keyword == nullptr && position < call.operands.size();
    if (!by_position && keyword == nullptr && !parameter.default_value.has_value()) {
      Fail(call.name, absl::StrCat("found no ", parameter.name, " for ", call.name.text,
                                   ", expected ", absl::StrJoin(names, ", ")));
    }
    if (!ok()) return Operand();
    switch (parameter.kind) {
      case Parameter::Kind::kTensor:
      case Parameter::Kind::kOptionalTensor:
        // The only literals that make sense are seeds.
        if (by_position) {
          arguments.t.push_back(ToValue(call.operands[position++], DType::I64));
        } else if (keyword != nullptr) {
          if (keyword->kind != KeywordArgument::Kind::kOperand) FailKeyword(*keyword, "a tensor");
          arguments.t.push_back(ToValue(keyword->operand, DType::I64));
        } else {
          arguments.t.push_back(ValId());
        }
        break;
      case Parameter::Kind::kAxes:
        if (keyword != nullptr) arguments.axes = ToAxes(*keyword);
        break;
      case Parameter::Kind::kInteger:
        if (keyword != nullptr && keyword->name.text == "axis") {
          const AxisVector axes = ToAxes(*keyword);
          if (ok() && axes.size() != 1) FailKeyword(*keyword, "one axis");
          arguments.integer.push_back(axes.empty() ? 0 : axes[0]);
          break;
        }
        arguments.integer.push_back(keyword == nullptr
                                        ? static_cast<int32_t>(*parameter.default_value)
                                        : ToInteger(*keyword).value_or(0));
        break;
      case Parameter::Kind::kNumber:
        arguments.number.push_back(keyword == nullptr ? *parameter.default_value
                                                      : ToNumber(*keyword));
        break;
    }
  }
  if (position < call.operands.size()) {
    Fail(call.operands[position].token,
         absl::StrCat("found more tensors than ", call.name.text, " takes, expected ",
                      absl::StrJoin(names, ", ")));
  }
  if (!ok()) return Operand();

  builder_.SetLocation(call.name.location);
  std::vector<ValId> results = composite->build(builder_, arguments);
  const KeywordArgument* keepdims = FindKeyword(call, "keepdims");
  if (keepdims != nullptr && ToBool(*keepdims)) {
    for (ValId& result : results) result = KeepDims(result, arguments.t[0], arguments.axes);
  }
  CheckBuilder(call.name);
  if (!ok()) return Operand();
  results.erase(std::remove(results.begin(), results.end(), ValId()), results.end());
  const ValId first = results[0];
  Operand operand = Results(call.name, std::move(results));
  operand.value = first;
  return operand;
}

}  // namespace seam::text
