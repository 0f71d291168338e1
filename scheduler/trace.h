// Trace: from a group to the tile level. Every result is followed back to the inputs at one point
// (row, column); views on the way only change the index at which their operand is wanted, so no
// view ever becomes code. A value wanted at two indices is two tile values.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/column_parts.h"
#include "scheduler/group_shape.h"
#include "scheduler/kernel/tile.h"
#include "scheduler/launch_plan.h"
#include "scheduler/online.h"

namespace seam {

// Axes are empty only where the facts say so. Rows of empty axes count as one, in which nothing
// that has the axis is touched.
struct TraceOptions {
  std::vector<SymbolFact> facts;
  bool chan_welford = false;  // A Welford is one reduction; else two, the mean first.
  int alignment_bytes = 16;   // Of every base address.
  // More than one CTA a row: stage k of the plan reads the partial states of all reductions above
  // depth k, leaves those of depth k, and stores the outputs of depth k.
  int split = 1;
  int stage = 0;
  // Not null: of these, only what runs along columns of the `part`-th of these, or along none where
  // that is as many as there are.
  std::shared_ptr<const std::vector<ColumnPart>> parts;
  size_t part = 0;
  // Not 0: of the CTAs that share a row there are no more for a part of its columns, if it is known
  // how many these are, than have so many of them each.
  int64_t columns_of_cta = 0;
  // Reductions that cross the rows leave this many partial states, those of batches as many for
  // each batch, or for all if they do not keep them; 0: there are none to leave. With
  // `finish` the kernel merges those and stores what is finished and has the axes of the rows.
  int places = 0;
  bool finish = false;
  std::vector<OnlineSum> online;  // Sums that are folded with their maxima.
  // So many rows beside each other have one result: those of GroupShape::merged.
  int neighbours = 1;
  // So many rows beside each other leave one state, of what folds some axes of the rows.
  int64_t together = 1;
  // CTAs of a cluster, each of which leaves states of the columns that are kept, or of the rows.
  int pieces = 1, row_pieces = 1;
};

struct TracedKernel {
  kernel::TileKernel tile;
  std::vector<BufferSource> sources;
  std::vector<SymInt> arguments;
  std::vector<std::vector<int>>
      partials;  // Per tile reduction and component: the buffer that takes partial states.
  std::vector<ExprId> reductions;      // Per tile reduction: the expression that it computes.
  std::vector<int> held_spaces;        // Those of GroupShape::held that the kernel has.
  SymInt batches = 1, batch_rows = 0;  // How many there are, and the rows of one.
  bool splits_columns = false;         // Some pass runs over columns that CTAs share,
  SymInt ctas = 1;                     // so many of them with TraceOptions::columns_of_cta.
};

// The type in which a reduction accumulates: the operand's own for extrema and statistics, wider
// for sums and products.
DType AccumulatorType(const Fusion& group, ExprId reduction);

// A partial state in memory: which workspace belongs to reduction expression `expr` and component.
struct PartialSlot {
  ExprId expr;
  int component = 0;
};

// The workspaces of a plan that leaves partial states, in the order of their indices in
// LaunchPlan::workspaces: of the reductions that cross the rows or, if none does, of all.
std::vector<PartialSlot> PartialSlots(const Fusion& group, const GroupShape& shape);

// Errors: kUnimplemented for an operation that no kernel holds or a reduction read at another row
// than its own; kResourceExhausted for more than kMaxTileValues values.
absl::StatusOr<TracedKernel> Trace(const Fusion& group, const GroupShape& shape,
                                   const TraceOptions& options);

inline constexpr size_t kMaxTileValues = 20000;

}  // namespace seam
