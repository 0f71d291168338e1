// What applies to every shape, whoever asks for it: limits, constraints, messages. Internal to ir/.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/fusion_builder.h"
#include "ir/infer_types.h"
#include "ir/status.h"

namespace seam {

// "1 axis", "2 axes".
inline std::string CountAxes(int count) {
  return absl::StrCat(count, count == 1 ? " axis" : " axes");
}

// Collects the results and constraints of one expression, `what`, in `out`.
class ShapeChecker {
 public:
  ShapeChecker(absl::string_view what, absl::Span<const TensorType> operands, InferredTypes& out)
      : what_(what), operands_(operands), out_(out) {}

  absl::Status Error(absl::string_view message) const {
    std::string text = absl::StrCat(what_, ": ", message);
    if (!operands_.empty()) {
      constexpr size_t kShown = 4;
      absl::StrAppend(&text, operands_.size() == 1 ? "; the operand is " : "; the operands are ",
                      absl::StrJoin(operands_.subspan(0, kShown), ", ",
                                    [](std::string* s, const TensorType& t) {
                                      absl::StrAppend(s, t.ToString());
                                    }));
      if (operands_.size() > kShown) absl::StrAppend(&text, ", ...");
    }
    return absl::InvalidArgumentError(text);
  }

  // `condition` holds always, or becomes a constraint, or never holds and is an error. `reason`
  // gives the sentence for both; it is only called when one is needed.
  template <typename Reason>
  absl::Status Require(SymInt condition, Reason reason) {
    if (condition.is_inline() && condition == 1) return absl::OkStatus();
    if (!condition.is_valid()) return Error("an extent is invalid, or too large to compute with");
    const std::optional<bool> decided = Decide(condition);
    if (decided.has_value()) return *decided ? absl::OkStatus() : Error(reason());
    out_.constraints.push_back(Guard{condition, absl::StrCat(what_, ": ", reason())});
    return absl::OkStatus();
  }

  // Rank and extents within the limits. Axes of extent 0 count as 1 in the number of elements, so
  // that strides stay in range as well; symbols count as 1, their sizes are checked when they are
  // known.
  absl::Status CheckShape(const TensorType& type) {
    if (type.rank() > kMaxRank) {
      return Error(absl::StrCat("the result has ", CountAxes(type.rank()), ", at most ", kMaxRank,
                                " are possible"));
    }
    int64_t numel = 1;
    for (const IterDomain& axis : type.domain) {
      if (!axis.extent.is_valid()) {
        return Error("an extent of the result is invalid, or too large to compute with");
      }
      const std::optional<int64_t> extent = axis.extent.maybe_int();
      if (!extent.has_value()) continue;
      if (*extent < 0 || *extent > kMaxExtent) {
        return Error(absl::StrCat("the result's extent ", *extent, " is not in 0..2^48"));
      }
      if (*extent > 1 && numel > kMaxExtent / *extent) {
        return Error(absl::StrCat("the result ", type.ToString(), " has more than 2^48 elements"));
      }
      numel *= std::max<int64_t>(*extent, 1);
    }
    return absl::OkStatus();
  }

  // The sizes that an operation is given: valid, not negative, not above the largest extent.
  absl::Status CheckSizes(absl::Span<const SymInt> sizes) {
    if (sizes.size() > static_cast<size_t>(kMaxRank)) {
      return Error(absl::StrCat(CountAxes(static_cast<int>(sizes.size())), " given, at most ",
                                kMaxRank, " are possible"));
    }
    for (SymInt size : sizes) {
      if (!size.is_valid()) return Error("a size is invalid");
      SEAM_RETURN_IF_ERROR(Require(SymLe(0, size), [&] {
        return absl::StrCat("size ", size.ToString(), " must not be negative");
      }));
      if (ProvablyLt(kMaxExtent, size)) {
        return Error(absl::StrCat("size ", size.ToString(), " is above 2^48"));
      }
    }
    return absl::OkStatus();
  }

  TensorType& AddResult(DType dtype) {
    TensorType& result = out_.results.emplace_back();
    result.dtype = dtype;
    return result;
  }

  void AddResult(DType dtype, absl::Span<const SymInt> sizes) {
    TensorType& result = AddResult(dtype);
    for (SymInt size : sizes) result.domain.push_back({size});
  }

 protected:
  const absl::string_view what_;
  const absl::Span<const TensorType> operands_;
  InferredTypes& out_;
};

}  // namespace seam
