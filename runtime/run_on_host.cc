// Executable::RunOnHost: tensors in host memory, whatever the backend.
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "ir/status.h"
#include "runtime/cuda/driver.h"
#include "runtime/executable.h"

namespace seam {
namespace {

// Copies `hosts` to memory of the device.
absl::Status CopyIn(const cuda::Device& device, DeviceAllocator& allocator, StreamHandle stream,
                    absl::Span<const HostTensor> hosts, std::vector<Tensor>& tensors) {
  for (size_t i = 0; i < hosts.size(); ++i) {
    SEAM_ASSIGN_OR_RETURN(tensors[i].data, allocator.Allocate(hosts[i].data.size(), stream));
    SEAM_RETURN_IF_ERROR(
        device.CopyToDevice(tensors[i].data, hosts[i].data.data(), hosts[i].data.size(), stream));
  }
  return absl::OkStatus();
}

absl::Status RunOnDevice(const Executable& executable, absl::Span<const HostTensor> inputs,
                         absl::Span<const SymbolValue> symbols, std::vector<Tensor> in,
                         std::vector<Tensor> out, std::vector<HostTensor>& outputs) {
  const cuda::Device& device = *executable.cuda_device();
  DeviceAllocator& allocator = executable.allocator();
  SEAM_ASSIGN_OR_RETURN(const cuda::Stream stream, cuda::Stream::Create(&device));
  for (std::vector<Tensor>* tensors : {&in, &out}) {
    for (Tensor& tensor : *tensors) tensor.data = nullptr;
  }
  const absl::Cleanup free_all = [&] {
    (void)stream.Synchronize();
    for (const std::vector<Tensor>* tensors : {&in, &out}) {
      for (const Tensor& tensor : *tensors) allocator.Free(tensor.data, stream.handle());
    }
    (void)stream.Synchronize();
  };
  SEAM_RETURN_IF_ERROR(CopyIn(device, allocator, stream.handle(), inputs, in));
  SEAM_RETURN_IF_ERROR(CopyIn(device, allocator, stream.handle(), outputs, out));
  RunOptions options;
  options.stream = stream.handle();
  options.symbols = symbols;
  SEAM_RETURN_IF_ERROR(executable.Run(in, absl::MakeSpan(out), options));
  for (size_t j = 0; j < outputs.size(); ++j) {
    SEAM_RETURN_IF_ERROR(device.CopyToHost(outputs[j].data.data(), out[j].data,
                                           outputs[j].data.size(), stream.handle()));
  }
  return stream.Synchronize();
}

}  // namespace

absl::StatusOr<std::vector<HostTensor>> Executable::RunOnHost(
    absl::Span<const HostTensor> inputs, absl::Span<const SymbolValue> symbols) const {
  std::vector<Tensor> in, out;
  // Views need not be const; nothing writes to inputs.
  for (const HostTensor& input : inputs) in.push_back(ViewOf(const_cast<HostTensor&>(input)));
  RunOptions options;
  options.symbols = symbols;
  SEAM_ASSIGN_OR_RETURN(const std::vector<Tensor> types, InferOutputs(in, options));
  std::vector<HostTensor> outputs;
  for (const Tensor& type : types) {
    SEAM_ASSIGN_OR_RETURN(HostTensor output,
                          HostTensor::MakeStrided(type.dtype, type.sizes, type.strides));
    outputs.push_back(std::move(output));
  }
  for (HostTensor& output : outputs) out.push_back(ViewOf(output));
  if (cuda_device() != nullptr) {
    SEAM_RETURN_IF_ERROR(
        RunOnDevice(*this, inputs, symbols, std::move(in), std::move(out), outputs));
  } else {
    SEAM_RETURN_IF_ERROR(Run(in, absl::MakeSpan(out), options));
  }
  return outputs;
}

}  // namespace seam
