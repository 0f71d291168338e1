// Horizontal plans: groups that share nothing large, side by side in one launch: pointwise ones, or
// small ones that reduce.
//
// Which groups may join without a path from one to another follows from levels: with a group's
// level the longest path that leads from it (or to it), groups of one level never depend on each
// other, and to join them makes no cycle whatever else of that level is joined. From the results
// first: the updates of an optimizer end at the results, wherever their gradients come from. Then
// from the inputs, for what is left.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "segmenter/islands.h"
#include "segmenter/passes.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

// A launch's parameters are pointers above all, and 4,096 bytes of them every device takes.
constexpr size_t kMaxPointers = 400;
constexpr size_t kMaxIslands = 64;

struct Level {
  uint32_t at;  // The longest path from the results, or from the inputs.
  SchedulerKind scheduler;
  friend auto operator<=>(const Level&, const Level&) = default;
};

// Groups that may join, by level: the longest path from the results if `from_results`, else from
// the inputs. Within a level in the order of their first expressions.
std::map<Level, std::vector<GroupId>> CandidatesByLevel(const SegmentedFusion& s,
                                                        const SizeHints& sizes, bool from_results) {
  std::vector<GroupId> order = s.groups();
  if (from_results) std::reverse(order.begin(), order.end());
  std::vector<uint32_t> level(s.group_limit());
  std::map<Level, std::vector<GroupId>> candidates;
  for (GroupId g : order) {
    uint32_t& own = level[g.index()];
    if (from_results) {
      for (EdgeId e : s.out_edges(g)) own = std::max(own, level[s.edge(e).to.index()] + 1);
    } else {
      for (EdgeId e : s.in_edges(g)) {
        if (s.edge(e).from.valid()) own = std::max(own, level[s.edge(e).from.index()] + 1);
      }
    }
    const SchedulerKind scheduler = s.scheduler(g);
    const bool joins =
        scheduler == SchedulerKind::kPointwise ||
        (scheduler == SchedulerKind::kReduction && MovedBytes(s, sizes, g) <= kMostReducedBytes);
    // What is weightless would count as part of any island.
    if (joins && !s.AllExprs(g, [&](ExprId e) {
          return s.facts().weightless[s.fusion().result(e).index()];
        })) {
      candidates[{own, scheduler}].push_back(g);
    }
  }
  for (auto& [at, groups] : candidates) {
    std::sort(groups.begin(), groups.end(),
              [&](GroupId a, GroupId b) { return s.first_expr(a) < s.first_expr(b); });
  }
  return candidates;
}

// Launches that will never take a group with some property, since they only become fuller: those
// that read a value which connects its readers, for one of them, and those without room for so many
// pointers.
class ClosedLaunches {
 public:
  void Close(uint64_t property, uint32_t launch) { next_[{property, launch}] = launch + 1; }
  // The first launch from `launch` on that is not known to be closed to the property.
  uint32_t NextOpen(uint64_t property, uint32_t launch) {
    uint32_t open = launch;
    for (auto it = next_.find({property, open}); it != next_.end();
         it = next_.find({property, open})) {
      open = it->second;
    }
    while (launch != open) launch = std::exchange(next_[{property, launch}], open);
    return open;
  }

 private:
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint32_t> next_;  // A later one to look at.
};

// Puts every group into the first launch that has room for it and that nothing it reads would
// connect it to.
std::vector<std::vector<GroupId>> PackIslands(const SegmentedFusion& s,
                                              absl::Span<const GroupId> groups) {
  std::vector<std::vector<GroupId>> launches;
  std::vector<size_t> pointers;  // Of each launch.
  ClosedLaunches closed;
  for (GroupId g : groups) {
    std::vector<uint64_t> properties;
    for (ValId v : ConnectingReads(s.fusion(), s.axes(), s.facts(), s.exprs(g)))
      properties.push_back(v.index());
    const size_t more = s.inputs(g).size() + s.buffers(g).size();
    if (more > kMaxPointers) continue;
    const uint64_t size = uint64_t{1} << 32 | more;
    uint32_t at = 0;
    for (bool found = false; !found;) {
      const uint32_t from = at;
      for (uint64_t property : properties) at = closed.NextOpen(property, at);
      at = closed.NextOpen(size, at);
      const bool full = at < launches.size() &&
                        (launches[at].size() == kMaxIslands || pointers[at] + more > kMaxPointers);
      if (full) closed.Close(size, at);
      found = !full && at == from;
    }
    if (at == launches.size()) {
      launches.emplace_back();
      pointers.push_back(0);
    }
    launches[at].push_back(g);
    pointers[at] += more;
    for (uint64_t property : properties) closed.Close(property, at);
  }
  return launches;
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
    for (const auto& [level, groups] : CandidatesByLevel(s, merger.sizes(), from_results)) {
      for (const std::vector<GroupId>& islands : PackIslands(s, groups))
        any |= Join(merger, islands);
    }
  }
  return any;
}

}  // namespace seam
