// From the tile level to the thread level: gives every point of a TileKernel to a thread.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "scheduler/kernel/kernel_ir.h"
#include "scheduler/kernel/tile.h"

namespace seam::kernel {

// A load that stays in lasting array number `array` from the phase that makes it, first in its
// kernel, to those behind it, whose kernels find it there.
struct HeldLoad {
  TileId load;
  int array;
  bool found = false;
};

struct ExpandOptions {
  Layout layout;
  // Columns that the layout covers in one step. A space known to have no more is kept in registers
  // between passes.
  int64_t columns_per_step = 1;
  std::vector<bool>
      persistent;  // Per space: its extent is at most columns_per_step (a guard of the plan).
  // Rows have a body of whole aligned vectors and ends of single elements, where a row's first
  // element has this index in memory: an expression over the row symbol. Where CTAs take rows in
  // turn, the columns of the body are those of the first turn. Without it, columns are cut into
  // vectors from the first one on.
  std::optional<SymInt> start;
  // CTAs that share a row and take its vectors in turn. Reductions along the columns that have
  // `partials` also end as partial states in memory: for reduction i, component c, element
  // [n * rows + row] for the nth of the row's CTAs, of buffer partials[i][c]. Those that keep some
  // columns leave a state for each, and each CTA of a cluster its own: element
  // [(row * cluster + rank) * kept + k]. Of rows that leave theirs together: element [row /
  // together].
  int split = 1;
  // With split: the first steps of each CTA, as many as `held`, stay in shared memory, of these
  // loads, which are of inputs at a row and column of a space that CTAs share.
  int held = 0;
  std::vector<HeldLoad> held_loads;
  // CTAs that take rows in turn; 0: a CTA for each set of rows. Reductions over rows then leave a
  // state for each of the CTAs, or of their clusters, one after the other: element [nth * columns +
  // column] of the buffer for Over::Rows, [nth] for Over::All. Rows that are not persistent, and
  // that Over::Rows folds, are a CTA's only ones.
  int grid = 0;
  // With a grid: rows are those of so many batches, one after the other, of `batch_rows` each; with
  // stages or blocks a multiple of a CTA's rows, of which all are one batch's. The grid is then for
  // each batch, and states of reductions over rows are those of all of these CTAs, but for
  // reductions of each batch: element [(nth * batches + batch) * columns + column] for the nth CTA
  // of its grid.
  SymInt batches = 1, batch_rows = 0;
  // With a grid of clusters whose rows do not all start alike: parts of a cluster's rows of which
  // each does, one after the other, if threads keep something of their columns. States of
  // reductions over rows are then as many times as many, [nth * stretches + stretch]. If they keep
  // nothing, rows come as ever.
  int stretches = 1;
  // Rows that bulk copies bring into shared memory ahead of the threads, the one in hand included;
  // 0: threads load them. For CTAs that take rows in turn, and loads that FindRowCopies finds in
  // persistent spaces.
  int stages = 0;
  // Parts of a stage that copies bring each for itself, in the order of the columns: the first pass
  // awaits one after the other, and behind the last pass over each another one follows. Divides the
  // registers of the layout; of rows that are `reread`, one a CTA, without ends, in a fixed order.
  int slices = 1;
  // More of them than the stages hold that have room, fewer than `slices`.
  int spare = 0;
  // Threads bring the vectors that they have of persistent spaces to shared memory, each its own,
  // as far as 4 bytes or more lie together: those of the next turn, or, without a grid, all, and
  // `reread` is set. With blocks: these come by asynchronous loads.
  bool async = false;
  // With stages, blocks or async: each pass reads such rows from shared memory again; else they go
  // to registers.
  bool reread = false;
  // With stages: CTAs take the next rows that nobody has; the first ones, as many as the stages, in
  // a fixed order.
  bool tickets = false;
  // With stages, in a fixed order: turns after which CTAs that are ahead of the others wait for
  // them a little; 0: never.
  int pace = 0;
  // Cycles in which the first `staggered` clusters begin, one after the other.
  int stagger = 0, staggered = 0;
  // What is loaded before the turns is awaited there.
  bool settled = false;
  // The layout's registers are neighbouring columns: with its vector of rows a thread has a tile,
  // which moves in vectors along either axis.
  bool tiles = false;
  // The rows of a CTA go through shared memory as blocks, as far as FindRowBlocks finds them in
  // persistent spaces: with stages what is stored, else what is loaded as well. For CTAs that have
  // whole rows, along the columns.
  bool blocks = false;
  // With blocks, which copies do not bring: a thread's elements are an odd number of neighbours,
  // the layout's registers, in pieces of so many that all blocks have. Threads read and write them
  // two at a time; 0: one by one.
  int64_t odd_run = 0;
  std::vector<std::vector<int>> partials;
  int min_ctas_per_sm = 0;
  // Loads that do not depend on the row are issued in the first pass over their space, if rows stay
  // in registers.
  bool early = false;
  // The first pass over columns that CTAs share goes from the last step to the first, as every
  // second pass over columns that are read again does in any case: what the pass before read last,
  // in a launch or phase of its own perhaps, is still in a cache.
  bool backward = false;
  bool index32 = false;
};

// Linear in the size of the kernel's text. Errors: kInternal for a TileKernel or Layout that breaks
// its invariants.
absl::StatusOr<Kernel> ExpandTile(const TileKernel& tile, const ExpandOptions& options);

}  // namespace seam::kernel
