#include "scheduler/workload.h"

#include "absl/container/flat_hash_set.h"
#include "scheduler/kernel/instructions.h"

namespace seam {
namespace {

constexpr double kMostPointWords = 96;  // Of pointwise groups, which hide latency by many threads.
constexpr int kMostInstructions = 2048;

}  // namespace

Workload WorkloadOf(const Fusion& group) {
  Workload workload;
  absl::flat_hash_set<ValId> seen;
  const auto hold = [&](ValId v) {
    if (seen.insert(v).second && !group.type(v).numel().is_same(1))
      workload.words += DTypeBytes(group.dtype(v)) / 4.0;
  };
  for (ValId v : group.inputs()) hold(v);
  for (ValId v : group.outputs()) hold(v);
  for (uint32_t i = 0; i < group.num_exprs(); ++i)
    workload.instructions += kernel::InstructionsOf(group.op(ExprId(i)));
  return workload;
}

int MostPoints(const Workload& workload, int limit) {
  int points = 1;
  while (points * 2 <= limit && points * 2 * workload.words <= kMostPointWords &&
         points * 2 * workload.instructions <= kMostInstructions) {
    points *= 2;
  }
  return points;
}

}  // namespace seam
