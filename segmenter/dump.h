// Segmentations for people and for other tools: text, JSON, DOT, SVG, and the story of the merges.
//
// All of them are deterministic. Colour is ANSI escapes, only when asked for. Those that return a
// StatusOr fail with kInvalidArgument where something that is required is missing.
// Thread-safety: free functions without shared state.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "segmenter/segment.h"

namespace seam {

struct DumpOptions {
  const SizeHints* sizes = nullptr;      // Required: bytes are at these sizes.
  const SegmentationLog* log = nullptr;  // For the reasons of the borders; may be absent.
  bool color = false;                    // Of the text forms.
};

// Groups with scheduler, expressions, inputs and outputs; edges; why neighbours are two groups.
absl::StatusOr<std::string> DumpText(const SegmentedFusion& segmented, const DumpOptions& options);

// One object: fusion, narrow_edges, symbols (name: value), kernels, bytes, groups (id, name,
// scheduler, exprs and copies as the names of first results, text, inputs, outputs, bytes), edges
// (from, to, val, dtype, shape, bytes, narrowed where the dtype is not the value's own, layout:
// dimensions from the outermost in memory, [] for row-major, kind), order (before, after, val:
// expressions that have to run in this order), borders (from, to, reason, scheduler, about,
// detail). Sizes are at the symbols' values, shapes as written. LoadSegmentation reads it back.
absl::StatusOr<std::string> DumpJson(const SegmentedFusion& segmented, const DumpOptions& options);

// For Graphviz: a cluster a group, a node an expression.
absl::StatusOr<std::string> DumpDot(const SegmentedFusion& segmented, const DumpOptions& options);

// A picture: boxes for groups, pills for the Fusion's inputs and outputs, edges with value, type
// and bytes.
absl::StatusOr<std::string> DumpSvg(const SegmentedFusion& segmented, const DumpOptions& options);

// Every merge tried, in order; for each refused one the scheduler, the expressions and a sentence.
// The log must have been recorded with SegmentOptions::trace.
std::string ExplainMerges(const SegmentedFusion& segmented, const SegmentationLog& log, bool color);

// What crosses between groups in a narrower type than its own, with the bytes that this saves and
// what it rounds. Where rounding is permitted also what is not rounded, and why. May be empty.
std::string ExplainCrossings(const SegmentedFusion& segmented, const SizeHints& sizes);

// "reduction refuses: grid-barrier: <detail> (`s = sum(x)`, line 5)".
std::string DescribeRefusal(const Fusion& fusion, const Decision& decision);

// The expressions of a group as the canonical text writes them, in order, without the types of the
// results.
absl::StatusOr<std::vector<std::string>> GroupLines(const SegmentedFusion& segmented, GroupId g);

}  // namespace seam
