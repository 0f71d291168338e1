// seam run: runs a graph on random inputs and holds every output against the reference interpreter.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/reference/envelope.h"
#include "ir/reference/interpreter.h"
#include "ir/status.h"
#include "runtime/executable.h"
#include "tools/seam_command.h"
#include "tools/seam_cut.h"

namespace seam::tool {
namespace {

struct Options {
  std::string graph, segmentation, backend = "auto", device;
  std::vector<std::string> settings;
  Narrowing narrow_edges = Narrowing::kExact;
  uint64_t seed = 1;
  bool check = false;
};

// Small, odd, and no two symbols alike: what confuses two axes or forgets a remainder shows.
int64_t SmallOddSize(int position) { return 3 + 2 * (position % 15); }

// Random values; integers that may be indices are small and not negative.
absl::StatusOr<std::vector<HostTensor>> RandomInputs(const Fusion& fusion, const SizeBinding& sizes,
                                                     uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (ValId v : fusion.inputs()) {
    SEAM_ASSIGN_OR_RETURN(const Tensor type, TensorFor(fusion, v, sizes));
    SEAM_ASSIGN_OR_RETURN(HostTensor input,
                          HostTensor::MakeStrided(type.dtype, type.sizes, type.strides));
    const uint64_t input_seed = seed * 1000003 + inputs.size();
    if (type.dtype == DType::I64 || type.dtype == DType::I32) {
      FillRandomIntegers(input, input_seed, 0, 4);
    } else {
      FillRandom(input, input_seed);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string Number(double value) {
  return std::isinf(value) ? "differs in NaN or infinity"
         : value == 0      ? "0"
                           : absl::StrFormat("%.3g", value);
}

// One line per output. Returns whether all checks that were asked for passed.
absl::StatusOr<bool> Compare(const Fusion& fusion, const Options& options,
                             absl::Span<const SymbolValue> symbols,
                             absl::Span<const HostTensor> inputs,
                             absl::Span<const HostTensor> actual) {
  SymbolBindings bindings;
  for (const SymbolValue& symbol : symbols) bindings.emplace(symbol.name, symbol.value);
  SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> expected,
                        Interpret(fusion, bindings, inputs));
  std::vector<Envelope> envelopes;
  if (options.check) {
    SEAM_ASSIGN_OR_RETURN(envelopes, MakeEnvelopes(fusion, bindings, inputs));
  }
  size_t width = 6;
  for (ValId v : fusion.outputs()) width = std::max(width, fusion.name(v).size());
  std::string text = absl::StrFormat("  %-*s  %-24s %12s %12s %12s\n", static_cast<int>(width),
                                     "output", "type", "ulps", "relative", "absolute");
  bool good = true;
  for (size_t j = 0; j < actual.size(); ++j) {
    SEAM_ASSIGN_OR_RETURN(const TensorError error, CompareTensors(expected[j], actual[j]));
    absl::StrAppendFormat(&text, "  %-*s  %-24s ", static_cast<int>(width),
                          std::string(fusion.name(fusion.outputs()[j])), actual[j].ShapeString());
    if (std::isinf(error.max_ulps)) {
      absl::StrAppendFormat(&text, "%38s", "differs in a NaN or an infinity");
    } else {
      absl::StrAppendFormat(&text, "%12s %12s %12s", Number(error.max_ulps),
                            Number(error.max_relative), Number(error.max_absolute));
    }
    if (options.check) {
      const absl::Status within = CheckWithin(envelopes[j], actual[j]);
      good &= within.ok();
      absl::StrAppend(&text, "  ",
                      within.ok()
                          ? Coloured(Colour::kGreen, "ok")
                          : absl::StrCat(Coloured(Colour::kRed, "FAIL"), "  ", within.message()));
    }
    absl::StrAppend(&text, "\n");
  }
  SEAM_RETURN_IF_ERROR(WriteOutput("", text));
  return good;
}

int Run(const Options& options) {
  absl::StatusOr<Fusion> fusion = LoadGraph(options.graph);
  if (!fusion.ok()) return Fail(kBadGraph, fusion.status().message());
  Sizes sizes;
  if (const int code = ParseSizes(*fusion, options.settings, &sizes); code != kGood) return code;
  FillSizes(*fusion, SmallOddSize, &sizes);
  const std::vector<SymbolValue> symbols = SymbolsOf(sizes);

  CompileOptions compile;
  for (BackendKind kind : {BackendKind::kReference, BackendKind::kSimulator, BackendKind::kCuda}) {
    if (options.backend == BackendName(kind)) compile.backend = kind;
  }
  compile.device = options.device;
  compile.size_hints = symbols;
  compile.narrow_edges = options.narrow_edges;
  compile.progress = [](int done, int total) {
    ShowProgress(absl::StrCat("compiled ", done, " of ", total, " kernels"));
  };
  if (const int code = ReadSegmentation(options.segmentation, &compile); code != kGood) return code;
  ShowProgress("segmenting and compiling");
  const absl::StatusOr<Executable> executable = Compile(*std::move(fusion), compile);
  if (!executable.ok()) return Fail(executable.status());
  const absl::StatusOr<SizeBinding> binding = BindGiven(executable->fusion(), symbols);
  if (!binding.ok()) return Fail(binding.status());
  const absl::StatusOr<std::vector<HostTensor>> inputs =
      RandomInputs(executable->fusion(), *binding, options.seed);
  if (!inputs.ok()) return Fail(inputs.status());
  ShowProgress(absl::StrCat("running on the backend ", BackendName(executable->backend())));
  const absl::StatusOr<std::vector<HostTensor>> outputs = executable->RunOnHost(*inputs, symbols);
  if (!outputs.ok()) return Fail(outputs.status());

  const absl::StatusOr<std::vector<GroupReport>> groups = executable->CompileFor(symbols);
  if (!groups.ok()) return Fail(groups.status());
  size_t kernels = 0;
  for (const GroupReport& group : *groups) kernels += group.kernels.size();
  const std::string header =
      absl::StrCat(Coloured(Colour::kBold, std::string(executable->fusion().name())),
                   " on the backend ", BackendName(executable->backend()),
                   sizes.empty() ? "" : absl::StrCat(" with ", binding->ToString()), ": ",
                   groups->size(), groups->size() == 1 ? " group, " : " groups, ", kernels,
                   kernels == 1 ? " kernel\n" : " kernels\n");
  if (absl::Status status = WriteOutput("", header); !status.ok()) return Fail(status);
  ShowProgress("comparing with the reference");
  const absl::StatusOr<bool> good =
      Compare(executable->rounded_fusion(), options, symbols, *inputs, *outputs);
  if (!good.ok()) return Fail(good.status());
  return *good ? kGood : Fail(kCheckFailed, "an output is outside the range of correct results");
}

}  // namespace

void AddRunCommand(CLI::App& app, std::vector<Command>& commands) {
  const auto options = std::make_shared<Options>();
  CLI::App* run =
      app.add_subcommand("run", "Run a graph on random inputs and compare with the reference");
  AddGraphArgument(*run, &options->graph);
  run->add_option("--backend", options->backend,
                  "reference (interpreter), simulator (the kernels on the CPU), cuda; auto takes a "
                  "GPU where there is one")
      ->check(CLI::IsMember({"reference", "simulator", "cuda", "auto"}))
      ->capture_default_str()
      ->type_name("");
  AddSetOption(*run, &options->settings,
               "Others get the small odd sizes 3, 5, 7, ... within their ranges.");
  run->add_option("--device", options->device,
                  "Schedule for this device or architecture instead of the GPU at hand")
      ->type_name("NAME");
  run->add_option("--seed", options->seed, "Of the random inputs")
      ->capture_default_str()
      ->type_name("N");
  run->add_flag("--check", options->check,
                "Exit with 1 unless every element is one that a correct backend may give");
  AddNarrowOption(*run, &options->narrow_edges)
      ->excludes(AddLoadOption(*run, "--segmentation", &options->segmentation));
  run->footer(
      "Inputs are normally distributed floats; integers of 32 and 64 bits, which may be indices, "
      "are 0 to 4.\n"
      "Shown per output: the largest error against the reference, which computes in double, in "
      "units of the\n"
      "last place of the output's type, relative and absolute. --check compares with the range of "
      "results\n"
      "that the errors allowed to every operation lead to; a graph without such errors must agree "
      "exactly.\n"
      "The reference rounds as well what --narrow-edges rounds.\n\n"
      "Examples:\n"
      "  seam run layer_norm --check\n"
      "  seam run layer_norm --set M=64,N=4099 --backend simulator --check\n"
      "  seam segment rope --format json -o cut.json; seam run rope --segmentation cut.json "
      "--check\n"
      "  seam run examples/softmax.seam --backend cuda --set B=128,Q=1024,K=1024 --seed 7");
  commands.push_back({run, [options] { return Run(*options); }});
}

}  // namespace seam::tool
