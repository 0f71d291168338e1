// The ways to share neighbouring columns that are rows (Schedule::neighbours) and are read again,
// and what each should take.
//
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "scheduler/choose.h"
#include "scheduler/kept_rows.h"

namespace seam::reduction {

// Bytes of a thread's vector, at the least, threads of a CTA and CTAs of an SM, at the most.
inline constexpr int kLeastVectorBytes = 8, kMostWayThreads = 640, kMostWayCtas = 8;
// Vectors of a thread that reads them from shared memory, and points of narrow data of one that has
// them in registers, at the most: more compilers do not keep packed.
inline constexpr int kMostBroughtVectors = 32, kMostNarrowPoints = 192;
// Registers for addresses; points of a thread that are few.
inline constexpr int kWayAddressWords = 28, kFewWayPoints = 32;

// All ways in vectors of `schedule` or narrower ones that have the registers, and as far as is
// known without a kernel the shared memory, in order of Microseconds. Some hundred are looked at.
std::vector<Schedule> NeighbourWays(const SizedGroup& sized, const KeptRows& rows,
                                    const Schedule& schedule);

// The estimate: the bytes at the memory's rate, more where a warp's or a CTA's piece of a column is
// short, or CTAs come in a few turns the last of which is not full; and what each turn has to
// itself, which the other turns' traffic does not cover. Source of all numbers: 3,580 timings of
// 54 group norms on an H200, docs/schedulers/columns.md, "Ways to share neighbours".
double Microseconds(const SizedGroup& sized, const Schedule& way);

}  // namespace seam::reduction
