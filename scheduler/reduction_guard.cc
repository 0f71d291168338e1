// What the reduction scheduler answers the segmenter, from the summary of a group: which reductions
// can share a kernel, and at what rate. reduction.cc has the schedules.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "scheduler/choose.h"
#include "scheduler/kernel/tile.h"
#include "scheduler/row_choice.h"
#include "scheduler/schedulers.h"
#include "scheduler/sections.h"
#include "scheduler/unrolled.h"

namespace seam::reduction {
namespace {

// Columns that each CTA of a cluster can hold of any rows.
constexpr int64_t kClusterPiece = 8192;

// Whether reductions of these kept axes cross these rows, by themselves; `batch` becomes the axes
// of the rows that some of them keep, all of these the same.
bool Crosses(const AxisMap& axes, const GroupSummary& summary, const AxisSet& kept,
             const AxisSet& rows, AxisSet& batch) {
  const AxisSet of_rows = Intersection(kept, rows);
  if (IsSubset(kept, rows) || of_rows.empty()) return true;
  // One that keeps the rows and more may be held beside them, and summaries do not tell.
  if (IsSubset(rows, kept)) return false;
  const AxisSet both = Union(kept, rows);
  if (!absl::c_linear_search(summary.spaces, both)) return true;
  if (summary.reductions.size() < static_cast<size_t>(summary.num_reductions) ||
      (!batch.empty() && batch != of_rows)) {
    return false;
  }
  batch = of_rows;
  return absl::c_all_of(summary.reductions,
                        [&](ExprId e) { return axes.kept(e) != kept || axes.space(e) == both; });
}

// What the rows would be, as ChooseRows of scheduler/row_choice.h has it; nothing where the
// reductions that do not keep them do not cross them. Which of several free ones keep or fold the
// rows matters for the rate alone: rather those without the axis that is `fastest` in memory.
std::optional<AxisSet> RowsOf(const AxisMap& axes, const GroupSummary& summary,
                              AxisId fastest = AxisId()) {
  if (summary.kept.size() == 1) return summary.kept.front();
  std::vector<AxisSet> candidates = summary.kept;
  if (summary.held.empty()) {
    if (const auto folded = FoldedBesideAll(axes, summary.reductions))
      candidates.push_back(*folded);
  }
  std::optional<AxisSet> found;
  for (AxisSet& rows : candidates) {
    const bool held = absl::c_all_of(summary.held, [&](const AxisSet& h) { return h == rows; });
    AxisSet batch;
    if (!rows.empty() && held && absl::c_all_of(summary.kept, [&](const AxisSet& k) {
          return Crosses(axes, summary, k, rows, batch);
        })) {
      if (!absl::c_linear_search(rows, fastest)) return std::move(rows);
      if (!found) found = std::move(rows);
    }
  }
  return found;
}

// The group as it is for the reductions that are not unrolled; the summary has the first of all
// only.
GroupSummary WithoutUnrolled(const Fusion& fusion, const AxisMap& axes,
                             const GroupSummary& summary) {
  GroupSummary fewer = summary;
  if (summary.reductions.size() < static_cast<size_t>(summary.num_reductions)) return fewer;
  const std::vector<ExprId> unrolled = FindUnrolled(fusion, axes, summary.reductions);
  if (unrolled.empty()) return fewer;
  std::erase_if(fewer.reductions, [&](ExprId e) { return absl::c_linear_search(unrolled, e); });
  fewer.num_reductions = static_cast<int>(fewer.reductions.size());
  const auto nobody_keeps = [&](const AxisSet& set) {
    return absl::c_none_of(fewer.reductions, [&](ExprId e) { return axes.kept(e) == set; });
  };
  const auto unrolled_keep = [&](const AxisSet& set) {
    return absl::c_any_of(unrolled, [&](ExprId e) { return axes.kept(e) == set; });
  };
  std::erase_if(fewer.kept, nobody_keeps);
  std::erase_if(fewer.held,
                [&](const AxisSet& set) { return nobody_keeps(set) && unrolled_keep(set); });
  return fewer;
}

// How the reductions see a row and its sections; the summary has the first of them only.
Sections SectionsOf(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary) {
  Sections none;
  none.missing =
      summary.held.size() > 1
          ? "two reductions whose results are used again keep different axes, and a kernel has one "
            "kind of rows"
          : "a reduction keeps the columns and some axes of the rows, and states of columns are "
            "kept over all rows only";
  const AxisSet& rows = summary.held.empty() ? summary.kept.front() : summary.held.front();
  const bool of_parts = absl::c_any_of(
      summary.kept, [&](const AxisSet& kept) { return kept != rows && IsSubset(rows, kept); });
  if (!of_parts) return none;
  if (summary.reductions.size() < static_cast<size_t>(summary.num_reductions)) {
    none.missing = "a reduction folds a part of each row's columns beside many others";
    return none;
  }
  if (summary.spaces.size() != 1) {
    none.missing = "a reduction folds a part of each row's columns, and the group has other ones";
    return none;
  }
  return FindSections(fusion, axes, summary.reductions, summary.spaces.front());
}

// States of each column that reductions across all rows keep.
int StatesAcross(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary,
                 const AxisSet& rows) {
  int states = 0;
  for (ExprId e : summary.reductions) {
    const AxisSet& kept = axes.kept(e);
    if (!kept.empty() && Intersection(kept, rows).empty())
      states += kernel::NumComponents(fusion.op(e));
  }
  return states;
}

// Bytes of the narrowest and the widest input that has all axes of one of the group's spaces.
std::pair<int, int> InputBytes(const Fusion& fusion, const AxisMap& axes,
                               const GroupSummary& summary) {
  int narrowest = 8, widest = 1;
  for (ValId v : fusion.inputs()) {
    const bool large = absl::c_any_of(
        summary.spaces, [&](const AxisSet& space) { return IsSubset(space, axes.axes(v)); });
    if (!large) continue;
    narrowest = std::min(narrowest, DTypeBytes(fusion.dtype(v)));
    widest = std::max(widest, DTypeBytes(fusion.dtype(v)));
  }
  return {narrowest, widest};
}

// Whether a cluster just has room for a row (the last pieces of ChooseCluster). Its shared memory
// has 13 bytes for each column: for one row of wide tensors or for two of narrow ones, of which the
// group's bytes at each of its `elements` are those that it reads and one that it writes. Its
// registers have three words: for the states of a column, and for what the rows have in common.
bool JustFits(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary,
              const AxisSet& rows, double columns, double elements, int states,
              const DeviceInfo& device) {
  constexpr double kMostWords = 3, kMostBytes = 12.5, kMostNarrowBytes = 8.5;
  constexpr int64_t kCopyBytes = 16;
  const auto [narrowest, widest] = InputBytes(fusion, axes, summary);
  if (columns > 2.0 * kClusterPiece * device.max_cluster || states > 2 ||
      static_cast<int64_t>(columns) % (kCopyBytes / narrowest) != 0 || summary.moved_bytes == 0) {
    return false;
  }
  double words = states;
  for (ValId v : fusion.inputs()) {
    const AxisSet& of = axes.axes(v);
    if (!of.empty() && Intersection(of, rows).empty()) words += DTypeBytes(fusion.dtype(v)) / 4.0;
  }
  return words <= kMostWords && static_cast<double>(summary.moved_bytes) <=
                                    elements * (widest < 4 ? kMostNarrowBytes : kMostBytes);
}

// The share of the SMs that have work where CTAs keep states of each column: all while a cluster
// has a row in hand, of longer ones as many as have their states in the L2 cache.
double BusyAcross(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary,
                  const AxisSet& rows, double columns, double elements, const DeviceInfo& device) {
  if (columns <= double{kClusterPiece} * device.max_cluster) return 1;
  const int states = StatesAcross(fusion, axes, summary, rows);
  if (states == 0 || JustFits(fusion, axes, summary, rows, columns, elements, states, device))
    return 1;
  const double ctas = static_cast<double>(device.l2_bytes) / (columns * states * 4);
  return std::clamp(ctas / device.sms, 1.0 / device.sms, 1.0);
}

bool FoldsEverything(const GroupSummary& summary) {
  return !summary.kept.empty() &&
         absl::c_all_of(summary.kept, [](const AxisSet& kept) { return kept.empty(); });
}

// Whether all is one row that everything else waits for, and lies as its sums do.
bool IsOneRow(const GroupSummary& summary) {
  return FoldsEverything(summary) && !summary.held.empty() && !summary.moves &&
         summary.spaces.size() == 1;
}

}  // namespace

Decision CanSchedule(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary) {
  const SchedulerKind me = SchedulerKind::kReduction;
  if (summary.num_reductions == 0) {
    return Decision::Refuse(me, ReasonCode::kUnsupported, {}, "there is no reduction");
  }
  const std::optional<AxisSet> rows = RowsOf(axes, summary);
  if (!rows && summary.GridAxes().empty()) {
    return Decision::Refuse(me, ReasonCode::kGridBarrier, summary.reductions,
                            "one reduction needs all rows of another before it can go on, and no "
                            "axis is common to both");
  }
  AxisSet kept;
  std::vector<AxisSet> all_held = summary.held;
  if (rows) {
    kept = *rows;
  } else if (const GroupSummary fewer = WithoutUnrolled(fusion, axes, summary);
             const std::optional<AxisSet> others = RowsOf(axes, fewer)) {
    kept = *others;
    all_held = fewer.held;
  } else {
    const Sections sections = SectionsOf(fusion, axes, summary);
    if (sections.missing != nullptr) {
      return Decision::Refuse(me, ReasonCode::kUnsupported, summary.reductions, sections.missing);
    }
    kept = sections.rows;
  }
  for (const AxisSet& held : all_held) {
    if (!IsSubset(kept, held)) {
      return Decision::Refuse(
          me, ReasonCode::kGridBarrier, summary.reductions,
          "a reduced value is read at other rows than the one that computes it");
    }
  }
  for (const AxisSet& space : summary.spaces) {
    if (!IsSubset(kept, space)) {
      return Decision::Refuse(me, ReasonCode::kNoCommonAxis, summary.reductions,
                              "an expression does not run over the axes that the reductions keep");
    }
  }
  // One row in all: what follows the reduction over the whole row waits for all CTAs.
  if (kept.empty() && !summary.held.empty() && summary.num_exprs > 1) {
    int64_t elements = 1;
    for (const AxisSet& space : summary.spaces) {
      SymInt n = 1;
      for (AxisId a : space) n *= axes.extent(a);
      elements = std::max(elements, RangeOf(n).hi);
    }
    if (elements > kOneCtaElements) {
      if (IsOneRow(summary)) return Decision::AcceptLate(me);
      return Decision::Refuse(me, ReasonCode::kGridBarrier, summary.reductions,
                              "every element depends on a reduction over all of them");
    }
  }
  return Decision::Accept(me);
}

AxisSet AxesOfRows(const Fusion& fusion, const AxisMap& axes, const GroupSummary& summary) {
  if (summary.reductions.empty()) return summary.GridAxes();
  const AxisId fastest = LastAxis(fusion, axes, summary.reductions[0]);
  if (std::optional<AxisSet> rows = RowsOf(axes, summary, fastest)) return *std::move(rows);
  const GroupSummary fewer = WithoutUnrolled(fusion, axes, summary);
  if (fewer.num_reductions == summary.num_reductions) return summary.GridAxes();
  AxisSet rows = AxesOfRows(fusion, axes, fewer);
  for (ExprId e : summary.reductions) {
    if (!absl::c_linear_search(fewer.reductions, e))
      rows = Union(rows, Difference(axes.space(e), axes.kept(e)));
  }
  return rows;
}

double FractionOfPeak(const Fusion& fusion, const AxisMap& axes, const SizeHints& sizes,
                      const GroupSummary& summary, const DeviceInfo& device) {
  constexpr double kFewKept = 8;
  // A CTA takes rows of one batch, and an H100 begins one every 1.25 ns: sums over the rows of 8x8
  // to 32x32 elements behind a softmax of each row (2026-11-28), 345 us for 262,144 of 64 elements,
  // 82 for 65,536 of 256.
  constexpr double kBatchElements = 1024;
  // What waits for all is read again, which is worth a launch less where the cache has it. Source:
  // docs/schedulers/clusters.md, "One row".
  constexpr double kReadAgain = 0.25;
  // One row has no tiles: a tensor that lies across the others is accessed in single elements, of a
  // sector each. Source: docs/limits.md, "A large tensor that lies across".
  constexpr double kAcross = 0.2;
  if (FoldsEverything(summary) && summary.turns) return kAcross;
  if (IsOneRow(summary)) {
    const bool is_cached = summary.moved_bytes > 0 && summary.moved_bytes <= device.l2_bytes / 4;
    return is_cached ? 1 : kReadAgain;
  }
  // Rows that nothing crosses are shared among CTAs where there are few of them.
  if (summary.kept.size() == 1 || summary.reductions.empty()) return 1;
  if (ArePooled(fusion, axes, summary.reductions)) return 1;  // No rows at all.
  const AxisId fastest = LastAxis(fusion, axes, summary.reductions[0]);
  const std::optional<AxisSet> rows = RowsOf(axes, summary, fastest);
  if (!rows) {
    const GroupSummary fewer = WithoutUnrolled(fusion, axes, summary);
    return fewer.num_reductions < summary.num_reductions
               ? FractionOfPeak(fusion, axes, sizes, fewer, device)
               : 1;
  }
  const auto elements = [&](const AxisSet& set) { return sizes.Points(axes, set); };
  double all = 1;
  bool even = true;  // Vectors divide columns, whichever lie fastest in memory.
  for (const AxisSet& space : summary.spaces) {
    all = std::max(all, elements(space));
    for (AxisId a : Difference(space, *rows)) even &= sizes.Extent(axes.extent(a)) % 2 == 0;
  }
  const double num_rows = std::max(1.0, elements(*rows)), columns = all / num_rows;
  // Where columns are kept, each row leaves states in memory, four bytes each at least, which are
  // read again; of each element of the rows two bytes are moved, or more.
  double states = 0, kept_columns = columns, of_batch = all;
  bool sector_is_read_once = true;  // Not by CTAs of batches that lie beside each other.
  bool sums_batches = false;        // What there is one of a row.
  for (const AxisSet& kept : summary.kept) {
    const AxisSet both = Union(kept, *rows);
    const AxisSet batch = Intersection(kept, *rows);
    sums_batches |= !kept.empty() && batch.size() == kept.size() && kept.size() < rows->size();
    if (batch.size() < rows->size() && batch.size() < kept.size()) {
      of_batch = std::min(of_batch, all / elements(batch));
      sector_is_read_once &= !absl::c_linear_search(batch, fastest);
    }
    // All columns, if others of the group's expressions run over more: views of what is larger.
    const bool all_columns = absl::c_any_of(summary.reductions, [&](ExprId e) {
      return axes.kept(e) == kept && axes.space(e) == both;
    });
    if (both == *rows || all_columns || absl::c_linear_search(summary.spaces, both)) continue;
    states += elements(both);
    kept_columns = std::min(kept_columns, elements(Difference(kept, *rows)));
  }
  // A CTA takes whole rows, and keeps its SM busy with the part of one that it has in hand. Of rows
  // whose columns are kept a cluster has all in hand, and of longer ones a CTA a step. Few columns
  // may lie beside those of other rows, of which a CTA then takes several, a step of each.
  double of_row = std::min(columns, double{kOneCtaElements});
  if (states > 0 && kept_columns < kFewKept) {
    of_row = std::min(columns, kBusyElements / 4.0);
  } else if (states > 0 && columns > of_row) {
    const bool fits = even && columns <= double{kClusterPiece} * device.max_cluster;
    of_row = fits ? columns : double{kBusyElements};
  }
  // Rows that are neighbours are a sector's to a CTA. Of so many columns that no CTA holds their
  // states with vectors of rows each thread goes down single ones.
  const int beside = kSectorBytes / InputBytes(fusion, axes, summary).second;
  if (absl::c_linear_search(*rows, fastest)) {
    constexpr double kMostHeld = 2048;
    of_row = std::min(of_row, double{kBusyElements} / beside);
    sector_is_read_once &= columns <= kMostHeld || StatesAcross(fusion, axes, summary, *rows) == 0;
  }
  const double busy = double{kBusyElements} * device.sms;
  double reads = sector_is_read_once ? 1 : beside;
  // CTAs take rows of one batch, and of rows that none holds each twice, one step after the other,
  // where what follows from a row goes to its elements. Source: docs/schedulers/crossed.md,
  // "Batches of long rows".
  constexpr double kReadsOfSteps = 1.5;
  if (sums_batches && columns > kOneCtaElements && !summary.held.empty())
    reads = std::max(reads, kReadsOfSteps);
  return std::min({1.0, of_batch / kBatchElements, 1 / reads,
                   num_rows * of_row / std::min(all, busy),
                   BusyAcross(fusion, axes, summary, *rows, columns, all, device)}) *
         all / (all + 4 * states);
}

}  // namespace seam::reduction
