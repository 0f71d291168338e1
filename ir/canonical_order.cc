#include "ir/canonical_order.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ir/beside.h"
#include "ir/mix_hash.h"

namespace seam {
namespace {

// Hashes that do not know where a line is written, nor the names of values.
class StructureHashes {
 public:
  explicit StructureHashes(const Fusion& fusion) : f_(fusion), of_val_(fusion.num_vals()) {
    of_expr_.reserve(f_.num_exprs());
    for (uint32_t e = 0; e < f_.num_exprs(); ++e) of_expr_.push_back(OfAttributes(ExprId(e)));
    for (ValId v : f_.inputs()) of_val_[v.index()] = OfInput(v);
    HashDownwards();
    const std::vector<uint64_t> readers = OfReaders();
    for (ValId v : f_.inputs()) Mix(&of_val_[v.index()], readers[v.index()]);
    for (uint32_t e = 0; e < f_.num_exprs(); ++e) {
      for (int r = 0; r < f_.num_results(ExprId(e)); ++r)
        Mix(&of_expr_[e], readers[f_.result(ExprId(e), r).index()]);
    }
    HashDownwards();
  }

  // Of everything that leads to the expression, and of what else that leads to.
  uint64_t Of(ExprId e) const { return of_val_[f_.result(e).index()]; }

 private:
  static void Mix(uint64_t* hash, uint64_t x) { *hash = MixHash(*hash, x); }

  uint64_t OfExtent(SymInt n) {
    if (const auto value = n.maybe_int()) return static_cast<uint64_t>(*value);
    if (!n.is_valid()) return MixHash(1, 0);
    const SymNode& node = *n.node();
    if (const auto it = of_node_.find(&node); it != of_node_.end()) return it->second;
    uint64_t hash = MixHash(2, static_cast<uint64_t>(node.kind));
    Mix(&hash, static_cast<uint64_t>(node.constant));
    for (char c : node.name) Mix(&hash, static_cast<uint64_t>(c));
    // Terms and factors have no order of their own.
    const bool ordered = node.kind == SymKind::FloorDiv || node.kind == SymKind::Mod ||
                         node.kind == SymKind::Select || node.kind == SymKind::Lt ||
                         node.kind == SymKind::Le;
    uint64_t sum = 0;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const uint64_t coefficient =
          node.coefficients.empty() ? 1 : static_cast<uint64_t>(node.coefficients[i]);
      sum += MixHash(MixHash(OfExtent(node.children[i]), coefficient), ordered ? i : 0);
    }
    Mix(&hash, sum);
    of_node_.emplace(&node, hash);
    return hash;
  }

  uint64_t OfInput(ValId v) {
    uint64_t hash = MixHash(3, static_cast<uint64_t>(f_.dtype(v)));
    for (const IterDomain& d : f_.domain(v)) Mix(&hash, OfExtent(d.extent));
    if (!f_.has_explicit_strides(v)) return hash;
    for (SymInt stride : f_.strides(v)) Mix(&hash, OfExtent(stride));
    return hash;
  }

  uint64_t OfAttributes(ExprId e) {
    uint64_t hash = MixHash(4, static_cast<uint64_t>(f_.op(e)));
    const uint32_t fields = AttributesOf(f_.op(e));
    if (fields == 0) return hash;
    const Attributes& a = f_.attributes(e);
    for (int32_t axis : a.axes) Mix(&hash, static_cast<uint64_t>(axis));
    for (const SymVector* list : {&a.sizes, &a.start, &a.stop, &a.step}) {
      Mix(&hash, list->size());
      for (SymInt n : *list) Mix(&hash, OfExtent(n));
    }
    Mix(&hash, static_cast<uint64_t>(a.dtype));
    uint64_t bits;
    static_assert(sizeof bits == sizeof a.value);
    std::memcpy(&bits, &a.value, sizeof bits);
    Mix(&hash, bits);
    Mix(&hash, static_cast<uint64_t>(a.int_value));
    return hash;
  }

  // Values by what they are computed from.
  void HashDownwards() {
    for (uint32_t i = 0; i < f_.num_exprs(); ++i) {
      const ExprId e(i);
      uint64_t hash = of_expr_[i];
      for (ValId v : f_.operands(e)) Mix(&hash, of_val_[v.index()]);
      for (int r = 0; r < f_.num_results(e); ++r)
        of_val_[f_.result(e, r).index()] = hash + static_cast<uint64_t>(r);
    }
  }

  // Per value, of who reads it as which operand, who reads that, and so on.
  std::vector<uint64_t> OfReaders() const {
    std::vector<uint64_t> hashes(f_.num_vals());
    for (ValId v : f_.outputs()) hashes[v.index()] = 1;
    for (uint32_t i = f_.num_exprs(); i-- > 0;) {
      const ExprId e(i);
      uint64_t hash = of_val_[f_.result(e).index()];
      for (int r = 0; r < f_.num_results(e); ++r)
        hash = MixHash(hash, hashes[f_.result(e, r).index()]);
      const auto operands = f_.operands(e);
      for (size_t n = 0; n < operands.size(); ++n)
        hashes[operands[n].index()] += MixHash(hash, n);  // Readers have no order.
    }
    return hashes;
  }

  const Fusion& f_;
  std::vector<uint64_t> of_expr_;  // Of the expression without its operands.
  std::vector<uint64_t> of_val_;
  absl::flat_hash_map<const SymNode*, uint64_t> of_node_;
};

// An expression that no other one reads, or that only dead code does.
struct End {
  bool dead;
  uint32_t depth;
  uint64_t hash;
  ExprId expr;
  absl::string_view name;  // Of its first result.
  uint64_t start;          // Of the name, ordered as that is: it decides most often.
  auto key() const { return std::tuple(dead, depth, hash); }
  bool operator<(const End& other) const {
    return key() != other.key()   ? key() < other.key()
           : start != other.start ? start < other.start
                                  : name < other.name;
  }
};

uint64_t StartOf(absl::string_view name) {
  uint64_t start = 0;
  for (size_t i = 0; i < sizeof start; ++i)
    start = start << 8 | (i < name.size() ? static_cast<uint8_t>(name[i]) : 0);
  return start;
}

std::vector<End> SortedEnds(const Fusion& f) {
  auto hashing = Beside(f.num_exprs(), [&f] { return StructureHashes(f); });
  std::vector<uint32_t> depths(f.num_exprs());
  for (uint32_t e = 0; e < f.num_exprs(); ++e) {
    for (ValId v : f.operands(ExprId(e))) {
      const ExprId definition = f.definition(v);
      if (definition.valid()) depths[e] = std::max(depths[e], depths[definition.index()] + 1);
    }
  }
  std::vector<End> ends;
  std::vector<bool> live(f.num_exprs());  // An output depends on it.
  std::vector<bool> read(f.num_exprs());  // By a live expression, or by any if it is dead.
  for (uint32_t i = f.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    for (int r = 0; r < f.num_results(e); ++r) {
      if (!f.is_output(f.result(e, r)) || live[i]) continue;
      live[i] = true;
      read[i] = false;
    }
    if (!read[i]) {
      const absl::string_view name = f.name(f.result(e));
      ends.push_back({!live[i], depths[i], 0, e, name, StartOf(name)});
    }
    for (ValId v : f.operands(e)) {
      const ExprId definition = f.definition(v);
      if (!definition.valid() || (live[definition.index()] && !live[i])) continue;
      live[definition.index()] = live[i];
      read[definition.index()] = true;
    }
  }
  const StructureHashes hashes = hashing.get();
  for (End& end : ends) end.hash = hashes.Of(end.expr);
  std::sort(ends.begin(), ends.end());
  return ends;
}

// A depth-first search upwards, again and again. What it found has a place in the order.
class Search {
 public:
  explicit Search(const Fusion& fusion)
      : f_(fusion),
        met_(fusion.num_exprs()),
        place_(fusion.num_exprs(), kNowhere),
        distance_(f_.num_exprs()) {
    order_.reserve(f_.num_exprs());
  }

  // Appends `end` with what it needs and has no place yet: by the longest distance to `end`, so
  // that operands come before users, and those alike in this as the search found them.
  void Append(ExprId end) {
    found_.clear();
    Find(end, INT_MAX, nullptr);
    first_.clear();
    for (size_t i = found_.size(); i-- > 0;) {
      const uint32_t d = distance_[found_[i].index()];
      if (d >= first_.size()) first_.resize(d + 1);
      ++first_[d];
      for (ValId v : f_.operands(found_[i])) {
        const ExprId definition = f_.definition(v);
        if (!definition.valid()) continue;
        distance_[definition.index()] = std::max(distance_[definition.index()], d + 1);
      }
    }
    uint32_t next = static_cast<uint32_t>(order_.size());
    for (size_t d = first_.size(); d-- > 0;) next += std::exchange(first_[d], next);
    order_.resize(next);
    for (ExprId e : found_) {
      uint32_t& place = first_[distance_[e.index()]];
      place_[e.index()] = place;
      order_[place++] = e;
    }
  }

  // The places of what a search from `end` meets that has one, as far as that is near.
  using Places = absl::InlinedVector<uint32_t, 4>;
  Places PlacesMet(ExprId end) {
    found_.clear();
    Places places;
    Find(end, kMaxLooked, &places);
    for (ExprId e : found_) met_[e.index()] = false;
    for (const auto& [e, operand] : path_) met_[e.index()] = false;
    return places;
  }

  std::vector<ExprId> Take() { return std::move(order_); }

 private:
  static constexpr int kMaxLooked = 64;
  static constexpr uint32_t kNowhere = 0xffffffffu;

  // Finds what `end` needs and has not been met, itself included, operands before users and first
  // operands first, till it looked at so many operands. The places of what was met go to `places`.
  void Find(ExprId end, int most, Places* places) {
    met_[end.index()] = true;
    path_ = {{end, 0}};
    for (int looked = 0; !path_.empty() && looked < most;) {
      auto& [e, operand] = path_.back();
      if (operand == f_.operands(e).size()) {
        found_.push_back(e);
        path_.pop_back();
        continue;
      }
      const ExprId next = f_.definition(f_.operands(e)[operand++]);
      if (!next.valid()) continue;
      if (places != nullptr) ++looked;
      if (!met_[next.index()]) {
        met_[next.index()] = true;
        path_.emplace_back(next, 0);
      } else if (places != nullptr && place_[next.index()] != kNowhere) {
        places->push_back(place_[next.index()]);
      }
    }
  }

  const Fusion& f_;
  std::vector<bool> met_;
  std::vector<uint32_t> place_;
  std::vector<uint32_t> distance_;  // The longest one to the end that it was found from.
  std::vector<ExprId> order_, found_;
  std::vector<std::pair<ExprId, uint32_t>> path_;  // Each with its next operand.
  std::vector<uint32_t> first_;  // Per distance: where in the order what has it begins.
};

}  // namespace

CanonicalOrder CanonicalOrderOf(const Fusion& f) {
  CanonicalOrder order;
  const std::vector<End> ends = SortedEnds(f);
  Search search(f);
  std::vector<std::pair<Search::Places, ExprId>> alike;
  for (size_t begin = 0; begin < ends.size();) {
    alike.clear();
    size_t end = begin;
    for (; end < ends.size() && ends[end].key() == ends[begin].key(); ++end)
      alike.emplace_back(Search::Places(), ends[end].expr);
    if (alike.size() > 1) {
      for (auto& [places, e] : alike) places = search.PlacesMet(e);
      std::stable_sort(alike.begin(), alike.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    for (const auto& [places, e] : alike) search.Append(e);
    begin = end;
  }
  order.exprs = search.Take();
  order.vals.reserve(f.num_vals());
  std::vector<bool> is_read(f.num_vals());
  for (ExprId e : order.exprs) {
    for (ValId v : f.operands(e)) {
      if (!f.is_input(v) || is_read[v.index()]) continue;
      is_read[v.index()] = true;
      order.vals.push_back(v);
    }
  }
  const size_t num_read = order.vals.size();
  for (ValId v : f.inputs()) {
    if (!is_read[v.index()]) order.vals.push_back(v);
  }
  std::sort(order.vals.begin() + static_cast<std::ptrdiff_t>(num_read), order.vals.end(),
            [&](ValId a, ValId b) { return f.name(a) < f.name(b); });
  for (ExprId e : order.exprs) {
    for (int r = 0; r < f.num_results(e); ++r) order.vals.push_back(f.result(e, r));
  }
  return order;
}

Fusion Renumbered(const Fusion& f, const CanonicalOrder& order) {
  std::vector<ExprId> new_expr(f.num_exprs());
  std::vector<ValId> new_val(f.num_vals());
  for (uint32_t e = 0; e < f.num_exprs(); ++e) new_expr[order.exprs[e].index()] = ExprId(e);
  for (uint32_t v = 0; v < f.num_vals(); ++v) new_val[order.vals[v].index()] = ValId(v);
  Fusion result = f;
  for (uint32_t v = 0; v < f.num_vals(); ++v) {
    Fusion::Val& val = result.vals_[v];
    val = f.vals_[order.vals[v].index()];
    if (val.definition.valid()) val.definition = new_expr[val.definition.index()];
  }
  result.operands_.clear();
  for (uint32_t e = 0; e < f.num_exprs(); ++e) {
    Fusion::Expr& expr = result.exprs_[e];
    expr = f.exprs_[order.exprs[e].index()];
    expr.first_result = new_val[expr.first_result.index()];
    expr.operands_begin = static_cast<uint32_t>(result.operands_.size());
    for (ValId v : f.operands(order.exprs[e])) result.operands_.push_back(new_val[v.index()]);
  }
  for (auto* list : {&result.inputs_, &result.outputs_}) {
    for (ValId& v : *list) v = new_val[v.index()];
    std::sort(list->begin(), list->end());
  }
  result.IndexUses();
  return result;
}

}  // namespace seam
