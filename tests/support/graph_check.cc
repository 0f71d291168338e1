#include "tests/support/graph_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/reference/envelope.h"
#include "ir/reference/interpreter.h"
#include "ir/status.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "runtime/cuda/driver.h"
#include "runtime/size_binding.h"
#include "scheduler/scheduler.h"
#include "segmenter/dump.h"
#include "segmenter/segment.h"
#include "tests/support/dice.h"

namespace seam::testing {
namespace {

using Symbols = std::vector<SymbolValue>;

std::string Describe(const Symbols& symbols) {
  return absl::StrJoin(symbols, ", ", [](std::string* text, const SymbolValue& s) {
    absl::StrAppend(text, s.name, " = ", s.value);
  });
}

// A few of the values that arithmetic treats apart.
void PlantSpecialValues(HostTensor& tensor, Dice& dice) {
  if (!IsFloat(tensor.dtype) || tensor.numel() == 0) return;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {infinity, -infinity, std::nan(""), -0.0,
                                       0.0,      1e30,      -1e-30,       65504};
  std::vector<Scalar> values = tensor.ToScalars();
  for (int i = 0; i < 3; ++i) {
    values[dice.Next() % values.size()] = FloatScalar(RoundToDType(tensor.dtype, dice.Of(special)));
  }
  tensor.FromScalars(values);
}

absl::StatusOr<std::vector<HostTensor>> MakeInputs(const Fusion& fusion, const SizeBinding& sizes,
                                                   uint64_t seed) {
  Dice dice(seed);
  const bool special = dice.Chance(0.15);
  std::vector<HostTensor> inputs;
  for (ValId v : fusion.inputs()) {
    SEAM_ASSIGN_OR_RETURN(const Tensor type, TensorFor(fusion, v, sizes));
    SEAM_ASSIGN_OR_RETURN(HostTensor input,
                          HostTensor::MakeStrided(type.dtype, type.sizes, type.strides));
    bool indexes = false;
    for (ExprId e : fusion.uses(v)) {
      indexes |= fusion.info(e).op_class == OpClass::Indexing && fusion.operands(e)[1] == v;
    }
    if (indexes) {
      FillRandomIntegers(input, dice.Next(), -3, 12);
    } else {
      FillRandom(input, dice.Next());
    }
    if (special) PlantSpecialValues(input, dice);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Memory of an Executable's backend, filled from the host and read back to it.
class Memory {
 public:
  explicit Memory(const Executable& executable) : executable_(executable) {}
  ~Memory() {
    if (stream_) (void)stream_->Synchronize();
    for (void* p : allocated_) executable_.allocator().Free(p, handle());
    if (stream_) (void)stream_->Synchronize();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  absl::Status Open() {
    if (executable_.cuda_device() == nullptr) return absl::OkStatus();
    SEAM_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::Create(executable_.cuda_device()));
    stream_.emplace(std::move(stream));
    return absl::OkStatus();
  }
  StreamHandle handle() const { return stream_ ? stream_->handle() : nullptr; }

  // Room for `bytes`, `skipped_bytes` behind an address that is aligned for everything.
  absl::StatusOr<void*> Allocate(int64_t bytes, int64_t skipped_bytes) {
    SEAM_ASSIGN_OR_RETURN(void* p, executable_.allocator().Allocate(
                                       static_cast<size_t>(bytes + skipped_bytes + 1), handle()));
    Own(p);
    return static_cast<char*>(p) + skipped_bytes;
  }
  void Own(void* p) { allocated_.push_back(p); }

  absl::Status CopyIn(void* to, const void* from, size_t bytes) {
    if (stream_) return stream_->device().CopyToDevice(to, from, bytes, handle());
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<HostTensor> CopyOut(const Tensor& tensor) {
    SEAM_ASSIGN_OR_RETURN(const ElementSpan span, SpanOf(tensor.sizes, tensor.strides));
    const int64_t size = DTypeBytes(tensor.dtype);
    std::vector<char> bytes(static_cast<size_t>((span.end - span.lowest) * size));
    const char* from = static_cast<const char*>(tensor.data) + span.lowest * size;
    if (stream_) {
      SEAM_RETURN_IF_ERROR(
          stream_->device().CopyToHost(bytes.data(), from, bytes.size(), handle()));
      SEAM_RETURN_IF_ERROR(stream_->Synchronize());
    } else if (!bytes.empty()) {
      std::memcpy(bytes.data(), from, bytes.size());
    }
    Tensor copied = tensor;
    copied.data = bytes.data() - span.lowest * size;
    SEAM_ASSIGN_OR_RETURN(HostTensor host, HostTensor::Make(tensor.dtype, tensor.sizes));
    SEAM_RETURN_IF_ERROR(CopyElements(copied, ViewOf(host)));
    return host;
  }

 private:
  const Executable& executable_;
  std::optional<cuda::Stream> stream_;
  std::vector<void*> allocated_;
};

// One call. `dice` decides which tensors are off by an element and which outputs are brought.
absl::StatusOr<std::vector<HostTensor>> RunOnce(const Executable& executable,
                                                const std::vector<HostTensor>& inputs,
                                                const Symbols& symbols, Dice& dice) {
  Memory memory(executable);
  SEAM_RETURN_IF_ERROR(memory.Open());
  const bool misaligned = dice.Chance(0.3), bring = dice.Chance(0.5);
  const auto skipped_bytes = [&](DType dtype) -> int64_t {
    return misaligned && dice.Chance(0.6) ? DTypeBytes(dtype) * (1 + dice.Below(3)) : 0;
  };
  std::vector<Tensor> in;
  for (const HostTensor& input : inputs) {
    in.push_back(ViewOf(const_cast<HostTensor&>(input)));
    SEAM_ASSIGN_OR_RETURN(in.back().data, memory.Allocate(static_cast<int64_t>(input.data.size()),
                                                          skipped_bytes(input.dtype)));
    SEAM_RETURN_IF_ERROR(memory.CopyIn(in.back().data, input.data.data(), input.data.size()));
  }
  RunOptions options;
  options.symbols = symbols;
  options.stream = memory.handle();
  SEAM_ASSIGN_OR_RETURN(std::vector<Tensor> out, executable.InferOutputs(in, options));
  for (Tensor& output : out) {
    if (!bring && dice.Chance(0.8)) continue;
    SEAM_ASSIGN_OR_RETURN(const ElementSpan span, SpanOf(output.sizes, output.strides));
    SEAM_ASSIGN_OR_RETURN(output.data, memory.Allocate(span.end * DTypeBytes(output.dtype),
                                                       skipped_bytes(output.dtype)));
  }
  SEAM_RETURN_IF_ERROR(executable.Run(in, absl::MakeSpan(out), options));
  std::vector<HostTensor> results;
  for (Tensor& output : out) {
    if (output.allocation != nullptr) memory.Own(output.allocation);
    SEAM_ASSIGN_OR_RETURN(HostTensor result, memory.CopyOut(output));
    results.push_back(std::move(result));
  }
  return results;
}

absl::Status FirstWrong(const Fusion& fusion, const std::vector<absl::Status>& outputs) {
  for (size_t j = 0; j < outputs.size(); ++j) {
    if (outputs[j].ok()) continue;
    return absl::Status(outputs[j].code(),
                        absl::StrCat("output ", std::string(fusion.name(fusion.outputs()[j])), ": ",
                                     outputs[j].message()));
  }
  return absl::OkStatus();
}

absl::Status RunAndCompare(const Executable& executable, const Symbols& symbols, uint64_t seed) {
  const Fusion& fusion = executable.fusion();
  SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(fusion, symbols));
  SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> inputs, MakeInputs(fusion, binding, seed));
  Dice dice(seed + 1);
  SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs,
                        RunOnce(executable, inputs, symbols, dice));
  SymbolBindings bindings;
  for (const SymbolValue& s : symbols) bindings.emplace(s.name, s.value);
  const Fusion& rounded = executable.rounded_fusion();
  SEAM_ASSIGN_OR_RETURN(std::vector<Envelope> envelopes,
                        MakeEnvelopes(rounded, bindings, inputs, 12, seed));
  SEAM_ASSIGN_OR_RETURN(const std::vector<absl::Status> checked,
                        CheckOutputs(rounded, bindings, inputs, outputs, envelopes, seed));
  return FirstWrong(fusion, checked);
}

// The groups with their schedules, as far as they can be made.
std::string DescribePlan(const Executable& executable, const Symbols& symbols) {
  const auto reports = executable.CompileFor(symbols);
  if (!reports.ok()) return absl::StrCat("no plan: ", reports.status().message(), "\n");
  std::string text;
  for (const GroupReport& group : *reports) {
    absl::StrAppend(&text, "group ", group.group, ", ", SchedulerName(group.scheduler), ": ",
                    group.schedule, "\n", group.text, "\n");
  }
  return text;
}

// `graph` as it comes back from its text form.
absl::StatusOr<Fusion> PrintAndParse(const std::string& text) {
  SEAM_ASSIGN_OR_RETURN(Fusion fusion, ParseFusion(text));
  const std::string again = PrintFusion(fusion);
  if (again == text) return fusion;
  return absl::InternalError(absl::StrCat("what was parsed prints as\n", again));
}

// Both sets of sizes of an executable's graph, once where they are the same. The text form leaves
// out symbols that nothing mentions.
std::vector<Symbols> SizesOf(const RandomGraph& graph, const Executable& executable) {
  std::vector<Symbols> result;
  for (const RandomGraph::Sizes* sizes : {&graph.sizes, &graph.other_sizes}) {
    if (!result.empty() && graph.other_sizes == graph.sizes) break;
    Symbols& symbols = result.emplace_back();
    for (const SymNode* symbol : executable.fusion().env().symbols()) {
      const std::string name(symbol->name);
      symbols.push_back({name, sizes->at(name)});
    }
  }
  return result;
}

// Calls check(executable, symbols) for each set of sizes; the first error comes back with all there
// is to say.
template <typename Check>
absl::Status ForEachSizes(const RandomGraph& graph, const CompileOptions& options, Check check) {
  const std::string text = PrintFusion(graph.fusion);
  const auto explain = [&](const absl::Status& status, absl::string_view where,
                           absl::string_view plan) {
    return absl::Status(status.code(),
                        absl::StrCat(where, ": ", status.message(), "\n", text, "\n", plan));
  };
  absl::StatusOr<Fusion> fusion = PrintAndParse(text);
  if (!fusion.ok()) return explain(fusion.status(), "print and parse", "");
  const absl::StatusOr<Executable> executable = Compile(*std::move(fusion), options);
  if (!executable.ok()) return explain(executable.status(), "compile", "");
  if (executable->statistics().broken_promises > 0)
    return explain(absl::InternalError("no kernel can be made of an accepted group"), "compile",
                   "");
  for (const Symbols& symbols : SizesOf(graph, *executable)) {
    const absl::Status status = check(*executable, symbols);
    if (!status.ok()) {
      return explain(status, absl::StrCat("at ", Describe(symbols)),
                     DescribePlan(*executable, symbols));
    }
  }
  return absl::OkStatus();
}

// The text of a segmentation by fewer passes, of the graph as it comes back from its text form.
absl::StatusOr<std::string> SegmentedWithout(const Fusion& graph, const SegmentOptions& options) {
  SEAM_ASSIGN_OR_RETURN(const Fusion fusion, PrintAndParse(PrintFusion(graph)));
  SEAM_ASSIGN_OR_RETURN(const SegmentedFusion segmented, Segment(fusion, RealGuard(), options));
  SEAM_ASSIGN_OR_RETURN(const SizeHints sizes, SizeHints::Create(fusion, {}));
  DumpOptions dump;
  dump.sizes = &sizes;
  return DumpJson(segmented, dump);
}

// The graph of a seed and what `check` says of it.
template <typename Check>
absl::Status OfSeed(uint64_t seed, const RandomGraphOptions& options, Check check) {
  const absl::StatusOr<RandomGraph> graph = MakeRandomGraph(seed, options);
  const absl::Status status = graph.ok() ? check(*graph) : graph.status();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("seed ", seed, ": ", status.message()));
}

}  // namespace

absl::Status CheckGraph(const RandomGraph& graph, uint64_t seed, BackendKind backend,
                        const SegmentOptions& segment, bool use_cache) {
  CompileOptions options;
  options.narrow_edges = segment.narrow_edges;
  if (!segment.disabled_passes.empty()) {
    SEAM_ASSIGN_OR_RETURN(options.segmentation, SegmentedWithout(graph.fusion, segment));
  }
  options.backend = backend;
  options.use_cache = use_cache;
  options.threads = 1;  // Graphs run side by side.
  options.simulator_seed = seed;
  return ForEachSizes(graph, options, [&](const Executable& executable, const Symbols& symbols) {
    return RunAndCompare(executable, symbols, seed);
  });
}

absl::Status CheckSeed(uint64_t seed, BackendKind backend, const SegmentOptions& segment,
                       bool use_cache, bool square) {
  const RandomGraphOptions options{.library = backend != BackendKind::kCuda, .square = square};
  return OfSeed(seed, options, [&](const RandomGraph& graph) {
    return CheckGraph(graph, seed, backend, segment, use_cache);
  });
}

absl::Status CompileSeed(uint64_t seed, const std::string& arch) {
  CompileOptions options;
  options.backend = BackendKind::kCuda;
  options.device = arch;
  options.load = false;
  options.use_cache = false;
  options.threads = 1;
  return OfSeed(seed, {}, [&](const RandomGraph& graph) {
    return ForEachSizes(graph, options, [](const Executable& executable, const Symbols& symbols) {
      return executable.CompileFor(symbols).status();
    });
  });
}

}  // namespace seam::testing
