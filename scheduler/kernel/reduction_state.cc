#include "scheduler/kernel/reduction_state.h"

namespace seam::kernel {

bool IsArg(OpKind op) { return op == OpKind::ArgMax || op == OpKind::ArgMin; }

OpKind Combiner(OpKind reduction) {
  switch (reduction) {
    case OpKind::Sum:
      return OpKind::Add;
    case OpKind::Prod:
      return OpKind::Mul;
    case OpKind::Max:
      return OpKind::Maximum;
    case OpKind::Min:
      return OpKind::Minimum;
    case OpKind::Any:
      return OpKind::LogicalOr;
    default:
      return OpKind::LogicalAnd;
  }
}

namespace {

// Whether `a` has a value that `b` beats, whatever their positions: NaN beats every number.
Operand Beats(BlockWriter& w, OpKind reduction, Operand b, Operand a) {
  const DType boolean = DType::Bool;
  if (!IsFloat(w.dtype(a.fragment))) {
    return w.Make(boolean, reduction == OpKind::ArgMax ? OpKind::Gt : OpKind::Lt, {b, a});
  }
  const OpKind keeps = reduction == OpKind::ArgMax ? OpKind::Le : OpKind::Ge;
  const Operand kept = w.Make(boolean, keeps, {b, a});
  const Operand loses = w.Make(boolean, OpKind::LogicalNot, {kept});
  const Operand a_nan = w.Make(boolean, OpKind::IsNan, {a});
  const Operand a_number = w.Make(boolean, OpKind::LogicalNot, {a_nan});
  return w.Make(boolean, OpKind::LogicalAnd, {loses, a_number});
}

void TakeIf(BlockWriter& w, Operand better, const std::vector<int>& f, SymInt slot,
            const StateOperands& b) {
  for (size_t c = 0; c < f.size(); ++c)
    w.Set(f[c], slot, OpKind::Where, {better, b[c], Operand::Reg(f[c], slot)});
}

void MergeArg(BlockWriter& w, OpKind reduction, const std::vector<int>& f, SymInt slot,
              const StateOperands& b) {
  const Operand value = Operand::Reg(f[0], slot), index = Operand::Reg(f[1], slot);
  const DType boolean = DType::Bool;
  Operand tie = w.Make(boolean, OpKind::Eq, {b[0], value});
  if (IsFloat(w.dtype(f[0]))) {
    const Operand b_nan = w.Make(boolean, OpKind::IsNan, {b[0]});
    const Operand a_nan = w.Make(boolean, OpKind::IsNan, {value});
    const Operand both_nan = w.Make(boolean, OpKind::LogicalAnd, {b_nan, a_nan});
    tie = w.Make(boolean, OpKind::LogicalOr, {tie, both_nan});
  }
  const Operand earlier = w.Make(boolean, OpKind::Lt, {b[1], index});
  const Operand wins_tie = w.Make(boolean, OpKind::LogicalAnd, {tie, earlier});
  const Operand beats = Beats(w, reduction, b[0], value);
  TakeIf(w, w.Make(boolean, OpKind::LogicalOr, {beats, wins_tie}), f, slot, b);
}

}  // namespace

int NumComponents(OpKind reduction) {
  if (reduction == OpKind::Welford) return 3;
  return IsArg(reduction) ? 2 : 1;
}

int NumComponents(const TileReduction& reduction) {
  return reduction.exponential ? 2 : NumComponents(reduction.op);
}

DType ComponentType(OpKind reduction, DType dtype, int component) {
  return IsArg(reduction) && component == 1 ? DType::I64 : dtype;
}

StateOperands NeutralState(const TileReduction& reduction) {
  const DType dtype = reduction.dtype;
  const Operand zero = BlockWriter::Number(dtype, 0);
  if (reduction.op == OpKind::Welford) return StateOperands(3, zero);
  if (IsArg(reduction.op)) {
    return {Operand::Const(dtype, ReduceIdentity(reduction.op, dtype)),
            Operand::Const(DType::I64, IntScalar(kNoPosition))};
  }
  const Operand identity = Operand::Const(dtype, ReduceIdentity(reduction.op, dtype));
  if (reduction.exponential) return {identity, zero};
  return {identity};
}

WelfordWeights WeighWelford(BlockWriter& w, DType t, Operand count, Operand more) {
  const Operand total = w.Make(t, OpKind::Add, {count, more});
  // Where both sides are empty the weight is 0 / 1.
  const Operand divisor = w.Make(t, OpKind::Maximum, {total, BlockWriter::Number(t, 1)});
  const Operand weight = w.Make(t, OpKind::Div, {more, divisor});
  // First the factor that is 0 if one side is empty, as the square may be infinite.
  return {total, weight, w.Make(t, OpKind::Mul, {count, weight})};
}

void MergeWelford(BlockWriter& w, const std::vector<int>& f, SymInt slot, Operand mean, Operand m2,
                  const WelfordWeights& weights) {
  const DType t = w.dtype(f[0]);
  const Operand here = Operand::Reg(f[0], slot);
  const Operand delta = w.Make(t, OpKind::Sub, {mean, here});
  const Operand scaled = w.Make(t, OpKind::Mul, {delta, weights.weight});
  const Operand weighted = w.Make(t, OpKind::Mul, {weights.pairs, delta});
  const Operand m2_sum = w.Make(t, OpKind::Add, {Operand::Reg(f[1], slot), m2});
  w.Set(f[1], slot, OpKind::Fma, {weighted, delta, m2_sum});
  w.Set(f[0], slot, OpKind::Add, {here, scaled});
  w.Set(f[2], slot, OpKind::Copy, {weights.total});
}

void AddToWelford(BlockWriter& w, const std::vector<int>& f, SymInt slot, Operand value,
                  const WelfordWeights& weights) {
  const DType t = w.dtype(f[0]);
  const Operand here = Operand::Reg(f[0], slot);
  const Operand delta = w.Make(t, OpKind::Sub, {value, here});
  const Operand weighted = w.Make(t, OpKind::Mul, {weights.pairs, delta});
  w.Set(f[1], slot, OpKind::Fma, {weighted, delta, Operand::Reg(f[1], slot)});
  w.Set(f[0], slot, OpKind::Fma, {delta, weights.weight, here});
}

void MergeState(BlockWriter& w, OpKind reduction, const std::vector<int>& fragments, SymInt slot,
                const StateOperands& b) {
  if (reduction == OpKind::Welford) {
    const Operand count = Operand::Reg(fragments[2], slot);
    const WelfordWeights weights = WeighWelford(w, w.dtype(fragments[2]), count, b[2]);
    return MergeWelford(w, fragments, slot, b[0], b[1], weights);
  }
  if (IsArg(reduction)) return MergeArg(w, reduction, fragments, slot, b);
  w.Set(fragments[0], slot, Combiner(reduction), {Operand::Reg(fragments[0], slot), b[0]});
}

void TakeLater(BlockWriter& w, OpKind reduction, const std::vector<int>& fragments, SymInt slot,
               const StateOperands& b) {
  TakeIf(w, Beats(w, reduction, b[0], Operand::Reg(fragments[0], slot)), fragments, slot, b);
}

StateOperands ElementState(OpKind reduction, DType dtype, Operand value, Operand position) {
  if (IsArg(reduction)) return {value, position};
  if (reduction == OpKind::Welford)
    return {value, BlockWriter::Number(dtype, 0), BlockWriter::Number(dtype, 1)};
  return {value};
}

}  // namespace seam::kernel
