#include "scheduler/unrolled.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/algorithm/container.h"
#include "scheduler/group_shape.h"
#include "scheduler/kernel/reduction_state.h"

namespace seam {
namespace {

AxisSet Folded(const AxisMap& axes, ExprId e) { return Difference(axes.space(e), axes.kept(e)); }

bool AreFew(const AxisMap& axes, const AxisSet& folded) {
  SymInt elements = 1;
  for (AxisId a : folded) elements *= axes.extent(a);
  const int64_t known = elements.maybe_int().value_or(0);
  return known >= 1 && known <= kMostUnrolled;
}

bool IsSmall(const Fusion& fusion, const AxisMap& axes, ExprId e) {
  return AreFew(axes, Folded(axes, e)) && kernel::NumComponents(fusion.op(e)) == 1;
}

// Of what one of them is computed from, another one may be: as often as there are coordinates along
// all axes that any of them folds.
bool AreFewTogether(const AxisMap& axes, absl::Span<const ExprId> reductions) {
  AxisSet folded;
  for (ExprId e : reductions) folded = Union(folded, Folded(axes, e));
  return AreFew(axes, folded);
}

}  // namespace

bool ArePooled(const Fusion& fusion, const AxisMap& axes, absl::Span<const ExprId> reductions) {
  constexpr int64_t kMostNeighbours = 4;
  const auto is_pooled = [&](ExprId e) {
    const AxisId last = LastAxis(fusion, axes, e);
    return IsSmall(fusion, axes, e) && absl::c_binary_search(Folded(axes, e), last) &&
           *axes.extent(last).maybe_int() <= kMostNeighbours && Folded(axes, e).size() > 1;
  };
  return !reductions.empty() && absl::c_all_of(reductions, is_pooled) &&
         AreFewTogether(axes, reductions);
}

bool FoldTwoOrThree(const Fusion& fusion, const AxisMap& axes,
                    absl::Span<const ExprId> reductions) {
  const auto is_so_short = [&](ExprId e) {
    const AxisSet folded = Folded(axes, e);
    return IsSmall(fusion, axes, e) && folded.size() == 1 &&
           *axes.extent(folded[0]).maybe_int() <= 3;
  };
  return !reductions.empty() && absl::c_all_of(reductions, is_so_short);
}

std::vector<ExprId> FindUnrolled(const Fusion& fusion, const AxisMap& axes,
                                 absl::Span<const ExprId> reductions) {
  std::vector<ExprId> unrolled, others;
  for (ExprId e : reductions) (IsSmall(fusion, axes, e) ? unrolled : others).push_back(e);
  if (others.empty()) {  // Those that keep the fewest axes stay; windows are no rows.
    size_t fewest = SIZE_MAX;
    for (ExprId e : unrolled) fewest = std::min(fewest, axes.kept(e).size());
    const auto stays = [&](ExprId e) {
      return axes.kept(e).size() == fewest && Folded(axes, e).size() == 1;
    };
    absl::c_copy_if(unrolled, std::back_inserter(others), stays);
    std::erase_if(unrolled, stays);
  }
  // One that stays keeps others from being unrolled, whose axes it runs over.
  for (size_t i = 0; i < others.size(); ++i) {
    const AxisSet& space = axes.space(others[i]);
    for (ExprId e : unrolled) {
      if (!Intersection(Folded(axes, e), space).empty()) others.push_back(e);
    }
    std::erase_if(unrolled, [&](ExprId e) { return absl::c_linear_search(others, e); });
  }
  if (others.empty() || !AreFewTogether(axes, unrolled)) unrolled.clear();
  return unrolled;
}

}  // namespace seam
