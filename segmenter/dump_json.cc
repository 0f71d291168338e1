#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ir/status.h"
#include "segmenter/dump.h"
#include "segmenter/traffic.h"

namespace seam {
namespace {

using Json = nlohmann::ordered_json;

Json Names(const Fusion& f, const std::vector<ValId>& vals) {
  Json names = Json::array();
  for (ValId v : vals) names.push_back(std::string(f.name(v)));
  return names;
}

Json Names(const Fusion& f, const std::vector<ExprId>& exprs) {
  Json names = Json::array();
  for (ExprId e : exprs) names.push_back(std::string(f.name(f.result(e))));
  return names;
}

Json Shape(const Fusion& f, ValId v) {
  Json shape = Json::array();
  for (const IterDomain& d : f.domain(v)) {
    if (const auto n = d.extent.maybe_int()) {
      shape.push_back(*n);
    } else {
      shape.push_back(d.extent.ToString());
    }
  }
  return shape;
}

DType StoredAs(const SegmentedFusion& segmented, const SegmentedEdge& edge) {
  if (!edge.buffer.valid()) return segmented.fusion().dtype(edge.val);
  return segmented.buffer(edge.buffer).dtype;
}

Json Narrowed(const SegmentedFusion& segmented, const SizeHints& sizes, const SegmentedEdge& edge) {
  const Buffer& buffer = segmented.buffer(edge.buffer);
  const RoundingError error = buffer.rounds ? RoundingErrorOf(buffer.dtype) : RoundingError();
  return {{"from", std::string(DTypeName(segmented.fusion().dtype(edge.val)))},
          {"saved", sizes.BytesAs(edge.val, segmented.fusion().dtype(edge.val)) -
                        sizes.BytesAs(edge.val, buffer.dtype)},
          {"relative_error", error.relative},
          {"absolute_error", error.absolute}};
}

// Dimensions from the outermost in memory; empty for row-major.
Json Layout(const SegmentedFusion& segmented, const SegmentedEdge& edge) {
  if (!edge.buffer.valid()) return Json::array();
  const AxisVector& order = segmented.buffer(edge.buffer).order;
  return std::vector<int32_t>(order.begin(), order.end());
}

}  // namespace

absl::StatusOr<std::string> DumpJson(const SegmentedFusion& segmented, const DumpOptions& options) {
  if (options.sizes == nullptr) return absl::InvalidArgumentError("DumpOptions::sizes is null");
  const Fusion& f = segmented.fusion();
  const SizeHints& sizes = *options.sizes;
  const SegmentationTotals totals = TotalsOf(segmented, sizes);
  Json json;
  json["fusion"] = std::string(f.name());
  json["narrow_edges"] = std::string(NarrowingName(segmented.narrowing()));
  json["symbols"] = Json::object();
  for (const auto& [name, value] : sizes.symbols()) json["symbols"][name] = value;
  json["kernels"] = totals.kernels;
  json["bytes"] = totals.bytes;
  json["groups"] = Json::array();
  Json edges = Json::array();
  for (GroupId g : segmented.groups()) {
    SEAM_ASSIGN_OR_RETURN(const std::vector<std::string> lines, GroupLines(segmented, g));
    json["groups"].push_back({{"id", g.index()},
                              {"name", "g" + std::to_string(g.index())},
                              {"scheduler", std::string(SchedulerName(segmented.scheduler(g)))},
                              {"exprs", Names(f, segmented.exprs(g))},
                              {"copies", Names(f, segmented.copies(g))},
                              {"text", lines},
                              {"inputs", Names(f, segmented.inputs(g))},
                              {"outputs", Names(f, segmented.outputs(g))},
                              {"bytes", TrafficOf(segmented, sizes, g).bytes()}});
    std::vector<EdgeId> in;
    for (EdgeId e : segmented.in_edges(g)) {
      if (segmented.edge(e).from.valid()) in.push_back(e);
    }
    std::sort(in.begin(), in.end());
    for (EdgeId e : in) {
      const SegmentedEdge& edge = segmented.edge(e);
      edges.push_back({{"from", edge.from.index()},
                       {"to", edge.to.index()},
                       {"val", std::string(f.name(edge.val))},
                       {"dtype", std::string(DTypeName(StoredAs(segmented, edge)))},
                       {"shape", Shape(f, edge.val)},
                       {"bytes", StoredBytes(segmented, sizes, edge.val)},
                       {"layout", Layout(segmented, edge)},
                       {"kind", edge.kind() == EdgeKind::kData ? "data" : "order"}});
      if (StoredAs(segmented, edge) != f.dtype(edge.val))
        edges.back()["narrowed"] = Narrowed(segmented, sizes, edge);
    }
  }
  json["edges"] = std::move(edges);
  json["order"] = Json::array();
  for (const OrderConstraint& c : segmented.order_constraints()) {
    json["order"].push_back({{"before", std::string(f.name(f.result(c.before)))},
                             {"after", std::string(f.name(f.result(c.after)))},
                             {"val", std::string(f.name(c.val))}});
  }
  json["borders"] = Json::array();
  if (options.log != nullptr) {
    for (const BorderReason& border : options.log->borders) {
      json["borders"].push_back(
          {{"from", border.from.index()},
           {"to", border.to.index()},
           {"reason", std::string(ReasonName(border.decision.reason))},
           {"scheduler", std::string(SchedulerName(border.decision.scheduler))},
           {"about", Names(f, border.decision.about)},
           {"detail", border.decision.detail}});
    }
  }
  // Names that a builder was given may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace seam
