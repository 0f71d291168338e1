// The same graph written in another order, for tests of what must not depend on it.
#pragma once

#include "absl/status/statusor.h"
#include "ir/fusion.h"
#include "tests/support/dice.h"

namespace seam::testing {

// Symbols, inputs, expressions and outputs in a random order, operands before users, over a
// ShapeEnv of its own. With `rename`, all values but the inputs are named by their places in it.
absl::StatusOr<Fusion> Shuffled(const Fusion& fusion, Dice& dice, bool rename);

}  // namespace seam::testing
