#include "segmenter/crossing_types.h"

#include <algorithm>
#include <cmath>

#include "ir/scalar.h"

namespace seam {
namespace {

constexpr int kNumFloats = static_cast<int>(DType::F8E5M2) + 1;
constexpr double kLargestF16 = 65504;

constexpr uint8_t Bit(DType d) { return static_cast<uint8_t>(1 << static_cast<int>(d)); }

// The float types that hold every value of `d`.
constexpr uint8_t HoldersOf(DType d) {
  switch (d) {
    case DType::F64:
      return Bit(DType::F64);
    case DType::F32:
      return Bit(DType::F64) | Bit(DType::F32);
    case DType::F16:
    case DType::BF16:
      return HoldersOf(DType::F32) | Bit(d);
    case DType::F8E4M3:
    case DType::F8E5M2:
      return HoldersOf(DType::F16) | HoldersOf(DType::BF16) | Bit(d);
    default:
      return 0;
  }
}

uint8_t HoldersOfConstant(double value) {
  uint8_t holders = 0;
  for (int d = 0; d < kNumFloats; ++d) {
    if (std::isnan(value) || RoundToDType(static_cast<DType>(d), value) == value)
      holders |= Bit(static_cast<DType>(d));
  }
  return holders;
}

// Monotone operations that return one of their operands, or its negative: rounding first or
// afterwards is the same, in every type.
bool Selects(OpKind op) {
  switch (op) {
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Minimum:
    case OpKind::Maximum:
    case OpKind::Fmin:
    case OpKind::Fmax:
    case OpKind::Clamp:
    case OpKind::Relu:
    case OpKind::Max:
    case OpKind::Min:
      return true;
    default:
      return false;
  }
}

// Whether a small change of an operand can change a float result by a step.
bool Jumps(OpKind op) {
  switch (op) {
    case OpKind::Sign:
    case OpKind::FloorDivide:
    case OpKind::Fmod:
    case OpKind::Remainder:
    case OpKind::Copysign:
    case OpKind::Heaviside:
    case OpKind::Floor:
    case OpKind::Ceil:
    case OpKind::Round:
    case OpKind::Trunc:
    case OpKind::Frac:
      return true;
    default:
      return false;
  }
}

bool SharesNoKernel(OpClass c) {
  return c == OpClass::Library || c == OpClass::Template || c == OpClass::Update ||
         c == OpClass::Communication;
}

// Operands whose elements the result has.
bool Contributes(OpKind op, int i) {
  if (op == OpKind::Where) return i > 0;
  if (op == OpKind::Gather || op == OpKind::IndexSelect) return i == 0;
  return true;
}

}  // namespace

absl::string_view NarrowingName(Narrowing narrowing) {
  switch (narrowing) {
    case Narrowing::kOff:
      return "off";
    case Narrowing::kExact:
      return "exact";
    case Narrowing::kF16:
      return "f16";
    case Narrowing::kBF16:
      return "bf16";
  }
  return "unknown";
}

std::optional<Narrowing> ParseNarrowing(absl::string_view name) {
  for (Narrowing n : {Narrowing::kOff, Narrowing::kExact, Narrowing::kF16, Narrowing::kBF16}) {
    if (NarrowingName(n) == name) return n;
  }
  return std::nullopt;
}

RoundingError RoundingErrorOf(DType half) {
  if (half == DType::F16) return {std::ldexp(1, -11), std::ldexp(1, -25)};
  if (half == DType::BF16) return {std::ldexp(1, -8), std::ldexp(1, -134)};
  return {};
}

absl::string_view WideReasonSentence(WideReason reason) {
  switch (reason) {
    case WideReason::kNone:
      return "nothing speaks against it";
    case WideReason::kType:
      return "only f32 values are rounded";
    case WideReason::kCaller:
      return "the caller gave it or gets it";
    case WideReason::kLibrary:
      return "a library call writes or reads it";
    case WideReason::kStatistic:
      return "it is a statistic, of which differences may be taken";
    case WideReason::kDecision:
      return "an index, a comparison or another step follows from it";
    case WideReason::kMixing:
      return "the other half type is on its way";
    case WideReason::kRange:
      return "it may be larger than 65504, the largest f16";
  }
  return "unknown";
}

bool HandsOn(const Fusion& f, ExprId e) {
  const OpClass c = f.info(e).op_class;
  return c == OpClass::View || c == OpClass::Broadcast || c == OpClass::Barrier;
}

bool MovesElements(const Fusion& f, ExprId e) {
  const OpClass c = f.info(e).op_class;
  return HandsOn(f, e) || c == OpClass::Indexing || c == OpClass::Concat ||
         f.op(e) == OpKind::Where || f.op(e) == OpKind::Copy;
}

CrossingTypes CrossingTypes::Find(const Fusion& fusion, const ValueFacts& facts,
                                  const std::vector<bool>& computed, Narrowing narrowing) {
  CrossingTypes types(fusion, narrowing);
  types.FindHeld();
  types.FindRounded(computed);
  types.FindPermitted(facts, computed);
  return types;
}

// From the inputs down: a cast gives a value that its type holds, moving and selecting keep that.
void CrossingTypes::FindHeld() {
  const Fusion& f = *fusion_;
  held_.resize(f.num_vals());
  for (ValId v : f.inputs()) held_[v.index()] = HoldersOf(f.dtype(v));
  for (uint32_t i = 0; i < f.num_exprs(); ++i) {
    const ExprId e(i);
    uint8_t held = HoldersOf(f.dtype(f.result(e)));
    if (held == 0) continue;
    const auto operands = f.operands(e);
    if (f.info(e).op_class == OpClass::Cast) {
      // What was in this type already is what it was.
      const uint8_t before = held_[operands[0].index()];
      if ((before & Bit(f.dtype(f.result(e)))) != 0) held |= before;
    } else if (f.op(e) == OpKind::Constant) {
      held |= HoldersOfConstant(f.attributes(e).value);
    } else if (f.op(e) == OpKind::Full || MovesElements(f, e) || Selects(f.op(e))) {
      uint8_t all = 0xff;
      for (size_t n = 0; n < operands.size(); ++n) {
        if (Contributes(f.op(e), static_cast<int>(n))) all &= held_[operands[n].index()];
      }
      if (f.op(e) == OpKind::Pad) all &= HoldersOfConstant(f.attributes(e).value);
      held |= all;
    }
    for (int r = 0; r < f.num_results(e); ++r) held_[f.result(e, r).index()] = held;
  }
}

bool CrossingTypes::Holds(ValId v, DType type) const {
  return IsFloat(type) && (held_[v.index()] & Bit(type)) != 0;
}

// A cast of a cast is no reading of the outer type: f64 that all read as f16 through f32 crosses
// as f32, for f16 would round it once where the graph rounds it twice.
DType CrossingTypes::RoundedBy(ExprId e, int i) const {
  const Fusion& f = *fusion_;
  const DType own = f.dtype(f.operands(e)[i]), result = f.dtype(f.result(e));
  if (!IsFloat(own) || !IsFloat(result)) return own;
  if (f.info(e).op_class == OpClass::Cast)
    return DTypeBytes(result) < DTypeBytes(own) ? result : own;
  const bool passes = (MovesElements(f, e) && Contributes(f.op(e), i)) || Selects(f.op(e));
  return passes && !f.is_output(f.result(e)) ? rounded_to_[f.result(e).index()] : own;
}

// From the outputs up: what all readers round to.
void CrossingTypes::FindRounded(const std::vector<bool>& computed) {
  const Fusion& f = *fusion_;
  rounded_to_.resize(f.num_vals());
  for (uint32_t i = f.num_vals(); i-- > 0;) {
    const ValId v(i);
    const DType own = f.dtype(v);
    DType to = own;
    bool first = true;
    for (ExprId e : f.uses(v)) {
      if (!computed[e.index()]) continue;
      for (size_t n = 0; n < f.operands(e).size(); ++n) {
        if (f.operands(e)[n] != v) continue;
        const DType here = RoundedBy(e, static_cast<int>(n));
        if (!first && here != to) to = own;
        if (first || here == own) to = here;
        first = false;
        if (to == own) break;
      }
      if (to == own) break;
    }
    rounded_to_[i] = f.is_output(v) ? own : to;
  }
}

void CrossingTypes::FindPermitted(const ValueFacts& facts, const std::vector<bool>& computed) {
  const Fusion& f = *fusion_;
  wide_.assign(f.num_vals(), WideReason::kNone);
  for (uint32_t i = 0; i < f.num_vals(); ++i) {
    const ValId v(i);
    if (f.is_input(v) || f.is_output(v)) wide_[i] = WideReason::kCaller;
  }
  for (uint32_t i = 0; i < f.num_exprs(); ++i) {
    const ExprId e(i);
    const OpClass c = f.info(e).op_class;
    if (!SharesNoKernel(c)) continue;
    for (int r = 0; r < f.num_results(e); ++r) wide_[f.result(e, r).index()] = WideReason::kLibrary;
    for (ValId v : f.operands(e)) wide_[v.index()] = WideReason::kLibrary;
  }
  if (narrowing_ != Narrowing::kF16 && narrowing_ != Narrowing::kBF16) return;

  const DType other = narrowing_ == Narrowing::kF16 ? DType::BF16 : DType::F16;
  std::vector<bool> statistic(f.num_vals()), above(f.num_vals()), below(f.num_vals()),
      decides(f.num_vals());
  for (ValId v : f.inputs()) above[v.index()] = f.dtype(v) == other;
  for (uint32_t i = 0; i < f.num_exprs(); ++i) {
    const ExprId e(i);
    const OpClass c = f.info(e).op_class;
    bool mixed = f.dtype(f.result(e)) == other, all = true, some = false;
    for (ValId v : f.operands(e)) {
      mixed = mixed || above[v.index()];
      if (facts.weightless[v.index()]) continue;
      all = all && statistic[v.index()];
      some = true;
    }
    for (int r = 0; r < f.num_results(e); ++r) {
      statistic[f.result(e, r).index()] = IsReduction(c) || (all && some);
      above[f.result(e, r).index()] = mixed;
    }
  }
  for (uint32_t i = f.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    if (!computed[i]) continue;
    bool mixed = false, decided = Jumps(f.op(e));
    for (int r = 0; r < f.num_results(e); ++r) {
      const ValId v = f.result(e, r);
      mixed = mixed || f.dtype(v) == other || below[v.index()];
      decided = decided || !IsFloat(f.dtype(v)) || decides[v.index()];
    }
    for (ValId v : f.operands(e)) {
      below[v.index()] = below[v.index()] || mixed;
      decides[v.index()] = decides[v.index()] || decided;
    }
  }
  std::vector<double> bounds;
  if (narrowing_ == Narrowing::kF16) bounds = MagnitudeBounds(f);
  for (uint32_t i = 0; i < f.num_vals(); ++i) {
    if (wide_[i] != WideReason::kNone) continue;
    if (f.dtype(ValId(i)) != DType::F32) {
      wide_[i] = WideReason::kType;
    } else if (decides[i]) {
      wide_[i] = WideReason::kDecision;
    } else if (above[i] || below[i]) {
      wide_[i] = WideReason::kMixing;
    } else if (statistic[i]) {
      wide_[i] = WideReason::kStatistic;
    } else if (!bounds.empty() && !(bounds[i] <= kLargestF16)) {
      wide_[i] = WideReason::kRange;
    }
  }
}

DType CrossingTypes::TypeFor(ValId v, DType rounded_to) const {
  DType best = fusion_->dtype(v);
  const WideReason wide = wide_reason(v);
  const bool fixed = wide != WideReason::kNone && wide <= WideReason::kLibrary;
  if (narrowing_ == Narrowing::kOff || !IsFloat(best) || fixed) return best;
  const auto take = [&](DType d) {
    if (DTypeBytes(d) < DTypeBytes(best)) best = d;
  };
  take(rounded_to);
  for (int d = 0; d < kNumFloats; ++d) {
    if (Holds(v, static_cast<DType>(d))) take(static_cast<DType>(d));
  }
  if (wide == WideReason::kNone && narrowing_ == Narrowing::kF16) take(DType::F16);
  if (wide == WideReason::kNone && narrowing_ == Narrowing::kBF16) take(DType::BF16);
  return best;
}

}  // namespace seam
