// Steps of random graphs that move values or make them of nothing.
#include <utility>

#include "tests/support/graph_generator.h"

namespace seam::testing {

void GraphGenerator::View() {
  if (options_.square && dice_.Chance(0.3)) return Cat();
  switch (dice_.Below(10)) {
    case 0:
      return Permute();
    case 1:
      return MergeOrSplit();
    case 2:
      return Reshape();
    case 3:
    case 4:
      return Slice();
    case 5:
      return Flip();
    case 6:
      return Pad();
    case 7:
      return Repeat();
    case 8:
      return Squeeze();
    default:
      return Cat();
  }
}

void GraphGenerator::Permute() {
  const Value a = PickRanked();
  AxisVector order;
  for (int d = 0; d < a.rank(); ++d) order.push_back(d);
  for (int d = a.rank() - 1; d > 0; --d) std::swap(order[d], order[dice_.Below(d + 1)]);
  if (a.rank() >= 2) Add(b_.Permute(a.id, order));
}

void GraphGenerator::MergeOrSplit() {
  const Value a = PickRanked();
  if (a.rank() == 0) return;
  Shape shape = a.shape;
  if (a.rank() >= 2 && dice_.Chance(0.5)) {
    const int d = dice_.Below(a.rank() - 1);
    shape[d] = shape[d] * shape[d + 1];
    shape.erase(shape.begin() + d + 1);
  } else {
    const int d = dice_.Below(a.rank());
    const int64_t divisor = KnownDivisor(shape[d].extent);
    std::vector<int64_t> factors;
    for (int64_t f : {2, 3, 4, 5, 8, 16}) {
      if (divisor % f == 0) factors.push_back(f);
    }
    if (factors.empty()) return;
    const int64_t factor = dice_.Of(factors);
    shape[d] = Evaluate(FloorDiv(shape[d].extent, factor));
    shape.insert(shape.begin() + d + dice_.Below(2), Extent::Constant(factor));
  }
  if (Fits(shape)) Add(b_.Reshape(a.id, Syms(shape)));
}

// Extents of the old and the new shape that do not nest: [6, 4] as [8, 3].
void GraphGenerator::Reshape() {
  const Value a = PickRanked();
  int64_t numel = 1;
  for (const Extent& e : a.shape) {
    if (!e.extent.is_constant()) {  // Merge all, then split what is known of it.
      SymInt all = 1;
      for (const Extent& other : a.shape) all *= other.extent;
      const int64_t divisor = KnownDivisor(all);
      if (divisor > 1 && divisor <= 4096 && all.is_valid()) {
        Add(b_.Reshape(a.id, {SymInt(divisor), FloorDiv(all, divisor)}));
      }
      return;
    }
    numel *= e.values[0];
  }
  if (numel == 0 || a.rank() == 0) return;
  SymVector sizes;
  int64_t rest = numel;
  for (int i = 0; i < 3 && rest > 1; ++i) {
    std::vector<int64_t> divisors;
    for (int64_t f = 2; f <= rest && f <= 64; ++f) {
      if (rest % f == 0) divisors.push_back(f);
    }
    if (divisors.empty()) break;
    sizes.push_back(dice_.Of(divisors));
    rest /= *sizes.back().maybe_int();
  }
  sizes.insert(sizes.begin() + dice_.Below(static_cast<int>(sizes.size()) + 1), SymInt(rest));
  Add(b_.Reshape(a.id, sizes));
}

void GraphGenerator::Slice() {
  const Value a = PickRanked();
  if (a.rank() == 0) return;
  Attributes attr;
  for (const Extent& e : a.shape) {
    int64_t start = 0, step = 1;
    SymInt stop = e.extent;
    if (dice_.Chance(0.6)) {
      const int64_t n = e.lowest();
      start = dice_.Below(static_cast<int>(n) + 1);
      const int64_t kept = dice_.Below(static_cast<int>(n - start) + 1);
      step = dice_.Chance(0.2) ? 2 + dice_.Below(2) : 1;
      // A bound from the front, or one from the back, which a symbol makes another thing.
      stop = dice_.Chance(0.5) ? SymInt(start + kept) : e.extent - (n - start - kept);
    }
    attr.start.push_back(start);
    attr.stop.push_back(stop);
    attr.step.push_back(step);
  }
  Add(b_.Op(OpKind::Slice, {a.id}, attr));
}

void GraphGenerator::Flip() {
  const Value a = PickRanked();
  Attributes attr;
  for (int d = 0; d < a.rank(); ++d) {
    if (dice_.Chance(0.5)) attr.axes.push_back(d);
  }
  if (!attr.axes.empty()) Add(b_.Op(OpKind::Flip, {a.id}, attr));
}

void GraphGenerator::Pad() {
  const Value a = PickRanked();
  Shape shape = a.shape;
  Attributes attr;
  for (int d = 0; d < a.rank(); ++d) {
    const Extent before = Extent::Constant(dice_.Below(3)),
                 after = dice_.Chance(0.05) ? dice_.Of(extents_) : Extent::Constant(dice_.Below(3));
    attr.start.push_back(before.extent);
    attr.stop.push_back(after.extent);
    shape[d] = shape[d] + before + after;
  }
  const DType dtype = b_.dtype(a.id);
  if (IsFloat(dtype)) {
    attr.value = dice_.Below(5) - 1.5;
  } else {
    attr.int_value = dtype == DType::Bool ? dice_.Below(2) : dice_.Below(5);
  }
  if (a.rank() > 0 && Fits(shape)) Add(b_.Op(OpKind::Pad, {a.id}, attr));
}

// A new axis, of extent 1 or expanded.
void GraphGenerator::Repeat() {
  const Value a = Pick();
  Shape shape = a.shape;
  const int at = dice_.Below(a.rank() + 1);
  const bool expand = dice_.Chance(0.7);
  shape.insert(shape.begin() + at, expand ? dice_.Of(extents_) : Extent::Constant(1));
  if (!Fits(shape)) return;
  const ValId wide = b_.Broadcast(a.id, {at});
  Add(expand ? b_.Expand(wide, Syms(shape)) : wide);
}

void GraphGenerator::Squeeze() {
  const Value a = PickRanked();
  Attributes attr;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.shape[d].extent == SymInt(1) && (attr.axes.empty() || dice_.Chance(0.5)))
      attr.axes.push_back(d);
  }
  if (!attr.axes.empty()) Add(b_.Op(OpKind::Squeeze, {a.id}, attr));
}

void GraphGenerator::Cat() {
  const Value a = PickRanked();
  if (a.rank() == 0) return;
  const int axis = dice_.Below(a.rank());
  std::vector<ValId> parts;
  Shape shape = a.shape;
  const auto append = [&](const Value& v) {
    parts.insert(parts.begin() + dice_.Below(static_cast<int>(parts.size()) + 1),
                 b_.Cast(v.id, b_.dtype(a.id)));
    shape[axis] = parts.size() == 1 ? v.shape[axis] : shape[axis] + v.shape[axis];
  };
  append(a);
  const std::vector<Value> others = values_;
  for (const Value& v : others) {
    if (parts.size() >= 4 || v.shape.size() != a.shape.size() || !dice_.Chance(0.6)) continue;
    Shape aligned = v.shape;
    aligned[axis] = a.shape[axis];  // The only axis along which they may differ.
    if (SameShape(aligned, a.shape)) append(v);
  }
  Attributes attr;
  attr.axes = {axis};
  if (Fits(shape)) Add(b_.Op(OpKind::Cat, parts, attr));
}

// A line along some axis of a value and of another one behind it: of parts of a concatenation, and
// of what is folded of them.
void GraphGenerator::AxesThatMeet() {
  const Value a = PickRanked();
  if (a.rank() < 2) return;
  const auto others = [&](int rank, int axis) {
    AxisVector axes;
    for (int d = 0; d < rank; ++d) {
      if (d != axis) axes.push_back(d);
    }
    return axes;
  };
  const auto any_axis = [&](int rank) { return dice_.Below(rank); };
  const ValId x = b_.Cast(a.id, DType::F32);
  const int along = any_axis(a.rank());
  ValId line = Parameter(DType::F32, {a.shape[along]});
  if (dice_.Chance(0.7)) line = b_.Op(dice_.Chance(0.5) ? OpKind::Neg : OpKind::Abs, {line});
  const ValId wide = b_.Sub(x, b_.Broadcast(line, others(a.rank(), along)));
  Attributes of_parts;
  of_parts.axes = {any_axis(a.rank())};
  Shape shape = a.shape;
  shape[of_parts.axes[0]] = shape[of_parts.axes[0]] + a.shape[of_parts.axes[0]];
  if (!Fits(shape)) return;
  std::vector<ValId> parts = {x, wide};
  if (dice_.Chance(0.5)) std::swap(parts[0], parts[1]);
  const Value both = Add(b_.Op(OpKind::Cat, parts, of_parts));
  const int folded = dice_.Chance(0.7) ? of_parts.axes[0] : any_axis(a.rank());
  const bool sum = dice_.Chance(0.5) || HasEmptyAxis(both, {folded});
  const Value left = Add(b_.Reduce(sum ? OpKind::Sum : OpKind::Max, both.id, {folded}));
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int at = any_axis(left.rank());
    if (!left.shape[at].extent.is_same(a.shape[along].extent)) continue;
    const ValId again = left.rank() == 1 ? line : b_.Broadcast(line, others(left.rank(), at));
    Add(b_.Sub(left.id, again));
    return;
  }
}

void GraphGenerator::Factory() {
  Shape shape = dice_.Of(values_).shape;
  Attributes attr;
  attr.sizes = Syms(shape);
  switch (dice_.Below(3)) {
    case 0:
      if (shape.empty()) return;
      attr.axes = {dice_.Below(static_cast<int>(shape.size()))};
      attr.dtype = AnyDType();
      if (attr.dtype == DType::Bool) attr.dtype = DType::I64;
      Add(b_.Op(OpKind::Iota, std::initializer_list<ValId>{}, attr));
      return;
    case 1: {
      const Value like{ValId(), {}};
      Add(b_.Op(OpKind::Full, {Partner(like, AnyDType())}, attr));
      return;
    }
    default: {
      attr.dtype = AnyFloat();
      const ValId seed = b_.IntConstant(dice_.Below(1000), DType::I64);
      const ValId offset = dice_.Chance(0.3) ? Parameter(DType::I64, {})
                                             : b_.IntConstant(dice_.Below(9), DType::I64);
      Add(b_.Op(dice_.Chance(0.7) ? OpKind::RandomUniform : OpKind::RandomNormal, {seed, offset},
                attr));
      return;
    }
  }
}

void GraphGenerator::Lookup() {
  const Value a = PickRanked();
  if (a.rank() == 0) return;
  const int axis = dice_.Below(a.rank());
  Attributes attr;
  attr.axes = {axis};
  static const std::vector<DType> integers = {DType::I64, DType::I64, DType::I32,
                                              DType::I16, DType::I8,  DType::U8};
  const DType dtype = dice_.Of(integers);
  Shape shape = a.shape;
  shape[axis] = dice_.Of(extents_);
  if (!Fits(shape)) return;
  const bool gather = dice_.Chance(0.5);
  const Shape index_shape = gather ? shape : Shape{shape[axis]};
  // Positions around the ends of the axis: some wrap, some are outside.
  ValId index;
  if (dice_.Chance(0.5)) {
    Attributes iota;
    iota.sizes = Syms(index_shape);
    iota.axes = {dice_.Below(static_cast<int>(index_shape.size()))};
    iota.dtype = dtype;
    index =
        b_.Sub(b_.Op(OpKind::Iota, std::initializer_list<ValId>{}, iota), b_.IntConstant(3, dtype));
  } else {
    index = Parameter(dtype, index_shape);
  }
  Add(b_.Op(gather ? OpKind::Gather : OpKind::IndexSelect, {a.id, index}, attr));
}

}  // namespace seam::testing
