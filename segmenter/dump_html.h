// DumpHtml: a segmentation as one page that a browser shows without a network: the graph with its
// groups as boxes, everything about a group at a click, why a border is one at another, the merges
// step by step, a search.
//
// Thread-safety: free functions without shared state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "segmenter/dump.h"

namespace seam {

// What is known of a group beyond the segmentation, by those who lower and run it. All of it is
// shown as it is.
struct KernelCode {
  std::string name;
  std::string ir, cuda;  // Texts; empty: not known.
  int threads = 0;       // Of a CTA. This and what follows: 0 or -1 where not known.
  int registers = -1;    // A thread.
  int64_t smem_bytes = -1;
  int64_t spill_bytes = -1;  // Stored and loaded.
};
struct GroupCode {
  GroupId group;
  std::vector<std::string> schedules;  // One, or more where it is lowered in parts.
  std::vector<std::string> guards;
  std::vector<KernelCode> kernels;
  std::optional<double> estimated_us, measured_us;
};

struct HtmlOptions {
  std::string device;                          // For which the schedules are; may be empty.
  std::vector<GroupCode> code;                 // At most one a group.
  const SchedulabilityGuard* guard = nullptr;  // Required: says why, where nobody has tried.
};

// The merges can be stepped through where `options.log` was traced. `segmented` stays what it is
// (its searches use scratch memory). Error: kInvalidArgument for a graph too large to be drawn.
absl::StatusOr<std::string> DumpHtml(SegmentedFusion& segmented, const DumpOptions& options,
                                     const HtmlOptions& html);

// The parts of the page that do not depend on the graph (page_style.cc, page_script.cc).
extern const char kPageStyle[];
extern const char kPageScript[];

}  // namespace seam
