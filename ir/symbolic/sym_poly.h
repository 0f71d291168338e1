// Polynomials with integer coefficients over atoms: the working form of sums.
//
// An atom is a node that is neither a constant nor a Mul; a monomial is an atom or a canonical Mul
// of atoms. Expand writes every remainder y % c of a sum as y - c*(y//c), so that equal sums meet
// in one form; Build puts the remainders back and makes the canonical node.
//
// Invariants: terms are sorted by the id of their monomial, without repetition, coefficients not
// zero. `valid` is false after an overflow or a limit, and everything computed from an invalid Poly
// is invalid. Thread-safety: values; free functions use the environment's own lock.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"

namespace seam::sym_internal {

struct Term {
  int64_t coefficient;
  SymInt monomial;  // 1 stands for the empty product.
};

struct Poly {
  bool valid = true;
  int64_t constant = 0;
  absl::InlinedVector<Term, 6> terms;

  bool is_constant() const { return valid && terms.empty(); }
  bool is_zero() const { return is_constant() && constant == 0; }
  bool is_constant(int64_t v) const { return is_constant() && constant == v; }
  // Sorts the terms and merges equal ones; for terms that were appended in any order.
  void Normalize();
};

// |v|, or for INT64_MIN its divisor 2^62.
int64_t Magnitude(int64_t v);

Poly Expand(SymInt e);
Poly Expand(Poly terms);
SymInt Build(Poly p);
// The terms of `e` as its node shows them, remainders included.
Poly TermsOf(SymInt e);

Poly AddScaled(const Poly& a, const Poly& b, int64_t k);  // a + k*b
// Nothing if the product has more than kMaxExpandedTerms terms before terms are merged.
std::optional<Poly> Multiply(const Poly& a, const Poly& b);

// The split of p by an atom: p = atom * cofactor + rest. False if a monomial holds the atom twice,
// or none does.
bool SplitByAtom(const Poly& p, SymInt atom, Poly& cofactor, Poly& rest);

absl::Span<const SymInt> FactorsOf(
    const SymInt& monomial);  // None of 1. Points into `monomial` or its node.
SymInt MultiplyMonomials(SymInt a, SymInt b);
std::optional<SymInt> DivideMonomials(SymInt a, SymInt b);  // a / b if it is a monomial.
SymInt CommonMonomial(SymInt a, SymInt b);                  // The greatest common divisor.

// a = quotient * b + rest, by division by the leading term of b. Exact over the integers for any b
// other than 0; the rest keeps what the leading term does not divide. Coefficients round towards
// zero, except that for a constant b the constant of the rest is in 0..b-1.
struct Division {
  Poly quotient, rest;
};
Division DividePolys(const Poly& a, const Poly& b);
std::optional<Poly> DivideExactly(const Poly& a, const Poly& b);

// The greatest constant and monomial that divide every term of `p`; {0, 1} for zero.
Term ContentOf(const Poly& p);
Poly DivideByTerm(const Poly& p, Term t);  // Requires that t divides every term.

}  // namespace seam::sym_internal
