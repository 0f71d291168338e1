// Long rows that start anywhere, to clusters that take them in turn. Where a thread keeps weights
// or states of its columns, a CTA's rows must all start equally far from an aligned address, so
// clusters come in multiples of a vector's elements (or of what is left of these), and the others
// stay at home: of 15 clusters of eight CTAs seven. Which CTAs lose least is searched for among all
// that have the registers and the shared memory: small ones, several of them an SM, in most cases.
// Where they lose much all come, and take rows in the order of their starts. What keeps nothing of
// its columns needs none of that (Schedule::stretches).
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/reduction_turns.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

// Whether one CTA handles a row as well, and need not wait for others. Of narrow data and several
// states there are lengths at which few of its threads would be busy, or too few, and beside
// weights of wider elements threads of long rows have not the registers.
bool IsForOneCta(const SizedGroup& sized, bool wide_weights, int states) {
  const int64_t columns = sized.columns;
  if (sized.widest_bytes >= 4) return columns <= (states > 0 ? 12288 : 16384);
  if (states > 1 && wide_weights && columns > 12288) return false;
  if (states > 1 && columns > 8192 && columns <= 10240) return false;
  return columns <= (states > 0 ? 17408 : kShiftedCtaColumns);
}

// Registers that a thread needs, of which `row_words` keep the row if that stays in them.
double Needs(const SizedGroup& sized, bool wide_weights, int states, double weights,
             double row_words, const Schedule& s) {
  // Beside what a row keeps; and what compilers load ahead of a word that is read again from shared
  // memory: of narrow data by the states of a column, less if there is one input beside weights
  // that need no unpacking. Of states they take vectors of these in pairs; without states
  // and beside few weights they unpack what stays in registers.
  constexpr int kBeside = 35;
  constexpr double kNarrowAhead[] = {1.0, 0.45, 0.4}, kWideAhead = 0.1, kBesideWideWeights = 0.6;
  const bool narrow = sized.widest_bytes < 4;
  const int registers = s.registers + (narrow && states > 0 && s.registers % 2 == 1);
  const int points = registers * s.vector;
  const double of_inputs = sized.input_words * points;
  double of_row = row_words;
  if (s.reread) {
    const bool one_input = states == 0 && wide_weights && sized.large_inputs == 1;
    of_row = of_inputs * (!narrow     ? kWideAhead
                          : one_input ? kBesideWideWeights
                                      : kNarrowAhead[std::min(states, 2)]);
  } else if (narrow && states == 0 && weights < kManyWeights) {
    of_row += of_inputs;
  }
  return points * (states + weights) + of_row + kBeside;
}

// The CTAs that have rows, of those that the device holds.
double AtWork(const SizedGroup& sized, const Schedule& s) {
  // Of few rows some clusters have none.
  const auto at_work = static_cast<double>(std::min<int64_t>(s.grid, sized.rows * s.cluster));
  return at_work / (sized.context.device.sms * s.min_ctas_per_sm);
}

// Of a row's places those that have a vector.
double InUse(const SizedGroup& sized, const Schedule& s) {
  constexpr double kInUse = 0.05;  // Idle threads that cost nothing.
  const auto vectors = static_cast<double>(VectorsOf(sized, s));
  return std::min(1.0, vectors / (s.cluster * s.threads() * s.registers) + kInUse);
}

// How near to the speed of memory all CTAs are expected to come with rows that they keep nothing
// of. So much of an SM's rows hides what the CTAs of a cluster wait for each other, and so many
// threads what they compute. Fitted to schedules of softmaxes and their gradients:
// docs/schedulers/any-length.md, "Rows in the order of their starts".
double SpeedOfAll(const SizedGroup& sized, int64_t stage_bytes, const Schedule& s) {
  constexpr double kTurnBytes = 65536, kLeast = 448, kCrowded = 0.04 / 160, kOneWideCta = 0.92;
  constexpr int kMost = 640;
  const int ctas = s.min_ctas_per_sm, threads = ctas * s.threads();
  double speed = AtWork(sized, s) * InUse(sized, s);
  speed *= std::min(1.0, std::sqrt(threads / kLeast));
  speed *= 1 - kCrowded * std::max(0, threads - kMost);
  if (ctas == 1 && sized.widest_bytes >= 4) speed *= kOneWideCta;
  return speed * std::min(1.0, std::sqrt(ctas * static_cast<double>(stage_bytes) / kTurnBytes));
}

// The same where all of a CTA's rows start alike. Fitted to 525 schedules of 38
// kinds of rows, timed on an H200: docs/schedulers/any-length.md, "Long rows of any length".
double Speed(const SizedGroup& sized, double weights, int states, const Schedule& s) {
  constexpr double kTwoStages = 0.88, kOneCta = 0.94, kLargeCta = 0.97, kBareRead = 0.99,
                   kUnpaired = 0.88;
  constexpr int kLargeThreads = 256, kSchedulers = 4;
  const bool computes = states > 1 && sized.widest_bytes < 4;
  // Rows without weights have more to compute for each byte, exponentials above all.
  const int least = states == 0 && weights == 0 ? 448 : 256, most = computes ? 480 : 640;
  const double crowded = (computes ? 0.09 : 0.04) / 160;
  const int ctas = s.min_ctas_per_sm, threads = ctas * s.threads();
  double speed = AtWork(sized, s) * InUse(sized, s);
  speed *= std::min(1.0, std::sqrt(static_cast<double>(threads) / least));
  speed *= 1 - crowded * std::max(0, threads - most);
  if (s.stages < 3) speed *= kTwoStages;
  if (ctas == 1) speed *= kOneCta;
  if (s.threads() > kLargeThreads) speed *= kLargeCta;
  if (s.reread && weights == 0) speed *= kBareRead;
  if (computes) {
    // As long as memory takes: an SM's schedulers want alike much of it, and vectors come in pairs.
    const int64_t warps = threads / 32, rounds = CeilDivide(warps, kSchedulers);
    speed *= std::sqrt(static_cast<double>(warps) / static_cast<double>(kSchedulers * rounds));
    if (s.registers % 2 == 1) speed *= kUnpaired;
  }
  return speed;
}

}  // namespace

absl::StatusOr<bool> ChooseShiftedCluster(const SizedGroup& sized, const KeptRows& rows, int states,
                                          Schedule& s) {
  constexpr int kLeastThreads = 128, kMostThreads = 640, kMostCtas = 6, kMostRegisters = 16;
  // Rows in stretches are far from each other, which memory answers later.
  constexpr double kGainInStretches = 1.5, kAnyGain = 1.01, kGain = 1.1;
  constexpr int kBesideStretches = 4;  // Registers.
  constexpr int64_t kLongBareBytes = 256 << 10, kLeastTurnsOfAll = 8;
  const DeviceInfo& device = sized.context.device;
  const bool wide_weights = HasWideWeights(sized, rows);
  if (IsForOneCta(sized, wide_weights, states)) return false;
  Schedule pinned = s;
  PinColumns(sized, pinned);
  SEAM_ASSIGN_OR_RETURN(const KeptRows pinned_rows, KeptRows::Of(sized, pinned));
  pinned.persistent = true;
  pinned.lanes_per_row = 32;
  pinned.row_warps = 1;
  const double weights = rows.AlikeWords();
  const auto best_of = [&](bool all, int beside_stretches = 0) {
    std::optional<Schedule> best;
    double best_speed = 0;
    for (int cluster = 2; cluster <= device.max_cluster; cluster *= 2) {
      // Nothing but a cluster shares the states of columns; of few rows without, more CTAs than
      // its.
      if (states == 0 && sized.rows * cluster * 2 < device.sms) continue;
      for (int registers = 1; registers <= kMostRegisters; ++registers) {
        Schedule c = pinned;
        c.cluster = cluster;
        c.registers = registers;
        const int64_t threads =
            CeilDivide(sized.columns, int64_t{cluster} * registers * 32 * c.vector) * 32;
        if (threads < kLeastThreads || threads > kMostThreads) continue;
        c.warps_per_row = static_cast<int>(threads / 32);
        const int64_t stage = pinned_rows.StageBytes(c), beside = pinned_rows.StateBytes(c);
        const double words = rows.Words(registers, c);
        for (int ctas = 1; ctas <= kMostCtas && stage > 0; ++ctas) {
          c.min_ctas_per_sm = ctas;
          c.grid = CtasOfClusters(sized, c, all);
          const int64_t room = device.smem_bytes_per_cta / ctas - kOtherSharedBytes - beside;
          const int of_thread =
              std::min(255, RegistersFor(device, c.threads() * ctas) / 8 * 8) - beside_stretches;
          for (int stages = 2; stages <= 3 && stages * stage <= room && c.grid > 0; ++stages) {
            for (const bool reread : {false, true}) {
              Schedule t = c;
              t.stages = stages;
              t.reread = reread;
              if (Needs(sized, wide_weights, states, weights, words, t) > of_thread) continue;
              const double speed =
                  all ? SpeedOfAll(sized, stage, t) : Speed(sized, weights, states, t);
              if (speed <= best_speed) continue;
              best_speed = speed;
              best = t;
              StayTogether(sized, stage, *best);
            }
          }
        }
      }
    }
    return best;
  };
  const auto turns = [&](int cluster, int grid) {
    return CeilDivide(sized.rows * cluster, int64_t{grid});
  };
  // Nothing stays from row to row, of columns or in all.
  const bool bare = states == 0 && weights == 0 && !sized.shape.crosses_all_rows();
  std::optional<Schedule> best;
  if (bare && sized.columns * sized.widest_bytes >= kLongBareBytes) best = best_of(true);
  if (!best || turns(best->cluster, best->grid) < kLeastTurnsOfAll) best = best_of(false);
  if (!best) return false;
  // The schedule with all of its clusters, if they take so much fewer turns.
  const double enough = !bare ? kGainInStretches : sized.large_inputs == 1 ? kAnyGain : kGain;
  const auto with_all = [&](const std::optional<Schedule>& some) -> std::optional<Schedule> {
    if (!some) return std::nullopt;
    Schedule all = *some;
    all.grid = CtasOfClusters(sized, all, /*all=*/true);
    const auto fewer = static_cast<double>(turns(some->cluster, some->grid)) /
                       static_cast<double>(turns(all.cluster, all.grid));
    return fewer >= enough ? std::make_optional(all) : std::nullopt;
  };
  if (std::optional<Schedule> all = with_all(best); all && bare) {
    best = all;
  } else if (all) {
    all = with_all(best_of(false, kBesideStretches));
    if (all) best = all;
  }
  if (states == 0 && FitsCta(sized, rows, s) && AreTurnsTooFew(sized, *best)) return false;
  s = *std::move(best);
  return true;
}

}  // namespace seam::reduction
