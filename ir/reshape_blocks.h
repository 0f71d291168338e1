// Which dimensions of a reshape's two sides belong together, where one side's are the other's cut
// into several: [T, N] and [T//32, 32, N].
//
// T and 32*(T//32) need not be equal, but a reshape takes only sizes where all of these pairs are
// (ir/infer_types.cc).
#pragma once

#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"

namespace seam {

// For each dimension of `wholes` the end of those of `parts` that it consists of: one that equals
// it, or up to four of which each is what the others divide it into, as x//8 and 8 of x. Empty
// where they do not all match, in order and with none left, or one is 0.
absl::InlinedVector<size_t, 8> PartsOfEach(absl::Span<const SymInt> wholes,
                                           absl::Span<const SymInt> parts);

}  // namespace seam
