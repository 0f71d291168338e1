// Rebuild: takes a group, or a group and a neighbour, apart into units and merges these anew, the
// most gainful pair first. What a greedy start has put together in the wrong order comes together
// in another one, now that the groups around are there:
//
//   before:  { a b c } { d e }      after:  { a d } { b c e }      by way of  { a } { b } { c } { d
//   } { e }
#include <algorithm>
#include <utility>

#include "segmenter/passes.h"
#include "segmenter/remerge.h"
#include "segmenter/window.h"

namespace seam {
namespace {

constexpr int kMaxUnits = 24;  // That are merged anew.

Cut BestRebuild(CutModel& model, const Cut& cut, UnitMask focus) {
  int64_t best_bytes = model.BytesOf(cut);
  Cut best;
  const UnitMask neighbours = model.Neighbours(focus);
  for (const UnitMask other : cut) {
    if (other != focus && (other & neighbours) == 0) continue;
    const UnitMask apart = focus | other;
    if (__builtin_popcountll(apart) > kMaxUnits) continue;
    Cut parted;
    for (const UnitMask block : cut) {
      if ((block & apart) == 0) parted.push_back(block);
    }
    for (UnitMask units = apart; units != 0; units &= units - 1) parted.push_back(units & -units);
    for (const bool outwards : {false, true}) {
      Cut next = parted;
      Remerge remerge(model, /*around=*/apart, /*apart=*/0, outwards);
      remerge.JoinGreedily(next, kMaxUnits);
      const int64_t bytes = model.BytesOf(next);
      if (bytes >= best_bytes || !model.IsAcyclic(next)) continue;
      best = std::move(next);
      best_bytes = bytes;
    }
  }
  return best;
}

}  // namespace

bool RebuildGroups(Merger& merger, Refinement& refinement) {
  return ImproveWindows("rebuild", merger, refinement, BestRebuild);
}

}  // namespace seam
