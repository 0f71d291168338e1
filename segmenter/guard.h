// SchedulabilityGuard: the question that the segmenter asks of the schedulers, and the answer.
//
// The segmenter knows no scheduler: scheduler/scheduler.h implements this interface, tests fake it.
// Thread-safety: CanSchedule is const and may be called from many threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "segmenter/sizes.h"
#include "segmenter/summary.h"

namespace seam {

enum class ReasonCode : uint8_t {
  kOk,
  kGridBarrier,   // A held reduction's axes leave no common grid axis.
  kNoCommonAxis,  // Expression spaces share no axis.
  kSiblingsGridBarrier,
  kSiblingsNoCommonAxis,
  kUnconnected,  // No dataflow and no shared input.
  kBarrier,      // A segment_set.
  kLibrary,      // A library call.
  kNotConvex,    // A path leaves the merged group and returns.
  kNoGain,       // Legal, but it saves no bytes and no launch.
  kBudget,       // The search for a cycle was too long.
  kUnsupported,  // The rule allows it, no scheduler lowers it yet.
  kRecompute,    // Values would be computed too many times over.
  kCapacity,
  kSlower,  // The scheduler expects more time of it than of the groups apart.
};
absl::string_view ReasonName(ReasonCode code);  // "grid-barrier", "no-common-axis", ...

enum class SchedulerKind : uint8_t {
  kNone,
  kAlias,
  kPointwise,
  kHorizontal,  // Islands side by side; see islands.h.
  kReduction,
  kLibrary,
  kTemplate,
  kCommunication
};
absl::string_view SchedulerName(SchedulerKind kind);  // "pointwise", ...

struct Decision {
  bool ok = false;
  SchedulerKind scheduler =
      SchedulerKind::kNone;  // Who accepts or, when refused, whose refusal is told.
  bool late = false;  // Accepted by the last pass alone: all of it waits, elsewhere it might not.
  ReasonCode reason = ReasonCode::kOk;
  std::vector<ExprId> about;  // Expressions that the refusal is about; at most a handful.
  // Static text that completes the reason; formatted with names only by Explain.
  const char* detail = "";

  static Decision Accept(SchedulerKind scheduler) {
    return {true, scheduler, false, ReasonCode::kOk, {}, ""};
  }
  static Decision AcceptLate(SchedulerKind scheduler) {
    return {true, scheduler, true, ReasonCode::kOk, {}, ""};
  }
  static Decision Refuse(SchedulerKind scheduler, ReasonCode reason, std::vector<ExprId> about,
                         const char* detail) {
    return {false, scheduler, false, reason, std::move(about), detail};
  }
};

class SchedulabilityGuard {
 public:
  virtual ~SchedulabilityGuard() = default;
  // Whether one kernel plan can hold a group with this summary. Linear in the summary, which is as
  // large as the group only after a closer look (segmenter/closer_look.h). Of a trial the guard
  // first sees SegmentedFusion::Outline alone: what it refuses then as kLibrary, kBarrier,
  // kCapacity or kGridBarrier stays refused, as more only becomes held.
  virtual Decision CanSchedule(const Fusion& fusion, const AxisMap& axes,
                               const GroupSummary& summary) const = 0;
  // The part of the memory's rate that the plan of an accepted group is expected to reach at these
  // sizes: 1 for one that is bound by memory alone, less where much of the machine would idle, 0
  // for one that had better not be made. Of two cuts, the segmenter takes the one whose traffic
  // takes less time.
  virtual double FractionOfPeak(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
                                const GroupSummary& summary) const {
    (void)fusion, (void)axes, (void)sizes, (void)summary;
    return 1;
  }
  // What it costs to compute one element of an expression's result, beside what is moved meanwhile,
  // as bytes of traffic.
  virtual double BytesOfArithmetic(const Fusion& fusion, ExprId e) const {
    (void)fusion, (void)e;
    return 0;
  }
  // Whether one launch can hold groups that it accepts, with these summaries, as islands side by
  // side; see islands.h. Nothing flows between them and they read nothing in common. Linear in
  // their number.
  virtual Decision CanScheduleIslands(const Fusion& fusion, const AxisMap& axes,
                                      absl::Span<const GroupSummary> islands) const;
};

}  // namespace seam
