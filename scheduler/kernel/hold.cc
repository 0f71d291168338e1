#include "scheduler/kernel/hold.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/instructions.h"

namespace seam::kernel {
namespace {

// A register for the time between two passes is worth so many instructions of a point, and keeping
// what is computed must win by more than these few, which are often free.
constexpr int kWordPrice = 10, kMargin = 3;
constexpr int kFewestWords = 1 << 20;  // The price at which nothing but registers counts.
constexpr int64_t kNever = int64_t{1} << 40;

// Minimum cut by augmenting paths (Dinic).
class Network {
 public:
  explicit Network(int nodes) : edges_(nodes) {}

  void Add(int from, int to, int64_t capacity) {
    edges_[from].push_back({to, static_cast<int>(edges_[to].size()), capacity});
    edges_[to].push_back({from, static_cast<int>(edges_[from].size()) - 1, 0});
  }

  // The nodes on the source's side of the minimum cut with the most of them there.
  std::vector<bool> SourceSide(int source, int sink) {
    while (Levels(source, sink)) {
      next_.assign(edges_.size(), 0);
      Push(source, sink, std::numeric_limits<int64_t>::max());
    }
    // All but what still reaches the sink.
    std::vector<bool> inside(edges_.size(), true);
    std::vector<int> stack = {sink};
    inside[sink] = false;
    while (!stack.empty()) {
      const int node = stack.back();
      stack.pop_back();
      for (const Edge& e : edges_[node]) {
        if (edges_[e.to][e.reverse].capacity == 0 || !inside[e.to]) continue;
        inside[e.to] = false;
        stack.push_back(e.to);
      }
    }
    return inside;
  }

 private:
  struct Edge {
    int to, reverse;
    int64_t capacity;
  };

  // Steps to the sink, of nodes that are no farther from it than the source: what leads nowhere is
  // not tried.
  bool Levels(int source, int sink) {
    level_.assign(edges_.size(), -1);
    level_[sink] = 0;
    std::vector<int> queue = {sink};
    for (size_t i = 0; i < queue.size() && level_[source] < 0; ++i) {
      for (const Edge& e : edges_[queue[i]]) {
        if (level_[e.to] >= 0 || edges_[e.to][e.reverse].capacity == 0) continue;
        level_[e.to] = level_[queue[i]] + 1;
        queue.push_back(e.to);
      }
    }
    return level_[source] >= 0;
  }

  // What gets to the sink of `flow`.
  int64_t Push(int node, int sink, int64_t flow) {
    if (node == sink) return flow;
    int64_t left = flow;
    for (size_t& i = next_[node]; i < edges_[node].size(); ++i) {
      Edge& e = edges_[node][i];
      if (e.capacity == 0 || level_[e.to] != level_[node] - 1) continue;
      const int64_t pushed = Push(e.to, sink, std::min(left, e.capacity));
      e.capacity -= pushed;
      edges_[e.to][e.reverse].capacity += pushed;
      left -= pushed;
      if (left == 0) break;  // The edge may take more.
    }
    return flow - left;
  }

  std::vector<std::vector<Edge>> edges_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

class SpaceHolds {
 public:
  SpaceHolds(const TileKernel& tile, int space, const HoldLimits& limits)
      : tile_(tile), unpacked_(limits.unpacked), kept_(tile.values.size()) {
    const SymInt column = tile.spaces[space].column;
    for (const TileValue& v : tile.values) {
      bool of_space = column.is_symbolic() && v.kind != TileKind::Constant &&
                      (DependsOn(v.index, column) || DependsOn(v.predicate, column));
      for (TileId id : v.operands) of_space |= of_space_[id];
      for (int let : v.lets) of_space |= of_space_[tile.lets[let].value];
      of_space_.push_back(of_space);
    }
    for (size_t p = 0; p < tile.passes.size(); ++p) {
      if (tile.passes[p].space != space) continue;
      roots_.push_back(Roots(static_cast<int>(p)));
      needed_.push_back(Closure(roots_.back()));
    }
  }

  // Adds what is to be kept at this price of a register; the words that it takes at most.
  double Choose(int price) {
    double most = 0;
    std::vector<int> uses(tile_.values.size());  // By later passes.
    for (const std::vector<bool>& needed : needed_) {
      for (size_t id = 0; id < uses.size(); ++id) uses[id] += needed[id];
    }
    for (size_t pass = 0; pass + 1 < roots_.size(); ++pass) {
      for (size_t id = 0; id < uses.size(); ++id) uses[id] -= needed_[pass][id];
      // In hand are what was kept before and what this pass computes.
      std::vector<bool> in_hand = Closure(roots_[pass]);
      for (size_t id = 0; id < in_hand.size(); ++id) in_hand[id] = in_hand[id] || kept_[id];
      most = std::max(most, Cut(pass + 1, in_hand, uses, price));
    }
    return most;
  }
  const std::vector<bool>& kept() const { return kept_; }

 private:
  std::vector<TileId> Roots(int pass) const {
    std::vector<TileId> roots;
    for (const TileReduction& r : tile_.reductions) {
      if (r.pass == pass) roots.insert(roots.end(), r.operands.begin(), r.operands.end());
    }
    for (const TileStore& s : tile_.stores) {
      if (s.pass == pass) roots.push_back(s.value);
    }
    return roots;
  }

  template <typename Visit>
  void ForOperands(TileId id, Visit visit) const {
    const TileValue& v = tile_.values[id];
    for (TileId operand : v.operands) {
      if (of_space_[operand]) visit(operand);
    }
    for (int let : v.lets) {
      if (of_space_[tile_.lets[let].value]) visit(tile_.lets[let].value);
    }
  }

  // What is read or computed for the roots, down to what is kept.
  std::vector<bool> Closure(const std::vector<TileId>& roots) const {
    std::vector<bool> inside(tile_.values.size());
    std::vector<TileId> stack;
    const auto visit = [&](TileId id) {
      if (inside[id] || !of_space_[id]) return;
      inside[id] = true;
      if (!kept_[id]) stack.push_back(id);
    };
    for (TileId id : roots) visit(id);
    while (!stack.empty()) {
      const TileId id = stack.back();
      stack.pop_back();
      ForOperands(id, visit);
    }
    return inside;
  }

  bool IsResidentLoad(const TileValue& v) const {
    return v.kind == TileKind::Load && v.lets.empty();
  }

  double Words(const TileValue& v) const {
    const double exact = DTypeBytes(v.dtype) / 4.0;
    if (v.kind != TileKind::Load) return std::max(1.0, exact);
    // What all rows read alike stays in any case or comes from a cache.
    if (!tile_.row.is_symbolic() ||
        (!DependsOn(v.index, tile_.row) && !DependsOn(v.predicate, tile_.row))) {
      return 0;
    }
    return unpacked_ ? std::max(1.0, exact) : exact;
  }

  int Instructions(const TileValue& v) const {
    if (v.kind == TileKind::Load) return 20;
    if (v.kind != TileKind::Map) return v.kind == TileKind::Random ? InstructionsOf(v.op) / 4 : 2;
    if (v.op != OpKind::Cast) return InstructionsOf(v.op);
    const TileValue& from = tile_.values[v.operands[0]];
    return from.kind == TileKind::Load && unpacked_ ? 0 : 1;
  }

  // Two nodes a value: `need` is on the source's side where the passes from `first` on need it,
  // `make` where they make it themselves. `uses`: how many of these passes need a value.
  double Cut(size_t first, const std::vector<bool>& in_hand, const std::vector<int>& uses,
             int price) {
    std::vector<int> node(tile_.values.size(), -1);
    std::vector<TileId> values;
    for (size_t id = 0; id < node.size(); ++id) {
      if (uses[id] == 0) continue;
      node[id] = 2 + 2 * static_cast<int>(values.size());
      values.push_back(static_cast<TileId>(id));
    }
    constexpr int kSource = 0, kSink = 1;
    Network network(2 + 2 * static_cast<int>(values.size()));
    for (const TileId id : values) {
      const TileValue& v = tile_.values[id];
      const bool load = IsResidentLoad(v);
      const bool can_stay = in_hand[id] && (load || v.kind != TileKind::Load);
      const int need = node[id], make = node[id] + 1;
      const int64_t keep = static_cast<int64_t>(Words(v) * price) + (load ? 0 : kMargin);
      network.Add(need, make, can_stay ? keep : kNever);
      if (in_hand[id]) network.Add(make, kSink, load ? kNever : Instructions(v) * uses[id]);
      network.Add(make, need, kNever);
      ForOperands(id, [&](TileId operand) { network.Add(make, node[operand], kNever); });
    }
    for (size_t p = first; p < roots_.size(); ++p) {
      for (TileId id : roots_[p]) {
        if (of_space_[id]) network.Add(kSource, node[id], kNever);
      }
    }
    const std::vector<bool> inside = network.SourceSide(kSource, kSink);
    double words = 0;
    for (TileId id : values) {
      if (!inside[node[id]] || inside[node[id] + 1]) continue;
      words += Words(tile_.values[id]);
      if (tile_.values[id].kind != TileKind::Load) kept_[id] = true;
    }
    return words;
  }

  const TileKernel& tile_;
  const bool unpacked_;
  std::vector<bool> of_space_, kept_;
  std::vector<std::vector<TileId>> roots_;  // Per pass over the space.
  std::vector<std::vector<bool>> needed_;   // By it, if nothing is kept.
};

}  // namespace

Holds ChooseHolds(const TileKernel& tile, const std::vector<bool>& resident,
                  const HoldLimits& limits) {
  Holds holds;
  holds.computed.resize(tile.values.size());
  if (tile.values.size() > kMostHoldValues) return holds;
  for (size_t s = 0; s < tile.spaces.size(); ++s) {
    if (!resident[s]) continue;
    for (const int price : {kWordPrice, kFewestWords}) {
      SpaceHolds space(tile, static_cast<int>(s), limits);
      const double words = space.Choose(price);
      if (price == kWordPrice && words * limits.points > limits.words) continue;
      for (size_t id = 0; id < holds.computed.size(); ++id) {
        if (space.kept()[id]) holds.computed[id] = true;
      }
      holds.words += words;
      break;
    }
  }
  return holds;
}

std::string PrintHolds(const TileKernel& tile, const Holds& holds) {
  std::string text;
  for (size_t id = 0; id < holds.computed.size(); ++id) {
    if (!holds.computed[id]) continue;
    absl::StrAppend(&text, text.empty() ? "kept between passes: " : ", ", "%", id, " = ",
                    PrintValue(tile, static_cast<TileId>(id)));
  }
  return text;
}

}  // namespace seam::kernel
