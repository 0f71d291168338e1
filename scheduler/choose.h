// What the schedulers' heuristics share: sizes, facts about symbols, and the widest vector that
// memory allows.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/group_shape.h"
#include "scheduler/scheduler.h"
#include "scheduler/trace.h"

namespace seam {

// What the sizes of a group divide a symbol by.
struct Divisors {
  int64_t constant = 1;    // A multiple of all constants.
  bool by_symbol = false;  // It is divided by another symbol, or another one by it.
};

// A group with numbers for its symbols.
struct SizedGroup {
  const Fusion* group;
  GroupShape shape;
  ScheduleContext context;
  int64_t rows = 1;            // Value of shape.row_extent.
  int64_t columns = 1;         // The most that a row has to hold,
  int64_t fewest_columns = 1;  // and the fewest, where there are several to hold.
  int64_t run = 1;             // Columns that are neighbours in memory, up to the next row axis,
  int64_t beside = 1;          // and rows that lie beside each other then.
  int64_t batches = 1;         // Of rows (GroupShape::batch).
  int64_t finished = 0;        // The most results of a reduction that crosses rows,
  int64_t whole = 0;           // and of one that crosses those of all batches, if there are any.
  // Of the large tensors: bytes of an element of the widest and of the narrowest dtype, how many
  // of them are inputs and outputs, and the 32-bit registers that hold an element of each input.
  int widest_bytes = 1, narrowest_bytes = 8, large_inputs = 0, large_outputs = 0;
  double input_words = 0;
  std::vector<Divisors> divisors;  // Of each symbol of the group, in order.
};

// Errors: kInvalidArgument for a wrong number of sizes or one that an extent cannot be computed
// from.
absl::StatusOr<SizedGroup> SizeGroup(const Fusion& group, const ScheduleContext& context);
// The same with the rows that `schedule` has: neighbouring columns may be rows of their own.
absl::StatusOr<SizedGroup> SizeGroup(const Fusion& group, const ScheduleContext& context,
                                     const Schedule& schedule);

// The value of an expression of the group at the context's sizes.
absl::StatusOr<int64_t> ValueOf(const SizedGroup& sized, SymInt expression);

// The group with the rows, the facts and the alignment of a schedule. Errors: those of Trace.
absl::StatusOr<TracedKernel> TraceWith(const SizedGroup& sized, const Schedule& schedule);

// What the group reads of its inputs and writes of its outputs, each once, in bytes.
absl::StatusOr<int64_t> MovedBytes(const SizedGroup& sized);

// Sizes up to this keep every index within 32 bits.
inline constexpr int64_t kIndex32Limit = int64_t{1} << 30;
// The largest number of elements, or of elements that strides reach over, of any value of the
// group.
SymInt LargestReach(const Fusion& group);

// Facts under which vectors of `vector` elements, a power of two, may divide extents and strides:
// for each symbol what it has in common with `vector` times what sizes divide it by.
std::vector<SymbolFact> DivisibilityFacts(const SizedGroup& sized, int vector);

// Adds those of symbols about which the schedule has no fact.
void AddDivisibility(const SizedGroup& sized, int vector, Schedule& schedule);
// The same of these symbols alone, beside what is known of them.
void AddMultiples(const SizedGroup& sized, const std::vector<const SymNode*>& symbols, int multiple,
                  Schedule& schedule);
// Of rows that are whole lines of memory the kernel is told that they are: what the symbols of
// columns are multiples of.
void AddLines(const SizedGroup& sized, Schedule& schedule);

// The axes along which each large tensor's elements lie, slow to fast (MemoryOrders).
absl::StatusOr<std::vector<std::vector<AxisId>>> OrdersOfLarge(const SizedGroup& sized);

// Whether some large tensors of rows and columns have neighbours along the rows, others along the
// columns.
absl::StatusOr<bool> LieAcross(const SizedGroup& sized);

// Whether every large tensor is read and written in whole vectors of the schedule, or in single
// elements that all of a vector share. Sets schedule.facts to no more than that takes, index32 and
// alignment_bytes.
absl::StatusOr<bool> ChooseFacts(const SizedGroup& sized, Schedule& schedule);

// Sets schedule.vector and schedule.facts: the widest vector, at most `limit`, with which every
// large tensor is read and written in whole vectors or in single elements that all of a vector
// share, with no more facts than that takes. Sets schedule.index32 and alignment_bytes too.
absl::Status ChooseVector(const SizedGroup& sized, int limit, Schedule& schedule);
// The same of `elements` beside each other, whatever part of the large tensors' bytes is then moved
// one by one, which is the result (more than 1 where a tensor is read at several places). Source of
// the usual number, of which enough of memory is under way: docs/schedulers/single-elements.md,
// "Single elements of points".
inline constexpr int kSingleElements = 4;
absl::StatusOr<double> TakeElements(const SizedGroup& sized, int elements, Schedule& schedule);

// What memory moves at least.
inline constexpr int kSectorBytes = 32;

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int PowerOfTwoAtLeast(int64_t n, int cap) {
  int p = 1;
  while (p < n && p < cap) p *= 2;
  return p;
}

// Makes the kernel one for these symbols' values alone.
void Pin(const SizedGroup& sized, const std::vector<const SymNode*>& symbols, Schedule& schedule);

// The same for rows of this length, in which no mask is left where the threads cover it exactly: a
// quarter less instructions of a layer norm's backward pass.
void PinColumns(const SizedGroup& sized, Schedule& schedule);

// Vectors of a row: of a shifted one those of its body.
int64_t VectorsOf(const SizedGroup& sized, const Schedule& schedule);

// Of a column: the states of reductions that cross the rows.
int ColumnStates(const SizedGroup& sized);

// CTAs that the device is sure to hold at once.
int64_t ResidentCtas(const Schedule& schedule, const DeviceInfo& device);

}  // namespace seam
