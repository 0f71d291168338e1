// Beside: a stage of work on a thread of its own, for a graph that is large enough to gain by it.
//
// A stage only reads what nobody changes until its result is taken, so that the result is the same
// on one thread and on two. Thread-safety: a free function without shared state.
#pragma once

#include <cstddef>
#include <future>
#include <utility>

namespace seam {

// The future result of `stage`, which goes over `size` expressions or as much. Where that is
// little, and where there is no thread to be had, the stage runs when its result is asked for. What
// it refers to must outlive the future.
template <typename Stage>
auto Beside(size_t size, Stage stage) {
  constexpr size_t kWorthAThread = 16384;
  return std::async(
      size < kWorthAThread ? std::launch::deferred : std::launch::async | std::launch::deferred,
      std::move(stage));
}

}  // namespace seam
