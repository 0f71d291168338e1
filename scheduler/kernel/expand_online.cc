// A maximum and the sum of exponentials of what the elements lack of it, in one pass. A thread has
// the maximum m of what it has seen and the sum s of exp(a - m) over that; where the maximum grows
// the sum shrinks. Each step takes the maximum of its elements first:
//
//   step    top = max(a, ...)             over the step's elements, in registers
//           s *= exp(m - max(m, top))     once a step, not once an element
//           m = max(m, top)
//           s += sum(exp(a - m), ...)     over the same elements
//
// States are merged in the same way: the maximum of all of them first, then their sums, each shrunk
// once. Partial states from memory are the elements of a step.
//
// While m is -infinity exponentials are taken of a itself: all are zero, none is NaN. The sum of a
// whole row is NaN if its maximum is infinite, as that of exp(a - m) is.
// Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {

void Expander::FoldStep(const std::vector<TileId>& ids, SpaceState& space,
                        std::vector<Accumulator>& accumulators,
                        const std::vector<const TileStore*>& stores) {
  std::vector<Accumulator> tops;
  for (const Accumulator& a : accumulators) {
    if (a.top >= 0) tops.push_back(a);
  }
  if (!tops.empty()) FindTops(ids, space, tops);
  ExpandStep(ids, space, accumulators, stores);
  step_loads_.clear();
  for (const Accumulator& a : tops) {
    OverRowSlots([&] {
      w_.Set(a.fragments[1], RowSlot(), OpKind::Add,
             {Operand::Reg(a.fragments[1], RowSlot()), Operand::Reg(a.terms, RowSlot())});
    });
  }
}

// Loads all that the step loads, but computes only what the maxima need.
void Expander::FindTops(const std::vector<TileId>& ids, SpaceState& space,
                        std::vector<Accumulator> tops) {
  std::vector<bool> needed(tile_.values.size());
  for (Accumulator& a : tops) {
    a.finds_top = true;
    needed[tile_.reductions[a.id].operands[0]] = true;
    const Operand none = NeutralState(tile_.reductions[a.id])[0];
    OverRowSlots([&] { w_.Set(a.top, RowSlot(), OpKind::Copy, {none}); });
  }
  std::vector<TileId> first;
  for (size_t i = ids.size(); i-- > 0;) {
    const TileId id = ids[i];
    const TileValue& value = tile_.values[id];
    if (!needed[id] && (levels_[id] <= Level::kRow || !IsLoadedFirst(id, space))) continue;
    first.push_back(id);
    for (TileId operand : value.operands) needed[operand] = true;
    for (int let : value.lets) needed[tile_.lets[let].value] = true;
  }
  absl::c_reverse(first);
  loads_again_ = true;
  ExpandStep(first, space, tops, {});
  loads_again_ = false;
  // The next time is not to use what this one has unpacked.
  for (const auto* loads : {&space.resident, &next_step_.fragments, &step_loads_}) {
    for (const auto& [id, fragment] : *loads) EmitKeepPacked(fragment);
  }
  for (const Accumulator& a : tops) {
    const TileReduction& r = tile_.reductions[a.id];
    const DType t = r.dtype;
    const Operand zero = BlockWriter::Number(t, 0), none = NeutralState(r)[0];
    OverRowSlots([&] {
      const SymInt slot = RowSlot();
      const Operand before = Operand::Reg(a.fragments[0], slot);
      const Operand max = w_.Make(t, OpKind::Maximum, {before, Operand::Reg(a.top, slot)});
      // The first step has nothing to shrink.
      if (space.step.is_symbolic() || at_ends_) {
        const Operand factor = Shrinkage(a.id, before, max);
        w_.Set(a.fragments[1], slot, OpKind::Mul, {Operand::Reg(a.fragments[1], slot), factor});
      }
      const Operand empty = w_.Make(DType::Bool, OpKind::Eq, {max, none});
      w_.Set(a.top, slot, OpKind::Where, {empty, zero, max});
      w_.Set(a.terms, slot, OpKind::Copy, {zero});
      w_.Set(a.fragments[0], slot, OpKind::Copy, {max});
    });
  }
}

void Expander::AddExponential(const Accumulator& a, std::optional<Operand> inside) {
  const TileReduction& r = tile_.reductions[a.id];
  const Operand top = Operand::Reg(a.top, RowSlot()), element = Read(r.operands[0]);
  if (a.finds_top) {
    const Operand value = Masked(element, NeutralState(r)[0], inside, r.dtype);
    return w_.Set(a.top, RowSlot(), OpKind::Maximum, {top, value});
  }
  const Operand term = Operand::Reg(w_.NewFragment("t", r.dtype));
  if (r.merge) {
    w_.Set(term.fragment, 0, OpKind::Mul, {Read(r.operands[1]), Shrinkage(a.id, element, top)});
  } else {
    const Operand lack = w_.Make(r.dtype, OpKind::Sub, {element, top});
    EmitTerm(a.id, term.fragment, lack);
  }
  w_.Set(a.terms, RowSlot(), OpKind::Add,
         {Operand::Reg(a.terms, RowSlot()),
          Masked(term, BlockWriter::Number(r.dtype, 0), inside, r.dtype)});
}

// By which a sum shrinks where its maximum grows; 0 where there was none yet, or nothing but
// -infinity, whatever the new one is.
Operand Expander::Shrinkage(int id, Operand before, Operand after) {
  const TileReduction& r = tile_.reductions[id];
  const Operand empty = w_.Make(DType::Bool, OpKind::Eq, {before, NeutralState(r)[0]});
  const Operand growth = w_.Make(r.dtype, OpKind::Sub, {before, after});
  const Operand factor = Operand::Reg(w_.NewFragment("t", r.dtype));
  EmitTerm(id, factor.fragment, growth);
  return w_.Make(r.dtype, OpKind::Where, {empty, BlockWriter::Number(r.dtype, 0), factor});
}

// The exponential of what is 0 at most, and 0 for an element or a state beside it.
void Expander::EmitTerm(int id, int fragment, Operand lack) {
  Precision precision = Precision::kFull;  // Of a state that is finished elsewhere.
  for (size_t i = 0; i < tile_.values.size(); ++i) {
    const TileValue& value = tile_.values[i];
    if (value.kind == TileKind::ReduceResult && value.reduction == id && value.component == 1)
      precision = precisions_[i];
  }
  w_.Emit(Map{*tile_.reductions[id].exponential, fragment, 0, {lack}, precision});
}

// Sets the state to that of so many, whose components `take` brings by row slot and number, and of
// those of the lanes that `masks` tell apart. All lanes get the same bits.
void Expander::MergeOnline(const Accumulator& a, int64_t states,
                           const std::function<Operand(int, SymInt, SymInt)>& take,
                           const std::vector<int>& masks) {
  const TileReduction& r = tile_.reductions[a.id];
  const StateOperands neutral = NeutralState(r);
  const SymInt nth = states > 1 ? out_.env->FreshSymbol("nth", 0, states - 1) : SymInt(0);
  const auto over_states = [&](auto body) {
    if (states == 1) return body();
    w_.Loop(nth, states, true, body);
  };
  OverRowSlots([&] {
    const Operand top = w_.Make(r.dtype, OpKind::Copy, {neutral[0]});
    const Operand sum = w_.Make(r.dtype, OpKind::Copy, {neutral[1]});
    const auto over_lanes = [&](OpKind op, Operand mine) {
      for (int mask : masks) {
        const Operand theirs = Operand::Reg(w_.NewFragment("s", r.dtype));
        w_.Emit(ShuffleXor{theirs.fragment, 0, mine, mask});
        w_.Set(mine.fragment, 0, op, {mine, theirs});
      }
    };
    over_states([&] { w_.Set(top.fragment, 0, OpKind::Maximum, {top, take(0, RowSlot(), nth)}); });
    over_lanes(OpKind::Maximum, top);
    over_states([&] {
      const Operand factor = Shrinkage(a.id, take(0, RowSlot(), nth), top);
      w_.Set(sum.fragment, 0, OpKind::Fma, {take(1, RowSlot(), nth), factor, sum});
    });
    over_lanes(OpKind::Add, sum);
    w_.Set(a.fragments[0], RowSlot(), OpKind::Copy, {top});
    w_.Set(a.fragments[1], RowSlot(), OpKind::Copy, {sum});
  });
}

// Of a whole row: nothing is added to the sum if the maximum is a number, NaN if it is not.
void Expander::FinishSum(const Accumulator& a) {
  if (!tile_.reductions[a.id].exponential || LeavesParts(a.id)) return;
  OverRowSlots([&] {
    w_.Set(
        a.fragments[1], RowSlot(), OpKind::Fma,
        {Operand::Reg(a.fragments[0], RowSlot()), BlockWriter::Number(w_.dtype(a.fragments[0]), 0),
         Operand::Reg(a.fragments[1], RowSlot())});
  });
}

}  // namespace seam::kernel
