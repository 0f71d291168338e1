// Points that read their neighbours: those of one thread load what they have in common once, and
// are right whatever divides the axis along which they lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "tests/support/count_of.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupResult;
using testing::NumLoads;
using testing::RunGroupText;

// Nine neighbours of each pixel, weighted by channel.
constexpr char kDepthwise[] = R"(fusion depthwise {
  symbol N
  symbol H
  symbol W
  symbol C
  input x: bf16[N, H, W, C]
  input k: f32[9, C]
  p = pad(cast(x, dtype=f32), before=[0, 1, 1, 0], after=[0, 1, 1, 0])
  a = p[:, 0:H, 0:W] * k[0:1] + p[:, 0:H, 1:W+1] * k[1:2] + p[:, 0:H, 2:W+2] * k[2:3]
  b = p[:, 1:H+1, 0:W] * k[3:4] + p[:, 1:H+1, 1:W+1] * k[4:5] + p[:, 1:H+1, 2:W+2] * k[5:6]
  c = p[:, 2:H+2, 0:W] * k[6:7] + p[:, 2:H+2, 1:W+1] * k[7:8] + p[:, 2:H+2, 2:W+2] * k[8:9]
  y = cast(a + b + c, dtype=bf16)
  output y
})";

testing::GroupRun WithPoints(int64_t h, int64_t w, int64_t c, int points, int along) {
  testing::GroupRun run{.sizes = {{"N", 2}, {"H", h}, {"W", w}, {"C", c}}};
  run.edit = [=](Schedule& s) {
    s.points = points;
    s.along = along;
  };
  return run;
}

TEST(Stencils, PointsAlongAnyAxis) {
  for (int along = 0; along < 4; ++along) {
    for (const int points : {1, 2, 4}) {
      if (along == 0 && points == 4) continue;  // Of two images.
      ExpectRight(kDepthwise, WithPoints(4, 8, 12, points, along));
    }
  }
  for (const int64_t h : {0, 2, 6}) ExpectRight(kDepthwise, WithPoints(h, 3, 5, 2, 1));
}

TEST(Stencils, PointsThatDoNotDivideTheirAxisAreRefused) {
  const GroupResult result = RunGroupText(kDepthwise, WithPoints(5, 4, 8, 2, 1));
  EXPECT_NE(result.status.message().find("threads have 2 points each"), std::string::npos)
      << result.status;
}

TEST(Stencils, WhatPointsHaveInCommonIsLoadedOnce) {
  for (const auto& [points, loads] : {std::pair(1, 9), {2, 12}, {4, 18}}) {
    const GroupResult result = ExpectRight(kDepthwise, WithPoints(8, 4, 8, points, 1));
    EXPECT_EQ(NumLoads(result.kernel_text, "x"), loads);
    EXPECT_EQ(NumLoads(result.kernel_text, "k"), 9);
  }
}

Schedule Chosen(const std::string& text, std::vector<int64_t> sizes,
                SchedulerKind kind = SchedulerKind::kPointwise) {
  return testing::Chosen(text, std::move(sizes), "h100", kind);
}

TEST(Stencils, AsManyPointsAsDivideTheirAxisAndLeaveEverySmACta) {
  const Schedule even = Chosen(kDepthwise, {32, 56, 56, 192});
  EXPECT_EQ(even.points, 8);
  EXPECT_EQ(even.along, 1);
  EXPECT_EQ(Chosen(kDepthwise, {32, 28, 56, 192}).points, 4);
  // No power of two divides the height: points lie along the width.
  const Schedule odd = Chosen(kDepthwise, {32, 55, 56, 192});
  EXPECT_EQ(odd.points, 8);
  EXPECT_EQ(odd.along, 2);
  EXPECT_EQ(Chosen(kDepthwise, {32, 55, 55, 192}).points, 1);
  EXPECT_EQ(Chosen(kDepthwise, {1, 8, 8, 192}).points, 1);
}

// Rotary embeddings: every head has the same table.
std::string Rope(const std::string& table) {
  return absl::StrCat(R"(fusion rope {
  symbol S
  input x: bf16[4, 32, S, 128]
  input c: f32)",
                      table, R"(
  xf = cast(x, dtype=f32)
  r = cat(-xf[:, :, :, 64:128], xf[:, :, :, 0:64], axis=3)
  y = cast(xf * c + r, dtype=bf16)
  output y
})");
}

TEST(Stencils, TablesAreLoadedOnceForSeveralPoints) {
  const Schedule large = Chosen(Rope("[S, 128]"), {4096});
  EXPECT_EQ(large.points, 4);
  EXPECT_LT(large.along, 2);
  // The cache of an SM holds it.
  EXPECT_EQ(Chosen(Rope("[S, 128]"), {1024}).points, 1);
  EXPECT_EQ(Chosen(Rope("[4, 32, S, 128]"), {4096}).points, 1);
  ExpectRight(Rope("[S, 128]"), {.sizes = {{"S", 3}}, .edit = [](Schedule& s) { s.points = 4; }});
}

// A causal convolution whose rows are normalised.
constexpr char kRows[] = R"(fusion rows {
  symbol B
  symbol T
  symbol C
  input x: bf16[B, T, C]
  input k: f32[4, C]
  p = pad(cast(x, dtype=f32), before=[0, 3, 0], after=[0, 0, 0])
  y = p[:, 0:T] * k[0:1] + p[:, 1:T+1] * k[1:2] + p[:, 2:T+2] * k[2:3] + p[:, 3:T+3] * k[3:4]
  z = cast((y - mean(y, axes=[2], keepdims=true)) * rsqrt(variance(y, axes=[2], keepdims=true) + 0.1), dtype=bf16)
  output z
})";

TEST(Stencils, RowsOfAThreadAreReducedByThemselves) {
  for (const int points : {1, 2, 4}) {
    for (const int64_t c : {1, 24, 65, 300}) {
      for (const bool one_pass : {false, true}) {
        const GroupResult result =
            ExpectRight(kRows, {.sizes = {{"B", 3}, {"T", 8}, {"C", c}}, .edit = [&](Schedule& s) {
                                  s.points = points;
                                  s.along = 1;
                                  s.chan_welford = one_pass;
                                  if (!s.shift) return;
                                  s.shift = false;
                                  s.vector = 1;
                                  const int sharing = s.lanes_per_row * s.warps_per_row;
                                  s.registers = static_cast<int>((c + sharing - 1) / sharing);
                                }});
        // Once a pass; of one column all at once.
        EXPECT_EQ(NumLoads(result.kernel_text, "k") % (c == 1 ? 1 : 4), 0);
        EXPECT_EQ(NumLoads(result.kernel_text, "x") % (points + 3), 0);
      }
    }
  }
}

TEST(Stencils, RowsThatReadTheirNeighboursAreSeveralToAThread) {
  const auto chosen = [](std::vector<int64_t> sizes) {
    return Chosen(kRows, std::move(sizes), SchedulerKind::kReduction);
  };
  const Schedule many = chosen({8, 4096, 512});
  EXPECT_EQ(many.points, 4);
  EXPECT_EQ(many.along, 1);
  EXPECT_LE(many.points * many.registers * many.vector, 64);
  EXPECT_GE(many.lanes_per_row * many.warps_per_row * many.registers * many.vector, 512);
  EXPECT_EQ(chosen({8, 4098, 512}).points, 2);
  EXPECT_EQ(chosen({8, 4097, 512}).points, 1);
  EXPECT_EQ(chosen({1, 64, 512}).points, 1);
}

// A softmax of rows that no vector divides, heads behind points in memory, beside what `b` has.
std::string Window(const std::string& dtype, const std::string& b) {
  return absl::StrCat(R"(fusion window {
  symbol I
  symbol T
  input s: )",
                      dtype, R"([I, T, 6, T]
  input b: f32)",
                      b, R"(
  x = permute(cast(s, dtype=f32), axes=[0, 2, 1, 3]) + b
  e = exp(x - amax(x, axes=[3], keepdims=true))
  y = cast(e / sum(e, axes=[3], keepdims=true), dtype=)",
                      dtype, R"()
  output y
})");
}

TEST(Stencils, SingleElementsOfRowsShareATable) {
  const auto chosen = [](const std::string& text) {
    return Chosen(text, {4096, 49}, SchedulerKind::kReduction);
  };
  for (const char* dtype : {"f16", "f32"}) {
    const Schedule s = chosen(Window(dtype, "[6, T, T]"));
    EXPECT_EQ(s.points, 4) << s.ToString();
    EXPECT_EQ(s.along, 0) << s.ToString();
    EXPECT_LE(s.points * s.registers * s.vector, 16) << s.ToString();
    EXPECT_EQ(chosen(Window(dtype, "[I, 6, T, T]")).points, 1);
  }
  // Weights that all rows read alike are as much only beside narrow data.
  EXPECT_EQ(chosen(Window("f16", "[T]")).points, 4);
  EXPECT_EQ(chosen(Window("f32", "[T]")).points, 1);
  for (const char* b : {"[6, T, T]", "[T]"}) {
    ExpectRight(Window("f16", b), {.sizes = {{"I", 4}, {"T", 7}}, .edit = [](Schedule& s) {
                                     s.points = 4;
                                     s.along = 0;
                                   }});
  }
}

// A depthwise convolution of padded images, then a norm of each pixel.
std::string LargeWindow(int side, const std::string& dtype) {
  std::string sum;
  for (int i = 0; i < side * side; ++i) {
    const int y = i / side, x = i % side;
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "cast(p[:, ", y, ":H+", y, ", ", x, ":W+", x,
                    "], dtype=f32) * k[", i, ":", i + 1, "]");
  }
  return absl::StrReplaceAll(R"(fusion large {
  symbol N
  symbol H
  symbol W
  symbol C
  input p: T[N, H+B, W+B, C]
  input k: f32[A, C]
  y = SUM
  m = mean(y, axes=[3], keepdims=true)
  z = cast((y - m) * rsqrt(variance(y, axes=[3], keepdims=true) + 0.1), dtype=f16)
  output z
})",
                             {{"T[", absl::StrCat(dtype, "[")},
                              {"+B", absl::StrCat("+", side - 1)},
                              {"[A,", absl::StrCat("[", side * side, ",")},
                              {"SUM", sum}});
}

TEST(Stencils, RowsOfLargeWindowsHaveManyThreads) {
  const std::string text = LargeWindow(7, "bf16");
  for (const int64_t c : {96, 192, 384, 768}) {
    const Schedule s = Chosen(text, {64, 56, 56, c}, SchedulerKind::kReduction);
    EXPECT_EQ(s.points, 8) << s.ToString();
    EXPECT_EQ(s.registers * s.vector, 2) << s.ToString();
    EXPECT_EQ(s.columns_per_step(), c) << s.ToString();
  }
  // No longer vectors than divide the rows, and no facts but theirs.
  EXPECT_EQ(Chosen(text, {64, 56, 56, 33}, SchedulerKind::kReduction).vector, 1);
  const Schedule even = Chosen(text, {64, 56, 56, 96}, SchedulerKind::kReduction);
  EXPECT_THAT(even.ToString(), ::testing::HasSubstr(" 2 divides C"));
  // Elements of a byte have longer vectors, and fewer points.
  for (const int64_t c : {96, 34, 33}) {
    const Schedule s = Chosen(LargeWindow(4, "i8"), {64, 56, 56, c}, SchedulerKind::kReduction);
    EXPECT_GT(s.points, 1) << s.ToString();
    EXPECT_LE(s.points * s.registers * s.vector, 16) << s.ToString();
  }
  const auto share = [](int lanes, int warps) {
    return [=](Schedule& s) {
      s.points = 8;
      s.along = 1;
      s.lanes_per_row = lanes;
      s.warps_per_row = warps;
      s.row_warps = 1;
      s.registers = 1;
    };
  };
  for (const auto& edit : {share(8, 1), share(4, 2)})
    ExpectRight(LargeWindow(5, "f16"),
                {.sizes = {{"N", 1}, {"H", 8}, {"W", 2}, {"C", 7}}, .edit = edit});
}

TEST(Stencils, PointsAreOfRowsThatNothingCrosses) {
  constexpr char kCrossed[] = R"(fusion crossed {
  symbol M
  input x: f32[M, 64]
  y = x / (sum(x * x, axes=[1], keepdims=true) + 1.0)
  s = sum(y, axes=[0])
  output y
  output s
})";
  const GroupResult result = RunGroupText(kCrossed, {.sizes = {{"M", 8}}, .edit = [](Schedule& s) {
                                                       s.grid = 0;
                                                       s.points = 2;
                                                     }});
  EXPECT_FALSE(result.status.ok());
}

// A sum of many neighbours of many: no points whose text would take minutes to compile.
TEST(Stencils, PointsAreFewWhereOneIsMuch) {
  std::string text = "fusion many {\n  symbol H\n  input x: f32[H, 4096]\n";
  std::string sum;
  absl::StrAppend(&text, "  p = pad(exp(x), before=[40, 0], after=[40, 0])\n");
  for (int i = 0; i < 81; ++i) {
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "tanh(p[", i, ":H+", i, "] * ", i + 1, ".5)");
  }
  absl::StrAppend(&text, "  y = ", sum, "\n  output y\n}\n");
  const Schedule chosen = Chosen(text, {4096});
  EXPECT_LE(chosen.points * chosen.vector, 8) << chosen.ToString();
}

}  // namespace
}  // namespace seam
