// The reference's computations on dense row-major arrays of scalars, without graphs, symbols or
// memory formats. What folds many elements to one is in reductions.cc.
//
// Thread-safety: pure functions, but for the Noise that is passed in.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/ops.h"
#include "ir/reference/dense.h"
#include "ir/reference/noise.h"
#include "ir/scalar.h"

namespace seam::reference {

// An elementwise operation or cast. Operands have the rank of `shape` or 0; extents of 1 are
// repeated. `moved`: the noise has moved some operand.
Dense Pointwise(OpKind kind, DType out, const Shape& shape, absl::Span<const Dense> operands,
                bool moved, Noise& noise);

// Sum ... ArgMin over `axes`, ascending.
Dense Reduce(OpKind kind, DType out, const Dense& operand, absl::Span<const int32_t> axes,
             Noise& noise);
// Average, m2, count.
std::vector<Dense> WelfordStatistics(const Dense& operand, absl::Span<const int32_t> axes,
                                     Noise& noise);

Dense Fill(const Dense& value, Shape shape);  // `value` has one element.
Dense Iota(DType dtype, int axis, Shape shape);
Dense Random(OpKind kind, DType dtype, int64_t seed, int64_t offset, Shape shape, Noise& noise);

// The elements at offset + sum(i_k * strides[k]), strides of any sign or 0.
Dense StridedCopy(const Dense& source, int64_t offset, absl::Span<const int64_t> strides,
                  Shape shape);
// `source` written into a tensor of `fill`, beginning at `start`.
Dense Pad(const Dense& source, absl::Span<const int64_t> start, Shape shape, Scalar fill);
Dense Concatenate(absl::Span<const Dense> operands, int axis, Shape shape);
// `index` has the source's rank (gather) or one axis (index_select).
Dense Gather(const Dense& source, const Dense& index, int axis);
Dense IndexSelect(const Dense& source, const Dense& index, int axis);
// [..., M, K] x [..., K, N].
Dense MatrixProduct(const Dense& a, const Dense& b, Noise& noise);

}  // namespace seam::reference
