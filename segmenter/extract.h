// ExtractGroup: a group as a Fusion of its own: what schedulers lower, caches key on and people
// read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "segmenter/segmented_fusion.h"

namespace seam {

struct ExtractedGroup {
  // Named g and the group's number, with a ShapeEnv of its own that holds the symbols in use, under
  // the same names and ranges. Values keep their names, expressions their places in the text.
  // Inputs and outputs have the memory layout of their buffers, so that groups agree on it.
  Fusion fusion;
  // Ids in the original, in the order of the small Fusion's inputs, outputs and expressions. The
  // casts of values that cross in a narrower type are none of the original's: their ids are
  // invalid. Such a value's narrow form is called `v.bf16`, what the group computes with `v`.
  std::vector<ValId> inputs, outputs;
  std::vector<ExprId> exprs;
};

// Errors: kInvalidArgument if the group does not exist; what FusionBuilder says, which would be a
// defect here. Linear in the group.
absl::StatusOr<ExtractedGroup> ExtractGroup(const SegmentedFusion& segmented, GroupId group);

// What one of the outputs of a group takes of it. Error: kInvalidArgument if the group or the value
// does not exist.
absl::StatusOr<ExtractedGroup> ExtractOutput(const SegmentedFusion& segmented, GroupId group,
                                             ValId output);

// The expressions (ascending) of a Fusion as one of their own that returns `outputs`, with the
// symbols and inputs of the Fusion that they have to do with. Error: kInvalidArgument where they do
// not exist, are not in order, or read another expression's results.
absl::StatusOr<ExtractedGroup> ExtractPart(const Fusion& fusion, const std::string& name,
                                           const std::vector<ExprId>& exprs,
                                           const std::vector<ValId>& outputs);
// Whether some value is rounded by crossing, so that the groups do not compute what the Fusion says
// but what RoundedFusion does.
bool RoundsEdges(const SegmentedFusion& segmented);
// The groups put together again, with the casts at their borders: inputs, outputs and symbols are
// the original's. Errors and cost as above, of all groups.
absl::StatusOr<Fusion> RoundedFusion(const SegmentedFusion& segmented);

}  // namespace seam
