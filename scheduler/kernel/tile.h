// The tile level of the kernel IR: what one kernel computes, before anyone says which thread does
// it.
//
// A kernel runs over rows, which are independent of each other but for neighbours that a reduction
// folds together, and for each row through passes in order. A pass runs over the columns of one
// space; it may fold reductions over them and store values. The result of a reduction is one value
// a row, or one a section of so many neighbouring columns, and can be read in every later pass.
// Values are a directed acyclic graph at one point (row, column):
//
//   row --+-- pass 0 over space 0:  m = sum(load x)            load, map    -> reduce
//         +-- pass 1 over space 0:  s = sum((load x - m/N)^2)  load, map    -> reduce
//         +-- pass 2 over space 0:  store y = (load x - m/N) * rsqrt(s/N)   -> store
//
// A Layout says where each row and column lives: a list of modes, from the fastest to the slowest.
// A value that does not depend on columns drops their modes (every thread of the row holds it); a
// reduction folds them, place by place: vector, registers and steps in the thread, lanes by
// shuffles, warps through shared memory, clusters through that of each of their CTAs, the grid
// through a workspace. ExpandTile (expand.h) turns
// a TileKernel and its Layout into the thread level. Thread-safety: immutable once built.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "ir/scalar.h"
#include "ir/symbolic/sym_int.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

enum class Axis : uint8_t { Row, Column };
enum class Place : uint8_t { Vector, Register, Lane, Warp, Cluster, Grid, Step };

// `extent` coordinates along `axis`, `stride` apart, told apart by `place`.
struct Mode {
  Axis axis;
  Place place;
  SymInt extent;
  SymInt stride;
};

// The modes of rows and columns. Modes at one place are listed from the lowest bits of that place's
// number, so the first Lane mode takes the lowest bits of the lane. A Step or Grid mode of extent 0
// has as many coordinates as are needed. Invariants: at most one Vector mode in all; Register and
// Step modes lie along columns; lane extents are powers of two with product 32; the extents of all
// Lane and Warp modes multiply to the CTA's threads; a Cluster mode lies along columns, a row of
// whose CTAs has all of their threads.
struct Layout {
  std::vector<Mode> modes;

  // Product of the constant extents at `place` along `axis`; 1 when there is none.
  int64_t Extent(Axis axis, Place place) const;
  std::string ToString()
      const;  // "row: lane 4 x1, warp 2 x4, grid x8; column: vector 8 x1, lane 8 x8, ..."
};

using TileId = int;

enum class TileKind : uint8_t {
  Load,  // An element of a buffer.
  Map,   // An elementwise operation or cast of `operands`.
  Constant,
  Index,         // The integer expression `index` as a value of `dtype`.
  Random,        // operands: seed, offset; `index`: linear logical index.
  ReduceResult,  // Component `component` of the result of `reduction`.
};

struct TileValue {
  TileKind kind = TileKind::Constant;
  DType dtype = DType::F32;
  OpKind op = OpKind::Copy;
  std::vector<TileId> operands;
  int buffer = -1;
  SymInt index = 0;
  SymInt predicate = 1;  // Load: where it is false nothing is read, and nobody uses the value.
  Scalar constant = {};
  int reduction = -1;
  int component = 0;
  std::vector<int> lets;  // Indices into TileKernel::lets that `index` and `predicate` use.
};

// A symbol whose value at each point is that of `value`, an i64 tile value within the symbol's
// range.
struct TileLet {
  SymInt symbol;
  TileId value;
};

// `extent` columns, addressed by `column`, a symbol in [0, extent - 1].
struct TileSpace {
  SymInt extent = 1;
  SymInt column;
  bool whole = false;  // Where CTAs share a row, each of them runs over all of these columns.
};

// What a reduction folds: the columns of each row; those of each section of a row; some of them,
// each of the others by itself; all rows, each column by itself; or everything. All but the first
// two end as partial states in memory; the last two are for kernels whose CTAs take rows in turn.
enum class Over : uint8_t { Columns, Sections, SomeColumns, Rows, All };

// Folds `operands` over the points of the space of its pass. One operand, the element; or two whose
// product it is; or, when `merge`, the components of a partial state. Components of a state: one;
// ArgMax, ArgMin: value (the operand's type), index (i64, given by `position` for elements);
// Welford: average, m2, count; Max with an `exponential`: maximum, sum.
struct TileReduction {
  OpKind op = OpKind::Sum;
  DType dtype = DType::F32;  // Of the accumulated value.
  std::vector<TileId> operands;
  Over over = Over::Columns;
  bool merge = false;
  bool products = false;  // Sum: of two operands' products, each added without rounding it first.
  // Max: beside it the sum of this function, exp or exp2, of each element less the maximum.
  std::optional<OpKind> exponential;
  SymInt position = 0;   // ArgMax, ArgMin: the element's index along the reduced axis.
  SymInt predicate = 1;  // Over rows or all: the rows whose elements count.
  // Over columns: of so many rows beside each other, from a multiple of it on, the states are
  // merged, and the result is one for all of them.
  int64_t neighbours = 1;
  // Over columns, of what nothing in the kernel reads: the states of so many rows beside each
  // other, from a multiple of it on, are merged, and left as one. A power of two, of rows that a
  // warp has.
  int64_t together = 1;
  // Over columns, of what nothing in the kernel reads: CTAs of a cluster leave states of their own.
  bool apart = false;
  // Over some columns: of column c it folds all with the same (c / inner) % kept, and a row leaves
  // a state for each of these.
  SymInt kept = 1, inner = 1;
  // Over rows: of each batch by itself (ExpandOptions::batches).
  bool each_batch = false;
  // Over sections: of so many neighbouring columns from a multiple of it on, a power of two.
  int64_t section = 1;
  int pass = 0;
};

struct TileStore {
  TileId value = -1;
  int buffer = -1;
  SymInt index = 0;
  SymInt predicate = 1;
  // The value is the same for so many columns beside each other, of which the first has it stored.
  int64_t section = 1;
  int pass = 0;
};

struct TilePass {
  int space = 0;
};

struct TileKernel {
  std::string name;
  std::string summary;
  std::shared_ptr<ShapeEnv> env;
  std::vector<Buffer> buffers;
  std::vector<SymInt> parameters;
  SymInt rows = 1;
  SymInt row;  // A symbol in [0, rows - 1].
  std::vector<TileSpace> spaces;
  std::vector<TilePass> passes;   // Run in order; a reduction is visible in passes after its own.
  std::vector<TileValue> values;  // Operands come before their users.
  std::vector<TileLet> lets;
  std::vector<TileReduction> reductions;
  std::vector<TileStore> stores;
};

int NumComponents(OpKind reduction);
int NumComponents(const TileReduction& reduction);
DType ComponentType(OpKind reduction, DType dtype, int component);

// Whether it is the result of a reduction over sections, which varies from one to the next.
bool IsOfSection(const TileKernel& kernel, const TileValue& value);
// Whether an index or a mask has a column of any space in it.
bool DependsOnColumn(const TileKernel& kernel, SymInt e);
// Per value: whether it varies from column to column of a row. Linear in the values.
std::vector<bool> VaryingWithColumn(const TileKernel& kernel);
// The same of the rows.
std::vector<bool> VaryingWithRow(const TileKernel& kernel);

// One value without its name: "add(%1, %2)".
std::string PrintValue(const TileKernel& kernel, TileId id);
// One statement a line.
std::string PrintTile(const TileKernel& kernel);

}  // namespace seam::kernel
