// The schedules of a reduction that are worth timing: rows in all the ways in which they may be
// shared among threads, CTAs and clusters, brought ahead, kept or read again. Thread-safety: pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/choose.h"

namespace seam {

// As Alternatives does (alternatives.h), of a group that has rows.
absl::StatusOr<std::vector<Schedule>> RowAlternatives(const SizedGroup& sized,
                                                      const Schedule& chosen);

}  // namespace seam
