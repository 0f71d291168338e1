// Which elements of shared memory bulk copies bring, and which threads have waited for them.
//
// A copy is made when it starts, but nobody may count on it before having waited: in a real machine
// it comes at any time until then. Batches of one barrier come one after the other, and the next
// one starts when all threads have waited for this one; so a batch's number is known to all.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace seam::simulator {

class BulkCopies {
 public:
  // For shared arrays of so many elements each.
  void Declare(int barriers, int copies_per_batch, int threads,
               const std::vector<int64_t>& array_sizes) {
    copies_per_batch_ = copies_per_batch;
    started_.resize(barriers);
    awaited_.assign(barriers, std::vector<int64_t>(threads));
    if (barriers == 0) return;
    for (const int64_t size : array_sizes) brought_by_.emplace_back(size);
  }

  // Another CTA begins.
  void Reset() {
    std::fill(started_.begin(), started_.end(), 0);
    for (auto& threads : awaited_) std::fill(threads.begin(), threads.end(), 0);
    for (auto& elements : brought_by_) std::fill(elements.begin(), elements.end(), Batch{});
  }

  // Batches of `barrier` that have been started whole.
  int64_t Complete(int64_t barrier) const { return started_[barrier] / copies_per_batch_; }
  // Whether one more copy may start: all threads have waited for the batches before its own.
  bool CanStart(int64_t barrier) const {
    return std::ranges::all_of(awaited_[barrier],
                               [&](int64_t rounds) { return rounds >= Complete(barrier); });
  }
  void Start(int64_t barrier, int array, int64_t first, int64_t count) {
    const Batch batch{static_cast<int>(barrier), Complete(barrier)};
    ++started_[barrier];
    std::fill_n(brought_by_[array].begin() + first, count, batch);
  }
  void Await(int64_t barrier, int thread, int64_t rounds) { awaited_[barrier][thread] = rounds; }

  // Whether the thread may count on the element: no copy brings it, or it has waited for that one.
  bool Arrived(int array, int64_t element, int thread) const {
    if (brought_by_.empty()) return true;
    const Batch& batch = brought_by_[array][element];
    return batch.barrier < 0 || awaited_[batch.barrier][thread] > batch.round;
  }
  bool Brings(int array, int64_t element) const {
    return !brought_by_.empty() && brought_by_[array][element].barrier >= 0;
  }
  // A thread has stored to the element.
  void Forget(int array, int64_t element) {
    if (!brought_by_.empty()) brought_by_[array][element] = {};
  }
  // The first barrier with copies for which not all threads have waited; -1 if there is none.
  int Pending() const {
    for (size_t b = 0; b < started_.size(); ++b) {
      const int64_t rounds = (started_[b] + copies_per_batch_ - 1) / copies_per_batch_;
      for (const int64_t awaited : awaited_[b]) {
        if (awaited < rounds) return static_cast<int>(b);
      }
    }
    return -1;
  }

 private:
  struct Batch {
    int barrier = -1;
    int64_t round = 0;
  };
  int copies_per_batch_ = 1;
  std::vector<int64_t> started_;                // Copies, by barrier.
  std::vector<std::vector<int64_t>> awaited_;   // Rounds, by barrier and thread.
  std::vector<std::vector<Batch>> brought_by_;  // By array and element.
};

}  // namespace seam::simulator
