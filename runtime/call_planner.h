// From a segmented Fusion and the sizes of a call to a PreparedCall: which variant serves each
// group, where every value lies, what every launch is given. Internal to runtime/.
//
// Thread-safety: Plan changes the variants; one call at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/backend.h"
#include "runtime/group_program.h"
#include "runtime/memory_plan.h"
#include "runtime/size_binding.h"

namespace seam {

// A value that crosses a group's border.
struct CrossingValue {
  ValId val;
  int input = -1;  // Its place among the Fusion's inputs and outputs.
  int output = -1;
  int num_readers = 0;  // Groups.
};

// A Fusion cut into groups, in the order in which they run.
struct Program {
  std::vector<CrossingValue> values;  // The first are the Fusion's inputs.
  std::vector<GroupProgram> groups;
  // Groups that the guard accepted and no kernel can be made of: each was cut again.
  int num_broken_promises = 0;
  // What the groups compute where they round what crosses; null: what the Fusion says.
  std::shared_ptr<const Fusion> rounded;
};

// What a call looks like as far as plans depend on it.
struct CallShape {
  std::vector<int> input_alignment;  // Bytes: a power of two, at most 16.
  std::vector<Tensor> outputs;  // The declared types; null data where Run is to find the memory.
  std::vector<int> output_alignment;  // Of those with data.
};

class CallPlanner {
 public:
  // `tuned` may be null: then heuristics choose all schedules. `any_order`: CompileOptions has it.
  CallPlanner(const Fusion& fusion, Program& program, Backend& backend, TunedSchedules* tuned,
              bool any_order)
      : fusion_(fusion),
        program_(program),
        backend_(backend),
        tuned_(tuned),
        any_order_(any_order) {}

  // Errors: those of the schedulers, naming the group; kUnimplemented; what loading kernels gives.
  absl::StatusOr<PreparedCall> Plan(const SizeBinding& binding, const CallShape& shape);

  // What the last Plan chose for a group.
  struct Step {
    std::shared_ptr<Variant> variant;  // Null: only views.
    std::string origin;                // As in GroupProgram::Choice, as is the next.
    std::optional<Schedule> chosen;
    SchedulerKind as = SchedulerKind::kNone;
    ScheduleContext context;
    PlanSizes sizes;
    std::vector<int> workspaces;  // Blocks.
    std::vector<int> tracked_workspaces;
  };
  const Step& step(size_t group) const { return steps_[group]; }

 private:
  // Where a value lies.
  struct Storage {
    int base = -1;   // As in PreparedCall::Buffer; -1: in `block`.
    int block = -1;  // One of blocks_.
    int64_t offset_bytes = 0;
    int64_t num_elements = 0;
    int alignment = 16;
    int tracked = -1;
    bool gaps = false;  // In what it is part of.
    Tensor type;        // Null data.
  };

  absl::Status PlaceInputs();
  absl::Status PlanGroup(int step);
  // Makes the outputs of a group of views part of what they view; false where one of them has to be
  // copied.
  absl::StatusOr<bool> PlaceViews(int step, const LaunchPlan& plan, const SizeBinding& sizes);
  absl::Status PlaceResult(int step, int value, const Tensor& type);
  absl::Status LoadKernels();
  // Whether some group is to be planned again, since its kernels spill.
  bool EaseSpills();
  absl::Status PlanOnce();
  void AddSteps();
  int NewBlock(int64_t bytes, int step);
  int Track(int64_t num_elements);
  PreparedCall::Buffer BufferOf(const Storage& storage, bool read_only) const;
  int arena_base() const {
    return static_cast<int>(fusion_.inputs().size() + fusion_.outputs().size());
  }
  int output_base(int output) const { return static_cast<int>(fusion_.inputs().size()) + output; }

  const Fusion& fusion_;
  Program& program_;
  Backend& backend_;
  TunedSchedules* const tuned_;
  const bool any_order_;

  // Of the call being planned.
  const SizeBinding* binding_ = nullptr;
  const CallShape* shape_ = nullptr;
  PreparedCall call_;
  std::vector<Storage> storage_;  // Per value.
  std::vector<MemoryRequest> blocks_;
  MemoryPlan memory_;
  std::vector<Step> steps_;  // Per group.
};

}  // namespace seam
