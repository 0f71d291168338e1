// Islands: the parts of a group between which nothing flows and that share nothing worth reading
// once. A group is one island unless a horizontal plan joined it: groups side by side in one
// launch.
//
// What parts may have in common, as each reads it for itself: what is smaller than what they
// compute, the weights of norms of several images or the tables by which queries and keys are
// turned, along fewer axes than their own; parts of a tensor that do not overlap, queries and keys
// in one; and copies of these in wider types. Larger values connect their readers, which a merge
// may have put into one kernel for that.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "segmenter/guard.h"

namespace seam {

// Bytes that an island which reduces moves at most, four launches' worth: of more a launch is a
// small part of its time, and clusters, registers and barriers of the grid, which it would give up
// for the others, are worth more.
inline constexpr int64_t kMostReducedBytes = int64_t{16} << 20;

// The islands of a group of these expressions (ascending, each once). Expressions are ascending;
// views, broadcasts and wider copies of what others computed are in every island that uses them,
// and so is what is weightless, of which what no island uses is one more. Linear in the expressions
// for each island, in chains of such views, and in pairs of slices of one value.
std::vector<std::vector<ExprId>> IslandsOf(const Fusion& fusion, const AxisMap& axes,
                                           const ValueFacts& facts, absl::Span<const ExprId> exprs);

// Values of others that would connect such a group to an island that reads them too, as far as no
// slices are concerned. Ascending. Linear.
std::vector<ValId> ConnectingReads(const Fusion& fusion, const AxisMap& axes,
                                   const ValueFacts& facts, absl::Span<const ExprId> exprs);

// What the guard says of these islands side by side.
Decision CanScheduleIslands(const SchedulabilityGuard& guard, const Fusion& fusion,
                            const AxisMap& axes, const ValueFacts& facts,
                            absl::Span<const std::vector<ExprId>> islands);

// What the guard says of a group of these expressions for the scheduler `as`: of its islands for
// kHorizontal, of the whole for all others.
Decision CanScheduleAs(SchedulerKind as, const SchedulabilityGuard& guard, const Fusion& fusion,
                       const AxisMap& axes, const ValueFacts& facts,
                       absl::Span<const ExprId> exprs);

}  // namespace seam
