// The topological order of the groups, kept under merges, and the searches that it bounds.
//
// The order is a linked list with 64-bit labels; a label between two neighbours is their middle,
// and where there is no room, the labels around are spread out again (amortised logarithmic).
// Source: Bender, Cole, Demaine, Farach-Colton, Zito, "Two simplified algorithms for maintaining
// order in a list", 2002.
#include <algorithm>
#include <functional>
#include <queue>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "segmenter/segmented_fusion.h"

namespace seam {

absl::Status SegmentedFusion::SortGroups() {
  std::vector<uint32_t> order;  // Of the lowest numbers that could come next.
  order.reserve(groups_.size());
  const auto leads_up = [](const EdgeRecord& e) { return !e.from.valid() || e.from < e.to; };
  if (std::all_of(edges_.begin(), edges_.end(), leads_up)) {
    for (uint32_t g = 0; g < groups_.size(); ++g) order.push_back(g);
  } else {
    std::vector<uint32_t> missing(groups_.size(), 0);
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<uint32_t>> ready;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      for (EdgeId e : in_edges(GroupId(g))) missing[g] += edge(e).from.valid() ? 1 : 0;
      if (missing[g] == 0) ready.push(g);
    }
    while (!ready.empty()) {
      const uint32_t g = ready.top();
      ready.pop();
      order.push_back(g);
      for (EdgeId e : out_edges(GroupId(g))) {
        if (--missing[edge(e).to.index()] == 0) ready.push(edge(e).to.index());
      }
    }
    if (order.size() < groups_.size()) {
      const auto stuck =
          std::find_if(missing.begin(), missing.end(), [](uint32_t n) { return n > 0; });
      return absl::InvalidArgumentError(
          absl::StrCat("groups depend on each other in a cycle, group ", stuck - missing.begin(),
                       " among them or after it"));
    }
  }
  const uint64_t step = (uint64_t{1} << 63) / (groups_.size() + 1);
  uint64_t next_label = step;
  uint32_t last = kNone;
  for (uint32_t g : order) {
    places_[g].label = next_label;
    next_label += step;
    groups_[g].before = last;
    (last == kNone ? first_group_ : groups_[last].after) = g;
    last = g;
  }
  return absl::OkStatus();
}

void SegmentedFusion::Unlink(GroupId g) {
  Group& group = groups_[g.index()];
  (group.before == kNone ? first_group_ : groups_[group.before].after) = group.after;
  if (group.after != kNone) groups_[group.after].before = group.before;
}

void SegmentedFusion::PlaceBehind(GroupId where, GroupId g) {
  Group& group = groups_[g.index()];
  group.before = where.index();
  group.after = groups_[where.index()].after;
  groups_[where.index()].after = g.index();
  if (group.after != kNone) groups_[group.after].before = g.index();
  SetLabelBetween(g);
}

void SegmentedFusion::PlaceBefore(GroupId where, GroupId g) {
  Group& group = groups_[g.index()];
  group.after = where.index();
  group.before = groups_[where.index()].before;
  groups_[where.index()].before = g.index();
  (group.before == kNone ? first_group_ : groups_[group.before].after) = g.index();
  SetLabelBetween(g);
}

void SegmentedFusion::SetLabelBetween(GroupId g) {
  constexpr uint64_t kEnd = uint64_t{1} << 63;
  Group& group = groups_[g.index()];
  const auto low = [&] { return group.before == kNone ? 0 : places_[group.before].label; };
  const auto high = [&] { return group.after == kNone ? kEnd : places_[group.after].label; };
  if (high() - low() < 2) {
    // The smallest aligned range of labels around that is sparse enough is spread out evenly.
    const uint64_t centre = low();
    double capacity = 1;
    for (int bits = 1; bits < 63; ++bits) {
      capacity *= 2 / 1.4;
      const uint64_t begin = centre >> bits << bits, end = begin + (uint64_t{1} << bits);
      const auto inside = [&](uint32_t i) {
        return i != kNone && places_[i].label >= begin && places_[i].label < end;
      };
      uint32_t first = g.index(), last = g.index();
      uint64_t count = 1;
      for (; inside(groups_[first].before); first = groups_[first].before) ++count;
      for (; inside(groups_[last].after); last = groups_[last].after) ++count;
      if (static_cast<double>(count) > capacity) continue;
      const uint64_t step = (uint64_t{1} << bits) / (count + 1);
      if (step == 0) continue;
      uint64_t label = begin;
      for (uint32_t i = first;; i = groups_[i].after) {
        places_[i].label = label += step;
        if (i == last) break;
      }
      return;
    }
  }
  places_[g.index()].label = low() + (high() - low()) / 2;
}

// The joined group goes where the first or the last member stands, what has to give way right
// beside it.
void SegmentedFusion::Reorder(absl::Span<const GroupId> members, GroupId joined,
                              const Placement& placement) {
  const auto [first, last] = std::minmax_element(
      members.begin(), members.end(), [&](GroupId a, GroupId b) { return Precedes(a, b); });
  const GroupId place = placement.at_last ? *last : *first;
  if (place != joined) {
    Unlink(joined);
    PlaceBehind(place, joined);
  }
  for (GroupId g : members) {
    if (g != joined) Unlink(g);
  }
  for (GroupId g : placement.moved) Unlink(g);
  GroupId behind = joined;
  for (GroupId g : placement.moved) {
    if (placement.at_last) {
      PlaceBehind(behind, g);
      behind = g;
    } else {
      PlaceBefore(joined, g);
    }
  }
}

Convexity SegmentedFusion::CheckConvex(absl::Span<const GroupId> members, int max_edges,
                                       Placement* placement) {
  BeginSearch(members);
  const auto [first, last] = std::minmax_element(
      members.begin(), members.end(), [&](GroupId a, GroupId b) { return Precedes(a, b); });
  const uint64_t low = label(*first), high = label(*last);
  // Two searches through other groups: forward for what depends on a member, up to the last
  // member's place, and backward for what a member depends on. Either one that ends without meeting
  // a member is the proof. What depends on the last member, and what the first depends on, cannot
  // lead back.
  struct Search {
    absl::InlinedVector<GroupId, 32> queue;  // Members, then what was found.
    size_t num_members = 0;
    size_t next = 0;        // In the queue: whose edges come after this one's.
    uint32_t at = kNone;    // The edge to follow.
    int64_t turns = 0;      // Taken so far: an edge each, and one to see that there are no more.
    int64_t num_edges = 0;  // Of the members and what was found.
  };
  Search forward, backward;
  for (GroupId g : members) {
    if (g != *last) {
      forward.queue.push_back(g);
      forward.num_edges += out_edges(g).size();
    }
    if (g != *first) {
      backward.queue.push_back(g);
      backward.num_edges += in_edges(g).size();
    }
  }
  forward.num_members = backward.num_members = members.size() - 1;
  const auto step = [&](bool ahead) -> Convexity {  // kBudget: goes on.
    Search& s = ahead ? forward : backward;
    ++s.turns;
    while (s.at == kNone) {
      if (s.next == s.queue.size()) return Convexity::kConvex;
      const Place& place = places_[s.queue[s.next++].index()];
      s.at = (ahead ? place.out : place.in).head;
    }
    const EdgeRecord& edge = edges_[s.at];
    s.at = (ahead ? edge.out : edge.in).next;
    if (s.at != kNone) __builtin_prefetch(&edges_[s.at]);
    const GroupId g = ahead ? edge.to : edge.from;
    if (!g.valid()) return Convexity::kBudget;
    if (IsMember(g)) {
      return s.next <= s.num_members ? Convexity::kBudget : Convexity::kNotConvex;
    }
    Place& place = places_[g.index()];
    uint32_t& stamp = ahead ? place.forward : place.backward;
    if (stamp == search_ || (ahead ? place.label > high : place.label < low)) {
      return Convexity::kBudget;
    }
    stamp = search_;
    const LinkList& next = ahead ? place.out : place.in;
    if (next.head != kNone) __builtin_prefetch(&edges_[next.head]);
    s.queue.push_back(g);
    s.num_edges += next.size;
    return Convexity::kBudget;
  };
  // In turns, forward first. But neither ends before it has followed the members' edges, so that
  // the one that has fewer of them may take these turns at once. Where both have met more edges
  // than they have turns, neither comes to its end any more.
  const int64_t most = (int64_t{max_edges} + 1) / 2;
  const bool shorter = forward.num_edges <= backward.num_edges;
  const int64_t at_once = std::min(most, (shorter ? backward : forward).num_edges + shorter);
  Convexity found = Convexity::kBudget;
  bool ahead = shorter;
  while (found == Convexity::kBudget && (shorter ? forward : backward).turns < at_once)
    found = step(ahead);
  while (found == Convexity::kBudget && std::min(forward.num_edges, backward.num_edges) < most &&
         std::min(forward.turns, backward.turns) < most) {
    ahead = forward.turns <= backward.turns;
    found = step(ahead);
  }
  if (found == Convexity::kConvex) {
    const Search& search = ahead ? forward : backward;
    placement->at_last = ahead;
    placement->moved.assign(search.queue.begin() + search.num_members, search.queue.end());
    std::sort(placement->moved.begin(), placement->moved.end(),
              [&](GroupId a, GroupId b) { return Precedes(a, b); });
  }
  return found;
}

std::vector<GroupId> SegmentedFusion::Closure(GroupId a, GroupId b, int max_groups, int max_edges) {
  BeginSearch({});
  const uint64_t high = label(b);
  std::vector<GroupId> ahead = {a};
  places_[a.index()].forward = search_;
  for (size_t i = 0; i < ahead.size(); ++i) {
    for (EdgeId e : out_edges(ahead[i])) {
      if (--max_edges < 0) return {};
      const GroupId g = edge(e).to;
      if (places_[g.index()].forward == search_ || label(g) > high) continue;
      places_[g.index()].forward = search_;
      if (g != b) ahead.push_back(g);
    }
  }
  if (places_[b.index()].forward != search_) return {};
  std::vector<GroupId> closure = {b};
  places_[b.index()].backward = search_;
  for (size_t i = 0; i < closure.size(); ++i) {
    for (EdgeId e : in_edges(closure[i])) {
      if (--max_edges < 0) return {};
      const GroupId g = edge(e).from;
      if (!g.valid() || places_[g.index()].forward != search_ ||
          places_[g.index()].backward == search_)
        continue;
      places_[g.index()].backward = search_;
      if (static_cast<int>(closure.size()) == max_groups) return {};
      closure.push_back(g);
    }
  }
  std::sort(closure.begin(), closure.end());
  return closure;
}

}  // namespace seam
