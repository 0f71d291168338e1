// seam bench: times a graph on the GPU beside a copy kernel that moves the same bytes.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/cuda/driver.h"
#include "runtime/executable.h"
#include "runtime/gpu_bench.h"
#include "runtime/tune.h"
#include "tools/seam_command.h"
#include "tools/seam_cut.h"

namespace seam::tool {
namespace {

struct BenchArguments {
  Narrowing narrow_edges = Narrowing::kExact;
  std::string graph, json;
  std::vector<std::string> settings;
  uint64_t seed = 1;
  int repetitions = 15;
  bool tune = false, no_tuned = false, any_order = false;
  double tune_seconds = 60;
};

nlohmann::ordered_json ToJson(const BenchTimes& times) {
  return {{"median_us", times.median_us}, {"min_us", times.min_us}, {"max_us", times.max_us}};
}

// Tunes every group and prints what came of it.
int TuneGraph(const BenchArguments& options, const Executable& executable,
              absl::Span<const SymbolValue> symbols, nlohmann::ordered_json* json) {
  const std::unique_ptr<TunedSchedules> store = TunedSchedules::FromEnvironment();
  TuneOptions tune;
  tune.seconds = options.tune_seconds;
  tune.seed = options.seed;
  tune.store = store.get();
  tune.progress = [](const std::string& what) { ShowProgress(what); };
  const absl::StatusOr<TuneResult> result = Tune(executable, symbols, tune);
  if (!result.ok()) return Fail(result.status());
  std::string text = TuneText(*result);
  if (!store->warning().empty()) absl::StrAppend(&text, store->warning(), "\n");
  *json = nlohmann::ordered_json::parse(TuneJson(*result));
  const absl::Status status = WriteOutput("", text);
  return status.ok() ? kGood : Fail(status);
}

int Run(const BenchArguments& options) {
  absl::StatusOr<Fusion> fusion = LoadGraph(options.graph);
  if (!fusion.ok()) return Fail(kBadGraph, fusion.status().message());
  Sizes sizes;
  if (const int code = ParseSizes(*fusion, options.settings, &sizes); code != kGood) return code;
  FillSizes(*fusion, HintedSize, &sizes);
  CompileOptions compile;
  compile.backend = BackendKind::kCuda;
  compile.use_tuned = !options.no_tuned;
  compile.any_order = options.any_order;
  compile.size_hints = SymbolsOf(sizes);
  compile.narrow_edges = options.narrow_edges;
  compile.progress = [](int done, int total) {
    ShowProgress(absl::StrCat("compiled ", done, " of ", total, " kernels"));
  };
  ShowProgress("segmenting and compiling");
  absl::StatusOr<Executable> executable = Compile(*std::move(fusion), compile);
  if (!executable.ok()) return Fail(executable.status());
  nlohmann::ordered_json tuned;
  if (options.tune) {
    if (const int code = TuneGraph(options, *executable, compile.size_hints, &tuned); code != kGood)
      return code;
    // What is timed now has the winners.
    absl::StatusOr<Fusion> again = LoadGraph(options.graph);
    if (!again.ok()) return Fail(kBadGraph, again.status().message());
    executable = Compile(*std::move(again), compile);
    if (!executable.ok()) return Fail(executable.status());
  }
  BenchOptions bench;
  bench.seed = options.seed;
  bench.repetitions = options.repetitions;
  bench.progress = [](int done, int total) {
    ShowProgress(absl::StrCat("timed ", done, " of ", total, " repetitions"));
  };
  const absl::StatusOr<BenchResult> result = BenchOnGpu(*executable, compile.size_hints, bench);
  if (!result.ok()) return Fail(result.status());
  WarnOfCaches(*executable);

  const std::string device = executable->cuda_device()->properties().name;
  const std::string name(executable->fusion().name());
  std::string text = absl::StrCat(Coloured(Colour::kBold, name), " on ", device);
  for (const auto& [symbol, value] : sizes) absl::StrAppend(&text, ", ", symbol, " = ", value);
  const auto line = [&](const char* what, const BenchTimes& times) {
    absl::StrAppendFormat(&text, "  %-8s median %10.2f us   min %10.2f   max %10.2f   %8.1f GB/s\n",
                          what, times.median_us, times.min_us, times.max_us,
                          static_cast<double>(result->bytes) / times.median_us * 1e-3);
  };
  absl::StrAppend(&text, "\n");
  line("graph", result->times);
  line("copy", result->copy);
  absl::StrAppendFormat(
      &text,
      "  %.1f%% of the copy kernel's speed; %d bytes; %d kernel%s; %.2f us of the host a call\n",
      100 * result->fraction_of_copy, result->bytes, result->kernels,
      result->kernels == 1 ? "" : "s", result->host_us);
  if (!result->cold)
    absl::StrAppend(&text, "  The tensors are so small that they stay in the L2 cache.\n");
  if (absl::Status status = WriteOutput("", text); !status.ok()) return Fail(status);
  if (options.json.empty()) return kGood;
  nlohmann::ordered_json json = {{"graph", name},
                                 {"device", device},
                                 {"sizes", sizes},
                                 {"median_us", result->times.median_us},
                                 {"min_us", result->times.min_us},
                                 {"max_us", result->times.max_us},
                                 {"bytes", result->bytes},
                                 {"gb_per_s", result->bytes_per_second * 1e-9},
                                 {"fraction_of_copy", result->fraction_of_copy},
                                 {"copy", ToJson(result->copy)},
                                 {"host_us", result->host_us},
                                 {"kernels", result->kernels},
                                 {"calls", result->calls},
                                 {"repetitions", options.repetitions},
                                 {"buffer_sets", result->buffer_sets},
                                 {"cold", result->cold}};
  if (options.tune) json["tuned"] = std::move(tuned);
  const absl::Status status = WriteOutput(options.json, json.dump(2) + "\n");
  return status.ok() ? kGood : Fail(status);
}

}  // namespace

void AddBenchCommand(CLI::App& app, std::vector<Command>& commands) {
  const auto options = std::make_shared<BenchArguments>();
  CLI::App* bench = app.add_subcommand("bench", "Time a graph on the GPU beside a copy kernel");
  AddGraphArgument(*bench, &options->graph);
  AddSetOption(*bench, &options->settings, "Others get 1024, within their ranges.");
  AddNarrowOption(*bench, &options->narrow_edges);
  bench->add_option("--json", options->json, "Write the figures to this file as well")
      ->check(CheckNamed)
      ->type_name("FILE");
  bench->add_option("--seed", options->seed, "Of the random inputs")
      ->capture_default_str()
      ->type_name("N");
  bench->add_option("--repetitions", options->repetitions, "Timed repetitions of many calls each")
      ->check(IntegerFrom(1, 100000))
      ->capture_default_str()
      ->type_name("N");
  AddAnyOrderOption(*bench, &options->any_order);
  CLI::Option* tune =
      bench->add_flag("--tune", options->tune,
                      "First time the alternatives to every group's schedule; later runs use the "
                      "fastest");
  AddNoTunedOption(*bench, &options->no_tuned)->excludes(tune);
  bench
      ->add_option("--tune-seconds", options->tune_seconds,
                   "Time for that; what is left is untried")
      ->check([](const std::string& text) -> std::string {
        double seconds = 0;
        const bool is_time =
            absl::SimpleAtod(text, &seconds) && std::isfinite(seconds) && seconds > 0;
        return is_time ? "" : absl::StrCat("found ", text, ", expected seconds, more than 0");
      })
      ->needs(tune)
      ->capture_default_str()
      ->type_name("S");
  bench->footer(
      "Calls run back to back between two events, each on other memory than the one before, in "
      "turn through\n"
      "more than the L2 cache holds. Bytes are those of inputs and outputs, each once. The copy "
      "kernel moves\n"
      "as many in the same run. Needs a GPU.\n\n"
      "--tune compiles up to 60 other schedules for each group, checks each against the reference "
      "and times\n"
      "it the same way, on the group alone. The winner is kept on disk beside the compiled kernels "
      "($SEAM_CACHE_DIR,\n"
      "else ~/.cache/seam), for these sizes, this alignment and this GPU: compile, run and "
      "programs "
      "use it\n"
      "from then on.\n\n"
      "Examples:\n"
      "  seam bench layer_norm --set M=65536,N=4096\n"
      "  seam bench softmax --set B=512,Q=1024,K=1024 --json softmax.json\n"
      "  seam bench layer_norm --set M=65536,N=4099 --tune --tune-seconds 120");
  commands.push_back({bench, [options] { return Run(*options); }});
}

}  // namespace seam::tool
