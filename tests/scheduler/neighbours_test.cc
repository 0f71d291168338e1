// Few neighbouring columns as rows of their own, whose states are merged: the channels of a group
// norm's groups, if channels lie last.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ir/text/parser.h"
#include "scheduler/group_shape.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupNorm;
using testing::GroupNormBackward;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;

// By the largest of 32 groups' 64 channels.
std::string Scaled(const std::string& dtype) {
  return absl::StrReplaceAll(R"(fusion scaled {
  symbol N in [1, 4096]
  symbol P in [1, 65536]
  input x: DTYPE[N, P, 32, 64]
  f = cast(x, dtype=f32)
  y = cast(f / amax(abs(f), axes=[1, 3], keepdims=true), dtype=DTYPE)
  output y
})",
                             {{"DTYPE", dtype}});
}

std::map<std::string, int64_t> Sizes(int64_t n, int64_t k, int64_t p) {
  return {{"N", n}, {"K", k}, {"P", p}};
}

Schedule ChosenFor(const std::string& text, std::vector<int64_t> sizes, const char* device = "h200",
                   int alignment_bytes = 16) {
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  EXPECT_TRUE(group.ok()) << group.status();
  const ScheduleContext context{
      .sizes = std::move(sizes), .alignment_bytes = alignment_bytes, .device = *FindDevice(device)};
  const absl::StatusOr<Schedule> s =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  EXPECT_TRUE(s.ok()) << s.status();
  EXPECT_TRUE(CheckSchedule(*s).ok()) << s->ToString();
  return *s;
}

// Images that end inside a CTA's rows, pixels that divide nothing, few rows that CTAs share.
TEST(Neighbours, AsTheHeuristicHasThem) {
  testing::Part part;
  for (const char* dtype : {"bf16", "f16", "f32", "f64"}) {
    for (const int64_t k : {1, 2, 3, 10, 12}) {
      for (const int64_t p : {1, 7, 150}) {
        for (const int64_t n : {1, 3}) {
          if (!part.TakesNext()) continue;
          const GroupResult result = ExpectRight(GroupNorm(dtype, 8), {.sizes = Sizes(n, k, p)});
          if (dtype != std::string("f64")) {
            EXPECT_EQ(result.schedule.neighbours, p > 1 ? k : 1) << result.schedule.ToString();
          }
          ExpectRight(GroupNormBackward(dtype, 8), {.sizes = Sizes(n, k, p)});
        }
      }
    }
  }
  for (const int64_t k : {20, 40}) {
    ExpectRight(GroupNorm("bf16", 32), {.sizes = Sizes(2, k, 64)});
    ExpectRight(GroupNormBackward("bf16", 32), {.sizes = Sizes(2, k, 64)});
  }
}

struct Lay {
  int vector, lanes, warps, side, cluster = 1, split = 1, held = 0;
  bool persistent = true, one_launch = true;
};

GroupRun Laid(const Lay& lay, std::map<std::string, int64_t> sizes) {
  const auto columns = sizes.at("P");
  const auto neighbours = static_cast<int>(sizes.at("K"));
  const auto edit = [=](Schedule& s) {
    s.outer = true;
    s.grid = s.stages = 0;
    s.blocks = s.runs = s.shift = s.async = s.reread = false;
    s.neighbours = neighbours;
    s.vector = lay.vector;
    s.lanes_per_row = lay.lanes;
    s.warps_per_row = lay.warps;
    s.row_warps = lay.side;
    s.cluster = lay.cluster;
    s.split = lay.split;
    s.held = lay.held;
    s.registers = 1;
    s.persistent = lay.persistent;
    while (s.persistent && s.columns_at_once() < columns) ++s.registers;
    s.chan_welford = !s.persistent;
    s.one_launch = lay.one_launch && lay.cluster == 1;
    s.facts.clear();
  };
  return {.sizes = std::move(sizes), .edit = edit};
}

// One warp of each row and many, rows that are kept and that are read again, shared by clusters and
// by CTAs whose states lie in memory.
TEST(Neighbours, HoweverTheyAreShared) {
  testing::Part part;
  for (const Lay& lay :
       {Lay{.vector = 2, .lanes = 16, .warps = 1, .side = 5},
        Lay{.vector = 8, .lanes = 8, .warps = 1, .side = 5},
        Lay{.vector = 4, .lanes = 4, .warps = 3, .side = 5},
        Lay{.vector = 2, .lanes = 32, .warps = 1, .side = 10},
        Lay{.vector = 4, .lanes = 8, .warps = 2, .side = 5, .persistent = false},
        Lay{.vector = 4, .lanes = 8, .warps = 1, .side = 5, .cluster = 4},
        Lay{.vector = 2, .lanes = 32, .warps = 1, .side = 5, .cluster = 16},
        Lay{.vector = 4, .lanes = 8, .warps = 2, .side = 5, .cluster = 2, .persistent = false}}) {
    for (const int64_t p : {1, 45}) {
      for (const char* dtype : {"bf16", "f32"}) {
        if (!part.TakesNext()) continue;
        ExpectRight(GroupNorm(dtype, 8), Laid(lay, Sizes(3, 10, p)));
        ExpectRight(GroupNormBackward(dtype, 8), Laid(lay, Sizes(3, 10, p)));
      }
    }
  }
  for (const int split : {2, 7, 50}) {
    Lay lay = {.vector = 4, .lanes = 8, .warps = 1, .side = 5, .split = split, .persistent = false};
    for (lay.held = 0; lay.held < 3; ++lay.held) {
      if (part.TakesNext()) ExpectRight(GroupNorm("bf16", 8), Laid(lay, Sizes(2, 10, 190)));
    }
    lay.held = 0;
    lay.one_launch = false;
    ExpectRight(GroupNorm("bf16", 8), Laid(lay, Sizes(2, 10, 90)));
  }
}

// What crosses rows nobody in a cluster waits for: each CTA leaves its own state, and only the two
// sums of a group go to the others.
TEST(Neighbours, CtasOfAClusterLeaveTheirOwn) {
  const GroupResult result = ExpectRight(
      GroupNormBackward("f32", 8),
      Laid({.vector = 4, .lanes = 8, .warps = 1, .side = 5, .cluster = 4}, Sizes(3, 10, 45)));
  EXPECT_THAT(result.kernel_text, HasSubstr("buffer partial_0: f32[32*N*K]"));
  const std::vector<std::string> sent = absl::StrSplit(result.kernel_text, "store to CTA");
  EXPECT_EQ(sent.size(), 1 + 3);  // And a sign of life.
}

// A group has its own, and all of its channels have it.
TEST(Neighbours, NaNAndInfinityStayInTheirGroups) {
  for (const int cluster : {1, 4}) {
    for (const bool backward : {false, true}) {
      GroupRun run = Laid({.vector = 4, .lanes = 8, .warps = 2, .side = 5, .cluster = cluster},
                          Sizes(2, 10, 100));
      run.inputs = [](std::vector<HostTensor>& inputs) {
        inputs[0].set({0, 13, 5}, FloatScalar(std::numeric_limits<double>::quiet_NaN()));
        inputs[0].set({1, 40, 70}, FloatScalar(std::numeric_limits<double>::infinity()));
      };
      const GroupResult result =
          ExpectRight(backward ? GroupNormBackward("f32", 8) : GroupNorm("f32", 8), run);
      for (const int64_t c : {9, 10, 19, 20})
        EXPECT_EQ(std::isnan(result.outputs[0].at({0, c, 99}).f), c / 10 == 1) << c;
    }
  }
}

TEST(Neighbours, TheSameBitsInAnyOrderOfCtas) {
  std::vector<HostTensor> first;
  for (const uint64_t order : {1, 2, 3}) {
    GroupRun run = Laid({.vector = 4, .lanes = 8, .warps = 2, .side = 5}, Sizes(3, 10, 77));
    run.order = order;
    GroupResult result = ExpectRight(GroupNormBackward("bf16", 8), run);
    if (first.empty()) first = std::move(result.outputs);
    for (size_t i = 0; i < result.outputs.size(); ++i)
      EXPECT_EQ(result.outputs[i].data, first[i].data) << "output " << i << ", order " << order;
  }
}

TEST(Neighbours, SetsThatNoCtaHasWholeAreRefused) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.outer = true;
  s.vector = 4;
  s.lanes_per_row = 4;
  s.warps_per_row = 2;
  s.neighbours = 10;  // 32 rows.
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("in a CTA all together"));
  s.row_warps = 5;
  EXPECT_TRUE(CheckSchedule(s).ok());
  s.outer = false;
  EXPECT_FALSE(CheckSchedule(s).ok());
}

// The kernel is for so many neighbours alone.
TEST(Neighbours, OthersFailTheGuard) {
  GroupRun run = Laid({.vector = 4, .lanes = 8, .warps = 1, .side = 5}, Sizes(1, 10, 9));
  run.sizes["K"] = 5;
  EXPECT_THAT(testing::RunGroupText(GroupNorm("f32", 8), run).status.ToString(),
              HasSubstr("fail its guard"));
}

TEST(Neighbours, WhatMayBeRows) {
  const auto shape = [](const std::string& body) -> absl::Status {
    const absl::StatusOr<Fusion> group = ParseFusion(
        absl::StrCat("fusion f {\n  symbol N\n  symbol P\n  symbol G\n  symbol K\n  symbol J\n"
                     "  input x: f32[N, P, G, K, J]\n",
                     body, "\n}"));
    if (!group.ok()) return group.status();
    const absl::StatusOr<GroupShape> columns = AnalyzeGroup(*group);
    if (!columns.ok()) return columns.status();
    const absl::StatusOr<GroupShape> rows = NeighboursAsRows(*group, *columns);
    if (!rows.ok()) return rows.status();
    EXPECT_TRUE(rows->outer);
    EXPECT_EQ(rows->merged.size(), 2u);
    EXPECT_EQ(rows->rows.size(), columns->rows.size() + 2);
    EXPECT_FALSE(rows->keeps_columns());
    EXPECT_EQ(rows->crossed(), columns->crossed());
    return absl::OkStatus();
  };
  EXPECT_TRUE(shape("s = sum(x, axes=[1, 3, 4])\n output s").ok());
  EXPECT_TRUE(shape("s = sum(x, axes=[1, 3, 4], keepdims=true)\n y = x - s\n"
                    "w = sum(x, axes=[0, 1])\n output y\n output w")
                  .ok());
  EXPECT_THAT(shape("s = sum(x, axes=[1, 3, 4], keepdims=true)\n y = x - s\n"
                    "w = sum(x, axes=[0, 2, 3, 4])\n output y\n output w")
                  .ToString(),
              HasSubstr("keeps other columns"));
  EXPECT_THAT(shape("s = sum(x, axes=[1, 3, 4], keepdims=true)\n y = x - s\n"
                    "w = sum(x, axes=[0, 2])\n output y\n output w")
                  .ToString(),
              HasSubstr("folds all rows"));
  EXPECT_THAT(shape("s = sum(x, axes=[0, 1])\n output s").ToString(), HasSubstr("none beside"));
  EXPECT_THAT(shape("input h: f32[N, P, G, K]\n s = sum(x + h[:, :, :, :, None], axes=[1, 3, 4])\n"
                    "t = sum(h * 2.0, axes=[1, 3])\n output s\n output t")
                  .ToString(),
              HasSubstr("folds some of them"));
}

TEST(Neighbours, ChosenSchedules) {
  // Images of a diffusion model: sizes N, K, P.
  const Schedule clusters = ChosenFor(GroupNorm("bf16", 32), {16, 10, 4096});
  EXPECT_EQ(clusters.neighbours, 10);
  EXPECT_TRUE(clusters.persistent);
  EXPECT_GT(clusters.cluster, 1);
  EXPECT_EQ(clusters.rows_per_cta() % 10, 0);
  const Schedule alone = ChosenFor(GroupNorm("bf16", 32), {16, 32, 64});
  EXPECT_EQ(alone.neighbours, 32);
  EXPECT_EQ(alone.cluster, 1);
  // Pieces of four lanes where five warps lie side by side: by twice as many CTAs here.
  const Schedule longer = ChosenFor(GroupNorm("bf16", 32), {16, 40, 256});
  EXPECT_EQ(longer.rows_per_cta(), 8 * 4 * 5) << longer.ToString();
  EXPECT_EQ(longer.cluster, 2);
  EXPECT_EQ(ChosenFor(GroupNorm("bf16", 32), {16, 30, 1024}).rows_per_cta(), 8 * 4 * 15);
  // Not at the price of narrower vectors or an SM with few threads.
  const Schedule narrow = ChosenFor(GroupNormBackward("bf16", 32), {16, 10, 4096});
  EXPECT_EQ(narrow.vector, 8);
  EXPECT_EQ(narrow.rows_per_cta(), 8 * 2 * 5) << narrow.ToString();
  EXPECT_TRUE(ChosenFor(GroupNormBackward("bf16", 32), {16, 10, 4096}).persistent);
  // Where states of columns are left, long rows only, and of many warps narrow data.
  EXPECT_EQ(ChosenFor(GroupNormBackward("bf16", 32), {16, 20, 1024}).neighbours, 20);
  // Many warps side by side have twice as long pieces.
  const Schedule seven = ChosenFor(GroupNormBackward("f32", 32), {32, 7, 784});
  EXPECT_EQ(seven.rows_per_cta(), 4 * 4 * 7) << seven.ToString();
  const Schedule fifteen = ChosenFor(GroupNormBackward("f32", 128), {8, 15, 2304});
  EXPECT_EQ(fifteen.rows_per_cta(), 4 * 2 * 15) << fifteen.ToString();
  EXPECT_EQ(ChosenFor(GroupNormBackward("bf16", 32), {16, 8, 64}).neighbours, 1);
  EXPECT_EQ(ChosenFor(GroupNormBackward("bf16", 32), {16, 40, 256}).neighbours, 40);
  EXPECT_EQ(ChosenFor(GroupNormBackward("f32", 32), {16, 20, 1024}).neighbours, 20);
  EXPECT_EQ(ChosenFor(GroupNormBackward("bf16", 32), {16, 60, 256}).neighbours, 1);
  EXPECT_EQ(ChosenFor(GroupNormBackward("f32", 32), {16, 36, 1024}).neighbours, 1);
  // Without clusters rows are read again, and CTAs share them where there are few.
  EXPECT_FALSE(ChosenFor(GroupNorm("bf16", 32), {16, 10, 4096}, "a100").persistent);
  EXPECT_GT(ChosenFor(GroupNorm("bf16", 32), {1, 10, 65536}).split, 1);
  // Vectors do not divide an odd number of channels, nor do a few warps hold 17 together, and long
  // pieces need no others beside them.
  EXPECT_EQ(ChosenFor(GroupNorm("bf16", 3), {16, 3, 4096}).neighbours, 1);
  EXPECT_EQ(ChosenFor(GroupNorm("bf16", 32), {16, 17, 4096}).neighbours, 1);
  EXPECT_EQ(ChosenFor(GroupNorm("bf16", 32), {16, 64, 4096}).neighbours, 1);
  // Single elements of 64 channels are more than a warp has.
  EXPECT_EQ(ChosenFor(Scaled("f8e4m3"), {16, 4096}, "h200", 1).neighbours, 1);
  EXPECT_EQ(ChosenFor(Scaled("f8e4m3"), {16, 4096}, "h200", 16).neighbours, 64);
}

}  // namespace
}  // namespace seam
