// How large the elements of a value can become, by the operations that made it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "segmenter/crossing_types.h"

namespace seam {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The largest finite element of a type, for an input of which nothing else is known.
double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return 65504;
    case DType::F8E4M3:
      return 448;
    case DType::F8E5M2:
      return 57344;
    case DType::I16:
      return 32768;
    case DType::I8:
      return 128;
    case DType::U8:
      return 255;
    case DType::Bool:
      return 1;
    default:
      return kInfinity;
  }
}

// What rounding a result to its type can add, relative to it. Covers the errors of the operation,
// which are some units in the last place of f32.
double Slack(DType dtype) {
  switch (dtype) {
    case DType::F8E4M3:
    case DType::F8E5M2:
      return 1.0 / 8;
    case DType::BF16:
      return 1.0 / 256;
    case DType::F16:
      return 1.0 / 2048;
    default:
      return 1.0 / (1 << 20);
  }
}

// Products of zero and what is unbounded are unbounded.
double Product(double a, double b) { return std::isinf(a) || std::isinf(b) ? kInfinity : a * b; }

double BoundOf(const Fusion& f, ExprId e, const std::vector<double>& bounds) {
  const auto of = [&](int i) { return bounds[f.operands(e)[i].index()]; };
  switch (f.op(e)) {
    case OpKind::Tanh:
    case OpKind::Sin:
    case OpKind::Cos:
    case OpKind::Erf:
    case OpKind::Sigmoid:
    case OpKind::Sign:
    case OpKind::Frac:
    case OpKind::RandomUniform:
      return 1;
    case OpKind::Erfc:
    case OpKind::Atan:
    case OpKind::Asin:
      return 2;
    case OpKind::Acos:
    case OpKind::Atan2:
      return 4;
    case OpKind::RandomNormal:
      return 16;  // sqrt(-2 log u) for the smallest u that 53 bits can hold is below 9.
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Relu:
    case OpKind::Copy:
    case OpKind::Copysign:
    case OpKind::Cast:
    case OpKind::Max:
    case OpKind::Min:
    case OpKind::Broadcast:
    case OpKind::Reshape:
    case OpKind::Permute:
    case OpKind::Squeeze:
    case OpKind::Expand:
    case OpKind::Slice:
    case OpKind::Flip:
    case OpKind::Full:
    case OpKind::Gather:
    case OpKind::IndexSelect:
    case OpKind::SegmentSet:
      return of(0);
    case OpKind::Pad:
      return std::max(of(0), std::fabs(f.attributes(e).value));
    case OpKind::Constant:
      return IsFloat(f.dtype(f.result(e))) ? std::fabs(f.attributes(e).value)
                                           : LargestOf(f.dtype(f.result(e)));
    case OpKind::Cat: {
      double bound = 0;
      for (ValId v : f.operands(e)) bound = std::max(bound, bounds[v.index()]);
      return bound;
    }
    case OpKind::Add:
    case OpKind::Sub:
      return of(0) + of(1);
    case OpKind::Mul:
      return Product(of(0), of(1));
    case OpKind::Square:
      return Product(of(0), of(0));
    case OpKind::Fma:
      return Product(of(0), of(1)) + of(2);
    case OpKind::Minimum:
    case OpKind::Maximum:
    case OpKind::Fmin:
    case OpKind::Fmax:
      return std::max(of(0), of(1));
    case OpKind::Clamp:
    case OpKind::Where:
      return std::max(of(1), of(2));
    case OpKind::LeakyRelu:
      return std::max(of(0), Product(of(0), of(1)));
    case OpKind::Heaviside:
      return std::max(1.0, of(1));
    case OpKind::Sqrt:
      return std::sqrt(of(0));
    case OpKind::Exp:
      return std::exp(of(0));
    default:
      return kInfinity;
  }
}

}  // namespace

std::vector<double> MagnitudeBounds(const Fusion& f) {
  std::vector<double> bounds(f.num_vals());
  for (ValId v : f.inputs()) bounds[v.index()] = LargestOf(f.dtype(v));
  for (uint32_t i = 0; i < f.num_exprs(); ++i) {
    const ExprId e(i);
    const DType dtype = f.dtype(f.result(e));
    double bound = IsFloat(dtype) ? BoundOf(f, e, bounds) : LargestOf(dtype);
    if (IsFloat(dtype) && !MovesElements(f, e)) bound *= 1 + Slack(dtype);
    for (int r = 0; r < f.num_results(e); ++r) bounds[f.result(e, r).index()] = bound;
  }
  return bounds;
}

}  // namespace seam
