// How threads share a row, and the registers that this takes: what the arrangements of a reduction
// have in common.
//
// Thread-safety: pure functions; `schedule` is written to, nothing else.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "scheduler/choose.h"
#include "scheduler/kept_rows.h"

namespace seam::reduction {

// How many vectors a thread holds while a row takes at least and at most so many threads, in order
// of preference. 16-bit data want two for short rows, so that many CTAs fit an SM, and four, which
// is 64 bytes in flight, for long ones and beside weights; wider data few and narrow while that
// keeps memory busy, more for longer rows, one CTA an SM only for rows that need it. Source:
// schedules timed side by side on an H200, docs/schedulers/tuning.md, "Rows of a warp or a CTA".
struct Share {
  int registers, least, most;
};
// For data of 16 bits and narrower, and for wider.
absl::Span<const Share> SharesFor(const SizedGroup& sized);

// Registers of a thread that unpacks narrow data, beside these.
inline constexpr int kUnpackedWords = 34;
// Registers of a thread for an element of a row's ends, and for where these and the body are, of an
// input.
inline constexpr int kEndWords = 8;
// Registers for the addresses of a thread's many single elements.
inline constexpr int kSingleWords = 12;
// Columns of a row that one CTA handles as well as a cluster.
inline constexpr int64_t kCtaColumns = 12288;
// Registers for what a thread has beside a row and the states of its columns, and the same where
// copies bring rows to CTAs of their own.
inline constexpr int kOtherRegisters = 40, kAheadRegisters = 48;
// Words of weights at a point from which they are loaded late; more want four vectors a thread.
inline constexpr double kManyWeights = 1;
// Rows that start anywhere are shifted from so many vectors on: shorter ones are mostly ends.
inline constexpr int64_t kShiftedVectors = 16;
// Columns of such rows of narrow data up to which one CTA is as fast as a cluster, without states.
inline constexpr int64_t kShiftedCtaColumns = 18432;

// Columns of neighbouring rows that others cross up to which a thread has them all.
inline constexpr int kFewColumns = 32;

// Whether narrow rows lie beside weights of wider elements.
bool HasWideWeights(const SizedGroup& sized, const KeptRows& rows);

// Whether CTAs keep one or two states of a word of each column of rows of a single input: a norm
// beside the statistics of columns, not a backward pass, which reads a gradient too.
bool IsOneInputWithStates(const SizedGroup& sized);

// Registers for each of so many threads of an SM, whose four schedulers have equal parts of them.
int RegistersFor(const DeviceInfo& device, int threads);
// CTAs of so many threads, up to `most` of them an SM, each of whose threads has what it needs;
// compilers give it multiples of eight, and no more than `most_registers`.
int CtasOfRegisters(const DeviceInfo& device, int threads, double need, int most_registers,
                    int most);

// Whether something is written that has columns: sums are not all there is.
bool WritesColumns(const SizedGroup& sized);

// Whether a CTA is to go through each long row step by step, holding none: it reads them only once,
// since no output has their columns and no reduction of them has a use for another one, and there
// are enough of them. Linear in the values of the group.
bool IsForSteps(const SizedGroup& sized, const KeptRows& rows, const Schedule& schedule);

// Threads that have `vectors` vectors, so many each: a power of two below a warp, whole warps
// above.
int ThreadsFor(int64_t vectors, int registers);
// Gives a row these threads, with so many vectors each.
void GiveThreads(int threads, int registers, Schedule& schedule);

// Shares a row of `vectors` vectors among lanes and warps: a power of two below a warp, whole warps
// above. A share that would idle more than a quarter of the row's threads is taken only if there is
// none better. False if no CTA holds the row.
bool ShareRow(const KeptRows& rows, int64_t vectors, absl::Span<const Share> shares,
              Schedule& schedule);

// Whether a CTA can hold a row, if with hardly a register for anything else; `schedule` then says
// how.
bool HoldsRow(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);
// Whether it fits well, in half an SM's registers if the CTA has 512 threads at most.
bool FitsCta(const SizedGroup& sized, const KeptRows& rows, Schedule schedule);

// Gives rows so many warps that a thread has the same ones of the columns that are kept in all of
// its registers, if that idles few of them: it then leaves one state for all.
void AlignToKept(const KeptRows& rows, int64_t columns, Schedule& schedule);

// Leaves room in shared memory for the states of columns that a CTA's threads leave for each other
// (KeptRows::StateBytes): fewer rows a CTA, then fewer columns at once, of rows that are read
// again; and asks an SM for no more CTAs than have room.
void FitKept(const SizedGroup& sized, const KeptRows& rows, Schedule& schedule);

// Bytes of an SM's shared memory: what one CTA may have, and what the driver takes of each.
inline constexpr int64_t kDriverSharedBytes = 1024;
int64_t SmSharedBytes(const DeviceInfo& device);

// Whether so many CTAs an SM as the schedule wants, or one if `any` will do, have the shared memory
// that its kernels take, which of rows that threads bring nothing but the kernels says. As much
// work as Lower.
bool HasRoom(const SizedGroup& sized, const Schedule& schedule, bool any);

// Words of a row's states: of all reductions, or of some.
int StateWords(const SizedGroup& sized);
int StateWords(const SizedGroup& sized, absl::FunctionRef<bool(ExprId)> of);
// Registers of a thread for each of its rows: states, and what is read once a row.
int RowWords(const SizedGroup& sized);

// Of vectors of rows: lanes along so many bytes of neighbouring rows, the others down the columns.
// Rows whose states are merged lie in a CTA all together: the lanes, and the warps side by side,
// that this takes. Where one warp's lanes are not enough the schedule is refused.
void LieAlongRows(const SizedGroup& sized, int bytes, Schedule& schedule);

// CTAs, a set of rows each or a cluster of them.
int64_t OuterCtas(const SizedGroup& sized, const Schedule& schedule);

}  // namespace seam::reduction
