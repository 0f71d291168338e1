// What persistent rows keep between passes: which values, and that kernels with them are right.
#include "scheduler/kernel/hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/trace.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using kernel::ChooseHolds;
using kernel::Holds;
using kernel::PrintHolds;
using testing::GroupResult;
using testing::GroupRun;
using testing::RunGroupText;

struct Kept {
  std::string text;
  double words;
};

// With all rows in registers, `points` of them a thread.
Kept KeptOf(const std::string& text, int points) {
  const absl::StatusOr<Fusion> fusion = ParseFusion(text);
  EXPECT_TRUE(fusion.ok()) << fusion.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*fusion);
  EXPECT_TRUE(shape.ok()) << shape.status();
  const absl::StatusOr<TracedKernel> traced = Trace(*fusion, *shape, {});
  EXPECT_TRUE(traced.ok()) << traced.status();
  const std::vector<bool> resident(traced->tile.spaces.size(), true);
  const Holds holds = ChooseHolds(traced->tile, resident, kernel::HoldLimits(points));
  return {PrintHolds(traced->tile, holds), holds.words};
}

std::string Rows(const std::string& dtype, const std::string& body) {
  return absl::StrCat("fusion rows {\n symbol M\n symbol N\n input x: ", dtype, "[M, N]\n", body,
                      "}");
}

constexpr char kSoftmax[] = " y = softmax(x, axis=1)\n output y\n";
constexpr char kLayerNorm[] =
    " input w: f32[N]\n y, mean, rstd = layer_norm(x, w, axes=[1], eps=1e-5)\n output y\n";
// Random numbers, a sum that is returned rounded, and statistics of the unrounded one.
constexpr char kDropout[] = R"( input r: bf16[M, N]
 input seed: i64[]
 keep = random_uniform(seed, seed, sizes=[M, N], dtype=f32) >= 0.25
 s = cast(r, dtype=f32) + where(keep, cast(x, dtype=f32) / 0.75, 0.0)
 sum_out = cast(s, dtype=bf16)
 output sum_out
 mean, m2, count = welford(s, axes=[1])
 y = cast((s - mean[:, None]) * rsqrt(m2[:, None] + 1e-5), dtype=bf16)
 output y
)";

TEST(Hold, KeepsExponentialsRatherThanWhatTheyAreOf) {
  const Kept kept = KeptOf(Rows("bf16", kSoftmax), 32);
  EXPECT_THAT(kept.text, ::testing::MatchesRegex("kept between passes: %[0-9]+ = exp\\(.*\\)"));
  EXPECT_EQ(kept.words, 1);
}

TEST(Hold, KeepsInputsWhereWhatFollowsIsCheap) {
  for (const char* dtype : {"bf16", "f32"}) {
    for (int points : {8, 16, 32}) {
      const Kept kept = KeptOf(Rows(dtype, kLayerNorm), points);
      EXPECT_EQ(kept.text, "") << dtype << " " << points;
      EXPECT_EQ(kept.words, std::string(dtype) == "bf16" && points == 32 ? 0.5 : 1);
    }
  }
}

TEST(Hold, KeepsASumInsteadOfItsPartsAndTheUnroundedOne) {
  const Kept kept = KeptOf(Rows("bf16", kDropout), 32);
  EXPECT_THAT(kept.text,
              ::testing::MatchesRegex("kept between passes: %[0-9]+ = add\\([^,]*,[^,]*\\)"));
  EXPECT_EQ(kept.words, 1);
}

TEST(Hold, KeepsFewestRegistersWhereAThreadHasManyPoints) {
  const Kept kept = KeptOf(Rows("bf16", kSoftmax), 64);
  EXPECT_EQ(kept.text, "");
  EXPECT_EQ(kept.words, 0.5);
}

TEST(Hold, KernelsAreRight) {
  const std::string bodies[] = {kSoftmax, kLayerNorm, kDropout};
  for (const std::string& body : bodies) {
    for (int64_t n : {1, 8, 63, 1000, 1024, 1031}) {
      const std::string text = Rows("bf16", body);
      const GroupResult result = RunGroupText(text, {.sizes = {{"M", 3}, {"N", n}}});
      EXPECT_TRUE(result.status.ok()) << result.status << "\n" << n << text << result.kernel_text;
      if (body != kLayerNorm && n > 1) {
        EXPECT_TRUE(absl::StrContains(result.kernel_text, "kept between passes")) << n;
      }
    }
  }
}

int Masks(const std::string& body, int64_t n) {
  const GroupResult result = RunGroupText(Rows("bf16", body), {.sizes = {{"M", 3}, {"N", n}}});
  EXPECT_TRUE(result.status.ok()) << result.status << "\n" << body << result.kernel_text;
  int masks = 0;
  for (size_t at = 0; (at = result.kernel_text.find("where(", at)) != std::string::npos; ++at)
    ++masks;
  return masks;
}

// What loads fill in beyond a row's end counts for nothing: zero in sums of it, minus infinity in
// maxima. What is computed of it with other values is masked.
TEST(Fill, TakesTheMasksOfReductions) {
  EXPECT_EQ(
      Masks(" s = sum(cast(x, dtype=f32) * 3.0 * cast(x, dtype=f32), axes=[1])\n output s\n", 1000),
      0);
  EXPECT_EQ(Masks(" s = sum(cast(x, dtype=f32) + 1.0, axes=[1])\n output s\n", 1000), 1);
  EXPECT_EQ(Masks(" s = sum(cast(x, dtype=f32) / 3.0, axes=[1])\n output s\n", 1000), 0);
  EXPECT_EQ(Masks(" s = amax(x, axes=[1])\n output s\n", 1000), 0);
  EXPECT_EQ(Masks(" s = amin(cast(x, dtype=f32), axes=[1])\n output s\n", 24), 0);
  EXPECT_EQ(Masks(" s = amax(abs(x), axes=[1])\n output s\n", 1000), 1);
  // One load cannot fill in both.
  EXPECT_EQ(Masks(" s = amax(x, axes=[1])\n t = sum(cast(x, dtype=f32), axes=[1])\n"
                  " output s\n output t\n",
                  1000),
            1);
  EXPECT_EQ(Masks(kSoftmax, 1000), 1);
  EXPECT_EQ(Masks(kLayerNorm, 1000), 1);
}

// A mean and a root, cleared for each vector: the elements of neither factor are masked. What is
// kept between passes, divided by or shared by all rows is not zero for that.
TEST(Fill, ClearsWhatARowHasOneOf) {
  const std::string sums =
      " f = cast(x, dtype=f32)\n m = (sum(f, axes=[1]) / 100.0)[:, None]\n"
      " r = rsqrt(abs(m) + 0.1)\n d = (f - m) * r\n s = sum(d * f, axes=[1])\n"
      " t = sum(d, axes=[1])\n output s\n output t\n";
  EXPECT_EQ(Masks(sums, 1000), 2);
  EXPECT_EQ(Masks(" f = cast(x, dtype=f32)\n m = amax(f, axes=[1])[:, None]\n"
                  " s = sum(f / m, axes=[1])\n output s\n",
                  1000),
            1);
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (int64_t n : {1, 3, 7, 8, 56, 1000, 4099}) {
      const GroupResult result = RunGroupText(Rows(dtype, sums), {.sizes = {{"M", 9}, {"N", n}}});
      EXPECT_TRUE(result.status.ok()) << result.status << "\n" << n << result.kernel_text;
    }
  }
}

// Each value is looked at once, however many ways lead to it.
TEST(Fill, ClearsBelowManyDiamonds) {
  std::string body =
      " a0 = cast(x, dtype=f32) - (sum(cast(x, dtype=f32), axes=[1]) / 9.0)[:, None]\n";
  for (int i = 0; i < 60; ++i)
    absl::StrAppend(&body, " a", i + 1, " = a", i, " * 0.5 - abs(a", i, ")\n");
  body += " s = sum(a60, axes=[1])\n output s\n";
  EXPECT_EQ(Masks(body, 1000), 1);
}

// Rows that neighbour each other in memory, and rows that CTAs take in turn.
TEST(Hold, KernelsOfOtherArrangementsAreRight) {
  const std::string outer =
      "fusion columns {\n symbol M\n symbol N\n input x: f32[N, M]\n"
      " y = softmax(x, axis=0)\n output y\n}";
  const std::string crossed =
      Rows("f32", " y = softmax(x, axis=1)\n s = sum(y, axes=[0])\n output y\n output s\n");
  // Statistics of what several rows hold.
  const std::string folded =
      "fusion folded {\n symbol M\n symbol N\n input x: f32[M, N, 10]\n"
      " y = expm1(x)\n d = y - (sum(y, axes=[1]) / 8.0)[:, None, :]\n"
      " mean, m2, n = welford(cos(y) * d, axes=[1, 2])\n output d\n output mean\n output m2\n}";
  for (const std::string& text : {outer, crossed, folded}) {
    for (int64_t n : {1, 12, 24, 40, 129}) {
      const GroupResult result = RunGroupText(text, {.sizes = {{"M", 37}, {"N", n}}});
      EXPECT_TRUE(result.status.ok()) << result.status << "\n" << n << text << result.kernel_text;
    }
  }
}

}  // namespace
}  // namespace seam
