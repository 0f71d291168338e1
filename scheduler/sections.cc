#include "scheduler/sections.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "scheduler/group_shape.h"

namespace seam {
namespace {

// Whether what is computed from such a reduction, and not folded again, is read at other columns:
// anywhere in the Fusion, since a guard is not told which of its expressions the group has.
bool IsReadElsewhere(const Fusion& fusion, const AxisMap& axes, absl::Span<const ExprId> reductions,
                     const AxisSet& kept) {
  std::vector<bool> of_section(fusion.num_vals());
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    const ExprId e(i);
    bool follows = false;
    if (IsReduction(fusion.info(e).op_class)) {
      follows = axes.kept(e) == kept && absl::c_linear_search(reductions, e);
    } else if (fusion.info(e).op_class != OpClass::Library) {
      for (size_t k = 0; k < fusion.operands(e).size(); ++k) {
        if (!of_section[fusion.operands(e)[k].index()]) continue;
        if (!axes.exchanged(e, static_cast<int>(k)).empty()) return true;
        follows = true;
      }
    }
    for (int r = 0; r < fusion.num_results(e); ++r)
      of_section[fusion.result(e, r).index()] = follows;
  }
  return false;
}

}  // namespace

Sections FindSections(const Fusion& fusion, const AxisMap& axes,
                      absl::Span<const ExprId> reductions, const AxisSet& space) {
  Sections found;
  const auto missing = [&](const char* what) {
    found.missing = what;
    return found;
  };
  AxisSet kept;  // By what folds sections.
  found.rows = kept = axes.kept(reductions[0]);
  for (ExprId e : reductions) {
    if (axes.kept(e).size() < found.rows.size()) found.rows = axes.kept(e);
    if (axes.kept(e).size() > kept.size()) kept = axes.kept(e);
  }
  if (kept == found.rows || !IsSubset(found.rows, kept)) {
    return missing(
        "two reductions whose results are used again keep different axes, and neither keeps all "
        "that the other one does");
  }
  for (ExprId e : reductions) {
    if (axes.kept(e) != found.rows && axes.kept(e) != kept)
      return missing("reductions fold parts of each row's columns of more than one kind");
    if (axes.space(e) != space) {
      return missing(
          "a reduction folds a part of each row's columns, and another one does not run over all "
          "of them");
    }
  }
  found.columns = Difference(kept, found.rows);
  found.folded = Difference(space, kept);
  SymInt size = 1, columns = 1;
  for (AxisId a : found.folded) size *= axes.extent(a);
  for (AxisId a : Difference(space, found.rows)) columns *= axes.extent(a);
  found.size = size.maybe_int().value_or(0);
  const bool power_of_two = found.size > 1 && (found.size & (found.size - 1)) == 0;
  static_assert(kMostSection == 256 && kMostSectionedColumns == 16384, "as the sentences say");
  if (!power_of_two || found.size > kMostSection) {
    return missing(
        "a reduction folds a part of each row's columns, which lanes exchange where these are a "
        "known power of two, up to 256");
  }
  if (RangeOf(columns).hi > kMostSectionedColumns) {
    return missing(
        "a reduction folds a part of each row's columns, for which a CTA holds rows that are known "
        "to have 16384 columns or fewer");
  }
  for (ExprId e : reductions) {
    if (!absl::c_binary_search(found.folded, LastAxis(fusion, axes, e)))
      return missing("a reduction folds a part of each row's columns, and these are no neighbours");
  }
  if (IsReadElsewhere(fusion, axes, reductions, kept)) {
    return missing(
        "a reduction folds a part of each row's columns, and what follows it is read at other "
        "columns");
  }
  return found;
}

}  // namespace seam
