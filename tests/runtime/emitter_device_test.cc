// Emitted kernels on a real device hold against the simulator, bit for bit where the operations
// allow it: copies of every dtype, reductions, integer arithmetic, random numbers. Skipped where
// there is no CUDA device.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "runtime/codegen/emitter.h"
#include "runtime/cuda/compiler.h"
#include "runtime/cuda/driver.h"
#include "runtime/simulator/simulator.h"
#include "tests/support/sample_kernels.h"

namespace seam::testing {
namespace {

using kernel::CacheHint;
using kernel::Kernel;
using kernel::Operand;
using kernel::Space;

// Memory that the test fills and reads, on both sides; in units that keep it aligned.
struct Memory {
  Memory(DType d, int64_t n) : dtype(d), count(n), host(n * DTypeBytes(d) / 64 + 1) {}
  char* data() { return host[0].bytes; }
  size_t bytes() const { return host.size() * sizeof(Line); }
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  DType dtype;
  int64_t count;
  std::vector<Line> host;
};

struct Launch {
  Kernel kernel;
  std::vector<int64_t> parameters;
  int64_t grid;
  std::vector<Memory> memories;
  bool phase_by_phase = false;  // A launch for each instead of a cooperative one.
};

class EmitterDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto driver = cuda::Driver::Get();
    if (!driver.ok()) GTEST_SKIP() << "no CUDA device: " << driver.status().message();
    const auto device = (*driver)->device(0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
  }

  // Runs all launches on the device; their memories then hold what it left there.
  absl::Status RunOnDevice(std::vector<Launch>* launches) {
    SEAM_ASSIGN_OR_RETURN(const cuda::Stream stream, cuda::Stream::Create(device_));
    SEAM_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::PoolAllocator> allocator,
                          cuda::PoolAllocator::Create(device_));
    std::vector<cuda::CompileRequest> requests;
    for (const Launch& launch : *launches) {
      SEAM_ASSIGN_OR_RETURN(std::string text, EmitCuda(launch.kernel));
      requests.push_back({launch.kernel.name,
                          std::move(text),
                          device_->properties().arch,
                          {},
                          launch.kernel.name,
                          0});
    }
    const auto compiled = cuda::CompileAll(requests, nullptr, 0);
    for (size_t i = 0; i < launches->size(); ++i) {
      Launch& launch = (*launches)[i];
      SEAM_RETURN_IF_ERROR(compiled[i].status());
      SEAM_ASSIGN_OR_RETURN(const cuda::Module module,
                            cuda::Module::Load(device_, compiled[i]->cubin, compiled[i]->arch));
      SEAM_ASSIGN_OR_RETURN(const cuda::Kernel kernel, module.GetKernel(launch.kernel.name));
      std::vector<void*> pointers;
      for (Memory& memory : launch.memories) {
        SEAM_ASSIGN_OR_RETURN(void* const pointer,
                              allocator->Allocate(memory.bytes(), stream.handle()));
        SEAM_RETURN_IF_ERROR(
            device_->CopyToDevice(pointer, memory.data(), memory.bytes(), stream.handle()));
        pointers.push_back(pointer);
      }
      std::vector<void*> arguments;
      for (void*& pointer : pointers) arguments.push_back(&pointer);
      for (int64_t& parameter : launch.parameters) arguments.push_back(&parameter);
      cuda::LaunchConfig config;
      config.grid = {static_cast<uint32_t>(launch.grid), 1, 1};
      config.block = {static_cast<uint32_t>(launch.kernel.threads), 1, 1};
      config.dynamic_smem_bytes = launch.kernel.SharedBytes();
      if (launch.kernel.cluster > 1)
        config.cluster = {static_cast<uint32_t>(launch.kernel.cluster), 1, 1};
      if (launch.kernel.cluster > 8) SEAM_RETURN_IF_ERROR(kernel.AllowLargeClusters());
      // Behind the parameters, where there are phases: memory for their barrier, and which to run.
      const int phases = launch.kernel.NumPhases();
      void *arrivals = nullptr, *tickets = nullptr;
      if (launch.kernel.TakesTickets()) {
        SEAM_ASSIGN_OR_RETURN(tickets, allocator->Allocate(4, stream.handle()));
        SEAM_RETURN_IF_ERROR(device_->Fill(tickets, 0, 4, stream.handle()));
        arguments.push_back(&tickets);
      }
      int phase = phases > 1 && launch.phase_by_phase ? 0 : -1;
      if (phases > 1) {
        SEAM_ASSIGN_OR_RETURN(arrivals, allocator->Allocate(4, stream.handle()));
        SEAM_RETURN_IF_ERROR(device_->Fill(arrivals, 0, 4, stream.handle()));
        arguments.push_back(&arrivals);
        arguments.push_back(&phase);
        config.cooperative = phase < 0;
      }
      do {
        // Nothing resets the counters between two launches.
        const bool again = config.cooperative || tickets != nullptr;
        for (int repetition = 0; repetition < (again ? 3 : 1); ++repetition)
          SEAM_RETURN_IF_ERROR(kernel.Launch(config, stream.handle(), arguments));
      } while (phase >= 0 && ++phase < phases);
      allocator->Free(arrivals, stream.handle());
      allocator->Free(tickets, stream.handle());
      for (size_t m = 0; m < pointers.size(); ++m) {
        Memory& memory = launch.memories[m];
        SEAM_RETURN_IF_ERROR(
            device_->CopyToHost(memory.data(), pointers[m], memory.bytes(), stream.handle()));
        allocator->Free(pointers[m], stream.handle());
      }
      SEAM_RETURN_IF_ERROR(stream.Synchronize());
    }
    return absl::OkStatus();
  }

  // Device and simulator leave the same elements, where two NaNs count as the same.
  void ExpectSame(std::vector<Launch> launches) {
    std::vector<Launch> simulated = launches;
    for (Launch& launch : simulated) {
      std::vector<simulator::SimBuffer> buffers;
      for (Memory& m : launch.memories) buffers.push_back({m.data(), m.count, m.dtype});
      const absl::Status status = simulator::Simulate(launch.kernel, buffers, launch.parameters,
                                                      {.phase_by_phase = launch.phase_by_phase});
      ASSERT_TRUE(status.ok()) << status;
    }
    const absl::Status status = RunOnDevice(&launches);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < launches.size(); ++i) {
      for (size_t m = 0; m < launches[i].memories.size(); ++m) {
        Memory& got = launches[i].memories[m];
        Memory& expected = simulated[i].memories[m];
        for (int64_t e = 0; e < got.count; ++e) {
          const int64_t at = e * DTypeBytes(got.dtype);
          const Scalar a = LoadScalar(got.dtype, got.data() + at),
                       b = LoadScalar(got.dtype, expected.data() + at);
          const bool both_nan = IsFloat(got.dtype) && a.f != a.f && b.f != b.f;
          ASSERT_TRUE(both_nan || a.i == b.i)
              << "element " << e << " of buffer " << launches[i].kernel.buffers[m].name << ": "
              << (IsFloat(got.dtype) ? absl::StrCat(a.f, ", expected ", b.f)
                                     : absl::StrCat(a.i, ", expected ", b.i))
              << "\n"
              << PrintKernel(launches[i].kernel);
        }
      }
    }
  }

  // Any bits, NaNs and infinities among them; bools are 0 or 1.
  static void FillWithBits(Memory* memory, uint64_t seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (size_t i = 0; i < memory->bytes(); ++i) {
      memory->data()[i] = static_cast<char>(memory->dtype == DType::Bool ? random() & 1 : random());
    }
  }

  const cuda::Device* device_ = nullptr;
};

TEST_F(EmitterDeviceTest, Copies) {
  std::vector<Launch> launches;
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (const bool packed : {false, true}) {
      for (const int vector : {1, 8, 16}) {
        const int64_t n = 128 * 16 * 2 + 7;
        const CacheHint hint = vector == 8    ? CacheHint::EvictLast
                               : vector == 16 ? CacheHint::Streaming
                                              : CacheHint::Default;
        Launch launch{VectorCopyKernel(dtype, vector, hint, packed),
                      {n},
                      (n + 128 * vector - 1) / (128 * vector),
                      {}};
        launch.memories = {Memory(dtype, n), Memory(dtype, n)};
        FillWithBits(&launch.memories[0], 1);
        launches.push_back(std::move(launch));
      }
    }
  }
  ExpectSame(std::move(launches));
}

TEST_F(EmitterDeviceTest, Reductions) {
  std::vector<Launch> launches;
  const int64_t m = 7, n = 1000;
  for (const bool index32 : {false, true}) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (const int vector : {1, 4, 8}) {
        Launch launch{RowSumKernel(dtype, vector),
                      {m, n},
                      (m + 1) / 2,
                      {Memory(dtype, m * n), Memory(DType::F32, m)}};
        launch.kernel.index32 = index32;
        for (int64_t i = 0; i < m * n; ++i) {
          StoreScalar(dtype, FloatScalar(RoundToDType(dtype, static_cast<double>(i % 97) / 7)),
                      launch.memories[0].data() + i * DTypeBytes(dtype));
        }
        launches.push_back(std::move(launch));
      }
    }
    Launch columns{ColumnSumKernel(),
                   {m, n},
                   (n + 31) / 32,
                   {Memory(DType::F32, m * n), Memory(DType::F32, n)}};
    columns.kernel.index32 = index32;
    for (int64_t i = 0; i < m * n; ++i) {
      StoreScalar(DType::F32,
                  FloatScalar(RoundToDType(DType::F32, static_cast<double>(i % 89) / 3)),
                  columns.memories[0].data() + 4 * i);
    }
    launches.push_back(std::move(columns));
  }
  ExpectSame(std::move(launches));
}

TEST_F(EmitterDeviceTest, IntegerArithmetic) {
  std::vector<Launch> launches;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomIndexKernel random = MakeRandomIndexKernel(seed, seed % 2 == 1);
    launches.push_back(
        {random.kernel, random.parameters, 2, {Memory(DType::I64, random.num_elements)}});
  }
  ExpectSame(std::move(launches));
}

TEST_F(EmitterDeviceTest, Phases) {
  std::vector<Launch> launches;
  for (const int ctas : {1, 2, 3, 100}) {
    for (const bool phase_by_phase : {false, true}) {
      launches.push_back({ExchangeKernel(ctas),
                          {},
                          ctas,
                          {Memory(DType::I32, 128 * ctas), Memory(DType::I32, 128 * ctas)},
                          phase_by_phase});
      launches.push_back(
          {LastingKernel(ctas), {}, ctas, {Memory(DType::I32, 64 * ctas)}, phase_by_phase});
    }
  }
  ExpectSame(std::move(launches));
}

TEST_F(EmitterDeviceTest, Clusters) {
  if (device_->properties().compute_capability_major < 9) return;  // Has no clusters.
  std::vector<Launch> launches;
  for (const DType dtype : {DType::I32, DType::I64}) {
    for (const int cluster : {2, 8, 16}) {
      launches.push_back({ClusterKernel(dtype, 5, cluster, 200),
                          {},
                          5 * cluster,
                          {Memory(dtype, 200 * 5 * cluster * 64)}});
    }
  }
  ExpectSame(std::move(launches));
}

TEST_F(EmitterDeviceTest, AsyncLoads) {
  std::vector<Launch> launches;
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I8}) {
    for (int bytes = std::max(4, DTypeBytes(dtype)); bytes <= 16; bytes *= 2) {
      const int width = bytes / DTypeBytes(dtype);
      for (const int64_t n : {width, 1003 * width, 10000 * width}) {
        Memory x(dtype, n);
        for (int64_t i = 0; i < n * DTypeBytes(dtype); ++i) x.data()[i] = static_cast<char>(i % 61);
        launches.push_back({LoadsAheadKernel(dtype, width, 7), {n}, 7, {x, Memory(dtype, n)}});
      }
    }
  }
  ExpectSame(std::move(launches));
}

// Launched again and again: each launch has all tickets.
TEST_F(EmitterDeviceTest, Tickets) {
  std::vector<Launch> launches;
  for (const int ctas : {1, 7, 500}) {
    for (const int items : {1, 100, 3000})
      launches.push_back(
          {TicketKernel(ctas, items), {}, ctas, {Memory(DType::I32, int64_t{items} * 128)}});
  }
  ExpectSame(std::move(launches));
}

// Uniform numbers are exact; normal ones are left to the tests with tolerances.
TEST_F(EmitterDeviceTest, UniformRandomNumbers) {
  std::vector<Launch> launches;
  for (const DType dtype :
       {DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    KernelDraft d("uniform");
    d.SetGrid(3);
    d.Buffer("y", dtype, 3 * 128, true);
    const int f = d.Fragment("f", dtype);
    const SymInt me = d.block * 128 + d.thread;
    Emit(&d.k.body,
         kernel::Random{OpKind::RandomUniform, f, 0, Operand::Const(DType::I64, IntScalar(-5)),
                        Operand::Const(DType::I64, IntScalar(int64_t{1} << 40)), me});
    Emit(&d.k.body, kernel::Store{f, 0, 1, Space::Global, 0, me});
    launches.push_back({std::move(d.k), {}, 3, {Memory(dtype, 3 * 128)}});
  }
  ExpectSame(std::move(launches));
}

// Loads and stores of single elements through packed fragments, shared memory and shuffles, for
// every dtype.
TEST_F(EmitterDeviceTest, PackedFragmentsSharedMemoryAndShuffles) {
  std::vector<Launch> launches;
  for (int t = 0; t < kNumDTypes; ++t) {
    const DType dtype = static_cast<DType>(t);
    for (const bool packed : {false, true}) {
      KernelDraft d("exchange");
      const int x = d.Buffer("x", dtype, 128 * 4, false), y = d.Buffer("y", dtype, 128 * 4, true);
      const int s = d.Shared("s", dtype, 128 * 4), f = d.Fragment("f", dtype, 5, packed);
      const SymInt v = d.Symbol("v", 4);
      Emit(&d.k.body, kernel::Load{f, 0, 4, Space::Global, x, 4 * d.thread});
      kernel::For shuffles{v, 4, true, {}};
      Emit(&shuffles.body, kernel::ShuffleXor{f, 4, Operand::Reg(f, 3 - v), 5});
      Emit(&shuffles.body, kernel::Store{f, 4, 1, Space::Shared, s, 128 * v + d.thread});
      Emit(&d.k.body, std::move(shuffles));
      Emit(&d.k.body, kernel::CtaSync{});
      Emit(&d.k.body, kernel::Load{f, 0, 4, Space::Shared, s, 4 * (127 - d.thread)});
      Emit(&d.k.body, kernel::Map{OpKind::Copy, f, 4, {Operand::Reg(f, 1)}});
      kernel::For stores{v, 4, true, {}};
      Emit(&stores.body, kernel::Store{f, v + 1, 1, Space::Global, y, 4 * d.thread + v});
      Emit(&d.k.body, std::move(stores));
      Launch launch{std::move(d.k), {}, 1, {Memory(dtype, 128 * 4), Memory(dtype, 128 * 4)}};
      FillWithBits(&launch.memories[0], 3);
      launches.push_back(std::move(launch));
    }
  }
  ExpectSame(std::move(launches));
}

}  // namespace
}  // namespace seam::testing
