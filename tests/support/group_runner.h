// Runs a Fusion as one group: chooses or takes a schedule, lowers it, simulates every kernel, and
// holds the outputs against the reference. Where arrays last through the phases of a launch, the
// phases are also launched one by one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ir/reference/host_tensor.h"
#include "scheduler/scheduler.h"

namespace seam::testing {

struct GroupRun {
  std::map<std::string, int64_t> sizes;  // Of the symbols.
  int alignment_bytes = 16;
  uint64_t seed = 1;
  uint64_t order = 7;                                    // Of the CTAs, on the simulator.
  std::function<void(Schedule&)> edit;                   // Changes the schedule before lowering.
  std::function<void(LaunchPlan&)> edit_plan;            // Changes the kernels before they run.
  std::function<void(std::vector<HostTensor>&)> inputs;  // Replaces the random inputs.
};

struct GroupResult {
  Schedule schedule;
  std::string kernel_text;
  std::vector<HostTensor> outputs;
  absl::Status status;  // Of lowering, simulating and comparing.
};

// With pointwise, horizontal or reduction, whichever fits the Fusion.
GroupResult RunGroup(const Fusion& group, const GroupRun& run);
GroupResult RunGroupText(const std::string& text, const GroupRun& run);

// The heuristic's schedule for a group, given as text, at these sizes of its symbols.
Schedule Chosen(const std::string& text, std::vector<int64_t> sizes,
                const std::string& device = "h200", SchedulerKind kind = SchedulerKind::kReduction);

}  // namespace seam::testing
