// Sums, products, extrema, statistics and matrix products, each with the error that its rounding
// may have.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/op_semantics.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/host_tensor.h"

namespace seam::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Where the elements of a tensor go when `axes` are reduced.
struct ReducedShape {
  Shape shape;        // Of the result.
  Shape out_strides;  // Per axis of the operand; 0 for reduced axes.
  int64_t count = 1;  // Elements per result.
};

ReducedShape ReduceShape(const Shape& shape, absl::Span<const int32_t> axes) {
  ReducedShape reduced;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (std::find(axes.begin(), axes.end(), static_cast<int32_t>(axis)) == axes.end()) {
      reduced.shape.push_back(shape[axis]);
    } else {
      reduced.count *= shape[axis];
    }
  }
  const std::vector<int64_t> strides = RowMajorStrides(reduced.shape);
  size_t next = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool kept = std::find(axes.begin(), axes.end(), static_cast<int32_t>(axis)) == axes.end();
    reduced.out_strides.push_back(kept ? strides[next++] : 0);
  }
  return reduced;
}

// combine(accumulator of the result, element) for every element.
template <typename Accumulator, typename Combine>
std::vector<Accumulator> Fold(const Dense& operand, const ReducedShape& reduced,
                              Accumulator initial, Combine combine) {
  std::vector<Accumulator> result(static_cast<size_t>(NumElements(reduced.shape)), initial);
  const int64_t length = operand.shape.empty() ? 1 : operand.shape.back();
  const int64_t stride = operand.shape.empty() ? 0 : reduced.out_strides.back();
  ForEachRow(operand.shape, reduced.out_strides, reduced.out_strides,
             [&](int64_t first, int64_t out, int64_t) {
               const Scalar* x = operand.data() + first;
               Accumulator* accumulators = result.data() + out;
               if (stride == 0) {
                 Accumulator total = *accumulators;
                 for (int64_t i = 0; i < length; ++i) combine(total, x[i]);
                 *accumulators = total;
               } else {
                 for (int64_t i = 0; i < length; ++i) combine(accumulators[i], x[i]);
               }
             });
  return result;
}

double UnitRoundoff(DType dtype) { return dtype == DType::F64 ? 0x1p-53 : 0x1p-24; }

// Rounding errors of the compute type on the sum of the terms' magnitudes.
double ErrorFactor(DType dtype, int64_t count) {
  const double growth = std::min(std::sqrt(static_cast<double>(count)), 64.0) + 2;
  return UnitRoundoff(dtype) * growth;
}

// A sum in twice the precision of double, so that for f64 too the reference's own error is none.
// Source: Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974.
struct ExactSum {
  double high = 0, low = 0;
  void Add(double x) {
    const double sum = high + x;
    low += std::fabs(high) >= std::fabs(x) ? (high - sum) + x : (x - sum) + high;
    high = sum;
  }
  double Value() const { return std::isfinite(high) ? high + low : high; }
};

// The terms of a sum, which overflow f64 only where the true sum does.
struct Terms {
  ExactSum sum;
  double positive = 0, negative = 0;  // The sums of the positive and of the negative finite ones.
  bool has_infinity = false;
  void Add(double x) {
    sum.Add(x);
    if (std::isinf(x)) {
      has_infinity = true;
    } else {
      (x > 0 ? positive : negative) += x;
    }
  }
  double Magnitude() const { return positive - negative; }
};

// A product, and how far the products of some of its factors may be from 1: the sums of the
// positive and of the negative binary logarithms. The exponent is apart, so that f64 overflows or
// underflows only where the whole product does.
struct Product {
  double significand = 1;
  int64_t exponent = 0;
  double grown = 0, shrunk = 0;
  bool has_zero = false, has_nan = false, negative = false;
  void Multiply(double x) {
    int of_x = 0, of_both = 0;
    significand = std::frexp(significand * std::frexp(x, &of_x), &of_both);
    exponent += of_x + of_both;
    has_zero |= x == 0;
    has_nan |= x != x;
    negative ^= std::signbit(x);
    if (x == 0 || x != x) return;
    const double logarithm = std::log2(std::fabs(x));
    (logarithm > 0 ? grown : shrunk) += logarithm;
  }
  double Value() const {
    return std::ldexp(significand, static_cast<int>(std::clamp<int64_t>(exponent, -4096, 4096)));
  }
};

// What the product may be if, by the order of its factors, f64 overflows or underflows on the way.
double ByAnotherOrder(const Product& p, Noise& noise) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (p.has_nan || (p.has_zero && p.grown == kInfinity)) return kNan;
  const bool overflows = p.grown > 1020, underflows = p.has_zero || p.shrunk < -1020;
  const bool vanishes = underflows && p.grown < kInfinity;
  const double sign = p.negative ? -1 : 1;
  switch (noise.Pick(5)) {
    case 0:
      return overflows && !p.has_zero ? sign * kInfinity : p.Value();
    case 1:
      return vanishes ? sign * 0 : p.Value();
    case 2:
      return overflows && underflows ? kNan : p.Value();
    case 3:
      // The smallest number times 0.6 is itself: it may be what all small factors come to.
      return vanishes && !p.has_zero
                 ? sign * std::fmax(std::fabs(p.Value()), std::exp2(p.grown - 1074))
                 : p.Value();
    default:
      return p.Value();
  }
}

// What a result may be if the values on the way to it, in the compute type of `dtype`, come as high
// and as low as this: where they may leave its range, an infinity, or NaN where two meet. An
// infinity that is among the terms, not counted in these, is the result or meets another.
double ByOverflow(double value, double highest, double lowest, bool has_infinity, DType dtype,
                  Noise& noise) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const double most = MaxFinite(ComputeType(dtype));
  const bool up = highest > most, down = lowest < -most;
  if (!noise.active() || value != value || !(up || down)) return value;
  if (has_infinity) return (value > 0 ? down : up) && noise.Coin() ? kNan : value;
  switch (noise.Pick(4)) {
    case 0:
      return up ? kInfinity : value;
    case 1:
      return down ? -kInfinity : value;
    case 2:
      return up && down ? kNan : value;
    default:
      return value;
  }
}

Dense FloatTotal(OpKind kind, DType out, const Dense& operand, const ReducedShape& reduced,
                 Noise& noise) {
  noise.NextResult();
  std::vector<Scalar> result(static_cast<size_t>(NumElements(reduced.shape)));
  if (kind == OpKind::Prod) {
    // The reference's own products in double count as much again for f64.
    const double relative = ErrorFactor(out, reduced.count) * (out == DType::F64 ? 2 : 1);
    const auto products =
        Fold(operand, reduced, Product(), [](Product& p, Scalar x) { p.Multiply(x.f); });
    for (size_t i = 0; i < result.size(); ++i) {
      const double p = noise.active() ? ByAnotherOrder(products[i], noise) : products[i].Value();
      result[i].f = RoundToDType(out, noise.Move(p, relative * std::fabs(p)));
    }
    return MakeDense(out, reduced.shape, std::move(result));
  }
  if (!noise.active()) {
    const auto sums =
        Fold(operand, reduced, ExactSum(), [](ExactSum& total, Scalar x) { total.Add(x.f); });
    for (size_t i = 0; i < result.size(); ++i) result[i].f = RoundToDType(out, sums[i].Value());
    if (std::all_of(sums.begin(), sums.end(),
                    [](const ExactSum& sum) { return std::isfinite(sum.Value()); }))
      return MakeDense(out, reduced.shape, std::move(result));
  }
  const auto fold = [&](double scale) {
    return Fold(operand, reduced, Terms(), [scale](Terms& t, Scalar x) { t.Add(scale * x.f); });
  };
  constexpr double kSmaller = 0x1p-64;  // By which no number of terms overflows.
  const double relative = ErrorFactor(out, reduced.count);
  const std::vector<Terms> terms = fold(1);
  std::vector<Terms> smaller;
  for (size_t i = 0; i < result.size(); ++i) {
    const bool overflows = !std::isfinite(terms[i].Magnitude());
    if (overflows && smaller.empty()) smaller = fold(kSmaller);
    const Terms& t = overflows ? smaller[i] : terms[i];
    const double scale = overflows ? kSmaller : 1;
    const double error = relative * t.Magnitude() / scale;
    const double total = ByOverflow(t.sum.Value() / scale, t.positive / scale + error,
                                    t.negative / scale - error, t.has_infinity, out, noise);
    result[i].f = RoundToDType(out, noise.Move(total, error));
  }
  return MakeDense(out, reduced.shape, std::move(result));
}

Dense ArgReduce(OpKind kind, const Dense& operand, int axis, const ReducedShape& reduced) {
  const size_t a = static_cast<size_t>(axis);
  const int64_t length = operand.shape[a];
  const int64_t inner = NumElements(absl::MakeConstSpan(operand.shape).subspan(a + 1));
  std::vector<Scalar> result(static_cast<size_t>(NumElements(reduced.shape)));
  for (size_t o = 0; o < result.size(); ++o) {
    const int64_t row = static_cast<int64_t>(o) / inner, column = static_cast<int64_t>(o) % inner;
    const Scalar* x = operand.data() + row * length * inner + column;
    ArgCandidate best = ArgIdentity(kind, operand.dtype);
    for (int64_t i = 0; i < length; ++i) {
      best = ArgCombine(kind, operand.dtype, best, {x[i * inner], i});
    }
    result[o].i = best.index;
  }
  return MakeDense(DType::I64, reduced.shape, std::move(result));
}

}  // namespace

Dense Reduce(OpKind kind, DType out, const Dense& operand, absl::Span<const int32_t> axes,
             Noise& noise) {
  const ReducedShape reduced = ReduceShape(operand.shape, axes);
  if (kind == OpKind::ArgMax || kind == OpKind::ArgMin) {
    return ArgReduce(kind, operand, axes[0], reduced);
  }
  if (IsFloat(out) && (kind == OpKind::Sum || kind == OpKind::Prod)) {
    return FloatTotal(kind, out, operand, reduced, noise);
  }
  const Scalar identity = ReduceIdentity(kind, out);
  std::vector<Scalar> result;
  switch (kind) {
    case OpKind::Sum:
      result = Fold(operand, reduced, identity, [](Scalar& total, Scalar x) {
        total.i = static_cast<int64_t>(static_cast<uint64_t>(total.i) + static_cast<uint64_t>(x.i));
      });
      break;
    default:
      result = Fold(operand, reduced, identity,
                    [=](Scalar& total, Scalar x) { total = ReduceCombine(kind, out, total, x); });
  }
  return MakeDense(out, reduced.shape, std::move(result));
}

std::vector<Dense> WelfordStatistics(const Dense& operand, absl::Span<const int32_t> axes,
                                     Noise& noise) {
  const ReducedShape reduced = ReduceShape(operand.shape, axes);
  const DType dtype = operand.dtype;
  const double n = static_cast<double>(reduced.count);
  struct Statistics {
    ExactSum sum;
    double magnitude = 0;  // Of the values.
    double largest = 0;    // Of the magnitudes.
    double average = 0;
    ExactSum m2;           // Sums of squared
    double deviation = 0;  // and of absolute deviations.
  };
  std::vector<Statistics> statistics =
      Fold(operand, reduced, Statistics(), [](Statistics& s, Scalar x) {
        s.sum.Add(x.f);
        s.magnitude += std::fabs(x.f);
        s.largest = std::max(s.largest, std::fabs(x.f));
      });
  for (Statistics& s : statistics) s.average = n > 0 ? s.sum.Value() / n : 0;
  // The second pass goes through the same accumulators.
  const int64_t length = operand.shape.empty() ? 1 : operand.shape.back();
  const int64_t stride = operand.shape.empty() ? 0 : reduced.out_strides.back();
  ForEachRow(operand.shape, reduced.out_strides, reduced.out_strides,
             [&](int64_t first, int64_t out, int64_t) {
               for (int64_t i = 0; i < length; ++i) {
                 Statistics& s = statistics[static_cast<size_t>(out + i * stride)];
                 const double deviation = operand.data()[first + i].f - s.average;
                 s.m2.Add(deviation * deviation);
                 s.deviation += std::fabs(deviation);
               }
             });
  const double factor = ErrorFactor(dtype, reduced.count);
  const auto mean_error = [&](const Statistics& s) { return n > 0 ? factor * s.magnitude / n : 0; };
  std::vector<Scalar> average, m2;
  noise.NextResult();
  std::vector<bool> overflows;  // On the way to the average.
  for (const Statistics& s : statistics) {
    // An average comes of sums, of values or of their deviations from one that is among them.
    const double most = 2 * n * s.largest;
    const double summed = std::isfinite(s.average)
                              ? ByOverflow(s.average, most, -most, false, dtype, noise)
                              : s.average;
    overflows.push_back(std::isfinite(s.average) && !std::isfinite(summed));
    if (overflows.back()) {
      average.push_back(FloatScalar(summed));
      continue;
    }
    // Joining states that hold infinities gives NaN where their sum is infinite.
    const bool lost = noise.active() && std::isinf(s.average) && noise.Coin();
    const double moved =
        lost ? std::numeric_limits<double>::quiet_NaN() : noise.Move(s.average, mean_error(s));
    average.push_back(FloatScalar(RoundToDType(dtype, moved)));
  }
  noise.NextResult();
  for (size_t i = 0; i < statistics.size(); ++i) {
    const Statistics& s = statistics[i];
    if (overflows[i]) {
      m2.push_back(
          FloatScalar(noise.Coin() ? kInfinity : std::numeric_limits<double>::quiet_NaN()));
      continue;
    }
    // Each deviation is off by a rounding error of the average it is taken from, the average itself
    // by its bound.
    const double squares = s.m2.Value();
    const double bound = factor * squares +
                         4 * UnitRoundoff(dtype) * (n > 0 ? s.magnitude / n : 0) * s.deviation +
                         n * mean_error(s) * mean_error(s);
    const double moved = noise.Move(squares, bound);
    m2.push_back(FloatScalar(RoundToDType(dtype, moved < 0 ? 0 : moved)));
  }
  std::vector<Scalar> count(statistics.size(), FloatScalar(RoundToDType(dtype, n)));
  return {MakeDense(dtype, reduced.shape, std::move(average)),
          MakeDense(dtype, reduced.shape, std::move(m2)),
          MakeDense(dtype, reduced.shape, std::move(count))};
}

Dense MatrixProduct(const Dense& a, const Dense& b, Noise& noise) {
  const size_t rank = a.shape.size();
  const int64_t m = a.shape[rank - 2], k = a.shape[rank - 1], n = b.shape[rank - 1];
  Shape shape = a.shape;
  shape[rank - 1] = n;
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  const int64_t batches = NumElements(absl::MakeConstSpan(shape).subspan(0, rank - 2));
  const double relative = ErrorFactor(a.dtype, k);
  noise.NextResult();
  std::vector<ExactSum> sums(static_cast<size_t>(n));
  std::vector<double> magnitudes(noise.active() ? sums.size() : 0);
  for (int64_t row = 0; row < batches * m; ++row) {
    std::fill(sums.begin(), sums.end(), ExactSum());
    std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
    for (int64_t j = 0; j < k; ++j) {
      const double x = a.data()[row * k + j].f;
      const Scalar* y = b.data() + (row / m * k + j) * n;
      for (size_t c = 0; c < sums.size(); ++c) sums[c].Add(x * y[c].f);
      for (size_t c = 0; c < magnitudes.size(); ++c) magnitudes[c] += std::fabs(x * y[c].f);
    }
    for (size_t c = 0; c < sums.size(); ++c) {
      const double bound = noise.active() ? relative * magnitudes[c] : 0;
      result[static_cast<size_t>(row * n) + c].f =
          RoundToDType(a.dtype, noise.Move(sums[c].Value(), bound));
    }
  }
  return MakeDense(a.dtype, std::move(shape), std::move(result));
}

}  // namespace seam::reference
