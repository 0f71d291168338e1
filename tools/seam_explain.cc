// seam explain: the story of all merges, or why two values are in one kernel or in two.
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "scheduler/scheduler.h"
#include "segmenter/explain.h"
#include "tools/seam_cut.h"

namespace seam::tool {
namespace {

struct ExplainArguments {
  CutOptions cut;
  std::vector<std::string> values;
  std::string path;
};

int RunExplain(const ExplainArguments& options) {
  if (options.values.size() == 1)
    return Fail(kWrongUsage, "explain takes no value, or two of which to tell why they are apart");
  std::unique_ptr<Cut> cut;
  if (const int code = MakeCut(options.cut, &cut); code != kGood) return code;
  absl::StatusOr<std::string> text =
      absl::StrCat(ExplainMerges(cut->segmented, cut->log, options.path.empty() && IsColoured()),
                   ExplainCrossings(cut->segmented, cut->hints));
  if (!options.values.empty()) {
    text = ExplainValues(cut->segmented, cut->log, RealGuard(), cut->hints, options.values[0],
                         options.values[1]);
    if (!text.ok()) return Fail(kWrongUsage, text.status().message());
  }
  const absl::Status status = WriteOutput(options.path, *text);
  return status.ok() ? kGood : Fail(status);
}

}  // namespace

void AddExplainCommand(CLI::App& app, std::vector<Command>& commands) {
  const auto options = std::make_shared<ExplainArguments>();
  options->cut.trace = true;
  CLI::App* explain = app.add_subcommand(
      "explain", "Tell why two values are in one kernel or in two, or the story of all merges");
  AddGraphArgument(*explain, &options->cut.graph);
  explain
      ->add_option(
          "values", options->values,
          "Two values of the graph, by name; none: every merge that was tried, and for each "
          "refused one who and why")
      ->expected(0, 2)
      ->type_name("A B");
  AddSetOption(*explain, &options->cut.settings, "Others count as 1024, within their ranges.");
  CLI::Option* load = AddLoadOption(*explain, "--load", &options->cut.load);
  AddNarrowOption(*explain, &options->cut.narrow_edges)->excludes(load);
  AddWithoutOption(*explain, &options->cut.without)->excludes(load);
  AddOutputOption(*explain, &options->path);
  explain->footer(
      "Examples:\n"
      "  seam explain quantised_layer_norm mean q\n"
      "  seam explain quantised_layer_norm\n"
      "  seam explain cross_entropy | grep refused");
  commands.push_back({explain, [options] { return RunExplain(*options); }});
}

}  // namespace seam::tool
