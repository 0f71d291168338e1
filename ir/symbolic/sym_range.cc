// Bounds are widened to 128 bits, with +-2^100 for infinity, and clamped back.
#include "ir/symbolic/sym_range.h"

#include <algorithm>

namespace seam::sym_internal {
namespace {

using Wide = __int128;
constexpr Wide kInf = static_cast<Wide>(1) << 100;

struct WideRange {
  Wide lo, hi;
};

WideRange Widen(SymRange r) {
  return {r.lo == INT64_MIN ? -kInf : static_cast<Wide>(r.lo),
          r.hi == INT64_MAX ? kInf : static_cast<Wide>(r.hi)};
}

// Moving a lower bound down to INT64_MAX, or an upper bound up to INT64_MIN, keeps it true.
SymRange Narrow(WideRange r) {
  const auto clamp = [](Wide v) {
    return static_cast<int64_t>(std::clamp<Wide>(v, INT64_MIN, INT64_MAX));
  };
  return {clamp(r.lo), clamp(r.hi)};
}

bool IsInf(Wide v) { return v >= kInf || v <= -kInf; }

Wide Times(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  if (IsInf(a) || IsInf(b)) return (a > 0) == (b > 0) ? kInf : -kInf;
  return std::clamp<Wide>(a * b, -kInf, kInf);
}

// The limit of floor(a / b) in a corner. Infinity over infinity takes the value nearest zero; the
// corners beside it hold the others.
Wide Quotient(Wide a, Wide b) {
  if (IsInf(b)) return a != 0 && (a > 0) != (b > 0) ? -1 : 0;
  if (IsInf(a)) return (a > 0) == (b > 0) ? kInf : -kInf;
  return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
}

template <typename F>
WideRange Corners(WideRange a, WideRange b, F f) {
  const Wide v[4] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

WideRange Join(WideRange a, WideRange b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

}  // namespace

SymRange AddRange(SymRange a, SymRange b) {
  const WideRange x = Widen(a), y = Widen(b);
  return Narrow({x.lo + y.lo <= -kInf / 2 ? -kInf : x.lo + y.lo,
                 x.hi + y.hi >= kInf / 2 ? kInf : x.hi + y.hi});
}

SymRange MulRange(SymRange a, SymRange b) { return Narrow(Corners(Widen(a), Widen(b), Times)); }

SymRange ScaleRange(SymRange a, int64_t k) {
  const WideRange x = Widen(a);
  const WideRange r = {Times(x.lo, k), Times(x.hi, k)};
  return Narrow(k < 0 ? WideRange{r.hi, r.lo} : r);
}

SymRange FloorDivRange(SymRange a, SymRange b) {
  const WideRange x = Widen(a), y = Widen(b);
  const bool below = y.lo<0, above = y.hi> 0;
  if (!below && !above) return {};
  const auto negative = [&] { return Corners(x, {y.lo, std::min<Wide>(y.hi, -1)}, Quotient); };
  const auto positive = [&] { return Corners(x, {std::max<Wide>(y.lo, 1), y.hi}, Quotient); };
  return Narrow(!below ? positive() : !above ? negative() : Join(negative(), positive()));
}

SymRange ModRange(SymRange a, SymRange b) {
  const WideRange x = Widen(a), y = Widen(b);
  if (y.lo == y.hi && y.lo > 0 && !IsInf(x.lo) && !IsInf(x.hi) &&
      Quotient(x.lo, y.lo) == Quotient(x.hi, y.lo)) {
    const Wide base = Quotient(x.lo, y.lo) * y.lo;
    return Narrow({x.lo - base, x.hi - base});
  }
  WideRange r = {y.lo < 0 ? y.lo + 1 : 0, y.hi > 0 ? y.hi - 1 : 0};
  if (y.lo >= 0 && x.lo >= 0) r.hi = std::min(r.hi, x.hi);
  if (y.hi <= 0 && x.hi <= 0) r.lo = std::max(r.lo, x.lo);
  return Narrow(r);
}

SymRange UnionRange(SymRange a, SymRange b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

SymRange IntersectRange(SymRange a, SymRange b) {
  const SymRange r = {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return r.lo <= r.hi ? r : a;
}

bool IsSingle(SymRange r) { return r.lo == r.hi && r.lo != INT64_MIN && r.lo != INT64_MAX; }

}  // namespace seam::sym_internal
