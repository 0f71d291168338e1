// Symbols from the sizes and strides of a call's tensors, and what is said of tensors that do not
// fit.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text/parser.h"
#include "runtime/size_binding.h"

namespace seam {
namespace {

using ::testing::HasSubstr;

Fusion Parse(const std::string& body) {
  absl::StatusOr<Fusion> fusion = ParseFusion("fusion f {\n" + body + "\n}");
  EXPECT_TRUE(fusion.ok()) << fusion.status();
  return *std::move(fusion);
}

Tensor Of(DType dtype, std::vector<int64_t> sizes) {
  return ContiguousTensor(nullptr, dtype, sizes);
}

std::string Bound(const Fusion& fusion, std::vector<Tensor> inputs,
                  std::vector<SymbolValue> given = {}) {
  const absl::StatusOr<SizeBinding> binding = BindSizes(fusion, given, inputs);
  return binding.ok() ? binding->ToString() : std::string(binding.status().message());
}

TEST(BindSizes, LoneSymbols) {
  const Fusion f = Parse(
      "symbol M in [0, 100]\n symbol N in [1, 50]\n input x: f32[M, N]\n y = exp(x)\n output y");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {3, 7})}), "M = 3, N = 7");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {0, 7})}), "M = 0, N = 7");
  EXPECT_THAT(Bound(f, {Of(DType::F32, {3, 51})}),
              HasSubstr("input x, axis 1: symbol N is 51, expected a value in [1, 50]"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {3, 0})}),
              HasSubstr("symbol N is 0, expected a value in [1, 50]"));
}

TEST(BindSizes, OneUnknownWithFactorsAndTerms) {
  const Fusion f = Parse(
      "symbol N in [1, 1000]\n symbol K in [1, 1000]\n input x: f32[2*N + 1]\n input z: f32[N*K]\n"
      "y = exp(x)\n w = exp(z)\n output y\n output w");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {9}), Of(DType::F32, {20})}), "N = 4, K = 5");
  EXPECT_THAT(Bound(f, {Of(DType::F32, {8}), Of(DType::F32, {20})}),
              HasSubstr("input x, axis 0: found 8, expected 2*N + 1"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {9}), Of(DType::F32, {21})}),
              HasSubstr("input z, axis 0: found 21, expected N*K"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {9}), Of(DType::F32, {20})}, {{"K", 6}}),
              HasSubstr("input z, axis 0: found 20, expected N*K = 24 (N = 4, K = 6)"));
}

TEST(BindSizes, WhatNoInputDeterminesMustBeGiven) {
  const Fusion f = Parse(
      "symbol G in [1, 100]\n symbol K in [1, 100]\n input x: f32[G*K]\n y = reshape(x, sizes=[G, "
      "K])\n output y");
  EXPECT_THAT(Bound(f, {Of(DType::F32, {12})}), HasSubstr("no value of the symbol"));
  EXPECT_EQ(Bound(f, {Of(DType::F32, {12})}, {{"G", 3}}), "G = 3, K = 4");
  EXPECT_THAT(Bound(f, {Of(DType::F32, {12})}, {{"G", 5}}), HasSubstr("found 12, expected G*K"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {12})}, {{"G", 101}}), HasSubstr("symbol G is 101"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {12})}, {{"Q", 1}}), HasSubstr("no symbol Q"));
}

TEST(BindSizes, StridesAreCheckedAndBind) {
  const Fusion f = Parse(
      "symbol M in [0, 100]\n symbol S in [1, 1000]\n input x: f32[M, 4] strides [S, 1]\n y = "
      "exp(x)\n output y");
  Tensor x = Of(DType::F32, {3, 4});
  EXPECT_EQ(Bound(f, {x}), "M = 3, S = 4");
  x.strides = {10, 1};
  EXPECT_EQ(Bound(f, {x}), "M = 3, S = 10");
  x.strides = {10, 2};
  EXPECT_THAT(Bound(f, {x}), HasSubstr("input x, axis 1: found the stride 2, expected 1"));

  const Fusion contiguous =
      Parse("symbol M in [0, 100]\n input x: f32[M, 4]\n y = exp(x)\n output y");
  x.strides = {8, 1};
  EXPECT_THAT(Bound(contiguous, {x}), HasSubstr("found the stride 8, expected 4"));
  // One row, no rows: that stride is never used.
  x = Of(DType::F32, {1, 4});
  x.strides = {999, 1};
  EXPECT_EQ(Bound(contiguous, {x}), "M = 1");
  x = Of(DType::F32, {0, 4});
  x.strides = {-5, 7};
  EXPECT_EQ(Bound(contiguous, {x}), "M = 0");
}

// A stride along which there is no step determines what nothing else does.
TEST(BindSizes, StridesWithoutAStep) {
  const Fusion f = Parse(
      "symbol M in [0, 100]\n symbol P in [0, 100]\n symbol S in [0, 1000]\n"
      "input x: f32[M, 4] strides [S, 1]\n input z: f32[P, 4] strides [S, 1]\n"
      "y = exp(x)\n w = exp(z)\n output y\n output w");
  Tensor x = Of(DType::F32, {1, 4}), z = Of(DType::F32, {3, 4});
  x.strides = {0, 1};
  z.strides = {16, 1};
  EXPECT_EQ(Bound(f, {x, z}), "M = 1, P = 3, S = 16");
  x.sizes = {0, 4};
  EXPECT_EQ(Bound(f, {x, z}), "M = 0, P = 3, S = 16");
  EXPECT_EQ(Bound(f, {x, x}), "M = 0, P = 0, S = 0");
  EXPECT_EQ(Bound(f, {x, x}, {{"S", 8}}), "M = 0, P = 0, S = 8");
  x.strides = {-8, 1};  // x[::-1][:0]
  EXPECT_EQ(Bound(f, {x, z}), "M = 0, P = 3, S = 16");
  EXPECT_EQ(Bound(f, {x, x}), "M = 0, P = 0, S = 0");
  x.strides = {int64_t{1} << 50, 1};
  EXPECT_EQ(Bound(f, {x, x}), "M = 0, P = 0, S = 1000");
}

TEST(BindSizes, WhatNoValueGives) {
  const Fusion f = Parse(
      "symbol N in [1, 1000]\n symbol K in [1, 1000]\n input x: f32[N*K]\n"
      "input z: f32[2*K + 1]\n y = exp(x)\n w = exp(z)\n output y\n output w");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {12}), Of(DType::F32, {7})}), "N = 4, K = 3");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {13}), Of(DType::F32, {7})}),
            "input x, axis 0: found 13, expected N*K (K = 3): 3 does not divide 13");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {12}), Of(DType::F32, {8})}),
            "input z, axis 0: found 8, expected 2*K + 1: 2 does not divide 7");
  EXPECT_EQ(
      Bound(f, {Of(DType::F32, {3000}), Of(DType::F32, {3})}),
      "input x, axis 0: found 3000, expected N*K (K = 1): N would be 3000, expected a value in [1, "
      "1000]");
}

TEST(BindSizes, GivenTwice) {
  const Fusion f = Parse("symbol M in [0, 9]\n input x: f32[M]\n y = exp(x)\n output y");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {3})}, {{"M", 3}, {"M", 3}}), "M = 3");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {3})}, {{"M", 3}, {"M", 4}}),
            "symbol M is given twice, as 3 and 4");
}

TEST(CheckValues, TheLargestTensor) {
  const Fusion f = Parse(
      "symbol M in [0, 100000]\n input x: f32[M]\n"
      "wide = expand(x[:, None], sizes=[M, 1099511627776])\n y = sum(wide, axes=[1])\n"
      "output y");
  const auto message = [&](int64_t m) {
    const absl::StatusOr<SizeBinding> binding = BindGiven(f, {{"M", m}});
    EXPECT_TRUE(binding.ok()) << binding.status();
    return std::string(CheckValues(f, *binding).message());
  };
  EXPECT_EQ(message(0), "");
  EXPECT_EQ(message(256), "");
  EXPECT_EQ(message(257),
            "wide, a result of expand: f32[M, 1099511627776] has more than 2^48 elements for M = "
            "257");
}

TEST(CheckValues, SizesThatCanBeComputed) {
  const Fusion f = Parse(
      "symbol M in [0, 281474976710656]\n symbol N in [0, 281474976710656]\n input x: f32[]\n"
      "a = size(sizes=[7 // M], dtype=f32)\n b = size(sizes=[M * N], dtype=f32)\n"
      "y = x * a + b\n output y");
  const auto message = [&](int64_t m, int64_t n) {
    const absl::StatusOr<SizeBinding> binding = BindGiven(f, {{"M", m}, {"N", n}});
    EXPECT_TRUE(binding.ok()) << binding.status();
    return std::string(CheckValues(f, *binding).message());
  };
  EXPECT_EQ(message(2, 3), "");
  EXPECT_THAT(message(0, 3), HasSubstr("a, a result of size: its value 7//M"));
  EXPECT_THAT(message(0, 3), HasSubstr("division by zero"));
  EXPECT_THAT(message(int64_t{1} << 48, int64_t{1} << 48), HasSubstr("overflow"));
}

TEST(BindSizes, TensorsThatDoNotFit) {
  const Fusion f = Parse(
      "symbol M in [0, 100]\n input x: f32[M, 4]\n input z: f32[M]\n y = x + z[:, None]\n output "
      "y");
  const Tensor x = Of(DType::F32, {3, 4}), z = Of(DType::F32, {3});
  EXPECT_EQ(Bound(f, {x, z}), "M = 3");
  EXPECT_THAT(Bound(f, {x}), HasSubstr("found 1 input tensors, expected 2"));
  EXPECT_THAT(Bound(f, {Of(DType::F16, {3, 4}), z}),
              HasSubstr("input x: found f16, expected f32[M, 4]"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {3}), z}),
              HasSubstr("input x: found 1 sizes and 1 strides, expected 2"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {3, 5}), z}),
              HasSubstr("input x, axis 1: found 5, expected 4"));
  EXPECT_THAT(Bound(f, {x, Of(DType::F32, {2})}),
              HasSubstr("input z, axis 0: found 2, expected M = 3"));
  EXPECT_THAT(Bound(f, {Of(DType::F32, {-1, 4}), z}),
              HasSubstr("input x, axis 0: found the size -1"));
}

TEST(BindSizes, ConstraintsAreChecked) {
  const Fusion f = Parse(
      "symbol M in [1, 100]\n symbol N in [1, 100]\n input x: f32[M]\n input z: f32[N]\n"
      "y = reshape(x, sizes=[N, 2])\n w = exp(z)\n output y\n output w");
  EXPECT_EQ(Bound(f, {Of(DType::F32, {8}), Of(DType::F32, {4})}), "M = 8, N = 4");
  EXPECT_THAT(Bound(f, {Of(DType::F32, {8}), Of(DType::F32, {5})}),
              HasSubstr("found M = 8, N = 5"));
}

TEST(SpanOf, ReachAndOverflow) {
  EXPECT_EQ(SpanOf({}, {})->end, 1);
  EXPECT_EQ(SpanOf({3, 4}, {10, 1})->end, 24);
  EXPECT_EQ(SpanOf({3, 0}, {10, 1})->end, 0);
  EXPECT_EQ(SpanOf({3}, {-2})->lowest, -4);
  EXPECT_EQ(SpanOf({3}, {-2})->end, 1);
  EXPECT_FALSE(SpanOf({int64_t{1} << 40}, {int64_t{1} << 40}).ok());
  EXPECT_FALSE(SpanOf({2}, {INT64_MAX}).ok());
  EXPECT_FALSE(SpanOf({3}, {INT64_MIN}).ok());
}

TEST(CopyElements, BetweenStrides) {
  std::vector<int32_t> from = {0, 1, 2, 3, 4, 5}, to(12, -1);
  Tensor source = ContiguousTensor(from.data(), DType::I32, {2, 3});
  Tensor target{to.data(), DType::I32, {2, 3}, {1, 4}};
  ASSERT_TRUE(CopyElements(source, target).ok());
  EXPECT_EQ(to, (std::vector<int32_t>{0, 3, -1, -1, 1, 4, -1, -1, 2, 5, -1, -1}));
  Tensor reversed{from.data() + 5, DType::I32, {6}, {-1}};
  std::vector<int32_t> backwards(6);
  ASSERT_TRUE(CopyElements(reversed, ContiguousTensor(backwards.data(), DType::I32, {6})).ok());
  EXPECT_EQ(backwards, (std::vector<int32_t>{5, 4, 3, 2, 1, 0}));
  int32_t one = 0;
  ASSERT_TRUE(CopyElements(ContiguousTensor(&from[4], DType::I32, {}),
                           ContiguousTensor(&one, DType::I32, {}))
                  .ok());
  EXPECT_EQ(one, 4);
  EXPECT_FALSE(CopyElements(source, ContiguousTensor(to.data(), DType::I32, {3, 2})).ok());
  EXPECT_FALSE(CopyElements(ContiguousTensor(nullptr, DType::I32, {2, 3}), target).ok());
  target.strides.pop_back();
  EXPECT_FALSE(CopyElements(source, target).ok());
  for (const auto& sizes : {Int64Vector{-1, 3}, Int64Vector{2, -3}}) {
    const Tensor negative{from.data(), DType::I32, sizes, {3, 1}};
    EXPECT_FALSE(CopyElements(negative, negative).ok());
  }
}

}  // namespace
}  // namespace seam
