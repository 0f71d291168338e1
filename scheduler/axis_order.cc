#include "scheduler/axis_order.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "scheduler/group_shape.h"

namespace seam {
namespace {

void Append(std::vector<AxisId>& list, absl::Span<const AxisId> axes) {
  for (AxisId a : axes) {
    if (!Contains(list, a)) list.push_back(a);
  }
}

// Whether steps of `a` are slower in memory than those of `b`. Of strides that may be equal the one
// that is never less is: W*C than C, although W may be 1. Where W or C may be 0, and then there is
// nothing in memory, the one that is a multiple of the other.
bool IsSlower(SymInt a, SymInt b) {
  const bool least = ProvablyLe(b, a), most = ProvablyLe(a, b);
  if (least || most) return least && !most;
  const auto is_multiple = [](SymInt x, SymInt of) { return Mod(x, of).is_same(0); };
  return is_multiple(a, b) && !is_multiple(b, a);
}

// The axes of a tensor with these strides, slow to fast in memory.
template <typename AtomsOf>
std::vector<AxisId> MemoryOrder(const SymVector& strides, AtomsOf atoms_of) {
  std::vector<int> dims(strides.size());
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int>(d);
  std::stable_sort(dims.begin(), dims.end(),
                   [&](int a, int b) { return IsSlower(strides[a], strides[b]); });
  std::vector<AxisId> order;
  for (int d : dims) Append(order, atoms_of(d));
  return order;
}

// The axes of an order as the group runs over them.
std::vector<AxisId> AsRunOver(const absl::flat_hash_map<AxisId, std::vector<AxisId>>& lies_along,
                              absl::Span<const AxisId> order) {
  std::vector<AxisId> axes;
  for (AxisId a : order) {
    const auto it = lies_along.find(a);
    Append(axes, it == lies_along.end() ? absl::MakeConstSpan(&a, 1) : it->second);
  }
  return axes;
}

// The axes along which an expression reads a dimension of its operand `k`: one that things are
// looked up in along those of the positions, as if what they are at lay there.
absl::Span<const AxisId> AtomsRead(const Fusion& group, const AxisMap& axes, ExprId e, int k,
                                   int d) {
  const bool looks_up =
      k == 0 && group.info(e).op_class == OpClass::Indexing && d == group.attributes(e).axes[0];
  if (!looks_up) return axes.operand_atoms(e, k, d);
  const ValId positions = group.operands(e)[1];  // Along one dimension, or as many as the result.
  return axes.operand_atoms(e, 1, std::min(d, group.rank(positions) - 1));
}

// Whether a value is computed from an input element by element, each from the one at its place.
// Linear in the expressions.
bool IsComputedBeside(const Fusion& group, ValId value, ValId input) {
  std::vector<bool> of_value(group.num_vals());
  of_value[value.index()] = true;
  for (uint32_t i = group.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    const OpClass c = group.info(e).op_class;
    if ((c != OpClass::Elementwise && c != OpClass::Cast) || !of_value[group.result(e).index()])
      continue;
    for (ValId v : group.operands(e)) of_value[v.index()] = true;
  }
  return of_value[input.index()];
}

// Slices, pads, flips and concatenations change an axis, and leave what lies beside each other
// along it beside each other: the axes that each of their operands' lies along in the end, among
// those that the group runs over.
absl::flat_hash_map<AxisId, std::vector<AxisId>> AxesBehindViews(const Fusion& group,
                                                                 const AxisMap& axes,
                                                                 const AxisSet& run_over) {
  absl::flat_hash_map<AxisId, std::vector<AxisId>> behind;
  for (uint32_t i = group.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    const OpKind op = group.op(e);
    if (op != OpKind::Slice && op != OpKind::Pad && op != OpKind::Flip && op != OpKind::Cat)
      continue;
    const ValId result = group.result(e, 0);
    for (int k = 0; k < static_cast<int>(group.operands(e).size()); ++k) {
      for (int d = 0; d < group.rank(result); ++d) {
        const auto from = axes.operand_atoms(e, k, d), to = axes.atoms(result, d);
        if (from.size() != 1 || from == to || absl::c_binary_search(run_over, from[0])) continue;
        behind[from[0]] = AsRunOver(behind, to);
      }
    }
  }
  return behind;
}

// How a tensor lies in memory, of the axes that are run over, slow to fast.
struct TensorOrder {
  ValId tensor;
  std::vector<AxisId> order;
  double elements;  // At most.
  int element_bytes;
};

// The order of most axes, of several that of the tensor with most elements, of several of the same
// axes the one that most bytes of `candidates` have, then of `written`; of equal ones the first.
std::vector<AxisId> FollowedOrder(const std::vector<TensorOrder>& candidates,
                                  const std::vector<TensorOrder>& written) {
  const auto bytes_of = [](const std::vector<TensorOrder>& tensors,
                           const std::vector<AxisId>& order) {
    double bytes = 0;
    absl::flat_hash_set<ValId> counted;
    for (const TensorOrder& t : tensors) {
      if (t.order == order && counted.insert(t.tensor).second)
        bytes += t.elements * t.element_bytes;
    }
    return bytes;
  };
  const auto size = [](const TensorOrder& of) { return std::pair(of.order.size(), of.elements); };
  const auto followers = [&](const TensorOrder& of) {
    return std::pair(bytes_of(candidates, of.order), bytes_of(written, of.order));
  };
  const auto precedes = [&](const TensorOrder& a, const TensorOrder& b) {
    if (size(a) != size(b)) return size(a) > size(b);
    return a.order != b.order && absl::c_is_permutation(a.order, b.order) &&
           followers(a) > followers(b);
  };
  const TensorOrder* best = nullptr;
  for (const TensorOrder& t : candidates) {
    if (best == nullptr || precedes(t, *best)) best = &t;
  }
  return best == nullptr ? std::vector<AxisId>() : best->order;
}

// Moves axes that some reduction keeps and `memory` lacks behind the one that expressions have
// before them, so that rows that differ in these alone are neighbours; not behind the fastest.
// Those that are short, or shorter than that one at the most: of others, as those of a large matrix
// beside few rows, nothing is known, and the other tensor may be the one that is worth reading
// once.
void PlaceBesideSharers(const std::vector<ExprId>& reductions, const AxisMap& axes,
                        const std::vector<AxisId>& memory, const std::vector<AxisId>& logical,
                        std::vector<AxisId>& order) {
  constexpr int64_t kShort = 256;
  std::optional<AxisId> before;
  for (AxisId a : logical) {
    const bool is_kept = absl::c_any_of(
        reductions, [&](ExprId e) { return absl::c_binary_search(axes.kept(e), a); });
    if (!is_kept || !Contains(order, a)) continue;
    const int64_t most = RangeOf(axes.extent(a)).hi;
    const bool is_short = most <= kShort || (before && most < RangeOf(axes.extent(*before)).hi);
    if (before && is_short && !Contains(memory, a) && *before != order.back()) {
      std::erase(order, a);
      order.insert(absl::c_find(order, *before) + 1, a);
    }
    before = a;
  }
}

}  // namespace

AxisOrder OrderAxes(const Fusion& group, const AxisMap& axes,
                    const std::vector<ExprId>& reductions) {
  AxisOrder found;
  AxisSet& run_over = found.run_over;
  std::vector<AxisId>& order = found.order;
  const bool reduces = !reductions.empty();
  for (ExprId e : reductions) run_over = Union(run_over, axes.space(e));
  for (ValId v : group.outputs()) run_over = Union(run_over, axes.axes(v));
  // What nobody folds and no output has is not run over: views follow their operands to where they
  // are, and threads go through what they fold by themselves.
  found.lies_along = AxesBehindViews(group, axes, run_over);
  std::vector<TensorOrder> read, written;
  const auto add = [&](ValId v, std::vector<AxisId> lie, std::vector<TensorOrder>& to) {
    lie = AsRunOver(found.lies_along, lie);
    std::erase_if(lie, [&](AxisId a) { return !absl::c_binary_search(run_over, a); });
    to.push_back({v, std::move(lie), static_cast<double>(RangeOf(group.type(v).numel()).hi),
                  DTypeBytes(group.dtype(v))});
  };
  for (ValId v : group.outputs())
    add(v, MemoryOrder(group.strides(v), [&](int d) { return axes.atoms(v, d); }), written);
  for (uint32_t i = 0; i < group.num_exprs() && reduces; ++i) {
    const ExprId e(i);
    for (int k = 0; k < static_cast<int>(group.operands(e).size()); ++k) {
      const ValId v = group.operands(e)[k];
      if (!group.is_input(v)) continue;
      add(v, MemoryOrder(group.strides(v), [&](int d) { return AtomsRead(group, axes, e, k, d); }),
          read);
    }
  }
  std::vector<AxisId> memory = FollowedOrder(reduces ? read : written, written);
  if (reduces) {
    // A result may have more axes than any input, a concatenation's along a new one: they lie
    // where it has them, as long as it lies as that input does.
    const std::vector<AxisId> of_input = memory;
    for (ValId v : group.outputs()) {
      std::vector<AxisId> lie =
          MemoryOrder(group.strides(v), [&](int d) { return axes.atoms(v, d); });
      std::vector<AxisId> common = lie;
      std::erase_if(common, [&](AxisId a) { return !Contains(of_input, a); });
      if (common == of_input && lie.size() > memory.size()) memory = std::move(lie);
    }
  }
  // Axes that it lacks are slower; expressions know their order. But rows that read the same of it,
  // as the few outputs of a small product, are neighbours.
  std::vector<AxisId> logical;
  for (ExprId e : reductions) {
    for (int d = 0; d < group.rank(group.operands(e)[0]); ++d)
      Append(logical, axes.operand_atoms(e, 0, d));
  }
  const auto is_run_over = [&](AxisId a) { return absl::c_binary_search(run_over, a); };
  absl::c_copy_if(logical, std::back_inserter(order),
                  [&](AxisId a) { return !Contains(memory, a) && is_run_over(a); });
  Append(order, memory);
  PlaceBesideSharers(reductions, axes, memory, logical, order);
  // Axes that only results have, as those of halves of a row that change places: behind the one
  // that they lie behind in memory, unless that is the fastest of all.
  std::vector<AxisId> others;
  for (ValId v : group.outputs()) {
    const std::vector<AxisId> lie =
        MemoryOrder(group.strides(v), [&](int d) { return axes.atoms(v, d); });
    for (size_t i = 0; i < lie.size(); ++i) {
      if (Contains(order, lie[i])) continue;
      const auto before = i > 0 ? absl::c_find(order, lie[i - 1]) : order.end();
      if (reduces && before != order.end() && before + 1 != order.end()) {
        order.insert(before + 1, lie[i]);
      } else {
        Append(others, {lie[i]});
      }
    }
  }
  std::erase_if(others, [&](AxisId a) { return Contains(order, a); });
  for (AxisId a : run_over) {
    if (!Contains(order, a)) Append(others, {a});
  }
  const auto fast = memory.empty() ? order.end() : absl::c_find(order, memory.front());
  order.insert(fast, others.begin(), others.end());
  return found;
}

std::vector<std::vector<AxisId>> MemoryOrders(const Fusion& group, const GroupShape& shape,
                                              ValId v) {
  std::vector<std::vector<AxisId>> orders;
  const auto add = [&](std::vector<AxisId> order) {
    order = AsRunOver(shape.lies_along, order);
    std::erase_if(order, [&](AxisId a) { return shape.axes.extent(a).is_same(1); });
    if (order.empty() || !Contains(shape.order, order.back())) return;
    std::erase_if(order, [&](AxisId a) { return !Contains(shape.order, a); });
    if (!absl::c_linear_search(orders, order)) orders.push_back(std::move(order));
  };
  if (!group.is_input(v)) {
    add(MemoryOrder(group.strides(v), [&](int d) { return shape.axes.atoms(v, d); }));
    return orders;
  }
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    for (int k = 0; k < static_cast<int>(group.operands(e).size()); ++k) {
      if (group.operands(e)[k] != v) continue;
      add(MemoryOrder(group.strides(v),
                      [&](int d) { return AtomsRead(group, shape.axes, e, k, d); }));
    }
    // A value that is read where it lies and turned as well is computed at both places.
    if (group.op(e) != OpKind::Permute || shape.axes.exchanged(e, 0).empty() ||
        !IsComputedBeside(group, group.operands(e)[0], v)) {
      continue;
    }
    const AxisVector& turned = group.attributes(e).axes;
    add(MemoryOrder(group.strides(v), [&](int d) -> absl::Span<const AxisId> {
      if (group.domain(v)[d].is_broadcast()) return {};
      const auto to = absl::c_find(turned, d) - turned.begin();
      return shape.axes.atoms(group.result(e), static_cast<int>(to));
    }));
  }
  return orders;
}

}  // namespace seam
