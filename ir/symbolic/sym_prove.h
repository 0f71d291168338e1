// Proofs of inequalities, by ranges and by symbolic bounds.
//
// Invariants: true means proven for all values of the symbols at which every division is defined;
// false means nothing. Bounded work for each question. Thread-safety: pure functions over immutable
// nodes; the nesting of proofs is counted for each thread.
#pragma once

#include "ir/symbolic/sym_int.h"

namespace seam::sym_internal {

bool ProveNonNegative(SymInt e);
bool ProveWithin(SymInt e, SymInt lo, SymInt end);  // lo <= e < end.

// Tries every point, where the symbols have so few values that there are 64 at most.
bool HoldsAtAllPoints(SymInt condition);

// True inside a proof: what is canonicalised now may be simplified less than outside, so that it
// must not be remembered.
bool InsideProof();

}  // namespace seam::sym_internal
