// LayeredLayout: places a directed acyclic graph in layers from top to bottom, edges with a label
// each.
//
// Layers by longest path, order within a layer by barycentres, horizontal places by least squares
// under the order. Labels take part as nodes of layers between, so that nothing overlaps. Source:
// Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures",
// 1981.
// Thread-safety: pure function.
#pragma once

#include <vector>

namespace seam {

struct LayoutPoint {
  double x = 0, y = 0;
};

struct LayoutNode {
  double width = 0, height = 0;
  double x = 0, y = 0;  // Of the centre; the result.
};

struct LayoutEdge {
  int from = 0, to = 0;
  double label_width = 0, label_height = 0;
  // The result: from the source's lower side to the target's upper side, and the label's centre.
  std::vector<LayoutPoint> route;
  LayoutPoint label;
};

struct LayoutSize {
  double width = 0, height = 0;
};

// `edges` form no cycle. Places everything in [0, width] x [0, height].
LayoutSize LayOut(std::vector<LayoutNode>& nodes, std::vector<LayoutEdge>& edges);

}  // namespace seam
