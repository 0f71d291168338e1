// What the heuristics do with rows of several inputs, and with what copies bring a part of.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "scheduler/device.h"
#include "scheduler/schedule.h"
#include "tests/support/group_runner.h"
#include "tests/support/launchable.h"

namespace seam {
namespace {

using testing::ExpectLaunchable;

// What rows of two inputs do in few lanes: four vectors a lane of short ones that vectors of 16
// bytes do not divide, and more threads a CTA of two softmaxes of long ones.
TEST(RowHeuristics, RowsOfTwoInputs) {
  const DeviceInfo h100 = *FindDevice("h100");
  const auto gradient = [](const std::string& s) {
    return absl::StrCat(R"(fusion two {
  symbol M
  symbol N
  input a: bf16[M, N]
  input b: bf16[M, N]
  p = cast(a, dtype=f32)
  g = cast(b, dtype=f32)
)",
                        s, R"(
  out = cast(y, dtype=bf16)
  output out
})");
  };
  const std::string softmax_backward = gradient("  y = p * (g - sum(p * g, axes=[1])[:, None])");
  for (const int64_t n : {60, 84, 100, 116, 124})
    EXPECT_LE(ExpectLaunchable(softmax_backward, 1 << 20, n, h100).schedule.registers, 4) << n;
  const std::string divergence = gradient("  y = softmax(p, axis=1) - softmax(g, axis=1)");
  for (const int64_t n : {24576, 50264, 98304}) {
    const Schedule s = ExpectLaunchable(divergence, 4096, n, h100).schedule;
    EXPECT_GT(s.cluster, 1) << s.ToString();
    EXPECT_GE(s.threads() * s.min_ctas_per_sm, 352) << s.ToString();
  }
}

// A long row that begins anywhere, beside one that does not: four elements to a thread, each of
// which is moved by itself where there is no vector.
TEST(RowHeuristics, SingleElementsOfStreamedRows) {
  const std::string text = R"(fusion steps {
  symbol M
  symbol N
  input x: f32[M, N]
  d = x[:, 1:] - x[:, :N - 1]
  s = sum(d * d)
  output d
  output s
})";
  const Schedule s = ExpectLaunchable(text, 4099, 4099, *FindDevice("h200")).schedule;
  EXPECT_EQ(s.vector, 4) << s.ToString();
  EXPECT_FALSE(s.persistent) << s.ToString();
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 2}, {3, 700}, {7, 1031}}) {
    const testing::GroupResult result =
        testing::RunGroupText(text, {.sizes = {{"M", m}, {"N", n}}, .edit = [](Schedule& s) {
                                       if (s.vector == 1) s.vector = 4;
                                     }});
    EXPECT_TRUE(result.status.ok()) << m << " x " << n << ": " << result.status;
  }
}

// Copies that bring a part of a row: the rest comes to more threads, or all of it, where it is a
// large tensor in another order.
TEST(RowHeuristics, WhatCopiesDoNotBring) {
  const DeviceInfo h100 = *FindDevice("h100");
  const auto backward = [](const std::string& grad) {
    return absl::StrCat(R"(fusion backward {
  symbol M
  symbol N
  input x: bf16[4*M, 8*N]
  input mean: f32[4*M]
  input rstd: f32[4*M]
  input w: bf16[8*N]
)",
                        grad, R"(
  dx, dw, db = layer_norm_backward(g, cast(x, dtype=f32), mean, rstd, cast(w, dtype=f32), axes=[1])
  out = cast(dx, dtype=bf16)
  output out
  output dw
  output db
})");
  };
  const std::string whole = backward("  input d: bf16[4*M, 8*N]\n  g = cast(d, dtype=f32)");
  const std::string shared = R"(fusion pooled {
  symbol M
  symbol N
  input d: bf16[M, 8*N]
  input x: bf16[M, 196, 8*N]
  input mean: f32[M, 196]
  input rstd: f32[M, 196]
  input w: bf16[8*N]
  g = expand(cast(d, dtype=f32)[:, None, :], sizes=[M, 196, 8*N])
  dx, dw, db = layer_norm_backward(g, cast(x, dtype=f32), mean, rstd, cast(w, dtype=f32), axes=[2])
  out = cast(dx, dtype=bf16)
  output out
  output dw
  output db
})";
  const std::string apart = backward(
      "  input d: bf16[4, M, 8*N]\n  g = reshape(permute(cast(d, dtype=f32), axes=[1, 0, 2]), "
      "sizes=[4*M, 8*N])");
  for (const int64_t n : {96, 128}) {
    const Schedule table = ExpectLaunchable(shared, 256, n, h100).schedule;
    EXPECT_GT(table.stages, 0) << table.ToString();
    EXPECT_EQ(table.registers, 2) << table.ToString();
    EXPECT_EQ(table.threads() * table.min_ctas_per_sm, 512) << table.ToString();
  }
  // Rows of a byte that copies bring by pairs stay pairs.
  ExpectLaunchable(absl::StrReplaceAll(shared, {{"bf16", "i8"}}), 128, 255, h100);
  for (const int64_t n : {12, 24, 48}) {
    const Schedule s = ExpectLaunchable(apart, 102400, n, h100).schedule;
    EXPECT_EQ(s.stages, 0) << s.ToString();
    EXPECT_EQ(s.threads(), 128) << s.ToString();
    EXPECT_GT(ExpectLaunchable(whole, 102400, n, h100).schedule.stages, 0);
  }
}

}  // namespace
}  // namespace seam
