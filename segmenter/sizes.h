// SizeHints: numbers for the extents of a Fusion, for prices and dumps. Never part of what is
// legal.
//
// Thread-safety: immutable once built.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"

namespace seam {

// Values of symbols by name. A symbol without one counts as 1024, or as the end of its range that
// is nearest.
using SymbolSizes = absl::btree_map<std::string, int64_t>;

class SizeHints {
 public:
  // Errors: kInvalidArgument for a binding of no symbol or outside its symbol's range. Linear in
  // the values.
  static absl::StatusOr<SizeHints> Create(const Fusion& fusion, const SymbolSizes& bindings);

  const SymbolSizes& symbols() const { return symbols_; }  // All symbols that an extent has.
  // Saturating; an extent that overflows or is negative at these sizes counts as the default.
  int64_t Extent(SymInt extent) const;
  int64_t Bytes(ValId v) const { return bytes_[v.index()]; }  // Of the whole value, contiguous.
  absl::Span<const int64_t> bytes() const { return bytes_; }  // Per value.

 private:
  SymbolSizes symbols_;
  std::vector<int64_t> bytes_;
};

}  // namespace seam
