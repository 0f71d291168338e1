// Expansion of one TileKernel: the thread's coordinates, then pass by pass the loads, the
// arithmetic, the stores, and the folds across threads.
//
// A value is computed at the lowest level that can hold it:
//   row     it does not depend on the column: once a thread, before the pass that first needs it;
//   unit    it depends on the column but is the same for a whole vector: once a register step;
//   element everything else: inside the innermost loop.
//
// Rows that start anywhere are a body of aligned vectors and fewer than two vectors' worth of ends,
// one element a thread:
//
//   row  e e e | b b b b | b b b b | ... | b b b b | e e        b: body, e: ends
//              `- aligned                          `- fewer than a vector
#include "scheduler/kernel/expand.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/block_writer.h"
#include "scheduler/kernel/hold.h"
#include "scheduler/kernel/loose.h"
#include "scheduler/kernel/reduction_state.h"
#include "scheduler/kernel/rows_ahead.h"

namespace seam::kernel {
namespace {

// Words of a thread's registers for what a pass reads, where it leaves room for as many threads as
// hide latency.
constexpr double kMostWordsInHand = 56;

// Where CTAs take rows in turn: a thread's registers for addresses and what is under way, and for
// what it keeps of a row, at least and at most.
constexpr int kOtherRegisters = 40;
constexpr double kFewestKeptWords = 8, kMostTurnWords = 64;

enum class Level : uint8_t { kConstant, kRow, kUnit, kElement };

struct ThreadCoordinates {
  SymInt row;        // Over v when vectors lie along rows.
  SymInt row_local;  // Row within the CTA.
  SymInt column;     // Within one step, over u and, when vectors lie along columns, v.
  SymInt column_lane, column_warp;  // Which of the row's threads this one is.
  std::vector<int> column_lane_masks;
  int64_t rows_per_cta = 1, column_warps = 1;
};

class Expander {
 public:
  Expander(const TileKernel& tile, const ExpandOptions& options)
      : tile_(tile), options_(options), w_(&out_) {}

  absl::StatusOr<Kernel> Run() {
    SEAM_RETURN_IF_ERROR(Prepare());
    absl::Status status;
    const auto passes = [&] {
      for (int pass = 0; pass < static_cast<int>(tile_.passes.size()) && status.ok(); ++pass)
        status = ExpandPass(pass);
    };
    if (options_.grid > 0) {
      OpenAcrossRows();
      HoistLoads();
      CopyFirstRows();
      // From here on all CTAs of the cluster have begun.
      if (cluster_ > 1) w_.Emit(ClusterSync{});
      w_.Loop(turn_, turns_, false, [&] {
        for (const SpaceState& space : spaces_)
          for (const auto& [id, fragment] : space.resident) EmitKeepPacked(fragment);
        TakeRowValues();
        AwaitRows();
        passes();
        CopyNextRows(true);
      });
      SEAM_RETURN_IF_ERROR(status);
      StoreAcrossRows();
    } else {
      passes();
      SEAM_RETURN_IF_ERROR(status);
    }
    return std::move(out_);
  }

 private:
  // --- Set-up
  // -----------------------------------------------------------------------------------------------

  absl::Status Prepare() {
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
    SEAM_RETURN_IF_ERROR(PlaceThreads());
    if (options_.start && vector_ > 1) PlaceEnds();

    out_.grid_x = options_.grid > 0 ? SymInt(options_.grid)
                                    : CeilDiv(rows_, at_.rows_per_cta) * options_.split;
    // A vector lies wholly inside or outside when both ends are multiples of it.
    const SymInt first = Substitute(at_.row, v_, 0);
    const bool whole =
        outer_ && ProvablyDivisible(rows_, vector_) && ProvablyDivisible(first, vector_);
    row_mask_ = at_.rows_per_cta == 1 ? SymInt(1) : SymLt(whole ? first : at_.row, rows_);
    std::vector<bool> resident;
    for (size_t s = 0; s < tile_.spaces.size(); ++s) {
      PrepareSpace(static_cast<int>(s));
      resident.push_back(spaces_[s].persistent && !options_.reread);
    }
    levels_.resize(tile_.values.size());
    loose_ = FindLoose(tile_);
    ends_.levels.resize(tile_.values.size());
    PrepareRowCopies();
    const HoldLimits limits = Limits();
    packs_ = !limits.unpacked;
    holds_ = ChooseHolds(tile_, resident, limits);
    const std::string kept = PrintHolds(tile_, holds_);
    ChooseFills();
    if (!kept.empty()) absl::StrAppend(&out_.summary, "\n", kept);
    return absl::OkStatus();
  }

  // A thread that keeps states of columns over all its turns has fewer registers for rows.
  HoldLimits Limits() const {
    HoldLimits limits(static_cast<int>(registers_) * vector_);
    if (options_.grid == 0) return limits;
    int states = 0;
    for (const TileReduction& r : tile_.reductions)
      states += r.over == Over::Rows ? NumComponents(r.op) : 0;
    const int all = std::min(255, 65536 / (out_.threads * std::max(1, options_.min_ctas_per_sm)));
    const double left = all - kOtherRegisters - (states + 0.5) * limits.points;
    limits.words = std::clamp(left, kFewestKeptWords, kMostTurnWords);
    limits.unpacked &= left >= kMostKeptWords;
    return limits;
  }

  absl::Status PlaceThreads() {
    const SymInt lane = Mod(out_.thread_x, 32), warp = FloorDiv(out_.thread_x, 32);
    SymInt cta = options_.split > 1 ? FloorDiv(out_.block_x, options_.split) : out_.block_x;
    if (options_.grid > 0) {
      // One round after the other, the last one without those for whom no rows are left.
      int64_t rows_per_cta = 1;
      for (const Mode& m : options_.layout.modes) {
        if (m.axis == Axis::Row && m.place != Place::Grid) rows_per_cta *= *m.extent.maybe_int();
      }
      teams_ = options_.grid / cluster_;
      turns_ = CeilDiv(CeilDiv(rows_, rows_per_cta) - team_, teams_);
      turn_ = out_.env->FreshSymbol("turn", 0, CeilDiv(rows_, rows_per_cta * teams_) - 1);
      cta = turn_ * teams_ + team_;
    }
    int64_t lane_bits = 1, warp_bits = 1;
    SymInt row = 0, row_local = 0, column = 0;
    at_.column_lane = at_.column_warp = 0;
    for (const Mode& m : options_.layout.modes) {
      SymInt coordinate = 0;
      const int64_t extent = m.extent.maybe_int().value_or(0);
      switch (m.place) {
        case Place::Vector:
          coordinate = v_;
          break;
        case Place::Register:
          coordinate = u_;
          break;
        case Place::Lane:
          coordinate = Mod(FloorDiv(lane, lane_bits), extent);
          if (m.axis == Axis::Column) {
            at_.column_lane = coordinate;
            for (int64_t bit = 1; bit < extent; bit *= 2)
              at_.column_lane_masks.push_back(static_cast<int>(lane_bits * bit));
          }
          lane_bits *= extent;
          break;
        case Place::Warp:
          coordinate = Mod(FloorDiv(warp, warp_bits), extent);
          if (m.axis == Axis::Column) {
            at_.column_warp = coordinate;
            at_.column_warps = extent;
          }
          warp_bits *= extent;
          break;
        case Place::Grid:
          if (m.axis == Axis::Row) coordinate = cta;
          break;
        case Place::Step:
          break;
        case Place::Cluster:
          coordinate = rank_;
          break;
      }
      if (m.axis == Axis::Column) {
        column += coordinate * m.stride;
      } else {
        row += coordinate * m.stride;
        if (m.place != Place::Grid) {
          row_local += coordinate * m.stride;
          at_.rows_per_cta *= extent;
        }
      }
    }
    at_.row = row;
    at_.row_local = row_local;
    at_.column = column;
    return absl::OkStatus();
  }

  // How the columns of one space are addressed and masked.
  struct SpaceState {
    SymInt extent;
    SymInt step;  // Loop symbol; absent (constant 0) when one step covers the space.
    SymInt steps = 1;
    SymInt column;    // Over u, v and step.
    SymInt mask = 1;  // column is inside, over u, v and step.
    std::unique_ptr<SymImporter> importer;
    std::map<TileId, int> resident;  // Loads and computed values held in fragments between passes.
    bool persistent = false;
  };

  void PrepareSpace(int index) {
    const TileSpace& space = tile_.spaces[index];
    SpaceState state;
    state.extent = base_->Import(space.extent);
    const int split = space.whole ? 1 : options_.split;
    state.persistent = index < static_cast<int>(options_.persistent.size()) &&
                       options_.persistent[index] && split == 1;
    const int64_t per_step = options_.columns_per_step;
    const bool cut = has_ends_ && space.column.is_symbolic();
    const SymInt head = cut ? ends_.head : SymInt(0);
    const SymInt covered = cut ? Max(FloorDiv(state.extent, vector_) * vector_, 1) : state.extent;
    state.column = head + at_.column;
    // No columns at all: one step, in which all of them are masked.
    if (!state.persistent && !covered.is_same(0)) {
      state.steps = CeilDiv(CeilDiv(covered, split), per_step);
      if (!state.steps.is_same(1)) {
        state.step = out_.env->FreshSymbol(absl::StrCat("step", index), 0, state.steps - 1);
        state.column += state.step * per_step;
      }
      if (split > 1) state.column += part_ * (state.steps * per_step);
    }
    state.mask = SymLt(state.column, state.extent);
    // A vector lies wholly inside or outside when both ends are multiples of it.
    const SymInt first = Substitute(state.column, v_, 0);
    if (cut) {
      state.mask = SymLe(first + vector_, state.extent);
    } else if (!outer_ && ProvablyDivisible(state.extent, vector_) &&
               ProvablyDivisible(first, vector_)) {
      state.mask = SymLt(first, state.extent);
    }
    if (has_ends_) ends_.spaces.push_back(EndsOf(space, state, cut));
    MapColumn(space, state, lets_);
    spaces_.push_back(std::move(state));
  }

  // Before the body the columns in front of it, behind it the others.
  SpaceState EndsOf(const TileSpace& space, const SpaceState& body, bool cut) {
    SpaceState ends;
    ends.extent = body.extent;
    ends.persistent = body.persistent;
    ends.mask = 0;
    if (cut) {
      const SymInt in_body = InBody(body.extent);
      ends.column = ends_.element + SymSelect(SymLt(ends_.element, ends_.head), 0, in_body);
      ends.mask = SymLt(ends_.element, body.extent - in_body);
      if (!space.whole) ends.mask = SymAnd(ends.mask, SymEq(part_, 0));
    }
    MapColumn(space, ends, ends_.lets);
    return ends;
  }

  // So many of a row's columns are in its body.
  SymInt InBody(SymInt extent) const {
    return FloorDiv(Max(extent - ends_.head, 0), vector_) * vector_;
  }

  void MapColumn(const TileSpace& space, SpaceState& state, std::vector<SymInt>& lets) {
    state.importer = std::make_unique<SymImporter>(RowImporter());
    if (space.column.is_symbolic()) state.importer->Map(space.column.node(), state.column);
    MapLets(*state.importer, lets);
  }

  SymImporter RowImporter() {
    SymImporter importer(out_.env.get());
    for (const auto& [node, copy] : parameter_map_) importer.Map(node, copy);
    if (tile_.row.is_symbolic()) importer.Map(tile_.row.node(), at_.row);
    return importer;
  }

  void MapLets(SymImporter& importer, std::vector<SymInt>& lets) {
    if (lets.empty()) {
      for (const TileLet& let : tile_.lets) {
        const SymNode* node = let.symbol.node();
        lets.push_back(
            out_.env->FreshSymbol(node->name, node->range.lo, base_->Import(node->upper)));
      }
    }
    for (size_t i = 0; i < lets.size(); ++i) importer.Map(tile_.lets[i].symbol.node(), lets[i]);
  }

  // --- Ends
  // -----------------------------------------------------------------------------------------------

  // A row's elements outside its body, fewer than two vectors: one a thread, from the last of the
  // row's threads on, since these have the least to do in the body's last register.
  void PlaceEnds() {
    has_ends_ = true;
    const int64_t lanes = options_.layout.Extent(Axis::Column, Place::Lane);
    const int64_t threads = lanes * at_.column_warps;
    ends_.registers = (2 * (vector_ - 1) + threads - 1) / threads;
    if (ends_.registers > 1) ends_.u = out_.env->FreshSymbol("end", 0, ends_.registers - 1);
    ends_.element = threads - 1 - (at_.column_warp * lanes + at_.column_lane) + ends_.u * threads;
    ends_.slot = registers_ * vector_;
    // A thread has the same columns in all turns. The body's first vector is a number of its own,
    // so that `vector_` divides the addresses there and what else depends on it stays short.
    const SymInt start = Substitute(RowImporter().Import(*options_.start), turn_, 0);
    SymInt first = CeilDiv(start, vector_);
    if (first.is_symbolic()) {
      const SymInt symbol = out_.env->FreshSymbol("first", RangeOf(first).lo, RangeOf(first).hi);
      w_.Bind(symbol, w_.Index(DType::I64, first));
      first = symbol;
    }
    ends_.head = first * vector_ - start;
  }

  // Writes what `body` does for the ends: vectors of one element, and columns, residents and levels
  // of their own.
  template <typename Body>
  void AtEnds(Body body) {
    if (!has_ends_) return;
    SwapEnds();
    body();
    SwapEnds();
  }
  void SwapEnds() {
    at_ends_ = !at_ends_;
    std::swap(vector_, ends_.vector);
    std::swap(registers_, ends_.registers);
    std::swap(u_, ends_.u);
    std::swap(v_, ends_.v);
    std::swap(slot_, ends_.slot);
    std::swap(spaces_, ends_.spaces);
    std::swap(lets_, ends_.lets);
    std::swap(levels_, ends_.levels);
    std::swap(early_, ends_.early);
    std::swap(late_, ends_.late);
  }

  // --- Rows that bulk copies bring
  // -----------------------------------------------------------------------------------------------

  void PrepareRowCopies() {
    if (options_.stages == 0) return;
    const auto found = FindRowCopies(tile_, at_.rows_per_cta, has_ends_ ? vector_ : 1);
    stage_elements_ = at_.rows_per_cta * CtaColumns();
    for (size_t id = 0; id < found.size(); ++id) {
      if (!found[id] || !spaces_[found[id]->space].persistent) continue;
      const TileValue& value = tile_.values[id];
      // In all turns.
      const SymInt first = RowImporter().Import(found[id]->start) + ends_.head;
      if (has_ends_ && !ProvablyDivisible(first, vector_)) continue;
      const int array = w_.NewShared(tile_.buffers[value.buffer].name, value.dtype,
                                     stage_elements_ * options_.stages);
      copied_.emplace(static_cast<TileId>(id), CopiedRow{*found[id], array});
    }
    if (copied_.empty()) return;
    out_.copy_barriers = options_.stages;
    out_.copies_per_batch = static_cast<int>(copied_.size());
    // A stage is free at the first barrier behind its last read: in the same turn if the first pass
    // takes the row into registers, else in the next.
    const std::vector<bool> first = NeededBy(0, std::vector<bool>(tile_.values.size()));
    turns_behind_ = options_.reread;
    for (const auto& [id, row] : copied_) turns_behind_ |= !first[id];
  }

  // Columns of a CTA; in a cluster they begin at column rank * CtaColumns() of the row.
  int64_t CtaColumns() const { return options_.columns_per_step / cluster_; }

  // Starts the copies of the rows of that turn, of those that a cluster shares a piece each.
  void CopyRows(SymInt turn) {
    const SymInt row = (turn * teams_ + team_) * at_.rows_per_cta;
    SymImporter importer(out_.env.get());
    for (const auto& [node, copy] : parameter_map_) importer.Map(node, copy);
    importer.Map(tile_.row.node(), row);
    const SymInt stage = Mod(turn, options_.stages);
    for (const auto& [id, copied] : copied_) {
      const SymInt extent = spaces_[copied.from.space].extent;
      const SymInt rows = at_.rows_per_cta == 1 ? SymInt(1) : Min(at_.rows_per_cta, rows_ - row);
      const SymInt first = rank_ * CtaColumns();
      const SymInt count =
          cluster_ == 1 ? rows * extent : Max(0, Min(CtaColumns(), extent - first));
      w_.Emit(BulkCopy{copied.array, stage * stage_elements_, tile_.values[id].buffer,
                       importer.Import(copied.from.start) + ends_.head + first,
                       has_ends_ ? InBody(extent) : count, stage});
    }
  }
  void CopyFirstRows() {
    if (copied_.empty()) return;
    const SymInt turn = out_.env->FreshSymbol("ahead", 0, options_.stages - 1);
    w_.Branch(
        SymEq(out_.thread_x, 0),
        [&] { w_.Loop(turn, Min(options_.stages, turns_), false, [&] { CopyRows(turn); }); },
        [] {});
    for (size_t pass = 0; pass < tile_.passes.size(); ++pass) {
      for (TileId id : Collect(static_cast<int>(pass))) {
        const TileValue& value = tile_.values[id];
        if (levels_[id] != Level::kRow || value.kind != TileKind::Load || !value.lets.empty() ||
            !IsOfRow(value) || values_ahead_.contains(id)) {
          continue;
        }
        values_ahead_[id] = w_.NewFragment("ahead", value.dtype);
      }
    }
    AtEnds([&] {
      for (size_t pass = 0; pass < tile_.passes.size(); ++pass) {
        const int space = tile_.passes[pass].space;
        for (TileId id : Collect(static_cast<int>(pass))) {
          if (!copied_.contains(id) || spaces_[space].resident.contains(id)) continue;
          const DType dtype = tile_.values[id].dtype;
          const int count = static_cast<int>(registers_);
          spaces_[space].resident[id] = w_.NewFragment("ld", dtype, count);
          ends_ahead_[id] = {space, w_.NewFragment("ahead", dtype, count)};
        }
      }
    });
    LoadRowValues(0);
  }
  // What is loaded once a row comes a turn ahead as well, and so do the ends of copied rows.
  void LoadRowValues(SymInt turn) {
    const auto load_ahead = [&](TileId id, int fragment, SymInt slot, SpaceState& space,
                                SymInt mask) {
      const TileValue& value = tile_.values[id];
      const auto at = [&](SymInt e) { return Substitute(e, turn_, turn); };
      Load load{fragment, slot};
      load.array = value.buffer;
      load.index = at(space.importer->Import(value.index));
      load.predicate = SymAnd(SymAnd(at(space.importer->Import(value.predicate)), mask),
                              SymLt(at(at_.row), rows_));
      load.fill = FillOf(id);
      w_.Emit(load);
    };
    AtEnds([&] {
      for (const auto& entry : ends_ahead_) {
        const auto& ahead = entry.second;
        SpaceState& space = spaces_[ahead.space];
        OverUnits([&] { load_ahead(entry.first, ahead.fragment, u_, space, space.mask); });
      }
    });
    for (const auto& [id, fragment] : values_ahead_)
      load_ahead(id, fragment, 0, spaces_.front(), 1);
  }
  void TakeRowValues() {
    row_values_.clear();
    for (const auto& [id, fragment] : values_ahead_) {
      row_values_[id] = w_.NewFragment("r", tile_.values[id].dtype);
      w_.Set(row_values_[id], 0, OpKind::Copy, {Operand::Reg(fragment)});
    }
    AtEnds([&] {
      for (const auto& entry : ends_ahead_) {
        const auto& ahead = entry.second;
        const int held = spaces_[ahead.space].resident.at(entry.first);
        OverUnits([&] { w_.Set(held, u_, OpKind::Copy, {Operand::Reg(ahead.fragment, u_)}); });
      }
    });
    LoadRowValues(turn_ + 1);
  }
  void AwaitRows() {
    copies_started_ = copied_.empty();
    if (copied_.empty()) return;
    w_.Emit(AwaitCopies{Mod(turn_, options_.stages), FloorDiv(turn_, options_.stages)});
  }
  // Behind a barrier: the row that comes next goes where one has been read. At the end of the turn,
  // if there was no barrier in it, behind one of its own.
  void CopyNextRows(bool end_of_turn) {
    if (copies_started_) return;
    copies_started_ = true;
    if (end_of_turn) w_.Emit(CtaSync{});
    const int behind = end_of_turn ? 0 : turns_behind_;
    const SymInt next = turn_ + (options_.stages - behind);
    w_.Branch(
        SymAnd(SymEq(out_.thread_x, 0), SymAnd(SymGe(turn_, behind), SymLt(next, turns_))),
        [&] { CopyRows(next); }, [] {});
  }

  // --- Levels
  // -----------------------------------------------------------------------------------------------

  bool UsesColumn(SymInt e, const TileSpace& space) const {
    return space.column.is_symbolic() && DependsOn(e, space.column);
  }

  // Whether the pass needs a value, seen from what is in registers or `kept` by then.
  std::vector<bool> NeededBy(int pass, const std::vector<bool>& kept) const {
    std::vector<bool> needed(tile_.values.size());
    std::vector<TileId> stack;
    auto need = [&](TileId id) {
      if (!needed[id]) {
        needed[id] = true;
        stack.push_back(id);
      }
    };
    for (const TileReduction& r : tile_.reductions) {
      if (r.pass == pass)
        for (TileId id : r.operands) need(id);
    }
    for (const TileStore& s : tile_.stores) {
      if (s.pass == pass) need(s.value);
    }
    const SpaceState& state = spaces_[tile_.passes[pass].space];
    while (!stack.empty()) {
      const TileId id = stack.back();
      const TileValue& value = tile_.values[id];
      stack.pop_back();
      if (kept[id] || state.resident.contains(id)) continue;
      for (TileId operand : value.operands) need(operand);
      for (int let : value.lets) need(tile_.lets[let].value);
    }
    return needed;
  }

  // Values that the pass needs, in order, and their levels in it.
  std::vector<TileId> Collect(int pass) {
    const std::vector<bool> needed = NeededBy(pass, std::vector<bool>(tile_.values.size()));
    std::vector<TileId> ids;
    for (size_t i = 0; i < needed.size(); ++i) {
      if (needed[i]) ids.push_back(static_cast<TileId>(i));
    }
    const TileSpace& space = tile_.spaces[tile_.passes[pass].space];
    SpaceState& state = spaces_[tile_.passes[pass].space];
    for (TileId id : ids) {
      if (!state.resident.contains(id)) levels_[id] = LevelOf(tile_.values[id], space, state);
    }
    return ids;
  }

  Level LevelOf(const TileValue& value, const TileSpace& space, SpaceState& state) {
    if (value.kind == TileKind::Constant) return Level::kConstant;
    if (value.kind == TileKind::ReduceResult) return Level::kRow;
    bool column = UsesColumn(value.index, space) || UsesColumn(value.predicate, space);
    bool lane = DependsOn(state.importer->Import(value.index), v_) ||
                DependsOn(state.importer->Import(value.predicate), v_);
    auto inherit = [&](TileId id) {
      const Level level = levels_[id];
      column |= level >= Level::kUnit;
      lane |= level == Level::kElement || (outer_ && level == Level::kRow);
    };
    for (TileId id : value.operands) inherit(id);
    for (int let : value.lets) inherit(tile_.lets[let].value);
    if (!column) return Level::kRow;
    return lane ? Level::kElement : Level::kUnit;
  }

  // --- Values
  // ----------------------------------------------------------------------------------------------

  // Where values of the current pass are: a fragment and the slot as an expression of u and v.
  struct Place_ {
    int fragment;
    SymInt slot;
  };

  Operand Read(TileId id) {
    const TileValue& value = tile_.values[id];
    if (value.kind == TileKind::Constant) return Operand::Const(value.dtype, value.constant);
    if (value.kind == TileKind::ReduceResult) {
      return Operand::Reg(states_.at(value.reduction)[value.component], RowSlot());
    }
    if (auto row = row_values_.find(id); row != row_values_.end())
      return Operand::Reg(row->second, RowSlot());
    const Place_& place = places_.at(id);
    return Operand::Reg(place.fragment, place.slot);
  }
  SymInt RowSlot() const { return outer_ ? v_ : SymInt(0); }
  int RowSlots() const { return outer_ ? vector_ : 1; }

  void EmitLets(const TileValue& value) {
    for (int let : value.lets) w_.Bind(lets_[let], Read(tile_.lets[let].value));
  }

  // A load of the element at hand, or from there on, from shared memory if a copy has brought it.
  Load LoadOf(TileId id, int fragment, SymInt slot, SymImporter& importer) const {
    const TileValue& value = tile_.values[id];
    Load load{fragment, slot};
    load.array = value.buffer;
    load.index = importer.Import(value.index);
    load.fill = FillOf(id);
    if (const auto copied = copied_.find(id); copied != copied_.end() && !at_ends_) {
      const SpaceState& space = spaces_[copied->second.from.space];
      load.space = Space::Shared;
      load.array = copied->second.array;
      load.index = Mod(turn_, options_.stages) * stage_elements_ + at_.row_local * space.extent +
                   space.column - ends_.head - rank_ * CtaColumns();
    }
    return load;
  }

  // One value at one point; for loads without vectors.
  void EmitPoint(TileId id, int fragment, SymInt slot, SymImporter& importer, SymInt mask) {
    const TileValue& value = tile_.values[id];
    EmitLets(value);
    switch (value.kind) {
      case TileKind::Load: {
        Load load = LoadOf(id, fragment, slot, importer);
        load.predicate = SymAnd(importer.Import(value.predicate), mask);
        w_.Emit(load);
        break;
      }
      case TileKind::Map: {
        Map map{value.op, fragment, slot, {}, loose_[id]};
        for (TileId operand : value.operands) map.arguments.push_back(Read(operand));
        w_.Emit(std::move(map));
        break;
      }
      case TileKind::Index:
        w_.Emit(IndexValue{fragment, slot, importer.Import(value.index)});
        break;
      case TileKind::Random:
        w_.Emit(Random{value.op, fragment, slot, Read(value.operands[0]), Read(value.operands[1]),
                       importer.Import(value.index)});
        break;
      case TileKind::Constant:
      case TileKind::ReduceResult:
        break;
    }
  }

  int BufferAlignment(int buffer) const { return tile_.buffers[buffer].alignment_bytes; }

  // A whole vector of a load into slots [slot, slot + vector).
  void EmitVectorLoad(TileId id, int fragment, SymInt slot, SymImporter& importer, SymInt mask) {
    const TileValue& value = tile_.values[id];
    EmitLets(value);
    const SymInt predicate = SymAnd(importer.Import(value.predicate), mask);
    const Load element = LoadOf(id, fragment, slot + v_, importer);
    const Access access = ClassifyAccess(element.index, v_, vector_, DTypeBytes(value.dtype),
                                         BufferAlignment(value.buffer));
    auto scalar = [&] {
      w_.Loop(v_, vector_, true, [&] {
        Load load = element;
        load.predicate = predicate;
        w_.Emit(load);
      });
    };
    if (access.kind != Access::kVector && access.kind != Access::kUnaligned) return scalar();
    auto vectors = [&](SymInt condition) {
      for (int part = 0; part < vector_; part += access.width) {
        Load load = element;
        load.slot = slot + part;
        load.width = access.width;
        load.index = access.base + part;
        load.predicate = condition;
        load.aligned = access.kind == Access::kVector;
        w_.Emit(load);
      }
    };
    if (!DependsOn(predicate, v_)) return vectors(predicate);
    // A vector that is partly outside its row is read whole all the same where there is memory:
    // nobody uses what the mask excludes, and element by element the row's ends would take longer
    // than all the rest of it.
    // Copies bring the row and no more.
    const SymInt in_memory =
        element.space == Space::Shared
            ? WholeVector(predicate)
            : SymAnd(SymGe(access.base, 0),
                     SymLe(access.base + vector_, out_.buffers[value.buffer].num_elements));
    // Where the row ends with the memory, being in the memory says it all.
    const SymInt wanted = WholeVector(predicate).is_same(in_memory) ? 1 : UnitMask(predicate);
    w_.Branch(
        in_memory, [&] { vectors(wanted); }, scalar);
  }

  // The mask holds for every element of the vector. Masks are conjunctions of bounds that are
  // monotone in v.
  SymInt WholeVector(SymInt mask) const {
    return SymAnd(Substitute(mask, v_, 0), Substitute(mask, v_, vector_ - 1));
  }

  Access::Kind LoadKind(const TileValue& value, SymImporter& importer) const {
    if (value.kind != TileKind::Load || vector_ == 1 ||
        !MonotoneIn(importer.Import(value.predicate))) {
      return Access::kScattered;
    }
    return ClassifyAccess(importer.Import(value.index), v_, vector_, DTypeBytes(value.dtype),
                          BufferAlignment(value.buffer))
        .kind;
  }
  bool IsVectorLoad(const TileValue& value, SymImporter& importer) const {
    const Access::Kind kind = LoadKind(value, importer);
    return kind == Access::kVector || kind == Access::kUnaligned;
  }
  // A predicate of the value itself, such as a pad's, may hold in the middle of a vector only.
  bool MonotoneIn(SymInt predicate) const { return !DependsOn(predicate, v_); }

  static bool IsNarrow(DType dtype) { return DTypeBytes(dtype) < 4; }

  void ComputeRowValues(const std::vector<TileId>& ids, int space) {
    std::vector<TileId> todo;
    for (TileId id : ids) {
      if (levels_[id] == Level::kRow && tile_.values[id].kind != TileKind::ReduceResult &&
          !row_values_.contains(id)) {
        todo.push_back(id);
      }
    }
    if (todo.empty()) return;
    SymImporter& importer = *spaces_[space].importer;
    for (TileId id : todo)
      row_values_[id] = w_.NewFragment("r", tile_.values[id].dtype, RowSlots());
    if (!outer_) {
      for (TileId id : todo) EmitPoint(id, row_values_[id], 0, importer, row_mask_);
      return;
    }
    std::vector<TileId> rest;
    for (TileId id : todo) {
      if (tile_.values[id].lets.empty() && IsVectorLoad(tile_.values[id], importer)) {
        EmitVectorLoad(id, row_values_[id], 0, importer, row_mask_);
      } else {
        rest.push_back(id);
      }
    }
    if (rest.empty()) return;
    w_.Loop(v_, vector_, true, [&] {
      for (TileId id : rest) EmitPoint(id, row_values_[id], v_, importer, row_mask_);
    });
  }

  // --- Passes
  // ----------------------------------------------------------------------------------------------

  struct Accumulator {
    int id;
    std::vector<int> fragments;  // One a component, RowSlots() slots each.
    int chunk = -1;              // Welford: the elements of a step, and how many there are.
    int chunk_sum = -1, chunk_count = -1;
    bool even = false;  // A vector's elements are all in the chunk or none, so one count does.
    SymInt CountSlot(SymInt row_slot) const { return even ? SymInt(0) : row_slot; }
  };

  // Loads of later passes over this pass's space that are the same for all rows.
  void CollectEarly(int pass) {
    const int space = tile_.passes[pass].space;
    SymImporter& importer = *spaces_[space].importer;
    for (int later = pass + 1; later < static_cast<int>(tile_.passes.size()); ++later) {
      if (tile_.passes[later].space != space) continue;
      for (TileId id : Collect(later)) {
        if (IsSameForRows(id, importer)) early_.push_back(id);
      }
    }
  }

  bool IsOfRow(const TileValue& value) const {
    return tile_.row.is_symbolic() &&
           (DependsOn(value.index, tile_.row) || DependsOn(value.predicate, tile_.row));
  }

  // A load that every row does alike, in vectors.
  bool IsSameForRows(TileId id, SymImporter& importer) const {
    const TileValue& value = tile_.values[id];
    return !IsOfRow(value) && value.kind == TileKind::Load && value.lets.empty() &&
           levels_[id] >= Level::kUnit &&
           (vector_ == 1 || LoadKind(value, importer) != Access::kScattered);
  }

  // A load of vectors that several rows or columns have in common, weights above all, so from a
  // cache.
  bool IsShared(TileId id, const SpaceState& space) const {
    const TileValue& value = tile_.values[id];
    return value.kind == TileKind::Load && value.lets.empty() && levels_[id] >= Level::kUnit &&
           (vector_ == 1 || LoadKind(value, *space.importer) != Access::kScattered) &&
           !ProvablyLe(rows_ * space.extent, out_.buffers[value.buffer].num_elements);
  }

  // What rows have in common, and no later pass reads, is loaded where it is used if it would not
  // fit beside what is kept.
  void CollectLate(int pass, const std::vector<TileId>& ids) {
    late_.clear();
    const int space = tile_.passes[pass].space;
    if (!spaces_[space].persistent) return;
    double words = holds_.words;
    for (TileId id : ids) {
      if (spaces_[space].resident.contains(id)) continue;
      if (!IsShared(id, spaces_[space])) continue;
      words += DTypeBytes(tile_.values[id].dtype) / 4.0;
      late_.push_back(id);
    }
    if (words * static_cast<double>(registers_) * vector_ <= kMostWordsInHand) late_.clear();
    if (late_.empty()) return;
    std::vector<bool> kept(tile_.values.size());
    for (TileId id : ids) kept[id] = holds_.computed[id];
    for (int later = pass + 1; later < static_cast<int>(tile_.passes.size()); ++later) {
      if (tile_.passes[later].space != space) continue;
      const std::vector<bool> needed = NeededBy(later, kept);
      std::erase_if(late_, [&](TileId id) { return needed[id]; });
    }
  }

  // How many passes have gone over the columns of this one, those of a launch before included.
  int64_t PassesBefore(int pass) const {
    const int space = tile_.passes[pass].space;
    const bool again = options_.backward && !tile_.spaces[space].whole;
    return again + absl::c_count_if(absl::MakeSpan(tile_.passes).first(pass),
                                    [&](const TilePass& p) { return p.space == space; });
  }

  // A step symbol for another loop over the same columns.
  void RenewStep(int index) {
    SpaceState& space = spaces_[index];
    if (!space.step.is_symbolic()) return;
    const SymInt step = out_.env->FreshSymbol(absl::StrCat("step", index), 0, space.steps - 1);
    space.column = Substitute(space.column, space.step, step);
    space.mask = Substitute(space.mask, space.step, step);
    space.step = step;
    MapColumn(tile_.spaces[index], space, lets_);
  }

  absl::Status ExpandPass(int pass) {
    const int space_index = tile_.passes[pass].space;
    SpaceState& space = spaces_[space_index];
    const int64_t before = PassesBefore(pass);
    if (before > 0) RenewStep(space_index);
    // What is written does not push out of the cache what is still to be read again.
    stores_ =
        before % 2 == 1 && space.step.is_symbolic() ? CacheHint::Streaming : CacheHint::Default;
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
    ComputeRowValues(ids, space_index);

    std::vector<Accumulator> accumulators;
    for (size_t i = 0; i < tile_.reductions.size(); ++i) {
      if (tile_.reductions[i].pass == pass && tile_.reductions[i].over == Over::Columns)
        accumulators.push_back(NewAccumulator(static_cast<int>(i)));
    }
    const size_t folded = accumulators.size();
    for (const Accumulator& a : across_rows_) {
      if (tile_.reductions[a.id].pass == pass) accumulators.push_back(a);
    }
    std::vector<const TileStore*> column_stores;
    for (const TileStore& store : tile_.stores) {
      if (store.pass != pass) continue;
      if (levels_[store.value] <= Level::kRow &&
          !UsesColumn(store.index, tile_.spaces[space_index]) && space.extent.is_same(1)) {
        EmitRowStore(store, space);
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
        ExpandStep(ids, space, of_step, column_stores);
        for (size_t i = 0; i < of_step.size(); ++i) {
          if (!IsSummedByStep(of_step[i])) continue;
          OverRowSlots([&] {
            MergeState(w_, OpKind::Sum, accumulators[i].fragments, RowSlot(),
                       {Operand::Reg(of_step[i].fragments[0], RowSlot())});
          });
        }
      };
      if (space.steps.is_same(1)) {
        ExpandStep(ids, space, accumulators, column_stores);
      } else if (before % 2 == 1) {
        const SymInt behind = out_.env->FreshSymbol("behind", 0, space.steps - 1);
        w_.Loop(behind, space.steps, false, [&] {
          w_.Bind(space.step, w_.Index(DType::I64, space.steps - 1 - behind));
          step();
        });
      } else {
        w_.Loop(space.step, space.steps, false, step);
      }
      AtEnds([&] {
        if (spaces_[space_index].mask.is_same(0)) return;
        places_.clear();
        std::vector<Accumulator> each = accumulators;
        for (Accumulator& a : each) a.chunk = -1;
        ExpandStep(Collect(pass), spaces_[space_index], each, column_stores);
      });
    }
    accumulators.resize(folded);
    FoldAcrossThreads(accumulators);
    KeepPackedFor(pass);
    for (const Accumulator& a : accumulators) StorePartial(a.id, a.fragments);
    return absl::OkStatus();
  }

  // What later passes unpack again is kept as it is, not unpacked for them.
  void KeepPackedFor(int pass) {
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
  void EmitKeepPacked(int fragment) {
    if (fragment >= 0 && out_.fragments[fragment].packed) w_.Emit(KeepPacked{fragment});
  }

  // --- Across rows, where CTAs take them in turn
  // ----------------------------------------------------------------------------------------------

  // Their accumulators live through all turns: in registers where a row does, else in the memory
  // of the partial states, from which each turn takes up its columns' and puts them back.
  void OpenAcrossRows() {
    fold_turn_ = turn_;
    int folds = 0;
    std::vector<bool> folds_in(tile_.passes.size());
    for (size_t i = 0; i < tile_.reductions.size(); ++i) {
      const TileReduction& r = tile_.reductions[i];
      if (r.over == Over::Columns) {
        folds += !folds_in[r.pass];
        folds_in[r.pass] = true;
      } else {
        across_rows_.push_back(NewAccumulator(static_cast<int>(i)));
      }
    }
    // With one barrier a turn, a warp may write for the next turn what another still reads.
    if (folds == 1) fold_turns_ = 2;
  }
  bool IsStreamed(const Accumulator& a) const {
    const TileReduction& r = tile_.reductions[a.id];
    return r.over == Over::Rows && !spaces_[tile_.passes[r.pass].space].persistent;
  }

  // What all rows read alike is loaded once, where it can stay.
  void HoistLoads() {
    const auto hoist = [&] {
      for (size_t pass = 0; pass < tile_.passes.size(); ++pass) {
        SpaceState& space = spaces_[tile_.passes[pass].space];
        if (!space.persistent) continue;
        for (TileId id : Collect(static_cast<int>(pass))) {
          if (IsSameForRows(id, *space.importer))
            LoadForStep(id, space, *space.importer, space.mask);
        }
      }
    };
    hoist();
    AtEnds(hoist);
  }

  void StoreAcrossRows() {
    std::vector<Accumulator> whole;
    for (const Accumulator& a : across_rows_) {
      if (tile_.reductions[a.id].over == Over::All) whole.push_back(a);
    }
    fold_turns_ = 1;
    fold_turn_ = 0;
    copies_started_ = true;
    FoldAcrossThreads(whole);
    for (const Accumulator& a : across_rows_) {
      if (tile_.reductions[a.id].over == Over::Rows) {
        if (IsStreamed(a)) continue;
        MoveAcrossRows<Store>(a);
        AtEnds([&] { MoveAcrossRows<Store>(a); });
        continue;
      }
      for (size_t c = 0; c < a.fragments.size(); ++c) {
        Store out{a.fragments[c], SlotOf(a)};
        out.array = options_.partials[a.id][c];
        out.index = PlaceOfRow();
        out.predicate = Leader();
        w_.Emit(out);
      }
    }
  }
  SymInt PlaceOfRow() const { return team_ * at_.rows_per_cta + at_.row_local; }

  // The states of a step's columns from or to memory, in vectors where it is aligned. What no turn
  // has written yet is neutral.
  template <typename Move>
  void MoveAcrossRows(const Accumulator& a) {
    const TileReduction& r = tile_.reductions[a.id];
    const SpaceState& space = spaces_[tile_.passes[r.pass].space];
    const StateOperands neutral = NeutralState(r.op, r.dtype);
    for (size_t c = 0; c < a.fragments.size(); ++c) {
      Move move{a.fragments[c], SlotOf(a)};
      move.array = options_.partials[a.id][c];
      move.index = PlaceOfRow() * space.extent + space.column;
      move.predicate = space.mask;
      if constexpr (std::is_same_v<Move, Load>) {
        move.predicate = SymAnd(move.predicate, SymGt(turn_, 0));
        move.fill = neutral[c].constant;
      }
      const Access access =
          vector_ == 1 || DependsOn(move.predicate, v_)
              ? Access{}
              : ClassifyAccess(move.index, v_, vector_, DTypeBytes(w_.dtype(move.fragment)), 16);
      OverUnits([&] {
        if (access.kind != Access::kVector) return OverElements([&] { w_.Emit(move); });
        for (int part = 0; part < vector_; part += access.width) {
          Move piece = move;
          piece.slot = Substitute(move.slot, v_, part);
          piece.index = access.base + part;
          piece.width = access.width;
          w_.Emit(piece);
        }
      });
    }
  }

  // Float sums along a row of many steps add up each step's terms first: an error grows with the
  // terms of a step and the number of steps, not with their product.
  bool IsSummedByStep(const Accumulator& a) const {
    const TileReduction& r = tile_.reductions[a.id];
    return r.op == OpKind::Sum && IsFloat(r.dtype) && r.over == Over::Columns;
  }

  // The slot of the point at hand.
  SymInt SlotOf(const Accumulator& a) const {
    return tile_.reductions[a.id].over == Over::Rows ? slot_ + u_ * vector_ + v_ : RowSlot();
  }

  Accumulator NewAccumulator(int id) {
    const TileReduction& r = tile_.reductions[id];
    Accumulator a{id, {}};
    const StateOperands neutral = NeutralState(r.op, r.dtype);
    const bool each_column = r.over == Over::Rows;
    const int64_t points = registers_ * vector_ + (has_ends_ ? ends_.registers : 0);
    const int slots = each_column ? static_cast<int>(points) : RowSlots();
    for (int c = 0; c < NumComponents(r.op); ++c)
      a.fragments.push_back(w_.NewFragment("acc", ComponentType(r.op, r.dtype, c), slots));
    const auto start = [&] {
      for (int c = 0; c < NumComponents(r.op); ++c)
        w_.Set(a.fragments[c], SlotOf(a), OpKind::Copy, {neutral[c]});
    };
    if (each_column) {
      OverUnits([&] { OverElements(start); });
      AtEnds([&] { OverUnits(start); });
    } else {
      OverRowSlots(start);
    }
    if (r.op == OpKind::Welford && !r.merge && r.over == Over::Columns) {
      a.chunk = w_.NewFragment("chunk", r.dtype, static_cast<int>(registers_) * vector_);
      a.chunk_sum = w_.NewFragment("sum", r.dtype, RowSlots());
      a.chunk_count = w_.NewFragment("count", r.dtype, RowSlots());
    }
    return a;
  }

  template <typename Body>
  void OverRowSlots(Body body) {
    if (outer_) {
      w_.Loop(v_, vector_, true, body);
    } else {
      body();
    }
  }

  void ExpandStep(const std::vector<TileId>& ids, SpaceState& space,
                  std::vector<Accumulator>& accumulators,
                  const std::vector<const TileStore*>& stores) {
    SymImporter& importer = *space.importer;
    const SymInt mask = SymAnd(space.mask, row_mask_);
    // Loads first, all of them in flight before any use. Those of elements that lie anywhere,
    // broadcasts mostly and in cache, come with their use, unless a row of them is kept.
    std::vector<TileId> unit, element;
    for (TileId id : ids) {
      const TileValue& value = tile_.values[id];
      const Level level = levels_[id];
      if (level <= Level::kRow) continue;
      if (holds_.computed[id] && HoldAcrossPasses(id, space)) continue;
      const Access::Kind kind = LoadKind(value, importer);
      const bool stays = space.persistent && IsOfRow(value);
      const bool anywhere = vector_ > 1 && level == Level::kElement &&
                            !space.resident.contains(id) &&
                            (kind == Access::kScattered || (kind == Access::kUnaligned && !stays));
      const bool late = absl::c_linear_search(late_, id) ||
                        (options_.reread && !at_ends_ && copied_.contains(id));
      if (value.kind == TileKind::Load && value.lets.empty() && !anywhere && !late) {
        LoadForStep(id, space, importer, mask);
      } else if (level == Level::kUnit ||
                 (value.kind == TileKind::Load && LetsBelowElement(value) &&
                  IsVectorLoad(value, importer))) {
        unit.push_back(id);
      } else {
        element.push_back(id);
      }
    }
    for (TileId id : early_) LoadForStep(id, space, importer, mask);
    for (const Accumulator& a : accumulators) {
      if (IsStreamed(a)) MoveAcrossRows<Load>(a);
    }
    for (Accumulator& a : accumulators) {
      if (a.chunk < 0) continue;
      a.even = !DependsOn(mask, v_) && tile_.reductions[a.id].predicate.is_same(1);
      const Operand zero = BlockWriter::Number(w_.dtype(a.chunk_sum), 0);
      OverRowSlots([&] {
        w_.Set(a.chunk_sum, RowSlot(), OpKind::Copy, {zero});
        if (!a.even) w_.Set(a.chunk_count, RowSlot(), OpKind::Copy, {zero});
      });
      if (a.even) w_.Set(a.chunk_count, 0, OpKind::Copy, {zero});
    }
    // Values held for stores, a vector each.
    std::vector<int> staged;
    for (const TileStore* store : stores) {
      const bool vector = StoreAccess(*store, importer).kind == Access::kVector;
      staged.push_back(vector ? w_.NewFragment("out", tile_.values[store->value].dtype, vector_)
                              : -1);
    }
    for (TileId id : unit) {
      if (holds_.computed[id]) continue;
      const bool vector = IsVectorLoad(tile_.values[id], importer);
      const DType dtype = tile_.values[id].dtype;
      places_[id] = {w_.NewFragment("x", dtype, vector ? vector_ : 1, vector && IsNarrow(dtype)),
                     vector ? v_ : SymInt(0)};
    }
    for (TileId id : element) {
      if (!holds_.computed[id]) places_[id] = {w_.NewFragment("x", tile_.values[id].dtype), 0};
    }

    std::vector<bool> neutral;
    for (const Accumulator& a : accumulators)
      neutral.push_back(!DependsOn(mask, v_) && IsNeutralOutside(a));

    auto vector = [&](SymInt mask) {
      for (TileId id : unit) {
        if (IsVectorLoad(tile_.values[id], importer)) {
          EmitVectorLoad(id, places_[id].fragment, 0, importer, mask);
        } else {
          EmitPoint(id, places_[id].fragment, places_[id].slot, importer, UnitMask(mask));
        }
      }
      OverElements([&] {
        for (TileId id : element)
          EmitPoint(id, places_[id].fragment, places_[id].slot, importer, mask);
        std::optional<Operand> inside;
        if (!absl::c_all_of(neutral, [](bool n) { return n; })) inside = InsideFlag(mask);
        for (size_t i = 0; i < accumulators.size(); ++i) {
          Accumulator& a = accumulators[i];
          if (neutral[i]) {
            Accumulate(a, std::nullopt, importer);
            continue;
          }
          const SymInt counts = importer.Import(tile_.reductions[a.id].predicate);
          Accumulate(a, counts.is_same(1) ? inside : InsideFlag(SymAnd(mask, counts)), importer);
        }
        for (size_t i = 0; i < stores.size(); ++i) {
          if (staged[i] >= 0) {
            w_.Set(staged[i], v_, OpKind::Copy, {Read(stores[i]->value)});
          } else {
            EmitScalarStore(*stores[i], importer, mask);
          }
        }
      });
      for (const Accumulator& a : accumulators) {
        if (a.even) CountInChunk(a, InsideFlag(mask), outer_ ? 1 : vector_);
      }
      for (size_t i = 0; i < stores.size(); ++i) {
        if (staged[i] >= 0) EmitVectorStore(*stores[i], staged[i], importer, mask);
      }
    };
    // Where rows end inside a vector, the vectors that lie wholly inside, nearly all of them, are
    // spared the masks of reductions, and those wholly outside do nothing but fill in chunks: what
    // they hold from another pass has never been computed.
    const auto outside = [&] {
      OverElements([&] {
        for (const Accumulator& a : accumulators) {
          if (a.chunk < 0) continue;
          w_.Set(a.chunk, u_ * vector_ + v_, OpKind::Copy,
                 {BlockWriter::Number(w_.dtype(a.chunk), 0)});
        }
      });
    };
    const bool chunks = absl::c_any_of(accumulators, [](auto& a) { return a.chunk >= 0; });
    const bool holds = absl::c_any_of(holds_.computed, [](bool held) { return held; });
    const bool all_neutral = absl::c_all_of(neutral, [](bool n) { return n; });
    // One warp has all of a row's ends.
    const auto touched_only = [&](SymInt mask) {
      w_.Branch(
          mask, [&] { vector(1); }, [] {});
    };
    OverUnits([&] {
      if (at_ends_)
        return all_neutral && stores.empty() && !holds ? vector(mask) : touched_only(mask);
      if (!DependsOn(mask, v_)) return vector(mask);
      auto ragged = [&] { vector(mask); };
      auto touched = [&] {
        w_.Branch(UnitMask(mask), ragged, [&] {
          if (chunks) outside();
        });
      };
      if (accumulators.empty()) return touched();
      w_.Branch(
          WholeVector(mask), [&] { vector(1); }, touched);
    });
    for (Accumulator& a : accumulators) {
      if (a.chunk >= 0) MergeChunk(a, space);
      if (IsStreamed(a)) MoveAcrossRows<Store>(a);
    }
  }

  // Loads fill in where the mask does not hold, zero or what suits an extremum, and some reductions
  // of what is computed from them need no mask therefore.
  bool IsNeutralOutside(const Accumulator& a) {
    const TileReduction& r = tile_.reductions[a.id];
    if (r.merge || a.chunk >= 0 || !r.predicate.is_same(1)) return false;
    if (r.op == OpKind::Sum) return IsZeroOutside(r.operands[0]);
    const auto fill = fills_.find(LoadUnderCasts(r.operands[0]));
    return fill != fills_.end() && fill->second.f == NeutralState(r.op, r.dtype)[0].constant.f;
  }

  // The load that the value is, in another float type perhaps; -1 if it is something else.
  TileId LoadUnderCasts(TileId id) const {
    for (;; id = tile_.values[id].operands[0]) {
      const TileValue& value = tile_.values[id];
      // Of 8 bits some have no infinity.
      if (!IsFloat(value.dtype) || DTypeBytes(value.dtype) < 2) return -1;
      if (value.kind == TileKind::Load) return id;
      if (value.kind != TileKind::Map || value.op != OpKind::Cast) return -1;
    }
  }

  void ChooseFills() {
    for (const TileReduction& r : tile_.reductions) {
      if ((r.op != OpKind::Max && r.op != OpKind::Min) || r.merge) continue;
      const TileId load = LoadUnderCasts(r.operands[0]);
      if (load < 0 || !IsOfRow(tile_.values[load]) || !tile_.values[load].lets.empty() ||
          !tile_.values[load].predicate.is_same(1)) {
        continue;
      }
      fills_.emplace(load, NeutralState(r.op, r.dtype)[0].constant);
    }
  }
  Scalar FillOf(TileId load) const {
    const auto fill = fills_.find(load);
    return fill == fills_.end() ? Scalar{} : fill->second;
  }

  // A float by which zero is multiplied or divided without becoming NaN.
  bool IsPlainConstant(TileId id) const {
    const TileValue& value = tile_.values[id];
    return value.kind == TileKind::Constant && IsFloat(value.dtype) &&
           std::isfinite(value.constant.f) && value.constant.f != 0;
  }

  bool IsZeroOutside(TileId id) {
    auto [it, first] = zero_outside_.try_emplace(id, false);
    if (!first) return it->second;
    const TileValue& value = tile_.values[id];
    const auto all = [&](size_t begin) {
      return std::all_of(value.operands.begin() + begin, value.operands.end(),
                         [&](TileId operand) { return IsZeroOutside(operand); });
    };
    bool zero = false;
    if (value.kind == TileKind::Constant) {
      zero = IsFloat(value.dtype) ? value.constant.f == 0 : value.constant.i == 0;
    } else if (value.kind == TileKind::Load) {
      // What is loaded once for all turns is masked by columns alone.
      zero = !fills_.contains(id) && value.lets.empty() && levels_[id] >= Level::kUnit &&
             (options_.grid == 0 || IsOfRow(value));
    } else if (value.kind == TileKind::Map) {
      switch (value.op) {
        case OpKind::Where:
          zero = all(1);
          break;
        case OpKind::Div:
          zero = IsZeroOutside(value.operands[0]) && IsPlainConstant(value.operands[1]);
          break;
        case OpKind::Mul:
          zero = all(0) ||
                 (IsZeroOutside(value.operands[0]) && IsPlainConstant(value.operands[1])) ||
                 (IsPlainConstant(value.operands[0]) && IsZeroOutside(value.operands[1]));
          break;
        case OpKind::Cast:
        case OpKind::Copy:
        case OpKind::Neg:
        case OpKind::Abs:
        case OpKind::Add:
        case OpKind::Sub:
          zero = all(0);
          break;
        default:
          break;
      }
    }
    return zero_outside_[id] = zero;
  }

  template <typename Body>
  void OverUnits(Body body) {
    if (registers_ > 1) {
      w_.Loop(u_, registers_, true, body);
    } else {
      body();
    }
  }
  template <typename Body>
  void OverElements(Body body) {
    if (vector_ > 1) {
      w_.Loop(v_, vector_, true, body);
    } else {
      body();
    }
  }

  // A point that stands for a whole vector is wanted where any element is: where each bound holds
  // at one of the vector's ends.
  SymInt UnitMask(SymInt mask) const {
    if (!DependsOn(mask, v_)) return mask;
    const auto at_an_end = [&](SymInt bound) {
      return SymOr(Substitute(bound, v_, 0), Substitute(bound, v_, vector_ - 1));
    };
    if (mask.node()->kind != SymKind::And) return at_an_end(mask);
    SymInt touched = 1;
    for (const SymInt bound : mask.node()->children) touched = SymAnd(touched, at_an_end(bound));
    return touched;
  }

  // A computed value that is kept: where it is. Whether an earlier pass has put it there.
  bool HoldAcrossPasses(TileId id, SpaceState& space) {
    const bool element = levels_[id] == Level::kElement;
    auto [it, first] = space.resident.try_emplace(id, -1);
    if (first) {
      it->second = w_.NewFragment("kept", tile_.values[id].dtype,
                                  static_cast<int>(registers_) * (element ? vector_ : 1));
    }
    places_[id] = {it->second, element ? u_ * vector_ + v_ : u_};
    return !first;
  }

  bool LetsBelowElement(const TileValue& value) const {
    for (int let : value.lets) {
      const Level level = levels_[tile_.lets[let].value];
      if (level == Level::kElement || (outer_ && level == Level::kRow)) return false;
    }
    return true;
  }

  void LoadForStep(TileId id, SpaceState& space, SymImporter& importer, SymInt mask) {
    const TileValue& value = tile_.values[id];
    const bool vector = IsVectorLoad(value, importer);
    const bool element = levels_[id] == Level::kElement;
    const SymInt slot = element ? u_ * vector_ + v_ : u_;
    if (auto it = space.resident.find(id); it != space.resident.end()) {
      places_[id] = {it->second, slot};
      return;
    }
    const int fragment =
        w_.NewFragment("ld", value.dtype, static_cast<int>(registers_) * (element ? vector_ : 1),
                       vector && IsNarrow(value.dtype) && packs_);
    places_[id] = {fragment, slot};
    if (space.persistent && !(options_.reread && copied_.contains(id)))
      space.resident[id] = fragment;
    OverUnits([&] {
      if (vector) {
        EmitVectorLoad(id, fragment, u_ * vector_, importer, mask);
      } else if (element) {
        OverElements([&] { EmitPoint(id, fragment, slot, importer, mask); });
      } else {
        EmitPoint(id, fragment, slot, importer, UnitMask(mask));
      }
    });
  }

  // --- Stores
  // ------------------------------------------------------------------------------------------------

  Access StoreAccess(const TileStore& store, SymImporter& importer) const {
    if (vector_ == 1 || DependsOn(importer.Import(store.predicate), v_)) return {};
    const Access access = ClassifyAccess(importer.Import(store.index), v_, vector_,
                                         DTypeBytes(tile_.buffers[store.buffer].dtype),
                                         BufferAlignment(store.buffer));
    return access.kind == Access::kVector ? access : Access{};
  }

  void EmitScalarStore(const TileStore& store, SymImporter& importer, SymInt mask) {
    const Operand value = Read(store.value);
    int fragment = value.fragment;
    SymInt slot = value.slot;
    if (fragment < 0) {
      fragment = w_.NewFragment("c", value.dtype);
      slot = 0;
      w_.Set(fragment, 0, OpKind::Copy, {value});
    }
    Store out{fragment, slot};
    out.array = store.buffer;
    out.index = importer.Import(store.index);
    out.predicate = SymAnd(importer.Import(store.predicate), mask);
    w_.Emit(out);
  }

  void EmitVectorStore(const TileStore& store, int fragment, SymImporter& importer, SymInt mask) {
    const Access access = StoreAccess(store, importer);
    const SymInt predicate = SymAnd(importer.Import(store.predicate), mask);
    auto vectors = [&](SymInt condition) {
      for (int part = 0; part < vector_; part += access.width) {
        Store out{fragment, part, access.width};
        out.array = store.buffer;
        out.index = access.base + part;
        out.predicate = condition;
        out.hint = stores_;
        w_.Emit(out);
      }
    };
    if (!DependsOn(predicate, v_)) return vectors(predicate);
    w_.Branch(
        WholeVector(predicate), [&] { vectors(1); },
        [&] {
          w_.Loop(v_, vector_, true, [&] {
            Store out{fragment, v_};
            out.array = store.buffer;
            out.index = importer.Import(store.index);
            out.predicate = predicate;
            w_.Emit(out);
          });
        });
  }

  // A value of the row: one of the row's threads stores it.
  void EmitRowStore(const TileStore& store, SpaceState& space) {
    const SymInt first_part = SymEq(part_, 0);
    OverRowSlots([&] {
      EmitScalarStore(store, *space.importer, SymAnd(first_part, SymAnd(Leader(), row_mask_)));
    });
  }
  SymInt Leader() const {
    return SymAnd(SymEq(rank_, 0), SymAnd(SymEq(at_.column_lane, 0), SymEq(at_.column_warp, 0)));
  }

  // --- Reductions
  // ----------------------------------------------------------------------------------------------

  // The operand where the column is inside, `neutral` elsewhere.
  Operand Masked(Operand value, Operand neutral, std::optional<Operand> inside, DType dtype) {
    return inside ? w_.Make(dtype, OpKind::Where, {*inside, value, neutral}) : value;
  }

  std::optional<Operand> InsideFlag(SymInt mask) {
    if (Decide(mask) == true) return std::nullopt;
    return w_.Index(DType::Bool, mask);
  }

  void Accumulate(Accumulator& a, std::optional<Operand> inside, SymImporter& importer) {
    const TileReduction& r = tile_.reductions[a.id];
    const StateOperands neutral = NeutralState(r.op, r.dtype);
    if (a.chunk >= 0) {
      const Operand value = Masked(Read(r.operands[0]), neutral[0], inside, r.dtype);
      const SymInt slot = u_ * vector_ + v_;
      w_.Set(a.chunk, slot, OpKind::Copy, {value});
      w_.Set(a.chunk_sum, RowSlot(), OpKind::Add, {Operand::Reg(a.chunk_sum, RowSlot()), value});
      if (!a.even) CountInChunk(a, inside, 1);
      return;
    }
    StateOperands state;
    if (r.merge) {
      for (TileId id : r.operands) state.push_back(Read(id));
    } else {
      const bool arg = NumComponents(r.op) == 2;
      state = ElementState(r.op, r.dtype, Read(r.operands[0]),
                           arg ? w_.Index(DType::I64, importer.Import(r.position)) : Operand{});
    }
    for (size_t c = 0; c < state.size(); ++c) {
      state[c] =
          Masked(state[c], neutral[c], inside, ComponentType(r.op, r.dtype, static_cast<int>(c)));
    }
    if (r.squares) {
      w_.Set(a.fragments[0], SlotOf(a), OpKind::Fma,
             {state[0], state[0], Operand::Reg(a.fragments[0], SlotOf(a))});
      return;
    }
    MergeState(w_, r.op, a.fragments, SlotOf(a), state);
  }

  void CountInChunk(const Accumulator& a, std::optional<Operand> inside, int elements) {
    const DType t = w_.dtype(a.chunk_count);
    const SymInt slot = a.CountSlot(RowSlot());
    const Operand more =
        Masked(BlockWriter::Number(t, elements), BlockWriter::Number(t, 0), inside, t);
    w_.Set(a.chunk_count, slot, OpKind::Add, {Operand::Reg(a.chunk_count, slot), more});
  }

  // The step's elements are at hand: their mean, then their squared deviations, then Chan's
  // formula.
  void MergeChunk(Accumulator& a, SpaceState& space) {
    const DType t = tile_.reductions[a.id].dtype;
    const int mean = w_.NewFragment("mean", t, RowSlots()),
              m2 = w_.NewFragment("m2", t, RowSlots());
    const SymInt counted = a.CountSlot(RowSlot());
    const Operand count = Operand::Reg(a.chunk_count, counted);
    // What follows from counts alone, once if they are all the same.
    const auto once = [&](auto make) {
      std::optional<decltype(make())> known;
      if (a.even) known = make();
      return [known, make] { return known ? *known : make(); };
    };
    const auto divisor = once([&] {
      return w_.Make(t, OpKind::Maximum, {count, BlockWriter::Number(t, 1)});
    });
    OverRowSlots([&] {
      w_.Set(mean, RowSlot(), OpKind::Div, {Operand::Reg(a.chunk_sum, RowSlot()), divisor()});
      w_.Set(m2, RowSlot(), OpKind::Copy, {BlockWriter::Number(t, 0)});
    });
    OverUnits([&] {
      OverElements([&] {
        const SymInt slot = u_ * vector_ + v_;
        const Operand deviation =
            w_.Make(t, OpKind::Sub, {Operand::Reg(a.chunk, slot), Operand::Reg(mean, RowSlot())});
        const Operand kept =
            Masked(deviation, BlockWriter::Number(t, 0), InsideFlag(space.mask), t);
        w_.Set(m2, RowSlot(), OpKind::Fma, {kept, kept, Operand::Reg(m2, RowSlot())});
      });
    });
    const auto weights =
        once([&] { return WeighWelford(w_, t, Operand::Reg(a.fragments[2], counted), count); });
    OverRowSlots([&] {
      MergeWelford(w_, a.fragments, RowSlot(), Operand::Reg(mean, RowSlot()),
                   Operand::Reg(m2, RowSlot()), weights());
    });
  }

  void FoldAcrossThreads(const std::vector<Accumulator>& accumulators) {
    for (const Accumulator& a : accumulators) {
      FoldLanes(a, at_.column_lane_masks);
      states_[a.id] = a.fragments;
    }
    if (cluster_ > 1) return FoldAcrossCluster(accumulators);
    if (at_.column_warps == 1 || accumulators.empty()) return;
    // All reductions of a pass share one barrier. Index: [warp of the row][row within the CTA].
    const int64_t places = at_.column_warps * at_.rows_per_cta;
    const SymInt origin = fold_turns_ > 1 ? Mod(turn_, fold_turns_) * places : SymInt(0);
    std::vector<std::vector<int>> shared(accumulators.size());
    const SymInt leader = SymEq(at_.column_lane, 0);
    for (size_t i = 0; i < accumulators.size(); ++i) {
      for (int fragment : accumulators[i].fragments) {
        const int array = w_.NewShared("fold", w_.dtype(fragment), fold_turns_ * places);
        shared[i].push_back(array);
        OverRowSlots([&] {
          Store out{fragment, RowSlot()};
          out.space = Space::Shared;
          out.array = array;
          out.index = origin + at_.column_warp * at_.rows_per_cta + at_.row_local;
          out.predicate = leader;
          w_.Emit(out);
        });
      }
    }
    w_.Emit(CtaSync{});
    if (options_.grid > 0) CopyNextRows(false);
    const SymInt other = out_.env->FreshSymbol("w", 0, at_.column_warps - 1);
    for (size_t i = 0; i < accumulators.size(); ++i) {
      const Accumulator& a = accumulators[i];
      const auto read = [&](int component, int fragment, SymInt to, SymInt slot, SymInt warp) {
        Load load{fragment, to};
        load.space = Space::Shared;
        load.array = shared[i][component];
        load.index = origin + warp * at_.rows_per_cta + Substitute(at_.row_local, v_, slot);
        w_.Emit(load);
      };
      OverRowSlots([&] {
        for (size_t c = 0; c < a.fragments.size(); ++c)
          read(static_cast<int>(c), a.fragments[c], RowSlot(), RowSlot(), 0);
      });
      w_.Loop(other, at_.column_warps - 1, true, [&] {
        MergeIntoRows(a, [&](int component, SymInt slot) {
          const int fragment = w_.NewFragment("s", w_.dtype(a.fragments[component]));
          read(component, fragment, 0, slot, other + 1);
          return Operand::Reg(fragment);
        });
      });
    }
  }

  // Each warp leaves its state with every CTA of the cluster, a lane with one of them, and every
  // warp folds those of all warps in the same order: each lane some of them, then across lanes.
  //
  //   rank 0   warp 0, 1, ...  ->  [0] [1] ...   in the shared memory of every CTA;
  //   rank 1   warp 0, 1, ...  ->  [w] [w+1] ...         lane l folds [l], [l + 32], ...
  //
  // A CTA is at most one exchange ahead of another: it has waited for a state of each warp of the
  // cluster, which came when that warp had read the states of the exchange before. So two arrays
  // and two barriers in turn do, those of two folds of a turn or of one fold's even and odd turns.
  // A CTA may end when it has waited for the last states: nobody stores to it any more.
  void FoldAcrossCluster(const std::vector<Accumulator>& accumulators) {
    if (accumulators.empty()) return;
    const int64_t states = cluster_ * at_.column_warps;
    const SymInt origin = fold_turns_ > 1 ? Mod(fold_turn_, fold_turns_) * states : SymInt(0);
    const SymInt barrier =
        out_.store_barriers + (fold_turns_ > 1 ? Mod(fold_turn_, fold_turns_) : SymInt(0));
    out_.store_barriers += fold_turns_;
    int64_t bytes = 0;
    std::vector<std::vector<int>> shared(accumulators.size());
    for (size_t i = 0; i < accumulators.size(); ++i) {
      for (int fragment : accumulators[i].fragments) {
        const DType dtype = ExchangedType(w_.dtype(fragment));
        const int array = w_.NewShared("fold", dtype, fold_turns_ * states);
        shared[i].push_back(array);
        bytes += states * DTypeBytes(dtype);
        RemoteStore out{fragment, 0, array};
        if (dtype != w_.dtype(fragment))
          out.fragment = w_.Make(dtype, OpKind::Cast, {Operand::Reg(fragment)}).fragment;
        out.index = origin + rank_ * at_.column_warps + at_.column_warp;
        out.predicate = SymLt(at_.column_lane, cluster_);
        out.cta = Mod(at_.column_lane, cluster_);
        out.barrier = barrier;
        w_.Emit(out);
      }
    }
    w_.Emit(AwaitStores{barrier, FloorDiv(fold_turn_, fold_turns_), bytes});
    if (!copies_started_) w_.Emit(CtaSync{});
    CopyNextRows(false);
    std::vector<int> masks;
    int64_t lanes = 1;
    for (; lanes < std::min<int64_t>(states, 32); lanes *= 2)
      masks.push_back(static_cast<int>(lanes));
    const int64_t each = (states + lanes - 1) / lanes;
    const SymInt lane = Mod(at_.column_lane, lanes);
    const SymInt other = out_.env->FreshSymbol("w", 0, std::max<int64_t>(each - 2, 0));
    for (size_t i = 0; i < accumulators.size(); ++i) {
      const Accumulator& a = accumulators[i];
      const TileReduction& r = tile_.reductions[a.id];
      const StateOperands neutral = NeutralState(r.op, r.dtype);
      auto read = [&](size_t component, int fragment, SymInt state) {
        const DType dtype = ExchangedType(w_.dtype(fragment));
        const bool same = dtype == w_.dtype(fragment);
        Load load{same ? fragment : w_.NewFragment("s", dtype), 0};
        load.space = Space::Shared;
        load.array = shared[i][component];
        load.index = origin + state;
        load.predicate = SymLt(state, states);
        load.fill = neutral[component].constant;
        w_.Emit(load);
        if (!same) w_.Set(fragment, 0, OpKind::Cast, {Operand::Reg(load.fragment)});
      };
      for (size_t c = 0; c < a.fragments.size(); ++c) read(c, a.fragments[c], lane);
      if (each > 1) {
        w_.Loop(other, each - 1, true, [&] {
          StateOperands state;
          for (size_t c = 0; c < a.fragments.size(); ++c) {
            state.push_back(Operand::Reg(w_.NewFragment("s", w_.dtype(a.fragments[c]))));
            read(c, state.back().fragment, (other + 1) * lanes + lane);
          }
          MergeState(w_, r.op, a.fragments, 0, state);
        });
      }
      FoldLanes(a, masks);
    }
  }

  // Stores to another CTA move 4 or 8 bytes.
  static DType ExchangedType(DType dtype) {
    return DTypeBytes(dtype) >= 4 ? dtype : IsFloat(dtype) ? DType::F32 : DType::I32;
  }

  void FoldLanes(const Accumulator& a, const std::vector<int>& masks) {
    const bool symmetric = tile_.reductions[a.id].op != OpKind::Welford;
    for (int mask : masks) {
      MergeIntoRows(a, [&](int component, SymInt slot) {
        const int fragment = a.fragments[component];
        const DType t = w_.dtype(fragment);
        const Operand mine = Operand::Reg(fragment, slot);
        const Operand theirs = Operand::Reg(w_.NewFragment("s", t));
        w_.Emit(ShuffleXor{theirs.fragment, 0, mine, mask});
        if (symmetric) return theirs;
        // Both lanes fold in the same order, the lower lane's state first, so that they agree to
        // the last bit.
        const Operand lower =
            w_.Index(DType::Bool, SymEq(Mod(FloorDiv(out_.thread_x, mask), 2), 0));
        const Operand second = w_.Make(t, OpKind::Where, {lower, theirs, mine});
        const Operand first = w_.Make(t, OpKind::Where, {lower, mine, theirs});
        w_.Set(fragment, slot, OpKind::Copy, {first});
        return second;
      });
    }
  }

  // Merges the states whose components `take` brings into those of the thread's rows. All rows have
  // as many elements, and the first of a vector is inside if any is: its count does for all.
  template <typename Take>
  void MergeIntoRows(const Accumulator& a, Take take) {
    const TileReduction& r = tile_.reductions[a.id];
    if (r.op == OpKind::Welford && r.over == Over::Columns) {
      const Operand more = take(2, 0);
      const WelfordWeights weights = WeighWelford(w_, r.dtype, Operand::Reg(a.fragments[2]), more);
      return OverRowSlots([&] {
        const Operand mean = take(0, RowSlot()), m2 = take(1, RowSlot());
        MergeWelford(w_, a.fragments, RowSlot(), mean, m2, weights);
      });
    }
    OverRowSlots([&] {
      StateOperands state;
      for (int c = 0; c < NumComponents(r.op); ++c) state.push_back(take(c, RowSlot()));
      MergeState(w_, r.op, a.fragments, RowSlot(), state);
    });
  }

  void StorePartial(int id, const std::vector<int>& fragments) {
    if (options_.partials.empty() || options_.partials[id].empty()) return;
    for (size_t c = 0; c < fragments.size(); ++c) {
      OverRowSlots([&] {
        Store out{fragments[c], RowSlot()};
        out.array = options_.partials[id][c];
        out.index = at_.row * options_.split + part_;
        out.predicate = SymAnd(Leader(), row_mask_);
        w_.Emit(out);
      });
    }
  }

  // What differs between the body of a row and its ends; the other of them, while one is written.
  struct Ends {
    SymInt element;  // Which of the ends' elements a thread has.
    SymInt head;     // Columns before the body: fewer than a vector.
    int vector = 1;
    int64_t registers = 1;
    SymInt u, v;
    int64_t slot = 0;
    std::vector<SpaceState> spaces;
    std::vector<SymInt> lets;
    std::vector<Level> levels;
    std::vector<TileId> early, late;
  };

  const TileKernel& tile_;
  const ExpandOptions& options_;
  Kernel out_;
  BlockWriter w_;
  std::unique_ptr<SymImporter> base_;
  std::vector<std::pair<const SymNode*, SymInt>> parameter_map_;
  ThreadCoordinates at_;
  SymInt v_, u_;  // Loop symbols of the vector and of the registers; constant 0 where there is one
                  // of them only.
  SymInt part_, rows_, row_mask_;
  int vector_ = 1;
  int64_t registers_ = 1;
  bool outer_ = false;
  bool has_ends_ = false, at_ends_ = false;
  int64_t slot_ = 0;  // Of the first point, where each has one of its own.
  std::vector<SpaceState> spaces_;
  Ends ends_;
  std::vector<SymInt> lets_;
  std::vector<Level> levels_;
  std::vector<bool> loose_;
  Holds holds_;
  bool packs_ = false;                     // Narrow elements of a row stay packed.
  CacheHint stores_ = CacheHint::Default;  // Of the current pass.
  std::map<TileId, Scalar> fills_;         // Of loads, where it is not zero.
  std::map<TileId, bool> zero_outside_;
  std::vector<TileId> early_;    // Loads for later passes that the current one issues.
  std::vector<TileId> late_;     // Loads that the current pass issues where it uses them.
  SymInt turn_, turns_;          // Where CTAs take rows in turn.
  int cluster_ = 1, teams_ = 1;  // CTAs that share a row, and how many such teams there are.
  SymInt team_, rank_;           // Of the CTA.
  struct CopiedRow {
    RowCopy from;
    int array;
  };
  std::map<TileId, CopiedRow> copied_;  // Loads that bulk copies make.
  std::map<TileId, int> values_ahead_;  // Loads of the row alone: where they are for the next turn.
  struct EndsAhead {
    int space, fragment;
  };
  std::map<TileId, EndsAhead> ends_ahead_;  // The same for the ends of copied rows.
  int64_t stage_elements_ = 0;              // Of each of them, in one stage.
  int turns_behind_ = 0;                    // From the last read of a stage to the next copy there.
  bool copies_started_ = true;              // In this turn.
  std::vector<Accumulator> across_rows_;
  SymInt fold_turn_;    // The turn of a fold; 0 behind the last one.
  int fold_turns_ = 1;  // Turns after which the shared memory of a fold is used again.
  std::map<TileId, int> row_values_;
  std::map<TileId, Place_> places_;
  std::map<int, std::vector<int>> states_;  // Reduction -> fragments of its components.
};

}  // namespace

absl::StatusOr<Kernel> ExpandTile(const TileKernel& tile, const ExpandOptions& options) {
  return Expander(tile, options).Run();
}

}  // namespace seam::kernel
