// Sums of exponentials that can be folded in the same pass as the maximum that is taken off their
// arguments:
//
//   m = max(a)                   pass 0:  m = max(a)       ->   pass 0:  m, s = max(a) and the sum
//   s = sum(exp(a - m))          pass 1:  s = sum(...)                   of exp(a - m)
//
// A softmax, a log of a sum of exponentials and what is made of these, whatever `a` is.
// Thread-safety: pure.
#pragma once

#include <vector>

#include "ir/fusion.h"

namespace seam {

struct TracedKernel;

struct OnlineSum {
  ExprId sum, max;
  OpKind exponential = OpKind::Exp;  // Or Exp2.
};

// Those of a kernel that has whole rows and all passes; of a maximum one sum at most. Linear in the
// reductions times the maxima among them.
std::vector<OnlineSum> FindOnlineSums(const TracedKernel& traced);

}  // namespace seam
