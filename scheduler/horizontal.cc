// Horizontal: groups that share nothing large, islands side by side in one launch, as an
// optimizer's updates of many tensors are, and their norms. Each island is scheduled and lowered as
// the group that it is, with vectors and facts of its own; CTAs of one island follow those of
// another in a kernel of all that have as many threads. An island of several kernels, states of
// rows and what merges them, has its first one among the others' first ones, and so on. What an
// island costs does not change by that, but for the registers, of which all CTAs have as many as
// the island that takes the most; so what is large and reduces has launches of its own.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/kept_rows.h"
#include "scheduler/kernel/join.h"
#include "scheduler/lower.h"
#include "scheduler/schedulers.h"
#include "scheduler/side_by_side.h"
#include "segmenter/extract.h"
#include "segmenter/islands.h"

namespace seam::horizontal {
namespace {

// Of an island: a larger one would take registers that the others have no use for.
constexpr int kMaxIslandExprs = 128;
// Of all islands: more text takes the compiler longer than a second launch costs.
constexpr int kMaxExprs = 1000;
// SMs for which an island is scheduled at least.
constexpr int kLeastSms = 4;

absl::StatusOr<std::vector<ExtractedGroup>> ExtractIslands(const Fusion& group) {
  std::vector<ExprId> exprs;
  for (uint32_t e = 0; e < group.num_exprs(); ++e) exprs.push_back(ExprId(e));
  std::vector<ExtractedGroup> islands;
  absl::flat_hash_set<ValId> written;
  const AxisMap axes = AxisMap::Build(group);
  for (const std::vector<ExprId>& island : IslandsOf(group, axes, FactsOf(group), exprs)) {
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

// Launches of all islands, joined where they are alike and their parameters fit.
class Joiner {
 public:
  Joiner(const Fusion& group, LaunchPlan& plan) : group_(group), plan_(plan) {}

  void Add(const ExtractedGroup& island, bool apart, LaunchPlan part) {
    SymImporter importer(group_.shared_env().get());
    for (const SymNode* s : island.fusion.env().symbols())
      importer.Map(s, *group_.env().Find(s->name));
    for (Guard& guard : part.guards) {
      guard.condition = importer.Import(guard.condition);
      const auto same = [&](const Guard& g) { return g.condition.is_same(guard.condition); };
      if (!absl::c_any_of(plan_.guards, same)) plan_.guards.push_back(std::move(guard));
    }
    const int first_workspace = static_cast<int>(plan_.workspaces.size());
    for (const Workspace& workspace : part.workspaces)
      plan_.workspaces.push_back({workspace.dtype, importer.Import(workspace.num_elements)});
    const auto place_in_group = [&](ValId v, absl::Span<const ValId> values) {
      return static_cast<int>(absl::c_find(values, v) - values.begin());
    };
    for (size_t step = 0; step < part.launches.size(); ++step) {
      KernelLaunch& launch = part.launches[step];
      if (launch.kernel.grid_x.is_same(0)) continue;
      for (BufferSource& source : launch.buffers) {
        switch (source.kind) {
          case BufferSource::kInput:
            source.index = place_in_group(island.inputs[source.index], group_.inputs());
            break;
          case BufferSource::kOutput:
            source.index = place_in_group(island.outputs[source.index], group_.outputs());
            break;
          case BufferSource::kWorkspace:
            source.index += first_workspace;
            break;
        }
      }
      for (SymInt& argument : launch.arguments) argument = importer.Import(argument);
      Insert(step, apart, std::move(launch));
    }
  }

  absl::Status Finish() {
    // What an island's kernel reads of the one before is there by then.
    absl::c_stable_sort(shared_, [](const Shared& a, const Shared& b) { return a.step < b.step; });
    const std::string name = KernelName(group_, plan_.schedule);
    for (Shared& shared : shared_) {
      const std::string suffix = plan_.launches.empty() ? "" : absl::StrCat(plan_.launches.size());
      SEAM_ASSIGN_OR_RETURN(
          KernelLaunch joined,
          SideBySide(group_, name + suffix, std::move(shared.launches), kernel::Parameters::kOwn));
      plan_.launches.push_back(std::move(joined));
    }
    return absl::OkStatus();
  }

 private:
  struct Shared {  // One launch: kernels that are the step-th of their islands.
    size_t step;
    bool open;  // To others.
    size_t bytes = 0;
    std::vector<KernelLaunch> launches;
  };

  static bool AreAlike(const kernel::Kernel& a, const kernel::Kernel& b) {
    return a.threads == b.threads && (a.copy_barriers == 0 || b.copy_barriers == 0 ||
                                      a.copies_per_batch == b.copies_per_batch);
  }

  // Whether together they take no more shared memory than one of them alone, or than every device
  // has.
  static bool HaveRoom(absl::Span<const KernelLaunch> launches, const kernel::Kernel& kernel) {
    constexpr int64_t kRoom = 48 << 10;
    std::vector<const kernel::Kernel*> kernels = {&kernel};
    int64_t alone = std::max(kRoom, kernel.SharedBytes());
    for (const KernelLaunch& launch : launches) {
      kernels.push_back(&launch.kernel);
      alone = std::max(alone, launch.kernel.SharedBytes());
    }
    return kernel::SharedBytesSideBySide(kernels) <= alone;
  }

  void Insert(size_t step, bool apart, KernelLaunch launch) {
    const bool open = !apart && kernel::CanStandBeside(launch.kernel);
    const size_t bytes = ParameterBytes(launch, kernel::Parameters::kOwn);
    auto found = absl::c_find_if(shared_, [&](const Shared& shared) {
      return open && shared.open && shared.step == step &&
             shared.bytes + bytes <= kMaxParameterBytes &&
             absl::c_all_of(shared.launches,
                            [&](const KernelLaunch& other) {
                              return AreAlike(other.kernel, launch.kernel);
                            }) &&
             HaveRoom(shared.launches, launch.kernel);
    });
    if (found == shared_.end()) found = shared_.insert(found, {step, open});
    found->bytes += bytes;
    found->launches.push_back(std::move(launch));
  }

  const Fusion& group_;
  LaunchPlan& plan_;
  std::vector<Shared> shared_;
};

bool Reduces(const Fusion& fusion) {
  for (uint32_t e = 0; e < fusion.num_exprs(); ++e) {
    if (IsReduction(fusion.info(ExprId(e)).op_class)) return true;
  }
  return false;
}

// Of an island that reduces, beside others: kernels that need no clusters and no barrier of the
// grid, since these are all of it that is theirs.
absl::StatusOr<Schedule> ChooseBeside(const Fusion& island, ScheduleContext context, int sms) {
  context.device.sms = sms;
  context.device.max_cluster = 1;
  context.any_order = false;
  SEAM_ASSIGN_OR_RETURN(Schedule s, reduction::Choose(island, context));
  s.one_launch = false;
  s.held = 0;
  s.pace = 0;
  s.min_ctas_per_sm = std::min(s.min_ctas_per_sm, 1);
  return s;
}

// Whether an SM has the registers that a CTA of such an island takes, by an estimate.
absl::StatusOr<bool> HasRegisters(const Fusion& island, const ScheduleContext& context,
                                  const Schedule& s) {
  constexpr double kOtherWords = 40;  // For addresses, states and what is computed.
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(island, context, s));
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, s));
  // Narrow data lie unpacked while they are computed with.
  const double points = static_cast<double>(s.registers) * s.vector * sized.large_inputs;
  const double words = std::max(rows.Words(s.registers, s), points) + kOtherWords;
  return words * s.threads() <= context.device.registers_per_sm;
}

// Whether an SM has the shared memory through which a CTA's warps merge their states.
bool HasSharedMemory(const Fusion& island, const DeviceInfo& device, const Schedule& s) {
  const absl::StatusOr<LaunchPlan> plan = seam::Lower(island, s);
  return plan.ok() && absl::c_all_of(plan->launches, [&](const KernelLaunch& launch) {
           return launch.kernel.SharedBytes() <= device.smem_bytes_per_cta;
         });
}

}  // namespace

Decision CanSchedule(const Fusion& fusion, const AxisMap& axes,
                     absl::Span<const GroupSummary> islands) {
  const SchedulerKind me = SchedulerKind::kHorizontal;
  int num_exprs = 0;
  for (const GroupSummary& island : islands) {
    const bool reduces = island.num_reductions > 0;
    if (island.library || island.barrier || island.views_only ||
        reduces != (islands.front().num_reductions > 0)) {
      return Decision::Refuse(me, ReasonCode::kUnsupported, island.reductions,
                              "only pointwise groups, or only reductions, are put side by side");
    }
    const auto can_schedule = reduces ? reduction::CanSchedule : pointwise::CanSchedule;
    if (Decision d = can_schedule(fusion, axes, island); !d.ok) return d;
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

absl::Status CheckLowers(const Fusion& group) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<ExtractedGroup> islands, ExtractIslands(group));
  for (const ExtractedGroup& island : islands)
    SEAM_RETURN_IF_ERROR(seam::CheckLowers(island.fusion, SchedulerKind::kReduction));
  return absl::OkStatus();
}

Schedule WithThreads(const Schedule& s, int threads) {
  const bool depends = s.grid > 0 || s.blocks || s.shift || s.tiles || s.neighbours > 1 ||
                       s.points > 1 || s.beside >= 0;
  if (depends || s.threads() == threads) return s;
  const int sharing = s.lanes_per_row * s.warps_per_row, vectors = sharing * s.registers;
  Schedule best = s;
  int most = 0;
  for (int lanes = s.lanes_per_row; lanes <= (s.outer ? s.lanes_per_row : 32); lanes *= 2) {
    for (int warps = 1; warps <= (s.outer || lanes == 32 ? threads / 32 : 1); ++warps) {
      const int shared_by = lanes * warps;
      if (threads / 32 % warps != 0 || shared_by < sharing) continue;
      const bool better = most == 0 || (most > vectors ? shared_by < most
                                                       : shared_by > most && shared_by <= vectors);
      if (!better) continue;
      most = shared_by;
      best.lanes_per_row = lanes;
      best.warps_per_row = warps;
      best.row_warps = threads / 32 / warps;
      best.registers = static_cast<int>(CeilDivide(vectors, shared_by));
    }
  }
  return CheckSchedule(best).ok() ? best : s;
}

absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<ExtractedGroup> islands, ExtractIslands(group));
  if (context.sizes.size() != group.env().symbols().size()) {
    return absl::InvalidArgumentError(absl::StrCat("group ", std::string(group.name()), ": ",
                                                   context.sizes.size(), " sizes for ",
                                                   group.env().symbols().size(), " symbols"));
  }
  struct Island {
    ScheduleContext context;
    bool reduces;
    int64_t bytes;
    bool is_large() const { return reduces && bytes > kMostReducedBytes; }
  };
  std::vector<Island> sized;
  int64_t small_bytes = 0;  // Of all that are not large.
  for (const ExtractedGroup& island : islands) {
    Island own = {ContextOf(group, island.fusion, context), Reduces(island.fusion)};
    SEAM_ASSIGN_OR_RETURN(const SizedGroup rows, SizeGroup(island.fusion, own.context));
    SEAM_ASSIGN_OR_RETURN(own.bytes, MovedBytes(rows));
    if (!own.is_large()) small_bytes += own.bytes;
    sized.push_back(std::move(own));
  }
  Schedule s;
  s.kind = SchedulerKind::kHorizontal;
  s.alignment_bytes = 1;
  s.index32 = true;
  for (size_t i = 0; i < islands.size(); ++i) {
    const Fusion& island = islands[i].fusion;
    Schedule own;
    if (!sized[i].reduces) {
      SEAM_ASSIGN_OR_RETURN(own, pointwise::Choose(island, sized[i].context));
    } else if (!sized[i].is_large()) {
      // It has its part of the machine.
      const int sms = context.device.sms, least = std::min(kLeastSms, sms);
      const auto part =
          static_cast<int>(CeilDivide(sms * sized[i].bytes, std::max<int64_t>(small_bytes, 1)));
      SEAM_ASSIGN_OR_RETURN(own,
                            ChooseBeside(island, sized[i].context, std::clamp(part, least, sms)));
      SEAM_ASSIGN_OR_RETURN(const bool fits, HasRegisters(island, sized[i].context, own));
      own.apart = !fits;
    }
    if (sized[i].is_large() || own.apart) {
      SEAM_ASSIGN_OR_RETURN(own, reduction::Choose(island, sized[i].context));
      own.apart = true;
    }
    s.alignment_bytes = std::max(s.alignment_bytes, own.alignment_bytes);
    s.index32 &= own.index32;
    s.islands.push_back(std::move(own));
  }
  // As many threads for all that share launches.
  int threads = 0;
  for (const Schedule& own : s.islands) {
    if (!own.apart) threads = std::max(threads, own.threads());
  }
  for (size_t i = 0; i < islands.size(); ++i) {
    Schedule& own = s.islands[i];
    if (own.apart) continue;
    if (!sized[i].reduces) {
      own.row_warps *= threads / own.threads();
      continue;
    }
    const Schedule wide = WithThreads(own, threads);
    SEAM_ASSIGN_OR_RETURN(const bool fits, HasRegisters(islands[i].fusion, sized[i].context, wide));
    if (fits && wide.threads() != own.threads() &&
        HasSharedMemory(islands[i].fusion, context.device, wide)) {
      own = wide;
    }
  }
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
    const Schedule& own = schedule.islands[i];
    SEAM_ASSIGN_OR_RETURN(LaunchPlan part, seam::Lower(islands[i].fusion, own));
    joiner.Add(islands[i], own.apart, std::move(part));
  }
  SEAM_RETURN_IF_ERROR(joiner.Finish());
  return plan;
}

}  // namespace seam::horizontal
