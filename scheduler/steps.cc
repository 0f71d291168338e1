#include "scheduler/steps.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/point_loads.h"

namespace seam {
namespace {

// The axes of rows along which something is concatenated and that a thread can have all of.
std::vector<PointsAlong> AxesOfSteps(const SizedGroup& sized) {
  constexpr int kFewestSteps = 4;
  const GroupShape& shape = sized.shape;
  std::vector<PointsAlong> axes;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    const ExprId e(i);
    if (sized.group->op(e) != OpKind::Cat) continue;
    for (AxisId a : shape.axes.atoms(sized.group->result(e), sized.group->attributes(e).axes[0])) {
      const auto row = absl::c_find(shape.rows, a);
      if (row == shape.rows.end()) continue;
      const std::optional<PointsAlong> steps =
          AllOf(sized, static_cast<int>(row - shape.rows.begin()));
      const auto is_it = [&](const PointsAlong& known) { return known.axis == steps->axis; };
      if (steps && steps->points >= kFewestSteps && absl::c_none_of(axes, is_it))
        axes.push_back(*steps);
    }
  }
  return axes;
}

// What a launch computes, in values of a thread, at the least so many as keep the device busy.
double Arithmetic(const SizedGroup& sized, const Schedule& s, const Loads& loads, int64_t points) {
  constexpr int64_t kThreadsOfSm = 128;
  const int64_t threads =
      std::max(sized.rows / (points * s.vector), kThreadsOfSm * sized.context.device.sms);
  return static_cast<double>(loads.traced.tile.values.size()) * s.vector *
         static_cast<double>(threads);
}

}  // namespace

absl::StatusOr<Schedule> OrAllSteps(const SizedGroup& sized, Schedule s) {
  constexpr size_t kFewValues = 48;  // Memory takes longer than these.
  constexpr double kFarLess = 0.35, kFarLessOfFar = 0.15, kMostHeldWords = 64;
  constexpr int64_t kFarBytes = 2 * kSectorBytes;
  const int rows = static_cast<int>(sized.shape.rows.size());
  if (!s.outer || s.tiles || sized.columns > 1 || rows < 2) return s;
  const std::vector<PointsAlong> axes = AxesOfSteps(sized);
  if (axes.empty()) return s;
  SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> now, LoadsOfPoints(sized, s));
  if (now && now->traced.tile.values.size() < kFewValues) return s;
  std::optional<Schedule> best;
  // Of a thread that has all of another axis already (OrPointsAlongMemory) the points along one of
  // the two count: so were the graphs timed that the threshold is from.
  double least = now ? kFarLess * Arithmetic(sized, s, *now, s.points) : INFINITY;
  for (const PointsAlong all : axes) {
    // Vectors lie along the last axis.
    const int widest = all.axis + 1 < rows ? std::clamp(16 / sized.narrowest_bytes, 1, 8) : 1;
    for (int vector = widest; vector > 0; vector /= 2) {
      Schedule one = s;
      one.points = 1;
      SEAM_RETURN_IF_ERROR(ChooseVector(sized, vector, one));
      SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> with,
                            WithPoints(sized, one, /*along=*/0, 1, all));
      if (!with) continue;
      SEAM_ASSIGN_OR_RETURN(const std::optional<Loads> loads, LoadsOfPoints(sized, *with));
      if (!loads || (one.vector > 1 && loads->words > kMostHeldWords)) continue;
      const double arithmetic = Arithmetic(sized, *with, *loads, all.points);
      // Lanes that lie far from each other move a sector each.
      const bool far = all.axis + 1 == rows && all.points * sized.narrowest_bytes > kFarBytes;
      if (arithmetic >= (far ? kFarLessOfFar / kFarLess : 1) * least) continue;
      best = with;
      least = arithmetic;
    }
  }
  return best ? *best : s;
}

}  // namespace seam
