// Two passes: what every dimension consists of (segmenter/atoms.h), then which of these atoms are
// one axis.
#include "segmenter/axes.h"

#include <algorithm>
#include <iterator>

#include "ir/alike.h"
#include "segmenter/atoms.h"

namespace seam {

bool IsSubset(const AxisSet& a, const AxisSet& b) {
  return std::includes(b.begin(), b.end(), a.begin(), a.end());
}
AxisSet Union(const AxisSet& a, const AxisSet& b) {
  AxisSet r;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r));
  return r;
}
AxisSet Intersection(const AxisSet& a, const AxisSet& b) {
  AxisSet r;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r));
  return r;
}
AxisSet Difference(const AxisSet& a, const AxisSet& b) {
  AxisSet r;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r));
  return r;
}

namespace {

void SortUnique(AxisSet& s) {
  std::sort(s.begin(), s.end());
  s.erase(std::unique(s.begin(), s.end()), s.end());
}

bool Contains(const AxisVector& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Where each dimension of an operand is found in the expression's first result.
constexpr int kReduced = -1;  // Nowhere: the expression reduces over it.
constexpr int kLost = -2;  // It is read under another map, or this function does not say (reshape).
using DimMap = absl::InlinedVector<int, 8>;

DimMap OperandMap(const Fusion& f, ExprId e, int i) {
  const ValId v = f.operands(e)[i];
  const Attributes& a = f.attributes(e);
  const int rank = f.rank(v);
  DimMap map(rank);
  for (int d = 0; d < rank; ++d) map[d] = d;
  const OpClass op_class = f.info(e).op_class;
  if (IsReduction(op_class)) {
    for (int d = 0, next = 0; d < rank; ++d) map[d] = Contains(a.axes, d) ? kReduced : next++;
    return map;
  }
  switch (f.op(e)) {
    case OpKind::Broadcast:
      for (int d = 0, to = 0; d < rank; ++d, ++to) {
        while (Contains(a.axes, to)) ++to;
        map[d] = to;
      }
      break;
    case OpKind::Squeeze:
      for (int d = 0, next = 0; d < rank; ++d) map[d] = Contains(a.axes, d) ? kLost : next++;
      break;
    case OpKind::Permute:
      for (int to = 0; to < rank; ++to) map[a.axes[to]] = to;
      break;
    case OpKind::Slice:
      for (int d = 0; d < rank; ++d) {
        if (!(a.start[d] == SymInt(0) && a.step[d] == SymInt(1) &&
              ProvablyEqual(a.stop[d], f.domain(v)[d].extent))) {
          map[d] = kLost;
        }
      }
      break;
    case OpKind::Pad:
      for (int d = 0; d < rank; ++d) {
        if (!(a.start[d] == SymInt(0) && a.stop[d] == SymInt(0))) map[d] = kLost;
      }
      break;
    case OpKind::Flip:
      for (int32_t axis : a.axes) map[axis] = kLost;
      break;
    case OpKind::Cat:
      if (f.operands(e).size() > 1) map[a.axes[0]] = kLost;
      break;
    case OpKind::Gather:
      if (i == 0) map[a.axes[0]] = kLost;
      break;
    case OpKind::IndexSelect:
      if (i == 0) {
        map[a.axes[0]] = kLost;
      } else {
        map[0] = a.axes[0];
      }
      break;
    case OpKind::Reshape:
      for (int d = 0; d < rank; ++d) map[d] = kLost;
      break;
    default:
      break;
  }
  return map;
}

}  // namespace

class AxisMapBuilder {
 public:
  AxisMapBuilder(const Fusion& fusion, const CanonicalOrder& order)
      : f_(fusion), order_(order), first_alike_(FirstAlike(fusion)) {
    map_.fusion_ = &fusion;
  }

  AxisMap Build() {
    PlacePositions();
    JoinAtoms();
    CutIntoAtoms();
    CollectSpaces();
    UniteComputed();
    UniteSharedSources();
    Number();
    NumberSets();
    return std::move(map_);
  }

 private:
  using Node = uint32_t;  // An atom at a position: an index into map_.flat_.
  static constexpr uint32_t kNone = 0xffffffffu;

  bool IsBroadcast(ValId v, int d) const { return f_.domain(v)[d].is_broadcast(); }
  bool IsEmpty(ValId v) const {
    const auto domain = f_.domain(v);
    return std::any_of(domain.begin(), domain.end(),
                       [](const IterDomain& axis) { return axis.extent == SymInt(0); });
  }

  // --- Positions ---

  uint32_t NewPositions(ValId v) {
    const uint32_t first = static_cast<uint32_t>(dims_.size());
    for (int d = 0; d < f_.rank(v); ++d) {
      dims_.push_back(IsBroadcast(v, d) ? kNone : atoms_.Add(f_.domain(v)[d].extent));
    }
    return first;
  }

  // Reads of sources first, then the results, expression after expression.
  void PlacePositions() {
    map_.val_position_.assign(f_.num_vals(), kNone);
    map_.operand_begin_.resize(f_.num_exprs());
    source_.resize(f_.num_vals());
    is_concat_.resize(f_.num_vals());
    for (uint32_t v = 0; v < f_.num_vals(); ++v) source_[v] = AxisMap::IsSource(f_, ValId(v));
    for (ExprId e : order_.exprs) {
      map_.operand_begin_[e.index()] = static_cast<uint32_t>(map_.operand_position_.size());
      for (ValId v : f_.operands(e)) {
        uint32_t& of_val = map_.val_position_[v.index()];
        const uint32_t position = source_[v.index()] ? NewPositions(v) : of_val;
        map_.operand_position_.push_back(position);
        if (of_val == kNone) of_val = position;  // A fusion input is known by its first read.
      }
      // All results of an expression have one shape and one set of axes.
      const uint32_t first = NewPositions(f_.result(e));
      for (int r = 0; r < f_.num_results(e); ++r)
        map_.val_position_[f_.result(e, r).index()] = first;
      is_concat_[f_.result(e).index()] = f_.info(e).op_class == OpClass::Concat;
    }
    for (ValId v : f_.inputs()) {
      uint32_t& of_val = map_.val_position_[v.index()];
      if (of_val == kNone) of_val = NewPositions(v);
    }
  }

  uint32_t OperandPosition(ExprId e, int i) const {
    return map_.operand_position_[map_.operand_begin_[e.index()] + i];
  }
  uint32_t ResultPosition(ExprId e) const { return map_.val_position_[f_.result(e).index()]; }

  // --- Pass 1: atoms ---

  AtomForest::NodeList Dims(uint32_t position, ValId v) const {
    AtomForest::NodeList nodes;
    for (int d = 0; d < f_.rank(v); ++d) {
      if (dims_[position + d] != kNone) nodes.push_back(dims_[position + d]);
    }
    return nodes;
  }

  // Failed joins are no matter here: the places keep different atoms, which pass 2 sees.
  void JoinAtoms() {
    ForEachAlike([this](ValId v, ValId first) {
      for (int d = 0; d < f_.rank(v); ++d) {
        const uint32_t a = dims_[map_.val_position_[first.index()] + d],
                       b = dims_[map_.val_position_[v.index()] + d];
        if (a != kNone && b != kNone) atoms_.Join(a, b);
      }
    });
    ForEachOperand([this](ExprId e, int i) {
      const ValId v = f_.operands(e)[i];
      const uint32_t from = OperandPosition(e, i), to = ResultPosition(e);
      if (f_.op(e) == OpKind::Reshape) {
        // Products of 0 say nothing about their factors.
        if (!IsEmpty(v)) atoms_.JoinProducts(Dims(from, v), Dims(to, f_.result(e)));
        return;
      }
      const DimMap map = OperandMap(f_, e, i);
      for (size_t d = 0; d < map.size(); ++d) {
        if (map[d] < 0) continue;
        const uint32_t a = dims_[from + d], b = dims_[to + map[d]];
        if (a != kNone && b != kNone) atoms_.Join(a, b);
      }
    });
    ForEachSharedRead([this](ExprId, int, uint32_t first, uint32_t position, int rank) {
      for (int d = 0; d < rank; ++d) {
        if (dims_[position + d] != kNone) atoms_.Join(dims_[first + d], dims_[position + d]);
      }
      return true;
    });
  }

  void CutIntoAtoms() {
    map_.position_begin_.reserve(dims_.size() + 1);
    for (uint32_t node : dims_) {
      map_.position_begin_.push_back(static_cast<uint32_t>(atom_class_.size()));
      if (node == kNone) continue;
      const auto atoms = atoms_.Atoms(node);
      atom_class_.insert(atom_class_.end(), atoms.begin(), atoms.end());
    }
    map_.position_begin_.push_back(static_cast<uint32_t>(atom_class_.size()));
    parent_.resize(atom_class_.size());
    for (Node n = 0; n < parent_.size(); ++n) parent_[n] = n;
  }

  // Calls fn(e, i) for every operand of every expression that is not opaque, in the documented
  // order.
  template <typename Fn>
  void ForEachOperand(Fn fn) {
    std::vector<std::pair<ExprId, int>> views, after_cats;
    for (ExprId e : order_.exprs) {
      const OpClass c = f_.info(e).op_class;
      if (IsOpaque(c)) continue;
      for (int i = 0; i < static_cast<int>(f_.operands(e).size()); ++i) {
        if (is_concat_[f_.operands(e)[i].index()]) {
          after_cats.emplace_back(e, i);
        } else if (c == OpClass::View || c == OpClass::Indexing || c == OpClass::Concat) {
          views.emplace_back(e, i);
        } else {
          fn(e, i);
        }
      }
    }
    for (const auto& [e, i] : views) fn(e, i);
    for (const auto& [e, i] : after_cats) fn(e, i);
  }

  // Calls fn(v, first) for every value that another one is computed alike before.
  template <typename Fn>
  void ForEachAlike(Fn fn) {
    for (uint32_t v = 0; v < f_.num_vals(); ++v) {
      if (first_alike_[v] != ValId(v)) fn(ValId(v), first_alike_[v]);
    }
  }

  // Calls fn(e, i, earlier, position, rank) for reads of a source at `position`, where `earlier` is
  // another read of it. Until fn returns true, for each of the first kMaxReadMaps reads that agreed
  // with no earlier one.
  template <typename Fn>
  void ForEachSharedRead(Fn fn) {
    constexpr size_t kMaxReadMaps = 4;
    std::vector<absl::InlinedVector<uint32_t, 1>> maps(f_.num_vals());
    for (ExprId e : order_.exprs) {
      if (IsOpaque(f_.info(e).op_class)) continue;
      for (int i = 0; i < static_cast<int>(f_.operands(e).size()); ++i) {
        const ValId v = f_.operands(e)[i];
        if (!source_[v.index()] || f_.rank(v) == 0) continue;
        auto& known = maps[v.index()];
        const uint32_t position = OperandPosition(e, i);
        bool agreed = false;
        for (size_t k = 0; k < known.size() && !agreed; ++k) {
          agreed = fn(e, i, known[k], position, f_.rank(v));
        }
        if (!agreed && known.size() < kMaxReadMaps) known.push_back(position);
      }
    }
  }

  // --- Pass 2: axes ---

  Node Find(Node n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

  struct NodeRange {
    Node first, end;
    size_t size() const { return end - first; }
    Node operator[](size_t i) const { return first + static_cast<Node>(i); }
  };
  NodeRange Nodes(uint32_t first_position, int count) const {
    return {map_.position_begin_[first_position], map_.position_begin_[first_position + count]};
  }

  // The atoms of every expression's space, in one list per class of atoms; expressions whose space
  // is one atom or none can have no conflict and stay out.
  void CollectSpaces() {
    members_.assign(parent_.size(), Members{});
    space_begin_.reserve(order_.exprs.size() + 1);
    absl::InlinedVector<Node, 8> space;
    for (uint32_t n = 0; n < order_.exprs.size(); ++n) {
      const ExprId e = order_.exprs[n];
      space_begin_.push_back(static_cast<uint32_t>(entries_.size()));
      space.clear();
      const auto add = [&](NodeRange nodes) {
        for (size_t i = 0; i < nodes.size(); ++i) space.push_back(nodes[i]);
      };
      add(Nodes(ResultPosition(e), f_.rank(f_.result(e))));
      if (IsReduction(f_.info(e).op_class)) {
        const DimMap map = OperandMap(f_, e, 0);
        for (size_t d = 0; d < map.size(); ++d) {
          if (map[d] != kReduced) continue;
          add(Nodes(OperandPosition(e, 0) + static_cast<uint32_t>(d), 1));
        }
      }
      if (space.size() < 2) continue;
      for (Node node : space) {
        const uint32_t entry = static_cast<uint32_t>(entries_.size());
        entries_.push_back(Entry{n, node, members_[node].head});
        Members& m = members_[node];
        if (m.head == kNone) m.tail = entry;
        m.head = entry;
        ++m.count;
      }
    }
    space_begin_.push_back(static_cast<uint32_t>(entries_.size()));
  }

  // Makes two atoms one axis, unless some expression's space holds both.
  bool Unite(Node a, Node b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return true;
    if (members_[a].count < members_[b].count) std::swap(a, b);
    for (uint32_t i = members_[b].head; i != kNone; i = entries_[i].next) {
      const uint32_t expr = entries_[i].expr;
      for (uint32_t k = space_begin_[expr]; k < space_begin_[expr + 1]; ++k) {
        if (Find(entries_[k].node) == a) return false;
      }
    }
    if (members_[b].head != kNone) {
      entries_[members_[b].tail].next = members_[a].head;
      if (members_[a].head == kNone) members_[a].tail = members_[b].tail;
      members_[a].head = members_[b].head;
      members_[a].count += members_[b].count;
    }
    parent_[b] = a;
    return true;
  }

  // Unites what is equal at the two ends of `from` and `to` (lists of atoms of the same index
  // space, outermost first) and reports each atom of `from` that finds no partner.
  template <typename Lost>
  void UniteLists(NodeRange from, NodeRange to, Lost lost) {
    size_t begin = 0, a_end = from.size(), b_end = to.size();
    const auto unite = [&](size_t i, size_t j) {
      if (!Unite(from[i], to[j])) lost(from[i]);
    };
    while (begin < a_end && begin < b_end && atom_class_[from[begin]] == atom_class_[to[begin]]) {
      unite(begin, begin);
      ++begin;
    }
    while (begin < a_end && begin < b_end &&
           atom_class_[from[a_end - 1]] == atom_class_[to[b_end - 1]]) {
      unite(--a_end, --b_end);
    }
    for (size_t i = begin; i < a_end; ++i) lost(from[i]);
  }

  void UniteComputed() {
    ForEachAlike([this](ValId v, ValId first) {
      for (int d = 0; d < f_.rank(v); ++d) {
        UniteLists(Nodes(map_.val_position_[v.index()] + d, 1),
                   Nodes(map_.val_position_[first.index()] + d, 1), [](Node) {});
      }
    });
    ForEachOperand([this](ExprId e, int i) {
      const ValId v = f_.operands(e)[i];
      const uint32_t from = OperandPosition(e, i), to = ResultPosition(e);
      const uint32_t operand = map_.operand_begin_[e.index()] + i;
      const auto lost = [&](Node n) {
        if (!source_[v.index()]) exchanges_.emplace_back(operand, n);
      };
      if (f_.op(e) == OpKind::Reshape) {
        UniteLists(Nodes(from, f_.rank(v)), Nodes(to, f_.rank(f_.result(e))), lost);
        return;
      }
      const DimMap map = OperandMap(f_, e, i);
      for (size_t d = 0; d < map.size(); ++d) {
        if (map[d] == kReduced) continue;
        const NodeRange mine = Nodes(from + static_cast<uint32_t>(d), 1);
        if (map[d] == kLost) {
          for (size_t k = 0; k < mine.size(); ++k) lost(mine[k]);
        } else {
          UniteLists(mine, Nodes(to + static_cast<uint32_t>(map[d]), 1), lost);
        }
      }
    });
  }

  // Dimensions read under another map have axes of their own and stay out.
  void UniteSharedSources() {
    ForEachSharedRead([this](ExprId e, int i, uint32_t earlier, uint32_t position, int rank) {
      const DimMap map = OperandMap(f_, e, i);
      bool all = true;
      for (int d = 0; d < rank; ++d) {
        if (map[d] == kLost && f_.op(e) != OpKind::Reshape) continue;
        UniteLists(Nodes(position + d, 1), Nodes(earlier + d, 1), [&](Node) { all = false; });
      }
      return all;
    });
  }

  void Number() {
    std::vector<AxisId> axis_of(parent_.size());
    map_.flat_.resize(parent_.size());
    for (Node n = 0; n < parent_.size(); ++n) {
      AxisId& axis = axis_of[Find(n)];
      if (!axis.valid()) {
        axis = AxisId(static_cast<uint32_t>(map_.extents_.size()));
        map_.extents_.push_back(atoms_.extent(atom_class_[n]));
      }
      map_.flat_[n] = axis;
    }
    map_.exchanges_.resize(f_.num_exprs());
    for (const auto& [operand, node] : exchanges_) {
      map_.exchanged_[operand].push_back(map_.flat_[node]);
      const auto next = std::upper_bound(
          order_.exprs.begin(), order_.exprs.end(), operand,
          [&](uint32_t at, ExprId e) { return at < map_.operand_begin_[e.index()]; });
      map_.exchanges_[(next - 1)->index()] = true;
    }
    for (auto& [operand, set] : map_.exchanged_) SortUnique(set);
  }

  // --- Sets of axes ---

  uint32_t NumberOf(const AxisSet& set) {
    // An expression's is most often that of the one before.
    if (map_.sets_[last_set_] == set) return last_set_;
    const auto [it, is_new] = set_numbers_.try_emplace(set, map_.sets_.size());
    if (is_new) map_.sets_.push_back(set);
    return last_set_ = it->second;
  }

  void AddAxes(uint32_t position, AxisSet& set) const {
    const auto atoms = map_.At(position);
    set.insert(set.end(), atoms.begin(), atoms.end());
  }

  void NumberSets() {
    map_.sets_.emplace_back();
    set_numbers_.emplace(AxisSet(), 0);
    map_.axes_number_.assign(f_.num_vals(), 0);
    map_.space_number_.assign(f_.num_exprs(), 0);
    const auto axes_of = [&](ValId v) {
      AxisSet set;
      for (int d = 0; d < f_.rank(v); ++d) AddAxes(map_.val_position_[v.index()] + d, set);
      SortUnique(set);
      return set;
    };
    for (size_t i = 0; i < f_.inputs().size(); ++i) {
      const ValId v = order_.vals[i];
      map_.axes_number_[v.index()] = NumberOf(axes_of(v));
    }
    for (ExprId e : order_.exprs) {
      AxisSet set = axes_of(f_.result(e));
      const uint32_t axes = NumberOf(set);
      for (int r = 0; r < f_.num_results(e); ++r) map_.axes_number_[f_.result(e, r).index()] = axes;
      uint32_t space = axes;
      if (IsReduction(f_.info(e).op_class)) {
        for (int32_t d : f_.attributes(e).axes) AddAxes(OperandPosition(e, 0) + d, set);
        SortUnique(set);
        space = NumberOf(set);
      }
      map_.space_number_[e.index()] = space;
    }
  }

  struct Members {  // Of a class: the expressions in whose spaces it is.
    uint32_t head = kNone, tail = kNone, count = 0;
  };
  struct Entry {    // An atom of an expression's space; those of one expression are consecutive.
    uint32_t expr;  // Its place in the order.
    Node node;
    uint32_t next;  // Of the class.
  };

  const Fusion& f_;
  const CanonicalOrder& order_;
  AxisMap map_;
  AtomForest atoms_;
  const std::vector<ValId> first_alike_;
  std::vector<bool> source_;     // Per value.
  std::vector<bool> is_concat_;  // Per value: a cat's result.
  std::vector<uint32_t> dims_;  // Per position: its node in atoms_; none for a broadcast dimension.
  std::vector<uint32_t> atom_class_;  // Per atom at a position: its class in atoms_.
  std::vector<Node> parent_;
  std::vector<Members> members_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> space_begin_;  // Per place of the order: where in entries_.
  std::vector<std::pair<uint32_t, Node>> exchanges_;
  absl::flat_hash_map<AxisSet, uint32_t> set_numbers_;  // In map_.sets_.
  uint32_t last_set_ = 0;
};

AxisMap AxisMap::Build(const Fusion& fusion) { return Build(fusion, CanonicalOrderOf(fusion)); }

AxisMap AxisMap::Build(const Fusion& fusion, const CanonicalOrder& order) {
  return AxisMapBuilder(fusion, order).Build();
}

AxisMap AxisMap::For(const Fusion& renumbered, const CanonicalOrder& order) const {
  AxisMap map = *this;
  map.fusion_ = &renumbered;
  for (size_t v = 0; v < order.vals.size(); ++v) {
    map.val_position_[v] = val_position_[order.vals[v].index()];
    map.axes_number_[v] = axes_number_[order.vals[v].index()];
  }
  for (size_t e = 0; e < order.exprs.size(); ++e) {
    map.operand_begin_[e] = operand_begin_[order.exprs[e].index()];
    map.exchanges_[e] = exchanges_[order.exprs[e].index()];
    map.space_number_[e] = space_number_[order.exprs[e].index()];
  }
  return map;
}

bool AxisMap::IsSource(const Fusion& fusion, ValId v) {
  const ExprId definition = fusion.definition(v);
  return !definition.valid() || IsOpaque(fusion.info(definition).op_class);
}

uint32_t AxisMap::num_axes() const { return static_cast<uint32_t>(extents_.size()); }
SymInt AxisMap::extent(AxisId axis) const { return extents_[axis.index()]; }

absl::Span<const AxisId> AxisMap::atoms(ValId v, int dim) const {
  return At(val_position_[v.index()] + static_cast<uint32_t>(dim));
}

absl::Span<const AxisId> AxisMap::operand_atoms(ExprId e, int i, int dim) const {
  return At(operand_position_[operand_begin_[e.index()] + i] + static_cast<uint32_t>(dim));
}

const AxisSet& AxisMap::exchanged(ExprId e, int i) const {
  if (!exchanges_[e.index()]) return sets_.front();
  const auto it = exchanged_.find(operand_begin_[e.index()] + static_cast<uint32_t>(i));
  return it == exchanged_.end() ? sets_.front() : it->second;
}

}  // namespace seam
