// Compile() makes an Executable of a Fusion; Run() runs it on tensors of any sizes that the Fusion
// allows.
//
// A Fusion is cut into groups once. For the sizes of a call each group gets a schedule, and its
// kernels are compiled if no earlier call needed the same ones: the kernels that serve a call
// depend on its sizes and alignments and never on the calls before it. What a call has worked out
// is kept, so that the next call with the same sizes only looks it up: of 4096 calls of different
// sizes, strides and alignments, fewer where their kernels are all different ones; then the eighth
// that was made the longest ago is dropped. Kernels that a device has loaded stay loaded. A kernel
// may serve many sizes or one: its guards say which (GroupReport::guards).
//
// Memory: intermediate values share one block: on kCuda one per stream from the allocator, which an
// Executable keeps until it is destroyed or ReleaseMemory is called; on host backends one per call
// from the heap. Outputs that the caller does not bring come from the allocator.
//
// An Executable that was moved from may be destroyed or assigned to, and nothing else.
//
// Thread-safety: Run may be called from many threads at once, also on one stream. Work enqueued
// must be done before its Executable is destroyed, and before its stream is destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "ir/reference/host_tensor.h"
#include "runtime/cuda/allocator.h"
#include "runtime/size_binding.h"
#include "runtime/tensor.h"
#include "scheduler/device.h"
#include "scheduler/schedule.h"
#include "segmenter/crossing_types.h"

namespace seam {

namespace cuda {
class CubinCache;
class Device;
}  // namespace cuda
class TunedSchedules;

enum class BackendKind : uint8_t {
  kReference,  // The interpreter: one expression after the other, in double. Host tensors.
  kSimulator,  // The kernels, run on the CPU thread by thread, with every fault found. Host
               // tensors.
  kCuda,       // The kernels, compiled by NVRTC, on a GPU. Device tensors.
  kAuto,       // kCuda where there are a GPU and NVRTC, else kSimulator.
};
absl::string_view BackendName(BackendKind kind);  // "simulator"

struct CompileOptions {
  BackendKind backend = BackendKind::kAuto;
  // What to schedule and compile for, by name ("h200") or architecture ("sm_90a"). Empty: the GPU
  // for kCuda, the first of the device table for kSimulator.
  std::string device;
  int ordinal = 0;   // Of the GPU.
  bool load = true;  // kCuda: false makes machine code without any GPU; Run is then an error.
  // Sizes for which the graph is cut and, where all symbols that it needs are given, compiled at
  // once.
  std::vector<SymbolValue> size_hints;
  // How the graph is cut: the text of a segmentation of it (segmenter/load_segmentation.h). Empty:
  // it is segmented. Nothing to kReference.
  std::string segmentation;
  // Where it is segmented: in what types values may cross between kernels.
  Narrowing narrow_edges = Narrowing::kExact;
  DeviceAllocator* allocator =
      nullptr;  // Null: the driver's stream-ordered pool, the heap on the host.
  cuda::CubinCache* cache =
      nullptr;                      // Null: the user's cache on disk (CubinCache::FromEnvironment).
  bool use_cache = true;            // false: neither reads nor writes a cache.
  TunedSchedules* tuned = nullptr;  // Schedules that won when they were timed. Null: the user's on
                                    // disk (TunedSchedules::FromEnvironment).
  bool use_tuned = true;            // false: heuristics choose all schedules.
  // Sums over rows, such as gradients of weights, in whatever order kernels come to them: faster,
  // and not the same bits in every run. Their schedules say "rows taken by ticket".
  bool any_order = false;
  // kCuda, from sm_90 on: a kernel may start while the one before it in the stream, Seam's or not,
  // ends, and waits for that before it touches memory (programmatic dependent launch). false where
  // a kernel of the caller's that is launched so runs on the same stream and itself waits for
  // nobody: whom it did not wait for, Seam's would not either.
  bool early_launch = true;
  int threads = 0;              // That compile; 0: one per core.
  uint64_t simulator_seed = 0;  // Order of CTAs.
  // Told (done, total) in kernels while they compile, from the threads that do.
  std::function<void(int done, int total)> progress;
};

// One kernel of a group, for people and tools.
struct KernelReport {
  std::string name;
  std::string kernel_text;  // Kernel IR
  // kCuda only, as all that follows. Kernels that differ in names alone are compiled once: `entry`
  // is the name of the one that was.
  std::string entry;
  std::string cuda_text;
  std::string cubin;
  int threads = 0;         // Of a CTA.
  int registers = -1;      // A thread; -1: unknown.
  int64_t smem_bytes = 0;  // A CTA.
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  double compile_ms = 0;  // When it was compiled.
  bool from_cache = false;
};

struct GroupReport {
  uint32_t group = 0;  // Id in the segmentation.
  SchedulerKind scheduler = SchedulerKind::kNone;
  std::string schedule;               // One line.
  std::string origin;                 // Tuned and what that brought, or why the heuristic chose it;
                                      // empty where there is nothing to choose.
  std::string text;                   // The group as a graph.
  std::vector<std::string> guards;    // "N <= 4096  # reason"
  int64_t partial_bytes = 0;          // Of partial states, written and read again between launches
                                      // or phases, beside the group's traffic.
  std::vector<KernelReport> kernels;  // None: nothing is launched, or a library call.
};

struct RunOptions {
  StreamHandle stream = nullptr;  // kCuda
  absl::Span<const SymbolValue>
      symbols;  // Those that the inputs' sizes and strides do not determine.
};

// Where Executable::RunOnHost puts tensors for the run.
struct HostPlacement {
  int64_t offset = 0;  // Elements from an aligned address to each tensor's first one: 0 to 2^30.
  uint8_t fill = 0;    // Every byte of the outputs before the run.
};

class Executable {
 public:
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  const Fusion& fusion() const;
  // What is computed: the Fusion, with a cast wherever a narrow edge rounds a value (same inputs,
  // outputs and symbols). What Run gives is held against this one.
  const Fusion& rounded_fusion() const;
  BackendKind backend() const;  // Never kAuto.
  const DeviceInfo& device() const;
  const cuda::Device* cuda_device() const;  // Null where none is open.
  // Where outputs that Run allocates come from, and go back to: Free(tensor.allocation, stream).
  // CompileOptions::allocator, or the process' own, which outlives the Executable.
  DeviceAllocator& allocator() const;

  // Enqueues the work on the stream (kCuda) or does it (host backends). `inputs` and `outputs` in
  // the Fusion's order. An output without data is allocated: its fields are filled in, and its
  // `allocation` is the caller's to give back. Where such an output is another tensor's elements
  // under other strides, it is a view of them. An output that has data must share no element with
  // an input or another output; between its elements theirs may lie. (Decided exactly for strides
  // that mostly divide one another, as those of a buffer's parts do; what takes more than a few
  // thousand steps counts as shared.) After an error all tensors' fields are as they were. While
  // the stream is captured, Run neither compiles nor allocates: such a call needs an earlier one,
  // outside a capture, with the same sizes, strides and alignments, on the same stream, and must
  // bring its outputs. The graph uses the stream's block for intermediate values; graphs captured
  // from one stream must not run at the same time. Errors: kInvalidArgument naming the tensor, the
  // axis, what was expected and what was found; kResourceExhausted; kUnimplemented for what a
  // backend has no code for; kFailedPrecondition while capturing, as above, and for a fault that
  // the simulator finds.
  absl::Status Run(absl::Span<const Tensor> inputs, absl::Span<Tensor> outputs,
                   const RunOptions& options = {}) const;

  // The outputs' types for these inputs (whose data are not looked at): null data, sizes, strides.
  // Where Run gives a view of another tensor instead, the strides are those that a tensor of its
  // own would have.
  absl::StatusOr<std::vector<Tensor>> InferOutputs(absl::Span<const Tensor> inputs,
                                                   const RunOptions& options = {}) const;

  // Run on tensors in host memory, on any backend; copies them and waits. For tools and tests.
  absl::StatusOr<std::vector<HostTensor>> RunOnHost(absl::Span<const HostTensor> inputs,
                                                    absl::Span<const SymbolValue> symbols = {},
                                                    const HostPlacement& placement = {}) const;

  // Schedules and compiles for tensors of these sizes, aligned to 16 bytes, ahead of Run, and says
  // what came of it, a report per group in the order in which they run. Errors as of Run.
  absl::StatusOr<std::vector<GroupReport>> CompileFor(absl::Span<const SymbolValue> symbols) const;

  // Different kernels made ready so far, schedules in use, and calls' sizes worked out; and groups
  // of the segmentation that no kernel can be made of, which is a defect here: each is cut again.
  struct Statistics {
    int64_t kernels = 0;
    int64_t variants = 0;
    int64_t prepared = 0;
    int64_t broken_promises = 0;
  };
  Statistics statistics() const;  // Waits while another thread works out a call.

  // What has kept the caches on disk, of compiled kernels and of tuned schedules, from working so
  // far, a sentence each. No error: kernels are compiled and heuristics choose instead.
  std::vector<std::string> CacheWarnings() const;

  // Gives the blocks for intermediate values back to the allocator, but for those that a captured
  // graph uses. All work must be done.
  void ReleaseMemory() const;

 private:
  friend absl::StatusOr<Executable> Compile(Fusion fusion, const CompileOptions& options);
  friend class Tuner;  // runtime/tune.h: Executables of a group, with a schedule of its choice.
  class Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Verifies and cuts the graph. Errors: kInternal for a Fusion that does not verify;
// kInvalidArgument for options that do not exist, hints of unknown symbols, outside their range or
// that contradict each other, and a segmentation that does not fit it or its schedulers;
// kUnavailable where the backend's GPU, driver or NVRTC is missing; kNotFound for an unknown
// device; with complete size hints those of CompileFor.
absl::StatusOr<Executable> Compile(Fusion fusion, const CompileOptions& options = {});

}  // namespace seam
