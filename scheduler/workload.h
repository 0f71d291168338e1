// Workload: what a point of a group asks of the thread that computes it, so that schedules neither
// spill registers nor unroll into text that takes minutes to compile.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "ir/fusion.h"

namespace seam {

struct Workload {
  double words = 0;      // 32-bit registers that hold one element of every input and output.
  int instructions = 0;  // Of a GPU, at one point, without memory accesses.
};
// Linear in the group's expressions. Inputs and outputs of one element are not counted.
Workload WorkloadOf(const Fusion& group);

// Words of a thread's registers that values may take before there are spills: 255 less addresses,
// indices and what is under way.
inline constexpr int kMostWords = 160;

// The largest power of two, at most `limit` and at least 1, of points that a thread can have in
// hand at once.
int MostPoints(const Workload& workload, int limit);

}  // namespace seam
