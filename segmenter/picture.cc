#include "segmenter/picture.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "segmenter/dump.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

std::string Cut(const std::string& text) {
  return text.size() <= kMaxColumns ? text : absl::StrCat(text.substr(0, kMaxColumns - 3), "...");
}

class PictureMaker {
 public:
  PictureMaker(const SegmentedFusion& s, const SizeHints& sizes, const PictureLimits& limits)
      : s_(s), f_(s.fusion()), sizes_(sizes), limits_(limits) {}

  absl::StatusOr<Picture> Make() {
    SEAM_RETURN_IF_ERROR(AddNodes());
    AddEdges();
    if (p_.nodes.size() > limits_.nodes || p_.edges.size() > limits_.edges) {
      return absl::InvalidArgumentError(
          absl::StrCat("a picture of ", p_.nodes.size(), " boxes and ", p_.edges.size(),
                       " edges would not be readable (", limits_.nodes, " and ", limits_.edges,
                       " are); text and JSON have no such limit"));
    }
    p_.size = LayOut(p_.places, p_.edges);
    return std::move(p_);
  }

 private:
  int AddNode(PictureNode node, double width, double height) {
    p_.nodes.push_back(std::move(node));
    p_.places.push_back({width, height});
    return static_cast<int>(p_.nodes.size()) - 1;
  }

  absl::Status AddNodes() {
    std::vector<size_t> readers(f_.num_vals());
    for (GroupId g : s_.groups()) {
      for (EdgeId e : s_.in_edges(g)) ++readers[s_.edge(e).val.index()];
    }
    for (ValId v : f_.inputs()) {
      const size_t n = readers[v.index()];
      if ((n > 0 && n <= limits_.readers) || f_.is_output(v)) input_node_[v] = AddPill(v, false);
    }
    for (GroupId g : s_.groups()) {
      if (p_.nodes.size() > limits_.nodes) return absl::OkStatus();  // Too many anyway.
      SEAM_ASSIGN_OR_RETURN(std::vector<std::string> lines, GroupLines(s_, g));
      const size_t all = lines.size();
      if (all > limits_.lines) {
        lines.resize(std::max<size_t>(limits_.lines, 1) - 1);
        lines.push_back(absl::StrCat("... ", all - lines.size(), " more"));
      }
      size_t columns = 0;
      for (std::string& line : lines) {
        line = Cut(line);
        columns = std::max(columns, line.size());
      }
      const double width = std::max(static_cast<double>(columns) * kMonoWidth,
                                    static_cast<double>(TitleSize(g) + 6) * kSansWidth) +
                           2 * kBoxPadding;
      const double height =
          kTitleHeight + static_cast<double>(lines.size()) * kLineHeight + kBoxPadding;
      std::vector<bool> copied(lines.size());
      const std::vector<ExprId> exprs = s_.all_exprs(g);
      for (size_t i = 0; i < std::min(lines.size(), exprs.size()); ++i)
        copied[i] = s_.home(exprs[i]) != g;
      group_node_[g] =
          AddNode({g, ValId(), false, std::move(lines), std::move(copied)}, width, height);
    }
    for (ValId v : f_.outputs()) output_node_[v] = AddPill(v, true);
    return absl::OkStatus();
  }

  size_t TitleSize(GroupId g) const {
    return absl::StrCat("g", g.index(), "  ", SchedulerName(s_.scheduler(g)),
                        TrafficText(s_, sizes_, g))
        .size();
  }
  std::string PillText(ValId v) const { return absl::StrCat(f_.name(v), ": ", StoredType(s_, v)); }
  int AddPill(ValId v, bool is_result) {
    std::string line = Cut(PillText(v));
    const double width = static_cast<double>(line.size()) * kMonoWidth + 2 * kBoxPadding;
    return AddNode({GroupId(), v, is_result, {std::move(line)}, {}}, width, 42);
  }

  // The pill that a reader's edge comes from.
  int InputNode(ValId v) {
    const auto it = input_node_.find(v);
    return it != input_node_.end() ? it->second : AddPill(v, false);
  }

  // One curve for all values that one node passes to another, with a line of label each.
  void AddEdges() {
    std::map<std::pair<int, int>, std::vector<std::string>> labels;
    std::map<std::pair<int, int>, bool> order;
    for (GroupId g : s_.groups()) {
      const auto to = group_node_.find(g);
      if (to == group_node_.end()) continue;
      std::vector<EdgeId> in;
      for (EdgeId e : s_.in_edges(g)) in.push_back(e);
      std::sort(in.begin(), in.end(),
                [&](EdgeId a, EdgeId b) { return s_.edge(a).val < s_.edge(b).val; });
      for (EdgeId e : in) {
        const SegmentedEdge& edge = s_.edge(e);
        const int from = edge.from.valid() ? group_node_[edge.from] : InputNode(edge.val);
        auto& lines = labels[{from, to->second}];
        bool& only_order = order.try_emplace({from, to->second}, true).first->second;
        only_order &= edge.kind() == EdgeKind::kOrder;
        if (edge.kind() == EdgeKind::kOrder) {
          lines.push_back(absl::StrCat("order: ", f_.name(edge.val)));
        } else if (edge.from.valid()) {
          lines.push_back(Cut(absl::StrCat(PillText(edge.val), ", ",
                                           FormatBytes(StoredBytes(s_, sizes_, edge.val)))));
        }
      }
    }
    for (const auto& [v, node] : output_node_) {
      const ExprId definition = f_.definition(v);
      const int from = definition.valid() ? group_node_[s_.home(definition)] : input_node_[v];
      labels[{from, node}];
    }
    for (const auto& [ends, lines] : labels) {
      LayoutEdge edge;
      edge.from = ends.first;
      edge.to = ends.second;
      for (const std::string& line : lines) {
        edge.label_width =
            std::max(edge.label_width, static_cast<double>(line.size()) * kMonoWidth + 10);
      }
      edge.label_height = lines.empty() ? 0 : static_cast<double>(lines.size()) * kLineHeight + 4;
      p_.edges.push_back(edge);
      p_.labels.push_back(lines);
      const auto it = order.find(ends);
      p_.order_only.push_back(it != order.end() && it->second);
    }
  }

  const SegmentedFusion& s_;
  const Fusion& f_;
  const SizeHints& sizes_;
  const PictureLimits limits_;
  Picture p_;
  std::map<GroupId, int> group_node_;
  std::map<ValId, int> input_node_, output_node_;
};

}  // namespace

absl::StatusOr<Picture> MakePicture(const SegmentedFusion& segmented, const SizeHints& sizes,
                                    const PictureLimits& limits) {
  return PictureMaker(segmented, sizes, limits).Make();
}

std::string TrafficText(const SegmentedFusion& segmented, const SizeHints& sizes, GroupId g) {
  return Launches(segmented, g) ? FormatBytes(TrafficOf(segmented, sizes, g).bytes()) : "no launch";
}

}  // namespace seam
