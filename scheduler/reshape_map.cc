#include "scheduler/reshape_map.h"

namespace seam {

SymVector MapReshape(const SymVector& from, const SymVector& to, const SymVector& index) {
  SymVector at(from.size(), SymInt(0));
  auto radix = [&](SymInt e) { return e.is_constant() ? Max(e, 1) : e; };
  // Dimensions of one element belong to no block: their index is 0.
  auto skip_ones = [](const SymVector& extents, size_t i) {
    while (i < extents.size() && extents[i].is_same(1)) ++i;
    return i;
  };
  size_t f = skip_ones(from, 0), t = skip_ones(to, 0);
  while (f < from.size() || t < to.size()) {
    // The smallest block [f, f_end) x [t, t_end) with equal products. A block that never closes
    // takes all that is left.
    size_t f_end = f, t_end = t;
    SymInt from_product = 1, to_product = 1;
    if (f_end < from.size()) from_product = from[f_end++];
    if (t_end < to.size()) to_product = to[t_end++];
    while (!ProvablyEqual(from_product, to_product)) {
      const bool take_from =
          t_end == to.size() || (f_end < from.size() && ProvablyLe(from_product, to_product));
      if (take_from && f_end < from.size()) {
        from_product *= from[f_end++];
      } else if (t_end < to.size()) {
        to_product *= to[t_end++];
      } else {
        break;
      }
    }
    SymInt linear = 0;
    for (size_t i = t; i < t_end; ++i) linear = linear * radix(to[i]) + index[i];
    SymInt stride = 1;
    for (size_t i = f_end; i-- > f;) {
      const SymInt quotient = FloorDiv(linear, stride), extent = radix(from[i]);
      at[i] = i == f ? quotient : Mod(quotient, extent);
      stride *= extent;
    }
    f = skip_ones(from, f_end);
    t = skip_ones(to, t_end);
  }
  return at;
}

}  // namespace seam
