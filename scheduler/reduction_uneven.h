// Rows of any length: those that do not fill the threads which lengths that divide would have. Each
// function sets threads of a row, vectors of a thread and CTAs an SM together, as they were timed.
//
// Thread-safety: pure functions; `schedule` is written to, nothing else.
#pragma once

#include <cstdint>

#include "scheduler/choose.h"
#include "scheduler/kept_rows.h"

namespace seam::reduction {

// So many vectors a thread, and the registers that this takes.
struct VectorShare {
  int vectors, words;
};

// Registers of a thread beside a row that do not spill.
inline constexpr int kFewestFreeWords = 24;

// Rows of one narrow input beside weights that do not divide evenly. What little a thread has of
// registers it has for more CTAs: a row has two barriers, at which a CTA waits, and so many rows
// must be under way. Three or four vectors, with whichever more CTAs fit an SM; of short rows a
// warp's lanes or half of them. False: shorter or longer than what was timed. Source:
// docs/schedulers/any-length.md, "Rows of any length".
bool ShareUnevenly(int64_t vectors, Schedule& schedule);

// The same of rows that are shifted: short ones to a warp, five to seven vectors a thread, or to
// two, five or seven each; longer ones, which have four, five if more rows are then under way, or
// if four idle a quarter of the threads.
void ShareUnevenlyShifted(int64_t vectors, Schedule& schedule);

// Shifted rows of 32-bit data that have too little under way: as many vectors a thread as have
// most. A row has two barriers or three, at which a CTA waits, so that it is other CTAs that keep
// memory busy, three of them where weights are loaded behind the last one; and the more warps a CTA
// has, the longer it waits. Fitted to layer norms and softmaxes: docs/schedulers/any-length.md,
// "Rows of any length". An RMS norm's do as well with what they have.
void ShareWideShifted(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// Short ones beside few weights or none, for whose ends several warps would wait: a warp with five
// vectors. Two vectors of somewhat longer ones leave too little under way: beside weights three,
// else four from where five warps have them.
void ShareShortShifted(int64_t vectors, double weights, Schedule& schedule);

// Rows that do not fill their threads: as many CTAs an SM as have the registers where these have up
// to three vectors each, or four without weights and no more than three CTAs: else too little is
// under way while they wait at the barriers of their rows. `held` are the registers of a row.
// Source: docs/schedulers/any-length.md, "Few vectors, many CTAs".
void RaiseCtas(const DeviceInfo& device, double held, double weights, Schedule& schedule);

}  // namespace seam::reduction
