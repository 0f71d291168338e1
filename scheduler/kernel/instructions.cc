#include "scheduler/kernel/instructions.h"

namespace seam::kernel {

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

}  // namespace seam::kernel
