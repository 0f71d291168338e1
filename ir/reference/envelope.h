// Whether a backend's results are right, where floats leave room.
//
// The table bounds the error of every operation (OpInfo::max_ulps), and reductions may be summed in
// any order in their compute type. The interpreter, run several times with every inexact result
// moved within its bound, and every f32 result of such operands rounded up or down, gives a range
// per element that correct implementations stay in, whatever the graph amplifies or cancels on the
// way. Sums and differences that came out on both sides of
// zero are zero in a last run, since a logarithm or a quotient jumps there. Exact graphs have
// ranges of one value: there the comparison is bit for bit.
//
// The bound of a reduction over n terms: min(sqrt(n), 64) + 2 rounding errors of the compute type
// on the sum of the terms' magnitudes: the growth of independent errors, and more than a chain of
// 64 followed by a tree commits. A Welford's m2 adds what an average off by as much does to it.
// Where partial sums may leave the range of the compute type, by the sums of the positive and of
// the negative terms, a result may be infinite or NaN though the sum is neither; a Welford's where
// twice its count times the largest magnitude does. A product, which is computed in f64, may be
// whatever the orders of its factors give where products of some of them leave the range of f64.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/fusion.h"
#include "ir/reference/host_tensor.h"
#include "ir/reference/interpreter.h"

namespace seam {

// The range of each element of one output. Invariant: `lowest` and `highest` have one value per
// element in row-major order; lowest > highest where every run gave NaN.
struct Envelope {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<Scalar> lowest, highest;
  std::vector<bool> may_be_nan;
  int runs = 0;       // Perturbed ones that it has seen.
  bool exact = true;  // No inexact operation and no float reduction leads to this output.

  // Widens the ranges by `run`, a tensor of the same type, or by those of another envelope of the
  // same output.
  void Include(const HostTensor& run);
  void Include(const Envelope& other);
};

// One envelope per output, from the reference and, unless all are exact, `runs` perturbed runs: the
// patterns, then random ones, then one with the zeros that these enclose, and where there are
// products the patterns once more with these.
absl::StatusOr<std::vector<Envelope>> MakeEnvelopes(const Fusion& fusion,
                                                    const SymbolBindings& given,
                                                    absl::Span<const HostTensor> inputs,
                                                    int runs = 12, uint64_t seed = 1);

// OK if every element of `actual` is in its range. Unless the envelope is exact, a range is widened
// on both sides by half its width and two units in the last place of the dtype, since a
// few runs do not reach the ends. Zeros of either sign are equal; NaN is right where a run gave
// NaN. The error says how many elements are wrong and shows the first: index, range, value.
absl::Status CheckWithin(const Envelope& envelope, const HostTensor& actual);

// Runs with which a range is told from what is wrong.
inline constexpr int kMostRuns = 200;

// CheckWithin of each output. Where few elements are outside their ranges, `envelopes`, which
// MakeEnvelopes made of the same fusion and inputs, are widened by more runs, up to `most_runs`
// in all: they tell what is wrong from a range whose ends take several roundings in certain
// directions, as of d[i] - d[i - 1] with d = x - mean(x).
absl::StatusOr<std::vector<absl::Status>> CheckOutputs(
    const Fusion& fusion, const SymbolBindings& given, absl::Span<const HostTensor> inputs,
    absl::Span<const HostTensor> actual, std::vector<Envelope>& envelopes, uint64_t seed = 1,
    int most_runs = kMostRuns);

}  // namespace seam
