// Which loads and stores the rows of a CTA make together: short rows that are neighbours in memory
// are one block, or a block a piece where a row lies in pieces.
//
//   memory   | row 0 | row 1 | ... | row R-1 |   dense; begins and ends at a multiple of 16 bytes
//                 16 bytes at a time, by all threads of the CTA
//   shared   | row 0 | row 1 | ... | row R-1 |
//                 element by element, each row by its own threads
//
// So rows of any length move in vectors. What is stored takes the place of a load that the threads
// have read by then. Thread-safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// A block moves in vectors of so many bytes. Through registers a thread has so many of all loaded
// blocks under way at once.
inline constexpr int kMoveBytes = 16;
inline constexpr int64_t kMostUnderWay = 8;

// Of one tensor: a row has `pieces` of `run` columns, beside which the same piece of the next row
// lies.
struct RowBlock {
  int space = 0;
  int buffer = 0;
  SymInt index;  // Over row and column.
  SymInt run, pieces;
  int array = 0;  // Of RowBlocks::arrays.
};

struct RowBlocks {
  std::vector<std::optional<RowBlock>> loads;   // Per tile value.
  std::vector<std::optional<RowBlock>> stores;  // Per tile store.
  std::vector<DType> arrays;                    // Shared arrays, each of a CTA's rows.
};

// Blocks of `rows` rows in the spaces whose rows stay with their threads: in registers from the
// first read on or, if `reread`, in shared memory. Those are loads and stores
// without conditions, of buffers aligned to 16 bytes, whose index shows that blocks begin at
// multiples of that; without `loads`, stores alone. Linear in the values, quadratic in the loads
// and stores that are found.
RowBlocks FindRowBlocks(const TileKernel& tile, int64_t rows, const std::vector<bool>& held,
                        bool reread, bool loads = true);

// The length of the pieces of all these blocks, if it is a multiple of `part`, an odd number of
// elements that a thread has of one; else 0, and where all elements are whole words: threads with
// an odd number of those read them one by one without a bank conflict.
int64_t OddRun(const RowBlocks& blocks, int64_t part);

}  // namespace seam::kernel
