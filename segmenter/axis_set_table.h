// AxisSetTable: sets of axes and families of such sets as numbers, so that a million groups share
// the few that there are and joining equal ones costs a comparison.
//
// A family is a list of distinct sets. Its kind says which sets it keeps: the minimal, the maximal,
// or all. Numbers depend on the order of calls only. Thread-safety: none; operations remember their
// results.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "segmenter/axes.h"

namespace seam {

class AxisSetTable {
 public:
  using SetId = uint32_t;
  using FamilyId = uint32_t;
  static constexpr FamilyId kNoSets = 0;
  static constexpr SetId kNoAxes = 0;
  enum class Keep : uint8_t { kMinimal, kMaximal, kAll };

  // Begins with these sets, under their indices. They are distinct, and the first is empty.
  explicit AxisSetTable(const std::vector<AxisSet>& sets);

  SetId Intern(const AxisSet& set);
  const AxisSet& set(SetId s) const { return sets_[s]; }
  SetId Union(SetId a, SetId b);
  bool IsSubset(SetId a, SetId b) const { return a == b || seam::IsSubset(sets_[a], sets_[b]); }

  FamilyId Family(SetId s);  // Of this one set.
  const std::vector<SetId>& members(FamilyId f) const { return families_[f]; }
  FamilyId Union(FamilyId a, FamilyId b, Keep keep);
  std::vector<AxisSet> Expand(FamilyId f) const;  // Sorted.

 private:
  FamilyId InternFamily(std::vector<SetId> members);

  std::vector<AxisSet> sets_;
  std::vector<std::vector<SetId>> families_;
  std::vector<FamilyId> family_of_;  // Per set: the family of it alone, once asked for.
  absl::flat_hash_map<AxisSet, SetId> set_ids_;
  absl::flat_hash_map<std::vector<SetId>, FamilyId> family_ids_;
  absl::flat_hash_map<uint64_t, SetId> set_unions_;
  absl::flat_hash_map<uint64_t, FamilyId> family_unions_[3];
};

}  // namespace seam
