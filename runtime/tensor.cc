#include "runtime/tensor.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace seam {

int64_t Tensor::numel() const {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

std::string Tensor::ToString() const {
  std::string text = absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(sizes, ", "), "]");
  const std::vector<int64_t> row_major = RowMajorStrides(sizes);
  if (!std::equal(strides.begin(), strides.end(), row_major.begin(), row_major.end())) {
    absl::StrAppend(&text, " with strides [", absl::StrJoin(strides, ", "), "]");
  }
  return text;
}

Tensor ContiguousTensor(void* data, DType dtype, absl::Span<const int64_t> sizes) {
  const std::vector<int64_t> strides = RowMajorStrides(sizes);
  return {data, dtype, Int64Vector(sizes.begin(), sizes.end()),
          Int64Vector(strides.begin(), strides.end())};
}

Tensor ViewOf(HostTensor& tensor) {
  return {tensor.data.data(), tensor.dtype, Int64Vector(tensor.shape.begin(), tensor.shape.end()),
          Int64Vector(tensor.strides.begin(), tensor.strides.end())};
}

absl::StatusOr<ElementSpan> SpanOf(absl::Span<const int64_t> sizes,
                                   absl::Span<const int64_t> strides) {
  ElementSpan span{0, 1};
  bool overflow = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return ElementSpan{0, 0};
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach);
    int64_t& end = reach < 0 ? span.lowest : span.end;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  // Bytes must fit as well, whatever the dtype.
  constexpr int64_t kLimit = int64_t{1} << 59;
  if (overflow || span.lowest < -kLimit || span.end > kLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor of sizes [", absl::StrJoin(sizes, ", "), "] and strides [",
                     absl::StrJoin(strides, ", "), "] is larger than any memory"));
  }
  return span;
}

absl::Status CopyElements(const Tensor& from, const Tensor& to) {
  if (from.dtype != to.dtype || from.sizes != to.sizes) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot copy ", from.ToString(), " to ", to.ToString()));
  }
  if (absl::c_any_of(from.sizes, [](int64_t size) { return size < 0; })) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot copy ", from.ToString(), ": a size is negative"));
  }
  for (const Tensor* tensor : {&from, &to}) {
    if (tensor->strides.size() != tensor->sizes.size()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot copy ", from.ToString(), ": ",
                                                     tensor->strides.size(), " strides for ",
                                                     tensor->sizes.size(), " sizes"));
    }
  }
  if (absl::c_linear_search(from.sizes, 0)) return absl::OkStatus();
  if (from.data == nullptr || to.data == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot copy ", from.ToString(), ": there is no memory"));
  const int64_t bytes = DTypeBytes(from.dtype);
  const int last = from.rank() - 1;
  Int64Vector index(from.rank(), 0);
  const std::byte* source = static_cast<const std::byte*>(from.data);
  std::byte* target = static_cast<std::byte*>(to.data);
  for (;;) {
    const int64_t run = last < 0 ? 1 : from.sizes[last];
    const int64_t source_step = last < 0 ? 0 : from.strides[last] * bytes;
    const int64_t target_step = last < 0 ? 0 : to.strides[last] * bytes;
    if (source_step == bytes && target_step == bytes) {
      std::memcpy(target, source, static_cast<size_t>(run * bytes));
    } else {
      for (int64_t i = 0; i < run; ++i) {
        std::memcpy(target + i * target_step, source + i * source_step, static_cast<size_t>(bytes));
      }
    }
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      source += from.strides[axis] * bytes;
      target += to.strides[axis] * bytes;
      if (++index[axis] < from.sizes[axis]) break;
      source -= index[axis] * from.strides[axis] * bytes;
      target -= index[axis] * to.strides[axis] * bytes;
      index[axis] = 0;
    }
    if (axis < 0) return absl::OkStatus();
  }
}

}  // namespace seam
