// SizeHints: numbers for the extents of a Fusion, for prices and dumps. Never part of what is
// legal.
//
// Thread-safety: immutable once built.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "segmenter/axes.h"
#include "segmenter/crossing_types.h"

namespace seam {

// Values of symbols by name. A symbol without one counts as 1024, or as the end of its range that
// is nearest.
using SymbolSizes = absl::btree_map<std::string, int64_t>;

// What a value counts as at most: more than any device holds.
inline constexpr int64_t kMostBytes = int64_t{1} << 53;

// For sums of bytes: at most INT64_MAX, at least -INT64_MAX.
inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  return !__builtin_add_overflow(a, b, &sum) ? sum : b < 0 ? -INT64_MAX : INT64_MAX;
}

class SizeHints {
 public:
  // Errors: kInvalidArgument for a binding of no symbol or outside its symbol's range. Linear in
  // the values. With `types`, values have the bytes of the types in which they cross.
  static absl::StatusOr<SizeHints> Create(const Fusion& fusion, const SymbolSizes& bindings,
                                          const CrossingTypes* types = nullptr);

  const SymbolSizes& symbols() const { return symbols_; }  // All symbols that an extent has.
  // An extent that overflows or is negative at these sizes counts as the default.
  int64_t Extent(SymInt extent) const;
  // Of all that runs along these axes.
  double Points(const AxisMap& axes, const AxisSet& set) const;
  // Of the whole value, contiguous; at most kMostBytes.
  int64_t Bytes(ValId v) const { return bytes_[v.index()]; }
  int64_t BytesAs(ValId v, DType type) const {  // The same in another element type.
    if (Bytes(v) == kMostBytes) return kMostBytes;
    return std::min(Bytes(v) / DTypeBytes(types_[v.index()]) * DTypeBytes(type), kMostBytes);
  }
  DType type(ValId v) const { return types_[v.index()]; }     // What Bytes counts it in.
  absl::Span<const int64_t> bytes() const { return bytes_; }  // Per value.

 private:
  int64_t Compute(SymInt extent) const;

  SymbolSizes symbols_;
  // Of the fusion's extents, which prices ask for again and again. It outlives this.
  absl::flat_hash_map<const SymNode*, int64_t> extents_;
  std::vector<int64_t> bytes_;
  std::vector<DType> types_;
};

}  // namespace seam
