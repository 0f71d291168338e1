// How reductions are cut whose rows are neighbours in memory: channels that lie last. Functions of
// the sizes; `schedule` is written to, nothing else.
#pragma once

#include "scheduler/choose.h"
#include "scheduler/kept_rows.h"

namespace seam::reduction {

// Rows that are neighbours in memory: lanes along few of them, a cache line or less, then along
// columns, as warps are. Where the states of a row are in parts, each CTA of its rows reads all of
// these, so few rows also make for little of that.
void ChooseOuter(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// Whether pieces of columns that lie beside those of other rows are so short that a CTA of each row
// reads parts of sectors and cache lines, and so many of them that a few warps have them whole. The
// states of rows that others cross take the registers of more CTAs, which only pays for vectors
// that would be shorter still. Source: docs/schedulers.md.
bool AreNeighboursShort(const SizedGroup& sized);

}  // namespace seam::reduction
