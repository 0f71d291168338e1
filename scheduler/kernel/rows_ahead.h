// Which loads bulk copies can make, or threads by themselves: rows that come through shared memory
// ahead of the threads.
//
//   turn        0       1       2       3          a CTA takes rows in turn; `stages` of them are
//   threads     row 0   row 1   row 2   row 3      in shared memory or on their way there, and
//   copies      0 1 2   .  3    .  4    .  5       where a row has been read the next one starts
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// The index of a row's first element where most of the stores along the columns lie as it, or, if
// there are none, most of the loads; 0 if there are none of these either. Loads that start
// elsewhere can be put together from neighbouring words, stores cannot.
// Linear in the values.
SymInt RowStart(const TileKernel& tile);
// Whether the first load along the columns starts at another one.
bool IsFirstLoadElsewhere(const TileKernel& tile);

// A load of whole rows that lie in one piece, or in pieces of as many columns each, a channel of
// several images for example.
struct RowCopy {
  int space = 0;     // Its columns.
  SymInt start = 0;  // The index of a piece's first column, over the row and the piece.
  SymInt piece = 0;  // The symbol of that piece.
  int64_t run = 0;   // Columns of a piece; 0: of all of them, which are one.
};

// Per value. A copy moves multiples of 16 bytes: so does the row start and end, proven from the
// index and the extent, or, if `body` > 1, its part of whole vectors of `body` elements, of which
// the first is at the first aligned address behind RowStart. Where CTAs have several rows, these
// are neighbours in memory and copied whole; then all rows of a CTA together start and end so. Of
// rows in pieces a CTA has one, and each piece starts and ends so and is not too short
// (kLeastPieceBytes). Linear in the values.
std::vector<std::optional<RowCopy>> FindRowCopies(const TileKernel& tile, int64_t rows_per_cta,
                                                  int body = 1);

// A thread starts the copies, which takes as long as a short turn where there are many: shorter
// pieces threads load as fast. Source: images timed side by side on an H200,
// docs/schedulers/clusters.md, "Rows in pieces".
inline constexpr int64_t kLeastPieceBytes = 6144;

// Bytes at whose multiples copies begin and end, and of a line of memory.
inline constexpr int kCopyBytes = 16, kLineBytes = 128;

// Elements of a line of memory where the parts of rows that CTAs copy begin anywhere in
// one; 0 where all begin with one, or where they come in pieces. Copies whose ends lie differently
// in their lines are slower, so that such a row lies in shared memory as it does in memory: a layer
// norm's backward pass of 9896 bf16 columns took 399 us, so 381 (an H200, 2026-11-25). Tensors are
// taken to begin with a line; where one does not, its copies are as slow as before.
int64_t LineOf(const TileKernel& tile, const TileValue& value, const RowCopy& copy,
               int64_t rows_per_cta, int64_t cta_columns, int body);
// Elements of shared memory for `elements` of a stage that lie so: whole lines, with room for all
// of one but the last 16 bytes in front.
int64_t StagePitch(int64_t elements, int64_t line);

// Copies that bring so many neighbouring columns of a row, wherever among the row's they begin.
int64_t CopiesOf(const RowCopy& copy, int64_t columns);

// Whether threads can bring a load to shared memory themselves, as far as it can be said without
// layout: one of inputs at each row and column of that space, not at what several have in common.
bool IsOfEachElement(const TileKernel& tile, const TileValue& value, int space);

}  // namespace seam::kernel
