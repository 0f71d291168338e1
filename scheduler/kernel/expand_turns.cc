// CTAs that take rows in turn. Rows, what is loaded once for each and their ends come ahead of the
// turn that uses them; what all rows read alike stays; and states of reductions across rows live
// through all turns.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {

void Expander::PrepareRowCopies() {
  if (options_.stages == 0) return;
  const auto found = FindRowCopies(tile_, at_.rows_per_cta, has_ends_ ? vector_ : 1);
  slice_elements_ = at_.rows_per_cta * SliceColumns();
  int64_t copies_per_batch = 0;
  for (size_t id = 0; id < found.size(); ++id) {
    if (!found[id] || !spaces_[found[id]->space].persistent) continue;
    const int64_t copies = CopiesOf(*found[id], SliceColumns());
    const TileValue& value = tile_.values[id];
    if (has_ends_) {  // In all turns.
      const SymInt first = RowImporter().Import(found[id]->start) + ends_.head;
      if (!ProvablyDivisible(first, vector_)) continue;
    }
    const int64_t line = options_.slices > 1 ? 0
                                             : LineOf(tile_, value, *found[id], at_.rows_per_cta,
                                                      CtaColumns(), has_ends_ ? vector_ : 1);
    const int array = w_.NewShared(tile_.buffers[value.buffer].name, value.dtype,
                                   StagePitch(slice_elements_, line) * SlicePlaces());
    if (line > 0) out_.shared[array].alignment = kLineBytes;
    copied_.emplace(static_cast<TileId>(id), CopiedRow{*found[id], array, copies, line});
    copies_per_batch += copies;
  }
  if (copied_.empty()) return;
  out_.copy_barriers = SlicePlaces();
  out_.copies_per_batch = static_cast<int>(copies_per_batch);
  // A stage is free at the first barrier behind its last read: in the same turn if the first pass
  // takes the row into registers, else in the next.
  const std::vector<bool> first = NeededBy(0, std::vector<bool>(tile_.values.size()));
  turns_behind_ = options_.reread;
  for (const auto& [id, row] : copied_) turns_behind_ |= !first[id];
  if (options_.slices == 1) return;
  for (size_t pass = 0; pass < tile_.passes.size(); ++pass) {
    const std::vector<bool> needed =
        NeededBy(static_cast<int>(pass), std::vector<bool>(tile_.values.size()));
    if (absl::c_any_of(copied_, [&](const auto& row) { return needed[row.first]; }))
      last_copied_pass_ = static_cast<int>(pass);
  }
}

// The slices of all turns, one after the other, go round so many places.
int Expander::SlicePlaces() const { return options_.stages * options_.slices + options_.spare; }

// Finds the place of the slice that has the thread's vector u, or the place of a whole row.
void Expander::FindPlace() {
  const SymInt slice = SliceOfUnit();
  place_ = Mod(NumberOf(turn_), options_.stages) * options_.slices + slice;
  if (options_.spare == 0) return;
  const SymInt number = turn_ * options_.slices + slice;
  place_ = out_.env->FreshSymbol("place", 0, SlicePlaces() - 1);
  w_.Bind(place_, w_.Index(DType::I64, Mod(number, SlicePlaces())));
}

// For expressions over the first row of a set.
SymImporter Expander::SetImporter(SymInt set) const {
  SymImporter importer(out_.env.get());
  for (const auto& [node, copy] : parameter_map_) importer.Map(node, copy);
  importer.Map(tile_.row.node(), set * at_.rows_per_cta);
  return importer;
}

// Where in shared memory the first element that is copied of a set lies: behind the beginning of
// its place as far as behind that of its line of memory.
SymInt Expander::InStage(const CopiedRow& copied, SymInt place, SymInt set) const {
  const SymInt begin = place * StagePitch(slice_elements_, copied.line);
  if (copied.line == 0) return begin;
  const SymInt first =
      SetImporter(set).Import(copied.from.start) + HeadOf(set) + rank_ * CtaColumns();
  // Copies begin at multiples of 16 bytes (FindRowCopies).
  constexpr int64_t kUnits = kLineBytes / kCopyBytes;
  const int64_t unit = copied.line / kUnits;
  return begin + Mod(FloorDiv(first, unit), kUnits) * unit;
}

// Starts the copies of a slice of a set of rows, of those that a cluster shares a piece each.
void Expander::CopySlice(SymInt place, SymInt slice, SymInt set) {
  const SymInt row = set * at_.rows_per_cta;
  SymImporter importer = SetImporter(set);
  for (const auto& [id, copied] : copied_) {
    const SymInt extent = spaces_[copied.from.space].extent;
    const SymInt rows = at_.rows_per_cta == 1 ? SymInt(1) : Min(at_.rows_per_cta, rows_ - row);
    const SymInt first = rank_ * CtaColumns() + slice * SliceColumns();
    if (copied.from.run > 0) {
      CopyPieces(id, copied, place, first, importer);
      continue;
    }
    const bool whole = cluster_ == 1 && options_.slices == 1;
    const SymInt head = HeadOf(set), columns = has_ends_ ? InBody(extent, head) : rows * extent;
    const SymInt count = whole ? columns : Max(0, Min(SliceColumns(), columns - first));
    w_.Emit(BulkCopy{copied.array, InStage(copied, place, set), tile_.values[id].buffer,
                     importer.Import(copied.from.start) + head + first, count, place});
  }
}

// What a CTA has of a slice of a row in pieces: of the first and the last one perhaps a part.
void Expander::CopyPieces(TileId id, const CopiedRow& copied, SymInt place, SymInt first,
                          SymImporter& importer) {
  const int64_t run = copied.from.run;
  const SymInt end = Min(first + SliceColumns(), spaces_[copied.from.space].extent);
  const SymInt i = out_.env->FreshSymbol("piece", 0, copied.copies - 1);
  w_.Loop(i, copied.copies, false, [&] {
    const SymInt piece = FloorDiv(first, run) + i;
    const SymInt from = Max(first, piece * run);
    const SymInt count = Max(0, Min(end, (piece + 1) * run) - from);
    importer.Map(copied.from.piece.node(), piece);
    w_.Emit(BulkCopy{copied.array, place * slice_elements_ + (from - first),
                     tile_.values[id].buffer,
                     importer.Import(copied.from.start) + (from - piece * run), count, place});
  });
}

void Expander::BringFirstRows() {
  if (copied_.empty()) return;
  const SymInt number = out_.env->FreshSymbol("ahead", 0, SlicePlaces() - 1);
  w_.Branch(
      SymEq(out_.thread_x, 0),
      [&] {
        w_.Loop(number, Min(SlicePlaces(), all_turns_ * options_.slices), false, [&] {
          CopySlice(Mod(number, SlicePlaces()), Mod(number, options_.slices),
                    NthSet(FloorDiv(number, options_.slices)));
        });
      },
      [] {});
}

// What is not copied of the first row, or of each stretch's.
void Expander::BringFirstValues() {
  if (copied_.empty() && async_.empty()) return;
  BringOwnRows(0);
  for (size_t pass = 0; pass < tile_.passes.size() && !outer_; ++pass) {
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
  LoadRowValues(0, SetInOrder(0));
}

// What is loaded once a row comes a turn ahead as well, and so do the ends of copied rows.
void Expander::LoadRowValues(SymInt turn, SymInt set) {
  const auto load_ahead = [&](TileId id, int fragment, SymInt slot, SpaceState& space,
                              SymInt mask) {
    const TileValue& value = tile_.values[id];
    const auto at = [&](SymInt e) {
      return tickets_ ? Substitute(e, set_, set) : Substitute(e, turn_, turn);
    };
    Load load{fragment, slot};
    load.array = value.buffer;
    load.index = at(space.importer->Import(value.index));
    // The row behind a batch's last one is the next one's.
    const SymInt in_batch = batches_.is_same(1) ? SymInt(1) : SymLt(turn, turns_);
    load.predicate = SymAnd(at(SymAnd(space.importer->Import(value.predicate), mask)),
                            SymAnd(IsThere(at(at_.row)), in_batch));
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
  for (const auto& [id, fragment] : values_ahead_) load_ahead(id, fragment, 0, spaces_.front(), 1);
}

void Expander::TakeValuesAhead() {
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
  if (!has_ends_) LoadValuesAhead();
}

// Where rows have ends, which are waited for in the first pass, behind that one. A thread has six
// counters of what is under way, and loads that compilers take for alike share one, so that who
// waits for the ends waits for these too: a layer norm's backward pass of 10,007 bf16 columns took
// 0.62, 0.86 and 0.90 of a copy's speed, by the order of these loads.
void Expander::LoadValuesAhead() {
  if (values_ahead_.empty() && ends_ahead_.empty()) return;
  LoadRowValues(turn_ + 1, SetOf(turn_ + 1));
}

void Expander::AwaitRows() {
  passed_on_ = copied_.empty() && !tickets_;
  awaits_slices_ = !copied_.empty() && options_.slices > 1;
  if (copied_.empty() || awaits_slices_) return;
  FindPlace();
  w_.Emit(AwaitCopies{place_, FloorDiv(NumberOf(turn_), options_.stages)});
}

// In the first pass over columns of the turn, ahead of each vector of a thread.
void Expander::AwaitSlice() {
  const SymInt number = turn_ * options_.slices + SliceOfUnit();
  w_.Branch(
      SymEq(Mod(u_, SliceUnits()), 0),
      [&] {
        w_.Emit(AwaitCopies{place_, FloorDiv(number, SlicePlaces())});
      },
      [] {});
}

// In the last pass over copied rows, behind each vector of a thread: where all threads are done
// with a slice, another one goes.
void Expander::PassSliceOn() {
  const SymInt slice = SliceOfUnit(), next = slice + options_.spare;
  const SymInt turn = turn_ + options_.stages + FloorDiv(next, options_.slices);
  const auto copy = [&] { CopySlice(place_, Mod(next, options_.slices), SetInOrder(turn)); };
  w_.Branch(
      SymEq(Mod(u_, SliceUnits()), SliceUnits() - 1),
      [&] {
        w_.Emit(CtaSync{});
        w_.Branch(SymAnd(SymEq(out_.thread_x, 0), SymLt(turn, turns_)), copy, [] {});
      },
      [] {});
}

// What a single stage holds is read until the end of the turn, unless it is in registers, and so
// are slices.
bool Expander::ReadsUntilTheEnd() const {
  return !copied_.empty() && (turns_behind_ >= options_.stages || options_.slices > 1);
}

// Behind a barrier: the row that comes next goes where one has been read. At the end of the turn,
// if that has not been done yet, behind a barrier of its own.
void Expander::CopyNextRows(bool end_of_turn) {
  if (passed_on_ || (!end_of_turn && ReadsUntilTheEnd())) return;
  if (end_of_turn) {
    if (tickets_) PassTicketOn(0);
    w_.Emit(CtaSync{});
  }
  passed_on_ = true;
  if (copied_.empty()) return;
  const int behind = end_of_turn ? 0 : turns_behind_;
  const SymInt number = NumberOf(turn_), next = number + (options_.stages - behind);
  const SymInt here = SymAnd(SymEq(out_.thread_x, 0), SymGe(number, behind));
  if (!tickets_) {
    w_.Branch(
        SymAnd(here, SymLt(next, all_turns_)),
        [&] {
          const SymInt place = Mod(next, options_.stages);
          if (!stretched()) return CopySlice(place, 0, SetInOrder(next));
          // Beyond the stretch it takes divisions.
          const SymInt of_stretch = next - begun_;
          w_.Branch(
              SymLt(of_stretch, turns_), [&] { CopySlice(place, 0, SetInOrder(of_stretch)); },
              [&] { CopySlice(place, 0, NthSet(next)); });
        },
        [] {});
    if (KeepsPace()) KeepPace();
    return;
  }
  w_.Branch(
      here,
      [&] {
        const SymInt set = TicketOf(next, 1);
        w_.Branch(
            SymLt(set, sets_), [&] { CopySlice(Mod(next, options_.stages), 0, set); }, [] {});
      },
      [] {});
}

// What all rows read alike is loaded once, where it can stay.
void Expander::HoistLoads() {
  if (anywhere_) return;
  const auto hoist = [&] {
    for (size_t pass = 0; pass < tile_.passes.size(); ++pass) {
      SpaceState& space = spaces_[tile_.passes[pass].space];
      if (!space.persistent) continue;
      for (TileId id : Collect(static_cast<int>(pass))) {
        if (!IsSameForRows(id, *space.importer) || space.resident.contains(id)) continue;
        LoadForStep(id, space, *space.importer, space.mask);
        if (const auto it = space.resident.find(id); it != space.resident.end())
          hoisted_.push_back(it->second);
      }
    }
  };
  hoist();
  AtEnds(hoist);
}

// Loads of the turns, of the next row's values above all, are under way where a turn first reads
// what has been loaded before all of them: it is there by then.
void Expander::AwaitHoisted() {
  AwaitLoaded loaded{hoisted_};
  for (const auto& [id, fragment] : values_ahead_) loaded.fragments.push_back(fragment);
  for (const auto& [id, ahead] : ends_ahead_) loaded.fragments.push_back(ahead.fragment);
  if (!loaded.fragments.empty()) w_.Emit(std::move(loaded));
}

// Their accumulators live through all turns: in registers where a row does, else in the memory
// of the partial states, from which each turn takes up its columns' and puts them back.
void Expander::OpenAcrossRows() {
  fold_turn_ = NumberOf(turn_);
  int folds = 0;
  std::vector<bool> folds_in(tile_.passes.size());
  for (size_t i = 0; i < tile_.reductions.size(); ++i) {
    const TileReduction& r = tile_.reductions[i];
    if (r.apart || IsOfOneElement(r)) continue;
    if (r.over == Over::Columns) {
      folds += !folds_in[r.pass];
      folds_in[r.pass] = true;
    } else if (r.over != Over::SomeColumns) {
      across_rows_.push_back(NewAccumulator(static_cast<int>(i)));
    }
  }
  // With one barrier a turn, a warp may write for the next turn what another still reads, or with
  // one exchange of clusters a CTA.
  if (folds == 1) fold_turns_ = 2;
}

void Expander::StoreAcrossRows() {
  std::vector<Accumulator> whole;
  for (const Accumulator& a : across_rows_) {
    if (tile_.reductions[a.id].over == Over::All) whole.push_back(a);
  }
  fold_turns_ = 1;
  fold_turn_ = stretched() ? stretch_ : SymInt(0);
  passed_on_ = true;
  for (const Accumulator& a : across_rows_) CountRowsOfColumns(a);
  FoldAcrossThreads(whole);
  MergeRowsOfCta();
  for (const Accumulator& a : across_rows_) {
    if (IsStreamed(a)) {
      LeaveWithoutTurns(a);
    } else {
      OverStatesAcrossRows(a, [&] { MoveStates<Store>(a, PlaceOfCta(a)); });
    }
  }
}

// Where a CTA's states of a reduction across rows are in memory, of the first of its rows.
Expander::StatesPlace Expander::PlaceOfCta(const Accumulator& a) const {
  const TileReduction& r = tile_.reductions[a.id];
  const SymInt first = SymEq(Substitute(at_.row_local, v_, 0), 0);
  const std::vector<int>& arrays = options_.partials[a.id];
  const SymInt of_team = stretched() ? team_ * options_.stretches + stretch_ : team_;
  if (r.over == Over::All) return {Space::Global, arrays, of_team, SymAnd(first, Leader())};
  const SymInt place = r.each_batch ? nth_team_ * batches_ + batch_ : of_team;
  return {Space::Global, arrays, place * spaces_[tile_.passes[r.pass].space].extent, first};
}

// Without turns neutral states are left, which else the first turn writes.
void Expander::LeaveWithoutTurns(const Accumulator& a) {
  const int index = tile_.passes[tile_.reductions[a.id].pass].space;
  const auto leave = [&] {
    OverUnits([&] {
      OverElements([&] { SetNeutral(a); });
      MoveStates<Store>(a, PlaceOfCta(a));
    });
  };
  w_.Branch(
      SymLe(turns_, 0),
      [&] {
        RenewStep(index);
        const SpaceState& space = spaces_[index];
        if (space.steps.is_same(1)) {
          leave();
        } else {
          w_.Loop(space.step, space.steps, false, leave);
        }
        AtEnds(leave);
      },
      [] {});
}

bool Expander::IsStreamed(const Accumulator& a) const {
  const TileReduction& r = tile_.reductions[a.id];
  return r.over == Over::Rows && !spaces_[tile_.passes[r.pass].space].persistent;
}

// The states of a vector's columns, or the one of all columns, from or to memory.
template <typename Move>
void Expander::MoveStates(const Accumulator& a, const StatesPlace& at) {
  const TileReduction& r = tile_.reductions[a.id];
  const SpaceState& space = spaces_[tile_.passes[r.pass].space];
  const StateOperands neutral = NeutralState(r);
  for (size_t c = 0; c < a.fragments.size(); ++c) {
    Move move{a.fragments[c], SlotOf(a)};
    move.space = at.space;
    move.array = at.arrays[c];
    move.index = at.first;
    move.predicate = at.predicate;
    if constexpr (std::is_same_v<Move, Load>) move.fill = neutral[c].constant;
    if (r.over == Over::All) {
      w_.Emit(move);
      continue;
    }
    move.index += space.column;
    move.predicate = SymAnd(move.predicate, space.mask);
    if (outer_) {
      w_.Emit(move);
    } else {
      EmitForVector(move);
    }
  }
}

// A move of states for each element of a vector: of several at once where memory is aligned.
template <typename Move>
void Expander::EmitForVector(Move move) {
  const Access access =
      vector_ == 1 || DependsOn(move.predicate, v_)
          ? Access{}
          : ClassifyAccess(move.index, v_, vector_, DTypeBytes(w_.dtype(move.fragment)), 16);
  if (access.kind != Access::kVector) return OverElements([&] { w_.Emit(move); });
  for (int part = 0; part < vector_; part += access.width) {
    Move piece = move;
    piece.slot = Substitute(move.slot, v_, part);
    piece.index = access.base + part;
    piece.width = access.width;
    w_.Emit(piece);
  }
}

template void Expander::MoveStates<Load>(const Accumulator&, const StatesPlace&);
template void Expander::MoveStates<Store>(const Accumulator&, const StatesPlace&);
template void Expander::EmitForVector<Load>(Load);
template void Expander::EmitForVector<Store>(Store);

}  // namespace seam::kernel
