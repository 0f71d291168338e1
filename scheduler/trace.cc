#include "scheduler/trace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ir/op_semantics.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/reshape_map.h"

namespace seam {
namespace {

using kernel::TileId;
using kernel::TileKind;
using kernel::TileValue;
using Index = SymVector;

bool IsReduction(OpClass c) { return c == OpClass::Reduction || c == OpClass::Welford; }

class Tracer {
 public:
  Tracer(const Fusion& group, const GroupShape& shape, const TraceOptions& options)
      : group_(group), shape_(shape), options_(options), tile_(out_.tile) {}

  absl::StatusOr<TracedKernel> Run() {
    SEAM_RETURN_IF_ERROR(Prepare());
    std::vector<ValId> outputs(group_.outputs().begin(), group_.outputs().end());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (options_.split > 1 && shape_.depth[outputs[i].index()] != options_.stage) continue;
      if (shape_.finished[outputs[i].index()] != options_.finish) continue;
      if (options_.finish && !HasAxesOfRows(outputs[i])) continue;
      SEAM_RETURN_IF_ERROR(TraceOutput(static_cast<int>(i), outputs[i]));
    }
    for (uint32_t i = 0; i < group_.num_exprs(); ++i) {
      const ExprId e(i);
      const bool left_here =
          options_.split > 1 ? IsReduction(group_.info(e).op_class) && DepthOf(e) == options_.stage
                             : shape_.crosses[i] != Crossing::kNone && !options_.finish;
      if (left_here) SEAM_RETURN_IF_ERROR(EnsureReduction(e).status());
    }
    FinishPasses();
    return std::move(out_);
  }

 private:
  // --- Set-up
  // ------------------------------------------------------------------------------------------------

  absl::Status Prepare() {
    tile_.env = std::make_shared<ShapeEnv>();
    importer_ = std::make_unique<SymImporter>(tile_.env.get());
    for (const SymNode* s : group_.env().symbols()) {
      const SymInt symbol = SymInt::FromNode(s);
      const SymbolFact* fact = nullptr;
      for (const SymbolFact& f : options_.facts) {
        if (f.symbol == s->name) fact = &f;
      }
      if (fact != nullptr && fact->value >= 0) {
        importer_->Map(s, fact->value);
        continue;
      }
      const int64_t k = fact != nullptr ? fact->multiple : 1;
      const std::string name =
          k > 1 ? absl::StrCat(std::string(s->name), "_by", k) : std::string(s->name);
      const SymInt parameter = tile_.env->FreshSymbol(name, *CeilDiv(LowestValue(s), k).maybe_int(),
                                                      *FloorDiv(s->range.hi, k).maybe_int());
      if (!parameter.is_valid()) {
        return absl::InvalidArgumentError(absl::StrCat("group ", std::string(group_.name()),
                                                       ": no multiple of ", k, " is a value of ",
                                                       std::string(s->name)));
      }
      tile_.parameters.push_back(parameter);
      out_.arguments.push_back(FloorDiv(symbol, k));
      importer_->Map(s, k * parameter);
    }
    for (AxisId a : shape_.rows) tile_.rows *= Radix(a);
    tile_.row =
        tile_.rows.is_same(1) ? SymInt(0) : tile_.env->FreshSymbol("row", 0, tile_.rows - 1);
    row_coordinates_ = Coordinates(shape_.rows, tile_.row);
    return absl::OkStatus();
  }

  bool HasAxesOfRows(ValId v) const {
    const AxisSet axes = shape_.axes.axes(v);
    return axes.size() == shape_.rows.size() &&
           absl::c_all_of(shape_.rows, [&](AxisId a) { return absl::c_binary_search(axes, a); });
  }

  // What the symbol is at least, since an axis that is not known to be empty has an element.
  int64_t LowestValue(const SymNode* symbol) const {
    int64_t lowest = symbol->range.lo;
    const SymInt s = SymInt::FromNode(symbol);
    for (SymInt extent : shape_.extents) {
      if (extent.is_constant()) continue;
      // c*s + k >= 1
      const std::optional<int64_t> k = kernel::Substitute(extent, s, 0).maybe_int();
      const std::optional<int64_t> c = k ? (kernel::Substitute(extent, s, 1) - *k).maybe_int() : k;
      if (!c || *c <= 0 || !(extent - *c * s).is_same(*k)) continue;
      lowest = std::max(lowest, *CeilDiv(1 - *k, *c).maybe_int());
    }
    return std::min(lowest, symbol->range.hi);
  }

  // An axis' extent in the arithmetic of indices. One without elements is never indexed; it only
  // must not divide by zero.
  SymInt Radix(AxisId a) {
    const SymInt extent = Import(shape_.axes.extent(a));
    return extent.is_constant() ? Max(extent, 1) : extent;
  }
  SymInt Import(SymInt e) { return importer_->Import(e); }

  // Splits a linear index over `axes`, slow to fast.
  std::map<AxisId, SymInt> Coordinates(const std::vector<AxisId>& axes, SymInt linear) {
    std::map<AxisId, SymInt> at;
    SymInt stride = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      const SymInt extent = Radix(axes[i]);
      const SymInt quotient = FloorDiv(linear, stride);
      at[axes[i]] = i == 0 ? quotient : Mod(quotient, extent);
      stride *= extent;
    }
    return at;
  }

  // A set of columns with its symbol and the coordinates of rows and columns at a point.
  struct Space {
    int id;
    std::map<AxisId, SymInt> at;
  };

  const Space& SpaceOf(const std::vector<AxisId>& columns) {
    auto it = spaces_.find(columns);
    if (it != spaces_.end()) return it->second;
    Space space{static_cast<int>(tile_.spaces.size()), row_coordinates_};
    kernel::TileSpace tile_space;
    tile_space.extent = Import(shape_.Extent(columns));
    const std::optional<int64_t> known = tile_space.extent.maybe_int();
    if (!known || *known > 1) {
      tile_space.column =
          tile_.env->FreshSymbol(absl::StrCat("column", space.id), 0, tile_space.extent - 1);
    }
    for (const auto& [axis, coordinate] : Coordinates(columns, tile_space.column))
      space.at[axis] = coordinate;
    tile_.spaces.push_back(tile_space);
    if (!columns.empty()) out_.splits_columns = true;
    if (absl::c_linear_search(shape_.held, columns)) out_.held_spaces.push_back(space.id);
    return spaces_.emplace(columns, std::move(space)).first->second;
  }

  template <typename AtomsOf>
  Index IndexAt(int rank, const Space& space, AtomsOf atoms_of) {
    Index index;
    for (int d = 0; d < rank; ++d) {
      SymInt position = 0;
      for (AxisId a : atoms_of(d)) {
        const auto it = space.at.find(a);
        position = position * Radix(a) + (it == space.at.end() ? SymInt(0) : it->second);
      }
      index.push_back(position);
    }
    return index;
  }

  int BufferOf(BufferSource::Kind kind, int index, ValId v) {
    for (size_t i = 0; i < out_.sources.size(); ++i) {
      if (out_.sources[i].kind == kind && out_.sources[i].index == index)
        return static_cast<int>(i);
    }
    kernel::Buffer buffer;
    buffer.dtype = group_.dtype(v);
    buffer.name = std::string(group_.name(v));
    buffer.written = kind == BufferSource::kOutput;
    buffer.alignment_bytes = std::max(options_.alignment_bytes, DTypeBytes(buffer.dtype));
    // One past the farthest element; 0 for an empty tensor.
    SymInt last = 1, empty = 0;
    const SymVector strides = group_.strides(v);
    for (int d = 0; d < group_.rank(v); ++d) {
      const SymInt extent = Import(group_.domain(v)[d].extent);
      last += (extent - 1) * Import(strides[d]);
      empty = SymOr(empty, SymEq(extent, 0));
    }
    buffer.num_elements = SymSelect(empty, 0, last);
    return AddBuffer({kind, index}, std::move(buffer));
  }

  int AddBuffer(BufferSource source, kernel::Buffer buffer) {
    out_.sources.push_back(source);
    tile_.buffers.push_back(std::move(buffer));
    return static_cast<int>(tile_.buffers.size()) - 1;
  }

  SymInt Address(ValId v, const Index& index) {
    const SymVector strides = group_.strides(v);
    SymInt address = 0;
    for (int d = 0; d < group_.rank(v); ++d) address += index[d] * Import(strides[d]);
    return address;
  }

  // --- Roots
  // -------------------------------------------------------------------------------------------------

  absl::Status TraceOutput(int output, ValId v) {
    if (IsEmpty(v)) return absl::OkStatus();
    const AxisSet axes = shape_.axes.axes(v);
    const Space& space = SpaceOf(shape_.Columns(axes));
    const Index index =
        IndexAt(group_.rank(v), space, [&](int d) { return shape_.axes.atoms(v, d); });
    kernel::TileStore store;
    SEAM_ASSIGN_OR_RETURN(store.value, At(v, index, 1));
    store.buffer = BufferOf(BufferSource::kOutput, output, v);
    store.index = Address(v, index);
    store.predicate = FirstOfOthers(axes);
    store.pass = PassOf(StageDepth(shape_.depth[v.index()]), space.id);
    tile_.stores.push_back(store);
    return absl::OkStatus();
  }

  // What has not all of the rows' axes is the same for all values of the others: the first stands
  // for them.
  SymInt FirstOfOthers(const AxisSet& axes) {
    SymInt first = 1;
    for (AxisId a : shape_.rows) {
      if (!absl::c_binary_search(axes, a)) first = SymAnd(first, SymEq(row_coordinates_[a], 0));
    }
    return first;
  }

  // In a split plan every stage has its merges first, then one round of columns.
  int StageDepth(int depth) const { return options_.split > 1 ? 1 : depth * 2 + 1; }
  int DepthOf(ExprId e) const { return shape_.depth[group_.operands(e)[0].index()]; }

  // Passes are told apart by depth and space and numbered at the end.
  int PassOf(int depth, int space) {
    for (size_t i = 0; i < pass_keys_.size(); ++i) {
      if (pass_keys_[i] == std::make_pair(depth, space)) return static_cast<int>(i);
    }
    pass_keys_.emplace_back(depth, space);
    return static_cast<int>(pass_keys_.size()) - 1;
  }

  void FinishPasses() {
    std::vector<int> order(pass_keys_.size()), rank(pass_keys_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return pass_keys_[a] < pass_keys_[b]; });
    for (size_t i = 0; i < order.size(); ++i) {
      rank[order[i]] = static_cast<int>(i);
      tile_.passes.push_back({pass_keys_[order[i]].second});
    }
    for (kernel::TileReduction& r : tile_.reductions) r.pass = rank[r.pass];
    for (kernel::TileStore& s : tile_.stores) s.pass = rank[s.pass];
  }

  // --- Reductions
  // -----------------------------------------------------------------------------------------------

  // What a reduction expression became: one tile value for each of its results.
  absl::StatusOr<const std::vector<TileId>*> EnsureReduction(ExprId e) {
    if (auto it = reduced_.find(e); it != reduced_.end()) return &it->second;
    std::vector<TileId> results;
    if (IsEmpty(group_.operands(e)[0])) {
      for (int r = 0; r < group_.num_results(e); ++r) results.push_back(Neutral(e));
    } else if (options_.finish || (options_.split > 1 && DepthOf(e) < options_.stage)) {
      results = MergePartials(e);
    } else {
      SEAM_ASSIGN_OR_RETURN(results, Reduce(e));
    }
    return &(reduced_[e] = std::move(results));
  }

  // What a reduction over no elements gives.
  TileId Neutral(ExprId e) {
    const DType dtype = group_.dtype(group_.result(e));
    return Constant(
        dtype, group_.op(e) == OpKind::Welford ? Zero(dtype) : ReduceIdentity(group_.op(e), dtype));
  }

  absl::StatusOr<std::vector<TileId>> Reduce(ExprId e) {
    const OpKind op = group_.op(e);
    const ValId from = group_.operands(e)[0];
    const Space& space = SpaceOf(shape_.Columns(shape_.axes.space(e)));
    const Space here = space;  // Tracing may add spaces.
    const Index index =
        IndexAt(group_.rank(from), here, [&](int d) { return shape_.axes.operand_atoms(e, 0, d); });
    SEAM_ASSIGN_OR_RETURN(TileId element, At(from, index, 1));
    const int depth = StageDepth(DepthOf(e));
    const DType accumulator = AccumulatorType(group_, e);
    element = Cast(element, accumulator);
    const Crossing crossing = shape_.crosses[e.index()];
    if (op == OpKind::Welford && !options_.chan_welford && crossing == Crossing::kNone)
      return TwoPassWelford(e, element, here.id, depth, accumulator);
    kernel::TileReduction reduction;
    reduction.op = op;
    reduction.dtype = accumulator;
    reduction.operands = {element};
    if (crossing == Crossing::kRows || crossing == Crossing::kAll) {
      reduction.over = crossing == Crossing::kAll ? kernel::Over::All : kernel::Over::Rows;
      reduction.predicate = FirstOfOthers(shape_.axes.space(e));
    }
    reduction.pass = PassOf(depth, here.id);
    if (kernel::NumComponents(op) == 2) reduction.position = index[group_.attributes(e).axes[0]];
    return Results(e, AddReduction(std::move(reduction), e), accumulator);
  }

  // Mean, then squared deviations from it: as accurate as merging, and two cheap exchanges.
  std::vector<TileId> TwoPassWelford(ExprId e, TileId element, int space, int depth, DType t) {
    const TileId count = Count(e, t);
    const TileId one = Constant(t, FloatScalar(1));
    const TileId divisor = Map(OpKind::Maximum, t, {count, one});
    kernel::TileReduction sum{OpKind::Sum, t, {element}};
    sum.pass = PassOf(depth, space);
    const TileId mean =
        Map(OpKind::Div, t, {Result(AddReduction(std::move(sum), e), 0, t), divisor});
    const TileId deviation = Map(OpKind::Sub, t, {element, mean});
    kernel::TileReduction squares{OpKind::Sum, t, {deviation}};
    squares.squares = true;
    squares.pass = PassOf(depth + 1, space);
    const TileId m2 = Result(AddReduction(std::move(squares), e), 0, t);
    return {mean, m2, count};
  }

  int AddReduction(kernel::TileReduction reduction, ExprId e) {
    std::vector<int> buffers;
    const bool leaves = options_.split > 1 || shape_.crosses[e.index()] != Crossing::kNone;
    if (leaves && !reduction.merge) {
      out_.splits_columns |= options_.split > 1;
      for (int c = 0; c < kernel::NumComponents(reduction.op); ++c)
        buffers.push_back(PartialBuffer(e, c, reduction.dtype, true));
    }
    out_.partials.push_back(std::move(buffers));
    tile_.reductions.push_back(std::move(reduction));
    return static_cast<int>(tile_.reductions.size()) - 1;
  }

  // Partial states: of a split row one after the other; where rows are crossed, one a row or, of
  // all that the reduction keeps, one a place.
  int PartialBuffer(ExprId e, int component, DType dtype, bool written) {
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
        buffer.num_elements = tile_.rows * options_.split;
        break;
      case Crossing::kSomeRows:
        buffer.num_elements = Elements(options_.finish ? shape_.crossed_rows : shape_.rows);
        break;
      case Crossing::kRows:
      case Crossing::kAll:
        buffer.num_elements = Elements(shape_.axes.kept(e)) * options_.places;
        break;
    }
    return AddBuffer({BufferSource::kWorkspace, index}, std::move(buffer));
  }

  SymInt Elements(absl::Span<const AxisId> axes) {
    SymInt elements = 1;
    for (AxisId a : axes) elements *= Radix(a);
    return elements;
  }

  // `parts` partial states, folded by a pass before all others. Returns their index.
  SymInt MergeSpace(SymInt parts, int* id) {
    const auto [it, is_new] =
        merge_spaces_.emplace(parts.bits(), static_cast<int>(tile_.spaces.size()));
    if (is_new) {
      kernel::TileSpace space;
      space.extent = parts;
      space.column = tile_.env->FreshSymbol("part", 0, parts - 1);
      space.whole = true;
      tile_.spaces.push_back(space);
    }
    *id = it->second;
    return tile_.spaces[it->second].column;
  }

  std::vector<TileId> MergePartials(ExprId e) {
    int space = 0;
    SymInt index = 0;
    if (shape_.crosses[e.index()] == Crossing::kSomeRows) {
      // The rows that have this row's coordinates; of those that the reduction does not know the
      // first.
      const AxisSet space_axes = shape_.axes.space(e);
      std::vector<AxisId> folded;
      for (AxisId a : shape_.crossed_rows) {
        if (!absl::c_linear_search(shape_.rows, a) && absl::c_binary_search(space_axes, a))
          folded.push_back(a);
      }
      const SymInt part = MergeSpace(Elements(folded), &space);
      std::map<AxisId, SymInt> at = Coordinates(folded, part);
      for (AxisId a : shape_.rows) at[a] = row_coordinates_[a];
      for (AxisId a : shape_.crossed_rows) {
        const auto it = at.find(a);
        index = index * Radix(a) + (it != at.end() ? it->second : SymInt(0));
      }
    } else if (options_.finish) {
      const AxisSet kept = shape_.axes.kept(e);
      const SymInt part = MergeSpace(options_.places, &space);
      index = part;
      for (AxisId a : shape_.rows) {
        if (absl::c_binary_search(kept, a)) index = index * Radix(a) + row_coordinates_[a];
      }
    } else {
      index = tile_.row * options_.split + MergeSpace(options_.split, &space);
    }
    const DType t = AccumulatorType(group_, e);
    kernel::TileReduction merge;
    merge.op = group_.op(e);
    merge.dtype = t;
    merge.merge = true;
    merge.pass = PassOf(0, space);
    for (int c = 0; c < kernel::NumComponents(merge.op); ++c) {
      TileValue load;
      load.kind = TileKind::Load;
      load.dtype = kernel::ComponentType(merge.op, t, c);
      load.buffer = PartialBuffer(e, c, t, false);
      load.index = index;
      merge.operands.push_back(Add(std::move(load)));
    }
    return Results(e, AddReduction(std::move(merge), e), t);
  }

  std::vector<TileId> Results(ExprId e, int reduction, DType accumulator) {
    const OpKind op = group_.op(e);
    if (op == OpKind::Welford) {
      return {Result(reduction, 0, accumulator), Result(reduction, 1, accumulator),
              Count(e, accumulator)};
    }
    if (kernel::NumComponents(op) == 2) return {Result(reduction, 1, DType::I64)};
    return {Cast(Result(reduction, 0, accumulator), group_.dtype(group_.result(e)))};
  }

  // How many elements a Welford folds: known without counting.
  TileId Count(ExprId e, DType t) {
    const ValId from = group_.operands(e)[0];
    SymInt count = 1;
    for (int axis : group_.attributes(e).axes) count *= Import(group_.domain(from)[axis].extent);
    return Cast(IndexOf(count, DType::I64), t);
  }

  // --- Tile values
  // ---------------------------------------------------------------------------------------------

  TileId Add(TileValue value) {
    for (size_t i = 0; i < tile_.lets.size(); ++i) {
      const SymNode* let = tile_.lets[i].symbol.node();
      bool uses = false;
      for (SymInt e : {value.index, value.predicate}) {
        if (e.env() == nullptr) continue;
        for (const SymNode* s : FreeSymbols(e)) uses |= s == let;
      }
      if (uses) value.lets.push_back(static_cast<int>(i));
    }
    tile_.values.push_back(std::move(value));
    return static_cast<TileId>(tile_.values.size()) - 1;
  }

  TileId Constant(DType dtype, Scalar scalar) {
    TileValue value;
    value.dtype = dtype;
    value.constant = scalar;
    return Add(std::move(value));
  }
  TileId Map(OpKind op, DType dtype, std::vector<TileId> operands) {
    TileValue value;
    value.kind = TileKind::Map;
    value.op = op;
    value.dtype = dtype;
    value.operands = std::move(operands);
    return Add(std::move(value));
  }
  TileId Cast(TileId id, DType dtype) {
    return tile_.values[id].dtype == dtype ? id : Map(OpKind::Cast, dtype, {id});
  }
  TileId IndexOf(SymInt e, DType dtype) {
    TileValue value;
    value.kind = TileKind::Index;
    value.dtype = dtype;
    value.index = e;
    return Add(std::move(value));
  }
  TileId Result(int reduction, int component, DType dtype) {
    TileValue value;
    value.kind = TileKind::ReduceResult;
    value.dtype = dtype;
    value.reduction = reduction;
    value.component = component;
    return Add(std::move(value));
  }

  static Scalar Zero(DType dtype) { return IsFloat(dtype) ? FloatScalar(0) : IntScalar(0); }

  // --- One value at one point
  // ------------------------------------------------------------------------------------

  // `v` at `index`, wanted where `predicate` holds (elsewhere any value will do, but nothing may be
  // read).
  absl::StatusOr<TileId> At(ValId v, const Index& index, SymInt predicate) {
    if (predicate.is_same(0)) return Constant(group_.dtype(v), Zero(group_.dtype(v)));
    std::string key;
    auto append = [&](uint64_t bits) {
      key.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    };
    append(v.index());
    append(predicate.bits());
    for (SymInt i : index) append(i.bits());
    if (auto it = memo_.find(key); it != memo_.end()) return it->second;
    if (tile_.values.size() > kMaxTileValues) {
      return absl::ResourceExhaustedError(absl::StrCat("group ", std::string(group_.name()),
                                                       ": value ", std::string(group_.name(v)),
                                                       " would be computed at too many places"));
    }
    SEAM_ASSIGN_OR_RETURN(TileId id, Compute(v, index, predicate));
    memo_.emplace(std::move(key), id);
    return id;
  }

  // Known to have no elements, so that nothing of it is ever wanted.
  bool IsEmpty(ValId v) {
    for (int d = 0; d < group_.rank(v); ++d) {
      if (Extent(v, d).is_same(0)) return true;
    }
    return false;
  }

  absl::StatusOr<TileId> Compute(ValId v, const Index& index, SymInt predicate) {
    if (IsEmpty(v)) return Constant(group_.dtype(v), Zero(group_.dtype(v)));
    if (group_.is_input(v)) {
      int input = 0;
      while (group_.inputs()[input] != v) ++input;
      TileValue load;
      load.kind = TileKind::Load;
      load.dtype = group_.dtype(v);
      load.buffer = BufferOf(BufferSource::kInput, input, v);
      load.index = Address(v, index);
      load.predicate = predicate;
      return Add(std::move(load));
    }
    const ExprId e = group_.definition(v);
    const Attributes& attributes = group_.attributes(e);
    const DType dtype = group_.dtype(v);
    switch (group_.info(e).op_class) {
      case OpClass::Elementwise:
      case OpClass::Cast:
      case OpClass::Barrier:
        return Pointwise(e, v, index, predicate);
      case OpClass::Reduction:
      case OpClass::Welford:
        return ReductionResult(e, v, index);
      case OpClass::Broadcast:
      case OpClass::View:
        return View(e, v, index, predicate);
      case OpClass::Factory:
        if (group_.op(e) == OpKind::Constant) {
          return Constant(dtype, IsFloat(dtype) ? FloatScalar(attributes.value)
                                                : IntScalar(attributes.int_value));
        }
        if (group_.op(e) == OpKind::Size) {
          SymInt size = 1;
          for (SymInt extent : attributes.sizes) size *= Import(extent);
          return Cast(IndexOf(size, DType::I64), dtype);
        }
        if (group_.op(e) == OpKind::Iota)
          return Cast(IndexOf(index[attributes.axes[0]], DType::I64), dtype);
        return At(group_.operands(e)[0], {}, predicate);
      case OpClass::Random: {
        TileValue random;
        random.kind = TileKind::Random;
        random.op = group_.op(e);
        random.dtype = dtype;
        for (ValId operand : group_.operands(e)) {
          SEAM_ASSIGN_OR_RETURN(TileId id, At(operand, {}, predicate));
          random.operands.push_back(id);
        }
        random.index = 0;
        for (int d = 0; d < group_.rank(v); ++d)
          random.index = random.index * Extent(v, d) + index[d];
        return Add(std::move(random));
      }
      case OpClass::Indexing:
        return Indexed(e, v, index, predicate);
      case OpClass::Concat:
        return Concatenated(e, v, index, predicate);
      default:
        return absl::UnimplementedError(
            absl::StrCat(group_.info(e).name, ": no kernel holds this operation"));
    }
  }

  SymInt Extent(ValId v, int d) { return Import(group_.domain(v)[d].extent); }

  absl::StatusOr<TileId> Pointwise(ExprId e, ValId v, const Index& index, SymInt predicate) {
    std::vector<TileId> operands;
    for (ValId operand : group_.operands(e)) {
      Index at;
      for (int d = 0; d < group_.rank(operand); ++d) {
        at.push_back(group_.domain(operand)[d].is_broadcast() ? SymInt(0) : index[d]);
      }
      SEAM_ASSIGN_OR_RETURN(TileId id, At(operand, at, predicate));
      operands.push_back(id);
    }
    const OpKind op = group_.info(e).op_class == OpClass::Barrier ? OpKind::Copy : group_.op(e);
    return Map(op, group_.dtype(v), std::move(operands));
  }

  absl::StatusOr<TileId> ReductionResult(ExprId e, ValId v, const Index& index) {
    const Index own = IndexAt(group_.rank(v), {-1, row_coordinates_},
                              [&](int d) { return shape_.axes.atoms(v, d); });
    for (int d = 0; d < group_.rank(v); ++d) {
      if (group_.domain(v)[d].is_broadcast())
        continue;  // Where anything is wanted, it is element 0.
      if (!own[d].is_same(index[d]) && !ProvablyEqual(own[d], index[d])) {
        return absl::UnimplementedError(
            absl::StrCat(group_.info(e).name, " ", std::string(group_.name(v)), ": read at row ",
                         index[d].ToString(), " while computed at ", own[d].ToString()));
      }
    }
    SEAM_ASSIGN_OR_RETURN(const std::vector<TileId>* results, EnsureReduction(e));
    return (*results)[v.index() - group_.result(e).index()];
  }

  absl::StatusOr<TileId> View(ExprId e, ValId v, const Index& index, SymInt predicate) {
    const ValId from = group_.operands(e)[0];
    const Attributes& a = group_.attributes(e);
    const int rank = group_.rank(from);
    Index at(rank, SymInt(0));
    switch (group_.op(e)) {
      case OpKind::Broadcast: {
        int d = 0;
        for (int i = 0; i < group_.rank(v); ++i) {
          if (std::find(a.axes.begin(), a.axes.end(), i) == a.axes.end()) at[d++] = index[i];
        }
        return At(from, at, predicate);
      }
      case OpKind::Squeeze: {
        int i = 0;
        for (int d = 0; d < rank; ++d) {
          if (std::find(a.axes.begin(), a.axes.end(), d) == a.axes.end()) at[d] = index[i++];
        }
        return At(from, at, predicate);
      }
      case OpKind::Permute:
        for (int i = 0; i < rank; ++i) at[a.axes[i]] = index[i];
        return At(from, at, predicate);
      case OpKind::Expand:
        for (int d = 0; d < rank; ++d)
          at[d] = group_.domain(from)[d].is_broadcast() ? SymInt(0) : index[d];
        return At(from, at, predicate);
      case OpKind::Reshape: {
        SymVector to_extents, from_extents;
        for (int d = 0; d < group_.rank(v); ++d) to_extents.push_back(Extent(v, d));
        for (int d = 0; d < rank; ++d) from_extents.push_back(Extent(from, d));
        return At(from, MapReshape(from_extents, to_extents, index), predicate);
      }
      case OpKind::Slice:
        for (int d = 0; d < rank; ++d) at[d] = Import(a.start[d]) + index[d] * Import(a.step[d]);
        return At(from, at, predicate);
      case OpKind::Flip:
        for (int d = 0; d < rank; ++d) {
          const bool flipped = std::find(a.axes.begin(), a.axes.end(), d) != a.axes.end();
          at[d] = flipped ? Extent(from, d) - 1 - index[d] : index[d];
        }
        return At(from, at, predicate);
      case OpKind::Pad: {
        SymInt inside = 1;
        for (int d = 0; d < rank; ++d) {
          at[d] = index[d] - Import(a.start[d]);
          inside = SymAnd(inside, SymAnd(SymGe(at[d], 0), SymLt(at[d], Extent(from, d))));
        }
        SEAM_ASSIGN_OR_RETURN(TileId inner, At(from, at, SymAnd(predicate, inside)));
        if (Decide(inside) == true) return inner;
        const DType dtype = group_.dtype(v);
        const TileId fill =
            Constant(dtype, IsFloat(dtype) ? FloatScalar(a.value) : IntScalar(a.int_value));
        return Map(OpKind::Where, dtype, {IndexOf(inside, DType::Bool), inner, fill});
      }
      default:
        return absl::UnimplementedError(
            absl::StrCat(group_.info(e).name, ": no kernel holds this view"));
    }
  }

  absl::StatusOr<TileId> Concatenated(ExprId e, ValId v, const Index& index, SymInt predicate) {
    const int axis = group_.attributes(e).axes[0];
    const auto operands = group_.operands(e);
    std::vector<SymInt> ends;
    SymInt end = 0;
    for (ValId operand : operands) ends.push_back(end += Extent(operand, axis));
    std::optional<TileId> result;
    for (size_t i = operands.size(); i-- > 0;) {
      const SymInt begin = i == 0 ? SymInt(0) : ends[i - 1];
      const SymInt inside = SymAnd(SymGe(index[axis], begin), SymLt(index[axis], ends[i]));
      if (Decide(inside) == false && (result || i > 0)) continue;
      Index at = index;
      at[axis] = index[axis] - begin;
      SEAM_ASSIGN_OR_RETURN(TileId part, At(operands[i], at, SymAnd(predicate, inside)));
      result = result ? Map(OpKind::Where, group_.dtype(v),
                            {IndexOf(inside, DType::Bool), part, *result})
                      : part;
    }
    return *result;
  }

  absl::StatusOr<TileId> Indexed(ExprId e, ValId v, const Index& index, SymInt predicate) {
    const int axis = group_.attributes(e).axes[0];
    const ValId data = group_.operands(e)[0], indices = group_.operands(e)[1];
    const Index where = group_.op(e) == OpKind::Gather ? index : Index{index[axis]};
    SEAM_ASSIGN_OR_RETURN(TileId raw, At(indices, where, predicate));
    // As ResolveIndex: negative ones count once from the end, what is then outside yields zero.
    raw = Cast(raw, DType::I64);
    const SymInt extent = Extent(data, axis);
    const TileId size = IndexOf(extent, DType::I64), zero = Constant(DType::I64, IntScalar(0));
    const TileId wrapped = Map(OpKind::Where, DType::I64,
                               {Map(OpKind::Lt, DType::Bool, {raw, zero}),
                                Map(OpKind::Add, DType::I64, {raw, size}), raw});
    const TileId inside = Map(OpKind::LogicalAnd, DType::Bool,
                              {Map(OpKind::Ge, DType::Bool, {wrapped, zero}),
                               Map(OpKind::Lt, DType::Bool, {wrapped, size})});
    const TileId safe = Map(OpKind::Where, DType::I64, {inside, wrapped, zero});
    const SymInt symbol = tile_.env->FreshSymbol("at", 0, Max(extent - 1, 0));
    tile_.lets.push_back({symbol, safe});
    Index at = index;
    at[axis] = symbol;
    SEAM_ASSIGN_OR_RETURN(TileId value, At(data, at, SymAnd(predicate, SymGt(extent, 0))));
    return Map(OpKind::Where, group_.dtype(v),
               {inside, value, Constant(group_.dtype(v), Zero(group_.dtype(v)))});
  }

  const Fusion& group_;
  const GroupShape& shape_;
  const TraceOptions& options_;
  TracedKernel out_;
  kernel::TileKernel& tile_;
  std::unique_ptr<SymImporter> importer_;
  std::map<AxisId, SymInt> row_coordinates_;
  std::map<std::vector<AxisId>, Space> spaces_;
  absl::flat_hash_map<uint64_t, int> merge_spaces_;  // By the number of parts.
  std::vector<std::pair<int, int>> pass_keys_;
  std::map<ExprId, std::vector<TileId>> reduced_;
  absl::flat_hash_map<std::string, TileId> memo_;
};

}  // namespace

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
    if (crossed ? shape.crosses[i] == Crossing::kNone : !IsReduction(group.info(e).op_class))
      continue;
    for (int c = 0; c < kernel::NumComponents(group.op(e)); ++c) slots.push_back({e, c});
  }
  return slots;
}

absl::StatusOr<TracedKernel> Trace(const Fusion& group, const GroupShape& shape,
                                   const TraceOptions& options) {
  return Tracer(group, shape, options).Run();
}

}  // namespace seam
