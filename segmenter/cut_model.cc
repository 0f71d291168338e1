#include "segmenter/cut_model.h"

#include <algorithm>
#include <utility>

#include "ir/mix_hash.h"
#include "segmenter/closer_look.h"
#include "segmenter/segment.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

constexpr int64_t kMostPrice = INT64_MAX / 128;  // Of a block: cuts are sums of up to 64.

UnitMask Bit(int i) { return UnitMask{1} << i; }
UnitMask AllOnes(int n) { return n == 64 ? ~UnitMask{0} : Bit(n) - 1; }

// Calls `f` with every index in the mask, ascending.
template <typename F>
void ForEach(UnitMask mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(__builtin_ctzll(mask));
}

}  // namespace

CutModel::CutModel(const SegmentedFusion& s, const Units& units, const SizeHints& sizes,
                   const SchedulabilityGuard& guard, Judgements& judgements,
                   absl::Span<const GroupId> groups, absl::Span<const GroupId> between)
    : f_(s.fusion()),
      axes_(s.axes()),
      facts_(s.facts()),
      sizes_(sizes),
      guard_(guard),
      judgements_(judgements) {
  for (GroupId g : groups) {
    UnitMask block = 0;
    for (ExprId e : s.exprs(g)) {
      if (!units.is_unit[e.index()]) continue;
      block |= Bit(num_units_);
      AddUnit(e, units);
    }
    groups_.push_back(block);
  }
  for (LocalExpr& e : exprs_) {
    // A cheap expression without a unit of its own is written where it is at home; in another cut
    // that may be another block, at the same price.
    if (e.writer < 0 && std::find(groups.begin(), groups.end(), s.home(e.expr)) != groups.end()) {
      e.writer = __builtin_ctzll(e.units);
    }
  }
  std::vector<ExprId> exprs;
  for (const LocalExpr& e : exprs_) exprs.push_back(e.expr);
  std::sort(exprs.begin(), exprs.end());
  looks_closer_ = ReadsElsewhere(f_, axes_, exprs) || SpreadsArithmetic(guard_, f_, axes_, exprs);
  AddReads(s);
  for (LocalVal& v : vals_) v.is_result = s.is_result(v.val);
  AddDependences(s, between);
  neighbours_.assign(num_units_, 0);
  for (const LocalVal& v : vals_) {
    if (facts_.weightless[v.val.index()]) continue;
    ForEach(v.read, [&](int u) { neighbours_[u] |= v.read | v.computed; });
    ForEach(v.computed, [&](int u) { neighbours_[u] |= v.read; });
  }
}

int CutModel::LocalIndex(ValId v) {
  const auto [it, is_new] = val_index_.try_emplace(v, static_cast<int>(vals_.size()));
  if (is_new) {
    LocalVal& local = vals_.emplace_back();
    local.val = v;
    local.bytes = sizes_.Bytes(v);
  }
  return it->second;
}

void CutModel::AddUnit(ExprId unit, const Units& units) {
  const int u = num_units_++;
  expr_of_unit_.push_back(unit);
  hash_of_unit_.push_back(MixHash(0, unit.index()));
  std::vector<int>& own = exprs_of_unit_.emplace_back();
  const auto add = [&](ExprId e) {
    const auto [it, is_new] = expr_index_.try_emplace(e, static_cast<int>(exprs_.size()));
    if (is_new) {
      const int first_result = LocalIndex(f_.result(e));
      for (int r = 1; r < f_.num_results(e); ++r) LocalIndex(f_.result(e, r));
      exprs_.push_back({e, 0, -1, first_result, f_.num_results(e), {}});
    }
    LocalExpr& local = exprs_[it->second];
    local.units |= Bit(u);
    own.push_back(it->second);
    for (int r = 0; r < local.num_results; ++r) vals_[local.first_result + r].computed |= Bit(u);
  };
  for (ExprId e : units.producers[unit.index()]) add(e);
  add(unit);
  exprs_[own.back()].writer = u;
}

void CutModel::AddReads(const SegmentedFusion& s) {
  for (size_t n = 0; n < exprs_.size(); ++n) {
    LocalExpr& e = exprs_[n];
    for (int i = 0; i < static_cast<int>(f_.operands(e.expr).size()); ++i) {
      const int index = LocalIndex(f_.operands(e.expr)[i]);
      const int64_t bytes = ReadBytes(f_, sizes_, e.expr, i);
      e.reads.push_back({index, bytes});
      LocalVal& v = vals_[index];
      const UnitMask readers = e.units & ~v.computed;
      v.read |= readers;
      if (bytes >= v.bytes) {
        v.wholly |= readers;
      } else {
        v.partial.emplace_back(n, bytes);
      }
    }
    for (int r = 0; r < e.num_results; ++r) vals_[e.first_result + r].writer = e.writer;
  }
  absl::flat_hash_map<GroupId, bool> inside;
  for (const LocalExpr& e : exprs_) {
    if (e.writer >= 0) inside[s.home(e.expr)] = true;
  }
  for (LocalVal& v : vals_) {
    const BufferId b = s.buffer_of(v.val);
    if (!b.valid()) continue;
    for (EdgeId e : s.readers(b)) v.leaves |= !inside.contains(s.edge(e).to);
  }
}

void CutModel::AddDependences(const SegmentedFusion& s, absl::Span<const GroupId> between) {
  num_nodes_ = num_units_ + static_cast<int>(between.size());
  producers_.assign(num_nodes_, 0);
  consumers_.assign(num_nodes_, 0);
  const auto depend = [&](int from, int to) {
    producers_[to] |= Bit(from);
    consumers_[from] |= Bit(to);
  };
  // A value that several units compute is written by one of them; who reads it waits for that one.
  for (const LocalVal& v : vals_) {
    if (v.writer < 0) continue;
    ForEach(v.read, [&](int u) { depend(v.writer, u); });
  }
  for (const LocalVal& v : vals_) {
    for (UnitMask group : groups_) {
      const bool is_home = v.writer >= 0 && (group & Bit(v.writer)) != 0;
      has_borrowed_copies_ |= (v.read & group) != 0 && (v.computed & group) != 0 && !is_home;
    }
  }
  absl::flat_hash_map<GroupId, int> node_of;
  for (size_t n = 0; n < between.size(); ++n)
    node_of[between[n]] = num_units_ + static_cast<int>(n);
  const auto unit_of = [&](ValId v) {
    const auto it = val_index_.find(v);
    return it == val_index_.end() ? -1 : vals_[it->second].writer;
  };
  for (const auto& [g, n] : node_of) {
    for (EdgeId e : s.in_edges(g)) {
      const SegmentedEdge& x = s.edge(e);
      if (!x.from.valid() || x.kind() != EdgeKind::kData) continue;
      if (const auto other = node_of.find(x.from); other != node_of.end()) {
        depend(other->second, n);
      } else if (const int u = unit_of(x.val); u >= 0) {
        depend(u, n);
      }
    }
    for (EdgeId e : s.out_edges(g)) {
      const auto v = val_index_.find(s.edge(e).val);
      if (s.edge(e).kind() != EdgeKind::kData || v == val_index_.end()) continue;
      ForEach(vals_[v->second].read, [&, group = n](int u) { depend(group, u); });
    }
  }
  // Order edges: between the units of the expressions, and with the groups between.
  for (const OrderConstraint& c : s.order_constraints()) {
    const auto nodes = [&](ExprId e) -> UnitMask {
      if (const auto it = expr_index_.find(e); it != expr_index_.end())
        return exprs_[it->second].units;
      const auto it = node_of.find(s.home(e));
      return it == node_of.end() ? 0 : Bit(it->second);
    };
    ForEach(nodes(c.before), [&](int a) {
      ForEach(nodes(c.after), [&](int b) {
        if (a != b) depend(a, b);
      });
    });
  }
}

std::vector<ExprId> CutModel::Exprs(UnitMask block) const {
  std::vector<ExprId> list;
  ForEach(block, [&](int u) {
    for (int e : exprs_of_unit_[u]) {
      if ((exprs_[e].units & block & (Bit(u) - 1)) == 0) list.push_back(exprs_[e].expr);
    }
  });
  std::sort(list.begin(), list.end());
  return list;
}

// Of what the block reads, at most once all of it.
int64_t CutModel::ReadBytesOf(const LocalVal& v, UnitMask block) const {
  if ((v.wholly & block) != 0) return v.bytes;
  int64_t bytes = 0;
  for (const auto& [e, part] : v.partial) {
    if ((exprs_[e].units & block) != 0) bytes = std::min(bytes + part, v.bytes);
  }
  return bytes;
}

Judgement& CutModel::JudgementOf(UnitMask block) {
  uint64_t hash = looks_closer_ ? 1 : 0;
  ForEach(block, [&](int u) { hash += hash_of_unit_[u]; });
  if (judgements_.size() >= kMaxJudgements) judgements_.clear();
  const auto [it, is_new] = judgements_.try_emplace(hash);
  Judgement& judgement = it->second;
  if (!is_new) return judgement;
  const std::vector<ExprId> exprs = Exprs(block);
  GroupSummary summary = Summarize(f_, axes_, facts_, exprs);
  const Decision decision = AskGuard(
      guard_, f_, axes_, facts_, [&] { return exprs; }, summary);
  if (decision.ok && looks_closer_ && summary.computed.empty())
    LookCloser(f_, axes_, facts_, exprs, summary);
  judgement.accepted = decision.ok && !decision.late;
  judgement.scheduler = decision.scheduler;
  judgement.num_exprs = summary.num_exprs;
  if (judgement.accepted) judgement.summary = std::make_unique<GroupSummary>(std::move(summary));
  return judgement;
}

const CutModel::Price& CutModel::PriceOf(UnitMask block) {
  const auto [it, is_new] = prices_.try_emplace(block);
  if (!is_new) return it->second;
  Price& price = it->second;
  Judgement& judgement = JudgementOf(block);
  num_priced_exprs_ += judgement.num_exprs;
  price.legal = judgement.accepted;
  price.scheduler = judgement.scheduler;
  if (!price.legal || (price.scheduler == SchedulerKind::kAlias && IsFreeView(block))) return price;
  GroupSummary& summary = *judgement.summary;
  summary.num_tensors = 0;
  for (const LocalVal& v : vals_) {
    int64_t bytes = 0;
    if ((v.read & block) != 0 && (v.computed & block) == 0) {
      bytes = ReadBytesOf(v, block);
      summary.num_tensors += bytes > 0;
    }
    if (v.writer >= 0 && (block & Bit(v.writer)) != 0 &&
        (v.is_result || v.leaves || (v.read & ~block) != 0)) {
      bytes = v.bytes;
      ++summary.num_tensors;
    }
    price.bytes = SaturatingAdd(price.bytes, bytes);
  }
  summary.moved_bytes = price.bytes;
  const double fraction = guard_.FractionOfPeak(f_, axes_, sizes_, summary);
  price.legal = fraction > 0 || __builtin_popcountll(block) == 1;
  if (fraction > 0 && fraction < 1) {
    const double slower = static_cast<double>(price.bytes) / fraction;
    price.bytes = static_cast<int64_t>(std::min(slower, static_cast<double>(kMostPrice)));
  }
  price.bytes = std::min(price.bytes, kMostPrice) + kLaunchBytes;
  return price;
}

// Whether all that a block of views hands on it hands on without a copy, as in Launches().
bool CutModel::IsFreeView(UnitMask block) const {
  for (const LocalExpr& e : exprs_) {
    if (e.writer < 0 || (block & Bit(e.writer)) == 0) continue;
    for (int r = 0; r < e.num_results; ++r) {
      const LocalVal& v = vals_[e.first_result + r];
      const ValId result = v.val;
      const bool read = v.leaves || (v.read & ~block) != 0;
      if (read && !facts_.is_free_to_read[result.index()]) return false;
      if (v.is_result && !facts_.is_free_to_return[result.index()]) return false;
    }
  }
  return true;
}

int64_t CutModel::BytesOf(absl::Span<const UnitMask> cut) {
  int64_t bytes = 0;
  for (UnitMask block : cut) bytes += PriceOf(block).bytes;
  return bytes;
}

UnitMask CutModel::Cone(const std::vector<UnitMask>& next, int unit, UnitMask block) const {
  UnitMask cone = Bit(unit), todo = cone;
  while (todo != 0) {
    const int u = __builtin_ctzll(todo);
    todo &= todo - 1;
    const UnitMask more = next[u] & block & ~cone;
    cone |= more;
    todo |= more;
  }
  return cone;
}

// Whether nothing in `left` outside of the block leads to it.
bool CutModel::IsFirst(UnitMask block, UnitMask left) const {
  UnitMask before = 0;
  ForEach(block, [&](int n) { before |= producers_[n]; });
  return (before & left & ~block) == 0;
}

bool CutModel::IsAcyclic(absl::Span<const UnitMask> cut) const {
  UnitMask left = AllOnes(num_nodes_);
  for (bool taken = true; taken && left != 0;) {
    taken = false;
    const auto take = [&](UnitMask block) {
      if ((left & block) == 0 || !IsFirst(block, left)) return;
      left &= ~block;
      taken = true;
    };
    for (UnitMask block : cut) take(block);
    for (int n = num_units_; n < num_nodes_; ++n) take(Bit(n));
  }
  return left == 0;
}

Cut CutModel::Sorted(absl::Span<const UnitMask> cut) const {
  UnitMask left = 0;
  for (UnitMask block : cut) left |= block;
  Cut sorted;
  while (sorted.size() < cut.size()) {
    for (UnitMask block : cut) {
      if ((left & block) == 0 || !IsFirst(block, left)) continue;
      left &= ~block;
      sorted.push_back(block);
    }
  }
  return sorted;
}

Cut CutModel::Components(UnitMask block) const {
  Cut components;
  while (block != 0) {
    UnitMask component = 0, todo = block & -block;
    while (todo != 0) {
      component |= todo;
      UnitMask next = 0;
      ForEach(todo, [&](int u) { next |= producers_[u] | consumers_[u]; });
      todo = next & block & ~component;
    }
    components.push_back(component);
    block &= ~component;
  }
  return components;
}

UnitMask CutModel::Neighbours(UnitMask block) const {
  UnitMask all = 0;
  ForEach(block, [&](int u) { all |= neighbours_[u]; });
  return all & ~block;
}

uint64_t CutModel::Fingerprint(UnitMask focus, absl::string_view purpose, int effort) const {
  uint64_t hash = 0;
  const auto mix = [&](uint64_t x) { hash = MixHash(hash, x); };
  absl::flat_hash_map<AxisId, int> axes;
  const auto mix_axes = [&](const AxisSet& set) {
    uint64_t sum = 0;  // The order in a set says nothing.
    for (AxisId a : set)
      sum += uint64_t{1} << (axes.try_emplace(a, axes.size()).first->second % 61);
    mix(sum);
  };
  for (const LocalExpr& e : exprs_) {
    mix(static_cast<uint64_t>(f_.op(e.expr)));
    mix(e.units);
    mix(static_cast<uint64_t>(e.writer));
    mix_axes(axes_.space(e.expr));
    mix_axes(axes_.axes(f_.result(e.expr)));
    mix(static_cast<uint64_t>(e.first_result));
    for (size_t i = 0; i < e.reads.size(); ++i) {
      mix(static_cast<uint64_t>(e.reads[i].val));
      mix(static_cast<uint64_t>(e.reads[i].bytes));
      mix_axes(axes_.exchanged(e.expr, static_cast<int>(i)));
    }
  }
  for (const LocalVal& v : vals_) {
    mix(static_cast<uint64_t>(v.bytes));
    mix(v.leaves);
    mix(v.is_result);
  }
  for (int n = 0; n < num_nodes_; ++n) mix(consumers_[n]);
  for (UnitMask group : groups_) mix(group);
  mix(focus);
  for (char c : purpose) mix(static_cast<uint64_t>(c));
  mix(static_cast<uint64_t>(effort));
  return hash;
}

// All that `from` leads to by `next`, whole blocks at a time, without `from` unless a path returns.
UnitMask CutModel::Reach(absl::Span<const UnitMask> cut, const std::vector<UnitMask>& next,
                         UnitMask from) const {
  UnitMask reached = 0, todo = from;
  while (todo != 0) {
    const int n = __builtin_ctzll(todo);
    todo &= todo - 1;
    UnitMask more = next[n] & ~reached & ~from;
    if (more == 0) continue;
    UnitMask whole = more;
    for (UnitMask block : cut) {
      if ((block & more) != 0) whole |= block & ~from;
    }
    whole &= ~reached;
    reached |= whole;
    todo |= whole;
  }
  return reached;
}

UnitMask CutModel::Close(absl::Span<const UnitMask> cut, UnitMask block) const {
  const UnitMask closed = block | (Reach(cut, consumers_, block) & Reach(cut, producers_, block));
  return (closed & ~AllOnes(num_units_)) != 0 ? 0 : closed;
}

}  // namespace seam
