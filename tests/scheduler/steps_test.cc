// Steps of a loop that is written one by one: what each needs of those before is computed once, by
// a thread that has all of them or, in rows that threads share, one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using testing::ExpectRight;

// Exponential smoothing of `steps` samples, which lie beside each other or `first`: each step with
// a trend, so that no result is computed from another one.
std::string Smoothing(int steps, bool first, const std::string& more = "") {
  const auto at = [&](int i) {
    return first ? absl::StrCat("x[", i, ":", i + 1, "]")
                 : absl::StrCat("x[:, ", i, ":", i + 1, "]");
  };
  std::string text = absl::StrCat("fusion smoothing {\n  symbol B\n  input x: f32[",
                                  first ? absl::StrCat(steps, ", B") : absl::StrCat("B, ", steps),
                                  "]\n  l0 = ", at(0), "\n");
  std::vector<std::string> results;
  for (int i = 0; i < steps; ++i) {
    if (i > 0) absl::StrAppend(&text, "  l", i, " = 0.25 * ", at(i), " + 0.75 * l", i - 1, "\n");
    results.push_back(absl::StrCat("l", i, " * 0.5"));
  }
  absl::StrAppend(&text, "  y = cat(", absl::StrJoin(results, ", "), ", axis=", first ? 0 : 1,
                  ")\n", more, "  output y\n}\n");
  return text;
}

TEST(Steps, AThreadHasAllOfThem) {
  for (const bool first : {false, true}) {
    const absl::StatusOr<Fusion> group = ParseFusion(Smoothing(16, first));
    ASSERT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<LaunchPlan> plan = ScheduleGroup(
        *group, SchedulerKind::kPointwise, {.sizes = {200000}, .device = *FindDevice("h200")});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->schedule.beside, first ? 0 : 1) << plan->schedule.ToString();
    EXPECT_EQ(plan->schedule.vector > 1, first) << plan->schedule.ToString();
  }
}

TEST(Steps, AreRight) {
  for (const bool first : {false, true}) {
    for (const int steps : {4, 9, 33}) {
      for (const int64_t b : {0, 1, 5, 64}) {
        ExpectRight(Smoothing(steps, first), {.sizes = {{"B", b}}});
        for (const int beside : {-1, first ? 0 : 1}) {
          ExpectRight(Smoothing(steps, first), {.sizes = {{"B", b}}, .edit = [&](Schedule& s) {
                                                  s.points = s.vector = 1;
                                                  s.beside = beside;
                                                  s.beside_points = beside < 0 ? 1 : steps;
                                                  s.along = beside == 0 ? 1 : 0;
                                                  s.tiles = false;
                                                }});
        }
      }
    }
  }
}

// In a reduction of them each thread computes them once for all of its columns: the text grows
// with the steps, not with their square.
TEST(Steps, OfARowAreComputedOnce) {
  const auto values = [](int steps) {
    const absl::StatusOr<Fusion> group =
        ParseFusion(Smoothing(steps, false, "  z = mean(y, axes=[1])\n  output z\n"));
    EXPECT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<LaunchPlan> plan = ScheduleGroup(
        *group, SchedulerKind::kReduction, {.sizes = {200000}, .device = *FindDevice("h200")});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan->launches[0].kernel.fragments.size();
  };
  EXPECT_LT(values(40), 3 * values(20));
  ExpectRight(Smoothing(20, false, "  z = mean(y, axes=[1])\n  output z\n"),
              {.sizes = {{"B", 37}}});
}

// Each of two columns, or of three.
TEST(Steps, OfSeveralColumns) {
  for (const int columns : {2, 3}) {
    std::string text = absl::StrCat("fusion wide {\n  symbol B\n  input x: f32[B, ", 12 * columns,
                                    "]\n  l0 = x[:, 0:", columns, "]\n");
    std::vector<std::string> results = {"l0 * 0.5"};
    for (int i = 1; i < 12; ++i) {
      absl::StrAppend(&text, "  l", i, " = 0.25 * x[:, ", i * columns, ":", (i + 1) * columns,
                      "] + 0.75 * l", i - 1, "\n");
      results.push_back(absl::StrCat("l", i, " * 0.5"));
    }
    absl::StrAppend(&text, "  y = cat(", absl::StrJoin(results, ", "),
                    ", axis=1)\n  z = mean(y, axes=[1])\n  output y\n  output z\n}\n");
    for (const int64_t b : {1, 37}) ExpectRight(text, {.sizes = {{"B", b}}});
  }
}

// Pieces that read tensors of their own are no steps, however much they compute from what all of
// them have: each is loaded where it is wanted.
TEST(Steps, PiecesThatReadTheirOwnAreNone) {
  std::string text = "fusion own {\n  symbol N\n  input a: f32[1, N]\n";
  std::vector<std::string> pieces;
  std::string c = "a";
  for (int i = 0; i < 9; ++i) c = absl::StrCat("tanh(", c, " * 0.5)");
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&text, "  input x", i, ": f32[1, N]\n");
    pieces.push_back(absl::StrCat("x", i, " * c"));
  }
  absl::StrAppend(&text, "  c = ", c, "\n  y = cat(", absl::StrJoin(pieces, ", "),
                  ", axis=0)\n  s = sum(y * y, axes=[1])\n  output y\n  output s\n}\n");
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<LaunchPlan> plan = ScheduleGroup(
      *group, SchedulerKind::kReduction, {.sizes = {4096}, .device = *FindDevice("h200")});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string kernel = kernel::PrintKernel(plan->launches[0].kernel);
  EXPECT_THAT(kernel, ::testing::ContainsRegex("load x3\\[[^\n]*if [^\n]*3"));
  ExpectRight(text, {.sizes = {{"N", 40}}});
}

}  // namespace
}  // namespace seam
