// Rows that the CTAs of a thread block cluster share: right at every size, and every hazard found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/choose.h"
#include "segmenter/extract.h"
#include "segmenter/segment.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::NormBackward;
using ::testing::Not;
using testing::RunGroupText;

// Rows of N columns to `teams` clusters in turn.
GroupRun InClusters(int cluster, int warps, int teams, std::map<std::string, int64_t> sizes,
                    int stages = 0, bool reread = false, bool chan_welford = false,
                    bool tickets = false) {
  const int64_t columns = sizes.at("N");
  const auto edit = [=](Schedule& s) {
    s.persistent = true;
    s.outer = s.shift = s.one_launch = false;
    s.chan_welford = chan_welford;
    s.split = s.row_warps = s.registers = s.neighbours = 1;
    s.lanes_per_row = 32;
    s.warps_per_row = warps;
    s.cluster = cluster;
    while (s.columns_at_once() < columns) ++s.registers;
    s.grid = teams * cluster;
    s.stages = stages;
    s.reread = reread;
    s.tickets = tickets;
    s.stagger = s.staggered = 0;
  };
  return {.sizes = std::move(sizes), .edit = edit};
}

GroupResult ExpectRightInClusters(const std::string& text, const GroupRun& run) {
  GroupResult result = testing::ExpectRight(text, run);
  EXPECT_THAT(result.kernel_text, HasSubstr("store to CTA"));
  return result;
}

constexpr char kLayerNorm[] = R"(fusion layer_norm {
  symbol M
  symbol N
  input x: f32[M, N]
  input w: bf16[N]
  avg, m2, n = welford(x, axes=[1])
  rstd = rsqrt(m2 / n + 1e-5)
  y = cast((x - avg[:, None]) * rstd[:, None] * cast(w, dtype=f32), dtype=bf16)
  output y
  output avg
})";

// The last CTAs of a cluster have a short piece of the row or none.
TEST(Clusters, RowsOfEverySize) {
  for (const int cluster : {2, 4, 8}) {
    for (const int64_t columns : {1, 64, 100, 257, 704, 1024}) {
      for (const int64_t rows : {1, 5}) {
        const std::map<std::string, int64_t> sizes = {{"M", rows}, {"N", columns}};
        for (const int stages : {0, 1, 2})
          ExpectRightInClusters(kLayerNorm, InClusters(cluster, 1, 2, sizes, stages));
        ExpectRightInClusters(kLayerNorm, InClusters(cluster, 3, 1, sizes, 0, false, true));
      }
    }
  }
  ExpectRightInClusters(kLayerNorm, InClusters(16, 4, 1, {{"M", 3}, {"N", 2048}}, 3));
}

// States of one, two and three components; one exchange a turn, and several.
TEST(Clusters, EveryReduction) {
  const auto group = [](absl::string_view body, absl::string_view outputs) {
    return absl::StrCat("fusion reductions {\n  symbol M\n  symbol N\n  input x: f32[M, N]\n", body,
                        outputs, "}");
  };
  for (const int stages : {0, 1, 2}) {
    for (const int cluster : {2, 8}) {
      const GroupRun run = InClusters(cluster, 2, 2, {{"M", 9}, {"N", 360}}, stages);
      ExpectRightInClusters(group("  i = argmax(x, axes=[1])\n", "  output i\n"), run);
      ExpectRightInClusters(
          group("  a, m2, n = welford(x, axes=[1])\n", "  output a\n  output m2\n"), run);
      ExpectRightInClusters(
          group("  m = amax(x, axes=[1])\n  e = exp(x - m[:, None])\n"
                "  s = sum(e, axes=[1])\n  y = e / s[:, None]\n  j = argmin(y, axes=[1])\n",
                "  output y\n  output j\n"),
          run);
      ExpectRightInClusters(
          group("  b = any(x > 3.0, axes=[1])\n  h = amax(cast(x, dtype=f16), axes=[1])\n"
                "  d = sum(cast(x, dtype=f64), axes=[1])\n",
                "  output b\n  output h\n  output d\n"),
          run);
    }
  }
}

// A state of everything beside those of columns.
constexpr char kSumOfAll[] = "  all = sum(g, axes=[0, 1])\n  output all\n";

TEST(Clusters, StatesOfColumns) {
  for (const std::string dtype : {"bf16", "f32"}) {
    for (const int cluster : {2, 4, 8}) {
      for (const int64_t rows : {1, 20}) {
        for (const int64_t columns : {88, 1000}) {
          const std::map<std::string, int64_t> sizes = {{"M", rows}, {"N", columns}};
          ExpectRightInClusters(NormBackward(dtype, kSumOfAll), InClusters(cluster, 1, 3, sizes));
          for (const bool reread : {false, true}) {
            const GroupResult result = ExpectRightInClusters(
                NormBackward(dtype, kSumOfAll), InClusters(cluster, 2, 2, sizes, 3, reread));
            EXPECT_THAT(result.kernel_text, HasSubstr("await copies"));
          }
        }
      }
    }
  }
}

// Rows by ticket, in one exchange a turn and in two, more teams than rows and fewer.
TEST(Clusters, RowsByTicket) {
  for (const int cluster : {2, 4, 8}) {
    for (const int64_t rows : {1, 3, 7, 40}) {
      for (const bool reread : {false, true}) {
        const std::map<std::string, int64_t> sizes = {{"M", rows}, {"N", 1000}};
        const GroupResult result =
            ExpectRightInClusters(NormBackward("bf16", kSumOfAll),
                                  InClusters(cluster, 2, 3, sizes, 2, reread, false, true));
        EXPECT_THAT(result.kernel_text, HasSubstr("ticket of"));
        ExpectRightInClusters(kLayerNorm, InClusters(cluster, 1, 2, sizes, 3, reread, false, true));
        ExpectRightInClusters(kLayerNorm, InClusters(cluster, 1, 2, sizes, 2, reread, true, true));
      }
    }
  }
}

// One after the other, which changes nothing but the time.
TEST(Clusters, BeginOneAfterTheOther) {
  GroupRun run = InClusters(4, 2, 3, {{"M", 10}, {"N", 1000}});
  const GroupResult at_once = ExpectRightInClusters(kLayerNorm, run);
  EXPECT_THAT(at_once.kernel_text, Not(HasSubstr("pause")));
  run.edit = [edit = run.edit](Schedule& s) {
    edit(s);
    s.stagger = 3000;
    s.staggered = 3;
  };
  const GroupResult staggered = ExpectRightInClusters(kLayerNorm, run);
  EXPECT_THAT(staggered.kernel_text, HasSubstr("pause for 1000*(block//4) cycles"));
  EXPECT_THAT(staggered.schedule.ToString(), HasSubstr("3 clusters begin within 3000 cycles"));
  Schedule s = staggered.schedule;
  s.staggered = 0;
  EXPECT_FALSE(CheckSchedule(s).ok());
  s.stagger = 0;
  EXPECT_TRUE(CheckSchedule(s).ok());
  s.stagger = -1;
  EXPECT_FALSE(CheckSchedule(s).ok());
}

// Spread over the time that memory needs for the rows that all have at once: of seven clusters of
// 16, of 3 MB each.
TEST(Clusters, WhenTheyBegin) {
  const auto chosen = [](absl::string_view op, int64_t m, int64_t n) {
    const absl::StatusOr<Fusion> group =
        ParseFusion(absl::StrCat("fusion f {\n  symbol M\n  symbol N\n  input grad: f32[M, N]\n  "
                                 "input y: f32[M, N]\n  dx = ",
                                 std::string(op), "\n  output dx\n}"));
    EXPECT_TRUE(group.ok()) << group.status();
    ScheduleContext context;
    context.sizes = {m, n};
    context.device = *FindDevice("h200");
    return *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  };
  const std::string backward = "softmax_backward(grad, y, axis=1)";
  const Schedule many = chosen(backward, 1024, 262144);
  EXPECT_EQ(many.staggered, many.places());
  EXPECT_NEAR(many.stagger, 7.0 * 3 * 4 * 262144 / 4250e9 * 2e9, 2);
  EXPECT_EQ(chosen(backward, many.places(), 262144).stagger, 0);  // One turn.
  // Two turns, and two rows in the second: the second cluster would make all wait.
  EXPECT_EQ(chosen(backward, many.places() + 2, 262144).stagger, 0);
  EXPECT_EQ(chosen(backward, 1024, 4096).stagger, 0);  // No clusters.
}

// Of vectors of rows whose second pass leaves its states in parts, so that a turn has one exchange:
// the next turn's goes to other arrays and another barrier.
TEST(Clusters, OneExchangeATurnBesideStatesThatStayApart) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion f {
  symbol N in [1, 8192]
  symbol C in [1, 8192]
  symbol P in [1, 65536]
  input grad: f32[N, C, P] order [0, 2, 1]
  input x: f32[N, C, P] order [0, 2, 1]
  r = rsqrt(sum(x * x, axes=[2]) + 1e-5)
  dweight = sum(grad * x * r[:, :, None], axes=[0, 2])
  output dweight
  output r
})");
  ASSERT_TRUE(group.ok()) << group.status();
  ScheduleContext context;
  context.sizes = {512, 256, 3136};
  context.device = *FindDevice("h200");
  const Scheduler* scheduler = FindScheduler(SchedulerKind::kReduction);
  const absl::StatusOr<Schedule> s = scheduler->choose(*group, context);
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_TRUE(s->outer && s->cluster > 1 && s->grid > 0) << s->ToString();
  const absl::StatusOr<LaunchPlan> plan = scheduler->lower(*group, *s);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launches[0].kernel.store_barriers, 2);
}

TEST(Clusters, NeedWholeRowsInTurn) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.cluster = 3;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("power of two"));
  s.cluster = 0;
  s.grid = 12;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("power of two"));
  s.grid = 0;
  s.cluster = 4;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("single rows in turn"));
  s.persistent = true;
  s.lanes_per_row = 32;
  s.grid = 12;
  EXPECT_TRUE(CheckSchedule(s).ok());
  s.one_launch = true;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("a kernel of its own"));
  s.one_launch = false;
  s.grid = 14;
  EXPECT_FALSE(CheckSchedule(s).ok());
  s.grid = 16;
  ASSERT_TRUE(CheckSchedule(s).ok());
  s.pace = 1;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("CTAs keep pace that"));
  s.pace = 0;
  s.settled = true;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("first loads are awaited"));
  s.stages = 2;
  EXPECT_TRUE(CheckSchedule(s).ok());
}

constexpr char kSoftmax[] = R"(fusion softmax {
  symbol M
  symbol N
  input x: bf16[M, N]
  y = softmax(x, axis=1)
  output y
})";

// Rows that start anywhere: each CTA's piece is of the body, and the last one has the ends. Rows
// that are hardly more than ends, pieces that end in the middle of one, CTAs without a piece.
GroupRun Shifted(GroupRun run, int vector, int teams) {
  run.edit = [=, lay = run.edit, columns = run.sizes.at("N")](Schedule& s) {
    s.vector = vector;
    lay(s);
    s.shift = true;
    s.alignment_bytes = 16;
    s.grid = s.cluster * teams;
    s.pace = s.stages == 3 ? 2 : 0;
    s.settled = s.stages == 3;
    s.facts = {{"N", 1, columns}};
  };
  return run;
}

TEST(Clusters, RowsThatStartAnywhere) {
  for (const int cluster : {2, 4}) {
    for (const int64_t columns : {23, 67, 301, 515, 1023}) {
      for (const int64_t rows : {1, 19}) {
        const std::map<std::string, int64_t> sizes = {{"M", rows}, {"N", columns}};
        for (const int stages : {0, 1, 3}) {
          SCOPED_TRACE(absl::StrCat(cluster, " CTAs, ", rows, "x", columns, ", ", stages));
          const bool reread = stages == 3;
          const GroupRun run = InClusters(cluster, 2, 1, sizes, stages, reread);
          const GroupResult result = ExpectRightInClusters(kLayerNorm, Shifted(run, 4, 4));
          EXPECT_TRUE(result.schedule.shift);
          if (stages > 0) {
            EXPECT_THAT(result.kernel_text, HasSubstr("await copies"));
          }
          ExpectRightInClusters(NormBackward("bf16", kSumOfAll), Shifted(run, 8, 8));
        }
      }
    }
  }
}

// So many clusters that they take rows in the order of where these start, in stretches: clusters
// without rows, with one, with some of one class and some of the next, with several classes.
// Where no thread keeps anything of its columns, in any order.
TEST(Clusters, RowsInTheOrderOfTheirStarts) {
  testing::Part part;
  for (const int teams : {1, 3, 7, 9}) {
    for (const int64_t columns : {67, 514, 1023}) {
      for (const int64_t rows : {1, 6, 19, 40}) {
        const std::map<std::string, int64_t> sizes = {{"M", rows}, {"N", columns}};
        for (const int stages : {0, 1, 3}) {
          if (!part.TakesNext()) continue;
          SCOPED_TRACE(absl::StrCat(teams, " clusters, ", rows, "x", columns, ", ", stages));
          const GroupRun run = InClusters(2, 2, 1, sizes, stages, stages == 3);
          const GroupResult kept = ExpectRightInClusters(kLayerNorm, Shifted(run, 4, teams));
          EXPECT_GT(kept.schedule.stretches(), 1);
          EXPECT_THAT(kept.kernel_text, HasSubstr("for stretch"));
          ExpectRightInClusters(NormBackward("bf16", kSumOfAll), Shifted(run, 8, teams));
          const GroupResult bare = ExpectRightInClusters(kSoftmax, Shifted(run, 8, teams));
          EXPECT_THAT(bare.kernel_text, Not(HasSubstr("for stretch")));
          for (const GroupResult& result : {kept, bare}) {
            EXPECT_EQ(stages > 0, result.kernel_text.find("await copies") != std::string::npos);
          }
        }
      }
    }
  }
}

// No team of any grid has rows of more classes than there are stretches.
TEST(Clusters, StretchesAreEnough) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.shift = true;
  s.lanes_per_row = 32;
  s.cluster = 2;
  for (s.vector = 2; s.vector <= 16; s.vector *= 2) {
    for (int teams = 1; teams <= 20; ++teams) {
      s.grid = teams * s.cluster;
      if (s.grid % s.grid_step() == 0) continue;
      for (int64_t rows = 1; rows <= 300; ++rows) {
        const auto class_of = [&](int64_t position) {
          int64_t begin = 0, its = 0;
          while (begin + (rows - its + s.vector - 1) / s.vector <= position)
            begin += (rows - its++ + s.vector - 1) / s.vector;
          return its;
        };
        for (int64_t team = 0; team < teams; ++team) {
          const auto first = [&](int64_t t) {
            return t * (rows / teams) + std::min(t, rows % teams);
          };
          if (first(team) == first(team + 1)) continue;
          const int64_t classes = class_of(first(team + 1) - 1) - class_of(first(team)) + 1;
          ASSERT_LE(classes, s.stretches()) << s.vector << " " << teams << " " << rows;
        }
      }
    }
  }
}

// So many clusters that their rows start alike, unless all of them take a third of the turns less.
TEST(Clusters, RowsThatStartAnywhereAreShared) {
  for (const char* dtype : {"bf16", "f32"}) {
    const absl::StatusOr<Fusion> group = ParseFusion(NormBackward(dtype));
    ASSERT_TRUE(group.ok()) << group.status();
    for (const char* device : {"h200", "h100"}) {
      for (const int64_t columns : {20001, 20002, 32003, 50257, 65537, 100003}) {
        for (const int64_t rows : {5, 100, 5000}) {
          const ScheduleContext context{.sizes = {rows, columns}, .device = *FindDevice(device)};
          const absl::StatusOr<Schedule> s =
              FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
          ASSERT_TRUE(s.ok()) << s.status();
          EXPECT_TRUE(CheckSchedule(*s).ok()) << s->ToString();
          EXPECT_TRUE(s->shift && s->persistent) << s->ToString();
          EXPECT_GT(s->cluster, 1) << s->ToString();
          const int64_t left = s->grid % s->grid_step(), alike = (s->grid - left) / s->cluster;
          if (left > 0) {
            EXPECT_GE(2 * CeilDivide(rows, alike), 3 * CeilDivide(rows, int64_t{s->teams()}))
                << s->ToString();
          }
          EXPECT_EQ(s->grid % s->cluster, 0) << s->ToString();
          EXPECT_LE(s->grid, ResidentCtas(*s, context.device)) << s->ToString();
          EXPECT_GE(s->columns_at_once() + 2 * s->vector - 1, columns) << s->ToString();
        }
      }
    }
  }
}

// What is read once goes through one CTA in steps: nothing is kept, and a cluster only waits.
TEST(Clusters, RowsThatAreReadOnceHaveNone) {
  constexpr char kCrossEntropy[] = R"(fusion cross_entropy {
  symbol M
  symbol N
  input x: bf16[M, N]
  input target: i64[M]
  loss, log_sum = cross_entropy(x, target)
  output loss
})";
  for (const char* device : {"h200", "b200", "rtx5090"}) {
    const auto choose = [&](absl::string_view text, int64_t rows, int64_t columns) {
      const absl::StatusOr<Fusion> group = ParseFusion(text);
      EXPECT_TRUE(group.ok()) << group.status();
      const absl::StatusOr<Schedule> s =
          FindScheduler(SchedulerKind::kReduction)
              ->choose(*group, {.sizes = {rows, columns}, .device = *FindDevice(device)});
      EXPECT_TRUE(s.ok() && CheckSchedule(*s).ok()) << s.status();
      return *s;
    };
    for (int64_t columns : {1024, 4096, 50256, 50257}) {
      const Schedule s = choose(kCrossEntropy, 8192, columns);
      // What is looked up once a row does not keep the others from coming in vectors.
      EXPECT_EQ(s.vector, 8) << device << columns;
      EXPECT_EQ(s.cluster, 1) << device << columns;
      EXPECT_TRUE(!s.persistent && s.online) << device << columns;
    }
    EXPECT_GT(choose(kSoftmax, 8192, 50257).cluster, 1) << device;
    // Few rows are shared.
    const Schedule few = choose(kCrossEntropy, 16, 50256);
    EXPECT_GT(few.cluster * few.split, 1) << device;
  }
}

TEST(Clusters, AreChosenWhereRowsAreTooLongForOneCta) {
  const auto choose = [](const std::string& text, const char* device, int64_t rows, int64_t columns,
                         bool any_order = false) {
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    const ScheduleContext context{
        .sizes = {rows, columns}, .device = *FindDevice(device), .any_order = any_order};
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_TRUE(CheckSchedule(*s).ok()) << s->ToString();
    const int64_t ends = s->shift ? s->vector - 1 : 0;
    EXPECT_TRUE(!s->persistent || s->columns_at_once() + ends >= columns) << s->ToString();
    return *s;
  };
  EXPECT_EQ(choose(kLayerNorm, "h200", 8192, 12288).cluster, 1);
  const Schedule forward = choose(kLayerNorm, "h200", 4096, 65536);
  EXPECT_EQ(forward.cluster, 16);
  EXPECT_FALSE(forward.reread);
  EXPECT_TRUE(forward.tickets);
  EXPECT_EQ(forward.grid, 336);  // Three CTAs an SM, of those that hold clusters of 16.
  EXPECT_GE(forward.stages, 2);
  EXPECT_EQ(forward.facts, (std::vector<SymbolFact>{{"N", 1, 65536}}));  // It needs no masks.
  EXPECT_EQ(choose(kLayerNorm, "h200", 2, 1 << 20).cluster, 1);          // So few rows are split.
  EXPECT_EQ(choose(kLayerNorm, "a100", 4096, 65536).cluster, 1);
  // Clusters that have rows that start alike: the last one of 21 stays at home.
  const Schedule shifted = choose(kLayerNorm, "h200", 4096, 65537);
  EXPECT_TRUE(shifted.shift);
  EXPECT_FALSE(shifted.tickets);
  EXPECT_EQ(shifted.grid_step(), 8 * shifted.cluster);
  // The longest rows that a cluster holds.
  EXPECT_EQ(choose(kLayerNorm, "h200", 1024, 262144).cluster, 16);
  EXPECT_EQ(choose(kSoftmax, "h200", 1024, 524288).cluster, 16);
  EXPECT_EQ(choose(kSoftmax, "h200", 1024, 524296).cluster, 1);
  const std::string backward = R"(fusion backward {
  symbol M
  symbol N
  input grad: bf16[M, N]
  input x: bf16[M, N]
  g = cast(grad, dtype=f32)
  xf = cast(x, dtype=f32)
  a = sum(g * xf, axes=[1])
  dx = cast(g - a[:, None] * xf, dtype=bf16)
  dgamma = sum(g * xf, axes=[0])
  output dx
  output dgamma
})";
  EXPECT_EQ(choose(backward, "h200", 8192, 8192).cluster, 1);
  EXPECT_EQ(choose(backward, "h200", 8192, 16384).cluster, 4);
  EXPECT_FALSE(choose(backward, "h200", 8192, 16384).tickets);  // The same bits in every run.
  EXPECT_GT(choose(backward, "h200", 8192, 16384).pace, 0);
  EXPECT_EQ(choose(backward, "h200", 8192, 16384, true), choose(backward, "h200", 8192, 16384));
  EXPECT_TRUE(choose(backward, "h200", 65536, 1024, true).tickets);
  const Schedule by_ticket = choose(backward, "h200", 16384, 12288, true);
  EXPECT_TRUE(by_ticket.tickets);
  EXPECT_EQ(by_ticket.cluster, 1);
  EXPECT_FALSE(choose(backward, "h200", 65536, 1024).tickets);
  EXPECT_FALSE(choose(backward, "h200", 8192, 32768).reread);
  const Schedule longest = choose(backward, "h200", 1024, 262144);
  EXPECT_EQ(longest.cluster, 16);
  EXPECT_EQ(longest.grid, 112);
  EXPECT_TRUE(longest.reread);
  EXPECT_FALSE(longest.one_launch);
  EXPECT_FALSE(choose(backward, "h200", 1024, 524288).persistent);
  // Few rows with two states of each column go to pairs of CTAs.
  const std::string two_states =
      NormBackward("bf16", "  dbeta = sum(g, axes=[0])\n  output dbeta\n");
  EXPECT_EQ(choose(two_states, "h200", 1024, 12288).cluster, 2);
  EXPECT_EQ(choose(two_states, "h200", 1024, 8192).cluster, 1);
  EXPECT_EQ(choose(two_states, "h200", 100, 12288).cluster, 1);
  EXPECT_EQ(choose(two_states, "h200", 21845, 12288).cluster, 1);
  const Schedule wide = choose(NormBackward("f32"), "h200", 1024, 262144);
  EXPECT_EQ(wide.cluster, 16);
  EXPECT_EQ(wide.stages, 1);  // There is room for one row.
  EXPECT_TRUE(wide.reread);
}

// Few rows that fill a CTA's registers go to clusters that load them, and what each CTA has of an
// SM is its own.
TEST(Clusters, FewLongRows) {
  testing::ExpectRight(kLayerNorm, {.sizes = {{"M", 0}, {"N", 32768}}});
  GroupResult result = ExpectRightInClusters(kLayerNorm, {.sizes = {{"M", 2}, {"N", 32768}}});
  EXPECT_EQ(result.schedule.stages, 0);
  EXPECT_EQ(result.schedule.min_ctas_per_sm, 1);
  for (const int64_t rows : {1, 3}) {
    result = ExpectRightInClusters(NormBackward("bf16", kSumOfAll),
                                   {.sizes = {{"M", rows}, {"N", 16384}}});
    EXPECT_EQ(result.schedule.grid, rows * result.schedule.cluster);
  }
  // One kernel serves several numbers of rows.
  const absl::StatusOr<Fusion> group = ParseFusion(NormBackward("bf16", kSumOfAll));
  for (const int64_t rows : {8, 9, 10, 11, 12, 13}) {
    const ScheduleContext context{.sizes = {rows, 16384}, .device = *FindDevice("h200")};
    const Schedule s = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_EQ(s.grid / s.cluster, (rows + 1) / 2 * 2) << s.ToString();
  }
}

// Few long rows are all there at once, each of as many CTAs as have enough of it.
TEST(Clusters, RowsInOneTurn) {
  const std::string softmax =
      "fusion softmax {\n  symbol M\n  symbol N\n  input x: DTYPE[M, N]\n"
      "  y = softmax(x, axis=1)\n  output y\n}\n";
  const auto of = [&](const char* dtype) {
    return absl::StrReplaceAll(softmax, {{"DTYPE", dtype}});
  };
  const struct {
    const char* dtype;
    int64_t rows, columns;
    int cluster;
  } cases[] = {{"bf16", 1, 12288, 4}, {"bf16", 3, 16384, 8},  {"bf16", 2, 20001, 8},
               {"f16", 1, 50257, 8},  {"bf16", 1, 50264, 16}, {"bf16", 17, 50264, 8},
               {"f32", 4, 8192, 8},   {"f32", 2, 20001, 8},   {"f32", 1, 131072, 16},
               {"bf16", 1, 8192, 1}};
  testing::Part part;
  for (const auto& c : cases) {
    SCOPED_TRACE(absl::StrCat(c.dtype, "[", c.rows, ", ", c.columns, "]"));
    if (!part.TakesNext()) continue;
    const GroupResult result =
        testing::ExpectRight(of(c.dtype), {.sizes = {{"M", c.rows}, {"N", c.columns}}});
    EXPECT_EQ(result.schedule.cluster, c.cluster) << result.schedule.ToString();
    if (c.cluster > 1) {
      EXPECT_GE(result.schedule.grid, c.rows * c.cluster) << result.schedule.ToString();
      EXPECT_EQ(result.schedule.stages, result.schedule.shift ? 2 : 0);
    }
  }
  // Many are taken in turn.
  const absl::StatusOr<Fusion> group = ParseFusion(of("bf16"));
  const ScheduleContext context{.sizes = {4000, 50264}, .device = *FindDevice("h200")};
  const Schedule s = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  EXPECT_GT(s.stages, 0) << s.ToString();
}

// Of rows that take more than half of what clusters hold the segmenter asks for one kernel only
// where there is one that has every SM at work.
TEST(Clusters, RowsThatJustFit) {
  const auto groups = [](const std::string& text, int64_t columns) {
    const absl::StatusOr<Fusion> fusion = ParseFusion(text);
    SegmentOptions options;
    options.sizes = {{"M", 1024}, {"N", columns}};
    const absl::StatusOr<SegmentedFusion> cut = Segment(*fusion, RealGuard(), options);
    EXPECT_TRUE(cut.ok()) << cut.status();
    for (const GroupId g : cut->groups()) {
      const absl::StatusOr<ExtractedGroup> group = ExtractGroup(*cut, g);
      ScheduleContext context;
      context.device = *FindDevice("h200");
      for (const SymNode* symbol : group->fusion.env().symbols())
        context.sizes.push_back(symbol->name == "M" ? 1024 : columns);
      const absl::StatusOr<Schedule> s =
          FindScheduler(cut->scheduler(g))->choose(group->fusion, context);
      EXPECT_TRUE(s->grid == 0 || s->persistent) << s->ToString();
    }
    return cut->num_groups();
  };
  const auto backward = [](int tensors, const std::string& dtype) {
    std::string inputs, sum = "cast(x0, dtype=f32)";
    for (int i = 0; i < tensors; ++i)
      absl::StrAppend(&inputs, "  input x", i, ": ", dtype, "[M, N]\n");
    for (int i = 1; i < tensors; ++i) absl::StrAppend(&sum, " * cast(x", i, ", dtype=f32)");
    return absl::StrCat("fusion backward {\n  symbol M\n  symbol N\n", inputs, "  p = ", sum,
                        "\n  y = cast(p - sum(p, axes=[1], keepdims=true), dtype=", dtype,
                        ")\n  a = sum(p, axes=[0])\n  output y\n  output a\n}");
  };
  EXPECT_EQ(groups(backward(2, "f32"), 262144), 1);
  EXPECT_EQ(groups(backward(2, "bf16"), 262144), 1);
  EXPECT_EQ(groups(backward(3, "bf16"), 262144), 1);
  EXPECT_GT(groups(backward(4, "f32"), 262144), 1);  // Four of 64 KB each.
  EXPECT_GT(groups(backward(2, "f32"), 262143), 1);  // No vectors.
  EXPECT_GT(groups(backward(2, "f32"), 262152), 1);
}

// A channel of all images is in as many pieces, which the threads load if they are short.
std::string BatchNorm(const std::string& dtype) {
  return absl::StrCat("fusion batch_norm {\n  symbol B\n  symbol C\n  symbol N\n  input x: ", dtype,
                      "[B, C, N]\n  input w: f32[C]\n  f = cast(x, dtype=f32)\n",
                      "  avg, m2, n = welford(f, axes=[0, 2])\n",
                      "  r = rsqrt(m2 / n + 1e-5) * w\n",
                      "  y = cast((f - avg[None, :, None]) * r[None, :, None], dtype=", dtype,
                      ")\n  output y\n  output avg\n}");
}

TEST(Clusters, RowsInPieces) {
  for (const char* dtype : {"bf16", "f32"}) {
    for (const int64_t images : {1, 5}) {
      for (const int64_t pixels : {8, 40, 64}) {
        GroupRun run = InClusters(4, 2, 2, {{"B", images}, {"C", 5}, {"N", pixels}});
        run.edit = [&, lay = run.edit](Schedule& s) {
          lay(s);
          while (s.columns_at_once() < images * pixels) ++s.registers;
        };
        ExpectRightInClusters(BatchNorm(dtype), run);
      }
    }
  }
  const auto choose = [](const char* device, int64_t images, int64_t channels, int64_t pixels) {
    const absl::StatusOr<Fusion> group = ParseFusion(BatchNorm("bf16"));
    const ScheduleContext context{.sizes = {images, channels, pixels},
                                  .device = *FindDevice(device)};
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_TRUE(CheckSchedule(*s).ok()) << s->ToString();
    EXPECT_EQ(s->persistent, s->columns_at_once() >= images * pixels) << s->ToString();
    return *s;
  };
  const Schedule s = choose("h200", 256, 256, 784);
  EXPECT_EQ(s.cluster, 8);
  EXPECT_EQ(s.stages, 0);
  EXPECT_EQ(s.min_ctas_per_sm, 2);
  EXPECT_EQ(choose("h200", 64, 512, 784).cluster, 2);
  const Schedule few = choose("h200", 64, 1024, 196);  // A CTA of few threads holds it.
  EXPECT_EQ(few.cluster, 1);
  EXPECT_EQ(few.threads(), 256);
  EXPECT_EQ(few.min_ctas_per_sm, 4);
  // Longer ones fill the shared memory of a cluster; the longest no cluster holds.
  const Schedule longer = choose("h200", 64, 64, 12544);
  EXPECT_EQ(longer.cluster, 16);
  EXPECT_EQ(longer.stages, 2);
  EXPECT_TRUE(longer.reread);
  EXPECT_EQ(longer.columns_at_once(), 64 * 12544);
  EXPECT_EQ(choose("h200", 128, 64, 12544).cluster, 1);
  EXPECT_EQ(choose("a100", 64, 256, 3136).cluster, 1);
}

}  // namespace
}  // namespace seam
