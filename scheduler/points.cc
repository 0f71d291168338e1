#include "scheduler/points.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/kernel/access.h"

namespace seam {
namespace {

// Whether so many divide an extent where the facts hold.
bool DividesByFacts(const Fusion& group, SymInt extent, int points,
                    const std::vector<SymbolFact>& facts) {
  for (const SymNode* symbol : group.env().symbols()) {
    for (const SymbolFact& fact : facts) {
      if (fact.symbol != symbol->name) continue;
      const SymInt s = SymInt::FromNode(symbol);
      extent =
          kernel::Substitute(extent, s, fact.value >= 0 ? SymInt(fact.value) : fact.multiple * s);
    }
  }
  return Mod(extent, points).is_same(0);
}

}  // namespace

absl::StatusOr<GroupShape> PointsAsOneRow(const Fusion& group, GroupShape shape,
                                          const Schedule& schedule) {
  const auto refuse = [&](const auto&... why) {
    return absl::UnimplementedError(
        absl::StrCat("group ", std::string(group.name()), ": ", why...));
  };
  const int axes = static_cast<int>(shape.rows.size()), along = schedule.along;
  if (shape.crossed() || shape.sections.size > 1 || along >= axes || schedule.beside >= axes) {
    return refuse(schedule.points, " points to a thread: there is no axis ", along,
                  " of rows that nothing crosses");
  }
  const auto known = [&](int d) { return shape.axes.extent(shape.rows[d]).maybe_int(); };
  const auto divide = [&](int d, int points) {
    return DividesByFacts(group, shape.axes.extent(shape.rows[d]), points, schedule.facts);
  };
  const auto add = [&](int d, int points) {
    if (points > 1)
      shape.along.push_back({shape.rows[d], points, schedule.uneven && !divide(d, points)});
  };
  int left = schedule.points;
  for (int d = along; left > 1; --d) {
    const bool is_there = d >= 0 && d != schedule.beside;
    const std::optional<int64_t> extent = is_there ? known(d) : 0;
    const bool fewer = along + 1 == axes && extent && *extent > 0 && *extent < left;
    const int points = fewer ? static_cast<int>(*extent) : left;
    const bool divides = !extent || (*extent > 0 && (schedule.uneven || *extent % points == 0));
    if (!divides || left % points != 0)
      return refuse(schedule.points, " points to a thread do not divide its rows");
    add(d, points);
    left /= points;
  }
  shape.points = schedule.points;
  if (schedule.beside >= 0) {
    const int points = schedule.beside_points;
    const std::optional<int64_t> extent = known(schedule.beside);
    if (extent && (*extent == 0 || (!schedule.uneven && *extent % points != 0)))
      return refuse(points, " points of axis ", schedule.beside, " do not divide it");
    add(schedule.beside, points);
    shape.points *= points;
  }
  shape.row_extent = 1;
  for (AxisId a : shape.rows) shape.row_extent *= shape.Steps(a, shape.axes.extent(a));
  return shape;
}

}  // namespace seam
