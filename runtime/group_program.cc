#include "runtime/group_program.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "scheduler/more_registers.h"

namespace seam {
namespace {

// Groups that are called with more different sizes drop what was chosen before.
constexpr size_t kMaxChosen = 256;

// Says that a schedule was tuned, for what, and what that brought.
std::string OriginOf(const TunedSchedule& tuned, const Fusion& group,
                     const ScheduleContext& context) {
  std::string sizes;
  const std::vector<const SymNode*> symbols = group.env().symbols();
  for (size_t i = 0; i < symbols.size(); ++i) {
    absl::StrAppend(&sizes, sizes.empty() ? " for " : ", ", std::string(symbols[i]->name), " = ",
                    context.sizes[i]);
  }
  return absl::StrFormat("tuned%s: %.2f us, the heuristic's schedule %.2f us (%.2f times)", sizes,
                         tuned.us, tuned.heuristic_us, tuned.heuristic_us / tuned.us);
}

bool HasIndex32(const Schedule& schedule) {
  return schedule.index32 || absl::c_any_of(schedule.islands, HasIndex32);
}

}  // namespace

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

Schedule WithIndex64(Schedule schedule) {
  schedule.index32 = false;
  for (Schedule& island : schedule.islands) island = WithIndex64(std::move(island));
  return schedule;
}

absl::Status CheckRoom(const LaunchPlan& plan, const DeviceInfo& device) {
  for (const KernelLaunch& launch : plan.launches) {
    const kernel::Kernel& kernel = launch.kernel;
    if (kernel.threads <= 1024 && kernel.SharedBytes() <= device.smem_bytes_per_cta &&
        kernel.cluster <= device.max_cluster) {
      continue;
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("kernel ", kernel.name, " takes ", kernel.threads, " threads, ",
                     kernel.SharedBytes(), " bytes of shared memory and clusters of ",
                     kernel.cluster, " CTAs, more than a ", device.name, " has"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Variant>> GroupProgram::FindOrLower(const Schedule& schedule,
                                                                   absl::string_view origin) const {
  for (const std::shared_ptr<Variant>& variant : variants) {
    if (variant->plan().schedule == schedule) return variant;
  }
  const Scheduler* scheduler = FindScheduler(schedule.kind);
  if (scheduler == nullptr) {
    return absl::InternalError(
        absl::StrCat("group ", id, ": no scheduler ", SchedulerName(schedule.kind)));
  }
  SEAM_ASSIGN_OR_RETURN(LaunchPlan plan, scheduler->lower(*group, schedule));
  for (KernelLaunch& launch : plan.launches) {
    std::string& summary = launch.kernel.summary;
    if (!origin.empty()) absl::StrAppend(&summary, summary.empty() ? "" : "\n", origin);
  }
  return Variant::Make(*group, std::move(plan));
}

namespace {

// How one of EasierSchedules differs.
std::string WhatIsEasier(const Schedule& chosen, const Schedule& instead) {
  std::vector<std::string> changes;
  if (instead.registers < chosen.registers) {
    changes.push_back(
        absl::StrCat(instead.registers, " vectors a thread instead of ", chosen.registers));
  }
  if (instead.beside_points < chosen.beside_points) {
    changes.push_back(absl::StrCat(instead.beside_points, " points along a second axis instead of ",
                                   chosen.beside_points));
  }
  if (instead.points < chosen.points)
    changes.push_back(absl::StrCat(instead.points, " points a thread instead of ", chosen.points));
  if (instead.stages < chosen.stages || instead.spare < chosen.spare ||
      (chosen.async && !instead.async))
    changes.push_back("less of rows ahead");
  if (instead.row_warps < chosen.row_warps) changes.push_back("fewer rows a CTA");
  if (instead.one_launch != chosen.one_launch) changes.push_back("two kernels instead of one");
  if (instead.min_ctas_per_sm < chosen.min_ctas_per_sm) {
    changes.push_back(absl::StrCat("at least ", instead.min_ctas_per_sm, " CTAs an SM instead of ",
                                   chosen.min_ctas_per_sm));
  }
  bool apart = false, easier = false;  // Some islands.
  for (size_t i = 0; i < instead.islands.size(); ++i) {
    apart |= instead.islands[i].apart != chosen.islands[i].apart;
    easier |= !WhatIsEasier(chosen.islands[i], instead.islands[i]).empty();
  }
  if (apart) changes.push_back("each island in launches of its own");
  if (easier) changes.push_back("easier schedules for islands");
  return absl::StrJoin(changes, ", ");
}

}  // namespace

absl::StatusOr<Schedule> GroupProgram::ChooseByHeuristic(SchedulerKind as,
                                                         const ScheduleContext& context) {
  std::vector<int64_t> key = {static_cast<int64_t>(as), context.alignment_bytes, context.any_order};
  key.insert(key.end(), context.sizes.begin(), context.sizes.end());
  if (const auto it = chosen.find(key); it != chosen.end()) return it->second;
  const Scheduler* scheduler = FindScheduler(as);
  if (scheduler == nullptr) {
    return absl::InternalError(absl::StrCat("group ", id, ": no scheduler ", SchedulerName(as)));
  }
  SEAM_ASSIGN_OR_RETURN(Schedule schedule, scheduler->choose(*group, context));
  if (chosen.size() >= kMaxChosen) chosen.clear();
  chosen.emplace(std::move(key), schedule);
  return schedule;
}

absl::StatusOr<GroupProgram::Choice> GroupProgram::Choose(SchedulerKind as,
                                                          const ScheduleContext& context,
                                                          TunedSchedules* tuned) {
  Choice choice;
  if (fixed.has_value()) {
    SEAM_ASSIGN_OR_RETURN(choice.variant, FindOrLower(*fixed, ""));
    return choice;
  }
  if (IsTunable(as) && tuned == nullptr) {
    choice.origin = "chosen by the heuristic: tuned schedules are switched off";
  } else if (IsTunable(as)) {
    const absl::StatusOr<TunedSchedule> found = tuned->Find(*group, as, context);
    absl::Status status = found.status();
    if (found.ok()) {
      choice.origin = OriginOf(*found, *group, context);
      const absl::StatusOr<std::shared_ptr<Variant>> variant =
          FindOrLower(found->schedule, choice.origin);
      status = variant.status();
      if (status.ok()) status = (*variant)->Sizes(context.sizes).status();
      if (status.ok()) status = CheckRoom((*variant)->plan(), context.device);
      if (status.ok() && found->schedule.alignment_bytes > context.alignment_bytes)
        status = absl::DataLossError("it asks for bases of another alignment");
      if (status.ok()) {
        choice.variant = *variant;
        return choice;
      }
    }
    choice.origin = absl::IsNotFound(status)
                        ? absl::StrCat("chosen by the heuristic: ", status.message())
                        : absl::StrCat("chosen by the heuristic: what is stored in ",
                                       tuned->FilePath(*group, as, context), " is not used, as ",
                                       status.message());
  }
  SEAM_ASSIGN_OR_RETURN(choice.chosen, ChooseByHeuristic(as, context));
  Schedule schedule = *choice.chosen;
  std::string origin = IsTunable(as) ? "chosen by the heuristic" : "";
  const auto note = [&](const std::string& why) {
    for (std::string* text : {&origin, &choice.origin})
      absl::StrAppend(text, text->empty() ? "" : "; ", why);
  };
  const auto it = absl::c_find_if(eased, [&](const Eased& e) { return e.chosen == schedule; });
  if (it != eased.end() && it->instead != schedule) {
    note(
        absl::StrCat(WhatIsEasier(schedule, it->instead), ", with which it would spill registers"));
    schedule = it->instead;
  }
  SEAM_ASSIGN_OR_RETURN(choice.variant, FindOrLower(schedule, origin));
  if (!CheckRoom(choice.variant->plan(), context.device).ok()) {
    for (const Schedule& easier : SmallerSchedules(schedule, context.device)) {
      const std::string why = absl::StrCat(WhatIsEasier(schedule, easier),
                                           ", with which it would take more shared memory than a "
                                           "CTA has");
      const absl::StatusOr<std::shared_ptr<Variant>> variant =
          FindOrLower(easier, absl::StrCat(origin, "; ", why));
      if (!variant.ok() || !CheckRoom((*variant)->plan(), context.device).ok()) continue;
      note(why);
      schedule = easier;
      choice.variant = *variant;
      break;
    }
  }
  // How large the terms of its indices are, only the kernel says.
  if (HasIndex32(schedule) && !choice.variant->Sizes(context.sizes).ok()) {
    SEAM_ASSIGN_OR_RETURN(const std::shared_ptr<Variant> wide,
                          FindOrLower(WithIndex64(schedule), origin));
    if (wide->Sizes(context.sizes).ok()) choice.variant = wide;
  }
  SEAM_RETURN_IF_ERROR(CheckRoom(choice.variant->plan(), context.device));
  return choice;
}

bool GroupProgram::Ease(const Schedule& chosen, int spills, const DeviceInfo& device) {
  auto it = absl::c_find_if(eased, [&](const Eased& e) { return e.chosen == chosen; });
  if (it == eased.end()) {
    std::vector<Schedule> untried = EasierSchedules(chosen, device);
    absl::c_reverse(untried);
    it = eased.insert(eased.end(), {chosen, chosen, chosen, spills, std::move(untried)});
  }
  const Schedule taken = it->instead;
  if (spills < it->best_spills) {
    it->best = taken;
    it->best_spills = spills;
  }
  it->instead = it->best;
  while (!it->untried.empty() && it->instead == it->best) {
    const Schedule next = std::move(it->untried.back());
    it->untried.pop_back();
    const absl::StatusOr<std::shared_ptr<Variant>> variant = FindOrLower(next, "");
    if (variant.ok() && CheckRoom((*variant)->plan(), device).ok()) it->instead = next;
  }
  return it->instead != taken;
}

void GroupProgram::Keep(const std::shared_ptr<Variant>& variant) {
  if (std::find(variants.begin(), variants.end(), variant) == variants.end())
    variants.push_back(variant);
}

void GroupProgram::DropUnused() {
  std::erase_if(variants, [](const std::shared_ptr<Variant>& v) { return v.use_count() == 1; });
}

}  // namespace seam
