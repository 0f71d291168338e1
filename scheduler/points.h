// Points: neighbouring rows that one thread has together.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "scheduler/group_shape.h"
#include "scheduler/schedule.h"

namespace seam {

// The shape whose rows are so many neighbours of `shape`'s, along the axes that the schedule says.
// Where the fastest axis of the rows has fewer, the next slower one has the rest. Error:
// kUnimplemented where something crosses the rows, or where their extents are known and are no
// multiples; where they are symbols, that is a guard of the plan.
absl::StatusOr<GroupShape> PointsAsOneRow(const Fusion& group, GroupShape shape,
                                          const Schedule& schedule);

}  // namespace seam
