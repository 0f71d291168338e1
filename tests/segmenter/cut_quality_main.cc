// How near to the best cut the segmenter comes, on random graphs: share that is optimal, mean and
// worst excess. Up to 12 units are held against the optimum, more against a long search.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "ir/text/printer.h"
#include "scheduler/scheduler.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"
#include "tests/support/best_cut.h"
#include "tests/support/reduction_graph.h"

namespace {

using namespace seam;

constexpr int kMaxExactUnits = 12;

struct Options {
  int count = 2000, least = 3, most = 10;
  uint32_t seed = 1;
  std::string graphs = "reductions", guard = "rule";
  std::vector<std::string> without;
  int restarts = 30, steps = 20000;
  double shown = 1e9;
};

std::string Describe(const Cut& cut) {
  std::string text;
  for (UnitMask block : cut) {
    text += "{";
    for (; block != 0; block &= block - 1) {
      text += (text.back() == '{' ? "" : " ") + std::to_string(__builtin_ctzll(block));
    }
    text += "} ";
  }
  return text;
}

int Run(const Options& options) {
  std::unique_ptr<SchedulabilityGuard> guard = std::make_unique<RuleGuard>();
  if (options.guard == "real") guard = std::make_unique<RealGuard>();
  int graphs = 0, optimal = 0, cheaper = 0, several = 0;
  double sum = 0, worst = 0;
  uint32_t worst_seed = 0;
  for (uint32_t seed = options.seed; graphs < options.count; ++seed) {
    const int exprs =
        options.least +
        static_cast<int>(seed % static_cast<uint32_t>(options.most - options.least + 1));
    const absl::StatusOr<Fusion> fusion =
        options.graphs == "reductions"
            ? ReductionGraph(seed, exprs).Make()
            : RandomFusion(seed, exprs, RandomFusion::Sizes::kLarge).Make();
    if (!fusion.ok()) {
      std::printf("seed %u: %s\n", seed, fusion.status().ToString().c_str());
      return 1;
    }
    const auto whole = WholeGraph::Create(*fusion, *guard);
    if (!whole.ok() || (*whole)->model().num_units() < options.least ||
        (*whole)->model().num_units() > options.most) {
      continue;
    }
    SegmentOptions segment;
    segment.disabled_passes = options.without;
    // The prices know no islands, and every value in its own type.
    for (const char* pass : {"recompute", "horizontal", "narrow"})
      segment.disabled_passes.push_back(pass);
    const absl::StatusOr<SegmentedFusion> cut = Segment(*fusion, *guard, segment);
    if (!cut.ok()) {
      std::printf("seed %u: %s\n", seed, cut.status().ToString().c_str());
      return 1;
    }
    CutModel& model = (*whole)->model();
    const Cut found = (*whole)->CutOf(*cut);
    const Cut best = model.num_units() <= kMaxExactUnits
                         ? BestCut(model)
                         : LongSearch(model, found, options.restarts, options.steps, seed);
    const int64_t found_bytes = model.BytesOf(found), best_bytes = model.BytesOf(best);
    const absl::StatusOr<SegmentedFusion> check = (*whole)->Segmented(best);
    if (!check.ok() || (*whole)->BytesOf(*check) > best_bytes) {
      std::printf("seed %u: the best cut %s is not what its price says: %s\n%s", seed,
                  Describe(best).c_str(), check.status().ToString().c_str(),
                  PrintFusion(*fusion).c_str());
      return 1;
    }
    ++graphs;
    several += best.size() > 1;
    const double gap = static_cast<double>(found_bytes - best_bytes) /
                       static_cast<double>(std::max<int64_t>(best_bytes, 1));
    optimal += gap <= 0;
    cheaper += gap < 0;
    sum += gap;
    if (gap > worst) {
      worst = gap;
      worst_seed = seed;
    }
    if (gap > options.shown) {
      std::printf("seed %u: %.2f%% above the best\n%sfound %s\nbest  %s\n\n", seed, 100 * gap,
                  PrintFusion(*fusion).c_str(), Describe(found).c_str(), Describe(best).c_str());
    }
  }
  std::printf(
      "%s, %s guard, %d to %d units: %d graphs, %.1f%% optimal, mean gap %.3f%%, worst %.1f%% "
      "(seed "
      "%u); %d below the best without copies; the best has several groups in %.1f%%\n",
      options.graphs.c_str(), options.guard.c_str(), options.least, options.most, graphs,
      100.0 * optimal / graphs, 100 * sum / graphs, 100 * worst, worst_seed, cheaper,
      100.0 * several / graphs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The segmenter's cuts of random graphs against the best ones");
  Options options;
  app.add_option("--count", options.count, "How many graphs")->capture_default_str();
  app.add_option("--seed", options.seed, "Of the first")->capture_default_str();
  app.add_option("--least", options.least, "Units a graph, at least")->capture_default_str();
  app.add_option("--most", options.most, "Units a graph, at most")->capture_default_str();
  app.add_option("--graphs", options.graphs, "reductions, or mixed: all classes of operations")
      ->check(CLI::IsMember({"reductions", "mixed"}))
      ->capture_default_str();
  app.add_option("--guard", options.guard, "rule: what could be one kernel; real: what is lowered")
      ->check(CLI::IsMember({"rule", "real"}))
      ->capture_default_str();
  app.add_option("--without", options.without, "Passes that are switched off");
  app.add_option("--restarts", options.restarts, "Of the long search")->capture_default_str();
  app.add_option("--steps", options.steps, "Of each restart")->capture_default_str();
  app.add_option("--shown", options.shown, "Print graphs with a larger gap, 0.05 for 5%");
  CLI11_PARSE(app, argc, argv);
  return Run(options);
}
