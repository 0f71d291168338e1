#include "tests/support/launchable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"

namespace seam::testing {

LaunchPlan ExpectLaunchable(const std::string& text, int64_t m, int64_t n,
                            const DeviceInfo& device) {
  SCOPED_TRACE(absl::StrCat(text, "\nM=", m, " N=", n, " on ", device.name));
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  EXPECT_TRUE(group.ok()) << group.status();
  if (!group.ok()) return {};
  ScheduleContext context;
  context.device = device;
  for (const SymNode* symbol : group->env().symbols())
    context.sizes.push_back(symbol->name == "M" ? m : n);
  const absl::StatusOr<LaunchPlan> plan = ScheduleGroup(*group, SchedulerKind::kReduction, context);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  for (const Guard& guard : plan->guards) {
    const auto holds = Evaluate(guard.condition, [&](const SymNode* symbol) {
      return std::optional<int64_t>(symbol->name == "M" ? m : n);
    });
    EXPECT_TRUE(holds.ok() && *holds == 1) << guard.reason;
  }
  const Schedule& s = plan->schedule;
  const int64_t ctas = std::max(1, s.min_ctas_per_sm);
  EXPECT_LE(ctas * s.threads(), device.max_threads_per_sm);
  constexpr int64_t kOfDriver = 1024;  // Of each CTA's shared memory.
  for (const KernelLaunch& launch : plan->launches) {
    const int64_t bytes = launch.kernel.SharedBytes();
    EXPECT_LE(bytes, device.smem_bytes_per_cta) << launch.kernel.name;
    EXPECT_LE(launch.kernel.threads, 1024) << launch.kernel.name;
    EXPECT_LE(launch.kernel.cluster, device.max_cluster) << launch.kernel.name;
    // CTAs that take rows in turn are to be there all at once.
    if (s.grid == 0) continue;
    EXPECT_LE(ctas * (bytes + kOfDriver), device.smem_bytes_per_cta + kOfDriver)
        << launch.kernel.name << ": " << s.ToString();
  }
  return *plan;
}

}  // namespace seam::testing
