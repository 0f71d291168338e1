// Neighbouring columns that are rows of their own (Schedule::neighbours) and are read again: in
// registers or in shared memory, by the fewest CTAs of a cluster, or in another way that should
// take less time. Source: images timed side by side, docs/schedulers/columns.md, "Neighbouring
// columns as rows" and "Ways to share neighbours".
#include <algorithm>
#include <optional>
#include <utility>

#include "scheduler/neighbour_ways.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {
namespace {

// The fewest CTAs of a cluster that hold a cache line of each column, or half of one, such that an
// SM holds two of them, else one. A thread of so few has many registers.
bool HoldInFewCtas(const SizedGroup& sized, const KeptRows& rows, int lines, Schedule& s) {
  constexpr int kMostRegisters = 240;
  const DeviceInfo& device = sized.context.device;
  const int row_words = RowWords(sized);
  const auto hold = [&](Schedule t, int bytes, int least_ctas, int64_t least_in_all) {
    LieAlongRows(sized, bytes, t);
    const int64_t per_warp = CeilDivide(sized.columns, t.lanes_per_row * t.cluster);
    for (t.warps_per_row = 1; t.threads() <= kMostWayThreads; t.warps_per_row *= 2) {
      t.registers = static_cast<int>(std::min<int64_t>(CeilDivide(per_warp, t.warps_per_row), 256));
      const bool few = t.cluster == 1 && t.registers * t.vector <= kFewWayPoints;
      const bool idle = t.columns_at_once() * 4 > sized.columns * 5;
      if (t.columns_at_once() < sized.columns || t.threads() % t.rows_per_cta() != 0 ||
          (idle && t.warps_per_row * t.cluster > 1) ||
          (sized.widest_bytes < 4 && t.registers * t.vector > kMostNarrowPoints) ||
          (OuterCtas(sized, t) < least_in_all && !(few && least_ctas == 1))) {
        continue;
      }
      const double need = rows.Words(t.registers, t) + kWayAddressWords + row_words * t.vector;
      const int most = std::min(kMostWayCtas, device.max_threads_per_sm / t.threads());
      const int ctas = CtasOfRegisters(device, t.threads(), need, kMostRegisters, most);
      if (ctas < least_ctas) continue;
      t.min_ctas_per_sm = ctas;
      t.persistent = true;
      if (t.columns_at_once() == sized.columns) PinColumns(sized, t);
      s = t;
      return true;
    }
    return false;
  };
  const std::pair<int, int64_t> choices[] = {{2, device.sms}, {1, device.sms}, {1, device.sms / 2}};
  for (const auto& [least_ctas, least_in_all] : choices) {
    for (Schedule t = s; t.vector > 1 && t.vector * sized.widest_bytes >= kLeastVectorBytes;
         t.vector /= 2) {
      for (const int bytes : {128 * lines, 64 * lines}) {
        for (t.cluster = 1; t.cluster <= device.max_cluster; t.cluster *= 2)
          if (hold(t, bytes, least_ctas, least_in_all)) return true;
      }
    }
  }
  return false;
}

// The same in shared memory, in pieces so many times as long as a cache line's.
bool BringInFewCtas(const SizedGroup& sized, const KeptRows& rows, int lines, Schedule& s) {
  constexpr int kLineBytes = 128, kFewVectors = 16;
  constexpr int kNarrowThreads = 512;  // Of an SM that unpacks two inputs.
  const DeviceInfo& device = sized.context.device;
  if (!sized.context.device.async_loads || !rows.AreAllBrought()) return false;
  for (int cluster = 2; cluster <= device.max_cluster; cluster *= 2) {
    Schedule t = s;
    LieAlongRows(sized, lines * kLineBytes, t);
    t.cluster = cluster;
    const int64_t per_warp = CeilDivide(sized.columns, t.lanes_per_row * cluster);
    t.warps_per_row = per_warp > kFewVectors ? 2 : 1;
    while (per_warp > kMostBroughtVectors * t.warps_per_row && 2 * t.threads() <= kMostWayThreads)
      t.warps_per_row *= 2;
    const auto take_warps = [&](int warps) {
      t.warps_per_row = warps;
      t.registers = static_cast<int>(std::min<int64_t>(CeilDivide(per_warp, warps), 256));
    };
    take_warps(t.warps_per_row);
    t.persistent = t.async = t.reread = true;
    const int fit = CtasThatFit(sized, rows, t);
    if (sized.widest_bytes < 4 && sized.large_inputs > 1 && fit * t.threads() < kNarrowThreads &&
        per_warp > t.warps_per_row) {
      take_warps(2 * t.warps_per_row);
      if (CtasThatFit(sized, rows, t) < fit) take_warps(t.warps_per_row / 2);
    }
    if (t.columns_at_once() < sized.columns || t.threads() % t.rows_per_cta() != 0 || fit < 2)
      continue;
    t.min_ctas_per_sm = fit;
    const int64_t ctas = OuterCtas(sized, t);
    if (ctas < device.sms ||
        (fit < 4 && ctas > ResidentCtas(t, device) && cluster < device.max_cluster)) {
      continue;
    }
    PinColumns(sized, t);
    if (!HasRoom(sized, t, /*any=*/true)) continue;
    s = t;
    return true;
  }
  return false;
}

// Of neighbours that several warps side by side merge: how many times as long a piece is of which
// four lanes have a part, where a cache line's would be one lane's or two. Source:
// docs/schedulers/columns.md, "Longer pieces".
int LinesOfFourLanes(const SizedGroup& sized, Schedule s) {
  constexpr int kLineBytes = 128, kLanes = 4, kFewWarps = 5;
  int lines = 1;
  for (LieAlongRows(sized, kLineBytes, s);
       s.row_warps >= kFewWarps && 32 / s.lanes_per_row < kLanes && lines < kLanes;) {
    lines *= 2;
    LieAlongRows(sized, lines * kLineBytes, s);
  }
  return lines;
}

// Whether an SM has nearly as many threads with longer pieces, and vectors as wide; half as many of
// many warps side by side, which have less to gain by more.
bool IsAsBusy(const Schedule& longer, const Schedule& held) {
  constexpr int kManyWarps = 7;
  const double least = held.row_warps >= kManyWarps ? 0.5 : 0.8;
  return longer.vector == held.vector &&
         longer.min_ctas_per_sm * longer.threads() >= least * held.min_ctas_per_sm * held.threads();
}

// Rows that are neighbours and read again, in registers or, where these would be crowded, in shared
// memory; pieces of so many lines. None if there is no room.
std::optional<Schedule> HoldOrBring(const SizedGroup& sized, const KeptRows& rows, int lines,
                                    const Schedule& s) {
  constexpr double kMostHeldWords = 128;
  Schedule held = s, brought = s;
  const bool holds = HoldInFewCtas(sized, rows, lines, held);
  // Narrow data would be unpacked in registers, two inputs or many vectors fill them.
  const bool crowded = sized.widest_bytes < 4 || sized.large_inputs > 1 ||
                       held.registers * held.vector * sized.input_words > kMostHeldWords;
  if ((!holds || held.cluster > 1) && crowded && BringInFewCtas(sized, rows, lines, brought))
    return brought;
  if (holds) return held;
  return std::nullopt;
}

// What does well in most cases: pieces of a cache line or more, the fewest CTAs.
std::optional<Schedule> FirstChoice(const SizedGroup& sized, const KeptRows& rows,
                                    const Schedule& s) {
  const int lines = LinesOfFourLanes(sized, s);
  std::optional<Schedule> held = HoldOrBring(sized, rows, 1, s);
  if (lines == 1) return held;
  std::optional<Schedule> longer = HoldOrBring(sized, rows, lines, s);
  return longer && (!held || IsAsBusy(*longer, *held)) ? longer : held;
}

}  // namespace

bool HoldNeighbours(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  // Of the estimate of the first choice: less of a gain may be none.
  constexpr double kGains = 0.87;
  std::optional<Schedule> taken = FirstChoice(sized, rows, s);
  if (!taken) return false;
  // What rows leave that others cross is finished by the same kernel where no cluster has them, and
  // by another where one does: between these the estimate does not tell, nor among few such CTAs.
  const bool crossed = sized.shape.crossed(), alone = taken->cluster == 1;
  if (crossed && alone && OuterCtas(sized, *taken) < sized.context.device.sms) {
    s = *std::move(taken);
    return true;
  }
  const double most = kGains * Microseconds(sized, *taken);
  for (Schedule& way : NeighbourWays(sized, rows, s)) {
    if (Microseconds(sized, way) >= most) break;
    if (crossed && (way.cluster == 1) != alone) continue;
    // What threads bring takes shared memory that only the kernel knows.
    if (way.async && !HasRoom(sized, way, /*any=*/true)) continue;
    taken = std::move(way);
    break;
  }
  s = *std::move(taken);
  return true;
}

}  // namespace seam::reduction
