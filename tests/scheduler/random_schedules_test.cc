// Random groups under random schedules: whatever CheckSchedule lets through is right on the
// simulator, or a guard of the plan refuses the sizes.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "scheduler/choose.h"
#include "segmenter/extract.h"
#include "segmenter/segment.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"
#include "tests/support/random_graph.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::GroupResult;
using testing::GroupRun;
using testing::kPart;
using testing::RandomGraph;

// Uniform picks, the same on every machine.
class Picker {
 public:
  explicit Picker(uint64_t seed) : bits_(seed) {}
  int Below(int n) { return static_cast<int>(bits_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }
  int PowerOfTwo(int most) {
    int exponents = 1;
    while (1 << exponents <= most) ++exponents;
    return 1 << Below(exponents);
  }

 private:
  std::mt19937_64 bits_;
};

// Vectors of rows that threads bring to shared memory, in turn or as a CTA's only ones.
void BringOuterRows(Picker& pick, const GroupShape& shape, Schedule& s) {
  s.async = s.reread = s.persistent && s.vector > 1 && s.grid == 0 &&
                       s.threads() * s.registers * s.vector <= 8192 && pick.Chance(50);
  const bool folds_all = absl::c_linear_search(shape.crosses, Crossing::kAll);
  if (!s.async || folds_all || shape.keeps_columns() || !shape.batch.empty() || pick.Chance(40))
    return;
  if (shape.crosses_all_rows()) s.cluster = 1;
  s.grid = s.cluster * (1 + pick.Below(3));
  s.reread = pick.Chance(50);
}

// Neighbouring columns as rows, if there are few enough for a CTA to have them all together.
void SeeNeighboursAsRows(Picker& pick, const Fusion& group,
                         const std::map<std::string, int64_t>& sizes, Schedule& s) {
  Schedule as_rows = s;
  as_rows.neighbours = 2;
  const absl::StatusOr<GroupShape> shape = ShapeFor(group, as_rows);
  if (!shape.ok()) return;
  const absl::StatusOr<int64_t> run =
      Evaluate(shape->Extent(shape->merged), [&](const SymNode* symbol) -> std::optional<int64_t> {
        return sizes.at(std::string(symbol->name));
      });
  ASSERT_TRUE(run.ok()) << run.status();
  if (*run < 2) return;
  as_rows.slices = 1;
  as_rows.spare = 0;
  as_rows.neighbours = static_cast<int>(*run);
  as_rows.outer = true;
  as_rows.vector = 2 * pick.PowerOfTwo(8);
  as_rows.grid = as_rows.stages = as_rows.pace = 0;
  as_rows.shift = as_rows.tickets = as_rows.blocks = as_rows.runs = false;
  const int even = as_rows.neighbours & -as_rows.neighbours;
  as_rows.row_warps = as_rows.neighbours / even * (1 + pick.Below(2));
  const int row_lanes = std::max(pick.PowerOfTwo(32), even / std::min(even, as_rows.vector));
  as_rows.lanes_per_row = std::max(1, 32 / row_lanes);
  as_rows.warps_per_row = std::max(1, row_lanes * as_rows.vector / 32) * (1 + pick.Below(2));
  as_rows.split = !shape->crossed() && pick.Chance(40) ? 2 + pick.Below(4) : 1;
  as_rows.persistent = as_rows.split == 1 && pick.Chance(70);
  as_rows.async = as_rows.reread = false;
  as_rows.cluster = as_rows.split > 1 ? 1 : pick.PowerOfTwo(4);
  as_rows.one_launch = as_rows.cluster == 1 && pick.Chance(70);
  as_rows.held = as_rows.split > 1 && as_rows.one_launch ? pick.Below(4) : 0;
  BringOuterRows(pick, *shape, as_rows);
  if (CheckSchedule(as_rows).ok()) s = as_rows;
}

// Tiles, if some tensor lies across others.
void SeeTiles(Picker& pick, const Fusion& group, const std::map<std::string, int64_t>& sizes,
              Schedule& s) {
  Schedule tiles;
  tiles.kind = s.kind;
  tiles.tiles = tiles.outer = true;
  const absl::StatusOr<GroupShape> shape = ShapeFor(group, tiles);
  if (!shape.ok() || shape->crossed()) return;
  tiles.vector = pick.PowerOfTwo(8);
  tiles.registers = pick.PowerOfTwo(16);
  tiles.lanes_per_row = pick.PowerOfTwo(32);
  tiles.warps_per_row = 1 + pick.Below(3);
  tiles.row_warps = 1 + pick.Below(3);
  tiles.split = 1 + pick.Below(4);
  tiles.persistent = tiles.split == 1 && pick.Chance(50);
  tiles.chan_welford = pick.Chance(50);
  tiles.online = pick.Chance(50);
  tiles.early = tiles.persistent && pick.Chance(30);
  tiles.one_launch = tiles.split > 1 && pick.Chance(50);
  tiles.alignment_bytes = s.alignment_bytes;
  tiles.index32 = s.index32;
  const int most = std::max(tiles.vector, tiles.registers);
  for (const auto& [name, size] : sizes) {
    SymbolFact fact{name};
    while (fact.multiple < most && size % (2 * fact.multiple) == 0) fact.multiple *= 2;
    if (size == 0) fact.value = size;
    if (size == 0 || (fact.multiple > 1 && pick.Chance(80))) tiles.facts.push_back(fact);
  }
  if (CheckSchedule(tiles).ok()) s = tiles;
}

// Several points a thread, if the schedule may have them.
void SeePoints(Picker& pick, const Fusion& group, Schedule& s) {
  Schedule points = s;
  points.points = pick.PowerOfTwo(4);
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(group);
  if (!shape.ok() || shape->rows.empty()) return;
  const int axes = static_cast<int>(shape->rows.size());
  points.along = pick.Below(axes);
  if (axes > 1 && pick.Chance(30)) {  // All along another axis, or two, which need not divide it.
    points.beside = (points.along + 1 + pick.Below(axes - 1)) % axes;
    const std::optional<int64_t> all = shape->axes.extent(shape->rows[points.beside]).maybe_int();
    points.beside_points = static_cast<int>(std::clamp<int64_t>(all.value_or(2), 1, 128));
    points.uneven = !all;
  }
  if (CheckSchedule(points).ok() && ShapeFor(group, points).ok()) s = points;
}

// Columns apart, if CTAs share rows.
void PutColumnsApart(Schedule& s) {
  Schedule apart = s;
  apart.columns_apart = true;
  apart.shift = false;
  apart.held = 0;
  if (CheckSchedule(apart).ok()) s = apart;
}

// Any legal schedule for a group at these sizes. Facts hold; a row may turn out not to fit.
void Randomize(Picker& pick, const Fusion& group, const std::map<std::string, int64_t>& sizes,
               Schedule& s) {
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(group);
  const bool may_shift = shape.ok() && !shape->keeps_columns();
  const bool may_split = shape.ok() && !shape->crossed();
  s.neighbours = s.slices = s.points = 1;
  s.reread = s.tiles = false;
  s.spare = 0;
  s.vector = pick.PowerOfTwo(16);
  s.outer = pick.Chance(15) ? !s.outer : s.outer;
  s.lanes_per_row = pick.PowerOfTwo(32);
  s.warps_per_row = 1 + pick.Below(pick.Chance(20) ? 8 : 3);
  s.row_warps = 1 + pick.Below(pick.Chance(20) ? 4 : 2);
  s.registers = 1 + pick.Below(pick.Chance(20) ? 8 : 3);
  s.split = may_split && pick.Chance(30) ? 2 + pick.Below(4) : 1;
  s.persistent = s.split == 1 && pick.Chance(50);
  s.shift = !s.outer && may_shift && pick.Chance(30);
  // What is folded of all rows: rows that are no neighbours are taken in turn for it.
  const bool in_turn = shape.ok() && shape->crosses_all_rows() &&
                       (!s.outer || absl::c_linear_search(shape->crosses, Crossing::kRows));
  if (s.grid > 0 || in_turn ||
      pick.Chance(15)) {  // Rows that reductions cross, or rows taken in turn as well.
    s.grid = 1 + pick.Below(5);
    s.outer = false;
    s.shift = may_shift && pick.Chance(40);
    s.split = 1;
    s.persistent = pick.Chance(60);
    s.stages = s.persistent && pick.Chance(60) ? 1 + pick.Below(4) : 0;
    s.reread = s.stages > 0 && pick.Chance(40);
    s.tickets = s.stages > 1 && !s.shift && pick.Chance(50);
    s.pace = s.stages > 0 && !s.tickets && pick.Chance(50) ? 1 + pick.Below(3) : 0;
    s.settled = s.stages > 0 && pick.Chance(50);
    // States of columns that lie in memory are those of one row a CTA.
    if (!s.persistent && shape.ok() && absl::c_linear_search(shape->crosses, Crossing::kRows)) {
      s.lanes_per_row = 32;
      s.row_warps = 1;
    }
  }
  s.chan_welford = pick.Chance(50);
  s.online = pick.Chance(50);
  s.cluster = 1;
  s.finish_lanes = pick.PowerOfTwo(32);
  s.whole_lanes = 32 / s.finish_lanes;
  s.one_launch = pick.Chance(60);
  if (s.persistent && s.grid > 0 && pick.Chance(40)) {
    s.cluster = pick.PowerOfTwo(8);
    s.grid *= s.cluster;
    s.lanes_per_row = 32;
    s.row_warps = 1;
    s.one_launch = false;
  }
  // Clusters that share vectors of rows, as many threads a row as that takes.
  if (s.outer && s.vector > 1 && s.grid == 0 && may_shift && pick.Chance(40)) {
    s.cluster = pick.PowerOfTwo(8);
    s.warps_per_row = s.vector * (1 + pick.Below(2));
    s.lanes_per_row = std::max(2, s.lanes_per_row);
    s.row_warps = s.split = 1;
    s.one_launch = false;
  }
  s.held = s.split > 1 && s.one_launch && pick.Chance(70) ? 1 + pick.Below(4) : 0;
  s.blocks = s.persistent && !s.outer && !s.shift && s.cluster == 1 &&
             s.rows_per_cta() * s.columns_per_step() <= 8192 && pick.Chance(50);
  if (s.stages > 0 && !s.outer && !s.shift && !s.blocks && pick.Chance(40)) {
    s.reread = true;
    s.tickets = false;
    s.lanes_per_row = 32;
    s.row_warps = 1;
    s.slices = 2 + pick.Below(4);
    s.registers = s.slices * (1 + pick.Below(2));
    s.spare = pick.Below(s.slices);
  }
  s.runs = s.blocks && may_shift && pick.Chance(40);
  s.reread |= s.blocks && pick.Chance(40);
  s.async = s.persistent && (s.vector > 1 || s.blocks) && !s.shift && s.stages == 0 &&
            s.threads() * s.registers * s.vector <= 8192 && pick.Chance(50);
  s.reread |= s.async && !s.blocks && (s.grid == 0 || pick.Chance(50));
  if (s.outer && shape.ok()) BringOuterRows(pick, *shape, s);
  if (pick.Chance(40)) SeeNeighboursAsRows(pick, group, sizes, s);
  if (shape.ok() && !shape->batch.empty()) {
    s.shift = s.tickets = s.one_launch = false;
    s.pace = 0;
  }
  s.staggered = s.cluster > 1 && pick.Chance(30) ? 1 + pick.Below(4) : 0;
  s.stagger = s.staggered > 0 ? 1 + pick.Below(5000) : 0;
  // Copies need aligned rows.
  const bool copies = s.slices > 1 && pick.Chance(80);
  s.alignment_bytes = copies || pick.Chance(40) ? 16 : pick.PowerOfTwo(16);
  s.index32 = pick.Chance(50);
  s.facts.clear();
  for (const SymNode* symbol : group.env().symbols()) {
    const std::string name(symbol->name);
    const int64_t size = sizes.at(name);
    SymbolFact fact{name};
    if (size == 0 || copies || pick.Chance(15)) {
      fact.value = size;
    } else if (pick.Chance(50)) {
      while (fact.multiple < s.vector && size % (2 * fact.multiple) == 0) fact.multiple *= 2;
    }
    if (fact.value >= 0 || fact.multiple > 1) s.facts.push_back(fact);
  }
}

struct Counts {
  int right = 0, guarded = 0, neighbours = 0, held = 0, async = 0, outer_turns = 0;
  int merged_rows = 0, settled = 0, slices = 0, tiles = 0, points = 0, columns_apart = 0;
};

// `edits` random schedules for one group, and the one that the scheduler chooses.
void TryGroup(const Fusion& group, const std::map<std::string, int64_t>& sizes, uint64_t seed,
              int edits, Counts& counts) {
  for (int i = 0; i <= edits; ++i) {
    Picker pick(seed * 1000 + i);
    GroupRun run{.sizes = sizes, .seed = seed};
    // Picks of its own, so that those of the others stay what they are.
    Picker of_tiles(seed * 1000 + i + 1'000'000'000), of_points(seed * 1000 + i + 2'000'000'000);
    Picker of_columns(seed * 1000 + i + 3'000'000'000);
    if (i > 0) {
      run.edit = [&](Schedule& s) {
        Randomize(pick, group, sizes, s);
        if (s.neighbours == 1 && of_tiles.Chance(40)) SeeTiles(of_tiles, group, sizes, s);
        if (of_points.Chance(60)) SeePoints(of_points, group, s);
        if (of_columns.Chance(70)) PutColumnsApart(s);
      };
    }
    const GroupResult result = testing::RunGroup(group, run);
    if (absl::StrContains(result.status.message(), "fail its guard")) {
      ASSERT_GT(i, 0) << result.status;
      ++counts.guarded;
      continue;
    }
    ++counts.right;
    counts.neighbours += result.schedule.neighbours > 1;
    counts.async += result.schedule.async;
    counts.outer_turns += result.schedule.outer && result.schedule.grid > 0;
    counts.held += result.schedule.neighbours > 1 && result.schedule.held > 0;
    counts.merged_rows += result.schedule.grid > 0 && result.schedule.rows_per_cta() > 1;
    counts.settled += result.schedule.settled;
    counts.tiles += result.schedule.tiles;
    counts.points += result.schedule.points > 1;
    counts.columns_apart += result.schedule.columns_apart;
    counts.slices +=
        result.schedule.slices > 1 && absl::StrContains(result.kernel_text, "await copies");
    ASSERT_TRUE(result.status.ok())
        << "graph " << seed << " schedule " << i << ": " << result.status << "\n"
        << result.schedule.ToString() << "\n"
        << PrintFusion(group) << result.kernel_text;
  }
}

TEST(RandomSchedules, EveryLegalOneIsRight) {
  const RealGuard guard;
  Counts counts;
  int groups = 0;
  for (uint64_t seed = 1; seed <= 220 / kPart; ++seed) {
    const absl::StatusOr<RandomGraph> graph =
        testing::MakeRandomGraph(seed, {.max_exprs = 10, .max_elements = 800});
    ASSERT_TRUE(graph.ok()) << graph.status();
    SegmentOptions options;
    options.sizes = {graph->sizes.begin(), graph->sizes.end()};
    const absl::StatusOr<SegmentedFusion> segmented = Segment(graph->fusion, guard, options);
    ASSERT_TRUE(segmented.ok()) << segmented.status();
    for (GroupId g : segmented->groups()) {
      const absl::StatusOr<ExtractedGroup> group = ExtractGroup(*segmented, g);
      ASSERT_TRUE(group.ok()) << group.status();
      ++groups;
      std::map<std::string, int64_t> sizes;
      for (const SymNode* s : group->fusion.env().symbols()) {
        sizes[std::string(s->name)] = graph->sizes.at(std::string(s->name));
      }
      TryGroup(group->fusion, sizes, seed, 4, counts);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(groups, 120 / kPart);
  EXPECT_GT(counts.right, 4 * counts.guarded);
  EXPECT_GT(counts.async, 50 / kPart);
  EXPECT_GT(counts.outer_turns, 20 / kPart);
  EXPECT_GT(counts.points, 25 / kPart);
  EXPECT_GT(counts.columns_apart, 26 / kPart);
}

// Tensors that lie across each other, of unlike types, beside broadcasts and parts of others.
TEST(RandomSchedules, TilesOfEveryKind) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 80 / kPart; ++seed) {
    Picker pick(seed);
    const char* types[] = {"f32", "bf16", "f16", "f8e4m3", "f64"};
    const std::pair<const char*, std::vector<const char*>> orders[] = {
        {"0, 2, 1", {"K", "N", "M"}},
        {"2, 1, 0", {"N", "M", "K"}},
        {"1, 2, 0", {"M", "N", "K"}},
        {"2, 0, 1", {"N", "K", "M"}}};
    const std::pair<const char*, const char*> others[] = {
        {"[A, B, C]", "b"},
        {"[C]", "b"},
        {"[B, 1]", "b"},
        {"[A, B, 2*C]", "slice(b, start=[0, 0, C], stop=[A, B, 2*C])"}};
    const auto& [order, axes] = orders[pick.Below(4)];
    const auto& [shape, read] = others[pick.Below(4)];
    const std::string text = absl::StrReplaceAll(
        absl::StrReplaceAll(
            "fusion f {\n  symbol K\n  symbol M\n  symbol N\n  input a: S[K, M, N]\n"
            "  input b: TSHAPE\n  t = cast(permute(a, axes=[ORDER]), dtype=f32)\n"
            "  y = cast(t + cast(READ, dtype=f32), dtype=R)\n  output y\n}\n",
            {{"SHAPE", shape},
             {"READ", read},
             {"ORDER", order},
             {": S", absl::StrCat(": ", types[pick.Below(5)])},
             {": T", absl::StrCat(": ", types[pick.Below(5)])},
             {"=R)", absl::StrCat("=", types[pick.Below(4)], ")")}}),
        {{"[A, B, ", absl::StrCat("[", axes[0], ", ", axes[1], ", ")},
         {"[B, ", absl::StrCat("[", axes[1], ", ")},
         {"*C", absl::StrCat("*", axes[2])},
         {"C]", absl::StrCat(axes[2], "]")}});
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status() << text;
    const auto size = [&] {
      return pick.Chance(50) ? 8 * (1 + pick.Below(3)) : 1 + pick.Below(30);
    };
    const std::map<std::string, int64_t> sizes = {{"K", size()}, {"M", size()}, {"N", size()}};
    TryGroup(*group, sizes, seed, 6, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.right, 2 * counts.guarded);
  EXPECT_GT(counts.tiles, 150 / kPart);
}

// Norms that read what lies across what they write.
TEST(RandomSchedules, NormsInTiles) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 60 / kPart; ++seed) {
    Picker pick(seed);
    const char* types[] = {"f32", "bf16", "f16"};
    const char* const kStatistics =
        "  f = cast(p, dtype=f32)\n  mean, var = moments(f, axes=[2])\n"
        "  v2 = broadcast(var, axes=[2])\n  y = f * rsqrt(v2 + 1.0)\n  output var\n";
    const char* bodies[] = {
        "  y, mean, rstd = layer_norm(p, w, axes=[2])\n  output mean\n",
        "  y = softmax(p, axis=2)\n", "  y, rstd = rms_norm(p, w, axes=[2])\n", kStatistics,
        "  y, mean, rstd = layer_norm(p + permute(r, axes=[0, 2, 1]), w, axes=[2])\n"};
    const char* reads[] = {"x: T[B, C, S]\n  p = permute(x, axes=[0, 2, 1])\n", "p: T[B, S, C]\n"};
    const char* writes[] = {"  output y\n", "  z = permute(y, axes=[0, 2, 1])\n  output z\n",
                            "  z = permute(y, axes=[2, 0, 1])\n  output z\n  output y\n"};
    const char* const type = types[pick.Below(3)];
    const int read = pick.Below(2);
    const std::string text = absl::StrReplaceAll(
        absl::StrCat("fusion f {\n  symbol B\n  symbol C\n  symbol S\n  input w: f32[C]\n  input ",
                     "r: T[B, C, S]\n  input ", reads[read], bodies[pick.Below(5)],
                     writes[read == 0 ? 0 : 1 + pick.Below(2)], "}\n"),
        {{": T[", absl::StrCat(": ", type, "[")}});
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status() << text;
    const auto size = [&] {
      return pick.Chance(60) ? 8 * (1 + pick.Below(6)) : 1 + pick.Below(70);
    };
    const std::map<std::string, int64_t> sizes = {
        {"B", 1 + pick.Below(3)}, {"C", size()}, {"S", size()}};
    TryGroup(*group, sizes, seed, 6, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.right, 2 * counts.guarded);
  EXPECT_GT(counts.tiles, 40 / kPart);
}

// Group norms whose results have the channels last: channels of a group are rows, merged.
TEST(RandomSchedules, MergedRowsInTiles) {
  int tiles = 0;
  for (uint64_t seed = 1; seed <= 60 / kPart; ++seed) {
    Picker pick(seed);
    const std::string text = absl::StrReplaceAll(
        "fusion f {\n  symbol B\n  symbol G\n  symbol K\n  symbol S\n  input x: T[B, G, K, S]\n"
        "  input w: f32[G, K]\n  f = cast(x, dtype=f32)\n  mean, var = moments(f, axes=[2, 3])\n"
        "  y = (f - mean[:, :, None, None]) * rsqrt(var + 1e-3)[:, :, None, None] * w[:, :, None]\n"
        "  z = cast(permute(y, axes=[0, 3, 1, 2]), dtype=T)\n  output z\n  output mean\n}\n",
        {{"T[", pick.Chance(50) ? "f32[" : "bf16["}, {"=T)", pick.Chance(50) ? "=f32)" : "=f16)"}});
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status() << text;
    const int64_t channels[] = {1, 2, 4, 7, 8, 10, 16, 20};
    const int64_t k = channels[pick.Below(8)], s = pick.Chance(70) ? 8 * (1 + pick.Below(12)) : 49;
    GroupRun run{.sizes = {{"B", 2}, {"G", 4 * (1 + pick.Below(3))}, {"K", k}, {"S", s}}};
    run.seed = seed;
    const GroupResult result = testing::RunGroup(*group, run);
    ASSERT_TRUE(result.status.ok()) << result.status << result.schedule.ToString() << text;
    tiles += result.schedule.tiles && result.schedule.neighbours > 1;
  }
  EXPECT_GT(tiles, 30 / kPart);
}

// Rows that others cross, batch by batch: batches of the slow rows or of the fast ones.
TEST(RandomSchedules, Batches) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 60 / kPart; ++seed) {
    Picker pick(seed);
    const char* types[] = {"f32", "bf16", "f16"};
    const char* bodies[] = {
        "  s = sum(f * x0, axes=[AXIS])\n  output s\n",
        "  v, m2, n = welford(f, axes=[AXIS])\n  output v\n  output m2\n",
        "  s = amax(f, axes=[AXIS])\n  t = sum(f, axes=[0, 1])\n  output s\n  output t\n",
        "  s = sum(f, axes=[AXIS])\n  t = sum(f * f)\n  output s\n  output t\n"};
    const std::string text = absl::StrReplaceAll(
        absl::StrCat("fusion f {\n  symbol A\n  symbol B\n  symbol N\n  input x: T[A, B, N]\n"
                     "  x0 = cast(x, dtype=f32)\n  f = softmax(x0, axis=2)\n",
                     bodies[pick.Below(4)], "  output f\n}\n"),
        {{": T[", absl::StrCat(": ", types[pick.Below(3)], "[")},
         {"AXIS", pick.Chance(50) ? "0" : "1"}});
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status() << text;
    const std::map<std::string, int64_t> sizes = {
        {"A", 1 + pick.Below(9)},
        {"B", pick.Chance(50) ? 8 : 1 + pick.Below(30)},
        {"N", pick.Chance(50) ? 8 * (1 + pick.Below(20)) : 1 + pick.Below(100)}};
    TryGroup(*group, sizes, seed, 5, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.right, counts.guarded);
  EXPECT_GT(counts.merged_rows, 20 / kPart);
}

// States of columns beside vectors of neighbouring rows: norms over channels that lie in front.
TEST(RandomSchedules, CrossedVectorsOfRows) {
  int right = 0;
  for (uint64_t seed = 1; seed <= 150 / kPart; ++seed) {
    Picker pick(seed);
    const char* types[] = {"f32", "bf16", "f16"};
    const char* bodies[] = {
        "  dw = sum(g * f, axes=[0, 2])\n  db = sum(g, axes=[0, 2])\n  output dw\n  output db\n",
        "  m, m2, n = welford(g, axes=[0, 2])\n  output m\n  output m2\n",
        "  t = amax(g, axes=[0, 2])\n  all = sum(g)\n  output t\n  output all\n",
        "  i = sum(g * f, axes=[0, 2])\n  r = sum(g, axes=[1])\n  output i\n  output r\n"};
    const std::string text = absl::StrReplaceAll(
        absl::StrCat("fusion f {\n  symbol B\n  symbol C\n  symbol S\n  input x: T[B, C, S]\n"
                     "  input d: T[B, C, S]\n  f = cast(x, dtype=f32)\n  g = cast(d, dtype=f32)\n"
                     "  c = sum(g * f, axes=[1], keepdims=true)\n  y = cast(g - f * c, dtype=T)\n",
                     bodies[pick.Below(4)], "  output y\n}\n"),
        {{": T[", absl::StrCat(": ", types[pick.Below(3)], "[")}, {"=T)", "=f16)"}});
    const int64_t columns = 1 + pick.Below(60), s = 8 * (1 + pick.Below(9));
    GroupRun run{.sizes = {{"B", 1 + pick.Below(4)}, {"C", columns}, {"S", s}}, .seed = seed};
    run.edit = [&](Schedule& e) {
      const Schedule chosen = e;
      e = Schedule();
      e.kind = chosen.kind;
      e.outer = e.persistent = e.async = true;
      e.vector = 2 * pick.PowerOfTwo(4);
      e.lanes_per_row = pick.PowerOfTwo(32);
      e.warps_per_row = 1 + pick.Below(3);
      e.row_warps = 1 + pick.Below(2);
      const int64_t sharing = e.lanes_per_row * e.warps_per_row;
      e.registers = static_cast<int>((columns + sharing - 1) / sharing);
      e.grid = 1 + pick.Below(5);
      e.reread = pick.Chance(30);
      e.one_launch = pick.Chance(50);
      e.chan_welford = pick.Chance(50);
      e.finish_lanes = pick.PowerOfTwo(8);
      e.alignment_bytes = 16;
      e.facts = {{"S", 8}};
    };
    const GroupResult result = testing::RunGroupText(text, run);
    if (absl::StrContains(result.status.message(), "shared memory")) continue;
    ASSERT_TRUE(result.status.ok()) << seed << ": " << result.status << "\n"
                                    << result.schedule.ToString() << "\n"
                                    << text << result.kernel_text;
    ++right;
  }
  EXPECT_GT(right, 100 / kPart);
}

// Groups in which a sum may come with the maximum that it waits for.
TEST(RandomSchedules, SoftmaxesOfEveryKind) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 60 / kPart; ++seed) {
    Picker pick(seed);
    const char* types[] = {"f32", "bf16", "f16"};
    const char* spaces[] = {"x: T[M, N]", "x: T[N, M]", "x: T[M, N, 3]", "x: T[N, 3, M]"};
    const char* bodies[] = {
        "  y = softmax(x, axis=A)\n", "  y = log_softmax(x, axis=A)\n",
        "  w = cast(x, dtype=f32) * 0.5\n  m = amax(w, axes=[A], keepdims=true)\n"
        "  y = m + log(sum(exp(w - m), axes=[A], keepdims=true))\n  output m\n",
        "  w = cast(x, dtype=f32)\n  e = exp2(w - amax(w, axes=[A], keepdims=true))\n"
        "  p = e / sum(e, axes=[A], keepdims=true)\n"
        "  y = p * sum(p * w, axes=[A], keepdims=true)\n",
        "  w = cast(x, dtype=f32)\n  e = exp(w - amax(w, axes=[A], keepdims=true))\n"
        "  s = log(sum(e, axes=[A]))\n  y = sum(s)\n  output s\n"};
    const int space = pick.Below(4);
    const char* const type = types[pick.Below(3)];
    const char* const body = bodies[pick.Below(5)];
    const std::string text =
        absl::StrReplaceAll(absl::StrCat("fusion f {\n  symbol M\n  symbol N\n  input ",
                                         spaces[space], "\n", body, "  output y\n}"),
                            {{": T[", absl::StrCat(": ", type, "[")},
                             {"=[A]", space % 2 == 0 ? "=[1]" : "=[0]"},
                             {"=A)", space % 2 == 0 ? "=1)" : "=0)"}});
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status() << text;
    const std::map<std::string, int64_t> sizes = {{"M", 1 + pick.Below(20)},
                                                  {"N", 1 + pick.Below(300)}};
    TryGroup(*group, sizes, seed, 12, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.right, 2 * counts.guarded);
}

// Reductions along rows and across them, with states of columns of every kind.
const std::string kRowsAndColumns[] = {
    testing::NormBackward("DTYPE",
                          "  dbeta = cast(sum(g, axes=[0]), dtype=DTYPE)\n  output dbeta\n"),
    R"(fusion statistics {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  input b: f32[N]
  f = cast(x, dtype=f32)
  top = amax(f, axes=[1])
  y = cast(exp(f - top[:, None]), dtype=DTYPE)
  mean, m2, n = welford(f, axes=[0])
  r = rsqrt(m2 / n + 1e-3) * b
  output y
  output mean
  output r
})",
    R"(fusion states {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  rows = sum(cast(x, dtype=f64), axes=[1])
  where = argmax(x, axes=[0])
  least = amin(x, axes=[0])
  product = prod(cast(x, dtype=f32) * 0.1 + 1.0, axes=[0])
  some = any(x > 0.5, axes=[0])
  all = sum(cast(x, dtype=f32), axes=[0, 1])
  output rows
  output where
  output least
  output product
  output some
  output all
})",
    R"(fusion images {
  symbol M
  symbol N
  input x: DTYPE[M, 3, N]
  f = cast(x, dtype=f32)
  s = sum(f, axes=[2])
  y = cast(f - s[:, :, None] * 0.1, dtype=DTYPE)
  columns = sum(f * f, axes=[0, 1])
  image = sum(f, axes=[1, 2])
  output y
  output columns
  output image
})"};

TEST(RandomSchedules, RowsAndColumns) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 80 / kPart; ++seed) {
    Picker pick(seed);
    const char* const dtypes[] = {"f32", "bf16", "f16"};
    const char* const dtype = dtypes[pick.Below(std::size(dtypes))];
    const std::string& text = kRowsAndColumns[pick.Below(std::size(kRowsAndColumns))];
    const absl::StatusOr<Fusion> group = ParseFusion(absl::StrReplaceAll(text, {{"DTYPE", dtype}}));
    ASSERT_TRUE(group.ok()) << group.status();
    const std::map<std::string, int64_t> sizes = {
        {"M", 1 + pick.Below(pick.Chance(30) ? 120 : 20)},
        {"N", pick.Chance(40) ? 16 * (1 + pick.Below(30)) : 1 + pick.Below(40)}};
    TryGroup(*group, sizes, seed, 8, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.right, 2 * counts.guarded);
  EXPECT_GT(counts.merged_rows, 150 / kPart);
  EXPECT_GT(counts.settled, 50 / kPart);
  EXPECT_GT(counts.slices, 10 / kPart);
}

// Groups of channels that lie last: statistics, gradients, and states of every kind.
const char* const kChannelsLast[] = {R"(fusion forward {
  symbol N
  symbol P
  symbol G
  symbol K
  input x: DTYPE[N, P, G, K]
  input w: f32[G, K]
  f = cast(x, dtype=f32)
  mean, m2, n = welford(f, axes=[1, 3])
  r = rsqrt(m2 / n + 1e-5)
  y = cast((f - mean[:, None, :, None]) * r[:, None, :, None] * w[None, None, :, :], dtype=DTYPE)
  output y
  output mean
  output r
})",
                                     R"(fusion backward {
  symbol N
  symbol P
  symbol G
  symbol K
  input x: DTYPE[N, P, G, K]
  input g: DTYPE[N, P, G, K]
  input w: f32[G, K]
  xf = cast(x, dtype=f32)
  gf = cast(g, dtype=f32)
  s = sum(gf * w[None, None, :, :], axes=[1, 3])
  t = sum(gf * xf, axes=[1, 3])
  y = cast(gf - s[:, None, :, None] * 0.01 - xf * t[:, None, :, None] * 0.001, dtype=DTYPE)
  dw = sum(gf * xf, axes=[0, 1])
  dv = sum(gf, axes=[0, 1, 3])
  output y
  output dw
  output dv
})",
                                     R"(fusion states {
  symbol N
  symbol P
  symbol G
  symbol K
  input x: DTYPE[N, P, G, K]
  input h: f32[N, P, G]
  top = amax(x, axes=[1, 3])
  least = amin(cast(x, dtype=i32), axes=[1, 3])
  some = any(x > 0.5, axes=[1, 3])
  product = prod(cast(x, dtype=f32) * 0.1 + 1.0, axes=[1, 3])
  heads = sum(h, axes=[1])
  total = sum(cast(x, dtype=f64), axes=[1, 3])
  y = x - top[:, None, :, None]
  z = cast(h, dtype=f64) * total[:, None, :] + cast(heads, dtype=f64)[:, None, :]
  output y
  output z
  output least
  output some
  output product
})"};

TEST(RandomSchedules, NeighboursAsRows) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 60 / kPart; ++seed) {
    Picker pick(seed);
    const char* const dtypes[] = {"f32", "bf16", "f16"};
    const int64_t neighbours[] = {2, 3, 4, 5, 6, 8, 10, 12, 20, 40};
    const char* const dtype = dtypes[pick.Below(std::size(dtypes))];
    const char* const text = kChannelsLast[pick.Below(std::size(kChannelsLast))];
    const absl::StatusOr<Fusion> group = ParseFusion(absl::StrReplaceAll(text, {{"DTYPE", dtype}}));
    ASSERT_TRUE(group.ok()) << group.status();
    const std::map<std::string, int64_t> sizes = {
        {"N", 1 + pick.Below(3)},
        {"P", 1 + pick.Below(pick.Chance(30) ? 90 : 12)},
        {"G", 2 + pick.Below(6)},
        {"K", neighbours[pick.Below(std::size(neighbours))]}};
    TryGroup(*group, sizes, seed, 6, counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(counts.neighbours, 120 / kPart);
  EXPECT_GT(counts.held, 10 / kPart);
  EXPECT_GT(counts.async, 20 / kPart);
}

}  // namespace
}  // namespace seam
