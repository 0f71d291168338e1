// Pointwise kernels: vectors of rows in memory, divisions once a vector, rows that end inside one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/device.h"
#include "scheduler/scheduler.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

testing::GroupResult RunOne(const std::string& inputs, const std::string& body, int64_t m,
                            int64_t n) {
  const testing::GroupResult result = testing::RunGroupText(
      absl::StrCat("fusion f {\n  symbol M in [0, 100000]\n  symbol N in [0, 100000]\n", inputs,
                   body, "}\n"),
      {.sizes = {{"M", m}, {"N", n}}});
  EXPECT_TRUE(result.status.ok()) << m << " x " << n << body << result.status;
  return result;
}

const char* const kTwo = "  input x: bf16[M, N]\n  input z: bf16[M, N]\n";
const char* const kSum = "  y = x + z\n  output y\n";

TEST(PointwiseKernel, VectorsAreStoredWhole) {
  const testing::GroupResult result = RunOne(kTwo, kSum, 37, 40);
  EXPECT_EQ(result.schedule.vector, 8);
  EXPECT_THAT(result.schedule.facts, IsEmpty());
  EXPECT_THAT(result.kernel_text, ContainsRegex("store y\\[[^\n]* :\\+8\\] = "));
}

// The rows of the last vector, one by one; all sizes around a vector and a CTA.
TEST(PointwiseKernel, RowsThatEndInsideAVector) {
  for (int64_t n : {1, 3, 7, 8, 9, 15, 17, 1023, 1025, 2047, 2049}) {
    const testing::GroupResult result = RunOne(kTwo, kSum, 1, n);
    EXPECT_THAT(result.kernel_text, HasSubstr("else")) << n;
    // The others have no mask of their own.
    EXPECT_THAT(result.kernel_text, Not(ContainsRegex(":\\+8\\] = [^\n]* if "))) << n;
  }
}

TEST(PointwiseKernel, SeveralOutputsAndLookupsThatEndInsideAVector) {
  for (int64_t n : {5, 8, 21}) {
    RunOne("  input x: f16[M, N]\n  input at: i64[M, N]\n  input table: f32[M]\n",
           "  t = index_select(table, reshape(at, sizes=[M*N]), axis=0)\n"
           "  y = cast(x, dtype=f32) + reshape(t, sizes=[M, N])\n  z = abs(x)\n"
           "  output y\n  output z\n",
           3, n);
  }
}

const char* const kRowAndColumn = "  input x: bf16[M, N]\n  input a: f32[M]\n  input b: bf16[N]\n";
const char* const kScaled =
    "  y = cast(cast(x + b, dtype=f32) * a[:, None], dtype=bf16)\n"
    "  output y\n";

TEST(PointwiseKernel, VectorsThatDivideRowsDivideOnce) {
  const testing::GroupResult result = RunOne(kRowAndColumn, kScaled, 100, 48);
  EXPECT_THAT(result.schedule.facts, ElementsAre(SymbolFact{"N", 8, -1}));
  // A vector of `b`, one element of `a`.
  EXPECT_THAT(result.kernel_text, ContainsRegex("load b\\[[^\n]* :\\+8\\]"));
  EXPECT_THAT(result.kernel_text, ContainsRegex("\\[0\\] = load a\\["));
}

TEST(PointwiseKernel, OthersDivideByConstantsIfTheyAreLarge) {
  const std::string text =
      absl::StrCat("fusion f {\n  symbol M\n  symbol N\n", kRowAndColumn, kScaled, "}\n");
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  for (int64_t n : {12, 47, 50}) {
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kPointwise)
            ->choose(*group, {.sizes = {100000, n}, .device = *FindDevice("h200")});
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_THAT(s->facts, ElementsAre(SymbolFact{"N", 1, n})) << n;
    EXPECT_THAT(RunOne(kRowAndColumn, kScaled, 100, n).schedule.facts, IsEmpty()) << n;
    // The same kernel at a size that the simulator can take.
    const testing::GroupResult small = testing::RunGroupText(
        text, {.sizes = {{"M", 100}, {"N", n}}, .edit = [&](Schedule& t) { t.facts = s->facts; }});
    EXPECT_TRUE(small.status.ok()) << small.status;
  }
}

// As many facts as it takes: the batch is free, and so are extents that divisions do not meet.
TEST(PointwiseKernel, NoMoreFactsThanDivisionsNeed) {
  const std::string text =
      "fusion f {\n  symbol B\n  symbol C\n  symbol H\n  symbol W\n  input x: f16[B, C, H, W]\n"
      "  input s: f32[C]\n  y = cast(x, dtype=f32) * s[:, None, None]\n  output y\n}\n";
  const auto facts = [&](int64_t c, int64_t h, int64_t w) {
    const testing::GroupResult result =
        testing::RunGroupText(text, {.sizes = {{"B", 2}, {"C", c}, {"H", h}, {"W", w}}});
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.schedule.facts;
  };
  EXPECT_EQ(facts(3, 8, 5).size(), 1);
  EXPECT_EQ(facts(3, 5, 8).size(), 1);
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<Schedule> s =
      FindScheduler(SchedulerKind::kPointwise)
          ->choose(*group, {.sizes = {64, 256, 7, 7}, .device = *FindDevice("h200")});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_FALSE(s->facts.empty());
  for (const SymbolFact& fact : s->facts) EXPECT_NE(fact.symbol, "B");
}

// Both halves of a concatenation and what was cut out of rows are vectors: nothing that a multiple
// does not reach is compared.
TEST(PointwiseKernel, HalvesAreVectors) {
  const testing::GroupResult result = RunOne("  input x: f32[M, 8*N]\n  input z: f32[M, 8*N]\n",
                                             "  y = cat(x, z, axis=1)\n  output y\n", 5, 3);
  EXPECT_THAT(result.kernel_text, ContainsRegex("load x\\[[^\n]* :\\+4\\]"));
  EXPECT_THAT(result.kernel_text, ContainsRegex("load z\\[[^\n]* :\\+4\\]"));
}

// What both halves need of a tensor is one load, whose place depends on the half.
TEST(PointwiseKernel, HalvesLoadOnce) {
  const testing::GroupResult result = RunOne("  input x: f32[M, 16*N]\n  input c: f32[8*N]\n",
                                             "  a = x[:, 0:8*N]\n  b = x[:, 8*N:16*N]\n  y = cat(a "
                                             "* c - b, b * c + a, axis=1)\n  output y\n",
                                             3, 2);
  const auto count = [&](const std::string& what) {
    size_t n = 0;
    for (size_t at = 0; (at = result.kernel_text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("= load x["), 2 * count("= load c[")) << result.kernel_text;
  EXPECT_THAT(result.kernel_text, ContainsRegex("load x\\[[^\n]* :\\+4\\]"));
  EXPECT_THAT(result.kernel_text, ContainsRegex("load c\\[[^\n]* :\\+4\\]"));
}

// Three parts, one of them empty at times, of which two read the same tensor at places that move
// against each other: these stay apart.
TEST(PointwiseKernel, PartsOfAnyKind) {
  for (int64_t n : {1, 5, 16}) {
    for (int64_t m : {1, 4}) {
      RunOne("  input x: f16[M, N]\n  input z: f16[M, N]\n",
             "  y = cat(x, flip(x, axes=[1]), z, x[:, 1:N], axis=1)\n  output y\n", m, n);
      RunOne("  input x: f16[M, N]\n", "  y = cat(x, x * x, x + x, axis=0)\n  output y\n", m, n);
    }
  }
}

const char* const kProduct =
    "fusion f {\n  symbol M\n  symbol N\n  input x: bf16[N, M]\n  input z: bf16[M, N]\n"
    "  y = permute(x, axes=[1, 0]) * z\n  output y\n}";

Schedule ScheduleOf(const std::string& text, int64_t m, int64_t n) {
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  EXPECT_TRUE(group.ok()) << group.status();
  const ScheduleContext context{.sizes = {m, n}, .device = *FindDevice("h200")};
  const absl::StatusOr<LaunchPlan> plan = ScheduleGroup(*group, SchedulerKind::kPointwise, context);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan->schedule;
}

Schedule ScheduleOfProduct(int64_t m, int64_t n) { return ScheduleOf(kProduct, m, n); }

// What begins anywhere, has masks of its own or is looked up one by one, four elements to a thread.
TEST(PointwiseKernel, SingleElementsOfPoints) {
  for (const char* body :
       {"  input x: bf16[M, N + 1]\n  y = x[:, 1:]\n",
        "  input x: bf16[M, N]\n  input z: bf16[M, 13]\n  y = cat(x, z, axis=1)\n",
        "  input x: f32[M, N + 1]\n  y = x[:, 1:] - x[:, :N]\n",
        "  input x: f16[M, N]\n  y = pad(x, before=[0, 1], after=[0, 2])\n",
        "  input x: u8[M, N]\n  input i: i32[M, N]\n  y = gather(x, i, axis=1)\n",
        "  input x: f32[M, N]\n  input i: i64[N]\n  y = index_select(x, i, axis=1)\n"}) {
    SCOPED_TRACE(body);
    const std::string text = absl::StrCat("fusion f {\n  symbol M in [1, 65536]\n",
                                          "  symbol N in [1, 65536]\n", body, "  output y\n}\n");
    const Schedule s = ScheduleOf(text, 8192, 4096);
    EXPECT_GE(s.vector * s.points, 4);  // Where there are as many, points along memory.
    EXPECT_EQ(ScheduleOf(text, 64, 64).vector, 1);
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {3, 41}, {7, 136}}) {
      const testing::GroupResult result = testing::RunGroupText(
          text, {.sizes = {{"M", m}, {"N", n}}, .edit = [](Schedule& s) { s.vector = 4; }});
      EXPECT_TRUE(result.status.ok()) << m << " x " << n << ": " << result.status;
    }
  }
}

// Rows that are looked up whole are the kernel's rows, and lie in vectors.
TEST(PointwiseKernel, RowsThatAreLookedUp) {
  const auto text = [](const char* body) {
    return absl::StrCat("fusion f {\n  symbol M in [0, 65536]\n  symbol N in [1, 65536]\n",
                        "  input w: bf16[100, N]\n  input i: i32[M]\n",
                        "  e = index_select(w, i, axis=0)\n", body, "  output y\n}\n");
  };
  const std::string rows[] = {text("  y = e\n"), text("  input z: bf16[M, N]\n  y = e + z\n"),
                              text("  input v: f32[7, N]\n  input k: i64[M]\n"
                                   "  y = cast(e, dtype=f32) * index_select(v, k, axis=0)\n")};
  for (const std::string& graph : rows) {
    SCOPED_TRACE(graph);
    const Schedule s = ScheduleOf(graph, 8192, 4096);
    EXPECT_FALSE(s.outer);
    EXPECT_GE(s.vector, 4);
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{0, 8}, {1, 1}, {5, 41}, {9, 2056}}) {
      const testing::GroupResult result =
          testing::RunGroupText(graph, {.sizes = {{"M", m}, {"N", n}}});
      EXPECT_TRUE(result.status.ok()) << m << " x " << n << ": " << result.status;
    }
  }
  // Parts of rows, for heads that share them, are not.
  const std::string heads = text("  input x: bf16[M, 8, N]\n  y = x * broadcast(e, axes=[1])\n");
  EXPECT_TRUE(ScheduleOf(heads, 1024, 128).outer);
}

// x is read in vectors along the rows of y, z in vectors along its columns, and nothing is
// exchanged.
TEST(PointwiseKernel, TensorsThatLieAcrossEachOtherAreMovedInVectors) {
  const auto edit = [](Schedule& s) {
    ASSERT_TRUE(s.tiles);
    s.vector = s.registers = 8;
    s.facts = {{"M", 8}, {"N", 8}};
  };
  const testing::GroupResult result =
      testing::RunGroupText(kProduct, {.sizes = {{"M", 72}, {"N", 136}}, .edit = edit});
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.kernel_text, ContainsRegex("load x\\[[^\n]* :\\+8\\]"));
  EXPECT_THAT(result.kernel_text, ContainsRegex("load z\\[[^\n]* :\\+8\\]"));
  EXPECT_THAT(result.kernel_text, ContainsRegex("store y\\[[^\n]* :\\+8\\]"));
  EXPECT_THAT(result.kernel_text, Not(HasSubstr("shared")));
}

// Vectors along the axis that has them; element by element along one that is odd.
TEST(PointwiseKernel, TilesWithAnOddSide) {
  const auto tile = [](int64_t m, int64_t n) {
    const Schedule s = ScheduleOfProduct(m, n);
    EXPECT_TRUE(s.tiles);
    return std::pair(s.vector, s.registers);
  };
  EXPECT_EQ(tile(4096, 4104), std::pair(8, 8));
  EXPECT_EQ(tile(4100, 4108), std::pair(4, 4));
  EXPECT_EQ(tile(4097, 4104), std::pair(1, 8));
  EXPECT_EQ(tile(4104, 4097), std::pair(8, 1));
  EXPECT_EQ(tile(4097, 4099), std::pair(1, 1));
}

// Sides around a vector and a CTA's tile.
TEST(PointwiseKernel, TilesThatEndAnywhere) {
  for (int64_t m : {1, 8, 120, 136}) {
    for (int64_t n : {1, 8, 24, 127, 136}) {
      RunOne("  input x: bf16[N, M]\n  input z: f32[M, N]\n",
             "  y = cast(permute(x, axes=[1, 0]), dtype=f32) + z\n  output y\n", m, n);
    }
  }
}

// No more rows to a CTA than there are, and no wider tiles than give every SM a CTA.
TEST(PointwiseKernel, TilesOfFewRowsAndOfSmallProblems) {
  for (int64_t m : {1, 3, 8, 20}) {
    const Schedule s = ScheduleOfProduct(m, 1 << 20);
    EXPECT_TRUE(s.tiles);
    EXPECT_LT(s.rows_per_cta(), 2 * m + 1) << s.ToString();
  }
  for (int64_t m : {512, 1024, 2048}) {
    const Schedule s = ScheduleOfProduct(m, m);
    EXPECT_GE((m + s.rows_per_cta() - 1) / s.rows_per_cta() * s.split, 132) << s.ToString();
  }
  EXPECT_EQ(ScheduleOfProduct(8192, 8192).vector, 8);
}

// Of tensors along three axes a tile has vectors of two.
TEST(PointwiseKernel, ThreeWaysToLieMakeNoTiles) {
  const testing::GroupResult result =
      RunOne("  input x: f32[5, N, M]\n  input z: f32[M, N, 5]\n  input u: f32[N, 5, M]\n",
             "  y = x + permute(z, axes=[2, 1, 0]) + permute(u, axes=[1, 0, 2])\n"
             "  w = permute(y, axes=[1, 2, 0])\n  t = permute(y, axes=[2, 0, 1])\n"
             "  output w\n  output t\n  output y\n",
             8, 12);
  EXPECT_FALSE(result.schedule.tiles);
}

// Rows of odd length beside a small tensor that lies across: nothing is gained.
TEST(PointwiseKernel, SmallTensorsMakeNoTiles) {
  const testing::GroupResult result =
      RunOne("  input x: f32[5, M, N]\n  input w: f32[N, M]\n",
             "  y = x * permute(w, axes=[1, 0])\n  output y\n", 33, 35);
  EXPECT_FALSE(result.schedule.tiles);
}

// What is computed of a tensor, a cast at the least, and read where it lies and turned.
TEST(PointwiseKernel, WhatIsComputedAndTurnedIsMovedInTiles) {
  const char* bodies[] = {
      "  f = cast(x, dtype=f32)\n  y = cast(f + permute(f, axes=[0, 2, 1]), dtype=bf16)\n",
      "  f = 0.5 * cast(x, dtype=f32) + 1.0\n  y = cast(f * permute(f, axes=[0, 2, 1]), "
      "dtype=f16)\n",
      "  input z: f32[M, N, N]\n  f = cast(x, dtype=f32) * z\n  y = f - permute(f, axes=[0, 2, "
      "1])\n",
  };
  for (const char* body : bodies) {
    const std::string graph =
        absl::StrCat("fusion turned {\n  symbol M\n  symbol N\n  input x: bf16[M, N, N]\n", body,
                     "  output y\n}\n");
    SCOPED_TRACE(graph);
    EXPECT_TRUE(ScheduleOf(graph, 16, 1024).tiles);
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 8}, {2, 77}, {1, 136}}) {
      const testing::GroupResult result =
          testing::RunGroupText(graph, {.sizes = {{"M", m}, {"N", n}}});
      EXPECT_TRUE(result.status.ok()) << m << " x " << n << ": " << result.status;
    }
  }
}

}  // namespace
}  // namespace seam
