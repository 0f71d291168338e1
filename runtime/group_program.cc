#include "runtime/group_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace seam {

absl::StatusOr<std::shared_ptr<Variant>> Variant::Make(const Fusion& group, LaunchPlan plan) {
  std::shared_ptr<Variant> variant(new Variant);
  variant->plan_ = std::move(plan);
  const std::vector<const SymNode*> symbols = group.env().symbols();
  std::vector<SymInt> values;
  for (const Guard& guard : variant->plan_.guards) values.push_back(guard.condition);
  for (const Workspace& workspace : variant->plan_.workspaces)
    values.push_back(workspace.num_elements);
  for (const KernelLaunch& launch : variant->plan_.launches) {
    values.insert(values.end(), launch.arguments.begin(), launch.arguments.end());
    std::vector<const SymNode*> parameters;
    for (SymInt p : launch.kernel.parameters) parameters.push_back(p.node());
    SEAM_ASSIGN_OR_RETURN(SymProgram grid, SymProgram::Compile({launch.kernel.grid_x}, parameters));
    variant->grids_.push_back(std::move(grid));
  }
  SEAM_ASSIGN_OR_RETURN(variant->program_, SymProgram::Compile(values, symbols));
  return variant;
}

absl::StatusOr<PlanSizes> Variant::Sizes(absl::Span<const int64_t> symbols) const {
  std::vector<int64_t> values(program_.num_outputs());
  SEAM_RETURN_IF_ERROR(program_.RunChecked(symbols.data(), values.data()));
  auto value = values.begin();
  for (const Guard& guard : plan_.guards) {
    if (*value++ != 0) continue;
    return absl::InternalError(absl::StrCat("the schedule '", plan_.schedule.ToString(),
                                            "' was chosen for sizes that it does not serve: ",
                                            guard.reason, " (", guard.condition.ToString(), ")"));
  }
  PlanSizes sizes;
  for (size_t i = 0; i < plan_.workspaces.size(); ++i) sizes.workspace_elements.push_back(*value++);
  for (size_t i = 0; i < plan_.launches.size(); ++i) {
    PlanSizes::Launch launch;
    launch.arguments.assign(value, value + plan_.launches[i].arguments.size());
    value += plan_.launches[i].arguments.size();
    SEAM_RETURN_IF_ERROR(grids_[i].RunChecked(launch.arguments.data(), &launch.grid));
    if (launch.grid < 0 || launch.grid > INT32_MAX) {
      return absl::InvalidArgumentError(absl::StrCat("kernel ", plan_.launches[i].kernel.name,
                                                     " would need ", launch.grid,
                                                     " CTAs; a launch has at most ", INT32_MAX));
    }
    sizes.launches.push_back(std::move(launch));
  }
  return sizes;
}

absl::StatusOr<std::shared_ptr<Variant>> GroupProgram::FindOrLower(
    SchedulerKind as, const ScheduleContext& context) const {
  const Scheduler* scheduler = FindScheduler(as);
  if (scheduler == nullptr) {
    return absl::InternalError(absl::StrCat("group ", id, ": no scheduler ", SchedulerName(as)));
  }
  SEAM_ASSIGN_OR_RETURN(const Schedule schedule, scheduler->choose(*group, context));
  for (const std::shared_ptr<Variant>& variant : variants) {
    if (variant->plan().schedule == schedule) return variant;
  }
  SEAM_ASSIGN_OR_RETURN(LaunchPlan plan, scheduler->lower(*group, schedule));
  return Variant::Make(*group, std::move(plan));
}

void GroupProgram::Keep(const std::shared_ptr<Variant>& variant) {
  if (std::find(variants.begin(), variants.end(), variant) == variants.end())
    variants.push_back(variant);
}

}  // namespace seam
