// Guards: the conditions on symbols under which a compiled variant is valid.
//
// Invariants: every kept condition is undecided over the ranges of its symbols, and no kept
// condition is implied by another one alone. Thread-safety: Check is const; Add is not to be called
// beside it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"
#include "ir/symbolic/sym_program.h"

namespace seam {

struct Guard {
  SymInt condition;
  std::string reason;  // Who needs it, as "vectorised load of x".
};

// True if `a` is known to make `b` true: the same condition, a tighter bound on the same terms, a
// conjunction that holds such a condition.
bool Implies(SymInt a, SymInt b);

class GuardSet {
 public:
  // Adds the condition, its conjuncts one by one. One that is always true or implied by a kept
  // guard is dropped, and kept guards that it implies give way to it. Errors: an Invalid condition;
  // one that is never true. Linear in the guards.
  absl::Status Add(SymInt condition, absl::string_view reason);

  absl::Span<const Guard> guards() const { return guards_; }

  std::string ToString() const;  // One guard a line: "N % 8 == 0  # reason".

 private:
  std::vector<Guard> guards_;
};

// A GuardSet compiled for evaluation over the values of its inputs.
class GuardProgram {
 public:
  static constexpr int kAllHold = -1;
  static constexpr int kInputOutOfRange = -2;

  // Errors as of SymProgram::Compile.
  static absl::StatusOr<GuardProgram> Compile(const GuardSet& guards,
                                              absl::Span<const SymNode* const> inputs);

  // The index in guards() of the first guard that does not hold, kAllHold, or kInputOutOfRange if a
  // value is outside its symbol's range. A guard that cannot be computed does not hold.
  int Check(const int64_t* inputs) const;

 private:
  SymProgram program_;
};

}  // namespace seam
