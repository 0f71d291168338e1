// Kernels of the thread-level IR written by hand, as realistic as those that the lowering makes,
// for tests of the printer, the verifier, the emitter and the simulator.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/kernel/kernel_ir.h"

namespace seam::testing {

// Symbols and statements with fewer words. Blocks nest by passing them around.
struct KernelDraft {
  explicit KernelDraft(absl::string_view name, int threads = 128);

  SymInt Parameter(absl::string_view name, int64_t lo = 0, int64_t hi = 1 << 20);
  int Buffer(absl::string_view name, DType dtype, SymInt num_elements, bool written,
             int alignment_bytes = 16);
  int Fragment(absl::string_view name, DType dtype, int count = 1, bool packed = false);
  int Shared(absl::string_view name, DType dtype, int64_t count);
  SymInt Symbol(absl::string_view name, SymInt extent);  // 0..extent-1
  void SetGrid(SymInt grid);

  kernel::Kernel k;
  SymInt block, thread;  // Named "block" and "thread".
};

template <typename Node>
void Emit(kernel::Block* block, Node node) {
  block->push_back(kernel::Stmt{std::move(node)});
}

// y[m] = sum of x[m, :], f32 accumulation. Each CTA takes `rows_per_cta` rows one after the other;
// threads load `vector` elements at a time where N is a multiple of it (a parameter range promises
// that), partial sums meet in warp shuffles, then in shared memory between barriers. Parameters M,
// N; buffers x, y.
kernel::Kernel RowSumKernel(DType dtype, int vector, int rows_per_cta = 2, int threads = 128);

// y = x, `vector` elements a thread with a scalar tail. Parameter n; buffers x, y.
kernel::Kernel VectorCopyKernel(DType dtype, int vector,
                                kernel::CacheHint hint = kernel::CacheHint::Default,
                                bool packed = false);

// y[n] = sum over m of x[m, n]: 32 columns by 4 row groups a CTA, joined in shared memory.
// Parameters M, N.
kernel::Kernel ColumnSumKernel();

// Each of `ctas` CTAs of 128 threads stores the numbers of its elements to w, and behind a barrier
// of the grid takes those of another: y[i] = last - i. Behind another barrier, w[i] = y[i] + last.
// Buffers w and y, i32, an element a thread. Without `barriers`, which is a race, these are left
// out.
kernel::Kernel ExchangeKernel(int ctas, bool barriers = true);

// Each of `ctas` CTAs of 64 threads leaves the numbers of its elements in a lasting array, and
// behind a barrier of the grid takes them in reverse: y[64 * cta + t] = 64 * cta + 63 - t; or -1
// where phases are launched one by one, unless it does not ask, which is a read of what nobody
// wrote. Buffer y, i32.
kernel::Kernel LastingKernel(int ctas, bool asks = true);

// In each of `turns` turns, each of the two warps of every CTA tells its number, counted over all
// CTAs, plus the turn to all CTAs of its cluster, and y[turn, CTA, thread] is one of the numbers
// that the CTA was told. A barrier of the cluster, then a loop of five statements: the number, the
// store to the CTAs, the wait for theirs, the load, the store to y. Buffer y, of type i32 or i64.
kernel::Kernel ClusterKernel(DType dtype, int clusters, int cluster, int turns);

// CTAs take items by ticket until there are none: y[item, thread] is the item, of type i32. One
// loop of eight statements: the ticket of thread 0, which tells the others, a barrier, the load, a
// barrier, the symbol, the way out, the store.
kernel::Kernel TicketKernel(int ctas, int items);

// y = x. Each thread loads `width` elements for the next turn to a place of its own in shared
// memory while it stores those of this one. The first load, then a loop of four statements: the
// wait, the load to registers, the next load, the store. Parameter n, a multiple of width; buffers
// x, y.
kernel::Kernel LoadsAheadKernel(DType dtype, int width, int ctas);

// Integer expressions drawn from `seed` over parameters n, m, the block, the thread and two nested
// loops of 3 (one unrolled), each value stored to an element of its own of the i64 buffer `out`.
// Two CTAs of 32 threads; with `index32` parameters are small enough for the promise to hold.
struct RandomIndexKernel {
  kernel::Kernel kernel;
  std::vector<int64_t> parameters;
  int64_t num_elements = 0;  // Of `out`.
  std::vector<SymInt>
      expressions;  // Element ((block * 9 + 3 * i + j) * expressions + e) * 32 + thread.
  SymInt i, j;      // The loops' symbols.
};
RandomIndexKernel MakeRandomIndexKernel(uint64_t seed, bool index32);

}  // namespace seam::testing
