// What composites expand to: types, structure, and the sentences with which they refuse. Their
// numbers are in composites_numerics_test.cc.
#include "ir/composites.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/verify.h"

namespace seam {
namespace {

using ::testing::HasSubstr;

std::string Type(const FusionBuilder& b, ValId v) {
  return v.valid() ? b.type(v).ToString() : "none";
}

std::map<OpKind, int> CountOps(FusionBuilder& b) {
  absl::StatusOr<Fusion> f = b.Finish();
  EXPECT_TRUE(f.ok()) << f.status();
  std::map<OpKind, int> counts;
  if (!f.ok()) return counts;
  EXPECT_TRUE(Verify(*f).ok()) << Verify(*f);
  for (uint32_t e = 0; e < f->num_exprs(); ++e) ++counts[f->op(ExprId(e))];
  return counts;
}

TEST(Composites, StatisticsAreOfTheComputeType) {
  FusionBuilder b("f");
  const SymInt m = b.Symbol("M"), n = b.Symbol("N");
  const ValId half = b.Input("half", DType::F16, {m, n}),
              wide = b.Input("wide", DType::F64, {m, n});
  EXPECT_EQ(Type(b, Mean(b, half, {-1})), "f32[M]");
  EXPECT_EQ(Type(b, Mean(b, wide, {})), "f64[]");
  EXPECT_EQ(Type(b, Variance(b, half, {0}, 1).variance), "f32[N]");
  EXPECT_EQ(Type(b, VarianceTwoPass(b, wide, {0, 1}).mean), "f64[]");
  EXPECT_TRUE(b.status().ok()) << b.status();
}

TEST(Composites, LayerNormTypes) {
  for (DType dtype :
       {DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    FusionBuilder b("f");
    const SymInt m = b.Symbol("M");
    const ValId x = b.Input("x", dtype, {m, 3, 4}), w = b.Input("w", DType::F32, {3, 4});
    const NormResult r = LayerNorm(b, x, {1, 2}, w, ValId(), 1e-5);
    EXPECT_EQ(b.type(r.y).ToString(), b.type(x).ToString());
    EXPECT_EQ(b.dtype(r.mean), ComputeType(dtype));
    EXPECT_EQ(b.rank(r.rstd), 1);
    const NormGradients g = LayerNormBackward(b, r.y, x, r.mean, r.rstd, w, {-1, -2});
    EXPECT_EQ(b.type(g.x).ToString(), b.type(x).ToString());
    EXPECT_EQ(Type(b, g.weight), "f32[3, 4]");
    EXPECT_EQ(Type(b, g.bias), "f32[3, 4]");
    const NormGradients plain = LayerNormBackward(b, r.y, x, r.mean, r.rstd, ValId(), {1, 2});
    EXPECT_TRUE(plain.x.valid());
    EXPECT_FALSE(plain.weight.valid());
    EXPECT_FALSE(plain.bias.valid());
    EXPECT_TRUE(b.status().ok()) << b.status();
  }
}

TEST(Composites, LayerNormIsOneWelford) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F16, {64, 256}), w = b.Input("w", DType::F16, {256}),
              bias = b.Input("b", DType::F16, {256});
  b.Output(LayerNorm(b, x, {-1}, w, bias, 1e-5).y);
  const std::map<OpKind, int> ops = CountOps(b);
  EXPECT_EQ(ops.at(OpKind::Welford), 1);
  EXPECT_EQ(ops.count(OpKind::Sum), 0u);
  EXPECT_EQ(ops.at(OpKind::Cast), 4);  // Three operands widened, one result narrowed.
}

TEST(Composites, NothingIsCastThatHasTheComputeTypeAlready) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {64, 256}), w = b.Input("w", DType::F32, {256});
  b.Output(RmsNorm(b, x, {-1}, w, 1e-6).y);
  const std::map<OpKind, int> ops = CountOps(b);
  EXPECT_EQ(ops.count(OpKind::Cast), 0u);
  EXPECT_EQ(ops.count(OpKind::Welford), 0u);
  EXPECT_EQ(ops.at(OpKind::Sum), 1);
}

TEST(Composites, MeansOverSymbolicAxesDivideByTheirSize) {
  FusionBuilder b("f");
  const SymInt n = b.Symbol("N");
  b.Output(Mean(b, b.Input("x", DType::F32, {4, n}), {}));
  const std::map<OpKind, int> ops = CountOps(b);
  EXPECT_EQ(ops.at(OpKind::Size), 1);
  EXPECT_EQ(ops.at(OpKind::Sum), 1);
}

TEST(Composites, NormTypes) {
  FusionBuilder b("f");
  const SymInt n = b.Symbol("N"), h = b.Symbol("H");
  const ValId nchw = b.Input("nchw", DType::BF16, {n, 6, h, h}),
              nhwc = b.Input("nhwc", DType::BF16, {n, h, h, 6}), w = b.Input("w", DType::F32, {6}),
              c = b.Input("c", DType::F16, {6}), running = b.Input("running", DType::F64, {6});

  const BatchNormResult batch = BatchNorm(b, nchw, w, c, running, running, 0.1, 1e-5);
  EXPECT_EQ(Type(b, batch.y), "bf16[N, 6, H, H]");
  EXPECT_EQ(Type(b, batch.mean), "f32[6]");
  EXPECT_EQ(Type(b, batch.running_mean), "f64[6]");
  EXPECT_EQ(Type(b, batch.running_var), "f64[6]");
  EXPECT_FALSE(BatchNorm(b, nchw, w, c, ValId(), ValId(), 0.1, 1e-5).running_mean.valid());
  EXPECT_EQ(Type(b, BatchNormInference(b, nhwc, w, c, running, running, 1e-5, -1)),
            "bf16[N, H, H, 6]");
  EXPECT_EQ(Type(b, BatchNormBackward(b, nchw, nchw, batch.mean, batch.rstd, w).bias), "f32[6]");

  const NormResult instance = InstanceNorm(b, nhwc, c, ValId(), 1e-5, 3);
  EXPECT_EQ(Type(b, instance.y), "bf16[N, H, H, 6]");
  EXPECT_EQ(Type(b, instance.mean), "f32[N, 6]");
  EXPECT_EQ(Type(b, InstanceNormBackward(b, nhwc, nhwc, instance.mean, instance.rstd, c, 3).weight),
            "f16[6]");

  for (const auto& [x, axis] : {std::pair{nchw, 1}, std::pair{nhwc, -1}}) {
    const NormResult group = GroupNorm(b, x, 3, w, c, 1e-5, axis);
    EXPECT_EQ(Type(b, group.y), Type(b, x));
    EXPECT_EQ(Type(b, group.rstd), "f32[N, 3]");
    const NormGradients g = GroupNormBackward(b, x, x, group.mean, group.rstd, 3, w, axis);
    EXPECT_EQ(Type(b, g.x), Type(b, x));
    EXPECT_EQ(Type(b, g.weight), "f32[6]");
  }
  EXPECT_TRUE(b.status().ok()) << b.status();
  CountOps(b);
}

TEST(Composites, OtherTypes) {
  FusionBuilder b("f");
  const SymInt m = b.Symbol("M"), n = b.Symbol("N");
  const ValId x = b.Input("x", DType::F16, {m, n}), seed = b.Input("seed", DType::I64, {}),
              target = b.Input("target", DType::I32, {m});
  EXPECT_EQ(Type(b, Softmax(b, x, -1)), "f16[M, N]");
  EXPECT_EQ(Type(b, LogSoftmaxBackward(b, x, x, 0)), "f16[M, N]");
  EXPECT_EQ(Type(b, Gelu(b, x, GeluKind::Tanh)), "f16[M, N]");
  EXPECT_EQ(Type(b, SwiGlu(b, x, x)), "f16[M, N]");
  const DropoutResult dropout = Dropout(b, x, 0.1, seed, seed);
  EXPECT_EQ(Type(b, dropout.y), "f16[M, N]");
  EXPECT_EQ(Type(b, dropout.mask), "bool[M, N]");
  EXPECT_EQ(Type(b, DropoutBackward(b, x, dropout.mask, 0.1)), "f16[M, N]");
  const CrossEntropyResult loss = CrossEntropy(b, x, target);
  EXPECT_EQ(Type(b, loss.loss), "f32[]");
  EXPECT_EQ(Type(b, loss.log_sum_exp), "f32[M]");
  EXPECT_EQ(Type(b, CrossEntropyBackward(b, loss.loss, x, target, loss.log_sum_exp)), "f16[M, N]");
  const ValId heads = b.Input("heads", DType::BF16, {m, 8, n, 64}),
              table = b.Input("table", DType::F32, {n, 32});
  EXPECT_EQ(Type(b, RotaryEmbedding(b, heads, table, table)), "bf16[M, 8, N, 64]");
  EXPECT_EQ(Type(b, Softmax(b, b.Input("row", DType::F32, {1}), 0)), "f32[1]");
  EXPECT_TRUE(b.status().ok()) << b.status();
  CountOps(b);
}

// The message after `build` has been given a builder with the inputs below.
class Refusal : public ::testing::Test {
 protected:
  template <typename Build>
  std::string Of(Build build) {
    FusionBuilder b("f");
    x = b.Input("x", DType::F32, {2, 6, 4});
    w = b.Input("w", DType::F32, {6});
    ints = b.Input("ints", DType::I32, {2, 6, 4});
    scalar = b.Input("scalar", DType::F32, {});
    stat = b.Input("stat", DType::F32, {2});
    logits = b.Input("logits", DType::F32, {2, 6});
    symbolic = b.Input("symbolic", DType::F32, {b.Symbol("D")});
    EXPECT_TRUE(b.status().ok()) << b.status();
    build(b);
    EXPECT_FALSE(b.status().ok());
    return std::string(b.status().message());
  }
  ValId x, w, ints, scalar, stat, logits, symbolic;
};

TEST_F(Refusal, NamesTheCompositeAndWhatItExpected) {
  using B = FusionBuilder;
  EXPECT_THAT(Of([&](B& b) { Mean(b, ints, {}); }),
              HasSubstr("mean: operand i32[2, 6, 4] given, a float tensor expected"));
  EXPECT_THAT(Of([&](B& b) { Mean(b, ValId(99), {}); }),
              HasSubstr("mean: its operand is no value"));
  EXPECT_THAT(Of([&](B& b) { Variance(b, x, {3}); }),
              HasSubstr("variance: axis 3 given for f32[2, 6, 4]"));
  EXPECT_THAT(Of([&](B& b) { VarianceTwoPass(b, x, {1, -2}); }), HasSubstr("named twice"));
  EXPECT_THAT(Of([&](B& b) { Softmax(b, x, 5); }), HasSubstr("softmax: axis 5"));
  EXPECT_THAT(Of([&](B& b) { Softmax(b, scalar, 0); }),
              HasSubstr("softmax: axis 0 given for f32[]"));
  EXPECT_THAT(
      Of([&](B& b) { SoftmaxBackward(b, w, x, 1); }),
      HasSubstr("softmax_backward: grad is f32[6], expected a float tensor of shape [2, 6, 4]"));
  EXPECT_THAT(Of([&](B& b) { LayerNorm(b, x, {-1}, w, ValId(), 1e-5); }),
              HasSubstr("layer_norm: weight is f32[6], expected a float tensor of shape [4]"));
  EXPECT_THAT(Of([&](B& b) { LayerNorm(b, x, {1}, w, x, 1e-5); }),
              HasSubstr("layer_norm: bias is"));
  EXPECT_THAT(
      Of([&](B& b) { LayerNormBackward(b, x, x, stat, stat, ValId(), {2}); }),
      HasSubstr("layer_norm_backward: mean is f32[2], expected a float tensor of shape [2, 6]"));
  EXPECT_THAT(Of([&](B& b) {
                LayerNormBackward(b, ValId(), x, stat, stat, ValId(), {1, 2});
              }),
              HasSubstr("layer_norm_backward: grad is no value"));
  EXPECT_THAT(Of([&](B& b) { RmsNorm(b, x, {9}, ValId(), 1e-5); }), HasSubstr("rms_norm: axis 9"));
  EXPECT_THAT(Of([&](B& b) {
                RmsNormBackward(b, x, x, w, ValId(), {1, 2});
              }),
              HasSubstr("rms_norm_backward: rstd is f32[6]"));
  EXPECT_THAT(Of([&](B& b) { BatchNorm(b, x, w, w, w, ValId(), 0.1, 1e-5); }),
              HasSubstr("batch_norm: running_var is no value"));
  EXPECT_THAT(Of([&](B& b) { BatchNorm(b, w, ValId(), ValId(), ValId(), ValId(), 0.1, 1e-5, 0); }),
              HasSubstr("batch_norm: f32[6] has no axes to take statistics over"));
  EXPECT_THAT(Of([&](B& b) { BatchNormInference(b, x, w, stat, w, w, 1e-5); }),
              HasSubstr("batch_norm_inference: bias is f32[2]"));
  EXPECT_THAT(Of([&](B& b) { InstanceNorm(b, x, w, w, 1e-5, 0); }),
              HasSubstr("instance_norm: the channel axis is the sample axis 0"));
  EXPECT_THAT(Of([&](B& b) { InstanceNorm(b, logits, w, w, 1e-5); }), HasSubstr("has no axes"));
  EXPECT_THAT(Of([&](B& b) { GroupNorm(b, x, 4, w, w, 1e-5); }),
              HasSubstr("group_norm: 6 channels are no multiple of 4 groups"));
  EXPECT_THAT(Of([&](B& b) { GroupNorm(b, x, 0, w, w, 1e-5); }), HasSubstr("group_norm: 0 groups"));
  EXPECT_THAT(Of([&](B& b) { GroupNorm(b, x, 2, stat, w, 1e-5); }),
              HasSubstr("group_norm: weight is f32[2], expected a float tensor of shape [6]"));
  EXPECT_THAT(Of([&](B& b) { GroupNormBackward(b, logits, x, stat, stat, 2, w); }),
              HasSubstr("group_norm_backward: grad is f32[2, 6]"));
  EXPECT_THAT(Of([&](B& b) { Gelu(b, ints, GeluKind::Erf); }), HasSubstr("gelu: operand i32"));
  EXPECT_THAT(Of([&](B& b) { SiluBackward(b, ints, x); }), HasSubstr("silu_backward: grad is i32"));
  EXPECT_THAT(Of([&](B& b) { SwiGlu(b, x, w); }), HasSubstr("swiglu: up is f32[6]"));
  EXPECT_THAT(Of([&](B& b) { Dropout(b, x, 1.5, scalar, scalar); }),
              HasSubstr("dropout: probability 1.5 is not in 0..1"));
  EXPECT_THAT(Of([&](B& b) { Dropout(b, x, 0.5, scalar, scalar); }),
              HasSubstr("dropout: seed is f32[], expected an i64 of shape []"));
  EXPECT_THAT(Of([&](B& b) { DropoutBackward(b, x, ints, 0.5); }),
              HasSubstr("dropout_backward: mask is i32[2, 6, 4], expected a bool tensor"));
  EXPECT_THAT(Of([&](B& b) { CrossEntropy(b, x, ints); }),
              HasSubstr("cross_entropy: logits are f32[2, 6, 4], expected [rows, classes]"));
  EXPECT_THAT(
      Of([&](B& b) { CrossEntropy(b, logits, stat); }),
      HasSubstr("cross_entropy: target is f32[2], expected an integer tensor of shape [2]"));
  EXPECT_THAT(Of([&](B& b) { RotaryEmbedding(b, x, w, w); }),
              HasSubstr("rotary_embedding: cos or sin is f32[6], expected floats [..., 2]"));
  EXPECT_THAT(Of([&](B& b) { RotaryEmbedding(b, symbolic, w, w); }),
              HasSubstr("rotary_embedding: the last axis of f32[D] is not known to be even"));
  EXPECT_THAT(Of([&](B& b) { RotaryEmbedding(b, scalar, w, w); }),
              HasSubstr("not known to be even"));
  EXPECT_THAT(Of([&](B& b) { RotaryEmbedding(b, x, ValId(), w); }), HasSubstr("rotary_embedding"));
}

TEST(Composites, DoNothingOnAFailedBuilder) {
  FusionBuilder b("f");
  b.Fail(absl::InvalidArgumentError("before"));
  const ValId none;
  EXPECT_FALSE(Mean(b, none, {}).valid());
  EXPECT_FALSE(Variance(b, none, {}).variance.valid());
  EXPECT_FALSE(VarianceTwoPass(b, none, {}).variance.valid());
  EXPECT_FALSE(Softmax(b, none, 0).valid());
  EXPECT_FALSE(SoftmaxBackward(b, none, none, 0).valid());
  EXPECT_FALSE(LogSoftmax(b, none, 0).valid());
  EXPECT_FALSE(LogSoftmaxBackward(b, none, none, 0).valid());
  EXPECT_FALSE(LayerNorm(b, none, {}, none, none, 1e-5).y.valid());
  EXPECT_FALSE(LayerNormBackward(b, none, none, none, none, none, {}).x.valid());
  EXPECT_FALSE(RmsNorm(b, none, {}, none, 1e-5).y.valid());
  EXPECT_FALSE(RmsNormBackward(b, none, none, none, none, {}).x.valid());
  EXPECT_FALSE(BatchNorm(b, none, none, none, none, none, 0.1, 1e-5).y.valid());
  EXPECT_FALSE(BatchNormInference(b, none, none, none, none, none, 1e-5).valid());
  EXPECT_FALSE(BatchNormBackward(b, none, none, none, none, none).x.valid());
  EXPECT_FALSE(BatchNormInferenceBackward(b, none, none, none, none, none, 1e-5).x.valid());
  EXPECT_FALSE(InstanceNorm(b, none, none, none, 1e-5).y.valid());
  EXPECT_FALSE(InstanceNormBackward(b, none, none, none, none, none).x.valid());
  EXPECT_FALSE(GroupNorm(b, none, 2, none, none, 1e-5).y.valid());
  EXPECT_FALSE(GroupNormBackward(b, none, none, none, none, 2, none).x.valid());
  EXPECT_FALSE(Gelu(b, none, GeluKind::Erf).valid());
  EXPECT_FALSE(GeluBackward(b, none, none, GeluKind::Tanh).valid());
  EXPECT_FALSE(Silu(b, none).valid());
  EXPECT_FALSE(SiluBackward(b, none, none).valid());
  EXPECT_FALSE(SwiGlu(b, none, none).valid());
  EXPECT_FALSE(Dropout(b, none, 0.5, none, none).y.valid());
  EXPECT_FALSE(DropoutBackward(b, none, none, 0.5).valid());
  EXPECT_FALSE(CrossEntropy(b, none, none).loss.valid());
  EXPECT_FALSE(CrossEntropyBackward(b, none, none, none, none).valid());
  EXPECT_FALSE(RotaryEmbedding(b, none, none, none).valid());
  EXPECT_EQ(b.status().message(), "before");
  EXPECT_EQ(b.num_vals(), 0u);
}

}  // namespace
}  // namespace seam
