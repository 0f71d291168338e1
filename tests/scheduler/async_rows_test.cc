// Rows that threads bring to shared memory themselves: the next turn's or all that a CTA has, along
// columns or in vectors of rows, right whatever is missing of the last ones; and what follows from
// a row's states, computed once a row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/choose.h"
#include "scheduler/scheduler.h"
#include "tests/support/count_of.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::CountOf;
using testing::ExpectRight;
using testing::GroupResult;
using ::testing::HasSubstr;
using ::testing::Not;

// Statistics over the columns of `shape`, then what waits for them; `folds` of two passes, else of
// one.
std::string Graph(const std::string& dtype, const std::string& shape, int folds) {
  const std::string last = shape == "[R, C]" ? "axes=[1]" : "axes=[0]";
  const std::string up = shape == "[R, C]" ? "[:, None]" : "[None, :]";
  return absl::StrCat("fusion rows {\n  symbol R\n  symbol C\n  input x: ", dtype, shape,
                      "\n  input other: ", dtype, shape, "\n  input scale: f32[R]\n",
                      "  a = cast(x, dtype=f32)\n  b = cast(other, dtype=f32)\n",
                      "  s = sum(a * b, ", last, ") / 7.0\n",
                      folds == 2 ? absl::StrCat("  d = a - s", up, "\n  q = sum(d * d, ", last,
                                                ")\n  r = rsqrt(q + 0.5) * scale\n")
                                 : "  d = a - b\n  r = rsqrt(s * s + 0.5) * scale\n",
                      "  y = cast(d * r", up, " + s", up, ", dtype=", dtype,
                      ")\n  output y\n  output r\n}");
}

struct Lay {
  bool outer = false;
  int vector = 4, grid = 0, cluster = 1, warps = 2, lanes = 32, registers = 2;
  bool reread = false;
};

std::function<void(Schedule&)> Laid(const Lay& lay) {
  return [lay](Schedule& s) {
    s.persistent = s.async = true;
    s.shift = s.blocks = s.runs = s.tickets = s.one_launch = s.early = false;
    s.split = s.neighbours = s.row_warps = 1;
    s.held = s.pace = s.stages = 0;
    s.outer = lay.outer;
    s.vector = lay.vector;
    s.grid = lay.grid * lay.cluster;
    s.cluster = lay.cluster;
    s.warps_per_row = lay.warps;
    s.lanes_per_row = lay.lanes;
    s.registers = lay.registers;
    s.reread = lay.reread || lay.grid == 0;
    s.min_ctas_per_sm = 0;
  };
}

std::string NameOf(const Lay& lay) {
  return absl::StrCat(lay.outer ? "outer" : "inner", ", grid ", lay.grid, ", clusters of ",
                      lay.cluster, lay.reread ? ", read there" : "", ", ", lay.registers,
                      " vectors");
}

// More turns than one, the last one not full; columns that fill the threads and such that do not.
TEST(AsyncRows, AlongColumns) {
  for (const std::string dtype : {"bf16", "f32"}) {
    for (const int folds : {1, 2}) {
      for (const int grid : {0, 3}) {
        for (const int cluster : grid > 0 ? std::vector<int>{1, 2} : std::vector<int>{1}) {
          for (const bool reread : {false, true}) {
            for (const int64_t columns : {512, 508, 260, 4}) {
              const Lay lay{.grid = grid, .cluster = cluster, .registers = 2, .reread = reread};
              SCOPED_TRACE(absl::StrCat(dtype, ", ", NameOf(lay), ", ", columns, " columns"));
              const GroupResult result =
                  ExpectRight(Graph(dtype, "[R, C]", folds),
                              {.sizes = {{"R", 7}, {"C", columns}}, .edit = [&](Schedule& s) {
                                 Laid(lay)(s);
                                 s.facts = {{"C", 4}};
                               }});
              EXPECT_THAT(result.kernel_text, HasSubstr("begin load"));
              EXPECT_THAT(result.kernel_text, HasSubstr("await loads"));
            }
          }
        }
      }
    }
  }
}

// Vectors of rows; the kernel knows how many columns there are or does not.
TEST(AsyncRows, VectorsOfRows) {
  testing::Part part;
  for (const std::string dtype : {"bf16", "f32"}) {
    for (const int folds : {1, 2}) {
      for (const int grid : {0, 2}) {
        for (const int cluster : {1, 2, 4}) {
          for (const bool reread : {false, true}) {
            for (const bool known : {false, true}) {
              for (const int64_t columns : {50, 64, 3}) {
                if (!part.TakesNext()) continue;
                const Lay lay{.outer = true,
                              .grid = grid,
                              .cluster = cluster,
                              .warps = 2,
                              .lanes = 8,
                              .registers = 4,
                              .reread = reread};
                SCOPED_TRACE(absl::StrCat(dtype, ", ", NameOf(lay), ", ", columns, " columns"));
                const GroupResult result =
                    ExpectRight(Graph(dtype, "[C, R]", folds),
                                {.sizes = {{"R", 88}, {"C", columns}}, .edit = [&](Schedule& s) {
                                   Laid(lay)(s);
                                   s.facts = {{"R", 4}};
                                   if (known) s.facts.push_back({"C", 1, columns});
                                 }});
                EXPECT_THAT(result.kernel_text, HasSubstr("begin load"));
              }
            }
          }
        }
      }
    }
  }
}

// Of several inputs each that comes in 4 bytes or more; others are loaded.
TEST(AsyncRows, WhatComesInWords) {
  const auto brought = [](const std::string& dtype, int vector, int64_t columns) {
    const Lay lay{.vector = vector, .grid = 2, .registers = 8};
    const GroupResult result = ExpectRight(
        Graph(dtype, "[R, C]", 1), {.sizes = {{"R", 5}, {"C", columns}}, .edit = Laid(lay)});
    return CountOf(result.kernel_text, "await loads") > 0;
  };
  EXPECT_TRUE(brought("bf16", 2, 128));
  EXPECT_TRUE(brought("f16", 2, 128));
  EXPECT_FALSE(brought("f8e4m3", 2, 128));
  EXPECT_TRUE(brought("f8e4m3", 4, 128));
  EXPECT_FALSE(brought("bf16", 2, 127));  // Rows that end inside a vector.
}

// A root of each row, not one for each of its threads' rows; and what is loaded once a row.
TEST(AsyncRows, ValuesOfARowOnce) {
  const Lay lay{.outer = true, .warps = 4, .lanes = 8, .registers = 4};
  const GroupResult result =
      ExpectRight(Graph("f32", "[C, R]", 2), {.sizes = {{"R", 32}, {"C", 100}}, .edit = Laid(lay)});
  const std::string& text = result.kernel_text;
  ASSERT_EQ(CountOf(text, "= rsqrt("), 1);
  const size_t root = text.find("= rsqrt(");
  const size_t line = text.rfind('\n', root);
  EXPECT_THAT(text.substr(line, root - line), Not(HasSubstr("[v]"))) << text.substr(line, 80);
  EXPECT_EQ(CountOf(text, "= load scale["), 1);
}

// CTAs of a cluster have as many columns each, and only their last vectors are masked.
TEST(AsyncRows, EvenPieces) {
  const auto run = [](bool known) {
    const Lay lay{.outer = true, .cluster = 4, .warps = 2, .lanes = 8, .registers = 4};
    return ExpectRight(Graph("f32", "[C, R]", 2), {.sizes = {{"R", 32}, {"C", 200}},
                                                   .edit =
                                                       [&](Schedule& s) {
                                                         Laid(lay)(s);
                                                         s.facts = {{"R", 4}};
                                                         if (known)
                                                           s.facts.push_back({"C", 1, 200});
                                                       }})
        .kernel_text;
  };
  EXPECT_THAT(run(true), HasSubstr("|| u <= 2)"));
  EXPECT_THAT(run(false), Not(HasSubstr("||")));
}

// What heuristics choose for devices so small that a few rows are many: all of it is right, fits
// the shared memory, and every use of what threads bring is among it.
TEST(AsyncRows, WhatHeuristicsChoose) {
  int stays = 0, turns = 0, clusters = 0;
  std::mt19937_64 bits(1);
  const auto below = [&](int n) { return static_cast<int>(bits() % static_cast<uint64_t>(n)); };
  for (int i = 0; i < 160; ++i) {
    const std::string dtype = below(2) == 0 ? "bf16" : "f32";
    const bool outer = below(4) > 0;
    const absl::StatusOr<Fusion> group =
        ParseFusion(Graph(dtype, outer ? "[C, R]" : "[R, C]", 1 + below(2)));
    ASSERT_TRUE(group.ok()) << group.status();
    const int64_t rows = 8 * (1 + below(outer ? 24 : 3)), columns = 1 + below(outer ? 300 : 3000);
    ScheduleContext context{.sizes = {rows, outer ? columns : columns / 8 * 8 + 8},
                            .device = *FindDevice("h200")};
    context.device.sms = 1 + below(5);
    context.device.smem_bytes_per_cta = 8192 << below(5);
    context.device.max_cluster = 1 << below(5);
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    if (!chosen->async) continue;
    stays += chosen->grid == 0;
    turns += chosen->grid > 0;
    clusters += chosen->cluster > 1;
    SCOPED_TRACE(absl::StrCat("graph ", i, ": ", chosen->ToString()));
    const absl::StatusOr<LaunchPlan> plan =
        FindScheduler(SchedulerKind::kReduction)->lower(*group, *chosen);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const KernelLaunch& launch : plan->launches)
      EXPECT_LE(launch.kernel.SharedBytes(), context.device.smem_bytes_per_cta);
    testing::GroupRun run{.sizes = {{"R", rows}, {"C", context.sizes[1]}}};
    run.edit = [&](Schedule& s) { s = *chosen; };
    const GroupResult result = testing::RunGroup(*group, run);
    ASSERT_TRUE(result.status.ok()) << result.status;
  }
  EXPECT_GT(stays, 20);
  EXPECT_GT(turns, 3);
  EXPECT_GT(clusters, 5);
}

TEST(AsyncRows, WhatIsRefused) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.persistent = s.async = s.reread = true;
  s.vector = 4;
  EXPECT_TRUE(CheckSchedule(s).ok());
  const auto refuses = [&](auto edit) {
    Schedule t = s;
    edit(t);
    return !CheckSchedule(t).ok();
  };
  EXPECT_TRUE(refuses([](Schedule& t) { t.persistent = false; }));
  EXPECT_TRUE(refuses([](Schedule& t) { t.vector = 1; }));
  EXPECT_TRUE(refuses([](Schedule& t) { t.shift = true; }));
  EXPECT_TRUE(refuses([](Schedule& t) { t.reread = false; }));
  EXPECT_FALSE(refuses([](Schedule& t) { t.grid = 3, t.reread = false; }));
  EXPECT_TRUE(refuses([](Schedule& t) { t.grid = 3, t.stages = 2; }));
  EXPECT_FALSE(refuses([](Schedule& t) { t.blocks = true, t.vector = 1, t.reread = false; }));
  EXPECT_TRUE(refuses([](Schedule& t) { t.blocks = true, t.grid = 3, t.stages = 2; }));
  EXPECT_FALSE(refuses([](Schedule& t) { t.grid = 4, t.outer = true; }));
  EXPECT_TRUE(refuses([](Schedule& t) { t.grid = 4, t.outer = true, t.async = t.reread = false; }));
}

}  // namespace
}  // namespace seam
