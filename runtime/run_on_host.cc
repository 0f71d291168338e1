// Executable::RunOnHost: tensors in host memory, whatever the backend.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/footprint.h"
#include "ir/status.h"
#include "runtime/cuda/driver.h"
#include "runtime/executable.h"

namespace seam {
namespace {

constexpr int64_t kMaxOffset = int64_t{1} << 30;

// Copies of host tensors where the backend wants them.
class Copies {
 public:
  explicit Copies(const Executable& executable)
      : device_(executable.cuda_device()), allocator_(executable.allocator()) {}
  ~Copies() {
    (void)Synchronize();
    for (void* memory : memory_) allocator_.Free(memory, stream());
    (void)Synchronize();
  }

  absl::Status CreateStream() {
    if (device_ == nullptr) return absl::OkStatus();
    SEAM_ASSIGN_OR_RETURN(stream_, cuda::Stream::Create(device_));
    return absl::OkStatus();
  }
  StreamHandle stream() const { return stream_ ? stream_->handle() : nullptr; }
  absl::Status Synchronize() const { return stream_ ? stream_->Synchronize() : absl::OkStatus(); }

  // Sets `tensor`'s data, `offset` elements behind an aligned address.
  absl::Status CopyIn(const HostTensor& host, int64_t offset, Tensor& tensor) {
    const size_t skipped = static_cast<size_t>(offset) * DTypeBytes(host.dtype);
    SEAM_ASSIGN_OR_RETURN(void* const memory,
                          allocator_.Allocate(skipped + host.data.size(), stream()));
    memory_.push_back(memory);
    tensor.data = static_cast<std::byte*>(memory) + skipped;
    if (device_ != nullptr)
      return device_->CopyToDevice(tensor.data, host.data.data(), host.data.size(), stream());
    std::copy(host.data.begin(), host.data.end(), static_cast<std::byte*>(tensor.data));
    return absl::OkStatus();
  }
  // Gives this back to the allocator as well, in the end.
  void Adopt(void* memory) {
    if (memory != nullptr) memory_.push_back(memory);
  }
  absl::Status CopyOut(const Tensor& tensor, HostTensor& host) const {
    if (device_ != nullptr)
      return device_->CopyToHost(host.data.data(), tensor.data, host.data.size(), stream());
    std::copy_n(static_cast<const std::byte*>(tensor.data), host.data.size(), host.data.begin());
    return absl::OkStatus();
  }

 private:
  const cuda::Device* const device_;  // Null: host memory.
  DeviceAllocator& allocator_;
  std::optional<cuda::Stream> stream_;
  std::vector<void*> memory_;
};

}  // namespace

absl::StatusOr<std::vector<HostTensor>> Executable::RunOnHost(
    absl::Span<const HostTensor> inputs, absl::Span<const SymbolValue> symbols,
    const HostPlacement& placement) const {
  if (placement.offset < 0 || placement.offset > kMaxOffset) {
    return absl::InvalidArgumentError(absl::StrCat(
        "HostPlacement::offset: found ", placement.offset, ", expected 0 to ", kMaxOffset));
  }
  std::vector<Tensor> in;
  // Views need not be const; nothing writes to inputs.
  for (const HostTensor& input : inputs) in.push_back(ViewOf(const_cast<HostTensor&>(input)));
  RunOptions options;
  options.symbols = symbols;
  SEAM_ASSIGN_OR_RETURN(std::vector<Tensor> out, InferOutputs(in, options));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const absl::Status status = inputs[i].Check();
    if (status.ok()) continue;
    return absl::Status(status.code(),
                        absl::StrCat("input ", std::string(fusion().name(fusion().inputs()[i])),
                                     ": ", status.message()));
  }
  std::vector<HostTensor> outputs;
  for (const Tensor& type : out) {
    SEAM_ASSIGN_OR_RETURN(HostTensor output,
                          HostTensor::MakeStrided(type.dtype, type.sizes, type.strides));
    std::fill(output.data.begin(), output.data.end(), std::byte{placement.fill});
    outputs.push_back(std::move(output));
  }
  Copies copies(*this);
  SEAM_RETURN_IF_ERROR(copies.CreateStream());
  options.stream = copies.stream();
  for (size_t i = 0; i < in.size(); ++i)
    SEAM_RETURN_IF_ERROR(copies.CopyIn(inputs[i], placement.offset, in[i]));
  for (size_t j = 0; j < out.size(); ++j) {
    // An input whose elements lie on each other is returned as it lies.
    if (!ElementsOverlap(out[j].sizes, out[j].strides))
      SEAM_RETURN_IF_ERROR(copies.CopyIn(outputs[j], placement.offset, out[j]));
  }
  SEAM_RETURN_IF_ERROR(Run(in, absl::MakeSpan(out), options));
  for (const Tensor& tensor : out) copies.Adopt(tensor.allocation);
  for (size_t j = 0; j < out.size(); ++j) SEAM_RETURN_IF_ERROR(copies.CopyOut(out[j], outputs[j]));
  SEAM_RETURN_IF_ERROR(copies.Synchronize());
  return outputs;
}

}  // namespace seam
