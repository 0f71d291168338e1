// What a thread loads: with one point, and with several along some axis of the rows, by tracing it.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "scheduler/choose.h"

namespace seam {

struct Loads {
  std::vector<int> of_buffer;  // How often it loads of each.
  int count = 0;
  int of_rows = 0;       // Of these, what each row has of its own: no weights;
  int of_columns = 0;    // and what differs from column to column.
  double words = 0;      // Registers of its vectors as they come from memory, in one pass,
  double own_words = 0;  // and of those that each row has of its own.
  TracedKernel traced;

  int Most() const { return of_buffer.empty() ? 0 : *absl::c_max_element(of_buffer); }
};

// Errors: those of Trace.
absl::StatusOr<Loads> LoadsOf(const SizedGroup& sized, const Schedule& s);

// The same with several points a thread; nothing where they are too much for one kernel, or where
// it does not show that they read what is reduced in their own rows.
absl::StatusOr<std::optional<Loads>> LoadsOfPoints(const SizedGroup& sized, const Schedule& s);

// So many neighbours along an axis of the rows; along none, a negative one, it is one.
struct PointsAlong {
  int axis = -1, points = 1;
};

// The schedule with `points` a thread along an axis of rows, any where that is one, and some of
// another axis with each, if they divide the rows or may be uneven.
absl::StatusOr<std::optional<Schedule>> WithPoints(const SizedGroup& sized, const Schedule& s,
                                                   int along, int points, PointsAlong beside = {},
                                                   bool may_be_uneven = false);

// All of an axis whose extent is known; nothing of others, and where it has too many.
std::optional<PointsAlong> AllOf(const SizedGroup& sized, int axis,
                                 int64_t most = kMostPointsBeside);

}  // namespace seam
