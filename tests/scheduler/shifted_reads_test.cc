// Groups that read their own values at other points than these have: right at every size, with what
// neighbours have in common loaded once, and cut where computing again takes longer.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/arithmetic.h"
#include "scheduler/group_shape.h"
#include "scheduler/scheduler.h"
#include "segmenter/closer_look.h"
#include "segmenter/segment.h"
#include "segmenter/traffic.h"
#include "tests/support/count_of.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupResult;
using testing::NumLoads;
using testing::RunGroupText;

constexpr char kStencil[] = R"(fusion stencil {
  symbol M
  symbol N
  input u: bf16[M, N]
  input w: f32[N]
  v = exp(cast(u, dtype=f32) * 0.1) + w
  p = pad(v, before=[1, 2], after=[1, 0])
  out = p[0:M, 2:N+2] - p[2:M+2, 2:N+2] * p[1:M+1, 0:N]
  output out
})";

TEST(ShiftedReads, StencilsOfASingleImage) {
  for (int64_t m : {0, 1, 2, 9}) {
    for (int64_t n : {0, 1, 3, 8, 64, 257}) ExpectRight(kStencil, {.sizes = {{"M", m}, {"N", n}}});
  }
  for (int alignment : {2, 4}) {
    ExpectRight(kStencil, {.sizes = {{"M", 5}, {"N", 64}}, .alignment_bytes = alignment});
  }
}

// A causal convolution, then rows that are normalised; PAD is ahead of them.
constexpr char kNorm[] = R"(fusion norm {
  symbol M
  symbol N
  input x: bf16[M, N]
  input k: f32[3, N]
  p = pad(cast(x, dtype=f32), before=[2, 0], after=[0, 0])
  y = p[0:M] * k[0:1] + p[1:M+1] * k[1:2] + p[2:M+2] * k[2:3]
  out = cast((y - mean(y, axes=[1], keepdims=true)) * rsqrt(variance(y, axes=[1], keepdims=true) + 0.001), dtype=bf16)
  output out
})";

TEST(ShiftedReads, RowsThatAreNormalised) {
  for (int64_t m : {0, 1, 2, 3, 70}) {
    for (int64_t n : {1, 7, 64, 1000}) ExpectRight(kNorm, {.sizes = {{"M", m}, {"N", n}}});
  }
}

TEST(ShiftedReads, RowsLieAsTheResultDoes) {
  const std::string text = R"(fusion shift {
  input a: f32[2, 16, 16]
  input b: f32[2, 16, 16]
  r = reshape(pad(exp(b), before=[0, 0, 1], after=[0, 0, 0]), sizes=[2, 17, 16])
  z = a + reshape(r[:, 1:17], sizes=[2, 16, 16])
  out = z / sum(z, axes=[2], keepdims=true)
  output out
})";
  const Fusion f = *ParseFusion(text);
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(f);
  ASSERT_TRUE(shape.ok()) << shape.status();
  std::vector<AxisId> of_result;
  for (int d = 0; d < 3; ++d) {
    for (AxisId a : shape->axes.atoms(f.outputs()[0], d)) of_result.push_back(a);
  }
  EXPECT_EQ(shape->order, of_result);
  ExpectRight(text, {});
}

TEST(ShiftedReads, WeightsAreLoadedOnceForAllNeighbours) {
  const GroupResult result = RunGroupText(kStencil, {.sizes = {{"M", 9}, {"N", 64}}});
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(NumLoads(result.kernel_text, "u"), 3);
  // Of the neighbour two columns before, others.
  EXPECT_EQ(NumLoads(result.kernel_text, "w"), 2);
}

// What only the last column needs is not loaded for the others, though it is there.
TEST(ShiftedReads, PiecesOfAConcatenationKeepTheirMasks) {
  const GroupResult result = RunGroupText(R"(fusion sink {
  symbol M
  symbol N
  input x: f32[M, N]
  input s: f32[M]
  y = exp(cat(x, s[:, None], axis=1))
  output y
})",
                                          {.sizes = {{"M", 9}, {"N", 63}}});
  ASSERT_TRUE(result.status.ok()) << result.status;
  const size_t at = result.kernel_text.find("load s[");
  ASSERT_NE(at, std::string::npos);
  const std::string line = result.kernel_text.substr(at, result.kernel_text.find('\n', at) - at);
  EXPECT_NE(line.find("%(N + 1)"), std::string::npos) << line;
}

// With eight loads of each of a row's elements, none of which the second pass needs.
TEST(ShiftedReads, LoadsThatDoNotFitComeWithTheirUse) {
  const std::string text = R"(fusion many {
  input a: f32[8, 1500, 65]
  input b: f32[8, 1500, 65]
  input c: f32[8, 1500, 65]
  input d: f32[8, 1500, 65]
  p = pad(a * a + b * b, before=[0, 0, 1], after=[0, 0, 1])
  m = exp(-abs(a * c + b * d) / (p[:, :, 0:65] + p[:, :, 1:66] + p[:, :, 2:67] + 1.0))
  out = m - mean(m, axes=[1], keepdims=true)
  output out
})";
  const GroupResult result = RunGroupText(text, {});
  ASSERT_TRUE(result.status.ok()) << result.status;
  const int points = result.schedule.registers * result.schedule.vector;
  ASSERT_TRUE(result.schedule.ToString().find("kept in registers") != std::string::npos)
      << result.schedule.ToString();
  ASSERT_GT(8 * points, 176);
  // A fragment of one element is a load beside its use.
  EXPECT_EQ(NumLoads(result.kernel_text, "a"), 3) << result.kernel_text;
  EXPECT_EQ(result.kernel_text.find(" ld_"), std::string::npos) << result.kernel_text;
}

// Of windows along rows of channels, padded by half of them.
std::string WindowOfRows(const std::string& dtype, int taps) {
  std::string sum;
  for (int i = 0; i < taps; ++i) {
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "p[:, ", i, ":", i, " + S] * k[", i, ":", i + 1,
                    "]");
  }
  return absl::StrCat(
      "fusion taps {\n  symbol S\n  input x: ", dtype, "[64, S, 192]\n  input k: f32[", taps,
      ", 192]\n  p = pad(cast(x, dtype=f32), before=[0, ", taps / 2, ", 0], after=[0, ", taps / 2,
      ", 0])\n  y = cast(", sum, ", dtype=", dtype, ")\n  output y\n}\n");
}

TEST(ShiftedReads, VectorsAreShorterWhereTheirLoadsFillRegisters) {
  const auto schedule = [](const std::string& text, int64_t s) {
    ScheduleContext context;
    context.sizes = {s};
    context.alignment_bytes = 16;
    context.device = *FindDevice("h100");
    const Fusion f = *ParseFusion(text);
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kPointwise)->choose(f, context);
    if (!chosen.ok()) ADD_FAILURE() << chosen.status();
    return *chosen;
  };
  constexpr int64_t kOdd = 4097;  // No points along the rows that a thread could have.
  // Words of a vector of 8: 4 for each tap of bf16, 8 of f32, and 8 for each weight.
  const Schedule three = schedule(WindowOfRows("bf16", 3), kOdd);
  EXPECT_EQ(three.vector, 8);
  EXPECT_EQ(three.min_ctas_per_sm, 0);
  const Schedule four = schedule(WindowOfRows("bf16", 4), kOdd);
  EXPECT_EQ(four.vector, 8);
  EXPECT_EQ(four.min_ctas_per_sm * 32 * four.row_warps, 1024);
  EXPECT_EQ(schedule(WindowOfRows("bf16", 9), kOdd).vector, 8);
  EXPECT_EQ(schedule(WindowOfRows("bf16", 11), kOdd).vector, 4);
  for (const std::string& text : {WindowOfRows("bf16", 4), WindowOfRows("bf16", 11)}) {
    for (int64_t s : {0, 1, 5}) ExpectRight(text, {.sizes = {{"S", s}}});
  }
}

int KernelsIn(const Fusion& f) {
  const absl::StatusOr<SegmentedFusion> s = Segment(f, RealGuard(), {});
  if (!s.ok()) ADD_FAILURE() << s.status();
  return TotalsOf(*s, *SizeHints::Create(f, {})).kernels;
}

// How many kernels a value of nine neighbours takes with what is in front of it.
int KernelsOf(const std::string& in_front) {
  std::string sum;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      absl::StrAppend(&sum, i + j == 0 ? "" : " + ", "p[:, ", i, ":", 56 + i, ", ", j, ":", 56 + j,
                      "]");
    }
  }
  const Fusion f = *ParseFusion(absl::StrCat(
      "fusion window {\n  input x: bf16[32, 56, 56, 192]\n  v = cast(x, dtype=f32) * 1.5\n  p = "
      "pad(",
      in_front, ", before=[0, 1, 1, 0], after=[0, 1, 1, 0])\n  y = cast(", sum,
      ", dtype=bf16)\n  output y\n}\n"));
  return KernelsIn(f);
}

TEST(Arithmetic, WhatIsCheapIsComputedForEachNeighbour) {
  EXPECT_EQ(KernelsOf("v"), 1);
  EXPECT_EQ(KernelsOf("minimum(relu(v), 6.0)"), 1);
  // A thread has eight rows, and computes ten for them: 3.75 times in all.
  EXPECT_EQ(KernelsOf("v * sigmoid(v)"), 1);
  EXPECT_EQ(KernelsOf("tanh(v)"), 1);
  EXPECT_EQ(KernelsOf("gelu(v)"), 2);
  EXPECT_EQ(KernelsOf("v * clamp(v + 3.0, 0.0, 6.0) / 6.0"), 2);
  EXPECT_EQ(KernelsOf("sin(v)"), 2);
}

// How many kernels a table of 64 columns takes, with the heads that are multiplied by it.
int KernelsOfTable(const std::string& entry, int heads) {
  const Fusion f = *ParseFusion(absl::StrCat("fusion table {\n  input x: bf16[4096, ", heads,
                                             ", 64]\n  input f: f32[4096, 64]\n  y = cast(cast(x, "
                                             "dtype=f32) * (",
                                             entry, ")[:, None, :], dtype=bf16)\n  output y\n}\n"));
  return KernelsIn(f);
}

TEST(Arithmetic, TablesThatTakeLongAreComputedOnce) {
  EXPECT_EQ(KernelsOfTable("cos(f)", 32), 2);
  EXPECT_EQ(KernelsOfTable("cos(f)", 2), 1);
  EXPECT_EQ(KernelsOfTable("sigmoid(f)", 32), 1);
  EXPECT_EQ(KernelsOfTable("f * 2.0 + 1.0", 32), 1);
}

// How many kernels a product with a table takes, each of whose rows would compute it anew.
int KernelsOfProduct(const std::string& entry) {
  const Fusion f = *ParseFusion(absl::StrCat(
      "fusion product {\n  input x: f32[65536, 80]\n  n = iota(axis=0, sizes=[80, 40], dtype=f32)\n"
      "  k = iota(axis=1, sizes=[80, 40], dtype=f32)\n  y = sum(x[:, :, None] * (",
      entry, "), axes=[1])\n  output y\n}\n"));
  return KernelsIn(f);
}

TEST(Arithmetic, TablesThatRowsFoldAreComputedOnce) {
  EXPECT_EQ(KernelsOfProduct("cos((n + 0.5) * k)"), 2);
  EXPECT_EQ(KernelsOfProduct("n + k"), 1);  // A load would take as long.
}

// What two reductions compute at the square of its points is cut once and not joined again.
TEST(Arithmetic, WhatIsCutForItStaysCut) {
  const Fusion f = *ParseFusion(R"(fusion risk_sets {
  symbol N in [1, 65536]
  input h: f32[N]
  input t: f32[N]
  input ev: bool[N]
  mx = amax(h)
  e = exp(h - mx)
  rs = sum(where(t[None, :] >= t[:, None], e[None, :], 0.0), axes=[1])
  l = where(ev, h - mx - log(rs + 1e-9), 0.0)
  loss = -sum(l) / maximum(sum(cast(ev, dtype=f32)), 1.0)
  hz = cast(ev, dtype=f32) / (rs + 1e-9)
  g = e * sum(where(t[:, None] >= t[None, :], hz[None, :], 0.0), axes=[1]) - cast(ev, dtype=f32)
  output loss
  output g
  output rs
})");
  const absl::StatusOr<Segmentation> s = SegmentWithLog(f, RealGuard(), {.sizes = {{"N", 8192}}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_LT(s->log.num_trials, 100);  // Thousands where it was.
}

// Of a graph as one group.
double Bytes(const std::string& body, bool looks = true) {
  const Fusion f = *ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
  const AxisMap axes = AxisMap::Build(f);
  std::vector<ExprId> exprs;
  for (uint32_t e = 0; e < f.num_exprs(); ++e) exprs.push_back(ExprId(e));
  GroupSummary summary = Summarize(f, axes, FactsOf(f), exprs);
  if (looks) LookCloser(f, axes, FactsOf(f), exprs, summary);
  return BytesBesideArithmetic(f, axes, *SizeHints::Create(f, {}), summary);
}

TEST(Arithmetic, OnlyWhatIsComputedAgainCounts) {
  const std::string once = "input x: f32[64, 32]\ny = exp(x) + 1.0\noutput y";
  EXPECT_EQ(Bytes(once), 0);
  const std::string window =
      "input x: f32[64, 32]\ny = OP(x)\nz = y[0:62] * y[1:63] + y[2:64]\noutput z";
  const double cheap = Bytes(absl::StrReplaceAll(window, {{"OP", "relu"}})),
               costly = Bytes(absl::StrReplaceAll(window, {{"OP", "erf"}}));
  EXPECT_GT(cheap, 0);
  EXPECT_GT(costly, cheap);
  EXPECT_EQ(Bytes(absl::StrReplaceAll(window, {{"OP", "erf"}}), /*looks=*/false), 0);
}

TEST(Arithmetic, ValuesOfFewAxesCountWhereverTheyAreUsed) {
  const std::string table =
      "input x: f32[AXES]\ninput f: f32[32]\ny = x * sin(f)\nz = y[0:62] + y[2:64]\noutput z";
  const double few = Bytes(absl::StrReplaceAll(table, {{"AXES", "64, 32"}}));
  EXPECT_GT(few,
            Bytes(absl::StrReplaceAll(table, {{"AXES", "64, 32"}, {"sin(f)", "f"}})) + 62 * 32 * 8);
}

TEST(Arithmetic, WhatRowsHaveInCommonCountsForNothing) {
  const std::string norm =
      "input x: f32[64, 32]\ninput b: f32[64]\np = pad(x, before=[1, 0], after=[0, 0])\n"
      "y = p[0:64] + x\ns = sum(y, axes=[1])\nout = y * EXPR[:, None]\noutput out";
  EXPECT_EQ(Bytes(absl::StrReplaceAll(norm, {{"EXPR", "s"}})),
            Bytes(absl::StrReplaceAll(norm, {{"EXPR", "sin(cos(s + b))"}})));
}

}  // namespace
}  // namespace seam
