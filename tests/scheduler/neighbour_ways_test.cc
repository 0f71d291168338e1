// Ways to share neighbouring columns that are rows: what is among them, that each computes what it
// should, and when one takes the place of the first choice.
#include "scheduler/neighbour_ways.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/device.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::Chosen;
using testing::ExpectRight;
using testing::GroupNorm;
using testing::GroupNormBackward;

// Sizes N, K, P, of vectors of 16 bytes.
std::vector<Schedule> WaysOf(const Fusion& group, const std::vector<int64_t>& sizes, int vector,
                             std::vector<double>* us = nullptr) {
  const ScheduleContext context{
      .sizes = sizes, .alignment_bytes = 16, .device = *FindDevice("h200")};
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.outer = true;
  s.neighbours = static_cast<int>(sizes[1]);
  s.vector = vector;
  const absl::StatusOr<SizedGroup> sized = SizeGroup(group, context, s);
  EXPECT_TRUE(sized.ok()) << sized.status();
  const absl::StatusOr<KeptRows> rows = KeptRows::Of(*sized, s);
  EXPECT_TRUE(rows.ok()) << rows.status();
  const std::vector<Schedule> ways = reduction::NeighbourWays(*sized, *rows, s);
  for (const Schedule& way : ways) {
    if (us != nullptr) us->push_back(reduction::Microseconds(*sized, way));
  }
  return ways;
}

TEST(NeighbourWays, HoldRowsAndComeInTheOrderOfTheirTimes) {
  for (const int64_t k : {10, 15, 16, 30}) {
    for (const bool backward : {false, true}) {
      const std::string text = backward ? GroupNormBackward("bf16", 32) : GroupNorm("bf16", 32);
      const absl::StatusOr<Fusion> group = ParseFusion(text);
      ASSERT_TRUE(group.ok()) << group.status();
      std::vector<double> us;
      const std::vector<Schedule> ways = WaysOf(*group, {8, k, 1024}, 8, &us);
      EXPECT_GT(ways.size(), 5u) << k;
      bool held = false, brought = false;
      for (size_t i = 0; i < ways.size(); ++i) {
        const Schedule& way = ways[i];
        (way.async ? brought : held) = true;
        EXPECT_GT(us[i], 0);
        if (i > 0) {
          EXPECT_GE(us[i], us[i - 1]) << way.ToString();
        }
        EXPECT_TRUE(CheckSchedule(way).ok()) << way.ToString();
        EXPECT_GE(way.columns_at_once(), 1024) << way.ToString();
        EXPECT_EQ(way.rows_per_cta() % k, 0) << way.ToString();
        EXPECT_LE(way.rows_per_cta(), 32 * k) << way.ToString();
        EXPECT_GE(32 / way.lanes_per_row * way.vector * 2, 16) << way.ToString();
        EXPECT_LE(way.min_ctas_per_sm * way.threads(), 2048) << way.ToString();
      }
      EXPECT_TRUE(held && brought) << k << backward;
    }
  }
}

// Each of them on the simulator, whatever would be chosen.
TEST(NeighbourWays, AreRight) {
  testing::Part part;
  for (const char* dtype : {"bf16", "f32"}) {
    for (const bool backward : {false, true}) {
      const std::string text = backward ? GroupNormBackward(dtype, 4) : GroupNorm(dtype, 4);
      const absl::StatusOr<Fusion> group = ParseFusion(text);
      ASSERT_TRUE(group.ok()) << group.status();
      const std::map<std::string, int64_t> sizes = {{"N", 2}, {"K", 6}, {"P", 1200}};
      // As many images as keep the device busy have the same ways.
      const std::vector<Schedule> ways =
          WaysOf(*group, {2000, 6, 1200}, dtype == std::string("f32") ? 4 : 8);
      EXPECT_GT(ways.size(), 5u);
      for (const Schedule& way : ways) {
        if (part.TakesNext()) {
          ExpectRight(text, {.sizes = sizes, .edit = [&](Schedule& s) {
                               const bool apart = s.columns_apart;
                               s = way;
                               s.columns_apart = apart;
                               std::erase_if(s.facts,
                                             [](const SymbolFact& f) { return f.symbol == "N"; });
                             }});
        }
      }
    }
  }
}

TEST(NeighbourWays, AreTakenWhereTheyShouldGain) {
  // Pieces of eight bytes a warp, which 15 of them side by side would have.
  const Schedule wide = Chosen(GroupNorm("f32", 32), {8, 30, 4096});
  EXPECT_GE(32 / wide.lanes_per_row * wide.vector * 4, 32) << wide.ToString();
  // Half as many turns of CTAs that are alone on their SM, each with twice as much.
  const Schedule many = Chosen(GroupNormBackward("bf16", 32), {8, 60, 1024});
  EXPECT_GE(many.rows_per_cta() * 1024 * 2 * 2 / many.cluster * many.min_ctas_per_sm, 96 * 1024)
      << many.ToString();
  // Where that would be a little: four CTAs an SM, each in turn for the memory.
  const Schedule first = Chosen(GroupNorm("bf16", 32), {16, 20, 1024});
  EXPECT_EQ(first.min_ctas_per_sm, 4) << first.ToString();
  EXPECT_EQ(first.cluster, 8) << first.ToString();
  // No images take no time in any way.
  const std::string none = absl::StrReplaceAll(GroupNorm("bf16", 32), {{"N in [1", "N in [0"}});
  EXPECT_EQ(Chosen(none, {0, 10, 1024}).neighbours, 10);
}

}  // namespace
}  // namespace seam
