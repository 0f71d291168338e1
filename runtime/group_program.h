// A group of the segmentation on its way to running code, and the variants made of it so far.
// Internal to runtime/.
//
// Thread-safety: a Variant is immutable; a GroupProgram's variants are guarded by whoever owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/fusion.h"
#include "ir/symbolic/sym_program.h"
#include "runtime/backend.h"
#include "runtime/tuned_schedules.h"
#include "scheduler/launch_plan.h"
#include "scheduler/scheduler.h"

namespace seam {

// The numbers that a plan needs of a call.
struct PlanSizes {
  std::vector<int64_t> workspace_elements;
  struct Launch {
    int64_t grid = 0;
    std::vector<int64_t> arguments;
  };
  std::vector<Launch> launches;
};

// A lowered schedule of a group with its kernels.
class Variant {
 public:
  static absl::StatusOr<std::shared_ptr<Variant>> Make(const Fusion& group, LaunchPlan plan);

  const LaunchPlan& plan() const { return plan_; }
  absl::Span<const std::shared_ptr<const LoadedKernel>> kernels() const { return kernels_; }
  void set_kernels(std::vector<std::shared_ptr<const LoadedKernel>> kernels) {
    kernels_ = std::move(kernels);
  }

  // `symbols` are values of the group's symbols. Error: kInternal if a guard of the plan does not
  // hold, else as of SymProgram::RunChecked.
  absl::StatusOr<PlanSizes> Sizes(absl::Span<const int64_t> symbols) const;

 private:
  Variant() = default;
  LaunchPlan plan_;
  SymProgram program_;  // Guards, workspaces, the arguments of one launch after the other.
  std::vector<SymProgram> grids_;  // Of a launch's arguments.
  std::vector<std::shared_ptr<const LoadedKernel>> kernels_;
};

// The schedule with 64-bit indices, and its islands'.
Schedule WithIndex64(Schedule schedule);

// Error: kResourceExhausted for a kernel of more threads, shared memory or CTAs of a cluster than
// the device has, which else shows only when it is loaded.
absl::Status CheckRoom(const LaunchPlan& plan, const DeviceInfo& device);

struct GroupProgram {
  uint32_t id = 0;  // In the segmentation.
  std::shared_ptr<const Fusion> group;
  SchedulerKind scheduler = SchedulerKind::kNone;
  std::vector<int> inputs, outputs;  // Indices of values; see CallPlanner.
  std::vector<int> symbols;  // Per symbol of the group: its position among the whole Fusion's.
  std::vector<std::shared_ptr<Variant>> variants;

  std::optional<Schedule> fixed;  // For all calls, in place of one that is chosen.
  // A schedule of the heuristic whose kernels spill registers, and what is taken in its place: one
  // after the other of EasierSchedules, until one spills nothing, in the end the best of them.
  struct Eased {
    Schedule chosen, instead;
    Schedule best;
    int best_spills = 0;            // Bytes.
    std::vector<Schedule> untried;  // The next one last.
  };
  std::vector<Eased> eased;
  // What the heuristic chose so far, by the scheduler, alignment, order and sizes that it was asked
  // for: choosing takes longer than anything else of a call that is compiled already.
  absl::flat_hash_map<std::vector<int64_t>, Schedule> chosen;

  // The variant with this schedule if there is one already, else a new one without kernels. The
  // comment of its kernels ends with `origin`.
  absl::StatusOr<std::shared_ptr<Variant>> FindOrLower(const Schedule& schedule,
                                                       absl::string_view origin) const;
  // The variant for these sizes, all calls on one device: with the schedule that `tuned` (may be
  // null) has for them, if that can be lowered, its guards hold and the device has the room, else
  // with the one that the heuristic chooses. `as` is the group's scheduler, or kPointwise where a
  // group of views is to be copied.
  struct Choice {
    std::shared_ptr<Variant> variant;
    std::string origin;  // "tuned: ...", or why the heuristic chose; empty: there was no choice.
    std::optional<Schedule> chosen;  // By the heuristic, for a call like this one.
  };
  absl::StatusOr<Choice> Choose(SchedulerKind as, const ScheduleContext& context,
                                TunedSchedules* tuned);
  absl::StatusOr<Schedule> ChooseByHeuristic(SchedulerKind as, const ScheduleContext& context);
  // Adds a variant, once its kernels are there, to those that FindOrLower finds.
  void Keep(const std::shared_ptr<Variant>& variant);
  // Forgets those that nobody else has.
  void DropUnused();
  // Called where the kernels of what was taken for `chosen` spill so many bytes: has Choose take
  // another schedule in its place. False if Choose takes what it took.
  bool Ease(const Schedule& chosen, int spills, const DeviceInfo& device);
};

}  // namespace seam
