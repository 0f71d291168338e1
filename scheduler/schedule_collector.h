// Collects schedules of a group with an estimate of their time, for Alternatives: the best come
// first. Thread-safety: none.
#pragma once

#include <vector>

#include "scheduler/choose.h"

namespace seam {

class ScheduleCollector {
 public:
  // Registers that a thread has for addresses, indices and what is under way. Source: the registers
  // and spills of 200 schedules of layer norms by NVRTC for sm_90a.
  static constexpr double kOtherWords = 20;

  // Both must outlive the collector.
  ScheduleCollector(const SizedGroup& sized, const Schedule& chosen)
      : sized_(sized), chosen_(chosen) {}

  // Whether it is another one than the chosen, and has the rows that the group's sections and
  // batches ask for.
  bool Takes(const Schedule& schedule) const;

  // Where it takes the schedule. `steps`: in how much it differs from the chosen one beside how
  // rows are shared.
  void Add(const Schedule& schedule, double cost, int steps);

  // kMostAlternatives at the most. The best of each arrangement come before its lesser ones: the
  // estimate tells these apart better than those. Once, when all have been added.
  std::vector<Schedule> Take();

  // The time of a schedule relative to a copy's, where `words` registers of a thread hold
  // elements, `held_bytes` of them on their way, and `passes` are made over memory.
  double Cost(const Schedule& schedule, double words, double held_bytes, double passes) const;

 private:
  struct Found {
    double cost;
    Schedule schedule;
  };
  const SizedGroup& sized_;
  const Schedule& chosen_;
  std::vector<Found> found_;
};

}  // namespace seam
