// Which axes are the rows of a group whose reductions keep different ones, and how each of these
// crosses them.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/group_shape.h"

namespace seam {

struct RowChoice {
  AxisSet rows, batch;            // GroupShape has what they mean.
  std::vector<Crossing> crosses;  // Per reduction.
};

// The axes that are rows: what those of the reductions keep that have more than pointwise results
// behind them; if there is none, what one of them keeps, or folds beside reductions of everything,
// preferably without the axis that is fastest in memory. Of `shape` the axes, their order and what
// is folded are there. Error: kUnimplemented naming a reduction that does not cross the others'
// rows. Linear in the expressions, for each distinct set of kept axes.
absl::StatusOr<RowChoice> ChooseRows(const Fusion& group, const GroupShape& shape,
                                     const std::vector<ExprId>& reductions);

// What reductions fold that all keep the same axes, beside reductions of everything: these are rows
// that nothing keeps. Nothing where some keep other axes, or do not run over these.
std::optional<AxisSet> FoldedBesideAll(const AxisMap& axes, absl::Span<const ExprId> reductions);

}  // namespace seam
