// What the expansions of ir/composites.h share: checks of operands, and the few expressions that
// most need. Internal to ir/.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"
#include "ir/scalar.h"

namespace seam {

// The axes of a tensor of rank `rank` that `axes`, ascending, does not name.
inline AxisVector Complement(const AxisVector& axes, int rank) {
  AxisVector others;
  for (int axis = 0; axis < rank; ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) others.push_back(axis);
  }
  return others;
}

// One composite while it is being expanded: its name for errors, its compute type for constants.
class Expansion {
 public:
  // `x` decides the compute type and must be a float tensor.
  Expansion(FusionBuilder& b, absl::string_view name, ValId x) : b(b), name_(name), x_(x) {
    if (!ok()) return;
    if (!x.valid() || x.index() >= b.num_vals()) {
      Fail("its operand is no value");
    } else if (!IsFloat(b.dtype(x))) {
      Fail("operand ", b.type(x).ToString(), " given, a float tensor expected");
    } else {
      dtype = ComputeType(b.dtype(x));
    }
  }

  bool ok() const { return b.status().ok(); }
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    b.Fail(absl::InvalidArgumentError(absl::StrCat(name_, ": ", parts...)));
  }

  // `axes` of x, from 0 and ascending.
  AxisVector Axes(AxisVector axes) {
    const int rank = b.rank(x_);
    if (axes.empty()) return Complement({}, rank);
    for (int32_t& axis : axes) {
      if (axis < -rank || axis >= rank) {
        Fail("axis ", axis, " given for ", b.type(x_).ToString());
        return {};
      }
      if (axis < 0) axis += rank;
    }
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
      Fail("an axis is named twice");
      return {};
    }
    return axes;
  }

  enum Presence { kOptional, kRequired };
  enum Kind { kFloat, kInteger, kI64, kBool };  // Of dtypes.

  // `v` has the extents of x along `axes` and a dtype of the kind; absent is fine where it is
  // optional.
  void CheckShape(ValId v, absl::string_view what, const AxisVector& axes,
                  Presence presence = kRequired, Kind kind = kFloat) {
    if (!ok() || (presence == kOptional && !v.valid())) return;
    if (!v.valid() || v.index() >= b.num_vals()) return Fail(what, " is no value");
    const TensorType have = b.type(v), x = b.type(x_);
    bool same = have.rank() == static_cast<int>(axes.size()) && IsOfKind(have.dtype, kind);
    SymVector want;
    for (int32_t axis : axes) want.push_back(x.domain[axis].extent);
    for (size_t i = 0; same && i < want.size(); ++i) {
      same = ProvablyEqual(have.domain[i].extent, want[i]);
    }
    if (!same) {
      Fail(what, " is ", have.ToString(), ", expected ", kKindNames[kind], " of shape ",
           ShapeToString(want));
    }
  }
  void CheckSameShapeAsX(ValId v, absl::string_view what) {
    if (ok()) CheckShape(v, what, Complement({}, b.rank(x_)));
  }
  void CheckScalar(ValId v, absl::string_view what, Kind kind) {
    CheckShape(v, what, {}, kRequired, kind);
  }

  ValId Widen(ValId v) { return b.Cast(v, dtype); }  // To the compute type.
  ValId Narrow(ValId v, ValId like) { return ok() ? b.Cast(v, b.dtype(like)) : ValId(); }
  // A parameter, which must be a number that the compute type holds.
  ValId Number(double value) {
    if (ok() && !std::isfinite(RoundToDType(dtype, value)))
      Fail(value, " given, a number that ", std::string(DTypeName(dtype)), " holds expected");
    return b.Constant(value, dtype);
  }

  ValId Sum(ValId v, const AxisVector& axes) { return b.Reduce(OpKind::Sum, v, axes); }
  SymInt Elements(ValId v, const AxisVector& axes) {  // Of v along `axes`.
    SymInt count = 1;
    for (int32_t axis : axes) count *= b.extent(v, axis);
    return count;
  }
  ValId Count(ValId v, const AxisVector& axes) {  // The same as a value, 0-d.
    return b.Size(Elements(v, axes), dtype);
  }
  ValId Mean(ValId v, const AxisVector& axes) { return b.Div(Sum(v, axes), Count(v, axes)); }
  // Reduced over `axes` and put back in their place with extent 1.
  ValId SumKept(ValId v, const AxisVector& axes) { return b.Broadcast(Sum(v, axes), axes); }
  ValId MeanKept(ValId v, const AxisVector& axes) { return b.Broadcast(Mean(v, axes), axes); }
  ValId MaxKept(ValId v, const AxisVector& axes) {
    return b.Broadcast(b.Reduce(OpKind::Max, v, axes), axes);
  }
  // A parameter that has x's `axes`, widened, with extent 1 along the others.
  ValId Spread(ValId v, const AxisVector& axes) {
    return ok() ? b.Broadcast(Widen(v), Complement(axes, b.rank(x_))) : ValId();
  }
  ValId Rsqrt(ValId variance, double eps) {
    return b.Op(OpKind::Rsqrt, {b.Add(variance, Number(eps))});
  }

  FusionBuilder& b;
  DType dtype = DType::F32;

 private:
  static constexpr const char* kKindNames[] = {"a float tensor", "an integer tensor", "an i64",
                                               "a bool tensor"};
  static bool IsOfKind(DType dtype, Kind kind) {
    switch (kind) {
      case kFloat:
        return IsFloat(dtype);
      case kInteger:
        return IsInteger(dtype);
      case kI64:
        return dtype == DType::I64;
      default:
        return dtype == DType::Bool;
    }
  }

  const absl::string_view name_;
  const ValId x_;
};

}  // namespace seam
