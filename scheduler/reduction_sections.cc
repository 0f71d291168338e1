// Rows with sections (scheduler/sections.h): as rows whose columns are neighbours are shared, but
// that lanes of one warp have a section, a vector each, and that registers hold the row.
#include <algorithm>

#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {

absl::Status ChooseSections(const SizedGroup& sized, Schedule& s) {
  // A row is gone over at least twice, and what its sections become stays in registers beside it.
  constexpr int kWarp = 32, kMostThreads = 1024, kMostElements = 32, kHiding = 1024;
  const auto size = static_cast<int>(sized.shape.sections.size);
  if (s.vector * kWarp < size) {
    // What memory does not have in such vectors is moved in narrower ones.
    s.vector = size / kWarp;
    SEAM_RETURN_IF_ERROR(ChooseFacts(sized, s).status());
  }
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, s));
  ChooseInner(sized, rows, s);
  const int least = size / s.vector;  // Lanes.
  if (s.persistent && s.lanes_per_row >= least && s.registers * s.vector <= kMostElements)
    return absl::OkStatus();
  const int64_t vectors = VectorsOf(sized, s);
  const int threads =
      std::clamp(ThreadsFor(vectors, kMostElements / s.vector), least, kMostThreads);
  GiveThreads(threads, static_cast<int>(CeilDivide(vectors, threads)), s);
  s.persistent = true;
  s.row_warps = std::max(1, 4 / s.warps_per_row);
  s.min_ctas_per_sm = std::max(1, kHiding / s.threads());
  return absl::OkStatus();
}

}  // namespace seam::reduction
