// Operand values that reach every branch of the elementwise operations, and the kernel that runs
// them all.
#pragma once

#include <string>
#include <vector>

#include "ir/ops.h"
#include "ir/scalar.h"

namespace seam::testing {

// An elementwise operation or a cast on one dtype.
struct OpSample {
  OpKind kind;
  DType in;
  DType out;
  std::vector<DType> operand_dtypes;
  std::vector<std::vector<Scalar>> operands;  // All of the same length.

  std::string Name() const;               // "add.f32", "cast.f32.i8"
  std::vector<Scalar> Reference() const;  // By ir/op_semantics.h.
};

// NaN, infinities, both zeros, the largest, smallest and subnormal values, small integers and
// halves, and random values: of the dtype, in a fixed order.
std::vector<Scalar> SampleValues(DType dtype);

// One sample for every elementwise operation and dtype that it takes, and for every cast. Operands
// of two and more hold all pairs of the special values, then random ones.
std::vector<OpSample> AllOpSamples();

// CUDA text of `extern "C" void kernel(const void* a, const void* b, const void* c, void* out, long
// long n)`, which computes the sample's operation on arrays in storage format.
std::string SampleKernel(const OpSample& sample, const std::string& kernel);

}  // namespace seam::testing
