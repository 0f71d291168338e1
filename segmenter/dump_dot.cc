#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/status.h"
#include "segmenter/dump.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

}  // namespace

absl::StatusOr<std::string> DumpDot(const SegmentedFusion& segmented, const DumpOptions& options) {
  if (options.sizes == nullptr) return absl::InvalidArgumentError("DumpOptions::sizes is null");
  const Fusion& f = segmented.fusion();
  const SizeHints& sizes = *options.sizes;
  std::string out = absl::StrCat("digraph ", Quoted(f.name()),
                                 " {\n  node [shape=plaintext, fontname=monospace, fontsize=10];\n"
                                 "  edge [fontname=monospace, fontsize=9];\n");
  // A computation of an expression in a group.
  const auto node = [](GroupId g, ExprId e) {
    return absl::StrCat("g", g.index(), "_e", e.index());
  };
  const auto label = [&](ValId v) {
    return Quoted(absl::StrCat(f.name(v), ": ", StoredType(segmented, v), "\n",
                               FormatBytes(StoredBytes(segmented, sizes, v))));
  };
  for (ValId v : f.inputs()) {
    absl::StrAppend(&out, "  in", v.index(), " [shape=box, style=rounded, label=", label(v),
                    "];\n");
  }
  std::string edges;
  for (GroupId g : segmented.groups()) {
    absl::StrAppend(
        &out, "  subgraph cluster_g", g.index(), " {\n    style=rounded;\n    label=",
        Quoted(absl::StrCat("g", g.index(), " ", SchedulerName(segmented.scheduler(g)))), ";\n");
    SEAM_ASSIGN_OR_RETURN(const std::vector<std::string> lines, GroupLines(segmented, g));
    const std::vector<ExprId> exprs = segmented.all_exprs(g);
    for (size_t i = 0; i < exprs.size(); ++i) {
      absl::StrAppend(&out, "    ", node(g, exprs[i]), " [label=", Quoted(lines[i]), "];\n");
      for (ValId v : f.operands(exprs[i])) {
        const ExprId definition = f.definition(v);
        if (definition.valid() && segmented.computes(g, definition)) {
          absl::StrAppend(&edges, "  ", node(g, definition), " -> ", node(g, exprs[i]), ";\n");
        } else if (definition.valid()) {
          absl::StrAppend(&edges, "  ", node(segmented.home(definition), definition), " -> ",
                          node(g, exprs[i]), " [penwidth=2, label=", label(v), "];\n");
        } else {
          absl::StrAppend(&edges, "  in", v.index(), " -> ", node(g, exprs[i]), ";\n");
        }
      }
    }
    absl::StrAppend(&out, "  }\n");
    for (EdgeId e : segmented.out_edges(g)) {
      if (segmented.edge(e).kind() != EdgeKind::kOrder) continue;
      absl::StrAppend(&edges, "  ", node(g, segmented.first_expr(g)), " -> ",
                      node(segmented.edge(e).to, segmented.first_expr(segmented.edge(e).to)),
                      " [style=dashed, label=order];\n");
    }
  }
  for (ValId v : f.outputs()) {
    const ExprId definition = f.definition(v);
    absl::StrAppend(&out, "  out", v.index(),
                    " [shape=box, style=\"rounded,bold\", label=", label(v), "];\n");
    absl::StrAppend(&edges, "  ",
                    definition.valid() ? node(segmented.home(definition), definition)
                                       : absl::StrCat("in", v.index()),
                    " -> out", v.index(), ";\n");
  }
  return absl::StrCat(out, edges, "}\n");
}

}  // namespace seam
