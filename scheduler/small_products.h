// Products: rows that read the same again, as the results of a matrix of few rows times many
// vectors do, or those of two matrices. A thread has several of them, and loads what they share
// once.
//
//   x [M, D]  w [A, D]  ->  sum(x[:, None] * w, axes=[2])     a thread: all A of some m, or some of
//                                                             both
#pragma once

#include "absl/status/statusor.h"
#include "scheduler/choose.h"
#include "scheduler/point_loads.h"

namespace seam {

// Most results along a short axis that a thread has all of, and of a long one that it has some of.
inline constexpr int kMostResults = 16;

// How many times as many products there are as elements, of the widest type, that are read and
// written.
absl::StatusOr<double> ProductsOfElement(const SizedGroup& sized);
// From so many on no large tensor has all of the rows' and columns' axes.
inline constexpr double kMostlyProducts = 2;

// `s` with several rows a thread, where rows that a CTA holds whole are longer than what all of
// them read and write: all of a short axis whose results read the same columns, and for each of
// several others, which share the rest; or, of short rows, those that load least together. `one`:
// what a row of `s` loads. Source: docs/schedulers/products.md, "Products of few results", "Tiles
// of results" and "Short rows that read the same". Errors: those of Trace.
absl::StatusOr<Schedule> FitSmallProducts(const SizedGroup& sized, const Loads& one, Schedule s);

}  // namespace seam
