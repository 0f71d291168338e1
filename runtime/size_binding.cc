#include "runtime/size_binding.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/footprint.h"
#include "ir/fusion_builder.h"
#include "ir/status.h"

namespace seam {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

// The only symbol of `e` that has no value; kNone where there are none or several.
size_t OnlyUnknown(const SizeBinding& binding, SymInt e) {
  size_t unknown = kNone;
  for (const SymNode* symbol : FreeSymbols(e)) {
    const size_t i =
        std::find(binding.symbols.begin(), binding.symbols.end(), symbol) - binding.symbols.begin();
    if (binding.values[i].has_value()) continue;
    if (unknown != kNone) return kNone;
    unknown = i;
  }
  return unknown;
}

// Gives the only unknown of `e` the value at which `e`, if it is linear in it, is `found`. Returns
// whether it did; `why`, if there, says why no value would do.
bool Solve(SymInt e, int64_t found, SizeBinding& binding, std::string* why = nullptr) {
  if (e.is_constant()) return false;
  const size_t unknown = OnlyUnknown(binding, e);
  if (unknown == kNone) return false;
  std::optional<int64_t>& value = binding.values[unknown];
  const auto at = [&](int64_t x) {
    value = x;
    const absl::StatusOr<int64_t> result = binding.Value(e);
    value.reset();
    return result;
  };
  const SymRange range = binding.symbols[unknown]->range;
  if (e.is_same(SymInt::FromNode(binding.symbols[unknown]))) {
    value = found;
    return true;
  }
  if (range.lo == range.hi) {
    value = range.lo;
    return true;
  }
  const absl::StatusOr<int64_t> first = at(range.lo), second = at(range.lo + 1);
  if (!first.ok() || !second.ok() || *first == *second) return false;
  const int64_t slope = *second - *first;
  const int64_t solution = range.lo + (found - *first) / slope;
  if (why != nullptr) {
    // What is not linear strays from the line at one of the ends.
    const absl::StatusOr<int64_t> last = at(range.hi);
    const absl::int128 line = absl::int128(range.hi - range.lo) * slope + *first;
    if (!last.ok() || line != *last) return false;
    const absl::int128 multiple = absl::int128(range.lo) * slope + (found - *first);
    if (multiple % slope != 0) {
      *why = absl::StrCat(slope, " does not divide ", static_cast<int64_t>(multiple));
    } else {
      *why = absl::StrCat(std::string(binding.symbols[unknown]->name), " would be ", solution,
                          ", expected a value in [", range.lo, ", ", range.hi, "]");
    }
    return false;
  }
  if ((found - *first) % slope != 0) return false;
  if (solution < range.lo || solution > range.hi) return false;
  const absl::StatusOr<int64_t> result = at(solution);
  if (!result.ok() || *result != found) return false;
  value = solution;
  return true;
}

// Those of the symbols of `e` that have a value: " (N = 4, K = 6)", or nothing.
std::string KnownIn(SymInt e, const SizeBinding& binding) {
  std::vector<std::string> parts;
  for (const SymNode* s : FreeSymbols(e)) {
    const size_t i =
        std::find(binding.symbols.begin(), binding.symbols.end(), s) - binding.symbols.begin();
    if (binding.values[i])
      parts.push_back(absl::StrCat(std::string(s->name), " = ", *binding.values[i]));
  }
  return parts.empty() ? "" : absl::StrCat(" (", absl::StrJoin(parts, ", "), ")");
}

// `e` where it is a number, else with its value and that of its symbols: "2*N = 8 (N = 4)".
std::string Explain(SymInt e, int64_t value, const SizeBinding& binding) {
  if (e.is_constant()) return absl::StrCat(value);
  std::string text = absl::StrCat(e.ToString(), " = ", value);
  if (e.node()->kind == SymKind::Symbol) return text;
  return absl::StrCat(text, KnownIn(e, binding));
}

absl::Status CheckRange(const SymNode& symbol, int64_t value, absl::string_view where) {
  if (value >= symbol.range.lo && value <= symbol.range.hi) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, "symbol ", std::string(symbol.name), " is ",
                                                 value, ", expected a value in [", symbol.range.lo,
                                                 ", ", symbol.range.hi, "]"));
}

// Whether any element lies a step along that axis from another one.
bool StrideMatters(const Tensor& tensor, int axis) {
  return tensor.sizes[axis] != 1 &&
         std::find(tensor.sizes.begin(), tensor.sizes.end(), 0) == tensor.sizes.end();
}

absl::Status CheckKind(const Fusion& fusion, ValId v, const Tensor& tensor,
                       absl::string_view what) {
  if (tensor.dtype != fusion.dtype(v)) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": found ", DTypeName(tensor.dtype),
                                                   ", expected ", fusion.type(v).ToString()));
  }
  if (tensor.rank() != fusion.rank(v) || tensor.strides.size() != tensor.sizes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": found ", tensor.rank(), " sizes and ", tensor.strides.size(),
                     " strides, expected ", fusion.rank(v), " for ", fusion.type(v).ToString()));
  }
  for (int d = 0; d < tensor.rank(); ++d) {
    if (tensor.sizes[d] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what, ", axis ", d, ": found the size ", tensor.sizes[d]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> SizeBinding::Value(SymInt e) const {
  if (const std::optional<int64_t> value = e.maybe_int()) return *value;
  const SymNode* unknown = nullptr;
  absl::StatusOr<int64_t> result =
      Evaluate(e, [&](const SymNode* symbol) -> std::optional<int64_t> {
        const size_t i = std::find(symbols.begin(), symbols.end(), symbol) - symbols.begin();
        if (i < std::min(symbols.size(), values.size()) && values[i]) return values[i];
        unknown = symbol;
        return std::nullopt;
      });
  if (!result.ok() && unknown != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no value of the symbol ", std::string(unknown->name), " in [", unknown->range.lo, ", ",
        unknown->range.hi, "] follows from the inputs' sizes and strides, and none is given"));
  }
  if (!result.ok()) return absl::InvalidArgumentError(result.status().message());
  return result;
}

absl::StatusOr<Int64Vector> SizeBinding::Values(absl::Span<const SymInt> expressions) const {
  Int64Vector result;
  for (SymInt e : expressions) {
    SEAM_ASSIGN_OR_RETURN(const int64_t value, Value(e));
    result.push_back(value);
  }
  return result;
}

absl::StatusOr<Int64Vector> SizeBinding::Sizes(const Fusion& fusion, ValId v) const {
  Int64Vector result;
  for (const IterDomain& axis : fusion.domain(v)) {
    SEAM_ASSIGN_OR_RETURN(const int64_t extent, Value(axis.extent));
    if (extent < 0) {
      return absl::InvalidArgumentError(absl::StrCat(std::string(fusion.name(v)), ": the extent ",
                                                     axis.extent.ToString(), " is ", extent,
                                                     " for ", ToString()));
    }
    result.push_back(extent);
  }
  return result;
}

std::string SizeBinding::ToString() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (values[i]) parts.push_back(absl::StrCat(std::string(symbols[i]->name), " = ", *values[i]));
  }
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<SizeBinding> BindGiven(const Fusion& fusion, absl::Span<const SymbolValue> given) {
  SizeBinding binding;
  binding.symbols = fusion.env().symbols();
  binding.values.resize(binding.symbols.size());
  for (const SymbolValue& g : given) {
    size_t i = 0;
    while (i < binding.symbols.size() && binding.symbols[i]->name != g.name) ++i;
    if (i == binding.symbols.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(fusion.name()), " has no symbol ", g.name));
    }
    SEAM_RETURN_IF_ERROR(CheckRange(*binding.symbols[i], g.value, ""));
    if (binding.values[i].value_or(g.value) != g.value) {
      return absl::InvalidArgumentError(absl::StrCat("symbol ", g.name, " is given twice, as ",
                                                     *binding.values[i], " and ", g.value));
    }
    binding.values[i] = g.value;
  }
  return binding;
}

absl::StatusOr<SizeBinding> BindSizes(const Fusion& fusion, absl::Span<const SymbolValue> given,
                                      absl::Span<const Tensor> inputs) {
  SEAM_ASSIGN_OR_RETURN(SizeBinding binding, BindGiven(fusion, given));
  if (inputs.size() != fusion.inputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(fusion.name()), ": found ",
                                                   inputs.size(), " input tensors, expected ",
                                                   fusion.inputs().size()));
  }
  const auto what = [&](size_t i) {
    return absl::StrCat("input ", std::string(fusion.name(fusion.inputs()[i])));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    SEAM_RETURN_IF_ERROR(CheckKind(fusion, fusion.inputs()[i], inputs[i], what(i)));
  }
  // What one tensor determines may be what another one lacked. Strides along which there is no step
  // may be anything: they count where nothing else is left.
  for (const bool any_stride : {false, true}) {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const ValId v = fusion.inputs()[i];
        for (int d = 0; d < fusion.rank(v); ++d)
          progress |= Solve(fusion.domain(v)[d].extent, inputs[i].sizes[d], binding);
        if (!fusion.has_explicit_strides(v)) continue;
        const SymVector strides = fusion.strides(v);
        for (int d = 0; d < fusion.rank(v); ++d) {
          const SymRange range = RangeOf(strides[d]);
          if (StrideMatters(inputs[i], d)) {
            progress |= Solve(strides[d], inputs[i].strides[d], binding);
          } else if (any_stride) {
            progress |=
                Solve(strides[d], std::clamp(inputs[i].strides[d], range.lo, range.hi), binding);
          }
        }
      }
    }
  }
  // "input x, axis 0: ", where that axis is the symbol.
  const auto axis_of = [&](const SymNode* symbol) -> std::string {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValId v = fusion.inputs()[i];
      for (int d = 0; d < fusion.rank(v); ++d) {
        if (fusion.domain(v)[d].extent.node() == symbol)
          return absl::StrCat(what(i), ", axis ", d, ": ");
      }
    }
    return "";
  };
  for (size_t s = 0; s < binding.symbols.size(); ++s) {
    if (!binding.values[s]) continue;
    const SymNode* symbol = binding.symbols[s];
    SEAM_RETURN_IF_ERROR(CheckRange(*symbol, *binding.values[s], axis_of(symbol)));
  }
  // An extent that no value gives is to blame for what its symbol lacks elsewhere.
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValId v = fusion.inputs()[i];
    for (int d = 0; d < fusion.rank(v); ++d) {
      const SymInt extent = fusion.domain(v)[d].extent;
      std::string why;
      Solve(extent, inputs[i].sizes[d], binding, &why);
      if (why.empty()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(what(i), ", axis ", d, ": found ", inputs[i].sizes[d], ", expected ",
                       extent.ToString(), KnownIn(extent, binding), ": ", why));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    SEAM_RETURN_IF_ERROR(CheckTensor(fusion, fusion.inputs()[i], binding, inputs[i], what(i)));
  }
  SEAM_RETURN_IF_ERROR(CheckConstraints(fusion, binding));
  return binding;
}

absl::Status CheckValues(const Fusion& fusion, const SizeBinding& binding) {
  absl::flat_hash_map<SymInt, absl::StatusOr<int64_t>> extents;  // Few differ.
  for (uint32_t i = 0; i < fusion.num_vals(); ++i) {
    const ValId v(i);
    const auto error = [&](const auto&... parts) {
      const ExprId e = fusion.definition(v);
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(fusion.name(v)),
                       e.valid() ? absl::StrCat(", a result of ", fusion.info(e).name) : "", ": ",
                       parts..., " for ", binding.ToString()));
    };
    absl::int128 numel = 1;  // Of factors up to 2^48 and a product that is not larger.
    for (const IterDomain& axis : fusion.domain(v)) {
      const auto [it, is_new] = extents.try_emplace(axis.extent, 0);
      if (is_new) it->second = binding.Value(axis.extent);
      const absl::StatusOr<int64_t>& extent = it->second;
      if (!extent.ok())
        return error("its extent ", axis.extent.ToString(), ": ", extent.status().message());
      numel *= *extent;
      if (*extent > kMaxExtent || numel > kMaxExtent)
        return error(fusion.type(v).ToString(), " has more than 2^48 elements");
    }
    if (const ExprId e = fusion.definition(v); e.valid() && fusion.op(e) == OpKind::Size) {
      const SymInt size = fusion.attributes(e).sizes[0];
      if (const absl::Status status = binding.Value(size).status(); !status.ok())
        return error("its value ", size.ToString(), ": ", status.message());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConstraints(const Fusion& fusion, const SizeBinding& binding) {
  for (const Guard& constraint : fusion.constraints()) {
    SEAM_ASSIGN_OR_RETURN(const int64_t holds, binding.Value(constraint.condition));
    if (holds != 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(constraint.reason, ": found ",
                                                   binding.ToString(), ", expected ",
                                                   constraint.condition.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const Fusion& fusion, ValId v, const SizeBinding& binding,
                         const Tensor& tensor, absl::string_view what) {
  SEAM_RETURN_IF_ERROR(CheckKind(fusion, v, tensor, what));
  for (int d = 0; d < fusion.rank(v); ++d) {
    const SymInt extent = fusion.domain(v)[d].extent;
    const absl::StatusOr<int64_t> expected = binding.Value(extent);
    if (!expected.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ", axis ", d, ": found ", tensor.sizes[d], ", expected ",
                       extent.ToString(), ": ", expected.status().message()));
    }
    if (tensor.sizes[d] == *expected) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, ", axis ", d, ": found ", tensor.sizes[d],
                                                   ", expected ",
                                                   Explain(extent, *expected, binding)));
  }
  const SymVector strides = fusion.strides(v);
  for (int d = 0; d < fusion.rank(v); ++d) {
    if (!StrideMatters(tensor, d)) continue;
    SEAM_ASSIGN_OR_RETURN(const int64_t expected, binding.Value(strides[d]));
    if (tensor.strides[d] == expected) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        what, ", axis ", d, ": found the stride ", tensor.strides[d], ", expected ",
        Explain(strides[d], expected, binding),
        fusion.has_explicit_strides(v) ? "" : ", since the graph declares it contiguous"));
  }
  const absl::StatusOr<ElementSpan> span = SpanOf(tensor.sizes, tensor.strides);
  if (!span.ok())
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", span.status().message()));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorFor(const Fusion& fusion, ValId v, const SizeBinding& binding) {
  if (v.index() >= fusion.num_vals()) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(fusion.name()), " has no value ", v.index()));
  }
  Tensor tensor;
  tensor.dtype = fusion.dtype(v);
  SEAM_ASSIGN_OR_RETURN(tensor.sizes, binding.Sizes(fusion, v));
  if (fusion.has_explicit_strides(v)) {
    SEAM_ASSIGN_OR_RETURN(tensor.strides, binding.Values(fusion.strides(v)));
  } else {
    const std::vector<int64_t> strides = RowMajorStrides(tensor.sizes);
    tensor.strides.assign(strides.begin(), strides.end());
  }
  SEAM_RETURN_IF_ERROR(SpanOf(tensor.sizes, tensor.strides).status());
  return tensor;
}

absl::StatusOr<std::vector<Tensor>> OutputTypes(const Fusion& fusion, const SizeBinding& binding) {
  std::vector<Tensor> types;
  for (ValId v : fusion.outputs()) {
    SEAM_ASSIGN_OR_RETURN(Tensor type, TensorFor(fusion, v, binding));
    // An input that is returned may be a view of itself.
    if (fusion.definition(v).valid() && ElementsOverlap(type.sizes, type.strides)) {
      return absl::InvalidArgumentError(absl::StrCat("output ", std::string(fusion.name(v)), ", ",
                                                     type.ToString(),
                                                     ": elements overlap in memory"));
    }
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace seam
