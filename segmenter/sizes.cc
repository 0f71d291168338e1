#include "segmenter/sizes.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace seam {
namespace {

constexpr int64_t kDefaultExtent = 1024;

}  // namespace

int64_t SizeHints::Extent(SymInt extent) const {
  if (const auto constant = extent.maybe_int()) return *constant;
  const auto known = extents_.find(extent.node());
  return known == extents_.end() ? Compute(extent) : known->second;
}

int64_t SizeHints::Compute(SymInt extent) const {
  const absl::StatusOr<int64_t> value =
      Evaluate(extent, [&](const SymNode* symbol) -> std::optional<int64_t> {
        const auto it = symbols_.find(std::string(symbol->name));
        return it == symbols_.end() ? std::nullopt : std::optional<int64_t>(it->second);
      });
  return value.ok() && *value >= 0 ? *value : kDefaultExtent;
}

absl::StatusOr<SizeHints> SizeHints::Create(const Fusion& fusion, const SymbolSizes& bindings,
                                            const CrossingTypes* types) {
  SizeHints hints;
  std::vector<SymInt> extents;
  for (uint32_t i = 0; i < fusion.num_vals(); ++i) {
    for (const IterDomain& d : fusion.domain(ValId(i))) {
      if (!d.extent.is_symbolic()) continue;
      if (hints.extents_.try_emplace(d.extent.node(), 0).second) extents.push_back(d.extent);
    }
  }
  for (SymInt extent : extents) {
    for (const SymNode* symbol : FreeSymbols(extent)) {
      const std::string name(symbol->name);
      if (hints.symbols_.contains(name)) continue;
      int64_t value = std::clamp(kDefaultExtent, symbol->range.lo, symbol->range.hi);
      if (const auto it = bindings.find(name); it != bindings.end()) {
        value = it->second;
        if (value < symbol->range.lo || value > symbol->range.hi) {
          return absl::InvalidArgumentError(absl::StrCat("symbol ", name, " = ", value,
                                                         " is not in ", symbol->range.lo, "..",
                                                         symbol->range.hi));
        }
      }
      hints.symbols_.emplace(name, value);
    }
  }
  for (const auto& [name, value] : bindings) {
    if (hints.symbols_.contains(name) || fusion.env().Find(name).has_value()) continue;
    std::vector<std::string> names;
    for (const auto& [symbol, unused] : hints.symbols_) names.push_back(symbol);
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has no symbol ", name,
        names.empty() ? "; it has none" : absl::StrCat("; it has ", absl::StrJoin(names, ", "))));
  }
  for (SymInt extent : extents) hints.extents_[extent.node()] = hints.Compute(extent);
  hints.bytes_.reserve(fusion.num_vals());
  hints.types_.reserve(fusion.num_vals());
  for (uint32_t i = 0; i < fusion.num_vals(); ++i) {
    const DType type = types == nullptr ? fusion.dtype(ValId(i)) : types->type(ValId(i));
    int64_t bytes = DTypeBytes(type);
    bool empty = false;
    for (const IterDomain& d : fusion.domain(ValId(i))) {
      const int64_t extent = hints.Extent(d.extent);
      empty |= extent == 0;
      if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMostBytes) bytes = kMostBytes;
    }
    hints.bytes_.push_back(empty ? 0 : bytes);
    hints.types_.push_back(type);
  }
  return hints;
}

double SizeHints::Points(const AxisMap& axes, const AxisSet& set) const {
  double points = 1;
  for (AxisId a : set) points *= static_cast<double>(Extent(axes.extent(a)));
  return points;
}

}  // namespace seam
