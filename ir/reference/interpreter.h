// Runs a Fusion on the CPU, one expression after the other: the oracle that every backend is held
// against.
//
// Every operation is computed in double (integers exactly) and rounded to its dtype once, where its
// value is defined. Sums, products, statistics and matrix products accumulate in double.
// Elementwise results are what ir/op_semantics.h says; the rest follows the rules in the header of
// ir/ops.def. Any shape works, also with extents 0 and 1. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "ir/reference/host_tensor.h"

namespace seam {

using SymbolBindings = absl::flat_hash_map<std::string, int64_t>;

// The values of the Fusion's symbols: `given`, and those that follow from the inputs' shapes, where
// an extent is a lone symbol. Checks that every input holds its elements and has its declared
// dtype, rank and extents, every symbol is known and in its declared range, and that the Fusion's
// constraints hold. `inputs` in the order of fusion.inputs().
absl::StatusOr<SymbolBindings> BindSymbols(const Fusion& fusion, const SymbolBindings& given,
                                           absl::Span<const HostTensor> inputs);

// Moves inexact results to the ends of their bounds, to find which results a correct implementation
// may return instead of the reference's. See ir/reference/envelope.h.
enum class Perturbation : uint8_t {
  kNone,
  kPattern,   // All elements of one result the same way; which way follows from the expression and
              // the seed.
  kRandom,    // Each element its own way, by the seed.
  kAnywhere,  // As kRandom, but to a random place within the bound: what is rounded afterwards
              // depends on more than the ends.
};

// Seeds 0 .. kNumPatterns - 1 together move any two results (of seven in a row) in all four
// combinations.
inline constexpr int kNumPatterns = 8;

// On which sides of zero the elements of sums and differences came out, in one run or several: of
// each expression its elements in row-major order, a bit for a value below zero and one for a value
// above; nothing for other operations. Where operands are inexact a difference that came out on
// both sides may be zero itself, where functions jump, though no run hits it.
struct SignsSeen {
  static constexpr uint8_t kBelow = 1, kAbove = 2, kBoth = kBelow | kAbove;
  // Bytes at most; later elements are not looked at.
  static constexpr int64_t kMostBytes = int64_t{1} << 28;

  std::vector<std::vector<uint8_t>> of;
  int64_t bytes = 0;
  bool any_on_both_sides = false;
};

struct InterpretOptions {
  Perturbation perturbation = Perturbation::kNone;
  uint64_t seed = 0;  // Of the perturbation; random operations have theirs as an operand.
  // Each run adds what it sees, if this is there; with `cancel` it changes nothing there, and what
  // was seen on both sides is zero instead, unless other zeros make it NaN.
  SignsSeen* signs = nullptr;
  bool cancel = false;
  // Of the values that are alive at once, 8 bytes an element whatever the dtype.
  int64_t max_bytes = int64_t{16} << 30;
};

// The Fusion's outputs, in order, with the strides that it declares. `inputs` may have any strides.
// Errors: those of BindSymbols; kInvalidArgument where an output's elements would lie in one place;
// kResourceExhausted above max_bytes, naming the expression. About 10 ns an element for a cheap
// operation.
absl::StatusOr<std::vector<HostTensor>> Interpret(const Fusion& fusion, const SymbolBindings& given,
                                                  absl::Span<const HostTensor> inputs,
                                                  const InterpretOptions& options = {});

}  // namespace seam
