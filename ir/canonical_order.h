// CanonicalOrder: an order of a Fusion's expressions that its graph alone decides, not the order in
// which independent lines of its text were written.
//
// From each expression that nobody reads, an end, a depth-first search goes up to what it needs and
// no end before it did. What it finds is ordered by its distance to the end, operands before users,
// and where that is the same as the search found it, first operands first. Nothing in this is a
// matter of lines; what has to be chosen is the order of the ends: outputs before dead code, the
// least deep first, so that what is near in the graph is near in the order, then by a hash of their
// structure: of what they compute from which types, and of who else reads on the way. Ends that are
// alike in all of this take the order of what they read, if that has one, or of their names, which
// move with their lines. Then it makes no difference to a reader who does not know names, as far as
// such a hash can tell.
// Thread-safety: free functions without shared state.
#pragma once

#include <vector>

#include "ir/fusion.h"

namespace seam {

struct CanonicalOrder {
  std::vector<ExprId> exprs;  // All of them.
  std::vector<ValId> vals;    // The inputs, those read first first, and then the results.
};

// Linear in the graph, apart from sorting its ends.
CanonicalOrder CanonicalOrderOf(const Fusion& fusion);

// The Fusion numbered in this order: its expression i is exprs[i] and its value i is vals[i] of
// `fusion`. Names and environment are the same; inputs() and outputs() are ascending. Linear.
Fusion Renumbered(const Fusion& fusion, const CanonicalOrder& order);

}  // namespace seam
