// Groups in which some reductions keep a part of each row's columns: a group norm's gradients of
// its weights above all. Each row leaves states of these columns, and a later phase merges them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/alternatives.h"
#include "scheduler/group_shape.h"
#include "scheduler/kernel/kept_window.h"
#include "segmenter/segment.h"
#include "segmenter/summary.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::RunGroupText;

// The backward pass with two groups of K channels. Axes that are not empty are known to lie in
// memory as `order` says.
std::string GroupNorm(const std::string& dtype, const std::string& order, int least = 1) {
  return absl::StrReplaceAll(R"(fusion group_norm_backward {
  symbol N in [LEAST, 4096]
  symbol K in [LEAST, 4096]
  symbol H in [LEAST, 4096]
  symbol W in [LEAST, 4096]
  input grad: DTYPE[N, 2*K, H, W]ORDER
  input x: DTYPE[N, 2*K, H, W]ORDER
  input mean: f32[N, 2]
  input rstd: f32[N, 2]
  input weight: f32[2*K]
  dx, dweight, dbias = group_norm_backward(grad, x, mean, rstd, weight, groups=2)
  output dxORDER
  output dweight
  output dbias
})",
                             {{"DTYPE", dtype}, {"ORDER", order}, {"LEAST", absl::StrCat(least)}});
}

const char* const kOrders[] = {"", " order [0, 2, 3, 1]", " order [0, 2, 1, 3]"};

TEST(KeptColumns, GroupNormAtManySizes) {
  const std::vector<int64_t> sizes[] = {{1, 1, 1, 1},  {3, 2, 1, 1}, {2, 3, 4, 4},  {5, 8, 2, 2},
                                        {2, 10, 7, 7}, {3, 1, 5, 8}, {2, 16, 8, 8}, {70, 4, 3, 2},
                                        {2, 5, 1, 31}, {1, 64, 7, 7}};
  testing::Part part;
  for (const char* order : kOrders) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const auto& s : sizes) {
        if (!part.TakesNext()) continue;
        ExpectRight(GroupNorm(dtype, order),
                    {.sizes = {{"N", s[0]}, {"K", s[1]}, {"H", s[2]}, {"W", s[3]}}});
      }
    }
  }
}

TEST(KeptColumns, EmptyAxes) {
  for (const char* order : kOrders) {
    for (const char* empty : {"N", "K", "H", "W"}) {
      GroupRun run{.sizes = {{"N", 3}, {"K", 2}, {"H", 5}, {"W", 4}}};
      run.sizes[empty] = 0;
      ExpectRight(GroupNorm("f32", order, 0), run);
    }
  }
}

// Rows of more columns than a CTA has in hand: each step folds its states into those that the
// steps before have left.
TEST(KeptColumns, LongRows) {
  for (const char* order : kOrders) {
    for (const int64_t h : {600, 601})
      ExpectRight(GroupNorm("bf16", order), {.sizes = {{"N", 2}, {"K", 3}, {"H", h}, {"W", 40}}});
  }
}

// Whatever the schedule: how many columns a thread has, whether they lie in a row's steps or
// registers, how many rows a CTA has and whether it takes them in turn, with what the kernel knows
// of the sizes and without.
TEST(KeptColumns, AnySchedule) {
  const std::vector<int64_t> sizes[] = {{5, 3, 4, 4}, {3, 8, 2, 8}, {2, 5, 7, 3}};
  struct Tile {
    int vector, lanes, warps, row_warps, registers;
  };
  const Tile tiles[] = {{1, 8, 1, 1, 1},  {4, 4, 1, 2, 1}, {4, 32, 1, 1, 1}, {8, 2, 3, 1, 2},
                        {2, 32, 3, 1, 1}, {2, 4, 2, 2, 4}, {1, 1, 5, 1, 3},  {8, 32, 1, 1, 2}};
  testing::Part part;
  for (const char* order : kOrders) {
    for (const auto& s : sizes) {
      for (const Tile& tile : tiles) {
        for (const bool facts : {false, true}) {
          for (const int grid : {0, 2}) {
            for (const bool outer : {false, true}) {
              if ((outer && grid > 0) || !part.TakesNext()) continue;
              const auto edit = [&](Schedule& e) {
                e.vector = tile.vector;
                e.outer = outer;
                e.neighbours = 1;
                e.async = e.reread = false;
                e.lanes_per_row = tile.lanes;
                e.warps_per_row = tile.warps;
                e.row_warps = tile.row_warps;
                e.registers = tile.registers;
                e.grid = grid;
                e.stages = 0;
                e.cluster = 1;
                e.one_launch = false;
                const int64_t columns = s[1] * s[2] * s[3];
                e.persistent = e.columns_per_step() >= columns;
                if (!e.persistent && 2 * s[0] < 2 * e.rows_per_cta()) e.grid = 0;
                if (!facts) e.facts.clear();
              };
              GroupRun run{.sizes = {{"N", s[0]}, {"K", s[1]}, {"H", s[2]}, {"W", s[3]}}};
              run.edit = edit;
              ExpectRight(GroupNorm("f32", order), run);
              if (HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

// CTAs of a cluster leave states of their pieces, rows brought ahead or not.
TEST(KeptColumns, Clusters) {
  for (const char* order : kOrders) {
    for (const int cluster : {2, 4}) {
      for (const bool stages : {false, true}) {
        const auto edit = [&](Schedule& s) {
          s.vector = 4;
          s.outer = false;
          s.neighbours = 1;
          s.async = s.reread = false;
          s.lanes_per_row = 32;
          s.warps_per_row = s.row_warps = 1;
          s.registers = 4 / cluster;
          s.cluster = cluster;
          s.grid = 2 * cluster;
          s.stages = stages ? 2 : 0;
          s.tickets = stages;
          s.persistent = true;
          s.one_launch = false;
        };
        GroupRun run{.sizes = {{"N", 5}, {"K", 6}, {"H", 8}, {"W", 8}}};
        run.edit = edit;
        ExpectRight(GroupNorm("f32", order), run);
      }
    }
  }
}

// States that take all of a CTA's shared memory leave no room for a second one, or for rows.
TEST(KeptColumns, StatesThatFillSharedMemory) {
  constexpr char kText[] = R"(fusion kept {
  symbol N in [1, 4096]
  symbol S in [1, 65536]
  symbol C in [1, 256]
  input x: f32[N, S, C]
  ss = sum(x * x, axes=[1, 2], keepdims=true)
  y = x * rsqrt(ss + 1e-6)
  output y
  mean, m2, count = welford(y, axes=[0, 1])
  output mean
  output m2
  top = amax(y, axes=[0, 1])
  output top
})";
  const absl::StatusOr<Fusion> group = ParseFusion(kText);
  ASSERT_TRUE(group.ok()) << group.status();
  for (const int64_t columns : {1400, 2000, 2600, 4000}) {
    for (const int64_t kept : {8, 48, 64, 200}) {
      ScheduleContext context;
      context.sizes = {64, columns, kept};
      context.device = Devices()[0];
      const absl::StatusOr<LaunchPlan> plan =
          ScheduleGroup(*group, SchedulerKind::kReduction, context);
      ASSERT_TRUE(plan.ok()) << columns << " x " << kept << ": " << plan.status();
      const Schedule& s = plan->schedule;
      EXPECT_LE(plan->launches[0].kernel.SharedBytes() * std::max(1, s.min_ctas_per_sm),
                context.device.smem_bytes_per_cta)
          << s.ToString();
    }
  }
}

TEST(KeptColumns, EveryAlternative) {
  for (const char* order : kOrders) {
    const absl::StatusOr<Fusion> group = ParseFusion(GroupNorm("bf16", order));
    ASSERT_TRUE(group.ok()) << group.status();
    ScheduleContext context;
    context.sizes = {6, 8, 4, 8};
    context.device = Devices()[0];
    const Scheduler& scheduler = *FindScheduler(SchedulerKind::kReduction);
    const absl::StatusOr<Schedule> chosen = scheduler.choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const auto alternatives = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(alternatives.ok()) << alternatives.status();
    EXPECT_FALSE(alternatives->empty());
    for (const Schedule& other : *alternatives) {
      GroupRun run{.sizes = {{"N", 6}, {"K", 8}, {"H", 4}, {"W", 8}}};
      run.edit = [&](Schedule& s) { s = other; };
      ExpectRight(GroupNorm("bf16", order), run);
    }
  }
}

// Every kind of state, with work after it, beside one over all rows.
TEST(KeptColumns, EveryReduction) {
  for (const char* op : {"sum", "prod", "amax", "amin"}) {
    const std::string text = absl::StrReplaceAll(R"(fusion kept {
  symbol A
  symbol B
  symbol K
  symbol H
  input x: f32[A, B, K, H]
  input bias: f32[B, K]
  r = OP(x, axes=[2, 3])
  y = x - r[:, :, None, None]
  k = OP(x, axes=[0, 3]) + bias
  h = OP(x, axes=[0, 1, 2])
  all = OP(x)
  output y
  output k
  output h
  output all
})",
                                                 {{"OP", op}});
    for (const int64_t a : {1, 4}) {
      for (const int64_t h : {1, 6, 400})
        ExpectRight(text, {.sizes = {{"A", a}, {"B", 3}, {"K", 5}, {"H", h}}});
    }
  }
  for (const char* op : {"argmax", "argmin"}) {
    const std::string text = absl::StrReplaceAll(R"(fusion kept {
  symbol A
  symbol B
  symbol K
  symbol H
  input x: f32[A, B, K, H]
  input z: f32[B, K, H]
  r = sum(x * z, axes=[2, 3])
  k = OP(z, axes=[2])
  output r
  output k
})",
                                                 {{"OP", op}});
    for (const int64_t h : {1, 6, 400})
      ExpectRight(text, {.sizes = {{"A", 3}, {"B", 2}, {"K", 5}, {"H", h}}});
  }
  for (const char* op : {"any", "all"}) {
    const std::string text = absl::StrReplaceAll(R"(fusion kept {
  symbol N
  symbol K
  symbol H
  input x: bool[N, K, H]
  r = OP(x, axes=[1, 2])
  k = OP(x, axes=[0, 2])
  h = OP(x, axes=[0, 1])
  output r
  output k
  output h
})",
                                                 {{"OP", op}});
    for (const int64_t h : {1, 6, 40}) ExpectRight(text, {.sizes = {{"N", 3}, {"K", 5}, {"H", h}}});
  }
}

TEST(KeptColumns, Statistics) {
  constexpr char kText[] = R"(fusion kept {
  symbol N
  symbol K
  symbol H
  symbol W
  input x: f32[N, K, H, W]
  mean, m2, count = welford(x, axes=[1, 2, 3])
  y = x - mean[:, None, None, None]
  channels, c2, c = welford(y, axes=[0, 2, 3])
  lines, l2, l = welford(x, axes=[0, 1, 3])
  deviation = sqrt(c2 / c)
  output y
  output channels
  output deviation
  output lines
  output l2
})";
  for (const int64_t h : {1, 3, 40}) {
    for (const int64_t w : {1, 4, 33})
      ExpectRight(kText, {.sizes = {{"N", 3}, {"K", 4}, {"H", h}, {"W", w}}});
  }
}

// Two axes that are kept, and one between them that is not: states are left for it as well.
TEST(KeptColumns, AxesApart) {
  constexpr char kText[] = R"(fusion apart {
  symbol N
  symbol A
  symbol B
  symbol C
  symbol D
  input x: f32[N, A, B, C, D]
  r = sum(x, axes=[1, 2, 3, 4])
  y = x * r[:, None, None, None, None]
  k = sum(x, axes=[0, 2, 4])
  output y
  output k
})";
  for (const int64_t b : {1, 2, 5}) {
    for (const int64_t d : {1, 3, 8})
      ExpectRight(kText, {.sizes = {{"N", 2}, {"A", 3}, {"B", b}, {"C", 4}, {"D", d}}});
  }
}

TEST(KeptColumns, WhatIsKept) {
  const auto kept_of = [](const std::string& order) {
    const absl::StatusOr<Fusion> group = ParseFusion(GroupNorm("f32", order));
    EXPECT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
    EXPECT_TRUE(shape.ok()) << shape.status();
    EXPECT_TRUE(shape->keeps_columns());
    EXPECT_FALSE(shape->crosses_all_rows());
    const auto e = absl::c_find(shape->crosses, Crossing::kSomeColumns) - shape->crosses.begin();
    return std::pair(shape->Extent(shape->kept[e].axes).ToString(),
                     shape->Extent(shape->kept[e].inner).ToString());
  };
  EXPECT_EQ(kept_of(kOrders[0]), std::pair(std::string("K"), std::string("H*W")));
  EXPECT_EQ(kept_of(kOrders[1]), std::pair(std::string("K"), std::string("1")));
  EXPECT_EQ(kept_of(kOrders[2]), std::pair(std::string("K"), std::string("W")));
}

// Sums over any axes of one tensor or of a part of it, one of which may be used again: what the
// guard accepts is right at all sizes, and it accepts what AnalyzeGroup can make rows of.
TEST(KeptColumns, AnySums) {
  std::mt19937_64 bits(1);
  const auto below = [&](uint64_t n) { return static_cast<int>(bits() % n); };
  int accepted = 0, keep_columns = 0;
  for (int graph = 0; graph < 400 / testing::kPart; ++graph) {
    const int rank = 3 + below(2);
    std::vector<std::string> names = {"A", "B", "C", "D"};
    names.resize(rank);
    std::string text = "fusion sums {\n", outputs;
    for (const std::string& name : names)
      absl::StrAppend(&text, "  symbol ", name, " in [1, 4096]\n");
    std::vector<int> order(rank);
    absl::c_iota(order, 0);
    absl::c_shuffle(order, bits);
    absl::StrAppend(&text, "  input x: f32[", absl::StrJoin(names, ", "), "] order [",
                    absl::StrJoin(order, ", "), "]\n");
    const int sums = 2 + below(3);
    for (int i = 0; i < sums; ++i) {
      std::vector<int> axes;
      for (int d = 0; d < rank; ++d)
        if (below(2) == 0) axes.push_back(d);
      if (axes.empty()) axes.push_back(below(rank));
      const bool again = i == 0 && below(3) > 0;
      absl::StrAppend(&text, "  s", i, " = ", below(4) == 0 ? "amax" : "sum", "(x, axes=[",
                      absl::StrJoin(axes, ", "), "]", again ? ", keepdims=true)\n" : ")\n");
      if (again) absl::StrAppend(&text, "  y = x - s0\n");
      absl::StrAppend(&outputs, "  output ", again ? std::string("y") : absl::StrCat("s", i), "\n");
    }
    absl::StrAppend(&text, outputs, "}");
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status() << text;
    std::vector<ExprId> exprs;
    for (uint32_t i = 0; i < group->num_exprs(); ++i) exprs.push_back(ExprId(i));
    const AxisMap axes = AxisMap::Build(*group);
    const GroupSummary summary = Summarize(*group, axes, FactsOf(*group), exprs);
    const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
    const bool ok = RealGuard().CanSchedule(*group, axes, summary).ok;
    if (ok) {
      ASSERT_TRUE(shape.ok()) << shape.status() << text;
    }
    if (!ok) continue;
    ++accepted;
    keep_columns += shape->keeps_columns();
    GroupRun run;
    constexpr int64_t kSizes[] = {1, 2, 3, 5, 8, 12, 33};
    for (const std::string& name : names) run.sizes[name] = kSizes[below(7)];
    ExpectRight(text, run);
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 150 / testing::kPart);
  EXPECT_GT(keep_columns, 40 / testing::kPart);
}

// How many states threads leave in shared memory.
TEST(KeptColumns, Windows) {
  using kernel::KeptWindow, kernel::KeptWindowOf;
  // A vector lies in one kept column: a state for each, of every register.
  EXPECT_EQ(KeptWindowOf(10, 64, 8, 1024, 4), (KeptWindow{1024, 8, true}));
  // Three kept columns side by side, of which each register has whole sets.
  EXPECT_EQ(KeptWindowOf(3, 1, 2, 768, 4), (KeptWindow{192, 1, false}));
  EXPECT_EQ(KeptWindowOf(3, 1, 2, 512, 4), (KeptWindow{512, 1, true}));
  // What is not known divides nothing.
  ShapeEnv env;
  const SymInt n = env.FreshSymbol("N", 1, 100);
  EXPECT_EQ(KeptWindowOf(n, 1, 2, 768, 4), (KeptWindow{768, 1, true}));
  EXPECT_EQ(KeptWindowOf(3, 4 * n, 4, 768, 4), (KeptWindow{768, 4, true}));
}

// Channels between an image's axes: warps of which each register covers whole sets of channels;
// long rows in clusters, to which copies bring the next one, or, of few, their threads.
TEST(KeptColumns, ChosenSchedules) {
  const auto chosen = [](const std::string& text, std::vector<int64_t> sizes) {
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    EXPECT_TRUE(group.ok()) << group.status();
    ScheduleContext context;
    context.sizes = std::move(sizes);
    context.device = Devices()[0];
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_TRUE(s.ok()) << s.status();
    return *s;
  };
  const Schedule between = chosen(GroupNorm("bf16", kOrders[2]), {64, 6, 8, 16});
  EXPECT_EQ(between.lanes_per_row * between.warps_per_row * between.vector % (6 * 16), 0);
  EXPECT_TRUE(between.persistent);
  const Schedule few = chosen(GroupNorm("bf16", ""), {256, 10, 64, 64});
  EXPECT_GT(few.cluster, 1);
  EXPECT_TRUE(few.async);
  const Schedule front = chosen(GroupNorm("bf16", ""), {2048, 10, 64, 64});
  EXPECT_GT(front.cluster, 1);
  EXPECT_GT(front.stages, 0);
  EXPECT_TRUE(front.tickets);  // Who has which row changes no bit.
  EXPECT_FALSE(chosen(GroupNorm("bf16", ""), {8, 5, 65, 65}).shift);
}

// The gradients of the weights go along where that saves reads, not where few rows that no cluster
// holds would leave most SMs without work, nor where states would be as many as columns.
TEST(KeptColumns, WhereAMergePays) {
  const auto groups = [](const std::string& text, std::map<std::string, int64_t> sizes) {
    const absl::StatusOr<Fusion> fusion = ParseFusion(text);
    EXPECT_TRUE(fusion.ok()) << fusion.status();
    SegmentOptions options;
    options.sizes = {sizes.begin(), sizes.end()};
    const absl::StatusOr<SegmentedFusion> cut = Segment(*fusion, RealGuard(), options);
    EXPECT_TRUE(cut.ok()) << cut.status();
    return cut->num_groups();
  };
  const std::string norm = GroupNorm("bf16", "");
  EXPECT_EQ(groups(norm, {{"N", 256}, {"K", 10}, {"H", 64}, {"W", 64}}), 1);
  EXPECT_EQ(groups(norm, {{"N", 8}, {"K", 4}, {"H", 1024}, {"W", 1024}}), 2);
  constexpr char kSums[] = R"(fusion sums {
  symbol N
  symbol M
  symbol K
  symbol H
  input x: f32[N, M, K, H]
  r = sum(x, axes=[2, 3])
  k = sum(x, axes=[0, 3])
  output r
  output k
})";
  EXPECT_EQ(groups(kSums, {{"N", 64}, {"M", 64}, {"K", 32}, {"H", 256}}), 1);
  EXPECT_EQ(groups(kSums, {{"N", 64}, {"M", 64}, {"K", 2048}, {"H", 2}}), 2);
}

// A sum that keeps its rows' axes and columns may be needed by the row, and CTAs take rows of one
// kind of batch.
TEST(KeptColumns, OthersAreRefused) {
  for (const char* sums : {"s = sum(x, axes=[2])\n  r = s - amax(s, axes=[1], keepdims=true)\n",
                           "s = sum(x, axes=[0])\n  r = amax(x, axes=[2])\n"
                           "  t = sum(x, axes=[1])\n  output t\n"}) {
    const absl::StatusOr<Fusion> group = ParseFusion(absl::StrCat(R"(fusion others {
  symbol N
  symbol K
  symbol H
  input x: f32[N, K, H]
  )",
                                                                  sums, R"(  output s
  output r
})"));
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_THAT(AnalyzeGroup(*group).status().ToString(), HasSubstr("keeps other axes"));
  }
}

}  // namespace
}  // namespace seam
