#include "scheduler/more_registers.h"

#include <algorithm>

#include "absl/algorithm/container.h"
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
    const int64_t step = s.stretches() > 1 ? s.cluster : s.grid_step();
    const int64_t grid = std::min<int64_t>(s.grid, ResidentCtas(eased, device)) / step * step;
    if (grid == 0) return std::nullopt;
    eased.grid = static_cast<int>(grid);
    return eased;
  }
  return std::nullopt;
}

std::optional<Schedule> WithFewerVectors(const Schedule& s) {
  constexpr int kMostThreads = 1024;  // Of a CTA, and of an SM, where more have few registers.
  if (s.blocks || s.tiles || s.slices > 1 || s.held > 0) return std::nullopt;
  Schedule t = s;
  if (!s.persistent && s.registers > 1) {
    t.registers /= 2;
    return t;
  }
  while (s.persistent && s.lanes_per_row == 32 && --t.registers * 2 >= s.registers) {
    t.warps_per_row = s.warps_per_row * s.registers / t.registers;
    if (t.warps_per_row * t.registers == s.warps_per_row * s.registers &&
        t.threads() * std::max(1, t.min_ctas_per_sm) <= kMostThreads) {
      return t;
    }
  }
  return std::nullopt;
}

namespace {

Schedule Apart(Schedule s) {
  s.one_launch = false;
  return s;
}

}  // namespace

std::vector<Schedule> EasierSchedules(const Schedule& s, const DeviceInfo& device) {
  std::vector<Schedule> easier;
  if (!s.islands.empty()) {
    Schedule apart = s;
    for (Schedule& island : apart.islands) island.apart = true;
    if (!(apart == s)) easier.push_back(apart);
    Schedule fewest = apart;
    for (Schedule& island : fewest.islands) {
      const std::vector<Schedule> of_island = EasierSchedules(island, device);
      if (!of_island.empty()) island = of_island.back();
    }
    if (!(fewest == apart)) easier.push_back(fewest);
    return easier;
  }
  for (std::optional<Schedule> t = WithMoreRegisters(s, device);
       t.has_value() && t->min_ctas_per_sm * 2 >= s.min_ctas_per_sm;
       t = WithMoreRegisters(*t, device)) {
    easier.push_back(*t);
  }
  Schedule fewest = s;
  for (std::optional<Schedule> t = WithFewerVectors(s);
       t.has_value() && t->registers * 2 >= s.registers; t = WithFewerVectors(*t)) {
    easier.push_back(*t);
    fewest = *t;
  }
  Schedule fewer = s;
  const auto add_fewer = [&] {
    fewer.uneven = fewer.uneven && fewer.points_of_thread() > 1;
    easier.push_back(fewer);
  };
  while (fewer.points > 1) {
    fewer.points /= 2;
    add_fewer();
  }
  if (fewer.beside >= 0) {
    fewer.beside = -1;
    fewer.beside_points = 1;
    add_fewer();
  }
  for (const Schedule& t : {s, fewest}) {
    if (!t.one_launch || absl::c_linear_search(easier, Apart(t))) continue;
    easier.push_back(Apart(t));
    if (const std::optional<Schedule> more = WithMoreRegisters(easier.back(), device))
      easier.push_back(*more);
  }
  return easier;
}

std::vector<Schedule> SmallerSchedules(const Schedule& s, const DeviceInfo& device) {
  std::vector<Schedule> smaller = EasierSchedules(s, device);
  Schedule t = s;
  t.one_launch = false;
  const auto add = [&] {
    t.together = static_cast<int>(std::min<int64_t>(t.together, t.most_together()));
    if (CheckSchedule(t).ok()) smaller.push_back(t);
  };
  if (t.spare > 0) {
    t.spare = 0;
    add();
  }
  while (t.stages > 1) {
    --t.stages;
    add();
  }
  if (t.stages > 0 || t.async) {
    t.stages = t.spare = t.pace = 0;
    t.slices = 1;
    t.tickets = t.settled = t.reread = t.async = false;
    add();
  }
  while (t.row_warps % 2 == 0 && t.neighbours == 1) {
    t.row_warps /= 2;
    add();
  }
  return smaller;
}

}  // namespace seam
