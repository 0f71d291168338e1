// Segments random graphs with every invariant checked from scratch after each merge and split, and
// in the end whether the guard takes each group as it is: by the real schedulers or by the rule
// alone, in turn, and the first of them also by a guard that refuses at random.
//
//   seam_invariants --count 1000000 --moody 100000
//
// Graphs of 3 to 40 expressions: any, long chains, parts without a connection, and such as are full
// of reductions, in turn.
#include <cstdint>
#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "ir/text/printer.h"
#include "scheduler/scheduler.h"
#include "segmenter/load_segmentation.h"
#include "segmenter/segment.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"
#include "tests/support/reduction_graph.h"

namespace {

using namespace seam;

absl::StatusOr<Fusion> Graph(uint32_t seed) {
  using Shape = RandomFusion::Shape;
  const int exprs = 3 + static_cast<int>(seed % 38);
  const auto random = [&](Shape shape) {
    return RandomFusion(seed, exprs, RandomFusion::Sizes::kAny, shape).Make();
  };
  switch (seed % 8) {
    case 0:
      return random(Shape::kChain);
    case 1:
      return random(Shape::kParts);
    case 2:
    case 3:
      return ReductionGraph(seed, exprs).Make();
    default:
      return random(Shape::kAny);
  }
}

struct Counts {
  int64_t graphs = 0, exprs = 0, checks = 0, trials = 0, without_answer = 0;
};

// False, with what is wrong on stdout, if an invariant does not hold. A guard that refuses
// expressions alone gets an error instead of a segmentation.
bool Holds(uint32_t seed, const Fusion& fusion, const SchedulabilityGuard& guard, bool may_refuse,
           const SegmentOptions& options, Counts& counts) {
  const absl::StatusOr<Segmentation> s = SegmentWithLog(fusion, guard, options);
  ++counts.graphs;
  counts.exprs += fusion.num_exprs();
  if (may_refuse && absl::StrContains(s.status().message(), "no scheduler accepts")) {
    ++counts.without_answer;
    return true;
  }
  const absl::Status status = s.ok() ? CheckSchedulable(s->segmented, guard) : s.status();
  if (status.ok()) {
    counts.checks += s->log.num_merges + 1;
    counts.trials += s->log.num_trials;
    return true;
  }
  std::printf("seed %u: %s\n%s", seed, status.ToString().c_str(), PrintFusion(fusion).c_str());
  return false;
}

void Print(const char* guard, const Counts& c) {
  std::printf(
      "%s: %lld graphs of %lld expressions, %lld trials, every invariant after each of %lld "
      "changes",
      guard, static_cast<long long>(c.graphs), static_cast<long long>(c.exprs),
      static_cast<long long>(c.trials), static_cast<long long>(c.checks));
  if (c.without_answer > 0) {
    std::printf("; %lld were refused an expression alone",
                static_cast<long long>(c.without_answer));
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Every invariant of segmentation after every merge, on random graphs");
  int count = 10000, moody = 1000;
  uint32_t first = 1;
  app.add_option("--count", count, "How many graphs")->capture_default_str();
  app.add_option("--moody", moody, "How many of them also by a guard that refuses at random")
      ->capture_default_str();
  app.add_option("--seed", first, "Of the first")->capture_default_str();
  SegmentOptions options;
  options.verify_each_merge = true;
  app.add_option("--without", options.disabled_passes, "Passes that are switched off")
      ->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  const RealGuard real;
  const IslandGuard rule;
  Counts by_real, by_rule, by_moody;
  for (int i = 0; i < count; ++i) {
    const uint32_t seed = first + static_cast<uint32_t>(i);
    const absl::StatusOr<Fusion> fusion = Graph(seed);
    if (!fusion.ok()) {
      std::printf("seed %u: %s\n", seed, fusion.status().ToString().c_str());
      return 1;
    }
    const bool is_real = seed / 8 % 2 == 0;
    if (!Holds(seed, *fusion, is_real ? static_cast<const SchedulabilityGuard&>(real) : rule,
               /*may_refuse=*/false, options, is_real ? by_real : by_rule)) {
      return 1;
    }
    if (i < moody &&
        !Holds(seed, *fusion, MoodyGuard(seed), /*may_refuse=*/true, options, by_moody)) {
      return 1;
    }
  }
  Print("schedulers", by_real);
  Print("rule", by_rule);
  Print("refusing at random", by_moody);
  return 0;
}
