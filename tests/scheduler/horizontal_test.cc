// Islands: groups that share nothing, each as the kernels that it is by itself, side by side in one
// launch a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/device.h"
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

// Islands of unlike shapes, dtypes and depths, one of them empty at times, and a scalar for all.
constexpr char kIslands[] = R"(fusion islands {
  symbol M
  symbol N
  symbol K
  input rate: f32[]
  input a: f32[M, N]
  input b: bf16[K]
  input c: f32[N]
  input d: f32[M, 3]
  x = a * rate + c
  y = cast(cast(b, dtype=f32) - rate, dtype=bf16)
  z = exp(d[:, 1:3])
  w = sin(d)
  output x
  output y
  output z
  output w
})";

TEST(Horizontal, IslandsOfManySizes) {
  for (int64_t m : {0, 1, 7}) {
    for (int64_t n : {0, 1, 64, 1003}) {
      for (int64_t k : {0, 1, 5, 4096})
        ExpectRight(kIslands, {.sizes = {{"M", m}, {"N", n}, {"K", k}}});
    }
  }
}

TEST(Horizontal, OneLaunchKeepsTheIslandsVectors) {
  const GroupResult result =
      RunGroupText(kIslands, {.sizes = {{"M", 300}, {"N", 64}, {"K", 4097}}});
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.schedule.islands.size(), 3u);
  EXPECT_EQ(result.schedule.islands[0].vector, 4);
  EXPECT_EQ(result.schedule.islands[1].vector, 8);
  EXPECT_EQ(result.schedule.islands[0].threads(), result.schedule.islands[1].threads());
  EXPECT_EQ(result.schedule.islands[0].threads(), result.schedule.islands[2].threads());
}

// A number that two islands compute for themselves is one's to write.
TEST(Horizontal, OneIslandWritesWhatTwoCompute) {
  ExpectRight(R"(fusion shared {
  symbol M in [2, 64]
  input rate: f32[]
  input a: f32[M]
  input b: f32[33]
  step = rate * -0.5
  x = a + step
  y = exp(b) * step
  output step
  output x
  output y
})",
              {.sizes = {{"M", 16}}});
}

// More pointers than one launch takes.
TEST(Horizontal, ManyIslandsTakeSeveralLaunches) {
  std::string text = "fusion many {\n";
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&text, "  symbol N", i, "\n  input x", i, ": f32[N", i, "]\n  y", i, " = x", i,
                    " * ", i, ".0\n  output y", i, "\n");
  }
  text += "}";
  GroupRun run;
  int launches = 0;
  for (int i = 0; i < 300; ++i) run.sizes[absl::StrCat("N", i)] = i % 7;
  run.edit_plan = [&](LaunchPlan& plan) { launches = static_cast<int>(plan.launches.size()); };
  ExpectRight(text, run);
  EXPECT_EQ(launches, 3);
}

// A norm of rows, a sum of everything, statistics of columns, a softmax of rows that begin
// anywhere, and something that reduces nothing.
constexpr char kReducing[] = R"(fusion reducing {
  symbol M
  symbol N
  symbol K
  input a: bf16[M, N]
  input w: f32[N]
  input b: f32[K]
  input c: f32[K, 8]
  input d: f16[M, K]
  input e: f32[N]
  af = cast(a, dtype=f32)
  mean, var = moments(af, axes=[1], keepdims=true)
  x = cast((af - mean) * rsqrt(var + 1e-5) * w, dtype=bf16)
  y = sqrt(sum(b * b))
  avg, m2, n = welford(c, axes=[0])
  df = cast(d, dtype=f32)
  z = softmax(df, axis=1)
  v = exp(e)
  output x
  output y
  output avg
  output m2
  output z
  output v
})";

TEST(Horizontal, ReductionsOfManySizes) {
  testing::Part part;
  for (int64_t m : {0, 1, 7, 40}) {
    for (int64_t n : {0, 1, 64, 1003}) {
      for (int64_t k : {1, 5, 300, 5000}) {
        if (!part.TakesNext()) continue;
        ExpectRight(kReducing, {.sizes = {{"M", m}, {"N", n}, {"K", k}}});
      }
    }
  }
}

TEST(Horizontal, ReductionsOfMisalignedBases) {
  for (int alignment : {1, 2, 4, 8}) {
    ExpectRight(kReducing,
                {.sizes = {{"M", 9}, {"N", 256}, {"K", 400}}, .alignment_bytes = alignment});
  }
}

// The grid is not theirs alone: no clusters, nothing that waits for all CTAs. One launch holds the
// first kernels of all, another one what merges the states that some of them leave.
TEST(Horizontal, OneLaunchForEachStep) {
  GroupRun run{.sizes = {{"M", 40}, {"N", 512}, {"K", 16384}}};
  std::vector<int> islands;
  int64_t shared = 0;
  run.edit_plan = [&](LaunchPlan& plan) {
    for (const KernelLaunch& launch : plan.launches) {
      EXPECT_EQ(launch.kernel.cluster, 1);
      EXPECT_EQ(launch.kernel.NumPhases(), 1);
      EXPECT_FALSE(launch.kernel.TakesTickets());
      shared = std::max(shared, launch.kernel.SharedBytes());
      const std::string& summary = launch.kernel.summary;
      islands.push_back(1 + static_cast<int>(absl::c_count(summary, '\n')));
    }
  };
  const GroupResult result = ExpectRight(kReducing, run);
  ASSERT_EQ(result.schedule.islands.size(), 5u);
  // The first kernels of the four that reduce, at least, and what merges the states that some
  // leave.
  ASSERT_GE(islands.size(), 2u);
  EXPECT_LE(islands.size(), 3u);
  EXPECT_GE(islands[0], 4) << result.schedule.ToString();
}

// What islands have in shared memory lies in the same place, since a CTA runs one of them.
TEST(Horizontal, IslandsShareSharedMemory) {
  std::string one, many = "fusion many {\n";
  for (int i = 0; i < 6; ++i) {
    const std::string island = absl::StrCat("  input x", i, ": f32[3, 4096]\n  s", i,
                                            " = softmax(x", i, ", axis=1)\n  output s", i, "\n");
    if (i == 0) one = absl::StrCat("fusion one {\n", island, "}");
    many += island;
  }
  many += "}";
  const auto shared_bytes = [](const std::string& text) {
    GroupRun run;
    int64_t bytes = 0;
    run.edit_plan = [&](LaunchPlan& plan) { bytes = plan.launches[0].kernel.SharedBytes(); };
    ExpectRight(text, run);
    return bytes;
  };
  EXPECT_GT(shared_bytes(one), 0);
  EXPECT_EQ(shared_bytes(many), shared_bytes(one));
}

void KeepRowsInSharedMemory(Schedule& s) {
  for (Schedule& island : s.islands) island.async = island.reread = island.persistent;
}

// However much it is.
TEST(Horizontal, EqualIslandsShareALotOfSharedMemory) {
  std::string text = "fusion equal {\n";
  for (int i = 0; i < 3; ++i) {
    absl::StrAppend(&text, "  input x", i, ": f32[66, 20000]\n  y", i, " = softmax(x", i,
                    ", axis=1)\n  output y", i, "\n");
  }
  text += "}";
  GroupRun run;
  run.edit = KeepRowsInSharedMemory;
  run.edit_plan = [&](LaunchPlan& plan) {
    ASSERT_EQ(plan.launches.size(), 1u);
    EXPECT_GT(plan.launches[0].kernel.SharedBytes(), 64 << 10);
  };
  ExpectRight(text, run);
}

// Arrays of other types lie beside each other: what would take more than any of the islands alone,
// and more than every device has, has several launches.
TEST(Horizontal, RowsOfOtherTypesInSharedMemory) {
  std::string text = "fusion types {\n";
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    absl::StrAppend(&text, "  input x", dtype, ": ", dtype, "[66, 20000]\n  y", dtype,
                    " = cast(softmax(cast(x", dtype, ", dtype=f32), axis=1), dtype=", dtype,
                    ")\n  output y", dtype, "\n");
  }
  text += "}";
  GroupRun run;
  run.edit = KeepRowsInSharedMemory;
  run.edit_plan = [&](LaunchPlan& plan) {
    EXPECT_GT(plan.launches.size(), 1u);
    for (const KernelLaunch& launch : plan.launches)
      EXPECT_LE(launch.kernel.SharedBytes(), 128 << 10) << launch.kernel.summary;
  };
  ExpectRight(text, run);
}

// Where more threads would not have the registers for what they take, islands stay as they are.
TEST(Horizontal, NobodyIsWidenedWithoutRegisters) {
  std::string text = "fusion wide {\n  input x: bf16[4, 20000]\n", sum;
  text += "  y = cast(softmax(cast(x, dtype=f32), axis=1), dtype=bf16)\n  output y\n";
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&text, "  input a", i, ": f32[3, 2000]\n");
    absl::StrAppend(&sum, i == 0 ? "" : " + ", "a", i, " * a", i);
  }
  absl::StrAppend(&text, "  b = ", sum, "\n  c = b - mean(b, axes=[1], keepdims=true)\n");
  for (int i = 0; i < 20; ++i)
    absl::StrAppend(&text, "  d", i, " = c * a", i, "\n  output d", i, "\n");
  text += "}";
  const GroupResult result = ExpectRight(text, {});
  ASSERT_EQ(result.schedule.islands.size(), 2u);
  EXPECT_NE(result.schedule.islands[0].threads(), result.schedule.islands[1].threads());
}

// Rows of other lengths want other numbers of threads; those that are shorter have fewer vectors to
// a thread, or more rows to a CTA.
TEST(Horizontal, ReductionsHaveAsManyThreads) {
  std::string text = "fusion norms {\n";
  for (const int n : {8, 49, 200, 1000, 4096, 9000}) {
    absl::StrAppend(&text, "  input x", n, ": bf16[33, ", n, "]\n  f", n, " = cast(x", n,
                    ", dtype=f32)\n  y", n, " = cast(f", n, " - mean(f", n,
                    ", axes=[1], keepdims=true), dtype=bf16)\n  output y", n, "\n");
  }
  text += "}";
  GroupRun run;
  size_t launches = 0;
  run.edit_plan = [&](LaunchPlan& plan) { launches = plan.launches.size(); };
  const GroupResult result = ExpectRight(text, run);
  ASSERT_EQ(result.schedule.islands.size(), 6u);
  for (const Schedule& island : result.schedule.islands)
    EXPECT_EQ(island.threads(), result.schedule.islands[0].threads());
  EXPECT_EQ(launches, 1u);
}

// What is large has the schedule that it has by itself, clusters and all, and its own launches.
TEST(Horizontal, LargeReductionsAreApart) {
  constexpr char kLarge[] = R"(fusion large {
  symbol M
  input a: f32[M, 8192]
  input b: f32[3, 100]
  input c: f32[2, 70]
  x = softmax(a, axis=1)
  y = softmax(b, axis=1)
  z = softmax(c, axis=1)
  output x
  output y
  output z
})";
  GroupRun run{.sizes = {{"M", 1}}};
  std::vector<int> launches;
  run.edit_plan = [&](LaunchPlan& plan) {
    launches.push_back(static_cast<int>(plan.launches.size()));
    for (size_t i = 0; i < plan.schedule.islands.size(); ++i)
      EXPECT_FALSE(plan.schedule.islands[i].apart) << i;
  };
  ExpectRight(kLarge, run);
  const absl::StatusOr<Fusion> group = ParseFusion(kLarge);
  ASSERT_TRUE(group.ok()) << group.status();
  ScheduleContext context;
  context.sizes = {1 << 16};
  context.device = Devices()[0];
  const Scheduler& horizontal = *FindScheduler(SchedulerKind::kHorizontal);
  const absl::StatusOr<Schedule> schedule = horizontal.choose(*group, context);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  ASSERT_EQ(schedule->islands.size(), 3u);
  EXPECT_TRUE(schedule->islands[0].apart);
  EXPECT_FALSE(schedule->islands[1].apart || schedule->islands[2].apart);
  EXPECT_THAT(schedule->ToString(), HasSubstr("a launch of its own"));
  const absl::StatusOr<LaunchPlan> plan = horizontal.lower(*group, *schedule);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->launches.size(), 2u);
}

}  // namespace
}  // namespace seam
