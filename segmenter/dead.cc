// Dead code: what no output depends on is left out of the groups. Switched off, it is cut and
// computed like the rest; a kernel then writes what ends it, so that there is something to compute.
#include "segmenter/passes.h"

namespace seam {

std::vector<bool> LeaveOutDeadCode(const Fusion& fusion, bool enabled) {
  std::vector<bool> kept(fusion.num_exprs(), !enabled);
  if (!enabled) return kept;
  for (ValId v : fusion.outputs()) {
    if (fusion.definition(v).valid()) kept[fusion.definition(v).index()] = true;
  }
  for (uint32_t i = fusion.num_exprs(); i-- > 0;) {
    if (!kept[i]) continue;
    for (ValId v : fusion.operands(ExprId(i))) {
      if (fusion.definition(v).valid()) kept[fusion.definition(v).index()] = true;
    }
  }
  return kept;
}

}  // namespace seam
