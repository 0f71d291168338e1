// Vectors along rows: their states are merged with a row a thread, within a CTA, from parts in
// memory, and across the CTAs of a cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::Chosen;
using ::testing::ContainsRegex;
using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;

// Columns [P], rows [C], which are neighbours: statistics of either kind, a value of every row and
// of every element.
std::string Norm(const std::string& dtype) {
  return absl::StrCat(R"(fusion norm {
  symbol P
  symbol C
  input x: )",
                      dtype, R"([P, C]
  input w: f32[C]
  f = cast(x, dtype=f32)
  avg, m2, n = welford(f, axes=[0])
  top = amax(x, axes=[0])
  r = rsqrt(m2 / n + 1e-5) * w
  y = cast((f - avg[None, :]) * r[None, :] + cast(top, dtype=f32)[None, :], dtype=)",
                      dtype, R"()
  output y
  output avg
  output top
})");
}

// Two sums that every element needs, and one across images that nothing does.
constexpr char kBackward[] = R"(fusion backward {
  symbol B
  symbol P
  symbol C
  input x: bf16[B, P, C]
  input g: bf16[B, P, C]
  xf = cast(x, dtype=f32)
  gf = cast(g, dtype=f32)
  s = sum(gf, axes=[1])
  t = sum(gf * xf, axes=[1])
  u = sum(gf * xf, axes=[0, 1])
  y = cast(gf - s[:, None, :] * 0.01 - xf * t[:, None, :] * 0.001, dtype=bf16)
  output y
  output u
})";

struct Lay {
  int vector, lanes, warps, cluster = 1, split = 1, registers = 2;
  bool persistent = false, one_launch = true;
  bool force_vector = false;  // Although it divides no row.
};

GroupRun Laid(const Lay& lay, std::map<std::string, int64_t> sizes) {
  const int64_t columns = sizes.at("P");
  const auto edit = [=](Schedule& s) {
    ASSERT_TRUE(s.outer) << s.ToString();
    s.vector = lay.force_vector ? lay.vector : std::min(s.vector, lay.vector);
    s.lanes_per_row = lay.lanes;
    s.warps_per_row = lay.warps;
    s.row_warps = 1;
    s.cluster = lay.cluster;
    s.split = lay.split;
    s.registers = lay.registers;
    s.persistent = lay.persistent;
    while (s.persistent && s.columns_at_once() < columns) ++s.registers;
    s.chan_welford = !s.persistent;
    s.one_launch = lay.one_launch && lay.cluster == 1;
  };
  return {.sizes = std::move(sizes), .edit = edit};
}

TEST(OuterRows, ARowAThread) {
  testing::Part part;
  for (const char* dtype : {"bf16", "f32", "f64"}) {
    for (const int warps :
         {2, 4, 6}) {  // More threads than rows, as many, and not the same for each.
      for (const int64_t columns : {1, 37, 200}) {
        for (const int64_t rows : {8, 40, 72}) {
          for (const bool persistent : {false, true}) {
            if (!part.TakesNext()) continue;
            const GroupRun run =
                Laid({.vector = 4, .lanes = 2, .warps = warps, .persistent = persistent},
                     {{"P", columns}, {"C", rows}});
            ExpectRight(Norm(dtype), run);
          }
        }
      }
    }
  }
}

// What a step loads for the next one is loaded in every step.
TEST(OuterRows, RowsThatEndInsideAVector) {
  for (const int64_t columns : {3, 50}) {
    for (const int64_t rows : {6, 10}) {
      ExpectRight(Norm("f32"), Laid({.vector = 4, .lanes = 8, .warps = 2, .force_vector = true},
                                    {{"P", columns}, {"C", rows}}));
    }
  }
}

// Their elements are zeros, whose quotients would take longest of all.
TEST(OuterRows, ThreadsWithoutARowSkipItsSteps) {
  const std::string text = R"(fusion shares {
  symbol P
  symbol C
  input x: f32[P, C]
  y = x / sum(x, axes=[0])[None, :]
  output y
})";
  const Lay lay = {.vector = 4, .lanes = 4, .warps = 2, .split = 2};
  for (const int64_t rows : {40, 44, 41}) {
    const GroupResult result = ExpectRight(text, Laid(lay, {{"P", 200}, {"C", rows}}));
    for (const char* loop : {"for step0", "for behind"}) {
      EXPECT_THAT(result.kernel_text, ContainsRegex(absl::StrCat(
                                          "\n *[0-9]+: if [^\n]* < C[^\n]*\n *[0-9]+:   ", loop)));
    }
  }
}

// No rows at all, to be shared evenly among CTAs.
TEST(OuterRows, NoRowsOfColumnsThatAreWritten) {
  const std::string text = R"(fusion none {
  symbol P
  symbol C
  input x: f32[P, C]
  y = x * 2.0
  s = sum(y, axes=[0])
  output y
  output s
})";
  for (const int64_t columns : {1, 384, 100000})
    ExpectRight(text, {.sizes = {{"P", columns}, {"C", 0}}});
}

TEST(OuterRows, PartsInMemory) {
  for (const int split : {2, 7, 50, 90}) {
    for (const int64_t columns : {5, 400}) {
      for (const bool one_launch : {false, true}) {
        const GroupRun run =
            Laid({.vector = 4, .lanes = 4, .warps = 2, .split = split, .one_launch = one_launch},
                 {{"P", columns}, {"C", 40}});
        ExpectRight(Norm("bf16"), run);
      }
    }
  }
}

// The second statistics go over the columns from the last step back, in which most threads have
// none: these, too, take deviations from a mean.
TEST(OuterRows, PivotsOfPassesThatGoBack) {
  const std::string text = R"(fusion again {
  symbol P
  symbol C
  input x: f32[P, C]
  avg, m2, n = welford(x, axes=[0])
  again, var, m = welford(x + (avg + 1000.0)[None, :], axes=[0])
  output var
})";
  for (const int split : {1, 2}) {
    for (const int64_t columns : {65, 130}) {
      ExpectRight(text, Laid({.vector = 4, .lanes = 8, .warps = 2, .split = split, .registers = 1},
                             {{"P", columns}, {"C", 40}}));
    }
  }
}

TEST(OuterRows, Clusters) {
  testing::Part part;
  for (const int cluster : {2, 4, 16}) {
    for (const int warps : {2, 4, 8}) {
      for (const int64_t columns : {1, 37, 300}) {
        for (const bool persistent : {false, true}) {
          if (!part.TakesNext()) continue;
          const Lay lay = {.vector = 4,
                           .lanes = 2,
                           .warps = warps,
                           .cluster = cluster,
                           .persistent = persistent};
          const GroupResult result =
              ExpectRight(Norm("bf16"), Laid(lay, {{"P", columns}, {"C", 72}}));
          EXPECT_THAT(result.kernel_text, HasSubstr("store to CTA"));
          ExpectRight(kBackward, Laid(lay, {{"B", 3}, {"P", columns}, {"C", 40}}));
          for (const char* dtype : {"f64", "f16"})
            ExpectRight(Norm(dtype), Laid(lay, {{"P", columns}, {"C", 40}}));
          Lay ragged = lay;
          ragged.force_vector = true;
          ExpectRight(Norm("f32"), Laid(ragged, {{"P", columns}, {"C", 6}}));
        }
      }
    }
  }
}

// Columns that a cluster has at once, beside others that it goes over in steps.
TEST(OuterRows, ClustersWithSpacesOfTwoKinds) {
  const std::string text = R"(fusion two_spaces {
  symbol P
  symbol C
  input x: f32[8, P, C]
  input h: f32[8, C]
  s = sum(x, axes=[0, 1])
  t = sum(h, axes=[0])
  y = x - s[None, None, :] * 0.01 - t[None, None, :]
  output y
})";
  for (const int cluster : {2, 4}) {
    const Lay lay = {.vector = 4, .lanes = 8, .warps = 4, .cluster = cluster, .registers = 1};
    ExpectRight(text, Laid(lay, {{"P", 40}, {"C", 64}}));
  }
}

TEST(OuterRows, NaNAndInfinityStayInTheirRows) {
  for (const int cluster : {1, 4}) {
    GroupRun run =
        Laid({.vector = 4, .lanes = 2, .warps = 4, .cluster = cluster}, {{"P", 100}, {"C", 72}});
    run.inputs = [](std::vector<HostTensor>& inputs) {
      inputs[0].set({5, 3}, FloatScalar(std::numeric_limits<double>::quiet_NaN()));
      inputs[0].set({70, 20}, FloatScalar(std::numeric_limits<double>::infinity()));
    };
    ExpectRight(Norm("f32"), run);
  }
}

TEST(OuterRows, ClustersThatShareRowsUnevenlyAreRefused) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.outer = true;
  s.vector = 4;
  s.lanes_per_row = 2;
  s.warps_per_row = 3;  // 96 threads, 64 rows.
  s.cluster = 2;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("as many threads each"));
  s.warps_per_row = 4;
  EXPECT_TRUE(CheckSchedule(s).ok());
}

TEST(OuterRows, ChosenSchedules) {
  const auto choose = [](const char* device, int64_t columns, int64_t rows) {
    return Chosen(Norm("bf16"), {columns, rows}, device);
  };
  EXPECT_EQ(choose("h200", 196, 65536).cluster, 1);   // A CTA has all of it.
  EXPECT_EQ(choose("h200", 3136, 16384).cluster, 8);  // A cache line of rows, kept.
  EXPECT_TRUE(choose("h200", 3136, 16384).persistent);
  EXPECT_EQ(choose("a100", 3136, 16384).cluster, 1);
  EXPECT_GT(choose("h200", 200704, 256).split, 1);
}

// Nothing is held that is not read again: steps, of whole cache lines, and the next one under way.
TEST(OuterRows, SumsGoStepByStep) {
  const std::string text = R"(fusion sums {
  symbol P
  symbol C
  input x: bf16[P, C]
  s = sum(cast(x, dtype=f32), axes=[0])
  output s
})";
  // Many rows have longer pieces, and more CTAs.
  for (const auto& [columns, rows, bytes] :
       {std::tuple(1024, 262144, 256), {128, 65536, 256}, {65536, 4096, 128}}) {
    const Schedule s = Chosen(text, {columns, rows});
    EXPECT_FALSE(s.persistent) << s.ToString();
    EXPECT_EQ(s.rows_per_cta() * 2, bytes) << s.ToString();
    EXPECT_EQ(s.min_ctas_per_sm, bytes == 256 ? 4 : 2) << s.ToString();
    EXPECT_EQ(s.cluster, 1) << s.ToString();
  }
}

// Experts' results, heads that share keys: no lane without a column, and several warps a CTA.
TEST(OuterRows, FewColumns) {
  const std::string text = R"(fusion few {
  symbol M
  symbol K
  symbol N
  input x: bf16[M, K, N]
  input p: f32[M, K]
  s = sum(cast(x, dtype=f32) * p[:, :, None], axes=[1])
  output s
})";
  for (const int64_t columns : {1, 2, 3, 4, 8, 15}) {
    const Schedule s = Chosen(text, {16384, columns, 2048});
    EXPECT_LE(s.lanes_per_row, std::max<int64_t>(columns / 2, 1)) << s.ToString();
    EXPECT_GE(s.threads(), 128) << s.ToString();
    EXPECT_TRUE(s.persistent) << s.ToString();
    for (const int64_t n : {8, 72, 1027})
      ExpectRight(text, {.sizes = {{"M", 3}, {"K", columns}, {"N", n}}});
  }
}

// A product of low rank with what it is added to, which lies as all rows do: where vectors divide a
// row of the result, none has elements of two, and factors come in vectors.
TEST(OuterRows, FactorsWithoutSomeOfTheRowsAxes) {
  constexpr char kText[] = R"(fusion low_rank {
  symbol M
  symbol D
  input y: bf16[M, D]
  input h: bf16[M, 4]
  input b: bf16[4, D]
  p = sum(cast(h, dtype=f32)[:, :, None] * cast(b, dtype=f32), axes=[1])
  o = cast(cast(y, dtype=f32) + 2.0 * p, dtype=bf16)
  output o
})";
  for (const auto& [m, d] : std::vector<std::pair<int64_t, int64_t>>{{3, 64}, {40, 520}, {7, 33}}) {
    const GroupResult result = ExpectRight(kText, {.sizes = {{"M", m}, {"D", d}}});
    EXPECT_EQ(absl::StrContains(result.kernel_text, "D_by8"), d % 8 == 0) << result.kernel_text;
  }
}

// Channels in front, and a mean of all pixels: a thread has its pixel's classes, and SMs are full
// of threads.
TEST(OuterRows, FewColumnsThatOthersCross) {
  const std::string text = R"(fusion pixels {
  symbol B
  symbol C
  symbol P
  input x: bf16[B, C, P]
  f = cast(x, dtype=f32)
  l = log(sum(exp(f - amax(f, axes=[1], keepdims=true)), axes=[1]))
  s = mean(l, axes=[0, 1])
  output s
})";
  const Schedule s = Chosen(text, {32, 21, 103041});
  EXPECT_EQ(s.registers, 21) << s.ToString();
  EXPECT_GE(s.min_ctas_per_sm * s.threads(), 512) << s.ToString();
  for (const int64_t c : {1, 21, 32, 33, 100})
    ExpectRight(text, {.sizes = {{"B", 2}, {"C", c}, {"P", 301}}});
}

}  // namespace
}  // namespace seam
