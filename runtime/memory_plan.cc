#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace seam {

MemoryPlan PlanMemory(absl::Span<const MemoryRequest> requests) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  std::vector<size_t> by_size;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].bytes > 0) by_size.push_back(i);
  }
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  const auto rounded = [](int64_t bytes) {
    return (bytes + kBufferAlignmentBytes - 1) / kBufferAlignmentBytes * kBufferAlignmentBytes;
  };
  std::vector<size_t> placed;  // By offset.
  for (size_t i : by_size) {
    const int64_t bytes = rounded(requests[i].bytes);
    int64_t offset = 0;
    for (size_t other : placed) {
      if (requests[other].first > requests[i].last || requests[other].last < requests[i].first)
        continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + rounded(requests[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

}  // namespace seam
