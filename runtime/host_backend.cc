// The backend without a GPU: kernels run on the simulator, library calls on the reference
// interpreter.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>

#include "absl/strings/str_cat.h"
#include "ir/reference/interpreter.h"
#include "ir/status.h"
#include "ir/within_memory.h"
#include "runtime/backend.h"
#include "runtime/memory_plan.h"
#include "runtime/simulator/simulator.h"
#include "runtime/tensor.h"

namespace seam {
namespace {

class HeapAllocator : public DeviceAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes, StreamHandle) override {
    if (bytes == 0) return nullptr;
    void* memory = ::operator new(bytes, std::align_val_t(kBufferAlignmentBytes), std::nothrow);
    if (memory == nullptr)
      return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
    return memory;
  }
  void Free(void* memory, StreamHandle) override {
    ::operator delete(memory, std::align_val_t(kBufferAlignmentBytes));
  }
};

HeapAllocator& SharedHeap() {
  static HeapAllocator heap;
  return heap;
}

class SimulatedKernel : public LoadedKernel {
 public:
  explicit SimulatedKernel(const kernel::Kernel& kernel) : kernel_(kernel) {}
  void Report(KernelReport& report) const override { report.smem_bytes = kernel_.SharedBytes(); }

 private:
  const kernel::Kernel& kernel_;
};

class HostBackend : public Backend {
 public:
  HostBackend(const DeviceInfo& device, const CompileOptions& options)
      : Backend(device),
        seed_(options.simulator_seed),
        allocator_(options.allocator != nullptr ? *options.allocator : SharedHeap()) {}

  std::vector<absl::StatusOr<std::shared_ptr<const LoadedKernel>>> LoadEach(
      absl::Span<const kernel::Kernel* const> kernels) override {
    std::vector<absl::StatusOr<std::shared_ptr<const LoadedKernel>>> loaded;
    for (const kernel::Kernel* kernel : kernels) {
      absl::Status verified = kernel::VerifyKernel(*kernel);
      if (verified.ok()) {
        loaded.push_back(std::make_shared<SimulatedKernel>(*kernel));
        ++num_kernels_;
      } else {
        loaded.push_back(std::move(verified));
      }
    }
    return loaded;
  }

  absl::Status SupportsLibrary() const override { return absl::OkStatus(); }

  absl::Status Execute(const PreparedCall& call, absl::Span<void* const> bases,
                       StreamHandle) override {
    SEAM_ASSIGN_OR_RETURN(void* const block,
                          SharedHeap().Allocate(static_cast<size_t>(call.block_bytes), nullptr));
    const absl::Status status = WithinMemory<absl::Status>(
        "a call and what it has written", [&] { return ExecuteWith(call, bases, block); });
    SharedHeap().Free(block, nullptr);
    return status;
  }

  DeviceAllocator& allocator() override { return allocator_; }
  absl::StatusOr<bool> IsCapturing(StreamHandle) const override { return false; }
  void ReleaseMemory() override {}
  int64_t num_kernels() const override { return num_kernels_; }

 private:
  struct Execution {
    const PreparedCall& call;
    std::vector<void*> bases;
    std::vector<std::vector<uint8_t>> written;  // Per tracked piece of memory, a byte an element.
  };

  absl::Status ExecuteWith(const PreparedCall& call, absl::Span<void* const> bases,
                           void* block) const {
    Execution execution{call, {bases.begin(), bases.end()}, {}};
    execution.bases.push_back(block);
    // What no kernel has written yet is not to be read: a fault that a GPU would not tell.
    for (int64_t elements : call.tracked_elements) execution.written.emplace_back(elements, 0);
    MarkGaps(execution);
    absl::Status status;
    for (size_t i = 0; i < call.steps.size() && status.ok(); ++i) {
      const auto* launch = std::get_if<PreparedCall::Launch>(&call.steps[i]);
      status = launch != nullptr
                   ? Simulate(execution, *launch)
                   : Interpret(execution, std::get<PreparedCall::LibraryCall>(call.steps[i]));
    }
    return status.ok() ? CheckAllWritten(execution) : status;
  }

  static std::byte* Address(const Execution& execution, const PreparedCall::Buffer& buffer) {
    return static_cast<std::byte*>(execution.bases[buffer.base]) + buffer.offset_bytes;
  }

  absl::Status Simulate(Execution& execution, const PreparedCall::Launch& launch) const {
    std::vector<simulator::SimBuffer> buffers;
    for (const PreparedCall::Buffer& b : launch.buffers) {
      simulator::SimBuffer buffer{.data = Address(execution, b),
                                  .num_elements = b.num_elements,
                                  .dtype = b.dtype,
                                  .read_only = b.read_only,
                                  .gaps = b.gaps};
      if (b.tracked >= 0)
        buffer.initialized = execution.written[b.tracked].data() + b.tracked_first;
      buffers.push_back(buffer);
    }
    simulator::SimOptions options;
    options.seed = seed_;
    return simulator::Simulate(*launch.kernel, buffers, launch.arguments, options);
  }

  static absl::Status Interpret(Execution& execution, const PreparedCall::LibraryCall& call) {
    SymbolBindings symbols;
    for (const SymbolValue& symbol : call.symbols) symbols.emplace(symbol.name, symbol.value);
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      Tensor from = call.input_types[i];
      from.data = Address(execution, call.inputs[i]);
      SEAM_ASSIGN_OR_RETURN(HostTensor input, HostTensor::Make(from.dtype, from.sizes));
      SEAM_RETURN_IF_ERROR(CopyElements(from, ViewOf(input)));
      inputs.push_back(std::move(input));
    }
    SEAM_ASSIGN_OR_RETURN(std::vector<HostTensor> outputs,
                          seam::Interpret(*call.group, symbols, inputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor to = call.output_types[i];
      to.data = Address(execution, call.outputs[i]);
      SEAM_RETURN_IF_ERROR(CopyElements(ViewOf(outputs[i]), to));
      std::vector<uint8_t>& written = execution.written[call.outputs[i].tracked];
      std::fill(written.begin(), written.end(), 1);
    }
    return absl::OkStatus();
  }

  // Memory between the elements of a strided output, which nobody writes; vectors may have it
  // beside what is wanted.
  static constexpr uint8_t kGap = 2;
  static void MarkGaps(Execution& execution) {
    const PreparedCall& call = execution.call;
    const size_t num_inputs = call.footprints.size() - call.output_types.size();
    for (size_t j = 0; j < call.output_types.size(); ++j) {
      if (call.tracked_outputs[j] < 0 || !call.footprints[num_inputs + j].has_gaps()) continue;
      std::vector<uint8_t>& written = execution.written[call.tracked_outputs[j]];
      std::fill(written.begin(), written.end(), kGap);
      MarkElements(call.output_types[j], 0, 0, written);
    }
  }
  // Those from `axis` on are not written yet.
  static void MarkElements(const Tensor& type, int axis, int64_t first,
                           std::vector<uint8_t>& written) {
    if (axis == type.rank()) {
      written[first] = 0;
      return;
    }
    for (int64_t i = 0; i < type.sizes[axis]; ++i)
      MarkElements(type, axis + 1, first + i * type.strides[axis], written);
  }

  static absl::Status CheckAllWritten(const Execution& execution) {
    for (size_t j = 0; j < execution.call.tracked_outputs.size(); ++j) {
      const int tracked = execution.call.tracked_outputs[j];
      if (tracked < 0) continue;
      int64_t count = 0;
      for (uint8_t w : execution.written[tracked]) count += w == 1;
      const Tensor& type = execution.call.output_types[j];
      // Of an input that is returned, elements may lie on each other.
      const auto all =
          std::min(type.numel(), static_cast<int64_t>(execution.written[tracked].size()));
      if (count >= all) continue;
      return absl::FailedPreconditionError(absl::StrCat("output ", j, ", ", type.ToString(), ": ",
                                                        all - count,
                                                        " elements are written by no kernel"));
    }
    return absl::OkStatus();
  }

  const uint64_t seed_;
  DeviceAllocator& allocator_;
  std::atomic<int64_t> num_kernels_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeHostBackend(const CompileOptions& options) {
  DeviceInfo device = Devices()[0];
  if (!options.device.empty()) {
    SEAM_ASSIGN_OR_RETURN(device, FindDevice(options.device));
  }
  return std::unique_ptr<Backend>(new HostBackend(device, options));
}

}  // namespace seam
