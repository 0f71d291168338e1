#include "scheduler/device.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace seam {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * 1024;
constexpr int64_t kGB = 1000000000;

// Source: NVIDIA's CUDA C++ programming guide (table of technical specifications per compute
// capability) for threads, registers and shared memory; the products' datasheets for SMs, L2 and
// memory rates. The h200 rate is measured (copy of 1 GB).
constexpr DeviceInfo kDevices[] = {
    {"h200", "sm_90a", 132, 2048, 65536, 227 * kKiB, 60 * kMiB, 4250 * kGB, 16, true},
    {"h100", "sm_90a", 132, 2048, 65536, 227 * kKiB, 50 * kMiB, 3000 * kGB, 16, true},
    {"a100", "sm_80", 108, 2048, 65536, 163 * kKiB, 40 * kMiB, 1400 * kGB, 1, true},
    {"b200", "sm_100a", 148, 2048, 65536, 227 * kKiB, 126 * kMiB, 7200 * kGB, 16, true},
    {"rtx5090", "sm_120a", 170, 1536, 65536, 99 * kKiB, 96 * kMiB, 1610 * kGB, 8, true},
    {"l40s", "sm_89", 142, 1536, 65536, 99 * kKiB, 96 * kMiB, 778 * kGB, 1, true},
    {"rtx3090", "sm_86", 82, 1536, 65536, 99 * kKiB, 6 * kMiB, 842 * kGB, 1, true},
    {"t4", "sm_75", 40, 1024, 65536, 64 * kKiB, 4 * kMiB, 288 * kGB, 1, false},
};

}  // namespace

int CtasInClusters(const DeviceInfo& device, int cluster) {
  constexpr int kSms = 132;
  const int held = cluster <= 2 ? 132 : cluster <= 8 ? 120 : 112;
  return std::max(1, device.sms * held / (kSms * cluster)) * cluster;
}

absl::Span<const DeviceInfo> Devices() { return kDevices; }

absl::StatusOr<DeviceInfo> FindDevice(absl::string_view name_or_arch) {
  std::string known;
  for (const DeviceInfo& d : kDevices) {
    if (name_or_arch == d.name || name_or_arch == d.arch) return d;
    absl::StrAppend(&known, known.empty() ? "" : ", ", d.name, " (", d.arch, ")");
  }
  return absl::NotFoundError(
      absl::StrCat("no device or architecture '", name_or_arch, "'; known: ", known));
}

}  // namespace seam
