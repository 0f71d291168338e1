// Windows: the neighbourhood of a group as a CutModel, and the way back.
//
// Passes that change borders rather than join whole groups look at one window after the other. Most
// windows of a large graph look like others; one in which a pass found nothing is not searched a
// second time, in this round or a later one.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "segmenter/cut_model.h"
#include "segmenter/merger.h"

namespace seam {

// A cheaper cut of a model, all of whose blocks are legal, or none. `focus` is a block of `cut`.
using ImproveCut = absl::FunctionRef<Cut(CutModel& model, const Cut& cut, UnitMask focus)>;

// What the passes that look at windows share through one segmentation.
struct Refinement {
  Refinement(Units units_of_groups, uint32_t num_exprs);
  const Units units;
  int64_t work;                         // Left; about the expressions that may still be looked at.
  absl::flat_hash_set<uint64_t> known;  // Fingerprints of windows with nothing to find.
  Judgements judgements;
};

// Looks at the window around every group, and takes what `improve` finds as long as it finds
// something. Returns whether it did. All calls together do work in proportion to the graph; what is
// not looked at then stays as it is. Windows that are known are known for a pass and its effort.
bool ImproveWindows(const char* pass, int effort, Merger& merger, Refinement& refinement,
                    ImproveCut improve);

}  // namespace seam
