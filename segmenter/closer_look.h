// A closer look at a group that reads its own values at other points than its own: what a summary
// cannot tell, from the expressions.
//
//   p = pad(u)   out = p[0:N] + p[1:N+1] + p[2:N+2]
//
// The summary has the padded points beside those of `out`, and no axis is common to both. But
// nobody runs over the padded points, if nobody else reads them: `p` is computed at three points of
// each row of `out`. So a group runs over the spaces of its reductions, of what it hands on, and of
// what these read at their own points; and an expression is computed as often as there are other
// points at which what it leads to is wanted, each once, along all paths.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "segmenter/guard.h"
#include "segmenter/summary.h"

namespace seam {

// Most expressions of a group that is looked at so.
inline constexpr int kMostLookedAt = 512;

// Whether one of these expressions (ascending, each once) reads a value of another one at other
// points than that one's own.
bool ReadsElsewhere(const Fusion& fusion, const AxisMap& axes, absl::Span<const ExprId> exprs);

// Arithmetic at a point, as bytes of traffic, that is worth a closer look where points become more.
inline constexpr double kCostlyBytes = 4;

// Whether some of these expressions compute as much and have fewer axes than others. Linear in the
// expressions times their different spaces.
bool SpreadsArithmetic(const SchedulabilityGuard& guard, const Fusion& fusion, const AxisMap& axes,
                       absl::Span<const ExprId> exprs);

// Puts GroupSummary::spaces right for these expressions (ascending, each once), and says in
// `computed` how often they are computed. What is cast or viewed of an input and read here counts
// as nobody else's: who else wants it has a copy. Linear in the expressions times how often one is
// computed.
void LookCloser(const Fusion& fusion, const AxisMap& axes, const ValueFacts& facts,
                absl::Span<const ExprId> exprs, GroupSummary& summary);

// What the guard says of a group with this summary and, if it refuses that for where or how often
// values are computed, what it says after a closer look. `summary` is then what it saw.
Decision AskGuard(const SchedulabilityGuard& guard, const Fusion& fusion, const AxisMap& axes,
                  const ValueFacts& facts, absl::FunctionRef<std::vector<ExprId>()> exprs,
                  GroupSummary& summary);

// The same of a group that is known by its expressions alone.
Decision AskGuard(const SchedulabilityGuard& guard, const Fusion& fusion, const AxisMap& axes,
                  const ValueFacts& facts, absl::Span<const ExprId> exprs);

}  // namespace seam
