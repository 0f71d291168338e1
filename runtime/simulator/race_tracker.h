// Who last touched each element of a memory, and whether two accesses are ordered.
//
// Time is cut into intervals: one ends at every barrier of a CTA, and no interval spans two
// clusters; a CTA without a cluster counts as one. Two accesses of one element of which one writes
// are ordered if the same thread makes both, if they fall into different intervals of one CTA, or
// if a barrier of the grid lies between them, or an exchange of the cluster and others store to
// that memory. Everything else is a race. (Shuffles order nothing: they say nothing about memory.)
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace seam::simulator {

struct Moment {
  uint32_t interval;  // Counted over the whole launch, from 1.
  uint32_t cta;
  int thread;
  // The first intervals since the last barrier of the grid, since the cluster began, and since its
  // last exchange: of memory that others do not store to, since it began.
  uint32_t phase = 1, began = 1, synced = 1;
};

class RaceTracker {
 public:
  // `shared`: the memory starts anew in every cluster. `reads`: Read will be called.
  RaceTracker(int64_t elements, bool shared, bool reads)
      : shared_(shared), writers_(elements), readers_(reads ? elements : 0) {}

  // Whether the access is ordered after all earlier ones that it could disturb.
  bool CanWrite(int64_t element, Moment now) const {
    return Ordered(writers_[element], now) && (readers_.empty() || Ordered(readers_[element], now));
  }
  bool CanRead(int64_t element, Moment now) const { return Ordered(writers_[element], now); }

  void Write(int64_t element, Moment now) {
    writers_[element] = {now.interval, now.cta, now.thread};
  }
  void Read(int64_t element, Moment now) {
    Record& reader = readers_[element];
    const bool together = reader.interval == now.interval;
    const bool other_thread = together && reader.thread != now.thread;
    uint32_t cta = now.cta;
    if (reader.cta != now.cta) {
      if (reader.interval >= now.began) {
        cta = reader.cta == kManyCtas ? kManyCtas : kManyOfCluster;
      } else if (!shared_ && reader.interval >= now.phase) {
        cta = kManyCtas;
      }
    }
    reader = {now.interval, cta, other_thread ? kMany : now.thread};
  }

  // Whether the element was written: ever, or for shared memory since `first_interval`.
  bool Written(int64_t element, uint32_t first_interval = 1) const {
    return writers_[element].interval >= first_interval;
  }
  int64_t size() const { return static_cast<int64_t>(writers_.size()); }

  // The access that one at `now` collides with, where CanWrite or CanRead says that it does.
  std::string Describe(int64_t element, Moment now) const {
    const bool written = !Ordered(writers_[element], now);
    const Record& other = written ? writers_[element] : readers_[element];
    return absl::StrCat(
        written ? "written" : "read", " by ",
        other.thread == kMany ? "several threads" : absl::StrCat("thread ", other.thread), " of ",
        other.cta >= kManyOfCluster ? "several CTAs" : absl::StrCat("CTA ", other.cta));
  }

 private:
  static constexpr int kMany = -1;
  static constexpr uint32_t kManyCtas = UINT32_MAX, kManyOfCluster = UINT32_MAX - 1;
  struct Record {
    uint32_t interval = 0;  // 0: none.
    uint32_t cta = 0;
    int thread = 0;
  };
  bool Ordered(const Record& before, Moment now) const {
    if (before.interval < now.phase) return true;
    if (before.cta == kManyCtas) return false;
    if (before.cta == now.cta)
      return before.interval != now.interval || before.thread == now.thread;
    return before.interval < now.synced && (shared_ || before.interval >= now.began);
  }

  const bool shared_;
  std::vector<Record> writers_, readers_;
};

}  // namespace seam::simulator
