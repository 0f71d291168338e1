// The typing rules, one member function per shape rule.
//
// Extents are compared by what is provable for all values of their symbols. What two operands must
// have in common has to be provable here; what a view needs of its own arguments may be left as a
// constraint.
#include "ir/infer_types.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/reshape_blocks.h"
#include "ir/scalar.h"
#include "ir/shape_checker.h"
#include "ir/status.h"

namespace seam {
namespace {

constexpr SymInt kInfer = -1;  // In the sizes of reshape and expand.

std::string Ordinal(size_t index) {
  static constexpr const char* kWords[] = {"first", "second", "third"};
  return index < 3 ? kWords[index] : absl::StrCat(index + 1, "th");
}

class Typer : public ShapeChecker {
 public:
  Typer(OpKind op, absl::Span<const TensorType> operands, Attributes& attributes,
        InferredTypes& out)
      : ShapeChecker(GetOpInfo(op).name, operands, out),
        op_(op),
        info_(GetOpInfo(op)),
        attr_(attributes) {}

  absl::Status Run() {
    SEAM_RETURN_IF_ERROR(CheckOperands());
    SEAM_RETURN_IF_ERROR(CheckUnusedAttributes());
    SEAM_RETURN_IF_ERROR(InferShape());
    for (const TensorType& result : out_.results) SEAM_RETURN_IF_ERROR(CheckShape(result));
    return absl::OkStatus();
  }

 private:
  // --- What all operations have in common ---

  absl::Status CheckOperands() const {
    const size_t n = operands_.size();
    for (const TensorType& operand : operands_) {
      if (operand.rank() > kMaxRank) {
        return Error(absl::StrCat("an operand has ", CountAxes(operand.rank()), ", at most ",
                                  kMaxRank, " are possible"));
      }
    }
    if (info_.num_operands < 0 ? n > 0 : n == static_cast<size_t>(info_.num_operands)) {
      return absl::OkStatus();
    }
    return Error(absl::StrCat(
        n, n == 1 ? " operand" : " operands", " given, ",
        info_.num_operands < 0 ? "at least one" : absl::StrCat(info_.num_operands), " expected"));
  }

  absl::Status CheckUnusedAttributes() const {
    const uint32_t used = AttributesOf(op_);
    const auto check = [&](uint32_t field, bool is_set, const char* name) {
      if (!is_set || (used & field) != 0) return absl::OkStatus();
      return Error(absl::StrCat("takes no ", name));
    };
    SEAM_RETURN_IF_ERROR(check(kAttrAxes, !attr_.axes.empty(), "axes"));
    SEAM_RETURN_IF_ERROR(check(kAttrSizes, !attr_.sizes.empty(), "sizes"));
    SEAM_RETURN_IF_ERROR(check(kAttrStart, !attr_.start.empty(), "start"));
    SEAM_RETURN_IF_ERROR(check(kAttrStop, !attr_.stop.empty(), "stop"));
    SEAM_RETURN_IF_ERROR(check(kAttrStep, !attr_.step.empty(), "step"));
    SEAM_RETURN_IF_ERROR(check(kAttrDType, attr_.dtype != DType::F32, "dtype"));
    if (static_cast<int>(attr_.dtype) >= kNumDTypes) return Error("its dtype does not exist");
    return check(kAttrValue, attr_.value != 0 || attr_.int_value != 0, "value");
  }

  // Makes `axis` count from the start. `rank` axes exist.
  absl::Status NormalizeAxis(int32_t& axis, int rank) const {
    if (axis < -rank || axis >= rank) {
      return Error(rank == 0 ? absl::StrCat("axis ", axis, " given, but there are no axes")
                             : absl::StrCat("axis ", axis, " is not in ", -rank, "..", rank - 1));
    }
    if (axis < 0) axis += rank;
    return absl::OkStatus();
  }

  // As above for all of `attributes.axes`, none of which may be named twice. `rank` may be beyond
  // kMaxRank.
  absl::Status NormalizeAxes(int rank) {
    if (attr_.axes.size() > static_cast<size_t>(kMaxRank)) {
      return Error(absl::StrCat(CountAxes(static_cast<int>(attr_.axes.size())), " given, at most ",
                                kMaxRank, " are possible"));
    }
    uint64_t seen = 0;
    for (int32_t& axis : attr_.axes) {
      SEAM_RETURN_IF_ERROR(NormalizeAxis(axis, rank));
      const uint64_t bit = uint64_t{1} << axis;
      if ((seen & bit) != 0) return Error(absl::StrCat("axis ", axis, " is named twice"));
      seen |= bit;
    }
    return absl::OkStatus();
  }

  absl::Status NormalizeSortedAxes(int rank) {
    SEAM_RETURN_IF_ERROR(NormalizeAxes(rank));
    std::sort(attr_.axes.begin(), attr_.axes.end());
    return absl::OkStatus();
  }

  absl::Status NormalizeOneAxis(int rank) {
    if (attr_.axes.size() != 1) {
      return Error(absl::StrCat("exactly one axis expected, ", attr_.axes.size(), " given"));
    }
    return NormalizeAxis(attr_.axes[0], rank);
  }

  bool HasAxis(int axis) const {
    return std::binary_search(attr_.axes.begin(), attr_.axes.end(), axis);
  }

  // Rounds a float value to `dtype`; an integer one must be in its range.
  absl::Status NormalizeValue(DType dtype) {
    if (IsFloat(dtype)) {
      attr_.value = RoundOnce(dtype, attr_.value);
      return attr_.int_value == 0
                 ? absl::OkStatus()
                 : Error(absl::StrCat("an integer value given for ", DTypeName(dtype)));
    }
    if (attr_.value != 0) return Error(absl::StrCat("a float value given for ", DTypeName(dtype)));
    if (attr_.int_value < MinInteger(dtype) || attr_.int_value > MaxInteger(dtype)) {
      return Error(
          absl::StrCat("value ", attr_.int_value, " is not in the range of ", DTypeName(dtype)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<DType> OperandDType() const {
    absl::InlinedVector<DType, 8> dtypes;
    for (const TensorType& operand : operands_) dtypes.push_back(operand.dtype);
    return InferDType(op_, dtypes);
  }

  absl::Status InferShape() {
    switch (info_.op_class) {
      case OpClass::Elementwise:
      case OpClass::Cast:
      case OpClass::Barrier:
        return Pointwise();
      case OpClass::Reduction:
        return Reduction();
      case OpClass::Welford:
        return Welford();
      case OpClass::Random:
        return Random();
      default:
        break;
    }
    switch (op_) {
      case OpKind::Broadcast:
        return Broadcast();
      case OpKind::Reshape:
        return Reshape();
      case OpKind::Permute:
        return Permute();
      case OpKind::Squeeze:
        return Squeeze();
      case OpKind::Expand:
        return Expand();
      case OpKind::Slice:
        return Slice();
      case OpKind::Flip:
        return Flip();
      case OpKind::Pad:
        return Pad();
      case OpKind::Cat:
        return Cat();
      case OpKind::Constant:
        SEAM_RETURN_IF_ERROR(NormalizeValue(attr_.dtype));
        AddResult(attr_.dtype);
        return absl::OkStatus();
      case OpKind::Full:
        return Full();
      case OpKind::Iota:
        return Iota();
      case OpKind::Size:
        return Size();
      case OpKind::Gather:
        return Gather();
      case OpKind::IndexSelect:
        return IndexSelect();
      case OpKind::Matmul:
        return Matmul();
      default:
        return absl::InternalError(absl::StrCat(info_.name, ": no typing rule"));
    }
  }

  // --- Pointwise: elementwise operations, cast, segment_set ---

  absl::Status Pointwise() {
    DType dtype = attr_.dtype;
    if (op_ != OpKind::Cast) {
      SEAM_ASSIGN_OR_RETURN(dtype, OperandDType());
    }
    size_t widest = 0;
    for (size_t i = 1; i < operands_.size(); ++i) {
      if (operands_[i].rank() > operands_[widest].rank()) widest = i;
    }
    const int rank = operands_[widest].rank();
    TensorType& result = AddResult(dtype);
    result.domain = operands_[widest].domain;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].rank() == 0 || i == widest) continue;
      if (operands_[i].rank() != rank) {
        return Error(absl::StrCat("the ", Ordinal(i), " operand has ",
                                  CountAxes(operands_[i].rank()), " and the ", Ordinal(widest), " ",
                                  rank, "; broadcast inserts axes of extent 1"));
      }
      for (int axis = 0; axis < rank; ++axis) {
        const IterDomain& from = operands_[i].domain[axis];
        IterDomain& to = result.domain[axis];
        if (from.extent.is_same(to.extent) || from.is_broadcast()) continue;
        if (to.is_broadcast()) {
          to = from;
        } else if (!ProvablyEqual(from.extent, to.extent)) {
          return AxisMismatch(i, axis);
        }
      }
    }
    return absl::OkStatus();
  }

  // Names the first operand whose extent along `axis` does not go with that of operand `i`.
  absl::Status AxisMismatch(size_t i, int axis) const {
    const SymInt extent = operands_[i].domain[axis].extent;
    for (size_t j = 0; j < operands_.size(); ++j) {
      if (j == i || operands_[j].rank() == 0) continue;
      const IterDomain& other = operands_[j].domain[axis];
      if (other.is_broadcast() || ProvablyEqual(other.extent, extent)) continue;
      return ExtentsDiffer(std::min(i, j), std::max(i, j), axis);
    }
    return absl::InternalError("AxisMismatch called without a mismatch");
  }

  absl::Status ExtentsDiffer(size_t a, size_t b, int axis) const {
    return Error(absl::StrCat("axis ", axis, " is ", operands_[a].domain[axis].extent.ToString(),
                              " in the ", Ordinal(a), " operand and ",
                              operands_[b].domain[axis].extent.ToString(), " in the ", Ordinal(b)));
  }

  // --- Reductions ---

  // A result with the operand's axes that `attributes.axes` does not name.
  void AddResultOfOtherAxes(DType dtype) {
    const TensorType& operand = operands_[0];
    TensorType& result = AddResult(dtype);
    for (int axis = 0; axis < operand.rank(); ++axis) {
      if (!HasAxis(axis)) result.domain.push_back(operand.domain[axis]);
    }
  }

  absl::Status NormalizeReducedAxes() {
    const int rank = operands_[0].rank();
    if (attr_.axes.empty()) {
      for (int axis = 0; axis < rank; ++axis) attr_.axes.push_back(axis);
    }
    return NormalizeSortedAxes(rank);
  }

  absl::Status Reduction() {
    const TensorType& operand = operands_[0];
    DType dtype = operand.dtype;
    if (op_ == OpKind::Sum || op_ == OpKind::Prod) {
      if (!IsFloat(dtype)) dtype = DType::I64;
    } else {
      SEAM_ASSIGN_OR_RETURN(dtype, OperandDType());
    }
    SEAM_RETURN_IF_ERROR(NormalizeReducedAxes());
    const bool finds_index = op_ == OpKind::ArgMax || op_ == OpKind::ArgMin;
    if (finds_index && attr_.axes.size() != 1) {
      return Error(absl::StrCat("exactly one axis expected, ", attr_.axes.size(), " given"));
    }
    if (finds_index || op_ == OpKind::Max || op_ == OpKind::Min) {
      for (int32_t axis : attr_.axes) {
        SEAM_RETURN_IF_ERROR(Require(SymLt(0, operand.domain[axis].extent), [&] {
          return absl::StrCat("axis ", axis, " of extent ", operand.domain[axis].extent.ToString(),
                              " must have an element to return");
        }));
      }
    }
    AddResultOfOtherAxes(dtype);
    return absl::OkStatus();
  }

  absl::Status Welford() {
    SEAM_ASSIGN_OR_RETURN(const DType dtype, OperandDType());
    SEAM_RETURN_IF_ERROR(NormalizeReducedAxes());
    for (int i = 0; i < info_.num_results; ++i) AddResultOfOtherAxes(dtype);
    return absl::OkStatus();
  }

  // --- Broadcast and views ---

  absl::Status Broadcast() {
    const TensorType& operand = operands_[0];
    const int rank = operand.rank() + static_cast<int>(attr_.axes.size());
    SEAM_RETURN_IF_ERROR(NormalizeSortedAxes(rank));
    TensorType& result = AddResult(operand.dtype);
    for (int axis = 0, next = 0; axis < rank; ++axis) {
      result.domain.push_back(HasAxis(axis) ? IterDomain{} : operand.domain[next++]);
    }
    return absl::OkStatus();
  }

  absl::Status Squeeze() {
    const TensorType& operand = operands_[0];
    SEAM_RETURN_IF_ERROR(NormalizeSortedAxes(operand.rank()));
    for (int32_t axis : attr_.axes) {
      if (!operand.domain[axis].is_broadcast()) {
        return Error(absl::StrCat("axis ", axis, " has extent ",
                                  operand.domain[axis].extent.ToString(), ", expected 1"));
      }
    }
    AddResultOfOtherAxes(operand.dtype);
    return absl::OkStatus();
  }

  absl::Status Permute() {
    const TensorType& operand = operands_[0];
    if (static_cast<int>(attr_.axes.size()) != operand.rank()) {
      return Error(absl::StrCat("an order of ", CountAxes(operand.rank()), " expected, ",
                                attr_.axes.size(), " given"));
    }
    SEAM_RETURN_IF_ERROR(NormalizeAxes(operand.rank()));
    TensorType& result = AddResult(operand.dtype);
    for (int32_t axis : attr_.axes) result.domain.push_back(operand.domain[axis]);
    return absl::OkStatus();
  }

  absl::Status Flip() {
    SEAM_RETURN_IF_ERROR(NormalizeSortedAxes(operands_[0].rank()));
    AddResult(operands_[0].dtype).domain = operands_[0].domain;
    return absl::OkStatus();
  }

  // One entry per axis of the operand.
  absl::Status CheckPerAxis(const SymVector& values, const char* name) const {
    const int rank = operands_[0].rank();
    if (static_cast<int>(values.size()) != rank) {
      return Error(
          absl::StrCat(values.size(), " values of ", name, " given for ", CountAxes(rank)));
    }
    for (SymInt value : values) {
      if (!value.is_valid()) return Error(absl::StrCat("a value of ", name, " is invalid"));
    }
    return absl::OkStatus();
  }

  absl::Status Expand() {
    const TensorType& operand = operands_[0];
    SEAM_RETURN_IF_ERROR(CheckPerAxis(attr_.sizes, "sizes"));
    for (int axis = 0; axis < operand.rank(); ++axis) {
      SymInt& size = attr_.sizes[axis];
      const IterDomain& from = operand.domain[axis];
      if (size == kInfer) size = from.extent;
      if (!from.is_broadcast() && !ProvablyEqual(size, from.extent)) {
        return Error(absl::StrCat("axis ", axis, " has extent ", from.extent.ToString(),
                                  " and cannot become ", size.ToString(),
                                  "; only axes of extent 1 can"));
      }
    }
    SEAM_RETURN_IF_ERROR(CheckSizes(attr_.sizes));
    AddResult(operand.dtype, attr_.sizes);
    return absl::OkStatus();
  }

  absl::Status Reshape() {
    const TensorType& operand = operands_[0];
    const SymVector written = attr_.sizes;
    SymInt* inferred = nullptr;
    for (SymInt& size : attr_.sizes) {
      if (!(size == kInfer)) continue;
      if (inferred != nullptr) return Error("more than one -1 among the sizes");
      inferred = &size;
    }
    if (inferred != nullptr) {
      const auto [have, want] = UncancelledNumels(inferred);
      if (want == 0) return Error("-1 cannot be inferred where another size is 0");
      *inferred = FloorDiv(have, want);
    }
    const auto require_equal = [&](SymInt have, SymInt want) {
      return Require(SymEq(have, want), [&] {
        return absl::StrCat(operand.ToString(), " to ", ShapeToString(written),
                            " must keep the number of elements");
      });
    };
    // Cut into parts, each dimension must be all of its own, also where another one is empty.
    SymVector extents;
    for (const auto& axis : operand.domain) extents.push_back(axis.extent);
    const std::vector<ReshapeBlock> blocks = CutBlocks(extents, attr_.sizes);
    if (blocks.empty()) {
      const auto [have, want] = UncancelledNumels(nullptr);
      SEAM_RETURN_IF_ERROR(require_equal(have, want));
    }
    for (const ReshapeBlock& block : blocks) {
      SymInt have = 1, want = 1;
      for (size_t d : block.from) have *= extents[d];
      for (size_t d : block.to) want *= attr_.sizes[d];
      SEAM_RETURN_IF_ERROR(require_equal(have, want));
    }
    SEAM_RETURN_IF_ERROR(CheckSizes(attr_.sizes));
    AddResult(operand.dtype, attr_.sizes);
    return absl::OkStatus();
  }

  // Numbers of elements of the operand and of `attributes.sizes` without `*skipped`, after equal
  // extents on the two sides cancel: a reshape then needs no fact about the axes that it leaves
  // alone.
  std::pair<SymInt, SymInt> UncancelledNumels(const SymInt* skipped) const {
    const TensorType& operand = operands_[0];
    SymInt have = 1, want = 1;
    absl::InlinedVector<bool, 8> cancelled(operand.domain.size(), false);
    for (const SymInt& size : attr_.sizes) {
      if (&size == skipped) continue;
      size_t i = size == 0 ? cancelled.size() : 0;  // Zeros do not cancel.
      while (i < cancelled.size() && (cancelled[i] || !operand.domain[i].extent.is_same(size))) ++i;
      if (i < cancelled.size()) {
        cancelled[i] = true;
      } else {
        want *= size;
      }
    }
    for (size_t i = 0; i < cancelled.size(); ++i) {
      if (!cancelled[i]) have *= operand.domain[i].extent;
    }
    return {have, want};
  }

  // A bound of a slice as Python reads it: constants count from the end when negative, and those
  // that are outside for every value of the extent are moved to its ends. What cannot be decided
  // stays as it is.
  static SymInt SliceBound(SymInt bound, SymInt extent) {
    if (const auto constant = bound.maybe_int(); constant.has_value() && *constant < 0) {
      bound = *constant < -kMaxExtent ? SymInt(0) : bound + extent;
    }
    if (ProvablyLe(extent, bound)) bound = extent;
    return ProvablyLe(bound, 0) ? SymInt(0) : bound;
  }

  absl::Status Slice() {
    const TensorType& operand = operands_[0];
    SEAM_RETURN_IF_ERROR(CheckPerAxis(attr_.start, "start"));
    SEAM_RETURN_IF_ERROR(CheckPerAxis(attr_.stop, "stop"));
    if (attr_.step.empty()) attr_.step.assign(operand.rank(), SymInt(1));
    SEAM_RETURN_IF_ERROR(CheckPerAxis(attr_.step, "step"));
    TensorType& result = AddResult(operand.dtype);
    for (int axis = 0; axis < operand.rank(); ++axis) {
      const SymInt extent = operand.domain[axis].extent;
      const SymInt start = attr_.start[axis] = SliceBound(attr_.start[axis], extent);
      SymInt& stop = attr_.stop[axis] = SliceBound(attr_.stop[axis], extent);
      if (ProvablyLe(stop, start)) stop = start;
      SymInt& step = attr_.step[axis];
      // No axis is longer, so it takes the same elements.
      if (const auto constant = step.maybe_int(); constant.has_value() && *constant > kMaxExtent)
        step = kMaxExtent;
      const auto range = [&](const char* relation) {
        return [&, relation] {
          return absl::StrCat("start ", start.ToString(), ", stop ", stop.ToString(), " of axis ",
                              axis, " with extent ", extent.ToString(), " need ", relation);
        };
      };
      SEAM_RETURN_IF_ERROR(Require(SymLe(0, start), range("0 <= start")));
      SEAM_RETURN_IF_ERROR(Require(SymLe(start, stop), range("start <= stop")));
      SEAM_RETURN_IF_ERROR(Require(SymLe(stop, extent), range("stop <= extent")));
      SEAM_RETURN_IF_ERROR(Require(SymLt(0, step), [&] {
        return absl::StrCat("step ", step.ToString(), " of axis ", axis, " must be positive");
      }));
      result.domain.push_back({CeilDiv(stop - start, step)});
    }
    return absl::OkStatus();
  }

  absl::Status Pad() {
    const TensorType& operand = operands_[0];
    SEAM_RETURN_IF_ERROR(CheckPerAxis(attr_.start, "before"));
    SEAM_RETURN_IF_ERROR(CheckPerAxis(attr_.stop, "after"));
    SEAM_RETURN_IF_ERROR(NormalizeValue(operand.dtype));
    TensorType& result = AddResult(operand.dtype);
    for (int axis = 0; axis < operand.rank(); ++axis) {
      for (SymInt amount : {attr_.start[axis], attr_.stop[axis]}) {
        SEAM_RETURN_IF_ERROR(Require(SymLe(0, amount), [&] {
          return absl::StrCat("amount ", amount.ToString(), " of axis ", axis,
                              " must not be negative; slice removes elements");
        }));
      }
      result.domain.push_back({attr_.start[axis] + operand.domain[axis].extent + attr_.stop[axis]});
    }
    return absl::OkStatus();
  }

  absl::Status Cat() {
    SEAM_ASSIGN_OR_RETURN(const DType dtype, OperandDType());
    const TensorType& first = operands_[0];
    SEAM_RETURN_IF_ERROR(NormalizeOneAxis(first.rank()));
    const int cat_axis = attr_.axes[0];
    TensorType& result = AddResult(dtype);
    result.domain = first.domain;
    for (size_t i = 1; i < operands_.size(); ++i) {
      SEAM_RETURN_IF_ERROR(CheckSameExceptAt(cat_axis, 0, i));
      SymInt& total = result.domain[cat_axis].extent;
      total = total + operands_[i].domain[cat_axis].extent;
    }
    return absl::OkStatus();
  }

  // Operands `a` and `b` have the same rank and, except along `except`, the same extents.
  absl::Status CheckSameExceptAt(int except, size_t a, size_t b) const {
    const TensorType &left = operands_[a], &right = operands_[b];
    if (left.rank() != right.rank()) {
      return Error(absl::StrCat("the ", Ordinal(a), " operand has ", CountAxes(left.rank()),
                                " and the ", Ordinal(b), " ", right.rank()));
    }
    for (int axis = 0; axis < left.rank(); ++axis) {
      if (axis != except && !ProvablyEqual(left.domain[axis].extent, right.domain[axis].extent)) {
        return ExtentsDiffer(a, b, axis);
      }
    }
    return absl::OkStatus();
  }

  // --- Factories and random numbers ---

  absl::Status CheckScalarOperand(size_t i) const {
    if (operands_[i].rank() == 0) return absl::OkStatus();
    return Error(absl::StrCat("the ", Ordinal(i), " operand must have no axes"));
  }

  absl::Status Full() {
    SEAM_RETURN_IF_ERROR(CheckScalarOperand(0));
    SEAM_RETURN_IF_ERROR(CheckSizes(attr_.sizes));
    AddResult(operands_[0].dtype, attr_.sizes);
    return absl::OkStatus();
  }

  absl::Status Iota() {
    if (attr_.dtype == DType::Bool)
      return Error("dtype bool given, an integer or a float expected");
    SEAM_RETURN_IF_ERROR(CheckSizes(attr_.sizes));
    SEAM_RETURN_IF_ERROR(NormalizeOneAxis(static_cast<int>(attr_.sizes.size())));
    AddResult(attr_.dtype, attr_.sizes);
    return absl::OkStatus();
  }

  absl::Status Size() {
    if (attr_.dtype == DType::Bool) {
      return Error("dtype bool given, an integer or a float expected");
    }
    if (attr_.sizes.size() != 1 || !attr_.sizes[0].is_valid()) {
      return Error(absl::StrCat("one size expected, ", attr_.sizes.size(),
                                " given; a number of elements is a product, [M*N]"));
    }
    AddResult(attr_.dtype);
    return absl::OkStatus();
  }

  absl::Status Random() {
    for (size_t i = 0; i < operands_.size(); ++i) {
      SEAM_RETURN_IF_ERROR(CheckScalarOperand(i));
      if (operands_[i].dtype != DType::I64) {
        return Error(absl::StrCat("the ", Ordinal(i), " operand must be i64: seed and offset are"));
      }
    }
    if (!IsFloat(attr_.dtype)) {
      return Error(absl::StrCat("dtype ", DTypeName(attr_.dtype), " given, a float expected"));
    }
    SEAM_RETURN_IF_ERROR(CheckSizes(attr_.sizes));
    AddResult(attr_.dtype, attr_.sizes);
    return absl::OkStatus();
  }

  // --- Indexing and products ---

  absl::Status Gather() {
    SEAM_ASSIGN_OR_RETURN(const DType dtype, OperandDType());
    SEAM_RETURN_IF_ERROR(NormalizeOneAxis(operands_[0].rank()));
    SEAM_RETURN_IF_ERROR(CheckSameExceptAt(attr_.axes[0], 0, 1));
    AddResult(dtype).domain = operands_[1].domain;
    return absl::OkStatus();
  }

  absl::Status IndexSelect() {
    SEAM_ASSIGN_OR_RETURN(const DType dtype, OperandDType());
    SEAM_RETURN_IF_ERROR(NormalizeOneAxis(operands_[0].rank()));
    if (operands_[1].rank() != 1) return Error("the second operand must have one axis");
    TensorType& result = AddResult(dtype);
    result.domain = operands_[0].domain;
    result.domain[attr_.axes[0]] = operands_[1].domain[0];
    return absl::OkStatus();
  }

  absl::Status Matmul() {
    SEAM_ASSIGN_OR_RETURN(const DType dtype, OperandDType());
    const TensorType &a = operands_[0], &b = operands_[1];
    const int rank = a.rank();
    if (rank < 2 || b.rank() != rank) {
      return Error("[..., M, K] and [..., K, N] of equal rank expected");
    }
    for (int axis = 0; axis < rank - 2; ++axis) {
      if (!ProvablyEqual(a.domain[axis].extent, b.domain[axis].extent)) {
        return ExtentsDiffer(0, 1, axis);
      }
    }
    if (!ProvablyEqual(a.domain[rank - 1].extent, b.domain[rank - 2].extent)) {
      return Error(absl::StrCat("the first operand has ", a.domain[rank - 1].extent.ToString(),
                                " columns and the second ", b.domain[rank - 2].extent.ToString(),
                                " rows"));
    }
    TensorType& result = AddResult(dtype);
    result.domain = a.domain;
    result.domain[rank - 1] = b.domain[rank - 1];
    return absl::OkStatus();
  }

  const OpKind op_;
  const OpInfo& info_;
  Attributes& attr_;
};

}  // namespace

absl::StatusOr<InferredTypes> InferTypes(OpKind op, absl::Span<const TensorType> operands,
                                         Attributes& attributes) {
  InferredTypes types;
  SEAM_RETURN_IF_ERROR(Typer(op, operands, attributes, types).Run());
  return types;
}

absl::StatusOr<InferredTypes> TypeOfSizes(absl::string_view what, DType dtype,
                                          absl::Span<const SymInt> sizes) {
  InferredTypes types;
  if (static_cast<int>(dtype) >= kNumDTypes)
    return absl::InvalidArgumentError(absl::StrCat(what, ": its dtype does not exist"));
  ShapeChecker checker(what, {}, types);
  SEAM_RETURN_IF_ERROR(checker.CheckSizes(sizes));
  checker.AddResult(dtype, sizes);
  SEAM_RETURN_IF_ERROR(checker.CheckShape(types.results[0]));
  return types;
}

}  // namespace seam
