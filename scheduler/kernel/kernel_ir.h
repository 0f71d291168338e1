// The thread level of the kernel IR: what one thread of a CTA does, statement by statement.
//
// A Kernel is plain data. The emitter turns it into CUDA C++, the simulator runs it on the CPU, the
// printer shows it, VerifyKernel checks it. Integers (addresses, loop bounds, masks, slots) are
// SymInts of the kernel's own ShapeEnv; data live in fragments, which are small register arrays,
// and in shared arrays.
//
// Values in a fragment are held in the register type of its dtype and are always rounded to that
// dtype. Thread-safety: immutable once built; read from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/scalar.h"
#include "ir/symbolic/sym_int.h"

namespace seam::kernel {

// A register array private to each thread. Every access uses a slot that is a constant once
// unrolled loops are expanded, so that the compiler keeps it in registers.
struct Fragment {
  std::string name;
  DType dtype = DType::F32;
  int count = 1;
  // Held as the memory bits of dtype (two bf16 in 32 bits); unpacked when read.
  bool packed = false;
};

struct SharedArray {
  std::string name;
  DType dtype = DType::F32;
  int64_t count = 1;
  // Not negative: what a CTA stores in one phase it may load in those behind it, if they run in one
  // launch (Kernel::together). Kernels that become phases of one share the array of a number.
  int lasting = -1;
  int64_t alignment = 16;  // Bytes, a power of two.
};

// A pointer argument. Element 0 is the tensor's first element; `num_elements` bounds every access.
struct Buffer {
  std::string name;
  DType dtype = DType::F32;
  SymInt num_elements = 0;
  bool written = false;
  int alignment_bytes = 1;  // What the launcher guarantees of the base address.
};

// One element of a fragment, or (fragment < 0) a constant of type `dtype`.
struct Operand {
  int fragment = -1;
  SymInt slot = 0;
  Scalar constant = {};
  DType dtype = DType::F32;  // Of the constant.
  static Operand Reg(int fragment, SymInt slot = 0) { return {fragment, slot, {}, DType::F32}; }
  static Operand Const(DType dtype, Scalar value) { return {-1, 0, value, dtype}; }
};

struct Stmt;
using Block = std::vector<Stmt>;

// for (symbol = 0; symbol < extent; ++symbol) body. The extent must be the same for all threads of
// a CTA when the body holds a barrier or a shuffle.
struct For {
  SymInt symbol;
  SymInt extent;
  bool unrolled = false;  // Extent must be a constant.
  Block body;
  bool rolled = false;  // The compiler is not to unroll it either; not both.
};

// Ends the loop whose body this stands in, where `condition` holds: for all threads of a cluster or
// for none.
struct Leave {
  SymInt condition;
};

struct If {
  SymInt condition;
  Block body;
  Block otherwise;
};

enum class Space : uint8_t { Global, Shared };
enum class CacheHint : uint8_t { Default, Streaming, EvictFirst, EvictLast, ReadOnly };

// Where the elements of a vector start. Anywhere and Inside: width elements of global memory, 4 to
// 16 bytes and none of them a single byte, at any element. Inside: 16 bytes, of a buffer that is
// aligned to as many; those that lie aligned and hold the first element, and the next 16, lie in
// the buffer as a whole, and nobody writes there.
enum class Start : uint8_t { Aligned, Anywhere, Inside };

// fragment[slot .. slot+width) = memory[index .. index+width) where `predicate` holds, else `fill`,
// or anything if nobody uses what is there (`fills` false).
// width > 1 asserts that the address is aligned to width elements or 16 bytes, whichever is less,
// unless `start` says otherwise.
struct Load {
  int fragment;
  SymInt slot;
  int width = 1;
  Space space = Space::Global;
  int array;     // Index into Kernel::buffers or Kernel::shared.
  SymInt index;  // In elements.
  SymInt predicate = 1;
  Scalar fill = {};
  CacheHint hint = CacheHint::Default;
  Start start = Start::Aligned;
  bool fills = true;
};

// memory[index .. index+width) = fragment[slot .. slot+width) where `predicate` holds.
struct Store {
  int fragment;
  SymInt slot;
  int width = 1;
  Space space = Space::Global;
  int array;
  SymInt index;
  SymInt predicate = 1;
  CacheHint hint = CacheHint::Default;
};

// How near an f32 exponential, sigmoid, error function or division must be: to all bits; an
// exponential that is at most 1 to what matters of it in a sum of such, one of which is 1; to a
// part in 10^5 (precision.h).
enum class Precision : uint8_t { kFull, kTerm, kLoose };

// fragment[slot] = op(arguments). Elementwise operations and Cast; operands have their fragments'
// types.
struct Map {
  OpKind op;
  int fragment;
  SymInt slot;
  std::vector<Operand> arguments;
  Precision precision = Precision::kFull;
};

// fragment[slot] = value of an integer expression: an index, a mask, a size.
struct IndexValue {
  int fragment;
  SymInt slot;
  SymInt value;
};

// From here to the end of the enclosing block, `symbol` stands for an integer held in a register.
// Its declared range must hold: the lowering clamps before.
struct LetSymbol {
  SymInt symbol;
  Operand value;
};

// fragment[slot] = Philox number of the element with linear logical index `index`. Seed and offset
// are i64.
struct Random {
  OpKind op;  // RandomUniform or RandomNormal.
  int fragment;
  SymInt slot;
  Operand seed, offset;
  SymInt index;
};

// fragment[slot] = the value that lane (lane ^ mask) holds in source; executed by whole warps.
struct ShuffleXor {
  int fragment;
  SymInt slot;
  Operand source;
  int mask;
};

// fragment[slot] = how many tickets the threads of the launch have taken before, in whatever order
// they come. `total` are taken in all, by single threads; the next launch counts from 0 again.
struct TakeTicket {
  int fragment;
  SymInt slot;
  SymInt total;
};

// Waits, a short while at the most, until `count` tickets have been taken: who is ahead lets others
// catch up. It orders nothing.
struct AwaitTickets {
  SymInt count;
};

struct CtaSync {};

// Waits for about so many of the processor's cycles, for no other reason than the time. It orders
// nothing.
struct Pause {
  SymInt cycles;
};

// Waits for all threads of the cluster: behind it, all of its CTAs have begun. Unless it `orders`
// what is read and written before it and behind it, as CtaSync does in a CTA, nobody waits for what
// is on its way to registers or shared memory by then.
struct ClusterSync {
  bool orders = false;
};

// array[index] of the cluster's CTA of rank `cta` = fragment[slot] where `predicate` holds, while
// the threads go on; it is there when AwaitStores for `barrier` has returned in that CTA. Elements
// are of 4 or 8 bytes.
struct RemoteStore {
  int fragment;
  SymInt slot;
  int array;
  SymInt index;
  SymInt predicate = 1;
  SymInt cta, barrier;
};

// Waits until the stores of the round-th batch for `barrier` have come to this CTA: `bytes` of
// them, some from each warp of the cluster. So every warp has done what precedes its stores, and
// has read what it reads of earlier batches. A CTA may begin the next batch while another one still
// waits for this one, so the next one is for another barrier.
struct AwaitStores {
  SymInt barrier;
  SymInt round;
  int64_t bytes;
};

// Copies `count` elements of a buffer, from `from` on, to a shared array, from `to` on, while the
// threads go on: one of them starts it, and the elements are there when AwaitCopies for `barrier`
// has returned. Source, destination and size are multiples of 16 bytes. A copy of no elements only
// counts as one of its batch.
struct BulkCopy {
  int array;
  SymInt to;
  int buffer;
  SymInt from;
  SymInt count;
  SymInt barrier;
};

// From here on the words of a packed fragment are new to the compiler: it keeps them in registers,
// not the elements that it has unpacked from them before.
struct KeepPacked {
  int fragment;
};

// Waits until what loads bring to these fragments has come. It orders nothing that reading them
// would not; but a thread has few counters of what is under way, and where it first reads in a loop
// what came before that, it waits in every turn for whatever shares its counter.
struct AwaitLoaded {
  std::vector<int> fragments;
};

// Waits until the round-th batch of copies for `barrier` has come; a batch is
// Kernel::copies_per_batch of them. The next batch starts when all threads have waited for this
// one, so that the lowest bit of `round` tells them apart.
struct AwaitCopies {
  SymInt barrier;
  SymInt round;
};

// Copies `width` neighbouring elements of a buffer, from `from` on, to a shared array, from `to`
// on, where `predicate` holds, while this thread goes on. They are there when AwaitLoads has
// returned: for this thread, and for others of the CTA behind a barrier after that; until then
// nobody touches them there. 4, 8 or 16 bytes, to and from a multiple of as many.
struct AsyncLoad {
  int array;
  SymInt to;
  int buffer;
  SymInt from;
  int width = 1;
  SymInt predicate = 1;
};

// Waits for all loads that this thread has begun by AsyncLoad.
struct AwaitLoads {};

// Ends a phase: what any CTA stored before, every CTA may read behind it. Registers, LetSymbols and
// shared arrays but lasting ones begin anew, so that a kernel may also be launched once a phase.
struct GridSync {};

struct Comment {
  std::string text;
};

struct Stmt {
  std::variant<For, Leave, If, Load, Store, Map, IndexValue, LetSymbol, Random, ShuffleXor,
               TakeTicket, AwaitTickets, Pause, CtaSync, ClusterSync, RemoteStore, AwaitStores,
               BulkCopy, AwaitCopies, AsyncLoad, AwaitLoads, KeepPacked, AwaitLoaded, GridSync,
               Comment>
      node;
};

struct Kernel {
  std::string name;     // A C identifier.
  std::string summary;  // One line or more on what the schedule was and why; printed as a comment.
  std::shared_ptr<ShapeEnv> env;
  std::vector<Buffer> buffers;
  std::vector<SymInt> parameters;  // Symbols passed by value as 64-bit integers, in order.
  SymInt block_x, thread_x;        // Symbols: blockIdx.x and threadIdx.x.
  // A symbol that is 1 where one launch runs all phases, so that lasting arrays last, and 0 where
  // each phase is a launch; 1 where nothing asks.
  SymInt together = 1;
  SymInt grid_x = 1;  // Of the parameters; 0: nothing to launch.
  int threads = 128;  // CTA size, a multiple of 32.
  // CTAs of a cluster, whose rank is block_x modulo this; grid_x is a multiple of it. A device has
  // clusters from sm_90 on.
  int cluster = 1;
  int min_ctas_per_sm = 0;  // For __launch_bounds__; 0 says nothing.
  bool index32 = false;     // All indices of threads that do something fit 32 bits, as a guard of
                            // the plan promises; for what others compute any overflow will do.
  std::vector<Fragment> fragments;
  std::vector<SharedArray> shared;
  int copy_barriers = 0;  // For bulk copies; a device has them from sm_90 on.
  int copies_per_batch = 1;
  int store_barriers = 0;  // For stores to other CTAs of the cluster.
  Block body;

  int NumPhases() const;  // One more than barriers of the grid. Linear in the body's statements.
  bool TakesTickets() const;  // Linear in the statements.
  // Shared memory is one block: the arrays in order, each aligned to 16 bytes, then the
  // barriers of copies and of stores, 8 bytes each.
  int64_t SharedOffset(int array) const;  // In bytes. Linear in the arrays.
  int64_t SharedBytes() const;            // Of the whole block.
};

// The kernel as text, one statement a line with its number: statements are numbered from 0 in
// pre-order, the `otherwise` of an If after its body. The verifier and the simulator name
// statements by this number.
std::string PrintKernel(const Kernel& kernel);
// The line of one statement, without number and without the blocks inside it.
std::string PrintStmt(const Kernel& kernel, const Stmt& stmt);

// OK, or the first broken rule, naming the statement. Linear in the kernel but for conditions on
// the thread, which are tried for every thread.
//  - Names: the kernel's is a C identifier; every fragment, buffer and shared array in use exists.
//  - Sizes: threads a multiple of 32 up to 1024; a cluster a power of two up to 16; counts
//  positive; a constant slot inside its
//    fragment; widths powers of two; a vector access no wider than its buffer's alignment, for
//    which 16 bytes suffice.
//  - Types: a load or store moves the fragment's own dtype; operations take and give the dtypes of
//    InferDType (Cast any); LetSymbol reads an integer; Random gives a float from an i64 seed and
//    offset.
//  - Symbols: every one is a parameter, block_x, thread_x, together, or bound by an enclosing For
//    or an earlier LetSymbol of an enclosing block; none is bound twice at once; grid_x and
//    num_elements hold parameters only; slots hold symbols of unrolled loops only; unrolled loops
//    have constant extents and are not rolled.
//  - KeepPacked: a packed fragment. AwaitLoaded: one or more fragments.
//  - Copies: barriers and sizes as declared, array and buffer of one type, the buffer aligned to 16
//    bytes; whether offsets are, and whether one thread starts each, the simulator checks.
//  - Asynchronous loads: array and buffer of one type, 4, 8 or 16 bytes and no more than the buffer
//    is aligned to; the kernel does not write the buffer, and nothing but them and stores of the
//    CTA brings the array; behind each one, or around both, in its phase, something waits. The
//    simulator checks that each thread waits, and who touches the elements meanwhile.
//  - Writes go to shared arrays and to buffers marked `written`.
//  - Convergence: no barrier of a CTA or cluster and no wait where a condition or extent differs
//  between threads of the CTA, no
//    shuffle where it differs between threads of a warp. Symbols of LetSymbol count as equal; the
//    simulator checks them.
//  - Clusters: stores to other CTAs and barriers of the cluster where there is one, ranks and
//    barriers as declared; one phase. Whether the CTAs of a cluster reach its barriers together the
//    simulator checks.
//  - Leave: directly in the body of a loop that is not unrolled, its condition no other for other
//    threads of the CTA.
//  - Tickets: of 32 bits, in one phase, and awaited only there; their total, over parameters, the
//    simulator checks.
//  - Phases: a barrier of the grid stands in no loop and no condition; a fragment is used on one
//    side of it only, and what a LetSymbol before it binds ends there; bulk copies stand in one
//    phase.
//  - Lasting arrays: only of these a phase loads what none but those before it store; whether it
//    does so in one launch alone the simulator checks. Their numbers differ, no copies or
//    asynchronous loads bring them, and kernels in clusters have none.
absl::Status VerifyKernel(const Kernel& kernel);

}  // namespace seam::kernel
