// The operation table: consistency, type rules, and the semantics its header promises at the edges.
// The values of the operations over their whole domain are checked against NumPy (numpy_check.py).
#include "ir/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ir/op_semantics.h"
#include "tests/support/op_samples.h"
#include "tests/support/special_values.h"

namespace seam {
namespace {

using testing::kInf;
using testing::kNan;

double EvalFloat(OpKind kind, DType dtype, std::vector<double> args) {
  std::vector<Scalar> values;
  std::vector<const Scalar*> pointers;
  for (double x : args) values.push_back(FloatScalar(x));
  for (const Scalar& x : values) pointers.push_back(&x);
  Scalar result;
  EvalElementwise(kind, dtype, dtype, pointers.data(), &result, 1);
  return result.f;
}

int64_t EvalInteger(OpKind kind, DType dtype, std::vector<int64_t> args) {
  std::vector<Scalar> values;
  std::vector<const Scalar*> pointers;
  for (int64_t x : args) values.push_back(IntScalar(x));
  for (const Scalar& x : values) pointers.push_back(&x);
  Scalar result;
  EvalElementwise(kind, dtype, dtype, pointers.data(), &result, 1);
  return result.i;
}

TEST(OpsTest, TheTableIsConsistent) {
  std::set<std::string> names;
  int elementwise = 0;
  for (const OpInfo& op : AllOps()) {
    EXPECT_EQ(&GetOpInfo(op.kind), &op);
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(FindOp(op.name), op.kind);
    EXPECT_NE(std::string(op.doc), "") << op.name;
    EXPECT_GE(op.num_results, 1) << op.name;
    if (op.op_class != OpClass::Elementwise) continue;
    ++elementwise;
    EXPECT_GE(op.num_operands, 1) << op.name;
    EXPECT_LE(op.num_operands, 3) << op.name;
    for (int d = 0; d < kNumDTypes; ++d) {
      if (!TakesDType(op.kind, static_cast<DType>(d))) continue;
      EXPECT_NE(IsFloat(static_cast<DType>(d)) ? op.cuda_float : op.cuda_integer, nullptr)
          << op.name << " " << DTypeName(static_cast<DType>(d));
    }
  }
  EXPECT_EQ(static_cast<int>(names.size()), kNumOps);
  EXPECT_GE(elementwise, 75);
  EXPECT_EQ(FindOp("no_such_operation"), std::nullopt);
  EXPECT_EQ(FindOp(""), std::nullopt);
}

TEST(OpsTest, TypeRules) {
  using enum DType;
  EXPECT_EQ(InferDType(OpKind::Add, {BF16, BF16}).value(), BF16);
  EXPECT_EQ(InferDType(OpKind::Lt, {I8, I8}).value(), Bool);
  EXPECT_EQ(InferDType(OpKind::Where, {Bool, F16, F16}).value(), F16);
  EXPECT_EQ(InferDType(OpKind::Sum, {Bool}).value(), I64);
  EXPECT_EQ(InferDType(OpKind::Sum, {F16}).value(), F16);
  EXPECT_EQ(InferDType(OpKind::ArgMax, {F32}).value(), I64);
  EXPECT_EQ(InferDType(OpKind::Gather, {F8E4M3, I16}).value(), F8E4M3);
  EXPECT_EQ(InferDType(OpKind::Cat, {U8, U8, U8, U8}).value(), U8);
  const auto error = [](OpKind kind, std::vector<DType> operands) {
    const auto result = InferDType(kind, operands);
    EXPECT_FALSE(result.ok()) << OpName(kind);
    return std::string(result.status().message());
  };
  EXPECT_EQ(error(OpKind::Add, {F32, F16}),
            "add: operand 1 is f32 but operand 2 is f16; cast one of them");
  EXPECT_EQ(error(OpKind::Add, {Bool, Bool}), "add: takes floats and integers, operand 1 is bool");
  EXPECT_EQ(error(OpKind::Add, {F32}), "add: 1 operand given, 2 expected");
  EXPECT_EQ(error(OpKind::Where, {I32, F32, F32}), "where: operand 1 is i32, expected bool");
  EXPECT_EQ(error(OpKind::Gather, {F32, F32}), "gather: operand 2 is f32, expected an integer");
  EXPECT_EQ(error(OpKind::Cat, {}), "cat: 0 operands given, one or more expected");
  error(OpKind::Exp, {I32});
  error(OpKind::BitwiseAnd, {F32, F32});
  error(OpKind::BitwiseNot, {Bool});
  error(OpKind::LogicalNot, {I32});
  error(OpKind::Welford, {F16});
  error(OpKind::Cast, {F32});
}

TEST(OpsTest, IntegersWrapAndDivideByZeroToZero) {
  for (DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8}) {
    const int64_t min = MinInteger(dtype), max = MaxInteger(dtype);
    EXPECT_EQ(EvalInteger(OpKind::Add, dtype, {max, 1}), min) << DTypeName(dtype);
    EXPECT_EQ(EvalInteger(OpKind::Sub, dtype, {min, 1}), max) << DTypeName(dtype);
    EXPECT_EQ(EvalInteger(OpKind::Mul, dtype, {min, -1}), min) << DTypeName(dtype);
    EXPECT_EQ(EvalInteger(OpKind::Neg, dtype, {min}), min) << DTypeName(dtype);
    EXPECT_EQ(EvalInteger(OpKind::Abs, dtype, {min}), min) << DTypeName(dtype);
    for (OpKind kind : {OpKind::Div, OpKind::FloorDivide}) {
      EXPECT_EQ(EvalInteger(kind, dtype, {min, -1}), min) << DTypeName(dtype);
      EXPECT_EQ(EvalInteger(kind, dtype, {7, 0}), 0) << DTypeName(dtype);
    }
    for (OpKind kind : {OpKind::Fmod, OpKind::Remainder}) {
      EXPECT_EQ(EvalInteger(kind, dtype, {min, -1}), 0) << DTypeName(dtype);
      EXPECT_EQ(EvalInteger(kind, dtype, {7, 0}), 0) << DTypeName(dtype);
    }
  }
  EXPECT_EQ(EvalInteger(OpKind::Div, DType::I32, {-7, 2}), -3);
  EXPECT_EQ(EvalInteger(OpKind::FloorDivide, DType::I32, {-7, 2}), -4);
  EXPECT_EQ(EvalInteger(OpKind::FloorDivide, DType::I64, {MinInteger(DType::I64), 3}),
            -3074457345618258603);
  EXPECT_EQ(EvalInteger(OpKind::Fmod, DType::I32, {-7, 2}), -1);
  EXPECT_EQ(EvalInteger(OpKind::Remainder, DType::I32, {-7, 2}), 1);
  EXPECT_EQ(EvalInteger(OpKind::Remainder, DType::I32, {7, -2}), -1);
  EXPECT_EQ(EvalInteger(OpKind::Sub, DType::U8, {0, 1}), 255);
}

TEST(OpsTest, ShiftsAndBits) {
  for (DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8, DType::U8}) {
    const int width = 8 * DTypeBytes(dtype);
    for (int64_t shift : {int64_t{-1}, int64_t{width}, int64_t{width + 1}, MaxInteger(dtype)}) {
      if (WrapToDType(dtype, shift) < width && WrapToDType(dtype, shift) >= 0) continue;
      const int64_t s = WrapToDType(dtype, shift);
      EXPECT_EQ(EvalInteger(OpKind::ShiftLeft, dtype, {1, s}), 0) << DTypeName(dtype) << s;
      EXPECT_EQ(EvalInteger(OpKind::ShiftRight, dtype, {MaxInteger(dtype), s}), 0) << s;
      if (IsSigned(dtype)) {
        EXPECT_EQ(EvalInteger(OpKind::ShiftRight, dtype, {MinInteger(dtype), s}), -1) << s;
      }
    }
    EXPECT_EQ(EvalInteger(OpKind::ShiftLeft, dtype, {1, width - 1}),
              IsSigned(dtype) ? MinInteger(dtype) : 128);
    EXPECT_EQ(EvalInteger(OpKind::Clz, dtype, {0}), width);
    EXPECT_EQ(EvalInteger(OpKind::Clz, dtype, {1}), width - 1);
    EXPECT_EQ(EvalInteger(OpKind::PopCount, dtype, {WrapToDType(dtype, -1)}), width);
    EXPECT_EQ(EvalInteger(OpKind::Clz, dtype, {WrapToDType(dtype, -1)}), 0);
  }
}

TEST(OpsTest, MinimumAndMaximumPropagateNanAndOrderZeros) {
  for (DType dtype : {DType::F64, DType::F32, DType::BF16}) {
    for (auto [a, b] : {std::pair{-0.0, 0.0}, std::pair{0.0, -0.0}}) {
      EXPECT_TRUE(std::signbit(EvalFloat(OpKind::Minimum, dtype, {a, b})));
      EXPECT_FALSE(std::signbit(EvalFloat(OpKind::Maximum, dtype, {a, b})));
      EXPECT_TRUE(std::signbit(EvalFloat(OpKind::Fmin, dtype, {a, b})));
      EXPECT_FALSE(std::signbit(EvalFloat(OpKind::Fmax, dtype, {a, b})));
    }
    EXPECT_TRUE(std::isnan(EvalFloat(OpKind::Minimum, dtype, {kNan, 1})));
    EXPECT_TRUE(std::isnan(EvalFloat(OpKind::Maximum, dtype, {1, kNan})));
    EXPECT_EQ(EvalFloat(OpKind::Fmin, dtype, {kNan, 1}), 1);
    EXPECT_EQ(EvalFloat(OpKind::Fmax, dtype, {1, kNan}), 1);
    EXPECT_TRUE(std::isnan(EvalFloat(OpKind::Fmax, dtype, {kNan, kNan})));
    EXPECT_TRUE(std::isnan(EvalFloat(OpKind::Relu, dtype, {kNan})));
    EXPECT_TRUE(std::isnan(EvalFloat(OpKind::Clamp, dtype, {0, kNan, 1})));
    EXPECT_TRUE(std::isnan(EvalFloat(OpKind::Sign, dtype, {kNan})));
    EXPECT_EQ(EvalFloat(OpKind::Clamp, dtype, {5, 2, 1}), 1);  // The upper bound wins.
  }
}

TEST(OpsTest, FmaRoundsOnceInItsComputeType) {
  // a * b = 1 + 2^-11 + 2^-24 exactly; minus one leaves what a rounded product has lost.
  const double a = 1 + 0x1p-12;
  EXPECT_EQ(EvalFloat(OpKind::Fma, DType::F32, {a, a, -1}), 0x1p-11 + 0x1p-24);
  EXPECT_EQ(EvalFloat(OpKind::Sub, DType::F32, {EvalFloat(OpKind::Mul, DType::F32, {a, a}), 1}),
            0x1p-11);
  // A case where rounding to f64 first, then to f32, gives another result.
  const double x = 1 + 0x1p-23, y = 1 + 0x1p-23, z = 0x1p-60;
  EXPECT_EQ(EvalFloat(OpKind::Fma, DType::F32, {x, y, z}), std::fma(float(x), float(y), float(z)));
}

TEST(OpsTest, RemainderFollowsPython) {
  for (DType dtype : {DType::F64, DType::F32}) {
    EXPECT_EQ(EvalFloat(OpKind::Remainder, dtype, {-7, 3}), 2);
    EXPECT_EQ(EvalFloat(OpKind::Remainder, dtype, {7, -3}), -2);
    EXPECT_EQ(EvalFloat(OpKind::FloorDivide, dtype, {-7, 3}), -3);
    EXPECT_TRUE(std::signbit(EvalFloat(OpKind::Remainder, dtype, {6, -3})));
    EXPECT_EQ(EvalFloat(OpKind::FloorDivide, dtype, {-1, kInf}), -1);
    EXPECT_EQ(EvalFloat(OpKind::FloorDivide, dtype, {1, 0}), kInf);
    EXPECT_TRUE(std::isnan(EvalFloat(OpKind::Remainder, dtype, {1, 0})));
    EXPECT_EQ(EvalFloat(OpKind::FloorDivide, dtype, {1, RoundToDType(dtype, 0.1)}), 9);
  }
}

TEST(OpsTest, SmallFloatsAreComputedInF32) {
  // 256 + 1 in bf16: the sum, exact in f32, is halfway and rounds to even.
  EXPECT_EQ(EvalFloat(OpKind::Add, DType::BF16, {256, 1}), 256);
  EXPECT_EQ(EvalFloat(OpKind::Add, DType::BF16, {258, 1}), 260);
  EXPECT_EQ(EvalFloat(OpKind::Mul, DType::F16, {300, 300}), kInf);
  EXPECT_EQ(EvalFloat(OpKind::Mul, DType::F8E4M3, {300, 300}), 448);
  EXPECT_EQ(EvalFloat(OpKind::Exp, DType::F16, {-20}), 0);
}

TEST(OpsTest, ResultsMayOverwriteOperands) {
  std::vector<Scalar> a = {FloatScalar(1), FloatScalar(2)}, b = {FloatScalar(3), FloatScalar(5)};
  const Scalar* args[] = {a.data(), b.data()};
  EvalElementwise(OpKind::Sub, DType::F32, DType::F32, args, b.data(), 2);
  EXPECT_EQ(b[0].f, -2);
  EXPECT_EQ(b[1].f, -3);
}

TEST(OpsTest, EveryResultIsAValueOfItsDType) {
  for (const testing::OpSample& sample : testing::AllOpSamples()) {
    for (Scalar x : sample.Reference()) {
      if (!IsFloat(sample.out)) {
        ASSERT_EQ(WrapToDType(sample.out, x.i), x.i) << sample.Name();
      } else if (x.f == x.f) {
        ASSERT_EQ(RoundToDType(sample.out, x.f), x.f) << sample.Name();
      }
    }
  }
}

TEST(ReduceTest, IdentitiesAreNeutral) {
  for (OpKind kind : {OpKind::Sum, OpKind::Prod, OpKind::Max, OpKind::Min}) {
    for (DType dtype : {DType::F64, DType::F32, DType::I64, DType::I32, DType::U8}) {
      const Scalar identity = ReduceIdentity(kind, dtype);
      for (int64_t x : {int64_t{0}, int64_t{3}, MinInteger(dtype), MaxInteger(dtype)}) {
        const Scalar value = IsFloat(dtype)
                                 ? FloatScalar(RoundToDType(dtype, static_cast<double>(x)))
                                 : IntScalar(x);
        EXPECT_EQ(ReduceCombine(kind, dtype, identity, value).i, value.i) << OpName(kind);
        EXPECT_EQ(ReduceCombine(kind, dtype, value, identity).i, value.i) << OpName(kind);
      }
    }
  }
  EXPECT_EQ(ReduceIdentity(OpKind::Any, DType::Bool).i, 0);
  EXPECT_EQ(ReduceIdentity(OpKind::All, DType::Bool).i, 1);
}

TEST(ReduceTest, CombinesRoundToTheDType) {
  const Scalar big = FloatScalar(0x1p24), one = FloatScalar(1);
  EXPECT_EQ(ReduceCombine(OpKind::Sum, DType::F32, big, one).f, 0x1p24);
  EXPECT_EQ(ReduceCombine(OpKind::Sum, DType::F64, big, one).f, 0x1p24 + 1);
  EXPECT_EQ(ReduceCombine(OpKind::Prod, DType::I32, IntScalar(65536), IntScalar(65536)).i, 0);
}

TEST(ReduceTest, ArgCombineIsTheSameInAnyOrder) {
  const std::vector<double> values = {1, kNan, 3, 3, kNan, -0.0, 0.0, -kInf};
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < values.size(); ++j) {
      if (i == j) continue;
      const ArgCandidate a{FloatScalar(values[i]), static_cast<int64_t>(i)};
      const ArgCandidate b{FloatScalar(values[j]), static_cast<int64_t>(j)};
      for (OpKind kind : {OpKind::ArgMax, OpKind::ArgMin}) {
        const int64_t winner = ArgCombine(kind, DType::F32, a, b).index;
        EXPECT_EQ(ArgCombine(kind, DType::F32, b, a).index, winner);
        const bool a_nan = std::isnan(values[i]), b_nan = std::isnan(values[j]);
        if (a_nan != b_nan) {
          EXPECT_EQ(winner, static_cast<int64_t>(a_nan ? i : j));
        } else if (a_nan || values[i] == values[j]) {
          EXPECT_EQ(winner, static_cast<int64_t>(std::min(i, j)));
        }
      }
      const ArgCandidate none = ArgIdentity(OpKind::ArgMax, DType::F32);
      EXPECT_EQ(ArgCombine(OpKind::ArgMax, DType::F32, a, none).index, a.index);
      EXPECT_EQ(ArgCombine(OpKind::ArgMax, DType::F32, none, a).index, a.index);
    }
  }
  EXPECT_EQ(ArgIdentity(OpKind::ArgMin, DType::I32).index, -1);
}

TEST(ReduceTest, WelfordStatesJoin) {
  const std::vector<double> data = {1, 2, 4, 8, 16, 32, 64};
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    WelfordState halves[2];
    for (size_t i = 0; i < data.size(); ++i) {
      WelfordState& half = halves[i < cut ? 0 : 1];
      half = WelfordCombine(DType::F64, half, {data[i], 0, 1});
    }
    const WelfordState all = WelfordCombine(DType::F64, halves[0], halves[1]);
    EXPECT_EQ(all.count, 7);
    EXPECT_NEAR(all.average, 127.0 / 7, 1e-13);
    EXPECT_NEAR(all.m2, 5461 - 127.0 * 127 / 7, 1e-11);
  }
}

TEST(IndexTest, NegativeOnceThenOutside) {
  EXPECT_EQ(ResolveIndex(0, 3), 0);
  EXPECT_EQ(ResolveIndex(-1, 3), 2);
  EXPECT_EQ(ResolveIndex(-3, 3), 0);
  EXPECT_EQ(ResolveIndex(-4, 3), -1);
  EXPECT_EQ(ResolveIndex(3, 3), -1);
  EXPECT_EQ(ResolveIndex(0, 0), -1);
  EXPECT_EQ(ResolveIndex(std::numeric_limits<int64_t>::min(), 3), -1);
}

}  // namespace
}  // namespace seam
