// Vectors are chosen by how much of what a group moves they fit: a small part that lies otherwise
// leaves the rest its vectors.
#include "scheduler/vector_fit.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;

struct Case {
  const char* what;
  const char* text;  // Of bf16 x[M, WIDTH], a multiple of 64, and y.
  int vector;        // Of rows of 512.
};

const Case kCases[] = {
    // A thirty-second of the columns has every other element in front.
    {"a part is turned",
     "r = reshape(f[:, 0:16], sizes=[M, 8, 2])\n  e = squeeze(r[:, :, 0:1], axes=[2])\n"
     "  o = squeeze(r[:, :, 1:2], axes=[2])\n  y = cat(e - o * s, o + e * s, n[:, 16:], axis=1)",
     8},
    {"all are turned",
     "r = reshape(n, sizes=[M, WIDTH // 2, 2])\n  e = squeeze(r[:, :, 0:1], axes=[2])\n"
     "  o = squeeze(r[:, :, 1:2], axes=[2])\n  y = cat(e - o * s, o + e * s, axis=1)",
     1},
    // What is read a second time is the lesser part.
    {"moved by one", "y = cat(n[:, 1:], n[:, 0:1], axis=1)", 8},
    {"two are moved by one",
     "y = cat(n[:, 1:], n[:, 0:1], axis=1) + cat(f[:, 2:], f[:, 0:2], axis=1) * "
     "cat(f[:, 3:], f[:, 0:3], axis=1)",
     1},
    {"one column is moved", "y = n * f[:, 3:4]", 8},
    // Squares of 2x2x8 in another order on either side.
    {"digits of columns in another order",
     "r = permute(reshape(n, sizes=[M, 2, 2, WIDTH // 4]), axes=[0, 2, 1, 3])\n"
     "  y = reshape(r, sizes=[M, WIDTH])",
     8},
    // The new axis is the fastest.
    {"interleaved",
     "a = n[:, 0::2]\n  b = n[:, 1::2]\n"
     "  y = reshape(cat((b * s)[:, :, None], (a - s)[:, :, None], axis=2), sizes=[M, WIDTH])",
     8},
};

std::string Text(const Case& c) {
  return absl::StrCat(
      "fusion part {\n  symbol M\n  symbol K\n  input x: bf16[M, 64*K]\n"
      "  f = cast(x, dtype=f32)\n  s = sum(f, axes=[1], keepdims=true)\n  n = f - s\n  ",
      absl::StrReplaceAll(c.text, {{"WIDTH", "64*K"}}),
      "\n  out = cast(y, dtype=bf16)\n  output out\n}\n");
}

TEST(VectorFit, ByTheBytesThatAreMoved) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const absl::StatusOr<Fusion> group = ParseFusion(Text(c));
    ASSERT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {4096, 8}, .device = *FindDevice("h100")};
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->vector, c.vector) << s->ToString();
  }
}

TEST(VectorFit, IsRight) {
  testing::Part part;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    for (const int64_t m : {1, 5}) {
      for (const int64_t k : {1, 3, 8}) {
        if (part.TakesNext()) ExpectRight(Text(c), {.sizes = {{"M", m}, {"K", k}}});
      }
    }
  }
}

}  // namespace
}  // namespace seam
