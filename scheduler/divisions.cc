#include "scheduler/divisions.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/status.h"
#include "scheduler/kernel/access.h"

namespace seam {
namespace {

// How many divisions there are of indices for each element of a vector, where a tensor lacks axes
// of others, and the symbols in the divisors. Of vectors of eight, element 8 q + v of all rows is
// column (8 q + v) % N of row (8 q + v) / N.
struct Divisions {
  int count = 0;
  std::vector<const SymNode*> symbols;
};
absl::StatusOr<Divisions> DivisionsOfElements(const SizedGroup& sized, const Schedule& s) {
  SEAM_ASSIGN_OR_RETURN(const TracedKernel traced, TraceWith(sized, s));
  const kernel::TileKernel& tile = traced.tile;
  Divisions divisions;
  if (!tile.row.is_symbolic()) return divisions;
  const SymInt q = tile.env->FreshSymbol("q", 0, INT32_MAX),
               v = tile.env->FreshSymbol("v", 0, s.vector - 1);
  std::vector<SymInt> indices;
  for (const kernel::TileValue& value : tile.values) {
    for (SymInt e : {value.index, value.predicate})
      indices.push_back(kernel::Substitute(e, tile.row, s.vector * q + v));
  }
  for (const SymNode* node : TopologicalNodes(indices)) {
    const bool divides = node->kind == SymKind::FloorDiv || node->kind == SymKind::Mod;
    if (!divides || !kernel::DependsOn(node->children[0], s.vector > 1 ? v : q)) continue;
    ++divisions.count;
    for (size_t p = 0; p < tile.parameters.size(); ++p) {
      if (!kernel::DependsOn(node->children[1], tile.parameters[p])) continue;
      for (const SymNode* symbol : FreeSymbols(traced.arguments[p]))
        divisions.symbols.push_back(symbol);
    }
  }
  return divisions;
}

}  // namespace

absl::Status SpareDivisions(const SizedGroup& sized, bool may_pin, Schedule& s) {
  constexpr int64_t kLeastPinned = 1 << 18;
  SEAM_ASSIGN_OR_RETURN(const Divisions divisions, DivisionsOfElements(sized, s));
  if (divisions.count == 0) return absl::OkStatus();
  Schedule even = s;
  AddDivisibility(sized, s.vector, even);
  SEAM_ASSIGN_OR_RETURN(Divisions left, DivisionsOfElements(sized, even));
  if (may_pin && left.count > 0 && sized.rows >= kLeastPinned) {
    even = s;
    Pin(sized, divisions.symbols, even);
    SEAM_ASSIGN_OR_RETURN(left, DivisionsOfElements(sized, even));
  }
  // No more facts than that takes, so that a kernel serves as many sizes as it can.
  for (size_t i = even.facts.size(); i-- > s.facts.size();) {
    Schedule fewer = even;
    fewer.facts.erase(fewer.facts.begin() + static_cast<int64_t>(i));
    SEAM_ASSIGN_OR_RETURN(const Divisions without, DivisionsOfElements(sized, fewer));
    if (without.count <= left.count && without.symbols.size() <= left.symbols.size())
      even = std::move(fewer);
  }
  s = std::move(even);
  return absl::OkStatus();
}

}  // namespace seam
