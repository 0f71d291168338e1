// The HTML page of a segmentation, with what the runtime knows of its kernels.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/seam_cut.h"

namespace seam::tool {

struct PageOptions {
  std::string device;   // Empty: the first of the device table.
  bool compile = true;  // With NVRTC, where there is one; else the page has the kernels' IR alone.
  std::string times;    // A file, JSON: {"g0": microseconds, ...}; may be empty.
};

// Errors: kInvalidArgument for times that are not of this form or of groups that do not exist, and
// for a graph too large to be drawn; what Compile says.
absl::StatusOr<std::string> MakePage(Cut& cut, const PageOptions& options);

// The schedules and kernels of the cut's groups; with `compile` also the machine code's figures.
absl::StatusOr<std::vector<GroupReport>> ReportsOf(const Cut& cut, const std::string& device,
                                                   bool compile);

// A group's schedule as a line, with what its kernels leave in partial states, if anything.
std::string ScheduleLine(const GroupReport& report);

}  // namespace seam::tool
