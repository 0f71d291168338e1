// Expansion of one TileKernel: the thread's coordinates, then pass by pass the loads, the
// arithmetic, the stores, and the folds across threads. Its parts are in expand_*.cc.
#include "scheduler/kernel/expand.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/kernel/expander.h"
#include "scheduler/kernel/precision.h"

namespace seam::kernel {
namespace {

// Where CTAs take rows in turn: a thread's registers for addresses and what is under way, and for
// what it keeps of a row, at least and at most.
constexpr int kOtherRegisters = 40;
constexpr double kFewestKeptWords = 8, kMostTurnWords = 64;
// Elements of a vector from which on a branch around it costs less than their masks.
constexpr int kLeastSkipped = 4;

}  // namespace

absl::StatusOr<Kernel> ExpandTile(const TileKernel& tile, const ExpandOptions& options) {
  return Expander(tile, options).Run();
}

absl::StatusOr<Kernel> Expander::Run() {
  SEAM_RETURN_IF_ERROR(Prepare());
  absl::Status status;
  const auto passes = [&] {
    for (int pass = 0; pass < static_cast<int>(tile_.passes.size()) && status.ok(); ++pass) {
      status = MergesByRow(pass) ? MergeParts(pass) : ExpandPass(pass);
      if (pass == 0 && options_.grid > 0 && has_ends_) LoadValuesAhead();
    }
  };
  const auto turns = [&] {
    w_.Loop(turn_, turns_, false, [&] {
      if (tickets_) TakeSet();
      for (const SpaceState& space : spaces_)
        for (const auto& [id, fragment] : space.resident) EmitKeepPacked(fragment);
      TakeValuesAhead();
      AwaitRows();
      TakeOwnRows();
      BringBlocks();
      LoadByRow();
      passes();
      TakeBlocksOut();
      CopyNextRows(true);
    });
    StoreAcrossRows();
  };
  BeginInTurn();
  if (options_.grid > 0 && stretched()) {
    FindClasses();
    BringFirstRows();
    if (KeepsPace()) OpenTickets();
    w_.Loop(stretch_, options_.stretches, false, [&] {
      // All CTAs of the cluster have begun, and read what those before have exchanged.
      w_.Emit(ClusterSync{.orders = true});
      BeginStretch();
      OpenAcrossRows();
      w_.Branch(
          SymGt(turns_, 0), [&] { HoistLoads(); }, [] {});
      BringFirstValues();
      if (options_.settled) AwaitHoisted();
      turns();
    });
  } else if (options_.grid > 0) {
    OpenAcrossRows();
    HoistLoads();
    BringFirstRows();
    BringFirstValues();
    if (tickets_ || KeepsPace()) OpenTickets();
    // From here on all CTAs of the cluster have begun.
    if (cluster_ > 1) w_.Emit(ClusterSync{});
    if (options_.settled) AwaitHoisted();
    turns();
  } else {
    BringOwnRows(0);
    if (!async_.empty()) BeginRowLoads(0);
    if (cluster_ > 1) w_.Emit(ClusterSync{});
    BringBlocks();
    LoadByRow();
    if (!async_.empty()) w_.Emit(AwaitLoads{});
    if (EndsInVector()) {
      OverVectorsOrRows(passes);
    } else {
      passes();
    }
    TakeBlocksOut();
  }
  SEAM_RETURN_IF_ERROR(status);
  return std::move(out_);
}

// Clusters that begin at once stay in step: all of them load, then all of them compute.
void Expander::BeginInTurn() {
  if (options_.stagger == 0) return;
  const Pause pause{FloorDiv(team_ * options_.stagger, options_.staggered)};
  w_.Branch(
      SymLt(team_, options_.staggered), [&] { w_.Emit(pause); }, [] {});
}

absl::Status Expander::Prepare() {
  out_.name = tile_.name;
  out_.summary = tile_.summary;
  out_.env = std::make_shared<ShapeEnv>();
  out_.buffers = tile_.buffers;
  out_.min_ctas_per_sm = options_.min_ctas_per_sm;
  out_.index32 = options_.index32;
  base_ = std::make_unique<SymImporter>(out_.env.get());
  for (SymInt p : tile_.parameters) {
    const SymNode* node = p.node();
    SEAM_ASSIGN_OR_RETURN(SymInt copy,
                          out_.env->NewSymbol(node->name, node->range.lo, node->range.hi));
    out_.parameters.push_back(copy);
    parameter_map_.emplace_back(node, copy);
    base_->Map(node, copy);
  }
  for (Buffer& b : out_.buffers) b.num_elements = base_->Import(b.num_elements);
  const Layout& layout = options_.layout;
  vector_ = static_cast<int>(layout.Extent(Axis::Row, Place::Vector) *
                             layout.Extent(Axis::Column, Place::Vector));
  outer_ = layout.Extent(Axis::Row, Place::Vector) > 1;
  registers_ = layout.Extent(Axis::Column, Place::Register);
  tiles_ = options_.tiles && registers_ > 1;
  if (options_.odd_run > 0) {
    vector_ = 2;
    registers_ = (registers_ + 1) / 2;
  }
  int64_t threads = 1;
  for (const Mode& m : layout.modes) {
    if (m.place == Place::Lane || m.place == Place::Warp) threads *= *m.extent.maybe_int();
  }
  if (threads % 32 != 0 || threads > 1024) {
    return absl::InternalError(
        absl::StrCat("kernel ", tile_.name, ": a CTA of ", threads, " threads"));
  }
  out_.threads = static_cast<int>(threads);
  out_.block_x = out_.env->FreshSymbol("block", 0, INT32_MAX);
  out_.thread_x = out_.env->FreshSymbol("thread", 0, threads - 1);
  if (vector_ > 1) v_ = out_.env->FreshSymbol("v", 0, vector_ - 1);
  if (registers_ > 1) u_ = out_.env->FreshSymbol("u", 0, registers_ - 1);
  cluster_ = out_.cluster = static_cast<int>(layout.Extent(Axis::Column, Place::Cluster));
  rank_ = Mod(out_.block_x, cluster_);
  team_ = FloorDiv(out_.block_x, cluster_);
  part_ = options_.split > 1 ? Mod(out_.block_x, options_.split) : SymInt(0);
  rows_ = base_->Import(tile_.rows);
  CutEvenly();
  stretched_ = options_.stretches > 1 && KeepsColumns();
  anywhere_ = options_.stretches > 1 && !stretched_;
  SEAM_RETURN_IF_ERROR(PlaceThreads());
  if (options_.start && vector_ > 1) PlaceEnds();

  out_.grid_x = options_.grid > 0 ? options_.grid * batches_
                                  : CeilDiv(rows_, at_.rows_per_cta) * (options_.split * cluster_);
  // A vector lies wholly inside or outside when both ends are multiples of it.
  const SymInt first = Substitute(at_.row, v_, 0);
  const bool whole = outer_ && ProvablyDivisible(uneven_batch_rows_.value_or(rows_), vector_) &&
                     ProvablyDivisible(first, vector_);
  const bool all = at_.rows_per_cta == 1 || (!batches_.is_same(1) && !uneven_batch_rows_) ||
                   (options_.blocks && ProvablyDivisible(rows_, at_.rows_per_cta));
  row_mask_ = all ? SymInt(1) : IsThere(whole ? first : at_.row);
  PlaceRows();
  if (cluster_ > 1 && (options_.grid == 0 || outer_) && !MergesByRow()) {
    return absl::InternalError(
        absl::StrCat("kernel ", tile_.name, ": a cluster whose threads share rows unevenly"));
  }
  for (size_t pass = 0; pass < tile_.passes.size(); ++pass) {
    if (cluster_ > 1 && MergesByRow(static_cast<int>(pass))) {
      return absl::InternalError(
          absl::StrCat("kernel ", tile_.name, ": a cluster that merges states from memory"));
    }
  }
  for (const TileReduction& r : tile_.reductions) {
    if (r.neighbours == 1) continue;
    if (!MergesByRow() || at_.rows_per_cta % r.neighbours != 0 || (r.merge && !MergesByRow(r.pass)))
      return absl::InternalError(
          absl::StrCat("kernel ", tile_.name, ": neighbouring rows that no CTA has together"));
  }
  for (const TileReduction& r : tile_.reductions) {
    if (r.together == 1) continue;
    const int64_t rows = MergesByRow() && (at_.column_warps > 1 || cluster_ > 1)
                             ? (at_.rows_per_cta % 32 == 0 ? 32 : 1)
                             : int64_t{RowSlots()} << at_.row_lane_masks.size();
    if (r.over != Over::Columns || r.merge || r.exponential || r.apart || options_.split > 1 ||
        rows % r.together != 0) {
      return absl::InternalError(
          absl::StrCat("kernel ", tile_.name, ": states of ", r.together, " rows left together"));
    }
  }
  if (stretched_ && (cluster_ == 1 || !has_ends_ || at_.rows_per_cta > 1 || options_.slices > 1 ||
                     tickets_ || !batches_.is_same(1))) {
    return absl::InternalError(
        absl::StrCat("kernel ", tile_.name, ": stretches of rows that no cluster has one by one"));
  }
  if (options_.slices > 1 && (has_ends_ || at_.rows_per_cta > 1 || !options_.reread ||
                              options_.tickets || registers_ % options_.slices != 0)) {
    return absl::InternalError(
        absl::StrCat("kernel ", tile_.name, ": slices of rows that do not come whole"));
  }
  std::vector<bool> resident;
  for (size_t s = 0; s < tile_.spaces.size(); ++s) {
    const bool persistent = s < options_.persistent.size() && options_.persistent[s];
    spaces_.push_back(PlaceSpace(static_cast<int>(s), persistent, options_.columns_per_step));
    resident.push_back(spaces_[s].persistent && !options_.reread);
  }
  for (const TileReduction& r : tile_.reductions) {
    if (r.over == Over::Sections) SEAM_RETURN_IF_ERROR(CheckSection(r));
    if (r.over == Over::Rows && at_.rows_per_cta > 1 && options_.grid > 0 &&
        !spaces_[tile_.passes[r.pass].space].persistent) {
      return absl::InternalError(
          absl::StrCat("kernel ", tile_.name, ": states in memory of several rows a CTA"));
    }
  }
  levels_.resize(tile_.values.size());
  stored_.resize(tile_.stores.size());
  precisions_ = FindPrecisions(tile_);
  ends_.levels.resize(tile_.values.size());
  PrepareKept();
  PrepareRowCopies();
  PrepareAsync();
  PrepareBlocks();
  PrepareHeld();
  const HoldLimits limits = Limits();
  packs_ = !limits.unpacked;
  holds_ = ChooseHolds(tile_, resident, limits);
  const std::string kept = PrintHolds(tile_, holds_);
  ChooseFills();
  FindFolded();
  if (!kept.empty()) absl::StrAppend(&out_.summary, "\n", kept);
  return absl::OkStatus();
}

// A section lies with some lanes, a vector each, and its result with all of them.
absl::Status Expander::CheckSection(const TileReduction& r) const {
  const std::vector<int>& masks = at_.column_lane_masks;
  const int64_t lanes = r.section / vector_;
  const bool neighbours = lanes == 1 || (!masks.empty() && masks[0] == 1);
  if (outer_ || has_ends_ || tiles_ || options_.odd_run > 0 || options_.blocks || cluster_ > 1 ||
      r.section % vector_ != 0 || lanes > int64_t{1} << masks.size() || !neighbours ||
      !spaces_[tile_.passes[r.pass].space].persistent) {
    return absl::InternalError(
        absl::StrCat("kernel ", tile_.name, ": sections of ", r.section, " columns"));
  }
  return absl::OkStatus();
}

// A thread that keeps states of columns over all its turns has fewer registers for rows.
HoldLimits Expander::Limits() const {
  HoldLimits limits(static_cast<int>(registers_) * vector_);
  if (options_.grid == 0) return limits;
  int states = 0;
  for (const TileReduction& r : tile_.reductions)
    states += r.over == Over::Rows ? NumComponents(r.op) : 0;
  const int all = std::min(255, 65536 / (out_.threads * std::max(1, options_.min_ctas_per_sm)));
  const double kept = outer_ ? states * static_cast<double>(registers_) : states * limits.points;
  const double left = all - kOtherRegisters - kept - 0.5 * limits.points;
  limits.words = std::clamp(left, kFewestKeptWords, kMostTurnWords);
  limits.unpacked &= left >= kMostKeptWords;
  return limits;
}

absl::Status Expander::ExpandPass(int pass) {
  const int space_index = tile_.passes[pass].space;
  SpaceState& space = spaces_[space_index];
  const int64_t before = PassesBefore(pass);
  passes_slices_on_ = pass == last_copied_pass_;
  if (before > 0) RenewStep(space_index);
  // What is written does not push out of the cache what is still to be read again.
  stores_ = before % 2 == 1 && space.step.is_symbolic() ? CacheHint::Streaming : CacheHint::Default;
  early_.clear();
  // All loads are under way before anything waits for one.
  AtEnds([&] {
    SpaceState& ends = spaces_[space_index];
    if (!ends.persistent) return;
    for (TileId id : Collect(pass)) {
      const TileValue& value = tile_.values[id];
      if (levels_[id] >= Level::kUnit && value.kind == TileKind::Load && value.lets.empty())
        LoadForStep(id, ends, *ends.importer, SymAnd(ends.mask, row_mask_));
    }
  });
  if (options_.early && space.persistent && space.resident.empty()) CollectEarly(pass);
  const std::vector<TileId> ids = Collect(pass);
  CollectLate(pass, ids);
  by_unit_ = IsTooMuchForAStep(ids, space);
  ComputeRowValues(ids, pass);

  std::vector<Accumulator> accumulators;
  for (size_t i = 0; i < tile_.reductions.size(); ++i) {
    const TileReduction& r = tile_.reductions[i];
    if (r.pass != pass || r.over != Over::Columns) continue;
    Accumulator a = NewAccumulator(static_cast<int>(i));
    if (IsOfOneElement(r)) {
      OverStates(a, [&] { Accumulate(a, std::nullopt, *space.importer); });
      states_[a.id] = a.fragments;
      StorePartial(a.id, a.fragments);
    } else {
      OpenPairs(a);
      accumulators.push_back(std::move(a));
    }
  }
  const size_t folded = accumulators.size();
  std::vector<Accumulator> of_sections;
  for (size_t i = 0; i < tile_.reductions.size(); ++i) {
    if (tile_.reductions[i].pass == pass && tile_.reductions[i].over == Over::SomeColumns)
      accumulators.push_back(NewAccumulator(static_cast<int>(i)));
    if (tile_.reductions[i].pass == pass && tile_.reductions[i].over == Over::Sections)
      of_sections.push_back(NewAccumulator(static_cast<int>(i)));
  }
  // Those that keep some columns: folded after each step, or after the last one.
  std::vector<Accumulator> by_step(accumulators.begin() + static_cast<int64_t>(folded),
                                   accumulators.end());
  const auto split = std::stable_partition(
      by_step.begin(), by_step.end(),
      [&](const Accumulator& a) { return IsKeptByStep(a) && !space.steps.is_same(1); });
  const std::vector<Accumulator> in_the_end(split, by_step.end());
  by_step.erase(split, by_step.end());
  accumulators.insert(accumulators.end(), of_sections.begin(), of_sections.end());
  for (const Accumulator& a : across_rows_) {
    if (tile_.reductions[a.id].pass == pass) accumulators.push_back(a);
  }
  std::vector<const TileStore*> column_stores;
  for (size_t i = 0; i < tile_.stores.size(); ++i) {
    const TileStore& store = tile_.stores[i];
    if (store.pass != pass || stored_[i]) continue;
    if (levels_[store.value] <= Level::kRow &&
        !UsesColumn(store.index, tile_.spaces[space_index]) && space.extent.is_same(1)) {
      EmitRowStore(store, *space.importer);
    } else {
      column_stores.push_back(&store);
    }
  }
  if (!column_stores.empty() || !accumulators.empty()) {
    places_.clear();
    const auto step = [&] {
      std::vector<Accumulator> of_step = accumulators;
      for (Accumulator& a : of_step) {
        if (IsSummedByStep(a)) a = NewAccumulator(a.id);
      }
      FoldStep(ids, space, of_step, column_stores);
      for (size_t i = 0; i < of_step.size(); ++i) {
        if (!IsSummedByStep(of_step[i])) continue;
        const SymInt slot = SlotOf(of_step[i]);
        OverStates(of_step[i], [&] {
          MergeState(w_, OpKind::Sum, accumulators[i].fragments, slot,
                     {Operand::Reg(of_step[i].fragments[0], slot)});
        });
      }
      if (!by_step.empty()) w_.Emit(CtaSync{});
      FoldKept(by_step, pass);
    };
    const bool shifted = absl::c_any_of(accumulators, [](auto& a) { return a.pivot >= 0; });
    const auto find_pivots = [&](SpaceState& first) {
      if (shifted) FindPivots(ids, first, accumulators);
      places_.clear();
    };
    if (space.steps.is_same(1)) {
      find_pivots(space);
      FoldStep(ids, space, accumulators, column_stores);
    } else {
      const bool backward = before % 2 == 1;
      // Pivots are found in memory.
      const SymInt held = shifted ? SymInt(0) : HeldSteps(ids, space_index);
      // Of the last step, with which it begins then, some threads have nothing.
      if (backward && shifted) {
        SpaceState full = StepAt(space_index, 0, SymGt(space.steps, 0));
        find_pivots(full);
      }
      SpaceState first = LoadFirstStep(ids, space_index, held, backward);
      if (!backward) find_pivots(first);
      const auto all_steps = [&] {
        if (backward || !held.is_same(0)) {
          const SymInt turn =
              out_.env->FreshSymbol(backward ? "behind" : "ahead", 0, space.steps - 1);
          w_.Loop(turn, space.steps - held, false, [&] {
            const SymInt at = backward ? space.steps - 1 - turn : held + turn;
            w_.Bind(space.step, w_.Index(DType::I64, at));
            step();
          });
        } else {
          w_.Loop(space.step, space.steps, false, step);
        }
        next_step_ = {};
        if (!held.is_same(0)) OverHeldSteps(ids, space_index, held, step);
      };
      const bool alone = by_step.empty() && copied_.empty() && async_.empty() && !options_.blocks &&
                         absl::c_none_of(accumulators, [&](auto& a) { return IsStreamed(a); });
      if (alone) {
        WhereRows(all_steps);
      } else {
        all_steps();
      }
    }
    for (const Accumulator& a : accumulators) {
      if (a.pivot >= 0) Unshift(a);
      FoldPairs(a);
    }
    AtEnds([&] {
      if (spaces_[space_index].mask.is_same(0)) return;
      places_.clear();
      std::vector<Accumulator> each = accumulators;
      for (Accumulator& a : each) {
        a.pivot = -1;
        a.merges = false;
      }
      FoldStep(Collect(pass), spaces_[space_index], each, column_stores);
    });
  }
  accumulators.resize(folded);
  for (const Accumulator& a : of_sections) FoldSections(a);
  LeaveAfterSteps(in_the_end);
  const bool synchronized = FoldAcrossThreads(accumulators);
  if (!in_the_end.empty() && !synchronized) w_.Emit(CtaSync{});
  FoldKept(in_the_end, pass);
  KeepPackedFor(pass);
  if (MergesByRow(accumulators)) return absl::OkStatus();
  for (const Accumulator& a : accumulators) {
    StorePartial(a.id, a.fragments);
    FinishSum(a);
  }
  return absl::OkStatus();
}

// How many passes have gone over the columns of this one, those of a launch before included.
int64_t Expander::PassesBefore(int pass) const {
  const int space = tile_.passes[pass].space;
  const bool again = options_.backward && !tile_.spaces[space].whole;
  return again + absl::c_count_if(absl::MakeSpan(tile_.passes).first(pass),
                                  [&](const TilePass& p) { return p.space == space; });
}

// A step symbol for another loop over the same columns.
void Expander::RenewStep(int index) {
  SpaceState& space = spaces_[index];
  if (!space.step.is_symbolic()) return;
  const SymInt step = out_.env->FreshSymbol(absl::StrCat("step", index), 0, space.steps - 1);
  space.column = Substitute(space.column, space.step, step);
  space.mask = Substitute(space.mask, space.step, step);
  space.step = step;
  MapColumn(tile_.spaces[index], space, lets_);
}

void Expander::ExpandStep(const std::vector<TileId>& ids, SpaceState& space,
                          std::vector<Accumulator>& accumulators,
                          const std::vector<const TileStore*>& stores) {
  SymImporter& importer = *space.importer;
  const SymInt mask = SymAnd(space.mask, row_mask_);
  // Loads first, all of them in flight before any use.
  std::vector<TileId> unit, element;
  for (TileId id : ids) {
    const TileValue& value = tile_.values[id];
    const Level level = levels_[id];
    if (level <= Level::kRow || value.kind == TileKind::ReduceResult) continue;
    if (holds_.computed[id] && HoldAcrossPasses(id, space)) continue;
    if (IsLoadedFirst(id, space)) {
      LoadForStep(id, space, importer, mask);
    } else if (level == Level::kUnit || (value.kind == TileKind::Load && LetsBelowElement(value) &&
                                         IsVectorLoad(value, importer))) {
      unit.push_back(id);
    } else {
      element.push_back(id);
    }
  }
  for (TileId id : early_) LoadForStep(id, space, importer, mask);
  for (const Accumulator& a : accumulators) {
    if (!IsStreamed(a)) continue;
    // What no turn has left yet is neutral.
    StatesPlace at = PlaceOfCta(a);
    at.predicate = SymAnd(at.predicate, SymGt(turn_, 0));
    OverUnits([&] { MoveStates<Load>(a, at); });
  }
  AwaitKept(accumulators, options_.grid > 0 || !space.steps.is_same(1));
  for (Accumulator& a : accumulators) WeighRow(a);
  // Values held for stores, a vector each.
  std::vector<int> staged;
  std::vector<bool> across;  // Of the whole tile, not of a vector.
  for (const TileStore* store : stores) {
    const bool vector = StoreAccess(*store, importer).kind == Access::kVector;
    across.push_back(!vector && IsAcrossStore(*store, importer));
    const int elements = across.back() ? vector_ * static_cast<int>(registers_) : vector_;
    staged.push_back(vector || across.back()
                         ? w_.NewFragment("out", tile_.values[store->value].dtype, elements)
                         : -1);
  }
  for (TileId id : unit) {
    if (holds_.computed[id]) continue;
    const bool vector = IsVectorLoad(tile_.values[id], importer);
    const DType dtype = tile_.values[id].dtype;
    const bool packed = vector && IsNarrow(dtype) && !WindowOf(tile_.values[id], importer);
    places_[id] = {w_.NewFragment("x", dtype, vector ? vector_ : 1, packed),
                   vector ? v_ : SymInt(0)};
  }
  for (TileId id : element) {
    if (!holds_.computed[id]) places_[id] = {w_.NewFragment("x", tile_.values[id].dtype), 0};
  }

  std::vector<bool> neutral(accumulators.size());
  const bool holds = absl::c_any_of(holds_.computed, [](bool held) { return held; });
  auto vector = [&](SymInt mask) {
    ClearOutside(accumulators, neutral, mask);
    for (TileId id : unit) {
      if (IsVectorLoad(tile_.values[id], importer)) {
        EmitVectorLoad(id, places_[id].fragment, 0, importer, mask);
      } else {
        EmitPoint(id, places_[id].fragment, places_[id].slot, importer, UnitMask(mask));
      }
    }
    std::vector<bool> in_pairs(accumulators.size());
    for (size_t i = 0; i < accumulators.size(); ++i)
      in_pairs[i] = (neutral[i] || mask.is_same(1)) && AccumulatePairs(accumulators[i]);
    // Then nothing wants the elements one by one, unless they are held for later passes.
    const bool all_in_pairs = !accumulators.empty() && stores.empty() && !holds &&
                              absl::c_all_of(in_pairs, [](bool pairs) { return pairs; });
    const auto point = [&] {
      for (TileId id : element)
        EmitPoint(id, places_[id].fragment, places_[id].slot, importer, mask);
      // Nobody uses what is folded along the columns of rows that are not there. Without blocks,
      // NVRTC takes more registers where it may.
      const SymInt of_row = mask.is_same(1) ? mask : space.mask;
      std::map<bool, std::optional<Operand>> inside;  // By whether it is along the columns.
      for (size_t i = 0; i < accumulators.size(); ++i) {
        Accumulator& a = accumulators[i];
        if (in_pairs[i]) continue;
        if (neutral[i]) {
          Accumulate(a, std::nullopt, importer);
          continue;
        }
        const TileReduction& r = tile_.reductions[a.id];
        const bool along =
            (r.over == Over::Columns && (options_.blocks || outer_)) || row_mask_.is_same(1);
        const SymInt counts = importer.Import(r.predicate), masks = along ? of_row : mask;
        if (!counts.is_same(1)) {
          Accumulate(a, InsideFlag(SymAnd(masks, counts)), importer);
          continue;
        }
        const auto [flag, is_new] = inside.try_emplace(along);
        if (is_new) flag->second = InsideFlag(masks);
        Accumulate(a, flag->second, importer);
      }
      for (size_t i = 0; i < stores.size(); ++i) {
        if (staged[i] >= 0) {
          w_.Set(staged[i], across[i] ? SlotInTile() : v_, OpKind::Copy, {Read(stores[i]->value)});
        } else if (stores[i]->section == 1) {
          EmitScalarStore(*stores[i], importer, mask);
        }
      }
    };
    if (!all_in_pairs) OverElements(point);
    cleared_.clear();
    LeaveHeld(space);
    for (const Accumulator& a : accumulators) {
      if (!a.shifts_elements() || a.whole || a.counts_each) continue;
      Count(a, InsideFlag(Substitute(mask, v_, 0)), outer_ ? 1 : vector_);
    }
    for (size_t i = 0; i < stores.size(); ++i) {
      if (staged[i] >= 0 && !across[i]) EmitVectorStore(*stores[i], staged[i], importer, mask);
      if (stores[i]->section > 1) EmitSectionStore(*stores[i], space, mask);
    }
  };
  // Where rows end inside a vector, the vectors that lie wholly inside, nearly all of them, are
  // spared the masks of reductions, and those wholly outside do nothing.
  const bool shifted = absl::c_any_of(accumulators, [](auto& a) { return a.shifts_elements(); });
  // One warp has all of a row's ends.
  const auto touched_only = [&](SymInt mask) {
    w_.Branch(
        mask, [&] { vector(1); }, [] {});
  };
  // Of vectors that lie inside or outside as a whole those outside do nothing where a reduction
  // would want a mask for each element. What later passes may count on is zero there. Left out
  // where threads load rows themselves: a group norm's backward pass of 640x32x32 f32 images,
  // channels last, took 85 registers instead of 64 with it, and 81 us instead of 45.
  const bool finds_pivots = absl::c_any_of(accumulators, [](auto& a) { return a.finds_pivot; });
  const bool skips =
      !copied_.empty() && !outer_ && !options_.blocks && !finds_pivots && vector_ >= kLeastSkipped;
  const auto inside_only = [&](SymInt mask) {
    w_.Branch(
        mask, [&] { vector(1); },
        [&] {
          for (const std::vector<TileId>& computed : {unit, element})
            for (TileId id : computed)
              if (holds_.computed[id]) SetZero(id);
        });
  };
  const bool last_time = !finds_pivots && !loads_again_;
  const auto points = [&](SymInt mask, bool last) {
    for (Accumulator& a : accumulators) {
      if (a.shifts_elements()) StartStep(a, mask);
    }
    for (size_t i = 0; i < accumulators.size(); ++i)
      neutral[i] = !DependsOn(mask, v_) &&
                   (IsOfSections(accumulators[i]) || IsNeutralOutside(accumulators[i]));
    const bool all_neutral = absl::c_all_of(neutral, [](bool n) { return n; });
    const auto unit = [&] {
      if (at_ends_)
        return all_neutral && stores.empty() && !holds ? vector(mask) : touched_only(mask);
      if (!DependsOn(mask, v_)) return all_neutral || !skips ? vector(mask) : inside_only(mask);
      auto ragged = [&] { vector(mask); };
      auto touched = [&] { w_.Branch(UnitMask(mask), ragged, [] {}); };
      if (accumulators.empty()) return touched();
      w_.Branch(
          WholeVector(mask), [&] { vector(1); }, touched);
    };
    const auto each = [&] {
      for (const Accumulator& a : accumulators) {
        if (IsKeptByStep(a)) OverStates(a, [&] { SetNeutral(a); });
      }
      unit();
      for (const Accumulator& a : accumulators) {
        if (IsKeptByStep(a)) LeaveKept(a);
      }
      if (!last && last_time) LoadNextStep();
    };
    const bool awaits = awaits_slices_ && !at_ends_;
    const bool passes_on = passes_slices_on_ && last_time && !at_ends_;
    const auto in_slices = [&] {
      if (options_.slices > 1 && !copied_.empty()) FindPlace();
      if (awaits) AwaitSlice();
      each();
      if (passes_on) PassSliceOn();
    };
    if (passes_on && KeepsPace()) KeepPace();
    if (RollsUnits(accumulators)) {
      w_.Loop(u_, registers_, false, in_slices);
    } else {
      OverUnits(in_slices);
    }
    awaits_slices_ &= !awaits;
    passed_on_ |= passes_on;
    for (const Accumulator& a : accumulators) {
      if (a.shifts_elements()) EndStep(a);
    }
  };
  // Nearly all steps lie inside as a whole; of those from the first on only the last does not, if
  // rows do not end inside a vector of them.
  const bool only_last = !next_step_.backward && !DependsOn(row_mask_, v_);
  if (shifted && !finds_pivots && !at_ends_ && space.step.is_symbolic() && !mask.is_same(1)) {
    w_.Branch(
        WholeStep(mask), [&] { points(1, false); }, [&] { points(mask, only_last); });
  } else {
    points(mask, false);
  }
  for (size_t i = 0; i < stores.size(); ++i) {
    if (across[i]) StoreAcross(*stores[i], staged[i], importer, mask);
  }
  for (const Accumulator& a : accumulators) {
    if (IsStreamed(a)) OverUnits([&] { MoveStates<Store>(a, PlaceOfCta(a)); });
  }
}

// What later passes unpack again is kept as it is, not unpacked for them.
void Expander::KeepPackedFor(int pass) {
  std::vector<bool> later(tile_.values.size());
  for (int p = pass + 1; p < static_cast<int>(tile_.passes.size()); ++p) {
    const std::vector<bool> needed = NeededBy(p, holds_.computed);
    for (size_t id = 0; id < later.size(); ++id) later[id] = later[id] || needed[id];
  }
  for (const SpaceState& space : spaces_) {
    for (const auto& [id, fragment] : space.resident) {
      if (later[id]) EmitKeepPacked(fragment);
    }
  }
}

void Expander::EmitKeepPacked(int fragment) {
  if (fragment >= 0 && out_.fragments[fragment].packed) w_.Emit(KeepPacked{fragment});
}

}  // namespace seam::kernel
