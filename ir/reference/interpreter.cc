// Walks the expressions in order, keeps each value until its last use.
#include "ir/reference/interpreter.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/footprint.h"
#include "ir/reference/evaluate.h"
#include "ir/status.h"
#include "ir/within_memory.h"

namespace seam {
namespace {

using reference::Dense;
using reference::MakeDense;
using reference::Noise;
using reference::Shape;

absl::StatusOr<int64_t> Value(SymInt e, const SymbolBindings& bindings) {
  const absl::StatusOr<int64_t> value =
      Evaluate(e, [&](const SymNode* symbol) -> std::optional<int64_t> {
        const auto it = bindings.find(symbol->name);
        if (it == bindings.end()) return std::nullopt;
        return it->second;
      });
  if (!value.ok()) return absl::InvalidArgumentError(value.status().message());
  return value;
}

absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

class Interpreter {
 public:
  Interpreter(const Fusion& fusion, const SymbolBindings& bindings, const InterpretOptions& options)
      : fusion_(fusion),
        bindings_(bindings),
        max_bytes_(options.max_bytes),
        noise_(options.perturbation, options.seed),
        signs_(options.signs),
        cancel_(options.cancel),
        moved_(reference::InexactValues(fusion)),
        vals_(fusion.num_vals()),
        remaining_uses_(fusion.num_vals()) {
    if (signs_ != nullptr) signs_->of.resize(fusion.num_exprs());
  }

  absl::StatusOr<std::vector<HostTensor>> Run(absl::Span<const HostTensor> inputs) {
    for (uint32_t v = 0; v < fusion_.num_vals(); ++v) {
      remaining_uses_[v] = static_cast<int64_t>(fusion_.uses(ValId(v)).size()) +
                           (fusion_.is_output(ValId(v)) ? 1 : 0);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValId v = fusion_.inputs()[i];
      if (remaining_uses_[v.index()] == 0) continue;
      SEAM_RETURN_IF_ERROR(Reserve(inputs[i].numel(), fusion_.name(v)));
      Set(v, MakeDense(inputs[i].dtype, inputs[i].shape, inputs[i].ToScalars()));
    }
    for (uint32_t e = 0; e < fusion_.num_exprs(); ++e) {
      SEAM_RETURN_IF_ERROR(
          Annotate(RunExpr(ExprId(e)), absl::StrCat(fusion_.info(ExprId(e)).name, " (",
                                                    fusion_.name(fusion_.result(ExprId(e))), ")")));
    }
    std::vector<HostTensor> outputs;
    for (ValId v : fusion_.outputs()) {
      SEAM_ASSIGN_OR_RETURN(const Shape strides, Values(fusion_.strides(v)));
      const Dense& value = vals_[v.index()];
      SEAM_ASSIGN_OR_RETURN(HostTensor output,
                            HostTensor::MakeStrided(value.dtype, value.shape, strides));
      if (fusion_.definition(v).valid() && ElementsOverlap(value.shape, strides)) {
        return absl::InvalidArgumentError(
            absl::StrCat("output ", fusion_.name(v), ", ", output.ShapeString(),
                         ": elements overlap at strides [", absl::StrJoin(strides, ", "), "]"));
      }
      output.FromScalars(*value.elements);
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

 private:
  absl::StatusOr<Shape> Values(absl::Span<const SymInt> expressions) const {
    Shape values;
    for (SymInt e : expressions) {
      SEAM_ASSIGN_OR_RETURN(const int64_t value, Value(e, bindings_));
      values.push_back(value);
    }
    return values;
  }

  absl::StatusOr<Shape> ShapeOf(ValId v) const {
    Shape shape;
    for (const IterDomain& axis : fusion_.domain(v)) {
      SEAM_ASSIGN_OR_RETURN(const int64_t extent, Value(axis.extent, bindings_));
      if (extent < 0) {
        return absl::InvalidArgumentError(absl::StrCat("extent ", axis.extent.ToString(), " of ",
                                                       fusion_.name(v), " is ", extent));
      }
      shape.push_back(extent);
    }
    return shape;
  }

  // Counts the elements of a value that is about to be made.
  absl::Status Reserve(int64_t numel, absl::string_view what) {
    if (numel > (max_bytes_ - live_bytes_) / static_cast<int64_t>(sizeof(Scalar))) {
      return absl::ResourceExhaustedError(
          absl::StrCat(what, " has ", numel,
                       " elements; with the values alive now that exceeds the "
                       "interpreter's limit of ",
                       max_bytes_, " bytes"));
    }
    return absl::OkStatus();
  }

  void Set(ValId v, Dense value) {
    live_bytes_ += value.numel() * static_cast<int64_t>(sizeof(Scalar));
    vals_[v.index()] = std::move(value);
    if (remaining_uses_[v.index()] == 0) Free(v);
  }

  void Free(ValId v) {
    live_bytes_ -= vals_[v.index()].numel() * static_cast<int64_t>(sizeof(Scalar));
    vals_[v.index()] = Dense();
  }

  absl::Status RunExpr(ExprId e) {
    std::vector<Dense> operands;
    for (ValId v : fusion_.operands(e)) operands.push_back(vals_[v.index()]);
    const ValId result = fusion_.result(e);
    SEAM_ASSIGN_OR_RETURN(Shape shape, ShapeOf(result));
    int64_t numel = fusion_.num_results(e);
    for (int64_t extent : shape) {
      if (__builtin_mul_overflow(numel, extent, &numel)) numel = kMaxElements;
    }
    SEAM_RETURN_IF_ERROR(Reserve(numel, "the result"));
    if (fusion_.info(e).op_class == OpClass::Welford) {
      std::vector<Dense> statistics =
          reference::WelfordStatistics(operands[0], fusion_.attributes(e).axes, noise_);
      for (int i = 0; i < fusion_.num_results(e); ++i) {
        Set(fusion_.result(e, i), std::move(statistics[static_cast<size_t>(i)]));
      }
    } else {
      SEAM_ASSIGN_OR_RETURN(Dense value, Compute(e, operands, std::move(shape)));
      const OpKind op = fusion_.op(e);
      if (signs_ != nullptr && (op == OpKind::Add || op == OpKind::Sub) && IsFloat(value.dtype)) {
        if (cancel_) {
          value = Cancelled(e, std::move(value));
        } else {
          SeeSigns(e, value);
        }
      }
      Set(result, std::move(value));
    }
    operands.clear();
    const absl::Span<const ValId> read = fusion_.operands(e);
    for (size_t i = 0; i < read.size(); ++i) {
      if (std::find(read.begin(), read.begin() + i, read[i]) != read.begin() + i) continue;
      if (--remaining_uses_[read[i].index()] == 0) Free(read[i]);
    }
    return absl::OkStatus();
  }

  bool AnyOperandMoved(ExprId e) const {
    return absl::c_any_of(fusion_.operands(e), [&](ValId v) { return moved_[v.index()]; });
  }

  void SeeSigns(ExprId e, const Dense& value) {
    std::vector<uint8_t>& signs = signs_->of[e.index()];
    if (signs.empty()) {
      if (value.numel() > SignsSeen::kMostBytes - signs_->bytes) return;
      signs.resize(static_cast<size_t>(value.numel()));
      signs_->bytes += value.numel();
    }
    for (size_t i = 0; i < signs.size(); ++i) {
      const double x = value.data()[i].f;
      signs[i] |= (x < 0 ? SignsSeen::kBelow : 0) | (x > 0 ? SignsSeen::kAbove : 0);
      signs_->any_on_both_sides |= signs[i] == SignsSeen::kBoth;
    }
  }

  Dense Cancelled(ExprId e, Dense value) const {
    const std::vector<uint8_t>& signs = signs_->of[e.index()];
    if (std::find(signs.begin(), signs.end(), SignsSeen::kBoth) == signs.end()) return value;
    std::vector<Scalar> elements(value.data(), value.data() + value.numel());
    for (size_t i = 0; i < signs.size(); ++i) {
      const bool is_nan = elements[i].f != elements[i].f;  // By another zero.
      if (signs[i] == SignsSeen::kBoth && !is_nan) elements[i].f = 0;
    }
    return MakeDense(value.dtype, std::move(value.shape), std::move(elements));
  }

  absl::StatusOr<Dense> Compute(ExprId e, absl::Span<const Dense> operands, Shape shape) {
    const OpKind op = fusion_.op(e);
    const DType dtype = fusion_.dtype(fusion_.result(e));
    const Attributes& attributes = fusion_.attributes(e);
    switch (fusion_.info(e).op_class) {
      case OpClass::Elementwise:
      case OpClass::Cast:
        return reference::Pointwise(op, dtype, shape, operands, AnyOperandMoved(e), noise_);
      case OpClass::Reduction:
        return reference::Reduce(op, dtype, operands[0], attributes.axes, noise_);
      case OpClass::Broadcast:
      case OpClass::Barrier:
        return Dense{dtype, std::move(shape), operands[0].elements};
      case OpClass::View:
        return View(op, operands[0], attributes, std::move(shape));
      case OpClass::Factory:
      case OpClass::Random:
        return Source(op, dtype, operands, attributes, std::move(shape));
      case OpClass::Concat:
        return reference::Concatenate(operands, attributes.axes[0], std::move(shape));
      case OpClass::Indexing:
        return op == OpKind::Gather
                   ? reference::Gather(operands[0], operands[1], attributes.axes[0])
                   : reference::IndexSelect(operands[0], operands[1], attributes.axes[0]);
      case OpClass::Library:
        return reference::MatrixProduct(operands[0], operands[1], noise_);
      default:
        return absl::UnimplementedError("the reference interpreter has no rule for this operation");
    }
  }

  absl::StatusOr<Dense> View(OpKind op, const Dense& source, const Attributes& attributes,
                             Shape shape) {
    Shape strides = RowMajorStrides(source.shape);
    int64_t offset = 0;
    switch (op) {
      case OpKind::Permute: {
        Shape permuted;
        for (int32_t axis : attributes.axes) permuted.push_back(strides[static_cast<size_t>(axis)]);
        strides = std::move(permuted);
        break;
      }
      case OpKind::Expand:
        for (size_t axis = 0; axis < shape.size(); ++axis) {
          if (source.shape[axis] == 1) strides[axis] = 0;
        }
        break;
      case OpKind::Slice: {
        SEAM_ASSIGN_OR_RETURN(const Shape start, Values(attributes.start));
        SEAM_ASSIGN_OR_RETURN(const Shape step, Values(attributes.step));
        for (size_t axis = 0; axis < shape.size(); ++axis) {
          offset += start[axis] * strides[axis];
          strides[axis] *= step[axis];
        }
        break;
      }
      case OpKind::Flip:
        for (int32_t flipped : attributes.axes) {
          const size_t axis = static_cast<size_t>(flipped);
          offset += (shape[axis] - 1) * strides[axis];
          strides[axis] = -strides[axis];
        }
        break;
      case OpKind::Pad: {
        SEAM_ASSIGN_OR_RETURN(const Shape start, Values(attributes.start));
        return reference::Pad(source, start, std::move(shape), Literal(source.dtype, attributes));
      }
      default:  // Reshape, squeeze.
        return Dense{source.dtype, std::move(shape), source.elements};
    }
    return reference::StridedCopy(source, offset, strides, std::move(shape));
  }

  static Scalar Literal(DType dtype, const Attributes& attributes) {
    return IsFloat(dtype) ? FloatScalar(RoundToDType(dtype, attributes.value))
                          : IntScalar(WrapToDType(dtype, attributes.int_value));
  }

  // Values from no tensor operand: factories and random numbers.
  absl::StatusOr<Dense> Source(OpKind op, DType dtype, absl::Span<const Dense> operands,
                               const Attributes& attributes, Shape shape) {
    switch (op) {
      case OpKind::Constant:
        return MakeDense(dtype, {}, {Literal(dtype, attributes)});
      case OpKind::Size: {
        SEAM_ASSIGN_OR_RETURN(const int64_t size, Value(attributes.sizes[0], bindings_));
        return MakeDense(dtype, {}, {CastScalar(DType::I64, dtype, IntScalar(size))});
      }
      case OpKind::Full:
        return reference::Fill(operands[0], std::move(shape));
      case OpKind::Iota:
        return reference::Iota(dtype, attributes.axes[0], std::move(shape));
      default:
        return reference::Random(op, dtype, operands[0].data()->i, operands[1].data()->i,
                                 std::move(shape), noise_);
    }
  }

  // Stands for any number that is too large.
  static constexpr int64_t kMaxElements = int64_t{1} << 62;

  const Fusion& fusion_;
  const SymbolBindings& bindings_;
  const int64_t max_bytes_;
  Noise noise_;
  SignsSeen* const signs_;
  const bool cancel_;
  const std::vector<bool> moved_;  // By the noise, where there is some.
  std::vector<Dense> vals_;
  std::vector<int64_t> remaining_uses_;
  int64_t live_bytes_ = 0;
};

}  // namespace

absl::StatusOr<SymbolBindings> BindSymbols(const Fusion& fusion, const SymbolBindings& given,
                                           absl::Span<const HostTensor> inputs) {
  if (fusion.shared_env() == nullptr) {
    return absl::FailedPreconditionError(
        "this Fusion has been moved; use the one that it moved to");
  }
  SymbolBindings bindings = given;
  if (inputs.size() != fusion.inputs().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(inputs.size(), " inputs given for ", fusion.inputs().size(), " expected"));
  }
  for (const auto& [name, value] : given) {
    if (!fusion.env().Find(name).has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(fusion.name(), " has no symbol ", name));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValId v = fusion.inputs()[i];
    SEAM_RETURN_IF_ERROR(Annotate(inputs[i].Check(), absl::StrCat("input ", fusion.name(v))));
    if (inputs[i].dtype != fusion.dtype(v) ||
        static_cast<int>(inputs[i].shape.size()) != fusion.rank(v)) {
      return absl::InvalidArgumentError(absl::StrCat("input ", fusion.name(v), " is ",
                                                     inputs[i].ShapeString(), ", expected ",
                                                     fusion.type(v).ToString()));
    }
    for (int axis = 0; axis < fusion.rank(v); ++axis) {
      const SymInt extent = fusion.domain(v)[axis].extent;
      const SymNode* node = extent.node();
      if (node != nullptr && node->kind == SymKind::Symbol) {
        bindings.try_emplace(node->name, inputs[i].shape[axis]);
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValId v = fusion.inputs()[i];
    for (int axis = 0; axis < fusion.rank(v); ++axis) {
      const SymInt extent = fusion.domain(v)[axis].extent;
      const auto value = Value(extent, bindings);
      if (!value.ok()) {
        return Annotate(value.status(), absl::StrCat("input ", fusion.name(v), ", axis ", axis));
      }
      if (*value != inputs[i].shape[axis]) {
        return absl::InvalidArgumentError(
            absl::StrCat("input ", fusion.name(v), " is ", inputs[i].ShapeString(), ", expected ",
                         fusion.type(v).ToString(), " with ", extent.ToString(), " = ", *value));
      }
    }
  }
  for (const SymNode* symbol : fusion.env().symbols()) {
    const auto it = bindings.find(symbol->name);
    if (it == bindings.end()) continue;
    if (it->second < symbol->range.lo || it->second > symbol->range.hi) {
      return absl::InvalidArgumentError(absl::StrCat("symbol ", symbol->name, " = ", it->second,
                                                     " is not in its range ", symbol->range.lo,
                                                     "..", symbol->range.hi));
    }
  }
  for (const Guard& guard : fusion.constraints()) {
    const auto holds = Value(guard.condition, bindings);
    if (!holds.ok()) return Annotate(holds.status(), guard.reason);
    if (*holds == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(guard.reason, " (", guard.condition.ToString(), " does not hold)"));
    }
  }
  return bindings;
}

absl::StatusOr<std::vector<HostTensor>> Interpret(const Fusion& fusion, const SymbolBindings& given,
                                                  absl::Span<const HostTensor> inputs,
                                                  const InterpretOptions& options) {
  SEAM_ASSIGN_OR_RETURN(const SymbolBindings bindings, BindSymbols(fusion, given, inputs));
  return WithinMemory<absl::StatusOr<std::vector<HostTensor>>>(
      absl::StrCat("interpreting ", fusion.name()),
      [&] { return Interpreter(fusion, bindings, options).Run(inputs); });
}

}  // namespace seam
