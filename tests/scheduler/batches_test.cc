// Reductions across the rows of each batch: the gradients of a scale for each image beside a norm
// of its rows, or of weights for each head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/alternatives.h"
#include "scheduler/choose.h"
#include "scheduler/group_shape.h"
#include "scheduler/scheduler.h"
#include "scheduler/schedulers.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;

// A norm's backward pass; sums over axis `folded` of rows [A, B], and what `rest` adds.
std::string Text(int folded, const std::string& rest = "", const std::string& dtype = "bf16") {
  return absl::StrReplaceAll(absl::StrCat(R"(fusion batches {
  symbol A
  symbol B
  symbol N
  input grad: T[A, B, N]
  input x: T[A, B, N]
  g = cast(grad, dtype=f32)
  f = cast(x, dtype=f32)
  y = f * rsqrt(mean(f * f, axes=[2]) + 1e-5)[:, :, None]
  c = mean(g * y, axes=[2])
  dx = cast(g - y * c[:, :, None], dtype=T)
  dscale = sum(g * y, axes=[FOLDED])
  dshift = sum(g, axes=[FOLDED])
  output dx
  output dscale
  output dshift
)",
                                          rest, "}\n"),
                             {{"T[", absl::StrCat(dtype, "[")},
                              {"=T)", absl::StrCat("=", dtype, ")")},
                              {"FOLDED", absl::StrCat(folded)}});
}

TEST(Batches, OfSlowRowsAndOfFastOnes) {
  testing::Part part;
  for (const int folded : {0, 1}) {
    for (const char* dtype : {"bf16", "f32"}) {
      for (const int64_t a : {1, 3, 16}) {
        for (const int64_t b : {1, 5, 24}) {
          for (const int64_t n : {1, 33, 64, 1000}) {
            if (!part.TakesNext()) continue;
            ExpectRight(Text(folded, "", dtype), {.sizes = {{"A", a}, {"B", b}, {"N", n}}});
          }
        }
      }
    }
  }
}

// Short rows, as many a batch as no number of threads divides: the last set of each batch is not
// full, and what lies behind it is another batch's.
TEST(Batches, OfAnyNumberOfRows) {
  testing::Part part;
  for (const int folded : {0, 1}) {
    for (const int64_t rows : {2, 7, 31, 197, 1025}) {
      for (const int64_t n : {2, 16, 65, 128}) {
        if (!part.TakesNext()) continue;
        const int64_t a = folded == 0 ? rows : 3, b = folded == 0 ? 3 : rows;
        ExpectRight(Text(folded), {.sizes = {{"A", a}, {"B", b}, {"N", n}}});
      }
    }
  }
}

// They get no more lanes a row than they have vectors for that.
TEST(Batches, OfAnyNumberOfRowsKeepTheirLanes) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion short {
  symbol A
  symbol B
  input x: bf16[A, B, 16]
  p = softmax(cast(x, dtype=f32), axes=[2])
  m = sum(p, axes=[1])
  output m
})");
  ASSERT_TRUE(group.ok()) << group.status();
  for (const int64_t b : {197, 1024, 2049}) {
    const ScheduleContext context{.sizes = {4096, b}, .device = *FindDevice("h100")};
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_LE(s->lanes_per_row * s->warps_per_row, 2) << b << ": " << s->ToString();
    EXPECT_LT(CeilDivide(b, s->rows_per_cta()) * s->rows_per_cta(), b + b / 6) << s->ToString();
  }
}

// What is loaded once a row comes a turn ahead, but not for the rows of the next batch.
TEST(Batches, LoadNothingForTheNextBatch) {
  ExpectRight(R"(fusion ahead {
  symbol A
  symbol B
  symbol N
  input x: f16[A, B, N]
  input w: f32[A]
  f = cast(x, dtype=f32)
  y = f * rsqrt(mean(f * f, axes=[2], keepdims=true) + 0.01) * w[:, None, None]
  s = sum(y, axes=[0])
  v = variance(y, axes=[0])
  output s
  output v
})",
              {.sizes = {{"A", 12}, {"B", 5}, {"N", 64}}});
}

TEST(Batches, EmptyAxesAndMisalignedBases) {
  for (const int folded : {0, 1}) {
    ExpectRight(Text(folded), {.sizes = {{"A", 0}, {"B", 4}, {"N", 8}}});
    ExpectRight(Text(folded), {.sizes = {{"A", 4}, {"B", 0}, {"N", 8}}});
    ExpectRight(Text(folded), {.sizes = {{"A", 3}, {"B", 4}, {"N", 0}}});
    ExpectRight(Text(folded), {.sizes = {{"A", 3}, {"B", 8}, {"N", 72}}, .alignment_bytes = 2});
  }
}

// Sums of all rows, of a batch's columns, of each row and of everything beside them.
TEST(Batches, BesideOtherReductions) {
  const char* const rests[] = {
      "  dw = sum(g * y, axes=[0, 1])\n  output dw\n",
      "  s = sum(g)\n  output s\n",
      "  r = sum(g * g, axes=[2])\n  output r\n",
      "  w, m2, n = welford(f, axes=[FOLDED])\n  output w\n  output m2\n",
      "  half = cast(dscale * 0.5, dtype=f16)\n  output half\n",
  };
  for (const char* rest : rests) {
    for (const int folded : {0, 1}) {
      SCOPED_TRACE(absl::StrCat(rest, folded));
      for (const int64_t b : {7, 16})
        ExpectRight(Text(folded, rest), {.sizes = {{"A", 5}, {"B", b}, {"N", 40}}});
    }
  }
}

// Rows that no CTA holds: states lie in memory.
TEST(Batches, LongRows) {
  testing::Part part;
  for (const int folded : {0, 1}) {
    if (part.TakesNext())
      ExpectRight(Text(folded, "", "f32"), {.sizes = {{"A", 2}, {"B", 3}, {"N", 40000}}});
  }
}

TEST(Batches, EveryAlternativeIsRight) {
  for (const int folded : {0, 1}) {
    const std::string text = Text(folded);
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {4, 12, 64}, .device = *FindDevice("h200")};
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const auto alternatives = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(alternatives.ok()) << alternatives.status();
    EXPECT_GT(alternatives->size(), 4u);
    testing::Part part;
    for (const Schedule& s : *alternatives) {
      if (!part.TakesNext()) continue;
      ExpectRight(text, {.sizes = {{"A", 4}, {"B", 12}, {"N", 64}},
                         .edit = [&](Schedule& edited) { edited = s; }});
    }
  }
}

// CTAs enough for the machine, whatever the batches.
TEST(Batches, FillTheMachine) {
  const absl::StatusOr<Fusion> group = ParseFusion(Text(1));
  ASSERT_TRUE(group.ok()) << group.status();
  for (const int64_t batches : {1, 16, 100, 1000}) {
    const ScheduleContext context{.sizes = {batches, 65536 / batches, 1152},
                                  .device = *FindDevice("h200")};
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->vector, 8) << s->ToString();
    const int64_t ctas = s->grid * batches, resident = ResidentCtas(*s, context.device);
    const int64_t waves = (ctas + resident - 1) / resident;
    EXPECT_GE(ctas * 10, waves * resident * 7) << batches << ": " << s->ToString();
  }
}

// Where every SM has several batches none of a few rows leaves states of several CTAs, and threads
// load short rows that lie apart, of one input in few lanes.
TEST(Batches, OfFewRowsAndOfShortOnes) {
  const auto chosen = [](const std::string& text, std::vector<int64_t> sizes) {
    const ScheduleContext context{.sizes = std::move(sizes), .device = *FindDevice("h100")};
    return *FindScheduler(SchedulerKind::kReduction)->choose(*ParseFusion(text), context);
  };
  EXPECT_EQ(chosen(Text(1), {512, 48, 1024}).grid, 1);
  EXPECT_GT(chosen(Text(1), {16, 1536, 1024}).grid, 1);
  const auto mean = [](const std::string& dtype) {
    return absl::StrReplaceAll(R"(fusion mean {
  symbol M
  symbol H
  symbol K
  input s: T[M, H, K]
  e = exp(cast(s, dtype=f32))
  p = e / sum(e, axes=[2], keepdims=true)
  m = mean(p, axes=[0])
  output m
})",
                               {{"T[", absl::StrCat(dtype, "[")}});
  };
  for (const int64_t k : {80, 128, 256, 320, 512}) {
    const Schedule s = chosen(mean("bf16"), {65536, 2, k});
    EXPECT_EQ(s.stages, 0) << s.ToString();
    EXPECT_GE(s.registers, 4) << s.ToString();
    EXPECT_LE(s.registers, 5) << s.ToString();
    EXPECT_EQ(s.threads(), 128) << s.ToString();
  }
  const Schedule wide = chosen(mean("f32"), {65536, 2, 256});
  EXPECT_EQ(wide.registers, 2) << wide.ToString();
  for (const char* dtype : {"bf16", "f32"}) {
    for (const int64_t k : {40, 320})
      ExpectRight(mean(dtype), {.sizes = {{"M", 18}, {"H", 2}, {"K", k}}});
  }
}

// Other schedules of batches share them by the same rule.
TEST(Batches, AlternativesServeTheirSizes) {
  const absl::StatusOr<Fusion> group = ParseFusion(Text(0));
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext context{.sizes = {8, 6924, 2304}, .device = *FindDevice("h100")};
  const absl::StatusOr<Schedule> chosen =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  const auto alternatives = Alternatives(*group, *chosen, context);
  ASSERT_TRUE(alternatives.ok()) << alternatives.status();
  EXPECT_GT(alternatives->size(), 10u);
  for (const Schedule& s : *alternatives) {
    EXPECT_EQ(8 % s.rows_per_cta(), 0) << s.ToString();
    EXPECT_LE(s.grid, 2 * s.cluster) << s.ToString();
  }
}

// A thread by itself would add up one row's values after the other, with every rounding's error.
TEST(Batches, SharedStatesOfAllBatches) {
  const std::string text = R"(fusion g {
  symbol A
  symbol B
  symbol C
  symbol N
  input x: f32[A, C, B, N]
  y = x * rsqrt(mean(x * x, axes=[3], keepdims=true) + 0.01)
  mean, m2, count = welford(y, axes=[0, 1, 2])
  most = amax(y, axes=[1])
  output mean
  output m2
  output most
})";
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<Schedule> s =
      FindScheduler(SchedulerKind::kReduction)
          ->choose(*group, {.sizes = {7, 49, 1, 128}, .device = Devices()[0]});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_GE(s->whole_lanes, 4) << s->ToString();
  ExpectRight(text, {.sizes = {{"A", 7}, {"B", 49}, {"C", 1}, {"N", 128}}});
}

// Beside sums over all of a batch, of which each CTA leaves a state, one that keeps some columns,
// of which each row does: many threads merge these.
TEST(Batches, StatesOfRowsBesideThoseOfCtas) {
  const std::string text = R"(fusion moments {
  symbol A
  symbol B
  input x: f32[A, B, 4]
  s = sigmoid(sum(x, axes=[2], keepdims=true))
  p = s[..., None] * x[:, :, :, None] * x[:, :, None, :]
  m = sum(p, axes=[1, 2])
  c = sum(p, axes=[1])
  output m
  output c
})";
  for (const int64_t b : {1, 7, 300}) ExpectRight(text, {.sizes = {{"A", 3}, {"B", b}}});
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<LaunchPlan> plan = ScheduleGroup(
      *group, SchedulerKind::kReduction, {.sizes = {8192, 128}, .device = *FindDevice("h200")});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->launches.size(), 3) << plan->schedule.ToString();
  EXPECT_GT(plan->launches[1].kernel.SharedBytes(), 0);
  EXPECT_EQ(plan->launches[2].kernel.SharedBytes(), 0);
}

// What keeps all of its own columns leaves a state of each CTA, also where others have more
// columns: a weighted mean beside the products of all pairs.
TEST(Batches, FewerColumnsBesideMore) {
  const std::string text = R"(fusion moments {
  symbol A
  symbol B
  input x: f32[A, B, 4]
  s = sigmoid(sum(x, axes=[2], keepdims=true))
  m = sum(s * x, axes=[1])
  c = sum(s[..., None] * x[:, :, :, None] * x[:, :, None, :], axes=[1])
  output m
  output c
})";
  for (const int64_t b : {0, 1, 7, 300}) ExpectRight(text, {.sizes = {{"A", 3}, {"B", b}}});
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_FALSE(shape->keeps_columns());
  EXPECT_EQ(absl::c_count(shape->crosses, Crossing::kRows), 2);
}

// But where batches would differ each row leaves states of the narrower one.
TEST(Batches, OfTwoKindsBesideEachOther) {
  const std::string text = R"(fusion two_kinds {
  symbol B
  symbol N
  input x: f32[B, 4, N, 8]
  y = x / (sum(x * x, axes=[3], keepdims=true) + 1.0)
  p = y[..., None] * x[..., None, :]
  s = sum(x, axes=[0])
  t = sum(p, axes=[0, 2])
  output s
  output t
})";
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(absl::c_count(shape->crosses, Crossing::kSomeColumns), 1);
  for (const int64_t b : {1, 3}) ExpectRight(text, {.sizes = {{"B", b}, {"N", 5}}});
}

TEST(Batches, TwoKindsAreRefused) {
  const absl::StatusOr<Fusion> group =
      ParseFusion(Text(1, "  other = sum(g, axes=[0])\n  output other\n"));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_THAT(AnalyzeGroup(*group).status().ToString(), ::testing::HasSubstr("keeps other axes"));
}

}  // namespace
}  // namespace seam
