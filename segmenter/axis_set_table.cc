#include "segmenter/axis_set_table.h"

#include <algorithm>
#include <utility>

namespace seam {
namespace {

uint64_t PairKey(uint32_t a, uint32_t b) { return uint64_t{std::min(a, b)} << 32 | std::max(a, b); }

}  // namespace

AxisSetTable::AxisSetTable(const std::vector<AxisSet>& sets) {
  for (const AxisSet& set : sets) Intern(set);
  InternFamily({});
}

AxisSetTable::SetId AxisSetTable::Intern(const AxisSet& set) {
  const auto [it, inserted] = set_ids_.try_emplace(set, static_cast<SetId>(sets_.size()));
  if (inserted) sets_.push_back(set);
  return it->second;
}

AxisSetTable::SetId AxisSetTable::Union(SetId a, SetId b) {
  if (a == b || b == kNoAxes) return a;
  if (a == kNoAxes) return b;
  const uint64_t key = PairKey(a, b);
  if (const auto it = set_unions_.find(key); it != set_unions_.end()) return it->second;
  const SetId result = Intern(seam::Union(sets_[a], sets_[b]));
  set_unions_.emplace(key, result);
  return result;
}

AxisSetTable::FamilyId AxisSetTable::InternFamily(std::vector<SetId> members) {
  std::sort(members.begin(), members.end());
  const auto [it, inserted] =
      family_ids_.try_emplace(members, static_cast<FamilyId>(families_.size()));
  if (inserted) families_.push_back(std::move(members));
  return it->second;
}

AxisSetTable::FamilyId AxisSetTable::Family(SetId s) {
  if (s >= family_of_.size()) family_of_.resize(sets_.size(), kNoSets);
  FamilyId& family = family_of_[s];
  if (family == kNoSets) family = InternFamily({s});
  return family;
}

AxisSetTable::FamilyId AxisSetTable::Union(FamilyId a, FamilyId b, Keep keep) {
  if (a == b || b == kNoSets) return a;
  if (a == kNoSets) return b;
  auto& unions = family_unions_[static_cast<int>(keep)];
  const uint64_t key = PairKey(a, b);
  if (const auto it = unions.find(key); it != unions.end()) return it->second;
  std::vector<SetId> all = families_[a];
  all.insert(all.end(), families_[b].begin(), families_[b].end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::vector<SetId> kept;
  for (SetId s : all) {
    const bool covered =
        keep != Keep::kAll && std::any_of(all.begin(), all.end(), [&](SetId other) {
          return other != s && (keep == Keep::kMinimal ? IsSubset(other, s) : IsSubset(s, other));
        });
    if (!covered) kept.push_back(s);
  }
  const FamilyId result = InternFamily(std::move(kept));
  unions.emplace(key, result);
  return result;
}

std::vector<AxisSet> AxisSetTable::Expand(FamilyId f) const {
  std::vector<AxisSet> sets;
  sets.reserve(families_[f].size());
  for (SetId s : families_[f]) sets.push_back(sets_[s]);
  std::sort(sets.begin(), sets.end());
  return sets;
}

}  // namespace seam
