// The best cut of a small graph, against which the segmenter's is held.
//
// The price of a cut is what segmenter/cut_model.h says: bytes through device memory and
// kLaunchBytes for each launch, over all cuts of the initial groups whose blocks the guard accepts
// and whose quotient has no cycle.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ir/fusion.h"
#include "segmenter/cut_model.h"
#include "segmenter/guard.h"
#include "segmenter/segment.h"

namespace seam {

// A graph whose every initial group is a unit of one CutModel.
class WholeGraph {
 public:
  // Errors: those of Segment(); kInvalidArgument for more than CutModel::kMaxUnits units. The
  // Fusion and the guard must outlive it.
  static absl::StatusOr<std::unique_ptr<WholeGraph>> Create(const Fusion& fusion,
                                                            const SchedulabilityGuard& guard);

  CutModel& model() { return *model_; }
  // The cut that the groups of a segmentation of the same Fusion make.
  Cut CutOf(const SegmentedFusion& segmented) const;
  // What a segmentation costs by its traffic and launches.
  int64_t BytesOf(const SegmentedFusion& segmented) const;
  // The groups of a cut.
  absl::StatusOr<SegmentedFusion> Segmented(const Cut& cut);

 private:
  WholeGraph(const Fusion& fusion, SizeHints sizes) : fusion_(fusion), sizes_(std::move(sizes)) {}

  const Fusion& fusion_;
  SizeHints sizes_;
  Units units_;
  std::unique_ptr<SegmentedFusion> singletons_;
  Judgements judgements_;
  std::unique_ptr<CutModel> model_;
};

// The optimum, by dynamic programming over what can run first. O(3^n) for n units.
Cut BestCut(CutModel& model);

// The best cut that annealing finds: `restarts` runs of `steps` moves (a unit to another block or a
// new one, two blocks joined, a block cut at a cone), each from the best cut so far, the first from
// `start`.
Cut LongSearch(CutModel& model, const Cut& start, int restarts, int steps, uint32_t seed);

}  // namespace seam
