// The backend on a GPU: kernels are emitted as CUDA C++, compiled by NVRTC or taken from the cache,
// loaded, launched.
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/backend.h"
#include "runtime/codegen/emitter.h"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/driver.h"

namespace seam {
namespace {

// The default allocator of a device: one pool, shared by all Executables, that lives until the
// process ends.
absl::StatusOr<DeviceAllocator*> SharedPool(const cuda::Device* device) {
  static std::mutex mutex;
  static auto& pools = *new std::map<const cuda::Device*, std::unique_ptr<cuda::PoolAllocator>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<cuda::PoolAllocator>& pool = pools[device];
  if (pool == nullptr) {
    SEAM_ASSIGN_OR_RETURN(pool, cuda::PoolAllocator::Create(device));
  }
  return pool.get();
}

absl::Status NotLoaded() {
  return absl::FailedPreconditionError(
      "this Executable holds machine code that was not loaded on a GPU; it cannot run");
}

// Of an Executable that is compiled without being loaded.
class NoAllocator : public DeviceAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t, StreamHandle) override { return NotLoaded(); }
  void Free(void*, StreamHandle) override {}
};

// The table's entry for a GPU, whose rates are measured; for one that is not in the table what the
// driver says.
DeviceInfo InfoOf(const cuda::Device& device) {
  const cuda::DeviceProperties& p = device.properties();
  for (const DeviceInfo& info : Devices()) {
    if (p.arch == info.arch && p.multiprocessors == info.sms && p.l2_bytes == info.l2_bytes)
      return info;
  }
  const bool clusters = p.compute_capability_major >= 9;
  return {p.name.c_str(),
          p.arch.c_str(),
          p.multiprocessors,
          p.threads_per_multiprocessor,
          p.registers_per_multiprocessor,
          p.smem_bytes_per_block,
          p.l2_bytes,
          static_cast<int64_t>(0.9 * p.peak_bytes_per_second),
          clusters ? 8 : 1};
}

// Ahead of the intermediate values of a stream's calls lie the counters of grids' barriers and of
// tickets, each in a cache line of its own.
constexpr int64_t kCounterBytes = 256, kTicketsAt = 128;

// CTAs of a cluster that every device with clusters can run.
constexpr uint32_t kPortableCluster = 8;

class CudaKernel : public LoadedKernel {
 public:
  CudaKernel(std::string text, cuda::CompiledKernel compiled, const kernel::Kernel& kernel,
             bool early_launch)
      : text_(std::move(text)),
        compiled_(std::move(compiled)),
        phases_(kernel.NumPhases()),
        tickets_(kernel.TakesTickets()),
        keeps_(kernel.together.is_symbolic()),
        early_launch_(early_launch) {
    config_.block = {static_cast<uint32_t>(kernel.threads), 1, 1};
    config_.dynamic_smem_bytes = kernel.SharedBytes();
    if (kernel.cluster > 1) config_.cluster = {static_cast<uint32_t>(kernel.cluster), 1, 1};
  }

  absl::Status LoadOn(const cuda::Device* device) {
    SEAM_ASSIGN_OR_RETURN(module_, cuda::Module::Load(device, compiled_.cubin, compiled_.arch));
    SEAM_ASSIGN_OR_RETURN(kernel_, module_->GetKernel(compiled_.entry));
    SEAM_RETURN_IF_ERROR(kernel_->SetMaxDynamicSmemBytes(config_.dynamic_smem_bytes));
    if (config_.cluster[0] > kPortableCluster) SEAM_RETURN_IF_ERROR(kernel_->AllowLargeClusters());
    config_.programmatic_dependent_launch =
        early_launch_ && device->properties().compute_capability_major >= 9;
    if (phases_ == 1 || !device->properties().cooperative_launch) return absl::OkStatus();
    SEAM_ASSIGN_OR_RETURN(const int ctas,
                          kernel_->MaxBlocksPerMultiprocessor(static_cast<int>(config_.block[0]),
                                                              config_.dynamic_smem_bytes));
    resident_ctas_ = int64_t{ctas} * device->properties().multiprocessors;
    return absl::OkStatus();
  }

  // All phases at once where the device holds the grid and that gains something: if a phase keeps
  // data on the chip for the next, or where launches do not begin early and so cost more than the
  // barrier. Else one after the other. `arrivals` is memory for the counters, of which one launch
  // at a time makes use; null if there is none.
  absl::Status Launch(uint32_t grid, StreamHandle stream, void* arrivals,
                      absl::InlinedVector<void*, 24>& parameters) const {
    cuda::LaunchConfig config = config_;
    config.grid = {grid, 1, 1};
    void* tickets = tickets_ ? static_cast<char*>(arrivals) + kTicketsAt : nullptr;
    if (tickets_) parameters.push_back(&tickets);
    if (phases_ == 1) return kernel_->Launch(config, stream, parameters);
    int phase = -1;
    parameters.push_back(&arrivals);
    parameters.push_back(&phase);
    if (arrivals != nullptr && grid <= resident_ctas_ &&
        (keeps_ || !config.programmatic_dependent_launch)) {
      config.cooperative = true;
      config.programmatic_dependent_launch = false;
      return kernel_->Launch(config, stream, parameters);
    }
    for (phase = 0; phase < phases_; ++phase)
      SEAM_RETURN_IF_ERROR(kernel_->Launch(config, stream, parameters));
    return absl::OkStatus();
  }

  void Report(KernelReport& report) const override {
    report.entry = compiled_.entry;
    report.cuda_text = text_;
    report.cubin = compiled_.cubin;
    report.registers = compiled_.registers;
    report.smem_bytes = compiled_.static_smem_bytes + config_.dynamic_smem_bytes;
    report.spill_store_bytes = compiled_.spill_store_bytes;
    report.spill_load_bytes = compiled_.spill_load_bytes;
    report.compile_ms = compiled_.compile_ms;
    report.from_cache = compiled_.from_cache;
  }
  int spill_bytes() const override {
    return std::max(compiled_.spill_store_bytes, compiled_.spill_load_bytes);
  }

 private:
  const std::string text_;
  const cuda::CompiledKernel compiled_;
  const int phases_;
  const bool tickets_;
  const bool keeps_;  // Something on the chip from phase to phase.
  const bool early_launch_;
  int64_t resident_ctas_ = 0;  // That can meet at a barrier of the grid.
  cuda::LaunchConfig config_;
  std::optional<cuda::Module> module_;
  std::optional<cuda::Kernel> kernel_;
};

class CudaBackend : public Backend {
 public:
  CudaBackend(const DeviceInfo& info, const cuda::Device* device, DeviceAllocator* allocator,
              const CompileOptions& options)
      : Backend(info),
        device_(device),
        allocator_(allocator),
        threads_(options.threads),
        early_launch_(options.early_launch),
        progress_(options.progress),
        own_cache_(options.use_cache && options.cache == nullptr
                       ? cuda::CubinCache::FromEnvironment()
                       : nullptr),
        cache_(options.use_cache ? (options.cache != nullptr ? options.cache : own_cache_.get())
                                 : nullptr) {}

  ~CudaBackend() override {
    for (auto& [stream, block] : blocks_) {
      if (block->data != nullptr) allocator_->Free(block->data, nullptr);
    }
    for (void* data : captured_blocks_) allocator_->Free(data, nullptr);
  }

  std::vector<absl::StatusOr<std::shared_ptr<const LoadedKernel>>> LoadEach(
      absl::Span<const kernel::Kernel* const> kernels) override;

  absl::Status SupportsLibrary() const override {
    return absl::UnimplementedError(
        "library calls such as matmul have no GPU code yet; the backends reference and simulator "
        "run them");
  }

  absl::Status Execute(const PreparedCall& call, absl::Span<void* const> bases,
                       StreamHandle stream) override;

  DeviceAllocator& allocator() override { return *allocator_; }
  // Asked before anything runs.
  absl::StatusOr<bool> IsCapturing(StreamHandle stream) const override {
    if (device_ == nullptr) return NotLoaded();
    return device_->IsCapturing(stream);
  }
  void ReleaseMemory() override;
  const cuda::Device* cuda_device() const override { return device_; }
  int64_t num_kernels() const override { return num_kernels_; }
  std::string cache_warning() const override { return cache_ == nullptr ? "" : cache_->warning(); }

 private:
  // Memory for the intermediate values of the calls on one stream. Whoever enqueues work that uses
  // it holds the mutex, so that the kernels of two calls do not alternate.
  struct Block {
    std::mutex mutex;
    void* data = nullptr;
    int64_t bytes = 0;      // Behind kCounterBytes.
    bool captured = false;  // A graph uses it: it stays until the end.
  };

  Block& BlockOf(StreamHandle stream) {
    // CU_STREAM_PER_THREAD is another stream in every thread.
    static thread_local char this_thread;
    const void* key = stream == reinterpret_cast<StreamHandle>(2) ? &this_thread : stream;
    std::lock_guard<std::mutex> lock(blocks_mutex_);
    std::unique_ptr<Block>& block = blocks_[key];
    if (block == nullptr) block = std::make_unique<Block>();
    return *block;
  }
  absl::Status Reserve(Block& block, int64_t bytes, StreamHandle stream);
  absl::Status Enqueue(const PreparedCall& call, absl::Span<void* const> bases, void* block,
                       StreamHandle stream) const;

  const cuda::Device* const device_;  // Null: compile only.
  DeviceAllocator* const allocator_;
  const int threads_;
  const bool early_launch_;
  const std::function<void(int, int)> progress_;
  const std::unique_ptr<cuda::CubinCache> own_cache_;
  cuda::CubinCache* const cache_;

  std::mutex kernels_mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<const CudaKernel>> kernels_;  // By IdentityOf.
  std::atomic<int64_t> num_kernels_ = 0;

  std::mutex blocks_mutex_;  // Nobody waits for a Block's mutex with this one in hand.
  absl::flat_hash_map<const void*, std::unique_ptr<Block>> blocks_;
  std::vector<void*> captured_blocks_;  // Outgrown ones.
};

// Equal for kernels that differ in names alone, as those of a model's many layers do.
absl::StatusOr<std::string> IdentityOf(const kernel::Kernel& kernel) {
  kernel::Kernel anonymous = kernel;
  anonymous.name = "kernel";
  anonymous.summary.clear();
  for (size_t i = 0; i < anonymous.buffers.size(); ++i)
    anonymous.buffers[i].name = absl::StrCat("buffer", i);
  SEAM_ASSIGN_OR_RETURN(const std::string text, EmitCuda(anonymous));
  return absl::StrCat(text, kernel.threads, " ", kernel.SharedBytes(), " ", kernel.cluster);
}

std::vector<absl::StatusOr<std::shared_ptr<const LoadedKernel>>> CudaBackend::LoadEach(
    absl::Span<const kernel::Kernel* const> kernels) {
  std::lock_guard<std::mutex> lock(kernels_mutex_);
  std::vector<absl::StatusOr<std::string>> identities;
  std::vector<cuda::CompileRequest> requests;
  absl::flat_hash_map<std::string, size_t> fresh;  // What is not loaded yet: its request.
  std::vector<const kernel::Kernel*> requested;
  const auto request = [&](const kernel::Kernel& kernel) -> absl::StatusOr<std::string> {
    if (kernel.cluster > device().max_cluster) {
      return absl::UnimplementedError(
          absl::StrCat("kernel ", kernel.name, " runs in clusters of ", kernel.cluster,
                       " CTAs, of which ", device().arch, " has at most ", device().max_cluster));
    }
    SEAM_ASSIGN_OR_RETURN(std::string identity, IdentityOf(kernel));
    if (kernels_.contains(identity) || fresh.contains(identity)) return identity;
    SEAM_ASSIGN_OR_RETURN(std::string text, EmitCuda(kernel));
    fresh.emplace(identity, requests.size());
    requests.push_back({.name = kernel.name,
                        .source = std::move(text),
                        .arch = device().arch,
                        .options = {},
                        .entry = kernel.name});
    requested.push_back(&kernel);
    return identity;
  };
  for (const kernel::Kernel* kernel : kernels) identities.push_back(request(*kernel));
  std::vector<absl::StatusOr<cuda::CompiledKernel>> compiled =
      cuda::CompileAll(requests, cache_, threads_, progress_);
  const auto load = [&](const std::string& identity, size_t k) -> absl::Status {
    const kernel::Kernel& kernel = *requested[k];
    if (!compiled[k].ok()) {
      return absl::Status(
          compiled[k].status().code(),
          absl::StrCat("compiling kernel ", kernel.name, ": ", compiled[k].status().message()));
    }
    auto loaded = std::make_shared<CudaKernel>(std::move(requests[k].source),
                                               *std::move(compiled[k]), kernel, early_launch_);
    if (device_ != nullptr) SEAM_RETURN_IF_ERROR(loaded->LoadOn(device_));
    kernels_.emplace(identity, std::move(loaded));
    ++num_kernels_;
    return absl::OkStatus();
  };
  std::vector<absl::Status> statuses(requests.size());
  for (const auto& [identity, k] : fresh) statuses[k] = load(identity, k);
  std::vector<absl::StatusOr<std::shared_ptr<const LoadedKernel>>> loaded;
  for (const absl::StatusOr<std::string>& identity : identities) {
    if (!identity.ok()) {
      loaded.push_back(identity.status());
    } else if (const auto it = kernels_.find(*identity); it != kernels_.end()) {
      loaded.push_back(it->second);
    } else {
      loaded.push_back(statuses[fresh.at(*identity)]);
    }
  }
  return loaded;
}

absl::Status CudaBackend::Reserve(Block& block, int64_t bytes, StreamHandle stream) {
  SEAM_ASSIGN_OR_RETURN(const bool capturing, device_->IsCapturing(stream));
  if (capturing) {
    if (block.bytes < bytes) {
      return absl::FailedPreconditionError(
          absl::StrCat("the stream is being captured and has no block of ", bytes,
                       " bytes for intermediate values yet: run once with these sizes on this "
                       "stream before the capture"));
    }
    block.captured = true;
    return absl::OkStatus();
  }
  // A graph may run beside this call.
  if (block.bytes >= bytes && !block.captured) return absl::OkStatus();
  if (block.captured) {
    std::lock_guard<std::mutex> lock(blocks_mutex_);
    captured_blocks_.push_back(block.data);
  } else {
    allocator_->Free(block.data, stream);
  }
  block.data = nullptr;
  block.bytes = 0;
  block.captured = false;
  SEAM_ASSIGN_OR_RETURN(block.data,
                        allocator_->Allocate(static_cast<size_t>(kCounterBytes + bytes), stream));
  SEAM_RETURN_IF_ERROR(device_->Fill(block.data, 0, kCounterBytes, stream));
  block.bytes = bytes;
  return absl::OkStatus();
}

absl::Status CudaBackend::Execute(const PreparedCall& call, absl::Span<void* const> bases,
                                  StreamHandle stream) {
  if (call.block_bytes == 0) return Enqueue(call, bases, nullptr, stream);
  Block& block = BlockOf(stream);
  std::lock_guard<std::mutex> lock(block.mutex);
  SEAM_RETURN_IF_ERROR(Reserve(block, call.block_bytes, stream));
  return Enqueue(call, bases, block.data, stream);
}

absl::Status CudaBackend::Enqueue(const PreparedCall& call, absl::Span<void* const> bases,
                                  void* block, StreamHandle stream) const {
  absl::InlinedVector<void*, 24> pointers, parameters;
  void* const values = block == nullptr ? nullptr : static_cast<char*>(block) + kCounterBytes;
  for (const auto& step : call.steps) {
    const PreparedCall::Launch& launch = std::get<PreparedCall::Launch>(step);
    pointers.clear();
    parameters.clear();
    for (const PreparedCall::Buffer& b : launch.buffers) {
      char* base =
          static_cast<char*>(b.base < static_cast<int>(bases.size()) ? bases[b.base] : values);
      pointers.push_back(base + b.offset_bytes);
    }
    for (void*& pointer : pointers) parameters.push_back(&pointer);
    for (const int64_t& argument : launch.arguments)
      parameters.push_back(const_cast<int64_t*>(&argument));
    SEAM_RETURN_IF_ERROR(
        static_cast<const CudaKernel*>(launch.loaded)
            ->Launch(static_cast<uint32_t>(launch.grid), stream, block, parameters));
  }
  return absl::OkStatus();
}

void CudaBackend::ReleaseMemory() {
  std::vector<Block*> blocks;
  {
    std::lock_guard<std::mutex> lock(blocks_mutex_);
    for (auto& [stream, block] : blocks_) blocks.push_back(block.get());
  }
  for (Block* block : blocks) {
    std::lock_guard<std::mutex> lock(block->mutex);
    if (block->captured) continue;
    allocator_->Free(block->data, nullptr);
    block->data = nullptr;
    block->bytes = 0;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CompileOptions& options) {
  const cuda::Device* device = nullptr;
  DeviceAllocator* allocator = options.allocator;
  if (options.load) {
    SEAM_ASSIGN_OR_RETURN(const cuda::Driver* const driver, cuda::Driver::Get());
    SEAM_ASSIGN_OR_RETURN(device, driver->device(options.ordinal));
    if (allocator == nullptr) {
      SEAM_ASSIGN_OR_RETURN(allocator, SharedPool(device));
    }
  } else if (options.device.empty()) {
    return absl::InvalidArgumentError(
        "compiling without loading needs the name of a device or an architecture");
  }
  static NoAllocator no_allocator;
  if (allocator == nullptr) allocator = &no_allocator;
  DeviceInfo info = Devices()[0];
  if (options.device.empty()) {
    info = InfoOf(*device);
  } else {
    SEAM_ASSIGN_OR_RETURN(info, FindDevice(options.device));
    if (device != nullptr && device->properties().arch != info.arch) {
      return absl::UnavailableError(absl::StrCat("the GPU here is ", device->properties().name,
                                                 " (", device->properties().arch, "); kernels for ",
                                                 info.name, " (", info.arch, ") cannot run on it"));
    }
  }
  return std::unique_ptr<Backend>(new CudaBackend(info, device, allocator, options));
}

}  // namespace seam
