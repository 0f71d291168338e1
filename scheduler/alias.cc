// Alias: a group of views whose results are its inputs under other strides. Nothing is launched.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/reshape_map.h"
#include "scheduler/schedulers.h"

namespace seam::alias {
namespace {

// The address in the input of the element of `v` at `index`, following views; sets `input`.
// `import` takes the group's expressions into the indices' environment. Invalid for a view that is
// not one of strides.
template <typename Import>
SymInt Follow(const Fusion& group, ValId v, SymVector index, Import import, int* input) {
  while (!group.is_input(v)) {
    const ExprId e = group.definition(v);
    const Attributes& a = group.attributes(e);
    const ValId from = group.operands(e)[0];
    const int rank = group.rank(from);
    auto named = [&](int d) { return std::find(a.axes.begin(), a.axes.end(), d) != a.axes.end(); };
    SymVector at(rank, SymInt(0));
    switch (group.op(e)) {
      case OpKind::Broadcast:
        for (int i = 0, d = 0; i < group.rank(v); ++i) {
          if (!named(i)) at[d++] = index[i];
        }
        break;
      case OpKind::Squeeze:
        for (int d = 0, i = 0; d < rank; ++d) {
          if (!named(d)) at[d] = index[i++];
        }
        break;
      case OpKind::Permute:
        for (int i = 0; i < rank; ++i) at[a.axes[i]] = index[i];
        break;
      case OpKind::Expand:
        for (int d = 0; d < rank; ++d)
          at[d] = group.domain(from)[d].is_broadcast() ? SymInt(0) : index[d];
        break;
      case OpKind::Slice:
        for (int d = 0; d < rank; ++d) at[d] = import(a.start[d]) + index[d] * import(a.step[d]);
        break;
      case OpKind::Flip:
        for (int d = 0; d < rank; ++d)
          at[d] = named(d) ? import(group.domain(from)[d].extent) - 1 - index[d] : index[d];
        break;
      case OpKind::Pad:
        return SymInt::Invalid();
      default: {
        SymVector from_extents, to_extents;
        for (int d = 0; d < rank; ++d) from_extents.push_back(import(group.domain(from)[d].extent));
        for (int d = 0; d < group.rank(v); ++d)
          to_extents.push_back(import(group.domain(v)[d].extent));
        at = MapReshape(from_extents, to_extents, index);
        break;
      }
    }
    v = from;
    index = std::move(at);
  }
  *input = 0;
  while (group.inputs()[*input] != v) ++*input;
  const SymVector strides = group.strides(v);
  SymInt address = 0;
  for (int d = 0; d < group.rank(v); ++d) address += index[d] * import(strides[d]);
  return address;
}

}  // namespace

Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary) {
  (void)fusion, (void)axes;
  const SchedulerKind me = SchedulerKind::kAlias;
  if (!summary.views_only)
    return Decision::Refuse(me, ReasonCode::kUnsupported, {}, "some expression computes");
  return Decision::Accept(me);
}

absl::StatusOr<Schedule> Choose(const Fusion&, const ScheduleContext&) {
  Schedule s;
  s.kind = SchedulerKind::kAlias;
  s.alignment_bytes = 1;
  return s;
}

absl::StatusOr<LaunchPlan> Lower(const Fusion& group, const Schedule& schedule) {
  LaunchPlan plan;
  plan.schedule = schedule;
  for (ValId v : group.outputs()) {
    // Symbols for the indices, in an environment of their own, so that the strides can be read off
    // the address.
    ShapeEnv env;
    SymImporter into(&env), back(group.shared_env().get());
    for (const SymNode* s : group.env().symbols()) {
      SEAM_ASSIGN_OR_RETURN(const SymInt copy, env.NewSymbol(s->name, s->range.lo, s->range.hi));
      into.Map(s, copy);
      back.Map(copy.node(), SymInt::FromNode(s));
    }
    auto import = [&](SymInt e) { return into.Import(e); };
    SymVector index;
    for (int d = 0; d < group.rank(v); ++d) {
      const SymInt extent = import(group.domain(v)[d].extent);
      index.push_back(extent.is_same(1) ? SymInt(0) : env.FreshSymbol("index", 0, extent - 1));
    }
    AliasOutput out;
    const SymInt address = Follow(group, v, index, import, &out.input);
    auto at = [&](int moved, int64_t by) {
      SymInt e = address;
      for (int d = 0; d < group.rank(v); ++d) {
        if (index[d].is_symbolic()) e = kernel::Substitute(e, index[d], d == moved ? by : 0);
      }
      return e;
    };
    const SymInt offset = at(-1, 0);
    SymInt linear = offset;
    for (int d = 0; d < group.rank(v); ++d) {
      const SymInt stride = index[d].is_symbolic() ? at(d, 1) - offset : SymInt(0);
      linear += index[d] * stride;
      out.strides.push_back(back.Import(stride));
    }
    out.offset = back.Import(offset);
    if (!address.is_valid() || !ProvablyEqual(linear, address)) {
      return absl::UnimplementedError(
          absl::StrCat(std::string(group.name(v)), ": no single set of strides is this view"));
    }
    plan.aliases.push_back(std::move(out));
  }
  return plan;
}

}  // namespace seam::alias
