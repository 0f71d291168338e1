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
#include "segmenter/window.h"

namespace seam {
namespace {

constexpr int kMaxMerges = 4;  // After a cut.

// Merges around a group that has been cut, and joins nothing that would hold all of it.
class Remerge {
 public:
  Remerge(CutModel& model, UnitMask apart) : model_(model), apart_(apart) {}

  // Joins blocks[a] and blocks[b] and what is on paths between them. False if that is refused, or
  // saves nothing.
  bool Join(Cut& cut, size_t a, size_t b, int64_t* gain) {
    const UnitMask joined = model_.Close(cut, cut[a] | cut[b]);
    if (joined == 0 || (joined & apart_) == apart_) return false;
    const CutModel::Price& price = model_.PriceOf(joined);
    if (!price.legal) return false;
    int64_t saved = -price.bytes;
    for (UnitMask block : cut) {
      if ((block & joined) != 0) saved += model_.PriceOf(block).bytes;
    }
    if (saved <= 0) return false;
    *gain = saved;
    cut.erase(std::remove_if(cut.begin(), cut.end(),
                             [&](UnitMask block) { return (block & joined) != 0; }),
              cut.end());
    cut.push_back(joined);
    return true;
  }

  // The most gainful merges there, one after the other, at most so many.
  void JoinGreedily(Cut& cut, int most) {
    for (int n = 0; n < most; ++n) {
      Cut best;
      int64_t best_gain = 0;
      ForEachPair(cut, [&](size_t a, size_t b) {
        Cut next = cut;
        int64_t gain = 0;
        if (Join(next, a, b, &gain) && gain > best_gain) {
          best = std::move(next);
          best_gain = gain;
        }
      });
      if (best.empty()) return;
      cut = std::move(best);
    }
  }

  // Of a block with units of what was cut and a neighbour.
  template <typename F>
  void ForEachPair(const Cut& cut, F f) const {
    for (size_t a = 0; a < cut.size(); ++a) {
      if ((cut[a] & apart_) == 0) continue;
      const UnitMask neighbours = model_.Neighbours(cut[a]);
      for (size_t b = 0; b < cut.size(); ++b) {
        if (b == a || (cut[b] & neighbours) == 0) continue;
        if ((cut[b] & apart_) != 0 && b < a) continue;  // Seen from the other side.
        f(a, b);
      }
    }
  }

 private:
  CutModel& model_;
  const UnitMask apart_;
};

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
  Remerge remerge(model, focus);
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
  return ImproveWindows("split", kMaxMerges, merger, refinement, BestSplit);
}

}  // namespace seam
