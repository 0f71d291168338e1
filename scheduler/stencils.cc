#include "scheduler/stencils.h"

#include <algorithm>
#include <optional>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/lower.h"
#include "scheduler/point_loads.h"
#include "scheduler/points.h"
#include "scheduler/small_products.h"
#include "scheduler/workload.h"

namespace seam {
namespace {

constexpr int kMostTried = 16;         // Points of a thread, by tuning.
constexpr double kMostHeldWords = 64;  // Of what its points load, to be held at once.
constexpr int kWindow = 3;             // Loads of one tensor, at least.
constexpr int kMostOfEach = 4;         // Elements of an axis of which each thread has all.

// What points of a thread have in common.
enum class Shared : uint8_t {
  kNothing,
  kTables,  // Tensors that lack the axis along which the points lie.
  kWindows  // Elements that several points read of one tensor.
};

// Of two points a thread, beside one.
absl::StatusOr<Shared> SharedBy(const SizedGroup& sized, const Schedule& s, const Loads& one,
                                const Loads& two) {
  constexpr int64_t kTableBytes = 1 << 20;  // More than an SM's cache holds.
  bool windows = false;
  int64_t tables = 0;
  for (size_t b = 0; b < one.of_buffer.size(); ++b) {
    const int of_one = one.of_buffer[b], of_two = two.of_buffer[b];
    windows |= of_one >= kWindow && of_one < of_two && of_two < 2 * of_one;
    const BufferSource& source = one.traced.sources[b];
    if (of_one == 0 || of_two > of_one || source.kind != BufferSource::kInput) continue;
    const TensorType& table = sized.group->type(sized.group->inputs()[source.index]);
    SEAM_ASSIGN_OR_RETURN(const int64_t elements, ValueOf(sized, table.numel()));
    tables += elements * DTypeBytes(table.dtype);
  }
  // Single elements take as many instructions whatever they are of.
  if (windows || s.vector == 1) return Shared::kWindows;
  return tables >= kTableBytes ? Shared::kTables : Shared::kNothing;
}

// The axis along which two points have the fewest loads between them, none where that is hardly
// fewer than they have by themselves; not the one along which vectors lie. The slowest of several:
// what CTAs read beside each other they then have in common least often.
struct SharingAxis {
  int along = 0;
  Shared shared = Shared::kNothing;
};
absl::StatusOr<SharingAxis> FindSharingAxis(const SizedGroup& sized, const Schedule& s,
                                            const Loads& one) {
  constexpr double kMostOfTwo = 0.85;
  SharingAxis best;
  if (sized.shape.crossed() || sized.shape.sections.size > 1) return best;
  // Single elements of wide rows gain nothing by weights that are loaded once for several of them.
  const bool own = s.kind == SchedulerKind::kReduction && s.vector == 1 && sized.widest_bytes >= 4;
  const auto count = [&](const Loads& loads) { return own ? loads.of_rows : loads.count; };
  double fewest = kMostOfTwo * 2 * count(one);
  const int axes = static_cast<int>(sized.shape.rows.size()) - (s.outer ? 1 : 0);
  for (int along = 0; along < axes; ++along) {
    SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> with, WithPoints(sized, s, along, 2));
    if (!with) continue;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> two, LoadsOfPoints(sized, *with));
    if (!two || count(*two) >= fewest) continue;
    SEAM_ASSIGN_OR_RETURN(const Shared shared, SharedBy(sized, s, one, *two));
    if (shared == Shared::kNothing) continue;
    best = {along, shared};
    fewest = count(*two);
  }
  return best;
}

// One point a thread: vectors are shorter where those of all loads fill its registers, and
// compilers keep to 64 where these hold them.
absl::Status FitOnePoint(const SizedGroup& sized, double words, Schedule& s) {
  constexpr double kMostOfOne = 128, kManyWords = 40, kHeldBy64 = 56;
  constexpr int kThreads = 64 * 1024 / 64;  // That an SM has room for then.
  while (words > kMostOfOne && s.vector > 1) {
    SEAM_RETURN_IF_ERROR(ChooseVector(sized, s.vector / 2, s));
    SEAM_ASSIGN_OR_RETURN(const Loads loads, LoadsOf(sized, s));
    words = loads.words;
  }
  if (words > kManyWords && words <= kHeldBy64) s.min_ctas_per_sm = kThreads / s.threads();
  return absl::OkStatus();
}

// Elements of a vector that is shortened for more points.
int LeastVector(const SizedGroup& sized) {
  constexpr int kLeastBytes = 4;
  return std::max(1, kLeastBytes / sized.narrowest_bytes);
}

// Whether registers do not hold the window of one such vector.
bool IsLarge(const SizedGroup& sized, const Schedule& s, const Loads& one) {
  return one.words / s.vector * LeastVector(sized) > kMostHeldWords;
}

// Many points, then long vectors, as long as there is a CTA for every SM and registers hold what a
// thread loads; where they do not hold the window of one point, fewer elements, whose loads come
// with their use.
absl::StatusOr<std::optional<Schedule>> FitPoints(const SizedGroup& sized, const Schedule& s,
                                                  const Loads& one, const SharingAxis& axis) {
  constexpr int kThreadsOfColumns = 256;
  const int least_vector = LeastVector(sized);
  const bool windows = axis.shared == Shared::kWindows, large = IsLarge(sized, s, one);
  const int most_elements = windows && !large ? 32 : 16;
  const auto fits = [&](const Schedule& t, const Loads& loads) {
    const int64_t vectors = sized.rows * sized.columns / (t.points * t.vector);
    const int64_t ctas = vectors / (sized.columns > 1 ? kThreadsOfColumns : t.threads());
    return (large || loads.words <= kMostHeldWords) && t.points * t.vector <= most_elements &&
           ctas >= sized.context.device.sms;
  };
  Schedule one_point = s;
  if (s.vector == 1 && sized.columns == 1) one_point.row_warps = std::min(s.row_warps, 4);
  for (int points = windows ? kMostPoints : kMostPoints / 2; points > 1; points /= 2) {
    for (;;) {
      SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> with,
                            WithPoints(sized, one_point, axis.along, points));
      if (!with) break;
      SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
      if (loads && fits(*with, *loads)) return with;
      if (one_point.vector <= least_vector) break;
      one_point.vector /= 2;
    }
  }
  return std::nullopt;
}

// A row of so many vectors a thread, if that is possible, in lanes and warps that idle least of it,
// and as many CTAs an SM as have 384 threads.
void ShareLargeWindow(const SizedGroup& sized, int registers, Schedule& s) {
  constexpr int kThreadsOfSm = 384, kMostWarps = 16;
  const int64_t threads = CeilDivide(VectorsOf(sized, s), std::max(1, registers));
  int64_t least = INT64_MAX;
  for (const int lanes : {32, 16, 8}) {
    const int64_t warps = CeilDivide(threads, lanes);
    if (warps > kMostWarps || warps * lanes >= least) continue;
    least = warps * lanes;
    s.lanes_per_row = lanes;
    s.warps_per_row = static_cast<int>(warps);
  }
  s.registers =
      static_cast<int>(CeilDivide(VectorsOf(sized, s), int64_t{s.lanes_per_row} * s.warps_per_row));
  s.row_warps = std::max(1, 4 / s.warps_per_row);
  s.min_ctas_per_sm = std::max(1, kThreadsOfSm / s.threads());
}

// Words that a thread moves by these statements, each access one at least; of a branch, those of
// its usual side. A lane's word is what an SM moves at a time, or less.
double MovedWords(const kernel::Kernel& kernel, const kernel::Block& block) {
  double words = 0;
  const auto access = [&](const auto& moved) {
    if (moved.space == kernel::Space::Global)
      words += std::max(1.0, moved.width * DTypeBytes(kernel.buffers[moved.array].dtype) / 4.0);
  };
  for (const kernel::Stmt& stmt : block) {
    if (const auto* loop = std::get_if<kernel::For>(&stmt.node)) {
      const auto turns = static_cast<double>(loop->extent.maybe_int().value_or(1));
      words += turns * MovedWords(kernel, loop->body);
    } else if (const auto* branch = std::get_if<kernel::If>(&stmt.node)) {
      words += MovedWords(kernel, branch->body);
    } else if (const auto* load = std::get_if<kernel::Load>(&stmt.node)) {
      access(*load);
    } else if (const auto* store = std::get_if<kernel::Store>(&stmt.node)) {
      access(*store);
    }
  }
  return words;
}

// The same for each element, nothing where the schedule cannot be.
absl::StatusOr<std::optional<double>> WordsByElement(const SizedGroup& sized, const Schedule& s) {
  const absl::StatusOr<LaunchPlan> plan = Lower(*sized.group, s);
  if (absl::IsResourceExhausted(plan.status()) || absl::IsUnimplemented(plan.status()))
    return std::nullopt;
  SEAM_RETURN_IF_ERROR(plan.status());
  double words = 0;
  for (const KernelLaunch& launch : plan->launches)
    words += MovedWords(launch.kernel, launch.kernel.body);
  SEAM_ASSIGN_OR_RETURN(const GroupShape shape, ShapeFor(*sized.group, s));
  return words / (shape.points * s.vector * (s.tiles ? s.registers : 1));
}

// Whether what lanes have beside each other lies beside each other in every large tensor too, whose
// axes lie in these orders, but for axes of which each thread has all. Where it does not, as in a
// tensor that lies across the others, each lane moves a sector of its own for every element.
absl::StatusOr<bool> LieBesideEachOther(const SizedGroup& sized, const Schedule& with,
                                        const std::vector<std::vector<AxisId>>& orders) {
  SEAM_ASSIGN_OR_RETURN(const GroupShape shape, PointsAsOneRow(*sized.group, sized.shape, with));
  const auto has_all = [&](AxisId axis) {
    return absl::c_any_of(shape.along, [&](const GroupShape::PointsOfAxis& along) {
      return along.axis == axis && shape.axes.extent(axis).is_same(along.points);
    });
  };
  const auto of_lanes = [&](const std::vector<AxisId>& order) -> std::optional<AxisId> {
    const auto axis = std::find_if_not(order.rbegin(), order.rend(), has_all);
    return axis == order.rend() ? std::nullopt : std::optional(*axis);
  };
  return absl::c_all_of(orders, [&](const std::vector<AxisId>& order) {
    return order.empty() || of_lanes(order) == of_lanes(shape.rows);
  });
}

// Points along the axis in which memory runs, each traced by itself: what is read at several of
// them, or by no vector, is loaded once, in the widest accesses that it makes
// (kernel/wide_accesses.h).
absl::StatusOr<std::vector<Schedule>> PointsAlongMemory(const SizedGroup& sized,
                                                        const Schedule& s) {
  std::vector<Schedule> found;
  if (!s.outer || sized.columns > 1 || sized.shape.crossed() || sized.shape.rows.empty())
    return found;
  Schedule one;
  one.kind = SchedulerKind::kPointwise;
  one.outer = true;
  SEAM_RETURN_IF_ERROR(ChooseVector(sized, 1, one));
  one.facts.clear();
  one.row_warps = s.tiles ? 4 : std::min(s.row_warps, 4);
  SEAM_ASSIGN_OR_RETURN(const std::vector<std::vector<AxisId>> orders, OrdersOfLarge(sized));
  const auto add = [&](int along, PointsAlong beside) -> absl::Status {
    for (int points = std::clamp(16 / sized.narrowest_bytes, 2, kMostPoints); points > 1;
         points /= 2) {
      SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> with,
                            WithPoints(sized, one, along, points, beside));
      if (!with) continue;
      SEAM_ASSIGN_OR_RETURN(const bool neighbours, LieBesideEachOther(sized, *with, orders));
      if (!neighbours) continue;
      AddDivisibility(sized, 2 * points, *with);
      SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
      const int64_t ctas = sized.rows / points / with->threads();
      if (loads && loads->words <= kMostHeldWords && ctas >= sized.context.device.sms)
        found.push_back(*std::move(with));
    }
    return absl::OkStatus();
  };
  const int last = static_cast<int>(sized.shape.rows.size()) - 1;
  SEAM_RETURN_IF_ERROR(add(last, {}));
  // Where nothing lies across, elements of the slowest axis are far from each other in all tensors.
  for (int few = s.tiles ? 0 : 1; few <= last; ++few) {
    const std::optional<PointsAlong> all = AllOf(sized, few, kMostOfEach);
    const int along = few == last ? last - 1 : last;
    if (all && along >= 0) SEAM_RETURN_IF_ERROR(add(along, *all));
  }
  return found;
}

}  // namespace

absl::StatusOr<Schedule> OrPointsAlongMemory(const SizedGroup& sized, Schedule s) {
  constexpr double kFarLess = 0.8;
  SEAM_ASSIGN_OR_RETURN(const std::vector<Schedule> all, PointsAlongMemory(sized, s));
  if (all.empty()) return s;
  SEAM_ASSIGN_OR_RETURN(const std::optional<double> now, WordsByElement(sized, s));
  if (!now) return s;
  double least = kFarLess * *now;
  Schedule best = s;
  bool chosen = false;
  for (const Schedule& t : all) {
    SEAM_ASSIGN_OR_RETURN(const std::optional<double> words, WordsByElement(sized, t));
    if (!words || *words >= least) continue;
    least = *words;
    best = t;
    chosen = true;
  }
  // No more facts than that takes, so that a kernel serves as many sizes as it can.
  for (size_t i = best.facts.size(); chosen && i-- > 0;) {
    Schedule fewer = best;
    fewer.facts.erase(fewer.facts.begin() + static_cast<int64_t>(i));
    SEAM_ASSIGN_OR_RETURN(const std::optional<double> words, WordsByElement(sized, fewer));
    if (words && *words <= least) best = std::move(fewer);
  }
  return best;
}

namespace {

// Elements that no vectors hold, since they begin anywhere, have masks of their own or are looked
// up one by one: four neighbours to a thread all the same, where all large tensors run along the
// same axis and there are threads enough. One each would leave little of memory under way. Source:
// docs/schedulers/single-elements.md, "Single elements of points".
absl::Status TakeSingleElements(const SizedGroup& sized, Schedule& s) {
  constexpr int kWaves = 4;
  if (s.vector > 1 || s.points > 1 || s.tiles || !s.outer || sized.columns > 1 ||
      sized.shape.rows.empty()) {
    return absl::OkStatus();
  }
  SEAM_ASSIGN_OR_RETURN(const std::vector<std::vector<AxisId>> orders, OrdersOfLarge(sized));
  const auto runs_along_rows = [&](const std::vector<AxisId>& order) {
    return order.empty() || order.back() == sized.shape.rows.back();
  };
  Schedule several = s;
  several.vector = MostPoints(WorkloadOf(*sized.group), kSingleElements);
  const int64_t ctas = sized.rows / several.rows_per_cta();
  if (!absl::c_all_of(orders, runs_along_rows) || ctas < kWaves * sized.context.device.sms)
    return absl::OkStatus();
  return TakeElements(sized, several.vector, s).status();
}

// FitStencil but for single elements.
absl::StatusOr<Schedule> FitWindows(const SizedGroup& sized, const Loads& loads, Schedule s) {
  if (loads.Most() < 2) return s;
  SEAM_ASSIGN_OR_RETURN(const SharingAxis axis, FindSharingAxis(sized, s, loads));
  std::optional<Schedule> with;
  if (axis.shared != Shared::kNothing) {
    SEAM_ASSIGN_OR_RETURN(with, FitPoints(sized, s, loads, axis));
  }
  if (with) {
    s = *std::move(with);
  } else if (loads.Most() >= kWindow && sized.columns == 1) {
    SEAM_RETURN_IF_ERROR(FitOnePoint(sized, loads.words, s));
  }
  return OrPointsAlongMemory(sized, std::move(s));
}

}  // namespace

absl::StatusOr<Schedule> FitStencil(const SizedGroup& sized, Schedule s) {
  SEAM_ASSIGN_OR_RETURN(const Loads loads, LoadsOf(sized, s));
  SEAM_ASSIGN_OR_RETURN(s, FitWindows(sized, loads, std::move(s)));
  if (loads.Most() < kWindow) SEAM_RETURN_IF_ERROR(TakeSingleElements(sized, s));
  return s;
}

absl::StatusOr<Schedule> FitStencilOfRows(const SizedGroup& sized, Schedule s) {
  Schedule two = s;
  two.points = 2;
  if (!s.persistent || s.outer || sized.shape.crossed() || !CheckSchedule(two).ok()) return s;
  const bool single = s.vector == 1;
  SEAM_ASSIGN_OR_RETURN(Loads loads, LoadsOf(sized, s));
  if (loads.Most() < kWindow) {
    SEAM_ASSIGN_OR_RETURN(const double products, ProductsOfElement(sized));
    if (!single || products >= kMostlyProducts) return FitSmallProducts(sized, loads, std::move(s));
  }
  const bool large = IsLarge(sized, s, loads);
  const int most_elements = large || single ? 16 : 64;
  Schedule one = s;
  if (large) {
    if (s.vector > LeastVector(sized))
      SEAM_RETURN_IF_ERROR(ChooseVector(sized, LeastVector(sized), one));
    ShareLargeWindow(sized, /*registers=*/1, one);
    SEAM_ASSIGN_OR_RETURN(loads, LoadsOf(sized, one));
  }
  SEAM_ASSIGN_OR_RETURN(const SharingAxis axis, FindSharingAxis(sized, one, loads));
  if (axis.shared != Shared::kWindows) return s;
  for (int rows = large ? kMostPoints : kMostPointsOfRows; rows > 1; rows /= 2) {
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> with, WithPoints(sized, one, axis.along, rows));
    if (!with) continue;
    with->min_ctas_per_sm = 0;  // As many registers as the compiler likes.
    if (large) ShareLargeWindow(sized, most_elements / (rows * one.vector), *with);
    const auto elements = [&] { return rows * with->registers * with->vector; };
    while (elements() > most_elements && with->lanes_per_row < 32) {
      with->lanes_per_row *= 2;
      const int64_t threads = int64_t{with->lanes_per_row} * with->warps_per_row;
      with->registers = static_cast<int>(CeilDivide(VectorsOf(sized, *with), threads));
    }
    const bool enough = sized.rows / (rows * with->rows_per_cta()) >= sized.context.device.sms;
    if (!enough || elements() > most_elements) continue;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> of_rows, LoadsOfPoints(sized, *with));
    if (of_rows) return *with;
  }
  return s;
}

absl::StatusOr<std::vector<Schedule>> OtherPoints(const SizedGroup& sized, const Schedule& s) {
  std::vector<Schedule> others;
  Schedule one = s;
  one.points = 1;
  one.beside = -1;
  one.beside_points = 1;
  one.uneven = false;
  if (s.points > 1 && s.kind == SchedulerKind::kPointwise)
    one.vector = std::min(s.vector * s.points, std::clamp(16 / sized.narrowest_bytes, 1, 8));
  SEAM_ASSIGN_OR_RETURN(const Loads loads, LoadsOf(sized, one));
  SEAM_ASSIGN_OR_RETURN(const SharingAxis axis, FindSharingAxis(sized, one, loads));
  if (axis.shared == Shared::kNothing) return others;
  if (s.points > 1) others.push_back(one);
  for (int points = 2; points <= kMostTried; points *= 2) {
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> with, WithPoints(sized, one, axis.along, points));
    if (!with || points == s.points) continue;
    SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> of_points, LoadsOfPoints(sized, *with));
    if (of_points) others.push_back(std::move(*with));
  }
  return others;
}

}  // namespace seam
