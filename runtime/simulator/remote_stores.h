// What the CTAs of a cluster have stored to each other's shared memory and when all of them know.
//
// Time is cut by waits and by barriers of the cluster: one ends an interval. A wait for a batch to
// which every warp of the cluster has contributed says that each of them has done what comes before
// its stores; nothing else orders the accesses of an array that such stores write. A store may
// reach a CTA before others have waited for the last batch, so the next one arrives at another
// barrier. Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace seam::simulator {

class RemoteStores {
 public:
  // For each of `ctas`; `warps` are those of the cluster.
  void Declare(int barriers, int ctas, int warps) {
    barriers_ = barriers;
    batches_.resize(static_cast<size_t>(barriers) * ctas);
    for (Batch& batch : batches_) batch.from.resize(warps);
  }
  // Another cluster begins.
  void Reset() {
    first_interval_ = ++interval_;
    for (Batch& batch : batches_) {
      batch.bytes = batch.round = 0;
      batch.awaited_in = 0;
      std::fill(batch.from.begin(), batch.from.end(), 0);
    }
  }

  uint32_t interval() const { return interval_; }
  uint32_t first_interval() const { return first_interval_; }

  // Whether all CTAs have waited for the last batch there.
  bool CanStore(int64_t cta, int64_t barrier) const {
    return At(cta, barrier).awaited_in != interval_;
  }
  void Store(int64_t cta, int64_t barrier, int warp, int bytes) {
    Batch& batch = At(cta, barrier);
    batch.bytes += bytes;
    batch.from[warp] = 1;
  }
  int64_t round(int64_t cta, int64_t barrier) const { return At(cta, barrier).round; }
  int64_t bytes(int64_t cta, int64_t barrier) const { return At(cta, barrier).bytes; }
  // The first warp that has not stored anything for the batch; -1 if all have.
  int Missing(int64_t cta, int64_t barrier) const {
    const std::vector<uint8_t>& from = At(cta, barrier).from;
    const auto missing = std::find(from.begin(), from.end(), 0);
    return missing == from.end() ? -1 : static_cast<int>(missing - from.begin());
  }
  // The CTA has waited; after the last one of the cluster, EndInterval.
  void Await(int64_t cta, int64_t barrier) {
    Batch& batch = At(cta, barrier);
    batch.bytes = 0;
    ++batch.round;
    batch.awaited_in = interval_ + 1;
    std::fill(batch.from.begin(), batch.from.end(), 0);
  }
  void EndInterval() { ++interval_; }
  bool Pending() const {
    return std::ranges::any_of(batches_, [](const Batch& batch) { return batch.bytes > 0; });
  }

 private:
  struct Batch {
    int64_t bytes = 0, round = 0;
    uint32_t awaited_in = 0;  // The interval that this wait began; 0: none has.
    std::vector<uint8_t> from;
  };
  Batch& At(int64_t cta, int64_t barrier) { return batches_[cta * barriers_ + barrier]; }
  const Batch& At(int64_t cta, int64_t barrier) const {
    return batches_[cta * barriers_ + barrier];
  }

  int barriers_ = 0;
  uint32_t interval_ = 0, first_interval_ = 0;
  std::vector<Batch> batches_;  // [cta, barrier]
};

}  // namespace seam::simulator
