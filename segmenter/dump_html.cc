#include "segmenter/dump_html.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/status.h"
#include "segmenter/explain.h"
#include "segmenter/markup.h"
#include "segmenter/picture.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

using Json = nlohmann::ordered_json;

// Beyond that a browser does not keep up.
constexpr PictureLimits kPageLimits = {20000, 60000, 16, 6};

double Rounded(double x) { return std::round(x * 10) / 10; }

class Page {
 public:
  Page(SegmentedFusion& s, const DumpOptions& options, const HtmlOptions& html)
      : s_(s), f_(s.fusion()), sizes_(*options.sizes), log_(options.log), html_(html) {}

  absl::StatusOr<Json> Data() {
    const SegmentationTotals totals = TotalsOf(s_, sizes_);
    Json json;
    json["name"] = std::string(f_.name());
    json["kernels"] = totals.kernels;
    json["traffic"] = FormatBytes(totals.bytes);
    json["device"] = html_.device;
    json["symbols"] = Json::object();
    for (const auto& [name, value] : sizes_.symbols()) json["symbols"][name] = value;
    SEAM_RETURN_IF_ERROR(AddPicture(json));
    SEAM_RETURN_IF_ERROR(AddGroups(json));
    AddBorders(json);
    AddMerges(json);
    return json;
  }

 private:
  absl::Status AddPicture(Json& json) {
    SEAM_ASSIGN_OR_RETURN(const Picture picture, MakePicture(s_, sizes_, kPageLimits));
    json["width"] = Rounded(picture.size.width);
    json["height"] = Rounded(picture.size.height);
    json["nodes"] = Json::array();
    for (size_t i = 0; i < picture.nodes.size(); ++i) {
      const PictureNode& node = picture.nodes[i];
      const LayoutNode& place = picture.places[i];
      Json n = {{"x", Rounded(place.x - place.width / 2)},
                {"y", Rounded(place.y - place.height / 2)},
                {"w", Rounded(place.width)},
                {"h", Rounded(place.height)}};
      if (node.group.valid()) {
        n["group"] = node.group.index();
      } else {
        n["value"] = std::string(f_.name(node.val));
        n["result"] = node.is_result;
      }
      n["lines"] = node.lines;
      json["nodes"].push_back(std::move(n));
    }
    json["edges"] = Json::array();
    for (size_t i = 0; i < picture.edges.size(); ++i) {
      const LayoutEdge& edge = picture.edges[i];
      Json route = Json::array();
      for (const LayoutPoint& p : edge.route) {
        route.push_back(Rounded(p.x));
        route.push_back(Rounded(p.y));
      }
      json["edges"].push_back({{"from", edge.from},
                               {"to", edge.to},
                               {"route", std::move(route)},
                               {"labels", picture.labels[i]},
                               {"x", Rounded(edge.label.x)},
                               {"y", Rounded(edge.label.y)},
                               {"w", Rounded(edge.label_width)},
                               {"h", Rounded(edge.label_height)},
                               {"order", static_cast<bool>(picture.order_only[i])}});
    }
    return absl::OkStatus();
  }

  absl::Status AddGroups(Json& json) {
    const std::vector<int64_t> saved = SavedByNarrowing(s_, sizes_);
    json["values"] = Json::array();
    for (uint32_t v = 0; v < f_.num_vals(); ++v) {
      const ValId val(v);
      const ExprId definition = f_.definition(val);
      Json value = {{"name", std::string(f_.name(val))},
                    {"type", StoredType(s_, val)},
                    {"bytes", FormatBytes(StoredBytes(s_, sizes_, val))}};
      if (const std::string error = DescribeNarrowing(s_, val); !error.empty())
        value["narrowed"] = absl::StrCat(FormatBytes(saved[v]), " saved, ", error);
      if (definition.valid() && s_.home(definition).valid())
        value["home"] = s_.home(definition).index();
      if (f_.is_input(val)) value["input"] = true;
      if (f_.is_output(val)) value["output"] = true;
      json["values"].push_back(std::move(value));
    }
    json["groups"] = Json::array();
    for (GroupId g : s_.groups()) {
      SEAM_ASSIGN_OR_RETURN(const std::vector<std::string> lines, GroupLines(s_, g));
      const std::vector<ExprId> exprs = s_.all_exprs(g);
      Json group = {{"id", g.index()},
                    {"scheduler", std::string(SchedulerName(s_.scheduler(g)))},
                    {"traffic", TrafficText(s_, sizes_, g)},
                    {"bytes", TrafficOf(s_, sizes_, g).bytes()},
                    {"exprs", Json::array()},
                    {"inputs", Names(s_.inputs(g))},
                    {"outputs", Json::array()}};
      for (size_t i = 0; i < exprs.size(); ++i) {
        Json expr = {{"id", exprs[i].index()}, {"text", lines[i]}};
        if (s_.home(exprs[i]) != g) expr["copy"] = true;
        if (f_.location(exprs[i]).line > 0) expr["line"] = f_.location(exprs[i]).line;
        group["exprs"].push_back(std::move(expr));
      }
      for (ValId v : s_.outputs(g)) {
        std::vector<uint32_t> readers;
        for (EdgeId e : s_.readers(s_.buffer_of(v))) readers.push_back(s_.edge(e).to.index());
        std::sort(readers.begin(), readers.end());
        group["outputs"].push_back({{"value", std::string(f_.name(v))}, {"readers", readers}});
      }
      json["groups"].push_back(std::move(group));
    }
    for (const GroupCode& code : html_.code) AddCode(code, json["groups"][code.group.index()]);
    return absl::OkStatus();
  }

  static void AddCode(const GroupCode& code, Json& group) {
    group["schedules"] = code.schedules;
    group["guards"] = code.guards;
    group["kernels"] = Json::array();
    for (const KernelCode& kernel : code.kernels) {
      Json k = {{"name", kernel.name}, {"ir", kernel.ir}, {"cuda", kernel.cuda}};
      if (kernel.threads > 0) k["threads"] = kernel.threads;
      if (kernel.registers >= 0) k["registers"] = kernel.registers;
      if (kernel.smem_bytes >= 0) k["smem"] = kernel.smem_bytes;
      if (kernel.spill_bytes >= 0) k["spills"] = kernel.spill_bytes;
      group["kernels"].push_back(std::move(k));
    }
    if (code.estimated_us.has_value()) group["estimated_us"] = *code.estimated_us;
    if (code.measured_us.has_value()) group["measured_us"] = *code.measured_us;
  }

  Json Names(const std::vector<ValId>& vals) const {
    Json names = Json::array();
    for (ValId v : vals) names.push_back(std::string(f_.name(v)));
    return names;
  }

  // Of all groups that an edge joins, and of all that somebody tried to join.
  void AddBorders(Json& json) {
    std::set<std::pair<GroupId, GroupId>> pairs;
    for (GroupId g : s_.groups()) {
      for (EdgeId e : s_.out_edges(g)) pairs.emplace(g, s_.edge(e).to);
    }
    if (log_ != nullptr) {
      for (const BorderReason& border : log_->borders) pairs.emplace(border.from, border.to);
    }
    const std::vector<std::pair<GroupId, GroupId>> list(pairs.begin(), pairs.end());
    static const SegmentationLog kNoLog;
    const std::vector<std::string> texts =
        ExplainBorders(s_, log_ == nullptr ? kNoLog : *log_, *html_.guard, sizes_, list);
    json["borders"] = Json::array();
    for (size_t i = 0; i < list.size(); ++i) {
      json["borders"].push_back(
          {{"from", list[i].first.index()}, {"to", list[i].second.index()}, {"text", texts[i]}});
    }
    if (log_ == nullptr) return;
    for (const BorderReason& border : log_->borders) {
      const auto i = std::lower_bound(list.begin(), list.end(), std::pair(border.from, border.to)) -
                     list.begin();
      Json& b = json["borders"][i];
      b["reason"] = std::string(ReasonName(border.decision.reason));
      b["about"] = Json::array();
      for (ExprId e : border.decision.about)
        b["about"].push_back(std::string(f_.name(f_.result(e))));
    }
  }

  void AddMerges(Json& json) const {
    json["merges"] = Json::array();
    json["beginnings"] = Json::array();  // Of the expressions that do not begin for themselves.
    if (log_ == nullptr) return;
    for (uint32_t e = 0; e < log_->beginnings.size(); ++e) {
      const ExprId first = log_->beginnings[e];
      if (first.valid() && first.index() != e) json["beginnings"].push_back({e, first.index()});
    }
    for (const MergeTrial& trial : log_->trials) {
      Json members = Json::array();
      for (const MergeTrial::Member& m : trial.members) {
        members.push_back({{"expr", m.first.index()},
                           {"name", std::string(f_.name(f_.result(m.first)))},
                           {"size", m.num_exprs}});
      }
      Json t = {{"pass", trial.pass},
                {"members", std::move(members)},
                {"gain", FormatBytes(trial.gain_bytes)},
                {"ok", trial.decision.ok}};
      for (const std::vector<ExprId>& made : trial.made) {
        Json exprs = Json::array();
        for (ExprId e : made) exprs.push_back(e.index());
        t["made"].push_back(std::move(exprs));
      }
      if (!trial.decision.ok) {
        t["reason"] = std::string(ReasonName(trial.decision.reason));
        t["why"] = absl::StrCat(DescribeRefusal(f_, trial.decision), ". That is, ",
                                ReasonSentence(trial.decision.reason), ".");
      }
      json["merges"].push_back(std::move(t));
    }
  }

  SegmentedFusion& s_;
  const Fusion& f_;
  const SizeHints& sizes_;
  const SegmentationLog* const log_;
  const HtmlOptions& html_;
};

}  // namespace

absl::StatusOr<std::string> DumpHtml(SegmentedFusion& segmented, const DumpOptions& options,
                                     const HtmlOptions& html) {
  if (options.sizes == nullptr) return absl::InvalidArgumentError("DumpOptions::sizes is null");
  if (html.guard == nullptr) return absl::InvalidArgumentError("HtmlOptions::guard is null");
  for (const GroupCode& code : html.code) {
    if (!absl::c_linear_search(segmented.groups(), code.group))
      return absl::InvalidArgumentError(
          absl::StrCat("HtmlOptions::code: there is no group ", code.group.index()));
  }
  SEAM_ASSIGN_OR_RETURN(const Json data, Page(segmented, options, html).Data());
  // Nothing in the data may end the script element.
  const std::string text = absl::StrReplaceAll(
      data.dump(-1, ' ', false, Json::error_handler_t::replace), {{"<", "\\u003c"}});
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>",
      EscapedMarkup(segmented.fusion().name()), " - Seam</title>\n<style>\n", kPageStyle,
      "</style>\n</head>\n<body>\n<script type=\"application/json\" id=\"data\">", text,
      "</script>\n<script>\n", kPageScript, "</script>\n</body>\n</html>\n");
}

}  // namespace seam
