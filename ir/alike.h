// Values that are computed alike: by the same operation of the same operands.
//
//   m = amax(x)   y = exp(x - m)   n = amax(x)   z = n + log(sum(y))      n is m
//
// Traced graphs and people write things twice; who knows it computes them once.
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "ir/fusion.h"

namespace seam {

// Calls, and borders that the graph asks for: nobody looks into them.
bool IsOpaque(OpClass c);

// Per value the first one that is computed alike, itself if there is none before. Operands count as
// alike if they are so themselves. What is opaque is like no other. Linear.
std::vector<ValId> FirstAlike(const Fusion& fusion);

}  // namespace seam
