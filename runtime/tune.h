// Tune: times the alternatives to every group's schedule, keeps the fastest, and says how far the
// heuristic was from it.
//
// Each candidate is an Executable of the group alone with that schedule. It must compile without
// spills, and give results within the envelope of the reference, with fewer rows where there are
// too many for that, before it is timed. The fastest few and the heuristic's are timed again,
// longer; a winner that gains less than a hundredth is none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/executable.h"
#include "runtime/gpu_bench.h"
#include "runtime/tuned_schedules.h"

namespace seam {

// Gives what times the calls of a group; `group` is one of its Executables and stays there.
using MakeTimer = std::function<absl::StatusOr<CallTimer>(const Executable& group,
                                                          absl::Span<const SymbolValue> symbols)>;

struct TuneOptions {
  double seconds = 60;  // For all groups together; candidates that are not reached are untried.
  uint64_t seed = 1;    // Of the inputs.
  // Values that the reference computes of a group, all expressions together: rows are left out
  // until there are no more. Where these do not suffice, it is eight times as many at most.
  double checked_values = 1 << 24;
  TunedSchedules* store = nullptr;  // Takes the winners; null: nobody does.
  // Told what is under way.
  std::function<void(const std::string& what)> progress;
  MakeTimer timer;                // Null: on the GPU (TimeOnGpu).
  std::function<double()> clock;  // Seconds since some moment; null: the steady clock's.
};

struct TimedSchedule {
  std::string schedule;
  double us = 0;
};

struct TunedGroup {
  uint32_t group = 0;  // Id in the segmentation.
  SchedulerKind scheduler = SchedulerKind::kNone;
  int same_as = -1;  // Index of the result that holds for this group too, being equal; -1: none.
  std::string heuristic, best;  // Schedules, a line each; equal where nothing is faster.
  double heuristic_us = 0, best_us = 0;
  int tried = 0;    // Timed, beside the heuristic's.
  int failed = 0;   // Could not be lowered, compiled or run, or not at the sizes of the check.
  int spilled = 0;  // Spill registers.
  int wrong = 0;    // Give another result than the reference.
  int untried = 0;  // There was no time for.
  std::vector<TimedSchedule> timed;  // Beside the heuristic's, the fastest first.
  std::string note;  // Why it was not tuned, or the first failure; empty: nothing to tell.

  double ratio() const { return best_us > 0 ? heuristic_us / best_us : 1; }
};

struct TuneResult {
  std::string graph, device;
  std::vector<SymbolValue> symbols;
  std::string directory;  // That keeps the winners; empty: nobody does.
  double seconds = 0;
  std::vector<TunedGroup> groups;  // Those with a schedule to choose, in the order of running.
};

// `symbols` gives all symbols. No call of `executable` may be under way. The kernels that are tried
// stay loaded as long as it lives; it goes on with the schedules that it has. Errors: those of
// CompileFor and of the timer. What befalls one candidate or one group is in the result.
absl::StatusOr<TuneResult> Tune(const Executable& executable, absl::Span<const SymbolValue> symbols,
                                const TuneOptions& options = {});

// The parts, for graphs that one group holds (else kInvalidArgument) and those who time it in their
// own way: the schedule of the heuristic for these sizes, followed by its alternatives or, where
// `fields` lists some, by its variants (scheduler/variants.h);
absl::StatusOr<std::vector<Schedule>> CandidateSchedules(const Executable& executable,
                                                         absl::Span<const SymbolValue> symbols,
                                                         absl::string_view fields = "");
// and Executables of that group with one schedule each, compiled side by side.
absl::StatusOr<std::vector<absl::StatusOr<Executable>>> CompileSchedules(
    const Executable& executable, absl::Span<const SymbolValue> symbols,
    absl::Span<const Schedule> schedules);

// For people, and as JSON.
std::string TuneText(const TuneResult& result);
std::string TuneJson(const TuneResult& result);

}  // namespace seam
