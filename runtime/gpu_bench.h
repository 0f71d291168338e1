// Times an Executable on the GPU beside a copy kernel that moves the same bytes, in one run.
//
// Every call works on other memory than the one before, in turn through more than the L2 cache
// holds, so that inputs come from device memory. Calls are enqueued back to back, many between two
// events.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/executable.h"

namespace seam {

struct BenchOptions {
  uint64_t seed = 1;  // Of the inputs.
  int repetitions =
      15;  // Each is timed as a whole; the first is preceded by one that is not counted.
  double repetition_ms = 10;
  std::function<void(int done, int total)> progress;
};

// Microseconds a call.
struct BenchTimes {
  double median_us = 0, min_us = 0, max_us = 0;
};

struct BenchResult {
  BenchTimes times;
  BenchTimes copy;              // Of the copy kernel.
  double host_us = 0;           // What enqueuing takes of the calling thread, median.
  int64_t bytes = 0;            // Inputs and outputs, each once: the least that has to be moved.
  double bytes_per_second = 0;  // At the median.
  double fraction_of_copy = 0;  // Median of the copy over median of the calls.
  int64_t kernels = 0;
  int calls = 0;        // A repetition.
  int buffer_sets = 0;  // That take turns.
  bool cold = true;     // False where even all sets together fit into the L2 cache.
};

// `executable` is one of the backend kCuda, `symbols` gives all symbols. Inputs are random: normal
// floats, integers of 32 and 64 bits 0 to 4. Errors: kUnavailable for another backend; those of
// Run; kResourceExhausted.
absl::StatusOr<BenchResult> BenchOnGpu(const Executable& executable,
                                       absl::Span<const SymbolValue> symbols,
                                       const BenchOptions& options = {});

// Median microseconds of a call from so many repetitions.
using CallTimer = std::function<absl::StatusOr<double>(const Executable& call, int repetitions)>;

// Times Executables of one graph, or of its group, on the same tensors, made once, as BenchOnGpu
// does; they have the types that `executable`, which must outlive the result, has at these sizes.
// Errors: as above.
absl::StatusOr<CallTimer> TimeOnGpu(const Executable& executable,
                                    absl::Span<const SymbolValue> symbols,
                                    const BenchOptions& options = {});

}  // namespace seam
