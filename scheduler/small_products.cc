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

// The short axis whose rows, all of them to a thread, load the least of all together, if it is
// less than they load apart.
absl::StatusOr<std::optional<PointsAlong>> FindShortAxis(const SizedGroup& sized, const Loads& one,
                                                         const Schedule& s) {
  constexpr double kMostOfApart = 0.8;
  const int axes = static_cast<int>(sized.shape.rows.size());
  std::optional<PointsAlong> best;
  double least = kMostOfApart * one.count;
  for (int axis = 0; axis < axes && axes > 1; ++axis) {
    const std::optional<PointsAlong> results = AllOf(sized, axis, kMostResults);
    if (!results) continue;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> with,
                          WithPoints(sized, s, /*along=*/0, 1, *results));
    if (!with) continue;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
    if (!loads || loads->count >= least * results->points) continue;
    least = static_cast<double>(loads->count) / results->points;
    best = results;
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
  const auto goes_over_columns = [&](int pass) {
    return !tile.spaces[tile.passes[pass].space].extent.is_same(1);
  };
  int passes = 0;
  for (int pass = 0; pass < static_cast<int>(tile.passes.size()); ++pass)
    passes += goes_over_columns(pass);
  const bool stores_columns = absl::c_any_of(
      tile.stores, [&](const kernel::TileStore& store) { return goes_over_columns(store.pass); });
  return passes == 1 && !stores_columns &&
         instructions * s.vector * s.registers <= kMostInstructions;
}

// All results of a short axis to a thread, of several rows.
absl::StatusOr<std::optional<Schedule>> FitResults(const SizedGroup& sized, const Loads& one,
                                                   const Schedule& s) {
  constexpr double kMostWords = 96, kMostOfApart = 0.9;
  constexpr int64_t kMostOfThread = 32, kMostElements = 64;
  SEAM_ASSIGN_OR_RETURN(const std::optional<PointsAlong> few, FindShortAxis(sized, one, s));
  if (!few) return std::nullopt;
  const int64_t results = few->points;
  const int axes = static_cast<int>(sized.shape.rows.size());
  Schedule thread = s;  // Of one vector, so that its text is short.
  thread.registers = 1;
  std::optional<Schedule> best;
  double least = INFINITY;
  for (int rows = kMostPointsOfRows; rows >= 1; rows /= 2) {
    if (rows > 1 && rows * results > kMostOfThread) continue;
    for (int along = axes - 1; along >= 0; --along) {  // Of equal ones neighbours are best.
      if (along == few->axis || (rows == 1 && best)) continue;
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

// How many loads a tile of so many points along two axes makes for a column, by what two points
// along each make: each load depends on neither, on one or on both.
struct TileLoads {
  double neither = 0, first = 0, second = 0, both = 0;

  // By result.
  double Each(int along_first, int along_second) const {
    const double results = static_cast<double>(along_first) * along_second;
    return (neither + first * along_first + second * along_second + both * results) / results;
  }
  TileLoads Swapped() const { return {neither, second, first, both}; }
};

absl::StatusOr<std::optional<TileLoads>> LoadsOfTiles(const SizedGroup& sized, const Loads& one,
                                                      const Schedule& s, int first, int second) {
  const auto count = [&](int points, int beside) -> absl::StatusOr<std::optional<double>> {
    SEAM_ASSIGN_OR_RETURN(
        const std::optional<Schedule> with,
        WithPoints(sized, s, first, points, {second, beside}, /*may_be_uneven=*/true));
    if (!with) return std::nullopt;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
    return loads ? std::optional<double>(loads->of_columns) : std::nullopt;
  };
  SEAM_ASSIGN_OR_RETURN(const std::optional<double> of_first, count(2, 1));
  SEAM_ASSIGN_OR_RETURN(const std::optional<double> of_second, count(1, 2));
  SEAM_ASSIGN_OR_RETURN(const std::optional<double> of_both, count(2, 2));
  if (!of_first || !of_second || !of_both) return std::nullopt;
  TileLoads loads;
  loads.both = *of_both - *of_first - *of_second + one.of_columns;
  loads.first = *of_first - one.of_columns - loads.both;
  loads.second = *of_second - one.of_columns - loads.both;
  loads.neither = one.of_columns - loads.first - loads.second - loads.both;
  return loads;
}

// Threads that go through the columns in steps, of a vector each that divides them: what is stored,
// and not what is loaded again and again, may be all that is large.
absl::StatusOr<Schedule> StepThrough(const SizedGroup& sized, const Loads& one, Schedule s) {
  constexpr int kVectorBytes = 16;
  const kernel::TileKernel& tile = one.traced.tile;
  const std::vector<bool> of_columns = kernel::VaryingWithColumn(tile);
  int widest = 1;
  for (size_t id = 0; id < tile.values.size(); ++id) {
    const kernel::TileValue& value = tile.values[id];
    if (value.kind == kernel::TileKind::Load && of_columns[id])
      widest = std::max(widest, DTypeBytes(value.dtype));
  }
  int vector = std::max(1, kVectorBytes / widest);
  while (sized.columns % vector != 0) vector /= 2;
  SEAM_RETURN_IF_ERROR(ChooseVector(sized, vector, s));
  for (const std::vector<AxisId>& columns : sized.shape.held)
    AddMultiples(sized, FreeSymbols(sized.shape.Extent(columns)), s.vector, s);
  s.registers = 1;
  s.persistent = false;
  s.lanes_per_row = s.warps_per_row = 1;
  s.row_warps = 4;
  s.min_ctas_per_sm = 0;  // As many registers as the compiler likes.
  return s;
}

// A tile of results to a thread, along two axes of the rows, and the lanes that share it.
struct Tile {
  PointsAlong first, second;
  int lanes = 1;
  double cost = 0;  // In loads for each product: what else it does as the loads that take as long.
};

// What others do than load: lanes exchange their results, and the last columns, points behind the
// end of an axis and SMs without enough warps leave units idle.
class TileCosts {
 public:
  static absl::StatusOr<TileCosts> Of(const SizedGroup& sized, const Schedule& s) {
    TileCosts costs(sized, s);
    for (AxisId axis : sized.shape.rows) {
      SEAM_ASSIGN_OR_RETURN(costs.extents_.emplace_back(),
                            ValueOf(sized, sized.shape.axes.extent(axis)));
    }
    return costs;
  }

  bool IsEmpty(int axis) const { return extents_[axis] == 0; }

  // No more lanes than there are vectors, so that there are columns. The figures were fitted to the
  // tiles of docs/schedulers/products.md.
  double Of(const TileLoads& loads, const Tile& tile) const {
    constexpr double kCtasOfSm = 4;
    const int64_t vectors = VectorsOf(sized_, s_);
    const double idle_lanes = Waste(vectors, tile.lanes);
    const double exchanges = 1 + static_cast<double>(tile.lanes) * std::log2(tile.lanes) /
                                     static_cast<double>(sized_.columns);
    const double ctas =
        static_cast<double>(sized_.rows) * tile.lanes /
        (static_cast<double>(tile.first.points) * tile.second.points * s_.threads());
    const double idle_sms = std::sqrt(std::max(1.0, kCtasOfSm * sized_.context.device.sms / ctas));
    return loads.Each(tile.first.points, tile.second.points) * Uneven(tile.first) *
           Uneven(tile.second) * idle_lanes * exchanges * idle_sms;
  }

 private:
  TileCosts(const SizedGroup& sized, const Schedule& s) : sized_(sized), s_(s) {}

  static double Waste(int64_t extent, int64_t part) {
    return static_cast<double>(CeilDivide(extent, part) * part) / static_cast<double>(extent);
  }

  // Results that have a condition each are stored one by one, which short rows do for little else.
  double Uneven(PointsAlong along) const {
    constexpr double kColumnsOfStore = 6.4;
    const double waste = Waste(extents_[along.axis], along.points);
    return waste > 1 ? waste * (1 + kColumnsOfStore / static_cast<double>(sized_.columns)) : 1;
  }

  const SizedGroup& sized_;
  const Schedule& s_;
  std::vector<int64_t> extents_;
};

// All that registers hold the states of, the cheapest first.
absl::StatusOr<std::vector<Tile>> FindTiles(const SizedGroup& sized, const Loads& one,
                                            const Schedule& s) {
  constexpr int kMostStates = 64, kShortRow = 32, kMostLanes = 16;
  int states = 0;  // Registers that they take.
  for (const kernel::TileReduction& r : one.traced.tile.reductions)
    states += kernel::NumComponents(r.op) * std::max(1, DTypeBytes(r.dtype) / 4);
  SEAM_ASSIGN_OR_RETURN(const TileCosts costs, TileCosts::Of(sized, s));
  std::vector<Tile> tiles;
  const int axes = static_cast<int>(sized.shape.rows.size());
  const auto add = [&](const TileLoads& loads, int first, int second) {
    for (int points = kMostPoints; points > 0; points /= 2) {
      for (int beside = kMostResults; beside > 0; --beside) {
        if (points * beside * states > kMostStates) continue;
        // Fewer lanes than four read less than two sectors of a row at once.
        for (int lanes = sized.columns <= kShortRow ? 2 : 4; lanes <= kMostLanes; lanes *= 2) {
          if (lanes > VectorsOf(sized, s)) continue;
          Tile tile{{first, points}, {second, beside}, lanes};
          tile.cost = costs.Of(loads, tile);
          tiles.push_back(tile);
        }
      }
    }
  };
  for (int second = axes - 1; second >= 0; --second) {
    for (int first = second - 1; first >= 0; --first) {
      if (costs.IsEmpty(first) || costs.IsEmpty(second)) continue;
      SEAM_ASSIGN_OR_RETURN(const std::optional<TileLoads> loads,
                            LoadsOfTiles(sized, one, s, first, second));
      if (!loads) continue;
      add(*loads, first, second);
      add(loads->Swapped(), second, first);
    }
  }
  absl::c_stable_sort(tiles, [](const Tile& a, const Tile& b) { return a.cost < b.cost; });
  return tiles;
}

// A tile of results to a thread, along two axes of the rows of which neither is short, as those of
// a product of two matrices: what rows along one read, those along the other have in common.
absl::StatusOr<std::optional<Schedule>> FitTile(const SizedGroup& sized, const Loads& one,
                                                const Schedule& s) {
  constexpr double kMostOfApart = 0.6;
  constexpr int kMostTried = 8;
  SEAM_ASSIGN_OR_RETURN(const Schedule thread, StepThrough(sized, one, s));
  SEAM_ASSIGN_OR_RETURN(const std::vector<Tile> tiles, FindTiles(sized, one, thread));
  int tried = 0;
  for (const Tile& tile : tiles) {
    if (tile.cost >= kMostOfApart * one.of_columns || tried == kMostTried) break;
    Schedule lanes = thread;
    lanes.lanes_per_row = tile.lanes;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> with,
                          WithPoints(sized, lanes, tile.first.axis, tile.first.points, tile.second,
                                     /*may_be_uneven=*/true));
    if (!with) continue;
    ++tried;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
    if (loads && IsOnePass(*loads, *with)) return with;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<double> ProductsOfElement(const SizedGroup& sized) {
  SEAM_ASSIGN_OR_RETURN(const int64_t bytes, MovedBytes(sized));
  if (bytes == 0) return INFINITY;
  const double products = static_cast<double>(sized.rows) * static_cast<double>(sized.columns);
  return products * sized.widest_bytes / static_cast<double>(bytes);
}

absl::StatusOr<Schedule> FitSmallProducts(const SizedGroup& sized, const Loads& one, Schedule s) {
  // Of fewer products stores are what takes long, which a tile does not put beside each other.
  constexpr double kProductsOfTiles = 8;
  SEAM_ASSIGN_OR_RETURN(const double products, ProductsOfElement(sized));
  if (products >= kMostlyProducts) {
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> results, FitResults(sized, one, s));
    if (!results && products >= kProductsOfTiles) {
      SEAM_ASSIGN_OR_RETURN(results, FitTile(sized, one, s));
    }
    if (results) return *std::move(results);
  }
  return FitShortRows(sized, one, std::move(s));
}

}  // namespace seam
