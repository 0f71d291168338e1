#include <algorithm>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "ir/status.h"
#include "segmenter/passes.h"

namespace seam {
namespace {

// Dimensions from the outermost in memory, by the strides at these sizes; empty for row-major.
AxisVector OrderOfStrides(const Fusion& f, const SizeHints& sizes, ValId v) {
  AxisVector order;
  if (!f.has_explicit_strides(v)) return order;
  const SymVector strides = f.strides(v);
  for (int d = 0; d < f.rank(v); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return sizes.Extent(strides[a]) > sizes.Extent(strides[b]);
  });
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

// The order in which a group of views finds the elements of `v`, where that is dense; else
// row-major, and the group copies.
AxisVector OrderThroughViews(const SegmentedFusion& s, GroupId g, ValId v) {
  const Fusion& f = s.fusion();
  const ExprId e = f.definition(v);
  if (!e.valid() || !s.computes(g, e)) return s.buffer(s.buffer_of(v)).order;
  const AxisVector from = OrderThroughViews(s, g, f.operands(e)[0]);
  if (f.op(e) != OpKind::Permute) return {};
  const AxisVector& axes = f.attributes(e).axes;
  AxisVector order;
  for (int d = 0; d < f.rank(v); ++d) {
    const int dim = from.empty() ? d : from[d];
    order.push_back(static_cast<int>(std::find(axes.begin(), axes.end(), dim) - axes.begin()));
  }
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

// A value between groups takes the order of the largest value that its group reads along the same
// axes.
void ChooseOrders(SegmentedFusion& s, const SizeHints& sizes) {
  const Fusion& f = s.fusion();
  const auto set = [&](ValId v, const AxisVector& order) {
    if (!order.empty()) s.set_buffer_order(s.buffer_of(v), order);
  };
  for (ValId v : f.inputs()) set(v, OrderOfStrides(f, sizes, v));
  for (GroupId g : s.groups()) {
    const std::vector<ValId> inputs = s.inputs(g);
    for (ValId v : s.outputs(g)) {
      if (f.is_output(v)) {
        set(v, OrderOfStrides(f, sizes, v));
        continue;
      }
      if (s.scheduler(g) == SchedulerKind::kAlias) {
        set(v, OrderThroughViews(s, g, v));
        continue;
      }
      ValId model;
      for (ValId input : inputs) {
        if (f.rank(input) != f.rank(v)) continue;
        bool same = true;
        for (int d = 0; d < f.rank(v); ++d)
          same &= s.axes().atoms(v, d) == s.axes().atoms(input, d);
        if (same && (!model.valid() || sizes.Bytes(input) > sizes.Bytes(model))) model = input;
      }
      if (model.valid()) set(v, s.buffer(s.buffer_of(model)).order);
    }
  }
}

}  // namespace

std::vector<GroupId> FinalNumbers(const SegmentedFusion& s) {
  std::vector<uint32_t> missing(s.group_limit(), 0);
  using Ready = std::pair<ExprId, GroupId>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<Ready>> ready;
  for (GroupId g : s.groups()) {
    for (EdgeId e : s.in_edges(g)) missing[g.index()] += s.edge(e).from.valid() ? 1 : 0;
    if (missing[g.index()] == 0) ready.emplace(s.first_expr(g), g);
  }
  std::vector<GroupId> numbers(s.group_limit());
  for (uint32_t next = 0; !ready.empty(); ++next) {
    const GroupId g = ready.top().second;
    ready.pop();
    numbers[g.index()] = GroupId(next);
    for (EdgeId e : s.out_edges(g)) {
      const GroupId to = s.edge(e).to;
      if (--missing[to.index()] == 0) ready.emplace(s.first_expr(to), to);
    }
  }
  return numbers;
}

absl::StatusOr<SegmentedFusion> Finalize(SegmentedFusion segmented,
                                         const std::vector<GroupId>& numbers,
                                         const SizeHints& sizes) {
  const Fusion& fusion = segmented.fusion();
  const std::shared_ptr<const AxisMap> axes = segmented.shared_axes();
  Partition partition;
  partition.num_groups = segmented.num_groups();
  partition.home.resize(fusion.num_exprs());
  const auto constraints = segmented.order_constraints();
  partition.order.assign(constraints.begin(), constraints.end());
  std::vector<SchedulerKind> schedulers(partition.num_groups);
  for (GroupId g : segmented.groups()) {
    const GroupId number = numbers[g.index()];
    schedulers[number.index()] = segmented.scheduler(g);
    for (ExprId e : segmented.exprs(g)) partition.home[e.index()] = number;
    for (ExprId e : segmented.copies(g)) partition.copies.emplace_back(e, number);
  }
  {
    const SegmentedFusion old = std::move(segmented);  // Two of them would be the peak of memory.
  }
  SEAM_ASSIGN_OR_RETURN(SegmentedFusion result,
                        SegmentedFusion::Create(fusion, axes, std::move(partition)));
  for (uint32_t g = 0; g < schedulers.size(); ++g) result.set_scheduler(GroupId(g), schedulers[g]);
  ChooseOrders(result, sizes);
  return result;
}

}  // namespace seam
