// seam run: runs a graph on random inputs or on those of files and holds every output against the
// reference interpreter.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/reference/envelope.h"
#include "ir/reference/interpreter.h"
#include "ir/status.h"
#include "runtime/executable.h"
#include "runtime/random_inputs.h"
#include "tools/npy.h"
#include "tools/seam_command.h"
#include "tools/seam_cut.h"

namespace seam::tool {
namespace {

struct RunArguments {
  std::string graph, segmentation, backend = "auto", device;
  std::string output_directory;
  std::vector<std::string> settings, inputs;
  Narrowing narrow_edges = Narrowing::kExact;
  uint64_t seed = 1;
  int64_t offset = 0;
  int repeat = 0;
  bool check = false, no_reference = false, no_tuned = false, any_order = false;
};

// Small, odd, and no two symbols alike: what confuses two axes or forgets a remainder shows.
int64_t SmallOddSize(int position) { return 3 + 2 * (position % 15); }

// Inputs from files, by position among the graph's.
using GivenInputs = std::map<size_t, HostTensor>;

// Reads the files of `settings`, each "NAME=FILE". On an error prints it and gives the exit code.
int ReadInputs(const Fusion& fusion, const std::vector<std::string>& settings, GivenInputs* given) {
  for (const std::string& setting : settings) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(setting, absl::MaxSplits('=', 1));
    const auto& [name, path] = parts;
    if (name.empty() || path.empty()) {
      return Fail(kWrongUsage, absl::StrCat("--input: found '", setting,
                                            "', expected NAME=FILE, as in --input x=x.npy"));
    }
    std::vector<std::string> known;
    for (ValId v : fusion.inputs()) known.emplace_back(fusion.name(v));
    const size_t i = std::find(known.begin(), known.end(), name) - known.begin();
    if (i == known.size()) {
      return Fail(kWrongUsage,
                  absl::StrCat("--input: ", std::string(fusion.name()), " has no input '", name,
                               "'; its inputs are ", absl::StrJoin(known, ", ")));
    }
    absl::StatusOr<HostTensor> tensor = ReadNpy(path, fusion.dtype(fusion.inputs()[i]));
    if (absl::IsNotFound(tensor.status())) return Fail(tensor.status());
    if (!tensor.ok())
      return Fail(kBadGraph,
                  absl::StrCat("input ", name, ": ", path, ": ", tensor.status().message()));
    if (!given->emplace(i, *std::move(tensor)).second)
      return Fail(kWrongUsage, absl::StrCat("--input: ", name, " is given twice"));
  }
  return kGood;
}

// Gives every symbol without a size that is the extent of an axis of a given input that axis' size.
void FillSizesFrom(const Fusion& fusion, const GivenInputs& given, Sizes* sizes) {
  for (const auto& [i, tensor] : given) {
    const ValId v = fusion.inputs()[i];
    if (static_cast<int>(tensor.shape.size()) != fusion.rank(v)) continue;
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const SymInt extent = fusion.domain(v)[axis].extent;
      if (!extent.is_constant() && extent.node()->kind == SymKind::Symbol)
        sizes->emplace(std::string(extent.node()->name), tensor.shape[axis]);
    }
  }
}

// Of one shape and type, bit by bit.
bool SameElements(const HostTensor& a, const HostTensor& b) {
  const std::vector<Scalar> left = a.ToScalars(), right = b.ToScalars();
  return absl::c_equal(left, right, [&](Scalar x, Scalar y) {
    return EncodeBits(a.dtype, x) == EncodeBits(a.dtype, y);
  });
}

// The given ones, the others random. `known` are the sizes that are not made up.
absl::StatusOr<std::vector<HostTensor>> MakeInputs(const Fusion& fusion, const SizeBinding& sizes,
                                                   const Sizes& known, GivenInputs given,
                                                   uint64_t seed) {
  SEAM_ASSIGN_OR_RETURN(std::vector<HostTensor> inputs, RandomInputs(fusion, sizes, seed));
  for (auto& [i, tensor] : given) {
    const ValId v = fusion.inputs()[i];
    const std::string what = absl::StrCat("input ", std::string(fusion.name(v)), ": the file ");
    if (tensor.shape != inputs[i].shape) {
      // Sizes that nobody asked for say nothing.
      Sizes used;
      bool all_known = true;
      for (const IterDomain& axis : fusion.domain(v)) {
        for (const SymNode* symbol : FreeSymbols(axis.extent)) {
          const auto it = known.find(std::string(symbol->name));
          all_known &= it != known.end();
          if (it != known.end()) used.insert(*it);
        }
      }
      return absl::InvalidArgumentError(absl::StrCat(
          what, "has ", tensor.ShapeString(), ", expected ",
          all_known ? inputs[i].ShapeString() : fusion.type(v).ToString(),
          used.empty() ? "" : " at ", absl::StrJoin(used, ", ", absl::PairFormatter(" = "))));
    }
    SEAM_RETURN_IF_ERROR(CopyElements(ViewOf(tensor), ViewOf(inputs[i])));
    if (fusion.has_explicit_strides(v) && !SameElements(tensor, inputs[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, "has several values for one place: by its strides [",
                       absl::StrJoin(inputs[i].strides, ", "), "] elements overlap in memory"));
    }
  }
  return inputs;
}

absl::Status WriteOutputs(const Fusion& fusion, const std::string& directory,
                          absl::Span<const HostTensor> outputs) {
  SEAM_RETURN_IF_ERROR(MakeDirectories(directory));
  for (size_t j = 0; j < outputs.size(); ++j) {
    SEAM_ASSIGN_OR_RETURN(const std::string content, FormatNpy(outputs[j]));
    const std::string name(fusion.name(fusion.outputs()[j]));
    SEAM_RETURN_IF_ERROR(WriteOutput(absl::StrCat(directory, "/", name, ".npy"), content));
  }
  return absl::OkStatus();
}

// "[0, 5]: 0x3f800001, before 0x3f800000", of the first element that differs in a bit; empty where
// none does.
std::string FirstDifference(const HostTensor& before, const HostTensor& now) {
  if (before.data == now.data) return "";
  const size_t bytes = static_cast<size_t>(DTypeBytes(now.dtype));
  const auto bits = [&](const HostTensor& tensor, int64_t offset) {
    uint64_t value = 0;
    std::memcpy(&value, tensor.data.data() + offset * bytes, bytes);
    return value;
  };
  std::vector<int64_t> index(now.shape.size());
  for (int64_t position = 0; position < now.numel(); ++position) {
    int64_t rest = position, offset = 0;
    for (size_t axis = index.size(); axis-- > 0; rest /= now.shape[axis]) {
      index[axis] = rest % now.shape[axis];
      offset += index[axis] * now.strides[axis];
    }
    if (bits(before, offset) == bits(now, offset)) continue;
    return absl::StrFormat("[%s]: 0x%0*x, before 0x%0*x", absl::StrJoin(index, ", "),
                           static_cast<int>(2 * bytes), bits(now, offset),
                           static_cast<int>(2 * bytes), bits(before, offset));
  }
  return "";  // They differ between the elements.
}

// Runs again, into memory with other bytes each time. Returns the differences, a line an output.
absl::StatusOr<std::string> Repeat(const Executable& executable, const RunArguments& options,
                                   absl::Span<const SymbolValue> symbols,
                                   absl::Span<const HostTensor> inputs,
                                   absl::Span<const HostTensor> first) {
  std::vector<std::string> differences(first.size());
  for (int run = 1; run <= options.repeat; ++run) {
    ShowProgress(absl::StrCat("run ", run, " of ", options.repeat));
    HostPlacement placement;
    placement.offset = options.offset;
    placement.fill = static_cast<uint8_t>(255 - 37 * run);
    SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs,
                          executable.RunOnHost(inputs, symbols, placement));
    executable.ReleaseMemory();  // Of the stream, which is gone.
    for (size_t j = 0; j < outputs.size(); ++j) {
      if (!differences[j].empty()) continue;
      const std::string difference = FirstDifference(first[j], outputs[j]);
      if (difference.empty()) continue;
      const Fusion& fusion = executable.fusion();
      differences[j] = absl::StrCat("  ", std::string(fusion.name(fusion.outputs()[j])),
                                    " differs in run ", run, " at ", difference, "\n");
    }
  }
  return absl::StrJoin(differences, "");
}

std::string Number(double value) {
  return std::isinf(value) ? "differs in NaN or infinity"
         : value == 0      ? "0"
                           : absl::StrFormat("%.3g", value);
}

// One line per output. Returns whether all checks that were asked for passed.
absl::StatusOr<bool> Compare(const Fusion& fusion, const RunArguments& options,
                             absl::Span<const SymbolValue> symbols,
                             absl::Span<const HostTensor> inputs,
                             absl::Span<const HostTensor> actual) {
  SymbolBindings bindings;
  for (const SymbolValue& symbol : symbols) bindings.emplace(symbol.name, symbol.value);
  SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> expected,
                        Interpret(fusion, bindings, inputs));
  std::vector<absl::Status> checked;
  if (options.check) {
    SEAM_ASSIGN_OR_RETURN(std::vector<Envelope> envelopes, MakeEnvelopes(fusion, bindings, inputs));
    SEAM_ASSIGN_OR_RETURN(checked, CheckOutputs(fusion, bindings, inputs, actual, envelopes));
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
      const absl::Status& within = checked[j];
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

int Run(const RunArguments& options) {
  absl::StatusOr<Fusion> fusion = LoadGraph(options.graph);
  if (!fusion.ok()) return Fail(kBadGraph, fusion.status().message());
  if (options.check && fusion->outputs().empty()) {
    return Fail(kBadGraph, absl::StrCat("--check: ", std::string(fusion->name()),
                                        " has no output: nothing would be checked"));
  }
  Sizes sizes;
  if (const int code = ParseSizes(*fusion, options.settings, &sizes); code != kGood) return code;
  GivenInputs given;
  if (const int code = ReadInputs(*fusion, options.inputs, &given); code != kGood) return code;
  FillSizesFrom(*fusion, given, &sizes);
  const Sizes known = sizes;
  FillSizes(*fusion, SmallOddSize, &sizes);
  const std::vector<SymbolValue> symbols = SymbolsOf(sizes);

  if (!options.device.empty()) {
    if (absl::StatusOr<DeviceInfo> device = FindDevice(options.device); !device.ok())
      return Fail(kWrongUsage, absl::StrCat("--device: ", device.status().message()));
  }
  CompileOptions compile;
  for (BackendKind kind : {BackendKind::kReference, BackendKind::kSimulator, BackendKind::kCuda}) {
    if (options.backend == BackendName(kind)) compile.backend = kind;
  }
  compile.device = options.device;
  compile.size_hints = symbols;
  compile.use_tuned = !options.no_tuned;
  compile.any_order = options.any_order;
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
      MakeInputs(executable->fusion(), *binding, known, std::move(given), options.seed);
  if (!inputs.ok()) return Fail(inputs.status());
  ShowProgress(absl::StrCat("running on the backend ", BackendName(executable->backend())));
  HostPlacement placement;
  placement.offset = options.offset;
  const absl::StatusOr<std::vector<HostTensor>> outputs =
      executable->RunOnHost(*inputs, symbols, placement);
  if (!outputs.ok()) return Fail(outputs.status());
  if (!options.output_directory.empty()) {
    const absl::Status written =
        WriteOutputs(executable->fusion(), options.output_directory, *outputs);
    if (!written.ok()) return Fail(written);
  }

  const absl::StatusOr<std::vector<GroupReport>> groups = executable->CompileFor(symbols);
  if (!groups.ok()) return Fail(groups.status());
  WarnOfCaches(*executable);
  size_t kernels = 0;
  for (const GroupReport& group : *groups) kernels += group.kernels.size();
  const std::string header =
      absl::StrCat(Coloured(Colour::kBold, std::string(executable->fusion().name())),
                   " on the backend ", BackendName(executable->backend()),
                   sizes.empty() ? "" : absl::StrCat(" with ", binding->ToString()), ": ",
                   groups->size(), groups->size() == 1 ? " group, " : " groups, ", kernels,
                   kernels == 1 ? " kernel\n" : " kernels\n");
  if (absl::Status status = WriteOutput("", header); !status.ok()) return Fail(status);
  if (options.repeat > 0) {
    const absl::StatusOr<std::string> differences =
        Repeat(*executable, options, symbols, *inputs, *outputs);
    if (!differences.ok()) return Fail(differences.status());
    if (!differences->empty()) {
      if (absl::Status status = WriteOutput("", *differences); !status.ok()) return Fail(status);
      return Fail(kCheckFailed, "runs on the same inputs differ");
    }
    const std::string same = absl::StrCat("  ", options.repeat, " more runs: the same bits\n");
    if (absl::Status status = WriteOutput("", same); !status.ok()) return Fail(status);
  }
  if (options.no_reference) return kGood;
  ShowProgress("comparing with the reference");
  const absl::StatusOr<bool> good =
      Compare(executable->rounded_fusion(), options, symbols, *inputs, *outputs);
  if (!good.ok()) return Fail(good.status());
  return *good ? kGood : Fail(kCheckFailed, "an output is outside the range of correct results");
}

}  // namespace

void AddRunCommand(CLI::App& app, std::vector<Command>& commands) {
  const auto options = std::make_shared<RunArguments>();
  CLI::App* run = app.add_subcommand(
      "run", "Run a graph on random or given inputs and compare with the reference");
  AddGraphArgument(*run, &options->graph);
  run->add_option("--backend", options->backend,
                  "reference (interpreter), simulator (the kernels on the CPU), cuda; auto takes a "
                  "GPU where there is one")
      ->check(CLI::IsMember({"reference", "simulator", "cuda", "auto"}))
      ->capture_default_str()
      ->type_name("");
  AddSetOption(*run, &options->settings,
               "Others get the small odd sizes 3, 5, 7, ... within their ranges; strides leave no "
               "gaps.");
  run->add_option("--device", options->device,
                  "Schedule for this device or architecture instead of the GPU at hand")
      ->type_name("NAME");
  run->add_option("--seed", options->seed, "Of the random inputs")
      ->check([](const std::string& text) -> std::string {
        uint64_t seed;
        return absl::SimpleAtoi(text, &seed) ? "" : "expected an integer from 0 to 2^64 - 1";
      })
      ->capture_default_str()
      ->type_name("N");
  run->add_option("--input", options->inputs,
                  "Read this input from a file of NumPy's; symbols that are its extents get its "
                  "sizes. Once per input")
      ->allow_extra_args(false)
      ->type_name("NAME=FILE.npy");
  run->add_option("--output-dir", options->output_directory,
                  "Write every output to this folder as NAME.npy; bf16 and f8 are '<V2' and '|V1'")
      ->check(CheckNamed)
      ->type_name("DIR");
  run->add_option("--offset", options->offset,
                  "Let every tensor start this many elements behind an aligned address")
      ->check(IntegerFrom(0, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  run->add_option("--repeat", options->repeat,
                  "Run this many times more, each into memory with other bytes; exit with 1 unless "
                  "every bit is the same")
      ->check(IntegerFrom(0, 1000000))
      ->capture_default_str()
      ->type_name("N");
  CLI::Option* check =
      run->add_flag("--check", options->check,
                    "Exit with 1 unless every element is one that a correct backend may give");
  run->add_flag("--no-reference", options->no_reference,
                "Compute no reference, which takes long for large sizes")
      ->excludes(check);
  AddAnyOrderOption(*run, &options->any_order);
  AddNoTunedOption(*run, &options->no_tuned);
  AddNarrowOption(*run, &options->narrow_edges)
      ->excludes(AddLoadOption(*run, "--segmentation", &options->segmentation));
  run->footer(
      "Inputs without a file are normally distributed floats; integers of 32 and 64 bits, which "
      "may be\n"
      "indices, are 0 to 4.\n"
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
      "  seam run softmax --input scores=s.npy --output-dir out --repeat 100\n"
      "  seam segment rope --format json -o cut.json; seam run rope --segmentation cut.json "
      "--check\n"
      "  seam run examples/softmax.seam --backend cuda --set B=128,Q=1024,K=1024 --seed 7");
  commands.push_back({run, [options] { return Run(*options); }});
}

}  // namespace seam::tool
