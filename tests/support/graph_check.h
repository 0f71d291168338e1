// Takes a random graph the whole way and holds what comes out against the reference interpreter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/executable.h"
#include "segmenter/segment.h"
#include "tests/support/random_graph.h"

namespace seam::testing {

// Prints and parses the graph, compiles it for `backend` and runs it at each set of its sizes with
// one Executable: on inputs from `seed`, some of them off their alignment by a few elements, with
// outputs that the caller brings and outputs that the Executable allocates. The error is everything
// that it takes to look into it: sizes, text form, groups with their schedules.
// `segment`: by which passes it is cut, and in what types values cross; what that rounds, the
// reference rounds as well. `use_cache`: compiled kernels are kept on disk.
absl::Status CheckGraph(const RandomGraph& graph, uint64_t seed, BackendKind backend,
                        const SegmentOptions& segment = {}, bool use_cache = false);

// MakeRandomGraph, perhaps a square one, and CheckGraph; the error starts with the seed. Without
// matrix products on kCuda, which has no code for them.
absl::Status CheckSeed(uint64_t seed, BackendKind backend, const SegmentOptions& segment = {},
                       bool use_cache = false, bool square = false);

// Every kernel of the graph with this seed, at both sets of its sizes, through NVRTC to machine
// code for `arch`. Needs no GPU.
absl::Status CompileSeed(uint64_t seed, const std::string& arch);

}  // namespace seam::testing
