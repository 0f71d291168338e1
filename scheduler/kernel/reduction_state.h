// The running state of a reduction, as statements: one component for sums, products, extrema, any
// and all; value and index for argmax and argmin; average, m2 and count for Welford; maximum and
// sum for a maximum with a sum of exponentials beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/ops.h"
#include "scheduler/kernel/block_writer.h"
#include "scheduler/kernel/tile.h"

namespace seam::kernel {

bool IsArg(OpKind op);  // ArgMax or ArgMin.

// The position of no element, behind all others: any element wins a tie with it.
inline constexpr int64_t kNoPosition = INT64_MAX;

using StateOperands = std::vector<Operand>;  // One for each component.

// What folds two elements of a reduction with one component.
OpKind Combiner(OpKind reduction);

// The state of no elements.
StateOperands NeutralState(const TileReduction& reduction);

// Folds `b` into the state held at `slot` of `fragments`, earlier elements first. Sums and the like
// keep the order a + b; ties of argmax go to the lower index in any order. Welford: Chan's formula.
// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983. States of
// maximum and sum are merged several at once (expand_online.cc).
void MergeState(BlockWriter& w, OpKind reduction, const std::vector<int>& fragments, SymInt slot,
                const StateOperands& b);

// The same of argmax or argmin for an element behind all that the state has: it wins no tie, and
// one with the value of no elements, -infinity for argmax, is not taken. A state of such elements
// is then one of none, and their first position that of the first element at all.
void TakeLater(BlockWriter& w, OpKind reduction, const std::vector<int>& fragments, SymInt slot,
               const StateOperands& b);

// The part of a merge of Welford states that depends on their counts alone: states that have as
// many elements as others beside them share it, and its division.
struct WelfordWeights {
  Operand total, weight, pairs;
};
WelfordWeights WeighWelford(BlockWriter& w, DType dtype, Operand count, Operand more);
// Folds the state of that mean and m2 into the one at `slot` of `fragments`.
void MergeWelford(BlockWriter& w, const std::vector<int>& fragments, SymInt slot, Operand mean,
                  Operand m2, const WelfordWeights& weights);

// The same for a single element, which has no m2, with one rounding less of the mean; the count is
// left as it is.
void AddToWelford(BlockWriter& w, const std::vector<int>& fragments, SymInt slot, Operand value,
                  const WelfordWeights& weights);

// The state of the single element `value`; `position` is its index along the axis (i64; argmax and
// argmin only).
StateOperands ElementState(OpKind reduction, DType dtype, Operand value, Operand position);

}  // namespace seam::kernel
