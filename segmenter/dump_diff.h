// DiffSegmentations: two ways to cut one graph, compared group by group.
//
// Groups are the same by the expressions at home in them, whatever their numbers. Groups of the
// two sides that share expressions, directly or through others, are one change.
// Thread-safety: free functions without shared state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "segmenter/segmented_fusion.h"
#include "segmenter/sizes.h"
#include "segmenter/traffic.h"

namespace seam {

struct GroupChange {
  // Groups belong together that share an expression. Dead code may be on one side alone.
  enum class Kind : uint8_t {
    kSame,
    kCopies,     // The same expressions; other copies or another scheduler.
    kSplit,      // One group is several.
    kMerged,     // Several are one.
    kRegrouped,  // Several are several others, or one lacks dead code of the other.
    kDead,       // Dead code that one side leaves out.
  };
  Kind kind = Kind::kSame;
  std::vector<GroupId> left, right;  // Ascending.
  SegmentationTotals left_totals, right_totals;
};
const char* ChangeName(
    GroupChange::Kind kind);  // "same", "copies", "split", "merged", "regrouped", "dead"

struct SegmentationDiff {
  std::string fusion;
  SegmentationTotals left, right;
  SymbolSizes left_sizes, right_sizes;  // At which traffic is counted.
  std::vector<GroupChange> changes;  // By their first left group, then right one; the same as well.
  bool same() const;
};

// The sizes are those at which traffic is counted, on either side. Error: kInvalidArgument where
// the two are of different graphs: other expressions, by name and operation. Linear, logarithms
// apart.
absl::StatusOr<SegmentationDiff> DiffSegmentations(const SegmentedFusion& left,
                                                   const SizeHints& left_sizes,
                                                   const SegmentedFusion& right,
                                                   const SizeHints& right_sizes);

// A line a change, those that are the same in one line at the end; the sizes where they differ.
std::string DiffText(const SegmentationDiff& diff, bool color);
// One object: fusion, same, left and right (kernels, bytes, symbols), changes (kind; left, right:
// ids; left_totals, right_totals: kernels and bytes).
std::string DiffJson(const SegmentationDiff& diff);

}  // namespace seam
