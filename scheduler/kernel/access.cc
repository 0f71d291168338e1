#include "scheduler/kernel/access.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace seam::kernel {

SymInt Substitute(SymInt e, SymInt symbol, SymInt value) {
  if (e.env() == nullptr) return e;
  SymImporter importer(e.env());
  bool found = false;
  for (const SymNode* s : FreeSymbols(e)) {
    const bool is_it = s == symbol.node();
    found |= is_it;
    importer.Map(s, is_it ? value : SymInt::FromNode(s));
  }
  return found ? importer.Import(e) : e;
}

bool DependsOn(SymInt e, SymInt symbol) {
  if (e.env() == nullptr) return false;
  for (const SymNode* s : FreeSymbols(e)) {
    if (s == symbol.node()) return true;
  }
  return false;
}

Access ClassifyAccess(SymInt index, SymInt v, int vector, int dtype_bytes,
                      int base_alignment_bytes) {
  if (vector == 1 || !DependsOn(index, v)) return {Access::kUniform, 1, index};
  const SymInt base = Substitute(index, v, 0);
  if (DependsOn(base, v) || !(index - base).is_same(v)) return {Access::kScattered, 1, base};
  // A power of two up to 16 bytes that divides the first index and the vector.
  int width = 1;
  const int limit = std::max(1, std::min(16, base_alignment_bytes) / dtype_bytes);
  while (width < limit && vector % (2 * width) == 0 && ProvablyDivisible(base, 2 * width))
    width *= 2;
  // Whole vectors wider than 16 bytes are several 16-byte accesses in a row.
  if (width * dtype_bytes == 16 && ProvablyDivisible(base, width)) {
    return {Access::kVector, vector % width == 0 ? vector : width, base};
  }
  if (width > 1) return {Access::kVector, width, base};
  const int neighbours = std::min(vector, 16 / dtype_bytes);
  const bool movable = base_alignment_bytes >= 16 && neighbours > 1 && dtype_bytes > 1;
  return {movable ? Access::kUnaligned : Access::kScattered, movable ? neighbours : 1, base};
}

namespace {

bool DependsOnNothingElse(SymInt e, SymInt symbol) {
  if (e.env() == nullptr) return true;
  for (const SymNode* s : FreeSymbols(e)) {
    if (s != symbol.node()) return false;
  }
  return true;
}

}  // namespace

Access ClassifyLoad(SymInt index, SymInt predicate, SymInt v, int vector, int dtype_bytes,
                    int base_alignment_bytes, SymInt num_elements) {
  // A window is at most so many vectors, and half as many loads as elements.
  constexpr int kMostVectors = 4;
  const bool masked = vector > 1 && DependsOn(predicate, v);
  Access access = masked ? Access{Access::kScattered, 1, index}
                         : ClassifyAccess(index, v, vector, dtype_bytes, base_alignment_bytes);
  if (access.kind != Access::kScattered || vector == 1) return access;
  const SymInt base = Substitute(index, v, 0), offset = index - base;
  if (!DependsOnNothingElse(offset, v)) return access;
  std::vector<int64_t> wanted;
  for (int i = 0; i < vector; ++i) {
    const std::optional<bool> is = masked ? Decide(Substitute(predicate, v, i)) : true;
    if (!is) return access;
    if (*is) wanted.push_back(*Substitute(offset, v, i).maybe_int());
  }
  if (wanted.empty()) return access;
  const auto [lowest, highest] = std::minmax_element(wanted.begin(), wanted.end());
  const SymInt first = base + *lowest;
  for (int width = std::min(16, base_alignment_bytes) / dtype_bytes; width > 1; width /= 2) {
    if (!ProvablyDivisible(num_elements, width)) continue;
    for (int before = 0; before < width; ++before) {
      if (!ProvablyDivisible(first - before, width)) continue;
      const int64_t span = before + *highest - *lowest + 1;
      const int64_t elements = (span + width - 1) / width * width;
      if (elements > kMostVectors * vector || 2 * elements > vector * width) return access;
      access.kind = Access::kWindow;
      access.width = width;
      access.base = first - before;
      access.elements = static_cast<int>(elements);
      // What nobody wants is any of them.
      access.within = offset - *lowest + before;
      if (masked) access.within = Max(0, Min(access.within, elements - 1));
      return access;
    }
  }
  return access;
}

}  // namespace seam::kernel
