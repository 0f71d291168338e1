// The device table: what the heuristics need to know of a GPU, so that scheduling runs without one.
// Thread-safety: constants.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace seam {

struct DeviceInfo {
  const char* name;  // "h200"
  const char* arch;  // NVRTC's spelling: "sm_90a"
  int sms;           // Streaming multiprocessors.
  int max_threads_per_sm;
  int registers_per_sm;        // 32-bit.
  int64_t smem_bytes_per_cta;  // Largest opt-in shared memory of a CTA.
  int64_t l2_bytes;
  int64_t bytes_per_second;  // Copy rate where it was measured, else the datasheet's memory rate
                             // times 0.9.
  int max_cluster;           // CTAs; 1 where there are no clusters.
  bool async_loads;          // Threads load to shared memory while they go on: from sm_80 on.
};

// CTAs in clusters of that many, one CTA an SM, that the device holds at once: a cluster lies
// within a group of SMs, where some remain. Measured on an H200, and in proportion elsewhere.
int CtasInClusters(const DeviceInfo& device, int cluster);

// All devices of the table; the first is the default.
absl::Span<const DeviceInfo> Devices();
// By name ("h200") or by architecture ("sm_90a": the first that has it). Error: kNotFound listing
// the names.
absl::StatusOr<DeviceInfo> FindDevice(absl::string_view name_or_arch);

}  // namespace seam
