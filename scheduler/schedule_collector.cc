#include "scheduler/schedule_collector.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "scheduler/alternatives.h"
#include "scheduler/schedulers.h"

namespace seam {
namespace {

// A step away from the heuristic's schedule counts as so much of the time, and so does each better
// schedule of the same arrangement.
constexpr double kStepCost = 0.02;

}  // namespace

bool ScheduleCollector::Takes(const Schedule& s) const {
  const GroupShape& shape = sized_.shape;
  if (s == chosen_ || !HoldsSections(shape, s) || !TakesBatches(shape, s)) return false;
  return shape.batch.empty() || !s.takes_whole_sets() ||
         sized_.rows / std::max<int64_t>(1, sized_.batches) % s.rows_per_cta() == 0;
}

void ScheduleCollector::Add(const Schedule& s, double cost, int steps) {
  if (Takes(s)) found_.push_back({cost * (1 + kStepCost * steps), s});
}

std::vector<Schedule> ScheduleCollector::Take() {
  const auto cheaper = [](const Found& a, const Found& b) { return a.cost < b.cost; };
  std::stable_sort(found_.begin(), found_.end(), cheaper);
  std::map<std::tuple<int, bool, bool, bool, bool>, int> before;
  for (Found& f : found_) {
    const Schedule& s = f.schedule;
    f.cost *=
        1 + kStepCost * before[{s.cluster, s.split > 1, s.persistent, s.stages > 0, s.blocks}]++;
  }
  std::stable_sort(found_.begin(), found_.end(), cheaper);
  std::vector<Schedule> best;
  for (const Found& found : found_) {
    if (best.size() == kMostAlternatives) break;
    if (!absl::c_linear_search(best, found.schedule)) best.push_back(found.schedule);
  }
  return best;
}

double ScheduleCollector::Cost(const Schedule& s, double words, double held_bytes,
                               double passes) const {
  const DeviceInfo& device = sized_.context.device;
  const double threads = s.threads();
  double ctas_per_sm = std::floor(device.registers_per_sm / (threads * (words + kOtherWords)));
  if (s.min_ctas_per_sm > 0) ctas_per_sm = std::min<double>(ctas_per_sm, s.min_ctas_per_sm);
  ctas_per_sm =
      std::clamp(ctas_per_sm, 1.0, std::max(1.0, std::floor(device.max_threads_per_sm / threads)));
  const int64_t points = sized_.rows * sized_.shape.points;
  const double rows = static_cast<double>(std::max<int64_t>(points / s.points_of_thread(), 1));
  const double sets = std::ceil(rows / static_cast<double>(s.rows_per_cta()));
  const double columns = static_cast<double>(std::max<int64_t>(sized_.columns, 1));
  const double step = static_cast<double>(s.columns_at_once());
  // Of a row that CTAs share, a CTA's last step may have fewer vectors than its others.
  const double unit = s.split > 1 ? step / s.registers : step;
  const double of_cta = s.persistent ? step : std::ceil(columns / (unit * s.split)) * unit;
  // The ends of a shifted row are not counted.
  const double covered = rows * std::min(columns, of_cta * s.split) /
                         (sets * static_cast<double>(s.rows_per_cta()) * of_cta * s.split);
  // CTAs beyond those that are there at once come in waves, the last of which is not full.
  const double ctas = s.grid > 0
                          ? s.grid * static_cast<double>(std::max<int64_t>(1, sized_.batches))
                          : sets * s.split * s.cluster;
  const double waves = ctas / (ctas_per_sm * device.sms);
  const double full = waves >= 1 ? waves / std::ceil(waves) : 1;
  const double on_an_sm = std::min(ctas_per_sm, std::ceil(ctas / device.sms));
  const double spread = std::min(1.0, ctas / device.sms);
  const double busy =
      std::min(1.0, on_an_sm * threads * held_bytes / static_cast<double>(4 * kBusyElements));
  // Idle threads cost issue slots, not bytes.
  return passes / (std::sqrt(covered) * std::max(busy, 0.01) * spread *
                   (s.grid > 0 ? 1.0 : std::sqrt(full)));
}

}  // namespace seam
