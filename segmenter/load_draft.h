// SegmentationDraft: what a file says of a segmentation, between the readers of its two forms and
// the SegmentedFusion that is made of it. Internal to the loader; see load_segmentation.h.
//
// Thread-safety: none.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "segmenter/load_segmentation.h"

namespace seam {

// Every function says what is wrong; the reader adds where.
class SegmentationDraft {
 public:
  explicit SegmentationDraft(const Fusion& fusion);  // Must outlive it.

  static absl::StatusOr<SchedulerKind> FindScheduler(absl::string_view name);
  static absl::StatusOr<ReasonCode> FindReason(absl::string_view name);
  // An expression goes by the name of its first result.
  absl::StatusOr<ExprId> FindExpr(absl::string_view first_result) const;
  absl::StatusOr<ValId> FindVal(absl::string_view name) const;
  static absl::StatusOr<Narrowing> FindNarrowing(absl::string_view name);

  GroupId AddGroup(SchedulerKind scheduler);
  absl::Status AddHome(GroupId g, absl::string_view first_result);
  absl::Status AddCopy(GroupId g, absl::string_view first_result);
  void set_narrowing(Narrowing narrowing) { narrowing_ = narrowing; }
  void AddOrder(OrderConstraint constraint) { partition_.order.push_back(constraint); }
  // `detail` is copied.
  absl::Status AddBorder(BorderReason border, absl::string_view detail);
  uint32_t num_groups() const { return partition_.num_groups; }

  // Ends the draft.
  absl::StatusOr<LoadedSegmentation> Finish(SymbolSizes sizes);

 private:
  const Fusion& fusion_;
  absl::flat_hash_map<absl::string_view, ValId> values_;
  Partition partition_;
  std::vector<SchedulerKind> schedulers_;  // Per group.
  Narrowing narrowing_ = Narrowing::kExact;
  SegmentationLog log_;
};

absl::StatusOr<LoadedSegmentation> LoadJson(const Fusion& fusion, absl::string_view text);
absl::StatusOr<LoadedSegmentation> LoadText(const Fusion& fusion, absl::string_view text);

}  // namespace seam
