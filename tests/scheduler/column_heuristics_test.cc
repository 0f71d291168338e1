// What the heuristics choose for columns of one kind or another: that a part of them is folded, or
// wanted; where they begin; how many there are. Each choice was timed: docs/schedulers/columns.md.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/launchable.h"
#include "tests/support/norm_graphs.h"

namespace seam {
namespace {

using testing::ExpectLaunchable;

// Rows of which a small part is folded have nothing to keep for a second pass; but CTAs that share
// each of a few rows would fold that part together.
TEST(ColumnHeuristics, RowsThatFoldFewColumnsAreStreamed) {
  constexpr char kGainOfCode[] = R"(fusion gain_of_code {
  symbol M
  symbol N
  input x: f16[M, N]
  input code: f32[M, 8]
  g = sum(softmax(code, axis=1) * 2.0, axes=[1])
  out = cast(cast(x, dtype=f32) * g[:, None], dtype=f16)
  output out
})";
  for (const DeviceInfo& device : Devices()) {
    for (const int64_t n : {4096, 50001, 150528}) {
      const Schedule s = ExpectLaunchable(kGainOfCode, 2 * device.sms, n, device).schedule;
      EXPECT_FALSE(s.persistent) << s.ToString();
      EXPECT_EQ(s.cluster * s.split, 1) << s.ToString();
      EXPECT_GE(s.threads() * s.min_ctas_per_sm, 256) << s.ToString();
    }
  }
}

// Gates of a recurrent cell: each thread has the same columns of every gate, and nothing else.
TEST(ColumnHeuristics, ResultsThatArePartsOfRows) {
  constexpr char kGates[] = R"(fusion gates {
  symbol M
  symbol N
  input z: bf16[M, 3*N]
  input h: bf16[M, N]
  y = rms_norm(z, axes=[1])
  r = sigmoid(y[:, 0:N])
  c = tanh(r * y[:, N:2*N])
  u = sigmoid(y[:, 2*N:3*N])
  out = u * c + (1.0 - u) * h
  output out
})";
  for (const int64_t n : {768, 1024, 4096}) {
    const Schedule s = ExpectLaunchable(kGates, 16384, n, *FindDevice("h200")).schedule;
    EXPECT_EQ(s.columns_at_once(), 3 * n) << s.ToString();
    EXPECT_EQ(n % (s.columns_at_once() / s.registers), 0) << s.ToString();
    EXPECT_TRUE(absl::c_any_of(s.facts, [n = n](const SymbolFact& f) { return f.value == n; }))
        << s.ToString();
  }
}

// Rows that begin elsewhere than those of the results are shifted as these, if they do not share
// single elements.
TEST(ColumnHeuristics, RowsThatBeginElsewhereAreShiftedAsResults) {
  constexpr char kSliced[] = R"(fusion sliced {
  symbol M
  symbol N
  input x: bf16[M, N + 17]
  input w: f32[N]
  y = cast(rms_norm(cast(x[:, 17:], dtype=f32), w, axes=[1]), dtype=bf16)
  output y
})";
  for (const int64_t n : {1531, 4099}) {
    const Schedule s = ExpectLaunchable(kSliced, 32768, n, *FindDevice("h200")).schedule;
    EXPECT_EQ(s.shift, s.points == 1) << s.ToString();
    testing::ExpectRight(kSliced, {.sizes = {{"M", 3}, {"N", n}}});
  }
  EXPECT_EQ(ExpectLaunchable(kSliced, 32768, 1531, *FindDevice("h200")).schedule.points, 2);
  // So is a mask that is read first, of rows that all heads have.
  constexpr char kMasked[] = R"(fusion masked {
  symbol M
  symbol N
  input s: bf16[M, 33, N]
  input m: bool[M, N]
  y = cast(softmax(where(m[:, None], cast(s, dtype=f32), -inf), axis=2), dtype=bf16)
  output y
})";
  for (const int64_t n : {131, 577}) testing::ExpectRight(kMasked, {.sizes = {{"M", 2}, {"N", n}}});
}

// A table of few rows folded for each column, and applied to many rows: CTAs share these.
TEST(ColumnHeuristics, ScalesOfASmallTable) {
  constexpr char kScales[] = R"(fusion scales {
  symbol M
  symbol N
  input h: f32[16, N]
  input x: bf16[M, N]
  s = maximum(amax(h, axes=[0]), 1e-6)
  y = cast(cast(x, dtype=f32) / s, dtype=bf16)
  output y
  output s
})";
  const Schedule s = ExpectLaunchable(kScales, 65536, 1024, *FindDevice("h100")).schedule;
  EXPECT_GT(s.split, 4) << s.ToString();
  testing::ExpectRight(kScales, {.sizes = {{"M", 4096}, {"N", 40}}});
}

// Scales of columns from a small tensor and the norm of what a large one is scaled to: nothing is
// read twice, so nothing is held.
TEST(ColumnHeuristics, WhatIsReadOnceGoesStepByStep) {
  constexpr char kScaled[] = R"(fusion scaled {
  symbol M
  symbol N
  input h: f32[256, N]
  input g: bf16[M, N]
  u = cast(g, dtype=f32) * sqrt(sum(h * h, axes=[0]))
  n = sqrt(sum(u * u))
  output n
})";
  const Schedule s = ExpectLaunchable(kScaled, 4096, 11008, *FindDevice("h100")).schedule;
  EXPECT_FALSE(s.persistent) << s.ToString();
  EXPECT_EQ(s.cluster, 1) << s.ToString();
  testing::ExpectRight(kScaled, {.sizes = {{"M", 70}, {"N", 132}}});
  // A batch norm of as many rows is.
  constexpr char kNormed[] = R"(fusion normed {
  symbol M
  symbol N
  input g: bf16[M, N]
  x = cast(g, dtype=f32)
  u = x - mean(x, axes=[0])
  n = sqrt(sum(u * u))
  output n
})";
  const Schedule held = ExpectLaunchable(kNormed, 4096, 11008, *FindDevice("h100")).schedule;
  EXPECT_TRUE(held.persistent) << held.ToString();
}

// Short odd rows of one narrow input beside weights: no more of a warp than they fill.
TEST(ColumnHeuristics, ShortOddRowsFillTheirLanes) {
  for (const int64_t n : {300, 380, 500, 700, 1000}) {
    const Schedule s =
        ExpectLaunchable(testing::kLayerNorm, 1 << 18, n, *FindDevice("h200")).schedule;
    EXPECT_LE(s.columns_at_once(), n * 9 / 5) << n << ": " << s.ToString();
  }
}

// Neighbouring rows without vectors: few single elements a thread, of which a line of each.
TEST(ColumnHeuristics, SingleElementsDownColumns) {
  constexpr char kMiddle[] = R"(fusion middle {
  symbol M
  symbol N
  input x: DTYPE[M, N, 1501]
  y = softmax(x, axis=1)
  output y
})";
  const auto choose = [&](absl::string_view dtype, int64_t n) {
    return ExpectLaunchable(absl::StrReplaceAll(kMiddle, {{"DTYPE", dtype}}), 64, n,
                            *FindDevice("h200"))
        .schedule;
  };
  for (const int64_t n : {200, 336, 500, 700}) {
    const Schedule s = choose("f32", n);
    EXPECT_EQ(s.vector, 1) << s.ToString();
    EXPECT_EQ(s.rows_per_cta(), 32) << s.ToString();
    EXPECT_EQ(s.threads(), 512) << s.ToString();
  }
  // What lies unpacked in registers stays in fewer warps.
  EXPECT_LT(choose("bf16", 1000).threads(), 512);
}

// Neighbouring rows whose columns begin anywhere in a sector: long pieces of them, which a CTA of
// 16 warps holds, unless that takes too many registers.
TEST(ColumnHeuristics, ColumnsThatBeginAnywhere) {
  constexpr char kMiddle[] = R"(fusion middle {
  symbol M
  symbol N
  input x: DTYPE[M, N, LENGTH]
  m, v = moments(cast(x, dtype=f32), axes=[1], keepdims=true)
  y = cast((cast(x, dtype=f32) - m) * rsqrt(v + 1e-5), dtype=DTYPE)
  output y
})";
  const auto choose = [&](absl::string_view dtype, absl::string_view length, int64_t n) {
    return ExpectLaunchable(absl::StrReplaceAll(kMiddle, {{"DTYPE", dtype}, {"LENGTH", length}}),
                            64, n, *FindDevice("h200"))
        .schedule;
  };
  for (const int64_t n : {100, 256, 384, 700}) {
    const Schedule s = choose("f32", "1500", n);
    EXPECT_EQ(s.rows_per_cta(), 64) << s.ToString();
    EXPECT_EQ(s.threads(), 512) << s.ToString();
    EXPECT_TRUE(s.persistent) << s.ToString();
    EXPECT_LT(choose("f32", "1504", n).threads(), 512);  // Whole sectors.
  }
  EXPECT_EQ(choose("bf16", "1502", 256).rows_per_cta(), 64);
  EXPECT_LT(choose("f32", "1500", 1000).threads(), 512);
}

// Pixels that are whole sectors together, though a line of them is not, are tiled as if they were
// one axis.
TEST(ColumnHeuristics, TilesOfWholeSectors) {
  const auto choose = [](absl::string_view pixels, absl::string_view order) {
    return ExpectLaunchable(absl::StrReplaceAll(R"(fusion to_front {
  symbol M
  symbol N
  input x: bf16[M, PIXELS, N]
  y = permute(rms_norm(x, axes=[LAST]), axes=ORDER)
  output y
})",
                                                {{"PIXELS", pixels},
                                                 {"LAST", order == "[0, 2, 1]" ? "2" : "3"},
                                                 {"ORDER", order}}),
                            64, 192, *FindDevice("h200"))
        .schedule;
  };
  const Schedule whole = choose("3136", "[0, 2, 1]"), lines = choose("56, 56", "[0, 3, 1, 2]");
  EXPECT_TRUE(whole.tiles) << whole.ToString();
  EXPECT_EQ(whole.rows_per_cta(), lines.rows_per_cta()) << whole.ToString() << "\n"
                                                        << lines.ToString();
  EXPECT_EQ(whole.threads(), lines.threads()) << whole.ToString() << "\n" << lines.ToString();
}

// Rows of which a few lie beside each other: a warp has these and their columns, no rows that lie
// elsewhere.
TEST(ColumnHeuristics, FewRowsBesideEachOther) {
  for (const int beside : {2, 3, 4, 7, 8, 15}) {
    const std::string text = absl::Substitute(R"(fusion few_rows {
  symbol M
  symbol N
  input x: bf16[M, N, $0]
  y = softmax(x, axis=1)
  output y
})",
                                              beside);
    for (const int64_t n : {64, 1000, 16000}) {
      const int64_t m = (int64_t{1} << 24) / (n * beside);
      const Schedule s = ExpectLaunchable(text, m, n, *FindDevice("h200")).schedule;
      ASSERT_TRUE(s.outer) << s.ToString();
      EXPECT_LT(32 / s.lanes_per_row * s.vector, 2 * beside) << s.ToString();
    }
  }
}

// Rows in pieces of an odd number of elements, which nothing holds: small CTAs that share each of a
// few rows, and larger ones of many rows, which the cache keeps until they are read again.
TEST(ColumnHeuristics, SingleElementsThatAreReadAgain) {
  constexpr char kNorm[] = R"(fusion odd_planes {
  symbol M
  symbol N
  input x: f16[N, M, 35, 35]
  input w: f16[M]
  input b: f16[M]
  y, mean, rstd = batch_norm(x, w, b, eps=1e-5)
  output y
})";
  const DeviceInfo h200 = *FindDevice("h200");
  const Schedule few = ExpectLaunchable(kNorm, 96, 280, h200).schedule;
  ASSERT_EQ(few.vector, 1) << few.ToString();
  EXPECT_FALSE(few.persistent) << few.ToString();
  EXPECT_GT(96 * few.split, 4 * h200.sms) << few.ToString();
  EXPECT_GE(few.registers * few.threads() * few.min_ctas_per_sm, 8192) << few.ToString();
  const Schedule many = ExpectLaunchable(kNorm, 1000, 28, h200).schedule;
  EXPECT_EQ(many.split, 1) << many.ToString();
  EXPECT_LE(many.min_ctas_per_sm * h200.sms * 28 * 35 * 35 * 2, int64_t{32} << 20)
      << many.ToString();
}

// The backward pass of a group norm with the channels in front: long rows of single elements are
// read again, shorter ones and those of wider vectors are held.
TEST(ColumnHeuristics, LongRowsOfSingleElementsThatLeaveStates) {
  const auto choose = [](int channels, int side) {
    const std::string text = absl::Substitute(R"(fusion odd_groups {
  symbol M
  symbol N
  input g: f16[M, 32*N, $0, $0]
  input x: f16[M, 32*N, $0, $0]
  input mean: f32[M, 32]
  input rstd: f32[M, 32]
  input w: f16[32*N]
  dx, dw, db = group_norm_backward(g, x, mean, rstd, w, groups=32)
  output dx
  output dw
  output db
})",
                                              side);
    const int64_t images = (int64_t{1} << 25) / (32 * channels * side * side);
    return ExpectLaunchable(text, images, channels, *FindDevice("h200")).schedule;
  };
  for (const auto& [channels, side] : {std::pair(9, 35), {3, 55}, {6, 71}, {2, 147}}) {
    const Schedule s = choose(channels, side);
    EXPECT_FALSE(s.persistent) << s.ToString();
    EXPECT_GE(s.min_ctas_per_sm, 8) << s.ToString();
  }
  for (const auto& [channels, side] : {std::pair(5, 9), {2, 35}, {8, 35}})
    EXPECT_TRUE(choose(channels, side).persistent) << choose(channels, side).ToString();
}

// Many single elements a thread, of columns that they cover, are not masked.
TEST(ColumnHeuristics, SingleElementsWithoutMasks) {
  constexpr char kNorm[] = R"(fusion odd_channels {
  symbol M
  symbol N
  input x: f16[M, 435, N, N] order [0, 2, 3, 1]
  y = instance_norm(x, eps=1e-5)
  output y order [0, 2, 3, 1]
})";
  const Schedule covered = ExpectLaunchable(kNorm, 75, 32, *FindDevice("h200")).schedule;
  ASSERT_TRUE(covered.outer && covered.persistent) << covered.ToString();
  EXPECT_TRUE(absl::c_any_of(covered.facts, [](const SymbolFact& f) { return f.value == 32; }))
      << covered.ToString();
  const Schedule masked = ExpectLaunchable(kNorm, 60, 37, *FindDevice("h200")).schedule;
  EXPECT_TRUE(absl::c_none_of(masked.facts, [](const SymbolFact& f) { return f.value == 37; }))
      << masked.ToString();
}

// Channels of which a turn of large CTAs would leave a part of the device idle are shared by small
// ones, others are not.
TEST(ColumnHeuristics, TurnsThatAreNotFull) {
  constexpr char kNorm[] = R"(fusion planes {
  symbol M
  symbol N
  input g: f16[N, M, 56, 56]
  input x: f16[N, M, 56, 56]
  input mean: f32[M]
  input rstd: f32[M]
  input w: f16[M]
  dx, dw, db = batch_norm_backward(g, x, mean, rstd, w)
  output dx
  output dw
  output db
})";
  const DeviceInfo h200 = *FindDevice("h200");
  for (const int64_t channels : {24, 48, 64, 72, 116, 144, 160, 200, 232, 256, 264, 336, 464}) {
    const Schedule s = ExpectLaunchable(kNorm, channels, 400, h200).schedule;
    EXPECT_FALSE(s.persistent) << s.ToString();
    const int64_t at_once = int64_t{h200.sms} * s.min_ctas_per_sm;
    const bool large = channels < 66 || (channels > 230 && channels <= 264) || channels > 450;
    EXPECT_EQ(s.threads(), large ? 512 : 128) << s.ToString();
    EXPECT_LE(channels * s.split, std::max(at_once, channels)) << s.ToString();
    if (channels <= 264) {
      EXPECT_GE(channels * s.split * 4, at_once * 3) << s.ToString();
    }
  }
}

// Rows that start anywhere keep their vectors, which CTAs that share one would not have, unless
// they are far too few.
TEST(ColumnHeuristics, ShiftedRowsThatAreReadAgainAreNotShared) {
  constexpr char kSoftmax[] = R"(fusion rows {
  symbol M
  symbol N
  input x: f16[M, N]
  y = softmax(x, axis=1)
  output y
})";
  const DeviceInfo h200 = *FindDevice("h200");
  for (const int64_t rows : {70, 100, 150, 400}) {
    const Schedule s = ExpectLaunchable(kSoftmax, rows, 1000003, h200).schedule;
    EXPECT_TRUE(s.shift && !s.persistent) << s.ToString();
    EXPECT_EQ(s.split, 1) << s.ToString();
  }
  EXPECT_GT(ExpectLaunchable(kSoftmax, 30, 1000003, h200).schedule.split, 1);
}

// Columns of rows that CTAs share, to be read again: 128 bytes of each while a part stays in shared
// memory, 256 where nothing does.
TEST(ColumnHeuristics, LongerPiecesOfRowsThatAreReadAgain) {
  constexpr char kNorm[] = R"(fusion last {
  symbol M
  symbol N
  input x: f16[M, N]
  y, mean, rstd = batch_norm(x, eps=1e-5)
  output y
})";
  const DeviceInfo h200 = *FindDevice("h200");
  for (const int64_t channels : {256, 512, 1024}) {
    const Schedule held = ExpectLaunchable(kNorm, (1 << 25) / channels, channels, h200).schedule;
    EXPECT_GT(held.held, 0) << held.ToString();
    EXPECT_EQ(held.rows_per_cta(), 64) << held.ToString();
    const Schedule all = ExpectLaunchable(kNorm, (1 << 27) / channels, channels, h200).schedule;
    EXPECT_EQ(all.held, 0) << all.ToString();
    EXPECT_EQ(all.rows_per_cta(), 128) << all.ToString();
    EXPECT_GE(channels / 128 * all.split * 10, 9 * 2 * h200.sms) << all.ToString();
  }
}

// The backward pass of a softmax over an axis whose pieces begin anywhere, in 16 bits: as many
// warps as a CTA has read them again, where no CTA would hold them.
TEST(ColumnHeuristics, PiecesThatBeginAnywhereAreReadAgain) {
  constexpr char kBackward[] = R"(fusion middle {
  symbol M
  symbol N
  input g: DTYPE[M, N, LENGTH]
  input x: DTYPE[M, N, LENGTH]
  dx = softmax_backward(g, x, axis=1)
  output dx
})";
  const auto choose = [&](absl::string_view dtype, absl::string_view length, int64_t n) {
    return ExpectLaunchable(absl::StrReplaceAll(kBackward, {{"DTYPE", dtype}, {"LENGTH", length}}),
                            64, n, *FindDevice("h200"))
        .schedule;
  };
  for (const int64_t n : {600, 1000, 2000, 3500}) {
    const Schedule s = choose("bf16", "1500", n);
    EXPECT_FALSE(s.persistent) << s.ToString();
    EXPECT_EQ(s.threads(), 1024) << s.ToString();
    EXPECT_EQ(s.rows_per_cta(), 32) << s.ToString();
  }
  EXPECT_TRUE(choose("bf16", "1500", 400).persistent);
  EXPECT_TRUE(choose("bf16", "1504", 1000).persistent);  // Whole sectors.
  EXPECT_TRUE(choose("f32", "1500", 1000).persistent);
  EXPECT_NE(choose("bf16", "1500", 5000).threads(), 1024);
}

}  // namespace
}  // namespace seam
