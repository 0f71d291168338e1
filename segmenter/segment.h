// Segment: a Fusion cut into groups that each are one kernel plan.
//
// Deterministic: the same Fusion, guard and options give the same result on every run and machine.
// Thread-safety: free functions; calls share nothing. Of a large graph some stages run on a second
// thread (ir/beside.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "segmenter/segmented_fusion.h"
#include "segmenter/sizes.h"

namespace seam {

// What a launch costs beside its memory traffic, as bytes. Source: 2 to 3 us between dependent
// launches of one stream, at 1.5 to 3 TB/s.
inline constexpr int64_t kLaunchBytes = int64_t{4} << 20;

struct SegmentOptions {
  SymbolSizes sizes;   // For gains only.
  bool trace = false;  // Record every trial; see SegmentationLog.
  bool verify_each_merge =
      false;  // Check every invariant from scratch after each merge; quadratic.
  std::vector<std::string> disabled_passes;  // Names of SegmentPasses().
  // In what types values may cross between groups. kF16 and kBF16 permit roundings that the graph
  // does not ask for; RoundedFusion (segmenter/extract.h) says what is computed then.
  Narrowing narrow_edges = Narrowing::kExact;
};

// One attempt to merge groups, or a change of the borders between them.
struct MergeTrial {
  const char* pass = "";
  struct Member {
    ExprId first;       // Its lowest expression,
    int num_exprs = 0;  // and how many it had.
  };
  std::vector<Member> members;
  // Where borders changed rather than that the members became one group: the expressions at home in
  // each new group. Ascending; never empty then.
  std::vector<std::vector<ExprId>> made;
  int64_t gain_bytes = 0;  // Traffic and launches saved.
  Decision decision;       // Merged if ok.
};

// Why two groups that a data edge joins, or that read the same value, are two.
struct BorderReason {
  GroupId from, to;  // `from` comes first in the order of the groups.
  Decision decision;
};

struct SegmentationLog {
  std::vector<MergeTrial> trials;  // In the order they were made; empty unless traced.
  std::vector<BorderReason>
      borders;  // Sorted by (from, to); the last refusal of each pair that was tried.
  // Per expression: the lowest expression of the group in which it began, invalid without a home. A
  // merged group goes by the lowest of its members'. Empty unless traced.
  std::vector<ExprId> beginnings;
  int num_trials = 0, num_merges = 0, num_rounds = 0;
  // Of a loaded one: what its decisions' details point to.
  std::vector<std::shared_ptr<const std::string>> texts;
};

struct Segmentation {
  SegmentedFusion segmented;
  SegmentationLog log;
};

// Groups are numbered in topological order and each has the scheduler that accepted it. Errors:
// kInvalidArgument for sizes that do not fit the symbols or an unknown pass; kInternal when the
// guard refuses an expression alone. O(E log E), guard and searches for cycles (bounded) apart.
absl::StatusOr<Segmentation> SegmentWithLog(const Fusion& fusion, const SchedulabilityGuard& guard,
                                            const SegmentOptions& options = {});
absl::StatusOr<SegmentedFusion> Segment(const Fusion& fusion, const SchedulabilityGuard& guard,
                                        const SegmentOptions& options = {});

struct SegmentPass {
  const char* name;
  const char* doc;
};
absl::Span<const SegmentPass> SegmentPasses();  // In the order in which they run.

}  // namespace seam
