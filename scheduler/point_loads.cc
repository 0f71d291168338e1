#include "scheduler/point_loads.h"

#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/points.h"
#include "scheduler/trace.h"

namespace seam {

absl::StatusOr<Loads> LoadsOf(const SizedGroup& sized, const Schedule& s) {
  Loads loads;
  SEAM_ASSIGN_OR_RETURN(loads.traced, TraceWith(sized, s));
  const kernel::TileKernel& tile = loads.traced.tile;
  loads.of_buffer.resize(tile.buffers.size());
  std::vector<double> of_space(tile.spaces.size()), own(tile.spaces.size());
  double of_all = 0;
  for (const kernel::TileValue& value : tile.values) {
    if (value.kind != kernel::TileKind::Load) continue;
    const double words = s.vector * DTypeBytes(value.dtype) / 4.0;
    const bool of_row = tile.row.is_symbolic() && kernel::DependsOn(value.index, tile.row);
    const auto space = absl::c_find_if(tile.spaces, [&](const kernel::TileSpace& space) {
      return space.column.is_symbolic() && kernel::DependsOn(value.index, space.column);
    });
    loads.of_columns += space != tile.spaces.end();
    if (space != tile.spaces.end()) {
      of_space[space - tile.spaces.begin()] += words;
      if (of_row) own[space - tile.spaces.begin()] += words;
    } else if (of_row) {
      of_all += words;
    } else {
      continue;
    }
    ++loads.count;
    loads.of_rows += of_row;
    ++loads.of_buffer[value.buffer];
  }
  if (tile.spaces.empty()) {
    loads.words = loads.own_words = of_all;
  } else {
    loads.words = of_all + *absl::c_max_element(of_space);
    loads.own_words = of_all + *absl::c_max_element(own);
  }
  return loads;
}

absl::StatusOr<std::optional<Loads>> LoadsOfPoints(const SizedGroup& sized, const Schedule& s) {
  constexpr size_t kMostOperations = 12288;  // Of a thread: more take the compiler long.
  absl::StatusOr<Loads> loads = LoadsOf(sized, s);
  if (absl::IsResourceExhausted(loads.status()) || absl::IsUnimplemented(loads.status()))
    return std::nullopt;
  SEAM_RETURN_IF_ERROR(loads.status());
  const auto of_value = static_cast<size_t>(s.vector) * s.registers;
  if (loads->traced.tile.values.size() * of_value > kMostOperations) return std::nullopt;
  return *std::move(loads);
}

absl::StatusOr<std::optional<Schedule>> WithPoints(const SizedGroup& sized, const Schedule& s,
                                                   int along, int points, PointsAlong beside,
                                                   bool may_be_uneven) {
  Schedule with = s;
  with.points = points;
  with.along = points == 1 && along == beside.axis ? (along == 0 ? 1 : 0) : along;
  with.beside = beside.points > 1 ? beside.axis : -1;
  with.beside_points = beside.points;
  with.uneven = may_be_uneven && with.points_of_thread() > 1;
  const absl::StatusOr<GroupShape> shape = PointsAsOneRow(*sized.group, sized.shape, with);
  if (!shape.ok()) return std::nullopt;
  with.uneven = false;
  for (const GroupShape::PointsOfAxis& of : shape->along) {
    const SymInt extent = shape->axes.extent(of.axis);
    SEAM_ASSIGN_OR_RETURN(const int64_t elements, ValueOf(sized, extent));
    if (elements == 0) return std::nullopt;
    const bool divides = elements % of.points == 0;
    if (divides) AddMultiples(sized, FreeSymbols(extent), of.points, with);
    if (!divides && !may_be_uneven) return std::nullopt;
    with.uneven |= !divides;
  }
  return with;
}

std::optional<PointsAlong> AllOf(const SizedGroup& sized, int axis, int64_t most) {
  const std::optional<int64_t> all = sized.shape.axes.extent(sized.shape.rows[axis]).maybe_int();
  if (!all || *all < 2 || *all > most) return std::nullopt;
  return PointsAlong{axis, static_cast<int>(*all)};
}

}  // namespace seam
