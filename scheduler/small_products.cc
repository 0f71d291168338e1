#include "scheduler/small_products.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/kernel/instructions.h"
#include "scheduler/points.h"
#include "scheduler/stencils.h"

namespace seam {
namespace {

// Short rows that read the same again and again, a matrix for each of many vectors, of which a CTA
// moves so little that neither memory nor beginning CTAs is what takes time: several to a thread,
// along the axis along which they load the least. `one`: what a row loads; of more than two tensors
// threads held too much.
absl::StatusOr<Schedule> FitShortRows(const SizedGroup& sized, const Loads& one, Schedule s) {
  constexpr double kCtaBytes = 1024, kMostOfApart = 0.85;
  constexpr int kMostElements = 64, kCtasOfSm = 16, kMostLanes = 4, kMostLoads = 2;
  SEAM_ASSIGN_OR_RETURN(const int64_t bytes, MovedBytes(sized));
  const int64_t ctas = CeilDivide(sized.rows, s.rows_per_cta());
  const int lanes = s.lanes_per_row * s.warps_per_row;
  if (lanes > kMostLanes || one.count > kMostLoads || s.grid > 0 || s.blocks || s.shift ||
      static_cast<double>(bytes) >= kCtaBytes * static_cast<double>(ctas)) {
    return s;
  }
  Schedule several = s;
  several.registers = static_cast<int>(CeilDivide(VectorsOf(sized, s), lanes));
  several.min_ctas_per_sm = 0;
  for (int rows = kMostPoints; rows > 1; rows /= 2) {
    if (rows * several.registers * several.vector > kMostElements ||
        ctas / rows < kCtasOfSm * sized.context.device.sms) {
      continue;
    }
    std::optional<Schedule> best;
    double fewest = kMostOfApart * rows * one.count;
    for (int along = 0; along < static_cast<int>(sized.shape.rows.size()); ++along) {
      SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> with,
                            WithPoints(sized, several, along, rows));
      if (!with) continue;
      SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
      if (!loads || loads->count >= fewest) continue;
      best = with;
      fewest = loads->count;
    }
    if (best) return *best;
  }
  return s;
}

// Whether there are twice as many products as elements, of the widest type, that are read and
// written: no large tensor then has all of the rows' and columns' axes.
absl::StatusOr<bool> AreMostlyProducts(const SizedGroup& sized) {
  SEAM_ASSIGN_OR_RETURN(const int64_t bytes, MovedBytes(sized));
  return 2 * bytes <= sized.rows * sized.columns * sized.widest_bytes;
}

// The short axis whose rows, all of them to a thread, load the least of all together, if it is
// less than they load apart.
absl::StatusOr<std::optional<int>> FindShortAxis(const SizedGroup& sized, const Loads& one,
                                                 const Schedule& s) {
  constexpr double kMostOfApart = 0.8;
  constexpr int64_t kMostResults = 16;
  const int axes = static_cast<int>(sized.shape.rows.size());
  std::optional<int> best;
  double least = kMostOfApart * one.count;
  for (int few = 0; few < axes && axes > 1; ++few) {
    const std::optional<int64_t> results =
        sized.shape.axes.extent(sized.shape.rows[few]).maybe_int();
    if (!results || *results < 2 || *results > kMostResults) continue;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> with,
                          WithPoints(sized, s, /*along=*/0, 1, few));
    if (!with) continue;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
    if (!loads || loads->count >= least * static_cast<double>(*results)) continue;
    least = loads->count / static_cast<double>(*results);
    best = few;
  }
  return best;
}

// The threads of a row that hold so many vectors each at most, a power of two or several warps:
// those that idle little, of these the fewest. False where they are too many.
bool ShareRow(int64_t vectors, int64_t most, Schedule& s) {
  constexpr int kLeastLanes = 8, kMostWarps = 8;
  constexpr double kFewIdle = 1.1;
  std::optional<Schedule> best;
  const auto consider = [&](int lanes, int warps) {
    Schedule t = s;
    t.lanes_per_row = lanes;
    t.warps_per_row = warps;
    const int64_t threads = int64_t{lanes} * warps;
    t.registers = static_cast<int>(CeilDivide(vectors, threads));
    if (t.registers > most) return;
    const auto held = [&](const Schedule& u) {
      return int64_t{u.registers} * u.lanes_per_row * u.warps_per_row;
    };
    if (!best || static_cast<double>(held(*best)) > kFewIdle * static_cast<double>(held(t)))
      best = t;
  };
  const int least = PowerOfTwoAtLeast(std::min<int64_t>(vectors, kLeastLanes), kLeastLanes);
  for (int lanes = least; lanes < 32; lanes *= 2) consider(lanes, 1);
  for (int warps = 1; warps <= kMostWarps; ++warps) consider(32, warps);
  if (!best) return false;
  s = *best;
  s.row_warps = std::max(1, 4 / s.warps_per_row);
  s.persistent = true;
  s.min_ctas_per_sm = 0;  // As many registers as the compiler likes.
  return true;
}

// Whether threads go through their columns once, so that they keep none of what they compute, and
// that is little enough to be written for each of a thread's elements.
bool IsOnePass(const Loads& loads, const Schedule& s) {
  constexpr int64_t kMostInstructions = 16384;  // Of a thread: more take the compiler long.
  const kernel::TileKernel& tile = loads.traced.tile;
  const std::vector<bool> of_columns = kernel::VaryingWithColumn(tile);
  int64_t instructions = 0;  // For each of a row's elements.
  for (size_t id = 0; id < tile.values.size(); ++id) {
    const kernel::TileValue& value = tile.values[id];
    if (of_columns[id] && value.kind == kernel::TileKind::Map)
      instructions += kernel::InstructionsOf(value.op);
  }
  int last = 0;
  for (const kernel::TileReduction& r : tile.reductions) last = std::max(last, r.pass);
  const bool reads_later = absl::c_any_of(tile.stores, [&](const kernel::TileStore& store) {
    return !tile.spaces[tile.passes[store.pass].space].extent.is_same(1);
  });
  return last == 0 && !reads_later && instructions * s.vector * s.registers <= kMostInstructions;
}

// All results of a short axis to a thread, of several rows.
absl::StatusOr<std::optional<Schedule>> FitResults(const SizedGroup& sized, const Loads& one,
                                                   const Schedule& s) {
  constexpr double kMostWords = 96, kMostOfApart = 0.9;
  constexpr int64_t kMostResults = 32, kMostElements = 64;
  SEAM_ASSIGN_OR_RETURN(const bool mostly, AreMostlyProducts(sized));
  if (!mostly) return std::nullopt;
  SEAM_ASSIGN_OR_RETURN(const std::optional<int> few, FindShortAxis(sized, one, s));
  if (!few) return std::nullopt;
  const int64_t results = *sized.shape.axes.extent(sized.shape.rows[*few]).maybe_int();
  const int axes = static_cast<int>(sized.shape.rows.size());
  Schedule thread = s;  // Of one vector, so that its text is short.
  thread.registers = 1;
  std::optional<Schedule> best;
  double least = INFINITY;
  for (int rows = kMostPointsOfRows; rows >= 1; rows /= 2) {
    if (rows > 1 && rows * results > kMostResults) continue;
    for (int along = axes - 1; along >= 0; --along) {  // Of equal ones neighbours are best.
      if (along == *few || (rows == 1 && best)) continue;
      SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> with,
                            WithPoints(sized, thread, along, rows, *few));
      if (!with) continue;
      SEAM_ASSIGN_OR_RETURN(std::optional<Loads> loads, LoadsOfPoints(sized, *with));
      if (!loads || loads->own_words <= 0) continue;
      const auto most = static_cast<int64_t>(kMostWords / loads->own_words);
      const bool shared =
          ShareRow(VectorsOf(sized, s), std::min(most, kMostElements / s.vector), *with);
      const int64_t ctas = sized.rows / (rows * results * with->rows_per_cta());
      const double each = static_cast<double>(loads->count) / rows;
      if (!shared || ctas < sized.context.device.sms || each >= kMostOfApart * least) continue;
      SEAM_ASSIGN_OR_RETURN(loads, LoadsOfPoints(sized, *with));
      if (!loads || !IsOnePass(*loads, *with)) continue;
      best = with;
      least = each;
    }
  }
  return best;
}

}  // namespace

absl::StatusOr<Schedule> FitSmallProducts(const SizedGroup& sized, const Loads& one, Schedule s) {
  SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> results, FitResults(sized, one, s));
  if (results) return *std::move(results);
  return FitShortRows(sized, one, std::move(s));
}

}  // namespace seam
