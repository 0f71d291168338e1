// Small products: rows that read the same again, as the results of a matrix of few rows times many
// vectors do. A thread has several of them, and loads what they share once.
//
//   x [M, D]  w [A, D]  ->  sum(x[:, None] * w, axes=[2])     a thread: all A of some m
#pragma once

#include "absl/status/statusor.h"
#include "scheduler/choose.h"
#include "scheduler/point_loads.h"

namespace seam {

// `s` with several rows a thread, where rows that a CTA holds whole are longer than what all of
// them read and write: all of a short axis whose results read the same columns, and for each of
// several others, which share the rest; or, of short rows, those that load least together. `one`:
// what a row of `s` loads. Source: docs/schedulers.md, "Products of few results" and "Short rows
// that read the same". Errors: those of Trace.
absl::StatusOr<Schedule> FitSmallProducts(const SizedGroup& sized, const Loads& one, Schedule s);

}  // namespace seam
