// What the operations compute, element by element: the one definition that the reference
// interpreter and the simulator share, and that the emitted CUDA is held against. The rules are
// those in ir/ops.def.
//
// Invariants: arguments hold values of their dtypes (ir/scalar.h), results come back rounded or
// wrapped. Thread-safety: pure functions. No function fails: the verifier has checked arity and
// dtypes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/ops.h"
#include "ir/scalar.h"

namespace seam {

// results[i] = op(args[0][i], args[1][i], ...), i < n, for an operation of class Elementwise. `in`
// is the dtype of the data operands (of the second and third for `where`), `out` that of the
// result. `results` may be one of the arguments.
void EvalElementwise(OpKind kind, DType in, DType out, const Scalar* const* args, Scalar* results,
                     size_t n);
// As above without rounding float results to `out` (nor to f32 where the operation does not say so
// inside).
void EvalElementwiseUnrounded(OpKind kind, DType in, const Scalar* const* args, Scalar* results,
                              size_t n);

// Sum, Prod, Max, Min, Any, All. `dtype` is the dtype in which the caller accumulates: a
// ComputeType(), or an integer dtype, to which the result is wrapped. The identity of Max over
// floats is -infinity, over integers the smallest of `dtype` (pass the tensor's own dtype there),
// so that is what an empty reduction gives.
Scalar ReduceIdentity(OpKind kind, DType dtype);
// a (+) b, rounded to `dtype`. Max and Min propagate NaN and order -0 below +0.
Scalar ReduceCombine(OpKind kind, DType dtype, Scalar a, Scalar b);

// ArgMax, ArgMin: a candidate is a value and where it stands. NaN wins over every number, then the
// larger (smaller) value, then the smaller index; -0 equals +0. The identity has index -1 and loses
// to everything, so that is what an empty reduction gives.
struct ArgCandidate {
  Scalar value;
  int64_t index;
};
ArgCandidate ArgIdentity(OpKind kind, DType dtype);
ArgCandidate ArgCombine(OpKind kind, DType dtype, ArgCandidate a, ArgCandidate b);

// The state of Welford's statistics over `count` values; m2 is the sum of squared deviations from
// the average. A count is a float of the same dtype as the rest: exact up to 2^24 in f32.
struct WelfordState {
  double average = 0;
  double m2 = 0;
  double count = 0;
};
// Joins two states, each step rounded to `dtype` (f32 or f64). An empty state is the identity.
// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983.
WelfordState WelfordCombine(DType dtype, const WelfordState& a, const WelfordState& b);

// The position that index `index` names on an axis of `extent` elements: a negative index counts
// once from the end; whatever is then still outside gives -1, and the element gathered through it
// is zero.
inline int64_t ResolveIndex(int64_t index, int64_t extent) {
  if (index < 0) index += extent;
  return index >= 0 && index < extent ? index : -1;
}

}  // namespace seam
