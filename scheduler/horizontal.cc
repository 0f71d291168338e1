// Horizontal: pointwise groups that share nothing, islands side by side in one launch, as an
// optimizer's updates of many tensors are. Each island is scheduled and lowered as the pointwise
// group that it is, with vectors and facts of its own, but with as many threads a CTA as the
// others; CTAs of one island follow those of another. What an island costs does not change by that,
// but for the registers, of which all CTAs have as many as the island that takes the most.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/kernel/join.h"
#include "scheduler/lower.h"
#include "scheduler/schedulers.h"
#include "segmenter/extract.h"
#include "segmenter/islands.h"

namespace seam::horizontal {
namespace {

// Of an island: a larger one would take registers that the others have no use for.
constexpr int kMaxIslandExprs = 128;
// Of all islands: more text takes the compiler longer than a second launch costs.
constexpr int kMaxExprs = 1000;
// Pointers and integers of a launch, in bytes; every device takes as many.
constexpr size_t kMaxParameterBytes = 4000;

absl::StatusOr<std::vector<ExtractedGroup>> ExtractIslands(const Fusion& group) {
  std::vector<ExprId> exprs;
  for (uint32_t e = 0; e < group.num_exprs(); ++e) exprs.push_back(ExprId(e));
  std::vector<ExtractedGroup> islands;
  absl::flat_hash_set<ValId> written;
  for (const std::vector<ExprId>& island : IslandsOf(group, FactsOf(group), exprs)) {
    // What several compute for themselves one of them writes.
    std::vector<ValId> outputs;
    for (ExprId e : island) {
      for (int r = 0; r < group.num_results(e); ++r) {
        const ValId v = group.result(e, r);
        if (group.is_output(v) && written.insert(v).second) outputs.push_back(v);
      }
    }
    SEAM_ASSIGN_OR_RETURN(
        ExtractedGroup part,
        ExtractPart(group, absl::StrCat(std::string(group.name()), "_", islands.size()), island,
                    outputs));
    islands.push_back(std::move(part));
  }
  return islands;
}

// The sizes that the island's symbols have by the names that they have in the group.
ScheduleContext ContextOf(const Fusion& group, const Fusion& island,
                          const ScheduleContext& context) {
  ScheduleContext own = context;
  own.sizes.clear();
  const std::vector<const SymNode*> symbols = group.env().symbols();
  for (const SymNode* s : island.env().symbols()) {
    const auto same =
        absl::c_find_if(symbols, [&](const SymNode* symbol) { return symbol->name == s->name; });
    own.sizes.push_back(context.sizes[same - symbols.begin()]);
  }
  return own;
}

// Launches of one island after the other, joined while their parameters fit.
class Joiner {
 public:
  Joiner(const Fusion& group, LaunchPlan& plan) : group_(group), plan_(plan) {}

  absl::Status Add(const ExtractedGroup& island, LaunchPlan part) {
    SymImporter importer(group_.shared_env().get());
    for (const SymNode* s : island.fusion.env().symbols()) {
      importer.Map(s, *group_.env().Find(s->name));
    }
    for (Guard& guard : part.guards) {
      guard.condition = importer.Import(guard.condition);
      const auto same = [&](const Guard& g) { return g.condition.is_same(guard.condition); };
      if (!absl::c_any_of(plan_.guards, same)) plan_.guards.push_back(std::move(guard));
    }
    if (!part.workspaces.empty() || part.launches.size() > 1) {
      return absl::InternalError(absl::StrCat("group ", std::string(group_.name()),
                                              ": an island takes more than one kernel"));
    }
    for (KernelLaunch& launch : part.launches) {
      if (launch.kernel.grid_x.is_same(0)) continue;
      const size_t bytes = (launch.buffers.size() + launch.arguments.size() + 1) * sizeof(int64_t);
      if (bytes_ + bytes > kMaxParameterBytes) SEAM_RETURN_IF_ERROR(Finish());
      bytes_ += bytes;
      for (BufferSource source : launch.buffers) {
        const bool input = source.kind == BufferSource::kInput;
        const ValId v = (input ? island.inputs : island.outputs)[source.index];
        const absl::Span<const ValId> values = input ? group_.inputs() : group_.outputs();
        source.index = static_cast<int>(absl::c_find(values, v) - values.begin());
        joined_.buffers.push_back(source);
      }
      SymImporter arguments(group_.shared_env().get());
      for (size_t i = 0; i < launch.arguments.size(); ++i) {
        const SymInt argument = importer.Import(launch.arguments[i]);
        joined_.arguments.push_back(argument);
        arguments.Map(launch.kernel.parameters[i].node(), argument);
      }
      end_ = end_ + arguments.Import(launch.kernel.grid_x);
      joined_.arguments.push_back(end_);
      kernels_.push_back(std::move(launch.kernel));
    }
    return absl::OkStatus();
  }

  // The launch of what has been added since the last one.
  absl::Status Finish() {
    if (kernels_.empty()) return absl::OkStatus();
    const std::string suffix = plan_.launches.empty() ? "" : absl::StrCat(plan_.launches.size());
    SEAM_ASSIGN_OR_RETURN(
        joined_.kernel, kernel::SideBySide(KernelName(group_, plan_.schedule) + suffix, kernels_));
    plan_.launches.push_back(std::move(joined_));
    joined_ = {};
    kernels_.clear();
    bytes_ = 0;
    end_ = 0;
    return absl::OkStatus();
  }

 private:
  const Fusion& group_;
  LaunchPlan& plan_;
  KernelLaunch joined_;
  std::vector<kernel::Kernel> kernels_;
  size_t bytes_ = 0;
  SymInt end_ = 0;
};

}  // namespace

Decision CanSchedule(const Fusion& fusion, const AxisMap& axes,
                     absl::Span<const GroupSummary> islands) {
  const SchedulerKind me = SchedulerKind::kHorizontal;
  int num_exprs = 0;
  for (const GroupSummary& island : islands) {
    if (island.library || island.barrier || island.num_reductions > 0 || island.views_only) {
      return Decision::Refuse(me, ReasonCode::kUnsupported, island.reductions,
                              "only pointwise groups are put side by side");
    }
    if (Decision d = pointwise::CanSchedule(fusion, axes, island); !d.ok) return d;
    if (island.num_exprs > kMaxIslandExprs) {
      return Decision::Refuse(me, ReasonCode::kCapacity, {},
                              "one of the islands would bound the registers of all others");
    }
    num_exprs += island.num_exprs;
  }
  if (num_exprs > kMaxExprs) {
    return Decision::Refuse(me, ReasonCode::kCapacity, {},
                            "the kernel would hold more than 1000 expressions");
  }
  return Decision::Accept(me);
}

absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<ExtractedGroup> islands, ExtractIslands(group));
  if (context.sizes.size() != group.env().symbols().size()) {
    return absl::InvalidArgumentError(absl::StrCat("group ", std::string(group.name()), ": ",
                                                   context.sizes.size(), " sizes for ",
                                                   group.env().symbols().size(), " symbols"));
  }
  Schedule s;
  s.kind = SchedulerKind::kHorizontal;
  s.alignment_bytes = 1;
  s.index32 = true;
  int threads = 0;
  for (const ExtractedGroup& island : islands) {
    SEAM_ASSIGN_OR_RETURN(
        Schedule own, pointwise::Choose(island.fusion, ContextOf(group, island.fusion, context)));
    s.alignment_bytes = std::max(s.alignment_bytes, own.alignment_bytes);
    s.index32 &= own.index32;
    threads = std::max(threads, own.threads());
    s.islands.push_back(std::move(own));
  }
  for (Schedule& own : s.islands) own.row_warps *= threads / own.threads();
  return s;
}

absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<ExtractedGroup> islands, ExtractIslands(group));
  if (islands.size() != schedule.islands.size()) {
    return absl::InvalidArgumentError(absl::StrCat("group ", std::string(group.name()), ": ",
                                                   schedule.islands.size(), " schedules for ",
                                                   islands.size(), " islands"));
  }
  LaunchPlan plan;
  plan.schedule = schedule;
  Joiner joiner(group, plan);
  for (size_t i = 0; i < islands.size(); ++i) {
    SEAM_ASSIGN_OR_RETURN(LaunchPlan part, seam::Lower(islands[i].fusion, schedule.islands[i]));
    SEAM_RETURN_IF_ERROR(joiner.Add(islands[i], std::move(part)));
  }
  SEAM_RETURN_IF_ERROR(joiner.Finish());
  return plan;
}

}  // namespace seam::horizontal
