// Which bytes the elements of a strided tensor lie in, and whether two elements, or elements of two
// tensors, share some.
//
// The answer is exact unless it takes more than a few thousand steps, which only strides do that
// hardly divide one another; then it is yes. Thread-safety: values and pure functions.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace seam {

class Footprint {
 public:
  Footprint() = default;  // Of no elements.
  // No size is negative, no stride of an axis of several elements is, and the whole spans less than
  // 2^62 bytes.
  Footprint(int64_t element_bytes, absl::Span<const int64_t> sizes,
            absl::Span<const int64_t> strides);

  // From the first element's first byte to the last one's last; 0 where there are no elements.
  int64_t bytes() const { return bytes_; }
  bool has_gaps() const { return terms_.size() > 1 || (terms_.size() == 1 && terms_[0].step > 1); }
  // Whether a tensor whose first element lies `distance` bytes behind this one's has a byte of it.
  bool Shares(const Footprint& other, int64_t distance) const;

  // Offsets are sums of a multiple of each step.
  struct Term {
    int64_t step;
    int64_t count;  // The largest multiple.
  };
  using Terms = absl::InlinedVector<Term, 6>;

 private:
  Terms terms_;
  int64_t bytes_ = 0;
};

// Whether two elements of a tensor lie in one place. Sizes and strides as above.
bool ElementsOverlap(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides);

}  // namespace seam
