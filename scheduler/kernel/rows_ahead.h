// Which loads bulk copies can make: rows that come through shared memory ahead of the threads.
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

// A load of whole rows that lie in one piece.
struct RowCopy {
  int space = 0;     // Its columns.
  SymInt start = 0;  // The index of column 0, over the row.
};

// Per value. A copy moves multiples of 16 bytes: so does the row start and end, proven from the
// index and the extent. Where CTAs have several rows, these are neighbours in memory. Linear in the
// values.
std::vector<std::optional<RowCopy>> FindRowCopies(const TileKernel& tile, int64_t rows_per_cta);

}  // namespace seam::kernel
