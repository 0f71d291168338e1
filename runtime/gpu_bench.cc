#include "runtime/gpu_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/driver.h"

namespace seam {
namespace {

constexpr int64_t kAlignmentBytes = 256;
constexpr int kMaxBufferSets = 1024;
constexpr int kMaxCalls = 2000;

// Each thread has four 16-byte reads under way.
constexpr int kCopyThreads = 512, kCopyUnroll = 4;
constexpr char kCopyText[] = R"(
extern "C" __global__ void __launch_bounds__(512) seam_copy(const uint4* __restrict__ from, uint4* __restrict__ to,
                                                            long long count) {
  const long long first = (long long)blockIdx.x * 2048 + threadIdx.x;
  uint4 held[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i * 512 < count) held[i] = __ldcs(from + first + i * 512);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i * 512 < count) __stcs(to + first + i * 512, held[i]);
  }
}
)";

struct Timing {
  BenchTimes device;
  double host_us = 0;
  int calls = 0;
};

class Bencher {
 public:
  Bencher(const Executable& executable, const BenchOptions& options, cuda::Stream stream)
      : executable_(executable),
        options_(options),
        device_(*executable.cuda_device()),
        allocator_(executable.allocator()),
        stream_(std::move(stream)) {}
  ~Bencher() {
    (void)stream_.Synchronize();
    for (void* memory : memory_) allocator_.Free(memory, stream_.handle());
    (void)stream_.Synchronize();
  }

  // Makes the tensors of all sets.
  absl::Status Prepare(absl::Span<const SymbolValue> symbols);
  // Of an Executable of the same graph and types as the one that was prepared for.
  absl::StatusOr<Timing> TimeCalls(const Executable& executable, int repetitions, int done,
                                   int total);
  absl::StatusOr<BenchResult> Run();

 private:
  // The tensors of one call.
  struct BufferSet {
    std::vector<Tensor> inputs, outputs;
  };

  absl::StatusOr<void*> Allocate(int64_t bytes) {
    SEAM_ASSIGN_OR_RETURN(void* memory,
                          allocator_.Allocate(static_cast<size_t>(bytes), stream_.handle()));
    memory_.push_back(memory);
    return memory;
  }
  absl::Status FillRandomly(const Tensor& tensor, int64_t bytes, uint64_t seed);
  absl::StatusOr<Timing> Time(const std::function<absl::Status(int call)>& call, int repetitions,
                              int done, int total);

  const Executable& executable_;
  const BenchOptions options_;
  const cuda::Device& device_;
  DeviceAllocator& allocator_;
  cuda::Stream stream_;
  std::vector<void*> memory_;
  std::vector<SymbolValue> symbols_;
  std::vector<BufferSet> sets_;
  int64_t set_bytes_ = 0;
  BenchResult result_;
};

// A million random elements, over and over.
absl::Status Bencher::FillRandomly(const Tensor& tensor, int64_t bytes, uint64_t seed) {
  const int64_t chunk = std::min<int64_t>(bytes / DTypeBytes(tensor.dtype), int64_t{1} << 20);
  if (chunk == 0) return absl::OkStatus();
  SEAM_ASSIGN_OR_RETURN(HostTensor host, HostTensor::Make(tensor.dtype, {chunk}));
  if (tensor.dtype == DType::I64 || tensor.dtype == DType::I32) {
    FillRandomIntegers(host, seed, 0, 4);
  } else {
    FillRandom(host, seed);
  }
  char* const memory = static_cast<char*>(tensor.data);
  int64_t filled = static_cast<int64_t>(host.data.size());
  SEAM_RETURN_IF_ERROR(
      device_.CopyToDevice(memory, host.data.data(), host.data.size(), stream_.handle()));
  while (filled < bytes) {
    const int64_t more = std::min(filled, bytes - filled);
    SEAM_RETURN_IF_ERROR(
        device_.CopyOnDevice(memory + filled, memory, static_cast<size_t>(more), stream_.handle()));
    filled += more;
  }
  return stream_.Synchronize();
}

absl::StatusOr<Timing> Bencher::Time(const std::function<absl::Status(int call)>& call,
                                     int repetitions, int done, int total) {
  SEAM_ASSIGN_OR_RETURN(const cuda::Event start, cuda::Event::Create(&device_));
  SEAM_ASSIGN_OR_RETURN(const cuda::Event stop, cuda::Event::Create(&device_));
  double host_us = 0;
  const auto repeat = [&](int calls) -> absl::StatusOr<double> {
    SEAM_RETURN_IF_ERROR(start.Record(stream_.handle()));
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) SEAM_RETURN_IF_ERROR(call(i));
    host_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
                  .count() /
              calls;
    SEAM_RETURN_IF_ERROR(stop.Record(stream_.handle()));
    SEAM_RETURN_IF_ERROR(stop.Synchronize());
    SEAM_ASSIGN_OR_RETURN(const double ms, stop.ElapsedMs(start));
    return ms * 1e3 / calls;
  };
  // The first calls compile and allocate; the next ones say how many fill a repetition.
  SEAM_RETURN_IF_ERROR(repeat(1).status());
  SEAM_ASSIGN_OR_RETURN(const double estimate_us, repeat(5));
  Timing timing;
  timing.calls =
      static_cast<int>(std::clamp(options_.repetition_ms * 1e3 / std::max(estimate_us, 0.1), 3.0,
                                  static_cast<double>(kMaxCalls)));
  SEAM_RETURN_IF_ERROR(repeat(timing.calls).status());
  std::vector<double> device_us, hosts_us;
  for (int i = 0; i < repetitions; ++i) {
    SEAM_ASSIGN_OR_RETURN(const double us, repeat(timing.calls));
    device_us.push_back(us);
    hosts_us.push_back(host_us);
    if (options_.progress) options_.progress(done + i + 1, total);
  }
  std::sort(device_us.begin(), device_us.end());
  std::sort(hosts_us.begin(), hosts_us.end());
  timing.device = {device_us[device_us.size() / 2], device_us.front(), device_us.back()};
  timing.host_us = hosts_us[hosts_us.size() / 2];
  return timing;
}

absl::Status Bencher::Prepare(absl::Span<const SymbolValue> symbols) {
  symbols_.assign(symbols.begin(), symbols.end());
  const Fusion& fusion = executable_.fusion();
  SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(fusion, symbols));
  BufferSet types;
  std::vector<int64_t> offsets;  // Of all tensors in a set's memory.
  for (const bool output : {false, true}) {
    for (ValId v : output ? fusion.outputs() : fusion.inputs()) {
      SEAM_ASSIGN_OR_RETURN(Tensor type, TensorFor(fusion, v, binding));
      SEAM_ASSIGN_OR_RETURN(const ElementSpan span, SpanOf(type.sizes, type.strides));
      result_.bytes += type.numel() * DTypeBytes(type.dtype);
      offsets.push_back(set_bytes_);
      set_bytes_ += (span.end * DTypeBytes(type.dtype) + kAlignmentBytes - 1) / kAlignmentBytes *
                    kAlignmentBytes;
      (output ? types.outputs : types.inputs).push_back(std::move(type));
    }
  }
  offsets.push_back(set_bytes_);

  // What a set leaves in the cache must be gone when its turn comes again.
  const int64_t l2_bytes = device_.properties().l2_bytes;
  const int64_t wanted = 1 + 3 * l2_bytes / std::max<int64_t>(set_bytes_, 1);
  result_.buffer_sets = static_cast<int>(std::clamp<int64_t>(wanted, 2, kMaxBufferSets));
  result_.cold = result_.buffer_sets * set_bytes_ > 2 * l2_bytes;
  for (int s = 0; s < result_.buffer_sets; ++s) {
    SEAM_ASSIGN_OR_RETURN(void* const memory, Allocate(set_bytes_));
    BufferSet& set = sets_.emplace_back(types);
    size_t next = 0;
    for (std::vector<Tensor>* tensors : {&set.inputs, &set.outputs}) {
      for (Tensor& tensor : *tensors) {
        tensor.data = static_cast<char*>(memory) + offsets[next];
        if (tensors == &set.inputs) {
          const int64_t bytes = offsets[next + 1] - offsets[next];
          if (s == 0) {
            SEAM_RETURN_IF_ERROR(FillRandomly(tensor, bytes, options_.seed * 1000003 + next));
          } else {
            SEAM_RETURN_IF_ERROR(device_.CopyOnDevice(tensor.data, sets_[0].inputs[next].data,
                                                      static_cast<size_t>(bytes),
                                                      stream_.handle()));
          }
        }
        ++next;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Timing> Bencher::TimeCalls(const Executable& executable, int repetitions, int done,
                                          int total) {
  RunOptions run;
  run.stream = stream_.handle();
  run.symbols = symbols_;
  return Time(
      [&](int call) {
        BufferSet& set = sets_[call % sets_.size()];
        return executable.Run(set.inputs, absl::MakeSpan(set.outputs), run);
      },
      repetitions, done, total);
}

absl::StatusOr<BenchResult> Bencher::Run() {
  BenchResult result = result_;
  const int64_t set_bytes = set_bytes_;
  const int total = 2 * options_.repetitions;
  SEAM_ASSIGN_OR_RETURN(const Timing timing,
                        TimeCalls(executable_, options_.repetitions, 0, total));
  result.times = timing.device;
  result.host_us = timing.host_us;
  result.calls = timing.calls;
  SEAM_ASSIGN_OR_RETURN(const std::vector<GroupReport> groups, executable_.CompileFor(symbols_));
  for (const GroupReport& group : groups)
    result.kernels += static_cast<int64_t>(group.kernels.size());

  std::vector<absl::StatusOr<cuda::CompiledKernel>> compiled =
      cuda::CompileAll({{.name = "seam_copy",
                         .source = kCopyText,
                         .arch = device_.properties().arch,
                         .options = {},
                         .entry = "seam_copy"}},
                       nullptr, 1);
  SEAM_RETURN_IF_ERROR(compiled[0].status());
  SEAM_ASSIGN_OR_RETURN(const cuda::Module module,
                        cuda::Module::Load(&device_, compiled[0]->cubin, compiled[0]->arch));
  SEAM_ASSIGN_OR_RETURN(const cuda::Kernel copy, module.GetKernel("seam_copy"));
  // Half of the bytes are read, half are written, in the memory of the sets.
  int64_t count = std::max<int64_t>(std::min(result.bytes, set_bytes) / 32, 1);
  std::vector<void*> memory(memory_.end() - result.buffer_sets, memory_.end());
  if (set_bytes < 32) {
    SEAM_ASSIGN_OR_RETURN(void* const some, Allocate(32));
    memory.assign(1, some);
  }
  const int64_t per_cta = int64_t{kCopyThreads} * kCopyUnroll;
  cuda::LaunchConfig config;
  config.block[0] = kCopyThreads;
  config.grid[0] = static_cast<uint32_t>((count + per_cta - 1) / per_cta);
  SEAM_ASSIGN_OR_RETURN(const Timing copy_timing,
                        Time(
                            [&](int call) {
                              void* from = memory[call % memory.size()];
                              void* to = static_cast<char*>(from) + count * 16;
                              void* parameters[] = {&from, &to, &count};
                              return copy.Launch(config, stream_.handle(), parameters);
                            },
                            options_.repetitions, options_.repetitions, total));
  result.copy = copy_timing.device;
  result.bytes_per_second = static_cast<double>(result.bytes) / (result.times.median_us * 1e-6);
  result.fraction_of_copy = result.copy.median_us / result.times.median_us;
  return result;
}

}  // namespace

absl::StatusOr<BenchResult> BenchOnGpu(const Executable& executable,
                                       absl::Span<const SymbolValue> symbols,
                                       const BenchOptions& options) {
  if (executable.cuda_device() == nullptr) {
    return absl::UnavailableError("timing needs the backend cuda and a GPU");
  }
  SEAM_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::Create(executable.cuda_device()));
  Bencher bencher(executable, options, std::move(stream));
  SEAM_RETURN_IF_ERROR(bencher.Prepare(symbols));
  return bencher.Run();
}

absl::StatusOr<CallTimer> TimeOnGpu(const Executable& executable,
                                    absl::Span<const SymbolValue> symbols,
                                    const BenchOptions& options) {
  if (executable.cuda_device() == nullptr) {
    return absl::UnavailableError("timing needs the backend cuda and a GPU");
  }
  SEAM_ASSIGN_OR_RETURN(cuda::Stream stream, cuda::Stream::Create(executable.cuda_device()));
  const auto bencher = std::make_shared<Bencher>(executable, options, std::move(stream));
  SEAM_RETURN_IF_ERROR(bencher->Prepare(symbols));
  return CallTimer([bencher](const Executable& call, int repetitions) -> absl::StatusOr<double> {
    SEAM_ASSIGN_OR_RETURN(const Timing timing,
                          bencher->TimeCalls(call, repetitions, 0, repetitions));
    return timing.device.median_us;
  });
}

}  // namespace seam
