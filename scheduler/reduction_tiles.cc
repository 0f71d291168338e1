// Rows of which some tensors have neighbours along the rows, others along the columns: a layer norm
// that reads images with the channels in front and writes them last, or the other way around. A
// thread has a tile of rows and columns, and moves each tensor in vectors along its own axis.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/axis_order.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {
namespace {

constexpr int kMostTileThreads = 1024;
// Registers of a thread for addresses. Source: the registers of 216 layer norms of 32 to 4096
// channels, f32 and bf16, by NVRTC for sm_90a, none of which spills.
constexpr int kTileAddressWords = 20;

// Words of an element of every output that has columns: results of a tile take the place of what
// they follow from, and wait for each other where they lie along its columns.
double ResultWords(const SizedGroup& sized) {
  double words = 0;
  for (ValId v : sized.group->outputs()) {
    if (!sized.shape.Columns(sized.shape.axes.axes(v)).empty())
      words += DTypeBytes(sized.group->dtype(v)) / 4.0;
  }
  return words;
}

// What lies along the rows: results, rather than what reductions read; and whether all rows that
// are neighbours there are whole sectors.
struct AlongRows {
  bool writes = false, whole_sectors = true;
};

absl::StatusOr<AlongRows> WhatLiesAlongRows(const SizedGroup& sized) {
  AlongRows along;
  // What reductions read then lies along the columns.
  SEAM_ASSIGN_OR_RETURN(const GroupShape shape, AnalyzeGroup(*sized.group));
  along.writes = !shape.outer;
  const auto consider = [&](ValId v) -> absl::Status {
    if (sized.shape.Columns(sized.shape.axes.axes(v)).empty()) return absl::OkStatus();
    for (const std::vector<AxisId>& order : MemoryOrders(*sized.group, sized.shape, v)) {
      int64_t beside = 1;
      for (auto a = order.rbegin(); a != order.rend(); ++a) {
        if (!absl::c_linear_search(sized.shape.rows, *a)) break;
        SEAM_ASSIGN_OR_RETURN(const int64_t extent, ValueOf(sized, sized.shape.axes.extent(*a)));
        beside *= extent;
      }
      along.whole_sectors &=
          beside == 1 || beside * DTypeBytes(sized.group->dtype(v)) % kSectorBytes == 0;
    }
    return absl::OkStatus();
  };
  for (ValId v : sized.group->inputs()) SEAM_RETURN_IF_ERROR(consider(v));
  for (ValId v : sized.group->outputs()) SEAM_RETURN_IF_ERROR(consider(v));
  return along;
}

// By how much longer than a copy a kernel is expected to take whose threads hold so many words.
// Many threads with few points each, in many CTAs, hide latency best; a CTA has all columns of its
// rows, so only sectors of rows may be other CTAs' as well, which costs more where results lie
// along them. Source: timed on an H100, docs/schedulers/across.md.
double CostOf(const SizedGroup& sized, const Schedule& s, double words, const AlongRows& along) {
  constexpr double kBusyBytes = 32 * 1024;
  const DeviceInfo& device = sized.context.device;
  const int columns = s.tiles ? s.registers : 1;
  const double idle =
      static_cast<double>(s.columns_per_step()) / static_cast<double>(sized.columns);
  const double sectors_of_rows =
      static_cast<double>(s.rows_per_cta() * sized.narrowest_bytes) / kSectorBytes;
  const double of_rows =
      (1 + (along.writes ? 0.4 : 0.1) / (sectors_of_rows * sectors_of_rows)) *
      // Where rows begin anywhere a CTA's part of them lies in a sector more, partly another one's.
      (along.writes && !along.whole_sectors ? 1 + 0.75 / sectors_of_rows : 1);
  const double sectors_of_columns =
      static_cast<double>(s.lanes_per_row * columns * sized.narrowest_bytes) / kSectorBytes;
  const double of_columns = 1 / std::min(1.0, sectors_of_columns);
  const double accesses = 1 + 0.15 / s.vector + 0.15 / columns;
  const double points = 1 + s.vector * s.registers / 96.0;
  const double threads = 1 + s.threads() / 2048.0;
  const double bytes = words * 4 * s.threads() * s.min_ctas_per_sm;
  const double alone = s.min_ctas_per_sm == 1 ? 1.25 : 1;
  const bool busy = CeilDivide(sized.rows, s.rows_per_cta()) * 2 >= device.sms;
  return idle * of_rows * of_columns * accesses * points * threads * alone *
         std::max(1.0, kBusyBytes / bytes) * (busy ? 1 : 2);
}

// Rows held whole, with the vectors that `s` has. Single columns of a thread are as far apart as
// lanes and warps take them.
std::optional<std::pair<double, Schedule>> Hold(const SizedGroup& sized, const KeptRows& rows,
                                                const Schedule& s, const AlongRows& along) {
  constexpr int kMostColumns = 64, kMostPoints = 64, kMostSinglePoints = 32;
  constexpr int kLeastColumns = 4;  // Of narrow data a vector of 8 bytes.
  std::optional<std::pair<double, Schedule>> best;
  const int run = s.registers;
  const DeviceInfo& device = sized.context.device;
  const auto consider = [&](Schedule t) {
    // Single elements are not packed, and have addresses of their own.
    const int points = t.registers * t.vector;
    const bool packed = t.vector > 1 && t.tiles;
    if (t.threads() > kMostTileThreads || t.columns_per_step() < sized.columns ||
        !CheckSchedule(t).ok() || points > (t.vector > 1 ? kMostPoints : kMostSinglePoints)) {
      return;
    }
    const double held = std::max(rows.Words(t.registers, t),
                                 packed ? 0.0 : static_cast<double>(points) * sized.large_inputs);
    const double results = t.tiles ? points * ResultWords(sized) : 0;
    const double unpacked =
        sized.narrowest_bytes < 4 ? std::min(kUnpackedWords, points) * sized.large_inputs : 0;
    const double need = std::max(held, results) + StateWords(sized) * t.vector + unpacked +
                        (packed ? 0 : points / 2) + kTileAddressWords;
    t.persistent = true;
    t.min_ctas_per_sm = 0;
    const int most = std::min(8, device.max_threads_per_sm / t.threads());
    while (t.min_ctas_per_sm < most &&
           need <= RegistersFor(device, (t.min_ctas_per_sm + 1) * t.threads())) {
      ++t.min_ctas_per_sm;
    }
    if (t.min_ctas_per_sm == 0) return;
    const double cost = CostOf(sized, t, held, along);
    if (!best || cost < best->first) best.emplace(cost, std::move(t));
  };
  for (const int lanes : {8, 4, 16, 2, 32}) {
    for (int registers = std::min(run, kLeastColumns);
         registers <= kMostColumns && registers < 2 * sized.columns; registers *= 2) {
      Schedule t = s;
      t.lanes_per_row = lanes;
      t.registers = registers;
      t.tiles = run > 1;
      t.warps_per_row =
          static_cast<int>(std::min<int64_t>(32, CeilDivide(sized.columns, lanes * registers)));
      t.row_warps = std::max(1, 4 / t.warps_per_row);
      // Rows that are merged lie in a CTA all together.
      while (t.row_warps < 8 && t.rows_per_cta() % t.neighbours != 0) ++t.row_warps;
      consider(t);
    }
  }
  return best;
}

}  // namespace

absl::StatusOr<std::optional<Schedule>> ChooseTiles(const SizedGroup& sized, Schedule s) {
  constexpr double kMostCost = 6;  // From there on it is better to read rows again.
  s.tiles = s.outer = true;
  if (sized.shape.crossed() || sized.shape.rows.empty() || sized.columns <= 1) return std::nullopt;
  SEAM_ASSIGN_OR_RETURN(const AlongRows along, WhatLiesAlongRows(sized));
  SEAM_ASSIGN_OR_RETURN(const bool across, LieAcross(sized));
  if (!across) return std::nullopt;
  const int most = std::clamp(16 / sized.narrowest_bytes, 1, 8);
  std::optional<Schedule> widest;
  for (const auto& [rows, columns] : {std::pair(most, most), {most, 1}, {1, most}, {1, 1}}) {
    for (int narrower = 1; narrower == 1 || narrower < std::max(rows, columns); narrower *= 2) {
      s.vector = std::max(1, rows / narrower);
      s.registers = std::max(1, columns / narrower);
      SEAM_ASSIGN_OR_RETURN(const bool fits, ChooseFacts(sized, s));
      if (!fits || (s.neighbours > 1 && s.registers == 1)) continue;
      if (!widest && s.neighbours == 1) widest = s;
      Schedule pinned = s;
      PinColumns(sized, pinned);
      if (s.neighbours > 1) Pin(sized, FreeSymbols(sized.shape.Extent(sized.shape.merged)), pinned);
      SEAM_ASSIGN_OR_RETURN(const KeptRows kept, KeptRows::Of(sized, pinned));
      const auto held = Hold(sized, kept, pinned, along);
      if (held && held->first <= kMostCost) return held->second;
    }
  }
  if (!widest) return std::nullopt;
  // Longer rows are read again in each pass.
  constexpr int kLanes = 8, kWarps = 8;
  widest->tiles = widest->registers > 1;
  widest->lanes_per_row = kLanes;
  widest->warps_per_row = kWarps;
  widest->min_ctas_per_sm = 2;
  return *widest;
}

}  // namespace seam::reduction
