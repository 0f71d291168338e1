// LoadSegmentation: a segmentation back from its JSON or its text (segmenter/dump.h), instead of
// segmenting.
//
// The loader believes a file only who computes what: the groups' expressions, copies and
// schedulers. Inputs, outputs, edges, traffic and the groups' texts follow from these and the
// graph; what a file leaves out of them is worked out, what it says of them must be true. So a file
// of another graph, or of an older one, is refused.
// Thread-safety: free functions without shared state.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "segmenter/segment.h"

namespace seam {

struct LoadedSegmentation {
  SegmentedFusion segmented;
  SegmentationLog log;  // The borders; merges are not in the file.
  SymbolSizes sizes;    // For which the segmentation was made.
};

// `text` is what DumpJson or DumpText (without colour) gave for this Fusion; JSON may also be
// written by hand, with `fusion` and the groups' `exprs`, `copies` and `scheduler` alone. Dumped
// again with the same sizes it gives the same bytes. Every invariant is checked from scratch.
// Errors: kInvalidArgument with the place (line and column, a path such as `groups[1].inputs`, or a
// line) and the reason. Linear in the text and the graph, logarithms apart.
absl::StatusOr<LoadedSegmentation> LoadSegmentation(const Fusion& fusion, absl::string_view text);

// Whether each group is one plan of the scheduler that it names. To be asked before a loaded
// segmentation is lowered. Errors: kInvalidArgument with the group and who refuses it, and why.
absl::Status CheckSchedulable(const SegmentedFusion& segmented, const SchedulabilityGuard& guard);

}  // namespace seam
