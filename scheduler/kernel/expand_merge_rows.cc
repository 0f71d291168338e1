// Rows that lie beside each other in a CTA: their states across rows are merged before the CTA
// leaves them, so that it leaves one of each column. Lanes that have other rows exchange theirs by
// shuffles; then, as long as there are several, the threads of half of the rows leave theirs in
// shared memory and those of the other half take them.
//
//   rows   0   1   2   3   4   ->   0+3   1+4   2   ->   0+3+2   1+4   ->   all
#include <vector>

#include "scheduler/kernel/expander.h"

namespace seam::kernel {

void Expander::MergeRowsOfCta() {
  if (across_rows_.empty()) return;
  // Of rows that start anywhere each has columns of its own in the same lane.
  const int64_t lanes = has_ends_ ? 1 : int64_t{1} << at_.row_lane_masks.size();
  if (lanes > 1) {
    for (const Accumulator& a : across_rows_)
      OverStatesAcrossRows(a, [&] { FoldLanes(a, at_.row_lane_masks); });
  }
  // A vector of rows has been folded as it came.
  const int64_t vector = outer_ ? vector_ : 1;
  int64_t sets = at_.rows_per_cta / (lanes * vector);
  if (sets == 1) return;
  const SymInt local = FloorDiv(Substitute(at_.row_local, v_, 0), vector);
  const SymInt set = FloorDiv(local, lanes), lane = Mod(local, lanes);
  const int64_t columns = CtaColumns() + (has_ends_ ? 2 * vector_ : 0);
  std::vector<std::vector<int>> arrays;
  for (const Accumulator& a : across_rows_) {
    std::vector<int>& of_components = arrays.emplace_back();
    const int64_t states = tile_.reductions[a.id].over == Over::Rows ? columns : 1;
    for (int fragment : a.fragments)
      of_components.push_back(w_.NewShared("merge", w_.dtype(fragment), sets / 2 * states));
  }
  const auto place = [&](size_t i, SymInt nth, SymInt predicate) {
    if (tile_.reductions[across_rows_[i].id].over == Over::Rows)
      return StatesPlace{Space::Shared, arrays[i], nth * columns, predicate};
    return StatesPlace{Space::Shared, arrays[i], nth, SymAnd(predicate, Leader())};
  };
  while (sets > 1) {
    const int64_t staying = (sets + 1) / 2, leaving = sets - staying;
    const SymInt leaves = SymAnd(SymEq(lane, 0), SymAnd(SymGe(set, staying), SymLt(set, sets)));
    for (size_t i = 0; i < across_rows_.size(); ++i) {
      const Accumulator& a = across_rows_[i];
      OverStatesAcrossRows(a, [&] { MoveStates<Store>(a, place(i, set - staying, leaves)); });
    }
    w_.Emit(CtaSync{});
    const auto take = [&] {
      for (size_t i = 0; i < across_rows_.size(); ++i)
        TakeStates(across_rows_[i], place(i, set, 1));
    };
    w_.Branch(SymLt(set, leaving), take, [] {});
    sets = staying;
    if (sets > 1) w_.Emit(CtaSync{});
  }
}

// Merges the states that are there into the thread's.
void Expander::TakeStates(const Accumulator& a, const StatesPlace& at) {
  const TileReduction& r = tile_.reductions[a.id];
  Accumulator theirs{a.id, {}};
  for (int fragment : a.fragments) {
    theirs.fragments.push_back(
        w_.NewFragment("s", w_.dtype(fragment), out_.fragments[fragment].count));
  }
  OverStatesAcrossRows(a, [&] {
    MoveStates<Load>(theirs, at);
    OverStates(a, [&] {
      StateOperands state;
      for (int fragment : theirs.fragments) state.push_back(Operand::Reg(fragment, SlotOf(a)));
      MergeState(w_, r.op, a.fragments, SlotOf(a), state);
    });
  });
}

}  // namespace seam::kernel
