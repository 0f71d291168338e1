// What the numbers come to that indices are computed from, and that 32 bits hold them.
#include "scheduler/kernel/index_terms.h"

#include <gtest/gtest.h>

#include <string>

#include "ir/text/parser.h"
#include "scheduler/schedulers.h"
#include "tests/support/expect_right.h"
#include "tests/support/sample_kernels.h"

namespace seam::testing {
namespace {

using kernel::IndexValue;
using kernel::Kernel;
using kernel::LargestNumber;
using kernel::LetSymbol;
using kernel::Load;
using kernel::Operand;

struct Draft : KernelDraft {
  explicit Draft(SymInt grid_x) : KernelDraft("k") {
    x = Buffer("x", DType::F32, int64_t{1} << 40, false);
    f = Fragment("f", DType::F32);
    SetGrid(grid_x);
  }
  void Read(SymInt index) {
    Load load{.fragment = f, .slot = 0, .array = x, .index = index};
    Emit(&k.body, load);
  }
  std::string Terms() { return LargestNumber(k).ToString(); }
  int x = 0, f = 0;
};

constexpr int64_t kBig = int64_t{1} << 32;

TEST(IndexTerms, OfOneSignAreNoLargerThanTheirSum) {
  Draft d(1000);
  d.Read(kBig * d.block + d.thread);
  d.Read(-kBig * d.block - d.thread + 1);
  EXPECT_EQ(d.Terms(), "0");
}

TEST(IndexTerms, ThatCancelCountByThemselves) {
  Draft d(1000);
  d.Read(kBig * d.block - 7 * d.thread + 5);
  EXPECT_EQ(d.Terms(), absl::StrCat(kBig * 1000 + 5));
  d.Read(7 * d.thread - 2 * kBig * d.block - 5);
  EXPECT_EQ(d.Terms(), absl::StrCat(2 * kBig * 1000 + 5));
}

TEST(IndexTerms, AreOfParametersWhateverTheThread) {
  Draft d(10);
  const SymInt n = d.Parameter("n");
  d.Read(n * d.thread * 8 - n * n * FloorDiv(d.thread, n + 1));
  // 1016*n fits 32 bits, whatever n is.
  EXPECT_EQ(d.Terms(), "n*n*(127//(n + 1))");
}

TEST(IndexTerms, WithinDivisionsAndConditions) {
  Draft d(1000);
  const SymInt n = d.Parameter("n");
  d.Read(FloorDiv(kBig * d.block - 7 * d.thread, n));
  EXPECT_EQ(d.Terms(), absl::StrCat(kBig * 1000));
  Draft e(1000);
  const SymInt m = e.Parameter("m");
  Load load{.fragment = e.f, .slot = 0, .array = e.x, .index = 0};
  load.predicate = SymEq(Mod(m * m * e.block - 7 * e.thread, 100), 1);
  Emit(&e.k.body, load);
  EXPECT_EQ(e.Terms(), "1000*m*m");
}

// What a register holds is as large as what was put there.
TEST(IndexTerms, OfBoundNumbers) {
  Draft d(1000);
  const int i = d.Fragment("i", DType::I64);
  const SymInt part = d.Symbol("part", int64_t{1} << 31);
  Emit(&d.k.body, IndexValue{i, 0, FloorDiv(d.block, 100)});
  Emit(&d.k.body, LetSymbol{part, Operand::Reg(i)});
  d.Read(kBig * part - d.thread);
  EXPECT_EQ(d.Terms(), absl::StrCat(kBig * 10));
}

// No tensor bounds a product of sizes that is a value, or that is divided.
TEST(IndexTerms, OfSizesAlone) {
  Draft d(1000);
  const SymInt n = d.Parameter("n"), m = d.Parameter("m");
  Emit(&d.k.body, IndexValue{d.Fragment("i", DType::I64), 0, n * m});
  EXPECT_EQ(d.Terms(), "n*m");
  Draft e(1000);
  const SymInt a = e.Parameter("a"), b = e.Parameter("b");
  e.Read(FloorDiv(a * b, 128) * e.thread);
  EXPECT_EQ(e.Terms(), "a*b");
}

// 2^60 elements apart, times 8: beyond 64 bits: an error, and no more.
TEST(IndexTerms, NumbersThatNothingHolds) {
  std::string text = "fusion steps {\n  input x: f32[8]\n  v0 = x\n";
  for (int i = 0; i < 60; ++i)
    absl::StrAppend(&text, "  v", i + 1, " = pad(v", i, ", before=[1], after=[1])[::2]\n");
  absl::StrAppend(&text, "  y = -v60\n  output y\n}\n");
  const GroupResult result = RunGroupText(text, {});
  EXPECT_FALSE(result.status.ok());
}

// A plan with 32-bit indices says for which sizes they hold.
TEST(IndexTerms, ArePromisedByAGuard) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion turned {
  symbol A
  symbol B
  symbol C
  input x: f32[A, B, C] strides [B * (C + 1), 1, B]
  y = flip(x, axes=[0]) * 0.5
  output y
})");
  ASSERT_TRUE(group.ok()) << group.status();
  Schedule schedule;
  schedule.kind = SchedulerKind::kPointwise;
  schedule.outer = true;
  schedule.row_warps = 8;
  schedule.index32 = true;
  const Scheduler* pointwise = FindScheduler(SchedulerKind::kPointwise);
  const auto says = [](const LaunchPlan& plan) {
    for (const Guard& guard : plan.guards) {
      if (guard.reason.find("numbers that indices") != std::string::npos) return true;
    }
    return false;
  };
  const absl::StatusOr<LaunchPlan> narrow = pointwise->lower(*group, schedule);
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_TRUE(says(*narrow));
  schedule.index32 = false;
  const absl::StatusOr<LaunchPlan> wide = pointwise->lower(*group, schedule);
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_FALSE(says(*wide));
}

}  // namespace
}  // namespace seam::testing
