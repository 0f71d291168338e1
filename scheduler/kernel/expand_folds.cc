// Reductions: a thread folds its own elements, then lanes exchange their states by shuffles, warps
// through shared memory, and the CTAs of a cluster through that of each of them.
#include <algorithm>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {

// Stores to another CTA move 4 or 8 bytes.
DType Expander::ExchangedType(DType dtype) {
  return DTypeBytes(dtype) >= 4 ? dtype : IsFloat(dtype) ? DType::F32 : DType::I32;
}

Expander::Accumulator Expander::NewAccumulator(int id) {
  const TileReduction& r = tile_.reductions[id];
  Accumulator a{id, {}};
  const bool each_column = r.over == Over::Rows, of_sections = r.over == Over::Sections;
  const int64_t points = registers_ * vector_ + (has_ends_ ? ends_.registers : 0);
  const int slots = each_column && !outer_       ? static_cast<int>(points)
                    : each_column || of_sections ? static_cast<int>(registers_)
                    : DependsOn(SlotOf(a), v_)   ? vector_
                                                 : 1;
  for (int c = 0; c < NumComponents(r); ++c)
    a.fragments.push_back(w_.NewFragment("acc", ComponentType(r.op, r.dtype, c), slots));
  if (each_column) {
    OverUnits([&] { OverStates(a, [&] { SetNeutral(a); }); });
    AtEnds([&] { OverUnits([&] { SetNeutral(a); }); });
  } else if (of_sections) {
    OverUnits([&] { SetNeutral(a); });
  } else if (!IsKeptByStep(a)) {
    OverStates(a, [&] { SetNeutral(a); });
  }
  if (r.op == OpKind::Welford && each_column && !outer_ && !r.merge && r.predicate.is_same(1) &&
      !IsStreamed(a)) {
    a.rows = w_.NewFragment("rows", r.dtype, has_ends_ ? 2 : 1);
    for (int slot = 0; slot < (has_ends_ ? 2 : 1); ++slot)
      w_.Set(a.rows, slot, OpKind::Copy, {BlockWriter::Number(r.dtype, 0)});
  }
  if (r.op == OpKind::Welford && r.over == Over::Columns) {
    a.pivot = w_.NewFragment("pivot", r.dtype, RowSlots());
    a.merges = r.merge;
    OverRowSlots(
        [&] { w_.Set(a.pivot, RowSlot(), OpKind::Copy, {BlockWriter::Number(r.dtype, 0)}); });
  }
  if (r.exponential) {
    a.top = w_.NewFragment("top", r.dtype, RowSlots());
    a.terms = w_.NewFragment("terms", r.dtype, RowSlots());
  }
  if (a.shifts_elements()) {
    a.sum = w_.NewFragment("sum", r.dtype, RowSlots());
    a.squares = w_.NewFragment("squares", r.dtype, RowSlots());
  }
  return a;
}

// Of rows of a single column, whose element all of a row's threads have: its state, and nothing
// to fold. Where that is all there is to fold, tickets and rows to come wait for it as ever.
bool Expander::IsOfOneElement(const TileReduction& r) const {
  const auto single = [&](const TileReduction& reduction) {
    return tile_.spaces[tile_.passes[reduction.pass].space].extent.is_same(1);
  };
  return r.over == Over::Columns && single(r) && options_.split == 1 && !has_ends_ && !r.merge &&
         !r.exponential && r.op != OpKind::Welford && r.neighbours == 1 && !r.apart &&
         absl::c_any_of(tile_.reductions, [&](const TileReduction& other) {
           return other.over == Over::Columns && !single(other);
         });
}

void Expander::SetNeutral(const Accumulator& a) {
  const TileReduction& r = tile_.reductions[a.id];
  const StateOperands neutral = NeutralState(r);
  for (size_t c = 0; c < a.fragments.size(); ++c)
    w_.Set(a.fragments[c], SlotOf(a), OpKind::Copy, {neutral[c]});
}

// Float sums along a row of many steps add up each step's terms first: an error grows with the
// terms of a step and the number of steps, not with their product.
bool Expander::IsSummedByStep(const Accumulator& a) const {
  const TileReduction& r = tile_.reductions[a.id];
  return r.op == OpKind::Sum && IsFloat(r.dtype) &&
         (r.over == Over::Columns || (r.over == Over::SomeColumns && !IsKeptByStep(a)));
}

// The slot of the point at hand.
SymInt Expander::SlotOf(const Accumulator& a) const {
  if (a.single) return 0;
  const Over over = tile_.reductions[a.id].over;
  if (over == Over::Sections || (over == Over::Rows && outer_)) return u_;
  if (over == Over::Rows) return slot_ + u_ * vector_ + v_;
  if (over == Over::SomeColumns && !outer_)
    return kept_.at(a.id).window.per_state == 1 ? v_ : SymInt(0);
  return RowSlot();
}

// The operand where the column is inside, `neutral` elsewhere.
Operand Expander::Masked(Operand value, Operand neutral, std::optional<Operand> inside,
                         DType dtype) {
  return inside ? w_.Make(dtype, OpKind::Where, {*inside, value, neutral}) : value;
}

std::optional<Operand> Expander::InsideFlag(SymInt mask) {
  if (Decide(mask) == true) return std::nullopt;
  return w_.Index(DType::Bool, mask);
}

// Whether a thread meets the elements of a row in the order of their positions.
bool Expander::FoldsInOrder(const TileReduction& r) const {
  if (!IsArg(r.op) || r.merge || r.over != Over::Columns || has_ends_) return false;
  const int space = tile_.passes[r.pass].space;
  if (!spaces_[space].steps.is_same(1) && PassesBefore(r.pass) % 2 == 1) return false;
  return !tile_.spaces[space].column.is_symbolic() ||
         !DependsOn(r.position - tile_.spaces[space].column, tile_.spaces[space].column);
}

void Expander::Accumulate(Accumulator& a, std::optional<Operand> inside, SymImporter& importer) {
  const TileReduction& r = tile_.reductions[a.id];
  const StateOperands neutral = NeutralState(r);
  if (a.shifts_elements()) return AccumulateShifted(a, inside);
  if (a.top >= 0) return AddExponential(a, inside);
  StateOperands state;
  if (r.merge) {
    for (TileId id : r.operands) state.push_back(Read(id));
  } else {
    state =
        ElementState(r.op, r.dtype, Read(r.operands[0]),
                     IsArg(r.op) ? w_.Index(DType::I64, importer.Import(r.position)) : Operand{});
  }
  if (FoldsInOrder(r)) {
    // What is masked is not taken, wherever it is.
    state[0] = Masked(state[0], neutral[0], inside, r.dtype);
    return TakeLater(w_, r.op, a.fragments, SlotOf(a), state);
  }
  for (size_t c = 0; c < state.size(); ++c) {
    state[c] =
        Masked(state[c], neutral[c], inside, ComponentType(r.op, r.dtype, static_cast<int>(c)));
  }
  if (r.products) {
    const Operand second = r.operands[1] == r.operands[0]
                               ? state[0]
                               : Masked(Read(r.operands[1]), neutral[0], inside, r.dtype);
    w_.Set(a.fragments[0], SlotOf(a), OpKind::Fma,
           {state[0], second, Operand::Reg(a.fragments[0], SlotOf(a))});
    return;
  }
  if (a.weights) return AddToWelford(w_, a.fragments, SlotOf(a), state[0], *a.weights);
  if (a.merges) {
    const auto add = [&](int fragment, Operand more) {
      w_.Set(fragment, RowSlot(), OpKind::Add, {Operand::Reg(fragment, RowSlot()), more});
    };
    if (a.finds_pivot) {
      add(a.pivot, w_.Make(r.dtype, OpKind::Mul, {state[0], state[2]}));
    } else {
      MergeShifted(a, state[0], state[1], state[2]);
    }
    return add(a.fragments[2], state[2]);
  }
  MergeState(w_, r.op, a.fragments, SlotOf(a), state);
}

// One division for all columns: a row is in the states of all of them or of none.
void Expander::WeighRow(Accumulator& a) {
  if (a.rows < 0) return;
  const DType t = w_.dtype(a.rows);
  const Operand before = Operand::Reg(a.rows, at_ends_ ? 1 : 0);
  const Operand more =
      Masked(BlockWriter::Number(t, 1), BlockWriter::Number(t, 0), InsideFlag(row_mask_), t);
  a.weights = WeighWelford(w_, t, before, more);
  w_.Set(a.rows, before.slot, OpKind::Copy, {a.weights->total});
}

// From here on each column's state has its own count, as those of other threads have.
void Expander::CountRowsOfColumns(const Accumulator& a) {
  if (a.rows < 0) return;
  const auto count = [&](int slot) {
    OverUnits([&] {
      OverElements(
          [&] { w_.Set(a.fragments[2], SlotOf(a), OpKind::Copy, {Operand::Reg(a.rows, slot)}); });
    });
  };
  count(0);
  AtEnds([&] { count(1); });
}

// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983, shifted data.
void Expander::AccumulateShifted(const Accumulator& a, std::optional<Operand> inside) {
  const TileReduction& r = tile_.reductions[a.id];
  const DType t = r.dtype;
  const Operand zero = BlockWriter::Number(t, 0), pivot = Operand::Reg(a.pivot, RowSlot());
  const auto add = [&](int fragment, Operand value) {
    w_.Set(fragment, RowSlot(), OpKind::Add, {Operand::Reg(fragment, RowSlot()), value});
  };
  if (a.counts_each) Count(a, inside, 1);
  if (a.finds_pivot) return add(a.pivot, Masked(Read(r.operands[0]), zero, inside, t));
  const Operand deviation =
      Masked(w_.Make(t, OpKind::Sub, {Read(r.operands[0]), pivot}), zero, inside, t);
  add(a.sum, deviation);
  w_.Set(a.squares, RowSlot(), OpKind::Fma,
         {deviation, deviation, Operand::Reg(a.squares, RowSlot())});
}

// All rows have as many elements, and the first of a vector is inside if any is: one count does.
void Expander::Count(const Accumulator& a, std::optional<Operand> inside, int64_t elements) {
  const int count = a.fragments[2];
  const DType t = w_.dtype(count);
  const Operand more = Masked(BlockWriter::Number(t, static_cast<double>(elements)),
                              BlockWriter::Number(t, 0), inside, t);
  w_.Set(count, 0, OpKind::Add, {Operand::Reg(count), more});
}

// A step has sums of its own, as other sums have (IsSummedByStep).
void Expander::StartStep(Accumulator& a, SymInt mask) {
  a.whole = mask.is_same(1);
  a.counts_each = !outer_ && DependsOn(mask, v_);
  if (a.finds_pivot) return;
  const Operand zero = BlockWriter::Number(w_.dtype(a.sum), 0);
  OverRowSlots([&] {
    w_.Set(a.sum, RowSlot(), OpKind::Copy, {zero});
    w_.Set(a.squares, RowSlot(), OpKind::Copy, {zero});
  });
}

void Expander::EndStep(const Accumulator& a) {
  if (a.whole) Count(a, std::nullopt, registers_ * (outer_ ? 1 : vector_));
  if (a.finds_pivot) return;
  OverRowSlots([&] {
    for (const auto& [all, step] :
         {std::pair(a.fragments[0], a.sum), {a.fragments[1], a.squares}}) {
      w_.Set(all, RowSlot(), OpKind::Add,
             {Operand::Reg(all, RowSlot()), Operand::Reg(step, RowSlot())});
    }
  });
}

// The means of what a thread has of each of its rows in the first step; 0 where there is nothing or
// the mean is not finite, so that a row's infinities are its mean's. Of states, which may be of one
// element each, it takes several: with the first one for a pivot 33 of them lost 83 units of the
// last place of a variance, with the mean of eight 8, as Welford's own updates do.
void Expander::FindPivots(const std::vector<TileId>& ids, SpaceState& first,
                          std::vector<Accumulator>& accumulators) {
  std::vector<Accumulator> pivots;
  for (const Accumulator& a : accumulators) {
    if (a.pivot < 0) continue;
    pivots.push_back(a);
    pivots.back().finds_pivot = true;
  }
  // What is looked up there is not what later steps look up.
  if (!first.lets.empty()) std::swap(lets_, first.lets);
  ExpandStep(ids, first, pivots, {});
  if (!first.lets.empty()) std::swap(lets_, first.lets);
  for (const Accumulator& a : pivots) {
    const DType t = w_.dtype(a.pivot);
    const Operand zero = BlockWriter::Number(t, 0);
    const Operand part = Reciprocal(Operand::Reg(a.fragments[2]));
    OverRowSlots([&] { SetPivot(a, part); });
    const auto forget = [&](SymInt slot) { w_.Set(a.fragments[2], slot, OpKind::Copy, {zero}); };
    if (!a.merges) {
      forget(0);
    } else {
      OverRowSlots([&] { forget(RowSlot()); });
    }
  }
}

// From a sum to a mean.
void Expander::SetPivot(const Accumulator& a, Operand part) {
  const DType t = w_.dtype(a.pivot);
  const Operand mean = w_.Make(t, OpKind::Mul, {Operand::Reg(a.pivot, RowSlot()), part});
  const Operand finite = w_.Make(DType::Bool, OpKind::IsFinite, {mean});
  w_.Set(a.pivot, RowSlot(), OpKind::Where, {finite, mean, BlockWriter::Number(t, 0)});
}

// A state's mean, deviating from the pivot, as often as it has elements. One division for all
// states, and their means are rounded once, not with each merge.
void Expander::MergeShifted(const Accumulator& a, Operand mean, Operand m2, Operand count) {
  const DType t = w_.dtype(a.pivot);
  const SymInt slot = RowSlot();
  const Operand zero = BlockWriter::Number(t, 0);
  const Operand is_there = w_.Make(DType::Bool, OpKind::Gt, {count, zero});
  const Operand difference = w_.Make(t, OpKind::Sub, {mean, Operand::Reg(a.pivot, slot)});
  const Operand deviation = w_.Make(t, OpKind::Where, {is_there, difference, zero});
  const Operand weighted = w_.Make(t, OpKind::Mul, {count, deviation});
  w_.Set(a.fragments[0], slot, OpKind::Add, {Operand::Reg(a.fragments[0], slot), weighted});
  const Operand m2_sum = w_.Make(t, OpKind::Add, {Operand::Reg(a.fragments[1], slot), m2});
  w_.Set(a.fragments[1], slot, OpKind::Fma, {weighted, deviation, m2_sum});
}

// 1 over a count, of nothing 1: one division for all rows of a vector, which have as many elements.
Operand Expander::Reciprocal(Operand count) {
  const DType t = w_.dtype(count.fragment);
  const Operand one = BlockWriter::Number(t, 1);
  return w_.Make(t, OpKind::Div, {one, w_.Make(t, OpKind::Maximum, {count, one})});
}

// From sums of deviations to mean and squared deviations from it.
void Expander::Unshift(const Accumulator& a) {
  UnshiftBy(a, Reciprocal(Operand::Reg(a.fragments[2])));
}

void Expander::UnshiftBy(const Accumulator& a, Operand part) {
  const DType t = w_.dtype(a.pivot);
  const Operand zero = BlockWriter::Number(t, 0);
  const Operand count = Operand::Reg(a.fragments[2]);
  OverRowSlots([&] {
    const Operand sum = Operand::Reg(a.fragments[0], RowSlot());
    const Operand squares = Operand::Reg(a.fragments[1], RowSlot());
    const Operand shift = w_.Make(t, OpKind::Mul, {sum, part});
    const Operand less = w_.Make(t, OpKind::Neg, {shift});
    const Operand m2 = w_.Make(t, OpKind::Fma, {less, sum, squares});
    w_.Set(a.fragments[1], RowSlot(), OpKind::Maximum, {m2, zero});
    w_.Set(a.fragments[0], RowSlot(), OpKind::Add, {Operand::Reg(a.pivot, RowSlot()), shift});
    w_.Set(a.fragments[2], RowSlot(), OpKind::Copy, {count});
  });
}

bool Expander::FoldAcrossThreads(const std::vector<Accumulator>& accumulators) {
  const bool by_row = MergesByRow(accumulators);
  const bool one_warp = at_.column_warps == 1 && cluster_ == 1 && !by_row;
  const auto scatters = [&](const Accumulator& a) {
    return by_row && !tile_.reductions[a.id].exponential;
  };
  for (const Accumulator& a : accumulators) {
    if (!scatters(a)) FoldLanes(a, at_.column_lane_masks);
    states_[a.id] = a.fragments;
  }
  if (accumulators.empty() || one_warp) return false;
  if (cluster_ > 1 && !MergesByRow()) return FoldAcrossCluster(accumulators);
  // All reductions of a pass share one barrier. Index: [warp of the row][row within the CTA].
  const int64_t places = at_.column_warps * at_.rows_per_cta;
  // Behind a second barrier, where results go back to all threads, the place is free again.
  const int64_t turns = MergesByRow() ? 1 : fold_turns_;
  const SymInt origin = turns > 1 ? Mod(fold_turn_, turns) * places : SymInt(0);
  std::vector<std::vector<int>> shared(accumulators.size());
  const SymInt place = origin + at_.column_warp * at_.rows_per_cta + at_.row_local;
  for (size_t i = 0; i < accumulators.size(); ++i) {
    const Accumulator& a = accumulators[i];
    for (int fragment : a.fragments)
      shared[i].push_back(w_.NewShared("fold", w_.dtype(fragment), turns * places));
    if (scatters(a)) {
      ScatterLanes(a, shared[i], place);
    } else {
      LeaveStates(a, shared[i], place, SymEq(at_.column_lane, 0));
    }
  }
  if (tickets_ && !passed_on_) PassTicketOn(0);
  w_.Emit(CtaSync{});
  if (options_.grid > 0) CopyNextRows(false);
  if (MergesByRow()) {
    MergeByRow(accumulators, shared);
    return true;
  }
  // The compiler loads all states of an unrolled loop at once, of two such loops those of both:
  // beside the ends of rows there are no registers for that, where many CTAs share an SM, nor for
  // those of many warps.
  constexpr int kFew = 4, kMany = 16;
  for (size_t i = 0; i < accumulators.size(); ++i) {
    const bool many = i > 0 || at_.column_warps >= kMany;
    const int64_t at_once = many && has_ends_ && options_.grid == 0 ? kFew : INT64_MAX;
    MergeShared(accumulators[i], shared[i], at_.column_warps, origin, at_.rows_per_cta, at_once);
  }
  return true;
}

// The states of a thread's rows, by lanes where `leader` holds.
void Expander::LeaveStates(const Accumulator& a, const std::vector<int>& arrays, SymInt place,
                           SymInt leader) {
  for (size_t c = 0; c < arrays.size(); ++c) {
    OverRowSlots([&] {
      Store out{a.fragments[c], RowSlot()};
      out.space = Space::Shared;
      out.array = arrays[c];
      out.index = place;
      out.predicate = leader;
      w_.Emit(out);
    });
  }
}

// Folds the states of a vector of rows across lanes and leaves them in shared memory, where nothing
// else needs them: of two lanes each takes half of the rows, so that a vector costs about as many
// merges and shuffles as it has rows, and one for each further halving of the lanes.
//
//   lane 0   rows 0 1 2 3       0 1 of lanes 0, 1       0 of lanes 0 to 3
//   lane 1   rows 0 1 2 3  ->   2 3 of lanes 0, 1  ->   2 of lanes 0 to 3
//   lane 2   rows 0 1 2 3       0 1 of lanes 2, 3       1 of lanes 0 to 3
//   lane 3   rows 0 1 2 3       2 3 of lanes 2, 3       3 of lanes 0 to 3
void Expander::ScatterLanes(const Accumulator& a, const std::vector<int>& arrays, SymInt place) {
  const TileReduction& r = tile_.reductions[a.id];
  const bool counts = r.op == OpKind::Welford && r.over == Over::Columns;
  const SymInt whole = v_;
  const int vector = vector_;
  std::vector<int> masks = at_.column_lane_masks;
  SymInt first = 0;
  SymInt leader = 1;
  for (int mask : at_.column_lane_masks) {
    if (vector_ % 2 != 0) break;
    masks.erase(masks.begin());
    vector_ /= 2;
    v_ = vector_ > 1 ? out_.env->FreshSymbol("v", 0, vector_ - 1) : SymInt(0);
    const SymInt upper = Mod(FloorDiv(out_.thread_x, mask), 2);
    first += upper * vector_;
    MergeIntoRows(a, [&](int component, SymInt slot) {
      const int fragment = a.fragments[component];
      const DType t = w_.dtype(fragment);
      Operand given = Operand::Reg(fragment, slot);
      // The count of Welford's states, one for all rows, stays with both lanes.
      if (!counts || component < 2) {
        const Operand low = given, high = Operand::Reg(fragment, slot + vector_);
        const Operand is_upper = w_.Index(DType::Bool, SymEq(upper, 1));
        given = w_.Make(t, OpKind::Where, {is_upper, low, high});
        const Operand kept = w_.Make(t, OpKind::Where, {is_upper, high, low});
        w_.Set(fragment, slot, OpKind::Copy, {kept});
      }
      const Operand theirs = Operand::Reg(w_.NewFragment("s", t));
      w_.Emit(ShuffleXor{theirs.fragment, 0, given, mask});
      return theirs;
    });
  }
  FoldLanes(a, masks);
  for (int mask : masks) leader = SymAnd(leader, SymEq(Mod(FloorDiv(out_.thread_x, mask), 2), 0));
  LeaveStates(a, arrays, Substitute(place, whole, first + v_), leader);
  v_ = whole;
  vector_ = vector;
}

// So many states that lie in shared memory, an array for each component, from element [origin + row
// within the CTA] on: those of warps, [warp][row], of CTAs or of neighbouring rows. Of an element
// or a sum it may load few of them at once.
void Expander::MergeShared(const Accumulator& a, const std::vector<int>& arrays, int64_t states,
                           SymInt origin, int64_t stride, int64_t at_once) {
  const auto read = [&](int component, int fragment, SymInt to, SymInt slot, SymInt state) {
    const DType dtype = out_.shared[arrays[component]].dtype;
    const bool same = dtype == w_.dtype(fragment);
    Load load{same ? fragment : w_.NewFragment("s", dtype), same ? to : SymInt(0)};
    load.space = Space::Shared;
    load.array = arrays[component];
    load.index = origin + state * stride + Substitute(at_.row_local, v_, slot);
    w_.Emit(load);
    if (!same) w_.Set(fragment, to, OpKind::Cast, {Operand::Reg(load.fragment)});
  };
  const auto take_from = [&](int component, SymInt slot, SymInt state) {
    const int fragment = w_.NewFragment("s", w_.dtype(a.fragments[component]));
    read(component, fragment, 0, slot, state);
    return Operand::Reg(fragment);
  };
  if (tile_.reductions[a.id].exponential) return MergeOnline(a, states, take_from, {});
  if (a.pivot >= 0) return MergeAroundMean(a, states, take_from);
  OverRowSlots([&] {
    for (size_t c = 0; c < a.fragments.size(); ++c)
      read(static_cast<int>(c), a.fragments[c], RowSlot(), RowSlot(), 0);
  });
  const auto merge = [&](SymInt from, int64_t count) {
    const SymInt other = out_.env->FreshSymbol("w", 0, std::max<int64_t>(count, 1) - 1);
    w_.Loop(other, count, true, [&] {
      MergeIntoRows(
          a, [&](int component, SymInt slot) { return take_from(component, slot, from + other); });
    });
  };
  const int64_t turns = (states - 1) / at_once;
  if (turns > 0) {
    const SymInt turn = out_.env->FreshSymbol("part", 0, turns - 1);
    w_.Loop(
        turn, turns, false, [&] { merge(1 + at_once * turn, at_once); }, /*rolled=*/true);
  }
  const int64_t rest = (states - 1) % at_once;
  if (rest > 0) merge(states - rest, rest);
}

// Welford states that all are at hand: the pivot is the mean of all of them, by the division that
// the result takes as well.
void Expander::MergeAroundMean(const Accumulator& a, int64_t states,
                               absl::FunctionRef<Operand(int, SymInt, SymInt)> take) {
  const DType t = w_.dtype(a.pivot);
  const Operand zero = BlockWriter::Number(t, 0), count = Operand::Reg(a.fragments[2]);
  OverRowSlots([&] {
    for (int fragment : {a.pivot, a.fragments[0], a.fragments[1]})
      w_.Set(fragment, RowSlot(), OpKind::Copy, {zero});
  });
  w_.Set(a.fragments[2], 0, OpKind::Copy, {zero});
  const SymInt state = out_.env->FreshSymbol("w", 0, states - 1);
  w_.Loop(state, states, true, [&] {
    const Operand more = take(2, 0, state);
    OverRowSlots([&] {
      w_.Set(a.pivot, RowSlot(), OpKind::Fma,
             {take(0, RowSlot(), state), more, Operand::Reg(a.pivot, RowSlot())});
    });
    w_.Set(a.fragments[2], 0, OpKind::Add, {count, more});
  });
  const Operand part = Reciprocal(count);
  OverRowSlots([&] { SetPivot(a, part); });
  const SymInt again = out_.env->FreshSymbol("w", 0, states - 1);
  w_.Loop(again, states, true, [&] {
    const Operand more = take(2, 0, again);
    OverRowSlots(
        [&] { MergeShifted(a, take(0, RowSlot(), again), take(1, RowSlot(), again), more); });
  });
  UnshiftBy(a, part);
}

void Expander::FoldLanes(const Accumulator& a, const std::vector<int>& masks) {
  if (tile_.reductions[a.id].exponential) {
    const auto own = [&](int component, SymInt slot, SymInt) {
      return Operand::Reg(a.fragments[component], slot);
    };
    if (!masks.empty()) MergeOnline(a, 1, own, masks);
    return;
  }
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
      const Operand lower = w_.Index(DType::Bool, SymEq(Mod(FloorDiv(out_.thread_x, mask), 2), 0));
      const Operand second = w_.Make(t, OpKind::Where, {lower, theirs, mine});
      const Operand first = w_.Make(t, OpKind::Where, {lower, mine, theirs});
      w_.Set(fragment, slot, OpKind::Copy, {first});
      return second;
    });
  }
}

// Of each of a thread's vectors the lanes that have the rest of its section exchange their states.
void Expander::FoldSections(const Accumulator& a) {
  const TileReduction& r = tile_.reductions[a.id];
  const int64_t lanes = r.section / vector_;
  OverUnits([&] {
    for (int mask : at_.column_lane_masks) {
      if (mask >= lanes) break;
      StateOperands theirs;
      for (int fragment : a.fragments) {
        theirs.push_back(Operand::Reg(w_.NewFragment("s", w_.dtype(fragment))));
        w_.Emit(ShuffleXor{theirs.back().fragment, 0, Operand::Reg(fragment, u_), mask});
      }
      MergeState(w_, r.op, a.fragments, u_, theirs);
    }
  });
  states_[a.id] = a.fragments;
}

// The fragment as stores to other CTAs move it.
int Expander::Exchanged(int fragment) {
  const DType dtype = ExchangedType(w_.dtype(fragment));
  if (dtype == w_.dtype(fragment)) return fragment;
  return w_.Make(dtype, OpKind::Cast, {Operand::Reg(fragment)}).fragment;
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
bool Expander::FoldAcrossCluster(const std::vector<Accumulator>& accumulators) {
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
      RemoteStore out{Exchanged(fragment), 0, array};
      out.index = origin + rank_ * at_.column_warps + at_.column_warp;
      out.predicate = SymLt(at_.column_lane, cluster_);
      out.cta = Mod(at_.column_lane, cluster_);
      out.barrier = barrier;
      w_.Emit(out);
    }
  }
  if (tickets_ && !passed_on_) bytes += PassTicketOn(barrier);
  w_.Emit(AwaitStores{barrier, FloorDiv(fold_turn_, fold_turns_), bytes});
  const bool synchronized = !passed_on_ && !ReadsUntilTheEnd();
  if (synchronized) w_.Emit(CtaSync{});
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
    const StateOperands neutral = NeutralState(r);
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
    if (r.exponential) {
      const auto take = [&](int component, SymInt, SymInt nth) {
        const int fragment = w_.NewFragment("s", r.dtype);
        read(component, fragment, nth * lanes + lane);
        return Operand::Reg(fragment);
      };
      MergeOnline(a, each, take, masks);
      continue;
    }
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
  return synchronized;
}

void Expander::StorePartial(int id, const std::vector<int>& fragments) {
  if (!LeavesParts(id)) return;
  if (tile_.reductions[id].together > 1) return StoreTogether(id, fragments);
  const bool apart = tile_.reductions[id].apart;
  for (size_t c = 0; c < fragments.size(); ++c) {
    Store out{fragments[c], RowSlot()};
    out.array = options_.partials[id][c];
    out.index = (apart ? rank_ : part_) * rows_ + at_.row;
    out.predicate = SymAnd(apart ? FirstOfRow() : Leader(), row_mask_);
    if (outer_) {
      EmitForVector(out);
    } else {
      w_.Emit(out);
    }
  }
}

// The states of neighbouring rows, of which a thread has a vector and the lanes beside it the
// others, as one.
void Expander::StoreTogether(int id, const std::vector<int>& fragments) {
  const TileReduction& r = tile_.reductions[id];
  const Accumulator a{id, fragments};
  const int64_t slots = RowSlots(), each = std::min<int64_t>(r.together, slots);
  for (int64_t slot = 0; slot < slots; ++slot) {
    if (slot % each == 0) continue;
    StateOperands other;
    for (int fragment : fragments) other.push_back(Operand::Reg(fragment, slot));
    MergeState(w_, r.op, fragments, slot - slot % each, other);
  }
  const auto lanes = static_cast<size_t>(r.together / each);
  std::vector<int> masks;
  while (size_t{1} << masks.size() < lanes) masks.push_back(at_.row_lane_masks[masks.size()]);
  // Slots that have been merged into others hold nothing that is wanted any more.
  FoldLanes(a, masks);
  for (int64_t slot = 0; slot < slots; slot += each) {
    const auto of_slot = [&](SymInt e) { return Substitute(e, v_, slot); };
    const SymInt first = SymEq(Mod(of_slot(at_.row_local), r.together), 0);
    for (size_t c = 0; c < fragments.size(); ++c) {
      Store out{fragments[c], slot};
      out.array = options_.partials[id][c];
      out.index = FloorDiv(of_slot(at_.row), r.together);
      out.predicate = SymAnd(SymAnd(Leader(), first), of_slot(row_mask_));
      w_.Emit(out);
    }
  }
}

}  // namespace seam::kernel
