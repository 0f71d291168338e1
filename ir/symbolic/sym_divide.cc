// Canonical floor division. Every step rewrites quotient + n//d into an equal expression with a
// smaller or simpler n//d; what remains is an atom. Remainders are n - d*(n//d).
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "ir/symbolic/sym_node_factory.h"
#include "ir/symbolic/sym_poly.h"
#include "ir/symbolic/sym_prove.h"
#include "ir/symbolic/sym_range.h"

namespace seam {
namespace sym_internal {
namespace {

constexpr int kMaxRewrites = 32;
constexpr size_t kMaxRadixCandidates = 8;

Poly Negated(const Poly& p) { return AddScaled(Poly{}, p, -1); }

Poly PolyOf(Term t) {
  Poly p;
  if (t.monomial.is_constant()) {
    p.constant = t.coefficient;
  } else {
    p.terms.push_back(t);
  }
  return p;
}

// (f*n)//(f*d) = n//d for any f other than 0, and with f = 0 the left side is undefined.
bool CancelCommonFactor(Poly& n, Poly& d) {
  Term a = ContentOf(n);
  const Term b = ContentOf(d);
  a.coefficient = std::gcd(a.coefficient, b.coefficient);
  a.monomial = CommonMonomial(a.monomial, b.monomial);
  if (a.coefficient == 1 && a.monomial.is_constant()) return false;
  n = DivideByTerm(n, a);
  d = DivideByTerm(d, a);
  return true;
}

// Takes one more multiple of `d` from each coefficient of the rest that is above half of it, or
// minus half, so that equal ones get the same rest: 64*x - 65*x and -x, divided by 65, x and -x by
// 2.
void RoundToNearest(Division& division, int64_t d) {
  Poly more;
  for (const Term& t : division.rest.terms) {
    const int64_t taken = Magnitude(t.coefficient), left = Magnitude(d) - taken;
    if (taken > left || (taken == left && t.coefficient < 0))
      more.terms.push_back({(t.coefficient > 0) == (d > 0) ? 1 : -1, t.monomial});
  }
  division.quotient = AddScaled(division.quotient, more, 1);
  division.rest = AddScaled(division.rest, more, -d);
}

// (q*d + r)//d = q + r//d. Of a sum d, only if r is shorter than n.
bool TakeMultiples(Poly& n, const Poly& d, Poly& quotient) {
  Division division = DividePolys(n, d);
  if (!division.quotient.valid || !division.rest.valid) return false;
  if (d.is_constant() && d.constant != INT64_MIN) RoundToNearest(division, d.constant);
  if (division.quotient.is_zero()) return false;
  const auto length = [](const Poly& p) { return p.terms.size() + (p.constant != 0); };
  if (length(d) > 1 && length(division.rest) >= length(n)) return false;
  n = std::move(division.rest);
  quotient = std::move(division.quotient);
  return true;
}

// The values at which the division is defined.
SymRange DivisorRange(SymInt b) {
  SymRange range = RangeOf(b);
  if (range.lo >= 0) range.lo = std::max(range.lo, std::min(KnownDivisor(b), range.hi));
  return range;
}

// Divisors g of d that may separate n into g*high + low with 0 <= low < g, the largest first: what
// terms of n have in common with d, and the sizes of the digits in n that have a symbolic bound.
absl::InlinedVector<Poly, 4> RadixCandidates(const Poly& n, const Poly& expanded, const Poly& d) {
  absl::InlinedVector<Poly, 4> candidates;
  const Term content = ContentOf(d);
  absl::InlinedVector<Term, 4> common;
  const auto consider = [&](const Term& t) {
    const Term g = {std::gcd(Magnitude(t.coefficient), content.coefficient),
                    CommonMonomial(t.monomial, content.monomial)};
    if (g.coefficient == 1 && g.monomial.is_constant()) return;
    if (std::none_of(common.begin(), common.end(), [&](const Term& o) {
          return o.coefficient == g.coefficient && o.monomial == g.monomial;
        })) {
      common.push_back(g);
    }
  };
  // 6*t + 2*(t%64) shows no multiple of 8, 8*t - 128*(t//64) does.
  for (const Poly* terms : {&n, &expanded}) {
    for (const Term& t : terms->terms) consider(t);
  }
  std::stable_sort(common.begin(), common.end(), [](const Term& a, const Term& b) {
    const size_t x = FactorsOf(a.monomial).size(), y = FactorsOf(b.monomial).size();
    return x != y ? x > y : a.coefficient > b.coefficient;
  });
  for (const Term& t : common) candidates.push_back(PolyOf(t));
  for (const Term& t : n.terms) {
    const SymNode* node = t.monomial.node();
    SymInt size = 0;
    if (node->kind == SymKind::Symbol && node->upper.is_symbolic()) size = node->upper + 1;
    if (node->kind == SymKind::Mod) size = node->children[1];
    if (size.is_symbolic()) candidates.push_back(Expand(size));
  }
  if (candidates.size() > kMaxRadixCandidates) candidates.resize(kMaxRadixCandidates);
  return candidates;
}

// The divisions of `p` that have the same numerator as its first one, from the least divisor to the
// greatest, each of which the one before divides. Nothing where they do not.
std::optional<std::vector<SymInt>> DivisionsOfOne(const Poly& p) {
  std::vector<SymInt> all;
  for (const Term& t : p.terms) {
    for (const SymInt f : FactorsOf(t.monomial)) {
      if (f.node()->kind != SymKind::FloorDiv) continue;
      if (!all.empty() && !f.node()->children[0].is_same(all[0].node()->children[0])) continue;
      if (absl::c_none_of(all, [&](SymInt other) { return other.is_same(f); })) all.push_back(f);
    }
  }
  const auto divides = [](SymInt a, SymInt b) {
    return DivideExactly(Expand(b.node()->children[1]), Expand(a.node()->children[1])).has_value();
  };
  for (auto next = all.begin(); next != all.end(); ++next) {
    const auto least = std::find_if(next, all.end(), [&](SymInt a) {
      return std::all_of(next, all.end(), [&](SymInt b) { return divides(a, b); });
    });
    if (least == all.end()) return std::nullopt;
    std::iter_swap(next, least);
  }
  return all;
}

// `p`, whose terms divide some x by a, or by a and by a*b, in the digits of x, which are x%a,
// (x//a)%b and x//(a*b): what has them in another order than x shows which of them are high.
// Nothing where that is not so.
std::optional<Poly> InDigits(const Poly& p) {
  const std::optional<std::vector<SymInt>> divisions = DivisionsOfOne(p);
  if (!divisions || divisions->empty()) return std::nullopt;
  Poly digits, rest = p;
  // What is left of x, the number that it has been divided by, and what multiplies it.
  SymInt high = (*divisions)[0].node()->children[0];
  Poly divisor{.constant = 1}, scale;
  for (size_t i = 0; i <= divisions->size(); ++i) {
    Poly cofactor, others;
    if (SplitByAtom(rest, high, cofactor, others)) {
      rest = std::move(others);
      scale = AddScaled(scale, cofactor, 1);
    } else if (i == 0) {
      return std::nullopt;
    }
    SymInt digit = high;
    std::optional<Poly> ratio = Poly{.constant = 1};
    if (i < divisions->size()) {
      const Poly next = Expand((*divisions)[i].node()->children[1]);
      ratio = DivideExactly(next, divisor);
      if (!ratio) return std::nullopt;
      const SymInt radix = Build(*ratio);
      // (x//a)//b is x//(a*b) for positive b only.
      if (i > 0 && RangeOf(radix).lo < 0) return std::nullopt;
      digit = Remainder(high, radix);
      high = (*divisions)[i];
      divisor = next;
    }
    const std::optional<Poly> value = Multiply(scale, TermsOf(digit));
    const std::optional<Poly> scaled = Multiply(scale, *ratio);
    if (!value || !scaled) return std::nullopt;
    digits = AddScaled(digits, *value, 1);
    scale = *scaled;
  }
  digits = AddScaled(digits, rest, 1);
  return digits.valid ? std::make_optional(digits) : std::nullopt;
}

// (g*high + low)//(g*k) = (high + low//g)//k for positive g and k, used where low//g is a known
// constant.
bool DropLowDigits(SymInt& n, Poly& d) {
  const Poly shown = TermsOf(n), expanded = Expand(n);
  const auto drop = [&](const Poly& terms, const Poly& g, const Poly& k) {
    Division split = DividePolys(terms, g);
    if (!split.rest.valid || split.quotient.is_constant()) return false;
    // Only terms that g divides whole belong to the high part.
    const SymInt low = Build(split.rest), g_sym = Build(g);
    SymInt carry;
    if (ProveWithin(low, 0, g_sym)) {
      carry = 0;
    } else if (ProveWithin(low, -g_sym, 0)) {
      carry = -1;
    } else {
      return false;
    }
    const SymInt high = Build(split.quotient) + carry;
    if (!high.is_valid()) return false;
    n = high;
    d = k;
    return true;
  };
  absl::InlinedVector<Poly, 4> candidates = RadixCandidates(shown, expanded, d);
  for (const Poly& g : candidates) {
    const std::optional<Poly> k = DivideExactly(d, g);
    if (!k || k->is_constant(1)) continue;
    if (drop(shown, g, *k) || drop(expanded, g, *k)) return true;
  }
  // In digits all of d may be what separates them.
  const std::optional<Poly> digits = InDigits(expanded);
  if (!digits) return false;
  candidates.push_back(d);
  return absl::c_any_of(candidates, [&](const Poly& g) {
    const std::optional<Poly> k = DivideExactly(d, g);
    return k && drop(*digits, g, *k);
  });
}

// (m + z//c)//b = (c*m + z)//(c*b) for positive b.
bool JoinNestedDivision(const Poly& n, SymInt b, SymInt& numerator, SymInt& divisor) {
  const Term* nested = nullptr;
  for (const Term& t : n.terms) {
    if (t.coefficient != 1 || t.monomial.node()->kind != SymKind::FloorDiv) continue;
    if (nested != nullptr) return false;
    nested = &t;
  }
  if (nested == nullptr) return false;
  const SymNode* inner = nested->monomial.node();
  const SymInt c = inner->children[1];
  const SymInt m = Build(AddScaled(n, PolyOf(*nested), -1));
  const SymInt joined = c * m + inner->children[0], product = c * b;
  if (!joined.is_valid() || !product.is_valid()) return false;
  numerator = joined;
  divisor = product;
  return true;
}

// Of n and -n - 1, the one with fewer negative terms is divided, of equals the one whose constant
// is not negative: n//d = -1 - (-n - 1)//d for positive d.
bool PrefersComplement(const Poly& n) {
  int balance = 0;
  for (const Term& t : n.terms) balance += t.coefficient < 0 ? 1 : -1;
  return balance > 0 || (balance == 0 && !n.terms.empty() && n.constant < 0);
}

SymInt Canonicalize(SymInt a, SymInt b) {
  // The answer is quotient + sign * (a//b).
  SymInt quotient = 0, sign = 1;
  for (int step = 0; step < kMaxRewrites; ++step) {
    Poly n = Expand(a), d = Expand(b);
    if (!n.valid || !d.valid || d.is_zero()) return SymInt::Invalid();
    if (n.is_zero()) return quotient;
    CancelCommonFactor(n, d);
    b = Build(d);
    if (RangeOf(b).hi <= 0) {
      n = Negated(n);
      d = Negated(d);
      b = Build(d);
    }
    a = Build(n);
    if (!a.is_valid() || !b.is_valid()) return SymInt::Invalid();
    if (d.is_constant(1)) return quotient + sign * a;
    const SymRange range = FloorDivRange(RangeOf(a), DivisorRange(b));
    if (IsSingle(range)) return quotient + sign * range.lo;
    const bool positive = RangeOf(b).lo >= 0;
    if (positive && ProveWithin(a, 0, b)) return quotient;
    if (positive && ProveWithin(a, -b, 0)) return quotient - sign;
    Poly multiples;
    if (TakeMultiples(n, d, multiples)) {
      quotient = quotient + sign * Build(multiples);
      a = Build(n);
      continue;
    }
    if (!positive) break;
    if (DropLowDigits(a, d)) {
      b = Build(d);
      continue;
    }
    if (JoinNestedDivision(n, b, a, b)) continue;
    if (!PrefersComplement(n)) break;
    quotient = quotient - sign;
    a = -a - 1;
    sign = -sign;
  }
  if (!quotient.is_valid()) return quotient;
  const SymInt children[] = {a, b};
  return quotient + sign * SymNodeFactory::Make(SymKind::FloorDiv, children);
}

}  // namespace

SymInt Divide(SymInt a, SymInt b) {
  if (!a.is_valid() || !b.is_valid()) return SymInt::Invalid();
  const auto x = a.maybe_int(), y = b.maybe_int();
  if (x && y) {
    if (*y == 0 || (*x == INT64_MIN && *y == -1)) return SymInt::Invalid();
    return *x / *y - (*x % *y != 0 && (*x % *y < 0) != (*y < 0));
  }
  if (!x && !y && a.env() != b.env()) return SymInt::Invalid();
  if (y && *y == 1) return a;
  ShapeEnv* env = x ? b.env() : a.env();
  if (const auto known = SymNodeFactory::Recall(env, SymKind::FloorDiv, a, b)) return *known;
  const SymInt result = Canonicalize(a, b);
  if (!InsideProof()) SymNodeFactory::Remember(env, SymKind::FloorDiv, a, b, result);
  return result;
}

SymInt Remainder(SymInt a, SymInt b) {
  if (const auto x = a.maybe_int(), y = b.maybe_int(); x && y) {
    if (*y == 0) return SymInt::Invalid();
    if (*y == -1) return 0;
    return *x % *y + (*x % *y != 0 && (*x % *y < 0) != (*y < 0) ? *y : 0);
  }
  return a - b * Divide(a, b);
}

}  // namespace sym_internal

SymInt CeilDiv(SymInt a, SymInt b) {
  return RangeOf(b).lo >= 0 ? FloorDiv(a + b - 1, b) : -FloorDiv(-a, b);
}

SymInt Align(SymInt a, SymInt b) { return b * CeilDiv(a, b); }

}  // namespace seam
