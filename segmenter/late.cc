#include "segmenter/passes.h"

namespace seam {

bool MergeLate(Merger& merger) {
  merger.AcceptLate();
  bool any = false;
  while (MergeVertically(merger, "late")) any = true;
  return any;
}

}  // namespace seam
