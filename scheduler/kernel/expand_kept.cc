// Reductions that keep some of a row's columns: threads leave the states of theirs in shared
// memory, and behind a barrier lanes fold, in the order of the columns, those that belong to one
// kept column. A row leaves a state for each of these in global memory.
//
//   columns   | 0 0 0 0 1 1 1 1 2 2 2 2 | 0 0 0 0 1 ...      a: which block of kept columns
//              a = 0                     a = 1               l: block of columns of one kept column
//              l=0      l=1     l=2      l=3
//
// Where a row takes several steps and each has states of its own, they are folded into those that
// the steps before have left.
#include <algorithm>
#include <vector>

#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

constexpr int kUnrolled = 16;

// Lanes that fold a kept column's `entries` together, for `items` of them and so many threads:
// those with which it takes the fewest steps, an exchange counted as two.
int FoldLanesFor(SymInt entries, SymInt items, int threads) {
  if (!entries.is_constant() || !items.is_constant()) return 8;
  const int64_t each = *entries.maybe_int(), all = *items.maybe_int();
  int best = 1, exchanges = 0;
  int64_t least = INT64_MAX;
  for (int lanes = 1; lanes <= 32; lanes *= 2, ++exchanges) {
    const int64_t at_once = threads / lanes;
    const int64_t steps =
        (all + at_once - 1) / at_once * ((each + lanes - 1) / lanes + 2 * exchanges);
    if (steps < least) best = lanes;
    least = std::min(least, steps);
  }
  return best;
}

}  // namespace

void Expander::PrepareKept() {
  for (size_t i = 0; i < tile_.reductions.size(); ++i) {
    const TileReduction& r = tile_.reductions[i];
    if (r.over != Over::SomeColumns) continue;
    KeptFold fold{base_->Import(r.kept), base_->Import(r.inner), {}, {}};
    fold.window =
        KeptWindowOf(fold.kept, fold.inner, outer_ ? 1 : vector_, CtaColumns(), registers_);
    for (int c = 0; c < NumComponents(r); ++c) {
      fold.arrays.push_back(w_.NewShared("kept", ComponentType(r.op, r.dtype, c),
                                         fold.window.states() * at_.rows_per_cta));
    }
    kept_.emplace(static_cast<int>(i), std::move(fold));
  }
}

bool Expander::IsKeptByStep(const Accumulator& a) const {
  const auto fold = kept_.find(a.id);
  return fold != kept_.end() && fold->second.window.by_step;
}

// Nobody may still read the states of the step or turn before.
void Expander::AwaitKept(const std::vector<Accumulator>& accumulators, bool again) {
  if (again && std::any_of(accumulators.begin(), accumulators.end(),
                           [&](const Accumulator& a) { return IsKeptByStep(a); })) {
    w_.Emit(CtaSync{});
  }
}

// A thread's states of the vector at hand, or of its columns in all registers.
void Expander::LeaveKept(const Accumulator& a) {
  const KeptFold& fold = kept_.at(a.id);
  SymInt place = at_.column - rank_ * CtaColumns();
  if (!fold.window.by_step) place = Substitute(place, u_, 0);
  if (fold.window.per_state > 1) place = FloorDiv(Substitute(place, v_, 0), fold.window.per_state);
  for (size_t c = 0; c < a.fragments.size(); ++c) {
    Store out{a.fragments[c], SlotOf(a)};
    out.space = Space::Shared;
    out.array = fold.arrays[c];
    out.index = place * at_.rows_per_cta + at_.row_local;
    if (DependsOn(out.slot, v_)) {
      EmitForVector(out);
    } else {
      w_.Emit(out);
    }
  }
}

void Expander::LeaveAfterSteps(const std::vector<Accumulator>& accumulators) {
  bool first = true;
  for (const Accumulator& a : accumulators) {
    if (IsKeptByStep(a)) continue;
    if (first && options_.grid > 0) w_.Emit(CtaSync{});
    first = false;
    LeaveKept(a);
  }
}

// Behind a barrier: those with the same kept columns together.
void Expander::FoldKept(const std::vector<Accumulator>& accumulators, int pass) {
  std::vector<bool> done(accumulators.size());
  for (size_t i = 0; i < accumulators.size(); ++i) {
    if (done[i]) continue;
    const KeptFold& fold = kept_.at(accumulators[i].id);
    std::vector<int> alike;
    for (size_t k = i; k < accumulators.size(); ++k) {
      const KeptFold& other = kept_.at(accumulators[k].id);
      if (!other.kept.is_same(fold.kept) || !other.inner.is_same(fold.inner)) continue;
      done[k] = true;
      alike.push_back(accumulators[k].id);
    }
    FoldAlike(fold, alike, pass);
  }
}

void Expander::FoldAlike(const KeptFold& fold, const std::vector<int>& reductions, int pass) {
  const SpaceState& space = spaces_[tile_.passes[pass].space];
  const SymInt kept = fold.kept, inner = fold.inner;
  const int per_state = fold.window.per_state;
  const int64_t rows = at_.rows_per_cta;
  const bool steps = fold.window.by_step && !space.steps.is_same(1);
  // The blocks of columns, each of one kept column, that lie in the window: from `first` on, so
  // many and no more than `most`. A row, or what is the same in all registers, lies there whole.
  const bool whole = !steps && (cluster_ == 1 || !fold.window.by_step);
  const SymInt window = fold.window.columns;
  const SymInt all = CeilDiv(fold.window.by_step ? space.extent : window, inner);
  SymInt begin = 0, first = 0, blocks = all, most = all, units = FloorDiv(inner, per_state);
  if (!whole) {
    begin = rank_ * CtaColumns();
    if (steps) begin += space.step * options_.columns_per_step;
    first = FloorDiv(begin, inner);
    blocks = Max(Min(CeilDiv(begin + window, inner), all) - first, 0);
    most = Min(all, CeilDiv(window, inner) + (Mod(window, inner).is_same(0) ? 0 : 1));
    units = FloorDiv(Min(inner, window), per_state);
  }
  const SymInt entries = CeilDiv(most, kept) * units, items = Min(kept, most) * rows;
  // Whether a step before has left the state of a column.
  const bool backward = PassesBefore(pass) % 2 == 1;
  const auto is_there = [&](SymInt column) {
    if (!steps) return SymInt(0);
    if (cluster_ > 1) return backward ? SymLt(space.step, space.steps - 1) : SymGt(space.step, 0);
    return backward ? SymGt(space.extent - (kept - 1 - column) * inner, begin + window)
                    : SymLt(column * inner, begin);
  };
  if (!whole && cluster_ > 1)
    LeaveNeutral(reductions, kept, [&](SymInt column) {
      return SymAnd(SymGe(Mod(column - first, kept), blocks), SymNot(is_there(column)));
    });

  const int lanes = FoldLanesFor(entries, items, out_.threads);
  const int64_t teams = 32 / lanes, all_teams = out_.threads / lanes;
  const SymInt lane = Mod(out_.thread_x, 32);
  // Lanes to what lies beside each other: a kept column's states, or the next one's or row's.
  const bool beside = rows > 1 || units.is_same(1);
  const SymInt member = beside ? FloorDiv(lane, teams) : Mod(lane, lanes);
  const SymInt team =
      FloorDiv(out_.thread_x, 32) * teams + (beside ? Mod(lane, teams) : FloorDiv(lane, lanes));
  std::vector<int> masks;
  for (int bit = 1; bit < lanes; bit *= 2)
    masks.push_back(beside ? bit * static_cast<int>(teams) : bit);

  const auto fold_item = [&](SymInt item) {
    const SymInt row_local = Mod(item, rows), row = at_.row - at_.row_local + row_local;
    const SymInt number = FloorDiv(item, rows), block = first + number;
    const SymInt column = first.is_same(0) ? block : Mod(block, kept);
    SymInt leads = SymAnd(SymLt(item, items), SymEq(member, 0));
    if (!whole) leads = SymAnd(leads, SymLt(number, blocks));
    if (rows > 1) leads = SymAnd(leads, IsThere(row));
    const SymInt to = (row * cluster_ + rank_) * kept + column;
    std::vector<Accumulator> states;
    for (int id : reductions) {
      const TileReduction& r = tile_.reductions[id];
      const StateOperands neutral = NeutralState(r);
      Accumulator a{id, {}};
      a.single = true;
      for (int c = 0; c < NumComponents(r); ++c) {
        a.fragments.push_back(w_.NewFragment("kept", ComponentType(r.op, r.dtype, c)));
        if (!steps) continue;
        Load load{a.fragments.back(), 0};
        load.array = options_.partials[id][c];
        load.index = to;
        load.predicate = SymAnd(leads, is_there(column));
        load.fill = neutral[c].constant;
        w_.Emit(load);
      }
      if (!steps) SetNeutral(a);
      states.push_back(std::move(a));
    }
    const auto fold_entry = [&](SymInt entry) {
      const SymInt at = block + FloorDiv(entry, units) * kept;
      const SymInt start = at * inner - begin, unit = Mod(entry, units);
      const SymInt place = whole ? start : Max(start, 0);
      SymInt there = SymLt(entry, entries);
      if (!whole) {
        const SymInt end = Min(start + inner, window);
        there =
            SymAnd(SymAnd(there, SymLt(at - first, blocks)), SymLt(place + unit * per_state, end));
      }
      there = SymAnd(there, SymLt(item, items));
      for (const Accumulator& a : states) {
        const TileReduction& r = tile_.reductions[a.id];
        const StateOperands neutral = NeutralState(r);
        StateOperands state;
        for (size_t c = 0; c < a.fragments.size(); ++c) {
          Load load{w_.NewFragment("s", w_.dtype(a.fragments[c])), 0};
          load.space = Space::Shared;
          load.array = kept_.at(a.id).arrays[c];
          load.index = (FloorDiv(place, per_state) + unit) * rows + row_local;
          load.predicate = there;
          load.fill = neutral[c].constant;
          w_.Emit(load);
          state.push_back(Operand::Reg(load.fragment));
        }
        MergeState(w_, r.op, a.fragments, 0, state);
      }
    };
    const SymInt rounds = CeilDiv(entries, lanes);
    const SymInt entry = out_.env->FreshSymbol("entry", 0, rounds - 1);
    const bool few = rounds.is_constant() && *rounds.maybe_int() <= kUnrolled;
    w_.Loop(entry, rounds, few, [&] { fold_entry(member + entry * lanes); });
    for (const Accumulator& a : states) {
      FoldLanes(a, masks);
      StoreKept(a, to, leads);
    }
  };
  const SymInt rounds = CeilDiv(items, all_teams);
  if (rounds.is_same(1)) return fold_item(team);
  const SymInt item = out_.env->FreshSymbol("item", 0, rounds - 1);
  w_.Loop(item, rounds, false, [&] { fold_item(team + item * all_teams); });
}

// The CTAs of a cluster leave states of all columns, neutral ones where they have none of them.
template <typename Predicate>
void Expander::LeaveNeutral(const std::vector<int>& reductions, SymInt kept, Predicate predicate) {
  const SymInt turn = out_.env->FreshSymbol("other", 0, CeilDiv(kept, out_.threads) - 1);
  w_.Loop(turn, CeilDiv(kept, out_.threads), false, [&] {
    const SymInt column = out_.thread_x + turn * out_.threads;
    for (int id : reductions) {
      const TileReduction& r = tile_.reductions[id];
      Accumulator none{id, {}};
      none.single = true;
      for (int c = 0; c < NumComponents(r); ++c)
        none.fragments.push_back(w_.NewFragment("none", ComponentType(r.op, r.dtype, c)));
      SetNeutral(none);
      StoreKept(none, (at_.row * cluster_ + rank_) * kept + column,
                SymAnd(SymLt(column, kept), predicate(column)));
    }
  });
}

void Expander::StoreKept(const Accumulator& a, SymInt to, SymInt predicate) {
  for (size_t c = 0; c < a.fragments.size(); ++c) {
    Store out{a.fragments[c], 0};
    out.array = options_.partials[a.id][c];
    out.index = to;
    out.predicate = predicate;
    w_.Emit(out);
  }
}

}  // namespace seam::kernel
