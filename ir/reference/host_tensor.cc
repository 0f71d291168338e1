// Memory, strides, random filling and comparison of host tensors.
#include "ir/reference/host_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/philox.h"
#include "ir/status.h"
#include "ir/within_memory.h"

namespace seam {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;

// Calls row(offset in elements, first logical position) for every run along the last axis.
template <typename Row>
void ForEachRow(const HostTensor& tensor, Row row) {
  const int64_t numel = tensor.numel();
  if (numel == 0) return;
  if (tensor.shape.empty()) return row(0, 0);
  const int outer = static_cast<int>(tensor.shape.size()) - 1;
  std::vector<int64_t> index(tensor.shape.size(), 0);
  int64_t offset = 0;
  for (int64_t position = 0;; position += tensor.shape.back()) {
    row(offset, position);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      offset += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      offset -= index[axis] * tensor.strides[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// 64 random bits for element `index`.
uint64_t RandomBits(uint64_t seed, int64_t index) {
  const auto lanes = Philox4x32(static_cast<uint64_t>(index), 0, seed);
  return uint64_t{lanes[1]} << 32 | lanes[0];
}

template <typename Value>
void FillWith(HostTensor& tensor, Value value) {
  std::vector<Scalar> values(static_cast<size_t>(tensor.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<int64_t>(i));
  tensor.FromScalars(values);
}

std::vector<int64_t> IndexOf(const HostTensor& tensor, int64_t position) {
  std::vector<int64_t> index(tensor.shape.size());
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    index[axis] = position % tensor.shape[axis];
    position /= tensor.shape[axis];
  }
  return index;
}

}  // namespace

std::vector<int64_t> RowMajorStrides(absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

absl::StatusOr<HostTensor> HostTensor::Make(DType dtype, absl::Span<const int64_t> shape) {
  // Checked again by MakeStrided, but strides must not overflow before.
  int64_t numel = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || numel > kMaxBytes / std::max<int64_t>(extent, 1)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor of shape [",
                                                     absl::StrJoin(shape, ", "),
                                                     "]: an extent is negative or too large"));
    }
    numel *= std::max<int64_t>(extent, 1);
  }
  return MakeStrided(dtype, shape, RowMajorStrides(shape));
}

namespace {

absl::StatusOr<int64_t> BytesOf(DType dtype, absl::Span<const int64_t> shape,
                                absl::Span<const int64_t> strides) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor of shape [", absl::StrJoin(shape, ", "),
                                                   "], strides [", absl::StrJoin(strides, ", "),
                                                   "]: ", what));
  };
  if (static_cast<int>(dtype) >= kNumDTypes) return error("its dtype does not exist");
  if (shape.size() != strides.size()) return error("one stride per axis expected");
  int64_t last = 0;
  bool empty = false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0 || strides[axis] < 0) return error("negative extent or stride");
    if (shape[axis] == 0) empty = true;
    if (shape[axis] > 1 && strides[axis] > (kMaxBytes - last) / (shape[axis] - 1)) {
      return error("more than 2^40 bytes");
    }
    last += shape[axis] > 1 ? strides[axis] * (shape[axis] - 1) : 0;
  }
  if (empty) return 0;
  if (last + 1 > kMaxBytes / DTypeBytes(dtype)) return error("more than 2^40 bytes");
  return (last + 1) * DTypeBytes(dtype);
}

}  // namespace

absl::StatusOr<HostTensor> HostTensor::MakeStrided(DType dtype, absl::Span<const int64_t> shape,
                                                   absl::Span<const int64_t> strides) {
  const absl::StatusOr<int64_t> bytes = BytesOf(dtype, shape, strides);
  if (!bytes.ok()) return bytes.status();
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.strides.assign(strides.begin(), strides.end());
  SEAM_RETURN_IF_ERROR(
      WithinMemory<absl::Status>(absl::StrCat("a host tensor ", tensor.ShapeString()), [&] {
        tensor.data.resize(static_cast<size_t>(*bytes));
        return absl::OkStatus();
      }));
  return tensor;
}

absl::Status HostTensor::Check() const {
  const absl::StatusOr<int64_t> bytes = BytesOf(dtype, shape, strides);
  if (!bytes.ok()) return bytes.status();
  if (static_cast<int64_t>(data.size()) >= *bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("found ", data.size(), " bytes of data, expected ",
                                                 *bytes, " for ", ShapeString()));
}

int64_t HostTensor::numel() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

int64_t HostTensor::span_elements() const {
  int64_t last = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return 0;
    last += (shape[axis] - 1) * strides[axis];
  }
  return last + 1;
}

bool HostTensor::is_contiguous() const {
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 0) return true;
    if (shape[axis] > 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

Scalar HostTensor::at(absl::Span<const int64_t> index) const {
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) offset += index[axis] * strides[axis];
  return LoadScalar(dtype, data.data() + offset * DTypeBytes(dtype));
}

void HostTensor::set(absl::Span<const int64_t> index, Scalar value) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) offset += index[axis] * strides[axis];
  StoreScalar(dtype, value, data.data() + offset * DTypeBytes(dtype));
}

std::vector<Scalar> HostTensor::ToScalars() const {
  std::vector<Scalar> values(static_cast<size_t>(numel()));
  const int bytes = DTypeBytes(dtype);
  if (is_contiguous()) {
    LoadScalars(dtype, data.data(), bytes, values.data(), values.size());
    return values;
  }
  const size_t n = shape.empty() ? 1 : static_cast<size_t>(shape.back());
  const int64_t stride = shape.empty() ? 0 : strides.back();
  ForEachRow(*this, [&](int64_t offset, int64_t position) {
    LoadScalars(dtype, data.data() + offset * bytes, stride * bytes, values.data() + position, n);
  });
  return values;
}

void HostTensor::FromScalars(absl::Span<const Scalar> values) {
  const int bytes = DTypeBytes(dtype);
  if (is_contiguous()) {
    return StoreScalars(dtype, values.data(), data.data(), bytes, values.size());
  }
  const size_t n = shape.empty() ? 1 : static_cast<size_t>(shape.back());
  const int64_t stride = shape.empty() ? 0 : strides.back();
  ForEachRow(*this, [&](int64_t offset, int64_t position) {
    StoreScalars(dtype, values.data() + position, data.data() + offset * bytes, stride * bytes, n);
  });
}

std::string HostTensor::ShapeString() const {
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(shape, ", "), "]");
}

void FillRandom(HostTensor& tensor, uint64_t seed) {
  const DType dtype = tensor.dtype;
  if (dtype == DType::Bool) return FillRandomIntegers(tensor, seed, 0, 1);
  if (dtype == DType::U8) return FillRandomIntegers(tensor, seed, 0, 200);
  if (!IsFloat(dtype)) return FillRandomIntegers(tensor, seed, -100, 100);
  FillWith(tensor, [&](int64_t i) {
    return FloatScalar(
        RoundToDType(dtype, RandomNormalValue(DType::F32, static_cast<int64_t>(seed), 0, i)));
  });
}

void FillRandomIntegers(HostTensor& tensor, uint64_t seed, int64_t lo, int64_t hi) {
  // 0 for the whole range of int64.
  const uint64_t count = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;
  FillWith(tensor, [&](int64_t i) {
    const uint64_t bits = RandomBits(seed, i);
    const uint64_t value = static_cast<uint64_t>(lo) + (count == 0 ? bits : bits % count);
    return CastScalar(DType::I64, tensor.dtype, IntScalar(static_cast<int64_t>(value)));
  });
}

std::string TensorError::ToString() const {
  if (num_different == 0) return "equal";
  return absl::StrCat(num_different, " different, at most ", max_ulps,
                      " units in the last place (at [", absl::StrJoin(worst, ", "), "]), ",
                      max_absolute, " absolute, ", max_relative, " relative");
}

namespace {

absl::StatusOr<TensorError> Compare(const HostTensor& expected, const HostTensor& actual) {
  SEAM_RETURN_IF_ERROR(expected.Check());
  SEAM_RETURN_IF_ERROR(actual.Check());
  if (expected.dtype != actual.dtype || expected.shape != actual.shape) {
    return absl::InvalidArgumentError(absl::StrCat("comparing ", actual.ShapeString(), " with ",
                                                   expected.ShapeString(), ", which is expected"));
  }
  const std::vector<Scalar> want = expected.ToScalars(), got = actual.ToScalars();
  TensorError error;
  int64_t worst = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    double ulps, absolute, relative;
    if (IsFloat(expected.dtype)) {
      const double w = want[i].f, g = got[i].f;
      if (w == g || (w != w && g != g)) continue;
      absolute = std::isfinite(w) && std::isfinite(g) ? std::fabs(g - w)
                                                      : std::numeric_limits<double>::infinity();
      ulps = absolute / UlpOf(expected.dtype, w);
      relative = w != 0 ? absolute / std::fabs(w) : 0;
    } else {
      if (want[i].i == got[i].i) continue;
      absolute = std::fabs(static_cast<double>(got[i].i) - static_cast<double>(want[i].i));
      ulps = absolute = std::max(absolute, 1.0);
      relative = want[i].i != 0 ? absolute / std::fabs(static_cast<double>(want[i].i)) : 0;
    }
    // An infinity divided by an infinity.
    if (relative != relative) relative = std::numeric_limits<double>::infinity();
    ++error.num_different;
    if (worst < 0 || ulps > error.max_ulps) {
      error.max_ulps = ulps;
      worst = static_cast<int64_t>(i);
    }
    error.max_absolute = std::max(error.max_absolute, absolute);
    error.max_relative = std::max(error.max_relative, relative);
  }
  if (worst >= 0) error.worst = IndexOf(expected, worst);
  return error;
}

}  // namespace

absl::StatusOr<TensorError> CompareTensors(const HostTensor& expected, const HostTensor& actual) {
  return WithinMemory<absl::StatusOr<TensorError>>("the values of two tensors",
                                                   [&] { return Compare(expected, actual); });
}

}  // namespace seam
