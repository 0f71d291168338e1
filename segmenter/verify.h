// VerifySegmentation: every invariant of a SegmentedFusion, from the expressions alone.
#pragma once

#include "absl/status/status.h"
#include "segmenter/segmented_fusion.h"

namespace seam {

// OK, or kInternal with the first broken invariant of segmenter/segmented_fusion.h, naming group
// and value: homes, inputs and outputs, edges and buffers, order and cycles, summaries. Linear in
// the graph, logarithms apart.
absl::Status VerifySegmentation(const SegmentedFusion& segmented);

}  // namespace seam
