// Launches side by side: kernels that do not wait for each other become one launch, whose first
// CTAs run the first kernel, those after them the second, and so on.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/kernel/join.h"
#include "scheduler/launch_plan.h"

namespace seam {

// Pointers and integers of a launch, in bytes; every device takes as many.
inline constexpr size_t kMaxParameterBytes = 4000;

// What a launch adds to that of those it stands beside.
size_t ParameterBytes(const KernelLaunch& launch, kernel::Parameters parameters);

// Launches of a plan for `group` as one that is called `name`; a single one as it is, but for its
// name. With common parameters their arguments are the same. Linear in the kernels. Errors: those
// of kernel::SideBySide.
absl::StatusOr<KernelLaunch> SideBySide(const Fusion& group, std::string name,
                                        std::vector<KernelLaunch> launches,
                                        kernel::Parameters parameters);

}  // namespace seam
