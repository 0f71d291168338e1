// Few long rows, all of them on the chip at once, in a single turn: no memory is busy then, and
// what a row takes is the latency of its loads, folds and stores. So as many CTAs as there is room
// for share it, in a cluster, until each has so little that the exchange of one more pair of CTAs
// takes longer than it saves. Source: timed on an H100 and an H200, docs/schedulers.md, "Few long
// rows".
#include <algorithm>

#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/reduction_turns.h"

namespace seam::reduction {
namespace {

// The least of a row's widest input that a CTA is to have, by the CTAs of the cluster and whether
// an SM has more than one; and the shortest rows that are shared.
constexpr int64_t kLeastBytes = 4096, kLeastBytesOf16 = 6144, kLeastBytesOfMany16 = 10240,
                  kLeastRowBytes = 24576;
// CTAs of an SM, more of them in the largest clusters.
constexpr int kMostCtas = 3, kMostCtasOf16 = 5;
// The fewest CTAs that share rows which start anywhere.
constexpr int kLeastShifted = 4;
// Threads of a CTA with at most so many vectors each.
constexpr int kThreads = 128, kMostThreads = 512, kVectors = 4, kMostVectors = 8;

// CTAs of 128 threads or more with four vectors each, or what that takes more or less.
void ShareRowOfCluster(const SizedGroup& sized, int cluster, Schedule& s) {
  const int64_t vectors = CeilDivide(VectorsOf(sized, s), int64_t{cluster});
  s.cluster = cluster;
  s.persistent = true;
  s.row_warps = 1;
  int each = kVectors;
  while (each > 1 && vectors < int64_t{each} * kThreads) each /= 2;
  while (each < kMostVectors && vectors > int64_t{each} * kMostThreads) each *= 2;
  s.registers = each;
  s.lanes_per_row = 32;
  s.warps_per_row = static_cast<int>(CeilDivide(vectors, int64_t{each} * 32));
}

}  // namespace

absl::StatusOr<bool> ChooseOneTurn(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const DeviceInfo& device = sized.context.device;
  const int64_t row_bytes = sized.columns * sized.widest_bytes;
  if (device.max_cluster == 1 || s.outer || s.vector == 1 || sized.rows == 0 ||
      sized.shape.crossed() || sized.run < sized.columns || row_bytes < kLeastRowBytes) {
    return false;
  }
  Schedule pinned = s;
  PinColumns(sized, pinned);
  SEAM_ASSIGN_OR_RETURN(const KeptRows pinned_rows, KeptRows::Of(sized, pinned));
  for (int cluster = device.max_cluster; cluster > 1; cluster /= 2) {
    const bool largest = cluster >= 16;
    const int64_t ctas = CeilDivide(sized.rows * cluster, CtasInClusters(device, cluster));
    const int64_t least = !largest    ? kLeastBytes
                          : ctas == 1 ? kLeastBytesOf16
                                      : kLeastBytesOfMany16;
    if (row_bytes < cluster * least || ctas > (largest ? kMostCtasOf16 : kMostCtas)) continue;
    if (s.shift && cluster < kLeastShifted) continue;
    // Rows that start anywhere come by copies.
    Schedule c = s.shift ? pinned : s;
    const KeptRows& kept = s.shift ? pinned_rows : rows;
    ShareRowOfCluster(sized, cluster, c);
    c.min_ctas_per_sm = static_cast<int>(ctas);
    c.stages = s.shift ? 2 : 0;
    if (c.threads() > 1024 || (s.shift && c.registers > kVectors)) continue;
    double words = kept.Words(c.registers, c);
    if (c.vector * sized.widest_bytes < 16) words += kSingleWords;
    // With registers to spare compilers load weights and unpack narrow data ahead.
    const double ahead = sized.widest_bytes < 4 ? 0.5 * sized.large_inputs : 0;
    if (c.min_ctas_per_sm == 1) words += c.registers * c.vector * (rows.AlikeWords() + ahead);
    const int64_t shared = kept.StateBytes(c) + c.stages * (s.shift ? kept.StageBytes(c) : 0);
    const int64_t room = device.smem_bytes_per_cta / ctas - kOtherSharedBytes;
    if (words > 65536 / (c.threads() * c.min_ctas_per_sm) - kOtherRegisters || shared > room)
      continue;
    c.grid = CtasOfClusters(sized, c);
    if (c.grid < sized.rows * cluster) continue;
    if (c.columns_at_once() == sized.columns) PinColumns(sized, c);
    s = c;
    return true;
  }
  return false;
}

}  // namespace seam::reduction
