#include "scheduler/workload.h"

#include "absl/container/flat_hash_set.h"

namespace seam {
namespace {

constexpr double kMostPointWords = 96;  // Of pointwise groups, which hide latency by many threads.
constexpr int kMostInstructions = 2048;

}  // namespace

int InstructionsOf(OpKind op) {
  switch (op) {
    case OpKind::Exp:
    case OpKind::Exp2:
    case OpKind::Exp10:
    case OpKind::Div:
    case OpKind::Reciprocal:
    case OpKind::Sqrt:
      return 10;
    case OpKind::Sigmoid:
    case OpKind::Cbrt:
    case OpKind::Cosh:
    case OpKind::Tanh:
    case OpKind::Atan:
    case OpKind::Asin:
    case OpKind::Acos:
    case OpKind::Erf:
    case OpKind::Expm1:
    case OpKind::Log:
    case OpKind::Log2:
    case OpKind::Log10:
    case OpKind::Sinh:
      return 24;
    case OpKind::Log1p:
    case OpKind::Xlogy:
    case OpKind::Logit:
    case OpKind::Softplus:
    case OpKind::Asinh:
    case OpKind::Acosh:
    case OpKind::Atanh:
    case OpKind::Erfc:
    case OpKind::Hypot:
      return 48;
    case OpKind::Fmod:
    case OpKind::Remainder:
    case OpKind::FloorDivide:
    case OpKind::Pow:
    case OpKind::RandomUniform:
      return 96;
    case OpKind::Sin:
    case OpKind::Cos:
    case OpKind::Tan:
    case OpKind::Atan2:
    case OpKind::RandomNormal:
      return 144;
    default:
      return ClassOf(op) == OpClass::View || ClassOf(op) == OpClass::Broadcast ||
                     ClassOf(op) == OpClass::Factory
                 ? 0
                 : 2;
  }
}

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
    workload.instructions += InstructionsOf(group.op(ExprId(i)));
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
