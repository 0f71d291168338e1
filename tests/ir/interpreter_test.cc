// The interpreter against loops written out here, and its errors.
#include "ir/reference/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ir/fusion_builder.h"
#include "ir/philox.h"
#include "tests/support/host_tensors.h"
#include "tests/support/special_values.h"

namespace seam {
namespace {

using testing::Floats;
using testing::Integers;
using testing::kInf;
using testing::Random;

using Index = std::vector<int64_t>;

// Runs the one-output graph that `build` makes of inputs of these types.
absl::StatusOr<HostTensor> RunGraph(
    std::vector<HostTensor> inputs,
    const std::function<ValId(FusionBuilder&, std::vector<ValId>)>& build) {
  FusionBuilder b("test");
  std::vector<ValId> vals;
  for (const HostTensor& input : inputs) {
    SymVector sizes(input.shape.begin(), input.shape.end());
    vals.push_back(b.Input("x" + std::to_string(vals.size()), input.dtype, sizes));
  }
  b.Output(build(b, vals));
  const auto fusion = b.Finish();
  if (!fusion.ok()) return fusion.status();
  auto outputs = Interpret(*fusion, {}, inputs);
  if (!outputs.ok()) return outputs.status();
  return outputs->at(0);
}

// `expected(index)` for every element.
void ExpectElements(const HostTensor& tensor, Index shape,
                    const std::function<Scalar(const Index&)>& expected) {
  ASSERT_EQ(tensor.shape, shape);
  Index index(shape.size(), 0);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0;) {
      index[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    const Scalar want = expected(index), got = tensor.at(index);
    if (IsFloat(tensor.dtype) && want.f != want.f) {
      ASSERT_TRUE(got.f != got.f) << "element " << i;
    } else if (IsFloat(tensor.dtype)) {
      ASSERT_EQ(got.f, want.f) << "element " << i;
    } else {
      ASSERT_EQ(got.i, want.i) << "element " << i;
    }
  }
}

TEST(InterpretTest, PointwiseBroadcastsExtentsOfOneAndScalars) {
  const HostTensor x = Random(DType::F32, {3, 1, 5}, 1), y = Random(DType::F32, {1, 4, 5}, 2);
  const HostTensor z = Random(DType::F32, {}, 3);
  const auto result = RunGraph({x, y, z}, [](FusionBuilder& b, std::vector<ValId> v) {
    return b.Op(OpKind::Fma, {v[0], v[1], v[2]});
  });
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectElements(*result, {3, 4, 5}, [&](const Index& i) {
    return FloatScalar(std::fma(static_cast<float>(x.at({i[0], 0, i[2]}).f),
                                static_cast<float>(y.at({0, i[1], i[2]}).f),
                                static_cast<float>(z.at({}).f)));
  });
}

TEST(InterpretTest, ReductionsOverEverySetOfAxes) {
  const HostTensor x = Random(DType::F64, {3, 4, 5}, 1), n = Random(DType::I32, {3, 4, 5}, 2);
  for (int set = 0; set < 8; ++set) {
    AxisVector axes;
    Index kept_shape, kept;
    for (int axis = 0; axis < 3; ++axis) {
      if (set >> axis & 1) {
        axes.push_back(axis);
      } else {
        kept.push_back(axis);
        kept_shape.push_back(x.shape[static_cast<size_t>(axis)]);
      }
    }
    if (axes.empty()) continue;  // Means all of them.
    const auto each = [&](const Index& out, auto visit) {
      for (int64_t i = 0; i < 60; ++i) {
        const Index at = {i / 20, i / 5 % 4, i % 5};
        bool match = true;
        for (size_t k = 0; k < kept.size(); ++k)
          match &= at[static_cast<size_t>(kept[k])] == out[k];
        if (match) visit(at);
      }
    };
    const auto reduce = [&](const HostTensor& input, OpKind kind) {
      return RunGraph({input}, [&](FusionBuilder& b,
                                   std::vector<ValId> v) { return b.Reduce(kind, v[0], axes); })
          .value();
    };
    ExpectElements(reduce(x, OpKind::Sum), kept_shape, [&](const Index& out) {
      long double sum = 0;
      each(out, [&](const Index& at) { sum += x.at(at).f; });
      return FloatScalar(static_cast<double>(sum));
    });
    ExpectElements(reduce(x, OpKind::Max), kept_shape, [&](const Index& out) {
      double best = -kInf;
      each(out, [&](const Index& at) { best = std::max(best, x.at(at).f); });
      return FloatScalar(best);
    });
    const HostTensor product = reduce(n, OpKind::Prod);
    EXPECT_EQ(product.dtype, DType::I64);
    ExpectElements(product, kept_shape, [&](const Index& out) {
      uint64_t p = 1;
      each(out, [&](const Index& at) { p *= static_cast<uint64_t>(n.at(at).i); });
      return IntScalar(static_cast<int64_t>(p));
    });
    if (axes.size() == 1) {
      ExpectElements(reduce(n, OpKind::ArgMin), kept_shape, [&](const Index& out) {
        int64_t best = INT64_MAX, where = -1, position = 0;
        each(out, [&](const Index& at) {
          if (n.at(at).i < best) {
            best = n.at(at).i;
            where = position;
          }
          ++position;
        });
        return IntScalar(where);
      });
    }
  }
}

TEST(InterpretTest, WelfordIsAccurateFarFromZero) {
  const int64_t rows = 3, columns = 1000;
  HostTensor x = Random(DType::F32, {rows, columns}, 9);
  std::vector<Scalar> values = x.ToScalars();
  for (Scalar& v : values) v.f = static_cast<float>(v.f + 10000);
  x.FromScalars(values);
  for (int component = 0; component < 3; ++component) {
    const auto result = RunGraph({x}, [&](FusionBuilder& b, std::vector<ValId> v) {
      return FusionBuilder::ResultOf(b.Welford(v[0], {1}), component);
    });
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectElements(*result, {rows}, [&](const Index& i) {
      long double sum = 0, m2 = 0;
      for (int64_t c = 0; c < columns; ++c) sum += x.at({i[0], c}).f;
      const long double mean = sum / columns;
      for (int64_t c = 0; c < columns; ++c)
        m2 += (x.at({i[0], c}).f - mean) * (x.at({i[0], c}).f - mean);
      return FloatScalar(component == 0   ? static_cast<float>(mean)
                         : component == 1 ? static_cast<float>(m2)
                                          : static_cast<float>(columns));
    });
  }
}

TEST(InterpretTest, Views) {
  const HostTensor x = Random(DType::BF16, {3, 4, 5}, 1);
  ExpectElements(RunGraph({x},
                          [](auto& b, auto v) {
                            return b.Permute(v[0], {2, 0, 1});
                          })
                     .value(),
                 {5, 3, 4}, [&](const Index& i) {
                   return x.at({i[1], i[2], i[0]});
                 });
  ExpectElements(RunGraph({x},
                          [](auto& b, auto v) {
                            return b.Reshape(v[0], {6, 10});
                          })
                     .value(),
                 {6, 10}, [&](const Index& i) {
                   const int64_t flat = i[0] * 10 + i[1];
                   return x.at({flat / 20, flat / 5 % 4, flat % 5});
                 });
  Attributes slice;
  slice.start = {1, 0, 1};
  slice.stop = {3, 4, 5};
  slice.step = {1, 2, 3};
  ExpectElements(
      RunGraph({x}, [&](auto& b, auto v) { return b.Op(OpKind::Slice, {v[0]}, slice); }).value(),
      {2, 2, 2}, [&](const Index& i) {
        return x.at({i[0] + 1, 2 * i[1], 1 + 3 * i[2]});
      });
  Attributes flip;
  flip.axes = {0, 2};
  ExpectElements(
      RunGraph({x}, [&](auto& b, auto v) { return b.Op(OpKind::Flip, {v[0]}, flip); }).value(),
      {3, 4, 5}, [&](const Index& i) {
        return x.at({2 - i[0], i[1], 4 - i[2]});
      });
  Attributes pad;
  pad.start = {1, 0, 0};
  pad.stop = {0, 0, 2};
  pad.value = -1.5;
  ExpectElements(
      RunGraph({x}, [&](auto& b, auto v) { return b.Op(OpKind::Pad, {v[0]}, pad); }).value(),
      {4, 4, 7}, [&](const Index& i) {
        return i[0] == 0 || i[2] >= 5 ? FloatScalar(-1.5) : x.at({i[0] - 1, i[1], i[2]});
      });
  ExpectElements(RunGraph({x},
                          [](auto& b, auto v) {
                            return b.Expand(b.Broadcast(v[0], {0, 3}), {2, 3, 4, 3, 5});
                          })
                     .value(),
                 {2, 3, 4, 3, 5}, [&](const Index& i) {
                   return x.at({i[1], i[2], i[4]});
                 });
}

TEST(InterpretTest, CatGatherAndIndexSelect) {
  const HostTensor x = Random(DType::I16, {2, 3, 4}, 1), y = Random(DType::I16, {2, 1, 4}, 2);
  Attributes axis1;
  axis1.axes = {1};
  ExpectElements(RunGraph({x, y},
                          [&](auto& b, auto v) {
                            return b.Op(OpKind::Cat, {v[0], v[1], v[0]}, axis1);
                          })
                     .value(),
                 {2, 7, 4}, [&](const Index& i) {
                   return i[1] < 3    ? x.at(i)
                          : i[1] == 3 ? y.at({i[0], 0, i[2]})
                                      : x.at({i[0], i[1] - 4, i[2]});
                 });
  HostTensor index = HostTensor::Make(DType::I32, {2, 5, 4}).value();
  FillRandomIntegers(index, 3, -5, 5);
  const auto pick = [](int64_t at) { return at < 0 ? at + 3 : at; };
  ExpectElements(RunGraph({x, index},
                          [&](auto& b, auto v) {
                            return b.Op(OpKind::Gather, {v[0], v[1]}, axis1);
                          })
                     .value(),
                 {2, 5, 4}, [&](const Index& i) {
                   const int64_t at = pick(index.at(i).i);
                   return at < 0 || at > 2 ? IntScalar(0) : x.at({i[0], at, i[2]});
                 });
  const HostTensor rows = Integers(DType::I64, {6}, {2, -1, 0, 3, -4, 1});
  ExpectElements(RunGraph({x, rows},
                          [&](auto& b, auto v) {
                            return b.Op(OpKind::IndexSelect, {v[0], v[1]}, axis1);
                          })
                     .value(),
                 {2, 6, 4}, [&](const Index& i) {
                   const int64_t at = pick(rows.at({i[1]}).i);
                   return at < 0 || at > 2 ? IntScalar(0) : x.at({i[0], at, i[2]});
                 });
}

TEST(InterpretTest, Factories) {
  Attributes iota;
  iota.sizes = {2, 5};
  iota.axes = {1};
  iota.dtype = DType::F16;
  ExpectElements(RunGraph({}, [&](auto& b, auto) { return b.Op(OpKind::Iota, {}, iota); }).value(),
                 {2, 5}, [](const Index& i) { return FloatScalar(static_cast<double>(i[1])); });
  Attributes full;
  full.sizes = {3};
  ExpectElements(
      RunGraph({}, [&](auto& b,
                       auto) { return b.Op(OpKind::Full, {b.IntConstant(-7, DType::I8)}, full); })
          .value(),
      {3}, [](const Index&) { return IntScalar(-7); });
  Attributes random;
  random.sizes = {4, 6};
  random.dtype = DType::F32;
  for (OpKind kind : {OpKind::RandomUniform, OpKind::RandomNormal}) {
    ExpectElements(
        RunGraph({},
                 [&](auto& b, auto) {
                   return b.Op(kind, {b.IntConstant(11, DType::I64), b.IntConstant(5, DType::I64)},
                               random);
                 })
            .value(),
        {4, 6}, [&](const Index& i) {
          const int64_t flat = i[0] * 6 + i[1];
          return FloatScalar(static_cast<float>(kind == OpKind::RandomUniform
                                                    ? RandomUniformValue(DType::F32, 11, 5, flat)
                                                    : RandomNormalValue(DType::F32, 11, 5, flat)));
        });
  }
}

TEST(InterpretTest, MatrixProduct) {
  const HostTensor x = Random(DType::F64, {2, 3, 4}, 1), y = Random(DType::F64, {2, 4, 5}, 2);
  ExpectElements(RunGraph({x, y},
                          [](auto& b, auto v) {
                            return b.Op(OpKind::Matmul, {v[0], v[1]});
                          })
                     .value(),
                 {2, 3, 5}, [&](const Index& i) {
                   long double sum = 0;
                   for (int64_t k = 0; k < 4; ++k)
                     sum += x.at({i[0], i[1], k}).f * y.at({i[0], k, i[2]}).f;
                   return FloatScalar(static_cast<double>(sum));
                 });
}

TEST(InterpretTest, EmptyTensors) {
  const HostTensor empty = HostTensor::Make(DType::F32, {0, 3}).value();
  ExpectElements(
      RunGraph({empty}, [](auto& b, auto v) { return b.Reduce(OpKind::Sum, v[0], {0}); }).value(),
      {3}, [](const Index&) { return FloatScalar(0); });
  ExpectElements(
      RunGraph({empty}, [](auto& b, auto v) { return b.Reduce(OpKind::Prod, v[0], {1}); }).value(),
      {0}, [](const Index&) { return FloatScalar(0); });
  ExpectElements(RunGraph({empty}, [](auto& b, auto v) { return b.Welford(v[0], {0}); }).value(),
                 {3}, [](const Index&) { return FloatScalar(0); });
  EXPECT_EQ(RunGraph({empty},
                     [](auto& b, auto v) {
                       return b.Permute(b.Add(v[0], v[0]), {1, 0});
                     })
                ->shape,
            (Index{3, 0}));
  const HostTensor y = HostTensor::Make(DType::F32, {3, 0}).value();
  ExpectElements(RunGraph({y, empty},
                          [](auto& b, auto v) {
                            return b.Op(OpKind::Matmul, {v[0], v[1]});
                          })
                     .value(),
                 {3, 3}, [](const Index&) { return FloatScalar(0); });
  const HostTensor one = Random(DType::F32, {0, 1, 3}, 1);
  EXPECT_EQ(RunGraph({one}, [](auto& b, auto v) { return b.Expand(v[0], {0, 4, 3}); })->numel(), 0);
  Attributes flip;
  flip.axes = {0};
  EXPECT_EQ(
      RunGraph({empty}, [&](auto& b, auto v) { return b.Op(OpKind::Flip, {v[0]}, flip); })->numel(),
      0);
}

TEST(InterpretTest, RoundsWhereTheGraphSaysSo) {
  // In f16 the sum 2048 + 1 loses the one before it can be taken off again.
  const HostTensor x = Floats(DType::F16, {1}, {2048}), y = Floats(DType::F16, {1}, {1});
  const HostTensor result =
      RunGraph({x, y}, [](auto& b, auto v) { return b.Sub(b.Add(v[0], v[1]), v[0]); }).value();
  EXPECT_EQ(result.at({0}).f, 0);
  // A sum is rounded once, at its end.
  std::vector<double> ones(3000, 1.0);
  EXPECT_EQ(RunGraph({Floats(DType::F16, {3000}, ones)},
                     [](auto& b, auto v) { return b.Reduce(OpKind::Sum, v[0], {0}); })
                ->at({})
                .f,
            3000);
}

TEST(InterpretTest, StridedInputsAndOutputs) {
  FusionBuilder b("strided");
  const ValId x = b.Input("x", DType::F32, {3, 4}, SymVector{1, 3});
  const ValId y = b.Add(x, x);
  b.Output(y, SymVector{8, 2});
  const Fusion fusion = b.Finish().value();
  HostTensor input = HostTensor::MakeStrided(DType::F32, {3, 4}, {1, 3}).value();
  FillRandom(input, 4);
  const HostTensor output = Interpret(fusion, {}, {input})->at(0);
  EXPECT_EQ(output.strides, (Index{8, 2}));
  ExpectElements(output, {3, 4}, [&](const Index& i) { return FloatScalar(2 * input.at(i).f); });
}

TEST(InterpretTest, SymbolsComeFromInputsOrFromTheCaller) {
  FusionBuilder b("symbolic");
  const SymInt n = b.Symbol("N", 1, 100), m = b.Symbol("M", 1, 100);
  const ValId x = b.Input("x", DType::I32, {n, n * 2});
  Attributes full;
  full.sizes = {n, m};
  b.Output(b.Op(OpKind::Full, {b.Size(n + m, DType::I32)}, full));
  b.Output(b.Add(x, x));
  const Fusion fusion = b.Finish().value();
  const HostTensor input = Random(DType::I32, {3, 6}, 1);
  const auto outputs = Interpret(fusion, {{"M", 4}}, {input});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ExpectElements(outputs->at(0), {3, 4}, [](const Index&) { return IntScalar(7); });
  const auto error = [&](const SymbolBindings& given, std::vector<HostTensor> inputs) {
    const auto result = Interpret(fusion, given, inputs);
    EXPECT_FALSE(result.ok());
    return std::string(result.status().message());
  };
  EXPECT_NE(error({}, {input}).find("M"), std::string::npos);
  EXPECT_NE(error({{"M", 101}}, {input}).find("range"), std::string::npos);
  EXPECT_NE(error({{"M", 4}, {"N", 2}}, {input}).find("expected"), std::string::npos);
  EXPECT_NE(error({{"M", 4}}, {Random(DType::I32, {3, 5}, 1)}).find("i32[3, 5]"),
            std::string::npos);
  EXPECT_NE(error({{"M", 4}}, {Random(DType::I64, {3, 6}, 1)}).find("i64[3, 6]"),
            std::string::npos);
  EXPECT_NE(error({{"M", 4}}, {}).find("0 inputs"), std::string::npos);
  EXPECT_EQ(error({{"M", 4}, {"Q", 2}}, {input}), "symbolic has no symbol Q");
}

TEST(InterpretTest, RefusesWhatDoesNotFitInsteadOfDying) {
  FusionBuilder b("large");
  Attributes full;
  full.sizes = {int64_t{1} << 40};
  b.Output(b.Op(OpKind::Full, {b.Constant(1, DType::F32)}, full));
  const Fusion fusion = b.Finish().value();
  const auto result = Interpret(fusion, {}, {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(result.status().message().find("full"), absl::string_view::npos);
}

}  // namespace
}  // namespace seam
