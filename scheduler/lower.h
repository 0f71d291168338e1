// Lower: from a group and a Schedule to kernels, the same way for every scheduler that runs over
// rows and columns: trace to the tile level, lay rows and columns over the machine, expand to the
// thread level.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "scheduler/group_shape.h"
#include "scheduler/launch_plan.h"
#include "scheduler/trace.h"

namespace seam {

absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule);

// Room for the states that CTAs leave in parts, in the order of PartialSlots (scheduler/trace.h).
// Linear in the group. Errors: kInvalidArgument for a schedule under which no kernel leaves them.
absl::StatusOr<std::vector<Workspace>> WorkspacesOf(const Fusion& group, const GroupShape& shape,
                                                    const Schedule& schedule);

// What a kernel of the group is called: a C identifier.
std::string KernelName(const Fusion& group, const Schedule& schedule);

// The modes of rows and columns that a schedule stands for.
kernel::Layout LayoutOf(const Schedule& schedule);

}  // namespace seam
