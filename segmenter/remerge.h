// Remerge: merges in the cut of a CutModel, around units that have just been taken apart.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "segmenter/cut_model.h"

namespace seam {

// Looks at blocks with units in `around` alone (with `outwards`, not at two that have no others),
// and joins nothing that would hold all of `apart` (if that is anything).
class Remerge {
 public:
  Remerge(CutModel& model, UnitMask around, UnitMask apart, bool outwards = false)
      : model_(model), around_(around), apart_(apart), outwards_(outwards) {}

  // Joins blocks[a] and blocks[b] and what is on paths between them. False if that is refused, or
  // saves nothing.
  bool Join(Cut& cut, size_t a, size_t b, int64_t* gain) {
    const UnitMask joined = model_.Close(cut, cut[a] | cut[b]);
    if (joined == 0 || (apart_ != 0 && (joined & apart_) == apart_)) return false;
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
      if ((cut[a] & around_) == 0) continue;
      const UnitMask neighbours = model_.Neighbours(cut[a]);
      for (size_t b = 0; b < cut.size(); ++b) {
        if (b == a || (cut[b] & neighbours) == 0) continue;
        if (outwards_ && ((cut[a] | cut[b]) & ~around_) == 0) continue;
        if ((cut[b] & around_) != 0 && b < a) continue;  // Seen from the other side.
        f(a, b);
      }
    }
  }

 private:
  CutModel& model_;
  const UnitMask around_, apart_;
  const bool outwards_;
};

}  // namespace seam
