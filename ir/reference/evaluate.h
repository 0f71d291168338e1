// The reference's computations on dense row-major arrays of scalars, without graphs, symbols or
// memory formats.
//
// Thread-safety: pure functions, but for the Noise that is passed in.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ir/ops.h"
#include "ir/reference/interpreter.h"
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

Dense MakeDense(DType dtype, Shape shape, std::vector<Scalar> elements);

// Moves inexact results within their bounds.
class Noise {
 public:
  Noise(Perturbation mode, uint64_t seed) : mode_(mode), seed_(seed), state_(seed) {}
  bool active() const { return mode_ != Perturbation::kNone; }
  // Called before the elements of each inexact result.
  void NextResult() { ++result_; }
  // Called before those of each exact result that is rounded anew. Patterns count both by
  // themselves: they stay the same for inexact results, however many others lie between.
  void NextRounding() { ++rounding_; }
  // value + bound, value - bound or, by the mode, a value between; `value` if it is not finite.
  double Move(double value, double bound);
  // The same for what only its rounding moves, at one of the ends.
  double MoveRounding(double value, double bound);
  bool Coin() { return Coin(result_); }  // One of two ways.
  int Pick(int n);                       // One of n.

 private:
  bool Coin(uint64_t result);
  uint64_t Next();  // Random bits.

  const Perturbation mode_;
  const uint64_t seed_;
  uint64_t state_;
  uint64_t result_ = 0, rounding_ = 0;
};

// For every value, whether something inexact leads to it: whether noise moves it.
std::vector<bool> InexactValues(const Fusion& fusion);

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
