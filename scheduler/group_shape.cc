#include "scheduler/group_shape.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/points.h"
#include "scheduler/row_choice.h"
#include "scheduler/sections.h"
#include "scheduler/unrolled.h"
#include "segmenter/summary.h"

namespace seam {
namespace {

bool Contains(const std::vector<AxisId>& list, AxisId axis) {
  return std::find(list.begin(), list.end(), axis) != list.end();
}

void Append(std::vector<AxisId>& list, absl::Span<const AxisId> axes) {
  for (AxisId a : axes) {
    if (!Contains(list, a)) list.push_back(a);
  }
}

// Whether steps of `a` are slower in memory than those of `b`. Of strides that may be equal the one
// that is never less is: W*C than C, although W may be 1. Where W or C may be 0, and then there is
// nothing in memory, the one that is a multiple of the other.
bool IsSlower(SymInt a, SymInt b) {
  const bool least = ProvablyLe(b, a), most = ProvablyLe(a, b);
  if (least || most) return least && !most;
  const auto is_multiple = [](SymInt x, SymInt of) { return Mod(x, of).is_same(0); };
  return is_multiple(a, b) && !is_multiple(b, a);
}

// The axes of a tensor with these strides, slow to fast in memory.
template <typename AtomsOf>
std::vector<AxisId> MemoryOrder(const SymVector& strides, AtomsOf atoms_of) {
  std::vector<int> dims(strides.size());
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int>(d);
  std::stable_sort(dims.begin(), dims.end(),
                   [&](int a, int b) { return IsSlower(strides[a], strides[b]); });
  std::vector<AxisId> order;
  for (int d : dims) Append(order, atoms_of(d));
  return order;
}

// The axes of an order as the group runs over them.
std::vector<AxisId> AsRunOver(const absl::flat_hash_map<AxisId, std::vector<AxisId>>& lies_along,
                              absl::Span<const AxisId> order) {
  std::vector<AxisId> axes;
  for (AxisId a : order) {
    const auto it = lies_along.find(a);
    Append(axes, it == lies_along.end() ? absl::MakeConstSpan(&a, 1) : it->second);
  }
  return axes;
}

// The axes along which an expression reads a dimension of its operand `k`: one that things are
// looked up in along those of the positions, as if what they are at lay there.
absl::Span<const AxisId> AtomsRead(const Fusion& group, const AxisMap& axes, ExprId e, int k,
                                   int d) {
  const bool looks_up =
      k == 0 && group.info(e).op_class == OpClass::Indexing && d == group.attributes(e).axes[0];
  if (!looks_up) return axes.operand_atoms(e, k, d);
  const ValId positions = group.operands(e)[1];  // Along one dimension, or as many as the result.
  return axes.operand_atoms(e, 1, std::min(d, group.rank(positions) - 1));
}

// Whether a value is computed from an input element by element, each from the one at its place.
// Linear in the expressions.
bool IsComputedBeside(const Fusion& group, ValId value, ValId input) {
  std::vector<bool> of_value(group.num_vals());
  of_value[value.index()] = true;
  for (uint32_t i = group.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    const OpClass c = group.info(e).op_class;
    if ((c != OpClass::Elementwise && c != OpClass::Cast) || !of_value[group.result(e).index()])
      continue;
    for (ValId v : group.operands(e)) of_value[v.index()] = true;
  }
  return of_value[input.index()];
}

// Slices, pads, flips and concatenations change an axis, and leave what lies beside each other
// along it beside each other: the axes that each of their operands' lies along in the end, among
// those that the group runs over.
absl::flat_hash_map<AxisId, std::vector<AxisId>> AxesBehindViews(const Fusion& group,
                                                                 const AxisMap& axes,
                                                                 const AxisSet& run_over) {
  absl::flat_hash_map<AxisId, std::vector<AxisId>> behind;
  for (uint32_t i = group.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    const OpKind op = group.op(e);
    if (op != OpKind::Slice && op != OpKind::Pad && op != OpKind::Flip && op != OpKind::Cat)
      continue;
    const ValId result = group.result(e, 0);
    for (int k = 0; k < static_cast<int>(group.operands(e).size()); ++k) {
      for (int d = 0; d < group.rank(result); ++d) {
        const auto from = axes.operand_atoms(e, k, d), to = axes.atoms(result, d);
        if (from.size() != 1 || from == to || absl::c_binary_search(run_over, from[0])) continue;
        behind[from[0]] = AsRunOver(behind, to);
      }
    }
  }
  return behind;
}

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
// one place. Source: docs/schedulers.md, "Rows that are looked up whole".
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

std::vector<std::vector<AxisId>> MemoryOrders(const Fusion& group, const GroupShape& shape,
                                              ValId v) {
  std::vector<std::vector<AxisId>> orders;
  const auto add = [&](std::vector<AxisId> order) {
    order = AsRunOver(shape.lies_along, order);
    std::erase_if(order, [&](AxisId a) { return shape.axes.extent(a).is_same(1); });
    if (order.empty() || !Contains(shape.order, order.back())) return;
    std::erase_if(order, [&](AxisId a) { return !Contains(shape.order, a); });
    if (!absl::c_linear_search(orders, order)) orders.push_back(std::move(order));
  };
  if (!group.is_input(v)) {
    add(MemoryOrder(group.strides(v), [&](int d) { return shape.axes.atoms(v, d); }));
    return orders;
  }
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    for (int k = 0; k < static_cast<int>(group.operands(e).size()); ++k) {
      if (group.operands(e)[k] != v) continue;
      add(MemoryOrder(group.strides(v),
                      [&](int d) { return AtomsRead(group, shape.axes, e, k, d); }));
    }
    // A value that is read where it lies and turned as well is computed at both places.
    if (group.op(e) != OpKind::Permute || shape.axes.exchanged(e, 0).empty() ||
        !IsComputedBeside(group, group.operands(e)[0], v)) {
      continue;
    }
    const AxisVector& turned = group.attributes(e).axes;
    add(MemoryOrder(group.strides(v), [&](int d) -> absl::Span<const AxisId> {
      if (group.domain(v)[d].is_broadcast()) return {};
      const auto to = absl::c_find(turned, d) - turned.begin();
      return shape.axes.atoms(group.result(e), static_cast<int>(to));
    }));
  }
  return orders;
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

// How a tensor lies in memory, of the axes that are run over, slow to fast.
struct TensorOrder {
  ValId tensor;
  std::vector<AxisId> order;
  double elements;  // At most.
  int element_bytes;
};

// The order of most axes, of several that of the tensor with most elements, of several of the same
// axes the one that most bytes of `candidates` have, then of `written`; of equal ones the first.
std::vector<AxisId> FollowedOrder(const std::vector<TensorOrder>& candidates,
                                  const std::vector<TensorOrder>& written) {
  const auto bytes_of = [](const std::vector<TensorOrder>& tensors,
                           const std::vector<AxisId>& order) {
    double bytes = 0;
    absl::flat_hash_set<ValId> counted;
    for (const TensorOrder& t : tensors) {
      if (t.order == order && counted.insert(t.tensor).second)
        bytes += t.elements * t.element_bytes;
    }
    return bytes;
  };
  const auto size = [](const TensorOrder& of) { return std::pair(of.order.size(), of.elements); };
  const auto followers = [&](const TensorOrder& of) {
    return std::pair(bytes_of(candidates, of.order), bytes_of(written, of.order));
  };
  const auto precedes = [&](const TensorOrder& a, const TensorOrder& b) {
    if (size(a) != size(b)) return size(a) > size(b);
    return a.order != b.order && absl::c_is_permutation(a.order, b.order) &&
           followers(a) > followers(b);
  };
  const TensorOrder* best = nullptr;
  for (const TensorOrder& t : candidates) {
    if (best == nullptr || precedes(t, *best)) best = &t;
  }
  return best == nullptr ? std::vector<AxisId>() : best->order;
}

// Moves short axes that some reduction keeps and `memory` lacks behind the one that expressions
// have before them, so that rows that differ in these alone are neighbours; not behind the fastest.
// Of long ones, as those of a large matrix beside few rows, nothing is known: the other tensor may
// be the one that is worth reading once.
void PlaceBesideSharers(const std::vector<ExprId>& reductions, const AxisMap& axes,
                        const std::vector<AxisId>& memory, const std::vector<AxisId>& logical,
                        std::vector<AxisId>& order) {
  constexpr int64_t kShort = 256;
  std::optional<AxisId> before;
  for (AxisId a : logical) {
    const bool is_kept = absl::c_any_of(
        reductions, [&](ExprId e) { return absl::c_binary_search(axes.kept(e), a); });
    if (!is_kept || !Contains(order, a)) continue;
    const int64_t most = RangeOf(axes.extent(a)).hi;
    const bool is_short = most <= kShort || (before && most < RangeOf(axes.extent(*before)).hi);
    if (before && is_short && !Contains(memory, a) && *before != order.back()) {
      std::erase(order, a);
      order.insert(absl::c_find(order, *before) + 1, a);
    }
    before = a;
  }
}

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

  // The order of axes: a reduction follows the input that it reads along the most axes, of several
  // the one that may be largest, of these the one that most bytes lie in; everything else
  // follows what it writes.
  AxisSet run_over;
  for (ExprId e : reductions) run_over = Union(run_over, axes.space(e));
  for (ValId v : group.outputs()) run_over = Union(run_over, axes.axes(v));
  // What nobody folds and no output has is not run over: views follow their operands to where they
  // are, and threads go through what they fold by themselves.
  shape.lies_along = AxesBehindViews(group, axes, run_over);
  std::vector<TensorOrder> read, written;
  const auto add = [&](ValId v, std::vector<AxisId> order, std::vector<TensorOrder>& to) {
    order = AsRunOver(shape.lies_along, order);
    std::erase_if(order, [&](AxisId a) { return !absl::c_binary_search(run_over, a); });
    to.push_back({v, std::move(order), static_cast<double>(RangeOf(group.type(v).numel()).hi),
                  DTypeBytes(group.dtype(v))});
  };
  for (ValId v : group.outputs())
    add(v, MemoryOrder(group.strides(v), [&](int d) { return axes.atoms(v, d); }), written);
  for (uint32_t i = 0; i < group.num_exprs() && shape.reduces; ++i) {
    const ExprId e(i);
    for (int k = 0; k < static_cast<int>(group.operands(e).size()); ++k) {
      const ValId v = group.operands(e)[k];
      if (!group.is_input(v)) continue;
      add(v, MemoryOrder(group.strides(v), [&](int d) { return AtomsRead(group, axes, e, k, d); }),
          read);
    }
  }
  std::vector<AxisId> memory = FollowedOrder(shape.reduces ? read : written, written);
  if (shape.reduces) {
    // A result may have more axes than any input, a concatenation's along a new one: they lie
    // where it has them, as long as it lies as that input does.
    const std::vector<AxisId> of_input = memory;
    for (ValId v : group.outputs()) {
      std::vector<AxisId> order =
          MemoryOrder(group.strides(v), [&](int d) { return axes.atoms(v, d); });
      std::vector<AxisId> common = order;
      std::erase_if(common, [&](AxisId a) { return !Contains(of_input, a); });
      if (common == of_input && order.size() > memory.size()) memory = std::move(order);
    }
  }
  // Axes that it lacks are slower; expressions know their order. But rows that read the same of it,
  // as the few outputs of a small product, are neighbours.
  std::vector<AxisId> logical;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (!shape.folds[i]) continue;
    for (int d = 0; d < group.rank(group.operands(e)[0]); ++d)
      Append(logical, axes.operand_atoms(e, 0, d));
  }
  const auto is_run_over = [&](AxisId a) { return absl::c_binary_search(run_over, a); };
  absl::c_copy_if(logical, std::back_inserter(shape.order),
                  [&](AxisId a) { return !Contains(memory, a) && is_run_over(a); });
  Append(shape.order, memory);
  PlaceBesideSharers(reductions, axes, memory, logical, shape.order);
  // Axes that only results have, as those of halves of a row that change places: behind the one
  // that they lie behind in memory, unless that is the fastest of all.
  std::vector<AxisId> others;
  for (ValId v : group.outputs()) {
    const std::vector<AxisId> lie =
        MemoryOrder(group.strides(v), [&](int d) { return axes.atoms(v, d); });
    for (size_t i = 0; i < lie.size(); ++i) {
      if (Contains(shape.order, lie[i])) continue;
      const auto before = i > 0 ? absl::c_find(shape.order, lie[i - 1]) : shape.order.end();
      if (shape.reduces && before != shape.order.end() && before + 1 != shape.order.end()) {
        shape.order.insert(before + 1, lie[i]);
      } else {
        Append(others, {lie[i]});
      }
    }
  }
  std::erase_if(others, [&](AxisId a) { return Contains(shape.order, a); });
  for (AxisId a : run_over) {
    if (!Contains(shape.order, a)) Append(others, {a});
  }
  const auto fast = memory.empty() ? shape.order.end() : absl::c_find(shape.order, memory.front());
  shape.order.insert(fast, others.begin(), others.end());

  AxisSet kept = shape.reduces ? axes.kept(reductions[0]) : RowsOfPoints(group, axes, shape.order);
  AxisSet batch;
  shape.crosses.resize(group.num_exprs());
  shape.finished.resize(group.num_vals());
  if (absl::c_any_of(reductions, [&](ExprId e) { return axes.kept(e) != kept; })) {
    absl::StatusOr<RowChoice> choice = ChooseRows(group, shape, reductions);
    if (!choice.ok()) {
      const Sections sections = FindSections(group, axes, reductions, run_over);
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
