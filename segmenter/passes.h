// The passes of segmentation, each in the file of its name. Segment() runs them in this order; the
// three that merge take turns until none finds anything, and islands and what waits for them are
// joined at the end.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/canonical_order.h"
#include "segmenter/crossing_types.h"
#include "segmenter/cut_model.h"
#include "segmenter/merger.h"
#include "segmenter/segment.h"
#include "segmenter/window.h"

namespace seam {

// Per expression: whether groups compute it. What no output depends on they do not, unless
// `enabled` is false. Linear.
std::vector<bool> LeaveOutDeadCode(const Fusion& fusion, bool enabled);

// Cheap producers of an expression that it takes along as copies of its own.
struct Privatized {
  std::vector<bool> cheap;  // Per expression.
  std::vector<std::vector<ExprId>>
      producers;  // Per expression that is not cheap: ascending; empty for most.
};
// Finds what costs next to nothing to compute again, compared with reading it: factories,
// broadcasts, views that only rename indices, views of inputs, casts to a wider type, and what is
// computed from constants and scalar inputs. With `enabled` false, nothing is cheap.
Privatized PrivatizeCheapProducers(const Fusion& fusion, const AxisMap& axes,
                                   const ValueFacts& facts, bool enabled);

// A group for every expression in `kept` that is not cheap, with copies of its cheap producers
// where the guard accepts them. Errors: kInternal when the guard refuses an expression alone.
struct InitialGroups {
  Partition partition;
  std::vector<SchedulerKind> schedulers;  // Per group.
  Units units;
};
absl::StatusOr<InitialGroups> MakeInitialGroups(const Fusion& fusion, const AxisMap& axes,
                                                const ValueFacts& facts,
                                                const SchedulabilityGuard& guard,
                                                const std::vector<bool>& kept,
                                                Privatized privatized);

// Each merges what it can and returns whether it did.

// A producer and a consumer of one value.
bool MergeVertically(Merger& merger, const char* pass = "vertical");
bool MergeSiblings(Merger& merger);  // Two readers of one value.
bool MergeClosures(
    Merger& merger);  // Two that a path through others joins, with all that is on such paths.
// Gives groups copies of what leads to values that they read, where that moves fewer bytes. After
// all that moves borders: a unit may then be in several groups. Only siblings are merged once more.
bool RecomputeInReaders(Merger& merger);
// Groups that share nothing, side by side in one launch. After all that change groups: what it
// joins would have to be taken apart for another merge.
bool MergeHorizontally(Merger& merger);
// A producer and a consumer that the guard accepts late, one row that waits for a reduction over
// all of it. The last to run: late.cc says why.
bool MergeLate(Merger& merger);
// Each changes borders, where that lowers the price of the cut, and returns whether it did.
bool SplitGroups(Merger& merger,
                 Refinement& refinement);  // Cuts a group and merges around the cut.
bool MoveBorders(Merger& merger,
                 Refinement& refinement);  // Moves units from group to group, several moves ahead.

// The final number of every group: topological, the lowest expression first among those that could
// come next.
std::vector<GroupId> FinalNumbers(const SegmentedFusion& segmented);
// The layouts of buffers: of a value that the caller gives or gets what the Fusion says, of one
// between groups that of the largest value that its group reads along the same axes (of equally
// large ones the first in `order`). Schedulers have to be set.
void ChooseLayouts(SegmentedFusion& segmented, const SizeHints& sizes, const CanonicalOrder& order);

// What the passes made, in the ids of the Fusion that they had.
struct FinalCut {
  Partition partition;
  std::vector<SchedulerKind> schedulers;  // Per group.
  SegmentationLog log;
};
// The groups under these numbers.
FinalCut NumberGroups(const SegmentedFusion& segmented, const std::vector<GroupId>& numbers,
                      SegmentationLog log);
// The same of a Fusion whose expression order.exprs[i] theirs is.
SegmentationLog InIdsOf(const CanonicalOrder& order, SegmentationLog log);
// The cut of Renumbered(fusion, order) as one of `fusion`, with layouts. `axes` and `sizes` are
// those of `fusion`. Errors: those of SegmentedFusion::Create, which would be a defect here.
absl::StatusOr<SegmentedFusion> Finalize(const Fusion& fusion, std::shared_ptr<const AxisMap> axes,
                                         const SizeHints& sizes, FinalCut cut,
                                         const CanonicalOrder& order);
// Gives the buffers between groups the types in which their values cross. Linear.
void NarrowEdges(SegmentedFusion& segmented, const CrossingTypes& types);

}  // namespace seam
