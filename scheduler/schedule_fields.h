// The plain fields of a Schedule by name: for files of tuned schedules, and for those who vary
// some.
#pragma once

#include "scheduler/schedule.h"

namespace seam {

// Calls `visit` with the name and each plain field of a schedule. A field that is not listed here
// does not compile.
template <typename S, typename Visitor>
void VisitFields(S& s, Visitor visit) {
  auto& [kind, vector, outer, neighbours, points, along, beside, beside_points, uneven,
         lanes_per_row, warps_per_row, row_warps, registers, persistent, split, columns_apart, grid,
         cluster, stages, slices, spare, reread, blocks, runs, tiles, async, tickets, pace, stagger,
         staggered, settled, together, finish_lanes, whole_lanes, one_launch, held, shift, early,
         chan_welford, online, alignment_bytes, index32, min_ctas_per_sm, apart, facts, islands] =
      s;
  (void)kind, (void)facts, (void)islands;  // No plain ones.
  visit("vector", vector);
  visit("outer", outer);
  visit("neighbours", neighbours);
  visit("points", points);
  visit("along", along);
  visit("beside", beside);
  visit("beside_points", beside_points);
  visit("uneven", uneven);
  visit("lanes_per_row", lanes_per_row);
  visit("warps_per_row", warps_per_row);
  visit("row_warps", row_warps);
  visit("registers", registers);
  visit("persistent", persistent);
  visit("split", split);
  visit("columns_apart", columns_apart);
  visit("grid", grid);
  visit("cluster", cluster);
  visit("stages", stages);
  visit("slices", slices);
  visit("spare", spare);
  visit("reread", reread);
  visit("blocks", blocks);
  visit("runs", runs);
  visit("tiles", tiles);
  visit("async", async);
  visit("tickets", tickets);
  visit("pace", pace);
  visit("stagger", stagger);
  visit("staggered", staggered);
  visit("settled", settled);
  visit("together", together);
  visit("finish_lanes", finish_lanes);
  visit("whole_lanes", whole_lanes);
  visit("one_launch", one_launch);
  visit("held", held);
  visit("shift", shift);
  visit("early", early);
  visit("chan_welford", chan_welford);
  visit("online", online);
  visit("alignment_bytes", alignment_bytes);
  visit("index32", index32);
  visit("min_ctas_per_sm", min_ctas_per_sm);
  visit("apart", apart);
}

}  // namespace seam
