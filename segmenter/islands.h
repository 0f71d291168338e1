// Islands: the parts of a group between which nothing flows and that read nothing in common. A
// group is one island unless a horizontal plan joined it: groups side by side in one launch.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "segmenter/guard.h"

namespace seam {

// Bytes that an island which reduces moves at most, four launches' worth: of more a launch is a
// small part of its time, and clusters, registers and barriers of the grid, which it would give up
// for the others, are worth more.
inline constexpr int64_t kMostReducedBytes = int64_t{16} << 20;

// The islands of a group of these expressions (ascending, each once), as many as
// GroupSummary::connected counts components. What is weightless connects nobody: every island has
// its own of it, and what no island uses is one more. Expressions are ascending. Linear in the
// expressions for each island.
std::vector<std::vector<ExprId>> IslandsOf(const Fusion& fusion, const ValueFacts& facts,
                                           absl::Span<const ExprId> exprs);

// What the guard says of a group of these expressions for the scheduler `as`: of its islands for
// kHorizontal, of the whole for all others.
Decision CanScheduleAs(SchedulerKind as, const SchedulabilityGuard& guard, const Fusion& fusion,
                       const AxisMap& axes, const ValueFacts& facts,
                       absl::Span<const ExprId> exprs);

}  // namespace seam
