// The schedules that are worth timing beside the heuristic's: each is right, they are few, and
// always the same.
#include "scheduler/alternatives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"

namespace seam {
namespace {

using Sizes = std::map<std::string, int64_t>;

ScheduleContext ContextOf(const Fusion& group, const Sizes& sizes, int alignment_bytes) {
  ScheduleContext context;
  for (const SymNode* s : group.env().symbols())
    context.sizes.push_back(sizes.at(std::string(s->name)));
  context.alignment_bytes = alignment_bytes;
  context.device = Devices()[0];
  return context;
}

struct Case {
  const char* name;
  SchedulerKind kind;
  std::string text;
  Sizes sizes;
  int every = 1;        // Of the alternatives that run on the simulator.
  size_t at_least = 8;  // Alternatives.
  int alignment_bytes = 16;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr char kLayerNorm[] = R"(fusion norm {
  symbol M
  symbol N
  input x: bf16[M, N]
  input w: f32[N]
  y, mean, rstd = layer_norm(cast(x, dtype=f32), w, axes=[1], eps=1e-5)
  out = cast(y, dtype=bf16)
  output out
  output mean
})";
constexpr char kColumnSums[] = R"(fusion columns {
  symbol M
  symbol N
  input x: f32[M, N]
  y = x / sum(x * x, axes=[0], keepdims=true)
  output y
})";
constexpr char kGroupNorm[] = R"(fusion group_norm {
  symbol N
  symbol P
  symbol K
  input x: bf16[N, 16*K, P] order [0, 2, 1]
  input w: f32[16*K]
  y, mean, rstd = group_norm(x, w, groups=16)
  output y order [0, 2, 1]
})";
constexpr char kCrossed[] = R"(fusion crossed {
  symbol M
  symbol N
  input x: f32[M, N]
  input g: f32[M, N]
  rows = g * x - sum(g * x, axes=[1], keepdims=true)
  columns = sum(g, axes=[0])
  output rows
  output columns
})";
// Rows that are neighbours, in vectors, and sums that cross them.
constexpr char kCrossedNeighbours[] = R"(fusion crossed_neighbours {
  symbol B
  symbol C
  symbol T
  input x: bf16[B, C, T]
  input g: bf16[B, C, T]
  gx = cast(g, dtype=f32) * cast(x, dtype=f32)
  rows = cast(gx - mean(gx, axes=[1], keepdims=true), dtype=bf16)
  columns = sum(gx, axes=[0, 2])
  output rows
  output columns
})";
constexpr char kPoints[] = R"(fusion points {
  symbol M
  symbol N
  input x: bf16[M, N]
  input b: f32[N]
  y = cast(cast(x, dtype=f32) * 2.0 + b, dtype=bf16)
  output y
})";
constexpr char kIslands[] = R"(fusion islands {
  symbol M
  symbol N
  input a: f32[M, N]
  input b: f32[N]
  x = exp(a)
  y = sin(b)
  output x
  output y
})";

constexpr char kReducingIslands[] = R"(fusion islands {
  symbol M
  symbol N
  input a: f32[M, N]
  input b: f32[M]
  input c: f32[5, M]
  x = softmax(a, axis=1)
  y = sum(b)
  z = c - mean(c, axes=[1], keepdims=true)
  output x
  output y
  output z
})";

std::vector<Case> Cases() {
  const SchedulerKind reduction = SchedulerKind::kReduction;
  return {
      {"LayerNorm", reduction, kLayerNorm, {{"M", 300}, {"N", 72}}, 6},
      {"LayerNormOdd", reduction, kLayerNorm, {{"M", 7}, {"N", 301}}, 5},
      {"ShortRows", reduction, kLayerNorm, {{"M", 2200}, {"N", 33}}, 10},
      {"LayerNormMisaligned", reduction, kLayerNorm, {{"M", 9}, {"N", 256}}, 5, 8, 2},
      {"LayerNormLong", reduction, kLayerNorm, {{"M", 3}, {"N", 8200}}, 12},
      {"LayerNormClusters", reduction, kLayerNorm, {{"M", 9}, {"N", 16400}}, 15},
      {"FewLongRows", reduction, kLayerNorm, {{"M", 1}, {"N", 40000}}, 15},
      {"ColumnSums", reduction, kColumnSums, {{"M", 67}, {"N", 36}}, 4},
      {"ColumnSumsOdd", reduction, kColumnSums, {{"M", 129}, {"N", 37}}, 4},
      {"ColumnSumsBrought", reduction, kColumnSums, {{"M", 20}, {"N", 2200}}, 12},
      {"Neighbours", reduction, kGroupNorm, {{"N", 14}, {"K", 10}, {"P", 64}}, 6},
      {"Crossed", reduction, kCrossed, {{"M", 290}, {"N", 64}}, 6},
      {"CrossedOdd", reduction, kCrossed, {{"M", 35}, {"N", 131}}, 3},
      {"CrossedNeighbours", reduction, kCrossedNeighbours, {{"B", 3}, {"C", 40}, {"T", 760}}, 6},
      {"Points", SchedulerKind::kPointwise, kPoints, {{"M", 19}, {"N", 64}}, 2},
      {"PointsOdd", SchedulerKind::kPointwise, kPoints, {{"M", 19}, {"N", 67}}, 2, 4},
      {"Islands", SchedulerKind::kHorizontal, kIslands, {{"M", 33}, {"N", 12}}, 1, 4},
      {"IslandsThatReduce",
       SchedulerKind::kHorizontal,
       kReducingIslands,
       {{"M", 900}, {"N", 72}},
       1,
       3},
      {"IslandsThatReduceOdd",
       SchedulerKind::kHorizontal,
       kReducingIslands,
       {{"M", 900}, {"N", 70}},
       1,
       3},
  };
}

class AlternativesOf : public ::testing::TestWithParam<Case> {};

TEST_P(AlternativesOf, AreFewDifferentRepeatableAndRight) {
  const Case& c = GetParam();
  const absl::StatusOr<Fusion> group = ParseFusion(c.text);
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext context = ContextOf(*group, c.sizes, c.alignment_bytes);
  const absl::StatusOr<Schedule> chosen = FindScheduler(c.kind)->choose(*group, context);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_LE(list->size(), kMostAlternatives);
  EXPECT_GE(list->size(), c.at_least);
  EXPECT_EQ(std::count(list->begin(), list->end(), *chosen), 0);
  std::set<std::string> lines;
  for (const Schedule& s : *list) lines.insert(s.ToString());
  EXPECT_GE(lines.size() + 1, list->size());
  EXPECT_EQ(*Alternatives(*group, *chosen, context), *list);

  for (size_t i = 0; i < list->size(); ++i) {
    const absl::StatusOr<LaunchPlan> plan = FindScheduler(c.kind)->lower(*group, (*list)[i]);
    ASSERT_TRUE(plan.ok()) << (*list)[i].ToString() << ": " << plan.status();
    if (i % c.every != 0) continue;
    testing::GroupRun run{.sizes = c.sizes, .alignment_bytes = c.alignment_bytes};
    run.edit = [&](Schedule& s) { s = (*list)[i]; };
    const testing::GroupResult result = testing::RunGroup(*group, run);
    ASSERT_TRUE(result.status.ok()) << (*list)[i].ToString() << ": " << result.status;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AlternativesOf, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// Neighbouring columns as rows of their own, and as columns, whichever was chosen, each once; by
// one CTA too where clusters were chosen that begin one after the other.
TEST(Alternatives, HaveNeighboursBothWays) {
  const absl::StatusOr<Fusion> group = ParseFusion(kGroupNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  for (const auto& [k, p] : {std::pair<int64_t, int64_t>{10, 512}, {40, 1024}, {80, 1024}}) {
    const ScheduleContext context = ContextOf(*group, {{"N", 512}, {"K", k}, {"P", p}}, 16);
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->neighbours, k < 80 ? k : 1);
    const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ(list->size(), kMostAlternatives);
    int as_rows = 0, alone = 0;
    for (const Schedule& s : *list) {
      EXPECT_EQ(std::count(list->begin(), list->end(), s), 1) << s.ToString();
      as_rows += s.neighbours > 1;
      alone += s.neighbours > 1 && s.cluster == 1 && s.persistent;
    }
    EXPECT_GE(as_rows, 20) << k;
    EXPECT_LE(as_rows, 40) << k;
    if (chosen->stagger > 0 && p == 512) {
      EXPECT_GT(alone, 0) << chosen->ToString();
    }
  }
}

TEST(Alternatives, StayWithinTheDevice) {
  const absl::StatusOr<Fusion> group = ParseFusion(kLayerNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  for (const DeviceInfo& device : Devices()) {
    ScheduleContext context = ContextOf(*group, {{"M", 65536}, {"N", 32768}}, 16);
    context.device = device;
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_GT(list->size(), 10u) << device.name;
    for (const Schedule& s : *list) {
      EXPECT_LE(s.cluster, device.max_cluster) << s.ToString();
      EXPECT_LE(s.min_ctas_per_sm * s.threads(), device.max_threads_per_sm) << s.ToString();
      const absl::StatusOr<LaunchPlan> plan =
          FindScheduler(SchedulerKind::kReduction)->lower(*group, s);
      ASSERT_TRUE(plan.ok()) << plan.status();
      for (const KernelLaunch& launch : plan->launches)
        EXPECT_LE(launch.kernel.SharedBytes(), device.smem_bytes_per_cta) << s.ToString();
    }
  }
}

// What wins on an H200 by docs/schedulers/tuning.md is near the front of the list.
TEST(Alternatives, TheBestKnownComeFirst) {
  const absl::StatusOr<Fusion> group = ParseFusion(kLayerNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext context = ContextOf(*group, {{"M", 65536}, {"N", 4096}}, 16);
  const absl::StatusOr<Schedule> chosen =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_GT(list->size(), 20u);
  for (size_t i = 0; i < 10; ++i) EXPECT_TRUE((*list)[i].persistent) << (*list)[i].ToString();
  const auto with = [&](int registers) {
    return std::any_of(list->begin(), list->begin() + 20,
                       [&](const Schedule& s) { return s.registers == registers; });
  };
  EXPECT_TRUE(with(2));
  EXPECT_TRUE(with(4));
}

// Whichever the heuristic takes for rows that 16-byte vectors do not divide.
TEST(Alternatives, ShortRowsWithAndWithoutBlocks) {
  const absl::StatusOr<Fusion> group = ParseFusion(kLayerNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  for (const int64_t columns : {33, 97, 129, 196, 301}) {
    const ScheduleContext context = ContextOf(*group, {{"M", 65536}, {"N", columns}}, 16);
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->blocks, columns < 128) << columns;
    const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(list.ok()) << list.status();
    for (const bool blocks : {false, true}) {
      EXPECT_TRUE(std::any_of(list->begin(), list->end(), [&](const Schedule& s) {
        return s.blocks == blocks;
      })) << columns;
    }
    const bool shifted =
        std::any_of(list->begin(), list->end(), [](const Schedule& s) { return s.shift; });
    EXPECT_EQ(shifted, columns % 2 == 1) << columns;
  }
}

// States of columns are finished as the heuristic has it, but for one that does it the other way.
TEST(Alternatives, FinishedHereOrThere) {
  const absl::StatusOr<Fusion> group = ParseFusion(testing::NormBackward("bf16"));
  ASSERT_TRUE(group.ok()) << group.status();
  for (const int64_t rows : {3, 100, 2048, 65536}) {
    const ScheduleContext context = ContextOf(*group, {{"M", rows}, {"N", 4096}}, 16);
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    ASSERT_EQ(chosen->cluster, 1);
    EXPECT_EQ(chosen->one_launch, rows == 100);
    const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(list.ok()) << list.status();
    Schedule otherwise = *chosen;
    otherwise.one_launch = !otherwise.one_launch;
    EXPECT_TRUE(std::find(list->begin(), list->end(), otherwise) != list->end()) << rows;
    Schedule settled = *chosen;
    settled.settled = !settled.settled;
    EXPECT_EQ(std::find(list->begin(), list->end(), settled) != list->end(), chosen->stages > 0);
    for (const Schedule& s : *list) {
      EXPECT_TRUE(s == otherwise || s.cluster > 1 || s.one_launch == chosen->one_launch)
          << s.ToString();
    }
  }
}

// Of rows so long that a stage holds one: its slices, as many as have room.
TEST(Alternatives, RowsInSlices) {
  const absl::StatusOr<Fusion> group = ParseFusion(kCrossed);
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext context = ContextOf(*group, {{"M", 1024}, {"N", 262144}}, 16);
  const absl::StatusOr<Schedule> chosen =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
  ASSERT_TRUE(list.ok()) << list.status();
  int in_slices = 0;
  for (const Schedule& s : *list) {
    if (s.slices == 1) continue;
    ++in_slices;
    EXPECT_GT(s.spare, 0) << s.ToString();
    const absl::StatusOr<LaunchPlan> plan =
        FindScheduler(SchedulerKind::kReduction)->lower(*group, s);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const int64_t bytes = plan->launches[0].kernel.SharedBytes();
    EXPECT_LE(bytes, context.device.smem_bytes_per_cta) << s.ToString();
    EXPECT_GT(bytes, context.device.smem_bytes_per_cta * 4 / 5) << s.ToString();
  }
  EXPECT_GE(in_slices, 3);
}

TEST(Alternatives, RowsThatThreadsBringOrLoad) {
  const absl::StatusOr<Fusion> group = ParseFusion(kLayerNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext context = ContextOf(*group, {{"M", 65536}, {"N", 1024}}, 16);
  Schedule chosen = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  for (const bool async : {false, true}) {
    ASSERT_TRUE(chosen.persistent && chosen.grid == 0) << chosen.ToString();
    chosen.async = chosen.reread = async;
    const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, chosen, context);
    ASSERT_TRUE(list.ok()) << list.status();
    Schedule otherwise = chosen;
    otherwise.async = otherwise.reread = !async;
    EXPECT_TRUE(std::find(list->begin(), list->end(), otherwise) != list->end());
    for (const Schedule& s : *list) EXPECT_TRUE(!s.async || s == otherwise) << s.ToString();
  }
}

// Three, five or six vectors a thread where rows do not divide evenly, and nowhere else.
TEST(Alternatives, RowsOfAnyLength) {
  const absl::StatusOr<Fusion> group = ParseFusion(kLayerNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  for (const int64_t n : {4096, 6200, 12888}) {
    const ScheduleContext context = ContextOf(*group, {{"M", 65536}, {"N", n}}, 16);
    const Schedule chosen = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, chosen, context);
    ASSERT_TRUE(list.ok()) << list.status();
    const bool others = std::any_of(list->begin(), list->end(), [](const Schedule& s) {
      return s.registers == 3 || s.registers == 5 || s.registers == 6;
    });
    EXPECT_EQ(others, n != 4096) << n;
  }
}

TEST(Alternatives, NoneWhereThereIsNoChoice) {
  const absl::StatusOr<Fusion> group = ParseFusion(kLayerNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  const ScheduleContext empty = ContextOf(*group, {{"M", 0}, {"N", 4}}, 16);
  const absl::StatusOr<Schedule> chosen =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, empty);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_TRUE(Alternatives(*group, *chosen, empty)->empty());
  Schedule library;
  library.kind = SchedulerKind::kLibrary;
  EXPECT_TRUE(Alternatives(*group, library, empty)->empty());
}

}  // namespace
}  // namespace seam
