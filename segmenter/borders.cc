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
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
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

// A part of a block that may leave it, and what that changes.
struct Departure {
  UnitMask part, neighbours;
  Cut rest;       // What stays, as blocks.
  int64_t bytes;  // What the rest costs more than the block,
  uint64_t hash;  // and what it adds to the hash.
};

// A departure that ends in one other block, or in a new one.
struct Transfer {
  int64_t bytes;  // What it adds to the cut's bytes
  uint64_t hash;  // and hash.
  uint32_t number;
  const Departure* departure;
};

// The transfers between two blocks of a state, the cheapest first.
struct Moves {
  const Transfer* next;
  const Transfer* end;
  uint32_t state;
  uint16_t from, to;  // Places in its cut; 0 for a new block, else one more.
  int64_t bytes;      // Of the cut that `next` leads to.
  // Of equally cheap ones the first in this order comes first.
  auto key() const { return std::tuple(bytes, state, from, next->number, to); }
};

uint64_t HashOf(UnitMask block) {  // Source: splitmix64's finalizer.
  block = (block ^ (block >> 30)) * 0xbf58476d1ce4e5b9u;
  block = (block ^ (block >> 27)) * 0x94d049bb133111ebu;
  return block ^ (block >> 31);
}

uint64_t HashOf(const Cut& cut) {
  uint64_t sum = 0;
  for (UnitMask block : cut) sum += HashOf(block);
  return sum;
}

class BorderSearch {
 public:
  BorderSearch(CutModel& model, UnitMask focus)
      : model_(model), near_(focus | model.Neighbours(focus)) {}

  Cut Best(const Cut& cut, Reach reach) {
    states_ = {{cut, model_.BytesOf(cut), HashOf(cut)}};
    seen_ = {states_[0].hash};
    int64_t best_bytes = states_[0].bytes;
    Cut best;
    for (int n = 0; n < reach.moves && !states_.empty(); ++n) {
      FindMoves();
      states_ = CheapestStates(reach.cuts);
      if (!states_.empty() && states_[0].bytes < best_bytes) {
        best = states_[0].cut;
        best_bytes = states_[0].bytes;
        n = -1;
      }
    }
    return best;
  }

 private:
  // What is left of a block when a part of it goes, as blocks that are connected unless the guard
  // takes it whole.
  Cut Rest(UnitMask rest) {
    if (rest == 0) return {};
    return model_.PriceOf(rest).legal ? Cut{rest} : model_.Components(rest);
  }

  // Units near the border, their cones, and all of the block.
  Cut Parts(UnitMask block) const {
    Cut parts;
    for (UnitMask units = block & near_; units != 0; units &= units - 1) {
      const int u = __builtin_ctzll(units);
      parts.insert(parts.end(),
                   {units & -units, model_.Upstream(u, block), model_.Downstream(u, block)});
    }
    if (!parts.empty()) parts.push_back(block);
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    return parts;
  }

  // Many cuts have a block in common, and many have two.
  const std::vector<Departure>& DeparturesFrom(UnitMask block) {
    const auto [it, is_new] = departures_.try_emplace(block);
    if (!is_new) return it->second;
    for (const UnitMask part : Parts(block)) {
      Cut rest = Rest(block & ~part);
      if (!std::all_of(rest.begin(), rest.end(),
                       [&](UnitMask left) { return model_.PriceOf(left).legal; })) {
        continue;
      }
      const int64_t bytes = model_.BytesOf(rest) - model_.PriceOf(block).bytes;
      const uint64_t hash = HashOf(rest) - HashOf(block);
      it->second.push_back({part, model_.Neighbours(part), std::move(rest), bytes, hash});
    }
    return it->second;
  }

  const std::vector<Transfer>& TransfersBetween(UnitMask from, UnitMask to) {
    const auto [it, is_new] = transfers_.try_emplace(std::pair(from, to));
    if (!is_new) return it->second;
    std::vector<Transfer>& transfers = it->second;
    uint32_t number = 0;
    for (const Departure& d : DeparturesFrom(from)) {
      ++number;
      if (to == 0 ? d.part == from : (to & d.neighbours) == 0) continue;
      const CutModel::Price& joined = model_.PriceOf(to | d.part);
      if (!joined.legal) continue;
      Transfer t{d.bytes + joined.bytes, d.hash + HashOf(to | d.part), number, &d};
      if (to != 0) {
        t.bytes -= model_.PriceOf(to).bytes;
        t.hash -= HashOf(to);
      }
      transfers.push_back(t);
    }
    std::sort(transfers.begin(), transfers.end(), [](const Transfer& a, const Transfer& b) {
      return std::tie(a.bytes, a.number) < std::tie(b.bytes, b.number);
    });
    return transfers;
  }

  static bool Later(const Moves& a, const Moves& b) { return a.key() > b.key(); }

  void FindMoves() {
    moves_.clear();
    for (uint32_t i = 0; i < states_.size(); ++i) {
      const State& state = states_[i];
      for (uint16_t from = 0; from < state.cut.size(); ++from) {
        for (uint16_t to = 0; to <= state.cut.size(); ++to) {
          if (to == from + 1) continue;
          const std::vector<Transfer>& transfers =
              TransfersBetween(state.cut[from], to == 0 ? 0 : state.cut[to - 1]);
          if (transfers.empty()) continue;
          moves_.push_back({transfers.data(), transfers.data() + transfers.size(), i, from, to,
                            state.bytes + transfers.front().bytes});
        }
      }
    }
    std::make_heap(moves_.begin(), moves_.end(), Later);
  }

  // What the cheapest moves lead to, in the order of their costs, of cuts that were not kept
  // before.
  std::vector<State> CheapestStates(size_t most) {
    std::vector<State> next;
    while (!moves_.empty() && next.size() < most) {
      std::pop_heap(moves_.begin(), moves_.end(), Later);
      Moves& moves = moves_.back();
      if (seen_.insert(states_[moves.state].hash + moves.next->hash).second) {
        State moved = Moved(moves);
        if (model_.IsAcyclic(moved.cut)) next.push_back(std::move(moved));
      }
      if (++moves.next == moves.end) {
        moves_.pop_back();
        continue;
      }
      moves.bytes = states_[moves.state].bytes + moves.next->bytes;
      std::push_heap(moves_.begin(), moves_.end(), Later);
    }
    return next;
  }

  State Moved(const Moves& moves) const {
    const State& state = states_[moves.state];
    const Departure& departure = *moves.next->departure;
    Cut cut = departure.rest;
    cut.push_back(departure.part | (moves.to == 0 ? 0 : state.cut[moves.to - 1]));
    for (size_t i = 0; i < state.cut.size(); ++i) {
      if (i != moves.from && i + 1 != moves.to) cut.push_back(state.cut[i]);
    }
    return {std::move(cut), moves.bytes, state.hash + moves.next->hash};
  }

  CutModel& model_;
  const UnitMask near_;
  std::vector<State> states_;
  std::vector<Moves> moves_;            // A heap.
  absl::flat_hash_set<uint64_t> seen_;  // Cuts that were kept.
  absl::flat_hash_map<UnitMask, std::vector<Departure>> departures_;
  absl::flat_hash_map<std::pair<UnitMask, UnitMask>, std::vector<Transfer>> transfers_;
};

}  // namespace

bool MoveBorders(Merger& merger, Refinement& refinement) {
  const auto improve = [&](Reach reach) {
    return ImproveWindows("borders", reach.moves, merger, refinement,
                          [&](CutModel& model, const Cut& cut, UnitMask focus) {
                            return BorderSearch(model, focus).Best(cut, reach);
                          });
  };
  return improve(kNear) || improve(kFar);
}

}  // namespace seam
