// Plants one bug into a kernel, so that a test can see whether the simulator finds it.
#pragma once

#include <optional>

#include "scheduler/kernel/kernel_ir.h"

namespace seam::testing {

enum class Mutation { RemoveBarrier, ShiftIndex, DropPredicate, ChangeShuffleMask };

// The kernel with the bug at the k-th place where it can be, in order of the statements: a barrier
// or wait; the index of a load or a store, also a remote one, which grows by one, of a copy, by 16,
// or of an asynchronous load, by its width; a predicate or condition that is not constant, which
// becomes true; the mask of a shuffle, which is halved or doubled. Nothing if there are no more
// than k such places.
std::optional<kernel::Kernel> Mutate(const kernel::Kernel& kernel, Mutation mutation, int k);

}  // namespace seam::testing
