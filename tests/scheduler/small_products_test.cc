// Small products: a thread has several of the rows that read the same again.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using testing::Chosen;
using testing::ExpectRight;

// `results` products of each row with the rows of a table, which lie beside each other or across.
std::string Text(int results, int columns, bool across = false) {
  return absl::StrCat(
      "fusion product {\n  symbol M\n  input x: bf16[M, ", columns, "]\n",
      across ? absl::StrCat("  input w: f32[", columns, ", ", results, "]\n",
                            "  y = sum(cast(x, dtype=f32)[:, :, None] * w, axes=[1])\n")
             : absl::StrCat("  input w: f32[", results, ", ", columns, "]\n",
                            "  y = sum(cast(x, dtype=f32)[:, None] * w, axes=[2])\n"),
      "  output y\n}\n");
}

// A thread has all results of a row, and of several rows: x is read once, w once for these.
TEST(SmallProducts, AllResultsOfARowToAThread) {
  for (const bool across : {false, true}) {
    const Schedule s = Chosen(Text(4, 1024, across), {200000});
    EXPECT_EQ(s.all_of, 1) << s.ToString();
    EXPECT_EQ(s.along, 0) << s.ToString();
    EXPECT_EQ(s.points, 4) << s.ToString();
    EXPECT_EQ(Chosen(Text(13, 1024, across), {200000}).points, 2);
  }
  // More results than a thread has room for, and as many columns.
  EXPECT_EQ(Chosen(Text(64, 1024), {200000}).all_of, -1);
  // So few rows that SMs would have none.
  EXPECT_EQ(Chosen(Text(4, 1024), {16}).all_of, -1);
}

// Rows that each read columns of their own gain nothing: heads beside a mask that they share.
TEST(SmallProducts, NotWhereRowsReadTheirOwn) {
  EXPECT_EQ(Chosen(R"(fusion heads {
  symbol B
  input x: bf16[B, 8, 128, 256]
  input m: bf16[B, 128, 256]
  y = amax(x + m[:, None], axes=[3])
  output y
})",
                   {64})
                .all_of,
            -1);
}

TEST(SmallProducts, AreRight) {
  for (const int results : {2, 3, 5, 16}) {
    for (const int columns : {8, 40, 257}) {
      for (const int64_t rows : {0, 1, 3, 64}) {
        const std::string text = Text(results, columns, results == 3);
        ExpectRight(text, {.sizes = {{"M", rows}}});
        if (rows % 2 != 0 || columns == 257) continue;
        ExpectRight(text, {.sizes = {{"M", rows}}, .edit = [](Schedule& s) {
                             s.points = 2;
                             s.along = 0;
                             s.all_of = 1;
                             s.min_ctas_per_sm = 0;
                             s.shift = s.blocks = s.async = false;
                           }});
      }
    }
  }
}

// A matrix of many rows times many short vectors: a thread has several of these beside each row of
// the matrix. Where a CTA moves much, or rows read three tensors, it has one row.
TEST(SmallProducts, OfShortRows) {
  const auto text = [](const std::string& more) {
    return absl::StrCat(R"(fusion short_rows {
  symbol N in [1, 4194304]
  input x: u8[N, 8]
  input c: f32[64, 8]
  input d: f32[64, 8]
  f = cast(x, dtype=f32) - 128.0
  r = sum(f[:, None] * c)",
                        more, R"(, axes=[2])
  output r
})");
  };
  const auto points_of = [&](const std::string& more, int64_t n) {
    const Schedule s = Chosen(text(more), {n});
    EXPECT_EQ(s.all_of, -1) << s.ToString();
    return s.points;
  };
  EXPECT_EQ(points_of("", 262144), 8);
  EXPECT_EQ(points_of("", 1024), 1);
  EXPECT_EQ(points_of(" * d", 262144), 1);
  for (const int64_t n : {1, 3, 8}) ExpectRight(text(""), {.sizes = {{"N", n}}});
}

}  // namespace
}  // namespace seam
