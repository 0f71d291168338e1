// seam diff: two ways to cut one graph.
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "segmenter/dump_diff.h"
#include "tools/seam_cut.h"

namespace seam::tool {
namespace {

struct DiffArguments {
  CutOptions left, right;
  std::string format = "text", path;
  bool check = false;
};

int RunDiff(DiffArguments options) {
  options.right.graph = options.left.graph;
  options.right.settings = options.left.settings;
  std::unique_ptr<Cut> left, right;
  if (const int code = MakeCut(options.left, &left); code != kGood) return code;
  if (const int code = MakeCut(options.right, &right); code != kGood) return code;
  const absl::StatusOr<SegmentationDiff> diff =
      DiffSegmentations(left->segmented, left->hints, right->segmented, right->hints);
  if (!diff.ok()) return Fail(diff.status());
  const absl::Status status =
      WriteOutput(options.path, options.format == "json"
                                    ? DiffJson(*diff)
                                    : DiffText(*diff, options.path.empty() && IsColoured()));
  if (!status.ok()) return Fail(status);
  return options.check && !diff->same() ? Fail(kCheckFailed, "the graph is cut in two ways")
                                        : kGood;
}

}  // namespace

void AddDiffCommand(CLI::App& app, std::vector<Command>& commands) {
  const auto options = std::make_shared<DiffArguments>();
  CLI::App* diff = app.add_subcommand("diff", "Compare two ways to cut a graph");
  AddGraphArgument(*diff, &options->left.graph);
  diff->add_option(
          "left", options->left.load,
          "A file that `seam segment` wrote as json or text; none: what the segmenter does")
      ->type_name("FILE");
  CLI::Option* right =
      diff->add_option("right", options->right.load,
                       "Another one; none: what the segmenter does with the options below")
          ->type_name("FILE");
  AddWithoutOption(*diff, &options->right.without)->excludes(right);
  AddNarrowOption(*diff, &options->right.narrow_edges)->excludes(right);
  AddSetOption(*diff, &options->left.settings,
               "On both sides. Others are a file's own, else 1024 within their ranges.");
  diff->add_option("--format", options->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->type_name("");
  diff->add_flag("--check", options->check, "Exit with 1 where the two differ");
  AddOutputOption(*diff, &options->path);
  diff->footer(
      "Groups are the same if they compute the same expressions, whatever their numbers. `split` "
      "is one group\n"
      "that is several on the right, `merged` several that are one, `regrouped` several that are "
      "several\n"
      "others (or one with other dead code), `copies` one whose expressions are the same and whose "
      "copies or\n"
      "scheduler are not, `dead` dead code that one side leaves out.\n\n"
      "Examples:\n"
      "  seam diff layer_norm_backward --without siblings\n"
      "  seam diff adamw old.json new.json\n"
      "  seam diff adamw accepted.json --check");
  commands.push_back({diff, [options] { return RunDiff(*options); }});
}

}  // namespace seam::tool
