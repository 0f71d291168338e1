#include <utility>
#include <vector>

#include "segmenter/passes.h"

namespace seam {
namespace {

constexpr int kMaxGroups = 16;
constexpr int kMaxSearchedEdges = 256;

}  // namespace

bool MergeClosures(Merger& merger) {
  SegmentedFusion& s = merger.segmented();
  bool any = false;
  for (const auto& [old_a, old_b] : merger.TakeNotConvex()) {
    GroupId a = s.survivor(old_a), b = s.survivor(old_b);
    if (a == b || merger.Refused({a, b})) continue;
    if (s.Precedes(b, a)) std::swap(a, b);
    const std::vector<GroupId> closure = s.Closure(a, b, kMaxGroups, kMaxSearchedEdges);
    if (closure.size() > 2) any |= merger.TryMerge("closures", closure);
  }
  return any;
}

}  // namespace seam
