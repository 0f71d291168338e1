// States of short rows: those of neighbours that are of one result are merged by the warp that has
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::Chosen;
using testing::ExpectRight;
using ::testing::HasSubstr;

// A norm of short rows, and what `fold` makes of all rows of each image.
std::string Text(int columns, const std::string& fold) {
  return absl::StrCat("fusion images {\n  symbol B\n  symbol N\n  input x: f32[B, N, ", columns,
                      "]\n  y = x / (sum(x * x, axes=[2], keepdims=true) + 1.0)\n  ", fold,
                      "\n  output y\n}\n");
}

const char* const kFolds[] = {
    "s = sum(y, axes=[1, 2])\n  output s",
    "s = amax(y, axes=[1, 2])\n  t = amin(y, axes=[1, 2])\n  output s\n  output t",
    "m, v, n = welford(y, axes=[1, 2])\n  output m\n  output v",
    "s = argmax(amax(y, axes=[2]), axis=1)\n  output s",
    // Beside a total of everything, for which CTAs take rows in turn.
    "s = sum(y, axes=[1, 2])\n  t = sum(y)\n  output s\n  output t",
    "s = sum(squeeze(x[:, :, 0:1], axes=[2]), axes=[1])\n  output s",
};

TEST(Together, WhereStatesAreMany) {
  // Of four columns, a state would be a quarter of what is read.
  EXPECT_EQ(Chosen(Text(4, kFolds[0]), {16, 1 << 18}).together, 32);
  // As many as divide the rows of an image.
  EXPECT_EQ(Chosen(Text(4, kFolds[0]), {16, (1 << 18) + 8}).together, 8);
  EXPECT_EQ(Chosen(Text(4, kFolds[0]), {16, (1 << 18) + 1}).together, 1);
  // Long rows leave little, and a warp has one of them.
  EXPECT_EQ(Chosen(Text(1024, kFolds[0]), {16, 4096}).together, 1);
}

TEST(Together, EveryReduction) {
  testing::Part part;
  for (const char* fold : kFolds) {
    for (const int columns : {1, 3, 4, 40}) {
      for (const int64_t n : {1, 8, 12, 64}) {
        SCOPED_TRACE(absl::StrCat(fold, ", ", columns, ", ", n));
        if (!part.TakesNext()) continue;
        ExpectRight(Text(columns, fold), {.sizes = {{"B", 3}, {"N", n}}});
        for (const int together : {2, 4, 8, 32}) {
          ExpectRight(Text(columns, fold),
                      {.sizes = {{"B", 3}, {"N", n}}, .edit = [&](Schedule& s) {
                         if (n % together == 0 && s.most_together() >= together)
                           s.together = together;
                       }});
        }
      }
    }
  }
}

// Rows that are neighbours in memory: a thread has a vector of them, a warp or several all columns.
TEST(Together, VectorsOfRows) {
  const std::string text = R"(fusion planes {
  symbol B
  symbol N
  input x: f32[B, 12, N]
  y = x / (sum(x * x, axes=[1], keepdims=true) + 1.0)
  s = sum(y, axes=[1, 2])
  m = amax(y, axes=[1, 2])
  output y
  output s
  output m
})";
  testing::Part part;
  for (const int warps : {1, 2, 4}) {
    for (const int lanes : {1, 2, 8}) {
      for (const int vector : {1, 2, 4}) {
        for (const int together : {2, 4, 32, 64}) {
          if (!part.TakesNext()) continue;
          SCOPED_TRACE(absl::StrCat(warps, ", ", lanes, ", ", vector, ", ", together));
          ExpectRight(text, {.sizes = {{"B", 2}, {"N", 128}}, .edit = [&](Schedule& s) {
                               s.outer = s.persistent = true;
                               s.vector = vector;
                               s.lanes_per_row = lanes;
                               s.warps_per_row = warps;
                               s.row_warps = 1;
                               s.registers = 12;
                               s.grid = 0;
                               s.finish_lanes = 4;
                               s.one_launch = false;
                               s.min_ctas_per_sm = 0;
                               s.tiles = s.async = s.reread = s.shift = s.blocks = false;
                               s.stages = 0;
                               s.together = s.most_together() >= together ? together : 1;
                             }});
        }
      }
    }
  }
}

// Results beside others that have one axis more: of those rows that differ in it alone each has all
// of the sum, and the first leaves it.
TEST(Together, NotOfRowsThatAReductionKnowsNothingOf) {
  const std::string text = R"(fusion tones {
  symbol N
  symbol T
  input x: f32[N, T]
  input w: f32[8, T]
  c = sum(x[:, None] * w, axes=[2])
  t = sum(x * x, axes=[1])
  best = argmax(c, axis=1)
  output c
  output t
  output best
})";
  for (const int64_t n : {1, 5, 64}) ExpectRight(text, {.sizes = {{"N", n}, {"T", 9}}});
  testing::GroupRun run{.sizes = {{"N", 64}, {"T", 9}}};
  run.edit = [](Schedule& s) { s.together = 2; };
  EXPECT_THAT(testing::RunGroupText(text, run).status.ToString(), HasSubstr("are of one result"));
}

TEST(Together, OfOneResultOnly) {
  const auto status = [](int64_t n, int together) {
    testing::GroupRun run{.sizes = {{"B", 3}, {"N", n}}};
    run.edit = [=](Schedule& s) { s.together = together; };
    return testing::RunGroupText(Text(4, kFolds[0]), run).status.ToString();
  };
  EXPECT_THAT(status(6, 4), HasSubstr("states of 4 rows are of one result"));
  EXPECT_THAT(status(64, 3), HasSubstr("a power of two of rows that a warp has"));
  EXPECT_THAT(status(64, 64), HasSubstr("a power of two of rows that a warp has"));
}

}  // namespace
}  // namespace seam
