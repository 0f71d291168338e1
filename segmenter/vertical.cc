#include <utility>
#include <vector>

#include "segmenter/passes.h"

namespace seam {

bool MergeVertically(Merger& merger, const char* pass) {
  const SegmentedFusion& s = merger.segmented();
  std::vector<std::pair<GroupId, GroupId>> pairs;
  for (uint32_t i = 0; i < s.edge_limit(); ++i) {
    const EdgeId e(i);
    if (!s.edge_alive(e) || s.edge(e).kind() != EdgeKind::kData || !s.edge(e).from.valid())
      continue;
    pairs.emplace_back(s.edge(e).from, s.edge(e).to);
  }
  return merger.MergePairs(pass, std::move(pairs));
}

}  // namespace seam
