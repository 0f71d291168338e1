// Small tensors on the host, for tests.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/reference/host_tensor.h"

namespace seam::testing {

inline HostTensor Random(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  HostTensor tensor = HostTensor::Make(dtype, std::move(shape)).value();
  FillRandom(tensor, seed);
  return tensor;
}

inline HostTensor Floats(DType dtype, std::vector<int64_t> shape,
                         const std::vector<double>& values) {
  HostTensor tensor = HostTensor::Make(dtype, std::move(shape)).value();
  std::vector<Scalar> scalars;
  for (double x : values) scalars.push_back(FloatScalar(x));
  tensor.FromScalars(scalars);
  return tensor;
}

inline HostTensor Integers(DType dtype, std::vector<int64_t> shape,
                           const std::vector<int64_t>& values) {
  HostTensor tensor = HostTensor::Make(dtype, std::move(shape)).value();
  std::vector<Scalar> scalars;
  for (int64_t x : values) scalars.push_back(IntScalar(x));
  tensor.FromScalars(scalars);
  return tensor;
}

}  // namespace seam::testing
