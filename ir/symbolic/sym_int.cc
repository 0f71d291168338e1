// Canonical sums, products, extrema, conditions and selections. Division has its own file.
#include "ir/symbolic/sym_int.h"

#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "ir/symbolic/sym_node_factory.h"
#include "ir/symbolic/sym_poly.h"
#include "ir/symbolic/sym_prove.h"
#include "ir/symbolic/sym_range.h"

namespace seam {
namespace {

using sym_internal::Poly;
using sym_internal::Term;

// An operand list with more members stays one operand of the next operation, which keeps long
// chains linear.
constexpr size_t kMaxArms = 16;

using Arms = absl::InlinedVector<SymInt, 8>;

// The environment of the operands; nothing if they are of two, or one is invalid.
std::optional<ShapeEnv*> CommonEnv(SymInt a, SymInt b) {
  if (!a.is_valid() || !b.is_valid()) return std::nullopt;
  if (a.env() == nullptr) return b.env();
  if (b.env() != nullptr && a.env() != b.env()) return std::nullopt;
  return a.env();
}

// Constants last, then by id.
bool ArmBefore(SymInt a, SymInt b) {
  const auto x = a.maybe_int(), y = b.maybe_int();
  if (x && y) return *x < *y;
  if (x || y) return y.has_value();
  return a.node()->id < b.node()->id;
}

// The members of `e`, if it is of `kind` and short; otherwise `e` itself.
Arms ArmsOf(SymKind kind, SymInt e) {
  if (!IsKind(e, kind) || e.node()->children.size() >= kMaxArms) return {e};
  return Arms(e.node()->children.begin(), e.node()->children.end());
}

Arms JoinArms(const Arms& a, const Arms& b) {  // Sorted, without repetition.
  Arms arms = a;
  arms.insert(arms.end(), b.begin(), b.end());
  std::sort(arms.begin(), arms.end(), ArmBefore);
  arms.erase(std::unique(arms.begin(), arms.end()), arms.end());
  return arms;
}

SymInt AddScaledSym(SymInt a, SymInt b, int64_t k) {
  const auto env = CommonEnv(a, b);
  if (!env) return SymInt::Invalid();
  if (*env == nullptr) {
    int64_t r;
    const int64_t x = *a.maybe_int(), y = *b.maybe_int();
    const bool overflow =
        k > 0 ? __builtin_add_overflow(x, y, &r) : __builtin_sub_overflow(x, y, &r);
    return overflow ? SymInt::Invalid() : SymInt(r);
  }
  const Poly x = sym_internal::Expand(a), y = sym_internal::Expand(b);
  Poly sum = sym_internal::AddScaled(x, y, k);
  if (sum.terms.size() <= std::max<size_t>({kMaxSumTerms, x.terms.size(), y.terms.size()})) {
    return sym_internal::Build(std::move(sum));
  }
  Poly joined;
  for (const Term& t : {Term{1, a}, Term{k, b}}) {
    const Poly& p = t.monomial.is_same(a) ? x : y;
    if (p.terms.size() >= kMaxSumTerms / 2) {
      joined.terms.push_back(t);
    } else {
      joined = sym_internal::AddScaled(joined, p, t.coefficient);
    }
    joined.Normalize();
  }
  return sym_internal::Build(std::move(joined));
}

SymInt Extremum(SymKind kind, SymInt a, SymInt b) {
  const bool is_min = kind == SymKind::Min;
  const auto env = CommonEnv(a, b);
  if (!env) return SymInt::Invalid();
  if (a.is_same(b)) return a;
  if (*env == nullptr) {
    const int64_t x = *a.maybe_int(), y = *b.maybe_int();
    return is_min ? std::min(x, y) : std::max(x, y);
  }
  if (ArmBefore(b, a)) std::swap(a, b);
  if (const auto known = SymNodeFactory::Recall(*env, kind, a, b)) return *known;
  // An arm goes where one of the other operand's arms makes it needless.
  Arms left = ArmsOf(kind, a), right = ArmsOf(kind, b);
  const auto drop_needless = [is_min](Arms& from, const Arms& others) {
    from.erase(std::remove_if(from.begin(), from.end(),
                              [&](SymInt arm) {
                                return absl::c_any_of(others, [&](SymInt other) {
                                  return sym_internal::ProveNonNegative(is_min ? arm - other
                                                                               : other - arm);
                                });
                              }),
               from.end());
  };
  drop_needless(right, left);
  drop_needless(left, right);
  const Arms arms = JoinArms(left, right);
  const SymInt result = arms.size() == 1 ? arms[0] : SymNodeFactory::Make(kind, arms);
  if (!sym_internal::InsideProof()) SymNodeFactory::Remember(*env, kind, a, b, result);
  return result;
}

bool IsCondition(SymInt e) {
  if (const auto v = e.maybe_int()) return *v == 0 || *v == 1;
  if (!e.is_valid()) return false;
  return e.node()->kind >= SymKind::Eq && e.node()->kind <= SymKind::Not;
}

SymInt AsCondition(SymInt e) {
  if (const auto v = e.maybe_int()) return *v != 0;
  return IsCondition(e) ? e : SymNe(e, 0);
}

// The terms of `d` with a positive coefficient on one side, the others negated on the other side.
void SplitBySign(const Poly& d, Poly& positive, Poly& negative) {
  for (const Term& t : d.terms) {
    if (t.coefficient > 0) {
      positive.terms.push_back(t);
    } else {
      negative.terms.push_back({-t.coefficient, t.monomial});
    }
  }
}

bool HasLargeCoefficient(const Poly& d) {
  return d.constant == INT64_MIN || std::any_of(d.terms.begin(), d.terms.end(), [](const Term& t) {
           return t.coefficient == INT64_MIN;
         });
}

int64_t TermGcd(const Poly& d) {
  Poly terms = d;
  terms.constant = 0;
  return sym_internal::ContentOf(terms).coefficient;
}

// d >= 0 as q + k >= 0, if d is g q + r and r lies in g k .. g k + g - 1, whatever its terms are:
// 8 a <= 8 b + v is a <= b for v in 0..7. Terms of q have coefficients larger than those of r.
Poly WithoutRest(const Poly& d) {
  const auto magnitude = [](const Term& t) { return sym_internal::Magnitude(t.coefficient); };
  for (const Term& least : d.terms) {
    Poly q, r;
    for (const Term& t : d.terms) (magnitude(t) >= magnitude(least) ? q : r).terms.push_back(t);
    if (r.terms.empty()) continue;
    r.constant = d.constant;
    const int64_t g = TermGcd(q);
    if (g == 1) continue;
    const SymRange range = RangeOf(sym_internal::Build(r));
    if (range.lo == INT64_MIN || range.hi == INT64_MAX) continue;
    const int64_t k = *FloorDiv(SymInt(range.lo), g).maybe_int();
    if (k != *FloorDiv(SymInt(range.hi), g).maybe_int()) continue;
    for (Term& t : q.terms) t.coefficient /= g;
    q.constant = k;
    return q;
  }
  return d;
}

// d >= 0, with as few constants in the answer as there can be: l <= r, l < r, l <= c or c <= r.
SymInt MakeNonNegative(SymInt difference) {
  Poly d = sym_internal::TermsOf(difference);
  if (HasLargeCoefficient(d)) return SymInt::Invalid();
  d = WithoutRest(d);
  const int64_t g = TermGcd(d);
  for (Term& t : d.terms) t.coefficient /= g;
  d.constant = *FloorDiv(SymInt(d.constant), g).maybe_int();
  Poly l, r;
  SplitBySign(d, r, l);
  SymKind kind = SymKind::Le;
  if (l.terms.empty()) {
    l.constant = -d.constant;
  } else if (r.terms.empty() || d.constant >= 0) {
    r.constant = d.constant;
  } else {
    kind = SymKind::Lt;
    l.constant = -d.constant - 1;
  }
  const SymInt children[] = {sym_internal::Build(std::move(l)), sym_internal::Build(std::move(r))};
  return SymNodeFactory::Make(kind, children);
}

// d == 0 or d != 0, the first term of d positive.
SymInt MakeZeroTest(SymKind kind, SymInt difference) {
  Poly d = sym_internal::TermsOf(difference);
  if (HasLargeCoefficient(d)) return SymInt::Invalid();
  const int64_t g = TermGcd(d) * (d.terms[0].coefficient < 0 ? -1 : 1);
  for (Term& t : d.terms) t.coefficient /= g;
  d.constant /= g;
  if (d.terms.size() == 1 && IsCondition(d.terms[0].monomial)) {  // A condition is 0 or 1.
    const bool is_true = (d.constant == 0) == (kind == SymKind::Ne);
    return is_true ? d.terms[0].monomial : SymNot(d.terms[0].monomial);
  }
  Poly l, r;
  SplitBySign(d, l, r);
  r.constant = -d.constant;
  const SymInt children[] = {sym_internal::Build(std::move(l)), sym_internal::Build(std::move(r))};
  return SymNodeFactory::Make(kind, children);
}

SymInt ZeroTest(SymKind kind, SymInt a, SymInt b) {
  const auto env = CommonEnv(a, b);
  if (!env) return SymInt::Invalid();
  const bool is_eq = kind == SymKind::Eq;
  if (*env == nullptr) return (*a.maybe_int() == *b.maybe_int()) == is_eq;
  if (const auto known = SymNodeFactory::Recall(*env, kind, a, b)) return *known;
  const SymInt d = a - b;
  SymInt result = SymInt::Invalid();
  if (const auto v = d.maybe_int()) {
    result = (*v == 0) == is_eq;
  } else if (d.is_valid()) {
    const Poly p = sym_internal::TermsOf(d);
    int64_t g = 0;
    for (const Term& t : p.terms) {
      int64_t divisor = KnownDivisor(t.monomial);
      if (__builtin_mul_overflow(sym_internal::Magnitude(t.coefficient), divisor, &divisor))
        divisor = 1;
      g = std::gcd(g, divisor);
    }
    if (p.constant % g != 0 || sym_internal::ProveNonNegative(d - 1) ||
        sym_internal::ProveNonNegative(-d - 1)) {
      result = !is_eq;
    } else if (sym_internal::ProveNonNegative(d) && sym_internal::ProveNonNegative(-d)) {
      result = is_eq;
    } else {
      result = MakeZeroTest(kind, d);
    }
  }
  if (!sym_internal::InsideProof()) SymNodeFactory::Remember(*env, kind, a, b, result);
  return result;
}

// p where `e` is the bound p >= 0.
std::optional<Poly> BoundOf(SymInt e) {
  if (!IsKind(e, SymKind::Le) && !IsKind(e, SymKind::Lt)) return std::nullopt;
  const SymNode* node = e.node();
  Poly p = sym_internal::AddScaled(sym_internal::Expand(node->children[1]),
                                   sym_internal::Expand(node->children[0]), -1);
  const int64_t strict = node->kind == SymKind::Lt;
  if (!p.valid || __builtin_sub_overflow(p.constant, strict, &p.constant)) return std::nullopt;
  return p;
}

// Of bounds that differ by a constant one says it all: the tightest of a conjunction, the loosest
// of a disjunction. Quadratic in the arms.
void DropImpliedBounds(SymKind kind, Arms& arms) {
  absl::InlinedVector<std::optional<Poly>, 8> bounds;
  for (const SymInt arm : arms) bounds.push_back(BoundOf(arm));
  Arms kept;
  for (size_t i = 0; i < arms.size(); ++i) {
    bool implied = false;
    for (size_t j = 0; j < arms.size() && bounds[i] && !implied; ++j) {
      if (j == i || !bounds[j]) continue;
      const Poly gap = sym_internal::AddScaled(*bounds[i], *bounds[j], -1);
      implied = gap.is_constant() && (kind == SymKind::And ? gap.constant > 0 : gap.constant < 0);
    }
    if (!implied) kept.push_back(arms[i]);
  }
  arms = std::move(kept);
}

SymInt Connective(SymKind kind, SymInt a, SymInt b) {
  const int64_t neutral = kind == SymKind::And;
  const auto env = CommonEnv(a, b);
  if (!env) return SymInt::Invalid();
  a = AsCondition(a);
  b = AsCondition(b);
  if (!a.is_valid() || !b.is_valid()) return SymInt::Invalid();
  if (const auto x = a.maybe_int()) return *x == neutral ? b : a;
  if (const auto y = b.maybe_int()) return *y == neutral ? a : b;
  if (ArmBefore(b, a)) std::swap(a, b);
  if (const auto known = SymNodeFactory::Recall(*env, kind, a, b)) return *known;
  Arms arms = JoinArms(ArmsOf(kind, a), ArmsOf(kind, b));
  DropImpliedBounds(kind, arms);
  SymInt result = arms.size() == 1 ? arms[0] : SymInt::Invalid();
  if (arms.size() > 1) {
    const bool contradiction = std::any_of(arms.begin(), arms.end(), [&](SymInt arm) {
      return std::find(arms.begin(), arms.end(), SymNot(arm)) != arms.end();
    });
    result = contradiction ? SymInt(1 - neutral) : SymNodeFactory::Make(kind, arms);
  }
  if (!sym_internal::InsideProof()) SymNodeFactory::Remember(*env, kind, a, b, result);
  return result;
}

}  // namespace

namespace sym_internal {

SymInt Add(SymInt a, SymInt b) { return AddScaledSym(a, b, 1); }
SymInt Sub(SymInt a, SymInt b) { return AddScaledSym(a, b, -1); }

SymInt Mul(SymInt a, SymInt b) {
  const auto env = CommonEnv(a, b);
  if (!env) return SymInt::Invalid();
  const Poly x = Expand(a), y = Expand(b);
  if (auto product = Multiply(x, y)) return Build(*std::move(product));
  // Too long to expand: the sums become factors.
  const auto as_term = [](const Poly& p) {
    if (p.constant == 0 && p.terms.size() == 1) return p.terms[0];
    return Term{1, Build(p)};
  };
  const Term s = as_term(x), t = as_term(y);
  Poly product;
  product.terms.push_back({0, MultiplyMonomials(s.monomial, t.monomial)});
  product.valid =
      product.terms[0].monomial.is_valid() &&
      !__builtin_mul_overflow(s.coefficient, t.coefficient, &product.terms[0].coefficient);
  return Build(std::move(product));
}

}  // namespace sym_internal

SymInt Min(SymInt a, SymInt b) { return Extremum(SymKind::Min, a, b); }
SymInt Max(SymInt a, SymInt b) { return Extremum(SymKind::Max, a, b); }

SymInt SymEq(SymInt a, SymInt b) { return ZeroTest(SymKind::Eq, a, b); }
SymInt SymNe(SymInt a, SymInt b) { return ZeroTest(SymKind::Ne, a, b); }

SymInt SymLe(SymInt a, SymInt b) {
  const auto env = CommonEnv(a, b);
  if (!env) return SymInt::Invalid();
  if (*env == nullptr) return *a.maybe_int() <= *b.maybe_int();
  if (const auto known = SymNodeFactory::Recall(*env, SymKind::Le, a, b)) return *known;
  const SymInt d = b - a;
  SymInt result = SymInt::Invalid();
  if (const auto v = d.maybe_int()) {
    result = *v >= 0;
  } else if (d.is_valid()) {
    result = sym_internal::ProveNonNegative(d)        ? SymInt(1)
             : sym_internal::ProveNonNegative(-d - 1) ? SymInt(0)
                                                      : MakeNonNegative(d);
  }
  if (!sym_internal::InsideProof()) SymNodeFactory::Remember(*env, SymKind::Le, a, b, result);
  return result;
}

SymInt SymLt(SymInt a, SymInt b) {
  if (a.is_constant() && b.is_constant()) return *a.maybe_int() < *b.maybe_int();
  return a.is_constant() ? SymLe(a + 1, b) : SymLe(a, b - 1);
}
SymInt SymGt(SymInt a, SymInt b) { return SymLt(b, a); }
SymInt SymGe(SymInt a, SymInt b) { return SymLe(b, a); }

SymInt SymAnd(SymInt a, SymInt b) { return Connective(SymKind::And, a, b); }
SymInt SymOr(SymInt a, SymInt b) { return Connective(SymKind::Or, a, b); }

SymInt SymNot(SymInt a) {
  if (!a.is_valid()) return a;
  if (const auto v = a.maybe_int()) return *v == 0;
  const SymNode* node = a.node();
  switch (node->kind) {
    case SymKind::Eq:
      return SymNe(node->children[0], node->children[1]);
    case SymKind::Ne:
      return SymEq(node->children[0], node->children[1]);
    case SymKind::Lt:
      return SymLe(node->children[1], node->children[0]);
    case SymKind::Le:
      return SymLt(node->children[1], node->children[0]);
    case SymKind::And:
    case SymKind::Or: {
      if (const auto known = SymNodeFactory::Recall(node->env, SymKind::Not, a, 0)) return *known;
      SymInt result = node->kind == SymKind::And ? 0 : 1;
      for (const SymInt child : node->children) {
        result = node->kind == SymKind::And ? SymOr(result, SymNot(child))
                                            : SymAnd(result, SymNot(child));
      }
      if (!sym_internal::InsideProof())
        SymNodeFactory::Remember(node->env, SymKind::Not, a, 0, result);
      return result;
    }
    default:
      return SymEq(a, 0);
  }
}

SymInt SymSelect(SymInt condition, SymInt a, SymInt b) {
  condition = AsCondition(condition);
  if (!CommonEnv(a, b) || !CommonEnv(condition, a) || !CommonEnv(condition, b)) {
    return SymInt::Invalid();
  }
  if (const auto v = condition.maybe_int()) return *v != 0 ? a : b;
  if (a.is_same(b)) return a;
  if (a.maybe_int() == 1 && b.maybe_int() == 0) return condition;
  if (a.maybe_int() == 0 && b.maybe_int() == 1) return SymNot(condition);
  if (condition.node()->kind == SymKind::Ne) {
    condition = SymNot(condition);
    std::swap(a, b);
  }
  const SymInt children[] = {condition, a, b};
  return SymNodeFactory::Make(SymKind::Select, children);
}

std::optional<bool> Decide(SymInt condition) {
  if (!condition.is_valid()) return std::nullopt;
  const SymInt c = AsCondition(condition);
  if (const auto v = c.maybe_int()) return *v != 0;
  return std::nullopt;
}

bool ProvablyEqual(SymInt a, SymInt b) {
  const SymInt equal = SymEq(a, b);
  const std::optional<bool> decided = Decide(equal);
  return decided ? *decided : sym_internal::HoldsAtAllPoints(equal);
}
bool ProvablyLt(SymInt a, SymInt b) { return Decide(SymLt(a, b)) == true; }
bool ProvablyLe(SymInt a, SymInt b) { return Decide(SymLe(a, b)) == true; }
bool ProvablyGe(SymInt a, SymInt b) { return Decide(SymGe(a, b)) == true; }

bool ProvablyDivisible(SymInt e, int64_t k) {
  if (!e.is_valid() || k == 0) return false;
  if (const auto v = e.maybe_int()) return k == -1 || *v % k == 0;
  return (k != INT64_MIN && KnownDivisor(e) % k == 0) || Mod(e, k).is_same(0);
}

}  // namespace seam
