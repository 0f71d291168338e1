// Cuts a Fusion into a Program: the groups that the segmenter makes, in the order in which they
// run. Internal to runtime/.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/call_planner.h"
#include "runtime/executable.h"
#include "scheduler/scheduler.h"

namespace seam {

// Segments with the schedulers' guard at the size hints, or loads the segmentation of the options.
// An output that is also an input gets a group of its own, which copies it. Every group is one that
// kernels can be made of: where `guard` accepted another one, it is cut again.
absl::StatusOr<Program> SegmentProgram(const Fusion& fusion, const CompileOptions& options,
                                       const SchedulabilityGuard& guard = RealGuard());

// The whole Fusion as one library call, for the interpreter.
Program WholeProgram(std::shared_ptr<const Fusion> fusion);

}  // namespace seam
