// How near to the best cut the segmenter comes: the bars of seam_cut_quality on fewer graphs. The
// seeds are not those of the table in docs/segmentation.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/text/printer.h"
#include "scheduler/scheduler.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"
#include "tests/support/best_cut.h"
#include "tests/support/reduction_graph.h"

namespace seam {
namespace {

struct Graphs {
  std::function<absl::StatusOr<Fusion>(uint32_t seed, int exprs)> make;
  int count, least, most;  // Graphs, and units of each.
};
struct Quality {
  int graphs = 0, optimal = 0;
  double mean_gap = 0, worst_gap = 0;
};

absl::StatusOr<Fusion> Reductions(uint32_t seed, int exprs) {
  return ReductionGraph(seed, exprs).Make();
}
absl::StatusOr<Fusion> Mixed(uint32_t seed, int exprs) {
  return RandomFusion(seed, exprs, RandomFusion::Sizes::kLarge).Make();
}

Quality QualityOf(const Graphs& graphs, const SchedulabilityGuard& guard,
                  const std::function<Cut(CutModel&, const Cut& found, uint32_t seed)>& search) {
  Quality q;
  for (uint32_t seed = 70001; q.graphs < graphs.count; ++seed) {
    const uint32_t range = static_cast<uint32_t>(graphs.most - graphs.least + 1);
    const absl::StatusOr<Fusion> f =
        graphs.make(seed, graphs.least + static_cast<int>(seed % range));
    if (!f.ok()) {
      ADD_FAILURE() << "seed " << seed << ": " << f.status();
      return q;
    }
    const auto whole = WholeGraph::Create(*f, guard);
    if (!whole.ok()) continue;
    CutModel& model = (*whole)->model();
    if (model.num_units() < graphs.least || model.num_units() > graphs.most) continue;
    SegmentOptions options;  // The prices know no islands, and every value in its own type.
    options.disabled_passes = {"recompute", "horizontal", "narrow"};
    const absl::StatusOr<SegmentedFusion> segmented = Segment(*f, guard, options);
    if (!segmented.ok()) {
      ADD_FAILURE() << "seed " << seed << ": " << segmented.status();
      return q;
    }
    const Cut found = (*whole)->CutOf(*segmented);
    const int64_t best = model.BytesOf(search(model, found, seed));
    const double gap = static_cast<double>(model.BytesOf(found) - best) /
                       static_cast<double>(std::max<int64_t>(best, 1));
    ++q.graphs;
    q.optimal += gap <= 0;
    q.mean_gap += gap / graphs.count;
    q.worst_gap = std::max(q.worst_gap, gap);
  }
  return q;
}

void ExpectNearTheOptimum(const Graphs& graphs, const SchedulabilityGuard& guard) {
  const Quality q = QualityOf(graphs, guard,
                              [](CutModel& model, const Cut&, uint32_t) { return BestCut(model); });
  EXPECT_GE(q.optimal, 0.99 * q.graphs);
  EXPECT_LE(q.mean_gap, 0.001);
  EXPECT_LE(q.worst_gap, 0.15);
}

TEST(CutQualityTest, ReductionsByTheRule) {
  ExpectNearTheOptimum({Reductions, 200, 3, 9}, RuleGuard());
}
TEST(CutQualityTest, ReductionsByTheSchedulers) {
  ExpectNearTheOptimum({Reductions, 200, 3, 9}, RealGuard());
}
TEST(CutQualityTest, MixedByTheRule) { ExpectNearTheOptimum({Mixed, 200, 3, 9}, RuleGuard()); }
TEST(CutQualityTest, MixedByTheSchedulers) {
  ExpectNearTheOptimum({Mixed, 200, 3, 9}, RealGuard());
}

TEST(CutQualityTest, LargerGraphsAgainstALongSearch) {
  const Quality q = QualityOf(
      {Reductions, 12, 18, 30}, RuleGuard(), [](CutModel& model, const Cut& found, uint32_t seed) {
        return LongSearch(model, found, /*restarts=*/4, /*steps=*/6000, seed);
      });
  EXPECT_LE(q.mean_gap, 0.003);
}

}  // namespace
}  // namespace seam
