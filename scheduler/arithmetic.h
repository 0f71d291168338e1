// What it costs that a group computes values again, where it reads its own values at other points
// than theirs, or at more points than they have.
//
// Such a kernel may come to wait for arithmetic instead of memory: a relu in front of a 3x3 window
// is computed nine times and hides behind the loads, a gelu does not. Arithmetic that is done once
// counts for nothing, as in every other group. Thread-safety: pure functions.
#pragma once

#include "segmenter/axes.h"
#include "segmenter/sizes.h"
#include "segmenter/summary.h"

namespace seam {

// The bytes that the kernel could move meanwhile at these sizes; 0 for a summary that nobody has
// taken a closer look for (segmenter/closer_look.h). Linear in the expressions.
double BytesBesideArithmetic(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
                             const GroupSummary& summary);

}  // namespace seam
