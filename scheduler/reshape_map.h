// Where a reshape's element comes from.
#pragma once

#include "ir/fusion.h"

namespace seam {

// The index into a tensor of extents `from` of the element at `index` of its reshape to extents
// `to`; all in one ShapeEnv. Symbolic extents are at least 1 wherever the index is computed.
// Dimensions are matched in the smallest blocks with equal products, or each with what it is cut
// into (ir/reshape_blocks.h), so that untouched ones keep their index.
SymVector MapReshape(const SymVector& from, const SymVector& to, const SymVector& index);

}  // namespace seam
