// The numbers of composites, by the reference interpreter: forward against formulas written out
// naively over indices, backward against finite differences of the forward composite.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/composites.h"
#include "ir/reference/interpreter.h"
#include "ir/verify.h"

namespace seam {
namespace {

using ::testing::Each;

using Shape = std::vector<int64_t>;
using Values = std::vector<double>;

// A tensor of doubles and its shape; what the graph sees is rounded to `dtype`.
struct Array {
  Shape shape;
  Values values;
  DType dtype = DType::F64;
};

int64_t Numel(const Shape& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// Deterministic values in -2..2 without a pattern along any axis.
Array Make(Shape shape, int seed, DType dtype = DType::F64) {
  Array a{std::move(shape), {}, dtype};
  uint64_t state = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(seed + 1);
  for (int64_t i = Numel(a.shape); i > 0; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = static_cast<double>(state >> 40) / (1 << 22) - 2;
    a.values.push_back(IsFloat(dtype) ? RoundToDType(dtype, value) : std::floor(value));
  }
  return a;
}

using Vals = const std::vector<ValId>&;
using Results = std::vector<ValId>;
using Build = std::function<Results(FusionBuilder&, Vals)>;

// Runs the graph that `build` makes of `inputs`; all extents above 1 are symbols where `symbolic`.
std::vector<Array> RunGraph(const std::vector<Array>& inputs, const Build& build,
                            bool symbolic = false) {
  FusionBuilder b("test");
  std::map<int64_t, SymInt> symbols;
  std::vector<ValId> vals;
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    SymVector sizes;
    for (int64_t extent : inputs[i].shape) {
      SymInt size = extent;
      if (symbolic && extent != 1) {
        auto [it, added] = symbols.try_emplace(extent);
        if (added) it->second = b.Symbol("S" + std::to_string(extent));
        size = it->second;
      }
      sizes.push_back(size);
    }
    vals.push_back(b.Input("in" + std::to_string(i), inputs[i].dtype, sizes));
    HostTensor tensor = HostTensor::Make(inputs[i].dtype, inputs[i].shape).value();
    std::vector<Scalar> scalars;
    for (double v : inputs[i].values) {
      scalars.push_back(IsFloat(inputs[i].dtype) ? FloatScalar(v)
                                                 : IntScalar(static_cast<int64_t>(v)));
    }
    tensor.FromScalars(scalars);
    tensors.push_back(std::move(tensor));
  }
  size_t expected = 0;
  for (ValId v : build(b, vals)) {
    if (!v.valid()) continue;
    b.Output(v);
    ++expected;
  }
  absl::StatusOr<Fusion> fusion = b.Finish();
  EXPECT_TRUE(fusion.ok()) << fusion.status();
  if (!fusion.ok()) return {};
  EXPECT_TRUE(Verify(*fusion).ok()) << Verify(*fusion);
  absl::StatusOr<std::vector<HostTensor>> results = Interpret(*fusion, {}, tensors);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok()) return {};
  EXPECT_EQ(results->size(), expected);
  std::vector<Array> arrays;
  for (const HostTensor& tensor : *results) {
    Array a{tensor.shape, {}, tensor.dtype};
    for (Scalar s : tensor.ToScalars()) {
      a.values.push_back(IsFloat(tensor.dtype) ? s.f : static_cast<double>(s.i));
    }
    arrays.push_back(std::move(a));
  }
  return arrays;
}

// Relative to the larger of 1 and the expected value.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 1e-12;
    case DType::F32:
      return 5e-6;
    case DType::F16:
      return 2e-3;
    default:
      return 2e-2;
  }
}

void ExpectNear(const Array& actual, const Values& expected, double tolerance,
                const std::string& what) {
  ASSERT_EQ(actual.values.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual.values[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i])))
        << what << ", element " << i;
  }
}

// Checks the gradients that `backward` makes of (grad, inputs...) against central differences of
// sum(grad * forward(inputs)), for the inputs 0..count-1. The first result of forward counts.
void CheckGradients(const std::vector<Array>& inputs, const Build& forward, const Build& backward) {
  const Array y = RunGraph(inputs, forward).at(0);
  const Array grad = Make(y.shape, 99);
  std::vector<Array> arguments = {grad};
  arguments.insert(arguments.end(), inputs.begin(), inputs.end());
  const std::vector<Array> gradients = RunGraph(arguments, backward);
  ASSERT_FALSE(gradients.empty());
  const double step = 1e-5;
  for (size_t k = 0; k < gradients.size(); ++k) {
    Values numeric;
    for (size_t i = 0; i < inputs[k].values.size(); ++i) {
      double loss[2];
      for (int side : {0, 1}) {
        std::vector<Array> moved = inputs;
        moved[k].values[i] += side == 0 ? step : -step;
        const Array out = RunGraph(moved, forward).at(0);
        loss[side] = 0;
        for (size_t j = 0; j < out.values.size(); ++j) loss[side] += out.values[j] * grad.values[j];
      }
      numeric.push_back((loss[0] - loss[1]) / (2 * step));
    }
    EXPECT_EQ(gradients[k].shape, inputs[k].shape);
    ExpectNear(gradients[k], numeric, 1e-7, "gradient of input " + std::to_string(k));
  }
}

// Calls visit(flat index, index) for all elements.
void ForEach(const Shape& shape, const std::function<void(size_t, const Shape&)>& visit) {
  Shape index(shape.size(), 0);
  for (int64_t flat = 0; flat < Numel(shape); ++flat) {
    visit(static_cast<size_t>(flat), index);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

// The mean and the biased variance of the elements that agree in key(index), and their number.
struct Statistic {
  double mean = 0, variance = 0, count = 0;
};
std::map<Shape, Statistic> NaiveStatistics(const Array& x,
                                           const std::function<Shape(const Shape&)>& key) {
  std::map<Shape, Statistic> statistics;
  ForEach(x.shape, [&](size_t i, const Shape& index) {
    Statistic& s = statistics[key(index)];
    s.mean += x.values[i];
    s.count += 1;
  });
  for (auto& [k, s] : statistics) s.mean /= s.count;
  ForEach(x.shape, [&](size_t i, const Shape& index) {
    Statistic& s = statistics[key(index)];
    s.variance += (x.values[i] - s.mean) * (x.values[i] - s.mean) / s.count;
  });
  return statistics;
}

// (x - mean) / sqrt(variance + eps) * weight[parameter(index)] + bias[...]; then means; then rstds.
struct NaiveNormResult {
  Values y, mean, rstd;
};
NaiveNormResult NaiveNorm(const Array& x, const Array& weight, const Array& bias, double eps,
                          const std::function<Shape(const Shape&)>& key,
                          const std::function<size_t(const Shape&)>& parameter) {
  NaiveNormResult result;
  std::map<Shape, Statistic> statistics = NaiveStatistics(x, key);
  for (const auto& [k, s] : statistics) {
    result.mean.push_back(s.mean);
    result.rstd.push_back(1 / std::sqrt(s.variance + eps));
  }
  ForEach(x.shape, [&](size_t i, const Shape& index) {
    const Statistic& s = statistics[key(index)];
    const size_t p = parameter(index);
    result.y.push_back((x.values[i] - s.mean) / std::sqrt(s.variance + eps) * weight.values[p] +
                       bias.values[p]);
  });
  return result;
}

void ExpectNorm(const std::vector<Array>& actual, const NaiveNormResult& expected, DType dtype) {
  ASSERT_GE(actual.size(), 3u);
  EXPECT_EQ(actual[0].dtype, dtype);
  ExpectNear(actual[0], expected.y, Tolerance(dtype), "y");
  const double tolerance = Tolerance(ComputeType(dtype));
  ExpectNear(actual[1], expected.mean, tolerance, "mean");
  ExpectNear(actual[2], expected.rstd, tolerance, "rstd");
}

constexpr double kEps = 1e-3;
const DType kFloats[] = {DType::F64, DType::F32, DType::F16, DType::BF16};

// --- Statistics ---

TEST(CompositeNumerics, MeanAndVariance) {
  for (const Shape& shape : {Shape{3, 5}, Shape{1, 5}, Shape{7, 2}, Shape{4, 1}}) {
    for (DType dtype : kFloats) {
      for (bool symbolic : {false, true}) {
        const Array x = Make(shape, 1, dtype);
        Values mean, biased, bessel;
        for (const auto& [k, s] : NaiveStatistics(x, [](const Shape& i) { return Shape{i[0]}; })) {
          mean.push_back(s.mean);
          biased.push_back(s.variance);
          bessel.push_back(s.variance * s.count / (s.count - 1));
        }
        const double tolerance = Tolerance(ComputeType(dtype));
        const std::vector<Array> r = RunGraph(
            {x},
            [](FusionBuilder& b, Vals in) -> Results {
              return {Mean(b, in[0], {1}), Variance(b, in[0], {1}).variance,
                      VarianceTwoPass(b, in[0], {-1}).variance};
            },
            symbolic);
        ExpectNear(r.at(0), mean, tolerance, "mean");
        ExpectNear(r.at(1), biased, tolerance, "variance");
        ExpectNear(r.at(2), biased, tolerance, "two-pass variance");
        if (shape[1] == 1) continue;
        const std::vector<Array> u = RunGraph({x}, [](FusionBuilder& b, Vals in) -> Results {
          return {Variance(b, in[0], {1}, 1).variance, VarianceTwoPass(b, in[0], {1}, 1).variance};
        });
        ExpectNear(u.at(0), bessel, tolerance, "variance with Bessel's correction");
        ExpectNear(u.at(1), bessel, tolerance, "two-pass variance with Bessel's correction");
      }
    }
  }
}

TEST(CompositeNumerics, FewerElementsThanTheCorrection) {
  for (bool symbolic : {false, true}) {
    const std::vector<Array> r = RunGraph(
        {Make({2, 3}, 1)},
        [](FusionBuilder& b, Vals in) -> Results {
          return {Variance(b, in[0], {1}, 5).variance, VarianceTwoPass(b, in[0], {1}, 5).variance,
                  Variance(b, in[0], {1}, 3).variance};
        },
        symbolic);
    for (const Array& variance : r) {
      for (double v : variance.values) EXPECT_EQ(v, std::numeric_limits<double>::infinity());
    }
  }
}

TEST(CompositeNumerics, StatisticsOfNothing) {
  const std::vector<Array> r =
      RunGraph({Make({2, 0}, 1)}, [](FusionBuilder& b, Vals in) -> Results {
        return {Mean(b, in[0], {1}), Mean(b, in[0], {0})};
      });
  EXPECT_THAT(r.at(0).values, Each(::testing::IsNan()));
  EXPECT_EQ(r.at(0).shape, Shape{2});
  EXPECT_EQ(r.at(1).shape, Shape{0});
}

TEST(CompositeNumerics, VarianceFarFromZero) {
  // A sum of squares would lose all digits here.
  Array x = Make({1, 64}, 3, DType::F32);
  for (double& v : x.values) v = RoundToDType(DType::F32, v + 1e5);
  const double expected =
      NaiveStatistics(x, [](const Shape& i) { return Shape{i[0]}; }).begin()->second.variance;
  const std::vector<Array> r = RunGraph({x}, [](FusionBuilder& b, Vals in) -> Results {
    return {Variance(b, in[0], {1}).variance, VarianceTwoPass(b, in[0], {1}).variance};
  });
  EXPECT_NEAR(r.at(0).values[0], expected, 1e-5 * expected);
  EXPECT_NEAR(r.at(1).values[0], expected, 1e-3 * expected);
}

// --- Softmax ---

TEST(CompositeNumerics, SoftmaxAndLogSoftmax) {
  for (int axis : {0, 1, -1}) {
    for (DType dtype : kFloats) {
      const Array x = Make({4, 3, 5}, 2, dtype);
      const auto key = [&](const Shape& i) {
        Shape k = i;
        k[axis < 0 ? 2 : axis] = 0;
        return k;
      };
      std::map<Shape, double> sums;
      ForEach(x.shape,
              [&](size_t i, const Shape& index) { sums[key(index)] += std::exp(x.values[i]); });
      Values soft, log;
      ForEach(x.shape, [&](size_t i, const Shape& index) {
        soft.push_back(std::exp(x.values[i]) / sums[key(index)]);
        log.push_back(x.values[i] - std::log(sums[key(index)]));
      });
      const std::vector<Array> r = RunGraph({x}, [&](FusionBuilder& b, Vals in) -> Results {
        return {Softmax(b, in[0], axis), LogSoftmax(b, in[0], axis)};
      });
      ExpectNear(r.at(0), soft, Tolerance(dtype), "softmax");
      ExpectNear(r.at(1), log, Tolerance(dtype), "log_softmax");
    }
  }
}

TEST(CompositeNumerics, SoftmaxOfExtremes) {
  const double inf = std::numeric_limits<double>::infinity();
  const Array x{{3, 3}, {1e4, 1e4, -1e4, -inf, 0, 0, -inf, -inf, -inf}};
  const std::vector<Array> r = RunGraph({x}, [](FusionBuilder& b, Vals in) -> Results {
    return {Softmax(b, in[0], 1), LogSoftmax(b, in[0], 1)};
  });
  ExpectNear({{6}, {r[0].values.begin(), r[0].values.begin() + 6}}, {0.5, 0.5, 0, 0, 0.5, 0.5},
             1e-15, "softmax");
  EXPECT_EQ(r[1].values[3], -inf);
  EXPECT_NEAR(r[1].values[2], -2e4 - std::log(2.0), 1e-9);
  // A row of nothing but -infinity has no maximum to subtract.
  EXPECT_TRUE(std::isnan(r[0].values[6]));
}

TEST(CompositeNumerics, SoftmaxGradients) {
  for (int axis : {0, 1}) {
    CheckGradients(
        {Make({3, 4}, 5)},
        [&](FusionBuilder& b, Vals in) -> Results { return {Softmax(b, in[0], axis)}; },
        [&](FusionBuilder& b, Vals in) -> Results {
          return {SoftmaxBackward(b, in[0], Softmax(b, in[1], axis), axis)};
        });
    CheckGradients(
        {Make({3, 4}, 5)},
        [&](FusionBuilder& b, Vals in) -> Results { return {LogSoftmax(b, in[0], axis)}; },
        [&](FusionBuilder& b, Vals in) -> Results {
          return {LogSoftmaxBackward(b, in[0], LogSoftmax(b, in[1], axis), axis)};
        });
  }
}

// --- Normalizations ---

TEST(CompositeNumerics, LayerNorm) {
  for (DType dtype : kFloats) {
    for (bool symbolic : {false, true}) {
      const Array x = Make({2, 3, 5}, 1, dtype), w = Make({3, 5}, 2, dtype),
                  c = Make({3, 5}, 3, dtype);
      const NaiveNormResult expected = NaiveNorm(
          x, w, c, kEps, [](const Shape& i) { return Shape{i[0]}; },
          [](const Shape& i) { return static_cast<size_t>(i[1] * 5 + i[2]); });
      const std::vector<Array> r = RunGraph(
          {x, w, c},
          [](FusionBuilder& b, Vals in) -> Results {
            const NormResult n = LayerNorm(b, in[0], {-2, -1}, in[1], in[2], kEps);
            return {n.y, n.mean, n.rstd};
          },
          symbolic);
      ExpectNorm(r, expected, dtype);
    }
  }
}

TEST(CompositeNumerics, LayerNormOverLeadingAxis) {
  const Array x = Make({4, 3}, 1), w = Make({4}, 2), c = Make({4}, 3);
  const NaiveNormResult expected = NaiveNorm(
      x, w, c, kEps, [](const Shape& i) { return Shape{i[1]}; },
      [](const Shape& i) { return static_cast<size_t>(i[0]); });
  ExpectNorm(RunGraph({x, w, c},
                      [](FusionBuilder& b, Vals in) -> Results {
                        const NormResult n = LayerNorm(b, in[0], {0}, in[1], in[2], kEps);
                        return {n.y, n.mean, n.rstd};
                      }),
             expected, DType::F64);
}

TEST(CompositeNumerics, LayerNormGradients) {
  for (const AxisVector& axes : {AxisVector{1, 2}, AxisVector{1}, AxisVector{0, 1, 2}}) {
    Shape parameters;
    for (int32_t axis : axes) parameters.push_back(axis == 0 ? 2 : axis == 1 ? 3 : 4);
    CheckGradients(
        {Make({2, 3, 4}, 1), Make(parameters, 2), Make(parameters, 3)},
        [&](FusionBuilder& b, Vals in) -> Results {
          return {LayerNorm(b, in[0], axes, in[1], in[2], kEps).y};
        },
        [&](FusionBuilder& b, Vals in) -> Results {
          const NormResult n = LayerNorm(b, in[1], axes, in[2], in[3], kEps);
          const NormGradients g = LayerNormBackward(b, in[0], in[1], n.mean, n.rstd, in[2], axes);
          return {g.x, g.weight, g.bias};
        });
  }
  CheckGradients(  // Without parameters.
      {Make({2, 5}, 1)},
      [&](FusionBuilder& b, Vals in) -> Results {
        return {LayerNorm(b, in[0], {1}, ValId(), ValId(), kEps).y};
      },
      [&](FusionBuilder& b, Vals in) -> Results {
        const NormResult n = LayerNorm(b, in[1], {1}, ValId(), ValId(), kEps);
        return {LayerNormBackward(b, in[0], in[1], n.mean, n.rstd, ValId(), {1}).x};
      });
}

TEST(CompositeNumerics, RmsNorm) {
  for (DType dtype : kFloats) {
    const Array x = Make({3, 5}, 1, dtype), w = Make({5}, 2, dtype);
    Values y, rstd;
    for (size_t row = 0; row < 3; ++row) {
      double sum = 0;
      for (size_t i = 0; i < 5; ++i) sum += x.values[row * 5 + i] * x.values[row * 5 + i];
      rstd.push_back(1 / std::sqrt(sum / 5 + kEps));
      for (size_t i = 0; i < 5; ++i) y.push_back(x.values[row * 5 + i] * rstd[row] * w.values[i]);
    }
    for (bool symbolic : {false, true}) {
      const std::vector<Array> r = RunGraph(
          {x, w},
          [](FusionBuilder& b, Vals in) -> Results {
            const RmsNormResult n = RmsNorm(b, in[0], {-1}, in[1], kEps);
            return {n.y, n.rstd};
          },
          symbolic);
      ExpectNear(r.at(0), y, Tolerance(dtype), "y");
      ExpectNear(r.at(1), rstd, Tolerance(ComputeType(dtype)), "rstd");
    }
  }
  for (const AxisVector& axes : {AxisVector{1}, AxisVector{0, 1}}) {
    CheckGradients(
        {Make({3, 5}, 1), axes.size() == 1 ? Make({5}, 2) : Make({3, 5}, 2)},
        [&](FusionBuilder& b, Vals in) -> Results {
          return {RmsNorm(b, in[0], axes, in[1], kEps).y};
        },
        [&](FusionBuilder& b, Vals in) -> Results {
          const ValId rstd = RmsNorm(b, in[1], axes, in[2], kEps).rstd;
          const RmsNormGradients g = RmsNormBackward(b, in[0], in[1], rstd, in[2], axes);
          return {g.x, g.weight};
        });
  }
}

TEST(CompositeNumerics, BatchNormTraining) {
  for (int channel_axis : {1, -1}) {
    for (DType dtype : kFloats) {
      const Array x = Make({4, 3, 3}, 1, dtype), w = Make({3}, 2), c = Make({3}, 3),
                  running = Make({3}, 4);
      const size_t channel = channel_axis == 1 ? 1 : 2;
      const auto key = [&](const Shape& i) { return Shape{i[channel]}; };
      const NaiveNormResult expected = NaiveNorm(
          x, w, c, kEps, key, [&](const Shape& i) { return static_cast<size_t>(i[channel]); });
      const std::vector<Array> r =
          RunGraph({x, w, c, running}, [&](FusionBuilder& b, Vals in) -> Results {
            const BatchNormResult n =
                BatchNorm(b, in[0], in[1], in[2], in[3], in[3], 0.2, kEps, channel_axis);
            return {n.y, n.mean, n.rstd, n.running_mean, n.running_var};
          });
      ExpectNorm(r, expected, dtype);
      Values mean, variance;
      for (const auto& [k, s] : NaiveStatistics(x, key)) {
        const double old = running.values[static_cast<size_t>(k[0])];
        mean.push_back(0.8 * old + 0.2 * s.mean);
        variance.push_back(0.8 * old + 0.2 * s.variance * 12 / 11);
      }
      const double tolerance = Tolerance(ComputeType(dtype));
      ExpectNear(r.at(3), mean, tolerance, "running mean");
      ExpectNear(r.at(4), variance, tolerance, "running variance");
    }
  }
  CheckGradients(
      {Make({3, 2, 4}, 1), Make({2}, 2), Make({2}, 3)},
      [](FusionBuilder& b, Vals in) -> Results {
        return {BatchNorm(b, in[0], in[1], in[2], ValId(), ValId(), 0.1, kEps).y};
      },
      [](FusionBuilder& b, Vals in) -> Results {
        const BatchNormResult n = BatchNorm(b, in[1], in[2], in[3], ValId(), ValId(), 0.1, kEps);
        const NormGradients g = BatchNormBackward(b, in[0], in[1], n.mean, n.rstd, in[2]);
        return {g.x, g.weight, g.bias};
      });
}

TEST(CompositeNumerics, BatchNormInference) {
  const Array x = Make({2, 3, 4}, 1), w = Make({3}, 2), c = Make({3}, 3), mean = Make({3}, 4);
  Array var = Make({3}, 5);
  for (double& v : var.values) v = v * v;
  Values expected;
  ForEach(x.shape, [&](size_t i, const Shape& index) {
    const size_t k = static_cast<size_t>(index[1]);
    expected.push_back((x.values[i] - mean.values[k]) / std::sqrt(var.values[k] + kEps) *
                           w.values[k] +
                       c.values[k]);
  });
  const Build forward = [](FusionBuilder& b, Vals in) -> Results {
    return {BatchNormInference(b, in[0], in[1], in[2], in[3], in[4], kEps)};
  };
  const std::vector<Array> inputs = {x, w, c, mean, var};
  ExpectNear(RunGraph(inputs, forward).at(0), expected, 1e-12, "y");
  CheckGradients(inputs, forward, [](FusionBuilder& b, Vals in) -> Results {
    const NormGradients g = BatchNormInferenceBackward(b, in[0], in[1], in[4], in[5], in[2], kEps);
    return {g.x, g.weight, g.bias};
  });
}

TEST(CompositeNumerics, InstanceNorm) {
  for (int channel_axis : {1, 3}) {
    for (DType dtype : kFloats) {
      for (bool symbolic : {false, true}) {
        const Array x = Make(channel_axis == 1 ? Shape{2, 3, 4, 5} : Shape{2, 4, 5, 3}, 1, dtype),
                    w = Make({3}, 2), c = Make({3}, 3);
        const size_t channel = static_cast<size_t>(channel_axis);
        const NaiveNormResult expected = NaiveNorm(
            x, w, c, kEps,
            [&](const Shape& i) {
              return Shape{i[0], i[channel]};
            },
            [&](const Shape& i) { return static_cast<size_t>(i[channel]); });
        ExpectNorm(RunGraph(
                       {x, w, c},
                       [&](FusionBuilder& b, Vals in) -> Results {
                         const NormResult n =
                             InstanceNorm(b, in[0], in[1], in[2], kEps, channel_axis);
                         return {n.y, n.mean, n.rstd};
                       },
                       symbolic),
                   expected, dtype);
      }
    }
    CheckGradients(
        {Make({2, 3, 2, 3}, 1), Make({3}, 2), Make({3}, 3)},
        [&](FusionBuilder& b, Vals in) -> Results {
          return {InstanceNorm(b, in[0], in[1], in[2], kEps, channel_axis).y};
        },
        [&](FusionBuilder& b, Vals in) -> Results {
          const NormResult n = InstanceNorm(b, in[1], in[2], in[3], kEps, channel_axis);
          const NormGradients g =
              InstanceNormBackward(b, in[0], in[1], n.mean, n.rstd, in[2], channel_axis);
          return {g.x, g.weight, g.bias};
        });
  }
}

TEST(CompositeNumerics, GroupNorm) {
  for (int64_t groups : {1, 2, 3, 6}) {
    for (int channel_axis : {1, -1}) {
      for (DType dtype : {DType::F64, DType::F16}) {
        for (bool symbolic : {false, true}) {
          const Array x = Make(channel_axis == 1 ? Shape{2, 6, 5} : Shape{2, 5, 6}, 1, dtype),
                      w = Make({6}, 2), c = Make({6}, 3);
          const size_t channel = channel_axis == 1 ? 1 : 2;
          const NaiveNormResult expected = NaiveNorm(
              x, w, c, kEps,
              [&](const Shape& i) {
                return Shape{i[0], i[channel] / (6 / groups)};
              },
              [&](const Shape& i) { return static_cast<size_t>(i[channel]); });
          ExpectNorm(RunGraph(
                         {x, w, c},
                         [&](FusionBuilder& b, Vals in) -> Results {
                           const NormResult n =
                               GroupNorm(b, in[0], groups, in[1], in[2], kEps, channel_axis);
                           return {n.y, n.mean, n.rstd};
                         },
                         symbolic),
                     expected, dtype);
        }
      }
    }
  }
  for (int channel_axis : {1, 2}) {
    CheckGradients(
        {Make({2, 4, 4}, 1), Make({4}, 2), Make({4}, 3)},
        [&](FusionBuilder& b, Vals in) -> Results {
          return {GroupNorm(b, in[0], 2, in[1], in[2], kEps, channel_axis).y};
        },
        [&](FusionBuilder& b, Vals in) -> Results {
          const NormResult n = GroupNorm(b, in[1], 2, in[2], in[3], kEps, channel_axis);
          const NormGradients g =
              GroupNormBackward(b, in[0], in[1], n.mean, n.rstd, 2, in[2], channel_axis);
          return {g.x, g.weight, g.bias};
        });
  }
}

// --- Activations ---

TEST(CompositeNumerics, Activations) {
  struct Case {
    const char* name;
    std::function<ValId(FusionBuilder&, ValId)> forward;
    std::function<ValId(FusionBuilder&, ValId, ValId)> backward;
    double (*expected)(double);
  };
  const Case cases[] = {
      {"gelu", [](FusionBuilder& b, ValId x) { return Gelu(b, x, GeluKind::Erf); },
       [](FusionBuilder& b, ValId g, ValId x) { return GeluBackward(b, g, x, GeluKind::Erf); },
       [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"gelu_tanh", [](FusionBuilder& b, ValId x) { return Gelu(b, x, GeluKind::Tanh); },
       [](FusionBuilder& b, ValId g, ValId x) { return GeluBackward(b, g, x, GeluKind::Tanh); },
       [](double x) {
         return x / 2 *
                (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
       }},
      {"silu", Silu, SiluBackward, [](double x) { return x / (1 + std::exp(-x)); }},
  };
  for (const Case& c : cases) {
    for (DType dtype : kFloats) {
      Array x = Make({3, 7}, 1, dtype);
      x.values[0] = 0;
      x.values[1] = 30;
      x.values[2] = -30;
      Values expected;
      for (double v : x.values) expected.push_back(c.expected(v));
      const Array y = RunGraph({x}, [&](FusionBuilder& b, Vals in) -> Results {
                        return {c.forward(b, in[0])};
                      }).at(0);
      ExpectNear(y, expected, Tolerance(dtype), c.name);
    }
    CheckGradients(
        {Make({3, 7}, 1)},
        [&](FusionBuilder& b, Vals in) -> Results { return {c.forward(b, in[0])}; },
        [&](FusionBuilder& b, Vals in) -> Results { return {c.backward(b, in[0], in[1])}; });
  }
}

TEST(CompositeNumerics, SwiGlu) {
  for (DType dtype : kFloats) {
    const Array gate = Make({2, 5}, 1, dtype), up = Make({2, 5}, 2, dtype);
    Values expected;
    for (size_t i = 0; i < 10; ++i) {
      expected.push_back(gate.values[i] / (1 + std::exp(-gate.values[i])) * up.values[i]);
    }
    const Array y = RunGraph({gate, up}, [](FusionBuilder& b, Vals in) -> Results {
                      return {SwiGlu(b, in[0], in[1])};
                    }).at(0);
    ExpectNear(y, expected, Tolerance(dtype), "swiglu");
  }
}

// --- Dropout ---

TEST(CompositeNumerics, Dropout) {
  const Array x = Make({64, 64}, 1, DType::F16);
  const auto run = [&](double p, double seed, double offset) {
    return RunGraph({x, {{}, {seed}, DType::I64}, {{}, {offset}, DType::I64}},
                    [&](FusionBuilder& b, Vals in) -> Results {
                      const DropoutResult d = Dropout(b, in[0], p, in[1], in[2]);
                      return {d.y, d.mask, DropoutBackward(b, in[0], d.mask, p)};
                    });
  };
  for (double p : {0.0, 0.25, 0.9, 1.0}) {
    const std::vector<Array> r = run(p, 42, 7);
    double kept = 0;
    for (size_t i = 0; i < x.values.size(); ++i) {
      const double expected =
          r[1].values[i] == 0 ? 0 : RoundToDType(DType::F16, x.values[i] / (1 - p));
      EXPECT_NEAR(r[0].values[i], expected, 1e-3 * std::fabs(expected));
      kept += r[1].values[i];
    }
    EXPECT_EQ(r[2].values, r[0].values);  // The backward pass of grad = x is the same function.
    // Four standard deviations of a binomial of 4096.
    EXPECT_NEAR(kept / 4096, 1 - p, 4 * std::sqrt(p * (1 - p) / 4096));
  }
  EXPECT_EQ(run(0.5, 42, 7)[1].values, run(0.5, 42, 7)[1].values);
  EXPECT_NE(run(0.5, 42, 7)[1].values, run(0.5, 43, 7)[1].values);
  EXPECT_NE(run(0.5, 42, 7)[1].values, run(0.5, 42, 8)[1].values);
}

TEST(CompositeNumerics, DropoutDropsNaN) {
  Array x = Make({64}, 1);
  x.values.assign(64, std::numeric_limits<double>::quiet_NaN());
  const std::vector<Array> r =
      RunGraph({x, {{}, {1}, DType::I64}}, [](FusionBuilder& b, Vals in) -> Results {
        const DropoutResult d = Dropout(b, in[0], 0.5, in[1], in[1]);
        return {d.y, d.mask};
      });
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(r[0].values[i]), r[1].values[i] != 0);
}

// --- Cross-entropy ---

TEST(CompositeNumerics, CrossEntropy) {
  for (DType target_dtype : {DType::I64, DType::I32, DType::U8}) {
    for (DType dtype : kFloats) {
      Array logits = Make({4, 300}, 1, dtype);
      logits.values[5] = 1000;  // Where exp overflows without the shift.
      const Array target{{4}, {5, 0, 255, 7}, target_dtype};
      double loss = 0;
      Values lse;
      for (size_t row = 0; row < 4; ++row) {
        double max = -1e300, sum = 0;
        for (size_t i = 0; i < 300; ++i) max = std::max(max, logits.values[row * 300 + i]);
        for (size_t i = 0; i < 300; ++i) sum += std::exp(logits.values[row * 300 + i] - max);
        lse.push_back(max + std::log(sum));
        loss += (lse[row] - logits.values[row * 300 + static_cast<size_t>(target.values[row])]) / 4;
      }
      for (bool symbolic : {false, true}) {
        const std::vector<Array> r = RunGraph(
            {logits, target},
            [](FusionBuilder& b, Vals in) -> Results {
              const CrossEntropyResult c = CrossEntropy(b, in[0], in[1]);
              return {c.loss, c.log_sum_exp};
            },
            symbolic);
        EXPECT_EQ(r.at(0).shape, Shape{});
        ExpectNear(r.at(0), {loss}, Tolerance(ComputeType(dtype)), "loss");
        ExpectNear(r.at(1), lse, Tolerance(ComputeType(dtype)), "log_sum_exp");
      }
    }
  }
  const Array target{{3}, {4, 0, 2}, DType::I64};
  CheckGradients(
      {Make({3, 5}, 1), target},
      [](FusionBuilder& b, Vals in) -> Results { return {CrossEntropy(b, in[0], in[1]).loss}; },
      [](FusionBuilder& b, Vals in) -> Results {
        const CrossEntropyResult c = CrossEntropy(b, in[1], in[2]);
        return {CrossEntropyBackward(b, in[0], in[1], in[2], c.log_sum_exp)};
      });
}

// --- Rotary embedding ---

TEST(CompositeNumerics, RotaryEmbedding) {
  for (DType dtype : kFloats) {
    const Array x = Make({2, 3, 5, 8}, 1, dtype);
    Array cos{{5, 4}, {}, DType::F32}, sin{{5, 4}, {}, DType::F32};
    for (int i = 0; i < 20; ++i) {
      const double angle = (i / 4) * std::pow(10000.0, -(i % 4) / 4.0);
      cos.values.push_back(RoundToDType(DType::F32, std::cos(angle)));
      sin.values.push_back(RoundToDType(DType::F32, std::sin(angle)));
    }
    Values expected;
    ForEach(x.shape, [&](size_t i, const Shape& index) {
      const size_t pair = static_cast<size_t>(index[2] * 4 + index[3] % 4);
      const bool first = index[3] < 4;
      const double other = first ? -x.values[i + 4] : x.values[i - 4];
      expected.push_back(x.values[i] * cos.values[pair] + other * sin.values[pair]);
    });
    const std::vector<Array> r = RunGraph({x, cos, sin}, [](FusionBuilder& b, Vals in) -> Results {
      const ValId y = RotaryEmbedding(b, in[0], in[1], in[2]);
      return {y, RotaryEmbedding(b, y, in[1], b.Op(OpKind::Neg, {in[2]}))};
    });
    ExpectNear(r.at(0), expected, Tolerance(dtype), "y");
    // A rotation back is the inverse, up to the rounding of the table.
    ExpectNear(r.at(1), x.values, std::max(2 * Tolerance(dtype), 1e-6), "rotated back");
  }
}

}  // namespace
}  // namespace seam
