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

void ChooseLayouts(SegmentedFusion& s, const SizeHints& sizes, const CanonicalOrder& order) {
  const Fusion& f = s.fusion();
  const auto set = [&](ValId v, const AxisVector& axes) {
    if (!axes.empty()) s.set_buffer_order(s.buffer_of(v), axes);
  };
  for (ValId v : f.inputs()) set(v, OrderOfStrides(f, sizes, v));
  std::vector<uint32_t> place(f.num_vals());
  for (uint32_t i = 0; i < f.num_vals(); ++i) place[order.vals[i].index()] = i;
  for (GroupId g : s.groups()) {
    std::vector<ValId> inputs = s.inputs(g);  // The best models first.
    std::sort(inputs.begin(), inputs.end(), [&](ValId a, ValId b) {
      return std::pair(sizes.Bytes(b), place[a.index()]) <
             std::pair(sizes.Bytes(a), place[b.index()]);
    });
    for (ValId v : s.outputs(g)) {
      if (f.is_output(v)) {
        set(v, OrderOfStrides(f, sizes, v));
        continue;
      }
      if (s.scheduler(g) == SchedulerKind::kAlias) {
        set(v, OrderThroughViews(s, g, v));
        continue;
      }
      const auto model = std::find_if(inputs.begin(), inputs.end(), [&](ValId input) {
        bool same = f.rank(input) == f.rank(v);
        for (int d = 0; same && d < f.rank(v); ++d)
          same = s.axes().atoms(v, d) == s.axes().atoms(input, d);
        return same;
      });
      if (model != inputs.end()) set(v, s.buffer(s.buffer_of(*model)).order);
    }
  }
}

FinalCut NumberGroups(const SegmentedFusion& segmented, const std::vector<GroupId>& numbers,
                      SegmentationLog log) {
  FinalCut cut;
  cut.log = std::move(log);
  Partition& partition = cut.partition;
  partition.num_groups = segmented.num_groups();
  partition.home.resize(segmented.fusion().num_exprs());
  const auto constraints = segmented.order_constraints();
  partition.order.assign(constraints.begin(), constraints.end());
  cut.schedulers.resize(partition.num_groups);
  for (uint32_t e = 0; e < partition.home.size(); ++e) {
    const GroupId home = segmented.home(ExprId(e));
    if (home.valid()) partition.home[e] = numbers[home.index()];
  }
  for (GroupId g : segmented.groups()) {
    const GroupId number = numbers[g.index()];
    cut.schedulers[number.index()] = segmented.scheduler(g);
    for (ExprId e : segmented.copies(g)) partition.copies.emplace_back(e, number);
  }
  return cut;
}

absl::StatusOr<SegmentedFusion> Finalize(const Fusion& fusion, std::shared_ptr<const AxisMap> axes,
                                         const SizeHints& sizes, FinalCut cut,
                                         const CanonicalOrder& order) {
  Partition partition = std::move(cut.partition);
  const std::vector<GroupId> home = partition.home;
  for (uint32_t e = 0; e < home.size(); ++e) partition.home[order.exprs[e].index()] = home[e];
  for (auto& [e, g] : partition.copies) e = order.exprs[e.index()];
  for (OrderConstraint& c : partition.order) {
    c = {order.exprs[c.before.index()], order.exprs[c.after.index()], order.vals[c.val.index()]};
  }
  SEAM_ASSIGN_OR_RETURN(SegmentedFusion result,
                        SegmentedFusion::Create(fusion, std::move(axes), std::move(partition)));
  for (uint32_t g = 0; g < cut.schedulers.size(); ++g)
    result.set_scheduler(GroupId(g), cut.schedulers[g]);
  ChooseLayouts(result, sizes, order);
  return result;
}

SegmentationLog InIdsOf(const CanonicalOrder& order, SegmentationLog log) {
  const auto rename = [&](std::vector<ExprId>& exprs) {
    for (ExprId& e : exprs) e = order.exprs[e.index()];
  };
  for (BorderReason& border : log.borders) rename(border.decision.about);
  if (log.beginnings.empty()) return log;
  // A group goes by its lowest expression, which is another one in the other numbering.
  std::vector<ExprId> name(order.exprs.size()), beginnings(order.exprs.size());
  for (uint32_t e = 0; e < beginnings.size(); ++e) {
    if (!log.beginnings[e].valid()) continue;
    ExprId& lowest = name[log.beginnings[e].index()];
    lowest = std::min(lowest, order.exprs[e]);
  }
  for (uint32_t e = 0; e < beginnings.size(); ++e) {
    if (log.beginnings[e].valid())
      beginnings[order.exprs[e].index()] = name[log.beginnings[e].index()];
  }
  log.beginnings = std::move(beginnings);
  for (MergeTrial& trial : log.trials) {
    rename(trial.decision.about);
    ExprId joined, joined_name;
    for (MergeTrial::Member& member : trial.members) {
      joined = std::min(joined, member.first);
      member.first = name[member.first.index()];
      joined_name = std::min(joined_name, member.first);
    }
    if (trial.decision.ok && trial.made.empty()) name[joined.index()] = joined_name;
    for (std::vector<ExprId>& made : trial.made) {
      const ExprId first = made.front();
      rename(made);
      std::sort(made.begin(), made.end());
      name[first.index()] = made.front();
    }
  }
  return log;
}

}  // namespace seam
