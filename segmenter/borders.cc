// Borders: moves units from a group to a neighbour one after the other, each time the one that
// costs least, for a while even if the price rises, and keeps the cheapest state on the way.
//
//   before:  { a  b  s  p(s) }  { q(s) ... }       s and p(s) together belong to the right, neither
//   after:   { a  b }  { s  p(s)  q(s) ... }       does alone, and no cone is both of them
//
// Source: Fiduccia, Mattheyses, "A linear-time heuristic for improving network partitions", 1982.
#include <algorithm>
#include <utility>

#include "segmenter/passes.h"
#include "segmenter/window.h"

namespace seam {
namespace {

constexpr int kMaxMoves = 8;

Cut BestBorder(CutModel& model, const Cut& cut, UnitMask focus) {
  int64_t best_bytes = model.BytesOf(cut);
  Cut best;
  const UnitMask neighbours = model.Neighbours(focus);
  for (const UnitMask other : cut) {
    if ((other & neighbours) == 0) continue;
    Cut rest = cut;
    rest.erase(std::remove_if(rest.begin(), rest.end(),
                              [&](UnitMask block) { return block == focus || block == other; }),
               rest.end());
    const int64_t rest_bytes = model.BytesOf(rest);
    UnitMask from = focus, to = other;
    for (int move = 0; move < kMaxMoves && from != 0; ++move) {
      UnitMask cheapest = 0;
      int64_t cheapest_bytes = INT64_MAX;
      for (UnitMask units = from & model.Neighbours(to) & focus; units != 0; units &= units - 1) {
        const UnitMask unit = units & -units;
        if (!model.PriceOf(to | unit).legal) continue;
        Cut parts;
        if (from != unit) parts = {from & ~unit};
        if (!parts.empty() && !model.PriceOf(parts[0]).legal) parts = model.Components(parts[0]);
        if (!std::all_of(parts.begin(), parts.end(),
                         [&](UnitMask part) { return model.PriceOf(part).legal; })) {
          continue;
        }
        parts.push_back(to | unit);
        const int64_t bytes = rest_bytes + model.BytesOf(parts);
        if (bytes >= cheapest_bytes) continue;
        parts.insert(parts.end(), rest.begin(), rest.end());
        if (!model.IsAcyclic(parts)) continue;
        cheapest = unit;
        cheapest_bytes = bytes;
        if (bytes < best_bytes) {
          best = std::move(parts);
          best_bytes = bytes;
        }
      }
      if (cheapest == 0) break;
      from &= ~cheapest;
      to |= cheapest;
    }
  }
  return best;
}

}  // namespace

bool MoveBorders(Merger& merger, Refinement& refinement) {
  return ImproveWindows("borders", merger, refinement, BestBorder);
}

}  // namespace seam
