// The CUDA driver, opened at run time: devices, modules, launches, streams, events, graphs, copies.
// One build of Seam runs with or without a GPU; without one Driver::Get() says so, and everything
// else here hangs off the Driver it would have returned.
//
// Module, Stream, Event and Graph each own one driver object; they move and do not copy. A Device
// lives until the process ends, so they hold plain pointers to it. All operations may be called
// from any thread, with any context current or none: each makes its device's primary context
// current for the call. An object itself is no more thread-safe than the driver's: launch one
// Kernel from many threads freely, destroy it once.
//
// Errors carry the operation, the driver's name for the error and its text. kResourceExhausted: no
// memory, or too much asked of a block; kInvalidArgument: the driver refuses a value;
// kUnimplemented: the device or driver cannot do this; kFailedPrecondition: wrong architecture, or
// not while capturing; kInternal: the rest, among it faults of kernels that ran earlier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/cuda/allocator.h"

// The driver's own opaque types; cuda.h is included by the .cc files of this folder only.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;
struct CUmemPoolHandle_st;

namespace seam::cuda {

struct DriverFunctions;
class Device;

// The opened library. Thread-safe; lives until the process ends.
class Driver {
 public:
  // The driver of this process, opened by the first call. Error: kUnavailable (no libcuda.so.1, no
  // device, a driver older than CUDA 12.0, a driver that does not start), saying which and what
  // to do. The answer does not change while the process lives.
  static absl::StatusOr<const Driver*> Get();

  // Opens the library at `path`. For tests; programs call Get().
  static absl::StatusOr<std::unique_ptr<const Driver>> Open(const std::string& path);

  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  int version() const { return version_; }  // 13000: the newest CUDA that the driver serves.
  int device_count() const { return static_cast<int>(devices_.size()); }  // At least 1.

  // The device with this ordinal, its primary context retained at the first call (which takes some
  // 100 ms) and kept. Error: kInvalidArgument if there is none.
  absl::StatusOr<const Device*> device(int ordinal) const;

  const DriverFunctions& functions() const { return *functions_; }  // For this folder.

 private:
  Driver();

  std::unique_ptr<DriverFunctions> functions_;
  int version_ = 0;
  mutable std::mutex mutex_;  // Guards devices_, whose entries are null until they are asked for.
  mutable std::vector<std::unique_ptr<const Device>> devices_;
};

// What a kernel's plan depends on.
struct DeviceProperties {
  std::string name;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  std::string arch;  // To compile for: "sm_90a"; before 9.0 without the "a".
  int multiprocessors = 0;
  int64_t l2_bytes = 0;
  int64_t smem_bytes_per_block = 0;  // The most, opted in to with SetMaxDynamicSmemBytes.
  int64_t smem_bytes_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
  int threads_per_multiprocessor = 0;
  int64_t global_bytes = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  double peak_bytes_per_second = 0;  // Two transfers a memory clock over the whole bus.
  bool cooperative_launch = false;   // Grids that are wholly resident may synchronize.
  bool memory_pools = false;         // Stream-ordered allocation works.
};

class Device {
 public:
  int ordinal() const { return ordinal_; }
  const DeviceProperties& properties() const { return properties_; }

  // Free and total bytes of device memory now.
  struct MemoryInfo {
    int64_t free_bytes = 0;
    int64_t total_bytes = 0;
  };
  absl::StatusOr<MemoryInfo> memory_info() const;

  // `bytes` between host and device, or on the device, in the order of `stream`. Host memory that
  // is not page-locked makes the call wait for the copy; page-locked memory must stay until the
  // stream got there. Zero bytes do nothing.
  absl::Status CopyToDevice(void* device, const void* host, size_t bytes,
                            StreamHandle stream) const;
  absl::Status CopyToHost(void* host, const void* device, size_t bytes, StreamHandle stream) const;
  absl::Status CopyOnDevice(void* to, const void* from, size_t bytes, StreamHandle stream) const;
  // Every byte of `device` becomes `value`.
  absl::Status Fill(void* device, uint8_t value, size_t bytes, StreamHandle stream) const;

  // Operations on any stream of this device, also one that Seam did not create.
  absl::Status Synchronize(StreamHandle stream) const;
  absl::StatusOr<bool> IsCapturing(StreamHandle stream) const;

  const Driver& driver() const { return driver_; }
  CUctx_st* context() const { return context_; }  // For this folder.

 private:
  friend class Driver;
  Device(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  absl::Status Initialize();

  const Driver& driver_;
  const int ordinal_;
  CUctx_st* context_ = nullptr;
  DeviceProperties properties_;
};

// Destroys a driver object of `device`.
struct DriverDeleter {
  const Device* device;
  void operator()(CUmod_st* module) const;
  void operator()(CUstream_st* stream) const;
  void operator()(CUevent_st* event) const;
  void operator()(CUgraphExec_st* graph) const;
};
template <typename Object>
using Owned = std::unique_ptr<Object, DriverDeleter>;

class Event;
class Graph;

// A stream that does not wait for the default stream.
class Stream {
 public:
  static absl::StatusOr<Stream> Create(const Device* device);

  StreamHandle handle() const { return stream_.get(); }
  const Device& device() const { return *stream_.get_deleter().device; }

  absl::Status Synchronize() const { return device().Synchronize(handle()); }
  // What is enqueued from now on waits for `event`.
  absl::Status Wait(const Event& event) const;

  // What this thread enqueues on the stream until EndCapture is recorded and not run.
  // EndCapture, on the same thread, ends the capture in any case; an error inside it comes out
  // there.
  absl::Status BeginCapture() const;
  absl::StatusOr<Graph> EndCapture() const;

 private:
  explicit Stream(Owned<CUstream_st> stream) : stream_(std::move(stream)) {}

  Owned<CUstream_st> stream_;
};

// A recorded sequence of work, ready to be launched. The modules whose kernels it launches, and
// the memory they use, must outlive it. One launch of it runs at a time, in launch order.
class Graph {
 public:
  absl::Status Launch(StreamHandle stream) const;
  int node_count() const { return node_count_; }

 private:
  friend class Stream;
  Graph(Owned<CUgraphExec_st> graph, int node_count)
      : graph_(std::move(graph)), node_count_(node_count) {}

  Owned<CUgraphExec_st> graph_;
  int node_count_;
};

// A point in a stream, with its time.
class Event {
 public:
  static absl::StatusOr<Event> Create(const Device* device);

  absl::Status Record(StreamHandle stream) const;
  absl::Status Synchronize() const;
  // Milliseconds from `start` to this one; both must have passed.
  absl::StatusOr<double> ElapsedMs(const Event& start) const;

 private:
  friend class Stream;
  explicit Event(Owned<CUevent_st> event) : event_(std::move(event)) {}

  Owned<CUevent_st> event_;
};

struct LaunchConfig {
  std::array<uint32_t, 3> grid = {1, 1, 1};     // blocks
  std::array<uint32_t, 3> block = {1, 1, 1};    // threads
  std::array<uint32_t, 3> cluster = {0, 0, 0};  // blocks; zeros: no cluster
  int64_t dynamic_smem_bytes = 0;
  bool cooperative = false;  // The whole grid is resident, so that it may synchronize.
  // The kernel may start before its predecessor in the stream has ended; it waits itself
  // (griddepcontrol.wait) before it reads or writes what a predecessor does: later launches rely on
  // that.
  bool programmatic_dependent_launch = false;
};

class Module;

// One entry of a loaded module. Copyable; valid while its Module lives.
class Kernel {
 public:
  struct Attributes {
    int registers = 0;  // per thread
    int64_t local_bytes = 0;
    int64_t static_smem_bytes = 0;
    int max_threads_per_block = 0;
  };
  const Attributes& attributes() const { return attributes_; }
  const std::string& name() const { return name_; }

  // Allows blocks with up to this many bytes of dynamic shared memory: needed above 48 KiB.
  absl::Status SetMaxDynamicSmemBytes(int64_t bytes) const;
  // Allows clusters of more than 8 blocks.
  absl::Status AllowLargeClusters() const;

  // Blocks of this shape that one multiprocessor holds at once; 0 if not one fits.
  absl::StatusOr<int> MaxBlocksPerMultiprocessor(int block_threads,
                                                 int64_t dynamic_smem_bytes) const;
  // Clusters of this shape that the device holds at once.
  absl::StatusOr<int> MaxActiveClusters(const LaunchConfig& config) const;

  // Enqueues the kernel. params[i] points to the value of parameter i, which is read before this
  // returns. Error: kInvalidArgument also if the kernel takes another number of parameters (where
  // the driver, from CUDA 12.4, can tell).
  absl::Status Launch(const LaunchConfig& config, StreamHandle stream,
                      absl::Span<void* const> params) const;

 private:
  friend class Module;
  Kernel(const Device* device, CUfunc_st* handle, std::string name)
      : device_(device), handle_(handle), name_(std::move(name)) {}

  const Device* device_;
  CUfunc_st* handle_;
  std::string name_;
  Attributes attributes_;
  int parameter_count_ = -1;  // -1: unknown
};

// Loaded machine code.
class Module {
 public:
  // Loads `cubin`, compiled for `arch` ("sm_90a"). Error: kFailedPrecondition, with both
  // architectures, if this device cannot run it.
  static absl::StatusOr<Module> Load(const Device* device, absl::string_view cubin,
                                     absl::string_view arch);

  // Error: kNotFound.
  absl::StatusOr<Kernel> GetKernel(const std::string& name) const;

 private:
  explicit Module(Owned<CUmod_st> module) : module_(std::move(module)) {}

  Owned<CUmod_st> module_;
};

// The default allocator: a stream-ordered pool of its own. Memory given back stays in the pool for
// the next Allocate until Trim, or until an Allocate finds no other memory. Without a pool (the
// device has none), cuMemAlloc and cuMemFree, which wait. Thread-safe. Must outlive its memory.
class PoolAllocator : public DeviceAllocator {
 public:
  static absl::StatusOr<std::unique_ptr<PoolAllocator>> Create(const Device* device) {
    return Create(device, device->properties().memory_pools);
  }
  static absl::StatusOr<std::unique_ptr<PoolAllocator>> Create(const Device* device, bool use_pool);
  ~PoolAllocator() override;

  absl::StatusOr<void*> Allocate(size_t bytes, StreamHandle stream) override;
  void Free(void* pointer, StreamHandle stream) override;
  // Returns to the system what is free in the pool beyond `keep_bytes`.
  absl::Status Trim(size_t keep_bytes);

 private:
  PoolAllocator(const Device* device, CUmemPoolHandle_st* pool) : device_(device), pool_(pool) {}

  const Device* device_;
  CUmemPoolHandle_st* pool_;  // Null: without a pool.
};

}  // namespace seam::cuda
