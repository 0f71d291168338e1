// The arrangements that a reduction's rows and columns can have, a file each; reduction.cc says
// which one is taken. `rows` are those of the schedule's facts and alignment.
//
// Thread-safety: pure functions; `schedule` is written to, nothing else.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/choose.h"
#include "scheduler/kept_rows.h"

namespace seam::reduction {

// Columns are neighbours in memory, and rows fold a small part of theirs: they go step by step.
void ChooseStreamed(const KeptRows& rows, Schedule& schedule);

// Columns are neighbours in memory: a row to some lanes, some warps or a CTA, in registers if they
// have the room.
void ChooseInner(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// The same of rows with sections. Errors: those of Trace.
absl::Status ChooseSections(const SizedGroup& sized, Schedule& schedule);

// Few rows whose columns are those of many tensors that share none: CTAs of their own for each.
// False: of few or short ones CTAs share all columns. Errors: those of ChooseVector.
absl::StatusOr<bool> ChooseColumnsApart(const SizedGroup& sized, Schedule& schedule);

// Has rows that a CTA holds, and takes in turn, brought ahead by copies, if these and the room are
// there, with `states` of each column. Errors: those of Trace.
absl::Status ChooseStages(const SizedGroup& sized, int states, Schedule& schedule);

// Rows of batches that others cross, each batch by itself. Errors: those of Trace.
absl::Status ChooseBatches(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);
// How many CTAs share a batch whose rows such a schedule takes. False: its CTAs' sets of rows do
// not divide a batch.
bool ChooseTeams(const SizedGroup& sized, Schedule& schedule);

// Whether rows are those of one input of 16-bit data or narrower, in vectors of 16 bytes, beside a
// word of weights a column, a layer norm's with both of its parameters, and nothing crosses them.
bool IsOneNarrowInputBesideWeights(const SizedGroup& sized, const KeptRows& rows,
                                   const Schedule& schedule);

// Whether rows lie beside weights of wider elements, more than a word a column or unaligned ones,
// and nothing crosses them. A vector of 16 bytes of weights then sets how many columns lanes step
// by: neighbouring lanes' pieces of longer vectors are 32 bytes apart, and caches take twice as
// long for them.
bool IsBesideWideWeights(const SizedGroup& sized, const KeptRows& rows, const Schedule& schedule);

// Whether threads have narrow data singly or in pairs, of long rows that leave states of kept
// columns: a group norm's backward pass, the channels in front, of an odd number of pixels. They
// are read again, by many small CTAs, instead of being held. Source:
// docs/schedulers/single-elements.md, "Single elements".
bool IsReadInPairs(const SizedGroup& sized, const Schedule& schedule);

// Rows that are neighbours in memory a few columns at a time, as the groups of a group norm with
// the channels last: lanes along these columns, then along rows, so that a warp reads one piece of
// memory; warps down the other columns.
bool IsInterleaved(const SizedGroup& sized, const Schedule& schedule);
void ChooseInterleaved(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// Short rows that vectors do not divide: blocks of them through shared memory, few lanes a row,
// each with many single elements. Else threads load and store these one by one, a few bytes of a
// sector each, lanes idle where a row's length is no multiple of them, and shuffles merge few
// elements. Of rows in pieces a thread has a piece, so that no division says where its elements
// are. False where rows are not neighbours, too long for that, or too few for that many to each SM.
// Errors: those of Trace.
absl::StatusOr<bool> ChooseBlocks(const SizedGroup& sized, Schedule& schedule);

// Rows that are neighbours in memory: lanes along few of them, a cache line or less, then along
// columns, as warps are. Where the states of a row are in parts, each CTA of its rows reads all of
// these, so few rows also make for little of that.
void ChooseOuter(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// Twice as many neighbouring rows to a warp, 256 bytes of each column, where CTAs share rows that
// are read again from memory. False: it reads them in another way. Source:
// docs/schedulers/columns.md, "Longer pieces".
bool LieAlongMoreRows(const SizedGroup& sized, Schedule& schedule);

// Whether columns that are neighbours in memory, beside those of other rows, can be rows of their
// own (Schedule::neighbours): a CTA's warps lie side by side in a multiple of what is odd in their
// number.
bool MayBeRows(const SizedGroup& sized);

// Whether pieces of columns that lie beside those of other rows are so short that a CTA of each row
// reads parts of sectors and cache lines, and so many of them that a few warps have them whole. The
// states of rows that others cross take the registers of more CTAs, which only pays for vectors
// that would be shorter still. Source: docs/schedulers/columns.md, "Neighbouring columns as rows".
bool AreNeighboursShort(const SizedGroup& sized);

// Rows of 16-byte vectors to CTAs or clusters that take them in turn and bring the next ones ahead,
// `states` of each column in registers; rows that copies do not bring, or that would be the only
// ones, to such that load them. False if a CTA for each row does as well, if there are so few rows
// that more CTAs than a cluster's should share them, or if no cluster can hold a row. Errors: those
// of Trace.
absl::StatusOr<bool> ChooseCluster(const SizedGroup& sized, const KeptRows& rows, int states,
                                   Schedule& schedule);

// The same of rows that start anywhere.
absl::StatusOr<bool> ChooseShiftedCluster(const SizedGroup& sized, const KeptRows& rows, int states,
                                          Schedule& schedule);

// Few long rows to clusters that have all of them at once. False if a CTA for each does as well, if
// there are too many, or if no cluster has the registers. Errors: those of Trace.
absl::StatusOr<bool> ChooseOneTurn(const SizedGroup& sized, const KeptRows& rows,
                                   Schedule& schedule);

// Lets threads bring rows along the columns to shared memory themselves, where they load them and
// that pays: the next ones of CTAs that take them in turn, or all that a CTA has.
void ChooseAsync(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// The same of vectors of rows that something over their columns reads again: the fewest CTAs that
// have room for a row, one or a cluster's. False where there is no room, or too little to do.
bool BringOuter(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// CTAs of an SM that have room for vectors of rows that their threads bring.
int CtasThatFit(const SizedGroup& sized, const KeptRows& rows, const Schedule& schedule);

// Neighbouring columns that are rows, and that a CTA or a cluster holds in registers or in shared
// memory. False if none does, or if there are too few of them.
bool HoldNeighbours(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// Rows of a group whose large tensors lie partly along the rows, partly along the columns, in tiles
// of both, `schedule` with its shape, held if a CTA has the registers; nothing where all of them
// lie along the same axis, or rows are crossed. Errors: those of Trace.
absl::StatusOr<std::optional<Schedule>> ChooseTiles(const SizedGroup& sized, Schedule schedule);

// Lets clusters that come one after the other, or take rows one after the other, begin spread over
// the time that memory needs for what they have at once: else they would all load at once, and then
// all compute. Linear in the inputs and outputs.
void ChooseStagger(const SizedGroup& sized, Schedule& schedule);

// Rows that some reductions cross: CTAs take rows in turn, as many of them as the machine holds at
// once, and a thread keeps the states of its columns, so few of them. Errors: those of Trace.
absl::Status ChooseCrossed(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

}  // namespace seam::reduction
