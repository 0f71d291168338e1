// Places buffers that live for a while in one block of memory, so that those that never live at
// once share bytes.
//
// Thread-safety: pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace seam {

inline constexpr int64_t kBufferAlignmentBytes = 256;

// `bytes` wanted from step `first` to step `last`, inclusive. No bytes: placed at 0.
struct MemoryRequest {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // Per request; multiples of kBufferAlignmentBytes.
  int64_t bytes = 0;             // Of the whole block.
};

// Places the largest requests first, each at the lowest offset where nothing that lives at the same
// time is in the way. Deterministic. Quadratic in the requests in the worst case.
MemoryPlan PlanMemory(absl::Span<const MemoryRequest> requests);

}  // namespace seam
