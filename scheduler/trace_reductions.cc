// What reductions become at the tile level: folds of elements, or of the partial states that
// another stage has left.
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/op_semantics.h"
#include "ir/status.h"
#include "scheduler/kernel/reduction_state.h"
#include "scheduler/tracer.h"

namespace seam {

using kernel::TileId;
using kernel::TileKind;
using kernel::TileValue;

DType AccumulatorType(const Fusion& group, ExprId e) {
  const DType from = group.dtype(group.operands(e)[0]);
  switch (group.op(e)) {
    case OpKind::Sum:
      return ComputeType(from);
    // Products leave the range of f32 on the way to a result inside it.
    case OpKind::Prod:
      return IsFloat(from) ? DType::F64 : DType::I64;
    default:
      return from;
  }
}

std::vector<PartialSlot> PartialSlots(const Fusion& group, const GroupShape& shape) {
  const bool crossed = shape.crossed();
  std::vector<PartialSlot> slots;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (crossed ? shape.crosses[i] == Crossing::kNone : !shape.folds[i]) continue;
    for (int c = 0; c < kernel::NumComponents(group.op(e)); ++c) slots.push_back({e, c});
  }
  return slots;
}

// What a reduction expression became: one tile value for each of its results.
absl::StatusOr<const std::vector<TileId>*> Tracer::EnsureReduction(ExprId e) {
  if (auto it = reduced_.find(e); it != reduced_.end()) return &it->second;
  std::vector<TileId> results;
  if (IsEmpty(group_.operands(e)[0])) {
    for (int r = 0; r < group_.num_results(e); ++r) results.push_back(Neutral(e));
  } else if (const OnlineSum* online = OnlineSumOf(e)) {
    SEAM_RETURN_IF_ERROR(EnsureReduction(online->max).status());
    return &reduced_.at(e);
  } else if (options_.finish || (options_.split > 1 && DepthOf(e) < options_.stage)) {
    results = MergePartials(e);
  } else {
    SEAM_ASSIGN_OR_RETURN(results, Reduce(e));
  }
  return &(reduced_[e] = std::move(results));
}

const OnlineSum* Tracer::OnlineSumOf(ExprId sum) const {
  const auto found = absl::c_find_if(options_.online, [&](auto& o) { return o.sum == sum; });
  return found == options_.online.end() ? nullptr : &*found;
}

const OnlineSum* Tracer::SumBeside(ExprId max) const {
  const auto found = absl::c_find_if(options_.online, [&](auto& o) { return o.max == max; });
  return found == options_.online.end() ? nullptr : &*found;
}

// What the components of a state are: those of `e`, and the sum that comes with a maximum.
std::vector<PartialSlot> Tracer::ComponentsOf(ExprId e) const {
  std::vector<PartialSlot> components;
  for (int c = 0; c < kernel::NumComponents(group_.op(e)); ++c) components.push_back({e, c});
  if (const OnlineSum* online = SumBeside(e)) components.push_back({online->sum, 0});
  return components;
}

// What a reduction over no elements gives.
TileId Tracer::Neutral(ExprId e) {
  const DType dtype = group_.dtype(group_.result(e));
  return Constant(
      dtype, group_.op(e) == OpKind::Welford ? Zero(dtype) : ReduceIdentity(group_.op(e), dtype));
}

absl::StatusOr<std::vector<TileId>> Tracer::Reduce(ExprId e) {
  const OpKind op = group_.op(e);
  const ValId from = group_.operands(e)[0];
  const Space& space = SpaceOf(shape_.Columns(shape_.axes.space(e)));
  const Space here = space;  // Tracing may add spaces.
  // What is kept lies along the results' axes, whatever those of the operand are: they differ where
  // something else is read along both of them.
  const AxisVector& folded = group_.attributes(e).axes;
  int kept = 0;
  const Index index = IndexAt(group_.rank(from), here, [&](int d) {
    return absl::c_linear_search(folded, d) ? shape_.axes.operand_atoms(e, 0, d)
                                            : shape_.axes.atoms(group_.result(e), kept++);
  });
  SEAM_ASSIGN_OR_RETURN(TileId element, At(from, index, 1));
  const int depth = StageDepth(DepthOf(e));
  const DType accumulator = AccumulatorType(group_, e);
  element = Cast(element, accumulator);
  const Crossing crossing = shape_.crosses[e.index()];
  kernel::TileReduction reduction;
  reduction.op = op;
  reduction.dtype = accumulator;
  reduction.operands = {element};
  const bool of_sections = shape_.FoldsSections(e);
  if (of_sections) {
    reduction.over = kernel::Over::Sections;
    reduction.section = shape_.sections.size;
  }
  if (crossing == Crossing::kRows || crossing == Crossing::kAll) {
    reduction.over = crossing == Crossing::kAll ? kernel::Over::All : kernel::Over::Rows;
    reduction.predicate = FirstOfOthers(shape_.axes.space(e));
    reduction.each_batch = shape_.KeepsBatches(e);
  } else if (crossing == Crossing::kSomeColumns) {
    const KeptColumns& kept = shape_.kept[e.index()];
    reduction.over = kernel::Over::SomeColumns;
    reduction.kept = Elements(kept.axes);
    reduction.inner = Elements(kept.inner);
  }
  if (options_.split == 1) reduction.neighbours = NeighboursOf(e);
  reduction.together = TogetherOf(e);
  reduction.apart = shape_.FoldsColumnsForRows(e) && options_.row_pieces > 1;
  reduction.pass = PassOf(depth, here.id);
  if (op == OpKind::Welford && crossing == Crossing::kNone &&
      (of_sections || !options_.chan_welford)) {
    return TwoPassWelford(e, std::move(reduction), depth);
  }
  if (kernel::IsArg(op)) reduction.position = index[group_.attributes(e).axes[0]];
  return Results(e, AddReduction(std::move(reduction), e), accumulator);
}

// Whether sums of many such elements are exact where all are alike: those of a narrow type.
bool Tracer::IsNarrow(TileId element) const {
  const TileValue& value = tile_.values[element];
  return value.kind == kernel::TileKind::Map && value.op == OpKind::Cast &&
         DTypeBytes(tile_.values[value.operands[0]].dtype) <= 2;
}

// Mean, then squared deviations from it: as accurate as merging, and two cheap exchanges. A mean
// of wide elements is off by a rounding or two, which is all that a row of equal ones would deviate
// by; what deviations add up to corrects it, and their squares. Source: the corrected two-pass
// algorithm, T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample
// Variance", 1983. Only where no deviation is above half of the mean, so that all are exact
// (Sterbenz): elsewhere those of one binade are rounded alike, and add up to more than the mean is
// off by.
std::vector<TileId> Tracer::TwoPassWelford(ExprId e, kernel::TileReduction sum, int depth) {
  const DType t = sum.dtype;
  const TileId element = sum.operands[0];
  const SymInt elements = ElementsOf(e);
  const TileId count = Cast(IndexOf(elements, DType::I64), t);
  const TileId divisor = RangeOf(elements).lo > 0
                             ? count
                             : Map(OpKind::Maximum, t, {count, Constant(t, FloatScalar(1))});
  sum.op = OpKind::Sum;
  kernel::TileReduction deviations = sum;
  const int space = pass_keys_[sum.pass].second;
  const auto add = [&](kernel::TileReduction reduction) {
    return Result(AddReduction(std::move(reduction), e), 0, t);
  };
  const TileId mean = Map(OpKind::Div, t, {add(std::move(sum)), divisor});
  const TileId deviation = Map(OpKind::Sub, t, {element, mean});
  deviations.operands = {deviation};
  deviations.pass = PassOf(depth + 1, space);
  kernel::TileReduction squares = deviations;
  squares.operands = {deviation, deviation};
  squares.products = true;
  const TileId m2 = add(std::move(squares));
  if (IsNarrow(element)) return {mean, m2, count};
  const TileId off = add(std::move(deviations));
  const TileId by = Map(OpKind::Div, t, {off, divisor});
  const TileId surplus = Map(OpKind::Mul, t, {off, by});
  const TileId rest =
      Map(OpKind::Maximum, t, {Map(OpKind::Sub, t, {m2, surplus}), Constant(t, Zero(t))});
  const TileId half = Map(OpKind::Mul, t, {mean, Constant(t, FloatScalar(0.5))});
  const TileId exact = Map(OpKind::Lt, DType::Bool, {m2, Map(OpKind::Mul, t, {half, half})});
  return {Map(OpKind::Where, t, {exact, Map(OpKind::Add, t, {mean, by}), mean}),
          Map(OpKind::Where, t, {exact, rest, m2}), count};
}

std::vector<TileId> Tracer::MergePartials(ExprId e) {
  int space = 0;
  SymInt index = 0;
  const Crossing crossing = shape_.crosses[e.index()];
  if (crossing == Crossing::kSomeRows || crossing == Crossing::kSomeColumns) {
    index = StateOfRow(e, &space);
  } else if (options_.finish) {
    const AxisSet kept = shape_.axes.kept(e);
    const SymInt part = MergeSpace(Places(e), &space);
    index = part;
    const auto descend = [&](AxisId a) { index = index * Radix(a) + row_coordinates_[a]; };
    const auto of_batch = [&](AxisId a) { return absl::c_linear_search(shape_.batch, a); };
    for (AxisId a : shape_.batch) {
      if (absl::c_binary_search(kept, a)) descend(a);
    }
    for (AxisId a : shape_.rows) {
      if (absl::c_binary_search(kept, a) && !of_batch(a)) descend(a);
    }
  } else {
    index = MergeSpace(CtasOf(e), &space) * tile_.rows + tile_.row;
  }
  const DType t = AccumulatorType(group_, e);
  kernel::TileReduction merge;
  merge.op = group_.op(e);
  merge.dtype = t;
  merge.merge = true;
  merge.neighbours = NeighboursOf(e);
  merge.pass = PassOf(0, space);
  for (const PartialSlot& slot : ComponentsOf(e)) {
    TileValue load;
    load.kind = TileKind::Load;
    load.dtype = kernel::ComponentType(group_.op(slot.expr), t, slot.component);
    load.buffer = PartialBuffer(slot.expr, slot.component, t, false);
    load.index = index;
    merge.operands.push_back(Add(std::move(load)));
  }
  return Results(e, AddReduction(std::move(merge), e), t);
}

// A state that a row has left, of the rows that have this row's coordinates, and of those axes that
// the reduction does not know the first: where it lies among those of all.
SymInt Tracer::StateOfRow(ExprId e, int* space) {
  const KeptColumns& kept = shape_.kept[e.index()];
  const AxisSet space_axes = shape_.axes.space(e);
  std::vector<AxisId> folded;
  const auto fold = [&](absl::Span<const AxisId> axes) {
    for (AxisId a : axes) {
      if (!absl::c_linear_search(shape_.rows, a) && absl::c_binary_search(space_axes, a))
        folded.push_back(a);
    }
  };
  fold(shape_.crossed_rows);
  fold(kept.axes);
  const int pieces = PiecesOf(e);
  const int64_t together = TogetherOf(e);
  const SymInt part = MergeSpace(FloorDiv(Elements(folded), together) * pieces, space);
  std::map<AxisId, SymInt> at = Coordinates(folded, FloorDiv(part, pieces) * together);
  for (AxisId a : shape_.rows) at[a] = row_coordinates_[a];
  SymInt index = 0;
  const auto descend = [&](absl::Span<const AxisId> axes) {
    for (AxisId a : axes) {
      const auto it = at.find(a);
      index = index * Radix(a) + (it != at.end() ? it->second : SymInt(0));
    }
  };
  if (shape_.crosses[e.index()] == Crossing::kSomeRows) {
    index = Mod(part, pieces);
    descend(shape_.crossed_rows);
    return FloorDiv(index, together);
  }
  descend(shape_.crossed_rows);
  index = index * pieces + Mod(part, pieces);
  descend(kept.axes);
  return index;
}

// How many CTAs or clusters leave a state of what crosses the rows.
SymInt Tracer::Places(ExprId e) {
  return shape_.KeepsBatches(e) ? SymInt(options_.places)
                                : options_.places * Elements(shape_.batch);
}

// CTAs of a cluster that leave a state each of a row.
int Tracer::PiecesOf(ExprId e) const {
  if (shape_.crosses[e.index()] == Crossing::kSomeColumns) return options_.pieces;
  return shape_.FoldsColumnsForRows(e) ? options_.row_pieces : 1;
}

// How many rows leave one state together.
int64_t Tracer::TogetherOf(ExprId e) const {
  return shape_.crosses[e.index()] == Crossing::kSomeRows ? options_.together : 1;
}

// So many states each row leaves, one for each column that is kept.
SymInt Tracer::StatesOfRow(ExprId e) {
  if (shape_.crosses[e.index()] != Crossing::kSomeColumns) return PiecesOf(e);
  return Elements(shape_.kept[e.index()].axes) * PiecesOf(e);
}

// How many rows beside each other such a reduction folds together: those of columns that are seen
// as rows, but not what each row leaves for others.
int Tracer::NeighboursOf(ExprId e) const {
  const AxisSet& space = shape_.axes.space(e);
  const bool folds = shape_.crosses[e.index()] == Crossing::kNone && !shape_.merged.empty() &&
                     absl::c_binary_search(space, shape_.merged[0]);
  return folds ? options_.neighbours : 1;
}

// CTAs that share a row's columns of a part: those that have some, one at least. Of so many columns
// as only a call says, all: states of unlike numbers are merged one after the other.
SymInt Tracer::CtasOf(size_t part) {
  if (part == options_.parts->size()) return 1;  // One element, which is no column.
  const SymInt columns = Import((*options_.parts)[part].columns);
  if (!columns.is_constant()) return options_.split;
  return Max(1, Min(options_.split, CeilDiv(columns, options_.columns_of_cta)));
}

// CTAs that leave a state each of a row that they share.
SymInt Tracer::CtasOf(ExprId e) {
  if (options_.columns_of_cta == 0) return options_.split;
  return CtasOf(PartOf(shape_, *options_.parts, shape_.axes.space(e)));
}

// `parts` partial states, folded by a pass before all others. Returns their index.
SymInt Tracer::MergeSpace(SymInt parts, int* id) {
  const auto [it, is_new] =
      merge_spaces_.emplace(parts.bits(), static_cast<int>(tile_.spaces.size()));
  if (is_new) {
    kernel::TileSpace space;
    space.extent = parts;
    if (!parts.is_same(1)) space.column = tile_.env->FreshSymbol("part", 0, parts - 1);
    space.whole = true;
    tile_.spaces.push_back(space);
  }
  *id = it->second;
  return tile_.spaces[it->second].column;
}

int Tracer::AddReduction(kernel::TileReduction reduction, ExprId e) {
  std::vector<int> buffers;
  const bool leaves = options_.split > 1 || shape_.crosses[e.index()] != Crossing::kNone;
  if (leaves && !reduction.merge) {
    out_.splits_columns |= options_.split > 1;
    for (const PartialSlot& slot : ComponentsOf(e))
      buffers.push_back(PartialBuffer(slot.expr, slot.component, reduction.dtype, true));
  }
  if (const OnlineSum* online = SumBeside(e)) reduction.exponential = online->exponential;
  out_.partials.push_back(std::move(buffers));
  out_.reductions.push_back(e);
  tile_.reductions.push_back(std::move(reduction));
  return static_cast<int>(tile_.reductions.size()) - 1;
}

// Partial states: of split rows, and of those of a cluster that nobody puts together before, those
// of all rows, CTA after CTA; where rows are crossed, one a row, one for each column that it keeps,
// or, of all that the reduction keeps, one a place.
int Tracer::PartialBuffer(ExprId e, int component, DType dtype, bool written) {
  const std::vector<PartialSlot> slots = PartialSlots(group_, shape_);
  int index = 0;
  while (slots[index].expr != e || slots[index].component != component) ++index;
  kernel::Buffer buffer;
  buffer.dtype = kernel::ComponentType(group_.op(e), dtype, component);
  buffer.name = absl::StrCat("partial_", index);
  buffer.written = written;
  buffer.alignment_bytes = 16;
  switch (shape_.crosses[e.index()]) {
    case Crossing::kNone:
      buffer.num_elements = tile_.rows * CtasOf(e);
      break;
    case Crossing::kSomeRows:
    case Crossing::kSomeColumns:
      buffer.num_elements =
          FloorDiv(Elements(options_.finish ? shape_.crossed_rows : shape_.rows), TogetherOf(e)) *
          StatesOfRow(e);
      break;
    case Crossing::kRows:
    case Crossing::kAll:
      buffer.num_elements = Elements(shape_.axes.kept(e)) * Places(e);
      break;
  }
  return AddBuffer({BufferSource::kWorkspace, index}, std::move(buffer));
}

std::vector<TileId> Tracer::Results(ExprId e, int reduction, DType accumulator) {
  const OpKind op = group_.op(e);
  if (op == OpKind::Welford) {
    return {Result(reduction, 0, accumulator), Result(reduction, 1, accumulator),
            Cast(IndexOf(ElementsOf(e), DType::I64), accumulator)};
  }
  if (kernel::IsArg(op)) return {Position(Result(reduction, 1, DType::I64))};
  if (const OnlineSum* online = SumBeside(e)) {
    reduced_[online->sum] = {
        Cast(Result(reduction, 1, accumulator), group_.dtype(group_.result(online->sum)))};
  }
  return {Cast(Result(reduction, 0, accumulator), group_.dtype(group_.result(e)))};
}

// That of argmax or argmin from a state's: where no element beat that of none, the first one.
TileId Tracer::Position(TileId of_state) {
  const TileId none = Map(OpKind::Eq, DType::Bool,
                          {of_state, Constant(DType::I64, IntScalar(kernel::kNoPosition))});
  return Map(OpKind::Where, DType::I64, {none, Constant(DType::I64, IntScalar(0)), of_state});
}

// How many elements a Welford folds: known without counting.
SymInt Tracer::ElementsOf(ExprId e) {
  const ValId from = group_.operands(e)[0];
  SymInt count = 1;
  for (int axis : group_.attributes(e).axes) count *= Import(group_.domain(from)[axis].extent);
  return count;
}

}  // namespace seam
