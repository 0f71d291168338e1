// Tensor: a view of memory that goes into and comes out of an Executable.
//
// A plain value: it owns nothing. Element (i0, i1, ...) is at sum(i_k * strides[k]) elements from
// `data`. Thread-safety: a value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "ir/dtype.h"
#include "ir/reference/host_tensor.h"

namespace seam {

using Int64Vector = absl::InlinedVector<int64_t, 6>;

struct Tensor {
  void* data = nullptr;  // Device memory for the backend kCuda, host memory for the others.
  DType dtype = DType::F32;
  Int64Vector sizes;
  Int64Vector strides;  // In elements, one per axis.
  // Set by Executable::Run in an output whose memory it took from its allocator: what to give back
  // to it. Null in a tensor of the caller's and in one that is a view of another tensor.
  void* allocation = nullptr;

  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t numel() const;
  std::string ToString() const;  // "f32[3, 4]", with strides where they are not row-major
};

// Row-major.
Tensor ContiguousTensor(void* data, DType dtype, absl::Span<const int64_t> sizes);
// The memory of `tensor`, which must outlive the view and stay where it is.
Tensor ViewOf(HostTensor& tensor);

// Where a tensor's elements lie, in elements from its first one: all within [lowest, end). Empty:
// lowest == end. Sizes are not negative, and there are as many strides.
struct ElementSpan {
  int64_t lowest = 0;
  int64_t end = 0;
};
// Error: kInvalidArgument on overflow.
absl::StatusOr<ElementSpan> SpanOf(absl::Span<const int64_t> sizes,
                                   absl::Span<const int64_t> strides);

// Copies the elements of one tensor in host memory to another of the same dtype and sizes; strides
// may differ. Errors: kInvalidArgument where these do, for negative sizes, or without memory or a
// stride for each axis.
absl::Status CopyElements(const Tensor& from, const Tensor& to);

}  // namespace seam
