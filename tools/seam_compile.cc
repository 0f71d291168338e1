// seam compile: the kernels of a graph as text and machine code, in a folder, with a report. Needs
// no GPU.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/status.h"
#include "nlohmann/json.hpp"
#include "runtime/executable.h"
#include "tools/seam_command.h"
#include "tools/seam_cut.h"

namespace seam::tool {
namespace {

struct CompileArguments {
  Narrowing narrow_edges = Narrowing::kExact;
  std::string graph, segmentation, arch = "sm_90a", directory = ".";
  std::vector<std::string> settings;
  bool no_cache = false, no_tuned = false, any_order = false;
};

// A file name that is not taken yet.
std::string FreeName(const std::string& name, std::set<std::string>& taken) {
  std::string free = name;
  for (int i = 2; !taken.insert(free).second; ++i) free = absl::StrCat(name, "_", i);
  return free;
}

// Writes the files of every kernel and both reports; returns the text report.
absl::StatusOr<std::string> WriteReports(const CompileArguments& options,
                                         const Executable& executable, const Sizes& sizes,
                                         absl::Span<const GroupReport> groups) {
  SEAM_RETURN_IF_ERROR(MakeDirectories(options.directory));
  const auto write = [&](const std::string& file, absl::string_view content) {
    return WriteOutput(absl::StrCat(options.directory, "/", file), content);
  };
  nlohmann::ordered_json report;
  report["graph"] = std::string(executable.fusion().name());
  report["device"] = executable.device().name;
  report["arch"] = executable.device().arch;
  report["sizes"] = sizes;
  report["groups"] = nlohmann::ordered_json::array();
  std::string text = absl::StrCat(std::string(executable.fusion().name()), " for ",
                                  executable.device().name, " (", executable.device().arch, ")\n");
  std::set<std::string> taken;
  for (const GroupReport& group : groups) {
    nlohmann::ordered_json g;
    g["id"] = group.group;
    g["scheduler"] = std::string(SchedulerName(group.scheduler));
    g["schedule"] = group.schedule;
    g["partial_bytes"] = group.partial_bytes;
    g["origin"] = group.origin;
    g["guards"] = group.guards;
    // A group of views is one report an output.
    g["file"] = FreeName(absl::StrCat("group_", group.group), taken) + ".seam";
    g["kernels"] = nlohmann::ordered_json::array();
    SEAM_RETURN_IF_ERROR(write(g["file"], group.text));
    absl::StrAppend(&text, "\ngroup ", group.group, ": ", group.schedule, "\n");
    if (!group.origin.empty()) absl::StrAppend(&text, "  ", group.origin, "\n");
    for (const std::string& guard : group.guards) absl::StrAppend(&text, "  guard ", guard, "\n");
    for (const KernelReport& kernel : group.kernels) {
      const std::string file = FreeName(kernel.name, taken);
      SEAM_RETURN_IF_ERROR(write(file + ".kir", kernel.kernel_text));
      SEAM_RETURN_IF_ERROR(write(file + ".cu", kernel.cuda_text));
      SEAM_RETURN_IF_ERROR(write(file + ".cubin", kernel.cubin));
      g["kernels"].push_back({{"name", kernel.name},
                              {"entry", kernel.entry},
                              {"kernel_ir", file + ".kir"},
                              {"cuda", file + ".cu"},
                              {"cubin", file + ".cubin"},
                              {"threads", kernel.threads},
                              {"registers", kernel.registers},
                              {"smem_bytes", kernel.smem_bytes},
                              {"spill_store_bytes", kernel.spill_store_bytes},
                              {"spill_load_bytes", kernel.spill_load_bytes},
                              {"compile_ms", kernel.compile_ms},
                              {"from_cache", kernel.from_cache}});
      absl::StrAppendFormat(
          &text,
          "  kernel %s: %d threads, %d registers, %d bytes of shared memory, %s, compiled in %.0f "
          "ms%s\n",
          kernel.name, kernel.threads, kernel.registers, kernel.smem_bytes,
          kernel.spill_store_bytes + kernel.spill_load_bytes == 0
              ? "no spills"
              : absl::StrCat("spills: ", kernel.spill_store_bytes, " bytes stored, ",
                             kernel.spill_load_bytes, " loaded"),
          kernel.compile_ms, kernel.from_cache ? " (from the cache)" : "");
    }
    report["groups"].push_back(std::move(g));
  }
  SEAM_RETURN_IF_ERROR(write("report.json", report.dump(2) + "\n"));
  SEAM_RETURN_IF_ERROR(write("report.txt", text));
  return text;
}

int Run(const CompileArguments& options) {
  absl::StatusOr<Fusion> fusion = LoadGraph(options.graph);
  if (!fusion.ok()) return Fail(kBadGraph, fusion.status().message());
  Sizes sizes;
  if (const int code = ParseSizes(*fusion, options.settings, &sizes); code != kGood) return code;
  FillSizes(*fusion, HintedSize, &sizes);
  if (absl::StatusOr<DeviceInfo> device = FindDevice(options.arch); !device.ok()) {
    return Fail(kWrongUsage, absl::StrCat("--arch: ", device.status().message()));
  }
  CompileOptions compile;
  compile.backend = BackendKind::kCuda;
  compile.device = options.arch;
  compile.load = false;
  compile.use_cache = !options.no_cache;
  compile.use_tuned = !options.no_tuned;
  compile.any_order = options.any_order;
  compile.progress = [](int done, int total) {
    ShowProgress(absl::StrCat("compiled ", done, " of ", total, " kernels"));
  };
  compile.size_hints = SymbolsOf(sizes);
  compile.narrow_edges = options.narrow_edges;
  if (const int code = ReadSegmentation(options.segmentation, &compile); code != kGood) return code;
  ShowProgress("segmenting and compiling");
  const absl::StatusOr<Executable> executable = Compile(*std::move(fusion), compile);
  if (!executable.ok()) return Fail(executable.status());
  const absl::StatusOr<std::vector<GroupReport>> groups =
      executable->CompileFor(compile.size_hints);
  if (!groups.ok()) return Fail(groups.status());
  WarnOfCaches(*executable);
  const absl::StatusOr<std::string> text = WriteReports(options, *executable, sizes, *groups);
  if (!text.ok()) return Fail(text.status());
  const absl::Status status =
      WriteOutput("", absl::StrCat(*text, "\nEverything is in ", options.directory, ".\n"));
  return status.ok() ? kGood : Fail(status);
}

}  // namespace

void AddCompileCommand(CLI::App& app, std::vector<Command>& commands) {
  const auto options = std::make_shared<CompileArguments>();
  CLI::App* compile = app.add_subcommand(
      "compile", "Compile a graph's kernels; write their text, code and figures");
  AddGraphArgument(*compile, &options->graph);
  compile->add_option("--arch", options->arch, "Architecture or device: sm_90a, h200, sm_80, ...")
      ->capture_default_str()
      ->type_name("ARCH");
  compile
      ->add_option("-o,--output", options->directory,
                   "Folder for the files; made if it is not there")
      ->check(CheckNamed)
      ->capture_default_str()
      ->type_name("DIR");
  AddSetOption(*compile, &options->settings, "Others get 1024, within their ranges.");
  compile->add_flag("--no-cache", options->no_cache, "Compile even what the cache on disk has");
  AddAnyOrderOption(*compile, &options->any_order);
  AddNoTunedOption(*compile, &options->no_tuned);
  AddNarrowOption(*compile, &options->narrow_edges)
      ->excludes(AddLoadOption(*compile, "--segmentation", &options->segmentation));
  compile->footer(
      "Schedules depend on sizes, so kernels are compiled for the sizes given; their guards, "
      "listed in the\n"
      "report, say which others they serve. Files: report.json, report.txt, group_N.seam (the "
      "group as a\n"
      "graph), and per kernel NAME.kir (kernel IR), NAME.cu (CUDA C++), NAME.cubin. Needs NVRTC, "
      "no GPU.\n\n"
      "Examples:\n"
      "  seam compile layer_norm --arch sm_90a -o out\n"
      "  seam compile rms_norm --arch a100 --set M=4096,N=5120 -o out --no-cache");
  commands.push_back({compile, [options] { return Run(*options); }});
}

}  // namespace seam::tool
