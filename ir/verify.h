// Verify: checks every invariant that a Fusion promises.
#pragma once

#include "absl/status/status.h"
#include "ir/fusion.h"

namespace seam {

// OK, or kInternal with the first broken invariant: an operand defined after its use, a result
// whose type is not what InferTypes says, an extent of another ShapeEnv or an invalid one, a use
// list that disagrees with the operands, an output that no one defines. Linear in the size of the
// graph.
absl::Status Verify(const Fusion& fusion);

}  // namespace seam
