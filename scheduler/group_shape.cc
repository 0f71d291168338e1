#include "scheduler/group_shape.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/axis_order.h"
#include "scheduler/points.h"
#include "scheduler/row_choice.h"
#include "scheduler/sections.h"
#include "scheduler/unrolled.h"
#include "segmenter/summary.h"

namespace seam {
namespace {

// The axes that all results have, or the axes of all if one has those of every other.
AxisSet CommonAxes(const Fusion& group, const AxisMap& axes) {
  AxisSet all, common;
  bool first = true;
  for (ValId v : group.outputs()) {
    all = Union(all, axes.axes(v));
    common = first ? axes.axes(v) : Intersection(common, axes.axes(v));
    first = false;
  }
  for (ValId v : group.outputs()) {
    if (axes.axes(v) == all) return all;
  }
  return common;
}

// The rows of a group that folds nothing: all that its results have in common, or the axes along
// which whole rows are looked up that lie beside each other. A row's vectors are then all found at
// one place. Source: docs/schedulers/pointwise.md, "Rows that are looked up whole".
AxisSet RowsOfPoints(const Fusion& group, const AxisMap& axes, absl::Span<const AxisId> order) {
  const AxisSet common = CommonAxes(group, axes);
  AxisSet rows = common;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (group.info(e).op_class == OpClass::Indexing && IsSubset(common, axes.axes(group.result(e))))
      rows = Intersection(rows, axes.axes(group.operands(e)[1]));
  }
  const bool is_beside = !order.empty() && !absl::c_binary_search(rows, order.back());
  return rows.empty() || !is_beside ? common : rows;
}

KeptColumns ColumnsKeptBy(const GroupShape& shape, ExprId e) {
  const AxisSet& kept = shape.axes.kept(e);
  const auto is_kept = [&](AxisId a) { return absl::c_binary_search(kept, a); };
  std::vector<AxisId> columns = shape.Columns(shape.axes.space(e));
  const auto first = absl::c_find_if(columns, is_kept);
  const auto end = std::find_if(columns.rbegin(), columns.rend(), is_kept).base();
  return {{first, end}, {end, columns.end()}};
}

// A section's columns become the fastest ones, if they are not so in memory already.
void PlaceSections(const Sections& sections, GroupShape& shape) {
  const auto is_folded = [&](AxisId a) { return absl::c_binary_search(sections.folded, a); };
  absl::c_stable_partition(shape.order, [&](AxisId a) { return !is_folded(a); });
  for (AxisId a : shape.order) {
    if (is_folded(a)) shape.sections.folded.push_back(a);
    if (absl::c_binary_search(sections.columns, a)) shape.sections.columns.push_back(a);
  }
  shape.sections.size = sections.size;
}

// What a row has to hold, in `shape.held`: columns that are some of others' are there with these.
void HoldColumns(const Fusion& group, GroupShape& shape) {
  shape.held.clear();
  const auto hold = [&](const AxisSet& space) {
    std::vector<AxisId> columns = shape.Columns(space);
    const auto covers = [](const std::vector<AxisId>& all, const std::vector<AxisId>& some) {
      return absl::c_all_of(some, [&](AxisId a) { return Contains(all, a); });
    };
    if (absl::c_any_of(shape.held, [&](const auto& held) { return covers(held, columns); })) return;
    std::erase_if(shape.held, [&](const auto& held) { return covers(columns, held); });
    shape.held.push_back(std::move(columns));
  };
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    if (shape.folds[i]) hold(shape.axes.space(ExprId(i)));
  }
  for (ValId v : group.outputs()) {
    if (!shape.finished[v.index()]) hold(shape.axes.axes(v));
  }
  if (shape.held.empty()) shape.held.emplace_back();
  // For their elements states are kept, however wide others are.
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    if (shape.crosses[i] != Crossing::kRows) continue;
    std::vector<AxisId> columns = shape.Columns(shape.axes.space(ExprId(i)));
    if (!absl::c_linear_search(shape.held, columns)) shape.held.push_back(std::move(columns));
  }
}

}  // namespace

namespace {

// `shape` with these columns as rows.
absl::StatusOr<GroupShape> AsRows(const Fusion& group, GroupShape shape,
                                  std::vector<AxisId> neighbours) {
  const auto refuse = [&](absl::string_view why) {
    return absl::UnimplementedError(
        absl::StrCat("group ", std::string(group.name()), ": neighbouring columns as rows: ", why));
  };
  shape.merged = std::move(neighbours);
  if (shape.merged.empty() || shape.rows.empty()) return refuse("there are none beside rows");
  AxisSet merged(shape.merged.begin(), shape.merged.end());
  absl::c_sort(merged);
  shape.rows.insert(shape.rows.end(), shape.merged.begin(), shape.merged.end());
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (!shape.folds[i]) continue;
    const AxisSet &space = shape.axes.space(e), kept = shape.axes.kept(e);
    switch (shape.crosses[i]) {
      case Crossing::kNone:
        if (!IsSubset(merged, space) && !Intersection(merged, space).empty())
          return refuse("a reduction folds some of them");
        break;
      case Crossing::kSomeRows:
        break;
      case Crossing::kSomeColumns:
        if (!absl::c_all_of(kept, [&](AxisId a) { return Contains(shape.rows, a); }))
          return refuse("a reduction keeps other columns");
        shape.crosses[i] = Crossing::kSomeRows;
        shape.kept[i] = {};
        break;
      case Crossing::kRows:
      case Crossing::kAll:
        return refuse("a reduction folds all rows");
    }
  }
  shape.outer = true;
  shape.row_extent = shape.Extent(shape.rows);
  HoldColumns(group, shape);
  return shape;
}

}  // namespace

absl::StatusOr<GroupShape> NeighboursAsRows(const Fusion& group, GroupShape shape) {
  std::vector<AxisId> run = shape.Run();
  return AsRows(group, std::move(shape), std::move(run));
}

absl::StatusOr<GroupShape> NeighboursAcross(const Fusion& group, GroupShape shape) {
  std::vector<AxisId> run;
  const auto consider = [&](ValId v) {
    for (const std::vector<AxisId>& order : MemoryOrders(group, shape, v)) {
      const auto last = std::find_if(order.rbegin(), order.rend(),
                                     [&](AxisId a) { return Contains(shape.rows, a); });
      if (last == order.rend() || order.back() == shape.order.back() || !run.empty()) continue;
      run.assign(last.base(), order.end());
    }
  };
  for (ValId v : group.inputs()) consider(v);
  for (ValId v : group.outputs()) consider(v);
  return AsRows(group, std::move(shape), std::move(run));
}

absl::StatusOr<GroupShape> RowsAcross(const Fusion& group, GroupShape shape) {
  // The fastest axis of the tensor that has most axes, of those along which others lie across.
  std::optional<AxisId> across;
  size_t most = 0;
  const auto consider = [&](ValId v) {
    for (const std::vector<AxisId>& order : MemoryOrders(group, shape, v)) {
      if (order.back() == shape.order.back() || order.size() <= most) continue;
      across = order.back();
      most = order.size();
    }
  };
  for (ValId v : group.inputs()) consider(v);
  for (ValId v : group.outputs()) consider(v);
  if (!across || shape.reduces || shape.rows.size() < shape.order.size()) {
    return absl::UnimplementedError(
        absl::StrCat("group ", std::string(group.name()), ": no tensor lies across the others"));
  }
  shape.rows.assign(shape.order.begin(), absl::c_find(shape.order, *across) + 1);
  shape.outer = true;
  shape.row_extent = shape.Extent(shape.rows);
  HoldColumns(group, shape);
  return shape;
}

AxisId LastAxis(const Fusion& fusion, const AxisMap& axes, ExprId reduction) {
  AxisId last;
  for (int d = 0; d < fusion.rank(fusion.operands(reduction)[0]); ++d) {
    for (AxisId a : axes.operand_atoms(reduction, 0, d)) {
      if (!axes.extent(a).is_same(1)) last = a;
    }
  }
  return last;
}

absl::StatusOr<GroupShape> ShapeFor(const Fusion& group, const Schedule& schedule) {
  SEAM_ASSIGN_OR_RETURN(GroupShape shape, AnalyzeGroup(group));
  // Of vectors of rows each row leaves a state of what is folded of all.
  if (schedule.outer) absl::c_replace(shape.crosses, Crossing::kAll, Crossing::kSomeRows);
  if (schedule.tiles && !shape.reduces) return RowsAcross(group, std::move(shape));
  shape.outer |= schedule.tiles;
  if (schedule.points > 1 || schedule.beside >= 0)
    return PointsAsOneRow(group, std::move(shape), schedule);
  if (schedule.neighbours == 1) return shape;
  return schedule.tiles ? NeighboursAcross(group, std::move(shape))
                        : NeighboursAsRows(group, std::move(shape));
}

bool TakesBatches(const GroupShape& shape, const Schedule& s) {
  return shape.batch.empty() || !(s.shift || s.tickets || s.pace > 0 || s.one_launch);
}

bool HoldsSections(const GroupShape& shape, const Schedule& s) {
  const int64_t size = shape.sections.size;
  return size == 1 ||
         (s.persistent && !s.outer && !s.shift && !s.blocks && s.split == 1 && s.cluster == 1 &&
          s.grid == 0 && size % s.vector == 0 && size / s.vector <= s.lanes_per_row);
}

GroupShape FinishedShape(const GroupShape& shape, const AxisSet& kept) {
  GroupShape finished = shape;
  finished.crossed_rows = std::move(finished.rows);
  finished.rows.clear();
  finished.merged.clear();
  for (AxisId a : shape.order) {
    if (absl::c_binary_search(kept, a)) finished.rows.push_back(a);
  }
  finished.outer = !finished.rows.empty();
  finished.row_extent = finished.Extent(finished.rows);
  finished.held.clear();
  return finished;
}

SymInt GroupShape::Steps(AxisId a, SymInt extent) const {
  for (const PointsOfAxis& of : along) {
    if (of.axis == a) return of.uneven ? CeilDiv(extent, of.points) : FloorDiv(extent, of.points);
  }
  return extent;
}

bool GroupShape::crossed() const {
  return absl::c_any_of(crosses, [](Crossing c) { return c != Crossing::kNone; });
}

bool GroupShape::crosses_all_rows() const {
  return absl::c_any_of(crosses,
                        [](Crossing c) { return c == Crossing::kRows || c == Crossing::kAll; });
}

std::vector<AxisId> GroupShape::RowsOfBatch() const {
  return {rows.begin() + static_cast<int64_t>(batch.size()), rows.end()};
}

bool GroupShape::KeepsBatches(ExprId e) const {
  return !batch.empty() && crosses[e.index()] == Crossing::kRows &&
         absl::c_binary_search(axes.kept(e), batch.front());
}

bool GroupShape::keeps_columns() const {
  return absl::c_linear_search(crosses, Crossing::kSomeColumns);
}

bool GroupShape::FoldsColumnsForRows(ExprId e) const {
  if (crosses[e.index()] != Crossing::kSomeRows) return false;
  const std::vector<AxisId>& of = crossed_rows.empty() ? rows : crossed_rows;
  return absl::c_any_of(axes.space(e), [&](AxisId a) { return !Contains(of, a); });
}

std::vector<AxisId> GroupShape::RowsFoldedBy(ExprId e) const {
  const AxisSet folded = Difference(axes.space(e), axes.kept(e));
  const auto first = std::find_if_not(rows.rbegin(), rows.rend(),
                                      [&](AxisId a) { return absl::c_binary_search(folded, a); });
  return {first.base(), rows.end()};
}

bool GroupShape::FoldsSections(ExprId e) const {
  return sections.size > 1 && crosses[e.index()] == Crossing::kNone &&
         axes.kept(e).size() > rows.size();
}

std::vector<AxisId> GroupShape::Run() const {
  const auto last =
      std::find_if(order.rbegin(), order.rend(), [&](AxisId a) { return Contains(rows, a); });
  return {last.base(), order.end()};
}

std::vector<AxisId> GroupShape::Columns(const AxisSet& space) const {
  std::vector<AxisId> columns;
  for (AxisId a : order) {
    if (!Contains(rows, a) && std::binary_search(space.begin(), space.end(), a))
      columns.push_back(a);
  }
  return columns;
}

SymInt GroupShape::Extent(const std::vector<AxisId>& list) const {
  SymInt extent = 1;
  for (AxisId a : list) extent *= axes.extent(a);
  return extent;
}

namespace {

// The shape where rows fold these reductions, and threads compute the other ones.
absl::StatusOr<GroupShape> ShapeOf(const Fusion& group, AxisMap of_group, std::vector<bool> folds,
                                   bool unrolls) {
  GroupShape shape;
  shape.axes = std::move(of_group);
  shape.folds = std::move(folds);
  shape.unrolls = unrolls;
  const AxisMap& axes = shape.axes;

  absl::flat_hash_set<SymInt> seen;
  for (uint32_t i = 0; i < group.num_vals(); ++i) {
    for (const IterDomain& axis : group.domain(ValId(i))) {
      if (seen.insert(axis.extent).second) shape.extents.push_back(axis.extent);
    }
  }
  std::vector<ExprId> reductions;
  shape.depth.assign(group.num_vals(), 0);
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    int depth = 0;
    for (ValId v : group.operands(e)) depth = std::max(depth, shape.depth[v.index()]);
    if (shape.folds[i]) {
      reductions.push_back(e);
      shape.reduces = true;
      ++depth;
    }
    for (int r = 0; r < group.num_results(e); ++r) shape.depth[group.result(e, r).index()] = depth;
    shape.max_depth = std::max(shape.max_depth, depth);
  }

  AxisOrder in_order = OrderAxes(group, axes, reductions);
  shape.order = std::move(in_order.order);
  shape.lies_along = std::move(in_order.lies_along);

  AxisSet kept = shape.reduces ? axes.kept(reductions[0]) : RowsOfPoints(group, axes, shape.order);
  AxisSet batch;
  shape.crosses.resize(group.num_exprs());
  shape.finished.resize(group.num_vals());
  if (absl::c_any_of(reductions, [&](ExprId e) { return axes.kept(e) != kept; })) {
    absl::StatusOr<RowChoice> choice = ChooseRows(group, shape, reductions);
    if (!choice.ok()) {
      const Sections sections = FindSections(group, axes, reductions, in_order.run_over);
      if (sections.missing != nullptr) {
        return absl::UnimplementedError(
            absl::StrCat(std::string(choice.status().message()), ": ", sections.missing));
      }
      kept = sections.rows;
      PlaceSections(sections, shape);
    } else {
      kept = std::move(choice->rows);
      batch = std::move(choice->batch);
      for (size_t i = 0; i < reductions.size(); ++i)
        shape.crosses[reductions[i].index()] = choice->crosses[i];
    }
    for (uint32_t i = 0; i < group.num_exprs(); ++i) {
      const ExprId e(i);
      const auto operands = group.operands(e);
      if (shape.crosses[i] == Crossing::kNone &&
          absl::c_none_of(operands, [&](ValId v) { return shape.finished[v.index()]; })) {
        continue;
      }
      for (int r = 0; r < group.num_results(e); ++r)
        shape.finished[group.result(e, r).index()] = true;
    }
  }
  for (AxisId a : shape.order) {
    if (absl::c_binary_search(batch, a)) shape.batch.push_back(a);
  }
  shape.rows = shape.batch;
  for (AxisId a : shape.order) {
    if (absl::c_binary_search(kept, a) && !absl::c_binary_search(batch, a)) shape.rows.push_back(a);
  }
  shape.kept.resize(group.num_exprs());
  for (ExprId e : reductions) {
    if (shape.crosses[e.index()] == Crossing::kSomeColumns)
      shape.kept[e.index()] = ColumnsKeptBy(shape, e);
  }
  shape.outer = !shape.order.empty() && Contains(shape.rows, shape.order.back());
  // Lanes lie along a row with sections, whatever lies beside each other in memory.
  shape.outer &= shape.sections.size == 1;
  shape.row_extent = shape.Extent(shape.rows);
  HoldColumns(group, shape);
  return shape;
}

// Whether what a row folds is read in that row alone, and not through a view that mirrors or moves
// the rows. Linear in the expressions.
bool StaysWithinRows(const Fusion& group, const GroupShape& shape) {
  std::vector<ExprId> all;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) all.emplace_back(i);
  const GroupSummary summary = Summarize(group, shape.axes, FactsOf(group), all);
  return absl::c_all_of(summary.held, [&](const AxisSet& held) {
    return absl::c_all_of(shape.rows, [&](AxisId a) { return absl::c_binary_search(held, a); });
  });
}

// Whether some tensor has neighbours along the columns, and another along the rows: the colors
// of pixels and planes of each. Rows of two or three elements fill neither lanes nor vectors then,
// and threads have several of them each as soon as these are no rows; not if they have many other
// columns.
bool LieAcross(const Fusion& group, const GroupShape& shape) {
  constexpr int64_t kMostColumns = 8;
  bool along_rows = false, along_columns = false;
  const auto consider = [&](ValId v) {
    for (const std::vector<AxisId>& order : MemoryOrders(group, shape, v)) {
      if (order.empty()) continue;
      along_rows |= Contains(shape.rows, order.back());
      along_columns |= absl::c_any_of(shape.held, [&](const std::vector<AxisId>& columns) {
        return Contains(columns, order.back());
      });
    }
  };
  absl::c_for_each(group.inputs(), consider);
  absl::c_for_each(group.outputs(), consider);
  const bool are_few = absl::c_all_of(shape.held, [&](const std::vector<AxisId>& columns) {
    return shape.Extent(columns).maybe_int().value_or(kMostColumns + 1) <= kMostColumns;
  });
  return along_rows && along_columns && are_few;
}

bool LooksUp(const Fusion& group) {
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    if (group.info(ExprId(i)).op_class == OpClass::Indexing) return true;
  }
  return false;
}

// Whether each row leaves a state in memory, of what folds some of the rows.
bool LeavesStatesOfRows(const GroupShape& shape) {
  return absl::c_linear_search(shape.crosses, Crossing::kSomeRows);
}

}  // namespace

absl::StatusOr<GroupShape> AnalyzeGroup(const Fusion& group) {
  const AxisMap axes = AxisMap::Build(group);
  std::vector<ExprId> reductions;
  std::vector<bool> folds(group.num_exprs());
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    folds[i] = IsReduction(group.info(ExprId(i)).op_class);
    if (folds[i]) reductions.push_back(ExprId(i));
  }
  if (ArePooled(group, axes, reductions)) {
    std::fill(folds.begin(), folds.end(), false);
    return ShapeOf(group, axes, std::move(folds), /*unrolls=*/true);
  }
  absl::StatusOr<GroupShape> shape = ShapeOf(group, axes, folds, /*unrolls=*/false);
  if (shape.ok() && FoldTwoOrThree(group, axes, reductions) && !LooksUp(group) &&
      LieAcross(group, *shape)) {
    absl::StatusOr<GroupShape> points =
        ShapeOf(group, axes, std::vector<bool>(group.num_exprs()), /*unrolls=*/true);
    if (points.ok()) return points;
  }
  const std::vector<ExprId> unrolled = FindUnrolled(group, axes, reductions);
  const bool is_right = shape.ok() && StaysWithinRows(group, *shape);
  if (unrolled.empty() || (is_right && !LeavesStatesOfRows(*shape))) return shape;
  for (ExprId e : unrolled) folds[e.index()] = false;
  absl::StatusOr<GroupShape> within = ShapeOf(group, axes, std::move(folds), /*unrolls=*/true);
  return is_right && (!within.ok() || within->crossed()) ? shape : within;
}

}  // namespace seam
