// Envelopes: they must accept what is right and refuse what is wrong.
#include "ir/reference/envelope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ir/fusion_builder.h"
#include "ir/reference/interpreter.h"
#include "ir/text/parser.h"
#include "tests/support/host_tensors.h"
#include "tests/support/special_values.h"

namespace seam {
namespace {

using testing::Floats;
using testing::Integers;
using testing::kNan;
using testing::Random;

// layer_norm-like: statistics, then a normalised value in f16.
Fusion Normalize(int64_t rows, int64_t columns, DType out) {
  FusionBuilder b("normalize");
  const ValId x = b.Input("x", DType::F32, {rows, columns});
  const ValId average = b.Welford(x, {1});
  const ValId variance =
      b.Div(FusionBuilder::ResultOf(average, 1), FusionBuilder::ResultOf(average, 2));
  const ValId scale = b.Op(OpKind::Rsqrt, {b.Add(variance, b.Constant(1e-5, DType::F32))});
  const ValId centred = b.Sub(x, b.Broadcast(average, {1}));
  b.Output(b.Cast(b.Mul(centred, b.Broadcast(scale, {1})), out));
  return b.Finish().value();
}

TEST(EnvelopeTest, AcceptsF32ArithmeticAndRefusesMistakes) {
  for (DType out : {DType::F32, DType::F16}) {
    const int64_t rows = 4, columns = 777;
    const Fusion fusion = Normalize(rows, columns, out);
    const HostTensor x = Random(DType::F32, {rows, columns}, 12);
    const auto envelopes = MakeEnvelopes(fusion, {}, {x});
    ASSERT_TRUE(envelopes.ok()) << envelopes.status();
    const Envelope& envelope = envelopes->at(0);
    EXPECT_FALSE(envelope.exact);
    // `skipped` columns are forgotten, as by a wrong mask; all arithmetic in float.
    const auto run = [&](int64_t skipped, float error) {
      HostTensor y = HostTensor::Make(out, {rows, columns}).value();
      for (int64_t r = 0; r < rows; ++r) {
        const auto at = [&](int64_t c) { return static_cast<float>(x.at({r, c}).f); };
        float sum = 0, m2 = 0;
        for (int64_t c = skipped; c < columns; ++c) sum += at(c);
        const float mean = sum / static_cast<float>(columns);
        for (int64_t c = skipped; c < columns; ++c) m2 += (at(c) - mean) * (at(c) - mean);
        const float scale = (1 + error) / std::sqrt(m2 / static_cast<float>(columns) + 1e-5f);
        for (int64_t c = 0; c < columns; ++c) {
          y.set({r, c}, FloatScalar(RoundToDType(out, (at(c) - mean) * scale)));
        }
      }
      return y;
    };
    EXPECT_TRUE(CheckWithin(envelope, run(0, 0)).ok()) << CheckWithin(envelope, run(0, 0));
    const absl::Status forgotten = CheckWithin(envelope, run(1, 0));
    EXPECT_FALSE(forgotten.ok());
    EXPECT_FALSE(CheckWithin(envelope, run(0, out == DType::F32 ? 3e-5f : 3e-3f)).ok());
    HostTensor nan = run(0, 0);
    nan.set({2, 5}, FloatScalar(kNan));
    const absl::Status status = CheckWithin(envelope, nan);
    EXPECT_EQ(std::string(status.message()).substr(0, 49),
              "1 of 3108 elements are wrong; first at [2, 5]: ex");
  }
}

// A rotation of values that share a scale: where the two products cancel, what is left is how each
// was rounded, which depends on the scale's last bit.
TEST(EnvelopeTest, FollowsRoundingsWhereTermsCancel) {
  const int64_t n = 100000;
  FusionBuilder b("rotation");
  std::vector<ValId> in;
  for (const char* name : {"q", "k", "l", "c", "s"}) in.push_back(b.Input(name, DType::F32, {n}));
  const ValId scale = b.Op(OpKind::Rsqrt, {b.Op(OpKind::Abs, {in[0]})});
  b.Output(b.Sub(b.Mul(b.Mul(in[1], scale), in[3]), b.Mul(b.Mul(in[2], scale), in[4])));
  const Fusion fusion = b.Finish().value();
  std::vector<HostTensor> inputs;
  for (uint64_t seed = 1; seed <= in.size(); ++seed)
    inputs.push_back(Random(DType::F32, {n}, seed));
  const Envelope envelope = MakeEnvelopes(fusion, {}, inputs).value()[0];
  // The scale is `ulps` units in its last place off, and one factor by `error`.
  const auto run = [&](int ulps, float error) {
    HostTensor y = HostTensor::Make(DType::F32, {n}).value();
    for (int64_t i = 0; i < n; ++i) {
      const auto at = [&](int input) { return static_cast<float>(inputs[input].at({i}).f); };
      const double exact = 1 / std::sqrt(std::fabs(static_cast<double>(at(0))));
      const float r = static_cast<float>(exact + ulps * UlpOf(DType::F32, exact));
      y.set({i}, FloatScalar(at(1) * r * at(3) - at(2) * r * (at(4) * (1 + error))));
    }
    return CheckWithin(envelope, y);
  };
  for (const int ulps : {-1, 0, 1}) EXPECT_TRUE(run(ulps, 0).ok()) << ulps << ": " << run(ulps, 0);
  EXPECT_FALSE(run(0, 1e-6f).ok());
  EXPECT_FALSE(run(30, 0).ok());
}

TEST(EnvelopeTest, ExactGraphsMustAgreeInEveryBit) {
  FusionBuilder b("exact");
  const ValId x = b.Input("x", DType::F32, {64});
  b.Output(b.Div(b.Mul(x, x), b.Constant(3, DType::F32)));
  const Fusion fusion = b.Finish().value();
  const HostTensor input = Random(DType::F32, {64}, 3);
  const auto envelopes = MakeEnvelopes(fusion, {}, {input}).value();
  EXPECT_TRUE(envelopes[0].exact);
  HostTensor output = Interpret(fusion, {}, {input})->at(0);
  EXPECT_TRUE(CheckWithin(envelopes[0], output).ok());
  const double value = output.at({7}).f;
  output.set({7}, FloatScalar(std::nextafter(static_cast<float>(value), INFINITY)));
  EXPECT_FALSE(CheckWithin(envelopes[0], output).ok());
}

// Neighbours less their mean, less each other: where these are close, what is left is how each was
// rounded, in four ways that few runs do not all come to.
TEST(EnvelopeTest, RoundingsOfSeveralElementsAreTriedUntilTheyTell) {
  const Fusion fusion = ParseFusion(R"(fusion differences {
  input x: f32[40, 480]
  d = x - mean(x, axes=[1], keepdims=true)
  y = d[:, 1:480] - d[:, 0:479]
  output y
})")
                            .value();
  const HostTensor x = Random(DType::F32, {40, 480}, 3);
  const std::vector<Envelope> few = MakeEnvelopes(fusion, {}, {x}).value();
  bool narrow = false;
  for (uint64_t seed = 100; seed < 103; ++seed) {
    InterpretOptions options;
    options.perturbation = Perturbation::kAnywhere;
    options.seed = seed;
    std::vector<HostTensor> right = Interpret(fusion, {}, {x}, options).value();
    narrow |= !CheckWithin(few[0], right[0]).ok();
    std::vector<Envelope> envelopes = few;
    EXPECT_TRUE(CheckOutputs(fusion, {}, {x}, right, envelopes)->at(0).ok()) << seed;
    right[0].set({7, 7}, FloatScalar(right[0].at({7, 7}).f + 1e-5));
    EXPECT_FALSE(CheckOutputs(fusion, {}, {x}, right, envelopes)->at(0).ok()) << seed;
  }
  EXPECT_TRUE(narrow);
}

TEST(EnvelopeTest, RefusesWhatIsNoResult) {
  const Fusion fusion =
      ParseFusion(
          "fusion f {\n input x: f32[8]\n y = exp(x)\n z = x + 1.0\n output y\n output z\n}")
          .value();
  const HostTensor x = Random(DType::F32, {8}, 3);
  std::vector<Envelope> envelopes = MakeEnvelopes(fusion, {}, {x}).value(), none;
  std::vector<HostTensor> right = Interpret(fusion, {}, {x}).value();
  EXPECT_TRUE(CheckOutputs(fusion, {}, {x}, right, envelopes).ok());
  for (auto* ranges : {&none, &envelopes}) {
    const auto one = CheckOutputs(fusion, {}, {x}, absl::MakeSpan(right).first(1), *ranges);
    EXPECT_EQ(one.status().code(), absl::StatusCode::kInvalidArgument) << one.status();
  }
  HostTensor cut = right[0];
  cut.data.resize(cut.data.size() - 1);
  EXPECT_EQ(CheckWithin(envelopes[0], cut).code(), absl::StatusCode::kInvalidArgument);
  const auto of_cut = CheckOutputs(fusion, {}, {x}, {cut, right[1]}, envelopes);
  ASSERT_TRUE(of_cut.ok()) << of_cut.status();
  EXPECT_EQ(of_cut->at(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(of_cut->at(1).ok());
  EXPECT_EQ(CompareTensors(right[0], cut).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CompareTensors(cut, right[0]).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EnvelopeTest, FollowsDiscontinuitiesAndNan) {
  // sin of large arguments, then a comparison and a square root of something around zero.
  FusionBuilder b("edges");
  const ValId x = b.Input("x", DType::F32, {2});
  const ValId zero = b.Sub(b.Op(OpKind::Exp, {x}), b.Op(OpKind::Exp, {x}));
  b.Output(b.Op(OpKind::Sqrt, {zero}));
  b.Output(b.Op(OpKind::Gt, {zero, b.Constant(0, DType::F32)}));
  const Fusion fusion = b.Finish().value();
  const HostTensor input = Floats(DType::F32, {2}, {1.5, kNan});
  const auto envelopes = MakeEnvelopes(fusion, {}, {input}, 20).value();
  EXPECT_TRUE(envelopes[0].may_be_nan[0]);  // The difference may come out below zero.
  EXPECT_TRUE(CheckWithin(envelopes[0], Floats(DType::F32, {2}, {0, kNan})).ok());
  EXPECT_FALSE(CheckWithin(envelopes[0], Floats(DType::F32, {2}, {0, 1})).ok());
  EXPECT_TRUE(CheckWithin(envelopes[1], Integers(DType::Bool, {2}, {0, 0})).ok());
  EXPECT_TRUE(CheckWithin(envelopes[1], Integers(DType::Bool, {2}, {1, 0})).ok());
  EXPECT_FALSE(CheckWithin(envelopes[1], Integers(DType::Bool, {2}, {0, 1})).ok());
  EXPECT_FALSE(CheckWithin(envelopes[1], Integers(DType::Bool, {3}, {0, 0, 0})).ok());
}

// The difference of a sum and a number next to it comes out below and above zero, and may be zero,
// which no run hits; that of two inputs is what it is.
TEST(EnvelopeTest, FollowsLogarithmsOfWhatMayCancel) {
  FusionBuilder b("cancels");
  const ValId x = b.Input("x", DType::F32, {1000}), y = b.Input("y", DType::F32, {1}),
              z = b.Input("z", DType::F32, {1});
  for (const ValId left : {b.Reduce(OpKind::Sum, x, {0}), z})
    b.Output(b.Op(OpKind::Log, {b.Op(OpKind::Abs, {b.Sub(left, y)})}));
  const Fusion fusion = b.Finish().value();
  const HostTensor terms =
      Floats(DType::F32, {1000}, std::vector<double>(1000, RoundToDType(DType::F32, 0.1)));
  const double total = RoundToDType(DType::F32, 1000 * RoundToDType(DType::F32, 0.1));
  for (const double other : {total + 3 * UlpOf(DType::F32, total), 0.1, 50.0}) {
    const std::vector<HostTensor> inputs = {terms, Floats(DType::F32, {1}, {other}),
                                            Floats(DType::F32, {1}, {0.1})};
    const auto envelopes = MakeEnvelopes(fusion, {}, inputs).value();
    for (int output : {0, 1}) {
      HostTensor actual = Interpret(fusion, {}, inputs)->at(output);
      EXPECT_TRUE(CheckWithin(envelopes[output], actual).ok());
      const bool may_be_zero = (output == 0 && other > 99) || (output == 1 && other == 0.1);
      actual.set({0}, FloatScalar(-INFINITY));
      EXPECT_EQ(CheckWithin(envelopes[output], actual).ok(), may_be_zero) << output << other;
    }
  }
}

// Among the factors of a product a difference that may be zero meets what the others come to, which
// is infinite where enough of them come before it; that of two inputs is not zero.
TEST(EnvelopeTest, FollowsProductsWithWhatMayCancel) {
  constexpr int64_t kFactors = 40;
  FusionBuilder b("factors");
  const ValId x = b.Input("x", DType::F32, {1000}), y = b.Input("y", DType::F32, {kFactors}),
              z = b.Input("z", DType::F32, {1});
  for (const ValId right : {b.Broadcast(b.Reduce(OpKind::Sum, x, {0}), {0}), z})
    b.Output(b.Reduce(OpKind::Prod, b.Sub(y, right), {0}));
  const Fusion fusion = b.Finish().value();
  const double total = RoundToDType(DType::F32, 1000 * RoundToDType(DType::F32, 0.1));
  std::vector<double> others(kFactors, 1e30);
  others[7] = total + UlpOf(DType::F32, total);
  const std::vector<HostTensor> inputs = {
      Floats(DType::F32, {1000}, std::vector<double>(1000, RoundToDType(DType::F32, 0.1))),
      Floats(DType::F32, {kFactors}, others), Floats(DType::F32, {1}, {total})};
  const auto envelopes = MakeEnvelopes(fusion, {}, inputs).value();
  const auto accepts = [&](int output, double value) {
    return CheckWithin(envelopes[output], Floats(DType::F32, {}, {value})).ok();
  };
  for (const double value : std::vector<double>{INFINITY, -INFINITY, 0, kNan}) {
    EXPECT_TRUE(accepts(0, value)) << value;
  }
  EXPECT_TRUE(accepts(1, INFINITY));
  EXPECT_FALSE(accepts(1, 0));
  EXPECT_FALSE(accepts(1, kNan));
}

// A sum of what it may meet on the way, in any order; elsewhere an infinity is a mistake.
TEST(EnvelopeTest, PartialSumsMayOverflow) {
  FusionBuilder b("sums");
  const ValId x = b.Input("x", DType::F32, {4, 3});
  b.Output(b.Reduce(OpKind::Sum, x, {1}));
  const ValId average = b.Welford(x, {1});
  b.Output(average);
  b.Output(FusionBuilder::ResultOf(average, 1));
  const Fusion fusion = b.Finish().value();
  const HostTensor input = Floats(
      DType::F32, {4, 3}, {3e38, 3e38, -3e38, 3e38, -3e38, 0, 1e37, 1e37, -1e37, 3e38, 3e38, 3e38});
  const auto envelopes = MakeEnvelopes(fusion, {}, {input}).value();
  const auto accepts = [&](int output, int row, double value) {
    const HostTensor right = Interpret(fusion, {}, {input})->at(output);
    HostTensor other = Interpret(fusion, {}, {input})->at(output);
    EXPECT_TRUE(CheckWithin(envelopes[output], right).ok());
    other.set({row}, FloatScalar(value));
    return CheckWithin(envelopes[output], other).ok();
  };
  EXPECT_TRUE(accepts(0, 0, INFINITY));
  EXPECT_FALSE(accepts(0, 0, kNan));
  EXPECT_FALSE(accepts(0, 1, INFINITY));  // No partial sum is larger than a term.
  EXPECT_FALSE(accepts(0, 2, INFINITY));
  EXPECT_TRUE(accepts(0, 3, INFINITY));
  EXPECT_FALSE(accepts(0, 3, 3e38));
  for (int row : {0, 1, 3}) {
    EXPECT_TRUE(accepts(1, row, INFINITY));
    EXPECT_TRUE(accepts(1, row, kNan));
    EXPECT_TRUE(accepts(2, row, kNan));
  }
  EXPECT_FALSE(accepts(1, 2, INFINITY));
  EXPECT_FALSE(accepts(1, 2, kNan));
  EXPECT_FALSE(accepts(2, 2, kNan));
}

// There is no wider type than f64 to compute in: whatever some order gives is right.
TEST(EnvelopeTest, PartialResultsOfF64MayLeaveItsRange) {
  const auto accepts = [](OpKind op, const std::vector<double>& terms, double value) {
    FusionBuilder b("f");
    const std::vector<int64_t> shape = {static_cast<int64_t>(terms.size())};
    b.Output(b.Reduce(op, b.Input("x", DType::F64, {shape[0]}), {0}));
    const Fusion fusion = b.Finish().value();
    const auto envelopes = MakeEnvelopes(fusion, {}, {Floats(DType::F64, shape, terms)}).value();
    return CheckWithin(envelopes[0], Floats(DType::F64, {}, {value})).ok();
  };
  const std::vector<double> above = {1.5e308, 1.5e308, -1.5e308},
                            both = {1.5e308, 1.5e308, -1.5e308, -1.5e308, 1},
                            infinite = {INFINITY, 1, -1}, meets = {INFINITY, -1.5e308, -1.5e308};
  EXPECT_TRUE(accepts(OpKind::Sum, above, 1.5e308));
  EXPECT_TRUE(accepts(OpKind::Sum, above, INFINITY));
  EXPECT_FALSE(accepts(OpKind::Sum, above, kNan));
  for (const double value : std::vector<double>{1, 0, 1e308, INFINITY, -INFINITY, kNan}) {
    EXPECT_TRUE(accepts(OpKind::Sum, both, value)) << value;
  }
  EXPECT_TRUE(accepts(OpKind::Sum, infinite, INFINITY));
  EXPECT_FALSE(accepts(OpKind::Sum, infinite, kNan));
  EXPECT_FALSE(accepts(OpKind::Sum, infinite, 1));
  EXPECT_TRUE(accepts(OpKind::Sum, meets, INFINITY));
  EXPECT_TRUE(accepts(OpKind::Sum, meets, kNan));
  EXPECT_FALSE(accepts(OpKind::Sum, meets, -INFINITY));

  const std::vector<double> large = {1e200, 1e200, 1e-200}, small = {1e-200, -1e-200, 1e200},
                            wide = {1e200, 1e200, 1e-200, 1e-200};
  EXPECT_TRUE(accepts(OpKind::Prod, large, 1e200));
  EXPECT_TRUE(accepts(OpKind::Prod, large, INFINITY));
  EXPECT_FALSE(accepts(OpKind::Prod, large, kNan));
  EXPECT_TRUE(accepts(OpKind::Prod, small, -1e-200));
  EXPECT_TRUE(accepts(OpKind::Prod, small, 0));
  EXPECT_FALSE(accepts(OpKind::Prod, small, 1e-100));
  EXPECT_FALSE(accepts(OpKind::Prod, small, -INFINITY));
  for (const double value : std::vector<double>{1, 0, INFINITY, kNan}) {
    EXPECT_TRUE(accepts(OpKind::Prod, wide, value)) << value;
  }
}

}  // namespace
}  // namespace seam
