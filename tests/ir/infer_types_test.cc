// Every typing rule: the result it gives, the constraint it leaves, the sentence with which it
// refuses.
#include "ir/infer_types.h"

#include <algorithm>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/fusion_builder.h"

namespace seam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorType T(DType dtype, absl::Span<const SymInt> sizes) {
  TensorType type{dtype, {}};
  for (SymInt size : sizes) type.domain.push_back({size});
  return type;
}
TensorType F32(std::initializer_list<SymInt> sizes) { return T(DType::F32, sizes); }

Attributes Axes(AxisVector axes) {
  Attributes a;
  a.axes = axes;
  return a;
}
Attributes Sizes(SymVector sizes, DType dtype = DType::F32) {
  Attributes a;
  a.sizes = sizes;
  a.dtype = dtype;
  return a;
}
Attributes Range(SymVector start, SymVector stop, SymVector step = {}) {
  Attributes a;
  a.start = start;
  a.stop = stop;
  a.step = step;
  return a;
}

class InferTypesTest : public ::testing::Test {
 protected:
  // The result types, "; " between them, then " if " and the constraints; or the error message.
  std::string Infer(OpKind op, std::initializer_list<TensorType> operands,
                    Attributes attributes = {}) {
    normalized = std::move(attributes);
    absl::StatusOr<InferredTypes> types = InferTypes(op, operands, normalized);
    if (!types.ok()) {
      EXPECT_EQ(types.status().code(), absl::StatusCode::kInvalidArgument);
      return std::string(types.status().message());
    }
    std::string text;
    for (const TensorType& result : types->results) {
      text += (text.empty() ? "" : "; ") + result.ToString();
    }
    for (size_t i = 0; i < types->constraints.size(); ++i) {
      text += (i == 0 ? " if " : ", ") + types->constraints[i].condition.ToString();
    }
    // Normalising again changes nothing, neither result nor constraint.
    Attributes again = normalized;
    absl::StatusOr<InferredTypes> second = InferTypes(op, operands, again);
    EXPECT_TRUE(second.ok()) << second.status();
    if (second.ok()) {
      EXPECT_EQ(second->constraints.size(), types->constraints.size());
      for (size_t i = 0; i < second->constraints.size() && i < types->constraints.size(); ++i) {
        EXPECT_EQ(second->constraints[i].condition, types->constraints[i].condition);
      }
      for (size_t i = 0; i < types->results.size(); ++i) {
        EXPECT_EQ(second->results[i].ToString(), types->results[i].ToString());
      }
      EXPECT_EQ(again.axes, normalized.axes);
      EXPECT_EQ(again.sizes, normalized.sizes);
      EXPECT_EQ(again.start, normalized.start);
      EXPECT_EQ(again.stop, normalized.stop);
    }
    return text;
  }

  SymInt Symbol(const char* name, int64_t lo = 0, int64_t hi = kMaxExtent) {
    return env.NewSymbol(name, lo, hi).value();
  }

  ShapeEnv env;
  Attributes normalized;
  SymInt M = Symbol("M"), N = Symbol("N"), K = Symbol("K", 1, 64);
};

// --- Pointwise ---

TEST_F(InferTypesTest, ElementwiseTakesTheExtentThatIsNotBroadcast) {
  EXPECT_EQ(Infer(OpKind::Add, {F32({M, 4}), F32({M, 4})}), "f32[M, 4]");
  EXPECT_EQ(Infer(OpKind::Add, {F32({1, 4}), F32({M, 1})}), "f32[M, 4]");
  EXPECT_EQ(Infer(OpKind::Add, {F32({1, 1}), F32({1, 1})}), "f32[1, 1]");
  EXPECT_EQ(Infer(OpKind::Add, {F32({0}), F32({1})}), "f32[0]");
  EXPECT_EQ(Infer(OpKind::Where, {T(DType::Bool, {1, N}), F32({M, 1}), F32({1, 1})}), "f32[M, N]");
  EXPECT_EQ(Infer(OpKind::Neg, {F32({})}), "f32[]");
}

TEST_F(InferTypesTest, ScalarsMixWithEveryRank) {
  EXPECT_EQ(Infer(OpKind::Add, {F32({}), F32({M, 4})}), "f32[M, 4]");
  EXPECT_EQ(Infer(OpKind::Add, {F32({M, 4}), F32({})}), "f32[M, 4]");
  EXPECT_EQ(Infer(OpKind::Add, {F32({}), F32({})}), "f32[]");
}

TEST_F(InferTypesTest, EqualExtentsMayBeWrittenDifferently) {
  EXPECT_EQ(Infer(OpKind::Add, {F32({M + N}), F32({N + M})}), "f32[M + N]");
}

TEST_F(InferTypesTest, ElementwiseRefusesExtentsThatMayDiffer) {
  EXPECT_THAT(
      Infer(OpKind::Add, {F32({2, M}), F32({2, K})}),
      HasSubstr("add: axis 1 is M in the first operand and K in the second; the operands are "
                "f32[2, M], f32[2, K]"));
  EXPECT_THAT(Infer(OpKind::Fma, {F32({1}), F32({3}), F32({4})}),
              HasSubstr("fma: axis 0 is 3 in the second operand and 4 in the third"));
  // A symbol that may be 1 is no broadcast axis.
  EXPECT_THAT(Infer(OpKind::Add, {F32({K}), F32({4})}), HasSubstr("axis 0 is K"));
}

TEST_F(InferTypesTest, ElementwiseRefusesOtherRanksDtypesAndArity) {
  EXPECT_THAT(Infer(OpKind::Add, {F32({M, 4}), F32({4})}),
              HasSubstr("add: the second operand has 1 axis and the first 2; broadcast inserts"));
  EXPECT_THAT(Infer(OpKind::Add, {F32({4}), T(DType::F64, {4})}), HasSubstr("f64"));
  EXPECT_THAT(Infer(OpKind::Add, {F32({4})}), HasSubstr("add: 1 operand given, 2 expected"));
  EXPECT_THAT(Infer(OpKind::Constant, {F32({})}),
              HasSubstr("constant: 1 operand given, 0 expected"));
}

TEST_F(InferTypesTest, CastTakesItsDTypeAndEveryOperand) {
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      Attributes a;
      a.dtype = static_cast<DType>(to);
      EXPECT_EQ(Infer(OpKind::Cast, {T(static_cast<DType>(from), {M, 3})}, a),
                T(a.dtype, {M, 3}).ToString());
    }
  }
}

TEST_F(InferTypesTest, ComparisonsGiveBoolAndSegmentSetItsOperand) {
  EXPECT_EQ(Infer(OpKind::Lt, {F32({3}), F32({1})}), "bool[3]");
  EXPECT_EQ(Infer(OpKind::SegmentSet, {T(DType::I8, {3, M})}), "i8[3, M]");
}

TEST_F(InferTypesTest, AttributesThatAnOperationDoesNotReadMustBeEmpty) {
  EXPECT_THAT(Infer(OpKind::Neg, {F32({3})}, Axes({0})), HasSubstr("neg: takes no axes"));
  EXPECT_THAT(Infer(OpKind::Neg, {F32({3})}, Sizes({3})), HasSubstr("takes no sizes"));
  EXPECT_THAT(Infer(OpKind::Neg, {F32({3})}, Sizes({}, DType::I8)), HasSubstr("takes no dtype"));
  EXPECT_THAT(Infer(OpKind::Neg, {F32({3})}, Range({0}, {})), HasSubstr("takes no start"));
  EXPECT_THAT(Infer(OpKind::Neg, {F32({3})}, Range({}, {0})), HasSubstr("takes no stop"));
  EXPECT_THAT(Infer(OpKind::Pad, {F32({3})}, Range({0}, {0}, {1})), HasSubstr("takes no step"));
  Attributes value;
  value.value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Infer(OpKind::Neg, {F32({3})}, value), HasSubstr("takes no value"));
}

// --- Reductions ---

TEST_F(InferTypesTest, ReductionsRemoveTheirAxes) {
  EXPECT_EQ(Infer(OpKind::Sum, {F32({M, 4, N})}, Axes({2, 0})), "f32[4]");
  EXPECT_THAT(normalized.axes, ElementsAre(0, 2));
  EXPECT_EQ(Infer(OpKind::Sum, {F32({M, 4, N})}, Axes({-1})), "f32[M, 4]");
  EXPECT_THAT(normalized.axes, ElementsAre(2));
  EXPECT_EQ(Infer(OpKind::Sum, {F32({M, 4})}), "f32[]");
  EXPECT_THAT(normalized.axes, ElementsAre(0, 1));
  EXPECT_EQ(Infer(OpKind::Sum, {F32({})}), "f32[]");
  EXPECT_EQ(Infer(OpKind::Sum, {F32({0, 3})}, Axes({0})), "f32[3]");
}

TEST_F(InferTypesTest, SumsOfIntegersAreWide) {
  for (OpKind op : {OpKind::Sum, OpKind::Prod}) {
    for (int i = 0; i < kNumDTypes; ++i) {
      const DType dtype = static_cast<DType>(i);
      EXPECT_EQ(Infer(op, {T(dtype, {3})}), T(IsFloat(dtype) ? dtype : DType::I64, {}).ToString());
    }
  }
}

TEST_F(InferTypesTest, OtherReductionsAndTheirDtypes) {
  EXPECT_EQ(Infer(OpKind::Max, {T(DType::U8, {2, 3})}, Axes({1})), "u8[2]");
  EXPECT_EQ(Infer(OpKind::Min, {T(DType::BF16, {2, 3})}), "bf16[]");
  EXPECT_EQ(Infer(OpKind::Any, {T(DType::Bool, {2, 3})}, Axes({0})), "bool[3]");
  EXPECT_THAT(Infer(OpKind::All, {F32({2})}), HasSubstr("all"));
  EXPECT_EQ(Infer(OpKind::ArgMax, {F32({2, 3})}, Axes({1})), "i64[2]");
  EXPECT_EQ(Infer(OpKind::ArgMin, {F32({3})}), "i64[]");
}

TEST_F(InferTypesTest, ReductionsRefuseBadAxes) {
  EXPECT_THAT(Infer(OpKind::Sum, {F32({M, 4})}, Axes({2})),
              HasSubstr("sum: axis 2 is not in -2..1"));
  EXPECT_THAT(Infer(OpKind::Sum, {F32({M, 4})}, Axes({-3})), HasSubstr("axis -3"));
  EXPECT_THAT(Infer(OpKind::Sum, {F32({M, 4})}, Axes({1, -1})), HasSubstr("axis 1 is named twice"));
  EXPECT_THAT(Infer(OpKind::Sum, {F32({})}, Axes({0})), HasSubstr("there are no axes"));
  EXPECT_THAT(Infer(OpKind::Sum, {F32({3})}, Axes(AxisVector(1000, 0))),
              HasSubstr("1000 axes given"));
  EXPECT_THAT(Infer(OpKind::ArgMax, {F32({M, 4})}),
              HasSubstr("exactly one axis expected, 2 given"));
  EXPECT_THAT(Infer(OpKind::ArgMax, {F32({})}), HasSubstr("exactly one axis expected, 0 given"));
}

TEST_F(InferTypesTest, MaximaNeedAnElement) {
  EXPECT_THAT(Infer(OpKind::Max, {F32({3, 0})}, Axes({1})),
              HasSubstr("amax: axis 1 of extent 0 must have an element"));
  EXPECT_EQ(Infer(OpKind::Max, {F32({3, 0})}, Axes({0})), "f32[0]");
  EXPECT_EQ(Infer(OpKind::Max, {F32({M})}), "f32[] if 1 <= M");
  EXPECT_EQ(Infer(OpKind::ArgMin, {F32({M, K})}, Axes({1})), "i64[M]");
}

TEST_F(InferTypesTest, WelfordHasThreeResults) {
  EXPECT_EQ(Infer(OpKind::Welford, {F32({M, 4})}, Axes({1})), "f32[M]; f32[M]; f32[M]");
  EXPECT_EQ(Infer(OpKind::Welford, {T(DType::F64, {M, 4})}), "f64[]; f64[]; f64[]");
  EXPECT_THAT(Infer(OpKind::Welford, {T(DType::F16, {4})}), HasSubstr("f16"));
  EXPECT_THAT(Infer(OpKind::Welford, {T(DType::I32, {4})}), HasSubstr("i32"));
}

// --- Broadcast and views ---

TEST_F(InferTypesTest, BroadcastInsertsAtPositionsOfTheResult) {
  EXPECT_EQ(Infer(OpKind::Broadcast, {F32({M, 4})}, Axes({0, 2})), "f32[1, M, 1, 4]");
  EXPECT_EQ(Infer(OpKind::Broadcast, {F32({M, 4})}, Axes({-1})), "f32[M, 4, 1]");
  EXPECT_EQ(Infer(OpKind::Broadcast, {F32({})}, Axes({1, 0})), "f32[1, 1]");
  EXPECT_THAT(Infer(OpKind::Broadcast, {F32({M})}, Axes({2})), HasSubstr("axis 2 is not in -2..1"));
  TensorType wide = F32({});
  for (int i = 0; i < kMaxRank; ++i) wide.domain.push_back({2});
  EXPECT_THAT(Infer(OpKind::Broadcast, {wide}, Axes({0})), HasSubstr("17 axes, at most 16"));
}

TEST_F(InferTypesTest, SqueezeRemovesBroadcastAxesOnly) {
  EXPECT_EQ(Infer(OpKind::Squeeze, {F32({1, M, 1})}, Axes({0, -1})), "f32[M]");
  EXPECT_THAT(Infer(OpKind::Squeeze, {F32({1, M})}, Axes({1})),
              HasSubstr("squeeze: axis 1 has extent M, expected 1"));
}

TEST_F(InferTypesTest, ExpandChangesBroadcastAxesOnly) {
  EXPECT_EQ(Infer(OpKind::Expand, {F32({1, 4, 1})}, Sizes({M, -1, 0})), "f32[M, 4, 0]");
  EXPECT_EQ(normalized.sizes, (SymVector{M, 4, 0}));
  EXPECT_EQ(Infer(OpKind::Expand, {F32({1})}, Sizes({-1})), "f32[1]");
  EXPECT_EQ(Infer(OpKind::Expand, {F32({1})}, Sizes({M - 4})), "f32[M - 4] if 4 <= M");
  EXPECT_THAT(Infer(OpKind::Expand, {F32({4})}, Sizes({5})),
              HasSubstr("expand: axis 0 has extent 4 and cannot become 5"));
  EXPECT_THAT(Infer(OpKind::Expand, {F32({M})}, Sizes({1})), HasSubstr("cannot become 1"));
  EXPECT_THAT(Infer(OpKind::Expand, {F32({1})}, Sizes({-2})),
              HasSubstr("size -2 must not be negative"));
  EXPECT_THAT(Infer(OpKind::Expand, {F32({1})}, Sizes({2, 3})),
              HasSubstr("2 values of sizes given for 1"));
}

TEST_F(InferTypesTest, ReshapeKeepsTheNumberOfElements) {
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({6, 4})}, Sizes({8, 3})), "f32[8, 3]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({M, 4})}, Sizes({4 * M})), "f32[4*M]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({M, 32, N})}, Sizes({M, 4, 8, N})), "f32[M, 4, 8, N]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({})}, Sizes({1, 1})), "f32[1, 1]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({1, 1})}, Sizes({})), "f32[]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({0, 3})}, Sizes({7, 0})), "f32[7, 0]");
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({6, 4})}, Sizes({5, 5})),
              HasSubstr("reshape: f32[6, 4] to [5, 5] must keep the number of elements"));
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({K, 4})}, Sizes({K, 5})), HasSubstr("must keep"));
}

// Cut into parts, each dimension is all of its own, also where another one is empty.
TEST_F(InferTypesTest, ReshapeIntoBlocksTakesWholeOnes) {
  const SymInt m = FloorDiv(M, 8), n = FloorDiv(N, 4);
  const std::string cut = Infer(OpKind::Reshape, {F32({M, N})}, Sizes({m, 8, n, 4}));
  EXPECT_THAT(cut, ::testing::AllOf(HasSubstr("M%8 == 0"), HasSubstr("N%4 == 0")));
  const std::string joined = Infer(OpKind::Reshape, {F32({m, 8, n, 4})}, Sizes({M, N}));
  EXPECT_THAT(joined, ::testing::AllOf(HasSubstr("M%8 == 0"), HasSubstr("N%4 == 0")));
  // Dimensions of extent 1 are nobody's part.
  const std::string longer = Infer(OpKind::Reshape, {F32({M, 1, 1, 1, N})}, Sizes({m, 8, n, 4}));
  EXPECT_THAT(longer, ::testing::AllOf(HasSubstr("M%8 == 0"), HasSubstr("N%4 == 0")));
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({7, 0})}, Sizes({3, 2, 0})), "f32[3, 2, 0]");
}

TEST_F(InferTypesTest, ReshapeLeavesWhatItCannotProveAsAConstraint) {
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({M, 4})}, Sizes({N})), HasSubstr("f32[N] if "));
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({M, N})}, Sizes({M, 4, FloorDiv(N, 4)})),
              HasSubstr("f32[M, 4, N//4] if "));
}

TEST_F(InferTypesTest, ReshapeInfersOneSize) {
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({6, 4})}, Sizes({-1, 8})), "f32[3, 8]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({M, 4})}, Sizes({-1})), "f32[4*M]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({M, 64, N})}, Sizes({M, -1, 8, N})), "f32[M, 8, 8, N]");
  EXPECT_EQ(Infer(OpKind::Reshape, {F32({M, N})}, Sizes({N, -1})), "f32[N, M]");
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({M})}, Sizes({-1, 4})), HasSubstr("f32[M//4, 4] if "));
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({6})}, Sizes({-1, 4})), HasSubstr("must keep"));
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({6})}, Sizes({-1, -1})), HasSubstr("more than one -1"));
  EXPECT_THAT(Infer(OpKind::Reshape, {F32({0})}, Sizes({-1, 0})),
              HasSubstr("-1 cannot be inferred"));
}

TEST_F(InferTypesTest, PermuteIsAPermutation) {
  EXPECT_EQ(Infer(OpKind::Permute, {F32({M, 4, N})}, Axes({2, 0, -2})), "f32[N, M, 4]");
  EXPECT_EQ(Infer(OpKind::Permute, {F32({})}), "f32[]");
  EXPECT_THAT(Infer(OpKind::Permute, {F32({2, 3})}, Axes({0, 0})), HasSubstr("named twice"));
  EXPECT_THAT(Infer(OpKind::Permute, {F32({2, 3})}, Axes({0})),
              HasSubstr("order of 2 axes expected"));
}

TEST_F(InferTypesTest, FlipKeepsTheShape) {
  EXPECT_EQ(Infer(OpKind::Flip, {F32({M, 4})}, Axes({-1, 0})), "f32[M, 4]");
  EXPECT_THAT(normalized.axes, ElementsAre(0, 1));
  EXPECT_THAT(Infer(OpKind::Flip, {F32({4})}, Axes({1})), HasSubstr("flip: axis 1"));
}

// Python's len(range(n)[start:stop:step]).
int64_t PythonSliceLength(int64_t n, int64_t start, int64_t stop, int64_t step) {
  const auto clip = [&](int64_t i) { return std::min(std::max<int64_t>(i < 0 ? i + n : i, 0), n); };
  int64_t length = 0;
  for (int64_t i = clip(start); i < clip(stop); i += step) ++length;
  return length;
}

TEST_F(InferTypesTest, SliceOfConstantsIsPythons) {
  for (int64_t n : {0, 1, 5}) {
    for (int64_t start = -7; start <= 7; ++start) {
      for (int64_t stop = -7; stop <= 7; ++stop) {
        for (int64_t step : {1, 2, 3, 9}) {
          EXPECT_EQ(Infer(OpKind::Slice, {F32({n})}, Range({start}, {stop}, {step})),
                    F32({PythonSliceLength(n, start, stop, step)}).ToString())
              << n << " " << start << " " << stop << " " << step;
        }
      }
    }
  }
  const int64_t min = std::numeric_limits<int64_t>::min(),
                max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Infer(OpKind::Slice, {F32({5, M})}, Range({min, min}, {max, max})), "f32[5, M]");
}

// A step beyond any axis takes the first element, if there is one.
TEST_F(InferTypesTest, SliceByTheLargestStep) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t n : {0, 1, 5}) {
    EXPECT_EQ(Infer(OpKind::Slice, {F32({n})}, Range({0}, {n}, {kMax})),
              F32({std::min<int64_t>(n, 1)}).ToString());
  }
  EXPECT_EQ(Infer(OpKind::Slice, {F32({M})}, Range({0}, {M}, {kMax})),
            Infer(OpKind::Slice, {F32({M})}, Range({0}, {M}, {int64_t{1} << 48})));
}

TEST_F(InferTypesTest, SliceOfSymbols) {
  EXPECT_EQ(Infer(OpKind::Slice, {F32({M})}, Range({0}, {M})), "f32[M]");
  EXPECT_EQ(normalized.step, SymVector{1});
  EXPECT_EQ(Infer(OpKind::Slice, {F32({M})}, Range({2}, {10})), "f32[8] if 10 <= M");
  EXPECT_EQ(Infer(OpKind::Slice, {F32({K})}, Range({0}, {1})), "f32[1]");
  EXPECT_EQ(Infer(OpKind::Slice, {F32({K})}, Range({100}, {200})), "f32[0]");
  EXPECT_EQ(Infer(OpKind::Slice, {F32({K})}, Range({-100}, {K})), "f32[K]");
  EXPECT_EQ(Infer(OpKind::Slice, {F32({K})}, Range({-1}, {K})), "f32[1]");
  EXPECT_EQ(Infer(OpKind::Slice, {F32({M})}, Range({-1}, {M})), "f32[1] if 1 <= M");
  EXPECT_THAT(Infer(OpKind::Slice, {F32({M})}, Range({N}, {M})), HasSubstr("f32[M - N] if N <= M"));
  EXPECT_EQ(Infer(OpKind::Slice, {F32({2 * M})}, Range({0}, {2 * M}, {2})), "f32[M]");
  EXPECT_THAT(Infer(OpKind::Slice, {F32({8})}, Range({0}, {8}, {N})), HasSubstr("1 <= N"));
}

TEST_F(InferTypesTest, SliceRefusals) {
  EXPECT_THAT(Infer(OpKind::Slice, {F32({8})}, Range({0}, {8}, {0})),
              HasSubstr("step 0 of axis 0"));
  EXPECT_THAT(Infer(OpKind::Slice, {F32({8})}, Range({0}, {8}, {-1})),
              HasSubstr("must be positive"));
  EXPECT_THAT(Infer(OpKind::Slice, {F32({8})}, Range({0, 0}, {8})), HasSubstr("2 values of start"));
  EXPECT_THAT(Infer(OpKind::Slice, {F32({8})}, Range({0}, {})), HasSubstr("0 values of stop"));
  EXPECT_THAT(Infer(OpKind::Slice, {F32({8})}, Range({0}, {SymInt::Invalid()})),
              HasSubstr("invalid"));
}

TEST_F(InferTypesTest, PadAdds) {
  EXPECT_EQ(Infer(OpKind::Pad, {F32({M, 4})}, Range({0, 1}, {2, 3})), "f32[M + 2, 8]");
  EXPECT_EQ(Infer(OpKind::Pad, {F32({0})}, Range({0}, {0})), "f32[0]");
  EXPECT_EQ(Infer(OpKind::Pad, {F32({4})}, Range({0}, {8 - K})), "f32[-K + 12] if K <= 8");
  EXPECT_THAT(Infer(OpKind::Pad, {F32({4})}, Range({-1}, {0})), HasSubstr("amount -1 of axis 0"));
  Attributes fill = Range({1}, {1});
  fill.value = 0.5;
  EXPECT_EQ(Infer(OpKind::Pad, {F32({4})}, fill), "f32[6]");
  EXPECT_THAT(Infer(OpKind::Pad, {T(DType::I32, {4})}, fill),
              HasSubstr("a float value given for i32"));
  fill.value = 0;
  fill.int_value = 256;
  EXPECT_THAT(Infer(OpKind::Pad, {T(DType::U8, {4})}, fill),
              HasSubstr("256 is not in the range of u8"));
  EXPECT_THAT(Infer(OpKind::Pad, {F32({4})}, fill), HasSubstr("an integer value given for f32"));
}

TEST_F(InferTypesTest, CatAddsExtentsAlongItsAxis) {
  EXPECT_EQ(Infer(OpKind::Cat, {F32({M, 4}), F32({M, 1}), F32({M, N})}, Axes({-1})),
            "f32[M, N + 5]");
  EXPECT_EQ(Infer(OpKind::Cat, {F32({0, 4})}, Axes({0})), "f32[0, 4]");
  EXPECT_THAT(Infer(OpKind::Cat, {F32({4, 2}), F32({1, 2})}, Axes({1})),
              HasSubstr("cat: axis 0 is 4 in the first operand and 1 in the second"));
  EXPECT_THAT(Infer(OpKind::Cat, {F32({4}), F32({4, 1})}, Axes({0})),
              HasSubstr("the first operand has 1 axis and the second 2"));
  EXPECT_THAT(Infer(OpKind::Cat, {F32({4}), T(DType::F16, {4})}, Axes({0})), HasSubstr("f16"));
  EXPECT_THAT(Infer(OpKind::Cat, {}, Axes({0})), HasSubstr("cat: 0 operands given, at least one"));
  EXPECT_THAT(Infer(OpKind::Cat, {F32({4})}), HasSubstr("exactly one axis expected"));
  EXPECT_THAT(Infer(OpKind::Cat, {F32({})}, Axes({0})), HasSubstr("there are no axes"));
}

// --- Factories, random numbers, indexing, products ---

TEST_F(InferTypesTest, ConstantsHoldValuesOfTheirDType) {
  Attributes a;
  a.value = 1e300;
  EXPECT_EQ(Infer(OpKind::Constant, {}, a), "f32[]");
  a.value = 0;
  a.dtype = DType::Bool;
  a.int_value = 2;
  EXPECT_THAT(Infer(OpKind::Constant, {}, a), HasSubstr("2 is not in the range of bool"));
  a.dtype = DType::I8;
  a.int_value = -128;
  EXPECT_EQ(Infer(OpKind::Constant, {}, a), "i8[]");
  a.int_value = -129;
  EXPECT_THAT(Infer(OpKind::Constant, {}, a), HasSubstr("range of i8"));
  a.dtype = DType::I64;
  a.int_value = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Infer(OpKind::Constant, {}, a), "i64[]");
}

TEST_F(InferTypesTest, FactoriesTakeSizes) {
  EXPECT_EQ(Infer(OpKind::Full, {T(DType::I8, {})}, Sizes({M, 3})), "i8[M, 3]");
  EXPECT_THAT(Infer(OpKind::Full, {F32({1})}, Sizes({M})),
              HasSubstr("first operand must have no axes"));
  Attributes iota = Sizes({M, 3}, DType::I32);
  iota.axes = {-1};
  EXPECT_EQ(Infer(OpKind::Iota, {}, iota), "i32[M, 3]");
  EXPECT_THAT(normalized.axes, ElementsAre(1));
  iota.dtype = DType::Bool;
  EXPECT_THAT(Infer(OpKind::Iota, {}, iota), HasSubstr("dtype bool given"));
  EXPECT_THAT(Infer(OpKind::Iota, {}, Sizes({M})), HasSubstr("exactly one axis expected"));
  EXPECT_EQ(Infer(OpKind::Size, {}, Sizes({M * N})), "f32[]");
  EXPECT_EQ(Infer(OpKind::Size, {}, Sizes({M - 7}, DType::I64)), "i64[]");
  EXPECT_THAT(Infer(OpKind::Size, {}, Sizes({M, N})), HasSubstr("one size expected"));
}

TEST_F(InferTypesTest, RandomTakesSeedAndOffset) {
  const TensorType seed = T(DType::I64, {});
  for (OpKind op : {OpKind::RandomUniform, OpKind::RandomNormal}) {
    EXPECT_EQ(Infer(op, {seed, seed}, Sizes({M, 3}, DType::F16)), "f16[M, 3]");
    EXPECT_THAT(Infer(op, {seed, T(DType::I32, {})}, Sizes({M})),
                HasSubstr("second operand must be i64"));
    EXPECT_THAT(Infer(op, {T(DType::I64, {1}), seed}, Sizes({M})), HasSubstr("must have no axes"));
    EXPECT_THAT(Infer(op, {seed, seed}, Sizes({M}, DType::I64)), HasSubstr("a float expected"));
  }
}

TEST_F(InferTypesTest, Indexing) {
  EXPECT_EQ(Infer(OpKind::Gather, {F32({M, 4}), T(DType::I32, {M, N})}, Axes({1})), "f32[M, N]");
  EXPECT_THAT(Infer(OpKind::Gather, {F32({M, 4}), T(DType::I32, {3, 4})}, Axes({1})),
              HasSubstr("axis 0 is M in the first operand and 3"));
  EXPECT_THAT(Infer(OpKind::Gather, {F32({M}), F32({M})}, Axes({0})),
              HasSubstr("expected an integer"));
  EXPECT_EQ(Infer(OpKind::IndexSelect, {T(DType::BF16, {M, 4}), T(DType::I64, {N})}, Axes({0})),
            "bf16[N, 4]");
  EXPECT_THAT(Infer(OpKind::IndexSelect, {F32({M}), T(DType::I64, {})}, Axes({0})),
              HasSubstr("second operand must have one axis"));
  EXPECT_THAT(Infer(OpKind::IndexSelect, {F32({}), T(DType::I64, {2})}, Axes({0})),
              HasSubstr("there are no axes"));
}

TEST_F(InferTypesTest, Matmul) {
  EXPECT_EQ(Infer(OpKind::Matmul, {F32({M, 4}), F32({4, N})}), "f32[M, N]");
  EXPECT_EQ(Infer(OpKind::Matmul, {F32({2, M, 4}), F32({2, 4, N})}), "f32[2, M, N]");
  EXPECT_THAT(Infer(OpKind::Matmul, {F32({M, 4}), F32({5, N})}),
              HasSubstr("the first operand has 4 columns and the second 5 rows"));
  EXPECT_THAT(Infer(OpKind::Matmul, {F32({2, M, 4}), F32({3, 4, N})}), HasSubstr("axis 0 is 2"));
  EXPECT_THAT(Infer(OpKind::Matmul, {F32({1, M, 4}), F32({3, 4, N})}), HasSubstr("axis 0 is 1"));
  EXPECT_THAT(Infer(OpKind::Matmul, {F32({4}), F32({4})}), HasSubstr("of equal rank expected"));
  EXPECT_THAT(Infer(OpKind::Matmul, {F32({4, 4}), T(DType::F16, {4, 4})}), HasSubstr("f16"));
}

// --- Limits ---

TEST_F(InferTypesTest, ExtentsAndElementsHaveLimits) {
  EXPECT_EQ(Infer(OpKind::Full, {F32({})}, Sizes({kMaxExtent})), F32({kMaxExtent}).ToString());
  EXPECT_THAT(Infer(OpKind::Full, {F32({})}, Sizes({kMaxExtent + 1})), HasSubstr("above 2^48"));
  EXPECT_THAT(Infer(OpKind::Full, {F32({})}, Sizes({-1})), HasSubstr("must not be negative"));
  EXPECT_THAT(Infer(OpKind::Full, {F32({})}, Sizes({int64_t{1} << 25, int64_t{1} << 24})),
              HasSubstr("more than 2^48 elements"));
  // Strides count although there are no elements.
  EXPECT_THAT(Infer(OpKind::Full, {F32({})}, Sizes({0, kMaxExtent, kMaxExtent})),
              HasSubstr("more than 2^48 elements"));
  EXPECT_THAT(Infer(OpKind::Full, {F32({})}, Sizes(SymVector(17, 1))), HasSubstr("17 axes given"));
  EXPECT_THAT(Infer(OpKind::Pad, {F32({4})}, Range({std::numeric_limits<int64_t>::max()}, {0})),
              HasSubstr("invalid, or too large"));
  EXPECT_THAT(Infer(OpKind::Add, {F32({1, kMaxExtent}), F32({2, 1})}), HasSubstr("2^48 elements"));
  EXPECT_THAT(Infer(OpKind::Full, {F32({})}, Sizes({SymInt::Invalid()})), HasSubstr("invalid"));
}

TEST_F(InferTypesTest, OperandsHaveLimitsToo) {
  EXPECT_THAT(Infer(OpKind::Flip, {T(DType::F32, SymVector(100, 1))}, Axes({70})),
              HasSubstr("flip: an operand has 100 axes"));
}

TEST_F(InferTypesTest, EveryOperationAnswersWhateverItIsGiven) {
  // No operand list and no attributes may crash a rule; each answers with types or with an error.
  const std::vector<TensorType> samples = {F32({}), F32({0}), F32({M, 4}), T(DType::I64, {}),
                                           T(DType::Bool, {1, 4, 1})};
  std::vector<Attributes> attributes = {{},
                                        Axes({0}),
                                        Axes({5, -9}),
                                        Sizes({-1, -1}),
                                        Sizes({M, 0}),
                                        Range({1, 2, 3}, {4}),
                                        Sizes({SymInt::Invalid()})};
  int answers = 0;
  for (const OpInfo& info : AllOps()) {
    for (size_t count = 0; count <= 4; ++count) {
      for (size_t first = 0; first < samples.size(); ++first) {
        for (const Attributes& a : attributes) {
          std::vector<TensorType> operands;
          for (size_t i = 0; i < count; ++i)
            operands.push_back(samples[(first + i) % samples.size()]);
          Attributes copy = a;
          absl::StatusOr<InferredTypes> types = InferTypes(info.kind, operands, copy);
          if (types.ok()) {
            EXPECT_EQ(types->results.size(), static_cast<size_t>(info.num_results));
          } else {
            EXPECT_EQ(types.status().code(), absl::StatusCode::kInvalidArgument) << types.status();
            EXPECT_EQ(types.status().message().find(info.name), 0u) << types.status();
          }
          ++answers;
        }
      }
    }
  }
  EXPECT_EQ(answers, kNumOps * 5 * 5 * 7);
}

TEST(TypeOfSizes, NamesWhatItTypes) {
  ShapeEnv env;
  const SymInt m = env.NewSymbol("M", 0, 100).value();
  absl::StatusOr<InferredTypes> types = TypeOfSizes("input x", DType::F16, {m, 0});
  ASSERT_TRUE(types.ok());
  EXPECT_EQ(types->results[0].ToString(), "f16[M, 0]");
  EXPECT_THAT(types->constraints, IsEmpty());
  types = TypeOfSizes("input x", DType::F16, {m - 1});
  ASSERT_TRUE(types.ok());
  ASSERT_EQ(types->constraints.size(), 1u);
  EXPECT_THAT(types->constraints[0].reason, HasSubstr("input x: size M - 1 must not be negative"));
  types = TypeOfSizes("input x", DType::F16, {-3});
  EXPECT_THAT(std::string(types.status().message()), HasSubstr("input x: size -3"));
}

}  // namespace
}  // namespace seam
