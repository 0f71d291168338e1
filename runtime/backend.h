// What runs prepared calls: the host (simulator and interpreter) or a GPU. Internal to runtime/.
//
// Thread-safety: all functions may be called from many threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/footprint.h"
#include "ir/fusion.h"
#include "ir/status.h"
#include "runtime/cuda/allocator.h"
#include "runtime/executable.h"
#include "runtime/tensor.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam {

// A kernel that a backend has made ready; what is inside is the backend's own.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  virtual void Report(KernelReport& report) const = 0;
  // Bytes of registers that a thread has to put in memory and take back.
  virtual int spill_bytes() const { return 0; }
};

// A call with its sizes worked out: what is left to do is to put in the pointers and go. Memory is
// named by `base`: an index into [inputs..., outputs..., block for intermediate values].
struct PreparedCall {
  struct Buffer {
    int base = 0;
    int64_t offset_bytes = 0;
    int64_t num_elements = 0;  // From there on.
    DType dtype = DType::F32;
    int tracked = -1;           // Index into tracked_elements; -1 for what the caller filled.
    int64_t tracked_first = 0;  // Where in it the buffer begins.
    bool read_only = false;
    bool gaps = false;  // Between elements, where others may lie.
  };
  struct Launch {
    const kernel::Kernel* kernel = nullptr;
    const LoadedKernel* loaded = nullptr;
    int64_t grid = 0;
    std::vector<Buffer> buffers;
    std::vector<int64_t> arguments;
  };
  struct LibraryCall {  // The interpreter runs the group.
    const Fusion* group = nullptr;
    std::vector<SymbolValue> symbols;
    std::vector<Buffer> inputs, outputs;
    std::vector<Tensor> input_types, output_types;  // Null data.
  };
  struct View {  // An output that is part of other memory.
    int output = 0;
    int base = 0;
    int64_t offset_bytes = 0;
  };

  std::vector<std::variant<Launch, LibraryCall>> steps;
  std::vector<std::shared_ptr<const void>> owners;  // Of what these point to.
  int64_t block_bytes = 0;  // For intermediate values; not 0 if a kernel takes tickets.
  std::vector<int64_t>
      tracked_elements;                  // Of each piece of memory whose elements this call writes.
  std::vector<Tensor> output_types;      // Null data.
  std::vector<int64_t> allocated_bytes;  // Per output: to be taken from the allocator; -1: not.
  std::vector<View> views;
  std::vector<int> tracked_outputs;  // Per output: its index in tracked_elements, or -1.
  // Of each input and output, but for outputs that are views. Those of outputs must share nothing
  // with others.
  std::vector<Footprint> footprints;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Makes kernels ready to be launched, several at once; equal ones become one. result[i] belongs
  // to kernels[i]; one failure stops no other.
  virtual std::vector<absl::StatusOr<std::shared_ptr<const LoadedKernel>>> LoadEach(
      absl::Span<const kernel::Kernel* const> kernels) = 0;
  // The same, or the first failure.
  absl::StatusOr<std::vector<std::shared_ptr<const LoadedKernel>>> Load(
      absl::Span<const kernel::Kernel* const> kernels) {
    std::vector<std::shared_ptr<const LoadedKernel>> loaded;
    for (absl::StatusOr<std::shared_ptr<const LoadedKernel>>& kernel : LoadEach(kernels)) {
      SEAM_RETURN_IF_ERROR(kernel.status());
      loaded.push_back(*std::move(kernel));
    }
    return loaded;
  }
  // OK if library calls run here.
  virtual absl::Status SupportsLibrary() const = 0;

  // Does the steps in order, or enqueues them on the stream. `bases` holds the inputs' and outputs'
  // pointers; the block is the backend's to find.
  virtual absl::Status Execute(const PreparedCall& call, absl::Span<void* const> bases,
                               StreamHandle stream) = 0;

  virtual DeviceAllocator& allocator() = 0;
  virtual absl::StatusOr<bool> IsCapturing(StreamHandle stream) const = 0;
  virtual void ReleaseMemory() = 0;

  const DeviceInfo& device() const { return device_; }
  virtual const cuda::Device* cuda_device() const { return nullptr; }
  virtual int64_t num_kernels() const = 0;  // Loaded so far.
  // What kept the cache of compiled kernels from working, in a sentence; empty: nothing.
  virtual std::string cache_warning() const { return ""; }

 protected:
  explicit Backend(const DeviceInfo& device) : device_(device) {}

 private:
  const DeviceInfo device_;
};

absl::StatusOr<std::unique_ptr<Backend>> MakeHostBackend(const CompileOptions& options);
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CompileOptions& options);

}  // namespace seam
