// The reference columns of ir/ops.def, compiled: one loop per operation and family of dtypes.
#include "ir/op_semantics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace seam {
namespace {

// int64 arithmetic that wraps, with the table's results for division by zero.
int64_t Add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t Sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t Mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t Div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? Sub(0, a) : a / b; }
int64_t Fmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int64_t Remainder(int64_t a, int64_t b) {
  const int64_t r = Fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t FloorDivide(int64_t a, int64_t b) {
  return Sub(Div(a, b), Fmod(a, b) != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t ShiftLeft(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
int64_t ShiftRight(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
uint64_t LowBits(int64_t a, int width) {
  return static_cast<uint64_t>(a) & (~uint64_t{0} >> (64 - width));
}
int64_t PopCount(int64_t a, int width) { return std::popcount(LowBits(a, width)); }
int64_t Clz(int64_t a, int width) { return std::countl_zero(LowBits(a, width)) - (64 - width); }

double Minimum(double a, double b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
double Maximum(double a, double b) {
  if (a != a || b != b) return a + b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
double Sign(double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : a; }
double Exp10(double a) { return std::pow(10.0, a); }
double Sigmoid(double a) {
  const double t = std::exp(-std::fabs(a));
  return a >= 0 ? 1 / (1 + t) : t / (1 + t);
}
double Logit(double a) {
  return a > 0.25 && a < 0.75 ? std::log1p((2 * a - 1) / (1 - a)) : std::log(a / (1 - a));
}

// The functions that round inside: kF32 for dtypes computed in f32.
template <bool kF32>
struct Rounding {
  static double R(double x) { return kF32 ? static_cast<float>(x) : x; }
  static double Fma(double a, double b, double c) {
    return kF32 ? std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))
                : std::fma(a, b, c);
  }
  static double Remainder(double a, double b) {
    const double r = std::fmod(a, b);
    if (r == 0) return std::copysign(0.0, b);
    return (r < 0) != (b < 0) ? R(r + b) : r;
  }
  static double FloorDivide(double a, double b) {
    if (b == 0) return a / b;
    const double r = std::fmod(a, b);
    double quotient = R(R(a - r) / b);
    if (r != 0 && (r < 0) != (b < 0)) quotient = R(quotient - 1);
    if (quotient == 0) return std::copysign(0.0, a / b);
    const double floor = std::floor(quotient);
    return quotient - floor > 0.5 ? R(floor + 1) : floor;
  }
};

#define SEAM_LOOP(result_member, argument_member, type, expression) \
  for (size_t i = 0; i < n; ++i) {                                  \
    [[maybe_unused]] const type a = x[i].argument_member;           \
    [[maybe_unused]] const type b = y[i].argument_member;           \
    [[maybe_unused]] const type c = z[i].argument_member;           \
    results[i].result_member = expression;                          \
  }                                                                 \
  return;

template <bool kF32>
void EvalFloat(OpKind kind, const Scalar* x, const Scalar* y, const Scalar* z, Scalar* results,
               size_t n) {
  constexpr auto R = Rounding<kF32>::R;
  constexpr auto Fma = Rounding<kF32>::Fma;
  constexpr auto Remainder = Rounding<kF32>::Remainder;
  constexpr auto FloorDivide = Rounding<kF32>::FloorDivide;
  switch (kind) {
#define SEAM_FLOAT(kind, name, arity, ulps, cuda, reference, doc) \
  case OpKind::kind:                                              \
    SEAM_LOOP(f, f, double, (reference))
#define SEAM_NUMERIC(kind, name, arity, ulps, cuda, cuda_int, reference, reference_int, doc) \
  case OpKind::kind:                                                                         \
    SEAM_LOOP(f, f, double, (reference))
#define SEAM_COMPARE(kind, name, expression, doc) \
  case OpKind::kind:                              \
    SEAM_LOOP(i, f, double, (expression))
#define SEAM_PREDICATE(kind, name, cuda, reference, doc) \
  case OpKind::kind:                                     \
    SEAM_LOOP(i, f, double, (reference))
#include "ir/ops.def"
    default:
      return;
  }
}

void EvalInteger(OpKind kind, [[maybe_unused]] int width, const Scalar* x, const Scalar* y,
                 const Scalar* z, Scalar* results, size_t n) {
  switch (kind) {
#define SEAM_NUMERIC(kind, name, arity, ulps, cuda, cuda_int, reference, reference_int, doc) \
  case OpKind::kind:                                                                         \
    SEAM_LOOP(i, i, int64_t, (reference_int))
#define SEAM_INTEGER(kind, name, arity, rule, cuda_int, reference_int, doc) \
  case OpKind::kind:                                                        \
    SEAM_LOOP(i, i, int64_t, (reference_int))
#define SEAM_COMPARE(kind, name, expression, doc) \
  case OpKind::kind:                              \
    SEAM_LOOP(i, i, int64_t, (expression))
#define SEAM_LOGICAL(kind, name, arity, expression, doc) \
  case OpKind::kind:                                     \
    SEAM_LOOP(i, i, int64_t, (expression))
#include "ir/ops.def"
    default:
      return;
  }
}

// where and copy: whole scalars move, of whichever member.
void EvalMove(OpKind kind, const Scalar* x, const Scalar* y, const Scalar* z, Scalar* results,
              size_t n) {
  if (kind == OpKind::Where) {
    for (size_t i = 0; i < n; ++i) results[i] = x[i].i ? y[i] : z[i];
  } else if (results != x) {
    std::copy(x, x + n, results);
  }
}

bool IsMove(OpKind kind) {
  switch (kind) {
#define SEAM_MOVE(kind, ...) case OpKind::kind:
#include "ir/ops.def"
    return true;
    default:
      return false;
  }
}

}  // namespace

void EvalElementwiseUnrounded(OpKind kind, DType in, const Scalar* const* args, Scalar* results,
                              size_t n) {
  const int arity = GetOpInfo(kind).num_operands;
  const Scalar* x = args[0];
  const Scalar* y = args[arity > 1 ? 1 : 0];
  const Scalar* z = args[arity > 2 ? 2 : 0];
  if (IsMove(kind)) return EvalMove(kind, x, y, z, results, n);
  if (in == DType::F64) return EvalFloat<false>(kind, x, y, z, results, n);
  if (IsFloat(in)) return EvalFloat<true>(kind, x, y, z, results, n);
  EvalInteger(kind, 8 * DTypeBytes(in), x, y, z, results, n);
}

void EvalElementwise(OpKind kind, DType in, DType out, const Scalar* const* args, Scalar* results,
                     size_t n) {
  EvalElementwiseUnrounded(kind, in, args, results, n);
  if (out == DType::F64 || out == DType::I64 || IsMove(kind)) return;
  if (IsFloat(out)) {
    for (size_t i = 0; i < n; ++i) results[i].f = RoundToDType(out, results[i].f);
  } else {
    for (size_t i = 0; i < n; ++i) results[i].i = WrapToDType(out, results[i].i);
  }
}

Scalar ReduceIdentity(OpKind kind, DType dtype) {
  const bool is_float = IsFloat(dtype);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case OpKind::Prod:
    case OpKind::All:
      return is_float ? FloatScalar(1) : IntScalar(1);
    case OpKind::Max:
    case OpKind::ArgMax:
      return is_float ? FloatScalar(-kInfinity) : IntScalar(MinInteger(dtype));
    case OpKind::Min:
    case OpKind::ArgMin:
      return is_float ? FloatScalar(kInfinity) : IntScalar(MaxInteger(dtype));
    default:
      return is_float ? FloatScalar(0) : IntScalar(0);
  }
}

Scalar ReduceCombine(OpKind kind, DType dtype, Scalar a, Scalar b) {
  const bool is_float = IsFloat(dtype);
  switch (kind) {
    case OpKind::Sum:
      return is_float ? FloatScalar(RoundToDType(dtype, a.f + b.f))
                      : IntScalar(WrapToDType(dtype, Add(a.i, b.i)));
    case OpKind::Prod:
      return is_float ? FloatScalar(RoundToDType(dtype, a.f * b.f))
                      : IntScalar(WrapToDType(dtype, Mul(a.i, b.i)));
    case OpKind::Max:
      return is_float ? FloatScalar(Maximum(a.f, b.f)) : IntScalar(std::max(a.i, b.i));
    case OpKind::Min:
      return is_float ? FloatScalar(Minimum(a.f, b.f)) : IntScalar(std::min(a.i, b.i));
    case OpKind::Any:
      return IntScalar(a.i || b.i);
    case OpKind::All:
      return IntScalar(a.i && b.i);
    default:
      return a;
  }
}

ArgCandidate ArgIdentity(OpKind kind, DType dtype) { return {ReduceIdentity(kind, dtype), -1}; }

ArgCandidate ArgCombine(OpKind kind, DType dtype, ArgCandidate a, ArgCandidate b) {
  // As unsigned numbers the identity's index is the largest, so that any real element wins a tie
  // with it.
  const bool a_first = static_cast<uint64_t>(a.index) < static_cast<uint64_t>(b.index);
  const bool larger = kind == OpKind::ArgMax;
  if (IsFloat(dtype)) {
    const bool a_nan = a.value.f != a.value.f, b_nan = b.value.f != b.value.f;
    if (a_nan || b_nan) return a_nan && (a_first || !b_nan) ? a : b;
    if (a.value.f == b.value.f) return a_first ? a : b;
    return (a.value.f > b.value.f) == larger ? a : b;
  }
  if (a.value.i == b.value.i) return a_first ? a : b;
  return (a.value.i > b.value.i) == larger ? a : b;
}

WelfordState WelfordCombine(DType dtype, const WelfordState& a, const WelfordState& b) {
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const auto R = [dtype](double x) { return RoundToDType(dtype, x); };
  const double count = R(a.count + b.count);
  const double delta = R(b.average - a.average);
  const double weight = R(b.count / count);
  return {R(a.average + R(delta * weight)),
          R(R(a.m2 + b.m2) + R(R(delta * delta) * R(a.count * weight))), count};
}

}  // namespace seam
