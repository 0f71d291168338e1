// Where device memory comes from. A host program that has its own allocator implements this
// interface and Seam takes everything from it; the default one (driver.h, PoolAllocator) uses the
// driver's stream-ordered pool. Free of CUDA headers.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

namespace seam {

// A CUstream (the same object as a cudaStream_t); null is the legacy default stream.
using StreamHandle = void*;

// Thread-safe: implementations are called from several threads at once.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;

  // `bytes` of device memory, aligned to 256 bytes at least, that work enqueued on `stream` from
  // now on may use. Zero bytes give a null pointer. Errors: kResourceExhausted when the memory is
  // not there, kFailedPrecondition when the stream is being captured.
  virtual absl::StatusOr<void*> Allocate(size_t bytes, StreamHandle stream) = 0;

  // Gives back what Allocate returned, once the work enqueued on `stream` so far is done. Never
  // fails: a pointer that cannot be freed is lost with its context. Null is allowed. Not while
  // `stream` is being captured.
  virtual void Free(void* pointer, StreamHandle stream) = 0;
};

}  // namespace seam
