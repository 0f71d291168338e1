// Bugs planted into lowered kernels, one at a time: a barrier less, an index off by one, a mask
// dropped, a wrong shuffle. The simulator reports every one of them, or the results are wrong.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/group_runner.h"
#include "tests/support/kernel_mutator.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::GroupResult;
using testing::GroupRun;
using testing::Mutate;
using testing::Mutation;
using testing::RunGroupText;

// Plants the k-th bug of one kind, counted over the plan's kernels. False if there are fewer.
bool Plant(LaunchPlan* plan, Mutation mutation, int k) {
  for (KernelLaunch& launch : plan->launches) {
    for (int place = 0;; ++place) {
      std::optional<kernel::Kernel> mutant = Mutate(launch.kernel, mutation, place);
      if (!mutant) break;
      if (k-- > 0) continue;
      launch.kernel = *std::move(mutant);
      return true;
    }
  }
  return false;
}

const std::vector<Mutation> kMutations = {Mutation::RemoveBarrier, Mutation::ShiftIndex,
                                          Mutation::DropPredicate, Mutation::ChangeShuffleMask};

// Every bug is found at one of the sizes at least. Returns how many there were.
int ExpectAllFound(const std::string& text, const std::vector<GroupRun>& runs,
                   const std::vector<Mutation>& mutations = kMutations) {
  int planted = 0;
  for (const Mutation mutation : mutations) {
    for (int k = 0;; ++k) {
      bool exists = true, found = false;
      std::string mutant;
      for (size_t r = 0; r < runs.size() && exists && !found; ++r) {
        GroupRun run = runs[r];
        run.edit_plan = [&](LaunchPlan& plan) { exists = Plant(&plan, mutation, k); };
        const GroupResult result = RunGroupText(text, run);
        found = !result.status.ok();
        mutant = result.kernel_text;
      }
      if (!exists) break;
      ++planted;
      EXPECT_TRUE(found) << "bug " << k << " of kind " << static_cast<int>(mutation) << " in\n"
                         << mutant;
    }
  }
  return planted;
}

constexpr char kLayerNorm[] = R"(fusion layer_norm {
  symbol M
  symbol N
  input x: bf16[M, N]
  input w: f32[N]
  xf = cast(x, dtype=f32)
  avg, m2, n = welford(xf, axes=[1])
  rstd = rsqrt(m2 / n + 1e-5)
  y = cast((xf - broadcast(avg, axes=[1])) * broadcast(rstd, axes=[1]) * w, dtype=bf16)
  output y
  output avg
})";

// Rows whose mean is far from zero, which is what masked elements hold.
void AwayFromZero(std::vector<HostTensor>& inputs) {
  std::vector<Scalar> x = inputs[0].ToScalars();
  for (Scalar& s : x) s.f += 4;
  inputs[0].FromScalars(x);
}

// Rows that are larger and spread more from lane to lane: a state left out or counted twice is
// seen.
void Uneven(std::vector<HostTensor>& inputs) {
  std::vector<Scalar> x = inputs[0].ToScalars();
  for (size_t i = 0; i < x.size(); ++i) {
    const double more = static_cast<double>(i / 4 % 16 + i / 128 % 11);
    x[i].f = x[i].f * (1 + more) + more;
  }
  inputs[0].FromScalars(x);
}

TEST(PlantedBugs, LayerNormInRegisters) {
  EXPECT_GT(
      ExpectAllFound(kLayerNorm, {{.sizes = {{"M", 5}, {"N", 1003}}, .inputs = AwayFromZero}}), 20);
}

// Rows of several steps, each of which loads for the next.
TEST(PlantedBugs, LayerNormReadAgain) {
  const auto edit = [](Schedule& s) {
    s.persistent = false;
    s.warps_per_row = s.row_warps = 2;
  };
  EXPECT_GT(
      ExpectAllFound(kLayerNorm,
                     {{.sizes = {{"M", 5}, {"N", 2503}}, .edit = edit, .inputs = AwayFromZero}}),
      20);
}

constexpr char kColumnSums[] = R"(fusion column_sums {
  symbol M
  symbol N
  input x: f32[M, N]
  s = sum(x, axes=[0])
  output s
})";

TEST(PlantedBugs, ColumnSums) {
  EXPECT_GT(ExpectAllFound(kColumnSums, {{.sizes = {{"M", 301}, {"N", 37}}},
                                         {.sizes = {{"M", 5000}, {"N", 3}}}}),
            3);
}

TEST(PlantedBugs, LayerNormShared) {
  testing::Part part;
  for (const bool one_launch : {false, true}) {
    if (!part.TakesNext()) continue;
    const auto edit = [one_launch](Schedule& s) {
      s.one_launch = one_launch;
      s.persistent = s.shift = false;
      s.vector = 4;
      s.facts = {{"N", 4}};
      s.split = 44;  // As many partial states as two warps of eight lanes have use for.
      s.lanes_per_row = 8;
      s.warps_per_row = 2;
      s.registers = 1;
    };
    // The last lanes have less. Vectors of four, as pivots come from loads that nothing else uses
    // where these are narrow.
    const std::map<std::string, int64_t> sizes = {{"M", 5}, {"N", 5548}};
    EXPECT_GT(ExpectAllFound(kLayerNorm, {{.sizes = sizes, .edit = edit},
                                          {.sizes = sizes, .edit = edit, .inputs = Uneven}}),
              40);
  }
}

// A row to two warps, several rows a warp.
constexpr char kArgMax[] = R"(fusion largest {
  symbol M
  symbol N
  input x: f32[M, N]
  i = argmax(x, axes=[1])
  output i
})";

TEST(PlantedBugs, ArgMax) {
  const auto edit = [](Schedule& s) {
    s.lanes_per_row = 8;
    s.warps_per_row = 2;
    s.registers = 2;
  };
  EXPECT_GT(ExpectAllFound(kArgMax, {{.sizes = {{"M", 33}, {"N", 69}}, .edit = edit},
                                     {.sizes = {{"M", 40}, {"N", 64}}, .edit = edit}}),
            10);
}

// An extremum goes across the rows, which two CTAs take in turn.
constexpr char kRowsAndColumns[] = R"(fusion rows_and_columns {
  symbol M
  symbol N
  input x: f32[M, N]
  s = sum(x, axes=[1])
  y = x * s[:, None]
  c = amax(x, axes=[0])
  output y
  output c
})";

TEST(PlantedBugs, RowsInTurn) {
  for (const bool shift : {false, true}) {
    const auto edit = [shift](Schedule& s) {
      s.grid = 4;
      s.shift = shift;
      s.vector = shift ? 4 : 1;
      s.lanes_per_row = shift ? 4 : 16;
      s.warps_per_row = 2;
      s.row_warps = 1;
      s.registers = 2;
      s.finish_lanes = 4;  // So that CTAs finish several sets of columns.
      s.facts.clear();
    };
    const int64_t m = shift ? 35 : 9;
    EXPECT_GT(ExpectAllFound(kRowsAndColumns, {{.sizes = {{"M", m}, {"N", 61}}, .edit = edit}}),
              20);
  }
}

// Rows that copies bring ahead, into registers or read again.
constexpr char kCopiedRows[] = R"(fusion copied_rows {
  symbol M
  symbol N
  input x: f32[M, N]
  input z: f32[M, N]
  s = sum(x, axes=[1])
  y = x * s[:, None] + z
  c = amax(x, axes=[0])
  output y
  output c
})";

TEST(PlantedBugs, RowsAhead) {
  for (const bool reread : {false, true}) {
    const auto edit = [&](Schedule& s) {
      s.tickets = reread;
      s.grid = 4;
      s.stages = 2;
      s.reread = reread;
      s.lanes_per_row = 16;
      s.warps_per_row = 2;
      s.row_warps = 1;
      s.registers = 1;
      s.finish_lanes = 4;
    };
    EXPECT_GT(ExpectAllFound(kCopiedRows, {{.sizes = {{"M", 25}, {"N", 112}}, .edit = edit},
                                           {.sizes = {{"M", 25}, {"N", 116}}, .edit = edit}}),
              20);
  }
}

// One row a stage, in slices that all threads have to be done with before the next row's come.
TEST(PlantedBugs, RowsInSlices) {
  for (const int cluster : {1, 2}) {
    const auto edit = [&](Schedule& s) {
      s.tickets = s.one_launch = false;
      s.reread = true;
      s.cluster = cluster;
      s.grid = 4 * cluster;
      s.stages = 1;
      s.spare = cluster - 1;
      s.vector = s.registers = s.slices = 4;
      s.lanes_per_row = 32;
      s.warps_per_row = 2;
      s.row_warps = 1;
      s.finish_lanes = 4;
    };
    EXPECT_GT(
        ExpectAllFound(kCopiedRows, {{.sizes = {{"M", 25}, {"N", 912 * cluster}}, .edit = edit},
                                     {.sizes = {{"M", 25}, {"N", 908 * cluster}}, .edit = edit}}),
        20);
  }
}

TEST(PlantedBugs, BodiesAhead) {
  for (const bool reread : {false, true}) {
    const auto edit = [&](Schedule& s) {
      s.shift = true;
      s.vector = s.grid = 4;
      s.stages = 2;
      s.reread = reread;
      s.lanes_per_row = 32;
      s.warps_per_row = s.row_warps = s.registers = 1;
      s.facts.clear();
    };
    EXPECT_GT(ExpectAllFound(kCopiedRows, {{.sizes = {{"M", 13}, {"N", 109}}, .edit = edit},
                                           {.sizes = {{"M", 1}, {"N", 109}}, .edit = edit}}),
              20);
  }
}

TEST(PlantedBugs, RowBlocks) {
  for (const int stages : {0, 2}) {
    const auto edit = [&](Schedule& s) {
      s.blocks = s.persistent = true;
      s.shift = false;
      s.grid = 2;
      s.stages = stages;
      s.vector = 1;
      s.lanes_per_row = 4;
      s.warps_per_row = s.row_warps = 1;
      s.registers = 9;
      s.facts.clear();
      if (stages > 0) s.facts.push_back({"M", 4});
    };
    const int64_t m = stages > 0 ? 52 : 27;
    EXPECT_GT(ExpectAllFound(kCopiedRows, {{.sizes = {{"M", m}, {"N", 33}}, .edit = edit},
                                           {.sizes = {{"M", 8}, {"N", 35}}, .edit = edit}}),
              20);
  }
}

TEST(PlantedBugs, Clusters) {
  for (const int stages : {0, 2, 3}) {
    const auto edit = [&](Schedule& s) {
      s.tickets = stages == 3;
      s.grid = 16;
      s.cluster = 4;
      s.one_launch = false;
      s.stages = stages;
      s.lanes_per_row = 32;
      s.warps_per_row = 3;
      s.row_warps = 1;
      s.registers = 1;
      s.finish_lanes = 4;
    };
    EXPECT_GT(ExpectAllFound(kCopiedRows,
                             {{.sizes = {{"M", stages == 3 ? 31 : 9}, {"N", 1000}}, .edit = edit}}),
              20);
  }
}

// A bias a row: the mask of its load keeps the index inside, where `index % N` would need none.
constexpr char kBias[] = R"(fusion bias {
  symbol M
  symbol N
  input x: bf16[M, N]
  input b: f32[M]
  y = cast(cast(x, dtype=f32) * 2.0 + broadcast(b, axes=[1]), dtype=bf16)
  output y
})";

TEST(PlantedBugs, Pointwise) {
  EXPECT_GT(ExpectAllFound(
                kBias, {{.sizes = {{"M", 17}, {"N", 1003}}}, {.sizes = {{"M", 17}, {"N", 1000}}}}),
            3);
}

// Islands: CTAs that run no island or two, read the other's tensor or the wrong part of theirs.
constexpr char kIslands[] = R"(fusion islands {
  symbol M
  symbol N
  input x: f32[M]
  input y: bf16[N]
  a = x * 2.0
  b = cast(cast(y, dtype=f32) + 1.0, dtype=bf16)
  output a
  output b
})";

TEST(PlantedBugs, Islands) {
  EXPECT_GT(ExpectAllFound(kIslands, {{.sizes = {{"M", 1003}, {"N", 5000}}},
                                      {.sizes = {{"M", 4000}, {"N", 777}}}}),
            5);
}

// The same of islands that reduce, with barriers and exchanges, and states that a second launch
// merges. Masks inside of conditions that say the same may be dropped.
constexpr char kReducingIslands[] = R"(fusion reducing {
  symbol M
  symbol N
  input x: f32[3, M]
  input y: f32[N]
  a = x - mean(x, axes=[1], keepdims=true)
  b = sum(y)
  output a
  output b
})";

TEST(PlantedBugs, IslandsThatReduce) {
  EXPECT_GT(ExpectAllFound(
                kReducingIslands,
                {{.sizes = {{"M", 1003}, {"N", 50000}}}, {.sizes = {{"M", 1000}, {"N", 49999}}}},
                {Mutation::RemoveBarrier, Mutation::ShiftIndex, Mutation::ChangeShuffleMask}),
            10);
}

// The first CTA of an island off by one, and the border between the two.
TEST(PlantedBugs, BordersOfIslands) {
  for (const int64_t by : {-1, 1}) {
    GroupRun run{.sizes = {{"M", 1003}, {"N", 5000}}};
    run.edit_plan = [&](LaunchPlan& plan) {
      auto& islands = std::get<kernel::If>(plan.launches[0].kernel.body[0].node);
      std::get<kernel::IndexValue>(islands.otherwise[0].node).value += by;
    };
    EXPECT_FALSE(RunGroupText(kIslands, run).status.ok()) << by;
    run.edit_plan = [&](LaunchPlan& plan) {
      const auto& island = std::get<kernel::If>(plan.launches[0].kernel.body[0].node);
      const std::vector<SymInt>& parameters = plan.launches[0].kernel.parameters;
      for (size_t i = 0; i + 1 < parameters.size(); ++i) {
        for (const SymNode* s : FreeSymbols(island.condition)) {
          if (s == parameters[i].node()) plan.launches[0].arguments[i] += by;
        }
      }
    };
    EXPECT_FALSE(RunGroupText(kIslands, run).status.ok()) << by;
  }
}

}  // namespace
}  // namespace seam
