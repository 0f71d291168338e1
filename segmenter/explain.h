// ExplainValues: why two values are, or are not, in one kernel, in a paragraph.
//
// Thread-safety: free functions without shared state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "segmenter/guard.h"
#include "segmenter/segment.h"
#include "segmenter/sizes.h"

namespace seam {

// What a reason means, as a clause: "a reduction's result is needed by tiles that do not compute
// it".
absl::string_view ReasonSentence(ReasonCode code);

// The groups of the two values, what passes between these, who refused to make one of them and
// about which expressions. What the log does not have is asked of the guard now. `segmented` is
// what Segment or LoadSegmentation gave, and stays what it is (its searches use scratch memory).
// Errors: kNotFound for a name that the graph has not, with names like it. Linear in the graph.
absl::StatusOr<std::string> ExplainValues(SegmentedFusion& segmented, const SegmentationLog& log,
                                          const SchedulabilityGuard& guard, const SizeHints& sizes,
                                          absl::string_view a, absl::string_view b);

// The same of pairs of groups, each in a line. Linear in the graph, and for each pair in the groups
// that lie between the two.
std::vector<std::string> ExplainBorders(SegmentedFusion& segmented, const SegmentationLog& log,
                                        const SchedulabilityGuard& guard, const SizeHints& sizes,
                                        absl::Span<const std::pair<GroupId, GroupId>> borders);

}  // namespace seam
