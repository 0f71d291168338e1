// Groups in which some reductions cross the rows that others keep: CTAs take rows in turn, leave
// partial states, and finish in a later phase.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "ir/text/parser.h"
#include "scheduler/group_shape.h"
#include "scheduler/schedulers.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::RunGroupText;

// Two reductions along the rows, two across them.
constexpr char kBackward[] = R"(fusion layer_norm_backward {
  symbol M
  symbol N
  input grad: bf16[M, N]
  input x: bf16[M, N]
  input gamma: f32[N]
  input mean: f32[M]
  input rstd: f32[M]
  g = cast(grad, dtype=f32)
  xhat = (cast(x, dtype=f32) - mean[:, None]) * rstd[:, None]
  weighted = g * gamma
  n = size(sizes=[N], dtype=f32)
  a = sum(weighted, axes=[1]) / n
  b = sum(weighted * xhat, axes=[1]) / n
  dx = cast(rstd[:, None] * (weighted - a[:, None] - xhat * b[:, None]), dtype=bf16)
  dgamma = cast(sum(g * xhat, axes=[0]), dtype=bf16)
  dbeta = sum(g, axes=[0])
  output dx
  output dgamma
  output dbeta
})";

TEST(CrossedRows, NormBackwardAtManySizes) {
  testing::Part part;
  for (int64_t m : {0, 1, 2, 37, 300}) {
    for (int64_t n : {1, 8, 31, 64, 96, 1000, 1003, 4096}) {
      if (part.TakesNext()) ExpectRight(kBackward, {.sizes = {{"M", m}, {"N", n}}});
    }
  }
}

// A CTA's only row: in registers beside the states of its columns, as long as these have the room.
TEST(CrossedRows, FewRows) {
  for (const int64_t rows : {1, 3}) {
    for (const int64_t columns : {4099, 8192, 10007}) {
      const GroupResult result = ExpectRight(kBackward, {.sizes = {{"M", rows}, {"N", columns}}});
      EXPECT_TRUE(result.schedule.persistent) << columns;
      EXPECT_EQ(result.schedule.min_ctas_per_sm, 1);
    }
    EXPECT_GT(ExpectRight(kBackward, {.sizes = {{"M", rows}, {"N", 16385}}}).schedule.cluster, 1);
  }
}

TEST(CrossedRows, FewCtasTakeManyTurns) {
  for (int grid : {1, 2, 5}) {
    for (int warps : {1, 2}) {
      const auto edit = [&](Schedule& s) {
        s.grid = grid;
        s.lanes_per_row = 16;
        s.warps_per_row = warps;
        s.row_warps = 2;
        s.registers = 4;
      };
      const GroupResult result =
          ExpectRight(kBackward, {.sizes = {{"M", 41}, {"N", 104}}, .edit = edit});
      EXPECT_THAT(result.kernel_text, HasSubstr("for turn in"));
    }
  }
}

// Rows that start anywhere start alike in all turns of a CTA where the vector divides what it goes
// on by: its memory accesses are whole vectors all the same.
TEST(CrossedRows, RowsThatStartAnywhere) {
  for (int64_t n : {1001, 4099}) {
    for (int64_t m : {1, 7, 8, 9}) {
      const GroupResult result = ExpectRight(kBackward, {.sizes = {{"M", m}, {"N", n}}});
      EXPECT_TRUE(result.schedule.shift);
      EXPECT_EQ(result.schedule.grid * result.schedule.rows_per_cta() % 8, 0);
    }
  }
  for (int grid : {1, 3, 4, 8, 16}) {
    for (int64_t n : {1, 7, 33, 100}) {
      for (bool persistent : {false, true}) {
        const auto edit = [&](Schedule& s) {
          s.shift = true;
          s.vector = 8;
          s.grid = grid;
          s.lanes_per_row = persistent ? 8 : 32;
          s.warps_per_row = s.row_warps = 1;
          s.registers = 2;
          s.persistent = persistent;
          s.facts.clear();
        };
        const GroupResult result =
            ExpectRight(kBackward, {.sizes = {{"M", 67}, {"N", n}}, .edit = edit});
        const int rows_at_once = grid * (persistent ? 4 : 1);
        EXPECT_EQ(absl::StrContains(result.kernel_text, ":+8] = out"), rows_at_once % 8 == 0);
      }
    }
  }
}

// Rows of a CTA in lanes, in warps and in both: it leaves one state of each column.
TEST(CrossedRows, RowsOfACtaAreMerged) {
  testing::Part part;
  struct Rows {
    int lanes;
    int warps;
  };
  for (const Rows& rows : {Rows{32, 2}, {32, 5}, {8, 1}, {4, 3}, {16, 8}}) {
    for (const bool shift : {false, true}) {
      const auto edit = [&](Schedule& s) {
        s.grid = 3;
        s.shift = shift;
        s.vector = 4;
        s.lanes_per_row = rows.lanes;
        s.warps_per_row = 2;
        s.row_warps = rows.warps;
        s.registers = 1;
        s.persistent = true;
        s.facts.clear();
        if (!shift) s.facts = {{"N", 4}};
      };
      for (const int64_t m : {1, 67, 290}) {
        if (!part.TakesNext()) continue;
        const int64_t n = rows.lanes * 8 - (shift ? 3 : 4);
        const GroupResult result =
            ExpectRight(kBackward, {.sizes = {{"M", m}, {"N", n}}, .edit = edit});
        EXPECT_THAT(result.kernel_text, HasSubstr(shift ? "partial_0: f32[3*N]" : "f32[12*N_by4]"));
      }
    }
  }
}

// States that lie in memory are not: a CTA has one row of them.
TEST(CrossedRows, StatesInMemoryAreOfOneRow) {
  const auto edit = [](Schedule& s) {
    s.persistent = false;
    s.lanes_per_row = 16;
  };
  const GroupResult result =
      RunGroupText(kBackward, {.sizes = {{"M", 9}, {"N", 104}}, .edit = edit});
  EXPECT_THAT(result.status.ToString(),
              HasSubstr("states of columns that lie in memory are those"));
}

// Many vectors of a row that stays in shared memory, while the states of its columns lie in
// registers.
TEST(CrossedRows, RowsInSharedMemory) {
  const std::string text = R"(fusion crossed {
  symbol M
  symbol N
  input x: f32[M, N]
  input g: f32[M, N]
  y = g - x * sum(g * x, axes=[1], keepdims=true)
  d = sum(g * x, axes=[0])
  output y
  output d
})";
  for (const int registers : {4, 8, 11}) {
    GroupRun run{.sizes = {{"M", 21}, {"N", 4 * 32 * registers}}};
    run.edit = [&](Schedule& s) {
      s = {.kind = s.kind, .facts = {{"N", 4}}};
      s.vector = 4;
      s.lanes_per_row = 32;
      s.registers = registers;
      s.grid = 4;
      s.persistent = s.async = s.reread = true;
    };
    ExpectRight(text, run);
  }
}

// The states of rows that no CTA holds stay in memory.
TEST(CrossedRows, LongRows) {
  ExpectRight(kBackward, {.sizes = {{"M", 4}, {"N", 40001}}});
  for (int64_t n : {100, 1003}) {
    const auto edit = [](Schedule& s) {
      s.persistent = false;
      s.chan_welford = true;
      s.grid = 2;
      s.lanes_per_row = 32;
      s.row_warps = s.registers = 1;
    };
    ExpectRight(kBackward, {.sizes = {{"M", 7}, {"N", n}}, .edit = edit});
  }
}

// One barrier a turn: the memory of its exchange must not be written again while it is read.
constexpr char kRowsAndColumns[] = R"(fusion rows_and_columns {
  symbol M
  symbol N
  input x: f32[M, N]
  s = sum(x, axes=[1])
  y = x * s[:, None]
  columns = sum(x, axes=[0])
  output y
  output columns
})";

TEST(CrossedRows, OneBarrierATurn) {
  for (int warps : {2, 4}) {
    const auto edit = [&](Schedule& s) {
      s.grid = 2;
      s.lanes_per_row = 32;
      s.warps_per_row = warps;
      s.row_warps = 1;
      s.registers = 8;
      s.vector = 1;
      s.facts.clear();
    };
    ExpectRight(kRowsAndColumns, {.sizes = {{"M", 9}, {"N", 100}}, .edit = edit});
  }
}

// Weights, which all turns read, and the first row's mean are there before the turns begin.
TEST(CrossedRows, LoadsOfAllTurnsAreAwaitedBefore) {
  const auto edit = [](Schedule& s) {
    s.grid = s.stages = 2;
    s.settled = true;
  };
  const std::string text =
      ExpectRight(kBackward, {.sizes = {{"M", 50}, {"N", 1024}}, .edit = edit}).kernel_text;
  const size_t awaited = text.find("await what loads bring to ld_");
  EXPECT_LT(awaited, text.find("for turn in"));
  EXPECT_THAT(text.substr(awaited, 80), HasSubstr(", ahead_"));
}

// Every kind of state across the rows, of columns and of everything, with work after it.
TEST(CrossedRows, EveryReduction) {
  for (const char* op : {"sum", "prod", "amax", "amin", "argmax", "argmin"}) {
    const std::string name = op;
    const std::string text = R"(fusion crossed {
  symbol M
  symbol N
  input x: f32[M, N]
  input b: f32[N]
  r = )" + name + R"((x, axes=[1])
  c = )" + name + R"((x, axes=[0])
  cb = cast(c, dtype=f32) * b
  output r
  output cb
})";
    for (int64_t n : {1, 33, 260}) ExpectRight(text, {.sizes = {{"M", 21}, {"N", n}}});
  }
  for (const char* op : {"any", "all"}) {
    const std::string name = op;
    const std::string text =
        "fusion crossed {\n  symbol M\n  symbol N\n  input x: bool[M, N]\n  r = " + name +
        "(x, axes=[1])\n  c = " + name + "(x, axes=[0])\n  a = " + name +
        "(x, axes=[0, 1])\n  output r\n  output c\n  output a\n}";
    ExpectRight(text, {.sizes = {{"M", 21}, {"N", 260}}});
  }
}

TEST(CrossedRows, Statistics) {
  constexpr char kText[] = R"(fusion crossed {
  symbol M
  symbol N
  input x: f32[M, N]
  mean, m2, count = welford(x, axes=[1])
  y = x - mean[:, None]
  columns, c2, c = welford(x, axes=[0])
  deviation = sqrt(c2 / c)
  output y
  output columns
  output deviation
})";
  for (int64_t m : {1, 2, 200}) {
    for (int64_t n : {1, 40, 257}) ExpectRight(kText, {.sizes = {{"M", m}, {"N", n}}});
  }
}

// Statistics of columns beside a sum of each row.
constexpr char kColumnStatistics[] = R"(fusion crossed {
  symbol M
  symbol N
  input x: f32[M, N]
  r = sum(x, axes=[1])
  columns, c2, c = welford(x, axes=[0])
  y = x - r[:, None]
  output y
  output columns
  output c2
})";

// Each CTA leaves the states of one row, and the first lies far from the others' mean: no pivot.
TEST(CrossedRows, StatesOfOneRowAreMergedAroundTheirMean) {
  const auto inputs = [](std::vector<HostTensor>& in) {
    for (int64_t j = 0; j < in[0].shape[1]; ++j)
      in[0].set({0, j}, FloatScalar(4 + static_cast<double>(j) * 0.01));
  };
  for (int64_t m : {5, 33, 140}) {
    const GroupRun run = {.sizes = {{"M", m}, {"N", 2000}}, .alignment_bytes = 4, .inputs = inputs};
    const GroupResult result = ExpectRight(kColumnStatistics, run);
    EXPECT_GE(result.schedule.grid, std::min<int64_t>(m, 100));
  }
}

// A thread weighs a row once for all of its columns, at the ends of rows that start anywhere too.
TEST(CrossedRows, OneDivisionARow) {
  for (const bool shift : {false, true}) {
    const auto edit = [&](Schedule& s) {
      s.grid = 4;
      s.shift = shift;
      s.vector = 4;
      s.lanes_per_row = 32;
      s.warps_per_row = 1;
      s.row_warps = 1;
      s.registers = 3;
      s.persistent = true;
    };
    const int64_t n = shift ? 331 : 332;
    const auto two_rows = [&](Schedule& s) {  // Of 50 rows in eights the last turn lacks some.
      edit(s);
      s.row_warps = 2;
    };
    if (!shift) ExpectRight(kColumnStatistics, {.sizes = {{"M", 50}, {"N", n}}, .edit = two_rows});
    const std::string text =
        ExpectRight(kColumnStatistics, {.sizes = {{"M", 50}, {"N", n}}, .edit = edit}).kernel_text;
    const size_t turns = text.find("for turn in");
    const std::string in_turns = text.substr(turns, text.find("store partial", turns) - turns);
    int divisions = 0;
    for (size_t at = 0; (at = in_turns.find(" div(", at)) != std::string::npos; ++at) ++divisions;
    EXPECT_EQ(divisions, shift ? 2 : 1) << in_turns;
  }
}

// A loss: a reduction a row, and one over all rows that nothing waits for. Rows of any length.
TEST(CrossedRows, MeanOfRowsLosses) {
  constexpr char kText[] = R"(fusion loss {
  symbol M
  symbol N
  input x: f32[M, N]
  m = amax(x, axes=[1])
  s = sum(exp(x - m[:, None]), axes=[1])
  losses = log(s) + m
  loss = sum(losses, axes=[0]) / size(sizes=[M], dtype=f32)
  output losses
  output loss
})";
  for (int64_t m : {1, 5, 400}) {
    for (int64_t n : {1, 7, 1000, 40000}) {
      if (m * n > 200000) continue;
      ExpectRight(kText, {.sizes = {{"M", m}, {"N", n}}});
    }
  }
}

// What has no rows is folded once, not once a row.
TEST(CrossedRows, ReductionsWithoutTheRows) {
  constexpr char kText[] = R"(fusion weighted {
  symbol M
  symbol N
  input x: f32[M, N]
  input w: f32[N]
  s = sum(x * w, axes=[1])
  total = sum(w, axes=[0])
  c = amax(x, axes=[0])
  output s
  output total
  output c
})";
  for (int64_t n : {1, 40, 257}) ExpectRight(kText, {.sizes = {{"M", 50}, {"N", n}}});
}

// Each row leaves one state, and another phase folds those of some of the rows' axes.
TEST(CrossedRows, SomeAxesOfTheRows) {
  constexpr char kText[] = R"(fusion instance_norm_backward {
  symbol N
  symbol C
  symbol H
  input grad: f32[N, C, H]
  input xhat: f32[N, C, H]
  input w: f32[C]
  a = sum(grad, axes=[2])
  dx = grad - a[:, :, None] * xhat
  dw = sum(grad * xhat, axes=[0, 2])
  scaled = dw * w
  output dx
  output scaled
})";
  for (int64_t n : {1, 3, 40}) {
    for (int64_t h : {1, 9, 300}) {
      ExpectRight(kText, {.sizes = {{"N", n}, {"C", 5}, {"H", h}}});
      const auto edit = [](Schedule& s) { s.grid = 2; };
      ExpectRight(kText, {.sizes = {{"N", n}, {"C", 5}, {"H", h}}, .edit = edit});
    }
  }
  // A reduction that knows only one of the rows' axes.
  constexpr char kOther[] = R"(fusion other {
  symbol N
  symbol C
  symbol H
  input x: f32[N, C, H]
  input y: f32[N, H]
  a = amax(x, axes=[2])
  z = x - a[:, :, None] + y[:, None, :]
  i = argmin(y * 2.0, axes=[1])
  output z
  output i
})";
  for (int64_t c : {1, 4}) ExpectRight(kOther, {.sizes = {{"N", 6}, {"C", c}, {"H", 33}}});
}

// States of rows that are read again lie in memory, where CTAs without rows leave neutral ones.
TEST(CrossedRows, CtasWithoutRowsWhoseStatesLieInMemory) {
  for (const int64_t rows : {0, 1, 3, 5}) {
    for (const int64_t columns : {1, 40, 301}) {
      for (const bool shift : {false, true}) {
        const auto edit = [&](Schedule& s) {
          s = {.kind = s.kind, .facts = s.facts};
          s.grid = 4;
          s.lanes_per_row = 32;
          s.registers = 2;
          s.vector = shift ? 4 : 1;
          s.shift = shift;
          s.chan_welford = true;
        };
        ExpectRight(kBackward, {.sizes = {{"M", rows}, {"N", columns}}, .edit = edit});
      }
    }
  }
}

// Phases of one kernel for a grid that the device holds, of which all CTAs have something to merge
// behind a single turn; else kernels of their own.
TEST(CrossedRows, OneLaunchWhereTheGridFits) {
  struct Plan {
    Schedule schedule;
    std::vector<int> phases;  // Of each launch.
  };
  const auto plan_of = [](const std::string& text, std::vector<int64_t> sizes) {
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    EXPECT_TRUE(group.ok()) << group.status();
    ScheduleContext context;
    context.sizes = std::move(sizes);
    context.device = Devices()[0];
    const absl::StatusOr<LaunchPlan> plan =
        ScheduleGroup(*group, SchedulerKind::kReduction, context);
    EXPECT_TRUE(plan.ok()) << plan.status();
    Plan result{plan->schedule, {}};
    for (const KernelLaunch& launch : plan->launches)
      result.phases.push_back(launch.kernel.NumPhases());
    return result;
  };
  const Plan wide = plan_of(kBackward, {65536, 4096}), narrow = plan_of(kBackward, {65536, 1024});
  EXPECT_THAT(wide.phases, ElementsAre(1, 1));
  EXPECT_GE(wide.schedule.grid, Devices()[0].sms);
  EXPECT_TRUE(wide.schedule.settled);
  // Of few turns as few CTAs as there are SMs, since all of them leave states, several rows each.
  const Plan few = plan_of(kBackward, {2048, 4096});
  EXPECT_THAT(few.phases, ElementsAre(1, 1));
  EXPECT_EQ(few.schedule.grid, Devices()[0].sms);
  EXPECT_GT(few.schedule.rows_per_cta(), 1);
  EXPECT_FALSE(few.schedule.settled);
  EXPECT_LT(wide.schedule.finish_lanes, narrow.schedule.finish_lanes);
  // Of few rows a launch has more CTAs for the columns than there are.
  EXPECT_THAT(plan_of(kBackward, {3, 4096}).phases, ElementsAre(1, 1));
  EXPECT_THAT(plan_of(kBackward, {100, 4096}).phases, ElementsAre(2));
  // Long rows that CTAs share.
  constexpr char kFewRows[] = R"(fusion few_rows {
  symbol M
  symbol N
  input x: f32[M, N]
  m = amax(x, axes=[1])
  y = x - m[:, None]
  output y
})";
  const Plan split = plan_of(kFewRows, {3, 1000000});
  EXPECT_THAT(split.phases, ElementsAre(2));
  EXPECT_LE(3 * split.schedule.split, 2 * Devices()[0].sms);
  // Rows are neighbours in memory, and more of them than CTAs at once.
  constexpr char kNeighbours[] = R"(fusion neighbours {
  symbol N
  symbol C
  symbol H
  input x: f32[H, N, C]
  a = amax(x, axes=[0])
  y = x - a
  c = sum(x, axes=[0, 1])
  output y
  output c
})";
  EXPECT_THAT(plan_of(kNeighbours, {8, 512, 64}).phases, ElementsAre(2));
  EXPECT_THAT(plan_of(kNeighbours, {8, 100000, 64}).phases, ElementsAre(1, 1));
}

// Neighbours in memory are rows.
TEST(CrossedRows, StridedColumns) {
  constexpr char kText[] = R"(fusion strided {
  symbol M
  symbol N
  input x: f32[M, N] strides [1, M]
  s = sum(x, axes=[1])
  y = x - s[:, None]
  c = amax(x, axes=[0])
  output y
  output c
})";
  for (int64_t m : {1, 37, 260}) {
    for (int64_t n : {1, 5, 40}) ExpectRight(kText, {.sizes = {{"M", m}, {"N", n}}});
  }
}

TEST(CrossedRows, RowsAreWhatIsHeld) {
  const absl::StatusOr<Fusion> group = ParseFusion(kBackward);
  ASSERT_TRUE(group.ok());
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->rows.size(), 1);
  EXPECT_FALSE(shape->outer);
  const auto outputs = group->outputs();
  EXPECT_FALSE(shape->finished[outputs[0].index()]);  // dx
  EXPECT_TRUE(shape->finished[outputs[1].index()]);   // dgamma
  EXPECT_EQ(FinishedShape(*shape, shape->axes.axes(outputs[2])).rows.size(), 1);
}

// C is the fastest axis although W may be 1, so that its stride may be as small.
TEST(GroupShape, AxesAreInTheOrderOfMemory) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion channels_last {
  symbol N in [1, 64]
  symbol C in [1, 64]
  symbol H in [1, 64]
  symbol W in [1, 64]
  input x: f32[N, C, H, W] order [0, 2, 3, 1]
  s = sum(x, axes=[0, 2, 3])
  output s
})");
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_TRUE(shape->outer);
  EXPECT_EQ(shape->order.back(), shape->rows.at(0));
}

// Sums of columns and of everything, neither of which keeps rows: what the columns' sums fold is
// taken for rows all the same, in vectors along the columns.
TEST(CrossedRows, ColumnsAndEverything) {
  constexpr char kText[] = R"(fusion columns_and_all {
  symbol M
  symbol N
  input x: bf16[M, N]
  f = cast(x, dtype=f32)
  m = sum(f, axes=[0])
  s = sum(f * f)
  y = cast(f * 0.5, dtype=bf16)
  output m
  output s
  output y
})";
  testing::Part part;
  for (const int64_t m : {0, 1, 37, 300}) {
    for (const int64_t n : {1, 7, 64, 1003, 4096}) {
      if (part.TakesNext()) ExpectRight(kText, {.sizes = {{"M", m}, {"N", n}}});
    }
  }
  const absl::StatusOr<Fusion> group = ParseFusion(kText);
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext context{.sizes = {65536, 1536}, .device = *FindDevice("h200")};
  const absl::StatusOr<Schedule> s =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->vector, 8) << s->ToString();
  EXPECT_GE(s->grid, context.device.sms) << s->ToString();
}

// Rows of one sum that another one does not run over: these are no rows of both, for each of which
// all of the other's would be gone through.
TEST(CrossedRows, EverythingBesideColumnsOfAPart) {
  constexpr char kText[] = R"(fusion all_beside_a_part {
  symbol M in [1, 100000]
  symbol N
  input x: f32[M, N]
  a = sum(x, axes=[0, 1])
  b = sum(x[1:], axes=[0])
  output a
  output b
})";
  const absl::StatusOr<Fusion> group = ParseFusion(kText);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  for (uint32_t i = 0; i < group->num_exprs(); ++i) {
    const AxisSet& space = shape->axes.space(ExprId(i));
    for (AxisId row : shape->rows)
      EXPECT_TRUE(!shape->folds[i] || absl::c_linear_search(space, row)) << i;
  }
  testing::Part part;
  for (const int64_t m : {1, 2, 37, 300}) {
    for (const int64_t n : {1, 7, 64, 1003}) {
      if (part.TakesNext()) ExpectRight(kText, {.sizes = {{"M", m}, {"N", n}}});
    }
  }
}

// The largest of the columns' sums waits for them, so that columns are the rows: neighbours, of
// which each leaves what the last reduction folds.
TEST(CrossedRows, EverythingOfColumns) {
  constexpr char kText[] = R"(fusion largest_of_columns {
  symbol M
  symbol N
  input x: f32[M, N]
  m = sum(x, axes=[0])
  s = amax(m)
  t = sum(x * m)
  output m
  output s
  output t
})";
  testing::Part part;
  for (const int64_t m : {1, 8, 37, 300}) {
    for (const int64_t n : {1, 7, 64, 1003}) {
      if (part.TakesNext()) ExpectRight(kText, {.sizes = {{"M", m}, {"N", n}}});
    }
  }
  const absl::StatusOr<Fusion> group = ParseFusion(kText);
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext context{.sizes = {16384, 5120}, .device = *FindDevice("h200")};
  const absl::StatusOr<Schedule> s =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_TRUE(s->outer) << s->ToString();
  EXPECT_EQ(s->vector, 4) << s->ToString();
}

TEST(CrossedRows, OthersAreRefused) {
  // The sum over rows is needed by every row.
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion barrier {
  symbol M
  symbol N
  input x: f32[M, N]
  r = sum(x, axes=[1])
  c = sum(x, axes=[0])
  y = x * c - r[:, None]
  output y
})");
  ASSERT_TRUE(group.ok());
  EXPECT_THAT(AnalyzeGroup(*group).status().ToString(), HasSubstr("keeps other axes"));
}

}  // namespace
}  // namespace seam
