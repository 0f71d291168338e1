// Merger: tries merges for the passes: asks the guard, looks for cycles, remembers refusals, keeps
// the log.
//
// A refusal by the rule of legality is permanent and inherited: with axes that are the same for the
// whole Fusion, what contains a refused set is refused too. `unconnected`, `unsupported` (another
// scheduler may take a larger group), `no-common-axis` (once nobody else reads what lies across),
// `slower` and a path that leaves and returns can be cured by a later merge.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "segmenter/refusals.h"
#include "segmenter/segment.h"

namespace seam {

class Merger {
 public:
  // All of them must outlive it.
  Merger(SegmentedFusion& segmented, const SchedulabilityGuard& guard, const SizeHints& sizes,
         const SegmentOptions& options)
      : s_(segmented), guard_(guard), sizes_(sizes), options_(options) {}

  SegmentedFusion& segmented() { return s_; }
  const SchedulabilityGuard& guard() const { return guard_; }
  const SizeHints& sizes() const { return sizes_; }

  // Bytes of traffic that the merge saves, and kLaunchBytes for each launch. Negative where views
  // that cost nothing would be written.
  int64_t Gain(absl::Span<const GroupId> members);
  // Whether some two of them can never be in one group.
  bool Refused(absl::Span<const GroupId> members);
  // Makes one group of the members if the guard accepts it and no path leaves and returns.
  bool TryMerge(const char* pass, absl::Span<const GroupId> members);

  // Makes one group of members between which nothing flows and that read nothing in common, if the
  // guard accepts them as islands.
  bool TryIslands(const char* pass, absl::Span<const GroupId> members);

  // Tries the pairs, a window of them after the other along the order of the groups, each in the
  // order of the gains as they change, ties by the lower ids. Returns whether any merged.
  bool MergePairs(const char* pass, std::vector<std::pair<GroupId, GroupId>> pairs);

  // Makes `g` anew as these parts (SegmentedFusion::Replace), whose schedulers nobody has been
  // asked for yet.
  std::vector<GroupId> Replace(GroupId g, absl::Span<const GroupPart> parts);
  // Makes groups anew, one after the other, each as one part with a scheduler that has accepted it.
  // What a group leaves out another one takes in behind it. Refusals hold: what is refused without
  // copies is refused with them.
  struct Remake {
    GroupId group;
    GroupPart part;
    SchedulerKind scheduler;
  };
  void RemakeAll(absl::Span<const Remake> remakes);
  // Merges groups that the guard is known to accept together and that no path leaves and returns
  // to.
  GroupId MergeKnown(absl::Span<const GroupId> members, SchedulerKind scheduler);
  // An entry for the log about groups as they are now, to be had before they change.
  MergeTrial TrialOf(const char* pass, absl::Span<const GroupId> members, int64_t gain_bytes) const;
  // Enters that the members have become these groups, with other borders.
  void RecordCut(MergeTrial trial, absl::Span<const GroupId> made);

  // Pairs that were refused for a path that leaves and returns, since the last call.
  std::vector<std::pair<GroupId, GroupId>> TakeNotConvex() {
    return std::exchange(not_convex_, {});
  }

  // Merges that would compute much at more points than before are refused until this is called,
  // when no other merge is left: what arithmetic can hide behind is known then. Returns whether
  // there are any that wait.
  bool WeighSpreading() {
    if (weighs_spreading_since_ > 0) return false;
    weighs_spreading_since_ = ++changes_;
    return spreading_waits_;
  }

  // Merges that the guard accepts late are refused until this is called, by the last pass; then
  // only these are made.
  void AcceptLate() { accepts_late_since_ = ++changes_; }

  const absl::Status& status() const { return status_; }  // Of verify_each_merge.
  // The log; `numbers` are the groups' final ones.
  SegmentationLog Log(absl::Span<const GroupId> numbers);
  void CountRound() { ++log_.num_rounds; }

 private:
  // Of a merge without a cycle a handful is searched; what takes hundreds is hardly ever one.
  static constexpr int kMaxSearchedEdges = 256;
  static constexpr int kMaxIslandEdges = 4096;     // Searched for a cycle among islands.
  static constexpr uint32_t kMaxViewBorder = 256;  // Edges of a group of views that merges.
  static constexpr int kMaxExactExprs = 4096;      // Of a trial that is decided from scratch.
  static constexpr int kMaxSpreadExprs = 64;       // Of a member whose arithmetic is added up.

  static constexpr size_t kWindow = 4096;  // Pairs that wait in one queue.

  int64_t GainOf(absl::Span<const GroupId> members, int64_t saved_bytes) const;
  // What a group would read and write if it did launch: of a group of views, what a merge with one
  // that does is wrongly said to save.
  int64_t BorderBytes(GroupId g) const;
  void NoteChange(GroupId g);
  bool IsSince(int at, GroupId g) const;  // Whether `g` changed after so many changes.
  // Whether the two can never be in one group, or were refused as they are now. They are not asked
  // for again then, but for a way around a path.
  bool RefusedAsTheyAre(GroupId a, GroupId b);
  bool MergeWindow(const char* pass, absl::Span<const std::pair<GroupId, GroupId>> pairs);
  // A refusal for what holds whatever flows between the members, at the cost of a look at each.
  Decision DecideByOutline(absl::Span<const GroupId> members) const;
  // TryMerge in two parts: whether that does not refuse members that are not refused so far, and
  // the merge of such members.
  bool PassesOutline(const char* pass, absl::Span<const GroupId> members);
  bool TryPassed(const char* pass, absl::Span<const GroupId> members);
  // Refused if a path leaves the members and returns.
  Decision DecideConvex(absl::Span<const GroupId> members, int max_edges, Decision accepted,
                        Placement* placement);
  Decision Decide(absl::Span<const GroupId> members, int64_t* saved_bytes, Placement* placement);
  // Whether one of the members computes much at few points that another one, with more axes, would
  // compute again at each of its own.
  bool SpreadsArithmetic(absl::Span<const GroupId> members, const GroupSummary& merged) const;
  // Refuses what a scheduler accepted, if its plan would take longer than those of the members.
  Decision Weigh(absl::Span<const GroupId> members, GroupSummary merged, int64_t saved_bytes,
                 Decision accepted);
  void Record(MergeTrial trial, const Decision& decision);
  void Remember(absl::Span<const GroupId> members, Decision decision);
  GroupId Commit(absl::Span<const GroupId> members, const Placement& placement,
                 SchedulerKind scheduler);
  void Verify();

  SegmentedFusion& s_;
  const SchedulabilityGuard& guard_;
  const SizeHints& sizes_;
  const SegmentOptions& options_;
  Refusals refusals_;
  int changes_ = 0;                 // Merges and cuts made.
  bool spreading_waits_ = false;    // Some merge was refused until spreading is weighed.
  int weighs_spreading_since_ = 0;  // changes_ when that began; 0: not yet.
  int accepts_late_since_ = 0;      // changes_ at AcceptLate; 0: not yet.
  int last_cut_ = 0;  // changes_ at the last cut, which may open what a path had closed.
  std::vector<int> last_change_;  // Per group: changes_ when it last changed.
  std::vector<std::pair<GroupId, GroupId>> not_convex_;
  SegmentationLog log_;
  absl::Status status_;
};

}  // namespace seam
