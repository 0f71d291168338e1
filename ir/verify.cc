// Reads a Fusion without trusting it: every index is checked before it is followed.
#include "ir/verify.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"
#include "ir/infer_types.h"
#include "ir/status.h"

namespace seam {
namespace {

template <typename... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("broken Fusion: ", parts...));
}

bool SameTypes(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (int axis = 0; axis < a.rank(); ++axis) {
    const SymInt x = a.domain[axis].extent, y = b.domain[axis].extent;
    if (!x.is_same(y) && !ProvablyEqual(x, y)) return false;
  }
  return true;
}

// NaN is the same value as NaN.
bool SameAttributes(const Attributes& a, const Attributes& b) {
  return a.axes == b.axes && a.sizes == b.sizes && a.start == b.start && a.stop == b.stop &&
         a.step == b.step && a.dtype == b.dtype && a.int_value == b.int_value &&
         (a.value == b.value || (a.value != a.value && b.value != b.value));
}

}  // namespace

class FusionVerifier {
 public:
  explicit FusionVerifier(const Fusion& fusion) : f_(fusion) {}

  absl::Status Run() {
    if (f_.env_ == nullptr) return Broken("it has no ShapeEnv");
    SEAM_RETURN_IF_ERROR(CheckConstraints());
    SEAM_RETURN_IF_ERROR(CheckValues());
    SEAM_RETURN_IF_ERROR(CheckInterface());
    for (uint32_t i = 0; i < f_.num_exprs(); ++i) {
      SEAM_RETURN_IF_ERROR(CheckExpr(ExprId(i)));
    }
    SEAM_RETURN_IF_ERROR(CheckDefinitions());
    SEAM_RETURN_IF_ERROR(CheckUses());
    for (uint32_t i = 0; i < f_.num_exprs(); ++i) {
      SEAM_RETURN_IF_ERROR(CheckTypes(ExprId(i)));
    }
    return CheckInputTypes();
  }

 private:
  bool IsVal(ValId v) const { return v.valid() && v.index() < f_.vals_.size(); }
  template <typename T>
  static bool InRange(const std::vector<T>& array, uint64_t begin, uint64_t count) {
    return begin <= array.size() && count <= array.size() - begin;
  }
  std::string Where(ExprId e) const {
    return absl::StrCat("expression ", e.index(), " (", f_.info(e).name, ")");
  }

  absl::Status CheckExtent(SymInt e, const std::string& where) const {
    if (!e.is_valid()) return Broken(where, ": an invalid extent");
    if (e.env() != nullptr && e.env() != f_.env_.get()) {
      return Broken(where, ": ", e.ToString(), " belongs to another ShapeEnv");
    }
    return absl::OkStatus();
  }

  absl::Status CheckConstraints() {
    for (const Guard& guard : f_.constraints_) {
      SEAM_RETURN_IF_ERROR(CheckExtent(guard.condition, "a constraint"));
      if (!constraints_.insert(guard.condition).second) {
        return Broken("constraint ", guard.condition.ToString(), " is listed twice");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckValues() {
    absl::flat_hash_set<absl::string_view> names;
    names.reserve(f_.vals_.size());
    for (uint32_t i = 0; i < f_.num_vals(); ++i) {
      const Fusion::Val& val = f_.vals_[i];
      const std::string where = absl::StrCat("value ", i);
      if (val.rank > kMaxRank || !InRange(f_.domains_, val.domain_begin, val.rank)) {
        return Broken(where, ": its domain is out of range");
      }
      if (static_cast<int>(val.dtype) >= kNumDTypes) return Broken(where, ": no such dtype");
      for (const IterDomain& axis : f_.domain(ValId(i))) {
        SEAM_RETURN_IF_ERROR(CheckExtent(axis.extent, where));
      }
      if (val.strides_begin >= 0) {
        if (!InRange(f_.strides_, static_cast<uint64_t>(val.strides_begin), val.rank)) {
          return Broken(where, ": its strides are out of range");
        }
        if (val.definition.valid() && !val.is_output) {
          return Broken(where, ": strides on a value that is neither input nor output");
        }
        for (SymInt stride : f_.strides(ValId(i))) {
          SEAM_RETURN_IF_ERROR(CheckExtent(stride, where));
          if (ProvablyLt(stride, 0)) return Broken(where, ": a negative stride");
        }
      }
      if (val.name >= f_.names_.size()) return Broken(where, ": its name is out of range");
      const std::string& name = f_.names_[val.name];
      if (name.empty()) return Broken(where, ": it has no name");
      if (!names.insert(name).second) return Broken("two values are named ", name);
    }
    return absl::OkStatus();
  }

  absl::Status CheckInterface() const {
    std::vector<bool> listed(f_.vals_.size(), false);
    size_t num_undefined = 0, num_returned = 0;
    for (const Fusion::Val& val : f_.vals_) {
      num_undefined += !val.definition.valid();
      num_returned += val.is_output;
    }
    for (ValId v : f_.inputs_) {
      if (!IsVal(v)) return Broken("an input is no value");
      if (f_.vals_[v.index()].definition.valid())
        return Broken("input ", f_.name(v), " is computed");
      if (listed[v.index()]) return Broken("input ", f_.name(v), " is listed twice");
      listed[v.index()] = true;
    }
    if (num_undefined != f_.inputs_.size()) return Broken("a value is neither input nor computed");
    listed.assign(f_.vals_.size(), false);
    for (ValId v : f_.outputs_) {
      if (!IsVal(v)) return Broken("an output is no value");
      if (!f_.is_output(v)) return Broken("output ", f_.name(v), " is not marked as one");
      if (listed[v.index()]) return Broken("output ", f_.name(v), " is listed twice");
      listed[v.index()] = true;
    }
    if (num_returned != f_.outputs_.size()) return Broken("a value marked as output is not listed");
    return absl::OkStatus();
  }

  absl::Status CheckExpr(ExprId e) const {
    const Fusion::Expr& expr = f_.exprs_[e.index()];
    if (static_cast<int>(expr.op) >= kNumOps) {
      return Broken("expression ", e.index(), ": no such operation");
    }
    if (!InRange(f_.operands_, expr.operands_begin, expr.num_operands)) {
      return Broken(Where(e), ": its operands are out of range");
    }
    if (expr.num_results != f_.info(e).num_results || !expr.first_result.valid() ||
        !InRange(f_.vals_, expr.first_result.index(), expr.num_results)) {
      return Broken(Where(e), ": its results are out of range");
    }
    for (int i = 0; i < expr.num_results; ++i) {
      if (f_.definition(f_.result(e, i)) != e) {
        return Broken(Where(e), ": its result ", f_.name(f_.result(e, i)), " is defined elsewhere");
      }
    }
    for (ValId v : f_.operands(e)) {
      if (!IsVal(v)) return Broken(Where(e), ": an operand is no value");
      const ExprId definition = f_.definition(v);
      if (definition.valid() && definition >= e) {
        return Broken(Where(e), ": operand ", f_.name(v), " is defined after its use");
      }
    }
    const bool needs_attributes = AttributesOf(expr.op) != 0;
    if (needs_attributes ? expr.attributes < 0 : expr.attributes != -1) {
      return Broken(Where(e), needs_attributes ? ": it has no attributes" : ": it has attributes");
    }
    if (!needs_attributes) return absl::OkStatus();
    if (!InRange(f_.attributes_, static_cast<uint64_t>(expr.attributes), 1)) {
      return Broken(Where(e), ": its attributes are out of range");
    }
    const Attributes& a = f_.attributes(e);
    for (const SymVector* values : {&a.sizes, &a.start, &a.stop, &a.step}) {
      for (SymInt value : *values) SEAM_RETURN_IF_ERROR(CheckExtent(value, Where(e)));
    }
    return absl::OkStatus();
  }

  // Every computed value is among the results of the expression that it names.
  absl::Status CheckDefinitions() const {
    for (uint32_t i = 0; i < f_.num_vals(); ++i) {
      const ExprId e = f_.vals_[i].definition;
      if (!e.valid()) continue;
      if (e.index() >= f_.exprs_.size()) {
        return Broken(f_.name(ValId(i)), " is defined by no expression");
      }
      const uint32_t first = f_.exprs_[e.index()].first_result.index();
      if (i < first || i - first >= f_.exprs_[e.index()].num_results) {
        return Broken(f_.name(ValId(i)), " is no result of ", Where(e), ", which is to define it");
      }
    }
    return absl::OkStatus();
  }

  // Walks the expressions with a cursor in each value's use list: each use must be the next entry.
  absl::Status CheckUses() const {
    const std::vector<uint32_t>& begin = f_.uses_begin_;
    if (begin.size() != f_.vals_.size() + 1 || begin.front() != 0 ||
        begin.back() != f_.uses_.size()) {
      return Broken("the index of uses has the wrong size");
    }
    for (size_t v = 0; v + 1 < begin.size(); ++v) {
      if (begin[v] > begin[v + 1]) return Broken("the index of uses does not ascend");
    }
    std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
    for (uint32_t i = 0; i < f_.num_exprs(); ++i) {
      const ExprId e(i);
      for (ValId v : f_.operands(e)) {
        uint32_t& cursor = next[v.index()];
        if (cursor > begin[v.index()] && f_.uses_[cursor - 1] == e) continue;  // Read twice.
        if (cursor == begin[v.index() + 1] || f_.uses_[cursor] != e) {
          return Broken("the uses of ", f_.name(v), " lack ", Where(e));
        }
        ++cursor;
      }
    }
    for (uint32_t v = 0; v < f_.num_vals(); ++v) {
      if (next[v] != begin[v + 1]) {
        return Broken("the uses of ", f_.name(ValId(v)),
                      " list an expression that does not read it");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckInferred(const InferredTypes& types) const {
    for (const Guard& guard : types.constraints) {
      if (!constraints_.contains(guard.condition)) {
        return Broken("constraint ", guard.condition.ToString(), " is missing: ", guard.reason);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckTypes(ExprId e) const {
    absl::InlinedVector<TensorType, 4> operands;
    for (ValId v : f_.operands(e)) operands.push_back(f_.type(v));
    Attributes attributes = f_.attributes(e);
    absl::StatusOr<InferredTypes> types = InferTypes(f_.op(e), operands, attributes);
    if (!types.ok()) return Broken(Where(e), ": ", types.status().message());
    if (!SameAttributes(attributes, f_.attributes(e))) {
      return Broken(Where(e), ": its attributes are not in normal form");
    }
    for (int i = 0; i < f_.num_results(e); ++i) {
      const TensorType actual = f_.type(f_.result(e, i));
      if (!SameTypes(actual, types->results[i])) {
        return Broken(Where(e), ": its result ", f_.name(f_.result(e, i)), " is ",
                      actual.ToString(), ", inferred is ", types->results[i].ToString());
      }
    }
    return CheckInferred(*types);
  }

  absl::Status CheckInputTypes() const {
    for (ValId v : f_.inputs_) {
      const std::string where = absl::StrCat("input ", f_.name(v));
      SymVector sizes;
      for (const IterDomain& axis : f_.domain(v)) sizes.push_back(axis.extent);
      absl::StatusOr<InferredTypes> types = TypeOfSizes(where, f_.dtype(v), sizes);
      if (!types.ok()) return Broken(types.status().message());
      SEAM_RETURN_IF_ERROR(CheckInferred(*types));
    }
    return absl::OkStatus();
  }

  const Fusion& f_;
  absl::flat_hash_set<SymInt> constraints_;
};

absl::Status Verify(const Fusion& fusion) { return FusionVerifier(fusion).Run(); }

}  // namespace seam
