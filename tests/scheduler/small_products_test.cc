// Small products: a thread has several of the rows that read the same again.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
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
    EXPECT_EQ(s.beside, 1) << s.ToString();
    EXPECT_EQ(s.beside_points, 4) << s.ToString();
    EXPECT_EQ(s.along, 0) << s.ToString();
    EXPECT_EQ(s.points, 4) << s.ToString();
    EXPECT_EQ(Chosen(Text(13, 1024, across), {200000}).points, 2);
  }
  // More results than a thread has room for: a tile of them.
  EXPECT_EQ(Chosen(Text(64, 1024), {200000}).beside_points, 8);
  // So few rows that SMs would have none.
  EXPECT_EQ(Chosen(Text(4, 1024), {16}).beside, -1);
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
                .beside,
            -1);
}

TEST(SmallProducts, AreRight) {
  for (const int results : {2, 3, 5, 16}) {
    for (const int columns : {8, 40, 257}) {
      for (const int64_t rows : {0, 1, 3, 64}) {
        const std::string text = Text(results, columns, results == 3);
        ExpectRight(text, {.sizes = {{"M", rows}}});
        if (rows % 2 != 0 || columns == 257) continue;
        ExpectRight(text, {.sizes = {{"M", rows}}, .edit = [=](Schedule& s) {
                             s.points = 2;
                             s.along = 0;
                             s.beside = 1;
                             s.beside_points = results;
                             s.min_ctas_per_sm = 0;
                             s.shift = s.blocks = s.async = false;
                           }});
      }
    }
  }
}

// Of two long axes a thread has a tile, whether or not it divides them, and goes through the
// columns in steps.
TEST(SmallProducts, ATileOfLongAxes) {
  for (const bool across : {false, true}) {
    for (const int64_t rows : {65536, 65537}) {
      const Schedule s = Chosen(Text(96, 256, across), {rows});
      EXPECT_EQ(s.points * s.beside_points, 64) << s.ToString();
      EXPECT_EQ(s.uneven, rows % 8 != 0) << s.ToString();
      EXPECT_EQ(s.lanes_per_row, 4) << s.ToString();
      EXPECT_FALSE(s.persistent) << s.ToString();
    }
  }
  // So many rows that all SMs have warps enough, and a sixteenth of them, which more lanes share.
  EXPECT_LT(Chosen(Text(96, 256), {65536}).lanes_per_row,
            Chosen(Text(96, 256), {4096}).lanes_per_row);
  // Results that take longer to store than to compute.
  EXPECT_EQ(Chosen(Text(96, 8), {65536}).beside, -1);
}

// The columns' vectors are those of what is loaded again and again, however much larger the result
// is; what a result needs beside them counts once.
TEST(SmallProducts, TilesWithLargeResults) {
  const auto text = [](const std::string& result, const std::string& more) {
    return absl::StrCat(R"(fusion product {
  symbol M
  symbol N
  symbol K
  input a: f32[M, K]
  input b: f32[N, K]
  input c: f32[M, N]
  input d: f32[M, N]
  input e: f32[M, N]
  input r: f32[M]
  y = sum(a[:, None] * b, axes=[2])
  z = )",
                        result, "\n  output z\n", more, "}\n");
  };
  const Schedule s = Chosen(text("y + c", ""), {65536, 1024, 128});
  EXPECT_EQ(s.points * s.beside_points, 64) << s.ToString();
  const auto divides = [](const SymbolFact& f) { return f.symbol == "K" && f.multiple % 4 == 0; };
  EXPECT_TRUE(absl::c_any_of(s.facts, divides)) << s.ToString();
  EXPECT_EQ(Chosen(text("y + c", ""), {65536, 1024, 37}).vector, 1);
  for (const std::string more :
       {"", "  q = exp(r)\n  z2 = z + q[:, None]\n  output q\n  output z2\n"}) {
    const std::string all = text("y * c + d * e", more);
    EXPECT_EQ(Chosen(all, {65536, 256, 256}).points_of_thread(), 64) << all;
    ExpectRight(all, {.sizes = {{"M", 19}, {"N", 9}, {"K", 8}}, .edit = [](Schedule& t) {
                        t.points = 8;
                        t.beside = 1;
                        t.beside_points = 4;
                        t.uneven = true;
                        t.lanes_per_row = 2;
                        t.registers = t.warps_per_row = 1;
                        t.min_ctas_per_sm = 0;
                        t.persistent = t.shift = t.blocks = t.async = t.tiles = false;
                      }});
  }
}

TEST(SmallProducts, TilesAreRight) {
  for (const int results : {17, 24, 33}) {
    for (const int columns : {1, 8, 45, 64}) {
      for (const int64_t rows : {0, 1, 7, 8, 19}) {
        for (const int points : {1, 2, 8}) {
          const int beside = points == 1 ? 16 : points == 2 ? 5 : 8;
          const auto tile = [=](Schedule& s) {
            s.points = points;
            s.along = 0;
            s.beside = 1;
            s.beside_points = beside;
            s.uneven = true;
            s.vector = std::gcd(s.vector, columns);
            s.registers = s.warps_per_row = 1;
            s.lanes_per_row = 4;
            s.min_ctas_per_sm = 0;
            s.persistent = s.shift = s.blocks = s.async = s.tiles = false;
            if (rows > 0) s.facts.clear();
          };
          ExpectRight(Text(results, columns, columns == 45),
                      {.sizes = {{"M", rows}}, .edit = tile});
        }
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
    EXPECT_EQ(s.beside, -1) << s.ToString();
    return s.points;
  };
  EXPECT_EQ(points_of("", 262144), 8);
  EXPECT_EQ(points_of("", 1024), 1);
  EXPECT_EQ(points_of(" * d", 262144), 1);
  for (const int64_t n : {1, 3, 8}) ExpectRight(text(""), {.sizes = {{"N", n}}});
}

}  // namespace
}  // namespace seam
