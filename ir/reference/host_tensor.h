// A tensor in host memory: what goes into and comes out of every backend.
//
// Invariants: `data` holds the elements in their memory format; element (i0, i1, ...) is at
// sum(i_k * strides[k]) elements from its start; strides are non-negative and `data` holds every
// element. Thread-safety: a value; reading from many threads is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/dtype.h"
#include "ir/scalar.h"

namespace seam {

struct HostTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // In elements, one per axis.
  std::vector<std::byte> data;

  // Zeros. Row-major, or with the given strides. Errors: a negative extent or stride, a count of
  // strides that is not the rank, more than 2^40 bytes, or more memory than there is.
  static absl::StatusOr<HostTensor> Make(DType dtype, absl::Span<const int64_t> shape);
  static absl::StatusOr<HostTensor> MakeStrided(DType dtype, absl::Span<const int64_t> shape,
                                                absl::Span<const int64_t> strides);

  // That the invariants hold, for who has filled in the fields. Errors: kInvalidArgument.
  absl::Status Check() const;

  int64_t numel() const;
  // Elements from the start of `data` to one past the last that is addressed; 0 if there is none.
  int64_t span_elements() const;
  bool is_contiguous() const;
  Scalar at(absl::Span<const int64_t> index) const;
  void set(absl::Span<const int64_t> index, Scalar value);

  // All elements in row-major order of the logical index, and back.
  std::vector<Scalar> ToScalars() const;
  void FromScalars(absl::Span<const Scalar> values);  // Exactly numel() of them.

  std::string ShapeString() const;  // "f32[3, 4]"
};

// Row-major strides of a shape, in elements; an axis of extent 0 counts as 1.
std::vector<int64_t> RowMajorStrides(absl::Span<const int64_t> shape);

// Random elements, the same for the same seed on every machine: floats from the standard normal
// distribution, integers uniform over -100..100 (u8: 0..200), bool fair.
void FillRandom(HostTensor& tensor, uint64_t seed);
// Integers uniform over lo..hi inclusive, wrapped or rounded to the dtype.
void FillRandomIntegers(HostTensor& tensor, uint64_t seed, int64_t lo, int64_t hi);

// How far `actual` is from `expected`. NaN agrees with NaN alone, an infinity with itself alone; a
// disagreement of these counts as infinite. Integers and bool: one unit is 1.
struct TensorError {
  double max_ulps = 0;  // In units of the last place of the dtype, at the expected value.
  double max_absolute = 0;
  double max_relative = 0;     // |actual - expected| / |expected|, where expected is not 0.
  int64_t num_different = 0;   // Elements that are not equal.
  std::vector<int64_t> worst;  // Index of the element with the most units; empty if all are equal.
  std::string ToString() const;  // One line.
};
// Error: another dtype or shape.
absl::StatusOr<TensorError> CompareTensors(const HostTensor& expected, const HostTensor& actual);

}  // namespace seam
