// Schedule: how a group becomes kernels, as plain data that prints. The same group, sizes and
// device give the same Schedule, and the same group and Schedule give the same bytes of kernel
// text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "segmenter/guard.h"

namespace seam {

// What the schedule assumes of one symbol beyond its range; a guard of the plan. `multiple` > 1:
// the symbol is a multiple of it. `value` >= 0: the symbol has that value, and kernel text holds
// the constant.
struct SymbolFact {
  std::string symbol;
  int64_t multiple = 1;
  int64_t value = -1;
  friend bool operator==(const SymbolFact&, const SymbolFact&) = default;
};

// Most points along another axis that a thread has with each of its points.
inline constexpr int kMostPointsBeside = 128;

struct Schedule {
  SchedulerKind kind = SchedulerKind::kNone;

  // A kernel runs over rows (the axes that every reduction keeps) and columns (the rest). A
  // pointwise kernel has rows only.
  int vector =
      1;  // Elements a thread reads or writes at once, along columns or, if `outer`, along rows.
  bool outer =
      false;  // Rows are contiguous in memory, columns strided: vectors and lanes lie along rows.
  int neighbours = 1;  // Outer: so many neighbouring columns, all up to the next row axis, are rows
                       // of their own, whose states are merged. 1: they are columns.
  int points = 1;   // So many neighbours along an axis of the rows are one row to the rest of the
                    // schedule: a thread has its vectors of each of them, and loads once what
                    // several of them read.
  int along = 0;    // Which axis of the rows that is, slow to fast. If it has fewer, the next
                    // slower one has the rest.
  int beside = -1;  // Not negative: another axis of the rows. With each of its points a
  int beside_points = 1;  // thread has so many neighbours along it, 128 at most.
  bool uneven = false;    // Points need not divide their axes, but where facts say so: those behind
                          // the end are computed as the last one, and are not stored.
  int lanes_per_row = 1;  // Lanes of a warp that share a row: a power of two up to 32.
  int warps_per_row = 1;  // Warps that share a row, exchanging through shared memory.
  int row_warps = 1;      // Warps side by side on different rows.
  int registers = 1;      // Vectors that a thread holds at once along the columns.
  bool persistent = false;     // A row stays in registers between passes; else it is read again.
  int split = 1;               // CTAs that share a row and leave partial states.
  bool columns_apart = false;  // With split: columns of tensors that have none in common have CTAs
                               // of their own, side by side, each part as many.
  int grid = 0;     // CTAs that take rows in turn, each leaving the partial states of what reduces
                    // over rows; 0: a CTA for each set of rows.
  int cluster = 1;  // CTAs of a thread block cluster, each of which has a piece of the row in hand;
                    // `grid` counts all of them. Outer: of each of a CTA's rows.
  int stages = 0;   // Rows that bulk copies bring into shared memory ahead of the threads of such a
                    // CTA, the one in hand included; 0: threads load them. A single one is brought
                    // as soon as threads have the row before in registers, or, with reread, are
                    // done with it.
  int slices = 1;  // With stages that are read again: the parts of a row that come each for itself;
                   // others follow as soon as this turn's last pass is done with them.
  int spare = 0;   // Slices that have room beside those of the stages.
  bool reread = false;  // With stages, blocks or async: between passes rows stay in shared memory,
                        // not registers.
  bool blocks = false;  // The rows of a CTA go through shared memory together: threads move them
                        // in vectors of 16 bytes, or copies bring them if there are stages, and
                        // each row's threads read and write its elements there.
  bool runs = false;   // With blocks: a thread's columns are neighbours; else those of neighbouring
                       // lanes are.
  bool tiles = false;  // Outer: some tensors have neighbours along rows, others along columns. A
                       // thread has a tile, `vector` rows of `registers` neighbouring columns, and
                       // moves it in vectors along either.
  bool async = false;  // Threads bring rows to shared memory themselves, each its own vectors, and
                       // go on: with a grid those of the next turn, while this one's are in
                       // registers or, with reread, beside them; else the rows of a CTA, which stay
                       // there (reread). With blocks: these come so, all at once.
  bool tickets = false;  // With stages: but for the first ones, CTAs take the next rows that nobody
                         // has, not in a fixed order. States of columns, and what is computed from
                         // them, then differ in rounding from run to run.
  int pace = 0;       // With stages, in a fixed order: turns after which CTAs that are ahead of the
                      // others wait for them a little; 0: never.
  int stagger = 0;    // Cycles of the processor in which clusters begin, one after the other,
  int staggered = 0;  // so many of them, which the device holds at once. 0: all at once.
  bool settled = false;  // With stages: what is loaded in front of the turns is awaited there, not
                         // where a turn first reads it, while its own loads are under way.
  int together = 1;      // States of so many rows beside each other, of what folds some axes of the
                         // rows, are merged by the warp that has them: they leave one.
  int finish_lanes = 1;  // Lanes that share a result where the states of rows are merged;
  int whole_lanes = 1;   // one of all batches, where these have left states each.
  bool one_launch = false;  // What merges partial states are phases of the kernel that leaves them,
                            // for a grid that the device holds at once; else kernels of their own.
                            // The phases are launched together or one after the other, as the
                            // backend likes.
  int held = 0;  // Of CTAs that share a row, in one launch: the first steps of each one, which stay
                 // in its shared memory from phase to phase; others are read again.
  bool shift = false;  // Vectors begin at a row's first aligned address; the elements before it,
                       // and those after the last whole vector, are computed one a thread.
  bool early = false;  // What all rows read alike, weights above all, is loaded before the
                       // first reduction, not after.
  bool chan_welford =
      false;  // Statistics in one pass by merging; else mean first, then squared deviations.
  bool online = false;  // Softmax: a sum of exponentials in the pass of the maximum that is taken
                        // off them, by rescaling where it grows; else in the next.
  int alignment_bytes = 16;  // Required of every base address.
  bool index32 = false;      // 32-bit index arithmetic, guarded.
  int min_ctas_per_sm = 0;
  bool apart = false;  // Of an island: its launches are its own.
  std::vector<SymbolFact> facts;
  // Horizontal: the schedules of the islands. Those that are not apart share launches with those
  // that have as many threads.
  std::vector<Schedule> islands;

  int points_of_thread() const { return points * beside_points; }
  int threads() const { return 32 * warps_per_row * row_warps; }
  // Rows of one CTA.
  int64_t rows_per_cta() const {
    return int64_t{32} / lanes_per_row * row_warps * (outer ? vector : 1);
  }
  // The most that `together` may be: rows beside each other whose states one warp has when it
  // leaves them. Where vectors of rows are merged a row a thread (kernel/expand_rows.cc), those of
  // whole warps; 1 where others have a part in them.
  int64_t most_together() const {
    if (split > 1 || cluster > 1 || online) return 1;
    const int64_t of_lanes = int64_t{32} / lanes_per_row * (outer ? vector : 1);
    const int64_t by_row = rows_per_cta() % 32 == 0 ? 32 : 1;
    if (!outer || vector == 1 || threads() % rows_per_cta() != 0) return of_lanes;
    if (warps_per_row > 1) return by_row;
    // What has no neighbours to merge is left by lanes.
    return neighbours > 1 ? std::min(of_lanes, by_row) : of_lanes;
  }
  // Whether all sets of a batch's rows have to be full, where rows are a batch's: as copies bring
  // them.
  bool takes_whole_sets() const { return stages > 0 || blocks; }
  // Columns that a CTA covers at once.
  int64_t columns_per_step() const {
    return int64_t{lanes_per_row} * warps_per_row * registers * (outer ? 1 : vector);
  }
  // Columns of a row that its CTA or the CTAs of its cluster cover at once.
  int64_t columns_at_once() const { return columns_per_step() * cluster; }
  // Where CTAs take rows in turn: CTAs, or clusters of them, the states that they leave of what
  // reduces over rows, and rows that all of them have in hand at once.
  int teams() const { return grid / cluster; }
  int places() const { return teams() * stretches(); }
  int64_t rows_at_once() const { return teams() * rows_per_cta(); }
  // Multiples of so many CTAs that take rows in turn are those of whole clusters and, where rows
  // are shifted, of as many of them as it takes for a CTA's rows to start equally far from an
  // aligned address, whatever their length.
  int grid_step() const;
  // With another grid a cluster whose CTAs keep something of their columns, states or what rows
  // have in common, takes those rows first that start alike, and so on: so many of these parts
  // there are at the most, each with states of its own. 1: all start alike, or a CTA's do not,
  // which copies do not bring then.
  int stretches() const;
  // States that a cluster's CTAs leave of a row for what crosses rows: where threads have vectors
  // of them, one each; else they put theirs together first.
  int row_pieces() const { return outer ? cluster : 1; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
  std::string ToString() const;  // One line: "reduction inner 128x4x8 persistent ..."
};

// What makes the numbers of a pointwise or reduction schedule one that Lower can follow, whatever
// the group:
//  - vector is a power of two up to 16, lanes_per_row one up to 32, alignment_bytes any;
//  - warps_per_row * row_warps is 1 to 32, a CTA's warps; registers is 1 to 256, split 1 to 65535;
//  - a row kept in registers has a CTA to itself (persistent: split 1), and only rows with
//    neighbours along the columns shift (shift: not outer);
//  - columns that are apart are those of rows that CTAs share, unshifted, and do not keep
//    (columns_apart: split above 1, not outer or shift, held 0);
//  - grid is 0 to 65535, and CTAs that take rows in turn do not share them but in clusters, and
//    have vectors of them where threads bring these (grid: split 1, a multiple of cluster; with
//    outer: async);
//  - stages is 0 to 16, and rows that are brought ahead stay with a CTA that takes them in
//    turn (stages: persistent, grid; tickets: two stages at least, not shift, since the
//    rows that a CTA takes then need not start alike; pace: at least 0, with stages, without
//    tickets; settled: stages);
//  - slices is at least 1 and divides registers; of one row that is read again from its stage, in a
//    fixed order (slices > 1: stages, reread, rows_per_cta 1, not tickets, shift or blocks); spare
//    is 0 to slices - 1;
//  - rows that go through shared memory as blocks are whole and a CTA's (blocks: persistent, not
//    outer, not shift, cluster 1; runs: blocks; reread: stages, blocks or async);
//  - tiles are those of a CTA for each set of rows, whose threads load them (tiles: outer, grid and
//    held 0, cluster 1, not async or blocks, registers a power of two up to 64);
//  - threads bring rows that are held whole and that copies do not bring, vectors of them or blocks
//    (async: persistent, not shift, no stages; blocks, or vector > 1 and reread or grid);
//  - clusters begin one after the other within a million cycles (stagger, staggered: both or none,
//    cluster > 1, staggered up to 65535, their product 32 bits);
//  - cluster is a power of two up to 16; a cluster takes one row at a time in turn and holds it
//    whole (cluster > 1: persistent, lanes_per_row 32, row_warps 1, grid a multiple of it) or, with
//    vectors along rows, a CTA's rows (outer: vector > 1, split 1, threads a multiple of the rows);
//    what finishes states is a kernel of its own (cluster > 1: not one_launch);
//  - neighbours is at least 1; those that are rows lie in a CTA all together, vectors of them, and
//    have as many of its threads each (neighbours > 1: outer, vector > 1, the CTA's rows a multiple
//    of it and its threads of these);
//  - points is a power of two up to 16, of rows that a CTA each has and its threads load, and which
//    nothing crosses (points > 1: grid and stages 0, split 1 of a reduction, cluster and neighbours
//    1, not tiles, blocks, async or shift); so are those beside them, 1 to 128 along an axis that
//    is not `along` (beside_points > 1: beside; uneven: points or beside);
//  - finish_lanes and whole_lanes are powers of two up to 32;
//  - together is a power of two up to most_together();
//  - held is 0 to 1024, and what stays does so between phases of CTAs that share rows (held: split
//    above 1, one_launch);
//  - a fact's multiple is at least 1.
// That a persistent row fits, that there are so many neighbours and points, that facts hold, and
// that indices stay within 32 bits are guards of the plan. Error: kInvalidArgument naming the
// field.
absl::Status CheckSchedule(const Schedule& schedule);

}  // namespace seam
