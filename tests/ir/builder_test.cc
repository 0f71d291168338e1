// The builder: names, uses, interfaces, sticky errors, and that large graphs stay small.
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/fusion_builder.h"
#include "ir/verify.h"

namespace seam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const FusionBuilder& b) { return std::string(b.status().message()); }

TEST(FusionBuilder, BuildsAGraph) {
  FusionBuilder b("norm");
  const SymInt m = b.Symbol("M", 1, 100);
  const ValId x = b.Input("x", DType::F16, {m, 8});
  const ValId wide = b.Cast(x, DType::F32);
  const ValId mean = b.Welford(wide, {-1});
  const ValId m2 = b.ResultOf(mean, 1), count = b.ResultOf(mean, 2);
  const ValId variance = b.Div(m2, count);
  b.SetName(variance, "variance");
  const ValId centered = b.Sub(wide, b.Broadcast(mean, {1}));
  b.Output(centered);
  b.Output(variance);
  absl::StatusOr<Fusion> f = b.Finish();
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_TRUE(Verify(*f).ok()) << Verify(*f);

  EXPECT_EQ(f->name(), "norm");
  EXPECT_EQ(f->num_exprs(), 5u);
  EXPECT_EQ(f->num_vals(), 8u);
  EXPECT_THAT(f->inputs(), ElementsAre(x));
  EXPECT_THAT(f->outputs(), ElementsAre(centered, variance));
  EXPECT_TRUE(f->is_input(x));
  EXPECT_FALSE(f->is_output(x));
  EXPECT_TRUE(f->is_output(variance));
  EXPECT_EQ(f->type(x).ToString(), "f16[M, 8]");
  EXPECT_EQ(f->type(count).ToString(), "f32[M]");
  EXPECT_EQ(f->type(centered).ToString(), "f32[M, 8]");
  EXPECT_FALSE(f->definition(x).valid());

  const ExprId welford = f->definition(m2);
  EXPECT_EQ(f->op(welford), OpKind::Welford);
  EXPECT_EQ(f->num_results(welford), 3);
  EXPECT_EQ(f->result(welford, 2), count);
  EXPECT_THAT(f->operands(welford), ElementsAre(wide));
  EXPECT_THAT(f->attributes(welford).axes, ElementsAre(1));
  EXPECT_THAT(f->uses(x), ElementsAre(f->definition(wide)));
  EXPECT_THAT(f->uses(wide), ElementsAre(welford, f->definition(centered)));
  EXPECT_THAT(f->uses(centered), IsEmpty());

  // The names that were not given count from t0 in the order of the ids.
  EXPECT_EQ(f->name(wide), "t0");
  EXPECT_EQ(f->name(mean), "t1");
  EXPECT_EQ(f->name(m2), "t2");
  EXPECT_EQ(f->name(variance), "variance");
}

TEST(FusionBuilder, AnExpressionThatReadsAValueTwiceIsOneUse) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {4});
  const ValId square = b.Mul(x, x);
  b.Output(b.Op(OpKind::Fma, {x, square, x}));
  const Fusion f = b.Finish().value();
  EXPECT_THAT(f.uses(x), ElementsAre(ExprId(0), ExprId(1)));
  EXPECT_THAT(f.uses(square), ElementsAre(ExprId(1)));
}

TEST(FusionBuilder, AutomaticNamesSkipThoseThatAreTaken) {
  FusionBuilder b("f");
  const ValId x = b.Input("t1", DType::F32, {4});
  const ValId a = b.Op(OpKind::Neg, {x}), c = b.Op(OpKind::Neg, {a}), d = b.Op(OpKind::Neg, {c});
  b.SetName(d, "t0");
  b.Output(d);
  const Fusion f = b.Finish().value();
  EXPECT_EQ(f.name(x), "t1");
  EXPECT_EQ(f.name(a), "t2");
  EXPECT_EQ(f.name(c), "t3");
  EXPECT_EQ(f.name(d), "t0");
}

TEST(FusionBuilder, Names) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {4});
  const ValId y = b.Op(OpKind::Neg, {x});
  EXPECT_EQ(b.Find("y"), std::nullopt);
  b.SetName(y, "y");
  b.SetName(y, "y");  // Its own name again.
  EXPECT_EQ(b.Find("y"), y);
  b.SetName(y, "layer1.y_");
  EXPECT_EQ(b.Find("y"), std::nullopt);  // Free again.
  EXPECT_EQ(b.Find("layer1.y_"), y);
  ASSERT_TRUE(b.status().ok()) << b.status();
  b.SetName(y, "x");
  EXPECT_THAT(Message(b), HasSubstr("name x: taken by another value"));

  for (const char* bad : {"", "1x", "a b", "x,", ".x", "\xc3\xa9"}) {
    FusionBuilder c("f");
    c.Input(bad, DType::F32, {});
    EXPECT_THAT(Message(c), HasSubstr("a letter or underscore expected")) << bad;
  }
}

TEST(FusionBuilder, TheFirstErrorSticks) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {4});
  const ValId y = b.Input("y", DType::F32, {5});
  const ValId bad = b.Add(x, y);
  EXPECT_FALSE(bad.valid());
  EXPECT_THAT(Message(b), HasSubstr("add: axis 0 is 4 in the first operand and 5 in the second"));
  const uint32_t count = b.num_vals();
  // Everything that follows does nothing and crashes nowhere.
  EXPECT_FALSE(b.Mul(bad, x).valid());
  EXPECT_FALSE(b.Mul(x, x).valid());
  EXPECT_FALSE(b.Input("z", DType::F32, {1}).valid());
  EXPECT_FALSE(b.Constant(1, DType::F32).valid());
  EXPECT_FALSE(b.ResultOf(b.Welford(bad, {}), 2).valid());
  EXPECT_FALSE(b.Cast(bad, DType::F16).valid());
  EXPECT_FALSE(b.Symbol("M").is_valid());
  EXPECT_FALSE(b.extent(bad, 0).is_valid());
  EXPECT_THAT(b.AlignRanks({x, bad}), ElementsAre(ValId(), ValId()));
  b.Output(bad);
  b.SetName(bad, "q");
  EXPECT_EQ(b.type(bad).ToString(), "f32[]");
  EXPECT_EQ(b.num_vals(), count);
  EXPECT_THAT(Message(b), HasSubstr("add: axis 0"));
  EXPECT_EQ(b.Finish().status(), b.status());
}

TEST(FusionBuilder, ForeignIdsAreErrors) {
  FusionBuilder b("f");
  EXPECT_FALSE(b.Op(OpKind::Neg, {ValId(7)}).valid());
  EXPECT_THAT(Message(b), HasSubstr("neg: no such value"));
  FusionBuilder c("f");
  c.Output(ValId());
  EXPECT_THAT(Message(c), HasSubstr("output: no such value"));
}

TEST(FusionBuilder, AFinishedBuilderIsSpent) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {4});
  b.Output(x);
  ASSERT_TRUE(b.Finish().ok());
  EXPECT_EQ(b.num_vals(), 0u);
  EXPECT_FALSE(b.Op(OpKind::Neg, {x}).valid());
  EXPECT_EQ(b.Finish().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(FusionBuilder, AnEmptyGraphIsAGraph) {
  const absl::StatusOr<Fusion> f = FusionBuilder("empty").Finish();
  ASSERT_TRUE(f.ok());
  EXPECT_EQ(f->num_vals(), 0u);
  EXPECT_TRUE(Verify(*f).ok()) << Verify(*f);
}

TEST(FusionBuilder, Outputs) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {4, 3});
  b.Output(x);  // An input may be returned.
  const ValId y = b.Op(OpKind::Neg, {x});
  b.Output(y, SymVector{1, 4});
  const Fusion f = b.Finish().value();
  EXPECT_FALSE(f.has_explicit_strides(x));
  EXPECT_EQ(f.strides(x), (SymVector{3, 1}));
  EXPECT_TRUE(f.has_explicit_strides(y));
  EXPECT_EQ(f.strides(y), (SymVector{1, 4}));
  EXPECT_TRUE(Verify(f).ok());

  FusionBuilder twice("f");
  const ValId v = twice.Input("v", DType::F32, {});
  twice.Output(v);
  twice.Output(v);
  EXPECT_THAT(Message(twice), HasSubstr("output v: already an output"));

  FusionBuilder restrided("f");
  restrided.Output(restrided.Input("v", DType::F32, {2}), SymVector{1});
  EXPECT_THAT(Message(restrided), HasSubstr("keeps its own strides"));
}

// The error of an input, or of an output, of `sizes` with `strides`.
std::string StrideError(const SymVector& sizes, const SymVector& strides, bool output) {
  FusionBuilder b("f");
  if (output) {
    b.Output(b.Op(OpKind::Neg, {b.Input("x", DType::F32, sizes)}), strides);
  } else {
    b.Input("x", DType::F32, sizes, strides);
  }
  const std::string message = Message(b);
  if (b.status().ok()) {
    const Fusion f = b.Finish().value();
    EXPECT_TRUE(Verify(f).ok()) << Verify(f);
  }
  return message;
}

TEST(FusionBuilder, Strides) {
  for (bool output : {false, true}) {
    EXPECT_EQ(StrideError({4, 3}, {3, 1}, output), "");
    EXPECT_EQ(StrideError({4, 3}, {1, 7}, output), "");
    EXPECT_EQ(StrideError({4, 1}, {1, 0}, output), "");
    EXPECT_EQ(StrideError({4, 0}, {0, 0}, output), "");
    EXPECT_EQ(StrideError({}, {}, output), "");
    EXPECT_THAT(StrideError({4, 3}, {1}, output), HasSubstr("1 given for 2 axes"));
    EXPECT_THAT(StrideError({4}, {-1}, output), HasSubstr("stride -1 is negative"));
    EXPECT_THAT(StrideError({4}, {SymInt::Invalid()}, output), HasSubstr("axis 0 is invalid"));
    EXPECT_THAT(StrideError({4}, {kMaxExtent + 1}, output), HasSubstr("above 2^48"));
    EXPECT_THAT(StrideError({3}, {kMaxExtent}, output), HasSubstr("beyond 2^48"));
    EXPECT_THAT(StrideError({2, 2}, {kMaxExtent, kMaxExtent}, output), HasSubstr("beyond 2^48"));
  }
  EXPECT_EQ(StrideError({4, 3}, {0, 1}, false), "");  // Inputs may be expanded tensors.
  EXPECT_THAT(StrideError({4, 3}, {0, 1}, true), HasSubstr("elements overlap"));
  EXPECT_THAT(StrideError({4, 3}, {2, 1}, true), HasSubstr("elements overlap"));
  EXPECT_EQ(StrideError({2, 3}, {3, 2}, true), "");  // 0, 2, 4, 3, 5, 7.
}

TEST(FusionBuilder, WhatDoesNotExistIsRefused) {
  const auto message = [](auto add) {
    FusionBuilder b("f");
    add(b, b.Input("x", DType::F32, {4}));
    return std::string(b.status().message());
  };
  const auto none = static_cast<DType>(99);
  EXPECT_THAT(message([&](FusionBuilder& b, ValId) { b.Input("y", none, {4}); }),
              HasSubstr("input y: its dtype does not exist"));
  EXPECT_THAT(message([&](FusionBuilder& b, ValId x) { b.Cast(x, none); }),
              HasSubstr("cast: its dtype does not exist"));
  EXPECT_THAT(message([&](FusionBuilder& b, ValId) { b.IntConstant(1, none); }),
              HasSubstr("its dtype does not exist"));
  EXPECT_THAT(message([&](FusionBuilder& b, ValId) { b.Constant(1, none); }),
              HasSubstr("its dtype does not exist"));
  EXPECT_THAT(message([&](FusionBuilder& b, ValId x) { b.Op(static_cast<OpKind>(255), {x}); }),
              HasSubstr("operation does not exist"));
  EXPECT_THAT(message([&](FusionBuilder& b, ValId) { b.Symbol("Q", -5, 4); }),
              HasSubstr("symbol \"Q\": found the range [-5, 4], expected one in [0, 2^48]"));
  EXPECT_THAT(message([&](FusionBuilder& b, ValId) { b.Symbol("Q", 0, kMaxExtent + 1); }),
              HasSubstr("expected one in [0, 2^48]"));
  FusionBuilder b("f");
  EXPECT_EQ(b.rank(ValId(7)), 0);
  EXPECT_EQ(b.dtype(ValId(7)), DType::F32);
}

TEST(FusionBuilder, MovedFrom) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {4});
  FusionBuilder moved = std::move(b);
  moved.Output(moved.Op(OpKind::Exp, {x}));
  EXPECT_TRUE(moved.Finish().ok());
  EXPECT_THAT(std::string(b.Finish().status().message()), HasSubstr("has been moved"));
  EXPECT_FALSE(b.Op(OpKind::Exp, {x}).valid());
  EXPECT_EQ(b.env().symbols().size(), 0u);
  FusionBuilder without("g", nullptr);
  without.Symbol("N");
  EXPECT_EQ(without.env().symbols().size(), 1u);
}

TEST(FusionBuilder, SymbolicStridesLeaveConstraints) {
  FusionBuilder b("f");
  const SymInt m = b.Symbol("M"), s = b.Symbol("S");
  b.Input("x", DType::F32, {m, 4}, SymVector{s, 1});
  b.Input("y", DType::F32, {m, 4}, SymVector{s - 4, 1});
  const Fusion f = b.Finish().value();
  ASSERT_EQ(f.constraints().size(), 1u);
  EXPECT_EQ(f.constraints()[0].condition.ToString(), "4 <= S");
  EXPECT_THAT(f.constraints()[0].reason, HasSubstr("strides of y"));
}

TEST(FusionBuilder, ConstraintsAreKeptOnce) {
  FusionBuilder b("f");
  const SymInt m = b.Symbol("M");
  const ValId x = b.Input("x", DType::F32, {m});
  for (int i = 0; i < 10; ++i) b.Output(b.Reduce(OpKind::Max, x, {0}));
  const Fusion f = b.Finish().value();
  ASSERT_EQ(f.constraints().size(), 1u);
  EXPECT_THAT(f.constraints()[0].reason, HasSubstr("amax: axis 0 of extent M"));
}

TEST(FusionBuilder, Symbols) {
  FusionBuilder b("f");
  b.Symbol("M", 1, 8);
  EXPECT_TRUE(b.status().ok());
  EXPECT_FALSE(b.Symbol("M", 1, 8).is_valid());
  EXPECT_FALSE(b.status().ok());
  FusionBuilder c("f");
  EXPECT_FALSE(c.Symbol("M", 8, 1).is_valid());
  EXPECT_FALSE(c.status().ok());
}

TEST(FusionBuilder, SymbolsOfAnotherEnvironmentAreRefused) {
  FusionBuilder other("g");
  const SymInt foreign = other.Symbol("N");
  FusionBuilder input("f");
  input.Input("x", DType::F32, {foreign});
  EXPECT_THAT(Message(input), HasSubstr("input x: N belongs to another ShapeEnv"));
  FusionBuilder attribute("f");
  attribute.Reshape(attribute.Input("x", DType::F32, {4}), {foreign});
  EXPECT_THAT(Message(attribute), HasSubstr("reshape: N belongs to another ShapeEnv"));
  FusionBuilder strides("f");
  strides.Input("x", DType::F32, {4}, SymVector{foreign});
  EXPECT_THAT(Message(strides), HasSubstr("strides of x: N belongs to another ShapeEnv"));
  // Sharing the environment makes them its own.
  FusionBuilder sharing("f", std::shared_ptr<ShapeEnv>(&other.env(), [](ShapeEnv*) {}));
  sharing.Input("x", DType::F32, {foreign});
  EXPECT_TRUE(sharing.status().ok()) << sharing.status();
}

TEST(FusionBuilder, InputsHaveLimits) {
  FusionBuilder negative("f");
  negative.Input("x", DType::F32, {-1});
  EXPECT_THAT(Message(negative), HasSubstr("input x: size -1 must not be negative"));
  FusionBuilder large("f");
  large.Input("x", DType::F32, {kMaxExtent, 2});
  EXPECT_THAT(Message(large), HasSubstr("input x: the result"));
  FusionBuilder many("f");
  many.Input("x", DType::F32, SymVector(kMaxRank + 1, 1));
  EXPECT_THAT(Message(many), HasSubstr("input x: 17 axes given"));
  FusionBuilder twice("f");
  twice.Input("x", DType::F32, {});
  twice.Input("x", DType::F32, {});
  EXPECT_THAT(Message(twice), HasSubstr("name x: taken"));
}

TEST(FusionBuilder, Constants) {
  FusionBuilder b("f");
  const auto attributes = [](FusionBuilder& builder) {
    const Fusion f = builder.Finish().value();
    return f.attributes(ExprId(f.num_exprs() - 1));
  };
  b.Constant(2.5, DType::F16);
  Attributes a = attributes(b);
  EXPECT_EQ(a.value, 2.5);
  EXPECT_EQ(a.dtype, DType::F16);

  FusionBuilder from_double("f");
  from_double.Constant(-7, DType::I8);
  EXPECT_EQ(attributes(from_double).int_value, -7);
  FusionBuilder truth("f");
  truth.Constant(0.5, DType::Bool);
  EXPECT_EQ(attributes(truth).int_value, 1);
  FusionBuilder wide("f");
  wide.IntConstant(std::numeric_limits<int64_t>::max(), DType::I64);
  EXPECT_EQ(attributes(wide).int_value, std::numeric_limits<int64_t>::max());
  FusionBuilder as_float("f");
  as_float.IntConstant(3, DType::F32);
  EXPECT_EQ(attributes(as_float).value, 3);

  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (double bad : {0.5, nan, 0x1p63, -0x1p63 * 1.5, 1 / 0.0}) {
    FusionBuilder c("f");
    EXPECT_FALSE(c.Constant(bad, DType::I64).valid()) << bad;
    EXPECT_THAT(Message(c), HasSubstr("is no value of i64"));
  }
  FusionBuilder range("f");
  range.Constant(128, DType::I8);
  EXPECT_THAT(Message(range), HasSubstr("128 is not in the range of i8"));
}

TEST(FusionBuilder, SizesAndCasts) {
  FusionBuilder b("f");
  const SymInt m = b.Symbol("M");
  const ValId x = b.Input("x", DType::F32, {m});
  EXPECT_EQ(b.Cast(x, DType::F32), x);
  EXPECT_EQ(b.dtype(b.Cast(x, DType::F16)), DType::F16);
  b.Size(12, DType::F32);
  b.Size(m * 2, DType::I64);
  EXPECT_EQ(b.extent(x, -1), m);
  EXPECT_FALSE(b.extent(x, 1).is_valid());
  const Fusion f = b.Finish().value();
  EXPECT_EQ(f.op(ExprId(1)), OpKind::Constant);
  EXPECT_EQ(f.op(ExprId(2)), OpKind::Size);
  EXPECT_EQ(f.attributes(ExprId(2)).sizes, SymVector{m * 2});
}

TEST(FusionBuilder, AlignRanks) {
  FusionBuilder b("f");
  const ValId scalar = b.Constant(1, DType::F32), row = b.Input("row", DType::F32, {4}),
              matrix = b.Input("m", DType::F32, {2, 4});
  const std::vector<ValId> aligned = b.AlignRanks({scalar, row, matrix});
  ASSERT_TRUE(b.status().ok());
  EXPECT_EQ(aligned[0], scalar);
  EXPECT_EQ(b.type(aligned[1]).ToString(), "f32[1, 4]");
  EXPECT_EQ(aligned[2], matrix);
  EXPECT_THAT(b.AlignRanks({}), IsEmpty());
}

TEST(FusionBuilder, LocationsBelongToWhatFollows) {
  FusionBuilder b("f");
  const ValId x = b.Input("x", DType::F32, {4});
  b.Op(OpKind::Neg, {x});
  b.SetLocation({3, 7});
  b.Op(OpKind::Neg, {x});
  const Fusion f = b.Finish().value();
  EXPECT_EQ(f.location(ExprId(0)).line, 0);
  EXPECT_EQ(f.location(ExprId(1)).line, 3);
  EXPECT_EQ(f.location(ExprId(1)).column, 7);
}

TEST(FusionBuilder, LargeGraphsStaySmall) {
  constexpr int kExprs = 100000;
  FusionBuilder b("large");
  const SymInt m = b.Symbol("M");
  ValId v = b.Input("x", DType::F32, {m, 64});
  const ValId bias = b.Input("bias", DType::F32, {1, 64});
  for (int i = 0; i < kExprs / 4; ++i) {
    const ValId sum = b.Broadcast(b.Reduce(OpKind::Sum, v, {1}), {1});
    v = b.Add(b.Mul(v, sum), bias);
  }
  b.Output(v);
  const Fusion f = b.Finish().value();
  EXPECT_EQ(f.num_exprs(), static_cast<uint32_t>(kExprs));
  EXPECT_LT(f.MemoryBytes(), 500ll * kExprs);
  EXPECT_EQ(f.uses(bias).size(), static_cast<size_t>(kExprs / 4));
  EXPECT_TRUE(Verify(f).ok());
}

}  // namespace
}  // namespace seam
