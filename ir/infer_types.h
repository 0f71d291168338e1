// The typing rules of every operation: the one place that says which operands are legal and what
// the results look like. The builder, the verifier and the parser all ask here.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"

namespace seam {

struct InferredTypes {
  absl::InlinedVector<TensorType, 3> results;
  std::vector<Guard> constraints;  // What could not be proven and must hold at run time.
};

// The result types of `op` on `operands`. `attributes` is normalised in place: negative axes count
// from the end and become non-negative, missing slice steps become 1, one -1 in a reshape is
// resolved, the value of a float constant is rounded to its dtype.
//
// Errors: kInvalidArgument, naming the operation, the types, and what was expected.
absl::StatusOr<InferredTypes> InferTypes(OpKind op, absl::Span<const TensorType> operands,
                                         Attributes& attributes);

// The one type of a tensor that is given its sizes, such as a fusion input, under the same limits.
// `what` names it in errors and constraints.
absl::StatusOr<InferredTypes> TypeOfSizes(absl::string_view what, DType dtype,
                                          absl::Span<const SymInt> sizes);

}  // namespace seam
