#include <algorithm>

#include "segmenter/passes.h"

namespace seam {
namespace {

// Most expressions that one copy may bring along, itself included.
constexpr int kMaxPrivateExprs = 16;

bool IsCheap(const Fusion& f, const ValueFacts& facts, ExprId e) {
  const ValId result = f.result(e);
  switch (f.info(e).op_class) {
    case OpClass::Factory:
    case OpClass::Broadcast:
      return true;
    case OpClass::View:
      switch (f.op(e)) {
        case OpKind::Permute:
        case OpKind::Squeeze:
        case OpKind::Expand:
        case OpKind::Reshape:
          return true;
        default:  // A part or a rearrangement of a computed value is worth keeping where it was
                  // computed.
          return facts.is_view_of_source[result.index()];
      }
    case OpClass::Cast:
      return facts.weightless[result.index()] ||
             DTypeBytes(f.dtype(result)) > DTypeBytes(f.dtype(f.operands(e)[0]));
    case OpClass::Elementwise:
      return f.rank(result) == 0 && facts.weightless[result.index()];
    default:
      return false;
  }
}

}  // namespace

Privatized PrivatizeCheapProducers(const Fusion& fusion, const AxisMap& axes,
                                   const ValueFacts& facts, bool enabled) {
  Privatized p;
  p.cheap.assign(fusion.num_exprs(), false);
  p.producers.resize(fusion.num_exprs());
  if (!enabled) return p;
  // Copies that each cheap expression needs, itself included. A chain that is too long starts anew.
  std::vector<std::vector<ExprId>> closure(fusion.num_exprs());
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    const ExprId e(i);
    std::vector<ExprId> needed;
    for (int n = 0; n < static_cast<int>(fusion.operands(e).size()); ++n) {
      const ExprId definition = fusion.definition(fusion.operands(e)[n]);
      if (!definition.valid() || !p.cheap[definition.index()]) continue;
      const std::vector<ExprId>& more = closure[definition.index()];
      needed.insert(needed.end(), more.begin(), more.end());
    }
    std::sort(needed.begin(), needed.end());
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    if (IsCheap(fusion, facts, e) && static_cast<int>(needed.size()) < kMaxPrivateExprs &&
        axes.exchanged(e, 0).empty()) {
      p.cheap[i] = true;
      closure[i] = needed;
      closure[i].push_back(e);
    }
    p.producers[i] = std::move(needed);
  }
  return p;
}

}  // namespace seam
