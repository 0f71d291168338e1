#include "segmenter/segment.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/beside.h"
#include "ir/status.h"
#include "segmenter/passes.h"
#include "segmenter/verify.h"

namespace seam {
namespace {

constexpr SegmentPass kPasses[] = {
    {"dead", "Leaves out what no output depends on"},
    {"privatize",
     "Cheap producers (constants, broadcasts, upcasts, views) are copied to all who read them"},
    {"vertical", "Merges a group that computes a value and one that reads it"},
    {"siblings", "Merges two groups that read one value"},
    {"closures", "Merges two groups and everything on the paths between them"},
    {"split", "Cuts a group where its halves go better with what is around them"},
    {"borders", "Moves expressions from group to group, several moves ahead"},
    {"recompute",
     "Computes a value again in the groups that read it, where that moves fewer bytes"},
    {"horizontal", "Puts pointwise groups that share nothing side by side in one launch"},
    {"late", "Merges what waits for a reduction over everything, where the cache holds it"},
    {"narrow", "Values cross between groups as f16, bf16 or f8 where that is exact or permitted"},
};

bool IsEnabled(const SegmentOptions& options, absl::string_view pass) {
  return std::none_of(options.disabled_passes.begin(), options.disabled_passes.end(),
                      [&](const std::string& disabled) { return disabled == pass; });
}

Narrowing NarrowingOf(const SegmentOptions& options) {
  return IsEnabled(options, "narrow") ? options.narrow_edges : Narrowing::kOff;
}

// The orders that leave Renumbered(fusion, order) as it is, and that lead from it back to `fusion`.
CanonicalOrder Identity(const CanonicalOrder& order) {
  CanonicalOrder identity = order;
  for (uint32_t e = 0; e < order.exprs.size(); ++e) identity.exprs[e] = ExprId(e);
  for (uint32_t v = 0; v < order.vals.size(); ++v) identity.vals[v] = ValId(v);
  return identity;
}

CanonicalOrder Inverse(const CanonicalOrder& order) {
  CanonicalOrder inverse = order;
  for (uint32_t e = 0; e < order.exprs.size(); ++e)
    inverse.exprs[order.exprs[e].index()] = ExprId(e);
  for (uint32_t v = 0; v < order.vals.size(); ++v) inverse.vals[order.vals[v].index()] = ValId(v);
  return inverse;
}

// What is known of values without the axes.
struct ValueKnowledge {
  ValueFacts facts;
  absl::StatusOr<SizeHints> sizes;  // In the types in which values cross.
};

CrossingTypes TypesOf(const Fusion& fusion, const ValueFacts& facts, const std::vector<bool>& kept,
                      const SegmentOptions& options) {
  return CrossingTypes::Find(fusion, facts, kept, NarrowingOf(options));
}

std::vector<bool> KeptBy(const Fusion& fusion, const SegmentOptions& options) {
  return LeaveOutDeadCode(fusion, IsEnabled(options, "dead"));
}

CrossingTypes KnownTypes(const Fusion& fusion, const SegmentOptions& options) {
  const std::vector<bool> kept = KeptBy(fusion, options);
  return TypesOf(fusion, FactsOf(fusion, kept), kept, options);
}

ValueKnowledge KnowledgeOf(const Fusion& fusion, const SegmentOptions& options) {
  const std::vector<bool> kept = KeptBy(fusion, options);
  ValueFacts facts = FactsOf(fusion, kept);
  const CrossingTypes types = TypesOf(fusion, facts, kept, options);
  return {std::move(facts), SizeHints::Create(fusion, options.sizes, &types)};
}

// The cut of a Fusion that is numbered in canonical order: every tie falls by ids.
absl::StatusOr<FinalCut> CutCanonical(const Fusion& fusion,
                                      const std::shared_ptr<const AxisMap>& axes,
                                      const ValueFacts& facts, const SizeHints& sizes,
                                      const SchedulabilityGuard& guard,
                                      const SegmentOptions& options) {
  const auto enabled = [&](absl::string_view pass) { return IsEnabled(options, pass); };
  SEAM_ASSIGN_OR_RETURN(
      InitialGroups initial,
      MakeInitialGroups(fusion, *axes, facts, guard, LeaveOutDeadCode(fusion, enabled("dead")),
                        PrivatizeCheapProducers(fusion, *axes, facts, enabled("privatize"))));
  SEAM_ASSIGN_OR_RETURN(SegmentedFusion segmented,
                        SegmentedFusion::Create(fusion, axes, std::move(initial.partition)));
  Refinement refinement(std::move(initial.units), fusion.num_exprs());
  for (uint32_t g = 0; g < initial.schedulers.size(); ++g) {
    segmented.set_scheduler(GroupId(g), initial.schedulers[g]);
  }

  std::vector<ExprId> beginnings;
  for (uint32_t e = 0; options.trace && e < fusion.num_exprs(); ++e) {
    const GroupId g = segmented.home(ExprId(e));
    beginnings.push_back(g.valid() ? segmented.first_expr(g) : ExprId());
  }

  Merger merger(segmented, guard, sizes, options);
  for (bool changed = true; changed;) {
    changed = false;
    merger.CountRound();
    if (enabled("vertical")) changed |= MergeVertically(merger);
    if (enabled("siblings")) changed |= MergeSiblings(merger);
    if (enabled("closures")) changed |= MergeClosures(merger);
    if (!changed) changed = merger.WeighSpreading();
    if (!changed && enabled("split")) changed = SplitGroups(merger, refinement);
    if (!changed && enabled("borders")) changed = MoveBorders(merger, refinement);
    SEAM_RETURN_IF_ERROR(merger.status());
  }

  // Readers that have copies now may read the same: what one of them wrote joined them before.
  if (enabled("recompute") && RecomputeInReaders(merger) && enabled("siblings"))
    MergeSiblings(merger);
  if (enabled("horizontal")) MergeHorizontally(merger);
  if (enabled("late")) MergeLate(merger);
  SEAM_RETURN_IF_ERROR(merger.status());

  const std::vector<GroupId> numbers = FinalNumbers(segmented);
  SegmentationLog log = merger.Log(numbers);
  log.beginnings = std::move(beginnings);
  return NumberGroups(segmented, numbers, std::move(log));
}

}  // namespace

absl::Span<const SegmentPass> SegmentPasses() { return kPasses; }

absl::StatusOr<Segmentation> SegmentWithLog(const Fusion& fusion, const SchedulabilityGuard& guard,
                                            const SegmentOptions& options) {
  for (const std::string& name : options.disabled_passes) {
    if (std::any_of(std::begin(kPasses), std::end(kPasses),
                    [&](const SegmentPass& pass) { return name == pass.name; })) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no pass `", name, "`; the passes are ",
        absl::StrJoin(kPasses, ", ",
                      [](std::string* s, const SegmentPass& p) { absl::StrAppend(s, p.name); })));
  }
  SEAM_ASSIGN_OR_RETURN(const SizeHints sizes, SizeHints::Create(fusion, options.sizes));
  const CanonicalOrder order = CanonicalOrderOf(fusion);
  std::shared_ptr<const AxisMap> axes;
  absl::StatusOr<FinalCut> cut = absl::UnknownError("");
  std::future<CrossingTypes> types;
  {
    const Fusion canonical = Renumbered(fusion, order);
    auto knowing = Beside(fusion.num_exprs(), [&] { return KnowledgeOf(canonical, options); });
    const auto canonical_axes =
        std::make_shared<const AxisMap>(AxisMap::Build(canonical, Identity(order)));
    const ValueKnowledge values = knowing.get();
    if (!values.sizes.ok()) return values.sizes.status();
    types = Beside(fusion.num_exprs(), [&] { return KnownTypes(fusion, options); });
    cut = CutCanonical(canonical, canonical_axes, values.facts, *values.sizes, guard, options);
    if (!cut.ok()) return cut.status();
    axes = std::make_shared<const AxisMap>(canonical_axes->For(fusion, Inverse(order)));
  }
  SegmentationLog log = InIdsOf(order, std::move(cut->log));
  SEAM_ASSIGN_OR_RETURN(SegmentedFusion segmented,
                        Finalize(fusion, std::move(axes), sizes, *std::move(cut), order));
  NarrowEdges(segmented, types.get());
  SEAM_RETURN_IF_ERROR(VerifySegmentation(segmented));
  return Segmentation{std::move(segmented), std::move(log)};
}

absl::StatusOr<SegmentedFusion> Segment(const Fusion& fusion, const SchedulabilityGuard& guard,
                                        const SegmentOptions& options) {
  SEAM_ASSIGN_OR_RETURN(Segmentation result, SegmentWithLog(fusion, guard, options));
  return std::move(result.segmented);
}

}  // namespace seam
