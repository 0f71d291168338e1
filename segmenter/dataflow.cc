// How the summaries of the groups follow their merges.
//
// Every value that a group computes knows the minimal kept sets of the reductions upstream of it in
// the group, and what is downstream of it; a value that a group reads knows the latter. A merge
// makes some reads inner, and the two kinds of knowledge flow through them, down and up, until
// nothing changes. Both only grow, and what they can grow to is small, so that all merges together
// push a few times through each expression.
#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "segmenter/segmented_fusion.h"

namespace seam {

using Keep = AxisSetTable::Keep;

namespace {

std::vector<ExprId> JoinReductions(const std::vector<ExprId>& a, const std::vector<ExprId>& b) {
  if (b.empty()) return a;
  std::vector<ExprId> all;
  all.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  if (all.size() > GroupSummary::kNamedReductions) all.resize(GroupSummary::kNamedReductions);
  return all;
}

}  // namespace

// --- Construction ---

// Of the groups that the instances are all of. `sources` are those of their operands.
void SegmentedFusion::InitSummaries(absl::Span<const uint32_t> instances,
                                    absl::Span<const Source> sources) {
  const auto connect_all = [&](Group& group, uint32_t first, const UseList& uses) {
    for (uint32_t u = uses.head; u != kNone; u = uses_[u].next) {
      Connect(group, first, uses_[u].instance);
    }
  };
  for (uint32_t i : instances) {
    const ExprId e = instances_[i].expr;
    const OpClass c = fusion_->info(e).op_class;
    const bool node = !facts_.weightless[fusion_->result(e).index()];
    Group one;
    one.num_exprs = 0;  // AddHome and AddCopy have counted it.
    one.components = node ? 1 : 0;
    one.spaces = sets_.Family(space(e));
    one.views_only = MakesView(*fusion_, e);
    one.moves = ReadsOtherPlaces(*fusion_, e);
    one.turns = fusion_->op(e) == OpKind::Permute;
    one.library = c == OpClass::Library || c == OpClass::Template || c == OpClass::Communication;
    one.barrier = c == OpClass::Barrier;
    if (reduces(e)) {
      one.kept = sets_.Family(kept(e));
      one.num_reductions = 1;
      one.reductions = {e};
    }
    JoinRecords(groups_[instances_[i].group.index()], one);
  }
  size_t next = 0;
  for (uint32_t i : instances) {
    const Instance& instance = instances_[i];
    Group& group = groups_[instance.group.index()];
    for (int r = 0; r < fusion_->num_results(instance.expr); ++r) {
      const ValId v = fusion_->result(instance.expr, r);
      const UseList& uses = slots_[instance.first_slot + r].uses;
      if (!facts_.is_read_of_source[v.index()])
        group.recompute_log += RecomputeLog(uses.num_maps());
      if (!facts_.weightless[v.index()]) connect_all(group, i, uses);
    }
    for (ValId v : fusion_->operands(instance.expr)) {
      const Source source = sources[next++];
      if (source.slot != kNone || !facts_.connects_readers[v.index()]) continue;
      const UseList& uses = edge_states_[source.edge].uses;
      if (uses_[uses.head].instance == i) connect_all(group, i, uses);
    }
  }
  for (uint32_t i : instances) {
    const ExprId e = instances_[i].expr;
    if (!reduces(e)) continue;
    for (int r = 0; r < fusion_->num_results(e); ++r) {
      AddUpstream(groups_[instances_[i].group.index()], instances_[i].first_slot + r,
                  sets_.Family(kept(e)));
    }
  }
  // Users before operands: what is downstream of a result is complete when it is passed up.
  for (size_t n = instances.size(); n-- > 0;) {
    const Instance& instance = instances_[instances[n]];
    Downstream below;
    for (int r = 0; r < fusion_->num_results(instance.expr); ++r) {
      below = Join(below, slots_[instance.first_slot + r].downstream);
    }
    const uint32_t num_operands = static_cast<uint32_t>(fusion_->operands(instance.expr).size());
    next -= num_operands;
    for (uint32_t i = 0; i < num_operands; ++i) {
      Downstream& known = DownstreamOf(sources[next + i]);
      known = Join(known, Join(below, DownstreamOfUse(uses_[instance.first_use + i])));
    }
  }
}

ValId SegmentedFusion::SlotValue(uint32_t slot) const {
  const Instance& instance = instances_[slots_[slot].instance];
  return ValId(fusion_->result(instance.expr).index() + slot - instance.first_slot);
}

// --- Flow ---

void SegmentedFusion::AddUpstream(Group& group, uint32_t slot, FamilyId upstream) {
  std::vector<std::pair<uint32_t, FamilyId>> work = {{slot, upstream}};
  while (!work.empty()) {
    const auto [at, more] = work.back();
    work.pop_back();
    const FamilyId all = sets_.Union(slots_[at].upstream, more, Keep::kMinimal);
    if (all == slots_[at].upstream) continue;
    slots_[at].upstream = all;
    PassUpstream(group, slots_[at].uses, all, work);
  }
}

// What `uses` make of their operand's upstream sets: which of them are held, and what their results
// inherit.
void SegmentedFusion::PassUpstream(Group& group, const UseList& uses, FamilyId upstream,
                                   std::vector<std::pair<uint32_t, FamilyId>>& work) {
  if (upstream == AxisSetTable::kNoSets) return;
  for (uint32_t u = uses.head; u != kNone; u = u == uses.tail ? kNone : uses_[u].next) {
    const Use use = uses_[u];
    const Instance& instance = instances_[use.instance];
    if (!instance.group.valid()) continue;
    const ExprId e = instance.expr;
    const std::vector<SetId> members = sets_.members(upstream);
    for (SetId k : members) {
      if (reduces(e) || !sets_.IsSubset(space(e), k)) AddHeld(group, k);
    }
    if (use.exchange != kNone) AddHeld(group, use.exchange);
    for (int r = 0; r < fusion_->num_results(e); ++r)
      work.emplace_back(instance.first_slot + r, upstream);
  }
}

SegmentedFusion::Downstream SegmentedFusion::Join(const Downstream& a, const Downstream& b) {
  return {sets_.Union(a.axes, b.axes), sets_.Union(a.exchanges, b.exchanges, Keep::kMinimal),
          a.reduces || b.reduces};
}

SegmentedFusion::Downstream SegmentedFusion::DownstreamOfUse(const Use& use) {
  const ExprId e = instances_[use.instance].expr;
  return {space(e), use.exchange == kNone ? AxisSetTable::kNoSets : sets_.Family(use.exchange),
          reduces(e)};
}

void SegmentedFusion::AddDownstream(GroupId g, Source at, const Downstream& more) {
  std::vector<std::pair<Source, Downstream>> work = {{at, more}};
  while (!work.empty()) {
    const auto [source, added] = work.back();
    work.pop_back();
    Downstream& known = DownstreamOf(source);
    const Downstream all = Join(known, added);
    if (all == known) continue;
    known = all;
    if (source.slot == kNone) continue;
    const ExprId e = instances_[slots_[source.slot].instance].expr;
    for (ValId v : fusion_->operands(e)) work.emplace_back(SourceOf(g, v), all);
  }
}

uint32_t SegmentedFusion::Component(uint32_t instance) {
  uint32_t c = instance;
  while (instances_[c].component != c) {
    c = instances_[c].component = instances_[instances_[c].component].component;
  }
  return c;
}

void SegmentedFusion::Connect(Group& group, uint32_t a, uint32_t b) {
  a = Component(a);
  b = Component(b);
  if (a == b) return;
  instances_[std::max(a, b)].component = std::min(a, b);
  --group.components;
}

// --- Merges ---

void SegmentedFusion::JoinRecords(Group& to, const Group& from) {
  to.spaces = sets_.Union(to.spaces, from.spaces, Keep::kMaximal);
  to.held = sets_.Union(to.held, from.held, Keep::kMinimal);
  to.kept = sets_.Union(to.kept, from.kept, Keep::kAll);
  to.num_exprs += from.num_exprs;
  to.first_expr = std::min(to.first_expr, from.first_expr);
  to.num_reductions += from.num_reductions;
  to.components += from.components;
  to.views_only &= from.views_only;
  to.moves |= from.moves;
  to.turns |= from.turns;
  to.library |= from.library;
  to.barrier |= from.barrier;
  to.recompute_log += from.recompute_log;
  if (!from.reductions.empty()) to.reductions = JoinReductions(from.reductions, to.reductions);
}

void SegmentedFusion::Append(UseList& to, const UseList& from) {
  if (from.head == kNone) return;
  (to.head == kNone ? to.head : uses_[to.tail].next) = from.head;
  to.tail = from.tail;
  to.plain += from.plain;
  to.exchanged += from.exchanged;
}

// Readers join those of `slot`: the value may be needed under more maps.
void SegmentedFusion::AddReaders(Group& group, uint32_t slot, const UseList& more) {
  UseList& uses = slots_[slot].uses;
  const int64_t before = RecomputeLog(uses.num_maps());
  Append(uses, more);
  if (!facts_.is_read_of_source[SlotValue(slot).index()]) {
    group.recompute_log += RecomputeLog(uses.num_maps()) - before;
  }
}

void SegmentedFusion::JoinReads(EdgeId kept, EdgeId dropped) {
  EdgeState& to = edge_states_[kept.index()];
  const EdgeState& from = edge_states_[dropped.index()];
  const SegmentedEdge& edge = edges_[kept.index()];
  if (facts_.connects_readers[edge.val.index()]) {
    Connect(groups_[edge.to.index()], uses_[to.uses.head].instance, uses_[from.uses.head].instance);
  }
  Append(to.uses, from.uses);
  to.downstream = Join(to.downstream, from.downstream);
}

void SegmentedFusion::ServeReaders(GroupId g, uint32_t slot, const UseList& readers,
                                   const Downstream& downstream) {
  Group& group = groups_[g.index()];
  const UseList segment = readers;
  AddReaders(group, slot, segment);
  if (!facts_.weightless[SlotValue(slot).index()]) {
    // Readers of what connects them are connected already.
    const bool first_only = facts_.connects_readers[SlotValue(slot).index()];
    for (uint32_t u = segment.head; u != kNone;
         u = u == segment.tail || first_only ? kNone : uses_[u].next) {
      Connect(group, slots_[slot].instance, uses_[u].instance);
    }
  }
  AddDownstream(g, Source{slot, kNone}, downstream);
  std::vector<std::pair<uint32_t, FamilyId>> work;
  PassUpstream(group, segment, slots_[slot].upstream, work);
  for (const auto& [at, upstream] : work) AddUpstream(group, at, upstream);
}

void SegmentedFusion::SettleCrossing(GroupId g, MergeWork& work) {
  for (const MergeWork::Crossing& c : work.crossing) ServeReaders(g, c.slot, c.uses, c.downstream);
}

void SegmentedFusion::SettleDropped(GroupId g, MergeWork& work) {
  Group& group = groups_[g.index()];
  for (const auto& [copy, instead] : work.dropped) {
    const ExprId e = instances_[copy].expr;
    for (int r = 0; r < fusion_->num_results(e); ++r) {
      const uint32_t slot = instances_[copy].first_slot + r;
      if (!facts_.is_read_of_source[SlotValue(slot).index()]) {
        group.recompute_log -= RecomputeLog(slots_[slot].uses.num_maps());
      }
      ServeReaders(g, instances_[instead].first_slot + r, slots_[slot].uses,
                   slots_[slot].downstream);
    }
    if (!facts_.weightless[fusion_->result(e).index()]) Connect(group, copy, instead);
    --group.num_exprs;
    if (reduces(e)) --group.num_reductions;
    // Its own reads are no more; their places in the lists are skipped.
    for (int i = 0; i < static_cast<int>(fusion_->operands(e).size()); ++i) {
      const ValId v = fusion_->operands(e)[i];
      const Source source = SourceOf(g, v);
      UseList& uses = UsesOf(source);
      const int64_t before = RecomputeLog(uses.num_maps());
      --(axes_->exchanged(e, i).empty() ? uses.plain : uses.exchanged);
      if (source.slot != kNone && !facts_.is_read_of_source[v.index()]) {
        group.recompute_log += RecomputeLog(uses.num_maps()) - before;
      }
    }
  }
}

// --- Summaries ---

GroupSummary SegmentedFusion::Expand(const Group& record) const {
  GroupSummary s;
  s.spaces = sets_.Expand(record.spaces);
  s.held = sets_.Expand(record.held);
  s.kept = sets_.Expand(record.kept);
  s.num_exprs = record.num_exprs;
  s.num_reductions = record.num_reductions;
  s.views_only = record.views_only;
  s.moves = record.moves;
  s.turns = record.turns;
  s.library = record.library;
  s.barrier = record.barrier;
  s.connected = record.components <= 1;
  s.recompute_factor = RecomputeFactor(record.recompute_log);
  s.reductions = record.reductions;
  return s;
}

GroupSummary SegmentedFusion::summary(GroupId g) const { return Expand(groups_[g.index()]); }

}  // namespace seam
