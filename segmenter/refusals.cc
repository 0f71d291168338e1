#include "segmenter/refusals.h"

#include <algorithm>
#include <utility>

namespace seam {

bool IsPermanent(ReasonCode reason) {
  switch (reason) {
    case ReasonCode::kUnconnected:
    case ReasonCode::kNoCommonAxis:
    case ReasonCode::kUnsupported:
    case ReasonCode::kNotConvex:
    case ReasonCode::kBudget:
    case ReasonCode::kNoGain:
    case ReasonCode::kSlower:
      return false;
    default:
      return true;
  }
}

uint64_t Refusals::Key(GroupId a, GroupId b) {
  return uint64_t{std::min(a, b).index()} << 32 | std::max(a, b).index();
}

uint32_t Refusals::Search(GroupId g, GroupId other) const {
  for (uint32_t i = lists_[g.index()].head; i != kNoLink;) {
    const Refusal& refusal = refusals_[i];
    const int end = EndOf(refusal, g);
    if (!refusal.is_gone && refusal.ends[1 - end] == other) return i;
    i = refusal.next[end];
  }
  return kNoLink;
}

uint32_t Refusals::IndexOf(GroupId a, GroupId b) const {
  if (std::max(a, b).index() >= lists_.size()) return kNoLink;
  if (!HasMany(a)) return Search(a, b);
  if (!HasMany(b)) return Search(b, a);
  const auto it = table_.find(Key(a, b));
  return it == table_.end() ? kNoLink : it->second;
}

const Refusal* Refusals::Find(GroupId a, GroupId b) const {
  const uint32_t i = IndexOf(a, b);
  return i == kNoLink ? nullptr : &refusals_[i];
}

void Refusals::DropGone(GroupId g) {
  LinkList& list = lists_[g.index()];
  for (uint32_t* at = &list.head; *at != kNoLink;) {
    Refusal& refusal = refusals_[*at];
    uint32_t& next = refusal.next[EndOf(refusal, g)];
    if (refusal.is_gone) {
      *at = next;
      --list.size;
    } else {
      at = &next;
    }
  }
}

void Refusals::Enlist(uint32_t i, int end) {
  const GroupId g = refusals_[i].ends[end];
  LinkList& list = lists_[g.index()];
  refusals_[i].next[end] = std::exchange(list.head, i);
  if (++list.size == kFew + 1) DropGone(g);
  if (list.size != kFew + 1) {
    if (IsInTable(refusals_[i]))
      table_.try_emplace(Key(refusals_[i].ends[0], refusals_[i].ends[1]), i);
    return;
  }
  // It has many from now on.
  for (uint32_t other = list.head; other != kNoLink;) {
    const Refusal& refusal = refusals_[other];
    if (IsInTable(refusal)) table_.try_emplace(Key(refusal.ends[0], refusal.ends[1]), other);
    other = refusal.next[EndOf(refusal, g)];
  }
}

void Refusals::Add(GroupId a, GroupId b, Decision decision, int at) {
  const ReasonCode reason = decision.reason;
  if (const uint32_t known = IndexOf(a, b); known != kNoLink) {
    refusals_[known].at = at;
    refusals_[known].reason = reason;
    decisions_[known] = std::move(decision);
    return;
  }
  const uint32_t next = static_cast<uint32_t>(refusals_.size());
  refusals_.push_back({{a, b}, {}, at, reason});
  decisions_.push_back(std::move(decision));
  const uint32_t limit = std::max(a, b).index() + 1;
  if (limit > lists_.size()) lists_.resize(limit);
  Enlist(next, 0);
  Enlist(next, 1);
}

std::vector<uint32_t> Refusals::Take(GroupId g) {
  std::vector<uint32_t> taken;
  if (g.index() >= lists_.size()) return taken;
  for (uint32_t i = lists_[g.index()].head; i != kNoLink;) {
    const Refusal& refusal = refusals_[i];
    if (!refusal.is_gone) {
      if (IsInTable(refusal)) table_.erase(Key(refusal.ends[0], refusal.ends[1]));
      taken.push_back(i);
    }
    i = refusal.next[EndOf(refusal, g)];
  }
  lists_[g.index()] = LinkList();
  return taken;
}

void Refusals::Inherit(GroupId from, GroupId to) {
  for (uint32_t i : Take(from)) {
    Refusal& refusal = refusals_[i];
    const int end = EndOf(refusal, from);
    const GroupId partner = refusal.ends[1 - end];
    if (partner == to) {
      refusal.is_gone = true;
      continue;
    }
    const uint32_t known = IndexOf(to, partner);
    if (known == kNoLink) {
      refusal.ends[end] = to;
      if (to.index() >= lists_.size()) lists_.resize(to.index() + 1);
      Enlist(i, end);
      continue;
    }
    refusal.is_gone = true;
    if (IsPermanent(refusal.reason)) {
      refusals_[known].at = refusal.at;
      refusals_[known].reason = refusal.reason;
      decisions_[known] = std::move(decisions_[i]);
    }
  }
}

void Refusals::Forget(GroupId g) {
  for (uint32_t i : Take(g)) refusals_[i].is_gone = true;
}

}  // namespace seam
