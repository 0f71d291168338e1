// The driver layer on a real device: copies, launches of every kind, graphs, memory, and errors
// that must not spoil what follows. Skipped where there is no CUDA device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"

namespace seam::cuda {
namespace {

using ::testing::ExitedWithCode;

#define ASSERT_OK(expression)                               \
  do {                                                      \
    const absl::Status assert_ok_status = (expression);     \
    ASSERT_TRUE(assert_ok_status.ok()) << assert_ok_status; \
  } while (false)

// The value of a StatusOr that must be OK; an error ends the program, as nothing can follow.
template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    ADD_FAILURE() << value.status();
    std::exit(1);
  }
  return *std::move(value);
}

constexpr char kSource[] = R"(
extern "C" __global__ void add(const float* a, const float* b, float* c, long long n) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void increment(int* p, int n) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += 1;
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// The last byte of the dynamic shared memory reaches the output.
extern "C" __global__ void shared(int* p, int bytes) {
  extern __shared__ unsigned char smem[];
  if (threadIdx.x == 0) smem[bytes - 1] = 7;
  __syncthreads();
  if (threadIdx.x == 31) *p = smem[bytes - 1];
}
extern "C" __global__ void cluster(int* p) {
#if __CUDA_ARCH__ >= 900
  int rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  p[blockIdx.x] = 100 * size + rank;
#endif
}
// Every block waits for all others, which only ends if all are resident.
extern "C" __global__ void meet(int* arrived, int* seen) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x) {}
    atomicAdd(seen, 1);
  }
}
extern "C" __global__ void fault(int* p) { *p = 1; }
)";

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<const Driver*> driver = Driver::Get();
    if (!driver.ok()) {
      ASSERT_EQ(driver.status().code(), absl::StatusCode::kUnavailable) << driver.status();
      GTEST_SKIP() << "no CUDA device: " << driver.status().message();
    }
    driver_ = *driver;
    device_ = Must(driver_->device(0));
    stream_ = std::make_unique<Stream>(Must(Stream::Create(device_)));
    allocator_ = Must(PoolAllocator::Create(device_));
  }

  static CompileRequest Request(const std::string& entry, const std::string& arch) {
    CompileRequest request;
    request.source = kSource;
    request.arch = arch;
    request.entry = entry;
    return request;
  }
  // One module for all entries: the entry named in a request only selects the figures.
  Kernel GetKernel(const std::string& entry) {
    if (module_ == nullptr) {
      const CompiledKernel compiled =
          Must(Must(Nvrtc::Get())->Compile(Request("add", device_->properties().arch)));
      module_ =
          std::make_unique<Module>(Must(Module::Load(device_, compiled.cubin, compiled.arch)));
    }
    return Must(module_->GetKernel(entry));
  }

  template <typename T>
  T* Allocate(size_t count) {
    return static_cast<T*>(Must(allocator_->Allocate(count * sizeof(T), stream_->handle())));
  }
  template <typename T>
  T* Upload(const std::vector<T>& host) {
    T* pointer = Allocate<T>(host.size());
    const absl::Status status =
        device_->CopyToDevice(pointer, host.data(), host.size() * sizeof(T), stream_->handle());
    EXPECT_TRUE(status.ok()) << status;
    return pointer;
  }
  template <typename T>
  std::vector<T> Download(const T* pointer, size_t count) {
    std::vector<T> host(count);
    absl::Status status =
        device_->CopyToHost(host.data(), pointer, count * sizeof(T), stream_->handle());
    EXPECT_TRUE(status.ok()) << status;
    status = stream_->Synchronize();
    EXPECT_TRUE(status.ok()) << status;
    return host;
  }

  const Driver* driver_ = nullptr;
  const Device* device_ = nullptr;
  std::unique_ptr<PoolAllocator> allocator_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Module> module_;
};

LaunchConfig Blocks(uint32_t blocks, uint32_t threads) {
  LaunchConfig config;
  config.grid = {blocks, 1, 1};
  config.block = {threads, 1, 1};
  return config;
}

TEST_F(CudaDeviceTest, DescribesItself) {
  const DeviceProperties& p = device_->properties();
  EXPECT_FALSE(p.name.empty());
  EXPECT_TRUE(Must(Nvrtc::Get())->CheckArch(p.arch).ok()) << p.arch;
  EXPECT_GT(p.multiprocessors, 0);
  EXPECT_GT(p.l2_bytes, 0);
  EXPECT_GE(p.smem_bytes_per_block, 48 << 10);
  EXPECT_GT(p.smem_bytes_per_multiprocessor, p.smem_bytes_per_block);
  EXPECT_GE(p.registers_per_multiprocessor, 32768);
  EXPECT_GE(p.threads_per_multiprocessor, 1024);
  EXPECT_GT(p.peak_bytes_per_second, 1e10);
  EXPECT_LT(p.peak_bytes_per_second, 1e14);
  const Device::MemoryInfo memory = Must(device_->memory_info());
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
  EXPECT_EQ(Must(driver_->device(0)), device_);
  for (int ordinal : {-1, driver_->device_count()}) {
    EXPECT_EQ(driver_->device(ordinal).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(CudaDeviceTest, CopiesThereAndBack) {
  for (size_t bytes : {size_t{1}, size_t{3}, size_t{4097}, size_t{(5 << 20) + 1}}) {
    std::vector<uint8_t> data(bytes);
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i * 31 + 7);
    uint8_t* a = Upload(data);
    uint8_t* b = Allocate<uint8_t>(bytes);
    ASSERT_OK(device_->CopyOnDevice(b, a, bytes, stream_->handle()));
    EXPECT_EQ(Download(b, bytes), data);
    ASSERT_OK(device_->Fill(b, 0xa5, bytes, stream_->handle()));
    EXPECT_EQ(Download(b, bytes), std::vector<uint8_t>(bytes, 0xa5));
    allocator_->Free(a, stream_->handle());
    allocator_->Free(b, stream_->handle());
  }
  ASSERT_OK(device_->CopyToDevice(nullptr, nullptr, 0, stream_->handle()));
  ASSERT_OK(device_->Fill(nullptr, 0, 0, stream_->handle()));
  int word = 0;
  EXPECT_FALSE(device_->CopyToDevice(nullptr, &word, 4, stream_->handle()).ok());
}

TEST_F(CudaDeviceTest, AddsVectors) {
  const Kernel add = GetKernel("add");
  EXPECT_GT(add.attributes().registers, 0);
  for (int64_t n : {1, 31, 257, 1000003}) {
    std::vector<float> a(n), b(n), sum(n);
    for (int64_t i = 0; i < n; ++i) {
      a[i] = 0.5f * i;
      b[i] = 3.0f - i;
      sum[i] = a[i] + b[i];
    }
    float *da = Upload(a), *db = Upload(b), *dc = Allocate<float>(n);
    void* params[] = {&da, &db, &dc, &n};
    ASSERT_OK(add.Launch(Blocks((n + 255) / 256, 256), stream_->handle(), params));
    EXPECT_EQ(Download(dc, n), sum);
    for (float* p : {da, db, dc}) allocator_->Free(p, stream_->handle());
  }
}

TEST_F(CudaDeviceTest, RefusesBadLaunchesAndGoesOn) {
  const Kernel increment = GetKernel("increment");
  int n = 1;
  int* p = Upload(std::vector<int>{41});
  void* params[] = {&p, &n};
  const StreamHandle stream = stream_->handle();
  auto code = [&](const LaunchConfig& config, absl::Span<void* const> with) {
    const absl::Status status = increment.Launch(config, stream, with);
    EXPECT_TRUE(absl::StrContains(status.message(), "increment")) << status;
    return status.code();
  };
  EXPECT_EQ(code(Blocks(0, 32), params), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Blocks(1, 0), params), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Blocks(1, 1025), params), absl::StatusCode::kInvalidArgument);
  LaunchConfig config = Blocks(1, 32);
  for (int64_t bytes : {int64_t{-1}, int64_t{1} << 30, int64_t{1} << 40}) {
    config.dynamic_smem_bytes = bytes;
    EXPECT_EQ(code(config, params), absl::StatusCode::kInvalidArgument) << bytes;
  }
  config = Blocks(3, 32);
  config.cluster = {2, 1, 1};  // Does not divide the grid.
  EXPECT_NE(code(config, params), absl::StatusCode::kOk);
  if (driver_->version() >= 12040) {
    EXPECT_EQ(code(Blocks(1, 32), absl::MakeSpan(params, 1)), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(code(Blocks(1, 32), {}), absl::StatusCode::kInvalidArgument);
  }
  void* null_params[] = {&p, nullptr};
  EXPECT_EQ(code(Blocks(1, 32), null_params), absl::StatusCode::kInvalidArgument);

  ASSERT_OK(increment.Launch(Blocks(1, 32), stream, params));
  EXPECT_EQ(Download(p, 1)[0], 42);
  allocator_->Free(p, stream);
}

TEST_F(CudaDeviceTest, OptsInToSharedMemory) {
  const Kernel shared = GetKernel("shared");
  int* p = Upload(std::vector<int>{0});
  int bytes = static_cast<int>(device_->properties().smem_bytes_per_block);
  void* params[] = {&p, &bytes};
  LaunchConfig config = Blocks(1, 32);
  config.dynamic_smem_bytes = bytes;
  EXPECT_FALSE(shared.Launch(config, stream_->handle(), params).ok());
  EXPECT_FALSE(shared.SetMaxDynamicSmemBytes(bytes + 1).ok());
  EXPECT_FALSE(shared.SetMaxDynamicSmemBytes(-1).ok());
  ASSERT_OK(shared.SetMaxDynamicSmemBytes(bytes));
  ASSERT_OK(shared.Launch(config, stream_->handle(), params));
  EXPECT_EQ(Download(p, 1)[0], 7);
  EXPECT_EQ(Must(shared.MaxBlocksPerMultiprocessor(32, bytes)), 1);
  EXPECT_GT(Must(shared.MaxBlocksPerMultiprocessor(32, 1024)), 1);
  EXPECT_FALSE(shared.MaxBlocksPerMultiprocessor(32, -1).ok());
  allocator_->Free(p, stream_->handle());
}

TEST_F(CudaDeviceTest, LaunchesClusters) {
  if (device_->properties().compute_capability_major < 9) return;  // Has no clusters.
  const Kernel cluster = GetKernel("cluster");
  for (uint32_t size : {1u, 2u, 8u, 16u}) {
    LaunchConfig config = Blocks(32, 32);
    config.cluster = {size, 1, 1};
    if (size > 8) {
      ASSERT_OK(cluster.AllowLargeClusters());
    }
    EXPECT_GT(Must(cluster.MaxActiveClusters(config)), 0);
    int* p = Allocate<int>(32);
    void* params[] = {&p};
    ASSERT_OK(cluster.Launch(config, stream_->handle(), params));
    const std::vector<int> ranks = Download(p, 32);
    for (uint32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(ranks[i], static_cast<int>(100 * size + i % size));
    }
    allocator_->Free(p, stream_->handle());
  }
}

TEST_F(CudaDeviceTest, LaunchesCooperatively) {
  const Kernel meet = GetKernel("meet");
  const int resident =
      Must(meet.MaxBlocksPerMultiprocessor(32, 0)) * device_->properties().multiprocessors;
  int* counters = Upload(std::vector<int>{0, 0});
  int* seen = counters + 1;
  void* params[] = {&counters, &seen};
  LaunchConfig config = Blocks(resident, 32);
  config.cooperative = true;
  ASSERT_OK(meet.Launch(config, stream_->handle(), params));
  EXPECT_EQ(Download(counters, 2), std::vector<int>(2, resident));
  config.grid[0] = resident + 1;
  EXPECT_EQ(meet.Launch(config, stream_->handle(), params).code(),
            absl::StatusCode::kResourceExhausted);
  allocator_->Free(counters, stream_->handle());
}

TEST_F(CudaDeviceTest, ChainsDependentLaunches) {
  const Kernel increment = GetKernel("increment");
  int n = 100000;
  int* p = Upload(std::vector<int>(n, 0));
  void* params[] = {&p, &n};
  LaunchConfig config = Blocks((n + 255) / 256, 256);
  config.programmatic_dependent_launch = device_->properties().compute_capability_major >= 9;
  for (int i = 0; i < 50; ++i) ASSERT_OK(increment.Launch(config, stream_->handle(), params));
  EXPECT_EQ(Download(p, n), std::vector<int>(n, 50));
  allocator_->Free(p, stream_->handle());
}

TEST_F(CudaDeviceTest, CapturesAndLaunchesGraphs) {
  const Kernel increment = GetKernel("increment");
  int n = 1000;
  int* p = Upload(std::vector<int>(n, 0));
  void* params[] = {&p, &n};
  const StreamHandle stream = stream_->handle();
  ASSERT_OK(stream_->BeginCapture());
  EXPECT_TRUE(Must(device_->IsCapturing(stream)));
  EXPECT_EQ(allocator_->Allocate(64, stream).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (int i = 0; i < 10; ++i) ASSERT_OK(increment.Launch(Blocks(4, 256), stream, params));
  const Graph graph = Must(stream_->EndCapture());
  EXPECT_FALSE(Must(device_->IsCapturing(stream)));
  EXPECT_EQ(graph.node_count(), 10);
  EXPECT_EQ(Download(p, n), std::vector<int>(n, 0)) << "capturing runs nothing";
  const Stream other = Must(Stream::Create(device_));
  ASSERT_OK(graph.Launch(stream));
  ASSERT_OK(stream_->Synchronize());
  ASSERT_OK(graph.Launch(other.handle()));
  ASSERT_OK(other.Synchronize());
  EXPECT_EQ(Download(p, n), std::vector<int>(n, 20));

  ASSERT_OK(stream_->BeginCapture());
  const Graph empty = Must(stream_->EndCapture());
  EXPECT_EQ(empty.node_count(), 0);
  ASSERT_OK(empty.Launch(stream));
  allocator_->Free(p, stream);
}

TEST_F(CudaDeviceTest, AFailedCaptureLeavesTheStreamUsable) {
  EXPECT_FALSE(stream_->EndCapture().ok());
  ASSERT_OK(stream_->BeginCapture());
  EXPECT_FALSE(stream_->BeginCapture().ok());
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(stream_->EndCapture().status().code(), absl::StatusCode::kFailedPrecondition);
  int* p = Upload(std::vector<int>{5});
  EXPECT_EQ(Download(p, 1)[0], 5);
  allocator_->Free(p, stream_->handle());
}

TEST_F(CudaDeviceTest, OrdersAndTimesByEvents) {
  const Kernel increment = GetKernel("increment");
  const Event start = Must(Event::Create(device_));
  Event end = Must(Event::Create(device_));
  EXPECT_FALSE(end.ElapsedMs(start).ok()) << "never recorded";
  int n = 1 << 22;
  int* p = Upload(std::vector<int>(n, 0));
  void* params[] = {&p, &n};
  const Stream other = Must(Stream::Create(device_));
  ASSERT_OK(start.Record(stream_->handle()));
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(increment.Launch(Blocks(n / 256, 256), stream_->handle(), params));
  }
  ASSERT_OK(end.Record(stream_->handle()));
  ASSERT_OK(other.Wait(end));
  ASSERT_OK(increment.Launch(Blocks(n / 256, 256), other.handle(), params));
  ASSERT_OK(other.Synchronize());
  EXPECT_EQ(Download(p, n), std::vector<int>(n, 21));
  ASSERT_OK(end.Synchronize());
  EXPECT_GT(Must(end.ElapsedMs(start)), 0.0);
  Event moved = std::move(end);
  EXPECT_GT(Must(moved.ElapsedMs(start)), 0.0);
  allocator_->Free(p, stream_->handle());
}

TEST_F(CudaDeviceTest, NamesBothArchsOfAForeignCubin) {
  const Nvrtc& nvrtc = *Must(Nvrtc::Get());
  const std::string other_arch =
      device_->properties().compute_capability_major == 8 ? "sm_75" : "sm_80";
  CompileRequest request = Request("k", other_arch);
  request.source = "extern \"C\" __global__ void k() {}";
  const CompiledKernel foreign = Must(nvrtc.Compile(request));
  const absl::Status status = Module::Load(device_, foreign.cubin, foreign.arch).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), other_arch)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), device_->properties().arch)) << status;
  const absl::Status lie =
      Module::Load(device_, foreign.cubin, device_->properties().arch).status();
  EXPECT_EQ(lie.code(), absl::StatusCode::kFailedPrecondition) << lie;
}

TEST_F(CudaDeviceTest, RefusesWhatIsNoCubin) {
  const std::string& arch = device_->properties().arch;
  const CompiledKernel compiled = Must(Must(Nvrtc::Get())->Compile(Request("add", arch)));
  for (size_t length : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, compiled.cubin.size() / 2,
                        compiled.cubin.size() - 1}) {
    const absl::Status status =
        Module::Load(device_, compiled.cubin.substr(0, length), arch).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << length << status;
  }
  EXPECT_FALSE(Module::Load(device_, std::string(100000, 'x'), arch).ok());
  const Module module = Must(Module::Load(device_, compiled.cubin, arch));
  EXPECT_EQ(module.GetKernel("nothing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Must(module.GetKernel("add")).attributes().registers, compiled.registers);
}

TEST_F(CudaDeviceTest, RunsOutOfMemoryAndGoesOn) {
  const std::unique_ptr<PoolAllocator> plain = Must(PoolAllocator::Create(device_, false));
  for (PoolAllocator* allocator : {allocator_.get(), plain.get()}) {
    const StreamHandle stream = stream_->handle();
    const absl::Status status = allocator->Allocate(size_t{1} << 46, stream).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "70368744177664 bytes")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "are free")) << status;
    EXPECT_EQ(Must(allocator->Allocate(0, stream)), nullptr);
    allocator->Free(nullptr, stream);
    void* small = Must(allocator->Allocate(1, stream));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 256, 0u);
    allocator->Free(small, stream);
    ASSERT_OK(stream_->Synchronize());
    ASSERT_OK(allocator->Trim(0));
  }
}

// Most of the device's memory, twice over: the second time it must come back from the pool, or
// from what another stream has freed.
TEST_F(CudaDeviceTest, ReusesMemory) {
  Stream other = Must(Stream::Create(device_));
  const size_t bytes = Must(device_->memory_info()).free_bytes / 10 * 6;
  for (Stream* stream : {stream_.get(), stream_.get(), &other}) {
    void* p = Must(allocator_->Allocate(bytes, stream->handle()));
    ASSERT_OK(device_->Fill(p, 1, 1024, stream->handle()));
    allocator_->Free(p, stream->handle());
    ASSERT_OK(stream->Synchronize());
  }
  ASSERT_OK(allocator_->Trim(0));
}

TEST_F(CudaDeviceTest, LaunchesFromManyThreads) {
  const Kernel increment = GetKernel("increment");
  std::vector<std::string> failures(8);
  std::vector<std::thread> threads;
  for (std::string& failure : failures) {
    threads.emplace_back([this, &increment, &failure] {
      auto run = [&]() -> absl::Status {
        absl::StatusOr<Stream> stream = Stream::Create(device_);
        if (!stream.ok()) return stream.status();
        int n = 10007;
        absl::StatusOr<void*> p = allocator_->Allocate(n * sizeof(int), stream->handle());
        if (!p.ok()) return p.status();
        void* params[] = {&*p, &n};
        absl::Status status = device_->Fill(*p, 0, n * sizeof(int), stream->handle());
        for (int i = 0; i < 200 && status.ok(); ++i) {
          status = increment.Launch(Blocks(40, 256), stream->handle(), params);
        }
        std::vector<int> host(n);
        if (status.ok()) {
          status = device_->CopyToHost(host.data(), *p, n * sizeof(int), stream->handle());
        }
        if (status.ok()) status = stream->Synchronize();
        allocator_->Free(*p, stream->handle());
        if (status.ok() && host != std::vector<int>(n, 200)) status = absl::DataLossError("values");
        return status;
      };
      if (const absl::Status status = run(); !status.ok()) failure = status.ToString();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<std::string>(failures.size()));
}

// A fault spoils the context of its whole process, so it happens in another one.
using CudaDeviceDeathTest = CudaDeviceTest;
TEST_F(CudaDeviceDeathTest, AFaultingKernelIsAnErrorAndNoCrash) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto child = [this] {
    const Kernel fault = GetKernel("fault");
    int* p = nullptr;
    void* params[] = {&p};
    if (!fault.Launch(Blocks(1, 1), stream_->handle(), params).ok()) return 1;
    const absl::Status status = stream_->Synchronize();
    if (status.code() != absl::StatusCode::kInternal) return 2;
    if (!absl::StrContains(status.message(), "ILLEGAL_ADDRESS")) return 3;
    allocator_->Free(p, stream_->handle());
    if (allocator_->Allocate(64, stream_->handle()).ok()) return 4;
    module_ = nullptr;
    stream_ = nullptr;
    allocator_ = nullptr;
    return 0;
  };
  EXPECT_EXIT(std::exit(child()), ExitedWithCode(0), "");
}

}  // namespace
}  // namespace seam::cuda
