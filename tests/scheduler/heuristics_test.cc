// What the heuristics choose can be launched, at whatever sizes and on whatever device: every guard
// holds, and CTAs have the threads and the shared memory that they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "scheduler/scheduler.h"
#include "tests/support/launchable.h"
#include "tests/support/norm_graphs.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectLaunchable;
using testing::kLayerNorm;
using testing::kSoftmax;
using testing::LayerNormBackward;

const char* const kForward = R"(fusion forward {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  input residual: DTYPE[M, N]
  input gamma: DTYPE[N]
  f = cast(x, dtype=f32) + cast(residual, dtype=f32)
  mean, m2, n = welford(f, axes=[1])
  y = (f - mean[:, None]) * rsqrt(m2[:, None] / n[:, None] + 1e-5) * cast(gamma, dtype=f32)
  out = cast(y, dtype=DTYPE)
  output out
  output mean
})";
const char* const kDownColumns = R"(fusion columns {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  f = cast(x, dtype=f32)
  mean, m2, n = welford(f, axes=[0])
  y = cast((f - mean) * rsqrt(m2 / n + 1e-5), dtype=DTYPE)
  output y
})";
const char* const kArgmax = R"(fusion argmax {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  input g: DTYPE[M, N]
  p = cast(x, dtype=f32) * cast(g, dtype=f32)
  sums = sum(p, axes=[1])
  where = argmax(p, axes=[0])
  output sums
  output where
})";
const char* const kStatesOfAllKinds = R"(fusion states {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  f = cast(x, dtype=f32)
  top = amax(f, axes=[1])
  y = cast(exp(f - top[:, None]), dtype=DTYPE)
  mean, m2, n = welford(f, axes=[0])
  all = sum(f, axes=[0, 1])
  output y
  output mean
  output m2
  output all
})";

const char* const kImages[] = {R"(fusion channels_first {
  symbol M
  symbol N
  input x: DTYPE[M, 24, N]
  f = cast(x, dtype=f32)
  mean, m2, n = welford(f, axes=[0, 2])
  y = cast((f - mean[None, :, None]) * rsqrt(m2[None, :, None] / n[None, :, None] + 1e-5),
           dtype=DTYPE)
  output y
  output mean
})",
                               R"(fusion groups_last {
  symbol M
  symbol N
  input x: DTYPE[8, M, 32, N]
  f = cast(x, dtype=f32)
  mean, m2, n = welford(f, axes=[1, 3])
  y = cast((f - mean[:, None, :, None]) * rsqrt(m2[:, None, :, None] / n[:, None, :, None] + 1e-5),
           dtype=DTYPE)
  output y
})"};

// Columns that are not the same axis: of tensors that only a row's scalars join, or nothing.
const char* const kColumnsApart[] = {R"(fusion scaled_by_another {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  input y: DTYPE[M, N]
  f = cast(x, dtype=f32)
  r = rsqrt(sum(f * f, axes=[1]) + 1e-6)
  out = cast(cast(y, dtype=f32) * r[:, None], dtype=DTYPE)
  output out
})",
                                     R"(fusion distance_of_scaled {
  symbol M
  symbol N
  input a: DTYPE[M, N]
  input b: DTYPE[M, N]
  input c: DTYPE[M, N]
  mean, m2, n = welford(cast(a, dtype=f32), axes=[1])
  t = (cast(b, dtype=f32) - mean[:, None]) * rsqrt(m2[:, None] / n[:, None] + 1e-5)
  l = sum(square(cast(c, dtype=f32) - t))
  out = cast(t, dtype=DTYPE)
  output out
  output l
})",
                                     R"(fusion gain_of_code {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  input code: f32[M, 8]
  g = sum(softmax(code, axis=1) * 2.0, axes=[1])
  out = cast(cast(x, dtype=f32) * g[:, None], dtype=DTYPE)
  output out
})",
                                     R"(fusion largest_of_four {
  symbol M
  symbol N
  input p: DTYPE[M, M]
  input q: DTYPE[M, N]
  input r: DTYPE[N, M]
  input s: DTYPE[M]
  top = maximum(maximum(amax(abs(p)), amax(abs(q))), maximum(amax(abs(r)), amax(abs(s))))
  output top
})"};

TEST(Heuristics, ChooseWhatTheDeviceCanLaunch) {
  const std::string texts[] = {testing::NormBackward("DTYPE"),
                               kForward,
                               kSoftmax,
                               kDownColumns,
                               kArgmax,
                               kStatesOfAllKinds,
                               kImages[0],
                               kImages[1],
                               kLayerNorm,
                               LayerNormBackward(true),
                               kColumnsApart[0],
                               kColumnsApart[1],
                               kColumnsApart[2],
                               kColumnsApart[3]};
  std::mt19937_64 bits(1);
  const auto below = [&](size_t n) { return static_cast<size_t>(bits() % n); };
  // As many of each magnitude; every third a multiple of eight.
  const auto size = [&](double most) {
    const double log = std::log2(most) * static_cast<double>(below(1000)) / 1000;
    const auto n = static_cast<int64_t>(std::exp2(log));
    return below(3) == 0 ? (n + 7) / 8 * 8 : n;
  };
  for (int i = 0; i < 840 / testing::kPart; ++i) {
    const char* const dtypes[] = {"f32", "bf16", "f16", "f64"};
    const std::string text =
        absl::StrReplaceAll(texts[below(std::size(texts))], {{"DTYPE", dtypes[below(4)]}});
    const int64_t n = size(400000);
    // No tensor has more than 2^40 bytes.
    const double most = absl::StrContains(text, "[M, M]") ? 300000 : 4e9;
    const int64_t m = size(std::min(most, 4e9 / static_cast<double>(n)));
    ExpectLaunchable(text, m, n, Devices()[below(Devices().size())]);
    if (HasFailure()) return;
  }
}

// Four neighbours that begin at a multiple of four are one call of the random generator; of shifted
// rows each would be a call of its own.
TEST(Heuristics, RowsWithRandomNumbersAreNotShifted) {
  const auto behind = [](const std::string& numbers) {
    return absl::StrReplaceAll(
        LayerNormBackward(true),
        {{"  input rstd: f32[M]\n", "  input rstd: f32[M]\n  input seed: i64[]\n"},
         {"  output dx\n",
          absl::StrCat("  df = where(", numbers, " >= 0.1, dx, 0.0)\n  output df\n")}});
  };
  const std::string with = behind("random_uniform(seed, seed, sizes=[M, N], dtype=f32)"),
                    without = behind("cast(x, dtype=f32)");
  for (const int64_t n : {300, 1004, 10004}) {
    const Schedule s = ExpectLaunchable(with, 8192, n, Devices()[0]).schedule;
    EXPECT_FALSE(s.shift) << s.ToString();
    EXPECT_EQ(s.vector, 4) << s.ToString();
    // Short ones go in blocks.
    const Schedule t = ExpectLaunchable(without, 8192, n, Devices()[0]).schedule;
    EXPECT_TRUE(n == 300 ? t.blocks : t.shift) << t.ToString();
  }
  // Neighbours by two are calls of their own anyway.
  EXPECT_TRUE(ExpectLaunchable(with, 8192, 1002, Devices()[0]).schedule.shift);
}

// Rows lie as what is looked up, not as the positions that it is looked up at; where vectors divide
// rows, it comes in vectors, and it is never shifted with the rows.
TEST(Heuristics, RowsThatAreLookedUp) {
  constexpr char kLookedUp[] = R"(fusion looked_up {
  symbol M
  symbol N
  input ids: i64[M, 4]
  input table: bf16[50000, N]
  input w: bf16[N]
  x = index_select(table, reshape(ids, sizes=[4*M]), axis=0)
  y = rms_norm(x, w, axes=[1])
  output y
})";
  for (const auto& [n, vector] : {std::pair(1024, 8), {4096, 8}, {1002, 2}, {1001, 1}, {4099, 1}}) {
    const Schedule s = ExpectLaunchable(kLookedUp, 8192, n, Devices()[0]).schedule;
    EXPECT_FALSE(s.outer) << s.ToString();
    EXPECT_FALSE(s.shift) << s.ToString();
    EXPECT_EQ(s.vector, vector) << s.ToString();
    // Beside sums of columns the positions lie along axes that are folded as well.
    const std::string crossed = absl::StrReplaceAll(
        kLookedUp,
        {{"  output y\n", "  v = sum(cast(x, dtype=f32), axes=[0])\n  output y\n  output v\n"}});
    const Schedule t = ExpectLaunchable(crossed, 8192, n, Devices()[0]).schedule;
    EXPECT_FALSE(t.outer) << t.ToString();
    EXPECT_EQ(t.vector, vector) << t.ToString();
  }
}

// Of a table that is larger than all rows that come of it only these count: clusters begin within a
// turn.
TEST(Heuristics, AsMuchOfATableAsIsRead) {
  constexpr char kLongRows[] = R"(fusion looked_up {
  symbol M
  symbol N
  input ids: i64[64]
  input table: bf16[M, N]
  x = index_select(table, ids, axis=0)
  y = softmax(x, axis=1)
  output y
})";
  const Schedule few = ExpectLaunchable(kLongRows, 64, 65536, Devices()[0]).schedule;
  const Schedule many = ExpectLaunchable(kLongRows, 32000, 65536, Devices()[0]).schedule;
  EXPECT_GT(many.cluster, 1) << many.ToString();
  EXPECT_EQ(many.stagger, few.stagger) << many.ToString();
}

// A norm beside statistics of its columns: threads have 32 columns each, or a few less where CTAs
// of a cluster share a row, and are not asked to wait for others.
TEST(Heuristics, StatesOfColumnsOfOneInput) {
  constexpr char kOneInput[] = R"(fusion one_input {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  f = cast(x, dtype=f32)
  mean, m2, n = welford(f, axes=[1])
  columns, c2, c = welford(f, axes=[0])
  y = cast(f - mean[:, None], dtype=DTYPE)
  output y
  output columns
  output c2
})";
  for (const char* dtype : {"bf16", "f32"}) {
    const std::string text = absl::StrReplaceAll(kOneInput, {{"DTYPE", dtype}});
    for (const int64_t n : {512, 1000, 4096, 5000, 12288, 16384, 65536}) {
      const Schedule s = ExpectLaunchable(text, (1 << 27) / n, n, Devices()[0]).schedule;
      EXPECT_TRUE(s.persistent) << s.ToString();
      EXPECT_LE(s.registers * s.vector, 32) << s.ToString();
      EXPECT_GE(s.registers * s.vector, 24) << s.ToString();
      EXPECT_EQ(s.pace, 0) << s.ToString();
      EXPECT_LE(s.columns_at_once() * 3, n * 4) << s.ToString();
    }
  }
}

// Where weights or wider states leave no registers for 32 columns, or rows are too long for them,
// more threads share a row, as many as a CTA can have.
TEST(Heuristics, StatesOfColumnsBesideManyWeights) {
  constexpr char kWeights[] = R"(fusion weights {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  input w: TYPE[N]
  input b: TYPE[N]
  input g: TYPE[N]
  input h: TYPE[N]
  f = cast(x, dtype=TYPE)
  mean, m2, n = welford(f, axes=[1])
  columns, c2, c = welford(f, axes=[0])
  y = cast(((f - mean[:, None]) * w + b) * g + h, dtype=DTYPE)
  output y
  output columns
  output c2
})";
  for (const auto& [dtype, type] :
       {std::pair("bf16", "f32"), {"f32", "f32"}, {"f32", "f64"}, {"f64", "f64"}}) {
    const std::string text = absl::StrReplaceAll(kWeights, {{"DTYPE", dtype}, {"TYPE", type}});
    for (const int64_t n : {512, 2048, 4096, 16384, 33024, 59392, 65536, 131072})
      ExpectLaunchable(text, 1000, n, Devices()[0]);
  }
}

// One statistic after the other: a kernel for rows of that length alone, without masks.
TEST(Heuristics, RowsThatAreGoneOverOftenHaveNoMasks) {
  constexpr char kTwice[] = R"(fusion twice {
  symbol M
  symbol N
  input x: bf16[M, N]
  f = cast(x, dtype=f32)
  a, a2, na = welford(f, axes=[1])
  y = (f - a[:, None]) * rsqrt(a2[:, None] / na[:, None] + 1e-5)
  b, b2, nb = welford(y, axes=[1])
  z = cast((y - b[:, None]) * rsqrt(b2[:, None] / nb[:, None] + 1e-5), dtype=bf16)
  output z
})";
  const auto masks = [](const std::string& text, int64_t n) {
    return absl::StrContains(
        PrintKernel(ExpectLaunchable(text, 8192, n, Devices()[0]).launches[0].kernel), "< N");
  };
  EXPECT_FALSE(masks(kTwice, 4096));
  EXPECT_FALSE(masks(kTwice, 1024));
  EXPECT_TRUE(masks(kTwice, 4088));  // One vector less than the threads have.
  const Schedule softmax =
      ExpectLaunchable(absl::StrReplaceAll(kSoftmax, {{"DTYPE", "bf16"}}), 8192, 4096, Devices()[0])
          .schedule;
  EXPECT_EQ(softmax.facts.at(0).value, -1) << softmax.ToString();  // Serves other lengths too.
}

// Results of a byte: four vectors a thread instead of two, and no masks.
TEST(Heuristics, ResultsOfAByteHaveMoreUnderWay) {
  constexpr char kQuantised[] = R"(fusion quantised {
  symbol M
  symbol N
  input x: bf16[M, N]
  f = cast(x, dtype=f32)
  s = maximum(amax(abs(f), axes=[1], keepdims=true), 1e-12) / 448.0
  q = cast(f / s, dtype=TYPE)
  output q
  output s
})";
  for (const int64_t n : {1024, 4096, 8192}) {
    const auto of = [&](const char* type) {
      return ExpectLaunchable(absl::StrReplaceAll(kQuantised, {{"TYPE", type}}), (1 << 25) / n, n,
                              Devices()[0])
          .schedule;
    };
    const Schedule byte = of("f8e4m3");
    EXPECT_EQ(byte.registers, 4) << byte.ToString();
    EXPECT_EQ(byte.facts.at(0).value, n) << byte.ToString();
    EXPECT_EQ(of("bf16").facts.at(0).value, -1) << n;
  }
}

// A residual's gradient beside x and its own gradient: CTAs of one row, several an SM, where two
// inputs go to one of two rows.
TEST(Heuristics, BackwardBesideAResidual) {
  for (const int64_t n : {2048, 4096}) {
    const std::string text = LayerNormBackward(true);
    const std::string residual =
        absl::StrReplaceAll(text, {{"  output dx\n", "  o = dx + res\n  output o\n"},
                                   {"  input w:", "  input res: bf16[M, N]\n  input w:"}});
    const Schedule two = ExpectLaunchable(text, (1 << 25) / n, n, Devices()[0]).schedule;
    const Schedule three = ExpectLaunchable(residual, (1 << 25) / n, n, Devices()[0]).schedule;
    EXPECT_EQ(two.min_ctas_per_sm, 1) << two.ToString();
    EXPECT_EQ(three.min_ctas_per_sm, 2) << three.ToString();
    EXPECT_LT(three.rows_per_cta(), two.rows_per_cta()) << three.ToString();
  }
}

// An activation's backward pass with the gradient of a bias: 172 CTAs with the columns to
// themselves would leave every third place of an SM empty; three share them.
TEST(Heuristics, ColumnsThatAreWrittenKeepAllSmsBusy) {
  constexpr char kBiasGradient[] = R"(fusion bias_gradient {
  symbol M
  symbol N
  input g: bf16[M, N]
  input x: bf16[M, N]
  f = cast(x, dtype=f32)
  d = cast(g, dtype=f32) * (erf(f) + exp(-0.5 * f * f))
  o = cast(d, dtype=bf16)
  b = sum(d, axes=[0])
  output o
  output b
})";
  const DeviceInfo& h200 = Devices()[0];
  for (const int64_t n : {4096, 8192, 11008, 12288, 14336, 28672}) {
    const Schedule s = ExpectLaunchable(kBiasGradient, 8192, n, h200).schedule;
    EXPECT_TRUE(s.outer) << s.ToString();
    const int64_t ctas = (n + s.rows_per_cta() - 1) / s.rows_per_cta() * s.split;
    const int64_t at_once = int64_t{h200.sms} * s.min_ctas_per_sm;
    const int64_t waves = (ctas + at_once - 1) / at_once;
    EXPECT_GE(static_cast<double>(ctas), 0.84 * static_cast<double>(waves * at_once))
        << n << s.ToString();
  }
}

// Threads of one CTA would not have the registers.
TEST(Heuristics, OddRowsBesideWiderWeights) {
  const std::string narrow = LayerNormBackward(true);
  const std::string wide = absl::StrReplaceAll(narrow, {{"w: bf16", "w: f32"}});
  for (const int64_t n : {12301, 14246, 16001}) {
    EXPECT_EQ(ExpectLaunchable(narrow, (1 << 28) / n, n, Devices()[0]).schedule.cluster, 1);
    EXPECT_GT(ExpectLaunchable(wide, (1 << 28) / n, n, Devices()[0]).schedule.cluster, 1);
  }
}

// Every tensor that is brought ahead has its room, whichever axis its columns are.
TEST(Heuristics, ColumnsApartHaveRoom) {
  const DeviceInfo& device = Devices()[0];
  for (const char* text : kColumnsApart) {
    const std::string wide = absl::StrReplaceAll(text, {{"DTYPE", "f32"}});
    for (const int64_t n : {7168, 8192, 14336, 16384, 65536, 131072, 262144, 327680})
      for (const int64_t m : {16, 64, 2048}) ExpectLaunchable(wide, m, n, device);
  }
  // Neighbours in memory are those of the largest tensor.
  const auto m = [](int64_t n) { return (1 << 27) / n; };
  for (const int64_t n : {512, 4096, 150528}) {
    const Schedule s = ExpectLaunchable(absl::StrReplaceAll(kColumnsApart[2], {{"DTYPE", "bf16"}}),
                                        m(n), n, device)
                           .schedule;
    EXPECT_EQ(s.vector, 8) << s.ToString();
    EXPECT_FALSE(s.outer) << s.ToString();
    EXPECT_GE(s.columns_at_once(), std::min<int64_t>(n, 4096)) << s.ToString();
  }
}

// Few rows too long for that, which no cluster takes in turn.
TEST(Heuristics, FewLongRowsFitACta) {
  for (const DeviceInfo& device : Devices()) {
    for (const int64_t n : {16392, 32776, 40008, 45632, 65528})
      for (const int64_t m : {1, 10, 70, 300, 4000}) ExpectLaunchable(kLayerNorm, m, n, device);
  }
}

// Rows that threads bring fill the shared memory: what they leave in parts finds no room there.
TEST(Heuristics, AFullCtaIsFinishedByAnotherKernel) {
  const absl::StatusOr<DeviceInfo> device = FindDevice("rtx5090");
  ASSERT_TRUE(device.ok()) << device.status();
  const std::string text = absl::StrReplaceAll(kArgmax, {{"DTYPE", "f16"}});
  EXPECT_EQ(ExpectLaunchable(text, 187647, 22594, *device).launches.size(), 2);
  EXPECT_EQ(ExpectLaunchable(text, 187647, 11294, *device).launches.size(), 1);
}

// Rows with weights and two states a column: none is too long for a cluster that would hold one a
// vector longer.
TEST(Heuristics, ClustersTakeRowsOfAllLengths) {
  for (const char* dtype : {"bf16", "f32"}) {
    const std::string text =
        testing::NormBackward(dtype, "  dbeta = sum(g, axes=[0])\n  output dbeta\n");
    for (int64_t n = 131072 + 4096; n <= 262144; n += 4096) {
      const Schedule s = ExpectLaunchable(text, 1024, n, Devices()[0]).schedule;
      EXPECT_EQ(s.cluster, 16) << n << s.ToString();
      EXPECT_TRUE(s.persistent && s.stages > 0) << n << s.ToString();
    }
  }
}

// Where a cluster has room for one row and less than two, the row comes in slices, as many to spare
// as there is room for.
TEST(Heuristics, TheLongestRowsOfACluster) {
  const std::string backward = testing::NormBackward("f32");
  for (const int64_t n : {150000, 200000, 262140, 262144}) {
    const Schedule s = ExpectLaunchable(backward, 1024, n, Devices()[0]).schedule;
    EXPECT_EQ(s.cluster, 16) << s.ToString();
    EXPECT_EQ(s.stages, 1) << s.ToString();
    EXPECT_EQ(s.slices, s.registers) << s.ToString();
    EXPECT_GE(s.spare, 1) << s.ToString();
    EXPECT_EQ(s.pace, n >= 200000 ? 1 : 0) << s.ToString();
    EXPECT_FALSE(s.settled) << s.ToString();
  }
  // Rows in pieces: a channel of all images.
  const std::string images = absl::StrReplaceAll(kImages[0], {{"DTYPE", "f32"}});
  const Schedule s = ExpectLaunchable(images, 64, 12544, Devices()[0]).schedule;
  EXPECT_EQ(s.columns_at_once(), 64 * 12544) << s.ToString();  // No vector has a mask.
  EXPECT_GT(s.slices, 1) << s.ToString();
  EXPECT_GE(s.spare, 1) << s.ToString();
  // Whatever their length.
  for (int64_t pixels = 6800; pixels <= 13300; pixels += 52) {
    const Schedule t = ExpectLaunchable(images, 64, pixels, Devices()[0]).schedule;
    EXPECT_EQ(t.cluster, 16) << t.ToString();
    EXPECT_GE(t.stages * t.slices, 7) << t.ToString();
  }
}

// What one CTA has left of each result a thread copies: it is not merged by all of a CTA.
TEST(Heuristics, OneStateOfEachResultIsAThreads) {
  const LaunchPlan plan = ExpectLaunchable(R"(fusion mix {
  symbol M
  symbol N
  input g: bf16[M, 4, N]
  input y: bf16[M, N]
  input post: f32[M, 4]
  f = cast(g, dtype=f32)
  dpost = sum(f * cast(y, dtype=f32)[:, None], axes=[2])
  dy = sum(f * post[..., None], axes=[1])
  output dpost
  output dy
})",
                                           8192, 2048, *FindDevice("h200"));
  ASSERT_EQ(plan.launches.size(), 2) << plan.schedule.ToString();
  EXPECT_GT(plan.launches[0].kernel.SharedBytes(), 0);
  EXPECT_EQ(plan.launches[1].kernel.SharedBytes(), 0);
}

// Each CTA of a cluster leaves states of the columns that are kept: more than x has elements.
TEST(Heuristics, MoreStatesThan32BitsCount) {
  constexpr char kKept[] = R"(fusion kept {
  symbol M
  symbol N
  input x: bf16[M, 2, N, 4]
  f = cast(x, dtype=f32)
  s = sum(f, axes=[2, 3])
  y = cast(f - s[:, :, None, None] * 0.01, dtype=bf16)
  k = sum(f, axes=[0, 3])
  output y
  output k
})";
  const LaunchPlan few = ExpectLaunchable(kKept, 64, 32768, Devices()[0]);
  EXPECT_TRUE(few.schedule.index32) << few.schedule.ToString();
  const LaunchPlan many = ExpectLaunchable(kKept, 4096, 32768, Devices()[0]);
  EXPECT_GT(many.schedule.cluster, 1);
  EXPECT_FALSE(many.schedule.index32) << many.schedule.ToString();
}

}  // namespace
}  // namespace seam
