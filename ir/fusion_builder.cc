// Appends expressions to a Fusion's flat arrays, asking InferTypes what each one yields; names and
// uses are made at the end, in one pass each.
#include "ir/fusion_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ir/footprint.h"
#include "ir/infer_types.h"
#include "ir/scalar.h"
#include "ir/status.h"

namespace seam {
namespace {

constexpr uint32_t kUnnamed = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxVals = size_t{1} << 30;

bool IsIdentifier(absl::string_view name) {
  if (name.empty() || !(absl::ascii_isalpha(name[0]) || name[0] == '_')) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.'; });
}

}  // namespace

FusionBuilder::FusionBuilder(absl::string_view name)
    : FusionBuilder(name, std::make_shared<ShapeEnv>()) {}

FusionBuilder::FusionBuilder(absl::string_view name, std::shared_ptr<ShapeEnv> env) {
  fusion_.name_ = std::string(name.data(), name.size());
  fusion_.env_ = env != nullptr ? std::move(env) : std::make_shared<ShapeEnv>();
}

FusionBuilder::FusionBuilder(FusionBuilder&& other) : FusionBuilder("") {
  *this = std::move(other);
}

FusionBuilder& FusionBuilder::operator=(FusionBuilder&& other) {
  fusion_ = std::exchange(other.fusion_, FusionBuilder("").fusion_);
  status_ = std::exchange(
      other.status_,
      absl::FailedPreconditionError("this builder has been moved; use the one that it moved to"));
  location_ = other.location_;
  by_name_ = std::move(other.by_name_);
  constrained_ = std::move(other.constrained_);
  return *this;
}

ValId FusionBuilder::Fail(absl::Status status) {
  if (status_.ok()) {
    status_ = status.ok() ? absl::InternalError("Fail called without an error") : std::move(status);
  }
  return ValId();
}

SymInt FusionBuilder::Symbol(absl::string_view name, int64_t lo, int64_t hi) {
  if (!status_.ok()) return SymInt::Invalid();
  if (lo < 0 || hi > kMaxExtent) {
    Fail(absl::InvalidArgumentError(absl::StrCat("symbol \"", name, "\": found the range [", lo,
                                                 ", ", hi, "], expected one in [0, 2^48]")));
    return SymInt::Invalid();
  }
  absl::StatusOr<SymInt> symbol = env().NewSymbol(name, lo, hi);
  if (!symbol.ok()) {
    Fail(symbol.status());
    return SymInt::Invalid();
  }
  return *symbol;
}

bool FusionBuilder::CheckVal(ValId v, absl::string_view what) {
  if (!status_.ok()) return false;
  if (IsVal(v)) return true;
  Fail(absl::InvalidArgumentError(absl::StrCat(what, ": no such value")));
  return false;
}

ValId FusionBuilder::NewVal(const TensorType& type, ExprId definition) {
  Fusion::Val& val = fusion_.vals_.emplace_back();
  val.definition = definition;
  val.domain_begin = static_cast<uint32_t>(fusion_.domains_.size());
  val.name = kUnnamed;
  val.dtype = type.dtype;
  val.rank = static_cast<uint8_t>(type.rank());
  fusion_.domains_.insert(fusion_.domains_.end(), type.domain.begin(), type.domain.end());
  return ValId(num_vals() - 1);
}

void FusionBuilder::AddConstraint(Guard guard) {
  if (constrained_.insert(guard.condition).second) {
    fusion_.constraints_.push_back(std::move(guard));
  }
}

ValId FusionBuilder::Input(absl::string_view name, DType dtype, SymVector sizes,
                           std::optional<SymVector> strides) {
  if (!status_.ok()) return ValId();
  const std::string what = absl::StrCat("input ", name);
  if (absl::Status status = CheckOwned(what, sizes); !status.ok()) return Fail(std::move(status));
  absl::StatusOr<InferredTypes> types = TypeOfSizes(what, dtype, sizes);
  if (!types.ok()) return Fail(types.status());
  const ValId v = NewVal(types->results[0], ExprId());
  fusion_.inputs_.push_back(v);
  for (Guard& guard : types->constraints) AddConstraint(std::move(guard));
  SetName(v, name);
  if (strides.has_value()) SetStrides(v, *strides, /*written=*/false);
  return status_.ok() ? v : ValId();
}

void FusionBuilder::Output(ValId v, std::optional<SymVector> strides) {
  if (!CheckVal(v, "output")) return;
  Fusion::Val& val = fusion_.vals_[v.index()];
  if (val.is_output) {
    Fail(absl::InvalidArgumentError(absl::StrCat("output ", Label(v), ": already an output")));
    return;
  }
  if (strides.has_value() && !val.definition.valid()) {
    Fail(absl::InvalidArgumentError(absl::StrCat(
        "output ", Label(v), ": an input that is returned keeps its own strides; copy it first")));
    return;
  }
  val.is_output = true;
  fusion_.outputs_.push_back(v);
  if (strides.has_value()) SetStrides(v, *strides, /*written=*/true);
}

// Every offset within 2^48 elements; no stride negative; where all is constant, no two elements of
// a written tensor in one place.
absl::Status FusionBuilder::CheckStrides(ValId v, const SymVector& strides, bool written) const {
  SEAM_RETURN_IF_ERROR(CheckOwned(absl::StrCat("strides of ", Label(v)), strides));
  const absl::Span<const IterDomain> domain = fusion_.domain(v);
  const auto error = [&](auto&&... what) {
    return absl::InvalidArgumentError(absl::StrCat("strides of ", Label(v), ": ", what...));
  };
  if (strides.size() != domain.size()) {
    return error(strides.size(), " given for ", domain.size(), " axes");
  }
  std::vector<int64_t> extents, steps;  // Of axes of which both are constant.
  int64_t span = 0;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    const SymInt stride = strides[axis];
    if (!stride.is_valid()) return error("stride of axis ", axis, " is invalid");
    if (ProvablyLt(stride, 0)) return error("stride ", stride.ToString(), " is negative");
    const auto step = stride.maybe_int(), extent = domain[axis].extent.maybe_int();
    if (step.has_value() && *step > kMaxExtent) return error("stride ", *step, " is above 2^48");
    if (extent == 0) return absl::OkStatus();  // No elements.
    if (!step.has_value() || !extent.has_value()) continue;
    if (*extent == 1) continue;
    if (*step > 0 && *extent - 1 > (kMaxExtent - span) / *step) {
      return error("the last element lies beyond 2^48 elements");
    }
    span += (*extent - 1) * *step;
    extents.push_back(*extent);
    steps.push_back(*step);
  }
  if (written && ElementsOverlap(extents, steps)) return error("elements overlap in memory");
  return absl::OkStatus();
}

void FusionBuilder::SetStrides(ValId v, const SymVector& strides, bool written) {
  if (absl::Status status = CheckStrides(v, strides, written); !status.ok()) {
    Fail(std::move(status));
    return;
  }
  for (SymInt stride : strides) {
    if (ProvablyGe(stride, 0)) continue;
    AddConstraint(
        Guard{SymLe(0, stride), absl::StrCat("strides of ", Label(v), ": stride ",
                                             stride.ToString(), " must not be negative")});
  }
  fusion_.vals_[v.index()].strides_begin = static_cast<int32_t>(fusion_.strides_.size());
  fusion_.strides_.insert(fusion_.strides_.end(), strides.begin(), strides.end());
}

absl::Status FusionBuilder::CheckOwned(absl::string_view what,
                                       absl::Span<const SymInt> values) const {
  for (SymInt value : values) {
    if (value.env() != nullptr && value.env() != fusion_.env_.get()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": ", value.ToString(), " belongs to another ShapeEnv"));
    }
  }
  return absl::OkStatus();
}

ValId FusionBuilder::Op(OpKind op, absl::Span<const ValId> operands, Attributes attributes) {
  if (!status_.ok()) return ValId();
  if (static_cast<int>(op) >= kNumOps)
    return Fail(absl::InvalidArgumentError("this operation does not exist"));
  const OpInfo& info = GetOpInfo(op);
  absl::InlinedVector<TensorType, 4> types;
  types.reserve(operands.size());
  for (ValId v : operands) {
    if (!CheckVal(v, info.name)) return ValId();
    types.push_back(fusion_.type(v));
  }
  const bool has_attributes = AttributesOf(op) != 0;
  if (has_attributes) {
    for (const SymVector* values :
         {&attributes.sizes, &attributes.start, &attributes.stop, &attributes.step}) {
      absl::Status status = CheckOwned(info.name, *values);
      if (!status.ok()) return Fail(std::move(status));
    }
  }
  absl::StatusOr<InferredTypes> inferred = InferTypes(op, types, attributes);
  if (!inferred.ok()) return Fail(inferred.status());
  if (fusion_.vals_.size() + inferred->results.size() > kMaxVals ||
      fusion_.operands_.size() + operands.size() > kMaxVals) {
    return Fail(absl::ResourceExhaustedError("a Fusion holds at most 2^30 values"));
  }

  const ExprId e(fusion_.num_exprs());
  const ValId first(num_vals());
  Fusion::Expr& expr = fusion_.exprs_.emplace_back();
  expr.op = op;
  expr.num_results = static_cast<uint8_t>(inferred->results.size());
  expr.num_operands = static_cast<uint32_t>(operands.size());
  expr.operands_begin = static_cast<uint32_t>(fusion_.operands_.size());
  expr.first_result = first;
  expr.location = location_;
  fusion_.operands_.insert(fusion_.operands_.end(), operands.begin(), operands.end());
  if (has_attributes) {
    expr.attributes = static_cast<int32_t>(fusion_.attributes_.size());
    fusion_.attributes_.push_back(std::move(attributes));
  }
  for (const TensorType& type : inferred->results) NewVal(type, e);
  for (Guard& guard : inferred->constraints) AddConstraint(std::move(guard));
  return first;
}

ValId FusionBuilder::Op(OpKind op, std::initializer_list<ValId> operands, Attributes attributes) {
  return Op(op, absl::MakeConstSpan(operands.begin(), operands.size()), std::move(attributes));
}

ValId FusionBuilder::Constant(double value, DType dtype) {
  if (IsFloat(dtype)) {
    Attributes attributes;
    attributes.dtype = dtype;
    attributes.value = value;
    return Op(OpKind::Constant, {}, std::move(attributes));
  }
  if (dtype == DType::Bool) return IntConstant(value != 0, dtype);
  // 2^63 itself is not an int64; every double below it is.
  if (!(value >= -0x1p63 && value < 0x1p63) || std::trunc(value) != value) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("constant: ", value, " is no value of ", DTypeName(dtype))));
  }
  return IntConstant(static_cast<int64_t>(value), dtype);
}

ValId FusionBuilder::IntConstant(int64_t value, DType dtype) {
  if (IsFloat(dtype)) return Constant(static_cast<double>(value), dtype);
  Attributes attributes;
  attributes.dtype = dtype;
  attributes.int_value = value;
  return Op(OpKind::Constant, {}, std::move(attributes));
}

ValId FusionBuilder::Size(SymInt size, DType dtype) {
  if (const auto constant = size.maybe_int(); constant.has_value()) {
    return IntConstant(*constant, dtype);
  }
  Attributes attributes;
  attributes.sizes = {size};
  attributes.dtype = dtype;
  return Op(OpKind::Size, {}, std::move(attributes));
}

ValId FusionBuilder::Cast(ValId v, DType dtype) {
  if (v.valid() && v.index() < num_vals() && fusion_.dtype(v) == dtype) return v;
  Attributes attributes;
  attributes.dtype = dtype;
  return Op(OpKind::Cast, {v}, std::move(attributes));
}

ValId FusionBuilder::OpWithAxes(OpKind op, ValId v, AxisVector axes) {
  Attributes attributes;
  attributes.axes = std::move(axes);
  return Op(op, {v}, std::move(attributes));
}

ValId FusionBuilder::OpWithSizes(OpKind op, ValId v, SymVector sizes) {
  Attributes attributes;
  attributes.sizes = std::move(sizes);
  return Op(op, {v}, std::move(attributes));
}

ValId FusionBuilder::Reduce(OpKind op, ValId v, AxisVector axes) {
  return OpWithAxes(op, v, std::move(axes));
}
ValId FusionBuilder::Welford(ValId v, AxisVector axes) {
  return OpWithAxes(OpKind::Welford, v, std::move(axes));
}
ValId FusionBuilder::Broadcast(ValId v, AxisVector axes) {
  return OpWithAxes(OpKind::Broadcast, v, std::move(axes));
}
ValId FusionBuilder::Permute(ValId v, AxisVector order) {
  return OpWithAxes(OpKind::Permute, v, std::move(order));
}
ValId FusionBuilder::Reshape(ValId v, SymVector sizes) {
  return OpWithSizes(OpKind::Reshape, v, std::move(sizes));
}
ValId FusionBuilder::Expand(ValId v, SymVector sizes) {
  return OpWithSizes(OpKind::Expand, v, std::move(sizes));
}

std::vector<ValId> FusionBuilder::AlignRanks(absl::Span<const ValId> vals) {
  std::vector<ValId> aligned(vals.begin(), vals.end());
  int rank = 0;
  for (ValId v : vals) {
    if (!CheckVal(v, "align_ranks")) return std::vector<ValId>(vals.size());
    rank = std::max(rank, fusion_.rank(v));
  }
  for (ValId& v : aligned) {
    const int own = fusion_.rank(v);
    if (own == 0 || own == rank) continue;
    AxisVector axes;
    for (int axis = 0; axis < rank - own; ++axis) axes.push_back(axis);
    v = Broadcast(v, std::move(axes));
  }
  return aligned;
}

void FusionBuilder::SetName(ValId v, absl::string_view name) {
  if (!CheckVal(v, "name")) return;
  if (!IsIdentifier(name)) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("name \"", name,
                     "\": a letter or underscore expected, then letters, "
                     "digits, underscores and dots")));
    return;
  }
  uint32_t& slot = fusion_.vals_[v.index()].name;
  if (slot != kUnnamed && fusion_.names_[slot] == name) return;
  if (!by_name_.emplace(std::string(name.data(), name.size()), v).second) {
    Fail(absl::AlreadyExistsError(absl::StrCat("name ", name, ": taken by another value")));
    return;
  }
  if (slot == kUnnamed) {
    slot = static_cast<uint32_t>(fusion_.names_.size());
    fusion_.names_.emplace_back();
  } else {
    by_name_.erase(fusion_.names_[slot]);
  }
  fusion_.names_[slot].assign(name.data(), name.size());
}

std::optional<ValId> FusionBuilder::Find(absl::string_view name) const {
  auto it = by_name_.find(name);
  if (it == by_name_.end()) return std::nullopt;
  return it->second;
}

std::string FusionBuilder::Label(ValId v) const {
  const uint32_t name = fusion_.vals_[v.index()].name;
  return name == kUnnamed ? absl::StrCat("value ", v.index()) : fusion_.names_[name];
}

TensorType FusionBuilder::type(ValId v) const { return IsVal(v) ? fusion_.type(v) : TensorType(); }

SymInt FusionBuilder::extent(ValId v, int axis) const {
  if (!IsVal(v)) return SymInt::Invalid();
  const int rank = fusion_.rank(v);
  if (axis < -rank || axis >= rank) return SymInt::Invalid();
  return fusion_.domain(v)[axis < 0 ? axis + rank : axis].extent;
}

// Unnamed values get the first free of t0, t1, ... in the order of their ids.
void FusionBuilder::NameTheRest() {
  size_t next = 0;
  for (Fusion::Val& val : fusion_.vals_) {
    if (val.name != kUnnamed) continue;
    std::string name;
    do {
      name = absl::StrCat("t", next++);
    } while (by_name_.contains(name));
    val.name = static_cast<uint32_t>(fusion_.names_.size());
    fusion_.names_.push_back(std::move(name));
  }
}

absl::StatusOr<Fusion> FusionBuilder::Finish() {
  if (!status_.ok()) return status_;
  fusion_.names_.reserve(num_vals());
  NameTheRest();
  fusion_.IndexUses();
  for (auto* v : {&fusion_.inputs_, &fusion_.outputs_, &fusion_.operands_}) v->shrink_to_fit();
  fusion_.vals_.shrink_to_fit();
  fusion_.exprs_.shrink_to_fit();
  fusion_.domains_.shrink_to_fit();
  fusion_.attributes_.shrink_to_fit();
  Fusion finished = std::move(fusion_);
  *this = FusionBuilder(finished.name());
  status_ = absl::FailedPreconditionError("this builder's Fusion is finished; use a new builder");
  return finished;
}

}  // namespace seam
