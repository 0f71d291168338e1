// Interval arithmetic on SymRange: the smallest simple interval that holds every result.
//
// Invariant: a lower bound of INT64_MIN and an upper bound of INT64_MAX are infinite; every other
// bound is a true statement about the mathematical integers, also where the exact bound does not
// fit 64 bits. Thread-safety: pure functions.
#pragma once

#include "ir/symbolic/sym_int.h"

namespace seam::sym_internal {

SymRange AddRange(SymRange a, SymRange b);
SymRange MulRange(SymRange a, SymRange b);
SymRange ScaleRange(SymRange a, int64_t k);
SymRange FloorDivRange(SymRange a, SymRange b);  // Zero divisors are left out.
SymRange ModRange(SymRange a, SymRange b);       // Likewise.
SymRange UnionRange(SymRange a, SymRange b);
// Both hold. If they contradict each other the expression has no values and `a` serves.
SymRange IntersectRange(SymRange a, SymRange b);
// One value, exactly known.
bool IsSingle(SymRange r);

}  // namespace seam::sym_internal
