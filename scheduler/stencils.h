// Stencils: points, or rows that are reduced, that read several elements of one tensor, as those of
// convolutions and pools do. How many of them a thread has, and how long its vectors are.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/choose.h"

namespace seam {

// Points of a thread by the heuristic: of a pointwise group, and rows that are reduced.
inline constexpr int kMostPoints = 8, kMostPointsOfRows = 4;

// A pointwise group's schedule `s`, as it is where no tensor is read so, else with fewer elements a
// vector, a bound of registers, or several points a thread, along the axis along which they have
// most loads in common; or with several single elements a thread where there are no vectors.
// Source: docs/schedulers/stencils.md, "Points that read many". Errors: those of Trace.
absl::StatusOr<Schedule> FitStencil(const SizedGroup& sized, Schedule s);

// `s`, of vectors or tiles, or points along the axis in which memory runs, if a thread then moves
// far less for each element: alone, or with all of another axis, of a few elements, such as the
// channels of an image that lie last in one tensor and in front in another. Source:
// docs/schedulers/stencils.md, "Points that read many". Errors: those of Trace.
absl::StatusOr<Schedule> OrPointsAlongMemory(const SizedGroup& sized, Schedule s);

// The same of rows that threads hold whole: several to a thread where they read each other's
// neighbours, or single elements beside what they share, in more lanes if they have many columns.
absl::StatusOr<Schedule> FitStencilOfRows(const SizedGroup& sized, Schedule s);

// The same with other numbers of points a thread: for tuning.
absl::StatusOr<std::vector<Schedule>> OtherPoints(const SizedGroup& sized, const Schedule& s);

}  // namespace seam
