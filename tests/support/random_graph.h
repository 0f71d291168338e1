// Random Fusions for differential tests: every class of operation, every dtype; extents 0, 1, odd,
// symbolic and computed from symbols; strided inputs and outputs; values both returned and
// consumed, inputs that are returned, parts that nothing connects.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "ir/fusion.h"

namespace seam::testing {

struct RandomGraphOptions {
  int min_exprs = 1, max_exprs = 14;  // Steps; one may add several expressions.
  int64_t max_elements = 3000;        // Of any value of most graphs; a few have 20 times as many.
  double symbolic = 0.5;              // Share of extents that are symbols.
  bool library = false;               // Matrix products too.
  bool square = false;  // One extent everywhere, so that what lies along one axis of a value goes
                        // with any other, and many concatenations.
};

struct RandomGraph {
  using Sizes = std::map<std::string, int64_t>;
  Fusion fusion;
  Sizes sizes, other_sizes;  // Of its symbols. Both legal; the same where there are no symbols.
};

// The same graph for the same seed on every machine. An error is a defect of the generator.
absl::StatusOr<RandomGraph> MakeRandomGraph(uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace seam::testing
