// Flat integer programs and guards.
#include <gtest/gtest.h>

#include "ir/symbolic/guard.h"
#include "ir/symbolic/sym_int.h"
#include "ir/symbolic/sym_program.h"

namespace seam {
namespace {

class SymbolicProgramTest : public ::testing::Test {
 protected:
  ShapeEnv env_;
  SymInt m_ = env_.NewSymbol("M", 0, 1 << 20).value();
  SymInt n_ = env_.NewSymbol("N", -100, 1 << 20).value();
  std::vector<const SymNode*> inputs_ = {m_.node(), n_.node()};
};

TEST_F(SymbolicProgramTest, ComputesEveryOperation) {
  const std::vector<SymInt> outputs = {7,
                                       m_,
                                       n_,
                                       3 * m_ - 2 * n_ + 5,
                                       m_ * n_ * n_,
                                       FloorDiv(n_, 7),
                                       Mod(n_, 7),
                                       FloorDiv(m_, n_),
                                       Mod(m_, n_),
                                       Min(m_, n_),
                                       Max(Max(m_, n_), 9),
                                       SymEq(m_, n_),
                                       SymNe(m_, n_),
                                       SymLt(m_, n_),
                                       SymLe(m_, n_),
                                       SymAnd(SymLt(m_, 10), SymLt(n_, 10)),
                                       SymOr(SymLt(m_, 10), SymLt(n_, 10)),
                                       SymSelect(SymLt(m_, n_), m_, 2 * n_),
                                       INT64_MIN};
  const auto program = SymProgram::Compile(outputs, inputs_);
  ASSERT_TRUE(program.ok()) << program.status();
  const int64_t in[] = {13, -5};
  const std::vector<int64_t> want = {7,  13, -5, 54, 325, -1, 2, -3,  -2,       -5,
                                     13, 0,  1,  0,  0,   0,  1, -10, INT64_MIN};
  std::vector<int64_t> fast(outputs.size()), checked(outputs.size()),
      scratch(program->num_registers());
  program->Run(in, fast.data(), scratch.data());
  EXPECT_EQ(fast, want);
  program->Run(in, fast.data());
  EXPECT_EQ(fast, want);
  ASSERT_TRUE(program->RunChecked(in, checked.data()).ok());
  EXPECT_EQ(checked, want);
}

TEST_F(SymbolicProgramTest, SharesCommonNodes) {
  const SymInt q = FloorDiv(m_, 8);
  const auto program = SymProgram::Compile({q, q + 1, q * n_, q}, inputs_);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->ToString(),
            "r0 = M\nr1 = N\nr2 = 8\nr3 = floordiv(r0, r2)\nr4 = sum(r3, 1)\nr5 = mul(r1, "
            "r3)\nreturn r3, r4, r5, r3\n");
}

TEST_F(SymbolicProgramTest, EmptyProgramRuns) {
  const auto program = SymProgram::Compile({}, {});
  ASSERT_TRUE(program.ok());
  program->Run(nullptr, nullptr);
  EXPECT_TRUE(program->RunChecked(nullptr, nullptr).ok());
  EXPECT_EQ(program->num_registers(), 0);
}

TEST_F(SymbolicProgramTest, CompileRefusesBadInput) {
  EXPECT_FALSE(SymProgram::Compile({SymInt::Invalid()}, inputs_).ok());
  EXPECT_FALSE(SymProgram::Compile({m_}, {n_.node()}).ok());
  EXPECT_FALSE(SymProgram::Compile({m_}, {m_.node(), m_.node()}).ok());
  EXPECT_FALSE(SymProgram::Compile({m_}, {(m_ + n_).node(), m_.node()}).ok());
  EXPECT_FALSE(SymProgram::Compile({m_}, {nullptr}).ok());
  ShapeEnv other;
  const SymInt same_name = other.NewSymbol("M", 0, 10).value();
  EXPECT_FALSE(SymProgram::Compile({same_name}, inputs_).ok());
}

TEST_F(SymbolicProgramTest, CheckedRunReportsFaultsWhereTheyMatter) {
  const auto program =
      SymProgram::Compile({m_, FloorDiv(m_, n_), SymSelect(SymEq(n_, 0), 1, Mod(m_, n_))}, inputs_);
  ASSERT_TRUE(program.ok());
  int64_t out[3] = {-1, -1, -1};
  const int64_t zero[] = {4, 0};
  const absl::Status status = program->RunChecked(zero, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(), "output 1: division by zero");
  EXPECT_EQ(out[0], 4);
  EXPECT_EQ(out[1], -1);
  program->Run(zero, out);  // Without checks: no trap.
  EXPECT_EQ(out[2], 1);
  const int64_t outside[] = {-1, 0};
  EXPECT_EQ(program->RunChecked(outside, out).message(), "M = -1 is outside 0..1048576");

  ShapeEnv env;
  const SymInt a = env.NewSymbol("a", INT64_MIN, INT64_MAX).value(),
               b = env.NewSymbol("b", -1, 1).value();
  const auto wide =
      SymProgram::Compile({FloorDiv(a, b), Mod(a, b), a * b, a + b}, {a.node(), b.node()});
  ASSERT_TRUE(wide.ok());
  int64_t got[4];
  const int64_t extreme[] = {INT64_MIN, -1};
  EXPECT_EQ(wide->RunChecked(extreme, got).message(), "output 0: overflow");
  wide->Run(extreme, got);
  EXPECT_EQ(got[0], INT64_MIN);  // Wraps around.
  EXPECT_EQ(got[1], 0);
  EXPECT_EQ(got[2], INT64_MIN);
  EXPECT_EQ(got[3], INT64_MAX);
}

TEST_F(SymbolicProgramTest, SumsOverflowOnlyInTheirResult) {
  ShapeEnv env;
  const SymInt a = env.NewSymbol("a", 0, INT64_MAX).value(),
               b = env.NewSymbol("b", 0, INT64_MAX).value();
  const auto program = SymProgram::Compile({4 * a - 4 * b}, {a.node(), b.node()});
  ASSERT_TRUE(program.ok());
  int64_t out = 0;
  const int64_t in[] = {INT64_MAX, INT64_MAX - 5};
  EXPECT_TRUE(program->RunChecked(in, &out).ok());
  EXPECT_EQ(out, 20);
}

TEST_F(SymbolicProgramTest, ImplicationsBetweenConditions) {
  const auto divisible = [&](int64_t k) { return SymEq(Mod(m_, k), 0); };
  EXPECT_TRUE(Implies(SymLt(m_, 5), SymLt(m_, 6)));
  EXPECT_FALSE(Implies(SymLt(m_, 6), SymLt(m_, 5)));
  EXPECT_TRUE(Implies(SymLt(m_, n_), SymLe(m_, n_)));
  EXPECT_TRUE(Implies(SymLt(m_, n_), SymNe(m_, n_)));
  EXPECT_TRUE(Implies(SymEq(m_, n_), SymLe(m_, n_)));
  EXPECT_TRUE(Implies(SymEq(m_, n_), SymLe(n_, m_)));
  EXPECT_TRUE(Implies(SymEq(m_, 8), SymLt(m_, 9)));
  EXPECT_TRUE(Implies(SymEq(m_, 8), SymNe(m_, 9)));
  EXPECT_FALSE(Implies(SymLe(m_, n_), SymEq(m_, n_)));
  EXPECT_FALSE(Implies(SymLe(m_, n_), SymNe(m_, n_)));
  EXPECT_TRUE(Implies(divisible(16), divisible(8)));
  EXPECT_FALSE(Implies(divisible(8), divisible(16)));
  EXPECT_FALSE(Implies(divisible(6), divisible(4)));
  EXPECT_TRUE(Implies(SymAnd(SymLt(m_, n_), divisible(8)), divisible(8)));
  EXPECT_TRUE(Implies(divisible(8), SymOr(SymLt(m_, n_), divisible(8))));
  EXPECT_TRUE(Implies(SymOr(SymLt(m_, 3), SymLt(m_, 5)), SymLt(m_, 7)));
  EXPECT_FALSE(Implies(SymOr(SymLt(m_, 3), SymLt(n_, 5)), SymLt(m_, 7)));
  EXPECT_TRUE(Implies(0, SymLt(m_, 3)));
  EXPECT_TRUE(Implies(SymLt(m_, 3), 1));
  EXPECT_FALSE(Implies(1, SymLt(m_, 3)));
  EXPECT_FALSE(Implies(SymInt::Invalid(), SymLt(m_, 3)));
}

TEST_F(SymbolicProgramTest, GuardsKeepWhatIsNotImplied) {
  GuardSet guards;
  EXPECT_TRUE(guards.Add(SymGe(m_, 0), "always true").ok());
  EXPECT_TRUE(guards.guards().empty());
  EXPECT_TRUE(guards.Add(SymAnd(SymEq(Mod(m_, 8), 0), SymLt(m_, 5000)), "vector loads").ok());
  EXPECT_EQ(guards.guards().size(), 2u);
  EXPECT_TRUE(guards.Add(SymEq(Mod(m_, 4), 0), "implied").ok());
  EXPECT_TRUE(guards.Add(SymLe(m_, 6000), "implied").ok());
  EXPECT_EQ(guards.guards().size(), 2u);
  EXPECT_TRUE(guards.Add(SymLt(m_, 4096), "tighter").ok());
  EXPECT_EQ(guards.ToString(), "M%8 == 0  # vector loads\nM <= 4095  # tighter\n");
  EXPECT_EQ(guards.Add(SymLt(m_, 0), "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(guards.Add(SymLt(4100, m_), "too long").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(guards.Add(SymInt::Invalid(), "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(guards.guards().size(), 2u);
  ASSERT_TRUE(guards.Add(SymLt(FloorDiv(64, n_), 4), "divides").ok());

  const auto program = GuardProgram::Compile(guards, inputs_);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto check = [&](int64_t m, int64_t n) {
    const int64_t in[] = {m, n};
    return program->Check(in);
  };
  EXPECT_EQ(check(64, 32), GuardProgram::kAllHold);
  EXPECT_EQ(check(63, 32), 0);
  EXPECT_EQ(check(8000, 32), 1);
  EXPECT_EQ(check(8001, 4), 0);
  EXPECT_EQ(check(64, 4), 2);
  EXPECT_EQ(check(64, 0), 2);  // The condition has no value.
  EXPECT_EQ(check(63, 0), 0);
  EXPECT_EQ(check(-8, 1), GuardProgram::kInputOutOfRange);
  EXPECT_FALSE(GuardProgram::Compile(guards, {m_.node()}).ok());
  EXPECT_EQ(GuardProgram::Compile(GuardSet(), {})->Check(nullptr), GuardProgram::kAllHold);
}

}  // namespace
}  // namespace seam
