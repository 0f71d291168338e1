#include "scheduler/column_parts.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace seam {

std::vector<ColumnPart> ColumnPartsOf(const GroupShape& shape) {
  std::vector<ColumnPart> parts;
  for (uint32_t e = 0; e < shape.folds.size(); ++e) {
    const std::vector<AxisId> columns = shape.Columns(shape.axes.space(ExprId(e)));
    if (columns.empty()) continue;
    const auto meets = [&](const ColumnPart& part) {
      return absl::c_any_of(columns, [&](AxisId a) { return absl::c_linear_search(part.axes, a); });
    };
    auto first = absl::c_find_if(parts, meets);
    if (first == parts.end()) first = parts.insert(first, ColumnPart());
    ColumnPart& joined = *first;
    const auto add = [&](const auto& axes, SymInt number) {
      for (AxisId a : axes) {
        if (!absl::c_linear_search(joined.axes, a)) joined.axes.push_back(a);
      }
      joined.columns = Max(joined.columns, number);
    };
    // Others have no axes in common with the first one, so that they meet the columns or nothing.
    parts.erase(std::remove_if(first + 1, parts.end(),
                               [&](const ColumnPart& part) {
                                 const bool met = meets(part);
                                 if (met) add(part.axes, part.columns);
                                 return met;
                               }),
                parts.end());
    add(columns, shape.Extent(columns));
  }
  return parts;
}

size_t PartOf(const GroupShape& shape, const std::vector<ColumnPart>& parts, const AxisSet& axes) {
  const std::vector<AxisId> columns = shape.Columns(axes);
  if (columns.empty()) return parts.size();
  return absl::c_find_if(parts,
                         [&](const ColumnPart& part) {
                           return absl::c_linear_search(part.axes, columns.front());
                         }) -
         parts.begin();
}

}  // namespace seam
