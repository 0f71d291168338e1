// The values of a Fusion's symbols for one call: from the tensors' sizes and strides, and from what
// the caller gives.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "runtime/tensor.h"

namespace seam {

struct SymbolValue {
  std::string name;
  int64_t value = 0;
};

// Values of symbols, by position in fusion.env().symbols().
struct SizeBinding {
  std::vector<const SymNode*> symbols;
  std::vector<std::optional<int64_t>> values;

  absl::StatusOr<int64_t> Value(SymInt e) const;
  absl::StatusOr<Int64Vector> Values(absl::Span<const SymInt> expressions) const;
  absl::StatusOr<Int64Vector> Sizes(const Fusion& fusion, ValId v) const;
  // "M = 3, N = 4"
  std::string ToString() const;
};

// The symbols that `given` names. Errors: kInvalidArgument for an unknown symbol, a value outside
// its range, and a second one that differs.
absl::StatusOr<SizeBinding> BindGiven(const Fusion& fusion, absl::Span<const SymbolValue> given);

// `given`, and every symbol that an input's extent or declared stride determines: one that is the
// only unknown there, alone or with factors and terms beside it. Checks that each input has its
// declared dtype, rank, extents and strides (an axis of extent 1 may have any stride, a tensor
// without elements any strides: such a stride determines only what nothing else does), that every
// symbol is in its range, and that the Fusion's constraints hold. Errors: kInvalidArgument naming
// tensor, axis, what was expected, what was found.
absl::StatusOr<SizeBinding> BindSizes(const Fusion& fusion, absl::Span<const SymbolValue> given,
                                      absl::Span<const Tensor> inputs);

// That every value of the Fusion, also one that lies nowhere in memory, has extents that can be
// computed and at most 2^48 elements, and that every `size` can be computed. Error:
// kInvalidArgument naming value and operation.
absl::Status CheckValues(const Fusion& fusion, const SizeBinding& binding);

// That every constraint of the Fusion holds. Part of BindSizes.
absl::Status CheckConstraints(const Fusion& fusion, const SizeBinding& binding);

// That `tensor` is what `v` is declared to be at these sizes. `what` names it in errors: "input x".
absl::Status CheckTensor(const Fusion& fusion, ValId v, const SizeBinding& binding,
                         const Tensor& tensor, absl::string_view what);

// Null data, declared dtype, sizes and strides.
absl::StatusOr<Tensor> TensorFor(const Fusion& fusion, ValId v, const SizeBinding& binding);
// The same of each output. Error: kInvalidArgument where elements of what is written would lie in
// one place.
absl::StatusOr<std::vector<Tensor>> OutputTypes(const Fusion& fusion, const SizeBinding& binding);

}  // namespace seam
