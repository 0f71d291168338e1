#include "scheduler/neighbour_ways.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/kernel/tile.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {
namespace {

// Of a warp at a column: less costs more than to read it again.
constexpr int64_t kLeastPiece = 16;

// How many times as long memory takes for pieces of so many bytes of a column, of a warp, which
// from a sector on shares none with another warp, and of a CTA.
double SlowedByPieces(int64_t of_warp, int64_t of_cta) {
  const double by_cta = of_cta > 128 ? 1 : of_cta > 64 ? 1.05 : of_cta > 32 ? 1.2 : 1.26;
  if (of_warp > 64) return 0.95 * by_cta;
  if (of_warp > 32) return by_cta;
  return by_cta * (of_warp > 16 ? 1.19 : of_warp > 8 ? 2.2 : 3.9);
}

// Of a warp at a column, or at several that lie beside each other whole.
int64_t PieceBytes(const SizedGroup& sized, const Schedule& s) {
  const bool whole = s.row_warps == 1 && s.rows_per_cta() >= sized.beside;
  return (whole ? 32 : 32 / s.lanes_per_row) * int64_t{s.vector} * sized.widest_bytes;
}

int64_t CtaPieceBytes(const SizedGroup& sized, const Schedule& s) {
  return std::max(PieceBytes(sized, s), s.rows_per_cta() * sized.widest_bytes);
}

// Words that a row leaves for what crosses the rows, in each CTA that has a part of it.
int CrossedWords(const SizedGroup& sized) {
  int words = 0;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    if (sized.shape.crosses[i] != Crossing::kNone)
      words += kernel::NumComponents(sized.group->op(ExprId(i)));
  }
  return words;
}

// All ways of one group's rows.
class Ways {
 public:
  Ways(const SizedGroup& sized, const KeptRows& rows)
      : sized_(sized), rows_(rows), device_(sized.context.device), words_(rows) {}

  // The fastest first.
  std::vector<Schedule> Find(const Schedule& s) {
    const int even = s.neighbours & -s.neighbours;
    Schedule t = s;
    t.row_warps = s.neighbours / even;
    t.persistent = true;
    for (t.vector = s.vector; t.vector > 1 && t.vector * sized_.widest_bytes >= kLeastVectorBytes;
         t.vector /= 2) {
      for (t.lanes_per_row = 1; t.lanes_per_row <= 32; t.lanes_per_row *= 2) {
        // A CTA has the neighbours all together, and does not reach beyond those of a column.
        if (t.rows_per_cta() % s.neighbours != 0 || t.rows_per_cta() > Most(t)) continue;
        if (PieceBytes(sized_, t) < kLeastPiece) continue;
        for (t.cluster = 1; t.cluster <= device_.max_cluster; t.cluster *= 2) ShareAmongWarps(t);
      }
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Schedule> ways;
    for (auto& [us, way] : found_) {
      if (way.async || way.columns_at_once() == sized_.columns) PinColumns(sized_, way);
      ways.push_back(std::move(way));
    }
    return ways;
  }

 private:
  int64_t Most(const Schedule& s) const {
    return std::max(sized_.beside, int64_t{s.vector} * s.row_warps);
  }

  void ShareAmongWarps(Schedule t) {
    const int64_t per_warp = CeilDivide(sized_.columns, int64_t{t.lanes_per_row} * t.cluster);
    for (t.warps_per_row = 1; t.threads() <= kMostWayThreads; t.warps_per_row *= 2) {
      t.registers = static_cast<int>(std::min<int64_t>(CeilDivide(per_warp, t.warps_per_row), 256));
      const bool idle = t.columns_at_once() * 4 > sized_.columns * 5;
      if (t.columns_at_once() < sized_.columns || t.threads() % t.rows_per_cta() != 0 ||
          (idle && t.warps_per_row * t.cluster > 1)) {
        continue;
      }
      Hold(t);
      Bring(t);
    }
  }

  // In registers, by what compilers take without spills.
  void Hold(Schedule t) {
    constexpr double kPacked = 0.8, kUnpacked = 0.4, kOfNarrowRow = 0.5, kOfWideRow = 0.25;
    const bool narrow = sized_.widest_bytes < 4;
    const int points = t.registers * t.vector;
    if (narrow && points > kMostNarrowPoints) return;
    const double held = narrow ? kPacked * words_.Of(t) + kUnpacked * points : words_.Of(t);
    const double of_rows = RowWords(sized_) * t.vector * (narrow ? kOfNarrowRow : kOfWideRow);
    const double masks = t.columns_at_once() > sized_.columns ? kSingleWords : 0;
    Add(t, held + kWayAddressWords + of_rows + masks, kMostWayCtas);
  }

  // In shared memory, brought there by the threads.
  void Bring(Schedule t) {
    constexpr double kOtherWords = 44, kUnpacked = 2.5;
    constexpr int kManyVectors = 16;
    constexpr int64_t kLeastBytes = 16384;  // Less has room in registers, and is for any length.
    t.async = t.reread = true;
    if (!device_.async_loads || !rows_.AreAllBrought() || t.registers > kMostBroughtVectors ||
        rows_.AsyncBytes(t) < kLeastBytes) {
      return;
    }
    const double of_element = sized_.large_inputs * (sized_.widest_bytes < 4 ? kUnpacked : 1);
    const double need =
        kOtherWords + of_element * t.vector + (t.registers > kManyVectors ? kManyVectors : 0);
    Add(t, need, std::min(kMostWayCtas, CtasThatFit(sized_, rows_, t)));
  }

  // With as many CTAs an SM as have the registers.
  void Add(Schedule t, double need, int most_ctas) {
    constexpr int kMostRegisters = 255;
    const int most = std::min(most_ctas, device_.max_threads_per_sm / t.threads());
    const int ctas = CtasOfRegisters(device_, t.threads(), need, kMostRegisters, most);
    if (ctas == 0) return;
    t.min_ctas_per_sm = ctas;
    // Fewer than that leave most of the machine idle, unless there is little of each.
    const bool few = t.cluster == 1 && t.registers * t.vector <= kFewWayPoints;
    if (OuterCtas(sized_, t) * 2 < device_.sms && !few) return;
    found_.emplace_back(Microseconds(sized_, t), t);
  }

  const SizedGroup& sized_;
  const KeptRows& rows_;
  const DeviceInfo& device_;
  WordsByPoints words_;
  std::vector<std::pair<double, Schedule>> found_;
};

}  // namespace

std::vector<Schedule> NeighbourWays(const SizedGroup& sized, const KeptRows& rows,
                                    const Schedule& s) {
  if (sized.rows == 0) return {};  // They take no time in any way.
  return Ways(sized, rows).Find(s);
}

double Microseconds(const SizedGroup& sized, const Schedule& s) {
  // Before the first byte; a turn's own time, a cluster's exchange, and what so many bytes of a CTA
  // take; what of a last turn's unused part costs time, beside one CTA an SM.
  constexpr double kLaunch = 2.9, kTurn = 0.94, kExchange = 0.17, kByBytes = 0.47 / 65536,
                   kLastTurn = 0.5;
  // Clusters of 16 leave SMs idle; narrow data, halves of vectors, many of them that are read from
  // shared memory, and more threads than these take more instructions, fewer threads less.
  constexpr double kWidestCluster = 1.13, kNarrow = 1.09, kHalfVector = 0.05;
  constexpr double kNarrowBrought = 1.055, kManyBrought = 1.06, kMoreThreads = 0.033,
                   kFewerThreads = 0.03;
  constexpr int kWidest = 16, kManyVectors = 16;
  constexpr double kVectorBytes = 16, kThreads = 512;
  const DeviceInfo& device = sized.context.device;
  const bool narrow = sized.widest_bytes < 4;
  const auto ctas = static_cast<double>(OuterCtas(sized, s));
  const double at_once = std::min<double>(s.min_ctas_per_sm, std::ceil(ctas / device.sms));
  const double turns = ctas / static_cast<double>(ResidentCtas(s, device));
  const double whole = turns + (std::ceil(turns) - turns) * kLastTurn / at_once;
  const double elements = static_cast<double>(sized.rows * sized.columns) * sized.widest_bytes;
  const double read = elements * sized.large_inputs;
  const double moved = read + elements * sized.large_outputs;
  double us = moved * 1e6 / static_cast<double>(device.bytes_per_second) * whole / turns *
              SlowedByPieces(PieceBytes(sized, s), CtaPieceBytes(sized, s)) *
              std::max(1.0, device.sms / ctas);
  if (narrow) us *= kNarrow;
  if (s.cluster == kWidest) us *= kWidestCluster;
  us += std::max(1.0, whole) * (kTurn + (s.cluster > 1 ? kExchange : 0) + kByBytes * read / ctas);
  // What CTAs leave of their rows, written and read again.
  const double left = 2.0 * 4 * CrossedWords(sized) * static_cast<double>(sized.rows) * s.cluster;
  us += left * 1e6 / static_cast<double>(device.bytes_per_second);
  if (s.async && narrow) us *= kNarrowBrought;
  if (s.async && s.registers > kManyVectors) us *= kManyBrought;
  const double halvings = std::max(0.0, std::log2(kVectorBytes / (s.vector * sized.widest_bytes)));
  const double doublings = std::log2(s.threads() * at_once / kThreads);
  return kLaunch + us * (1 + kHalfVector * halvings) *
                       (1 + doublings * (doublings > 0 ? kMoreThreads : kFewerThreads));
}

}  // namespace seam::reduction
