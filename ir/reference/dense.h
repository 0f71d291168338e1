// Dense row-major arrays of scalars, what the reference computes with.
//
// Thread-safety: values; elements are shared and constant.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ir/scalar.h"

namespace seam::reference {

using Shape = std::vector<int64_t>;

// A value of the graph. Reshapes share the elements.
struct Dense {
  DType dtype = DType::F32;
  Shape shape;
  std::shared_ptr<const std::vector<Scalar>> elements;

  const Scalar* data() const { return elements->data(); }
  int64_t numel() const { return static_cast<int64_t>(elements->size()); }
};

inline Dense MakeDense(DType dtype, Shape shape, std::vector<Scalar> elements) {
  return {dtype, std::move(shape),
          std::make_shared<const std::vector<Scalar>>(std::move(elements))};
}

inline int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// The rows of an array of `shape` along its last axis, each with the offsets that `strides_a` and
// `strides_b` give its first element: row(first element, offset a, offset b). A shape of rank 0 is
// one row.
template <typename Row>
void ForEachRow(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides_a,
                absl::Span<const int64_t> strides_b, Row row) {
  const int64_t numel = NumElements(shape);
  if (numel == 0) return;
  const size_t outer = shape.empty() ? 0 : shape.size() - 1;
  const int64_t length = shape.empty() ? 1 : shape.back();
  Shape index(outer, 0);
  int64_t a = 0, b = 0;
  for (int64_t first = 0; first < numel; first += length) {
    row(first, a, b);
    for (size_t axis = outer; axis-- > 0;) {
      a += strides_a[axis];
      b += strides_b[axis];
      if (++index[axis] < shape[axis]) break;
      a -= index[axis] * strides_a[axis];
      b -= index[axis] * strides_b[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace seam::reference
