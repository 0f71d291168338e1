// The divisions of an unrolled loop whose divisor is the same in all of its turns: a row's sum, a
// constant. With the divisor's reciprocal at hand such a quotient takes three instructions instead
// of about sixteen, where nothing under- or overflows; whether it did is known at the end of the
// loop, which then runs again, dividing slowly. So it must be a loop that can run twice:
// one that reads registers only and writes no memory that others see meanwhile.
//
// Thread-safety: immutable once built. Holds pointers into the loop.
#pragma once

#include <vector>

#include "scheduler/kernel/kernel_ir.h"

namespace seam {

class SharedDivisions {
 public:
  SharedDivisions(const kernel::Kernel& kernel, const kernel::For& loop);  // Linear in the loop.

  // The divisors, each once; none if the loop has no such division or cannot run twice.
  const std::vector<kernel::Operand>& divisors() const { return divisors_; }
  bool Contains(const kernel::Map& map) const;
  // Fragments of one element that the loop changes after reading: to be put back before it runs
  // again.
  const std::vector<int>& carried() const { return carried_; }

 private:
  std::vector<kernel::Operand> divisors_;
  std::vector<const kernel::Map*> divisions_;
  std::vector<int> carried_;
};

}  // namespace seam
