// Few long rows, all of them on the chip at once, in a single turn: no memory is busy then, and
// what a row takes is the latency of its loads, folds and stores. So as many CTAs as there is room
// for share it, in a cluster, until each has so little that the exchange of one more pair of CTAs
// takes longer than it saves. Source: timed on an H100 and an H200, docs/schedulers/clusters.md,
// "Few long rows".
#include <algorithm>
#include <optional>

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
// Threads of a CTA with so many vectors each, up to twice as many of CTAs that are alone on an SM.
constexpr int kThreads = 128, kMostThreads = 512, kVectors = 4, kMostVectors = 8;

// CTAs of 128 threads or more with four vectors each, or what that takes more or less. False: no
// CTA has so many threads.
bool ShareRowOfCluster(const SizedGroup& sized, int cluster, Schedule& s) {
  constexpr int kLargestCta = 1024;
  const int64_t vectors = CeilDivide(VectorsOf(sized, s), int64_t{cluster});
  s.cluster = cluster;
  s.persistent = true;
  s.row_warps = 1;
  int each = kVectors;
  while (each > 1 && vectors < int64_t{each} * kThreads) each /= 2;
  while (each < kMostVectors && vectors > int64_t{each} * kMostThreads) each *= 2;
  if (vectors > int64_t{each} * kLargestCta) return false;
  s.registers = each;
  s.lanes_per_row = 32;
  s.warps_per_row = static_cast<int>(CeilDivide(vectors, int64_t{each} * 32));
  return true;
}

// The CTAs that each SM then has; 0: too many, or each has too little of a row.
int CtasOfEachSm(const SizedGroup& sized, int cluster) {
  const bool largest = cluster >= 16;
  const auto ctas = static_cast<int>(std::min<int64_t>(
      CeilDivide(sized.rows * cluster, CtasInClusters(sized.context.device, cluster)),
      kMostCtasOf16 + 1));
  const int64_t least = !largest ? kLeastBytes : ctas == 1 ? kLeastBytesOf16 : kLeastBytesOfMany16;
  const bool enough = sized.columns * sized.widest_bytes >= cluster * least;
  return enough && ctas <= (largest ? kMostCtasOf16 : kMostCtas) ? ctas : 0;
}

// Whether CTAs of this schedule have the registers and the shared memory; `early` then says whether
// weights have registers too, a word a column at the most: loaded in front of the statistics they
// cost no latency behind them.
bool Fits(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kBesideWords = 34;
  const int points = s.registers * s.vector;
  const double weights = rows.AlikeWords();
  double words = rows.Words(s.registers, s) + kBesideWords;
  if (s.vector * sized.widest_bytes < 16) words += kSingleWords;
  // With registers to spare compilers load weights and unpack narrow data ahead.
  const double ahead = sized.widest_bytes < 4 ? 0.5 * sized.large_inputs : 0;
  if (s.min_ctas_per_sm == 1) words += points * (weights + ahead);
  const double most = 65536.0 / (s.threads() * s.min_ctas_per_sm);
  s.early = !s.shift && weights > 0 && weights <= kManyWeights && words + points * weights <= most;
  const int64_t shared = rows.StateBytes(s) + (s.stages > 0 ? s.stages * rows.StageBytes(s) : 0);
  const int64_t room = sized.context.device.smem_bytes_per_cta / s.min_ctas_per_sm;
  return words <= most && shared <= room - kOtherSharedBytes;
}

}  // namespace

absl::StatusOr<bool> ChooseOneTurn(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const int largest = sized.context.device.max_cluster;
  if (largest == 1 || s.outer || s.vector == 1 || sized.rows == 0 || sized.shape.crossed() ||
      sized.run < sized.columns || sized.columns * sized.widest_bytes < kLeastRowBytes) {
    return false;
  }
  // Rows that start anywhere come by copies, which want to know their length.
  Schedule pinned = s;
  std::optional<KeptRows> pinned_rows;
  for (int cluster = largest; cluster >= (s.shift ? kLeastShifted : 2); cluster /= 2) {
    const int ctas = CtasOfEachSm(sized, cluster);
    if (ctas == 0) continue;
    if (s.shift && !pinned_rows) {
      PinColumns(sized, pinned);
      SEAM_ASSIGN_OR_RETURN(pinned_rows, KeptRows::Of(sized, pinned));
    }
    Schedule c = pinned;
    c.min_ctas_per_sm = ctas;
    c.stages = s.shift ? 2 : 0;
    if (!ShareRowOfCluster(sized, cluster, c)) continue;
    const bool alone = ctas == 1 && !s.shift;
    if ((c.registers > kVectors && !alone) || !Fits(sized, s.shift ? *pinned_rows : rows, c))
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
