// LaunchPlan: what a scheduler makes of a group: kernels in order, their arguments and workspaces,
// and the conditions under which the plan may run. Plain data; the runtime compiles and launches
// it, the simulator runs it.
//
// Thread-safety: immutable once built.
#pragma once

#include <string>
#include <vector>

#include "ir/fusion.h"
#include "scheduler/kernel/kernel_ir.h"
#include "scheduler/schedule.h"

namespace seam {

// Where the pointer of a kernel's buffer comes from: the group's inputs, outputs, or the plan's
// workspaces.
struct BufferSource {
  enum Kind : uint8_t { kInput, kOutput, kWorkspace } kind = kInput;
  int index = 0;
  friend bool operator==(const BufferSource&, const BufferSource&) = default;
};

struct KernelLaunch {
  kernel::Kernel kernel;
  std::vector<BufferSource> buffers;  // One for each of kernel.buffers.
  std::vector<SymInt>
      arguments;  // One for each of kernel.parameters, over the group Fusion's symbols.
};

struct Workspace {
  DType dtype = DType::F32;
  SymInt num_elements = 0;  // Over the group Fusion's symbols.
};

// A group that launches nothing: output i is a view of an input, `offset` elements in, with
// `strides`.
struct AliasOutput {
  int input = 0;
  SymInt offset = 0;
  SymVector strides;
};

struct LaunchPlan {
  Schedule schedule;  // Also says what alignment base addresses need.
  std::vector<KernelLaunch> launches;
  std::vector<Workspace> workspaces;
  std::vector<AliasOutput> aliases;  // Alias scheduler only: one an output.
  bool library = false;              // The reference interpreter runs the group; no GPU code yet.
  std::vector<Guard> guards;  // Over the group Fusion's symbols: sizes for which the plan is right.
};

}  // namespace seam
