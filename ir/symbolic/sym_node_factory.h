// The only place that makes nodes: hash-consing, storage, and the facts stored in a node.
//
// Invariants: a node with the same kind, children, coefficients and constant exists once in an
// environment. The caller hands over canonical children; the factory only folds what a range
// decides. Thread-safety: all functions may be called from many threads. The lock of an environment
// is held for a look-up or an insertion, never while facts are derived (deriving them makes nodes).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"

namespace seam {

class SymNodeFactory {
 public:
  // The node, or the constant that its range leaves, or Invalid: an Invalid child, children of two
  // environments, too deep, too large. At least one child is symbolic.
  static SymInt Make(SymKind kind, absl::Span<const SymInt> children) {
    return Make(kind, children, {}, 0, 0);
  }
  static SymInt MakeAdd(absl::Span<const SymInt> children, absl::Span<const int64_t> coefficients,
                        int64_t constant) {
    return Make(SymKind::Add, children, coefficients, constant, 0);
  }
  static SymInt MakeMod(SymInt numerator, SymInt divisor, SymInt quotient) {
    const SymInt children[] = {numerator, divisor};
    return Make(SymKind::Mod, children, {}, 0, quotient);
  }

  // Results of canonicalisations that search for proofs, remembered by operation and operands.
  // `env` is that of the operands.
  static std::optional<SymInt> Recall(ShapeEnv* env, SymKind op, SymInt a, SymInt b);
  static void Remember(ShapeEnv* env, SymKind op, SymInt a, SymInt b, SymInt result);

 private:
  static SymInt Make(SymKind kind, absl::Span<const SymInt> children,
                     absl::Span<const int64_t> coefficients, int64_t constant, SymInt quotient);
};

namespace sym_internal {

// Range of constant + sum of coefficients[i] * children[i], children as in a canonical Add.
SymRange RangeOfSum(absl::Span<const SymInt> children, absl::Span<const int64_t> coefficients,
                    int64_t constant);

}  // namespace sym_internal
}  // namespace seam
