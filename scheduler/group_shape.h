// GroupShape: a group seen as rows and columns.
//
// Rows are the axes that the group's reductions keep; without reductions they are all axes or,
// where results have unlike ones, those that all have in common. Everything else that an expression
// runs over are its columns. Both are ordered from slow to fast as the data lie in memory, so that
// neighbouring columns (or, if `outer`, rows) are neighbours in memory.
//
// Some reductions may cross the rows, wholly or in part, if nothing that follows them in the group
// leaves the axes that they keep: what each row or each CTA has folded is finished when all
// have. Thread-safety: plain data.
#pragma once

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "ir/fusion.h"
#include "scheduler/schedule.h"
#include "segmenter/axes.h"

namespace seam {

// What a reduction that keeps other axes than the rows does with them.
enum class Crossing : uint8_t {
  kNone,        // Nothing: it keeps the rows.
  kRows,        // Folds all rows, or those of each batch; keeps every column.
  kAll,         // Folds everything.
  kSomeRows,    // Keeps some axes of the rows, folds the others and its columns.
  kSomeColumns  // Keeps some of the columns and some or no axes of the rows, folds the others.
};

// The columns for which each row leaves a state, of a reduction that keeps some of them: those
// between the slowest and the fastest axis that it keeps. One in between that it folds is folded
// where the states are merged.
struct KeptColumns {
  std::vector<AxisId> axes;   // Slow to fast.
  std::vector<AxisId> inner;  // Columns that are faster.
};

// Where reductions of parts of a row stand beside those of whole rows (scheduler/sections.h).
struct SectionAxes {
  std::vector<AxisId> columns;  // What tells sections apart, slow to fast; a row's slow columns.
  std::vector<AxisId> folded;   // The columns of one: a row's fast columns.
  int64_t size = 1;             // So many; 1: there are no sections.
};

struct GroupShape {
  AxisMap axes;
  std::vector<AxisId> rows;  // Slow to fast; those of `batch` first.
  // Axes of the rows that reductions across them keep: CTAs take rows of one batch, a coordinate
  // along these axes, and leave states of their columns for each.
  std::vector<AxisId> batch;
  std::vector<AxisId> RowsOfBatch() const;  // The other axes of the rows.
  // Whether a reduction across the rows has states for each batch.
  bool KeepsBatches(ExprId e) const;
  std::vector<AxisId> order;  // Every axis of the group, slow to fast.
  bool outer = false;         // The fastest axis in memory is a row axis.
  bool reduces = false;       // Rows fold something.
  // Per expression: a reduction for which threads share a row; one that is none of these is
  // computed by each thread (scheduler/unrolled.h).
  std::vector<bool> folds;
  bool unrolls = false;  // There are some of these.
  // What is left of an axis of the rows, of this extent, where rows have several points.
  SymInt Steps(AxisId a, SymInt extent) const;
  bool crossed() const;           // Some reduction crosses rows.
  bool crosses_all_rows() const;  // As kRows or kAll.
  bool keeps_columns() const;     // As kSomeColumns.
  // Whether rows fold columns for what crosses some of them: CTAs that share a row may leave a
  // state each.
  bool FoldsColumnsForRows(ExprId e) const;
  SectionAxes sections;
  // The fastest axes of the rows, as far as a reduction folds them: rows beside each other whose
  // states are of one result.
  std::vector<AxisId> RowsFoldedBy(ExprId e) const;
  // Whether a reduction has a result for each section of a row.
  bool FoldsSections(ExprId e) const;
  std::vector<int> depth;  // Per value: how many reductions lie in a chain above it.
  int max_depth = 0;

  std::vector<Crossing> crosses;     // Per expression.
  std::vector<KeptColumns> kept;     // Per expression: of kSomeColumns.
  std::vector<bool> finished;        // Per value: after such a reduction.
  std::vector<AxisId> crossed_rows;  // FinishedShape: the rows that were crossed.
  // NeighboursAsRows: the rows that were columns. What keeps the other rows merges their states.
  std::vector<AxisId> merged;

  // Schedule::points: so many neighbours are one row. They lie along these axes of the rows, the
  // fastest first; the last may be that of Schedule::beside.
  struct PointsOfAxis {
    AxisId axis;
    int points;
    bool uneven = false;  // They may not divide it: of the last ones some are behind its end.
  };
  int points = 1;
  std::vector<PointsOfAxis> along;

  // Axes of operands that views shift, shorten or mirror: along which axes of the results they lie,
  // slow to fast.
  absl::flat_hash_map<AxisId, std::vector<AxisId>> lies_along;

  std::vector<SymInt> extents;  // Of all values, each once.

  SymInt row_extent = 1;  // Product over rows, in the group Fusion's symbols.
  // Columns that are neighbours in memory, up to the next row axis, slow to fast; none if rows are.
  std::vector<AxisId> Run() const;
  // The columns of an expression space or of a tensor's axes: those that are no rows, slow to fast.
  std::vector<AxisId> Columns(const AxisSet& space) const;
  SymInt Extent(const std::vector<AxisId>& axes) const;
  // What a row has to hold: the columns of all reductions and outputs, without those that others
  // have among theirs, and those for whose elements states are kept across the rows.
  std::vector<std::vector<AxisId>> held;
};

// Error: kUnimplemented where reductions keep different axes, do not cross each other's rows and do
// not fold sections of them.
absl::StatusOr<GroupShape> AnalyzeGroup(const Fusion& group);

// The same group with its neighbouring columns as rows of their own: each channel of a group norm's
// group, if channels lie last. States of some columns then are states of rows. Error:
// kUnimplemented where rows or all of their neighbours are not beside each other, or a reduction
// keeps other columns or no rows.
absl::StatusOr<GroupShape> NeighboursAsRows(const Fusion& group, GroupShape shape);
// The same of columns that are neighbours in an input or output that lies across the others: in a
// group norm's result with the channels last, of images that have them in front.
absl::StatusOr<GroupShape> NeighboursAcross(const Fusion& group, GroupShape shape);

// A pointwise group of which some tensors have neighbours along another axis than the one that is
// fastest in `shape`: what is slower than that axis and itself are rows, what is faster columns.
// Error: kUnimplemented where all have neighbours along the same axis, or there are columns
// already.
absl::StatusOr<GroupShape> RowsAcross(const Fusion& group, GroupShape shape);

// The group's shape as a schedule sees it.
absl::StatusOr<GroupShape> ShapeFor(const Fusion& group, const Schedule& schedule);

// Of what a reduction reads, the last axis of more than one element: the fastest, if it lies in the
// order of its dimensions. Invalid where there is none.
AxisId LastAxis(const Fusion& fusion, const AxisMap& axes, ExprId reduction);

// Whether CTAs that the schedule has take rows of one batch each; true where there are none.
bool TakesBatches(const GroupShape& shape, const Schedule& schedule);

// Whether a CTA holds whole rows and lanes of a warp whole sections of them; true where there are
// none.
bool HoldsSections(const GroupShape& shape, const Schedule& schedule);

// The shape of what is finished after the rows have been crossed and has the axes `kept`: its rows
// are all of them.
GroupShape FinishedShape(const GroupShape& shape, const AxisSet& kept);

}  // namespace seam
