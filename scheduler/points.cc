#include "scheduler/points.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace seam {

absl::StatusOr<GroupShape> PointsAsOneRow(const Fusion& group, GroupShape shape,
                                          const Schedule& schedule) {
  const auto refuse = [&](const auto&... why) {
    return absl::UnimplementedError(
        absl::StrCat("group ", std::string(group.name()), ": ", why...));
  };
  const int axes = static_cast<int>(shape.rows.size()), along = schedule.along;
  if (shape.crossed() || shape.sections.size > 1 || along >= axes || schedule.all_of >= axes) {
    return refuse(schedule.points, " points to a thread: there is no axis ", along,
                  " of rows that nothing crosses");
  }
  const auto known = [&](int d) { return shape.axes.extent(shape.rows[d]).maybe_int(); };
  int left = schedule.points;
  for (int d = along; left > 1; --d) {
    const bool is_there = d >= 0 && d != schedule.all_of;
    const std::optional<int64_t> extent = is_there ? known(d) : 0;
    const bool fewer = along + 1 == axes && extent && *extent > 0 && *extent < left;
    const int points = fewer ? static_cast<int>(*extent) : left;
    if ((extent && (*extent == 0 || *extent % points != 0)) || left % points != 0)
      return refuse(schedule.points, " points to a thread do not divide its rows");
    if (points > 1) shape.along.push_back({shape.rows[d], points});
    left /= points;
  }
  shape.points = schedule.points;
  if (schedule.all_of >= 0) {
    const std::optional<int64_t> extent = known(schedule.all_of);
    if (!extent || *extent < 1 || *extent > kMostOfAll) {
      return refuse("no thread has all of axis ", schedule.all_of, ", of ",
                    shape.axes.extent(shape.rows[schedule.all_of]).ToString());
    }
    const int points = static_cast<int>(*extent);
    shape.along.push_back({shape.rows[schedule.all_of], points});
    shape.points *= points;
  }
  shape.row_extent = 1;
  for (AxisId a : shape.rows) shape.row_extent *= shape.Steps(a, shape.axes.extent(a));
  return shape;
}

}  // namespace seam
