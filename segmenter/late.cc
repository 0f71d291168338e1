// The last merges: one row that waits for a reduction over all of it (Decision::late). Such a
// kernel takes along what others would compute beside what they have to compute anyway, so that
// these come first:
//
//   n = sum(a * a) + sum(b * b)   c = min(1 / n, 1)   x = a * c   y = b * c
//
// is the sums, then c and both products side by side in one launch; with x in the kernel of a sum,
// y would need one of its own.
#include "segmenter/passes.h"

namespace seam {

bool MergeLate(Merger& merger) {
  merger.AcceptLate();
  bool any = false;
  while (MergeVertically(merger, "late")) any = true;
  return any;
}

}  // namespace seam
