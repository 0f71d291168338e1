// Divisions by the extents of axes: what finds a tensor's element where rows lie beside each other
// and the tensor lacks some of their axes.
//
// Thread-safety: a pure function.
#pragma once

#include "absl/status/status.h"
#include "scheduler/choose.h"

namespace seam {

// Lets a kernel with vectors of rows divide once a vector, which it may if it knows that vectors
// divide an axis, or else, with `may_pin`, by constants, which takes a multiplication; but small
// problems take longer to compile for their sizes than they would lose. Adds to the facts of
// `schedule`, of which all else is chosen. A few traces of the group. Errors: those of Trace.
// Source: docs/schedulers/pointwise.md, "Vectors that divide".
absl::Status SpareDivisions(const SizedGroup& sized, bool may_pin, Schedule& schedule);

}  // namespace seam
