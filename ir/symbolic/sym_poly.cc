#include "ir/symbolic/sym_poly.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ir/symbolic/sym_node_factory.h"
#include "ir/symbolic/sym_range.h"

namespace seam::sym_internal {
namespace {

// Remainders are looked for only among this many divisions of a sum.
constexpr size_t kMaxExtractedDivisions = 16;

Poly InvalidPoly() {
  Poly p;
  p.valid = false;
  return p;
}

Poly Atom(SymInt e) {
  Poly p;
  p.terms.push_back({1, e});
  return p;
}

// Orders monomials by degree, then by their newest atoms. Compatible with multiplication, which is
// what makes division by a leading term end.
bool Leads(SymInt a, SymInt b) {
  const auto x = FactorsOf(a), y = FactorsOf(b);
  if (x.size() != y.size()) return x.size() > y.size();
  for (size_t i = x.size(); i-- > 0;) {
    if (!x[i].is_same(y[i])) return x[i].node()->id > y[i].node()->id;
  }
  return false;
}

Poly ExpandMonomial(SymInt monomial) {
  const SymNode* node = monomial.node();
  if (node->kind == SymKind::Mod) {
    const std::optional<Poly> taken = Multiply(Expand(node->children[1]), Expand(node->quotient));
    return taken ? AddScaled(Expand(node->children[0]), *taken, -1) : Atom(monomial);
  }
  if (node->kind == SymKind::Mul) {
    if (std::none_of(node->children.begin(), node->children.end(),
                     [](SymInt f) { return IsKind(f, SymKind::Mod); })) {
      return Atom(monomial);
    }
    Poly product;
    product.constant = 1;
    for (const SymInt factor : node->children) {
      const std::optional<Poly> next = Multiply(product, ExpandMonomial(factor));
      if (!next) return Atom(monomial);
      product = *next;
    }
    return product;
  }
  return Atom(monomial);
}

// Appends `k * monomial`, expanded; the caller normalizes.
void AppendExpanded(Poly& p, int64_t k, SymInt monomial) {
  const Poly expanded = ExpandMonomial(monomial);
  int64_t constant;
  p.valid = p.valid && expanded.valid && !__builtin_mul_overflow(k, expanded.constant, &constant) &&
            !__builtin_add_overflow(p.constant, constant, &p.constant);
  for (const Term& t : expanded.terms) {
    int64_t coefficient;
    if (__builtin_mul_overflow(k, t.coefficient, &coefficient)) p.valid = false;
    p.terms.push_back({coefficient, t.monomial});
  }
}

// The terms of p, the constant among them, each as a polynomial.
std::vector<Poly> TermByTerm(const Poly& p) {
  std::vector<Poly> all;
  for (const Term& t : p.terms) all.emplace_back().terms = {t};
  if (p.constant != 0) all.emplace_back().constant = p.constant;
  return all;
}

// Every term of `part` is in `whole` with the same sign and at least its size.
bool Contains(const Poly& whole, const Poly& part) {
  if (!part.valid || part.terms.empty()) return false;
  size_t i = 0;
  for (const Term& t : part.terms) {
    const uint32_t id = t.monomial.node()->id;
    while (i < whole.terms.size() && whole.terms[i].monomial.node()->id < id) ++i;
    if (i == whole.terms.size() || !whole.terms[i].monomial.is_same(t.monomial)) return false;
    const int64_t have = whole.terms[i].coefficient;
    if ((have > 0) != (t.coefficient > 0) || Magnitude(have) < Magnitude(t.coefficient))
      return false;
  }
  return true;
}

// rest - factor*numerator + factor*(numerator % divisor), if rest contains factor*numerator.
std::optional<Poly> WithRemainder(const Poly& rest, const Poly& factor, const Poly& numerator_poly,
                                  SymInt numerator, SymInt divisor, SymInt quotient) {
  const std::optional<Poly> part = Multiply(factor, numerator_poly);
  if (!part || !Contains(rest, *part)) return std::nullopt;
  const SymInt mod = SymNodeFactory::MakeMod(numerator, divisor, quotient);
  if (!IsKind(mod, SymKind::Mod)) return std::nullopt;
  const std::optional<Poly> restored = Multiply(factor, Atom(mod));
  if (!restored) return std::nullopt;
  Poly result = AddScaled(AddScaled(rest, *part, -1), *restored, 1);
  if (!result.valid) return std::nullopt;
  return result;
}

// Finds m*y - m*c*(y//c) in `p` and writes it m*(y % c). Also for y = t//d, where y//c is t//(d*c).
// Where not all of what multiplies y//c belongs to a remainder, term by term: what is left of it
// stays a division's. Purely structural, so that the result depends on `p` alone.
void RestoreRemainders(Poly& p) {
  absl::InlinedVector<SymInt, 4> divisions;
  for (const Term& t : p.terms) {
    for (const SymInt factor : FactorsOf(t.monomial)) {
      if (IsKind(factor, SymKind::FloorDiv)) divisions.push_back(factor);
    }
  }
  if (divisions.empty()) return;
  std::sort(divisions.begin(), divisions.end(),
            [](SymInt a, SymInt b) { return a.node()->id > b.node()->id; });
  divisions.erase(std::unique(divisions.begin(), divisions.end()), divisions.end());
  if (divisions.size() > kMaxExtractedDivisions) divisions.resize(kMaxExtractedDivisions);
  // First those of whole numerators: what t - 8*(t//8) + 8*(t//32) is about is t%8, of which
  // (t//8)%4 would take a part.
  for (const bool whole : {true, false}) {
    for (const SymInt division : divisions) {
      Poly cofactor, rest;
      if (!SplitByAtom(p, division, cofactor, rest)) continue;
      const SymInt numerator = division.node()->children[0], divisor = division.node()->children[1];
      const Poly divisor_poly = Expand(divisor);
      const auto remainder_of = [&](const Poly& multiple, const Poly& c, const Poly& others,
                                    SymInt c_sym, SymInt y) -> std::optional<Poly> {
        const std::optional<Poly> q = DivideExactly(multiple, c);
        if (!q) return std::nullopt;
        return WithRemainder(others, AddScaled(Poly{}, *q, -1), Expand(y), y, c_sym, division);
      };
      const auto restore = [&](const Poly& c, SymInt c_sym, SymInt y) {
        if (std::optional<Poly> all = remainder_of(cofactor, c, rest, c_sym, y)) {
          p = *std::move(all);
          return true;
        }
        bool any = false;
        for (const Poly& term : TermByTerm(cofactor)) {
          const std::optional<Poly> taken = Multiply(term, Atom(division));
          if (!taken) continue;
          if (std::optional<Poly> r = remainder_of(term, c, AddScaled(p, *taken, -1), c_sym, y)) {
            p = *std::move(r);
            any = true;
          }
        }
        return any;
      };
      if (whole) {
        restore(divisor_poly, divisor, numerator);
        continue;
      }
      for (const SymInt inner : divisions) {
        if (inner == division) continue;
        const SymInt inner_divisor = inner.node()->children[1];
        const std::optional<Poly> ratio = DivideExactly(divisor_poly, Expand(inner_divisor));
        if (!ratio || ratio->is_constant(1)) continue;
        const SymInt ratio_sym = Build(*ratio);
        // Of another numerator t, as (8*a + b)//8 is a + b//8.
        const SymInt y = inner.node()->children[0].is_same(numerator)
                             ? inner
                             : sym_internal::Divide(numerator, inner_divisor);
        // floor(floor(t/d)/b) is floor(t/(d*b)) for positive b only.
        if (y.is_valid() && RangeOf(ratio_sym).lo >= 0 && restore(*ratio, ratio_sym, y)) break;
      }
    }
  }
}

}  // namespace

int64_t Magnitude(int64_t v) { return v == INT64_MIN ? INT64_MIN / -2 : std::abs(v); }

void Poly::Normalize() {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    return a.monomial.node()->id < b.monomial.node()->id;
  });
  size_t out = 0;
  for (size_t i = 0; i < terms.size();) {
    Term t = terms[i++];
    while (i < terms.size() && terms[i].monomial.is_same(t.monomial)) {
      if (__builtin_add_overflow(t.coefficient, terms[i++].coefficient, &t.coefficient))
        valid = false;
    }
    if (t.coefficient != 0) terms[out++] = t;
  }
  terms.resize(out);
}

Poly TermsOf(SymInt e) {
  if (!e.is_valid()) return InvalidPoly();
  Poly p;
  if (const auto v = e.maybe_int()) {
    p.constant = *v;
  } else if (e.node()->kind == SymKind::Add) {
    p.constant = e.node()->constant;
    for (size_t i = 0; i < e.node()->children.size(); ++i) {
      p.terms.push_back({e.node()->coefficients[i], e.node()->children[i]});
    }
  } else if (IsSingle(e.node()->range)) {  // Only a symbol: no other node has a single value.
    p.constant = e.node()->range.lo;
  } else {
    p.terms.push_back({1, e});
  }
  return p;
}

Poly Expand(SymInt e) { return Expand(TermsOf(e)); }

Poly Expand(Poly terms) {
  const auto has_mod = [](const Term& t) {
    const auto factors = FactorsOf(t.monomial);
    return std::any_of(factors.begin(), factors.end(),
                       [](SymInt f) { return IsKind(f, SymKind::Mod); });
  };
  if (!terms.valid || std::none_of(terms.terms.begin(), terms.terms.end(), has_mod)) return terms;
  Poly p;
  p.constant = terms.constant;
  for (const Term& t : terms.terms) AppendExpanded(p, t.coefficient, t.monomial);
  p.Normalize();
  return p;
}

SymInt Build(Poly p) {
  if (p.valid) RestoreRemainders(p);
  if (!p.valid) return SymInt::Invalid();
  if (p.terms.empty()) return p.constant;
  if (p.terms.size() == 1 && p.constant == 0 && p.terms[0].coefficient == 1) {
    return p.terms[0].monomial;
  }
  absl::InlinedVector<SymInt, 6> children;
  absl::InlinedVector<int64_t, 6> coefficients;
  for (const Term& t : p.terms) {
    children.push_back(t.monomial);
    coefficients.push_back(t.coefficient);
  }
  return SymNodeFactory::MakeAdd(children, coefficients, p.constant);
}

Poly AddScaled(const Poly& a, const Poly& b, int64_t k) {
  if (!a.valid || !b.valid) return InvalidPoly();
  Poly p;
  int64_t scaled;
  p.valid = !__builtin_mul_overflow(k, b.constant, &scaled) &&
            !__builtin_add_overflow(a.constant, scaled, &p.constant);
  if (k == 0) return p.terms = a.terms, p;
  p.terms.reserve(a.terms.size() + b.terms.size());
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    const uint32_t x = i < a.terms.size() ? a.terms[i].monomial.node()->id : UINT32_MAX;
    const uint32_t y = j < b.terms.size() ? b.terms[j].monomial.node()->id : UINT32_MAX;
    Term t = x <= y ? a.terms[i++] : Term{0, b.terms[j].monomial};
    if (y <= x) {
      if (__builtin_mul_overflow(k, b.terms[j++].coefficient, &scaled) ||
          __builtin_add_overflow(t.coefficient, scaled, &t.coefficient)) {
        return InvalidPoly();
      }
    }
    if (t.coefficient != 0) p.terms.push_back(t);
  }
  return p;
}

std::optional<Poly> Multiply(const Poly& a, const Poly& b) {
  if (!a.valid || !b.valid) return InvalidPoly();
  if (a.is_constant()) return AddScaled(Poly{}, b, a.constant);
  if (b.is_constant()) return AddScaled(Poly{}, a, b.constant);
  if ((a.terms.size() + (a.constant != 0)) * (b.terms.size() + (b.constant != 0)) >
      static_cast<size_t>(kMaxExpandedTerms)) {
    return std::nullopt;
  }
  Poly p;
  p.valid = !__builtin_mul_overflow(a.constant, b.constant, &p.constant);
  const auto append = [&p](Term x, Term y) {
    int64_t k;
    const SymInt monomial = MultiplyMonomials(x.monomial, y.monomial);
    if (__builtin_mul_overflow(x.coefficient, y.coefficient, &k) || !monomial.is_valid()) {
      p.valid = false;
    } else {
      p.terms.push_back({k, monomial});
    }
  };
  for (const Term& x : a.terms) {
    if (b.constant != 0) append(x, {b.constant, 1});
    for (const Term& y : b.terms) append(x, y);
  }
  if (a.constant != 0) {
    for (const Term& y : b.terms) append(y, {a.constant, 1});
  }
  p.Normalize();
  return p;
}

bool SplitByAtom(const Poly& p, SymInt atom, Poly& cofactor, Poly& rest) {
  rest.constant = p.constant;
  for (const Term& t : p.terms) {
    const std::optional<SymInt> q = DivideMonomials(t.monomial, atom);
    if (!q) {
      rest.terms.push_back(t);
      continue;
    }
    if (DivideMonomials(*q, atom)) return false;
    if (q->is_constant()) {
      cofactor.constant = t.coefficient;
    } else {
      cofactor.terms.push_back({t.coefficient, *q});
    }
  }
  cofactor.Normalize();
  return !cofactor.is_zero();
}

absl::Span<const SymInt> FactorsOf(const SymInt& monomial) {
  if (monomial.is_constant()) return {};
  if (monomial.node()->kind == SymKind::Mul) return monomial.node()->children;
  return {&monomial, 1};
}

SymInt MultiplyMonomials(SymInt a, SymInt b) {
  if (a.is_constant()) return b;
  if (b.is_constant()) return a;
  const auto x = FactorsOf(a), y = FactorsOf(b);
  if (x.size() + y.size() > kMaxFactors) return SymInt::Invalid();
  absl::InlinedVector<SymInt, 4> factors(x.size() + y.size());
  std::merge(x.begin(), x.end(), y.begin(), y.end(), factors.begin(),
             [](SymInt p, SymInt q) { return p.node()->id < q.node()->id; });
  return SymNodeFactory::Make(SymKind::Mul, factors);
}

namespace {

SymInt Product(absl::Span<const SymInt> factors) {
  if (factors.empty()) return 1;
  return factors.size() == 1 ? factors[0] : SymNodeFactory::Make(SymKind::Mul, factors);
}

}  // namespace

std::optional<SymInt> DivideMonomials(SymInt a, SymInt b) {
  const auto x = FactorsOf(a), y = FactorsOf(b);
  absl::InlinedVector<SymInt, 4> left;
  size_t j = 0;
  for (const SymInt f : x) {
    if (j < y.size() && f.is_same(y[j])) {
      ++j;
    } else {
      left.push_back(f);
    }
  }
  if (j < y.size()) return std::nullopt;
  return Product(left);
}

SymInt CommonMonomial(SymInt a, SymInt b) {
  const auto x = FactorsOf(a), y = FactorsOf(b);
  absl::InlinedVector<SymInt, 4> common;
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].is_same(y[j])) {
      common.push_back(x[i++]);
      ++j;
    } else if (x[i].node()->id < y[j].node()->id) {
      ++i;
    } else {
      ++j;
    }
  }
  return Product(common);
}

Division DividePolys(const Poly& a, const Poly& b) {
  Division d;
  d.rest = a;
  if (!a.valid || !b.valid || b.is_zero()) {
    d.rest = InvalidPoly();
    return d;
  }
  if (b.is_constant()) {
    const int64_t c = b.constant;
    if (c == -1) {
      d.quotient = AddScaled(Poly{}, a, -1);
      d.rest.terms.clear();
      d.rest.constant = 0;
    } else if (c != INT64_MIN) {
      for (const Term& t : a.terms) {
        if (t.coefficient / c != 0) d.quotient.terms.push_back({t.coefficient / c, t.monomial});
      }
      d.quotient.constant = *FloorDiv(SymInt(a.constant), c).maybe_int();
      d.rest = AddScaled(a, d.quotient, -c);
    }
    return d;
  }
  size_t lead = 0;
  for (size_t i = 1; i < b.terms.size(); ++i) {
    if (Leads(b.terms[i].monomial, b.terms[lead].monomial)) lead = i;
  }
  // Takes the terms from the leading one down. Each step removes a term and adds only lower ones.
  for (int step = 0; step < kMaxExpandedTerms && d.rest.valid; ++step) {
    Term best = {0, 1};
    for (const Term& t : d.rest.terms) {
      const std::optional<SymInt> q = DivideMonomials(t.monomial, b.terms[lead].monomial);
      const int64_t k = b.terms[lead].coefficient == -1
                            ? (t.coefficient == INT64_MIN ? 0 : -t.coefficient)
                            : t.coefficient / b.terms[lead].coefficient;
      if (q && k != 0 && (best.coefficient == 0 || Leads(*q, best.monomial))) best = {k, *q};
    }
    if (best.coefficient == 0) break;
    Poly q;
    if (best.monomial.is_constant()) {
      q.constant = best.coefficient;
    } else {
      q.terms.push_back(best);
    }
    const std::optional<Poly> taken = Multiply(q, b);
    if (!taken) break;
    d.rest = AddScaled(d.rest, *taken, -1);
    d.quotient = AddScaled(d.quotient, q, 1);
  }
  return d;
}

std::optional<Poly> DivideExactly(const Poly& a, const Poly& b) {
  Division d = DividePolys(a, b);
  if (!d.rest.is_zero() || !d.quotient.valid) return std::nullopt;
  return std::move(d.quotient);
}

Term ContentOf(const Poly& p) {
  Term content = {p.constant == 0 ? 0 : Magnitude(p.constant), 1};
  for (const Term& t : p.terms)
    content.coefficient = std::gcd(content.coefficient, Magnitude(t.coefficient));
  if (p.constant == 0 && !p.terms.empty()) {
    content.monomial = p.terms[0].monomial;
    for (const Term& t : p.terms) content.monomial = CommonMonomial(content.monomial, t.monomial);
  }
  return content;
}

Poly DivideByTerm(const Poly& p, Term t) {
  Poly q;
  q.valid = p.valid;
  q.constant = p.constant / t.coefficient;
  for (const Term& x : p.terms) {
    const SymInt monomial = *DivideMonomials(x.monomial, t.monomial);
    if (monomial.is_constant()) {
      q.constant += x.coefficient / t.coefficient;
    } else {
      q.terms.push_back({x.coefficient / t.coefficient, monomial});
    }
  }
  q.Normalize();
  return q;
}

}  // namespace seam::sym_internal
