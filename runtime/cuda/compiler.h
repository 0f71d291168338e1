// Compiles many kernels at once: cache first, then NVRTC on several threads.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/cuda/cubin_cache.h"
#include "runtime/cuda/nvrtc.h"

namespace seam::cuda {

// result[i] is the kernel of requests[i], or why it could not be compiled; one failure stops no
// other. Equal requests are compiled once. `cache` may be null. `threads` <= 0 means one per
// core; no more are started than there are kernels. `progress`, if given, is told (done, total)
// in requests after each compilation, one call at a time, from the threads that compile.
// Where NVRTC is missing, every result is kUnavailable.
std::vector<absl::StatusOr<CompiledKernel>> CompileAll(
    absl::Span<const CompileRequest> requests, CubinCache* cache, int threads,
    const std::function<void(int done, int total)>& progress = nullptr);

}  // namespace seam::cuda
