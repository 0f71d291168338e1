// Which elements of shared memory threads are loading asynchronously.
//
// A load is made when it begins, but in a real machine it comes at any time until its thread has
// waited, so nobody may touch the elements before. Threads are numbered over the cluster, elements
// over its CTAs' parts of an array. Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace seam::simulator {

class AsyncLoads {
 public:
  struct Load {
    int statement;
    int array, buffer;
    int64_t to, from;
    int width;
  };

  // For shared arrays of so many elements each.
  void Declare(int threads, std::vector<int64_t> array_sizes) {
    begun_by_.resize(threads);
    sizes_ = std::move(array_sizes);
    loader_.resize(sizes_.size());
  }

  void Begin(int thread, const Load& load) {
    begun_by_[thread].push_back(load);
    loader_[load.array].resize(sizes_[load.array], kNobody);  // If this is the array's first one.
    std::fill_n(loader_[load.array].begin() + load.to, load.width, thread);
  }
  // What the thread has begun and not waited for.
  const std::vector<Load>& UnderWay(int thread) const { return begun_by_[thread]; }
  void Await(int thread) {
    for (const Load& load : begun_by_[thread])
      std::fill_n(loader_[load.array].begin() + load.to, load.width, kNobody);
    begun_by_[thread].clear();
  }

  // The thread that is loading the element, negative if none is.
  int LoaderOf(int array, int64_t element) const {
    return loader_[array].empty() ? kNobody : loader_[array][element];
  }

 private:
  static constexpr int kNobody = -1;
  std::vector<int64_t> sizes_;               // By array.
  std::vector<std::vector<Load>> begun_by_;  // By thread.
  std::vector<std::vector<int>> loader_;     // By array and element; none where nothing is loaded.
};

}  // namespace seam::simulator
