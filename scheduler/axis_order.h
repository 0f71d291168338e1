// The order in which a group runs over its axes, by how its tensors lie in memory.
//
//   x [N, C, H, W], channels last   ->   N H W C      sum over C: lanes and vectors lie along C
//   w [K, C] beside x [M, C]        ->   M K C        rows that read the same of x are neighbours
//
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "ir/fusion.h"
#include "segmenter/axes.h"

namespace seam {

struct GroupShape;

inline bool Contains(const std::vector<AxisId>& axes, AxisId axis) {
  return absl::c_linear_search(axes, axis);
}

struct AxisOrder {
  AxisSet run_over;           // What some reduction has or some result.
  std::vector<AxisId> order;  // These, slow to fast.
  // Axes of operands that views shift, shorten or mirror: along which axes of the results they lie,
  // slow to fast.
  absl::flat_hash_map<AxisId, std::vector<AxisId>> lies_along;
};

// `reductions`: those that rows fold. A reduction follows the input that it reads along the most
// axes, of several the one that may be largest, of these the one that most bytes lie in; everything
// else follows what it writes. Linear in the expressions, times the axes.
AxisOrder OrderAxes(const Fusion& group, const AxisMap& axes,
                    const std::vector<ExprId>& reductions);

// The axes of an input or output that the group runs over, slow to fast as they lie in memory, for
// each way in which an input is read; without those of extent 1, and nothing where neighbours lie
// along no axis of the group. Linear in the expressions.
std::vector<std::vector<AxisId>> MemoryOrders(const Fusion& group, const GroupShape& shape,
                                              ValId v);

}  // namespace seam
