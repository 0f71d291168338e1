// Reductions of parts of a row beside those of whole rows: each part's result is right wherever the
// row is used again, and what no kernel does is refused.
#include "scheduler/sections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/alternatives.h"
#include "scheduler/group_shape.h"
#include "scheduler/scheduler.h"
#include "scheduler/schedulers.h"
#include "segmenter/extract.h"
#include "segmenter/segment.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;

// A norm of rows of G sections of K columns, and `body` of r, the result in sections.
std::string Text(const std::string& dtype, int g, int k, const std::string& body,
                 const std::string& rest = "") {
  return absl::StrReplaceAll(absl::StrCat(R"(fusion parts {
  symbol M
  input x: T[M, N]REST
  f = cast(x, dtype=F)
  y = rms_norm(f, axes=[1])
  r = reshape(y, sizes=[M, G, K])
  )",
                                          body, "\n}\n"),
                             {{"dtype=F)", dtype == "f64" ? "dtype=f64)" : "dtype=f32)"},
                              {"T[", absl::StrCat(dtype, "[")},
                              {"REST", rest},
                              {"N]", absl::StrCat(g * k, "]")},
                              {"G,", absl::StrCat(g, ",")},
                              {"K]", absl::StrCat(k, "]")}});
}

constexpr char kScales[] = R"(s = maximum(amax(abs(r), axes=[2]), 1e-8) / 448.0
  q = reshape(cast(r / s[:, :, None], dtype=f8e4m3), sizes=[M, N])
  output q
  output s)";

ScheduleContext ContextOf(int64_t rows) {
  ScheduleContext context;
  context.sizes = {rows};
  context.device = *FindDevice("h200");
  return context;
}

TEST(SectionsTest, RowsOfAnyLengthInSectionsOfAnySize) {
  testing::Part part;
  for (const char* dtype : {"bf16", "f32", "f8e4m3", "f64"}) {
    for (const auto& [g, k] : {std::pair(1, 2),
                               {3, 2},
                               {1, 4},
                               {5, 8},
                               {3, 16},
                               {40, 32},
                               {7, 64},
                               {1, 128},
                               {2, 128},
                               {33, 128},
                               {3, 256},
                               {64, 256},
                               {128, 128}}) {
      if (!part.TakesNext()) continue;
      SCOPED_TRACE(absl::StrCat(dtype, " ", g, " x ", k));
      for (const int64_t m : {1, 6}) {
        if (m * g * k > 40000) continue;
        for (const int alignment : {16, 1})
          ExpectRight(Text(dtype, g, k, kScales),
                      {.sizes = {{"M", m}}, .alignment_bytes = alignment});
      }
    }
  }
}

TEST(SectionsTest, EveryReductionOfASection) {
  const char* bodies[] = {
      "mu, m2, n = welford(r, axes=[2])\n  o = (r - mu[:, :, None]) * rsqrt(m2 / 32.0 + 0.1)[:, :, "
      "None]\n  output o\n  output mu\n  output m2",
      "a = argmax(r, axis=2)\n  o = r * cast(a, dtype=f32)[:, :, None]\n  output o\n  output a",
      "a = amin(r, axes=[2])\n  b = prod(r, axes=[2])\n  o = r - a[:, :, None]\n  output o\n  "
      "output b",
      "p = softmax(r, axis=2)\n  o = cast(p, dtype=f16)\n  output o",
      // The row's once more, of what its sections make of it.
      "s = sum(r * r, axes=[2], keepdims=true)\n  o = softmax(reshape(r / (s + 1.0), sizes=[M, "
      "N]), "
      "axis=1)\n  output o",
      // Sections alone are results.
      "a = amax(r, axes=[2])\n  output a",
      "z = any(r > 2.5, axes=[2])\n  o = where(z[:, :, None], r, 0.0)\n  output o",
  };
  for (const char* body : bodies) {
    for (const int g : {1, 3, 20}) {
      SCOPED_TRACE(body);
      ExpectRight(Text("f16", g, 32, body), {.sizes = {{"M", 5}}});
    }
  }
}

// Values of sections that are given, and of rows and columns beside them.
TEST(SectionsTest, InputsOfSections) {
  const char* body = R"(d = r * given[:, :, None]
  s = sum(d, axes=[2])
  o = reshape(d - s[:, :, None], sizes=[M, N]) * w
  t = s * given
  output o
  output t)";
  for (const int g : {1, 5, 96}) {
    const std::string rest =
        absl::StrCat("\n  input given: f32[M, ", g, "]\n  input w: f32[", 16 * g, "]");
    const std::string text = Text("bf16", g, 16, body, rest);
    for (const int alignment : {16, 1})
      ExpectRight(text, {.sizes = {{"M", 7}}, .alignment_bytes = alignment});
  }
}

// What lies otherwise in memory is slow, and right.
TEST(SectionsTest, SectionsThatAreNoNeighboursInMemory) {
  const std::string text = absl::StrReplaceAll(Text("f32", 6, 32, kScales),
                                               {{"f32[M, 192]", "f32[M, 192] order [1, 0]"}});
  ExpectRight(text, {.sizes = {{"M", 19}}});
}

TEST(SectionsTest, EveryAlternativeIsRight) {
  for (const auto& [g, k] : {std::pair(3, 128), {40, 32}, {2, 4}}) {
    const std::string text = Text("bf16", g, k, kScales);
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status();
    const ScheduleContext context = ContextOf(5);
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const auto alternatives = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(alternatives.ok()) << alternatives.status();
    EXPECT_GT(alternatives->size(), 2u);
    for (const Schedule& s : *alternatives)
      ExpectRight(text, {.sizes = {{"M", 5}}, .edit = [&](Schedule& edited) { edited = s; }});
  }
}

TEST(SectionsTest, ASectionIsFoldedByItsLanesAlone) {
  const testing::GroupResult result =
      ExpectRight(Text("bf16", 32, 128, kScales), {.sizes = {{"M", 3}}});
  EXPECT_EQ(result.schedule.vector, 8) << result.schedule.ToString();
  // 16 lanes: 4 exchanges, of each of a thread's vectors, beside the 5 of the row's sum.
  int exchanges = 0;
  for (size_t at = 0; (at = result.kernel_text.find("shuffle", at)) != std::string::npos; ++at)
    ++exchanges;
  EXPECT_EQ(exchanges, 5 + 4) << result.kernel_text;
}

TEST(SectionsTest, WhatNoKernelDoesIsRefused) {
  const struct {
    int g, k;
    const char* says;
  } cases[] = {
      {3, 96, "a known power of two, up to 256"},
      {4, 512, "a known power of two, up to 256"},
      {256, 128, "16384 columns or fewer"},
  };
  for (const auto& c : cases) {
    const std::string text = Text("bf16", c.g, c.k, kScales);
    const absl::StatusOr<Fusion> fusion = ParseFusion(text);
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*fusion);
    ASSERT_FALSE(shape.ok());
    EXPECT_THAT(std::string(shape.status().message()), ::testing::HasSubstr(c.says));
  }
}

// What lanes have of their section stays with them: others cannot read it.
TEST(SectionsTest, ReadAtOtherColumns) {
  const RealGuard guard;
  for (const char* read : {"flip(n, axes=[1])", "gather(n, at[:, None], axis=1)", "n[:, 3:7]"}) {
    const std::string text = absl::StrCat(
        "fusion elsewhere {\n  symbol M\n  input x: f32[M, 64]\n  input at: i64[M]\n"
        "  p = reshape(x, sizes=[M, 32, 2])\n  mean, m2, count = welford(p, axes=[2])\n"
        "  n = reshape(p - mean[:, :, None], sizes=[M, 64])\n  top = amax(n, axes=[1])\n"
        "  y = ",
        read, " - top[:, None]\n  output y\n}\n");
    SCOPED_TRACE(text);
    const absl::StatusOr<Fusion> fusion = ParseFusion(text);
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const absl::StatusOr<SegmentedFusion> segmented = Segment(*fusion, guard);
    ASSERT_TRUE(segmented.ok()) << segmented.status();
    EXPECT_GT(segmented->groups().size(), 1);
    for (GroupId g : segmented->groups()) {
      const absl::StatusOr<ExtractedGroup> group = ExtractGroup(*segmented, g);
      ASSERT_TRUE(group.ok()) << group.status();
      testing::GroupRun run;
      for (const SymNode* symbol : group->fusion.env().symbols())
        run.sizes[std::string(symbol->name)] = 5;
      const testing::GroupResult result = testing::RunGroup(group->fusion, run);
      EXPECT_TRUE(result.status.ok()) << result.status;
    }
  }
}

}  // namespace
}  // namespace seam
