#include "runtime/random_inputs.h"

#include "ir/status.h"

namespace seam {

absl::StatusOr<std::vector<HostTensor>> RandomInputs(const Fusion& fusion, const SizeBinding& sizes,
                                                     uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (ValId v : fusion.inputs()) {
    SEAM_ASSIGN_OR_RETURN(const Tensor type, TensorFor(fusion, v, sizes));
    SEAM_ASSIGN_OR_RETURN(HostTensor input,
                          HostTensor::MakeStrided(type.dtype, type.sizes, type.strides));
    const uint64_t input_seed = seed * 1000003 + inputs.size();
    if (type.dtype == DType::I64 || type.dtype == DType::I32) {
      FillRandomIntegers(input, input_seed, 0, 4);
    } else {
      FillRandom(input, input_seed);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace seam
