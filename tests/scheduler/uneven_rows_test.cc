// What rows of any length get, those above all that do not fill the threads of others: enough under
// way to keep memory busy. scheduler/reduction_uneven.h and what of backward passes goes with it.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_replace.h"
#include "scheduler/device.h"
#include "scheduler/schedule.h"
#include "tests/support/launchable.h"
#include "tests/support/norm_graphs.h"

namespace seam {
namespace {

using testing::ExpectLaunchable;
using testing::kLayerNorm;
using testing::kSoftmax;
using testing::LayerNormBackward;

// Rows of any length keep memory busy: an SM has as much of them under way at once, and few of its
// threads have nothing to do.
TEST(UnevenRows, RowsOfAnyLengthKeepMemoryBusy) {
  const DeviceInfo h200 = *FindDevice("h200");
  for (int64_t n = 1096; n <= 16384; n += 264) {
    const Schedule s = ExpectLaunchable(kLayerNorm, (1 << 28) / n, n, h200).schedule;
    const int64_t rows = s.min_ctas_per_sm * s.rows_per_cta();
    EXPECT_GE(rows * n * 2, 48 * 1024) << n << s.ToString();
    EXPECT_LE(s.columns_at_once() * 3, n * 4) << n << s.ToString();
    for (const bool bias : {false, true}) {
      const Schedule t = ExpectLaunchable(LayerNormBackward(bias), (1 << 28) / n, n, h200).schedule;
      const int64_t ahead = t.min_ctas_per_sm * t.rows_per_cta() * t.stages * n * 4 / t.cluster;
      EXPECT_GE(ahead, 60 * 1024) << n << t.ToString();
      EXPECT_LE(t.columns_at_once() * 3, n * 4) << n << t.ToString();
    }
  }
}

// Lengths at which threads with few vectors each, or one CTA less than there are registers for,
// left too little under way. Source: docs/schedulers/any-length.md, "Few vectors, many CTAs".
TEST(UnevenRows, RowsThatDoNotFillTheirThreadsKeepMemoryBusy) {
  const DeviceInfo h200 = *FindDevice("h200");
  const auto chosen = [&](const std::string& text, int64_t n) {
    return ExpectLaunchable(text, (1 << 28) / n, n, h200).schedule;
  };
  const auto bytes = [](const Schedule& s, int64_t n, int width) {
    return s.min_ctas_per_sm * s.rows_per_cta() * n * width;
  };
  const std::string wide_norm = absl::StrReplaceAll(kLayerNorm, {{"bf16", "f32"}}),
                    softmax = absl::StrReplaceAll(kSoftmax, {{"DTYPE", "bf16"}}),
                    wide_softmax = absl::StrReplaceAll(kSoftmax, {{"DTYPE", "f32"}});
  for (const int64_t n : {1096, 1608}) {
    const Schedule s = chosen(wide_norm, n);
    EXPECT_GE(bytes(s, n, 4), 42 * 1024) << n << s.ToString();
  }
  for (const int64_t n : {3085, 3167, 3300}) {
    const Schedule s = chosen(kLayerNorm, n);
    EXPECT_GE(bytes(s, n, 2), 90 * 1024) << n << s.ToString();
  }
  for (const int64_t n : {2101, 2233, 3167, 8809, 9224}) {
    const Schedule s = chosen(softmax, n);
    EXPECT_GE(bytes(s, n, 2), 48 * 1024) << n << s.ToString();
    EXPECT_GE(s.min_ctas_per_sm, 4) << n << s.ToString();
  }
  const Schedule three = chosen(wide_softmax, 6664);
  EXPECT_EQ(three.min_ctas_per_sm, 3) << three.ToString();
  // Few threads with much each, in step; and four vectors a thread on an even number of warps.
  for (const int64_t n : {776, 840}) {
    const Schedule s = chosen(LayerNormBackward(true), n);
    EXPECT_EQ(s.registers, 7) << n << s.ToString();
    EXPECT_EQ(s.pace, 1) << n << s.ToString();
  }
  for (const int64_t n : {8008, 8600, 9224, 9600}) {
    const Schedule s = chosen(LayerNormBackward(true), n);
    EXPECT_EQ(s.registers, n == 8600 ? 3 : 4) << n << s.ToString();
    EXPECT_EQ(s.min_ctas_per_sm, 1) << n << s.ToString();
  }
}

// The same of 32-bit rows that start anywhere, which wait at barriers for their sums and then for
// weights: several CTAs an SM have enough under way, whatever the length.
TEST(UnevenRows, WideRowsOfOddLengthsKeepMemoryBusy) {
  const DeviceInfo h200 = *FindDevice("h200");
  const std::string norm = absl::StrReplaceAll(kLayerNorm, {{"bf16", "f32"}}),
                    softmax = absl::StrReplaceAll(kSoftmax, {{"DTYPE", "f32"}}),
                    backward = absl::StrReplaceAll(LayerNormBackward(true), {{"bf16", "f32"}});
  for (int64_t n = 1059; n <= 16384; n += 262) {
    for (const std::string& text : {norm, softmax}) {
      const Schedule s = ExpectLaunchable(text, (1 << 28) / n, n, h200).schedule;
      const int64_t rows = s.min_ctas_per_sm * s.rows_per_cta();
      EXPECT_TRUE(s.shift) << n << s.ToString();
      EXPECT_GE(s.min_ctas_per_sm, 2) << n << s.ToString();
      const int64_t least = text == norm || n > 6400 ? 56000 : 20000;
      EXPECT_GE(rows * n * 4, least) << n << s.ToString();
    }
    const Schedule t = ExpectLaunchable(backward, (1 << 28) / n, n, h200).schedule;
    EXPECT_GE(t.min_ctas_per_sm * t.rows_per_cta() * t.stages * n * 8 / t.cluster, 60 * 1024)
        << n << t.ToString();
    const int least = n > 2048 && n <= 3072 ? 2 : 1;
    EXPECT_GE(t.min_ctas_per_sm, least) << n << t.ToString();
  }
  // Of 16-bit data where as many vectors as at other lengths spilled, or left too little under way.
  const Schedule sixes = ExpectLaunchable(kLayerNorm, (1 << 28) / 7277, 7277, h200).schedule;
  EXPECT_GE(sixes.min_ctas_per_sm * 7277 * 2, 80000) << sixes.ToString();
  const Schedule threes =
      ExpectLaunchable(LayerNormBackward(true), (1 << 28) / 4555, 4555, h200).schedule;
  EXPECT_EQ(threes.registers, 3) << threes.ToString();
  EXPECT_EQ(threes.min_ctas_per_sm, 2) << threes.ToString();
}

}  // namespace
}  // namespace seam
