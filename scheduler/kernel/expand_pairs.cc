// Largest and smallest of 16-bit data: folded as they lie in memory, two elements of a word at
// once, and unpacked once a pass.
//
//   a vector   | a b | c d | e f | g h |       each word with that of the vectors before
//   the last   | a b | c d | <- | e f | g h |  then halves with halves
//              | a b | <- | c d |
//              max(a, b)                       in the type of the reduction
#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

OpKind OfTwo(OpKind reduction) {
  return reduction == OpKind::Max ? OpKind::Maximum : OpKind::Minimum;
}

}  // namespace

// Of what a load gives, perhaps in a wider type: the largest is the same one there. Where rows stay
// in registers it was no faster, since memory is what these wait for, and in clusters slower: a
// softmax of 65,536 columns 0.97 to 0.92 of a copy's speed, of 262,144, which is read again from
// shared memory, 0.91 to 0.92.
void Expander::OpenPairs(Accumulator& a) {
  const TileReduction& r = tile_.reductions[a.id];
  const bool stays = spaces_[tile_.passes[r.pass].space].persistent && !options_.reread;
  if (stays || outer_ || vector_ < 2 || (r.op != OpKind::Max && r.op != OpKind::Min) || r.merge ||
      r.exponential || !r.predicate.is_same(1)) {
    return;
  }
  const TileId load = LoadUnderCasts(r.operands[0]);
  if (load < 0 || levels_[load] != Level::kElement) return;
  const TileValue& operand = tile_.values[r.operands[0]];
  const bool is_cast = operand.kind == TileKind::Map && operand.operands[0] == load;
  const DType dtype = tile_.values[load].dtype;
  if ((dtype != DType::BF16 && dtype != DType::F16) || (r.operands[0] != load && !is_cast)) return;
  a.pairs = w_.NewFragment("pairs", dtype, static_cast<int>(vector_), /*packed=*/true);
  const Operand neutral = Operand::Const(dtype, NeutralState(r)[0].constant);
  OverElements([&] { w_.Set(a.pairs, v_, OpKind::Copy, {neutral}); });
}

// Whether the vector at hand, all of which counts, goes to the pairs: if it is packed. It then has.
bool Expander::AccumulatePairs(const Accumulator& a) {
  if (a.pairs < 0 || at_ends_) return false;
  const TileReduction& r = tile_.reductions[a.id];
  const Operand loaded = Read(LoadUnderCasts(r.operands[0]));
  if (!out_.fragments[loaded.fragment].packed) return false;
  OverElements([&] { w_.Set(a.pairs, v_, OfTwo(r.op), {Operand::Reg(a.pairs, v_), loaded}); });
  paired_.insert(a.id);
  return true;
}

// A vector has a power of two of elements.
void Expander::FoldPairs(const Accumulator& a) {
  if (!paired_.contains(a.id)) return;
  const TileReduction& r = tile_.reductions[a.id];
  for (int64_t left = vector_ / 2; left >= 2; left /= 2) {
    const SymInt at = out_.env->FreshSymbol("pair", 0, left - 1);
    w_.Loop(at, left, /*unrolled=*/true, [&] {
      w_.Set(a.pairs, at, OfTwo(r.op),
             {Operand::Reg(a.pairs, at), Operand::Reg(a.pairs, at + left)});
    });
  }
  for (int e = 0; e < 2; ++e) {
    const Operand wide = w_.Make(r.dtype, OpKind::Cast, {Operand::Reg(a.pairs, e)});
    MergeState(w_, r.op, a.fragments, SlotOf(a), {wide});
  }
}

}  // namespace seam::kernel
