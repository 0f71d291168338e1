// seam segment: how a graph is cut into groups, in all forms.
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "nlohmann/json.hpp"
#include "runtime/executable.h"
#include "scheduler/scheduler.h"
#include "segmenter/dump.h"
#include "segmenter/segment.h"
#include "tools/seam_page.h"

namespace seam::tool {
namespace {

struct SegmentArguments {
  CutOptions cut;
  PageOptions page;
  std::string format = "text", path;
};

absl::StatusOr<std::string> Describe(const SegmentArguments& options,
                                     const SegmentedFusion& segmented, const DumpOptions& dump,
                                     absl::Span<const GroupReport> schedules) {
  if (options.format == "dot") return DumpDot(segmented, dump);
  if (options.format == "svg") return DumpSvg(segmented, dump);
  if (options.format == "json") {
    SEAM_ASSIGN_OR_RETURN(const std::string text, DumpJson(segmented, dump));
    if (schedules.empty()) return text;
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
    json["device"] = options.page.device;
    for (nlohmann::ordered_json& group : json["groups"]) {
      // More than one where a group is lowered in parts.
      std::vector<std::string> of_group;
      int64_t partial_bytes = 0;
      for (const GroupReport& report : schedules) {
        if (group["id"] != report.group) continue;
        of_group.push_back(report.schedule);
        partial_bytes += report.partial_bytes;
      }
      group["schedule"] = absl::StrJoin(of_group, "; ");
      group["partial_bytes"] = partial_bytes;
    }
    return json.dump(2) + "\n";
  }
  SEAM_ASSIGN_OR_RETURN(std::string text, DumpText(segmented, dump));
  if (schedules.empty()) return text;
  absl::StrAppend(&text, "\nschedules for ", options.page.device, ":\n");
  for (const GroupReport& report : schedules) {
    absl::StrAppend(&text, "  group ", report.group, ": ", ScheduleLine(report), "\n");
  }
  return text;
}

int RunSegment(const SegmentArguments& options) {
  if (!options.page.device.empty()) {
    if (const auto device = FindDevice(options.page.device); !device.ok()) {
      return Fail(kWrongUsage, absl::StrCat("--device: ", device.status().message()));
    }
  }
  if (!options.page.device.empty() && (options.format == "dot" || options.format == "svg"))
    return Fail(kWrongUsage, "--device: text, json and html show schedules");
  if (!options.page.times.empty() && options.format != "html")
    return Fail(kWrongUsage, "--times: only --format html shows measured times");
  if (!options.page.compile && options.format != "html")
    return Fail(kWrongUsage, "--no-compile: only --format html compiles");
  std::unique_ptr<Cut> cut;
  CutOptions how = options.cut;
  how.trace = options.format == "html";
  if (const int code = MakeCut(how, &cut); code != kGood) return code;
  std::vector<GroupReport> schedules;
  if (!options.page.device.empty() && options.format != "html") {
    ShowProgress("scheduling");
    absl::StatusOr<std::vector<GroupReport>> reports =
        ReportsOf(*cut, options.page.device, /*compile=*/false);
    if (!reports.ok()) return Fail(reports.status());
    schedules = *std::move(reports);
  }
  const absl::StatusOr<std::string> text =
      options.format == "html"
          ? MakePage(*cut, options.page)
          : Describe(options, cut->segmented, cut->Dump(options.path.empty() && IsColoured()),
                     schedules);
  if (!text.ok()) return Fail(text.status());
  const absl::Status status = WriteOutput(options.path, *text);
  return status.ok() ? kGood : Fail(status);
}

}  // namespace

void AddSegmentCommand(CLI::App& app, std::vector<Command>& commands) {
  const auto options = std::make_shared<SegmentArguments>();
  CLI::App* segment = app.add_subcommand(
      "segment", "Cut a graph into kernels and show the groups and what joins them");
  AddGraphArgument(*segment, &options->cut.graph);
  segment
      ->add_option("--format", options->format,
                   "text, dot (Graphviz), svg (a picture), html (a page to click through) or json")
      ->check(CLI::IsMember({"text", "dot", "svg", "html", "json"}))
      ->capture_default_str()
      ->type_name("");
  segment
      ->add_option("--device", options->page.device,
                   "Also show the schedules on this device (text, json and html)")
      ->check([](const std::string& name) -> std::string {
        return name.empty() ? "expected the name of a device or architecture" : "";
      })
      ->type_name("NAME");
  AddSetOption(*segment, &options->cut.settings, "Others count as 1024, within their ranges.");
  CLI::Option* load = AddLoadOption(*segment, "--load", &options->cut.load);
  AddNarrowOption(*segment, &options->cut.narrow_edges)->excludes(load);
  AddWithoutOption(*segment, &options->cut.without)->excludes(load);
  AddOutputOption(*segment, &options->path);
  segment->add_flag("!--no-compile", options->page.compile,
                    "html: do not compile the kernels for their CUDA text and registers");
  segment
      ->add_option("--times", options->page.times,
                   "html: measured times, JSON: {\"g0\": microseconds, ...}")
      ->check(CheckNamed)
      ->type_name("FILE");
  segment->footer(
      "Sizes set the bytes that are shown and which of several cuts saves most, never what is "
      "allowed.\n\n"
      "The JSON has kernels, bytes (of device memory traffic), groups (each id, scheduler, exprs, "
      "inputs,\n"
      "outputs, and more) and edges (each from, to, val, and more); --load reads it and the text "
      "back.\n\n"
      "The HTML page works from a file, without a network: click a group for its expressions, "
      "schedule, kernels,\n"
      "registers and times, a border for why the two sides did not merge; step through the merges; "
      "search. With\n"
      "NVRTC it has the CUDA text and the registers; times are estimated from the traffic, and "
      "shown as measured\n"
      "where --times gives some.\n\n"
      "Examples:\n"
      "  seam segment layer_norm_backward\n"
      "  seam segment layer_norm_backward --format svg -o cut.svg\n"
      "  seam segment layer_norm_backward --format html -o cut.html\n"
      "  seam segment softmax --device a100 --set B=64,Q=2048,K=2048\n"
      "  seam segment adamw --format json -o cut.json\n"
      "  seam segment adamw --load cut.json");
  commands.push_back({segment, [options] { return RunSegment(*options); }});
}

}  // namespace seam::tool
