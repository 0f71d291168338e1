// Picture: a segmentation laid out for drawing: boxes for groups, pills for the Fusion's inputs and
// outputs, curves for what passes between them. SVG and the HTML page draw it.
//
// Thread-safety: free functions without shared state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "segmenter/layered_layout.h"
#include "segmenter/segmented_fusion.h"
#include "segmenter/sizes.h"

namespace seam {

// Of the drawing, in pixels: what the boxes' sizes are computed from.
inline constexpr double kLineHeight = 16, kTitleHeight = 30, kBoxPadding = 12;
inline constexpr double kMonoWidth = 7.0, kSansWidth = 6.4;  // Of a character.
inline constexpr size_t kMaxColumns = 64;                    // Of a line; longer ones are cut.

struct PictureNode {
  GroupId group;                   // Invalid for a pill.
  ValId val;                       // Of a pill.
  bool is_result = false;          // The pill of an output.
  std::vector<std::string> lines;  // Expressions, or the one line of a pill; cut to fit.
  std::vector<bool> copied;        // Per line.
};

struct Picture {
  std::vector<PictureNode> nodes;
  std::vector<LayoutNode> places;                // Per node.
  std::vector<LayoutEdge> edges;                 // One for all that one node passes to another.
  std::vector<std::vector<std::string>> labels;  // Per edge: a line a value. None for a pill's.
  std::vector<bool> order_only;                  // Per edge.
  LayoutSize size;
};

struct PictureLimits {
  size_t nodes, edges;  // A larger picture is an error.
  size_t lines;         // Of a box; the last says how many more there are.
  size_t readers;       // Of a pill; an input that more groups read has a pill beside each of them.
};

// Error: kInvalidArgument beyond the limits.
absl::StatusOr<Picture> MakePicture(const SegmentedFusion& segmented, const SizeHints& sizes,
                                    const PictureLimits& limits);

// "10.0 MiB" of device memory traffic, or "no launch".
std::string TrafficText(const SegmentedFusion& segmented, const SizeHints& sizes, GroupId g);

}  // namespace seam
