// CrossingTypes: in which element types a value may lie in memory between two kernels.
//
// A value crosses exactly in a narrower type if that type holds every value it can have (its
// elements were cast from it and only moved, negated, compared and the like since), or if all who
// read it round it to that type before they do anything else. With a Narrowing that permits it, an
// f32 value crosses in a half type at the price of one rounding; WideReason says which do not.
//
// All of it is known from the graph, before any cut: so passes price an edge by the type in which
// it will cross, and the pass `narrow` (segmenter/narrow.cc) only has to see who reads what.
// Thread-safety: immutable once found.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "ir/fusion.h"
#include "segmenter/summary.h"

namespace seam {

enum class Narrowing : uint8_t {
  kOff,    // Every value crosses in its own type: the pass `narrow` is switched off.
  kExact,  // In a narrower one where that changes no result.
  kF16,    // Also f32 values in f16, where their range is known to fit.
  kBF16,   // Also f32 values in bf16.
};
absl::string_view NarrowingName(Narrowing narrowing);  // "off", "exact", "f16", "bf16"
std::optional<Narrowing> ParseNarrowing(absl::string_view name);

// What rounding to a float type adds to a value that the type has the range for, at most
// relative * |value| + absolute. Source: half a unit in the last place, IEEE 754 binary16 and
// bfloat16 with 11 and 8 digits; `absolute` is half the smallest subnormal.
struct RoundingError {
  double relative = 0, absolute = 0;
};
RoundingError RoundingErrorOf(DType half);

// Why a permission to round does not extend to a value. The first two forbid exact narrowing as
// well.
enum class WideReason : uint8_t {
  kNone,
  kCaller,     // The caller gave it or gets it.
  kLibrary,    // A library call writes or reads it.
  kType,       // It is no f32 value.
  kStatistic,  // It comes from a reduction alone: small, and what is made of it cancels.
  kDecision,   // Something that jumps follows: an index, a comparison, an integer.
  kMixing,     // It depends on values of the other half type, or they on it.
  kRange,      // f16 may overflow.
};
absl::string_view WideReasonSentence(WideReason reason);  // "the caller gave it or gets it"

class CrossingTypes {
 public:
  // `computed`: per expression, whether a group computes it. Linear in the graph.
  static CrossingTypes Find(const Fusion& fusion, const ValueFacts& facts,
                            const std::vector<bool>& computed, Narrowing narrowing);

  Narrowing narrowing() const { return narrowing_; }
  // The type in which `v` crosses if all its readers are elsewhere.
  DType type(ValId v) const { return TypeFor(v, rounded_to_[v.index()]); }
  // The same if the readers that are elsewhere round it to `rounded_to` (its own type: they do
  // not).
  DType TypeFor(ValId v, DType rounded_to) const;
  // Whether `type` holds every value of `v`.
  bool Holds(ValId v, DType type) const;
  // The type to which `e` rounds its operand `i` before anything else; the operand's own if none.
  DType RoundedBy(ExprId e, int i) const;
  WideReason wide_reason(ValId v) const { return wide_[v.index()]; }

 private:
  CrossingTypes(const Fusion& fusion, Narrowing narrowing)
      : fusion_(&fusion), narrowing_(narrowing) {}
  void FindHeld();
  void FindRounded(const std::vector<bool>& computed);
  void FindPermitted(const ValueFacts& facts, const std::vector<bool>& computed);

  const Fusion* fusion_;
  Narrowing narrowing_;
  std::vector<uint8_t> held_;  // Per value: a bit for every float type that holds it.
  std::vector<DType> rounded_to_;
  std::vector<WideReason> wide_;
};

// Whether `e` hands its operand on as it is: a view, a broadcast, a segment_set.
bool HandsOn(const Fusion& fusion, ExprId e);
// Whether the result of `e` has the elements of its first operand (or of its second and third, for
// `where`) and no others but zero and what pads: the same in any type that holds them.
bool MovesElements(const Fusion& fusion, ExprId e);

// Per value: no finite element of it is larger in magnitude; infinity where nothing is known.
// Linear.
std::vector<double> MagnitudeBounds(const Fusion& fusion);

}  // namespace seam
