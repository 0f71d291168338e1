// The text form and the explanation of the merges.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/status.h"
#include "ir/text/printer.h"
#include "segmenter/dump.h"
#include "segmenter/extract.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

// ANSI styles; empty without colour.
struct Style {
  explicit Style(bool on)
      : bold(on ? "\x1b[1m" : ""),
        dim(on ? "\x1b[2m" : ""),
        good(on ? "\x1b[32m" : ""),
        bad(on ? "\x1b[31m" : ""),
        name(on ? "\x1b[36m" : ""),
        off(on ? "\x1b[0m" : "") {}
  const char *bold, *dim, *good, *bad, *name, *off;
};

std::string Count(int64_t n, absl::string_view what) {
  return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
}

std::string ResultNames(const Fusion& f, ExprId e) {
  std::string names;
  for (int r = 0; r < f.num_results(e); ++r)
    absl::StrAppend(&names, r > 0 ? ", " : "", f.name(f.result(e, r)));
  return names;
}

// "`s = sum(x)`, line 5".
std::string DescribeExpr(const Fusion& f, ExprId e) {
  std::string text =
      absl::StrCat("`", ResultNames(f, e), " = ", OpName(f.op(e)), "(",
                   absl::StrJoin(f.operands(e), ", ",
                                 [&](std::string* s, ValId v) { absl::StrAppend(s, f.name(v)); }),
                   ")`");
  if (f.location(e).line > 0) absl::StrAppend(&text, ", line ", f.location(e).line);
  return text;
}

std::string GroupName(GroupId g) { return absl::StrCat("g", g.index()); }

}  // namespace

std::string DescribeRefusal(const Fusion& fusion, const Decision& decision) {
  std::string text;
  if (decision.scheduler != SchedulerKind::kNone)
    absl::StrAppend(&text, SchedulerName(decision.scheduler), " refuses: ");
  absl::StrAppend(&text, ReasonName(decision.reason));
  if (decision.detail[0] != '\0') absl::StrAppend(&text, ": ", decision.detail);
  if (!decision.about.empty()) {
    absl::StrAppend(&text, " (",
                    absl::StrJoin(decision.about, "; ",
                                  [&](std::string* s, ExprId e) {
                                    absl::StrAppend(s, DescribeExpr(fusion, e));
                                  }),
                    ")");
  }
  return text;
}

absl::StatusOr<std::vector<std::string>> GroupLines(const SegmentedFusion& segmented, GroupId g) {
  SEAM_ASSIGN_OR_RETURN(const ExtractedGroup group, ExtractGroup(segmented, g));
  // One operation a line, after the declarations.
  std::vector<std::string> lines;
  const std::string text = PrintFusion(group.fusion);
  size_t next = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t equals = line.find(" = ");
    if (equals == absl::string_view::npos || next == group.exprs.size()) continue;
    const ExprId e = group.exprs[next++];
    if (!e.valid()) continue;  // A cast at the border.
    lines.push_back(absl::StrCat(ResultNames(segmented.fusion(), e), line.substr(equals)));
  }
  return lines;
}

absl::StatusOr<std::string> DumpText(const SegmentedFusion& segmented, const DumpOptions& options) {
  if (options.sizes == nullptr) return absl::InvalidArgumentError("DumpOptions::sizes is null");
  const Fusion& f = segmented.fusion();
  const Style style(options.color);
  const SizeHints& sizes = *options.sizes;
  const SegmentationTotals totals = TotalsOf(segmented, sizes);
  std::string out =
      absl::StrCat(style.bold, f.name(), style.off, ": ", Count(totals.kernels, "kernel"), ", ",
                   FormatBytes(totals.bytes), " of device memory traffic");
  if (!sizes.symbols().empty()) {
    absl::StrAppend(&out, " at ", absl::StrJoin(sizes.symbols(), ", ", absl::PairFormatter(" = ")));
  }
  absl::StrAppend(&out, "\n");
  if (segmented.narrowing() != Narrowing::kExact)
    absl::StrAppend(&out, "edges: ", NarrowingName(segmented.narrowing()), "\n");
  const std::vector<int64_t> saved = SavedByNarrowing(segmented, sizes);
  const auto value = [&](ValId v) {
    return absl::StrCat(style.name, f.name(v), style.off, ": ", StoredType(segmented, v));
  };
  for (GroupId g : segmented.groups()) {
    const GroupTraffic traffic = TrafficOf(segmented, sizes, g);
    absl::StrAppend(
        &out, "\n", style.bold, GroupName(g), style.off, "  ",
        SchedulerName(segmented.scheduler(g)), ", ", Count(segmented.num_exprs(g), "expression"),
        Launches(segmented, g) ? absl::StrCat(", ", FormatBytes(traffic.bytes())) : ", no launch",
        "\n");
    for (ValId v : segmented.inputs(g)) {
      const ExprId definition = f.definition(v);
      absl::StrAppend(
          &out, "  in   ", value(v), style.dim, "  ", FormatBytes(StoredBytes(segmented, sizes, v)),
          definition.valid() ? absl::StrCat(", from ", GroupName(segmented.home(definition))) : "",
          style.off, "\n");
    }
    SEAM_ASSIGN_OR_RETURN(const std::vector<std::string> lines, GroupLines(segmented, g));
    const std::vector<ExprId> exprs = segmented.all_exprs(g);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool copy = segmented.home(exprs[i]) != g;
      absl::StrAppend(&out, copy ? style.dim : "", copy ? "  copy " : "       ", lines[i],
                      copy ? style.off : "", "\n");
    }
    for (ValId v : segmented.outputs(g)) {
      std::vector<std::string> readers;
      for (EdgeId e : segmented.readers(segmented.buffer_of(v))) {
        readers.push_back(GroupName(segmented.edge(e).to));
      }
      std::sort(readers.begin(), readers.end());
      if (f.is_output(v)) readers.push_back("the caller");
      if (readers.empty()) readers.push_back("nobody");
      absl::StrAppend(&out, "  out  ", value(v), style.dim, "  ",
                      FormatBytes(StoredBytes(segmented, sizes, v)), ", to ",
                      absl::StrJoin(readers, ", "));
      if (const std::string error = DescribeNarrowing(segmented, v); !error.empty())
        absl::StrAppend(&out, "; ", FormatBytes(saved[v.index()]), " saved, ", error);
      absl::StrAppend(&out, style.off, "\n");
    }
  }
  if (!segmented.order_constraints().empty())
    absl::StrAppend(&out, "\n", style.bold, "order", style.off, "\n");
  for (const OrderConstraint& c : segmented.order_constraints()) {
    absl::StrAppend(&out, "  ", f.name(f.result(c.before)), " before ", f.name(f.result(c.after)),
                    ", because of ", f.name(c.val), "\n");
  }
  if (options.log != nullptr && !options.log->borders.empty()) {
    absl::StrAppend(&out, "\n", style.bold, "borders", style.off, "\n");
    for (const BorderReason& border : options.log->borders) {
      absl::StrAppend(&out, "  ", GroupName(border.from), " | ", GroupName(border.to), "  ",
                      DescribeRefusal(f, border.decision), "\n");
    }
  }
  return out;
}

std::string ExplainMerges(const SegmentedFusion& segmented, const SegmentationLog& log,
                          bool color) {
  const Fusion& f = segmented.fusion();
  const Style style(color);
  std::string out = absl::StrCat(style.bold, f.name(), style.off, ": ",
                                 Count(log.num_trials, "merge"), " tried, ", log.num_merges,
                                 " made, ", Count(segmented.num_groups(), "group"), " left\n");
  const auto member = [&](const MergeTrial::Member& m) {
    return absl::StrCat(style.name, f.name(f.result(m.first)), style.off,
                        m.num_exprs > 1 ? absl::StrCat(" (+", m.num_exprs - 1, ")") : "");
  };
  for (const MergeTrial& trial : log.trials) {
    const std::string outcome = !trial.decision.ok ? absl::StrCat(style.bad, "refused", style.off)
                                : trial.made.empty()
                                    ? absl::StrCat(style.good, "merged ", style.off)
                                    : absl::StrCat(style.good, "recut  ", style.off);
    absl::StrAppend(
        &out, outcome, " ", trial.pass, ": ",
        absl::StrJoin(
            trial.members, " + ",
            [&](std::string* s, const MergeTrial::Member& m) { absl::StrAppend(s, member(m)); }),
        trial.made.empty() ? "" : " -> ",
        absl::StrJoin(trial.made, ", ",
                      [&](std::string* s, const std::vector<ExprId>& exprs) {
                        absl::StrAppend(s, member({exprs.front(), static_cast<int>(exprs.size())}));
                      }),
        style.dim, ", gain ", FormatBytes(trial.gain_bytes), style.off, "\n");
    if (!trial.decision.ok)
      absl::StrAppend(&out, "        ", DescribeRefusal(f, trial.decision), "\n");
  }
  if (!log.borders.empty()) absl::StrAppend(&out, "\nwhat keeps the groups apart\n");
  for (const BorderReason& border : log.borders) {
    absl::StrAppend(&out, "  ", GroupName(border.from), " | ", GroupName(border.to), "  ",
                    DescribeRefusal(f, border.decision), "\n");
  }
  return out;
}

}  // namespace seam
