// What a merge would make, from the borders of the groups alone.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "segmenter/segmented_fusion.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

using Keep = AxisSetTable::Keep;

template <typename K, typename V>
using Handful = absl::InlinedVector<std::pair<K, V>, 4>;

// The value of `key`, made if there is none.
template <typename K, typename V>
V& Entry(Handful<K, V>& list, K key) {
  for (auto& [k, value] : list) {
    if (k == key) return value;
  }
  return list.emplace_back(key, V()).second;
}

}  // namespace

// Reads that become inner, values that several members read, and expressions that several compute.
struct SegmentedFusion::Border {
  struct Crossing {
    EdgeId edge;
    GroupId from;   // The member that serves it,
    uint32_t slot;  // with this value.
  };
  struct Read {
    ValId val;
    EdgeId edge;   // Of a member that is not the largest.
    EdgeId other;  // By which the largest one reads the value, if it does.
    auto key() const { return std::pair(val, edge); }
  };
  struct Meeting {
    ExprId expr;
    uint32_t instance;
    friend auto operator<=>(const Meeting&, const Meeting&) = default;
  };
  absl::InlinedVector<Crossing, 8> crossing;  // By the order of the groups that serve.
  absl::InlinedVector<Read, 8> reads;         // Those of a value one after the other.
  absl::InlinedVector<Meeting, 8> meeting;    // Those of an expression one after the other.
  bool by_copies = false;  // Copies serve some: members may then serve each other.
};

SegmentedFusion::Border SegmentedFusion::BorderOf(absl::Span<const GroupId> members,
                                                  GroupId largest) const {
  const auto is_member = [&](GroupId g) {  // Nearly always of two.
    return std::find(members.begin(), members.end(), g) != members.end();
  };
  Border border;
  for (GroupId g : members) {
    if (g == largest) continue;
    for (EdgeId e : in_edges(g)) {
      if (edge(e).kind() != EdgeKind::kData) continue;
      const ValId v = edge(e).val;
      if (is_member(edge(e).from)) {
        border.crossing.push_back({e, edge(e).from, v.index()});
        continue;
      }
      const auto server = std::find_if(members.begin(), members.end(), [&](GroupId m) {
        return m != g && edge(e).from.valid() && FindCopy(m, v) != kNone;
      });
      if (server == members.end()) {
        PrefetchDataEdge(largest, v);
        border.reads.push_back({v, e, EdgeId()});
      } else {
        border.crossing.push_back({e, *server, SourceOf(*server, v).slot});
        border.by_copies = true;
      }
    }
    if (Precedes(g, largest)) {
      const bool from_g = out_edges(g).size() <= in_edges(largest).size();
      for (EdgeId e : from_g ? out_edges(g) : in_edges(largest)) {
        if (edge(e).kind() == EdgeKind::kData && edge(e).from == g && edge(e).to == largest) {
          border.crossing.push_back({e, g, edge(e).val.index()});
        }
      }
    }
    for (InstanceId i : InstancesOf(groups_[g.index()].copies)) {
      const Instance& copy = instances_[i.index()];
      for (int r = 0; r < fusion_->num_results(copy.expr); ++r) {
        const EdgeId e = data_edge(largest, fusion_->result(copy.expr, r));
        if (!e.valid() || is_member(edge(e).from)) continue;
        border.crossing.push_back({e, g, copy.first_slot + r});
        border.by_copies = true;
      }
    }
  }
  for (Border::Read& read : border.reads) read.other = data_edge(largest, read.val);
  // One that several copies could serve counts once.
  if (border.by_copies) {
    std::sort(border.crossing.begin(), border.crossing.end(), [](const auto& a, const auto& b) {
      return std::pair(a.edge, a.from) < std::pair(b.edge, b.from);
    });
    border.crossing.erase(
        std::unique(border.crossing.begin(), border.crossing.end(),
                    [](const auto& a, const auto& b) { return a.edge == b.edge; }),
        border.crossing.end());
  }
  // Of two members one serves the other, and one reads each of its values once.
  if (border.by_copies || members.size() > 2) {
    std::sort(border.crossing.begin(), border.crossing.end(), [&](const auto& a, const auto& b) {
      return std::pair(label(a.from), a.edge) < std::pair(label(b.from), b.edge);
    });
    std::sort(border.reads.begin(), border.reads.end(),
              [](const auto& a, const auto& b) { return a.key() < b.key(); });
  }
  return border;
}

// Of two members, at the cost of what the smaller one computes: one of the instances is a copy.
void SegmentedFusion::AddMeeting(GroupId a, GroupId b, Border& border) const {
  if (groups_[a.index()].num_exprs > groups_[b.index()].num_exprs) std::swap(a, b);
  const Group& small = groups_[a.index()];
  const Group& large = groups_[b.index()];
  if (small.copies.size + large.copies.size == 0) return;
  const auto meet = [&](ExprId e, uint32_t i, uint32_t other) {
    if (other == kNone) return;
    border.meeting.push_back({e, i});
    border.meeting.push_back({e, other});
  };
  for (InstanceId i : InstancesOf(small.copies)) {
    const ExprId e = instances_[i.index()].expr;
    meet(e, i.index(), home(e) == b ? e.index() : FindCopy(b, fusion_->result(e)));
  }
  if (large.copies.size <= small.homes.size) {
    for (InstanceId i : InstancesOf(large.copies)) {
      const ExprId e = instances_[i.index()].expr;
      if (home(e) == a) meet(e, e.index(), i.index());
    }
  } else {
    for (InstanceId i : InstancesOf(small.homes)) {
      const ExprId e = instances_[i.index()].expr;
      meet(e, i.index(), FindCopy(b, fusion_->result(e)));
    }
  }
}

void SegmentedFusion::FindMeeting(absl::Span<const GroupId> members, Border& border) const {
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t j = i + 1; j < members.size(); ++j) AddMeeting(members[i], members[j], border);
  }
  std::sort(border.meeting.begin(), border.meeting.end());
  border.meeting.erase(std::unique(border.meeting.begin(), border.meeting.end()),
                       border.meeting.end());
}

// As ReadBytes of traffic.h, of all these edges in one kernel.
int64_t SegmentedFusion::ReadBytes(ValId v, absl::Span<const EdgeId> edges,
                                   absl::Span<const int64_t> val_bytes) const {
  const int64_t whole = val_bytes[v.index()];
  if (!facts_.is_read_in_part[v.index()]) return whole;
  absl::InlinedVector<ExprId, 8> parts;
  for (EdgeId e : edges) {
    const bool in_part = AllReads(e, [&](ExprId reader, int i) {
      parts.push_back(reader);
      return ReadsInPart(*fusion_, reader, i);
    });
    if (!in_part) return whole;
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  int64_t bytes = 0;
  for (ExprId e : parts) bytes = SaturatingAdd(bytes, val_bytes[fusion_->result(e).index()]);
  return std::min(bytes, whole);
}

SegmentedFusion::Saving SegmentedFusion::SavingOf(const Border& border,
                                                  absl::Span<const int64_t> val_bytes) const {
  Saving saving;
  const auto save = [&](int64_t bytes, int tensors) {
    saving.bytes = SaturatingAdd(saving.bytes, bytes);
    saving.tensors += tensors;
  };
  absl::InlinedVector<EdgeId, 4> edges;
  for (size_t i = 0; i < border.reads.size();) {
    const ValId v = border.reads[i].val;
    edges.clear();
    if (border.reads[i].other.valid()) edges.push_back(border.reads[i].other);
    for (; i < border.reads.size() && border.reads[i].val == v; ++i)
      edges.push_back(border.reads[i].edge);
    if (edges.size() == 1) continue;
    for (EdgeId e : edges) save(ReadBytes(v, {e}, val_bytes), 1);
    save(-ReadBytes(v, edges, val_bytes), -1);
  }
  absl::InlinedVector<std::pair<BufferId, ValId>, 8> inner;  // Of all reads that go.
  for (const Border::Crossing& c : border.crossing) {
    inner.emplace_back(edge(c.edge).buffer, edge(c.edge).val);
    save(ReadBytes(edge(c.edge).val, {c.edge}, val_bytes), 1);
  }
  std::sort(inner.begin(), inner.end());
  for (auto first = inner.begin(); first != inner.end();) {
    const auto end = std::upper_bound(first, inner.end(), *first);
    if (end - first == readers(first->first).size() && !is_result(first->second))
      save(val_bytes[first->second.index()], 1);
    first = end;
  }
  return saving;
}

// Components that meet, as a union-find over their representatives.
void SegmentedFusion::JoinComponents(const Border& border, Group& joined) {
  Handful<uint64_t, uint64_t> parents;
  const auto connect = [&](uint64_t a, uint64_t b) {
    const auto find = [&](uint64_t& c) {
      for (auto it = parents.begin(); it != parents.end();) {
        if (it->first == c) {
          c = it->second;
          it = parents.begin();
        } else {
          ++it;
        }
      }
    };
    find(a);
    find(b);
    if (a == b) return;
    parents.emplace_back(a, b);
    --joined.components;
  };
  // Of most groups, which are one component, no instance needs to be looked at.
  const auto component = [&](GroupId g, const auto& instance) -> uint64_t {
    return groups_[g.index()].components == 1 ? Key(g, kNone) : Component(instance());
  };
  const auto of_use = [&](EdgeId e, const auto& use) {
    return component(edge(e).to, [&] { return uses_[use()].instance; });
  };
  const auto reader = [&](EdgeId e) {
    return of_use(e, [&] { return edge_states_[e.index()].uses.head; });
  };
  for (const Border::Crossing& c : border.crossing) {
    if (joined.components <= 1) return;
    const ValId v = edge(c.edge).val;
    if (facts_.weightless[v.index()]) continue;
    const uint64_t server = component(c.from, [&] { return slots_[c.slot].instance; });
    connect(server, reader(c.edge));
    if (facts_.connects_readers[v.index()]) continue;
    const UseList& uses = edge_states_[c.edge.index()].uses;
    for (uint32_t u = uses.head; u != uses.tail;) {
      u = uses_[u].next;
      connect(server, of_use(c.edge, [&] { return u; }));
    }
  }
  for (size_t i = 0; i < border.reads.size() && joined.components > 1; ++i) {
    const auto [v, e, other] = border.reads[i];
    if (!facts_.connects_readers[v.index()]) continue;
    if (i + 1 < border.reads.size() && border.reads[i + 1].val == v) {
      connect(reader(e), reader(border.reads[i + 1].edge));
    }
    if (other.valid()) connect(reader(e), reader(other));
  }
  for (size_t i = 1; i < border.meeting.size() && joined.components > 1; ++i) {
    const auto [e, instance] = border.meeting[i];
    const auto [last, other] = border.meeting[i - 1];
    if (e != last || facts_.weightless[fusion_->result(e).index()]) continue;
    const auto of_instance = [&](uint32_t n) {
      return component(instances_[n].group, [&] { return n; });
    };
    connect(of_instance(instance), of_instance(other));
  }
}

// Of what is computed several times one computation stays.
void SegmentedFusion::JoinMeeting(const Border& border, Group& joined) const {
  for (size_t i = 1; i < border.meeting.size(); ++i) {
    if (border.meeting[i].expr != border.meeting[i - 1].expr) continue;
    --joined.num_exprs;
    if (reduces(border.meeting[i].expr)) --joined.num_reductions;
  }
}

// Maps under which values are read then: those that cross, those that several members compute, and
// what their computations read, all but one of which are no more.
void SegmentedFusion::JoinMaps(const Border& border, Group& joined) const {
  struct Reads {
    ValId val;
    uint32_t slot;  // Of a member that computes it, or kNone.
    int plain, exchanged;
    auto key() const { return std::pair(val, slot); }
  };
  absl::InlinedVector<Reads, 8> all;
  const auto add = [&](ValId v, uint32_t slot, int plain, int exchanged) {
    if (!facts_.is_read_of_source[v.index()]) all.push_back({v, slot, plain, exchanged});
  };
  for (const Border::Crossing& c : border.crossing) {
    const UseList& uses = edge_states_[c.edge.index()].uses;
    add(edge(c.edge).val, c.slot, static_cast<int>(uses.plain), static_cast<int>(uses.exchanged));
  }
  for (size_t i = 0; i < border.meeting.size(); ++i) {
    const auto [e, instance] = border.meeting[i];
    for (int r = 0; r < fusion_->num_results(e); ++r)
      add(fusion_->result(e, r), instances_[instance].first_slot + static_cast<uint32_t>(r), 0, 0);
    if (i == 0 || border.meeting[i - 1].expr != e) continue;
    for (int n = 0; n < static_cast<int>(fusion_->operands(e).size()); ++n) {
      const bool plain = axes_->exchanged(e, n).empty();
      add(fusion_->operands(e)[n], kNone, plain ? -1 : 0, plain ? 0 : -1);
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Reads& a, const Reads& b) { return a.key() < b.key(); });
  for (size_t i = 0; i < all.size();) {
    const ValId v = all[i].val;
    UseList uses;
    bool computed = false;
    for (uint32_t last = kNone; i < all.size() && all[i].val == v; ++i) {
      const uint32_t slot = all[i].slot;
      uses.plain += static_cast<uint32_t>(all[i].plain);
      uses.exchanged += static_cast<uint32_t>(all[i].exchanged);
      if (slot == kNone || slot == std::exchange(last, slot)) continue;
      const UseList& known = slots_[slot].uses;
      joined.recompute_log -= RecomputeLog(known.num_maps());
      uses.plain += known.plain;
      uses.exchanged += known.exchanged;
      computed = true;
    }
    if (computed) joined.recompute_log += RecomputeLog(uses.num_maps());
  }
}

// Sets that become held where values cross. In a row of three or more, what enters a group in the
// middle is taken to reach all that leaves it. Returns whether that was not needed.
bool SegmentedFusion::JoinHeld(const Border& border, Group& joined) {
  Handful<GroupId, FamilyId> entering;
  Handful<GroupId, Downstream> leaving;
  const auto above = [&](const Border::Crossing& c) {
    return sets_.Union(slots_[c.slot].upstream, Entry(entering, c.from), Keep::kMinimal);
  };
  const auto below = [&](const Border::Crossing& c) {
    return Join(edge_states_[c.edge.index()].downstream, Entry(leaving, edge(c.edge).to));
  };
  bool exact = true;
  // One that serves all the others is in no middle.
  bool changed = !border.crossing.empty() &&
                 (border.by_copies || border.crossing.front().from != border.crossing.back().from);
  while (changed) {
    changed = false;
    for (size_t i = border.crossing.size(); i-- > 0;) {
      const Border::Crossing& c = border.crossing[i];
      const Downstream more = below(c);
      exact &= more == edge_states_[c.edge.index()].downstream;
      Downstream& all = Entry(leaving, c.from);
      changed |= !(std::exchange(all, Join(all, more)) == all);
    }
    for (const Border::Crossing& c : border.crossing) {
      exact &= Entry(entering, c.from) == AxisSetTable::kNoSets;
      const FamilyId more = above(c);
      FamilyId& all = Entry(entering, edge(c.edge).to);
      const FamilyId known = std::exchange(all, sets_.Union(all, more, Keep::kMinimal));
      changed |= known != all;
    }
    changed &= border.by_copies;  // Else the order of the groups has made one round enough.
  }
  for (const Border::Crossing& c : border.crossing) {
    const FamilyId upstream = above(c);
    if (upstream == AxisSetTable::kNoSets) continue;
    const Downstream downstream = below(c);
    const std::vector<SetId> sets = sets_.members(upstream);
    for (SetId k : sets) {
      if (downstream.reduces || !sets_.IsSubset(downstream.axes, k)) AddHeld(joined, k);
    }
    joined.held = sets_.Union(joined.held, downstream.exchanges, Keep::kMinimal);
  }
  return exact;
}

GroupId SegmentedFusion::LargestBorder(absl::Span<const GroupId> members) const {
  return *std::max_element(members.begin(), members.end(), [&](GroupId a, GroupId b) {
    return std::pair(degree(a), b) < std::pair(degree(b), a);
  });
}

int64_t SegmentedFusion::SavedBytes(absl::Span<const GroupId> members,
                                    absl::Span<const int64_t> val_bytes) const {
  const GroupId largest = LargestBorder(members);
  return SavingOf(BorderOf(members, largest), val_bytes).bytes;
}

GroupSummary SegmentedFusion::Outline(absl::Span<const GroupId> members) {
  GroupSummary s;
  for (GroupId g : members) {
    const Group& group = groups_[g.index()];
    s.num_exprs += static_cast<int>(group.homes.size);
    s.library |= group.library;
    s.barrier |= group.barrier;
  }
  const auto held = [&](GroupId g) { return groups_[g.index()].held; };
  const bool hold_alike = std::all_of(members.begin(), members.end(), [&](GroupId g) {
    return held(g) == AxisSetTable::kNoSets || held(g) == held(members[0]);
  });
  if (hold_alike || s.library || s.barrier) return s;
  Group joined;
  for (GroupId g : members) JoinRecords(joined, groups_[g.index()]);
  const int num_exprs = s.num_exprs;
  s = Expand(joined);
  s.num_exprs = num_exprs;
  s.connected = true;
  s.recompute_factor = 1;
  return s;
}

MergeEstimate SegmentedFusion::Estimate(absl::Span<const GroupId> members,
                                        absl::Span<const int64_t> val_bytes) {
  const GroupId largest = LargestBorder(members);
  Border border = BorderOf(members, largest);
  FindMeeting(members, border);
  Group joined;
  for (GroupId g : members) JoinRecords(joined, groups_[g.index()]);
  JoinMeeting(border, joined);
  JoinComponents(border, joined);
  JoinMaps(border, joined);
  MergeEstimate estimate;
  estimate.exact = JoinHeld(border, joined);
  const Saving saving = SavingOf(border, val_bytes);
  estimate.saved_bytes = saving.bytes;
  estimate.summary = Expand(joined);
  for (GroupId g : members) estimate.summary.num_tensors += num_tensors(g);
  estimate.summary.num_tensors -= saving.tensors;
  return estimate;
}

}  // namespace seam
