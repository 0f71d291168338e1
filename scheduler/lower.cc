#include "scheduler/lower.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/held_steps.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/expand.h"
#include "scheduler/kernel/index_terms.h"
#include "scheduler/kernel/join.h"
#include "scheduler/kernel/products.h"
#include "scheduler/kernel/row_blocks.h"
#include "scheduler/kernel/rows_ahead.h"
#include "scheduler/kernel/wide_accesses.h"
#include "scheduler/side_by_side.h"

namespace seam {
namespace {

using kernel::Axis;
using kernel::Mode;
using kernel::Place;

// Puts what the facts pin into expressions of the group.
SymImporter Pinned(const Fusion& group, const Schedule& schedule) {
  SymImporter pinned(group.shared_env().get());
  for (const SymNode* s : group.env().symbols()) {
    SymInt value = SymInt::FromNode(s);
    for (const SymbolFact& f : schedule.facts) {
      if (f.symbol == s->name && f.value >= 0) value = f.value;
    }
    pinned.Map(s, value);
  }
  return pinned;
}

// The most columns that the threads of a row hold at once, ends included.
int64_t HeldColumns(const Schedule& schedule) {
  const bool has_ends = schedule.shift && schedule.vector > 1;
  return schedule.columns_at_once() + (has_ends ? 2 * schedule.vector - 1 : 0);
}

std::vector<Guard> GuardsOf(const Fusion& group, const GroupShape& shape, const Schedule& schedule,
                            absl::Span<const Workspace> workspaces, SymImporter& pinned) {
  std::vector<Guard> guards;
  auto require = [&](SymInt condition, std::string reason) {
    if (Decide(condition) != true) guards.push_back({condition, std::move(reason)});
  };
  for (const SymbolFact& f : schedule.facts) {
    const SymInt symbol = *group.env().Find(f.symbol);
    if (f.value >= 0) {
      require(SymEq(symbol, f.value),
              absl::StrCat("the kernel is specialised to ", f.symbol, " = ", f.value));
    } else {
      require(SymEq(Mod(symbol, f.multiple), 0),
              absl::StrCat("the kernel takes ", f.symbol, " in multiples of ", f.multiple));
    }
  }
  if (schedule.neighbours > 1) {
    require(SymEq(shape.Extent(shape.merged), schedule.neighbours),
            absl::StrCat(schedule.neighbours, " neighbouring columns are rows"));
  }
  for (uint32_t i = 0; i < group.num_exprs() && schedule.together > 1; ++i) {
    if (shape.crosses[i] != Crossing::kSomeRows) continue;
    require(SymEq(Mod(shape.Extent(shape.RowsFoldedBy(ExprId(i))), schedule.together), 0),
            absl::StrCat("states of ", schedule.together, " rows are of one result"));
  }
  for (const GroupShape::PointsOfAxis& of : shape.along) {
    if (of.uneven) continue;
    require(SymEq(Mod(shape.axes.extent(of.axis), of.points), 0),
            absl::StrCat("threads have ", of.points, " points each along an axis"));
  }
  if (schedule.persistent) {
    for (const std::vector<AxisId>& columns : shape.held) {
      const int64_t held = HeldColumns(schedule);
      require(SymLe(shape.Extent(columns), held),
              absl::StrCat("a row of at most ", held, " elements is kept in registers"));
    }
  }
  if (schedule.stages > 0 && schedule.shift) {
    for (const std::vector<AxisId>& columns : shape.held) {
      require(SymGe(shape.Extent(columns), 3 * schedule.vector - 1),
              "there is a whole vector to bring ahead in every row");
    }
  }
  if (!shape.batch.empty() && schedule.takes_whole_sets() && schedule.rows_per_cta() > 1) {
    require(SymEq(Mod(shape.Extent(shape.RowsOfBatch()), schedule.rows_per_cta()), 0),
            absl::StrCat("a batch has its rows in sets of ", schedule.rows_per_cta()));
  }
  if (schedule.tickets || schedule.pace > 0)
    require(SymLe(shape.row_extent, kIndex32Limit), "32 bits count the tickets for rows");
  if (schedule.index32 && schedule.slices > 1) {
    require(SymLe(shape.row_extent * schedule.slices, kIndex32Limit),
            "32 bits count the slices of rows");
  }
  std::optional<SymInt> smallest;  // Of those that are not known.
  for (SymInt extent : shape.extents) {
    const SymInt known = pinned.Import(extent);
    if (known.is_symbolic()) smallest = smallest ? Min(*smallest, known) : known;
  }
  if (smallest) require(SymGe(*smallest, 1), "no other axis is empty");
  if (schedule.index32)
    require(SymLe(LargestReach(group), kIndex32Limit), "32-bit indices reach every element");
  SymInt most_states = 0;
  for (const Workspace& workspace : workspaces)
    most_states = Max(most_states, workspace.num_elements);
  if (schedule.index32) {
    require(SymLe(most_states, kIndex32Limit), "32-bit indices reach every state that CTAs leave");
  }
  return guards;
}

// One kernel of a plan: what it traces, and how its threads are laid out.
struct Stage {
  GroupShape shape;
  Schedule schedule;
  TraceOptions trace;
  std::string suffix;  // Of the kernel's name.
};

// For merging up to so many states of each result, or, if 0, any number: neighbouring results to
// neighbouring lanes, so many for each, or, where there is one result, a CTA for its states. A
// thread has the loads of eight states under way.
Schedule FinishSchedule(const Schedule& schedule, const GroupShape& shape, int lanes,
                        int64_t states) {
  Schedule s = schedule;
  s.grid = 0;
  s.cluster = s.neighbours = s.together = 1;
  s.stages = s.pace = s.stagger = s.staggered = 0;
  s.slices = 1;
  s.spare = 0;
  s.settled = false;
  s.persistent = s.early = s.shift = s.reread = s.async = s.tickets = s.blocks = s.runs = false;
  s.tiles = false;
  s.vector = 1;
  s.outer = shape.outer;
  s.lanes_per_row = shape.rows.empty() ? 32 : lanes;
  s.warps_per_row = schedule.threads() / 32;
  s.row_warps = 1;
  const int sharing = s.lanes_per_row * s.warps_per_row;
  s.registers =
      states > 0 ? static_cast<int>(std::clamp<int64_t>(CeilDivide(states, sharing), 1, 8)) : 4;
  s.min_ctas_per_sm = 0;
  return s;
}

// Whether each CTA leaves one state, over all of its rows, of a result with these axes. Of what
// keeps some columns or some axes of the rows, each row does; a result with fewer axes than these
// counts as one of them.
bool AreOfPlaces(const Fusion& group, const GroupShape& shape, const AxisSet& axes) {
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const bool of_rows =
        shape.crosses[i] == Crossing::kSomeRows || shape.crosses[i] == Crossing::kSomeColumns;
    if (of_rows && IsSubset(axes, shape.axes.kept(ExprId(i)))) return false;
  }
  return true;
}

// Gives warps that would share fewer states of a result than they are results of their own, as
// where a CTA has a batch and leaves one.
void HaveAStateEach(int64_t states, Schedule& s) {
  const int warps = s.warps_per_row;
  int64_t wanted = std::max<int64_t>(1, CeilDivide(states, s.lanes_per_row));
  while (wanted < warps && warps % wanted != 0) ++wanted;
  if (wanted >= warps) return;
  s.warps_per_row = static_cast<int>(wanted);
  s.row_warps = warps / s.warps_per_row;
}

// The same of states that CTAs with a part of the columns each have left: of few for each result
// that are in a warp's lanes at once, since a CTA would exchange those of one after the other.
Schedule FinishParts(const Schedule& schedule, const GroupShape& shape) {
  constexpr int kMostStates = 256;
  Schedule s = FinishSchedule(schedule, shape, schedule.finish_lanes, schedule.split);
  if (schedule.split > kMostStates) return s;
  s.lanes_per_row = 32;
  s.warps_per_row = 1;
  s.row_warps = schedule.threads() / 32;
  s.registers = static_cast<int>(CeilDivide(schedule.split, 32));
  return s;
}

absl::StatusOr<std::vector<Stage>> StagesOf(const Fusion& group, const GroupShape& shape,
                                            const Schedule& schedule) {
  TraceOptions trace;
  trace.facts = schedule.facts;
  trace.chan_welford = schedule.chan_welford || schedule.split > 1;
  trace.alignment_bytes = schedule.alignment_bytes;
  if (schedule.online) {
    SEAM_ASSIGN_OR_RETURN(const TracedKernel whole, Trace(group, shape, trace));
    trace.online = FindOnlineSums(whole);
  }
  trace.split = schedule.split;
  trace.neighbours = schedule.neighbours;
  std::vector<Stage> stages;
  if (schedule.split > 1) {
    if (schedule.columns_apart) {
      trace.parts = std::make_shared<const std::vector<ColumnPart>>(ColumnPartsOf(shape));
      if (shape.rows.empty())
        trace.columns_of_cta = schedule.columns_per_step() / schedule.registers;
    }
    const size_t num_parts = trace.parts ? trace.parts->size() : 0;
    for (trace.stage = 0; trace.stage <= shape.max_depth; ++trace.stage) {
      const std::string suffix = shape.max_depth > 0 ? absl::StrCat("_stage", trace.stage) : "";
      for (trace.part = 0; trace.part < num_parts; ++trace.part)
        stages.push_back({shape, schedule, trace, suffix});
      stages.push_back(
          {shape, trace.parts ? FinishParts(schedule, shape) : schedule, trace, suffix});
    }
    return stages;
  }
  trace.places = schedule.places();
  trace.pieces = schedule.cluster;
  trace.row_pieces = schedule.row_pieces();
  trace.together = schedule.together;
  stages.push_back({shape, schedule, trace, ""});
  trace.finish = true;
  std::vector<AxisSet> kept;  // Of what is finished.
  for (ValId v : group.outputs()) {
    const AxisSet axes = shape.axes.axes(v);
    if (!shape.finished[v.index()] || absl::c_linear_search(kept, axes)) continue;
    kept.push_back(axes);
    const GroupShape finished = FinishedShape(shape, axes);
    const bool of_all = !shape.batch.empty() && !absl::c_binary_search(axes, shape.batch.front());
    const int lanes = of_all ? schedule.whole_lanes : schedule.finish_lanes;
    // States of each place, or of rows, of which those that are in hand at once tell how many there
    // may be.
    const bool of_places = AreOfPlaces(group, shape, axes);
    const int64_t states =
        of_places ? trace.places
                  : CeilDivide(schedule.rows_at_once(), schedule.together) * schedule.row_pieces();
    Schedule finish = FinishSchedule(schedule, finished, lanes, states);
    if (of_places && !of_all) HaveAStateEach(states, finish);
    // Few results of many rows' states have a CTA each.
    constexpr int kWarpsOfMany = 8;
    if (!of_places && !schedule.one_launch && lanes == 32)
      finish.warps_per_row = std::max(finish.warps_per_row, kWarpsOfMany);
    stages.push_back(
        {finished, std::move(finish), trace, absl::StrCat("_finish", kept.size() - 1)});
  }
  return stages;
}

// Whether CTAs that have rows as the schedule says can leave the group's states in parts.
absl::Status CheckPartialStates(const Fusion& group, const GroupShape& shape,
                                const Schedule& schedule) {
  if (shape.crosses_all_rows() ? schedule.grid == 0 : shape.crossed() && schedule.split > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group ", std::string(group.name()),
        ": reductions that cross rows need a grid of CTAs that take whole rows in turn"));
  }
  const bool folds_all = absl::c_linear_search(shape.crosses, Crossing::kAll);
  if (schedule.outer && schedule.grid > 0 &&
      (folds_all || shape.keeps_columns() ||
       (shape.crosses_all_rows() && (!schedule.persistent || schedule.cluster > 1)))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group ", std::string(group.name()),
        ": rows taken in turn in vectors of them, which a CTA each holds, leave states "
        "of their columns and no others"));
  }
  if (absl::c_linear_search(shape.crosses, Crossing::kRows) && !schedule.persistent &&
      schedule.rows_per_cta() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", std::string(group.name()),
                     ": states of columns that lie in memory are those of one row a CTA"));
  }
  if (shape.keeps_columns() && (schedule.shift || schedule.runs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", std::string(group.name()),
                     ": where some columns are kept, vectors begin at a row's first column and "
                     "neighbouring lanes have neighbours"));
  }
  if (shape.keeps_columns() && schedule.outer && schedule.cluster > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", std::string(group.name()),
                     ": where some columns are kept, clusters do not share vectors of rows"));
  }
  return absl::OkStatus();
}

absl::StatusOr<kernel::Kernel> ExpandStage(const Stage& stage, const TracedKernel& traced,
                                           std::vector<kernel::HeldLoad> held_loads,
                                           bool backward) {
  const Schedule& schedule = stage.schedule;
  kernel::ExpandOptions expand;
  expand.layout = LayoutOf(schedule);
  expand.columns_per_step = schedule.columns_at_once();
  expand.split = traced.splits_columns ? schedule.split : 1;
  expand.held = schedule.held;
  expand.held_loads = std::move(held_loads);
  expand.grid = stage.trace.places > 0 && !stage.trace.finish ? schedule.grid : 0;
  if (expand.grid > 0) {
    expand.batches = traced.batches;
    expand.batch_rows = traced.batch_rows;
  }
  expand.stretches = expand.grid > 0 ? schedule.stretches() : 1;
  expand.stages = expand.grid > 0 ? schedule.stages : 0;
  expand.tiles = schedule.tiles;
  expand.blocks = schedule.blocks;
  expand.async = schedule.async && (expand.blocks || expand.grid > 0 || schedule.reread);
  expand.reread = (expand.stages > 0 || expand.blocks || expand.async) && schedule.reread;
  expand.slices = expand.stages > 0 ? schedule.slices : 1;
  expand.spare = expand.stages > 0 ? schedule.spare : 0;
  expand.tickets = expand.stages > 0 && schedule.tickets;
  expand.pace = expand.stages > 0 ? schedule.pace : 0;
  if (!stage.trace.finish) {
    expand.stagger = schedule.stagger;
    expand.staggered = schedule.staggered;
  }
  expand.settled = expand.stages > 0 && schedule.settled;
  expand.partials = traced.partials;
  expand.min_ctas_per_sm = schedule.min_ctas_per_sm;
  expand.early = schedule.early;
  expand.backward = backward;
  expand.index32 = schedule.index32;
  if (schedule.shift) expand.start = kernel::RowStart(traced.tile);
  // Those that a row holds whole are so by guards; others only if their extent is known.
  const kernel::TileKernel& tile = traced.tile;
  for (size_t i = 0; i < tile.spaces.size(); ++i) {
    expand.persistent.push_back(
        ProvablyLe(tile.spaces[i].extent, HeldColumns(schedule)) ||
        (schedule.persistent && absl::c_linear_search(traced.held_spaces, static_cast<int>(i))));
  }
  // States of columns lie where a thread's elements do, which differ between rows that are in
  // pairs.
  const bool of_rows = absl::c_all_of(tile.reductions, [](const kernel::TileReduction& r) {
    return r.over == kernel::Over::Columns;
  });
  if (schedule.runs && schedule.vector == 1 && expand.stages == 0 && of_rows) {
    expand.odd_run = kernel::OddRun(
        kernel::FindRowBlocks(tile, schedule.rows_per_cta(), expand.persistent, expand.reread),
        schedule.registers);
  }
  SEAM_ASSIGN_OR_RETURN(kernel::Kernel expanded, kernel::ExpandTile(tile, expand));
  if (stage.trace.columns_of_cta > 0 && traced.splits_columns) {
    SymImporter importer(expanded.env.get());
    for (size_t i = 0; i < tile.parameters.size(); ++i)
      importer.Map(tile.parameters[i].node(), expanded.parameters[i]);
    expanded.grid_x = importer.Import(traced.ctas);
  }
  kernel::WidenAccesses(expanded);
  return expanded;
}

// Of a launch with 32-bit indices: there is room for what they are computed from.
void RequireNumbers(const Fusion& group, const KernelLaunch& launch, std::vector<Guard>* guards) {
  if (!launch.kernel.index32) return;
  SymImporter importer(group.shared_env().get());
  for (size_t i = 0; i < launch.kernel.parameters.size(); ++i)
    importer.Map(launch.kernel.parameters[i].node(), launch.arguments[i]);
  const SymInt largest = importer.Import(kernel::LargestNumber(launch.kernel));
  const SymInt fits = largest.is_valid() ? SymLe(largest, INT32_MAX) : SymInt(0);
  if (Decide(fits) != true)
    guards->push_back({fits, "32 bits hold the numbers that indices are computed from"});
}

// The plan's launches as phases of one. Their parameters are the group's symbols, the same for all,
// and of the first what else it has.
absl::Status JoinLaunches(std::string name, LaunchPlan* plan) {
  KernelLaunch joined;
  std::vector<kernel::Kernel> kernels;
  std::vector<std::vector<int>> buffers;
  for (KernelLaunch& launch : plan->launches) {
    std::vector<int>& numbers = buffers.emplace_back();
    for (const BufferSource& source : launch.buffers) {
      const auto known = absl::c_find(joined.buffers, source);
      numbers.push_back(static_cast<int>(known - joined.buffers.begin()));
      if (known == joined.buffers.end()) joined.buffers.push_back(source);
    }
    if (joined.arguments.empty()) joined.arguments = std::move(launch.arguments);
    kernels.push_back(std::move(launch.kernel));
  }
  SEAM_ASSIGN_OR_RETURN(joined.kernel, kernel::InPhases(std::move(name), kernels, buffers));
  plan->launches.clear();
  plan->launches.push_back(std::move(joined));
  return absl::OkStatus();
}

// The launches of each stage side by side. Their parameters are the group's symbols, the same for
// all.
absl::Status JoinParts(const Fusion& group, const std::string& name, absl::Span<const Stage> stages,
                       LaunchPlan* plan) {
  constexpr auto kCommon = kernel::Parameters::kCommon;
  std::vector<KernelLaunch> all = std::move(plan->launches), beside;
  plan->launches.clear();
  size_t bytes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (beside.empty()) bytes = all[i].arguments.size() * sizeof(int64_t);
    bytes += ParameterBytes(all[i], kCommon);
    const std::string suffix = plan->launches.empty() ? "" : absl::StrCat(plan->launches.size());
    const bool alike = i + 1 < all.size() && stages[i + 1].trace.stage == stages[i].trace.stage &&
                       bytes + ParameterBytes(all[i + 1], kCommon) <= kMaxParameterBytes;
    beside.push_back(std::move(all[i]));
    if (alike) continue;
    SEAM_ASSIGN_OR_RETURN(KernelLaunch joined,
                          SideBySide(group, name + suffix, std::move(beside), kCommon));
    plan->launches.push_back(std::move(joined));
    beside.clear();
  }
  return absl::OkStatus();
}

// Whether launches can be phases of one, which has the parameters of the first: no more of them
// than a launch takes, and behind the first none but the common ones, as of several kernels of a
// stage.
bool CanBePhases(absl::Span<const KernelLaunch> launches, size_t common) {
  size_t bytes = 0;
  for (const KernelLaunch& launch : launches)
    bytes += ParameterBytes(launch, kernel::Parameters::kOwn);
  return bytes <= kMaxParameterBytes &&
         absl::c_all_of(launches.subspan(1), [&](const KernelLaunch& launch) {
           return launch.arguments.size() == common;
         });
}

}  // namespace

std::string KernelName(const Fusion& group, const Schedule& schedule) {
  std::string name;
  for (char c : group.name())
    name.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
  if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name[0])))
    name.insert(0, "k_");
  return absl::StrCat(name, "_", std::string(SchedulerName(schedule.kind)));
}

kernel::Layout LayoutOf(const Schedule& s) {
  const int64_t row_lanes = 32 / s.lanes_per_row;
  std::vector<Mode> rows, columns;
  int64_t stride = 1;
  if (s.outer && s.vector > 1) rows.push_back({Axis::Row, Place::Vector, s.vector, 1});
  if (s.outer) stride *= s.vector;
  rows.push_back({Axis::Row, Place::Lane, row_lanes, stride});
  rows.push_back({Axis::Row, Place::Warp, s.row_warps, stride * row_lanes});
  rows.push_back({Axis::Row, Place::Grid, 0, s.rows_per_cta()});
  stride = 1;
  if (!s.outer && s.vector > 1) columns.push_back({Axis::Column, Place::Vector, s.vector, 1});
  if (!s.outer) stride *= s.vector;
  const auto next = [&](Place place, int extent) {
    columns.push_back({Axis::Column, place, extent, stride});
    stride *= extent;
  };
  const bool neighbours = s.runs || s.tiles;
  if (neighbours) next(Place::Register, s.registers);
  next(Place::Lane, s.lanes_per_row);
  next(Place::Warp, s.warps_per_row);
  if (!neighbours) next(Place::Register, s.registers);
  if (s.cluster > 1) columns.push_back({Axis::Column, Place::Cluster, s.cluster, stride});
  columns.push_back({Axis::Column, Place::Step, 0, stride * s.cluster});
  // What is contiguous in memory takes the lowest bits of the lane number.
  kernel::Layout layout;
  layout.modes = s.outer ? rows : columns;
  const std::vector<Mode>& slow = s.outer ? columns : rows;
  layout.modes.insert(layout.modes.end(), slow.begin(), slow.end());
  return layout;
}

absl::StatusOr<std::vector<Workspace>> WorkspacesOf(const Fusion& group, const GroupShape& shape,
                                                    const Schedule& schedule) {
  std::vector<Workspace> workspaces;
  if (schedule.split == 1 && !shape.crossed()) return workspaces;
  SEAM_RETURN_IF_ERROR(CheckPartialStates(group, shape, schedule));
  SymImporter pinned = Pinned(group, schedule);
  // Those of empty axes count as one.
  const auto elements = [&](absl::Span<const AxisId> axes) {
    SymInt n = 1;
    for (AxisId a : axes) {
      const SymInt extent = pinned.Import(shape.axes.extent(a));
      if (!extent.is_same(0)) n *= extent;
    }
    return n;
  };
  const auto states = [&](ExprId e) {
    switch (shape.crosses[e.index()]) {
      case Crossing::kNone:
        return elements(shape.rows) * schedule.split;
      case Crossing::kSomeRows:
        return FloorDiv(elements(shape.rows), schedule.together) *
               (shape.FoldsColumnsForRows(e) ? schedule.row_pieces() : 1);
      case Crossing::kSomeColumns:
        return elements(shape.rows) * elements(shape.kept[e.index()].axes) * schedule.cluster;
      case Crossing::kRows:
      case Crossing::kAll:
        return elements(shape.axes.kept(e)) * schedule.places() *
               (shape.KeepsBatches(e) ? SymInt(1) : elements(shape.batch));
    }
    return SymInt(0);
  };
  for (const PartialSlot& slot : PartialSlots(group, shape)) {
    const DType component = kernel::ComponentType(
        group.op(slot.expr), AccumulatorType(group, slot.expr), slot.component);
    workspaces.push_back({component, states(slot.expr)});
  }
  return workspaces;
}

absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule) {
  SEAM_RETURN_IF_ERROR(CheckSchedule(schedule));
  for (const SymbolFact& f : schedule.facts) {
    if (!group.env().Find(f.symbol)) {
      return absl::InvalidArgumentError(absl::StrCat("group ", std::string(group.name()),
                                                     ": a fact about ", f.symbol,
                                                     ", which is no symbol of it"));
    }
  }
  SEAM_ASSIGN_OR_RETURN(const GroupShape shape, ShapeFor(group, schedule));
  if (!TakesBatches(shape, schedule)) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", std::string(group.name()),
                     ": CTAs with rows of one batch take them in a fixed order, unshifted, and "
                     "other kernels finish what they leave"));
  }
  if (!HoldsSections(shape, schedule)) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", std::string(group.name()), ": sections of ", shape.sections.size,
                     " columns are folded by lanes of a warp, in rows that a CTA each holds"));
  }
  LaunchPlan plan;
  plan.schedule = schedule;
  SymImporter pinned = Pinned(group, schedule);
  SEAM_ASSIGN_OR_RETURN(plan.workspaces, WorkspacesOf(group, shape, schedule));
  plan.guards = GuardsOf(group, shape, schedule, plan.workspaces, pinned);
  std::vector<Stage> stages;
  std::vector<TracedKernel> kernels;
  SEAM_ASSIGN_OR_RETURN(std::vector<Stage> all, StagesOf(group, shape, schedule));
  for (Stage& stage : all) {
    SEAM_ASSIGN_OR_RETURN(TracedKernel traced, Trace(group, stage.shape, stage.trace));
    if (traced.tile.stores.empty() && traced.partials.empty()) continue;
    kernel::SumProducts(traced.tile);
    traced.tile.name = KernelName(group, schedule) + stage.suffix;
    traced.tile.summary = schedule.ToString();
    stages.push_back(std::move(stage));
    kernels.push_back(std::move(traced));
  }
  std::vector<std::vector<kernel::HeldLoad>> held(kernels.size());
  if (schedule.held > 0) held = FindHeldLoads(kernels);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const bool backward = schedule.split > 1 && stages[i].trace.stage % 2 == 1;
    SEAM_ASSIGN_OR_RETURN(kernel::Kernel kernel,
                          ExpandStage(stages[i], kernels[i], std::move(held[i]), backward));
    plan.launches.push_back(
        {std::move(kernel), std::move(kernels[i].sources), std::move(kernels[i].arguments)});
    RequireNumbers(group, plan.launches.back(), &plan.guards);
  }
  bool one_launch = schedule.one_launch;
  if (schedule.columns_apart && !plan.launches.empty()) {
    const size_t common = plan.launches[0].arguments.size();
    SEAM_RETURN_IF_ERROR(JoinParts(group, KernelName(group, schedule), stages, &plan));
    one_launch &= CanBePhases(plan.launches, common);
  }
  if (one_launch && plan.launches.size() > 1)
    SEAM_RETURN_IF_ERROR(JoinLaunches(KernelName(group, schedule), &plan));
  return plan;
}

}  // namespace seam
