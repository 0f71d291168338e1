// The picture: self-contained SVG, readable on white.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ir/status.h"
#include "segmenter/dump.h"
#include "segmenter/markup.h"
#include "segmenter/picture.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

constexpr PictureLimits kSvgLimits = {400, 2000, 16, 400};
constexpr double kMargin = 28, kHeader = 52;

struct Colors {
  const char *fill, *stroke;
};
Colors ColorsOf(SchedulerKind kind) {
  switch (kind) {
    case SchedulerKind::kAlias:
      return {"#f4f4f5", "#a1a1aa"};
    case SchedulerKind::kPointwise:
      return {"#ecfdf5", "#059669"};
    case SchedulerKind::kHorizontal:
      return {"#f0fdfa", "#0d9488"};
    case SchedulerKind::kReduction:
      return {"#eff6ff", "#2563eb"};
    case SchedulerKind::kLibrary:
      return {"#fff7ed", "#ea580c"};
    case SchedulerKind::kTemplate:
      return {"#fefce8", "#ca8a04"};
    default:
      return {"#faf5ff", "#9333ea"};
  }
}

class Svg {
 public:
  std::string Document(double width, double height, absl::string_view title) const {
    return absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 "
        "%.0f %.0f\">\n"
        "<title>%s</title>\n"
        "<style>\n"
        "text { font-family: ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', "
        "sans-serif; "
        "font-size: 12px; fill: #18181b; }\n"
        ".code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', "
        "monospace; "
        "font-size: 11.5px; white-space: pre; }\n"
        ".dim { fill: #71717a; }\n"
        "</style>\n"
        "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" "
        "orient=\"auto\"><path d=\"M0,0.8 L7.4,4 L0,7.2 z\" fill=\"#71717a\"/></marker></defs>\n"
        "<rect width=\"100%%\" height=\"100%%\" rx=\"10\" fill=\"#ffffff\"/>\n%s</svg>\n",
        width, height, width, height, EscapedMarkup(title), body_);
  }

  void Rect(double x, double y, double w, double h, double radius, const char* fill,
            const char* stroke, double stroke_width = 1.2, bool dashed = false) {
    absl::StrAppendFormat(
        &body_,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\" fill=\"%s\" "
        "stroke=\"%s\" stroke-width=\"%.1f\"%s/>\n",
        x, y, w, h, radius, fill, stroke, stroke_width, dashed ? " stroke-dasharray=\"4 3\"" : "");
  }
  void Text(double x, double y, absl::string_view text, absl::string_view attributes = "") {
    absl::StrAppendFormat(&body_, "<text x=\"%.1f\" y=\"%.1f\"%s%s>%s</text>\n", x, y,
                          attributes.empty() ? "" : " ", attributes, EscapedMarkup(text));
  }
  void Curve(const std::vector<LayoutPoint>& route, bool dashed) {
    std::string d = absl::StrFormat("M%.1f,%.1f", route[0].x, route[0].y);
    for (size_t i = 1; i < route.size(); ++i) {
      const double middle = (route[i - 1].y + route[i].y) / 2;
      absl::StrAppendFormat(&d, " C%.1f,%.1f %.1f,%.1f %.1f,%.1f", route[i - 1].x, middle,
                            route[i].x, middle, route[i].x, route[i].y);
    }
    absl::StrAppendFormat(&body_,
                          "<path d=\"%s\" fill=\"none\" stroke=\"#71717a\" stroke-width=\"1.3\"%s "
                          "marker-end=\"url(#arrow)\"/>\n",
                          d, dashed ? " stroke-dasharray=\"5 4\"" : "");
  }

 private:
  std::string body_;
};

class Drawing {
 public:
  Drawing(const SegmentedFusion& s, const DumpOptions& options, Picture picture)
      : s_(s), f_(s.fusion()), sizes_(*options.sizes), p_(std::move(picture)) {}

  std::string Draw() {
    for (LayoutNode& place : p_.places) {
      place.x += kMargin;
      place.y += kMargin + kHeader;
    }
    DrawHeader();
    for (size_t i = 0; i < p_.edges.size(); ++i) DrawEdge(i);
    for (size_t i = 0; i < p_.nodes.size(); ++i)
      p_.nodes[i].group.valid() ? DrawGroup(i) : DrawPill(i);
    return svg_.Document(std::max(p_.size.width, header_width_) + 2 * kMargin,
                         p_.size.height + 2 * kMargin + kHeader, f_.name());
  }

 private:
  void DrawHeader() {
    const SegmentationTotals totals = TotalsOf(s_, sizes_);
    std::string summary =
        absl::StrCat(totals.kernels, totals.kernels == 1 ? " kernel" : " kernels", ", ",
                     FormatBytes(totals.bytes), " of device memory traffic");
    std::string separator = " at ";
    for (const auto& [name, value] : sizes_.symbols()) {
      absl::StrAppend(&summary, separator, name, " = ", value);
      separator = ", ";
    }
    header_width_ = std::max(static_cast<double>(summary.size()) * kSansWidth,
                             static_cast<double>(f_.name().size()) * 10);
    svg_.Text(kMargin, kMargin + 10, f_.name(), "style=\"font-size:17px;font-weight:600\"");
    svg_.Text(kMargin, kMargin + 29, summary, "class=\"dim\"");
  }

  void DrawEdge(size_t i) {
    LayoutEdge& edge = p_.edges[i];
    for (LayoutPoint& p : edge.route) {
      p.x += kMargin;
      p.y += kMargin + kHeader;
    }
    edge.route.back().y -= 1.5;
    svg_.Curve(edge.route, p_.order_only[i]);
    if (p_.labels[i].empty()) return;
    const double x = edge.label.x + kMargin, y = edge.label.y + kMargin + kHeader;
    svg_.Rect(x - edge.label_width / 2, y - edge.label_height / 2, edge.label_width,
              edge.label_height, 4, "#ffffff", "none");
    double baseline = y - edge.label_height / 2 + kLineHeight - 2;
    for (const std::string& line : p_.labels[i]) {
      svg_.Text(x, baseline, line, "class=\"code\" text-anchor=\"middle\"");
      baseline += kLineHeight;
    }
  }

  void DrawGroup(size_t i) {
    const PictureNode& node = p_.nodes[i];
    const LayoutNode& place = p_.places[i];
    const SchedulerKind kind = s_.scheduler(node.group);
    const Colors colors = ColorsOf(kind);
    const double left = place.x - place.width / 2, top = place.y - place.height / 2;
    svg_.Rect(left, top, place.width, place.height, 8, colors.fill, colors.stroke, 1.4,
              kind == SchedulerKind::kAlias);
    const std::string name = absl::StrCat("g", node.group.index());
    const std::string badge(SchedulerName(kind));
    svg_.Text(left + kBoxPadding, top + 20, name, "style=\"font-weight:600\"");
    const double badge_left = left + kBoxPadding + static_cast<double>(name.size()) * 8 + 8;
    const double badge_width = static_cast<double>(badge.size()) * kSansWidth + 14;
    svg_.Rect(badge_left, top + 7, badge_width, 18, 9, colors.stroke, "none");
    svg_.Text(badge_left + badge_width / 2, top + 20, badge,
              "text-anchor=\"middle\" style=\"fill:#ffffff;font-size:11px\"");
    svg_.Text(left + place.width - kBoxPadding, top + 20, TrafficText(s_, sizes_, node.group),
              "class=\"dim\" text-anchor=\"end\"");
    double baseline = top + kTitleHeight + kLineHeight - 4;
    for (size_t n = 0; n < node.lines.size(); ++n, baseline += kLineHeight) {
      svg_.Text(left + kBoxPadding, baseline, node.lines[n],
                node.copied[n] ? "class=\"code dim\"" : "class=\"code\"");
    }
  }

  void DrawPill(size_t i) {
    const LayoutNode& place = p_.places[i];
    const ValId v = p_.nodes[i].val;
    svg_.Rect(place.x - place.width / 2, place.y - place.height / 2, place.width, place.height, 21,
              "#fafafa", "#71717a");
    svg_.Text(place.x, place.y - 2, p_.nodes[i].lines[0], "class=\"code\" text-anchor=\"middle\"");
    svg_.Text(place.x, place.y + 13, FormatBytes(sizes_.Bytes(v)),
              "class=\"dim\" text-anchor=\"middle\" style=\"font-size:11px\"");
  }

  const SegmentedFusion& s_;
  const Fusion& f_;
  const SizeHints& sizes_;
  Svg svg_;
  Picture p_;
  double header_width_ = 0;
};

}  // namespace

absl::StatusOr<std::string> DumpSvg(const SegmentedFusion& segmented, const DumpOptions& options) {
  if (options.sizes == nullptr) return absl::InvalidArgumentError("DumpOptions::sizes is null");
  SEAM_ASSIGN_OR_RETURN(Picture picture, MakePicture(segmented, *options.sizes, kSvgLimits));
  return Drawing(segmented, options, std::move(picture)).Draw();
}

}  // namespace seam
