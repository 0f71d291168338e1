#include "scheduler/kernel/access.h"

#include <algorithm>

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

}  // namespace seam::kernel
