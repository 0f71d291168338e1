// Ranges from perturbed runs of the interpreter.
#include "ir/reference/envelope.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/reference/evaluate.h"
#include "ir/status.h"
#include "ir/within_memory.h"

namespace seam {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Enough digits to tell values apart.
std::string FloatText(DType dtype, double value) {
  char text[32];
  std::snprintf(text, sizeof text, dtype == DType::F64 ? "%.17g" : "%.9g", value);
  return text;
}

std::string ValueText(DType dtype, Scalar value) {
  return IsFloat(dtype) ? FloatText(dtype, value.f) : absl::StrCat(value.i);
}

// The range of element `i` of a float envelope with its allowance.
std::pair<double, double> AllowedRange(const Envelope& envelope, size_t i) {
  constexpr double kSlackUlps = 2;
  const double low = envelope.lowest[i].f, high = envelope.highest[i].f;
  if (envelope.exact || !(low <= high)) return {low, high};
  const double half = (high - low) / 2;
  const auto widen = [&](double end, double sign) {
    if (end == kInfinity || end == -kInfinity) return end;
    return end + sign * (half + kSlackUlps * UlpOf(envelope.dtype, end));
  };
  return {widen(low, -1), widen(high, 1)};
}

bool IsWithin(const Envelope& envelope, size_t i, Scalar value) {
  if (!IsFloat(envelope.dtype)) {
    return value.i >= envelope.lowest[i].i && value.i <= envelope.highest[i].i;
  }
  if (value.f != value.f) return envelope.may_be_nan[i];
  const auto [low, high] = AllowedRange(envelope, i);
  return value.f >= low && value.f <= high;
}

// Whether so few elements, of a result of the right type, are outside that their ranges may be at
// fault.
bool MayBeNarrow(const Envelope& envelope, const HostTensor& actual) {
  constexpr int64_t kFew = 16, kOneOf = 64;
  if (envelope.exact) return false;
  const std::vector<Scalar> values = actual.ToScalars();
  int64_t outside = 0;
  for (size_t i = 0; i < values.size(); ++i) outside += !IsWithin(envelope, i, values[i]);
  return outside <= std::max(kFew, static_cast<int64_t>(values.size()) / kOneOf);
}

}  // namespace

void Envelope::Include(const HostTensor& run) {
  const std::vector<Scalar> values = run.ToScalars();
  const bool is_float = IsFloat(run.dtype);
  if (lowest.empty()) {
    dtype = run.dtype;
    shape = run.shape;
    lowest.assign(values.size(), is_float ? FloatScalar(kInfinity) : IntScalar(INT64_MAX));
    highest.assign(values.size(), is_float ? FloatScalar(-kInfinity) : IntScalar(INT64_MIN));
    may_be_nan.assign(values.size(), false);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!is_float) {
      lowest[i].i = std::min(lowest[i].i, values[i].i);
      highest[i].i = std::max(highest[i].i, values[i].i);
    } else if (values[i].f != values[i].f) {
      may_be_nan[i] = true;
    } else {
      lowest[i].f = std::min(lowest[i].f, values[i].f);
      highest[i].f = std::max(highest[i].f, values[i].f);
    }
  }
}

void Envelope::Include(const Envelope& other) {
  const auto less = [&](Scalar a, Scalar b) { return IsFloat(dtype) ? a.f < b.f : a.i < b.i; };
  for (size_t i = 0; i < lowest.size(); ++i) {
    if (less(other.lowest[i], lowest[i])) lowest[i] = other.lowest[i];
    if (less(highest[i], other.highest[i])) highest[i] = other.highest[i];
    if (other.may_be_nan[i]) may_be_nan[i] = true;
  }
  runs += other.runs;
}

namespace {

bool HasProducts(const Fusion& fusion) {
  for (uint32_t e = 0; e < fusion.num_exprs(); ++e) {
    if (fusion.op(ExprId(e)) == OpKind::Prod) return true;
  }
  return false;
}

absl::StatusOr<std::vector<Envelope>> EnvelopesOf(const Fusion& fusion, const SymbolBindings& given,
                                                  absl::Span<const HostTensor> inputs, int runs,
                                                  uint64_t seed) {
  const std::vector<bool> inexact = reference::InexactValues(fusion);
  std::vector<Envelope> envelopes(fusion.outputs().size());
  for (size_t i = 0; i < envelopes.size(); ++i) {
    envelopes[i].exact = !inexact[fusion.outputs()[i].index()];
  }
  const bool exact = std::all_of(envelopes.begin(), envelopes.end(),
                                 [](const Envelope& envelope) { return envelope.exact; });
  if (exact) runs = 0;  // All would be alike.
  for (Envelope& envelope : envelopes) envelope.runs = runs;
  SignsSeen signs;
  const auto include = [&](const InterpretOptions& options) -> absl::Status {
    SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs,
                          Interpret(fusion, given, inputs, options));
    for (size_t i = 0; i < outputs.size(); ++i) envelopes[i].Include(outputs[i]);
    return absl::OkStatus();
  };
  for (int run = 0; run <= runs; ++run) {
    InterpretOptions options;
    if (!exact) options.signs = &signs;
    if (run > 0) {
      const bool pattern = run <= kNumPatterns;
      options.perturbation = pattern        ? Perturbation::kPattern
                             : run % 2 == 0 ? Perturbation::kRandom
                                            : Perturbation::kAnywhere;
      options.seed = pattern ? static_cast<uint64_t>(run - 1) : seed + static_cast<uint64_t>(run);
    }
    SEAM_RETURN_IF_ERROR(include(options));
  }
  if (!signs.any_on_both_sides) return envelopes;
  InterpretOptions options{.signs = &signs, .cancel = true};
  SEAM_RETURN_IF_ERROR(include(options));
  if (!HasProducts(fusion)) return envelopes;
  // A factor of zero is one to whatever the others come to before it: each way once.
  options.perturbation = Perturbation::kPattern;
  for (int way = 0; way < kNumPatterns; ++way) {
    options.seed = static_cast<uint64_t>(way);
    SEAM_RETURN_IF_ERROR(include(options));
  }
  return envelopes;
}

absl::Status CompareWith(const Envelope& envelope, const HostTensor& actual) {
  SEAM_RETURN_IF_ERROR(actual.Check());
  if (actual.dtype != envelope.dtype || actual.shape != envelope.shape) {
    return absl::InvalidArgumentError(absl::StrCat("result is ", actual.ShapeString(),
                                                   ", expected ", DTypeName(envelope.dtype), "[",
                                                   absl::StrJoin(envelope.shape, ", "), "]"));
  }
  const std::vector<Scalar> values = actual.ToScalars();
  int64_t wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsWithin(envelope, i, values[i])) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return absl::OkStatus();
  std::vector<int64_t> index(envelope.shape.size());
  int64_t position = static_cast<int64_t>(first);
  for (size_t axis = index.size(); axis-- > 0;) {
    index[axis] = position % envelope.shape[axis];
    position /= envelope.shape[axis];
  }
  std::string range;
  if (IsFloat(envelope.dtype)) {
    const auto [low, high] = AllowedRange(envelope, first);
    if (low <= high)
      range = absl::StrCat(FloatText(envelope.dtype, low), "..", FloatText(envelope.dtype, high));
    if (envelope.may_be_nan[first]) absl::StrAppend(&range, range.empty() ? "" : " or ", "NaN");
  } else {
    range = absl::StrCat(envelope.lowest[first].i, "..", envelope.highest[first].i);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      wrong, " of ", values.size(), " elements are wrong; first at [", absl::StrJoin(index, ", "),
      "]: expected ", range, ", got ", ValueText(envelope.dtype, values[first])));
}

// CheckOutputs of as many results and ranges as there are outputs.
absl::StatusOr<std::vector<absl::Status>> CheckEach(const Fusion& fusion,
                                                    const SymbolBindings& given,
                                                    absl::Span<const HostTensor> inputs,
                                                    absl::Span<const HostTensor> actual,
                                                    std::vector<Envelope>& envelopes, uint64_t seed,
                                                    int most_runs) {
  std::vector<absl::Status> statuses(actual.size());
  for (const int runs : {0, std::min(50, most_runs), most_runs}) {
    const int seen = envelopes.empty() ? 0 : envelopes[0].runs;
    if (runs > seen) {
      SEAM_ASSIGN_OR_RETURN(const std::vector<Envelope> others,
                            MakeEnvelopes(fusion, given, inputs, runs - seen, seed + runs));
      for (size_t j = 0; j < envelopes.size(); ++j) envelopes[j].Include(others[j]);
    } else if (runs > 0) {
      continue;
    }
    bool narrow = false;
    for (size_t j = 0; j < actual.size(); ++j) {
      statuses[j] = CompareWith(envelopes[j], actual[j]);
      narrow |= absl::IsFailedPrecondition(statuses[j]) && MayBeNarrow(envelopes[j], actual[j]);
    }
    if (!narrow) break;
  }
  return statuses;
}

}  // namespace

absl::StatusOr<std::vector<Envelope>> MakeEnvelopes(const Fusion& fusion,
                                                    const SymbolBindings& given,
                                                    absl::Span<const HostTensor> inputs, int runs,
                                                    uint64_t seed) {
  return WithinMemory<absl::StatusOr<std::vector<Envelope>>>(
      "the ranges of results", [&] { return EnvelopesOf(fusion, given, inputs, runs, seed); });
}

absl::Status CheckWithin(const Envelope& envelope, const HostTensor& actual) {
  return WithinMemory<absl::Status>("the values of a result",
                                    [&] { return CompareWith(envelope, actual); });
}

absl::StatusOr<std::vector<absl::Status>> CheckOutputs(const Fusion& fusion,
                                                       const SymbolBindings& given,
                                                       absl::Span<const HostTensor> inputs,
                                                       absl::Span<const HostTensor> actual,
                                                       std::vector<Envelope>& envelopes,
                                                       uint64_t seed, int most_runs) {
  const size_t outputs = fusion.outputs().size();
  if (actual.size() != outputs || envelopes.size() != outputs) {
    return absl::InvalidArgumentError(absl::StrCat(fusion.name(), ": found ", actual.size(),
                                                   " results and ", envelopes.size(),
                                                   " ranges, expected ", outputs, " of each"));
  }
  return WithinMemory<absl::StatusOr<std::vector<absl::Status>>>("the values of results", [&] {
    return CheckEach(fusion, given, inputs, actual, envelopes, seed, most_runs);
  });
}

}  // namespace seam
