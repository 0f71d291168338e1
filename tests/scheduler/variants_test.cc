// Schedules with other values in named fields: all combinations, each one that lowers to a right
// kernel, and clear words for a field that there is not.
#include "scheduler/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/parser.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"

namespace seam {
namespace {

using testing::ExpectRight;
using ::testing::HasSubstr;
using testing::NormBackward;

class VariantsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<Schedule>> Of(absl::string_view fields) {
    return Variants(group_, chosen_, context_, fields);
  }
  std::string ErrorOf(absl::string_view fields) {
    return std::string(Of(fields).status().message());
  }

  Fusion group_ = *ParseFusion(NormBackward("bf16"));
  ScheduleContext context_{.sizes = {3000, 4096}, .device = Devices()[0]};
  Schedule chosen_ = *FindScheduler(SchedulerKind::kReduction)->choose(group_, context_);
};

TEST_F(VariantsTest, AllCombinationsButTheChosenOne) {
  ASSERT_EQ(Of("")->size(), 0);
  ASSERT_GT(chosen_.stages, 0);
  const std::vector<Schedule> variants = *Of("registers=1,2,4  stages=2,3 pace=0,1");
  EXPECT_GE(variants.size(), 11);
  for (const Schedule& s : variants) {
    EXPECT_TRUE(CheckSchedule(s).ok()) << s.ToString();
    EXPECT_GE(s.columns_at_once(), 4096) << s.ToString();
    EXPECT_NE(s, chosen_);
  }
}

TEST_F(VariantsTest, ListsOfTheirOwn) {
  const std::vector<Schedule> both = *Of("registers=1 pace=0,1; stages=2 registers=4;stages=1");
  std::vector<Schedule> apart = *Of("registers=1 pace=0,1");
  for (const char* more : {"stages=2 registers=4", "stages=1"}) {
    const std::vector<Schedule> list = *Of(more);
    apart.insert(apart.end(), list.begin(), list.end());
  }
  EXPECT_GE(apart.size(), 3);
  EXPECT_EQ(both, apart);
}

// What follows: threads from a cluster, the grid from CTAs an SM, a constant from the size.
TEST_F(VariantsTest, WhatFollows) {
  const std::vector<Schedule> one = *Of("cluster=2 registers=2 min_ctas_per_sm=2 constant=1");
  ASSERT_EQ(one.size(), 1);
  EXPECT_EQ(one[0].threads() * one[0].registers * one[0].vector * 2, 4096);
  EXPECT_EQ(one[0].grid, 2 * CtasInClusters(context_.device, 2));
  EXPECT_FALSE(one[0].one_launch);
  EXPECT_EQ(one[0].facts.back(), (SymbolFact{"N", 1, 4096}));
  EXPECT_EQ(Of("grid=7")->at(0).grid, 7);
  const Schedule roomy = Of("registers=4 thread_registers=200")->at(0);
  EXPECT_EQ(roomy.min_ctas_per_sm, 65536 / (roomy.threads() * 200));
  EXPECT_EQ(roomy.grid, roomy.min_ctas_per_sm * CtasInClusters(context_.device, 1));
  chosen_.row_warps = 2;  // Neither set nor following from what is set.
  EXPECT_EQ(Of("registers=1 lanes_per_row=32 warps_per_row=2")->at(0).row_warps, 2);
  EXPECT_EQ(Of("cluster=3")->size(), 0);  // No power of two.
  EXPECT_EQ(Of("vector=0 lanes_per_row=0,-1 shift=1")->size(), 0);
}

TEST_F(VariantsTest, AreRight) {
  context_.sizes = {300, 200};
  chosen_ = *FindScheduler(SchedulerKind::kReduction)->choose(group_, context_);
  const std::vector<Schedule> variants = *Of("registers=1,2 stages=2,3 reread=0,1 pace=0,2 grid=3");
  EXPECT_EQ(variants.size(), 16);
  for (const Schedule& variant : variants) {
    ExpectRight(NormBackward("bf16"),
                {.sizes = {{"M", 17}, {"N", 200}}, .edit = [&](Schedule& s) { s = variant; }});
  }
}

// As docs/schedulers/clusters.md has them, for rows of which a stage holds one.
TEST_F(VariantsTest, RowsInSlices) {
  group_ = *ParseFusion(R"(fusion rms_norm_backward {
  symbol M
  symbol N
  input x: f32[M, N]
  input grad: f32[M, N]
  input w: f32[N]
  input rstd: f32[M]
  dx, dw = rms_norm_backward(grad, x, rstd, w, axes=[1])
  output dx
  output dw
})");
  context_.sizes = {1024, 262144};
  chosen_ = *FindScheduler(SchedulerKind::kReduction)->choose(group_, context_);
  const std::vector<Schedule> variants = *Of("slices=1,4,8 spare=0,2,5 settled=0,1");
  EXPECT_EQ(variants.size(), 11);  // Of 1, 2 and 3 numbers to spare, but for the chosen one.
  for (const Schedule& s : variants) {
    EXPECT_EQ(s.stages, 1) << s.ToString();
    EXPECT_TRUE(FindScheduler(SchedulerKind::kReduction)->lower(group_, s).ok()) << s.ToString();
  }
}

TEST_F(VariantsTest, SaysWhatItDoesNotKnow) {
  EXPECT_THAT(ErrorOf("warps=2"), HasSubstr("no field warps to vary; there are vector, outer, "));
  EXPECT_THAT(ErrorOf("stages=2,x"), HasSubstr("stages=2,x: no integer \"x\""));
  EXPECT_THAT(ErrorOf("stages"), HasSubstr("no integer"));
  chosen_.outer = true;
  EXPECT_THAT(ErrorOf("stages=2"), HasSubstr("variants are of reductions along rows"));
}

}  // namespace
}  // namespace seam
