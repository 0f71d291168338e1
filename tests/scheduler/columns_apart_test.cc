// Columns apart: tensors that share no columns, whose sums only single numbers bring together, have
// CTAs of their own that run side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;

// The norm of so many tensors of N0, N1, ... elements each, as f32 or cast to it.
std::string NormOf(int tensors, const std::string& dtype) {
  std::string text = "fusion norm {\n", sum;
  for (int i = 0; i < tensors; ++i) {
    absl::StrAppend(&text, "  symbol N", i, "\n  input g", i, ": ", dtype, "[N", i, "]\n  f", i,
                    " = cast(g", i, ", dtype=f32)\n  s", i, " = sum(f", i, " * f", i, ")\n");
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "s", i);
  }
  return absl::StrCat(text, "  total = sqrt(", sum, ")\n  output total\n}");
}

GroupRun SizesOf(const std::vector<int64_t>& sizes) {
  GroupRun run;
  for (size_t i = 0; i < sizes.size(); ++i) run.sizes[absl::StrCat("N", i)] = sizes[i];
  return run;
}

TEST(ColumnsApart, NormsOfManySizes) {
  const std::vector<std::vector<int64_t>> cases = {
      {20000, 1, 3, 1000, 1024, 1025, 8191, 0, 4096, 77},
      {9000, 9001, 9002, 9003, 9004, 9005, 9006, 9007, 9008, 9009},
      {300000, 8, 8, 8, 8, 8, 8, 8, 8, 8},
      {8200, 0, 0, 0, 0, 0, 0, 0, 0, 0},
  };
  testing::Part part;
  for (const std::vector<int64_t>& sizes : cases) {
    for (const char* dtype : {"f32", "bf16", "f64"}) {
      for (int alignment : {16, 2}) {
        if (!part.TakesNext()) continue;
        GroupRun run = SizesOf(sizes);
        run.alignment_bytes = alignment;
        const GroupResult result = ExpectRight(NormOf(10, dtype), run);
        EXPECT_TRUE(result.schedule.columns_apart) << result.schedule.ToString();
      }
    }
  }
}

// All at once in one launch, and a barrier of the grid, where nobody has much to do then; else what
// merges the states is a kernel of its own.
TEST(ColumnsApart, OneLaunchWhereTheGridIsThereAtOnce) {
  GroupRun run = SizesOf({20000, 9000, 9000, 9000, 9000, 9000, 9000, 9000});
  int phases = 0;
  run.edit_plan = [&](LaunchPlan& plan) {
    ASSERT_EQ(plan.launches.size(), 1u);
    phases = plan.launches[0].kernel.NumPhases();
  };
  ExpectRight(NormOf(8, "f32"), run);
  EXPECT_EQ(phases, 2);
  run.edit = [](Schedule& s) { s.one_launch = false; };
  run.edit_plan = [&](LaunchPlan& plan) { EXPECT_EQ(plan.launches.size(), 2u); };
  ExpectRight(NormOf(8, "f32"), run);
}

// The norm of tensors of sizes that the graph says.
std::string NormOfSizes(const std::vector<int64_t>& sizes) {
  std::string text = "fusion norm {\n", sum;
  for (size_t i = 0; i < sizes.size(); ++i) {
    absl::StrAppend(&text, "  input g", i, ": f32[", sizes[i], "]\n  s", i, " = sum(g", i, " * g",
                    i, ")\n");
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "s", i);
  }
  return absl::StrCat(text, "  total = sqrt(", sum, ")\n  output total\n}");
}

// As few CTAs of a short tensor as it has elements for. One element is no column.
TEST(ColumnsApart, ShortTensorsHaveFewCtas) {
  GroupRun run;
  run.edit_plan = [&](LaunchPlan& plan) {
    ASSERT_EQ(plan.launches.size(), 1u);
    EXPECT_EQ(plan.launches[0].arguments.back(), SymInt(plan.schedule.split + 7));
  };
  const GroupResult result = ExpectRight(NormOfSizes({200000, 5, 5, 5, 5, 5, 5, 1000}), run);
  EXPECT_GT(result.schedule.split, 7);
  EXPECT_TRUE(result.schedule.columns_apart);
  for (int ones : {1, 3}) {
    std::vector<int64_t> sizes = {9000, 9000, 2, 9000, 9000, 9000, 9000, 9000};
    sizes.insert(sizes.begin() + 2, ones, 1);
    EXPECT_TRUE(ExpectRight(NormOfSizes(sizes), {}).schedule.columns_apart);
  }
}

TEST(ColumnsApart, FewOrShortOnesStayTogether) {
  const auto apart = [](const std::string& text, const GroupRun& run) {
    return ExpectRight(text, run).schedule.columns_apart;
  };
  EXPECT_FALSE(apart(NormOf(3, "f32"), SizesOf({20000, 20000, 20000})));
  EXPECT_FALSE(apart(NormOf(9, "f32"), SizesOf(std::vector<int64_t>(9, 500))));
  EXPECT_TRUE(apart(NormOf(70, "f32"), SizesOf(std::vector<int64_t>(70, 500))));
}

// Statistics, extrema and several sums of one tensor; tensors of more dimensions; what is written
// beside them, and what is computed from the numbers that they have in common.
TEST(ColumnsApart, OtherReductionsAndResults) {
  std::string text = "fusion others {\n  symbol N\n  symbol M\n", sum;
  for (int i = 0; i < 9; ++i) {
    const std::string n = absl::StrCat(i);
    absl::StrAppend(&text, "  input x", n, ": f32[", i + 1, ", N", i % 2 == 0 ? "" : ", M",
                    "]\n  avg", n, ", m2", n, ", n", n, " = welford(x", n, ", axes=[0, 1",
                    i % 2 == 0 ? "" : ", 2", "])\n  most", n, " = amax(abs(x", n, "))\n  double", n,
                    " = x", n, " * 2.0\n  output double", n, "\n  output most", n, "\n");
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "avg", n, " * m2", n);
  }
  absl::StrAppend(&text, "  total = ", sum, "\n  output total\n");
  for (int i = 0; i < 9; ++i) {
    absl::StrAppend(&text, "  scaled", i, " = x", i, " * total\n  output scaled", i, "\n");
  }
  text += "}";
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{{5000, 3}, {1, 2000}}) {
    const GroupResult result = ExpectRight(text, {.sizes = {{"N", n}, {"M", m}}});
    EXPECT_TRUE(result.schedule.columns_apart) << result.schedule.ToString();
  }
}

// Rows that several tensors have in common, few of them.
TEST(ColumnsApart, SomeRows) {
  std::string text = "fusion rows {\n  symbol B\n", sum;
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&text, "  input x", i, ": f16[B, ", 9000 + 100 * i, "]\n  f", i, " = cast(x", i,
                    ", dtype=f32)\n  s", i, " = sum(f", i, " * f", i, ", axes=[1])\n");
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "s", i);
  }
  absl::StrAppend(&text, "  total = sqrt(", sum, ")\n  output total\n}");
  for (int64_t b : {1, 2, 5}) {
    const GroupResult result = ExpectRight(text, {.sizes = {{"B", b}}});
    EXPECT_TRUE(result.schedule.columns_apart) << result.schedule.ToString();
  }
}

// More pointers than a launch of all steps takes: then nothing is chosen for one.
TEST(ColumnsApart, ManyTensorsHaveNoLaunchForAllSteps) {
  GroupRun run;
  size_t launches = 0;
  run.edit_plan = [&](LaunchPlan& plan) { launches = plan.launches.size(); };
  EXPECT_TRUE(ExpectRight(NormOfSizes(std::vector<int64_t>(110, 1000)), run).schedule.one_launch);
  EXPECT_EQ(launches, 1u);
  EXPECT_FALSE(ExpectRight(NormOfSizes(std::vector<int64_t>(140, 1000)), run).schedule.one_launch);
  EXPECT_EQ(launches, 2u);
}

// More pointers than one launch takes, and then none for all steps.
TEST(ColumnsApart, ManyTensorsTakeSeveralLaunches) {
  GroupRun run = SizesOf(std::vector<int64_t>(150, 700));
  size_t launches = 0;
  run.edit_plan = [&](LaunchPlan& plan) { launches = plan.launches.size(); };
  ExpectRight(NormOf(150, "f32"), run);
  EXPECT_GT(launches, 2u);
}

}  // namespace
}  // namespace seam
