// Positions of extrema: the first of equal ones, NaN before all numbers, and rows of nothing but
// what no element would beat, however the columns are shared among threads.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/alternatives.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;

// Of x[M, N]. What is compared has two values, one, only the identity's, the identity's and NaN.
const char* const kValues[] = {
    "v = cast(x > 0.0, dtype=f32)",
    "v = x * 0.0",
    "v = x * 0.0 - inf: f32",
    "v = x * 0.0 + inf: f32",
    "v = where(x > 2.0, x, -inf: f32)",
    "v = where(x < -2.0, x, inf: f32)",
    "v = where(x > 1.0, x * inf: f32 - x * inf: f32, where(x > 0.0, -inf: f32, inf: f32))",
    "v = cast(x * 2.0, dtype=i32)",
    "v = cast(x > 0.5, dtype=i64) - 9223372036854775807",
};

std::string Text(const char* values, const char* more) {
  return absl::StrCat("fusion positions {\n  symbol M\n  symbol N\n  input x: f32[M, N]\n  ",
                      values,
                      "\n  top = argmax(v, axes=[1])\n  low = argmin(v, axes=[1])\n  output top\n"
                      "  output low\n",
                      more, "}\n");
}

// A norm of the row holds it, so that clusters and rows brought ahead are among the alternatives.
const char* const kNorm = "  y = x - mean(x, axes=[1], keepdims=true)\n  output y\n";

TEST(Positions, OfEveryRow) {
  testing::Part part;
  for (const char* values : kValues) {
    for (const char* more : {"", kNorm}) {
      for (const int64_t n : {1, 3, 32, 100, 1000, 1001, 5003}) {
        SCOPED_TRACE(absl::StrCat(values, more, n));
        if (part.TakesNext()) ExpectRight(Text(values, more), {.sizes = {{"M", 5}, {"N", n}}});
      }
    }
  }
}

TEST(Positions, OfNoRows) { ExpectRight(Text(kValues[0], ""), {.sizes = {{"M", 0}, {"N", 8}}}); }

// Each with some of the values, and each of the values with some of them.
TEST(Positions, EveryAlternative) {
  constexpr int kSome = 5;
  int next = 0;
  for (const char* values : kValues) {
    for (const char* more : {"", kNorm}) {
      const std::string text = Text(values, more);
      const absl::StatusOr<Fusion> group = ParseFusion(text);
      ASSERT_TRUE(group.ok()) << group.status();
      for (const int64_t n : {120, 2051}) {
        const ScheduleContext context{.sizes = {6, n}, .device = *FindDevice("h200")};
        const absl::StatusOr<Schedule> chosen =
            FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
        ASSERT_TRUE(chosen.ok()) << chosen.status();
        const auto alternatives = Alternatives(*group, *chosen, context);
        ASSERT_TRUE(alternatives.ok()) << alternatives.status();
        for (const Schedule& s : *alternatives) {
          if (next++ % (kSome * testing::kPart) != 0) continue;
          SCOPED_TRACE(absl::StrCat(values, more, n));
          ExpectRight(
              text, {.sizes = {{"M", 6}, {"N", n}}, .edit = [&](Schedule& edited) { edited = s; }});
        }
      }
    }
  }
}

// Down the columns, and of all rows.
TEST(Positions, AcrossRows) {
  testing::Part part;
  for (const char* values : kValues) {
    for (const int64_t n : {1, 33, 136}) {
      SCOPED_TRACE(absl::StrCat(values, n));
      if (!part.TakesNext()) continue;
      const std::string text =
          absl::StrCat("fusion positions {\n  symbol M\n  symbol N\n  input x: f32[M, N]\n  ",
                       values, "\n  top = argmax(v, axes=[0])\n  low = argmin(v, axes=[0])\n",
                       "  output top\n  output low\n");
      ExpectRight(absl::StrCat(text, "}\n"), {.sizes = {{"M", 70}, {"N", n}}});
      ExpectRight(absl::StrCat(text, "  s = sum(x, axes=[1])\n  output s\n}\n"),
                  {.sizes = {{"M", 70}, {"N", n}}});
    }
  }
}

}  // namespace
}  // namespace seam
