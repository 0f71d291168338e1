// Schedules that timing found to be the fastest, on disk, one readable file each, beside the
// compiled kernels. A file is for one group by its structure, one scheduler, exact sizes, one
// alignment and one device; whatever is wrong with it, it is not believed. That a schedule fits its
// group is still the reader's to check: what is believed was stored, not proven.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ir/fusion.h"
#include "runtime/cuda/file_cache.h"
#include "scheduler/scheduler.h"

namespace seam {

struct TunedSchedule {
  Schedule schedule;
  double us = 0;            // A call with it took,
  double heuristic_us = 0;  // and one with the schedule that the heuristic chooses.
  int tried = 0;            // Schedules timed beside the heuristic's.
};

// Whether there are schedules to choose from: not for views and library calls.
bool IsTunable(SchedulerKind kind);

// Files of all but this format are ignored. A field that Schedule gains or loses changes the format
// by itself; change the number where a field's meaning changes.
inline constexpr int kTunedFormat = 7;

// Thread-safety: all functions may be called from many threads and processes at once.
class TunedSchedules {
 public:
  // Beside the user's cache of compiled kernels (cuda::CacheLocation), with at most 16 megabytes.
  static std::unique_ptr<TunedSchedules> FromEnvironment();
  // Touches no file before the first Find or Store. An empty `directory` keeps nothing.
  TunedSchedules(std::string directory, int64_t capacity_bytes)
      : TunedSchedules(cuda::CacheLocation{std::move(directory), capacity_bytes}) {}

  // What is stored for the group, scheduled by `kind`. Errors: kNotFound where there is nothing;
  // kUnavailable saying why the file cannot be read, kDataLoss what is wrong with it. Linear in the
  // group.
  absl::StatusOr<TunedSchedule> Find(const Fusion& group, SchedulerKind kind,
                                     const ScheduleContext& context);
  // Keeps `tuned`, replacing what is there; cost as of cuda::FileCache::Store. `group` is scheduled
  // by tuned.schedule.kind.
  void Store(const Fusion& group, const ScheduleContext& context, const TunedSchedule& tuned);

  // Equal for groups, sizes and devices that share what is stored.
  static cuda::FileKey KeyOf(const Fusion& group, SchedulerKind kind,
                             const ScheduleContext& context);
  // The file that Find looks for.
  std::string FilePath(const Fusion& group, SchedulerKind kind,
                       const ScheduleContext& context) const;
  const std::string& directory() const { return files_.directory(); }
  // One sentence about the first thing that kept the files from being read or written; empty if
  // nothing did.
  std::string warning() const { return files_.warning(); }

 private:
  explicit TunedSchedules(cuda::CacheLocation location);
  cuda::FileCache files_;
};

}  // namespace seam
