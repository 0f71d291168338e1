// Loops over dense arrays. Inner loops run along the last axis, which is contiguous.
#include "ir/reference/evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/op_semantics.h"
#include "ir/philox.h"
#include "ir/reference/host_tensor.h"

namespace seam::reference {
namespace {

constexpr size_t kBlock =
    2048;  // Elements of a pointwise operation at a time: they stay in the cache.
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

// The rows of an array of `shape` along its last axis, each with the offsets that `strides_a` and
// `strides_b` give its first element: row(first element, offset a, offset b). A shape of rank 0 is
// one row.
template <typename Row>
void ForEachRow(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides_a,
                absl::Span<const int64_t> strides_b, Row row) {
  const int64_t numel = NumElements(shape);
  if (numel == 0) return;
  const size_t outer = shape.empty() ? 0 : shape.size() - 1;
  const int64_t length = shape.empty() ? 1 : shape.back();
  Shape index(outer, 0);
  int64_t a = 0, b = 0;
  for (int64_t first = 0; first < numel; first += length) {
    row(first, a, b);
    for (size_t axis = outer; axis-- > 0;) {
      a += strides_a[axis];
      b += strides_b[axis];
      if (++index[axis] < shape[axis]) break;
      a -= index[axis] * strides_a[axis];
      b -= index[axis] * strides_b[axis];
      index[axis] = 0;
    }
  }
}

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

// Strides with which an operand is read as an array of `shape`: extents of 1 and missing axes
// repeat.
Shape BroadcastStrides(const Dense& operand, const Shape& shape) {
  Shape strides(shape.size(), 0);
  if (operand.shape.empty()) return strides;
  const std::vector<int64_t> own = RowMajorStrides(operand.shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = operand.shape[axis] == 1 ? 0 : own[axis];
  }
  return strides;
}

}  // namespace

Dense MakeDense(DType dtype, Shape shape, std::vector<Scalar> elements) {
  return {dtype, std::move(shape),
          std::make_shared<const std::vector<Scalar>>(std::move(elements))};
}

bool Noise::Coin(uint64_t result) {
  if (mode_ == Perturbation::kPattern) {
    // The rows of a Hadamard matrix: columns 1..7 are balanced, and so is any pair of them.
    static_assert(kNumPatterns == 8);
    return std::popcount(seed_ & (1 + result % (kNumPatterns - 1))) % 2 == 0;
  }
  return (Next() & 1) != 0;
}

int Noise::Pick(int n) {
  const uint64_t bits = mode_ == Perturbation::kPattern ? seed_ + result_ : Next();
  return static_cast<int>(bits % static_cast<uint64_t>(n));
}

// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 (SplitMix64).
uint64_t Noise::Next() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double Noise::Move(double value, double bound) {
  if (!active() || !std::isfinite(value) || !std::isfinite(bound)) return value;
  if (mode_ == Perturbation::kAnywhere) {
    // Zero is where operations jump: what may be it is it in some runs.
    if (value != 0 && std::fabs(value) < bound && Coin()) return 0;
    return value + bound * (static_cast<double>(static_cast<int64_t>(Next())) * 0x1p-63);
  }
  return Coin() ? value + bound : value - bound;
}

double Noise::MoveRounding(double value, double bound) {
  return Coin(rounding_) ? value + bound : value - bound;
}

std::vector<bool> InexactValues(const Fusion& fusion) {
  std::vector<bool> inexact(fusion.num_vals(), false);
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    const ExprId e(i);
    const OpInfo& op = fusion.info(e);
    const bool accumulates = op.kind == OpKind::Sum || op.kind == OpKind::Prod ||
                             op.op_class == OpClass::Welford || op.op_class == OpClass::Library;
    bool result = op.max_ulps > 0 || (accumulates && IsFloat(fusion.dtype(fusion.result(e))));
    for (ValId operand : fusion.operands(e)) result = result || inexact[operand.index()];
    for (int r = 0; r < fusion.num_results(e); ++r) inexact[fusion.result(e, r).index()] = result;
  }
  return inexact;
}

Dense Pointwise(OpKind kind, DType out, const Shape& shape, absl::Span<const Dense> operands,
                bool moved, Noise& noise) {
  const size_t numel = static_cast<size_t>(NumElements(shape));
  std::vector<Scalar> result(numel);
  // Operands of the result's shape are read in place, single elements from a block of repetitions,
  // the rest from a copy.
  struct Source {
    const Scalar* data;
    bool repeated;
  };
  std::vector<Source> sources;
  std::vector<std::vector<Scalar>> repetitions(operands.size());
  std::vector<Dense> copies;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Dense& operand = operands[k];
    if (operand.numel() == 1) {
      repetitions[k].assign(std::min(kBlock, numel), operand.data()[0]);
      sources.push_back({repetitions[k].data(), true});
    } else if (operand.shape == shape) {
      sources.push_back({operand.data(), false});
    } else {
      copies.push_back(StridedCopy(operand, 0, BroadcastStrides(operand, shape), shape));
      sources.push_back({copies.back().data(), false});
    }
  }
  const DType in = operands.back().dtype;
  const OpInfo& op = GetOpInfo(kind);
  // The host's own libm errs too, which counts in f64 alone.
  const double ulps = op.max_ulps + (in == DType::F64 ? 1 : 0);
  const bool inexact = noise.active() && op.max_ulps > 0 && IsFloat(out);
  if (inexact) noise.NextResult();
  // An operand that is off by a little is rounded anew with all that follows, which counts where
  // terms cancel afterwards: up or down, so that a few runs reach what all values of the operand
  // may lead to. A cast rounds more than operands move; of f64 nothing is left unrounded here.
  const bool rounds_anew = moved && noise.active() && !inexact && kind != OpKind::Cast &&
                           out == DType::F32 && in == DType::F32;
  if (rounds_anew) noise.NextRounding();
  std::vector<const Scalar*> args(sources.size());
  for (size_t first = 0; first < numel; first += kBlock) {
    const size_t n = std::min(kBlock, numel - first);
    Scalar* block = result.data() + first;
    for (size_t k = 0; k < sources.size(); ++k) {
      args[k] = sources[k].data + (sources[k].repeated ? 0 : first);
    }
    if (kind == OpKind::Cast) {
      CastScalars(in, out, args[0], block, n);
    } else if (rounds_anew) {
      EvalElementwiseUnrounded(kind, in, args.data(), block, n);
      for (size_t i = 0; i < n; ++i) {
        const double value = block[i].f, rounded = RoundToDType(out, value);
        block[i].f = rounded == value || !std::isfinite(rounded)
                         ? rounded
                         : RoundToDType(out, noise.MoveRounding(value, UlpOf(out, value) / 2));
      }
    } else if (!inexact) {
      EvalElementwise(kind, in, out, args.data(), block, n);
    } else {
      EvalElementwiseUnrounded(kind, in, args.data(), block, n);
      for (size_t i = 0; i < n; ++i) {
        // Zeros are exact.
        const double bound = block[i].f == 0 ? 0 : ulps * UlpOf(ComputeType(in), block[i].f);
        block[i].f = RoundToDType(out, noise.Move(block[i].f, bound));
      }
    }
  }
  return MakeDense(out, shape, std::move(result));
}

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

Dense Fill(const Dense& value, Shape shape) {
  const size_t numel = static_cast<size_t>(NumElements(shape));
  return MakeDense(value.dtype, std::move(shape), std::vector<Scalar>(numel, value.data()[0]));
}

Dense Iota(DType dtype, int axis, Shape shape) {
  const int64_t extent = shape[static_cast<size_t>(axis)];
  const int64_t inner =
      NumElements(absl::MakeConstSpan(shape).subspan(static_cast<size_t>(axis) + 1));
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i) / inner % extent;
    result[i] = CastScalar(DType::I64, dtype, IntScalar(index));
  }
  return MakeDense(dtype, std::move(shape), std::move(result));
}

Dense Random(OpKind kind, DType dtype, int64_t seed, int64_t offset, Shape shape, Noise& noise) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  const double ulps = GetOpInfo(kind).max_ulps;
  noise.NextResult();
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    if (kind == OpKind::RandomUniform) {
      result[i].f = RandomUniformValue(dtype, seed, offset, index);
      continue;
    }
    const double x = RandomNormalValue(dtype, seed, offset, index);
    const double bound = noise.active() ? ulps * UlpOf(ComputeType(dtype), x) : 0;
    result[i].f = RoundToDType(dtype, noise.Move(x, bound));
  }
  return MakeDense(dtype, std::move(shape), std::move(result));
}

Dense StridedCopy(const Dense& source, int64_t offset, absl::Span<const int64_t> strides,
                  Shape shape) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  const int64_t length = shape.empty() ? 1 : shape.back();
  const int64_t stride = shape.empty() ? 0 : strides.back();
  ForEachRow(shape, strides, strides, [&](int64_t first, int64_t at, int64_t) {
    const Scalar* from = source.data() + offset + at;
    Scalar* to = result.data() + first;
    if (stride == 1) {
      std::copy(from, from + length, to);
    } else {
      for (int64_t i = 0; i < length; ++i) to[i] = from[i * stride];
    }
  });
  return MakeDense(source.dtype, std::move(shape), std::move(result));
}

Dense Pad(const Dense& source, absl::Span<const int64_t> start, Shape shape, Scalar fill) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)), fill);
  const std::vector<int64_t> strides = RowMajorStrides(shape);
  int64_t offset = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) offset += start[axis] * strides[axis];
  const int64_t length = source.shape.empty() ? 1 : source.shape.back();
  ForEachRow(source.shape, strides, strides, [&](int64_t first, int64_t at, int64_t) {
    std::copy(source.data() + first, source.data() + first + length, result.data() + offset + at);
  });
  return MakeDense(source.dtype, std::move(shape), std::move(result));
}

Dense Concatenate(absl::Span<const Dense> operands, int axis, Shape shape) {
  std::vector<Scalar> result(static_cast<size_t>(NumElements(shape)));
  const size_t a = static_cast<size_t>(axis);
  const int64_t outer = NumElements(absl::MakeConstSpan(shape).subspan(0, a));
  const int64_t inner = NumElements(absl::MakeConstSpan(shape).subspan(a + 1));
  const int64_t row = shape[a] * inner;
  int64_t offset = 0;
  for (const Dense& operand : operands) {
    const int64_t part = operand.shape[a] * inner;
    for (int64_t o = 0; o < outer; ++o) {
      std::copy(operand.data() + o * part, operand.data() + (o + 1) * part,
                result.data() + o * row + offset);
    }
    offset += part;
  }
  return MakeDense(operands[0].dtype, std::move(shape), std::move(result));
}

Dense Gather(const Dense& source, const Dense& index, int axis) {
  const size_t a = static_cast<size_t>(axis);
  const int64_t extent = source.shape[a];
  const int64_t inner = NumElements(absl::MakeConstSpan(source.shape).subspan(a + 1));
  const Scalar zero = CastScalar(DType::I64, source.dtype, IntScalar(0));
  std::vector<Scalar> result(index.elements->size());
  const int64_t index_row = index.shape[a] * inner;
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t outer = static_cast<int64_t>(i) / index_row;
    const int64_t at = ResolveIndex(index.data()[i].i, extent);
    result[i] =
        at < 0 ? zero
               : source.data()[(outer * extent + at) * inner + static_cast<int64_t>(i) % inner];
  }
  return MakeDense(source.dtype, index.shape, std::move(result));
}

Dense IndexSelect(const Dense& source, const Dense& index, int axis) {
  const size_t a = static_cast<size_t>(axis);
  const int64_t extent = source.shape[a];
  const int64_t outer = NumElements(absl::MakeConstSpan(source.shape).subspan(0, a));
  const int64_t inner = NumElements(absl::MakeConstSpan(source.shape).subspan(a + 1));
  const int64_t count = index.numel();
  Shape shape = source.shape;
  shape[a] = count;
  std::vector<Scalar> result(static_cast<size_t>(outer * count * inner),
                             CastScalar(DType::I64, source.dtype, IntScalar(0)));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = ResolveIndex(index.data()[i].i, extent);
      if (at < 0) continue;
      const Scalar* from = source.data() + (o * extent + at) * inner;
      std::copy(from, from + inner, result.data() + (o * count + i) * inner);
    }
  }
  return MakeDense(source.dtype, std::move(shape), std::move(result));
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
