// SegmentedFusion: a Fusion partitioned into groups that are joined by explicit edges.
//
// A group has home expressions (an expression has exactly one home, or none as dead code) and
// copies: expressions whose home is elsewhere or here no more, which it computes for itself. A
// Buffer is one value in memory: a fusion input, or what a group exports because another group or
// the caller reads it, or because it ends dead code that has a home. A SegmentedEdge is one group
// that reads one buffer (kind data), or a group that must run after another (kind order). A value
// with three reading groups has one buffer and three edges, and stays an output of its group until
// the last of them has merged in.
//
// Invariants (VerifySegmentation in segmenter/verify.h checks them from scratch):
//  - an expression that an output or an expression with a home depends on has a home;
//  - a group reads a value through an edge if and only if an expression of it reads the value and
//    none computes it;
//  - a buffer of a group exists if and only if it has an edge or its value is a result (is_result);
//  - groups and edges form no cycle, and the order of the groups is topological;
//  - summary(g) equals what Summarize says of the group's expressions.
//
// Ids are stable under Merge: the joined group has the id of its largest member, the others are no
// more. Replace makes one group several, and gives it copies. All merges together take O(E log E)
// for E edges and instances, searches for cycles apart. Thread-safety: const functions may be
// called from many threads. The Fusion must outlive it and stay where it is.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "segmenter/axis_set_table.h"
#include "segmenter/crossing_types.h"
#include "segmenter/guard.h"
#include "segmenter/intrusive_list.h"
#include "segmenter/summary.h"

namespace seam {

using GroupId = Id<struct GroupTag>;
using EdgeId = Id<struct EdgeTag>;
using BufferId = Id<struct BufferTag>;

struct Buffer {
  ValId val;
  GroupId from;              // Invalid for a fusion input.
  DType dtype = DType::F32;  // In memory: the value's own, or the narrower one in which it crosses.
  bool rounds = false;       // A narrower one rounds the value, and so what its readers compute.
  AxisVector order;          // Dimensions from the outermost in memory; empty for row-major.
  BufferId alias_of;         // The buffer whose memory it shares, if any.
};

enum class EdgeKind : uint8_t { kData, kOrder };

struct SegmentedEdge {
  GroupId from;  // Invalid when a fusion input is read.
  GroupId to;
  ValId val;
  BufferId buffer;  // Invalid for kind order.
  EdgeKind kind() const { return buffer.valid() ? EdgeKind::kData : EdgeKind::kOrder; }
};

// Every group that has `after` must run after the group that has `before`, because of `val`.
struct OrderConstraint {
  ExprId before, after;
  ValId val;
};

// What a SegmentedFusion is made from.
struct Partition {
  uint32_t num_groups = 0;
  std::vector<GroupId> home;  // Per expression; invalid for dead code that is left out.
  std::vector<std::pair<ExprId, GroupId>> copies;
  std::vector<OrderConstraint> order;
};

// What a group is made of: expressions of its own, and those that it computes as well.
struct GroupPart {
  std::vector<ExprId> own, copies;
};

// Where in the topological order a joined group can stand, and what has to make room for it.
struct Placement {
  bool at_last = false;  // At the place of the last member, else of the first.
  std::vector<GroupId>
      moved;  // Groups to move right behind it (at_last) or right before it, in order.
};

enum class Convexity : uint8_t { kConvex, kNotConvex, kBudget };

// What a merge would make, without making it.
struct MergeEstimate {
  GroupSummary summary;
  // Whether `summary` is exact. Otherwise (three or more groups in a row) it may hold too many sets
  // in `held`.
  bool exact = true;
  int64_t saved_bytes = 0;  // Of device memory traffic.
};

class SegmentedFusion {
  struct alignas(32) EdgeRecord : SegmentedEdge {  // In a cache line, as searches follow edges.
    Link in, out;                                  // In the lists of the groups.
  };
  struct ReaderRecord {  // Of an edge.
    Link link;           // In the list of the buffer.
  };
  struct BufferRecord : Buffer {
    Link link;         // In the list of its group.
    LinkList readers;  // Its edges.
  };

 public:
  // Errors: kInvalidArgument for a home that does not exist, an expression without one that is
  // needed, a copy of what the group has already, groups without expressions, and groups that
  // depend on each other in a cycle.
  static absl::StatusOr<SegmentedFusion> Create(const Fusion& fusion,
                                                std::shared_ptr<const AxisMap> axes,
                                                Partition partition);

  const Fusion& fusion() const { return *fusion_; }
  const AxisMap& axes() const { return *axes_; }
  const std::shared_ptr<const AxisMap>& shared_axes() const { return axes_; }
  const ValueFacts& facts() const { return facts_; }
  absl::Span<const OrderConstraint> order_constraints() const { return order_; }

  // Groups. Lists come sorted by id and are made on demand.
  uint32_t num_groups() const { return num_groups_; }
  uint32_t group_limit() const {
    return static_cast<uint32_t>(groups_.size());
  }  // Ids are below it.
  bool alive(GroupId g) const { return merged_into_[g.index()] == g; }
  GroupId survivor(GroupId g) const;    // The group into which `g` was merged, or `g`.
  std::vector<GroupId> groups() const;  // In topological order.
  bool Precedes(GroupId a, GroupId b) const { return label(a) < label(b); }  // In that order.
  GroupId home(ExprId e) const { return instances_[e.index()].group; }       // Invalid if left out.
  std::vector<bool> computed() const;  // Per expression: whether it has a home.
  // Whether `v` is written though no group may read it: the Fusion returns it, or it is the first
  // result of an expression with a home of which nothing is returned or read (an end of dead code).
  bool is_result(ValId v) const { return is_result_[v.index()]; }
  std::vector<ExprId> exprs(GroupId g) const;  // At home in `g`.
  // Whether `f` holds of all expressions at home in `g`; asked in no order, up to one of which it
  // does not.
  template <typename F>
  bool AllExprs(GroupId g, F f) const {
    for (InstanceId i : InstancesOf(groups_[g.index()].homes)) {
      if (!f(instances_[i.index()].expr)) return false;
    }
    return true;
  }
  std::vector<ExprId> copies(GroupId g) const;
  std::vector<ExprId> all_exprs(GroupId g) const;  // Both.
  // Of all these groups, each once.
  std::vector<ExprId> all_exprs(absl::Span<const GroupId> groups) const;
  int num_exprs(GroupId g) const { return groups_[g.index()].num_exprs; }
  ExprId first_expr(GroupId g) const {
    return groups_[g.index()].first_expr;
  }  // The lowest of its own.
  std::vector<ValId> inputs(GroupId g) const;
  std::vector<ValId> outputs(GroupId g) const;
  bool computes(GroupId g, ExprId e) const {
    return home(e) == g || FindCopy(g, fusion_->result(e)) != kNone;
  }
  GroupSummary summary(GroupId g) const;
  // Equal numbers for groups with equal GroupSummary::spaces.
  uint32_t spaces_key(GroupId g) const { return groups_[g.index()].spaces; }
  SchedulerKind scheduler(GroupId g) const { return groups_[g.index()].scheduler; }
  void set_scheduler(GroupId g, SchedulerKind s) { groups_[g.index()].scheduler = s; }

  // Edges and buffers. Ids of dropped ones are not used again.
  uint32_t edge_limit() const { return static_cast<uint32_t>(edges_.size()); }
  const SegmentedEdge& edge(EdgeId e) const { return edges_[e.index()]; }
  bool edge_alive(EdgeId e) const { return edges_[e.index()].to.valid(); }
  const Buffer& buffer(BufferId b) const { return buffers_[b.index()]; }
  void set_buffer_order(BufferId b, AxisVector order) {
    buffers_[b.index()].order = std::move(order);
  }
  void set_buffer_type(BufferId b, DType dtype, bool rounds) {
    buffers_[b.index()].dtype = dtype;
    buffers_[b.index()].rounds = rounds;
  }
  // By which rule the buffers between groups got their types.
  Narrowing narrowing() const { return narrowing_; }
  void set_narrowing(Narrowing narrowing) { narrowing_ = narrowing; }
  BufferId buffer_of(ValId v) const {
    return buffer_of_[v.index()];
  }                                             // Invalid for an internal value.
  EdgeId data_edge(GroupId to, ValId v) const;  // Invalid if there is none.
  // Calls `f` with every expression of the reading group that reads the value of a data edge, and
  // as which operand.
  template <typename F>
  void ForEachRead(EdgeId e, F f) const {
    AllReads(e, [&](ExprId reader, int i) {
      f(reader, i);
      return true;
    });
  }
  // Whether `f` holds of all of them; asks no more than it takes to know.
  template <typename F>
  bool AllReads(EdgeId e, F f) const {
    const UseList& uses = edge_states_[e.index()].uses;
    for (uint32_t u = uses.head; u != kNone; u = u == uses.tail ? kNone : uses_[u].next) {
      const Instance& instance = instances_[uses_[u].instance];
      if (instance.group.valid() && !f(instance.expr, static_cast<int>(u - instance.first_use)))
        return false;
    }
    return true;
  }
  using EdgeRange = IdRange<EdgeId, EdgeRecord>;
  using out_edge_iterator =
      EdgeRange::iterator;  // Boost's transitive_reduction asks the graph itself for it.
  EdgeRange in_edges(GroupId g) const { return {&edges_, &EdgeRecord::in, places_[g.index()].in}; }
  EdgeRange out_edges(GroupId g) const {
    return {&edges_, &EdgeRecord::out, places_[g.index()].out};
  }
  IdRange<EdgeId, ReaderRecord> readers(BufferId b) const {
    return {&readers_, &ReaderRecord::link, buffers_[b.index()].readers};
  }
  IdRange<BufferId, BufferRecord> buffers(GroupId g) const {
    return {&buffers_, &BufferRecord::link, groups_[g.index()].buffers};
  }
  // Values that the group reads or writes, at most.
  int num_tensors(GroupId g) const {
    return static_cast<int>(in_edges(g).size() + buffers(g).size());
  }
  uint32_t degree(GroupId g) const {
    return places_[g.index()].in.size + places_[g.index()].out.size;
  }

  // Has what a look at a group and at its edges begins with brought near, ahead of it.
  void PrefetchGroup(GroupId g) const {
    __builtin_prefetch(&places_[g.index()]);
    __builtin_prefetch(&groups_[g.index()]);
  }
  void PrefetchEdges(GroupId g) const {
    const Place& place = places_[g.index()];
    for (const LinkList& list : {place.in, place.out}) {
      if (list.head != kNone) __builtin_prefetch(&edges_[list.head]);
    }
  }

  // Whether no path leaves the members and returns to them, looking at most at `max_edges` edges.
  Convexity CheckConvex(absl::Span<const GroupId> members, int max_edges, Placement* placement);
  // `a`, `b` and all groups on paths from `a` to `b`; empty if there are more than `max_groups` of
  // them or finding them takes more than `max_edges` edges.
  std::vector<GroupId> Closure(GroupId a, GroupId b, int max_groups, int max_edges);

  // What a group of these members would be whatever flows between them: `library`, `barrier`, and
  // as num_exprs the least that it could have. Where members hold different sets, also `spaces`,
  // `kept`, `reductions`, and as `held` those; the rest says nothing.
  GroupSummary Outline(absl::Span<const GroupId> members);

  // `val_bytes`: per value, what reading or writing it costs. Time in the border of all but the
  // largest member, and where there are copies, in the expressions of the smaller of two members.
  MergeEstimate Estimate(absl::Span<const GroupId> members, absl::Span<const int64_t> val_bytes);

  // saved_bytes of the estimate alone.
  int64_t SavedBytes(absl::Span<const GroupId> members, absl::Span<const int64_t> val_bytes) const;

  // Makes one group of the members, which CheckConvex found convex with this placement. Returns its
  // id.
  GroupId Merge(absl::Span<const GroupId> members, const Placement& placement);

  // Makes the group anew as these parts, in an order in which they can run, and together without
  // a cycle. Each of the group's own expressions is a part's own, and every part has some. Returns
  // the parts' ids, of which the first is `g`. Linear in the group.
  std::vector<GroupId> Replace(GroupId g, absl::Span<const GroupPart> parts);

  int64_t MemoryBytes() const;  // Without the Fusion and the AxisMap.

 private:
  static constexpr uint32_t kNone = kNoLink;
  static constexpr uint32_t kFewEdges = 4;  // To search for one of them.
  using SetId = AxisSetTable::SetId;
  using FamilyId = AxisSetTable::FamilyId;

  using InstanceId = Id<struct InstanceTag>;
  // One computation of an expression in a group. Those of the homes have the expressions' indices.
  struct Instance {
    ExprId expr;
    GroupId group;        // Invalid if left out, and for a copy that gave way to another instance.
    uint32_t first_slot;  // Of its first result.
    uint32_t component;   // Union-find of what is connected within a group.
    uint32_t first_use = kNone;  // Its uses are consecutive, one an operand.
    Link link;                   // In the list of homes or of copies of its group.
  };
  struct Use {  // An operand of an instance.
    uint32_t instance;
    SetId exchange;  // What the exchange leaves of the operand's axes; kNone where it is none.
    uint32_t next;
  };
  struct UseList {
    uint32_t head = kNone, tail = kNone;
    uint32_t plain = 0, exchanged = 0;
    uint32_t num_maps() const { return exchanged + (plain > 0 ? 1 : 0); }
  };
  // What is downstream of a value in a group.
  struct Downstream {
    SetId axes = AxisSetTable::kNoAxes;
    FamilyId exchanges = AxisSetTable::kNoSets;  // What they leave, the minimal ones.
    bool reduces = false;
    friend bool operator==(const Downstream&, const Downstream&) = default;
  };
  struct Slot {  // A value that an instance computes.
    FamilyId upstream =
        AxisSetTable::kNoSets;  // Minimal kept sets of the reductions upstream in the group.
    Downstream downstream;
    UseList uses;  // In the group.
    uint32_t instance = kNone;
  };
  struct EdgeState {  // A value that a group reads.
    Downstream downstream;
    UseList uses;
  };
  struct Source {  // Where an instance finds an operand: a slot of its group, or an edge.
    uint32_t slot = kNone;
    uint32_t edge = kNone;
  };
  struct Group {
    LinkList homes, copies, buffers;
    FamilyId spaces = AxisSetTable::kNoSets, held = AxisSetTable::kNoSets,
             kept = AxisSetTable::kNoSets;
    int num_exprs = 0, num_reductions = 0, components = 0;
    bool views_only = true, moves = false, turns = false, library = false, barrier = false;
    SchedulerKind scheduler = SchedulerKind::kNone;
    int64_t recompute_log = 0;
    ExprId first_expr;
    std::vector<ExprId> reductions;          // The first ones.
    uint32_t before = kNone, after = kNone;  // In that order.
  };
  struct alignas(32) Place {  // Of a group; what a search through the graph looks at.
    uint64_t label = 0;       // Ascending in the order of the groups.
    LinkList in, out;         // Its edges.
    // The numbers of the last searches that came by. One more in `forward`: a member there.
    uint32_t forward = 0, backward = 0;
  };
  struct MergeWork {   // What a merge has moved and the summaries have not seen yet.
    struct Crossing {  // Uses that a slot serves now, and what was downstream of the edge that they
                       // had.
      uint32_t slot;
      UseList uses;
      Downstream downstream;
    };
    std::vector<Crossing> crossing;
    std::vector<std::pair<uint32_t, uint32_t>>
        dropped;                      // (copy, the instance that serves its readers).
    std::vector<EdgeId> moved_reads;  // Data edges that lead to the joined group since.
  };

  SegmentedFusion(const Fusion& fusion, std::shared_ptr<const AxisMap> axes)
      : fusion_(&fusion), axes_(std::move(axes)), sets_(axes_->sets()) {}

  // Construction, of everything or (those that take instances, operands before users) of groups
  // that Replace makes anew.
  absl::Status AddInstances(Partition partition);
  absl::Status CheckHomes() const;
  void AddHome(ExprId e, GroupId g);
  uint32_t AddCopy(ExprId e, GroupId g);
  void FindResults();
  void AddBuffersOfArguments();
  void ReserveForUses(absl::Span<const uint32_t> instances, absl::Span<const Source> sources);
  // Returns where the operands of all of them are found.
  std::vector<Source> AddUses(absl::Span<const uint32_t> instances);
  void AddOrderEdge(const OrderConstraint& constraint);
  void AddOrderEdges();
  absl::Status SortGroups();
  void InitSummaries(absl::Span<const uint32_t> instances, absl::Span<const Source> sources);

  // Numbers of the AxisMap are those of sets_.
  SetId space(ExprId e) const { return axes_->space_number(e); }
  SetId kept(ExprId e) const { return axes_->axes_number(fusion_->result(e)); }
  bool reduces(ExprId e) const { return IsReduction(fusion_->info(e).op_class); }
  uint64_t label(GroupId g) const { return places_[g.index()].label; }
  static uint64_t Key(GroupId g, uint32_t i) { return uint64_t{g.index()} << 32 | i; }
  uint32_t FindCopy(GroupId g, ValId v) const;  // The instance of its definition, or kNone.
  uint32_t SlotOf(GroupId g, ValId v) const;    // Where the group computes it, or kNone.
  Source SourceOf(GroupId g, ValId v) const;
  ValId SlotValue(uint32_t slot) const;
  UseList& UsesOf(Source s) {
    return s.slot != kNone ? slots_[s.slot].uses : edge_states_[s.edge].uses;
  }
  Downstream& DownstreamOf(Source s) {
    return s.slot != kNone ? slots_[s.slot].downstream : edge_states_[s.edge].downstream;
  }
  void PrefetchDataEdge(GroupId to, ValId v) const {
    if (places_[to.index()].in.size > kFewEdges) data_edges_.prefetch(Key(to, v.index()));
  }
  EdgeId order_edge(GroupId from, GroupId to) const;  // Invalid if there is none.
  EdgeId AddEdge(SegmentedEdge edge);                 // order_edges_ knows it.
  // Puts an edge into the list of what leads to `g`, or takes it out of its list, and keeps
  // data_edges_.
  void LeadTo(GroupId g, EdgeId edge);
  void LeadNowhere(EdgeId edge);
  void DropEdge(EdgeId e);
  BufferId AddBuffer(ValId v, GroupId from);
  void DropBufferIfUnread(BufferId b);

  // Merging (segmented_fusion.cc) and its effects on the summaries (dataflow.cc).
  GroupId Largest(absl::Span<const GroupId> members) const;
  IdRange<InstanceId, Instance> InstancesOf(LinkList list) const {
    return {&instances_, &Instance::link, list};
  }
  std::vector<ExprId> ExprsOf(LinkList instances) const;
  void MoveEdges(GroupId from, GroupId to, MergeWork& work);
  void MoveInstances(GroupId from, GroupId to, MergeWork& work);
  void MoveCopies(GroupId from, GroupId to, MergeWork& work);
  void DropCopy(uint32_t copy, uint32_t instead, MergeWork& work);
  void Internalize(EdgeId e, uint32_t slot, MergeWork& work);
  void JoinReads(EdgeId kept, EdgeId dropped);
  void JoinRecords(Group& to, const Group& from);
  void SettleCrossing(GroupId g, MergeWork& work);
  void SettleDropped(GroupId g, MergeWork& work);
  void Append(UseList& to, const UseList& from);
  void AddReaders(Group& group, uint32_t slot, const UseList& more);
  void ServeReaders(GroupId g, uint32_t slot, const UseList& readers, const Downstream& downstream);
  Downstream Join(const Downstream& a, const Downstream& b);
  Downstream DownstreamOfUse(const Use& use);
  void AddUpstream(Group& group, uint32_t slot, FamilyId upstream);
  void PassUpstream(Group& group, const UseList& uses, FamilyId upstream,
                    std::vector<std::pair<uint32_t, FamilyId>>& work);
  void AddDownstream(GroupId g, Source at, const Downstream& more);
  void AddHeld(Group& group, SetId set) {
    group.held = sets_.Union(group.held, sets_.Family(set), AxisSetTable::Keep::kMinimal);
  }
  uint32_t Component(uint32_t instance);
  void Connect(Group& group, uint32_t a, uint32_t b);
  GroupSummary Expand(const Group& record) const;

  // Estimates (estimate.cc). `joined` is the record of the joined group in the making.
  struct Border;
  GroupId LargestBorder(absl::Span<const GroupId> members) const;
  Border BorderOf(absl::Span<const GroupId> members, GroupId largest) const;
  void AddMeeting(GroupId a, GroupId b, Border& border) const;
  void FindMeeting(absl::Span<const GroupId> members, Border& border) const;
  // Reads and writes that a merge makes superfluous.
  struct Saving {
    int64_t bytes = 0;
    int tensors = 0;
  };
  Saving SavingOf(const Border& border, absl::Span<const int64_t> val_bytes) const;
  int64_t ReadBytes(ValId v, absl::Span<const EdgeId> edges,
                    absl::Span<const int64_t> val_bytes) const;
  void JoinMeeting(const Border& border, Group& joined) const;
  void JoinComponents(const Border& border, Group& joined);
  void JoinMaps(const Border& border, Group& joined) const;
  bool JoinHeld(const Border& border, Group& joined);

  // The order of the groups (group_order.cc).
  void BeginSearch(absl::Span<const GroupId> members) {
    search_ += 2;
    for (GroupId g : members) places_[g.index()].forward = search_ + 1;
  }
  bool IsMember(GroupId g) const { return places_[g.index()].forward == search_ + 1; }
  void Reorder(absl::Span<const GroupId> members, GroupId joined, const Placement& placement);
  void Unlink(GroupId g);
  void PlaceBehind(GroupId where, GroupId g);
  void PlaceBefore(GroupId where, GroupId g);
  void SetLabelBetween(GroupId g);

  const Fusion* fusion_;
  std::shared_ptr<const AxisMap> axes_;
  ValueFacts facts_;
  Narrowing narrowing_ = Narrowing::kOff;
  std::vector<OrderConstraint> order_;
  std::vector<std::pair<ExprId, uint32_t>>
      order_of_expr_;  // Indices in order_ of either end's; sorted.

  std::vector<Group> groups_;
  std::vector<Place> places_;         // Per group.
  std::vector<GroupId> merged_into_;  // Per group: itself, or the one that it was merged into.
  uint32_t num_groups_ = 0;
  uint32_t first_group_ = kNone;  // In topological order.

  std::vector<Instance> instances_;
  std::vector<bool> is_result_;                     // Per value.
  std::vector<bool> is_copied_;                     // Per value: copies of it exist or existed.
  absl::flat_hash_map<uint64_t, uint32_t> copies_;  // (group, expression) to instance.
  std::vector<EdgeRecord> edges_;
  std::vector<ReaderRecord> readers_;  // Per edge.
  std::vector<EdgeState> edge_states_;
  // (group, value), of groups to which more than a few edges have led. Those of the others are
  // found in their lists.
  absl::flat_hash_map<uint64_t, EdgeId> data_edges_;
  std::vector<bool> is_in_table_;                      // Per group.
  absl::flat_hash_map<uint64_t, EdgeId> order_edges_;  // (from, to).
  std::vector<BufferRecord> buffers_;
  std::vector<BufferId> buffer_of_;  // Per value.

  AxisSetTable sets_;
  std::vector<Slot> slots_;
  std::vector<Use> uses_;

  uint32_t search_ = 0;  // The number of the last search, even.
};

}  // namespace seam
