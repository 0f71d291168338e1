// Unrolled reductions: those of a known few elements, whose results rows fold again, as where a
// norm follows the weighted sum of four streams. A thread computes such a sum wherever it wants
// one, as it does a product; what it folds is then no axis of the rows or columns.
//
//   s[m, n] = sum over k of h[m, k, n] * a[m, k]        4 loads and 4 products a column
//   y = rms_norm(s)                                     rows m, columns n
//
// Both the answer to the segmenter and the shape of a group come from here. Thread-safety: pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/fusion.h"
#include "segmenter/axes.h"

namespace seam {

// Elements of one, or of all that may be computed from each other: operands are computed once for
// each of them.
inline constexpr int64_t kMostUnrolled = 16;

// Those of the reductions that may be unrolled while all others run over none of the axes that they
// fold; none where no other would be left.
std::vector<ExprId> FindUnrolled(const Fusion& fusion, const AxisMap& axes,
                                 absl::Span<const ExprId> reductions);

// Whether all of them are, each over a few neighbours and perhaps others: the pixels of a window
// that is pooled. As rows these would be of a few elements that lie apart; computed by threads they
// are whole vectors, of which each thread has several windows.
bool ArePooled(const Fusion& fusion, const AxisMap& axes, absl::Span<const ExprId> reductions);

// Whether all of them are, each over one axis of two or three elements.
bool FoldTwoOrThree(const Fusion& fusion, const AxisMap& axes, absl::Span<const ExprId> reductions);

}  // namespace seam
