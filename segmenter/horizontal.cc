// Horizontal plans: pointwise groups that share nothing, side by side in one launch.
//
// Which groups may join without a path from one to another follows from levels: with a group's
// level the longest path that leads from it (or to it), groups of one level never depend on each
// other, and to join them makes no cycle whatever else of that level is joined. From the results
// first: the updates of an optimizer end at the results, wherever their gradients come from. Then
// from the inputs, for what is left.
#include <algorithm>
#include <map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "segmenter/passes.h"

namespace seam {
namespace {

// A launch's parameters are pointers above all, and 4,096 bytes of them every device takes.
constexpr size_t kMaxPointers = 400;
constexpr size_t kMaxIslands = 64;

// Groups that may join, by level: the longest path from the results if `from_results`, else from
// the inputs. Within a level in the order of their first expressions.
std::map<uint32_t, std::vector<GroupId>> CandidatesByLevel(const SegmentedFusion& s,
                                                           bool from_results) {
  std::vector<GroupId> order = s.groups();
  if (from_results) std::reverse(order.begin(), order.end());
  std::vector<uint32_t> level(s.group_limit());
  std::map<uint32_t, std::vector<GroupId>> candidates;
  for (GroupId g : order) {
    uint32_t& own = level[g.index()];
    if (from_results) {
      for (EdgeId e : s.out_edges(g)) own = std::max(own, level[s.edge(e).to.index()] + 1);
    } else {
      for (EdgeId e : s.in_edges(g)) {
        if (s.edge(e).from.valid()) own = std::max(own, level[s.edge(e).from.index()] + 1);
      }
    }
    // What is weightless would count as part of any island.
    if (s.scheduler(g) == SchedulerKind::kPointwise && !s.AllExprs(g, [&](ExprId e) {
          return s.facts().weightless[s.fusion().result(e).index()];
        })) {
      candidates[own].push_back(g);
    }
  }
  for (auto& [at, groups] : candidates) {
    std::sort(groups.begin(), groups.end(),
              [&](GroupId a, GroupId b) { return s.first_expr(a) < s.first_expr(b); });
  }
  return candidates;
}

// Takes groups from the list while a launch has room for them. Those that read what another one
// reads wait for the next: islands share nothing.
std::vector<GroupId> TakeIslands(const SegmentedFusion& s, std::vector<GroupId>& groups,
                                 const std::vector<bool>& connects) {
  std::vector<GroupId> islands, left;
  absl::flat_hash_set<ValId> read;
  size_t pointers = 0;
  for (GroupId g : groups) {
    const std::vector<ValId> inputs = s.inputs(g);
    const size_t more = inputs.size() + s.buffers(g).size();
    const bool shares = std::any_of(inputs.begin(), inputs.end(), [&](ValId v) {
      return connects[v.index()] && read.contains(v);
    });
    if (shares || islands.size() == kMaxIslands || pointers + more > kMaxPointers) {
      left.push_back(g);
      continue;
    }
    islands.push_back(g);
    pointers += more;
    for (ValId v : inputs) {
      if (connects[v.index()]) read.insert(v);
    }
  }
  groups = std::move(left);
  return islands;
}

// What is refused together may be accepted in halves.
bool Join(Merger& merger, absl::Span<const GroupId> islands) {
  if (islands.size() < 2) return false;
  if (merger.TryIslands("horizontal", islands)) return true;
  if (islands.size() == 2) return false;
  const size_t half = islands.size() / 2;
  const bool first = Join(merger, islands.subspan(0, half));
  return Join(merger, islands.subspan(half)) || first;
}

}  // namespace

bool MergeHorizontally(Merger& merger) {
  const SegmentedFusion& s = merger.segmented();
  bool any = false;
  for (const bool from_results : {true, false}) {
    for (auto& [level, groups] : CandidatesByLevel(s, from_results)) {
      while (groups.size() > 1) {
        const std::vector<GroupId> islands = TakeIslands(s, groups, s.facts().connects_readers);
        if (islands.empty()) break;
        any |= Join(merger, islands);
      }
    }
  }
  return any;
}

}  // namespace seam
