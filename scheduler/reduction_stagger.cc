// When clusters begin. Those that begin at once stay in step for many turns:
//
//   cluster 0   load   fold  store  load   fold  store ...      memory idles while all fold
//   cluster 1   load   fold  store  load   fold  store ...
//
//   cluster 0   load   fold  store  load   fold  store ...      one begins after the other
//   cluster 1       load   fold  store  load   fold  store ...
//
// Source: timed on an H200, docs/schedulers/clusters.md, "One after the other".
#include <algorithm>

#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"

namespace seam::reduction {

void ChooseStagger(const SizedGroup& sized, Schedule& s) {
  // Of the processors of all devices about so many. Of all turns, the share that those clusters may
  // begin late that have one more than others.
  constexpr double kCyclesPerSecond = 2e9, kMostLate = 0.05;
  constexpr int kLeastCycles = 1000, kMostCycles = 100000;
  if (s.cluster == 1 || !s.persistent) return;
  // Wide data that come a turn ahead keep memory busy in any case, and clusters that have
  // neighbouring rows read what lies close together at about the same time.
  if (s.outer && s.grid > 0 && sized.widest_bytes >= 4) return;
  const DeviceInfo& device = sized.context.device;
  const int64_t sets = CeilDivide(sized.rows, s.rows_per_cta());
  const int64_t at_once = s.grid > 0 ? s.teams() : ResidentCtas(s, device) / s.cluster;
  if (sets <= at_once || at_once > 65535) return;
  if (s.grid > 0) {
    const int64_t turns = CeilDivide(sets, at_once);
    const double late = static_cast<double>((sets - 1) % at_once) / static_cast<double>(at_once);
    if (late > kMostLate * static_cast<double>(turns)) return;
  }
  const absl::StatusOr<int64_t> moved = MovedBytes(sized);
  if (!moved.ok()) return;
  const double bytes =
      static_cast<double>(*moved) * static_cast<double>(at_once) / static_cast<double>(sets);
  const double cycles = bytes / static_cast<double>(device.bytes_per_second) * kCyclesPerSecond;
  if (cycles < kLeastCycles) return;
  s.stagger = static_cast<int>(std::min<double>(cycles, kMostCycles));
  s.staggered = static_cast<int>(at_once);
}

}  // namespace seam::reduction
