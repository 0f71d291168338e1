// Construction, look-ups, and the one implementation of merging.
#include "segmenter/segmented_fusion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace seam {

// --- Construction ---

absl::StatusOr<SegmentedFusion> SegmentedFusion::Create(const Fusion& fusion,
                                                        std::shared_ptr<const AxisMap> axes,
                                                        Partition partition) {
  if (axes == nullptr) return absl::InvalidArgumentError("the axes of a segmentation are null");
  SegmentedFusion s(fusion, std::move(axes));
  s.num_groups_ = partition.num_groups;
  s.groups_.resize(partition.num_groups);
  s.places_.resize(partition.num_groups);
  s.is_in_table_.resize(partition.num_groups);
  for (uint32_t g = 0; g < partition.num_groups; ++g) s.merged_into_.emplace_back(g);
  std::vector<bool> kept(partition.home.size());
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = partition.home[i].valid();
  SEAM_RETURN_IF_ERROR(s.AddInstances(std::move(partition)));
  s.facts_ = FactsOf(fusion, kept);
  s.FindResults();
  s.AddBuffersOfArguments();
  std::vector<uint32_t> instances;  // Operands before users.
  for (uint32_t i = 0, copy = fusion.num_exprs(); i < fusion.num_exprs(); ++i) {
    if (s.instances_[i].group.valid()) instances.push_back(i);
    for (; copy < s.instances_.size() && s.instances_[copy].expr.index() == i; ++copy)
      instances.push_back(copy);
  }
  const std::vector<Source> sources = s.AddUses(instances);
  s.AddOrderEdges();
  SEAM_RETURN_IF_ERROR(s.SortGroups());
  s.InitSummaries(instances, sources);
  return s;
}

absl::Status SegmentedFusion::AddInstances(Partition partition) {
  const uint32_t num_exprs = fusion_->num_exprs();
  if (partition.home.size() != num_exprs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "homes of ", partition.home.size(), " expressions given, the graph has ", num_exprs));
  }
  instances_.reserve(num_exprs + partition.copies.size());
  is_copied_.resize(fusion_->num_vals());
  slots_.resize(fusion_->num_vals());
  for (uint32_t i = 0; i < num_exprs; ++i) {
    const ExprId e(i);
    const GroupId g = partition.home[i];
    if (g.valid() && g.index() >= groups_.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "expression `", fusion_->name(fusion_->result(e)), "`: its home is no group"));
    }
    instances_.push_back(Instance{e, GroupId(), fusion_->result(e).index(), i, kNone, {}});
    if (g.valid()) AddHome(e, g);
  }
  SEAM_RETURN_IF_ERROR(CheckHomes());
  std::sort(partition.copies.begin(), partition.copies.end());
  for (const auto& [e, g] : partition.copies) {
    if (e.index() >= num_exprs || g.index() >= groups_.size()) {
      return absl::InvalidArgumentError("a copy of no expression or in no group");
    }
    if (!home(e).valid() || computes(g, e)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expression `", fusion_->name(fusion_->result(e)), "` is copied into group ",
                       g.index(), ", which has it, or is dead code"));
    }
    AddCopy(e, g);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].homes.size == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("group ", g, " has no expressions of its own"));
    }
  }
  for (const OrderConstraint& c : partition.order) {
    if (c.before.index() >= num_exprs || c.after.index() >= num_exprs || !home(c.before).valid() ||
        !home(c.after).valid() || c.val.index() >= fusion_->num_vals()) {
      return absl::InvalidArgumentError("an order between expressions that do not exist");
    }
  }
  order_ = std::move(partition.order);
  return absl::OkStatus();
}

absl::Status SegmentedFusion::CheckHomes() const {
  const auto check = [&](ValId v, absl::string_view who) -> absl::Status {
    const ExprId e = fusion_->definition(v);
    if (!e.valid() || home(e).valid()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("expression `",
                                                   fusion_->name(fusion_->result(e)),
                                                   "`: has no home, but ", who, " needs it"));
  };
  for (ValId v : fusion_->outputs()) SEAM_RETURN_IF_ERROR(check(v, "the caller"));
  for (uint32_t i = fusion_->num_exprs(); i-- > 0;) {
    const ExprId e(i);
    if (!home(e).valid()) continue;
    for (ValId v : fusion_->operands(e)) {
      const ExprId definition = fusion_->definition(v);
      if (!definition.valid() || home(definition).valid()) continue;
      return check(v, absl::StrCat("`", fusion_->name(fusion_->result(e)), "`"));
    }
  }
  return absl::OkStatus();
}

void SegmentedFusion::AddHome(ExprId e, GroupId g) {
  Instance& instance = instances_[e.index()];
  instance.group = g;
  instance.component = e.index();
  Group& group = groups_[g.index()];
  group.first_expr = std::min(group.first_expr, e);
  ++group.num_exprs;
  PushFront(instances_, &Instance::link, group.homes, e.index());
  for (int r = 0; r < fusion_->num_results(e); ++r) {
    slots_[instance.first_slot + r] = Slot();
    slots_[instance.first_slot + r].instance = e.index();
  }
}

uint32_t SegmentedFusion::AddCopy(ExprId e, GroupId g) {
  const uint32_t i = static_cast<uint32_t>(instances_.size());
  instances_.push_back(Instance{e, g, static_cast<uint32_t>(slots_.size()), i, kNone, {}});
  copies_.emplace(Key(g, e.index()), i);
  Group& group = groups_[g.index()];
  ++group.num_exprs;
  PushFront(instances_, &Instance::link, group.copies, i);
  for (int r = 0; r < fusion_->num_results(e); ++r) {
    is_copied_[fusion_->result(e, r).index()] = true;
    slots_.emplace_back();
    slots_.back().instance = i;
  }
  return i;
}

uint32_t SegmentedFusion::FindCopy(GroupId g, ValId v) const {
  if (!is_copied_[v.index()]) return kNone;
  const auto it = copies_.find(Key(g, fusion_->definition(v).index()));
  return it == copies_.end() ? kNone : it->second;
}

uint32_t SegmentedFusion::SlotOf(GroupId g, ValId v) const {
  const ExprId e = fusion_->definition(v);
  if (!e.valid()) return kNone;
  if (home(e) == g) return v.index();
  const uint32_t copy = FindCopy(g, v);
  if (copy == kNone) return kNone;
  return instances_[copy].first_slot + (v.index() - fusion_->result(e).index());
}

SegmentedFusion::Source SegmentedFusion::SourceOf(GroupId g, ValId v) const {
  if (const uint32_t slot = SlotOf(g, v); slot != kNone) return Source{slot, kNone};
  const EdgeId edge = data_edge(g, v);
  return Source{kNone, edge.valid() ? edge.index() : kNone};
}

EdgeId SegmentedFusion::data_edge(GroupId to, ValId v) const {
  if (places_[to.index()].in.size > kFewEdges) {
    const auto it = data_edges_.find(Key(to, v.index()));
    return it == data_edges_.end() ? EdgeId() : it->second;
  }
  for (EdgeId e : in_edges(to)) {
    if (edge(e).val == v && edge(e).kind() == EdgeKind::kData) return e;
  }
  return EdgeId();
}

void SegmentedFusion::LeadTo(GroupId g, EdgeId id) {
  edges_[id.index()].to = g;
  PushFront(edges_, &EdgeRecord::in, places_[g.index()].in, id.index());
  const auto index = [&](EdgeId e) {
    if (edge(e).kind() == EdgeKind::kData) data_edges_.emplace(Key(g, edge(e).val.index()), e);
  };
  if (is_in_table_[g.index()]) {
    index(id);
  } else if (in_edges(g).size() > kFewEdges) {
    is_in_table_[g.index()] = true;
    for (EdgeId e : in_edges(g)) index(e);
  }
}

void SegmentedFusion::LeadNowhere(EdgeId id) {
  SegmentedEdge& edge = edges_[id.index()];
  Remove(edges_, &EdgeRecord::in, places_[edge.to.index()].in, id.index());
  if (is_in_table_[edge.to.index()] && edge.kind() == EdgeKind::kData)
    data_edges_.erase(Key(edge.to, edge.val.index()));
  edge.to = GroupId();
}

EdgeId SegmentedFusion::order_edge(GroupId from, GroupId to) const {
  const auto it = order_edges_.find(Key(from, to.index()));
  return it == order_edges_.end() ? EdgeId() : it->second;
}

EdgeId SegmentedFusion::AddEdge(SegmentedEdge edge) {
  const EdgeId id(static_cast<uint32_t>(edges_.size()));
  edges_.push_back(EdgeRecord{edge, {}, {}});
  readers_.emplace_back();
  edge_states_.emplace_back();
  LeadTo(edge.to, id);
  if (edge.from.valid())
    PushFront(edges_, &EdgeRecord::out, places_[edge.from.index()].out, id.index());
  if (edge.kind() == EdgeKind::kData) {
    PushFront(readers_, &ReaderRecord::link, buffers_[edge.buffer.index()].readers, id.index());
  }
  return id;
}

// Takes the edge out of all lists; what it was stays readable, apart from where it led.
void SegmentedFusion::DropEdge(EdgeId id) {
  const SegmentedEdge edge = edges_[id.index()];
  LeadNowhere(id);
  if (edge.from.valid())
    Remove(edges_, &EdgeRecord::out, places_[edge.from.index()].out, id.index());
  if (edge.kind() == EdgeKind::kData) {
    Remove(readers_, &ReaderRecord::link, buffers_[edge.buffer.index()].readers, id.index());
    DropBufferIfUnread(edge.buffer);
  } else {
    order_edges_.erase(Key(edge.from, edge.to.index()));
  }
}

BufferId SegmentedFusion::AddBuffer(ValId v, GroupId from) {
  const BufferId id(static_cast<uint32_t>(buffers_.size()));
  buffers_.push_back(BufferRecord{{v, from, fusion_->dtype(v), false, {}, BufferId()}, {}, {}});
  if (from.valid())
    PushFront(buffers_, &BufferRecord::link, groups_[from.index()].buffers, id.index());
  return buffer_of_[v.index()] = id;
}

void SegmentedFusion::DropBufferIfUnread(BufferId id) {
  const Buffer& buffer = buffers_[id.index()];
  if (buffers_[id.index()].readers.size > 0 || is_result(buffer.val) || !buffer.from.valid())
    return;
  Remove(buffers_, &BufferRecord::link, groups_[buffer.from.index()].buffers, id.index());
  buffer_of_[buffer.val.index()] = BufferId();
}

void SegmentedFusion::FindResults() {
  is_result_.resize(fusion_->num_vals());
  for (ValId v : fusion_->outputs()) is_result_[v.index()] = true;
  std::vector<bool> is_read(fusion_->num_vals());
  for (uint32_t i = fusion_->num_exprs(); i-- > 0;) {
    const ExprId e(i);
    if (!home(e).valid()) continue;
    for (ValId v : fusion_->operands(e)) is_read[v.index()] = true;
    bool needed = false;
    for (int r = 0; r < fusion_->num_results(e); ++r) {
      const uint32_t v = fusion_->result(e, r).index();
      needed = needed || is_read[v] || is_result_[v];
    }
    if (!needed) is_result_[fusion_->result(e).index()] = true;
  }
}

void SegmentedFusion::AddBuffersOfArguments() {
  buffer_of_.resize(fusion_->num_vals());
  for (ValId v : fusion_->inputs()) AddBuffer(v, GroupId());
  for (uint32_t i = 0; i < fusion_->num_vals(); ++i) {
    const ValId v(i);
    if (is_result(v) && !buffer_of(v).valid()) AddBuffer(v, home(fusion_->definition(v)));
  }
}

// Parts of the Fusion that are made anew later take some room, too.
void SegmentedFusion::ReserveForUses(absl::Span<const uint32_t> instances,
                                     absl::Span<const Source> sources) {
  size_t num_reads = 0, num_in_table = 0, num_buffers = buffers_.size(), next = 0;
  std::vector<bool> has_buffer(fusion_->num_vals());
  std::vector<uint32_t> num_reads_of(groups_.size());
  for (uint32_t i : instances) {
    for (ValId v : fusion_->operands(instances_[i].expr)) {
      if (sources[next++].slot != kNone) continue;  // No other group computes it.
      ++num_reads;
      const uint32_t of_group = ++num_reads_of[instances_[i].group.index()];
      num_in_table += of_group == kFewEdges + 1 ? of_group : of_group > kFewEdges;
      num_buffers += !has_buffer[v.index()] && !buffer_of(v).valid();
      has_buffer[v.index()] = true;
    }
  }
  const auto with_room = [](size_t n) { return n + n / 8; };
  uses_.reserve(with_room(sources.size()));
  data_edges_.reserve(num_in_table);
  edges_.reserve(with_room(num_reads));
  readers_.reserve(with_room(num_reads));
  edge_states_.reserve(with_room(num_reads));
  buffers_.reserve(with_room(num_buffers));
}

std::vector<SegmentedFusion::Source> SegmentedFusion::AddUses(
    absl::Span<const uint32_t> instances) {
  std::vector<Source> sources;
  for (uint32_t i : instances) {
    for (ValId v : fusion_->operands(instances_[i].expr))
      sources.push_back({SlotOf(instances_[i].group, v), kNone});
  }
  if (uses_.empty()) ReserveForUses(instances, sources);
  // The table's places for reads are far apart.
  size_t next = 0, next_hint = 0, hinted = 0;
  const auto hint_at_reads = [&](uint32_t i) {
    const GroupId g = instances_[i].group;
    for (ValId v : fusion_->operands(instances_[i].expr)) {
      if (sources[next_hint++].slot == kNone) PrefetchDataEdge(g, v);
    }
  };
  constexpr size_t kAhead = 8;
  for (size_t k = 0; k < instances.size(); ++k) {
    while (hinted < instances.size() && hinted < k + kAhead) hint_at_reads(instances[hinted++]);
    const uint32_t i = instances[k];
    const GroupId g = instances_[i].group;
    const ExprId e = instances_[i].expr;
    instances_[i].first_use = static_cast<uint32_t>(uses_.size());
    for (int n = 0; n < static_cast<int>(fusion_->operands(e).size()); ++n) {
      const ValId v = fusion_->operands(e)[n];
      Source& source = sources[next++];
      if (source.slot == kNone) {
        EdgeId read = data_edge(g, v);
        if (!read.valid()) {
          const ExprId definition = fusion_->definition(v);
          const GroupId from = definition.valid() ? home(definition) : GroupId();
          const BufferId buffer = buffer_of(v).valid() ? buffer_of(v) : AddBuffer(v, from);
          read = AddEdge({from, g, v, buffer});
        }
        source.edge = read.index();
      }
      const AxisSet& exchanged = axes_->exchanged(e, n);
      SetId left = kNone;
      if (!exchanged.empty()) left = sets_.Intern(Difference(axes_->axes(v), exchanged));
      const uint32_t use = static_cast<uint32_t>(uses_.size());
      uses_.push_back(Use{i, left, kNone});
      Append(UsesOf(source), UseList{use, use, left == kNone, left != kNone});
    }
  }
  return sources;
}

void SegmentedFusion::AddOrderEdge(const OrderConstraint& c) {
  const GroupId from = home(c.before), to = home(c.after);
  if (from == to) return;
  const EdgeId next(static_cast<uint32_t>(edges_.size()));
  if (!order_edges_.try_emplace(Key(from, to.index()), next).second) return;
  AddEdge({from, to, c.val, BufferId()});
}

void SegmentedFusion::AddOrderEdges() {
  for (uint32_t i = 0; i < order_.size(); ++i) {
    AddOrderEdge(order_[i]);
    order_of_expr_.emplace_back(order_[i].before, i);
    order_of_expr_.emplace_back(order_[i].after, i);
  }
  std::sort(order_of_expr_.begin(), order_of_expr_.end());
}

// --- Look-ups ---

GroupId SegmentedFusion::survivor(GroupId g) const {
  while (!alive(g)) g = merged_into_[g.index()];
  return g;
}

std::vector<GroupId> SegmentedFusion::groups() const {
  std::vector<GroupId> list;
  list.reserve(num_groups_);
  for (uint32_t g = first_group_; g != kNone; g = groups_[g].after) list.push_back(GroupId(g));
  return list;
}

std::vector<bool> SegmentedFusion::computed() const {
  std::vector<bool> computed;
  for (uint32_t e = 0; e < fusion_->num_exprs(); ++e) computed.push_back(home(ExprId(e)).valid());
  return computed;
}

std::vector<ExprId> SegmentedFusion::ExprsOf(LinkList instances) const {
  std::vector<ExprId> list;
  list.reserve(instances.size);
  for (InstanceId i : InstancesOf(instances)) {
    list.push_back(instances_[i.index()].expr);
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<ExprId> SegmentedFusion::exprs(GroupId g) const {
  return ExprsOf(groups_[g.index()].homes);
}

std::vector<ExprId> SegmentedFusion::copies(GroupId g) const {
  return ExprsOf(groups_[g.index()].copies);
}

std::vector<ExprId> SegmentedFusion::all_exprs(GroupId g) const {
  return all_exprs(absl::MakeConstSpan(&g, 1));
}

std::vector<ExprId> SegmentedFusion::all_exprs(absl::Span<const GroupId> groups) const {
  std::vector<ExprId> list;
  for (GroupId g : groups) {
    for (const LinkList instances : {groups_[g.index()].homes, groups_[g.index()].copies}) {
      for (InstanceId i : InstancesOf(instances)) list.push_back(instances_[i.index()].expr);
    }
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

std::vector<ValId> SegmentedFusion::inputs(GroupId g) const {
  std::vector<ValId> list;
  for (EdgeId e : in_edges(g)) {
    if (edge(e).kind() == EdgeKind::kData) list.push_back(edge(e).val);
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<ValId> SegmentedFusion::outputs(GroupId g) const {
  std::vector<ValId> list;
  for (BufferId b : buffers(g)) list.push_back(buffer(b).val);
  std::sort(list.begin(), list.end());
  return list;
}

int64_t SegmentedFusion::MemoryBytes() const {
  const auto bytes = [](const auto& v) {
    return static_cast<int64_t>(v.capacity() * sizeof(v[0]));
  };
  int64_t total = bytes(groups_) + bytes(places_) + bytes(merged_into_) + bytes(instances_) +
                  bytes(edges_) + bytes(readers_) + bytes(edge_states_) + bytes(buffers_) +
                  bytes(buffer_of_) + bytes(slots_) + bytes(uses_);
  // A slot of a flat_hash_map takes its pair and a byte.
  total += static_cast<int64_t>(
      (copies_.capacity() + data_edges_.capacity() + order_edges_.capacity()) * 17);
  for (const Group& group : groups_) total += bytes(group.reductions);
  return total;
}

// --- Merging ---

GroupId SegmentedFusion::Largest(absl::Span<const GroupId> members) const {
  const auto weight = [&](GroupId g) {
    return static_cast<int64_t>(num_exprs(g)) + degree(g) + groups_[g.index()].buffers.size;
  };
  GroupId largest = members[0];
  for (GroupId g : members) {
    const int64_t difference = weight(g) - weight(largest);
    if (difference > 0 || (difference == 0 && g < largest)) largest = g;
  }
  return largest;
}

void SegmentedFusion::Internalize(EdgeId e, uint32_t slot, MergeWork& work) {
  const EdgeState& state = edge_states_[e.index()];
  work.crossing.push_back({slot, state.uses, state.downstream});
  DropEdge(e);
}

// Edges among the members go, the others lead to and from `to`, and what was read twice is read
// once.
void SegmentedFusion::MoveEdges(GroupId from, GroupId to, MergeWork& work) {
  const auto drop_inner = [&](EdgeId e) {
    if (edge(e).kind() == EdgeKind::kData) {
      Internalize(e, edge(e).val.index(), work);
    } else {
      DropEdge(e);
    }
  };
  Group& source = groups_[from.index()];
  Group& target = groups_[to.index()];
  const EdgeRange in = in_edges(from), out = out_edges(from);
  for (EdgeId e : std::vector<EdgeId>(in.begin(), in.end())) {
    SegmentedEdge& x = edges_[e.index()];
    if (x.from.valid() && IsMember(x.from)) {
      drop_inner(e);
      continue;
    }
    const bool data = x.kind() == EdgeKind::kData;
    const EdgeId kept = data ? data_edge(to, x.val) : order_edge(x.from, to);
    if (kept.valid()) {
      if (data) JoinReads(kept, e);
      DropEdge(e);
      continue;
    }
    if (data) {
      work.moved_reads.push_back(e);
    } else {
      order_edges_.erase(Key(x.from, from.index()));
      order_edges_.emplace(Key(x.from, to.index()), e);
    }
    LeadNowhere(e);
    LeadTo(to, e);
  }
  for (EdgeId e : std::vector<EdgeId>(out.begin(), out.end())) {
    SegmentedEdge& x = edges_[e.index()];
    if (IsMember(x.to)) {
      drop_inner(e);
      continue;
    }
    if (x.kind() == EdgeKind::kOrder) {
      const bool inserted = order_edges_.try_emplace(Key(to, x.to.index()), e).second;
      if (!inserted) {
        DropEdge(e);
        continue;
      }
      order_edges_.erase(Key(from, x.to.index()));
    }
    x.from = to;
    Remove(edges_, &EdgeRecord::out, places_[from.index()].out, e.index());
    PushFront(edges_, &EdgeRecord::out, places_[to.index()].out, e.index());
  }
  const auto exported = buffers(from);
  for (BufferId b : std::vector<BufferId>(exported.begin(), exported.end())) {
    buffers_[b.index()].from = to;
    Remove(buffers_, &BufferRecord::link, source.buffers, b.index());
    PushFront(buffers_, &BufferRecord::link, target.buffers, b.index());
  }
}

void SegmentedFusion::MoveInstances(GroupId from, GroupId to, MergeWork& work) {
  Group& source = groups_[from.index()];
  Group& target = groups_[to.index()];
  while (source.homes.head != kNone) {
    const uint32_t i = source.homes.head;
    Remove(instances_, &Instance::link, source.homes, i);
    PushFront(instances_, &Instance::link, target.homes, i);
    instances_[i].group = to;
    const ValId result(instances_[i].first_slot);
    if (const uint32_t copy = FindCopy(to, result); copy != kNone) {
      DropCopy(copy, i, work);
    }
  }
}

// After MoveInstances for all members.
void SegmentedFusion::MoveCopies(GroupId from, GroupId to, MergeWork& work) {
  Group& source = groups_[from.index()];
  while (source.copies.head != kNone) {
    const uint32_t i = source.copies.head;
    const ExprId e = instances_[i].expr;
    const uint32_t other = home(e) == to ? e.index() : FindCopy(to, fusion_->result(e));
    if (other != kNone) {
      DropCopy(i, other, work);
      continue;
    }
    Remove(instances_, &Instance::link, source.copies, i);
    PushFront(instances_, &Instance::link, groups_[to.index()].copies, i);
    copies_.erase(Key(from, e.index()));
    copies_.emplace(Key(to, e.index()), i);
    instances_[i].group = to;
    // What the other members read of it they have now.
    for (int r = 0; r < fusion_->num_results(e); ++r) {
      const EdgeId edge = data_edge(to, fusion_->result(e, r));
      if (edge.valid()) Internalize(edge, instances_[i].first_slot + r, work);
    }
  }
}

void SegmentedFusion::DropCopy(uint32_t copy, uint32_t instead, MergeWork& work) {
  Instance& instance = instances_[copy];
  copies_.erase(Key(instance.group, instance.expr.index()));
  Remove(instances_, &Instance::link, groups_[instance.group.index()].copies, copy);
  instance.group = GroupId();
  work.dropped.emplace_back(copy, instead);
}

GroupId SegmentedFusion::Merge(absl::Span<const GroupId> members, const Placement& placement) {
  const GroupId to = Largest(members);
  Reorder(members, to, placement);
  BeginSearch(members);
  MergeWork work;
  for (GroupId g : members) {
    if (g != to) JoinRecords(groups_[to.index()], groups_[g.index()]);
  }
  for (GroupId g : members) {
    if (g == to) continue;
    MoveEdges(g, to, work);
    MoveInstances(g, to, work);
  }
  for (GroupId g : members) {
    if (g != to) MoveCopies(g, to, work);
  }
  for (EdgeId e : work.moved_reads) {
    if (!edge_alive(e)) continue;
    const uint32_t slot = SlotOf(to, edge(e).val);
    if (slot != kNone) Internalize(e, slot, work);
  }
  SettleCrossing(to, work);
  SettleDropped(to, work);
  for (GroupId g : members) {
    if (g == to) continue;
    Group& gone = groups_[g.index()];
    gone = Group();
    merged_into_[g.index()] = to;
    --num_groups_;
  }
  return to;
}

// --- Splitting ---

std::vector<GroupId> SegmentedFusion::Replace(GroupId g, absl::Span<const GroupPart> parts) {
  // What the group was, taken off it.
  std::vector<EdgeId> in, out;
  for (EdgeId e : in_edges(g)) in.push_back(e);
  for (EdgeId e : out_edges(g)) (edge(e).kind() == EdgeKind::kData ? out : in).push_back(e);
  for (EdgeId e : in) DropEdge(e);
  for (EdgeId e : out) Remove(edges_, &EdgeRecord::out, places_[g.index()].out, e.index());
  std::vector<BufferId> exported;
  for (BufferId b : buffers(g)) exported.push_back(b);
  for (BufferId b : exported)
    Remove(buffers_, &BufferRecord::link, groups_[g.index()].buffers, b.index());
  for (ExprId e : exprs(g)) instances_[e.index()].group = GroupId();
  for (ExprId e : copies(g)) {
    const uint32_t copy = FindCopy(g, fusion_->result(e));
    instances_[copy].group = GroupId();
    copies_.erase(Key(g, e.index()));
  }
  Group emptied;
  emptied.before = groups_[g.index()].before;
  emptied.after = groups_[g.index()].after;
  groups_[g.index()] = std::move(emptied);
  // The parts, in its place.
  std::vector<GroupId> ids = {g};
  for (size_t p = 1; p < parts.size(); ++p) {
    ids.emplace_back(static_cast<uint32_t>(groups_.size()));
    groups_.emplace_back();
    places_.emplace_back();
    is_in_table_.push_back(false);
    merged_into_.push_back(ids[p]);
    PlaceBehind(ids[p - 1], ids[p]);
    ++num_groups_;
  }
  std::vector<std::pair<ExprId, uint32_t>> instances;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (ExprId e : parts[p].own) {
      AddHome(e, ids[p]);
      instances.emplace_back(e, e.index());
    }
    for (ExprId e : parts[p].copies) instances.emplace_back(e, AddCopy(e, ids[p]));
  }
  std::sort(instances.begin(), instances.end());
  std::vector<uint32_t> added;
  for (const auto& [e, i] : instances) added.push_back(i);
  for (BufferId b : exported) {
    Buffer& buffer = buffers_[b.index()];
    buffer.from = home(fusion_->definition(buffer.val));
    PushFront(buffers_, &BufferRecord::link, groups_[buffer.from.index()].buffers, b.index());
  }
  for (EdgeId e : out) {
    SegmentedEdge& x = edges_[e.index()];
    x.from = home(fusion_->definition(x.val));
    PushFront(edges_, &EdgeRecord::out, places_[x.from.index()].out, e.index());
  }
  const std::vector<Source> sources = AddUses(added);
  for (const auto& [e, i] : instances) {
    if (i != e.index()) continue;
    for (auto c = std::lower_bound(order_of_expr_.begin(), order_of_expr_.end(),
                                   std::pair<ExprId, uint32_t>(e, 0));
         c != order_of_expr_.end() && c->first == e; ++c) {
      AddOrderEdge(order_[c->second]);
    }
  }
  InitSummaries(added, sources);
  return ids;
}

}  // namespace seam
