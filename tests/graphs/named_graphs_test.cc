// Every graph of tests/graphs: cut by the real schedulers into as many kernels, and with as many
// bytes through memory, as its header says, and run on the simulator against the reference.
//
// SEAM_GRAPH_TABLE=1 prints the figures of all; SEAM_UPDATE_GRAPHS=1 writes those of today into the
// headers, to be run after a change to schedulers or passes and to be read as its result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "ir/text/parser.h"
#include "runtime/executable.h"
#include "scheduler/scheduler.h"
#include "segmenter/segment.h"
#include "tests/graphs/named_graph.h"
#include "tests/segmenter/rule_guard.h"
#include "tests/support/graph_check.h"

namespace seam::testing {
namespace {

// Name, what is expected, found by the rule and found, reasons.
constexpr char kRow[] = "%-44s | %-38s | %-38s | %-38s | %s\n";

std::vector<std::string> Paths() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(SEAM_SOURCE_DIR "/tests/graphs")) {
    if (entry.path().extension() == ".seam") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::StatusOr<CutFigures> ByTheRule(const NamedGraph& graph) {
  SegmentOptions options;
  options.sizes = graph.sizes;
  SEAM_ASSIGN_OR_RETURN(const SizeHints sizes, SizeHints::Create(graph.fusion, graph.sizes));
  SEAM_ASSIGN_OR_RETURN(const SegmentedFusion cut, Segment(graph.fusion, IslandGuard(), options));
  return FiguresOf(cut, sizes);
}

absl::StatusOr<CutFigures> AsItRuns(const NamedGraph& graph) {
  SEAM_ASSIGN_OR_RETURN(Fusion fusion, ParseFusion(graph.text));
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  options.use_cache = false;
  for (const SymNode* s : fusion.env().symbols()) {
    const std::string name(s->name);
    options.size_hints.push_back({name, graph.sizes.at(name)});
  }
  SEAM_ASSIGN_OR_RETURN(const Executable executable, Compile(std::move(fusion), options));
  SEAM_ASSIGN_OR_RETURN(const std::vector<GroupReport> reports,
                        executable.CompileFor(options.size_hints));
  return FiguresOf(reports, graph.sizes);
}

// Why there are so many kernels: of all borders between them, each reason once.
absl::StatusOr<std::string> ReasonsOf(const NamedGraph& graph, int kernels) {
  SegmentOptions options;
  options.sizes = graph.sizes;
  SEAM_ASSIGN_OR_RETURN(const Segmentation cut, SegmentWithLog(graph.fusion, RealGuard(), options));
  const auto is_kernel = [&](GroupId g) {
    return cut.segmented.scheduler(g) != SchedulerKind::kLibrary &&
           cut.segmented.scheduler(g) != SchedulerKind::kAlias;
  };
  std::vector<std::string> reasons;
  for (const auto& [from, to, decision] : cut.log.borders) {
    if (!is_kernel(from) || !is_kernel(to)) continue;
    const std::string who =
        decision.scheduler == SchedulerKind::kNone
            ? ""
            : absl::StrCat(std::string(SchedulerName(decision.scheduler)), " refuses: ");
    std::string reason =
        absl::StrCat(who, std::string(ReasonName(decision.reason)), ": ", decision.detail);
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
      reasons.push_back(std::move(reason));
  }
  const auto groups = cut.segmented.groups();
  if (reasons.empty() && absl::c_count_if(groups, is_kernel) < kernels)
    return std::string("what is left in parts is finished by a kernel of its own");
  if (reasons.empty()) return std::string("no merge was tried");
  return absl::StrJoin(reasons, "; ");
}

bool IsSet(const char* variable) { return std::getenv(variable) != nullptr; }

TEST(NamedGraphs, AreCutAsTheirHeadersSay) {
  std::string differences, table;
  for (const std::string& path : Paths()) {
    const absl::StatusOr<NamedGraph> graph = LoadNamedGraph(path);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const absl::StatusOr<CutFigures> rule = ByTheRule(*graph), found = AsItRuns(*graph);
    ASSERT_TRUE(rule.ok() && found.ok()) << path << ": " << rule.status() << found.status();
    const absl::StatusOr<std::string> reasons = ReasonsOf(*graph, found->kernels);
    ASSERT_TRUE(reasons.ok()) << path << ": " << reasons.status();
    const bool met = *found == graph->expected;
    const std::string row =
        absl::StrFormat(kRow, graph->name, graph->expected.ToString(), rule->ToString(),
                        found->ToString(), met ? "" : *reasons);
    absl::StrAppend(&table, row);
    if (IsSet("SEAM_UPDATE_GRAPHS")) {
      std::ofstream(path) << WithToday(*graph,
                                       met ? "" : absl::StrCat(found->ToString(), "; ", *reasons));
      continue;
    }
    EXPECT_TRUE(
        found->kernels > graph->expected.kernels ||
        (found->kernels == graph->expected.kernels && found->bytes >= graph->expected.bytes))
        << path << " expects too little of the schedulers: " << found->ToString();
    EXPECT_TRUE(!graph->today || graph->today->first != graph->expected)
        << path << ": a header without `today:` says that the expectation is met";
    if (*found != (graph->today ? graph->today->first : graph->expected)) {
      absl::StrAppend(&differences, row);
    }
  }
  const std::string head =
      absl::StrFormat(kRow, "graph", "expected", "by the rule alone", "found", "because");
  if (IsSet("SEAM_GRAPH_TABLE")) std::cout << head << table;
  EXPECT_TRUE(differences.empty()) << "The figures of these graphs are others than their headers "
                                      "say. If that is what was meant, "
                                      "SEAM_UPDATE_GRAPHS=1 writes the new ones.\n"
                                   << head << differences;
}

class NamedGraphsRun : public ::testing::TestWithParam<std::string> {};

TEST_P(NamedGraphsRun, OnTheSimulator) {
  absl::StatusOr<NamedGraph> graph = LoadNamedGraph(GetParam());
  ASSERT_TRUE(graph.ok()) << graph.status();
  const absl::Status status =
      CheckGraph({std::move(graph->fusion), graph->run_sizes, graph->run_sizes}, /*seed=*/7,
                 BackendKind::kSimulator);
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(All, NamedGraphsRun, ::testing::ValuesIn(Paths()), [](const auto& info) {
  return std::filesystem::path(info.param).stem().string();
});

}  // namespace
}  // namespace seam::testing
