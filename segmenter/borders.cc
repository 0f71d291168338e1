// Borders: moves units from group to group, several moves ahead, and keeps the cheapest cut that
// such a way leads to.
//
//   before:  { a  b  s  p(s) }  { q(s) ... }       s and p(s) together belong to the right, neither
//   after:   { a  b }  { s  p(s)  q(s) ... }       does alone, and no cone is both of them
//
// A move takes a unit, a cone of it within its group, or the whole group to a neighbour, or makes a
// group of its own of it. The first of several moves often costs more than it saves, and many cost
// the same; so the cheapest cuts after one move are all kept, from each of them the next is made,
// and no cut is seen twice. Source: Lowerre, "The HARPY speech recognition system", 1976, for the
// beam search; the moves are those of Fiduccia and Mattheyses, 1982, and cones.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "segmenter/passes.h"
#include "segmenter/window.h"

namespace seam {
namespace {

// How far to look: how many cuts are kept of those a number of moves away, and after how many moves
// without a cheaper one the search ends.
struct Reach {
  size_t cuts;
  int moves;
};
constexpr Reach kNear{8, 4}, kFar{64, 8};

struct State {
  Cut cut;
  int64_t bytes;
  uint64_t hash;  // A sum over the blocks.
};

struct Move {
  size_t state;
  UnitMask from, part, to;  // `to` is zero for a new block.
  int64_t bytes;            // Of the cut that it leads to,
  uint64_t hash;            // and that cut's hash.
};

uint64_t HashOf(absl::Span<const UnitMask> cut) {
  uint64_t sum = 0;
  for (UnitMask hash : cut) {  // Source: splitmix64's finalizer.
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    sum += hash ^ (hash >> 31);
  }
  return sum;
}

// What is left of a block when a part of it goes, as blocks that are connected unless the guard
// takes it whole.
Cut Rest(CutModel& model, UnitMask rest) {
  if (rest == 0) return {};
  return model.PriceOf(rest).legal ? Cut{rest} : model.Components(rest);
}

// Units near the border, their cones, and all of the block.
Cut Parts(const CutModel& model, UnitMask block, UnitMask near) {
  Cut parts;
  for (UnitMask units = block & near; units != 0; units &= units - 1) {
    const int u = __builtin_ctzll(units);
    parts.insert(parts.end(),
                 {units & -units, model.Upstream(u, block), model.Downstream(u, block)});
  }
  if (!parts.empty()) parts.push_back(block);
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

void AddMoves(CutModel& model, const State& state, size_t index, UnitMask near,
              std::vector<Move>& moves) {
  for (const UnitMask from : state.cut) {
    for (const UnitMask part : Parts(model, from, near)) {
      const Cut rest = Rest(model, from & ~part);
      if (!std::all_of(rest.begin(), rest.end(),
                       [&](UnitMask block) { return model.PriceOf(block).legal; })) {
        continue;
      }
      const int64_t bytes = state.bytes + model.BytesOf(rest) - model.PriceOf(from).bytes;
      const uint64_t hash = state.hash + HashOf(rest) - HashOf({from});
      const auto add = [&](UnitMask to) {
        const CutModel::Price& joined = model.PriceOf(to | part);
        if (!joined.legal) return;
        const int64_t more = joined.bytes;
        moves.push_back({index, from, part, to,
                         bytes + more - (to == 0 ? 0 : model.PriceOf(to).bytes),
                         hash + HashOf({to | part}) - (to == 0 ? 0 : HashOf({to}))});
      };
      if (part != from) add(0);
      const UnitMask neighbours = model.Neighbours(part);
      for (const UnitMask to : state.cut) {
        if (to != from && (to & neighbours) != 0) add(to);
      }
    }
  }
}

State Moved(CutModel& model, const State& state, const Move& move) {
  Cut cut = Rest(model, move.from & ~move.part);
  cut.push_back(move.to | move.part);
  for (const UnitMask block : state.cut) {
    if (block != move.from && block != move.to) cut.push_back(block);
  }
  return {std::move(cut), move.bytes, move.hash};
}

Cut BestBorder(CutModel& model, const Cut& cut, UnitMask focus, Reach reach) {
  const UnitMask near = focus | model.Neighbours(focus);
  std::vector<State> states = {{cut, model.BytesOf(cut), HashOf(cut)}};
  absl::flat_hash_set<uint64_t> seen = {states[0].hash};
  int64_t best_bytes = states[0].bytes;
  Cut best;
  for (int n = 0; n < reach.moves && !states.empty(); ++n) {
    std::vector<Move> moves;
    for (size_t i = 0; i < states.size(); ++i) AddMoves(model, states[i], i, near, moves);
    std::stable_sort(moves.begin(), moves.end(),
                     [](const Move& a, const Move& b) { return a.bytes < b.bytes; });
    std::vector<State> next;
    for (const Move& move : moves) {
      if (next.size() == reach.cuts) break;
      if (!seen.insert(move.hash).second) continue;
      State moved = Moved(model, states[move.state], move);
      if (model.IsAcyclic(moved.cut)) next.push_back(std::move(moved));
    }
    states = std::move(next);
    if (!states.empty() && states[0].bytes < best_bytes) {
      best = states[0].cut;
      best_bytes = states[0].bytes;
      n = -1;
    }
  }
  return best;
}

}  // namespace

bool MoveBorders(Merger& merger, Refinement& refinement) {
  const auto improve = [&](Reach reach) {
    return ImproveWindows("borders", reach.moves, merger, refinement,
                          [&](CutModel& model, const Cut& cut, UnitMask focus) {
                            return BestBorder(model, cut, focus, reach);
                          });
  };
  return improve(kNear) || improve(kFar);
}

}  // namespace seam
