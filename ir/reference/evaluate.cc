// Loops over dense arrays, an element of the result at a time: arithmetic, copies, lookups. Inner
// loops run along the last axis, which is contiguous.
#include "ir/reference/evaluate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/op_semantics.h"
#include "ir/philox.h"
#include "ir/reference/host_tensor.h"

namespace seam::reference {
namespace {

constexpr size_t kBlock =
    2048;  // Elements of a pointwise operation at a time: they stay in the cache.

// Strides with which an operand is read as an array of `shape`: extents of 1 and missing axes
// repeat.
Shape BroadcastStrides(const Dense& operand, const Shape& shape) {
  Shape strides(shape.size(), 0);
  if (operand.shape.empty()) return strides;
  const std::vector<int64_t> own = RowMajorStrides(operand.shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = operand.shape[axis] == 1 ? 0 : own[axis];
  }
  return strides;
}

}  // namespace

Dense Pointwise(OpKind kind, DType out, const Shape& shape, absl::Span<const Dense> operands,
                bool moved, Noise& noise) {
  const size_t numel = static_cast<size_t>(NumElements(shape));
  std::vector<Scalar> result(numel);
  // Operands of the result's shape are read in place, single elements from a block of repetitions,
  // the rest from a copy.
  struct Source {
    const Scalar* data;
    bool repeated;
  };
  std::vector<Source> sources;
  std::vector<std::vector<Scalar>> repetitions(operands.size());
  std::vector<Dense> copies;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Dense& operand = operands[k];
    if (operand.numel() == 1) {
      repetitions[k].assign(std::min(kBlock, numel), operand.data()[0]);
      sources.push_back({repetitions[k].data(), true});
    } else if (operand.shape == shape) {
      sources.push_back({operand.data(), false});
    } else {
      copies.push_back(StridedCopy(operand, 0, BroadcastStrides(operand, shape), shape));
      sources.push_back({copies.back().data(), false});
    }
  }
  const DType in = operands.back().dtype;
  const OpInfo& op = GetOpInfo(kind);
  // The host's own libm errs too, which counts in f64 alone.
  const double ulps = op.max_ulps + (in == DType::F64 ? 1 : 0);
  const bool inexact = noise.active() && op.max_ulps > 0 && IsFloat(out);
  if (inexact) noise.NextResult();
  // An operand that is off by a little is rounded anew with all that follows, which counts where
  // terms cancel afterwards: up or down, so that a few runs reach what all values of the operand
  // may lead to. A cast rounds more than operands move; of f64 nothing is left unrounded here.
  const bool rounds_anew = moved && noise.active() && !inexact && kind != OpKind::Cast &&
                           out == DType::F32 && in == DType::F32;
  if (rounds_anew) noise.NextRounding();
  std::vector<const Scalar*> args(sources.size());
  for (size_t first = 0; first < numel; first += kBlock) {
    const size_t n = std::min(kBlock, numel - first);
    Scalar* block = result.data() + first;
    for (size_t k = 0; k < sources.size(); ++k) {
      args[k] = sources[k].data + (sources[k].repeated ? 0 : first);
    }
    if (kind == OpKind::Cast) {
      CastScalars(in, out, args[0], block, n);
    } else if (rounds_anew) {
      EvalElementwiseUnrounded(kind, in, args.data(), block, n);
      for (size_t i = 0; i < n; ++i) {
        const double value = block[i].f, rounded = RoundToDType(out, value);
        block[i].f = rounded == value || !std::isfinite(rounded)
                         ? rounded
                         : RoundToDType(out, noise.MoveRounding(value, UlpOf(out, value) / 2));
      }
    } else if (!inexact) {
      EvalElementwise(kind, in, out, args.data(), block, n);
    } else {
      EvalElementwiseUnrounded(kind, in, args.data(), block, n);
      for (size_t i = 0; i < n; ++i) {
        // Zeros are exact.
        const double bound = block[i].f == 0 ? 0 : ulps * UlpOf(ComputeType(in), block[i].f);
        block[i].f = RoundToDType(out, noise.Move(block[i].f, bound));
      }
    }
  }
  return MakeDense(out, shape, std::move(result));
}

Dense Fill(const Dense& value, Shape shape) {
  const size_t numel = static_cast<size_t>(NumElements(shape));
  return MakeDense(value.dtype, std::move(shape), std::vector<Scalar>(numel, value.data()[0]));
}

Dense Iota(DType dtype, int axis, Shape shape) {
  const int64_t extent = shape[static_cast<size_t>(axis)];
  const int64_t inner =
      NumElements(absl::MakeConstSpan(shape).subspan(static_cast<size_t>(axis) + 1));
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i) / inner % extent;
    result[i] = CastScalar(DType::I64, dtype, IntScalar(index));
  }
  return MakeDense(dtype, std::move(shape), std::move(result));
}

Dense Random(OpKind kind, DType dtype, int64_t seed, int64_t offset, Shape shape, Noise& noise) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  const double ulps = GetOpInfo(kind).max_ulps;
  noise.NextResult();
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    if (kind == OpKind::RandomUniform) {
      result[i].f = RandomUniformValue(dtype, seed, offset, index);
      continue;
    }
    const double x = RandomNormalValue(dtype, seed, offset, index);
    const double bound = noise.active() ? ulps * UlpOf(ComputeType(dtype), x) : 0;
    result[i].f = RoundToDType(dtype, noise.Move(x, bound));
  }
  return MakeDense(dtype, std::move(shape), std::move(result));
}

Dense StridedCopy(const Dense& source, int64_t offset, absl::Span<const int64_t> strides,
                  Shape shape) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  const int64_t length = shape.empty() ? 1 : shape.back();
  const int64_t stride = shape.empty() ? 0 : strides.back();
  ForEachRow(shape, strides, strides, [&](int64_t first, int64_t at, int64_t) {
    const Scalar* from = source.data() + offset + at;
    Scalar* to = result.data() + first;
    if (stride == 1) {
      std::copy(from, from + length, to);
    } else {
      for (int64_t i = 0; i < length; ++i) to[i] = from[i * stride];
    }
  });
  return MakeDense(source.dtype, std::move(shape), std::move(result));
}

Dense Pad(const Dense& source, absl::Span<const int64_t> start, Shape shape, Scalar fill) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)), fill);
  const std::vector<int64_t> strides = RowMajorStrides(shape);
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) offset += start[axis] * strides[axis];
  const int64_t length = source.shape.empty() ? 1 : source.shape.back();
  ForEachRow(source.shape, strides, strides, [&](int64_t first, int64_t at, int64_t) {
    std::copy(source.data() + first, source.data() + first + length, result.data() + offset + at);
  });
  return MakeDense(source.dtype, std::move(shape), std::move(result));
}

Dense Concatenate(absl::Span<const Dense> operands, int axis, Shape shape) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  const size_t a = static_cast<size_t>(axis);
  const int64_t outer = NumElements(absl::MakeConstSpan(shape).subspan(0, a));
  const int64_t inner = NumElements(absl::MakeConstSpan(shape).subspan(a + 1));
  const int64_t row = shape[a] * inner;
  int64_t offset = 0;
  for (const Dense& operand : operands) {
    const int64_t part = operand.shape[a] * inner;
    for (int64_t o = 0; o < outer; ++o) {
      std::copy(operand.data() + o * part, operand.data() + (o + 1) * part,
                result.data() + o * row + offset);
    }
    offset += part;
  }
  return MakeDense(operands[0].dtype, std::move(shape), std::move(result));
}

Dense Gather(const Dense& source, const Dense& index, int axis) {
  const size_t a = static_cast<size_t>(axis);
  const int64_t extent = source.shape[a];
  const int64_t inner = NumElements(absl::MakeConstSpan(source.shape).subspan(a + 1));
  const Scalar zero = CastScalar(DType::I64, source.dtype, IntScalar(0));
  std::vector<Scalar> result(index.elements->size());
  const int64_t index_row = index.shape[a] * inner;
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t outer = static_cast<int64_t>(i) / index_row;
    const int64_t at = ResolveIndex(index.data()[i].i, extent);
    result[i] =
        at < 0 ? zero
               : source.data()[(outer * extent + at) * inner + static_cast<int64_t>(i) % inner];
  }
  return MakeDense(source.dtype, index.shape, std::move(result));
}

Dense IndexSelect(const Dense& source, const Dense& index, int axis) {
  const size_t a = static_cast<size_t>(axis);
  const int64_t extent = source.shape[a];
  const int64_t outer = NumElements(absl::MakeConstSpan(source.shape).subspan(0, a));
  const int64_t inner = NumElements(absl::MakeConstSpan(source.shape).subspan(a + 1));
  const int64_t count = index.numel();
  Shape shape = source.shape;
  shape[a] = count;
  std::vector<Scalar> result(static_cast<size_t>(outer * count * inner),
                             CastScalar(DType::I64, source.dtype, IntScalar(0)));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = ResolveIndex(index.data()[i].i, extent);
      if (at < 0) continue;
      const Scalar* from = source.data() + (o * extent + at) * inner;
      std::copy(from, from + inner, result.data() + (o * count + i) * inner);
    }
  }
  return MakeDense(source.dtype, std::move(shape), std::move(result));
}

}  // namespace seam::reference
