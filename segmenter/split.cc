// Split: cuts a group at a cone (a unit with everything in the group that leads to it, or that it
// leads to), merges the halves with what is around them, and keeps that if it is cheaper.
//
//   before:  { e  rows(e)  y }  { cols(e) z }      e = exp(x) went to the rows, is written and read
//   after:   { rows(e)  y }  { e cols(e) z }       it belongs to the columns, which reach y as well
//
// Merges that were the best when they were made turn out to stand in the way of better ones. What
// was cut is not joined again at once.
#include <algorithm>
#include <utility>

#include "segmenter/passes.h"
#include "segmenter/remerge.h"
#include "segmenter/window.h"

namespace seam {
namespace {

constexpr int kMaxMerges = 4;  // After a cut.

Cut BestSplit(CutModel& model, const Cut& cut, UnitMask focus) {
  Cut halves;
  for (UnitMask units = focus; units != 0; units &= units - 1) {
    const int u = __builtin_ctzll(units);
    for (const UnitMask cone : {model.Upstream(u, focus), model.Downstream(u, focus)}) {
      if (cone != focus && std::find(halves.begin(), halves.end(), cone) == halves.end() &&
          std::find(halves.begin(), halves.end(), focus & ~cone) == halves.end()) {
        halves.push_back(cone);
      }
    }
  }
  int64_t best_bytes = model.BytesOf(cut);
  Cut best;
  Remerge remerge(model, /*around=*/focus, /*apart=*/focus);
  for (const UnitMask half : halves) {
    Cut parted = cut;
    parted.erase(std::find(parted.begin(), parted.end(), focus));
    bool legal = true;
    for (const UnitMask side : {half, focus & ~half}) {
      Cut parts = {side};
      if (!model.PriceOf(side).legal) parts = model.Components(side);
      for (UnitMask part : parts) legal &= model.PriceOf(part).legal;
      parted.insert(parted.end(), parts.begin(), parts.end());
    }
    if (!legal) continue;
    remerge.ForEachPair(parted, [&](size_t a, size_t b) {
      Cut next = parted;
      int64_t gain = 0;
      if (!remerge.Join(next, a, b, &gain)) return;
      remerge.JoinGreedily(next, kMaxMerges - 1);
      const int64_t bytes = model.BytesOf(next);
      if (bytes >= best_bytes || !model.IsAcyclic(next)) return;
      best = std::move(next);
      best_bytes = bytes;
    });
  }
  return best;
}

}  // namespace

bool SplitGroups(Merger& merger, Refinement& refinement) {
  return ImproveWindows("split", merger, refinement, BestSplit);
}

}  // namespace seam
