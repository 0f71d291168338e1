// Times normalizations on the GPU, one kernel each, against a copy of the same bytes in the same
// run.
//
//   norm_bench [--elements 268435456] [--ops layer_norm,rms_norm,softmax] [--dtypes bf16,f32]
//   [--columns 256,1024,...]
//              [--shapes 128x4096,...] [--tune] [--vary FIELDS] [--apart] [--any-order]
//              [--json FILE]
//
// Every kernel is first checked against the reference interpreter on a few rows. `fraction` is the
// least bytes that the operation must move over its median time, as a fraction of the same for a
// device-to-device memcpy of 1 GB. A dtype bf16+f32 is of bf16 data beside f32 weights;
// add_layer_norm and add_rms_norm add a residual first and return the sum; cross_entropy and
// cross_entropy_backward are of rows of logits. With --shapes, problems
// of so many rows and columns, each timed as one of 400 launches of a CUDA graph beside a memcpy of
// the tensor in such a graph. --tune also times the alternatives of scheduler/alternatives.h and
// prints the best beside the heuristic's;
// --vary "registers=2,4 stages=2,3 pace=0,1; cluster=2" those that differ in these fields
// (scheduler/variants.h), and prints all;
// with --apart, partial states are finished by kernels of their own; with --any-order, sums over
// rows are summed in whatever order CTAs take the rows.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "ir/composites.h"
#include "ir/fusion_builder.h"
#include "ir/reference/envelope.h"
#include "ir/status.h"
#include "runtime/cuda/driver.h"
#include "runtime/executable.h"
#include "runtime/random_inputs.h"
#include "runtime/tune.h"
#include "scheduler/choose.h"

namespace seam {
namespace {

struct Options {
  int64_t elements = int64_t{1} << 28;
  std::vector<std::string> ops = {"layer_norm", "rms_norm", "softmax"};
  std::vector<std::string> dtypes = {"bf16", "f32"};
  std::vector<int64_t> columns = {256,  1000, 1024,  4096,  4099, 5120,
                                  5632, 8192, 12288, 16384, 32768};
  std::vector<std::pair<int64_t, int64_t>> shapes;  // Rows and columns of small problems.
  bool tune = false;
  std::string vary;
  bool any_order = false;  // Of sums over rows.
  bool apart = false;      // What finishes partial states in launches of its own.
  std::string json;
};

struct DTypes {
  DType data, weights;
};

// "bf16", or "bf16+f32".
std::optional<DTypes> ParseDTypes(absl::string_view text) {
  const std::vector<absl::string_view> names = absl::StrSplit(text, '+');
  const std::optional<DType> data = ParseDType(names.front());
  const std::optional<DType> weights = ParseDType(names.back());
  if (names.size() > 2 || !data || !weights) return std::nullopt;
  return DTypes{*data, *weights};
}

// x [M, N]; statistics are returned where frameworks return them, in f32.
absl::StatusOr<Fusion> Graph(const std::string& op, const DTypes& dtypes) {
  FusionBuilder b(op);
  const auto [dtype, weights] = dtypes;
  const SymInt m = b.Symbol("M", 1, 1 << 28), n = b.Symbol("N", 1, 1 << 24);
  ValId x = b.Input("x", dtype, {m, n});
  std::string norm = op;
  if (absl::StartsWith(op, "add_")) {
    norm = op.substr(4);
    x = b.Add(x, b.Input("residual", dtype, {m, n}));
    b.Output(x);
  }
  if (norm == "layer_norm") {
    const NormResult r =
        LayerNorm(b, x, {1}, b.Input("w", weights, {n}), b.Input("b", weights, {n}), 1e-5);
    for (ValId v : {r.y, r.mean, r.rstd}) b.Output(v);
  } else if (norm == "rms_norm") {
    const RmsNormResult r = RmsNorm(b, x, {1}, b.Input("w", weights, {n}), 1e-6);
    for (ValId v : {r.y, r.rstd}) b.Output(v);
  } else if (op == "softmax") {
    b.Output(Softmax(b, x, 1));
  } else if (op == "cross_entropy") {
    const CrossEntropyResult r = CrossEntropy(b, x, b.Input("target", DType::I64, {m}));
    for (ValId v : {r.loss, r.log_sum_exp}) b.Output(v);
  } else if (op == "cross_entropy_backward") {
    b.Output(CrossEntropyBackward(b, b.Input("grad", DType::F32, {}), x,
                                  b.Input("target", DType::I64, {m}),
                                  b.Input("log_sum_exp", DType::F32, {m})));
  } else if (op == "softmax_backward") {
    b.Output(SoftmaxBackward(b, b.Input("grad", dtype, {m, n}), x, 1));
  } else if (op == "layer_norm_backward") {
    const ValId grad = b.Input("grad", dtype, {m, n}), w = b.Input("w", weights, {n});
    const ValId mean = b.Input("mean", DType::F32, {m}), rstd = b.Input("rstd", DType::F32, {m});
    const NormGradients r = LayerNormBackward(b, grad, x, mean, rstd, w, {1});
    for (ValId v : {r.x, r.weight, r.bias}) b.Output(v);
  } else if (op == "rms_norm_backward") {
    const ValId grad = b.Input("grad", dtype, {m, n}), w = b.Input("w", weights, {n});
    const RmsNormGradients r =
        RmsNormBackward(b, grad, x, b.Input("rstd", DType::F32, {m}), w, {1});
    for (ValId v : {r.x, r.weight}) b.Output(v);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("no operation ", op));
  }
  return b.Finish();
}

using Symbols = std::vector<SymbolValue>;

class Bench {
 public:
  static absl::StatusOr<Bench> Create() {
    Bench bench;
    SEAM_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
    SEAM_ASSIGN_OR_RETURN(bench.device_, driver->device(0));
    SEAM_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::Create(bench.device_));
    bench.stream_ = std::make_unique<cuda::Stream>(std::move(stream));
    SEAM_ASSIGN_OR_RETURN(bench.pool_, cuda::PoolAllocator::Create(bench.device_));
    return bench;
  }

  const std::string& name() const { return device_->properties().name; }
  DeviceAllocator* allocator() const { return pool_.get(); }

  // The same of one of 400 calls in a CUDA graph: what the launch of a small problem costs.
  absl::StatusOr<double> TimeInGraph(const std::function<absl::Status(int)>& call) {
    constexpr int kCalls = 400;
    SEAM_RETURN_IF_ERROR(call(0));
    SEAM_RETURN_IF_ERROR(stream_->BeginCapture());
    absl::Status recorded;
    for (int i = 0; i < kCalls && recorded.ok(); ++i) recorded = call(i);
    SEAM_ASSIGN_OR_RETURN(const cuda::Graph graph, stream_->EndCapture());
    SEAM_RETURN_IF_ERROR(recorded);
    SEAM_ASSIGN_OR_RETURN(const double ms,
                          Time(1, [&](int) { return graph.Launch(stream_->handle()); }));
    return ms / kCalls;
  }
  absl::StatusOr<double> CopyInGraph(int64_t bytes) {
    SEAM_ASSIGN_OR_RETURN(void* from, pool_->Allocate(bytes, stream_->handle()));
    SEAM_ASSIGN_OR_RETURN(void* to, pool_->Allocate(bytes, stream_->handle()));
    absl::StatusOr<double> ms = TimeInGraph([&](int) {
      return device_->CopyOnDevice(to, from, static_cast<size_t>(bytes), stream_->handle());
    });
    pool_->Free(from, stream_->handle());
    pool_->Free(to, stream_->handle());
    return ms;
  }

  // Median milliseconds of one call, from 7 repetitions of `calls` back-to-back calls.
  absl::StatusOr<double> Time(int calls, const std::function<absl::Status(int)>& call) {
    SEAM_ASSIGN_OR_RETURN(cuda::Event start, cuda::Event::Create(device_));
    SEAM_ASSIGN_OR_RETURN(cuda::Event stop, cuda::Event::Create(device_));
    std::vector<double> times;
    for (int repetition = 0; repetition < 8; ++repetition) {
      SEAM_RETURN_IF_ERROR(start.Record(stream_->handle()));
      for (int i = 0; i < calls; ++i) SEAM_RETURN_IF_ERROR(call(i));
      SEAM_RETURN_IF_ERROR(stop.Record(stream_->handle()));
      SEAM_RETURN_IF_ERROR(stop.Synchronize());
      SEAM_ASSIGN_OR_RETURN(double ms, stop.ElapsedMs(start));
      if (repetition > 0) times.push_back(ms / calls);  // The first warms up.
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  absl::StatusOr<double> MemcpyBytesPerSecond() {
    const size_t bytes = size_t{1} << 30;
    SEAM_ASSIGN_OR_RETURN(void* from, pool_->Allocate(bytes, stream_->handle()));
    SEAM_ASSIGN_OR_RETURN(void* to, pool_->Allocate(bytes, stream_->handle()));
    SEAM_ASSIGN_OR_RETURN(double ms, Time(8, [&](int) {
                            return device_->CopyOnDevice(to, from, bytes, stream_->handle());
                          }));
    pool_->Free(from, stream_->handle());
    pool_->Free(to, stream_->handle());
    return 2.0 * static_cast<double>(bytes) / (ms * 1e-3);
  }

  // Against the reference.
  absl::Status Check(const Executable& executable, const Symbols& symbols) {
    SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(executable.fusion(), symbols));
    SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> inputs,
                          RandomInputs(executable.fusion(), binding, 1));
    SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs,
                          executable.RunOnHost(inputs, symbols, {.fill = 0xff}));
    SymbolBindings bindings;
    for (const SymbolValue& s : symbols) bindings.emplace(s.name, s.value);
    SEAM_ASSIGN_OR_RETURN(const std::vector<Envelope> envelopes,
                          MakeEnvelopes(executable.fusion(), bindings, inputs, 4));
    for (size_t i = 0; i < outputs.size(); ++i)
      SEAM_RETURN_IF_ERROR(CheckWithin(envelopes[i], outputs[i]));
    return absl::OkStatus();
  }

  // Median milliseconds of a call, and the bytes of its tensors.
  absl::StatusOr<double> TimeGroup(const Executable& executable, const Symbols& symbols,
                                   bool in_graph, double* bytes) {
    const Fusion& fusion = executable.fusion();
    SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(fusion, symbols));
    std::vector<Tensor> in, out;
    const absl::Cleanup free = [&] {
      for (const std::vector<Tensor>* list : {&in, &out}) {
        for (const Tensor& tensor : *list) pool_->Free(tensor.data, stream_->handle());
      }
    };
    *bytes = 0;
    auto allocate = [&](ValId v, std::vector<Tensor>& list) -> absl::Status {
      SEAM_ASSIGN_OR_RETURN(Tensor tensor, TensorFor(fusion, v, binding));
      const size_t size = static_cast<size_t>(tensor.numel()) * DTypeBytes(tensor.dtype);
      SEAM_ASSIGN_OR_RETURN(tensor.data, pool_->Allocate(size + 16, stream_->handle()));
      list.push_back(tensor);
      *bytes += static_cast<double>(size);
      // Pseudo-random bits that are ordinary numbers in every float type.
      return device_->Fill(tensor.data, 0x3e, size, stream_->handle());
    };
    for (ValId v : fusion.inputs()) SEAM_RETURN_IF_ERROR(allocate(v, in));
    for (ValId v : fusion.outputs()) SEAM_RETURN_IF_ERROR(allocate(v, out));
    // Random data in the first input: a few MB repeated.
    SEAM_RETURN_IF_ERROR(Randomise(in[0]));
    RunOptions run;
    run.stream = stream_->handle();
    run.symbols = symbols;
    const auto call = [&](int) { return executable.Run(in, absl::MakeSpan(out), run); };
    return in_graph ? TimeInGraph(call) : Time(8, call);
  }

 private:
  absl::Status Randomise(const Tensor& tensor) {
    SEAM_ASSIGN_OR_RETURN(
        HostTensor t, HostTensor::Make(tensor.dtype, {std::min<int64_t>(tensor.numel(), 1 << 20)}));
    FillRandom(t, 1);
    const int64_t total = tensor.numel() * DTypeBytes(tensor.dtype);
    for (int64_t at = 0; at < total; at += static_cast<int64_t>(t.data.size())) {
      const size_t size =
          static_cast<size_t>(std::min<int64_t>(total - at, static_cast<int64_t>(t.data.size())));
      SEAM_RETURN_IF_ERROR(device_->CopyToDevice(static_cast<char*>(tensor.data) + at,
                                                 t.data.data(), size, stream_->handle()));
    }
    return stream_->Synchronize();
  }

  const cuda::Device* device_ = nullptr;
  std::unique_ptr<cuda::Stream> stream_;
  std::unique_ptr<cuda::PoolAllocator> pool_;
};

// What was compiled for a size: the most registers of its kernels, what they spill, and how they
// are scheduled.
struct Kernels {
  int registers = 0, spills = 0;
  std::string text;
};
absl::StatusOr<Kernels> KernelsOf(const Executable& executable, const Symbols& symbols) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<GroupReport> reports, executable.CompileFor(symbols));
  Kernels kernels;
  std::vector<std::string> schedules;
  for (const GroupReport& report : reports) {
    schedules.push_back(report.schedule);
    for (const KernelReport& kernel : report.kernels) {
      kernels.registers = std::max(kernels.registers, kernel.registers);
      kernels.spills += kernel.spill_store_bytes;
    }
  }
  kernels.text =
      absl::StrCat(kernels.spills > 0 ? absl::StrCat("spills ", kernels.spills, " bytes; ") : "",
                   absl::StrJoin(schedules, "; then "));
  return kernels;
}

absl::Status Run(const Options& options) {
  SEAM_ASSIGN_OR_RETURN(Bench bench, Bench::Create());
  SEAM_ASSIGN_OR_RETURN(const double copy_rate, bench.MemcpyBytesPerSecond());
  std::printf("%s, memcpy of 1 GB: %.0f GB/s\n", bench.name().c_str(), copy_rate * 1e-9);
  std::printf("%-19s %8s %8s %9s %9s %9s %5s  %s\n", "operation", "dtype", "columns", "ms", "GB/s",
              "fraction", "regs", "schedule");
  const bool in_graph = !options.shapes.empty();
  std::vector<std::pair<int64_t, int64_t>> shapes = options.shapes;
  for (int64_t n : in_graph ? std::vector<int64_t>() : options.columns)
    shapes.emplace_back(std::max<int64_t>(1, options.elements / n), n);
  std::string rows;
  absl::Status failed;  // The last wrong result.
  for (const std::string& op : options.ops) {
    for (const std::string& dtype_name : options.dtypes) {
      const std::optional<DTypes> dtypes = ParseDTypes(dtype_name);
      if (!dtypes) return absl::InvalidArgumentError(absl::StrCat("no dtype ", dtype_name));
      for (const auto& [m, n] : shapes) {
        const Symbols symbols = {{"M", m}, {"N", n}};
        // One a size: it keeps the kernels that are tried.
        SEAM_ASSIGN_OR_RETURN(Fusion graph, Graph(op, *dtypes));
        CompileOptions compile;
        compile.backend = BackendKind::kCuda;
        compile.use_cache = compile.use_tuned = false;
        compile.any_order = options.any_order;
        compile.size_hints = symbols;
        compile.allocator = bench.allocator();
        SEAM_ASSIGN_OR_RETURN(Executable group, Compile(std::move(graph), compile));
        // Several groups have no alternatives here; they run as they are.
        const absl::StatusOr<std::vector<Schedule>> found =
            CandidateSchedules(group, symbols, options.vary);
        std::vector<Schedule> candidates = found.ok() ? *found : std::vector<Schedule>(1);
        if (!found.ok() && !options.vary.empty()) return found.status();
        if (!options.tune && options.vary.empty()) candidates.resize(1);
        if (options.apart) {
          for (Schedule& s : candidates) s.one_launch = false;
        }
        struct Timed {
          double fraction;
          std::string line, json;
        };
        std::vector<Timed> timed;
        std::vector<absl::StatusOr<Executable>> compiled;
        if (found.ok()) {
          SEAM_ASSIGN_OR_RETURN(compiled, CompileSchedules(group, symbols, candidates));
        } else {
          compiled.emplace_back(std::move(group));
        }
        for (size_t c = 0; c < candidates.size(); ++c) {
          const Schedule& schedule = candidates[c];
          if (c > 0 && !compiled[c].ok()) continue;  // Too much memory.
          SEAM_RETURN_IF_ERROR(compiled[c].status());
          const Executable* executable = &*compiled[c];
          SEAM_ASSIGN_OR_RETURN(Kernels kernels, KernelsOf(*executable, symbols));
          if (c == 0 && kernels.spills > 0 && found.ok() && !options.apart) {
            // Users get fewer CTAs an SM then.
            executable = &group;
            SEAM_ASSIGN_OR_RETURN(kernels, KernelsOf(*executable, symbols));
          }
          const auto& [registers, spills, text] = kernels;
          if (c > 0 && spills > 0 && options.vary.empty()) continue;  // Slow.
          double bytes = 0;
          // A few rows; of the schedule that is chosen, as many as give CTAs several in turn.
          const int64_t some = std::clamp<int64_t>((1 << 20) / n, 4, 37);
          const int64_t in_turn = schedule.rows_at_once();
          int64_t checked = c == 0 ? std::clamp(4 * in_turn + 3, some, some + (1 << 20) / n) : some;
          // Slices go round their places in three turns at the most.
          if (schedule.slices > 1) checked = std::max(checked, 3 * in_turn + 1);
          for (const SymbolFact& fact : schedule.facts) {
            if (fact.symbol == "M") checked = CeilDivide(checked, fact.multiple) * fact.multiple;
          }
          if (absl::Status s = bench.Check(*compiled[c], {{"M", checked}, {"N", n}}); !s.ok()) {
            failed = absl::Status(s.code(), absl::StrCat(op, " ", dtype_name, " ", n, " [", text,
                                                         "]: ", s.message()));
            std::printf("%s\n", std::string(failed.message()).c_str());
            continue;
          }
          SEAM_ASSIGN_OR_RETURN(const double ms,
                                bench.TimeGroup(*executable, symbols, in_graph, &bytes));
          const double rate = bytes / (ms * 1e-3);
          const std::string line =
              absl::StrFormat("%-19s %8s %8d %9.4f %9.0f %9.3f %5d  %s", op, dtype_name, n, ms,
                              rate * 1e-9, rate / copy_rate, registers, text);
          char json[512];
          std::snprintf(json, sizeof json,
                        "{\"impl\": \"%s\", \"op\": \"%s\", \"dtype\": \"%s\", \"columns\": "
                        "%lld, \"ms\": %.5f, "
                        "\"gb_per_s\": %.0f, \"fraction\": %.4f, "
                        "\"registers\": %d, \"spill_bytes\": %d}",
                        options.any_order ? "seam_any_order" : "seam", op.c_str(),
                        dtype_name.c_str(), static_cast<long long>(n), ms, rate * 1e-9,
                        rate / copy_rate, registers, spills);
          timed.push_back({rate / copy_rate, line, json});
        }
        if (timed.empty()) continue;
        if (in_graph) {
          SEAM_ASSIGN_OR_RETURN(const double copy,
                                bench.CopyInGraph(m * n * DTypeBytes(dtypes->data)));
          std::printf("%lld rows, in a graph; a memcpy of the tensor: %.4f ms\n",
                      static_cast<long long>(m), copy);
          timed[0].json.pop_back();
          absl::StrAppendFormat(&timed[0].json, ", \"rows\": %d, \"memcpy_ms\": %.5f}", m, copy);
        }
        std::printf("%s\n", timed[0].line.c_str());
        absl::StrAppend(&rows, rows.empty() ? "  " : ",\n  ", timed[0].json);
        if (options.tune || !options.vary.empty()) {
          const size_t most = options.tune ? 6 : timed.size();
          std::stable_sort(timed.begin(), timed.end(),
                           [](const Timed& a, const Timed& b) { return a.fraction > b.fraction; });
          for (size_t i = 0; i < std::min(most, timed.size()); ++i)
            std::printf("    best %zu: %s\n", i + 1, timed[i].line.c_str());
        }
        std::fflush(stdout);
      }
    }
  }
  if (!options.json.empty()) {
    std::ofstream out(options.json);
    out << absl::StrCat("{\"device\": \"", bench.name(), "\", \"elements\": ", options.elements,
                        ", \"memcpy_gb_per_s\": ", static_cast<int64_t>(copy_rate * 1e-9),
                        ", \"rows\": [\n", rows, "\n]}\n");
    if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", options.json));
  }
  return failed;
}

}  // namespace
}  // namespace seam

int main(int argc, char** argv) {
  seam::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (key == "--any-order") {
      options.any_order = true;
      continue;
    }
    if (key == "--tune") {
      options.tune = true;
      continue;
    }
    if (key == "--apart") {
      options.apart = true;
      continue;
    }
    ++i;
    if (key == "--elements" && absl::SimpleAtoi(value, &options.elements)) continue;
    if (key == "--json") {
      options.json = value;
      continue;
    }
    if (key == "--vary") {
      options.vary = value;
      continue;
    }
    const std::vector<std::string> list = absl::StrSplit(value, ',');
    if (key == "--ops") {
      options.ops = list;
    } else if (key == "--dtypes") {
      options.dtypes = list;
    } else if (key == "--shapes") {
      for (const std::string& shape : list) {
        const std::vector<std::string> sides = absl::StrSplit(shape, 'x');
        int64_t m = 0, n = 0;
        if (sides.size() == 2 && absl::SimpleAtoi(sides[0], &m) && absl::SimpleAtoi(sides[1], &n))
          options.shapes.emplace_back(m, n);
      }
    } else if (key == "--columns") {
      options.columns.clear();
      for (const std::string& n : list) {
        options.columns.push_back(0);
        if (!absl::SimpleAtoi(n, &options.columns.back())) options.columns.pop_back();
      }
    } else {
      std::fprintf(stderr, "norm_bench: unknown option %s\n", key.c_str());
      return 2;
    }
  }
  if (absl::Status s = seam::Run(options); !s.ok()) {
    std::fprintf(stderr, "norm_bench: %s\n", std::string(s.message()).c_str());
    return s.code() == absl::StatusCode::kUnavailable ? 4 : 1;
  }
  return 0;
}
