// To show e >= 0 the newest atom of e that has a symbolic bound in the helpful direction is
// replaced by the bound, until a range decides: N - 1 - r becomes 0 for a loop index r with the
// bound N - 1. Atoms are replaced where they stand in a product only if the rest of the product is
// known not to be negative. What is one of several cases, all of which are proven, is replaced
// before what has several bounds, one of which will do: which one depends on the case.
#include "ir/symbolic/sym_prove.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "ir/symbolic/sym_node_factory.h"
#include "ir/symbolic/sym_poly.h"
#include "ir/symbolic/sym_range.h"

namespace seam::sym_internal {
namespace {

constexpr int kMaxSteps = 24;        // Substitutions of one proof, over all its branches.
constexpr int kMaxNestedProofs = 2;  // Substitution canonicalises, which asks for proofs.

constexpr int kMaxNestedRanges = 4;  // Sums whose range is that of another sum.

thread_local int nested_proofs = 0;
thread_local int nested_ranges = 0;

SymInt TermValue(const Term& t) { return SymInt(t.coefficient) * t.monomial; }

bool NonNegative(SymInt e, int& steps);

// An expression that `e` does not exceed, by replacing symbols that have a symbolic bound. Nothing
// if there are none.
std::optional<SymInt> SymbolicUpperBound(SymInt e) {
  const Poly p = TermsOf(e);
  SymInt bound = e;
  bool found = false;
  for (const Term& t : p.terms) {
    const SymNode* node = t.monomial.node();
    if (t.coefficient < 0 || node->kind != SymKind::Symbol || !node->upper.is_symbolic()) continue;
    bound = bound + SymInt(t.coefficient) * (node->upper - t.monomial);
    found = true;
  }
  if (!found) return std::nullopt;
  return bound;
}

// What a term of e may be replaced by: the branches of which all, or any one, has to be proven.
struct Replacement {
  absl::InlinedVector<SymInt, 2> values;  // Of the whole term.
  bool all = true;
  bool is_choice() const { return !all; }
  bool is_case() const { return all && values.size() > 1; }
};

std::optional<Replacement> Replace(const Term& t, SymInt atom, SymInt cofactor) {
  const SymNode* node = atom.node();
  const bool up = t.coefficient < 0;  // The atom's upper bound is what lowers the term.
  const auto scaled = [&](SymInt bound) { return cofactor * bound; };
  Replacement r;
  switch (node->kind) {
    case SymKind::Symbol:
      if (!up || !node->upper.is_symbolic()) return std::nullopt;
      r.values = {scaled(node->upper)};
      return r;
    case SymKind::Mod:
      if (!up || node->children[1].is_constant() || RangeOf(node->children[1]).lo < 0) {
        return std::nullopt;
      }
      r.values = {scaled(node->children[1] - 1)};
      return r;
    case SymKind::FloorDiv: {
      const SymInt n = node->children[0], c = node->children[1];
      if (RangeOf(c).lo < 0) return std::nullopt;
      // n - c + 1 <= c * (n//c) <= n.
      if (const std::optional<Poly> q = DivideExactly(Expand(cofactor), Expand(c))) {
        r.values = {Build(*q) * (up ? n : n - c + 1)};
        return r;
      }
      if (!up) return std::nullopt;
      const std::optional<SymInt> bound = SymbolicUpperBound(n);
      if (!bound) return std::nullopt;
      r.values = {scaled(FloorDiv(*bound, c))};
      return r;
    }
    case SymKind::Min:
    case SymKind::Max:
    case SymKind::Select:
      r.all = node->kind == SymKind::Select || up == (node->kind == SymKind::Max);
      for (size_t i = node->kind == SymKind::Select ? 1 : 0; i < node->children.size(); ++i) {
        r.values.push_back(scaled(node->children[i]));
      }
      return r;
    default:
      return std::nullopt;
  }
}

// The product that stands in a term with others by the constant bound of one atom, the narrowest.
std::optional<SymInt> ReplaceByConstant(const Term& t) {
  std::optional<SymInt> best;
  uint64_t best_width = UINT64_MAX;
  const auto factors = FactorsOf(t.monomial);
  for (size_t i = 0; factors.size() > 1 && i < factors.size(); ++i) {
    const SymRange range = RangeOf(factors[i]);
    const int64_t bound = t.coefficient < 0 ? range.hi : range.lo;
    const uint64_t width = static_cast<uint64_t>(range.hi) - static_cast<uint64_t>(range.lo);
    if (bound == INT64_MAX || bound == INT64_MIN || width >= best_width) continue;
    const SymInt others = *DivideMonomials(t.monomial, factors[i]);
    if (RangeOf(others).lo < 0) continue;
    best = SymInt(t.coefficient) * others * bound;
    best_width = width;
  }
  return best;
}

bool NonNegative(SymInt e, int& steps) {
  if (!e.is_valid()) return false;
  const SymRange range = RangeOf(e);
  if (range.lo >= 0) return true;
  if (range.hi < 0 || --steps < 0) return false;
  std::optional<Replacement> best;
  Term best_term = {0, 1};
  uint32_t best_id = 0;
  const Poly p = TermsOf(e);
  for (const Term& t : p.terms) {
    for (const SymInt atom : FactorsOf(t.monomial)) {
      const bool newer = !best || atom.node()->id > best_id;
      if (!newer && !best->is_choice()) continue;
      const SymInt others = *DivideMonomials(t.monomial, atom);
      if (RangeOf(others).lo < 0) continue;
      if (auto r = Replace(t, atom, SymInt(t.coefficient) * others)) {
        const bool sooner = best && r->is_case() && best->is_choice();
        const bool later = best && r->is_choice() && best->is_case();
        if (later || (!newer && !sooner)) continue;
        best = *std::move(r);
        best_term = t;
        best_id = atom.node()->id;
      }
    }
  }
  for (size_t i = p.terms.size(); !best && i-- > 0;) {
    if (const auto value = ReplaceByConstant(p.terms[i])) {
      best = Replacement{{*value}};
      best_term = p.terms[i];
    }
  }
  if (!best) return false;
  const SymInt rest = e - TermValue(best_term);
  const auto holds = [&](SymInt value) { return NonNegative(rest + value, steps); };
  return best->all ? std::all_of(best->values.begin(), best->values.end(), holds)
                   : std::any_of(best->values.begin(), best->values.end(), holds);
}

}  // namespace

bool InsideProof() { return nested_proofs > 0; }

bool ProveNonNegative(SymInt e) {
  if (!e.is_valid()) return false;
  const SymRange range = RangeOf(e);
  if (range.lo >= 0 || range.hi < 0 || nested_proofs >= kMaxNestedProofs) return range.lo >= 0;
  int steps = kMaxSteps;
  ++nested_proofs;
  const bool proven = NonNegative(e, steps);
  --nested_proofs;
  return proven;
}

bool ProveWithin(SymInt e, SymInt lo, SymInt end) {
  return ProveNonNegative(e - lo) && ProveNonNegative(end - 1 - e);
}

bool HoldsAtAllPoints(SymInt condition) {
  constexpr uint64_t kMostPoints = 64;
  if (!condition.is_valid()) return false;
  const std::vector<const SymNode*> symbols = FreeSymbols(condition);
  uint64_t points = 1;
  for (const SymNode* symbol : symbols) {
    const SymRange range = RangeOf(SymInt::FromNode(symbol));
    const uint64_t more = static_cast<uint64_t>(range.hi) - static_cast<uint64_t>(range.lo);
    if (more >= kMostPoints || (points *= more + 1) > kMostPoints) return false;
  }
  for (uint64_t point = 0; point < points; ++point) {
    const auto lookup = [&](const SymNode* wanted) -> std::optional<int64_t> {
      uint64_t rest = point;
      for (const SymNode* symbol : symbols) {
        const SymRange range = RangeOf(SymInt::FromNode(symbol));
        const uint64_t values = static_cast<uint64_t>(range.hi - range.lo) + 1;
        if (symbol == wanted) return range.lo + static_cast<int64_t>(rest % values);
        rest /= values;
      }
      return std::nullopt;
    };
    const absl::StatusOr<int64_t> value = Evaluate(condition, lookup);
    if (!value.ok() || *value == 0) return false;
  }
  return true;
}

// The range of rest + k*(numerator//divisor) from divisor*rest + k*numerator, for a positive
// divisor: of 3*s - (s + 1)//3 from 8*s - 1. Nothing to gain unless terms of the two cancel.
std::optional<SymRange> RangeOverDivisor(absl::Span<const SymInt> children,
                                         absl::Span<const int64_t> coefficients, int64_t constant,
                                         size_t division) {
  const int64_t k = coefficients[division];
  const SymInt numerator = children[division].node()->children[0];
  const int64_t divisor = *children[division].node()->children[1].maybe_int();
  if (divisor <= 0) return std::nullopt;
  const Poly n = TermsOf(numerator);
  const bool shares_terms = absl::c_any_of(n.terms, [&](const Term& t) {
    return std::find(children.begin(), children.end(), t.monomial) != children.end();
  });
  if (!shares_terms) return std::nullopt;
  // Made at once: the node of each partial sum would derive its range in this way too.
  Poly rest;
  rest.constant = constant;
  for (size_t i = 0; i < children.size(); ++i) {
    if (i != division) rest.terms.push_back({coefficients[i], children[i]});
  }
  const Poly scaled_rest = AddScaled(Poly{}, Expand(std::move(rest)), divisor);
  const SymInt scaled = Build(AddScaled(scaled_rest, Expand(n), k));
  if (!scaled.is_valid()) return std::nullopt;
  // divisor*(numerator//divisor) is numerator less a remainder.
  const SymRange all = AddRange(RangeOf(scaled), ScaleRange({1 - divisor, 0}, k));
  if (all.lo == INT64_MIN || all.hi == INT64_MAX) return std::nullopt;
  SymRange range = FloorDivRange(all, {divisor, divisor});
  if (all.lo % divisor != 0) ++range.lo;
  return range;
}

// Terms are summed one by one, and once more with two divisions of opposite sign drawn together:
// the range of (x + y)//4 - 2*(x//8) is that of (x%8 + y)//4. The numerator has one division less,
// so this ends.
SymRange RangeOfSum(absl::Span<const SymInt> children, absl::Span<const int64_t> coefficients,
                    int64_t constant) {
  SymRange sum = {constant, constant};
  for (size_t i = 0; i < children.size(); ++i) {
    sum = AddRange(sum, ScaleRange(RangeOf(children[i]), coefficients[i]));
  }
  const auto is_division = [&](size_t i) {
    const SymNode* n = children[i].node();
    return n->kind == SymKind::FloorDiv && n->children[1].is_constant();
  };
  size_t outer = children.size();
  for (size_t i = 0; i < children.size(); ++i) {
    if (!is_division(i) || coefficients[i] == INT64_MIN) continue;
    if (outer == children.size() || std::abs(coefficients[i]) <= std::abs(coefficients[outer]))
      outer = i;
  }
  if (outer == children.size() || nested_ranges == kMaxNestedRanges) return sum;
  const int64_t k = coefficients[outer];
  const SymInt numerator = children[outer].node()->children[0];
  const SymInt divisor = children[outer].node()->children[1];
  ++nested_ranges;
  if (const auto over = RangeOverDivisor(children, coefficients, constant, outer))
    sum = IntersectRange(sum, *over);
  Poly divisions;
  SymRange rest = {constant, constant};
  for (size_t i = 0; i < children.size(); ++i) {
    if (i == outer) continue;
    if (coefficients[i] != INT64_MIN && is_division(i) && (coefficients[i] > 0) != (k > 0) &&
        coefficients[i] % k == 0) {
      divisions.terms.push_back({coefficients[i] / k, children[i]});
    } else {
      rest = AddRange(rest, ScaleRange(RangeOf(children[i]), coefficients[i]));
    }
  }
  SymInt joined = SymInt::Invalid();
  if (!divisions.terms.empty())
    joined = Build(AddScaled(Expand(numerator), divisions, *divisor.maybe_int()));
  --nested_ranges;
  if (!joined.is_valid()) return sum;
  const SymRange quotient = FloorDivRange(RangeOf(joined), RangeOf(divisor));
  return IntersectRange(sum, AddRange(rest, ScaleRange(quotient, k)));
}

}  // namespace seam::sym_internal
