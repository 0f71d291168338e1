#include "scheduler/row_choice.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace seam {
namespace {

// Marks reductions with nothing but pointwise results of theirs after them, within the axes that
// they keep.
std::vector<bool> FreeReductions(const Fusion& group, const GroupShape& shape) {
  const AxisMap& axes = shape.axes;
  std::vector<AxisSet> used(group.num_vals());  // By what follows.
  std::vector<bool> reduced(group.num_vals()), free(group.num_exprs());
  for (uint32_t i = group.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    AxisSet here = axes.space(e);
    bool reduces = shape.folds[i], again = false;
    AxisSet after;
    for (int r = 0; r < group.num_results(e); ++r) {
      const uint32_t v = group.result(e, r).index();
      after = Union(after, used[v]);
      again = again || reduced[v];
    }
    free[i] = reduces && !again && IsSubset(after, axes.kept(e));
    here = Union(here, after);
    for (ValId v : group.operands(e)) {
      used[v.index()] = Union(used[v.index()], here);
      if (reduces || again) reduced[v.index()] = true;
    }
  }
  return free;
}

// Whether the group runs over these axes and over no more than them.
bool IsWidest(const Fusion& group, const AxisMap& axes, const AxisSet& set) {
  bool is_space = false;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const AxisSet& space = axes.space(ExprId(i));
    is_space |= space == set;
    if (space != set && IsSubset(set, space)) return false;
  }
  return is_space;
}

// How a reduction crosses these rows; nothing if the two cannot share a kernel. What keeps all of
// its columns and some of the rows' axes leaves states of each batch's CTAs or, with `each_row` and
// where others have more columns, of each row.
std::optional<Crossing> CrossingOf(const Fusion& group, const AxisMap& axes, ExprId e, bool free,
                                   const AxisSet& rows, bool each_row) {
  const AxisSet kept = axes.kept(e), space = axes.space(e);
  if (kept == rows) return Crossing::kNone;
  if (!free || rows.empty()) return std::nullopt;
  if (kept.empty()) return Crossing::kAll;
  if (IsSubset(kept, rows)) return Crossing::kSomeRows;
  if (kept == Difference(space, rows)) return Crossing::kRows;
  if (IsSubset(rows, kept)) return std::nullopt;
  const AxisSet both = Union(kept, rows);
  const bool widest = IsWidest(group, axes, both);
  // A row's states would be as many as its columns: CTAs keep them for the rows of a batch.
  if (both == space && (widest || !each_row)) return Crossing::kRows;
  return widest ? std::nullopt : std::make_optional(Crossing::kSomeColumns);
}

// The axes of these rows that reductions across them keep; nothing where these differ.
std::optional<AxisSet> BatchOf(const AxisMap& axes, const std::vector<ExprId>& reductions,
                               const std::vector<Crossing>& crosses, const AxisSet& rows) {
  AxisSet batch;
  for (size_t i = 0; i < reductions.size(); ++i) {
    if (crosses[i] != Crossing::kRows) continue;
    const AxisSet kept = Intersection(axes.kept(reductions[i]), rows);
    if (kept.empty()) continue;
    if (!batch.empty() && kept != batch) return std::nullopt;
    batch = kept;
  }
  return batch;
}

}  // namespace

std::optional<AxisSet> FoldedBesideAll(const AxisMap& axes, absl::Span<const ExprId> reductions) {
  std::optional<AxisSet> folded, kept;
  for (ExprId e : reductions) {
    const AxisSet& own = axes.kept(e);
    if (own.empty()) continue;
    if (kept && *kept != own) return std::nullopt;
    kept = own;
    folded = Difference(axes.space(e), own);
  }
  // One that does not run over them would fold all of its own for each of these rows.
  const bool run_over_them = folded && absl::c_all_of(reductions, [&](ExprId e) {
                               return IsSubset(*folded, axes.space(e));
                             });
  return run_over_them ? folded : std::nullopt;
}

absl::StatusOr<RowChoice> ChooseRows(const Fusion& group, const GroupShape& shape,
                                     const std::vector<ExprId>& reductions) {
  const AxisMap& axes = shape.axes;
  const std::vector<bool> free = FreeReductions(group, shape);
  std::optional<AxisId> fastest;
  if (!shape.order.empty()) fastest = shape.order.back();
  std::vector<AxisSet> candidates;
  for (ExprId e : reductions) {
    if (!free[e.index()]) candidates.push_back(axes.kept(e));
  }
  if (candidates.empty()) {
    for (ExprId e : reductions) candidates.push_back(axes.kept(e));
    if (const auto folded = FoldedBesideAll(axes, reductions)) candidates.push_back(*folded);
    absl::c_stable_sort(candidates, [&](const AxisSet& a, const AxisSet& b) {
      const auto cost = [&](const AxisSet& rows) {
        return std::make_pair(fastest && absl::c_binary_search(rows, *fastest),
                              -static_cast<int>(rows.size()));
      };
      return cost(a) < cost(b);
    });
  }
  ExprId about;
  const auto choose = [&](const AxisSet& rows, bool each_row) -> std::optional<RowChoice> {
    std::vector<Crossing> crosses;
    for (ExprId e : reductions) {
      const auto crossing = CrossingOf(group, axes, e, free[e.index()], rows, each_row);
      if (!crossing) {
        about = e;
        return std::nullopt;
      }
      crosses.push_back(*crossing);
    }
    if (auto batch = BatchOf(axes, reductions, crosses, rows))
      return RowChoice{rows, *std::move(batch), std::move(crosses)};
    about = reductions.back();
    return std::nullopt;
  };
  for (const AxisSet& rows : candidates) {
    // Where batches differ, each row leaves states of the narrower ones.
    for (const bool each_row : {false, true}) {
      if (std::optional<RowChoice> choice = choose(rows, each_row)) return *std::move(choice);
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("group ", std::string(group.name()), ": ", std::string(group.info(about).name),
                   " ", std::string(group.name(group.result(about))),
                   " keeps other axes than the other reductions and does not cross their rows"));
}

}  // namespace seam
