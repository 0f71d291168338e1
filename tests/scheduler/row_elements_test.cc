// Elements of rows that lie in no vectors: how many of them a thread has, and of what is divided
// how much must be known for vectors.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

struct Rows {
  const char* what;
  const char* text;
  std::vector<int64_t> sizes;  // Of its symbols, in order,
  int vector;                  // and the vector then.
  std::string fact;            // Part of the schedule.
  std::vector<std::vector<int64_t>> small;
};

const Rows kRows[] = {
    {"few elements",
     R"(fusion f {
  symbol B
  input q: f32[B, 51]
  input t: f32[B, 51]
  u = t[:, None, :] - q[:, :, None]
  d = sum(abs(u), axes=[2])
  l = mean(d, axes=[0, 1])
  output d
  output l
})",
     {4096},
     4,
     "",
     {{3}, {1}}},
    {"few rows of few elements",
     R"(fusion f {
  symbol B
  input q: f32[B, 51]
  d = sum(abs(q[:, None, :] - q[:, :, None]), axes=[2])
  output d
})",
     {1},
     1,
     "",
     {{3}}},
    {"random numbers",
     R"(fusion f {
  symbol M
  symbol N
  input x: f32[M, N]
  input seed: i64
  input offset: i64
  u = random_uniform(seed, offset, sizes=[M, N], dtype=f32)
  n = where(u < 0.25, cat(x[:, 1:N], x[:, 0:1], axis=1), cat(x[:, 3:N], x[:, 0:3], axis=1)) + where(u > 0.75, cat(x[:, 2:N], x[:, 0:2], axis=1), 0.0)
  s = sum(n, axes=[1])
  all = sum(n)
  output n
  output s
  output all
})",
     {4096, 4096},
     4,
     "",
     {{3, 37}, {2, 4}}},
    {"halves",
     R"(fusion f {
  symbol M
  symbol D
  input x: bf16[M, D]
  a = cast(x[:, 0:D//2], dtype=f32)
  o = cast(a * rsqrt(mean(a * a, axes=[1], keepdims=true) + 1e-6), dtype=bf16)
  output o
})",
     {65536, 128},
     8,
     "16 divides D",
     {{3, 128}, {3, 48}, {2, 7}}},
    {"halves that change places",
     R"(fusion f {
  symbol M
  symbol D
  input x: bf16[M, D]
  f = cast(x, dtype=f32)
  y = f * rsqrt(mean(f * f, axes=[1], keepdims=true) + 1e-6)
  o = cast(y + cat(-y[:, D//2:D], y[:, 0:D//2], axis=1), dtype=bf16)
  output o
})",
     {65536, 128},
     8,
     "16 divides D",
     {{3, 128}, {3, 40}, {2, 7}}},
    {"as many parts as a symbol says",
     R"(fusion f {
  symbol T
  symbol E
  symbol H
  input x: bf16[T, E]
  f = cast(reshape(x, sizes=[T, H, E//H]), dtype=f32)
  o = cast(f * rsqrt(mean(f * f, axes=[2], keepdims=true) + 1e-6), dtype=bf16)
  output o
})",
     {4096, 2560, 40},
     8,
     "E = 2560, H = 40",
     {{3, 64, 4}, {2, 21, 3}}},
    {"the order that most tensors have",
     R"(fusion f {
  symbol B
  input o: f16[B, 256, 64]
  input x: f16[B, 64, 256]
  h = cast(x, dtype=f32) + cast(permute(o, axes=[0, 2, 1]), dtype=f32)
  y = layer_norm(h, axes=[1, 2])
  z = cast(h, dtype=f16)
  u = cast(y, dtype=f16)
  output z
  output u
})",
     {512},
     8,
     "",
     {{3}}},
};

TEST(RowElements, OfAThread) {
  for (const Rows& r : kRows) {
    SCOPED_TRACE(r.what);
    const absl::StatusOr<Fusion> group = ParseFusion(r.text);
    ASSERT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = r.sizes, .device = *FindDevice("h200")};
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->vector, r.vector) << s->ToString();
    EXPECT_NE(s->ToString().find(r.fact), std::string::npos) << s->ToString();
  }
}

TEST(RowElements, AreRight) {
  testing::Part part;
  for (const Rows& r : kRows) {
    SCOPED_TRACE(r.what);
    const absl::StatusOr<Fusion> group = ParseFusion(r.text);
    ASSERT_TRUE(group.ok()) << group.status();
    for (const std::vector<int64_t>& sizes : r.small) {
      testing::GroupRun run;
      for (size_t i = 0; i < sizes.size(); ++i)
        run.sizes[std::string(group->env().symbols()[i]->name)] = sizes[i];
      if (part.TakesNext()) testing::ExpectRight(r.text, run);
    }
  }
}

}  // namespace
}  // namespace seam
