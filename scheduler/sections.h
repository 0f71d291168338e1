// Sections: reductions of a part of each row's columns beside those of whole rows, as for a norm
// that is quantised with a scale for each 128 of its columns.
//
//   row        | c c c c c c c c c c c c |        what keeps the rows folds all of these
//   sections   | 0 . . . | 1 . . . | 2 . . . |    and what keeps sections too, so many each
//
// A section has one result, which whatever runs over its columns may use. Both the answer to the
// segmenter and the shape of a group come from here. Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "ir/fusion.h"
#include "segmenter/axes.h"

namespace seam {

// Lanes of a warp exchange what they have of a section, each a vector of up to 8 columns.
inline constexpr int64_t kMostSection = 256;
// Columns of a row, which one CTA holds: 16 elements for each of 1024 threads.
inline constexpr int64_t kMostSectionedColumns = 16384;

struct Sections {
  AxisSet rows;                   // What reductions of whole rows keep.
  AxisSet columns;                // What tells a row's sections apart.
  AxisSet folded;                 // The columns of one.
  int64_t size = 1;               // So many: a power of two.
  const char* missing = nullptr;  // What there is no kernel for, as a sentence; null: nothing.
};

// How these reductions, not all of which keep the same axes, see a row and its sections, if `space`
// is all that the group runs over.
Sections FindSections(const Fusion& fusion, const AxisMap& axes,
                      absl::Span<const ExprId> reductions, const AxisSet& space);

}  // namespace seam
