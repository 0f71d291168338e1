#include "tools/seam_cut.h"

#include <utility>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "scheduler/scheduler.h"
#include "segmenter/load_segmentation.h"

namespace seam::tool {

CLI::Option* AddWithoutOption(CLI::App& app, std::vector<std::string>* without) {
  std::vector<std::string> names;
  for (const SegmentPass& pass : SegmentPasses()) names.push_back(pass.name);
  std::string text = "Leave out a pass of the segmenter:";
  for (const std::string& name : names) absl::StrAppend(&text, " ", name);
  return app.add_option("--without", *without, text)
      ->check(CLI::IsMember(names))
      ->delimiter(',')
      ->type_name("PASS");
}

CLI::Option* AddLoadOption(CLI::App& app, const char* name, std::string* path) {
  return app
      .add_option(name, *path,
                  "Do not segment; take the cut from this file, which `seam segment` wrote as json "
                  "or text")
      ->check(CheckNamed)
      ->type_name("FILE");
}

CLI::Option* AddNoTunedOption(CLI::App& app, bool* no_tuned) {
  return app.add_flag("--no-tuned", *no_tuned,
                      "Schedules by the heuristic, even where seam bench --tune found faster ones");
}

CLI::Option* AddAnyOrderOption(CLI::App& app, bool* any_order) {
  return app.add_flag("--any-order", *any_order,
                      "Sum over rows in whatever order kernels come to them: faster, but not the "
                      "same bits in every run");
}

CLI::Option* AddNarrowOption(CLI::App& app, Narrowing* narrow_edges) {
  return app
      .add_option_function<std::string>(
          "--narrow-edges",
          [narrow_edges](const std::string& name) { *narrow_edges = *ParseNarrowing(name); },
          "Let f32 values cross between kernels as f16 or bf16, rounded; exact (the default): only "
          "where that changes no result; off: never, as --without narrow")
      ->check(CLI::IsMember({"off", "exact", "f16", "bf16"}))
      ->type_name("TYPE");
}

int ReadSegmentation(const std::string& path, CompileOptions* options) {
  if (path.empty()) return kGood;
  absl::StatusOr<std::string> text = ReadInput(path);
  if (!text.ok()) return Fail(kBadGraph, text.status().message());
  if (text->empty()) return Fail(kBadGraph, absl::StrCat(path, " is empty"));
  options->segmentation = *std::move(text);
  return kGood;
}

void WarnOfCaches(const Executable& executable) {
  for (const std::string& warning : executable.CacheWarnings()) Warn(warning);
}

int MakeCut(const CutOptions& options, std::unique_ptr<Cut>* cut) {
  absl::StatusOr<Fusion> graph = LoadGraph(options.graph);
  if (!graph.ok()) return Fail(kBadGraph, graph.status().message());
  auto fusion = std::make_unique<const Fusion>(*std::move(graph));
  Sizes sizes;
  if (const int code = ParseSizes(*fusion, options.settings, &sizes); code != kGood) return code;
  SegmentOptions segment;
  segment.trace = options.trace;
  segment.disabled_passes = options.without;
  segment.narrow_edges = options.narrow_edges;

  const bool narrows =
      segment.narrow_edges == Narrowing::kF16 || segment.narrow_edges == Narrowing::kBF16;
  if (narrows && absl::c_linear_search(segment.disabled_passes, "narrow"))
    return Fail(kWrongUsage, "--narrow-edges: --without narrow leaves no value narrow");

  std::string text;
  absl::StatusOr<Segmentation> made = absl::UnknownError("");
  if (options.load.empty()) {
    FillSizes(*fusion, HintedSize, &sizes);
    segment.sizes.insert(sizes.begin(), sizes.end());
    ShowProgress("segmenting");
    made = SegmentWithLog(*fusion, RealGuard(), segment);
    if (!made.ok()) return Fail(made.status());
  } else {
    absl::StatusOr<std::string> file = ReadInput(options.load);
    if (!file.ok()) return Fail(kBadGraph, file.status().message());
    text = *std::move(file);
    ShowProgress("loading");
    absl::StatusOr<LoadedSegmentation> loaded = LoadSegmentation(*fusion, text);
    absl::Status status = loaded.status();
    if (status.ok()) status = CheckSchedulable(loaded->segmented, RealGuard());
    if (!status.ok()) return Fail(kBadGraph, absl::StrCat(options.load, ": ", status.message()));
    sizes.insert(loaded->sizes.begin(), loaded->sizes.end());
    FillSizes(*fusion, HintedSize, &sizes);
    segment.sizes.insert(sizes.begin(), sizes.end());
    made = Segmentation{std::move(loaded->segmented), std::move(loaded->log)};
  }
  absl::StatusOr<SizeHints> hints = SizeHints::Create(*fusion, segment.sizes);
  if (!hints.ok()) return Fail(hints.status());
  *cut = std::make_unique<Cut>(Cut{std::move(fusion), std::move(sizes), std::move(segment),
                                   std::move(text), std::move(made->segmented),
                                   std::move(made->log), *std::move(hints)});
  return kGood;
}

}  // namespace seam::tool
