// Refusals: which pairs of groups may not merge and why, kept as the groups merge.
//
// Most groups have few refusals, and those lie in a list of the group, to be searched; only pairs
// of groups that both have many are in a table. Thread-safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "segmenter/intrusive_list.h"
#include "segmenter/segmented_fusion.h"

namespace seam {

struct Refusal {  // Its decision is apart: lists of refusals are searched, and few are told.
  GroupId ends[2];
  uint32_t next[2];  // In the lists of the two.
  int at;            // How often groups had changed then, as the Merger counts.
  ReasonCode reason;
  bool is_gone = false;  // No longer holds; perhaps still in a list.
};

// Whether what contains a group that was refused so is refused as well, whatever merges.
bool IsPermanent(ReasonCode reason);

class Refusals {
 public:
  // The one of the pair, or null. Valid until the next change.
  const Refusal* Find(GroupId a, GroupId b) const;
  // Takes the place of what was known of the pair.
  void Add(GroupId a, GroupId b, Decision decision, int at);
  // `from` is merged into `to`.
  void Inherit(GroupId from, GroupId to);
  void Forget(GroupId g);

  // Calls `f`(a, b, decision) for every pair.
  template <typename F>
  void ForEach(F f) const {
    for (size_t i = 0; i < refusals_.size(); ++i) {
      if (!refusals_[i].is_gone) f(refusals_[i].ends[0], refusals_[i].ends[1], decisions_[i]);
    }
  }

 private:
  static constexpr uint32_t kFew = 4;

  static uint64_t Key(GroupId a, GroupId b);
  static int EndOf(const Refusal& refusal, GroupId g) { return refusal.ends[0] == g ? 0 : 1; }
  bool HasMany(GroupId g) const { return lists_[g.index()].size > kFew; }
  bool IsInTable(const Refusal& r) const { return HasMany(r.ends[0]) && HasMany(r.ends[1]); }
  uint32_t IndexOf(GroupId a, GroupId b) const;  // kNoLink if there is none.
  uint32_t Search(GroupId g, GroupId other) const;
  void Enlist(uint32_t refusal, int end);  // In the list of that end.
  void DropGone(GroupId g);
  // Empties the list of `g`, and returns what still holds of it, by no pair any more.
  std::vector<uint32_t> Take(GroupId g);

  std::vector<Refusal> refusals_;
  std::deque<Decision> decisions_;  // Per refusal.
  std::vector<LinkList> lists_;     // Per group that has had one, those that are gone included.
  absl::flat_hash_map<uint64_t, uint32_t> table_;  // By pair: if both have many.
};

}  // namespace seam
