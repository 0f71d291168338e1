#include "tools/seam_page.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "runtime/cuda/nvrtc.h"
#include "scheduler/scheduler.h"
#include "segmenter/check_json.h"
#include "segmenter/dump_html.h"
#include "segmenter/traffic.h"

namespace seam::tool {
namespace {

// Microseconds by the names of groups.
using Times = std::map<std::string, double>;

absl::StatusOr<Times> ReadTimes(const std::string& path) {
  Times times;
  if (path.empty()) return times;
  SEAM_ASSIGN_OR_RETURN(const std::string text, ReadInput(path));
  if (const absl::Status status = CheckJson(text); !status.ok())
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
  const nlohmann::json json = nlohmann::json::parse(text);
  if (!json.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat(path, R"(: expected microseconds by group, as {"g0": 12.5, "g1": 3})"));
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", name, ": found ", value.dump(),
                       ", expected a number of microseconds, 0 or more"));
    times[name] = value.get<double>();
  }
  return times;
}

}  // namespace

absl::StatusOr<std::vector<GroupReport>> ReportsOf(const Cut& cut, const std::string& device,
                                                   bool compile) {
  CompileOptions options;
  options.backend = compile ? BackendKind::kCuda : BackendKind::kSimulator;
  options.load = false;
  options.device = device;
  options.size_hints = SymbolsOf(cut.sizes);
  options.progress = [](int done, int total) {
    ShowProgress(absl::StrCat("compiled ", done, " of ", total, " kernels"));
  };
  // The cut at hand, also where it was loaded or passes were left out.
  SEAM_ASSIGN_OR_RETURN(options.segmentation, DumpJson(cut.segmented, cut.Dump(false)));
  SEAM_ASSIGN_OR_RETURN(Fusion fusion, ParseFusion(PrintFusion(*cut.fusion)));
  // The text lacks symbols that nothing mentions.
  std::erase_if(options.size_hints, [&](const SymbolValue& size) {
    return absl::c_none_of(fusion.env().symbols(),
                           [&](const SymNode* symbol) { return symbol->name == size.name; });
  });
  SEAM_ASSIGN_OR_RETURN(const Executable executable, Compile(std::move(fusion), options));
  absl::StatusOr<std::vector<GroupReport>> reports = executable.CompileFor(options.size_hints);
  WarnOfCaches(executable);
  return reports;
}

std::string ScheduleLine(const GroupReport& report) {
  if (report.partial_bytes == 0) return report.schedule;
  return absl::StrCat(report.schedule, "; partial states of ", FormatBytes(report.partial_bytes));
}

absl::StatusOr<std::string> MakePage(Cut& cut, const PageOptions& options) {
  bool compile = options.compile && cuda::Nvrtc::Get().ok();
  SEAM_ASSIGN_OR_RETURN(const DeviceInfo device, options.device.empty()
                                                     ? absl::StatusOr<DeviceInfo>(Devices()[0])
                                                     : FindDevice(options.device));
  SEAM_ASSIGN_OR_RETURN(Times times, ReadTimes(options.times));
  ShowProgress("scheduling");
  absl::StatusOr<std::vector<GroupReport>> reports = ReportsOf(cut, device.name, compile);
  if (compile && absl::IsUnimplemented(reports.status())) {
    Warn(absl::StrCat("the page has no CUDA text: ", reports.status().message()));
    compile = false;
    reports = ReportsOf(cut, device.name, compile);
  }
  SEAM_RETURN_IF_ERROR(reports.status());
  HtmlOptions html;
  html.device = device.name;
  const RealGuard guard;
  html.guard = &guard;
  for (GroupId g : cut.segmented.groups()) {
    GroupCode& code = html.code.emplace_back();
    code.group = g;
    if (Launches(cut.segmented, g)) {
      const int64_t bytes =
          SaturatingAdd(TrafficOf(cut.segmented, cut.hints, g).bytes(), kLaunchBytes);
      code.estimated_us =
          static_cast<double>(bytes) / static_cast<double>(device.bytes_per_second) * 1e6;
    }
    if (const auto it = times.find(absl::StrCat("g", g.index())); it != times.end()) {
      code.measured_us = it->second;
      times.erase(it);
    }
  }
  if (!times.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.times, ": there is no group ", times.begin()->first));
  }
  for (const GroupReport& report : *reports) {
    // What copies an output that is an input belongs to no group.
    if (report.group >= html.code.size()) continue;
    GroupCode& code = html.code[report.group];
    code.schedules.push_back(ScheduleLine(report));
    code.guards.insert(code.guards.end(), report.guards.begin(), report.guards.end());
    for (const KernelReport& kernel : report.kernels) {
      KernelCode& k = code.kernels.emplace_back();
      k.name = kernel.name;
      k.ir = kernel.kernel_text;
      if (!compile) continue;
      k.cuda = kernel.cuda_text;
      k.threads = kernel.threads;
      k.registers = kernel.registers;
      k.smem_bytes = kernel.smem_bytes;
      k.spill_bytes = kernel.spill_store_bytes + kernel.spill_load_bytes;
    }
  }
  ShowProgress("drawing");
  return DumpHtml(cut.segmented, cut.Dump(false), html);
}

}  // namespace seam::tool
