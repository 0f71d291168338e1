// KeptWindow: in what pieces the threads of a CTA leave the states of a reduction that keeps some
// of a row's columns, for all of them to be folded column by column.
//
// Of columns c the reduction folds those with the same (c / inner) % kept:
//
//   inner a multiple of the vector     0 0 0 0 | 0 0 0 0 | 1 1 1 1 | 1 1 1 1   a state a vector
//   a register a multiple of a period  0 1 2 0 1 2 0 1 2 0 1 2 | 0 1 2 ...     one for all
//   registers else                               0 0 0 1 | 1 1 2 2 | 2 0 0 0             one a
//   column
#pragma once

#include <cstdint>

#include "ir/symbolic/sym_int.h"

namespace seam::kernel {

struct KeptWindow {
  int64_t columns = 1;   // Whose states lie there at once.
  int per_state = 1;     // Columns that a thread folds into one state.
  bool by_step = false;  // Each register of each step has states of its own.
  int64_t states() const { return columns / per_state; }
  friend bool operator==(const KeptWindow&, const KeptWindow&) = default;
};

// For vectors of `vector` columns and a CTA that has `columns` at once in `registers`.
KeptWindow KeptWindowOf(SymInt kept, SymInt inner, int vector, int64_t columns, int64_t registers);

}  // namespace seam::kernel
