#include "scheduler/trace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/tracer.h"

namespace seam {

absl::StatusOr<TracedKernel> Trace(const Fusion& group, const GroupShape& shape,
                                   const TraceOptions& options) {
  return Tracer(group, shape, options).Run();
}

absl::StatusOr<TracedKernel> Tracer::Run() {
  SEAM_RETURN_IF_ERROR(Prepare());
  std::vector<ValId> outputs(group_.outputs().begin(), group_.outputs().end());
  for (int point = 0; point < shape_.points; ++point) {
    MoveTo(point);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (options_.split > 1 && shape_.depth[outputs[i].index()] != options_.stage) continue;
      if (!IsOfPart(shape_.axes.axes(outputs[i]))) continue;
      if (shape_.finished[outputs[i].index()] != options_.finish) continue;
      if (options_.finish && !HasAxesOfRows(outputs[i])) continue;
      if (!IsOfPoint(outputs[i], point)) continue;
      SEAM_RETURN_IF_ERROR(TraceOutput(static_cast<int>(i), outputs[i]));
    }
  }
  for (uint32_t i = 0; i < group_.num_exprs(); ++i) {
    const ExprId e(i);
    const bool left_here =
        options_.split > 1
            ? shape_.folds[i] && DepthOf(e) == options_.stage && IsOfPart(shape_.axes.space(e))
            : shape_.crosses[i] != Crossing::kNone && !options_.finish;
    if (left_here) SEAM_RETURN_IF_ERROR(EnsureReduction(e).status());
  }
  if (options_.columns_of_cta > 0) out_.ctas = CtasOf(options_.part);
  FinishPasses();
  JoinLoads();
  return std::move(out_);
}

absl::Status Tracer::Prepare() {
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
  for (AxisId a : shape_.rows) tile_.rows *= Steps(a);
  if (!options_.finish) {
    out_.batches = Elements(shape_.batch);
    out_.batch_rows = Elements(shape_.RowsOfBatch());
  }
  tile_.row = tile_.rows.is_same(1) ? SymInt(0) : tile_.env->FreshSymbol("row", 0, tile_.rows - 1);
  row_coordinates_ = Coordinates(shape_.rows, tile_.row);
  for (const GroupShape::PointsOfAxis& of : shape_.along)
    first_point_.push_back(of.points * row_coordinates_[of.axis]);
  return absl::OkStatus();
}

// Whether what has these axes runs along the columns that are asked for.
bool Tracer::IsOfPart(const AxisSet& axes) const {
  return options_.parts == nullptr || PartOf(shape_, *options_.parts, axes) == options_.part;
}

// To one of the points that are one row.
void Tracer::MoveTo(int point) {
  if (shape_.points == 1) return;
  reduced_.clear();  // Those of the point before.
  is_there_ = 1;
  for (size_t i = 0; i < shape_.along.size(); ++i) {
    const auto& [axis, points, uneven] = shape_.along[i];
    SymInt at = first_point_[i] + point % points;
    if (uneven && point % points > 0) {
      is_there_ = SymAnd(is_there_, SymLt(at, Radix(axis)));
      at = Min(at, Radix(axis) - 1);
    }
    row_coordinates_[axis] = at;
    for (auto& [columns, space] : spaces_) space.at[axis] = at;
    point /= points;
  }
}

// What lacks an axis of the points is that of the first ones along it.
bool Tracer::IsOfPoint(ValId v, int point) const {
  for (const auto& [axis, points, uneven] : shape_.along) {
    if (point % points > 0 && !absl::c_binary_search(shape_.axes.axes(v), axis)) return false;
    point /= points;
  }
  return true;
}

// What the symbol is at least, since an axis that is not known to be empty has an element.
int64_t Tracer::LowestValue(const SymNode* symbol) const {
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

bool Tracer::HasAxesOfRows(ValId v) const {
  const AxisSet axes = shape_.axes.axes(v);
  return axes.size() == shape_.rows.size() &&
         absl::c_all_of(shape_.rows, [&](AxisId a) { return absl::c_binary_search(axes, a); });
}

const Tracer::Space& Tracer::SpaceOf(const std::vector<AxisId>& columns) {
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

// What has a value for each section of a row runs over all of the row's columns.
bool Tracer::AreSections(const std::vector<AxisId>& columns) const {
  return shape_.sections.size > 1 && columns == shape_.sections.columns;
}

const Tracer::Space& Tracer::SpaceOfSections() {
  std::vector<AxisId> columns = shape_.sections.columns;
  columns.insert(columns.end(), shape_.sections.folded.begin(), shape_.sections.folded.end());
  return SpaceOf(columns);
}

// An axis' extent in the arithmetic of indices. One without elements is never indexed; it only must
// not divide by zero.
SymInt Tracer::Radix(AxisId a) {
  const SymInt extent = Import(shape_.axes.extent(a));
  return extent.is_constant() ? Max(extent, 1) : extent;
}

// Coordinates of rows or columns along an axis.
SymInt Tracer::Steps(AxisId a) { return shape_.Steps(a, Radix(a)); }

SymInt Tracer::Elements(absl::Span<const AxisId> axes) {
  SymInt elements = 1;
  for (AxisId a : axes) elements *= Radix(a);
  return elements;
}

// Known to have no elements, so that nothing of it is ever wanted.
bool Tracer::IsEmpty(ValId v) {
  for (int d = 0; d < group_.rank(v); ++d) {
    if (Extent(v, d).is_same(0)) return true;
  }
  return false;
}

// Splits a linear index over `axes`, slow to fast.
std::map<AxisId, SymInt> Tracer::Coordinates(const std::vector<AxisId>& axes, SymInt linear) {
  std::map<AxisId, SymInt> at;
  SymInt stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const SymInt extent = Steps(axes[i]);
    const SymInt quotient = FloorDiv(linear, stride);
    at[axes[i]] = i == 0 ? quotient : Mod(quotient, extent);
    stride *= extent;
  }
  return at;
}

int Tracer::BufferOf(BufferSource::Kind kind, int index, ValId v) {
  for (size_t i = 0; i < out_.sources.size(); ++i) {
    if (out_.sources[i].kind == kind && out_.sources[i].index == index) return static_cast<int>(i);
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

int Tracer::AddBuffer(BufferSource source, kernel::Buffer buffer) {
  out_.sources.push_back(source);
  tile_.buffers.push_back(std::move(buffer));
  return static_cast<int>(tile_.buffers.size()) - 1;
}

SymInt Tracer::Address(ValId v, const Index& index) {
  const SymVector strides = group_.strides(v);
  SymInt address = 0;
  for (int d = 0; d < group_.rank(v); ++d) address += index[d] * Import(strides[d]);
  return address;
}

absl::Status Tracer::TraceOutput(int output, ValId v) {
  if (IsEmpty(v)) return absl::OkStatus();
  const AxisSet axes = shape_.axes.axes(v);
  const std::vector<AxisId> columns = shape_.Columns(axes);
  const bool of_sections = AreSections(columns);
  const Space& space = of_sections ? SpaceOfSections() : SpaceOf(columns);
  const Index index =
      IndexAt(group_.rank(v), space, [&](int d) { return shape_.axes.atoms(v, d); });
  kernel::TileStore store;
  if (of_sections) store.section = shape_.sections.size;
  SEAM_ASSIGN_OR_RETURN(store.value, At(v, index, 1));
  store.buffer = BufferOf(BufferSource::kOutput, output, v);
  store.index = Address(v, index);
  store.predicate = SymAnd(is_there_, FirstOfOthers(axes));
  store.pass = PassOf(StageDepth(shape_.depth[v.index()]), space.id);
  tile_.stores.push_back(store);
  return absl::OkStatus();
}

// What has not all of the rows' axes is the same for all values of the others: the first stands
// for them.
SymInt Tracer::FirstOfOthers(const AxisSet& axes) {
  SymInt first = 1;
  for (AxisId a : shape_.rows) {
    if (!absl::c_binary_search(axes, a)) first = SymAnd(first, SymEq(row_coordinates_[a], 0));
  }
  return first;
}

// Passes are told apart by depth and space and numbered at the end.
int Tracer::PassOf(int depth, int space) {
  for (size_t i = 0; i < pass_keys_.size(); ++i) {
    if (pass_keys_[i] == std::make_pair(depth, space)) return static_cast<int>(i);
  }
  pass_keys_.emplace_back(depth, space);
  return static_cast<int>(pass_keys_.size()) - 1;
}

void Tracer::FinishPasses() {
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

}  // namespace seam
