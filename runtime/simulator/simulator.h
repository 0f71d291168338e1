// Runs a kernel of the thread-level IR on the CPU, thread by thread, and finds what a GPU would not
// say.
//
// Every statement executes for all active threads of a cluster (of a CTA, where there are no
// clusters) before the next one starts; clusters run one after the other in an order that the seed
// determines, all of them up to a barrier of the grid before the first goes on. Values are rounded
// to their dtype after every operation by the definitions that the reference interpreter uses
// (ir/op_semantics.h), so results of pointwise kernels agree with it bit for bit.
//
// What is found, each as an error naming the statement (number and text as PrintKernel shows them),
// the CTA, the thread and the values: accesses outside a buffer, a shared array or a fragment;
// vector accesses whose address is not aligned; stores to read-only buffers; reads of fragment
// slots, shared elements or buffer elements that nothing wrote; races on shared memory (two
// threads, one barrier interval, one of them writes) and on global memory (two CTAs, or two threads
// of one CTA, without a barrier between them, one of them writes, even if it writes the same
// value); stores to a CTA of the cluster that may not have begun or may have ended, that are read
// before a wait for all of them, or that overwrite what a warp may still read; barriers that not
// all threads of the cluster reach, shuffles that not all of the warp do; bulk copies that several
// threads start, that overwrite what a thread may still read, that nobody waits for, or whose
// elements are read by a thread that has not waited; symbols outside their declared range; index
// arithmetic that leaves 32 bits although the kernel promises otherwise; more steps than the
// budget.
//
// Thread-safety: Simulate is a pure function of its arguments but for the buffers' contents.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/dtype.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam::simulator {

// The memory behind one of the kernel's buffers, elements in their memory format. Two buffers may
// share their memory if they are the same elements, or if one lies in gaps of the other, for which
// the caller answers; any other overlap with a written buffer is an error.
struct SimBuffer {
  void* data = nullptr;
  int64_t num_elements = 0;
  DType dtype = DType::F32;
  bool read_only = false;
  // One byte an element, nonzero where it holds a value; stores set it. Null: every element holds
  // one.
  uint8_t* initialized = nullptr;
  bool gaps = false;  // Not all of its elements are meant: others may be another buffer's.
};

struct SimOptions {
  uint64_t seed = 0;  // 0: CTAs in ascending order.
  // Statements executed, counted once a thread. About 10^8 take a second.
  int64_t max_steps = int64_t{1} << 36;
  // Each phase as a launch of its own, in which lasting arrays begin anew.
  bool phase_by_phase = false;
  // An element of a written buffer that no thread stored to is an error.
  bool require_all_written = false;
};

// `buffers` in the order of kernel.buffers, `parameters` in the order of kernel.parameters. Errors:
// kInvalidArgument if the kernel does not verify or the arguments do not fit it; kResourceExhausted
// for the step budget; kFailedPrecondition for a fault of the kernel, as listed above. After an
// error the buffers hold what was stored until then.
absl::Status Simulate(const kernel::Kernel& kernel, absl::Span<const SimBuffer> buffers,
                      absl::Span<const int64_t> parameters, const SimOptions& options = {});

}  // namespace seam::simulator
