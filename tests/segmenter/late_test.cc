// One row that waits for a reduction over all of it, merged behind everything else.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "segmenter/segment.h"

namespace seam {
namespace {

// One row is one kernel while the cache holds it; else what waits for its sums is another.
TEST(LateTest, OneRowThatTheCacheHolds) {
  const auto kernels = [](absl::string_view text, int64_t n,
                          std::vector<std::string> without = {}) {
    const Fusion f = *ParseFusion(text);
    const auto s = Segment(f, RealGuard(), {.sizes = {{"N", n}}, .disabled_passes = without});
    EXPECT_TRUE(s.ok()) << s.status();
    return s.ok() ? s->num_groups() : 0;
  };
  constexpr absl::string_view kSoftmax =
      "fusion f {\n symbol N\n input x: bf16[1, N]\n y = softmax(cast(x, dtype=f32), axis=1)\n "
      "output y\n}";
  for (const int64_t n : {1000, 50257, 1000003}) EXPECT_EQ(kernels(kSoftmax, n), 1) << n;
  EXPECT_EQ(kernels(kSoftmax, 50257, {"late"}), 3);
  EXPECT_EQ(kernels(kSoftmax, 100000000), 3);
  // With slices of it, each element would be looked for.
  constexpr absl::string_view kSliced =
      "fusion f {\n symbol N\n input x: f32[2 * N]\n s = sum(x, axes=[0])\n y = x[:N] - x[N:] * "
      "s\n "
      "output y\n}";
  EXPECT_EQ(kernels(kSliced, 50000), 2);
}

// What others compute beside a reduction stays there: one launch of updates beside each other.
TEST(LateTest, WhatWaitsForAllIsMergedLast) {
  const Fusion f = *ParseFusion(R"(fusion f {
    symbol N
    input a: f32[N]
    input b: f32[2 * N]
    n = sum(a * a, axes=[0]) + sum(b * b, axes=[0])
    c = minimum(rsqrt(n), 1.0)
    x = a * c
    y = b * c
    output x
    output y
  })");
  SegmentOptions options{.sizes = {{"N", 50000}}};
  const auto s = Segment(f, RealGuard(), options);
  ASSERT_TRUE(s.ok()) << s.status();
  options.disabled_passes = {"late"};
  const auto without = Segment(f, RealGuard(), options);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(s->num_groups(), without->num_groups());
}

}  // namespace
}  // namespace seam
