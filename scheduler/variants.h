// Schedules that differ from a given one in the fields that somebody names, in all combinations of
// their values: for measuring what a heuristic should choose.
//
//   registers=2,4 stages=2,3 pace=0,1     eight schedules, less those that are not valid
//   registers=2 stages=3; registers=4     two
//
// Thread-safety: pure function.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/scheduler.h"

namespace seam {

// `chosen` is the schedule of a reduction whose rows lie along the columns. `fields` lists, with
// spaces between and `;` between lists of their own, plain fields of Schedule with integers,
// `constant`, 1 for a kernel of this length alone, and `thread_registers` for as many CTAs an SM as
// leave a thread so many. What follows from others is set as well: threads of a row from registers,
// vector and cluster, rows of a CTA, the grid from CTAs an SM,
// of clusters no more than there are rows for. Combinations that CheckSchedule
// refuses are left out, as is `chosen`. Whether the others fit the device is not asked. Errors:
// kInvalidArgument naming the part of `fields`; kUnimplemented for other schedules.
absl::StatusOr<std::vector<Schedule>> Variants(const Fusion& group, const Schedule& chosen,
                                               const ScheduleContext& context,
                                               absl::string_view fields);

}  // namespace seam
