// Which dimensions of a reshape's two sides belong together, where one side's are the other's cut
// into several: [T, N] and [T//32, 32, N].
//
// T and 32*(T//32) need not be equal, but a reshape takes only sizes where all of these pairs are
// (ir/infer_types.cc).
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"

namespace seam {

// Dimensions of the two sides that have their elements among themselves.
struct ReshapeBlock {
  absl::InlinedVector<size_t, 4> from, to;
};

// The blocks if each dimension of one side, the one with fewer, either equals one of the other's or
// is cut into up to four of them, as x is into x//8 and 8. Empty where they do not all match, in
// order and with none left, or one is 0. Dimensions of extent 1 are in no block.
std::vector<ReshapeBlock> CutBlocks(absl::Span<const SymInt> from, absl::Span<const SymInt> to);

}  // namespace seam
