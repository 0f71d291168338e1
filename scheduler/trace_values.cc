// One value at one point: what an operation needs of its operands for its result at an index. A
// view only changes the index.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/kernel/reduction_state.h"
#include "scheduler/reshape_map.h"
#include "scheduler/tracer.h"

namespace seam {

using kernel::TileId;
using kernel::TileKind;
using kernel::TileValue;

// `v` at `index`, wanted where `predicate` holds (elsewhere any value will do, but nothing may be
// read).
absl::StatusOr<TileId> Tracer::At(ValId v, const Index& index, SymInt predicate) {
  if (predicate.is_same(0)) return Constant(group_.dtype(v), Zero(group_.dtype(v)));
  v = first_alike_[v.index()];
  std::string key;
  auto append = [&](uint64_t bits) {
    key.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  };
  append(v.index());
  append(predicate.bits());
  for (SymInt i : index) append(i.bits());
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  if (tile_.values.size() > kMaxTileValues) {
    return absl::ResourceExhaustedError(absl::StrCat("group ", std::string(group_.name()),
                                                     ": value ", std::string(group_.name(v)),
                                                     " would be computed at too many places"));
  }
  SEAM_ASSIGN_OR_RETURN(TileId id, Compute(v, index, predicate));
  memo_.emplace(std::move(key), id);
  return id;
}

bool Tracer::IsWithin(ValId v, const Index& index) {
  for (int d = 0; d < group_.rank(v); ++d) {
    const SymInt inside = SymAnd(SymGe(index[d], 0), SymLt(index[d], Extent(v, d)));
    if (Decide(inside) != true) return false;
  }
  return true;
}

absl::StatusOr<TileId> Tracer::Compute(ValId v, const Index& index, SymInt predicate) {
  if (IsEmpty(v)) return Constant(group_.dtype(v), Zero(group_.dtype(v)));
  if (group_.is_input(v)) {
    // A weight is the same one whichever neighbour of a padded point it is for.
    const SymInt unpadded = WithoutPads(predicate);
    if (!unpadded.is_same(predicate) && IsWithin(v, index)) return At(v, index, unpadded);
    int input = 0;
    while (group_.inputs()[input] != v) ++input;
    TileValue load;
    load.kind = TileKind::Load;
    load.dtype = group_.dtype(v);
    load.buffer = BufferOf(BufferSource::kInput, input, v);
    load.index = Address(v, index);
    load.predicate = predicate;
    return Add(std::move(load));
  }
  const ExprId e = group_.definition(v);
  const Attributes& attributes = group_.attributes(e);
  const DType dtype = group_.dtype(v);
  switch (group_.info(e).op_class) {
    case OpClass::Elementwise:
    case OpClass::Cast:
    case OpClass::Barrier:
      return Pointwise(e, v, index, predicate);
    case OpClass::Reduction:
    case OpClass::Welford:
      return shape_.folds[e.index()] ? ReductionResult(e, v, index)
                                     : Unrolled(e, v, index, predicate);
    case OpClass::Broadcast:
    case OpClass::View:
      return View(e, v, index, predicate);
    case OpClass::Factory:
      if (group_.op(e) == OpKind::Constant) {
        return Constant(dtype, IsFloat(dtype) ? FloatScalar(attributes.value)
                                              : IntScalar(attributes.int_value));
      }
      if (group_.op(e) == OpKind::Size) {
        SymInt size = 1;
        for (SymInt extent : attributes.sizes) size *= Import(extent);
        return Cast(IndexOf(size, DType::I64), dtype);
      }
      if (group_.op(e) == OpKind::Iota)
        return Cast(IndexOf(index[attributes.axes[0]], DType::I64), dtype);
      return At(group_.operands(e)[0], {}, predicate);
    case OpClass::Random: {
      TileValue random;
      random.kind = TileKind::Random;
      random.op = group_.op(e);
      random.dtype = dtype;
      for (ValId operand : group_.operands(e)) {
        SEAM_ASSIGN_OR_RETURN(TileId id, At(operand, {}, predicate));
        random.operands.push_back(id);
      }
      random.index = 0;
      for (int d = 0; d < group_.rank(v); ++d)
        random.index = random.index * Extent(v, d) + index[d];
      return Add(std::move(random));
    }
    case OpClass::Indexing:
      return Indexed(e, v, index, predicate);
    case OpClass::Concat:
      return Concatenated(e, v, index, predicate);
    default:
      return absl::UnimplementedError(
          absl::StrCat(group_.info(e).name, ": no kernel holds this operation"));
  }
}

absl::StatusOr<TileId> Tracer::Pointwise(ExprId e, ValId v, const Index& index, SymInt predicate) {
  std::vector<TileId> operands;
  for (ValId operand : group_.operands(e)) {
    Index at;
    for (int d = 0; d < group_.rank(operand); ++d) {
      at.push_back(group_.domain(operand)[d].is_broadcast() ? SymInt(0) : index[d]);
    }
    SEAM_ASSIGN_OR_RETURN(TileId id, At(operand, at, predicate));
    operands.push_back(id);
  }
  const OpKind op = group_.info(e).op_class == OpClass::Barrier ? OpKind::Copy : group_.op(e);
  if (group_.dtype(v) == DType::Bool && operands.size() == 2)
    return Compare(op, std::move(operands));
  if (op == OpKind::Pow) return Power(group_.dtype(v), std::move(operands));
  return Map(op, group_.dtype(v), std::move(operands));
}

// One element after the other, in the order of the axes, as wide as other sums are.
absl::StatusOr<TileId> Tracer::Unrolled(ExprId e, ValId v, const Index& index, SymInt predicate) {
  const ValId from = group_.operands(e)[0];
  const auto& folded = group_.attributes(e).axes;
  const DType accumulator = AccumulatorType(group_, e);
  Index at(group_.rank(from), SymInt(0));
  int64_t elements = 1;
  for (int d = 0, kept = 0; d < group_.rank(from); ++d) {
    if (absl::c_linear_search(folded, d)) {
      elements *= *Extent(from, d).maybe_int();
    } else {
      at[d] = index[kept++];
    }
  }
  std::optional<TileId> result;
  // From zero on, as other sums: of nothing but negative zeros it is a positive one.
  if (group_.op(e) == OpKind::Sum && IsFloat(accumulator))
    result = Constant(accumulator, Zero(accumulator));
  for (int64_t nth = 0; nth < elements; ++nth) {
    int64_t rest = nth;
    for (size_t i = folded.size(); i-- > 0;) {
      const int64_t extent = *Extent(from, folded[i]).maybe_int();
      at[folded[i]] = rest % extent;
      rest /= extent;
    }
    SEAM_ASSIGN_OR_RETURN(TileId element, At(from, at, predicate));
    element = Cast(element, accumulator);
    result =
        result ? Map(kernel::Combiner(group_.op(e)), accumulator, {*result, element}) : element;
  }
  return Cast(*result, group_.dtype(v));
}

absl::StatusOr<TileId> Tracer::ReductionResult(ExprId e, ValId v, const Index& index) {
  const Space of_rows{-1, row_coordinates_};
  const Index own = IndexAt(group_.rank(v), shape_.FoldsSections(e) ? SpaceOfSections() : of_rows,
                            [&](int d) { return shape_.axes.atoms(v, d); });
  for (int d = 0; d < group_.rank(v); ++d) {
    if (group_.domain(v)[d].is_broadcast()) continue;  // Where anything is wanted, it is element 0.
    if (!own[d].is_same(index[d]) && !ProvablyEqual(own[d], index[d])) {
      return absl::UnimplementedError(
          absl::StrCat(group_.info(e).name, " ", std::string(group_.name(v)), ": read at row ",
                       index[d].ToString(), " while computed at ", own[d].ToString()));
    }
  }
  SEAM_ASSIGN_OR_RETURN(const std::vector<TileId>* results, EnsureReduction(e));
  return (*results)[v.index() - group_.result(e).index()];
}

absl::StatusOr<TileId> Tracer::View(ExprId e, ValId v, const Index& index, SymInt predicate) {
  const ValId from = group_.operands(e)[0];
  const Attributes& a = group_.attributes(e);
  const int rank = group_.rank(from);
  Index at(rank, SymInt(0));
  switch (group_.op(e)) {
    case OpKind::Broadcast: {
      int d = 0;
      for (int i = 0; i < group_.rank(v); ++i) {
        if (std::find(a.axes.begin(), a.axes.end(), i) == a.axes.end()) at[d++] = index[i];
      }
      return At(from, at, predicate);
    }
    case OpKind::Squeeze: {
      int i = 0;
      for (int d = 0; d < rank; ++d) {
        if (std::find(a.axes.begin(), a.axes.end(), d) == a.axes.end()) at[d] = index[i++];
      }
      return At(from, at, predicate);
    }
    case OpKind::Permute:
      for (int i = 0; i < rank; ++i) at[a.axes[i]] = index[i];
      return At(from, at, predicate);
    case OpKind::Expand:
      for (int d = 0; d < rank; ++d)
        at[d] = group_.domain(from)[d].is_broadcast() ? SymInt(0) : index[d];
      return At(from, at, predicate);
    case OpKind::Reshape: {
      SymVector to_extents, from_extents;
      for (int d = 0; d < group_.rank(v); ++d) to_extents.push_back(Extent(v, d));
      for (int d = 0; d < rank; ++d) from_extents.push_back(Extent(from, d));
      return At(from, MapReshape(from_extents, to_extents, index), predicate);
    }
    case OpKind::Slice:
      for (int d = 0; d < rank; ++d) at[d] = Import(a.start[d]) + index[d] * Import(a.step[d]);
      return At(from, at, predicate);
    case OpKind::Flip:
      for (int d = 0; d < rank; ++d) {
        const bool flipped = std::find(a.axes.begin(), a.axes.end(), d) != a.axes.end();
        at[d] = flipped ? Extent(from, d) - 1 - index[d] : index[d];
      }
      return At(from, at, predicate);
    case OpKind::Pad: {
      SymInt inside = 1;
      for (int d = 0; d < rank; ++d) {
        at[d] = index[d] - Import(a.start[d]);
        inside = SymAnd(inside, SymAnd(SymGe(at[d], 0), SymLt(at[d], Extent(from, d))));
      }
      const SymInt both = SymAnd(predicate, inside);
      without_pads_.emplace(both.bits(), WithoutPads(predicate));
      SEAM_ASSIGN_OR_RETURN(TileId inner, At(from, at, both));
      if (Decide(inside) == true) return inner;
      const DType dtype = group_.dtype(v);
      const TileId fill =
          Constant(dtype, IsFloat(dtype) ? FloatScalar(a.value) : IntScalar(a.int_value));
      return Map(OpKind::Where, dtype, {IndexOf(inside, DType::Bool), inner, fill});
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat(group_.info(e).name, ": no kernel holds this view"));
  }
}

// Whether the pieces of a concatenation, all of one length, are computed from the same again and
// again, as the steps of a loop are that someone has written one by one: what all of them compute,
// each for itself, is several times what they compute together, and what they read of inputs more
// than twice as much. Linear in the pieces times the expressions in front of them, up to a limit,
// once.
bool Tracer::AreSteps(ExprId e) {
  constexpr int64_t kSeveral = 4, kMostVisits = 1 << 20;
  const auto [it, is_new] = are_steps_.emplace(e, false);
  if (!is_new) return it->second;
  const auto pieces = group_.operands(e);
  const int axis = group_.attributes(e).axes[0];
  const SymInt length = Extent(pieces[0], axis);
  const bool alike = length.is_constant() && absl::c_all_of(pieces, [&](ValId v) {
                       return Extent(v, axis).is_same(length);
                     });
  if (!alike) return false;
  std::vector<uint32_t> last(group_.num_vals());  // The piece that has needed it last, from 1 on.
  std::vector<ExprId> open;
  struct Count {
    int64_t apart = 0, together = 0;
  } computed, read;
  int64_t visits = 0;
  for (uint32_t piece = 1; piece <= pieces.size(); ++piece) {
    const auto visit = [&](ValId v) {
      uint32_t& needed = last[v.index()];
      if (needed == piece) return;
      const ExprId before = group_.definition(v);
      const OpClass c = before.valid() ? group_.info(before).op_class : OpClass::View;
      // An input, or a part of one.
      const bool reads =
          !before.valid() || (c == OpClass::View && group_.is_input(group_.operands(before)[0]));
      if (reads || c == OpClass::Elementwise) {
        Count& count = reads ? read : computed;
        ++count.apart;
        count.together += needed == 0;
      }
      needed = piece;
      if (!reads && !IsReduction(c)) open.push_back(before);
    };
    visit(pieces[piece - 1]);
    while (!open.empty() && ++visits < kMostVisits) {
      const ExprId next = open.back();
      open.pop_back();
      absl::c_for_each(group_.operands(next), visit);
    }
    open.clear();
  }
  return it->second =
             computed.apart > kSeveral * computed.together && read.apart > 2 * read.together;
}

absl::StatusOr<TileId> Tracer::Concatenated(ExprId e, ValId v, const Index& index,
                                            SymInt predicate) {
  const int axis = group_.attributes(e).axes[0];
  const auto operands = group_.operands(e);
  std::vector<SymInt> ends;
  SymInt end = 0;
  for (ValId operand : operands) ends.push_back(end += Extent(operand, axis));
  const bool are_steps = AreSteps(e);
  std::optional<TileId> result;
  for (size_t i = operands.size(); i-- > 0;) {
    const SymInt begin = i == 0 ? SymInt(0) : ends[i - 1];
    const SymInt inside = SymAnd(SymGe(index[axis], begin), SymLt(index[axis], ends[i]));
    if (Decide(inside) == false && (result || i > 0)) continue;
    Index at = index;
    at[axis] = index[axis] - begin;
    // Of steps, each in all that follow it, the element at this place is wanted wherever one of
    // them is: so all of them share it.
    if (are_steps) at[axis] = Mod(index[axis], Max(Extent(operands[i], axis), 1));
    SEAM_ASSIGN_OR_RETURN(TileId part,
                          At(operands[i], at, are_steps ? predicate : SymAnd(predicate, inside)));
    result =
        result ? Map(OpKind::Where, group_.dtype(v), {IndexOf(inside, DType::Bool), part, *result})
               : part;
  }
  return *result;
}

absl::StatusOr<TileId> Tracer::Indexed(ExprId e, ValId v, const Index& index, SymInt predicate) {
  const int axis = group_.attributes(e).axes[0];
  const ValId data = group_.operands(e)[0], indices = group_.operands(e)[1];
  const Index where = group_.op(e) == OpKind::Gather ? index : Index{index[axis]};
  SEAM_ASSIGN_OR_RETURN(TileId raw, At(indices, where, predicate));
  // As ResolveIndex: negative ones count once from the end, what is then outside yields zero.
  raw = Cast(raw, DType::I64);
  const SymInt extent = Extent(data, axis);
  const TileId size = IndexOf(extent, DType::I64), zero = Constant(DType::I64, IntScalar(0));
  const TileId wrapped = Map(
      OpKind::Where, DType::I64,
      {Map(OpKind::Lt, DType::Bool, {raw, zero}), Map(OpKind::Add, DType::I64, {raw, size}), raw});
  const TileId inside = Map(OpKind::LogicalAnd, DType::Bool,
                            {Map(OpKind::Ge, DType::Bool, {wrapped, zero}),
                             Map(OpKind::Lt, DType::Bool, {wrapped, size})});
  const TileId safe = Map(OpKind::Where, DType::I64, {inside, wrapped, zero});
  const SymInt symbol = tile_.env->FreshSymbol("at", 0, Max(extent - 1, 0));
  tile_.lets.push_back({symbol, safe});
  Index at = index;
  at[axis] = symbol;
  SEAM_ASSIGN_OR_RETURN(TileId value, At(data, at, SymAnd(predicate, SymGt(extent, 0))));
  return Map(OpKind::Where, group_.dtype(v),
             {inside, value, Constant(group_.dtype(v), Zero(group_.dtype(v)))});
}

TileId Tracer::Add(TileValue value) {
  for (size_t i = 0; i < tile_.lets.size(); ++i) {
    const SymNode* let = tile_.lets[i].symbol.node();
    bool uses = false;
    for (SymInt e : {value.index, value.predicate}) {
      if (e.env() == nullptr) continue;
      for (const SymNode* s : FreeSymbols(e)) uses |= s == let;
    }
    if (uses) value.lets.push_back(static_cast<int>(i));
  }
  tile_.values.push_back(std::move(value));
  return static_cast<TileId>(tile_.values.size()) - 1;
}

TileId Tracer::Constant(DType dtype, Scalar scalar) {
  TileValue value;
  value.dtype = dtype;
  value.constant = scalar;
  return Add(std::move(value));
}

TileId Tracer::Map(OpKind op, DType dtype, std::vector<TileId> operands) {
  TileValue value;
  value.kind = TileKind::Map;
  value.op = op;
  value.dtype = dtype;
  value.operands = std::move(operands);
  return Add(std::move(value));
}

TileId Tracer::Cast(TileId id, DType dtype) {
  return tile_.values[id].dtype == dtype ? id : Map(OpKind::Cast, dtype, {id});
}

TileId Tracer::IndexOf(SymInt e, DType dtype) {
  TileValue value;
  value.kind = TileKind::Index;
  value.dtype = dtype;
  value.index = e;
  return Add(std::move(value));
}

TileId Tracer::Result(int reduction, int component, DType dtype) {
  TileValue value;
  value.kind = TileKind::ReduceResult;
  value.dtype = dtype;
  value.reduction = reduction;
  value.component = component;
  return Add(std::move(value));
}

}  // namespace seam
