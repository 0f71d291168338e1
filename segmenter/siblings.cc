#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "segmenter/passes.h"

namespace seam {
namespace {

// Of the readers of a value, in the order in which alike ones are neighbours, each is paired with
// this many next ones.
constexpr size_t kWindow = 4;

}  // namespace

bool MergeSiblings(Merger& merger) {
  const SegmentedFusion& s = merger.segmented();
  std::vector<std::pair<GroupId, GroupId>> pairs;
  std::vector<std::tuple<uint32_t, ExprId, GroupId>> readers;
  for (uint32_t i = 0; i < s.fusion().num_vals(); ++i) {
    const ValId v(i);
    // Reading one element once instead of twice is no reason to share a kernel.
    if (!s.buffer_of(v).valid() || !s.facts().connects_readers[i]) continue;
    const auto edges = s.readers(s.buffer_of(v));
    if (edges.size() < 2) continue;
    readers.clear();
    for (EdgeId e : edges) {
      const GroupId g = s.edge(e).to;
      readers.emplace_back(s.spaces_key(g), s.first_expr(g), g);
    }
    std::sort(readers.begin(), readers.end());
    for (size_t a = 0; a < readers.size(); ++a) {
      for (size_t b = a + 1; b < readers.size() && b <= a + kWindow; ++b) {
        pairs.emplace_back(std::get<GroupId>(readers[a]), std::get<GroupId>(readers[b]));
      }
    }
  }
  return merger.MergePairs("siblings", std::move(pairs));
}

}  // namespace seam
