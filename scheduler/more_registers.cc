#include "scheduler/more_registers.h"

#include <algorithm>

#include "scheduler/choose.h"

namespace seam {

std::optional<Schedule> WithMoreRegisters(const Schedule& s, const DeviceInfo& device) {
  // What a thread can have, and in what steps it gets them.
  constexpr int kMost = 255, kStep = 8;
  if (s.one_launch && s.grid == 0) return std::nullopt;
  const auto registers = [&](int ctas) {
    return std::min(kMost, device.registers_per_sm / (s.threads() * ctas) / kStep * kStep);
  };
  // Of fewer clusters each begins as long after the one before.
  const auto begin_alike = [&](Schedule& t) {
    if (t.stagger == 0) return;
    const auto clusters = static_cast<int>(ResidentCtas(t, device) / t.cluster);
    t.staggered = std::clamp(clusters, 1, s.staggered);
    t.stagger = std::max(1, static_cast<int>(int64_t{s.stagger} * t.staggered / s.staggered));
  };
  Schedule eased = s;
  while (--eased.min_ctas_per_sm > 0) {
    if (registers(eased.min_ctas_per_sm) == registers(s.min_ctas_per_sm)) continue;
    begin_alike(eased);
    if (s.grid == 0) return eased;
    const int64_t step = s.grid_step();
    const int64_t grid = std::min<int64_t>(s.grid, ResidentCtas(eased, device)) / step * step;
    if (grid == 0) return std::nullopt;
    eased.grid = static_cast<int>(grid);
    return eased;
  }
  return std::nullopt;
}

}  // namespace seam
