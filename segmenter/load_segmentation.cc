// What the two forms have in common: names, and the SegmentedFusion of what a file says.
#include "segmenter/load_segmentation.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "segmenter/dump.h"
#include "segmenter/islands.h"
#include "segmenter/load_draft.h"
#include "segmenter/passes.h"
#include "segmenter/verify.h"

namespace seam {
namespace {

// A name from a file, as a message quotes it.
std::string InQuotes(absl::string_view name) {
  return absl::StrCat("`", absl::CHexEscape(name.substr(0, 100)), name.size() > 100 ? "..." : "",
                      "`");
}

}  // namespace

SegmentationDraft::SegmentationDraft(const Fusion& fusion) : fusion_(fusion) {
  values_.reserve(fusion.num_vals());
  for (uint32_t v = 0; v < fusion.num_vals(); ++v) values_.emplace(fusion.name(ValId(v)), ValId(v));
  partition_.home.resize(fusion.num_exprs());
}

absl::StatusOr<SchedulerKind> SegmentationDraft::FindScheduler(absl::string_view name) {
  for (int k = 1; k <= static_cast<int>(SchedulerKind::kCommunication); ++k) {
    const auto kind = static_cast<SchedulerKind>(k);
    if (SchedulerName(kind) == name) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no scheduler ", InQuotes(name)));
}

absl::StatusOr<ReasonCode> SegmentationDraft::FindReason(absl::string_view name) {
  for (int c = 1; ReasonName(static_cast<ReasonCode>(c)) != "unknown"; ++c) {
    if (ReasonName(static_cast<ReasonCode>(c)) == name) return static_cast<ReasonCode>(c);
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no reason ", InQuotes(name)));
}

absl::StatusOr<Narrowing> SegmentationDraft::FindNarrowing(absl::string_view name) {
  if (const auto narrowing = ParseNarrowing(name)) return *narrowing;
  return absl::InvalidArgumentError(
      absl::StrCat("found ", InQuotes(name), ", expected off, exact, f16 or bf16"));
}

absl::StatusOr<ValId> SegmentationDraft::FindVal(absl::string_view name) const {
  const auto it = values_.find(name);
  if (it != values_.end()) return it->second;
  return absl::InvalidArgumentError(absl::StrCat("the graph has no value ", InQuotes(name)));
}

absl::StatusOr<ExprId> SegmentationDraft::FindExpr(absl::string_view first_result) const {
  SEAM_ASSIGN_OR_RETURN(const ValId v, FindVal(first_result));
  const ExprId e = fusion_.definition(v);
  if (!e.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat(InQuotes(first_result), " is an input of the graph; no group computes it"));
  }
  if (fusion_.result(e) != v) {
    return absl::InvalidArgumentError(
        absl::StrCat("an expression goes by the name of its first result, that of ",
                     InQuotes(first_result), " by ", InQuotes(fusion_.name(fusion_.result(e)))));
  }
  return e;
}

GroupId SegmentationDraft::AddGroup(SchedulerKind scheduler) {
  schedulers_.push_back(scheduler);
  return GroupId(partition_.num_groups++);
}

absl::Status SegmentationDraft::AddHome(GroupId g, absl::string_view first_result) {
  SEAM_ASSIGN_OR_RETURN(const ExprId e, FindExpr(first_result));
  GroupId& home = partition_.home[e.index()];
  if (home.valid()) {
    return absl::InvalidArgumentError(absl::StrCat(
        InQuotes(first_result), " is ",
        home == g ? "listed twice" : absl::StrCat("in group ", home.index(), " already")));
  }
  home = g;
  return absl::OkStatus();
}

absl::Status SegmentationDraft::AddCopy(GroupId g, absl::string_view first_result) {
  SEAM_ASSIGN_OR_RETURN(const ExprId e, FindExpr(first_result));
  partition_.copies.emplace_back(e, g);
  return absl::OkStatus();
}

absl::Status SegmentationDraft::AddBorder(BorderReason border, absl::string_view detail) {
  if (border.from >= border.to) {
    return absl::InvalidArgumentError("a border is between an earlier group and a later one");
  }
  if (!log_.borders.empty() && std::pair(log_.borders.back().from, log_.borders.back().to) >=
                                   std::pair(border.from, border.to)) {
    return absl::InvalidArgumentError("borders come in the order of their groups, each once");
  }
  log_.texts.push_back(std::make_shared<const std::string>(detail));
  border.decision.detail = log_.texts.back()->c_str();
  log_.borders.push_back(std::move(border));
  return absl::OkStatus();
}

absl::StatusOr<LoadedSegmentation> SegmentationDraft::Finish(SymbolSizes sizes) {
  const std::vector<bool> needed = LeaveOutDeadCode(fusion_, true);
  for (uint32_t e = 0; e < fusion_.num_exprs(); ++e) {
    if (!needed[e] || partition_.home[e].valid()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("groups: none of them computes ",
                     InQuotes(fusion_.name(fusion_.result(ExprId(e)))), " (copies apart)"));
  }
  const absl::StatusOr<SizeHints> hints = SizeHints::Create(fusion_, sizes);
  if (!hints.ok())
    return absl::InvalidArgumentError(absl::StrCat("symbols: ", hints.status().message()));
  const CanonicalOrder order = CanonicalOrderOf(fusion_);
  absl::StatusOr<SegmentedFusion> built = SegmentedFusion::Create(
      fusion_, std::make_shared<const AxisMap>(AxisMap::Build(fusion_, order)),
      std::move(partition_));
  if (!built.ok())
    return absl::InvalidArgumentError(absl::StrCat("groups: ", built.status().message()));
  for (uint32_t e = 0; e < built->edge_limit(); ++e) {
    const SegmentedEdge& edge = built->edge(EdgeId(e));
    if (!edge.from.valid() || edge.from < edge.to) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("groups: group ", edge.to.index(), " needs ", InQuotes(fusion_.name(edge.val)),
                     " of group ", edge.from.index(),
                     ", which comes later; they are listed in an order in which they can run"));
  }
  for (uint32_t g = 0; g < schedulers_.size(); ++g)
    built->set_scheduler(GroupId(g), schedulers_[g]);
  ChooseLayouts(*built, *hints, order);
  NarrowEdges(*built, CrossingTypes::Find(fusion_, built->facts(), built->computed(), narrowing_));
  SEAM_RETURN_IF_ERROR(VerifySegmentation(*built));
  return LoadedSegmentation{*std::move(built), std::move(log_), std::move(sizes)};
}

absl::StatusOr<LoadedSegmentation> LoadSegmentation(const Fusion& fusion, absl::string_view text) {
  const absl::string_view start = absl::StripLeadingAsciiWhitespace(text);
  return start.empty() || start[0] == '{' ? LoadJson(fusion, text) : LoadText(fusion, text);
}

absl::Status CheckSchedulable(const SegmentedFusion& segmented, const SchedulabilityGuard& guard) {
  for (GroupId g : segmented.groups()) {
    const SchedulerKind scheduler = segmented.scheduler(g);
    const Decision decision = CanScheduleAs(scheduler, guard, segmented.fusion(), segmented.axes(),
                                            segmented.facts(), segmented.all_exprs(g));
    if (decision.ok && decision.scheduler == scheduler) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "group ", g.index(), " is no plan of the scheduler ", SchedulerName(scheduler), ": ",
        decision.ok ? absl::StrCat("the scheduler ", SchedulerName(decision.scheduler), " takes it")
                    : DescribeRefusal(segmented.fusion(), decision)));
  }
  return absl::OkStatus();
}

}  // namespace seam
