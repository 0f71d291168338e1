// Reduction: sums, extrema, statistics and everything that can be computed around them in one go,
// normalizations above all. Rows are what the reductions keep, columns what they fold. One
// mechanism, eleven arrangements (reduction_arrangements.h):
//   inner    columns are neighbours in memory: a row to some lanes, some warps or a CTA;
//   sections the same where some reductions fold a part of a row's columns: a part to some lanes;
//   blocks   the same of short rows that vectors do not divide, through shared memory;
//   outer    rows are neighbours in memory: lanes and vectors along rows, warps down the columns;
//            so they are where a few neighbouring columns are seen as rows, their states merged;
//   cluster  rows, or vectors of rows, longer than a CTA holds: the CTAs of a cluster take a piece
//            each;
//   one turn the same of long rows that are few, however many CTAs hold one: all there at once;
//   tiles    some tensors lie along the rows, others along the columns: tiles of both to a thread;
//   split    few rows and long ones: several CTAs a row leave partial states;
//   apart    the same of many tensors that only what is folded brings together, each its own CTAs;
//   crossed  some reductions go across the rows: CTAs take rows in turn and leave the states of
//            their columns or rows, or each row leaves those of the columns that are kept;
//   batches  the same where some go across the rows of each batch: CTAs with rows of one.
// What is left in parts the same kernel finishes, in another phase, where the device holds the grid
// at once and that takes no longer than a kernel of its own.
// A row that fits is kept in registers between the passes, so that memory is read once; a longer
// one is read again, but for what CTAs that share it hold in shared memory. Which reductions may
// share a kernel says reduction_guard.cc.
#include <algorithm>
#include <numeric>

#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/divisions.h"
#include "scheduler/held_steps.h"
#include "scheduler/kept_rows.h"
#include "scheduler/kernel/reduction_state.h"
#include "scheduler/lower.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/reduction_turns.h"
#include "scheduler/schedulers.h"
#include "scheduler/small_products.h"
#include "scheduler/stencils.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

int64_t CtasOf(const SizedGroup& sized, const Schedule& s) {
  return s.grid > 0 ? s.grid * sized.batches
                    : CeilDivide(sized.rows, s.rows_per_cta()) * s.split * s.cluster;
}

// Steps of rows that CTAs share, as many of them held as there is room for: with fewer vectors each
// where that leaves the last one less empty, since it takes its time whether it is full or not, and
// nothing else. Not with many fewer: enough bytes are to be under way.
void HoldEvenSteps(const SizedGroup& sized, const HeldSteps& held, Schedule& s) {
  constexpr double kLeastGain = 0.05;
  s.held = held.Most(s);
  const int64_t vectors =
      CeilDivide(CeilDivide(sized.columns, s.split), s.columns_per_step() / s.registers);
  const auto loaded = [&](const Schedule& t) {
    return static_cast<double>(CeilDivide(vectors, t.registers) * t.registers);
  };
  const int most = s.registers;
  Schedule t = s;
  while (--t.registers * 8 >= most * 5) {
    t.held = held.Most(t);
    const bool holds_less = held.Share(t, t.held) < held.Share(s, s.held);
    if (!holds_less && loaded(t) < (1 - kLeastGain) * loaded(s)) s = t;
  }
}

// Rows of few columns each leave a state of a result together with their neighbours, as far as a
// warp has these: where the states are an eighth of what the group moves, or a result has so many
// that merging them takes long. Beside long rows exchanges between lanes cost more. Source:
// docs/schedulers/crossed.md, "States of short rows".
absl::Status LeaveTogether(const SizedGroup& sized, Schedule& s) {
  constexpr int64_t kPart = 8, kManyOfResult = 1 << 16, kFewLanes = 4;
  const GroupShape& shape = sized.shape;
  s.together = 1;
  // Of rows that are read again sums may yet come with their maxima (ChoosePasses).
  if (!s.persistent || !shape.batch.empty()) return absl::OkStatus();
  int64_t together = 0, bytes = 0;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    if (shape.crosses[i] != Crossing::kSomeRows) continue;
    SEAM_ASSIGN_OR_RETURN(const int64_t rows,
                          ValueOf(sized, shape.Extent(shape.RowsFoldedBy(ExprId(i)))));
    together = std::gcd(together, std::gcd(rows, s.most_together()));
    const OpKind op = sized.group->op(ExprId(i));
    const DType t = AccumulatorType(*sized.group, ExprId(i));
    for (int c = 0; c < kernel::NumComponents(op); ++c)
      bytes += DTypeBytes(kernel::ComponentType(op, t, c));
  }
  together &= -together;
  if (together <= 1) return absl::OkStatus();
  SEAM_ASSIGN_OR_RETURN(const int64_t moved, MovedBytes(sized));
  const bool many = s.lanes_per_row <= kFewLanes &&
                    sized.rows > kManyOfResult * std::max<int64_t>(1, sized.finished);
  if (many || 2 * bytes * sized.rows * kPart >= moved) s.together = static_cast<int>(together);
  return absl::OkStatus();
}

// How what is left in parts is finished. More than one lane for a result where CTAs would have
// nothing to do; neighbouring lanes still read 32 bytes at least.
absl::Status ChooseFinish(const SizedGroup& sized, Schedule& s) {
  SEAM_RETURN_IF_ERROR(LeaveTogether(sized, s));
  const DeviceInfo& device = sized.context.device;
  const int64_t ctas = CtasOf(sized, s);
  // Of few turns, finishing takes a part of the time that is worth more threads, by the states that
  // there are.
  const bool few_turns = s.stages > 0 && HasFewTurns(sized, s);
  const int64_t threads = (few_turns ? 64 * ColumnStates(sized) : 32) * ctas;
  while (sized.shape.crossed() && s.finish_lanes < 4 &&
         sized.finished * s.finish_lanes * 2 <= threads) {
    s.finish_lanes *= 2;
  }
  // Of few results that rows leave many states of, more: each lane has some hundred to go through.
  constexpr int64_t kManyStates = 512;
  const int64_t states = sized.rows / (s.together * std::max<int64_t>(1, sized.finished));
  while (sized.shape.crossed() && !sized.shape.crosses_all_rows() && s.finish_lanes < 32 &&
         states > kManyStates * s.finish_lanes && sized.finished * s.finish_lanes * 2 <= threads) {
    s.finish_lanes *= 2;
  }
  // A result of all batches has a state of each of their CTAs: lanes have some to go through, more
  // where fewer lanes would read 32 bytes at once.
  const int64_t left = sized.batches * s.places() / (s.threads() / 32);
  while (sized.whole > 0 && s.whole_lanes < 32 &&
         left > (s.whole_lanes < 4 ? 8 : 64) * s.whole_lanes) {
    s.whole_lanes *= 2;
  }
  // Few CTAs finish many results in many turns, a kernel of its own has a CTA for each; and behind
  // several turns, which copies bring ahead, states of columns are finished sooner by one that
  // begins while the one before ends. Source: docs/schedulers/turns.md, "Few turns".
  constexpr int kMostFinishTurns = 8;
  const bool few_ctas = sized.finished * s.finish_lanes > kMostFinishTurns * 32 * ctas;
  const bool behind_turns = ColumnStates(sized) > 0 && (s.stages > 0 || s.outer);
  s.one_launch = s.cluster == 1 && ctas <= ResidentCtas(s, device) && !few_ctas && !behind_turns;
  // Where a CTA's shared memory is full there may be none left to finish in.
  if (s.one_launch && (s.async || s.blocks || s.stages > 0))
    s.one_launch = HasRoom(sized, s, /*any=*/true);
  return absl::OkStatus();
}

// What takes one pass, or one exchange, instead of two.
void ChoosePasses(const KeptRows& rows, Schedule& s) {
  s.chan_welford = !s.persistent;
  // An exchange of a cluster's CTAs costs less than the exponentials that it would save.
  s.online = !s.persistent && rows.GainsOnline(s);
}

// How a thread reaches its elements: the widest vector, at most `limit`, at least `least` although
// it may be moved by elements then, and what of the sizes the kernel knows.
absl::StatusOr<KeptRows> ChooseAccess(const SizedGroup& sized, int limit, Schedule& s,
                                      int least = 1) {
  SEAM_RETURN_IF_ERROR(ChooseVector(sized, limit, s));
  if (s.vector < std::min(least, limit))
    SEAM_RETURN_IF_ERROR(TakeElements(sized, std::min(least, limit), s).status());
  // Which of the kept columns a state belongs to is then known without a division.
  if (sized.shape.keeps_columns()) PinColumns(sized, s);
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, s));
  if (s.neighbours > 1) Pin(sized, FreeSymbols(sized.shape.Extent(sized.shape.merged)), s);
  // A vector's weights are then seen to be one, or neighbours.
  Pin(sized, rows.ColumnDivisors(true), s);
  return KeptRows::Of(sized, s);
}

bool DrawsNumbers(const Fusion& group) {
  for (uint32_t e = 0; e < group.num_exprs(); ++e) {
    if (ClassOf(group.op(ExprId(e))) == OpClass::Random) return true;
  }
  return false;
}

// Whether vectors hold neighbours that are one call of the random generator, four that begin at a
// multiple of four: shifted rows, which begin anywhere, call it for each element.
bool SharesRandomNumbers(const SizedGroup& sized, const Schedule& s) {
  return s.vector % 4 == 0 && DrawsNumbers(*sized.group);
}

// Whether vectors as wide as `limit`, with the single elements at the ends of rows that start
// anywhere, are faster than those that divide every row, as `s` has them: of 8 bytes and less these
// keep less of memory under way. Source: timed on an H200, docs/schedulers/any-length.md, "Rows of
// any length".
bool GainsByShift(const SizedGroup& sized, const KeptRows& rows, int limit, const Schedule& s) {
  constexpr int kNarrowBytes = 8, kWeightsBytes = 16;
  if (s.outer || sized.shape.keeps_columns() || !sized.shape.batch.empty() || s.vector == limit ||
      s.vector * sized.narrowest_bytes > kNarrowBytes) {
    return false;
  }
  if (SharesRandomNumbers(sized, s)) return false;
  // Every row has a whole vector.
  if (sized.fewest_columns < 3 * limit - 1) return false;
  // Weights whose vectors divide the row would have to be joined; but clusters' copies bring the
  // rest of a long one.
  const bool weighted = s.vector > 1 && !sized.shape.crossed() && rows.AlikeWords() > 0;
  if (weighted && HasWideWeights(sized, rows) && s.vector * rows.AlikeBytes() >= kWeightsBytes &&
      (sized.columns <= kShiftedCtaColumns || sized.context.device.max_cluster == 1)) {
    return false;
  }
  return sized.columns >= (weighted ? 2 : 1) * kShiftedVectors * limit;
}

// Whether rows fold a small part of what they have: there is nothing to keep for a second pass.
absl::StatusOr<bool> FoldsFewColumns(const SizedGroup& sized) {
  constexpr int64_t kFew = 16, kLeastColumns = 4096;
  const GroupShape& shape = sized.shape;
  // Of fewer rows than SMs CTAs share each, and then also what is folded.
  if (shape.crossed() || sized.columns < kLeastColumns || sized.rows < sized.context.device.sms)
    return false;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    if (!shape.folds[i]) continue;
    const SymInt columns = shape.Extent(shape.Columns(shape.axes.space(ExprId(i))));
    SEAM_ASSIGN_OR_RETURN(const int64_t folded, ValueOf(sized, columns));
    if (folded * kFew > sized.columns) return false;
  }
  return true;
}

// Too few rows for the machine: as many CTAs share them as there is room for, two an SM at least.
// Not so few where that takes the vectors of shifted rows, or was not timed (tiles).
absl::Status ShareFewRows(const SizedGroup& sized, Schedule& s) {
  const int64_t ctas = CeilDivide(std::max<int64_t>(sized.rows, 1), s.rows_per_cta());
  const int64_t steps = CeilDivide(sized.columns, s.columns_per_step());
  const DeviceInfo& device = sized.context.device;
  const int64_t enough = std::max<int64_t>(ResidentCtas(s, device), 2 * device.sms);
  const int64_t few = s.shift || s.tiles ? device.sms / 2 : enough / 2;
  if (s.split > 1 || s.persistent || sized.shape.crossed() || ctas > few || steps < 4)
    return absl::OkStatus();
  s.split = static_cast<int>(std::min(enough / ctas, CeilDivide(steps, 2)));
  if (!s.shift) return absl::OkStatus();
  // Rows that do not start aligned are then read element by element.
  s.shift = false;
  return ChooseAccess(sized, s.vector, s).status();
}

// States may be more than the elements of any tensor: every CTA of a cluster leaves its own.
absl::Status WidenIndices(const SizedGroup& sized, Schedule& s) {
  SEAM_ASSIGN_OR_RETURN(const std::vector<Workspace> workspaces,
                        WorkspacesOf(*sized.group, sized.shape, s));
  for (const Workspace& workspace : workspaces) {
    SEAM_ASSIGN_OR_RETURN(const int64_t states, ValueOf(sized, workspace.num_elements));
    s.index32 &= states <= kIndex32Limit;
  }
  return absl::OkStatus();
}

// Whether a state of each row, written and read again, is little beside what is moved of it: not
// where threads compute much with few elements, as with all pairs of them.
absl::StatusOr<bool> HasFewStatesOfRows(const SizedGroup& sized) {
  constexpr double kLeastRatio = 4;
  if (ColumnStates(sized) > 0) return true;  // Beside these, vectors of rows are held.
  SEAM_ASSIGN_OR_RETURN(const int64_t moved, MovedBytes(sized));
  double states = 0;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    if (sized.shape.crosses[i] != Crossing::kAll) continue;
    states += 2.0 * 4 * kernel::NumComponents(sized.group->op(ExprId(i))) *
              static_cast<double>(sized.rows);
  }
  return static_cast<double>(moved) >= kLeastRatio * states;
}

// Tiles, where some tensors lie across others. Rows that no CTA holds are read step by step.
absl::StatusOr<std::optional<Schedule>> ChooseRowsInTiles(const Fusion& group,
                                                          const ScheduleContext& context) {
  Schedule tiles;
  tiles.kind = SchedulerKind::kReduction;
  tiles.tiles = true;
  SEAM_ASSIGN_OR_RETURN(SizedGroup sized, SizeGroup(group, context, tiles));
  SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> s, ChooseTiles(sized, tiles));
  if (!s) {
    // Or where they do so within a row: some of its columns are rows then, whose states are merged.
    constexpr int64_t kMostNeighbours = 256;
    SEAM_ASSIGN_OR_RETURN(GroupShape shape, AnalyzeGroup(group));
    const absl::StatusOr<GroupShape> across = NeighboursAcross(group, std::move(shape));
    if (!across.ok()) return std::nullopt;
    SEAM_ASSIGN_OR_RETURN(const int64_t merged, ValueOf(sized, across->Extent(across->merged)));
    if (merged < 2 || merged > kMostNeighbours) return std::nullopt;
    tiles.neighbours = static_cast<int>(merged);
    SEAM_ASSIGN_OR_RETURN(sized, SizeGroup(group, context, tiles));
    SEAM_ASSIGN_OR_RETURN(s, ChooseTiles(sized, tiles));
  }
  if (!s) return s;
  if (!s->persistent) {
    SEAM_RETURN_IF_ERROR(ShareFewRows(sized, *s));
    if (s->split > 1) SEAM_RETURN_IF_ERROR(ChooseFinish(sized, *s));
    SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, *s));
    ChoosePasses(rows, *s);
  }
  SEAM_RETURN_IF_ERROR(WidenIndices(sized, *s));
  return s;
}

// What rows that are chosen again do otherwise.
struct Access {
  bool may_shift = true;
  int least_vector = 1;
};

absl::StatusOr<Schedule> ChooseRows(const SizedGroup& sized, Schedule s, const Access& access) {
  s.outer = sized.shape.outer;
  int limit = std::clamp(16 / sized.narrowest_bytes, 1, 8);
  while (limit > 1 && sized.input_words * limit > kMostWords / 2) limit /= 2;
  const int64_t section = sized.shape.sections.size;
  if (section > 1) limit = static_cast<int>(std::min<int64_t>(limit, section));
  SEAM_ASSIGN_OR_RETURN(KeptRows rows, ChooseAccess(sized, limit, s, access.least_vector));
  if (section > 1) {
    SEAM_RETURN_IF_ERROR(ChooseSections(sized, s));
    ChoosePasses(rows, s);
    return s;
  }
  if (s.outer && s.vector > 1) {
    const size_t known = s.facts.size();
    SEAM_RETURN_IF_ERROR(SpareDivisions(sized, /*may_pin=*/false, s));
    if (s.facts.size() > known) {
      SEAM_ASSIGN_OR_RETURN(rows, KeptRows::Of(sized, s));
    }
  }
  SEAM_ASSIGN_OR_RETURN(const bool apart, ChooseColumnsApart(sized, s));
  if (apart) {
    SEAM_ASSIGN_OR_RETURN(rows, KeptRows::Of(sized, s));
    ChoosePasses(rows, s);
    Pin(sized, rows.ColumnDivisors(false), s);
    return s;
  }
  bool in_blocks = false;
  if (sized.shape.batch.empty()) {
    SEAM_ASSIGN_OR_RETURN(in_blocks, ChooseBlocks(sized, s));
  }
  if (access.may_shift && !in_blocks && GainsByShift(sized, rows, limit, s)) {
    Schedule shifted = s;
    shifted.shift = true;
    SEAM_ASSIGN_OR_RETURN(const KeptRows shifted_rows, ChooseAccess(sized, limit, shifted));
    if (shifted.vector > s.vector) {
      s = shifted;
      rows = shifted_rows;
    }
  }
  if (sized.shape.crosses_all_rows()) {
    const bool batched = !sized.shape.batch.empty();
    SEAM_RETURN_IF_ERROR(batched ? ChooseBatches(sized, rows, s) : ChooseCrossed(sized, rows, s));
    ChooseAsync(sized, rows, s);
    SEAM_RETURN_IF_ERROR(ChooseFinish(sized, s));
    s.one_launch &= !batched;
    ChoosePasses(rows, s);
    return s;
  }
  SEAM_ASSIGN_OR_RETURN(const bool folds_few, FoldsFewColumns(sized));
  const auto choose_inner = [&](Schedule& inner) -> absl::Status {
    if (folds_few) {
      ChooseStreamed(rows, inner);
      return absl::OkStatus();
    }
    if (!sized.shape.crossed() || sized.shape.keeps_columns()) {
      SEAM_ASSIGN_OR_RETURN(const bool at_once, ChooseOneTurn(sized, rows, inner));
      if (at_once) return absl::OkStatus();
      if (!IsReadInPairs(sized, inner)) {
        SEAM_ASSIGN_OR_RETURN(const bool chosen, ChooseCluster(sized, rows, 0, inner));
        if (chosen) return absl::OkStatus();
      }
    }
    if (IsBesideWideWeights(sized, rows, inner)) {
      inner.vector = 16 / rows.AlikeBytes();
      SEAM_ASSIGN_OR_RETURN(rows, KeptRows::Of(sized, inner));
    }
    ChooseInner(sized, rows, inner);
    return absl::OkStatus();
  };
  bool interleaved = !s.outer && IsInterleaved(sized, s);
  if (in_blocks) {
    // Chosen.
  } else if (s.outer) {
    ChooseOuter(sized, rows, s);
  } else if (interleaved) {
    Schedule inner = s;
    ChooseInterleaved(sized, rows, s);
    // One read of columns that fill a sector, although those beside them are another CTA's; half a
    // one where CTAs do not share rows, and memory would not be busy.
    const int64_t filled = sized.run * sized.widest_bytes * (sized.shape.crossed() ? 2 : 1);
    if (!s.persistent && filled >= kSectorBytes) {
      SEAM_RETURN_IF_ERROR(choose_inner(inner));
      // The sectors at a piece's ends are read twice, which a cluster does not make up for.
      const bool pays = inner.cluster == 1 || sized.shape.crossed() || filled >= 2 * kSectorBytes;
      if (inner.persistent && pays) {
        s = inner;
        interleaved = false;
      }
    }
  } else {
    SEAM_RETURN_IF_ERROR(choose_inner(s));
  }
  if (s.cluster == 1) FitKept(sized, rows, s);
  if (!folds_few || CtasOf(sized, s) < sized.context.device.sms)
    SEAM_RETURN_IF_ERROR(ShareFewRows(sized, s));
  if (sized.shape.crossed() && !s.outer && !s.shift && s.grid == 0) {
    const int64_t ctas = CeilDivide(std::max<int64_t>(sized.rows, 1), s.rows_per_cta());
    s.grid =
        static_cast<int>(std::min({ctas, ResidentCtas(s, sized.context.device), int64_t{65535}}));
  }
  ChooseAsync(sized, rows, s);
  if (sized.shape.crossed() || s.split > 1) SEAM_RETURN_IF_ERROR(ChooseFinish(sized, s));
  ChoosePasses(rows, s);
  constexpr int kManySingles = 4;
  if (!s.persistent) {
    // Rows that are read step by step are found by a few instructions each time, not by a division.
    Pin(sized, rows.ColumnDivisors(false), s);
  } else if (s.vector == 1 && !s.outer && s.registers >= kManySingles &&
             s.columns_per_step() == sized.columns) {
    PinColumns(sized, s);  // Without masks, which each single element would have.
  }
  // Beside weights of the columns there are no registers to hold steps from.
  if (s.split > 1 && s.one_launch && (s.outer || rows.AlikeWords() == 0)) {
    SEAM_ASSIGN_OR_RETURN(const HeldSteps held, HeldSteps::Of(sized, s));
    HoldEvenSteps(sized, held, s);
    // A little does not make up for what it costs. Source: docs/schedulers/tuning.md, "Rows that
    // are read again".
    constexpr double kLeastShare = 0.1;
    if (held.Share(s, s.held) < kLeastShare * sized.large_inputs) s.held = 0;
  }
  // Longer pieces of what comes from memory again.
  if (s.outer && s.split > 1 && s.held == 0 && LieAlongMoreRows(sized, s)) {
    s.split = 1;
    SEAM_RETURN_IF_ERROR(ShareFewRows(sized, s));
    SEAM_RETURN_IF_ERROR(ChooseFinish(sized, s));
  }
  return s;
}

absl::StatusOr<Schedule> ChooseFor(const SizedGroup& sized, const Schedule& s,
                                   const Access& access = {}) {
  SEAM_ASSIGN_OR_RETURN(Schedule chosen, ChooseRows(sized, s, access));
  const DeviceInfo& device = sized.context.device;
  const int most = std::max(1, device.max_threads_per_sm / chosen.threads());
  chosen.min_ctas_per_sm = std::min(chosen.min_ctas_per_sm, most);
  SEAM_RETURN_IF_ERROR(WidenIndices(sized, chosen));
  // Of so few CTAs no SM has two: registers kept free for another one would stay unused.
  Schedule alone = chosen;
  alone.min_ctas_per_sm = 1;
  if (!chosen.columns_apart && CtasOf(sized, alone) <= ResidentCtas(alone, device)) chosen = alone;
  ChooseStagger(sized, chosen);
  return chosen;
}

// Instead of a schedule by single elements one whose threads have several neighbours, although
// some or all of these are moved one by one: where most of the bytes then come in vectors; where
// neighbours share calls of the random generator; where a row has few elements, whose lanes do
// little else than merge what they folded; and of whole rows that are read step by step, so that
// more of memory is under way. None where none of it holds. Source:
// docs/schedulers/single-elements.md, "Single elements of rows".
absl::StatusOr<std::optional<Schedule>> ChooseSeveralElements(const SizedGroup& sized,
                                                              const Schedule& s,
                                                              const Schedule& single) {
  constexpr double kMostByElement = 0.5;
  constexpr int64_t kFewElements = 128;
  constexpr int kFewOfThread = 4, kWidest = 16;
  if (single.vector > 1 || single.outer || single.cluster > 1 || single.blocks) return std::nullopt;
  const auto choose = [&](int elements) -> absl::StatusOr<std::optional<Schedule>> {
    SEAM_ASSIGN_OR_RETURN(Schedule chosen, ChooseFor(sized, s, {.least_vector = elements}));
    if (chosen.vector == 1 || chosen.shift) return std::nullopt;
    return chosen;
  };
  if (!single.persistent && sized.run >= sized.columns) {
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> four, choose(kSingleElements));
    if (four && !four->persistent) return four;
  }
  // Of less than a byte for each element that a row has, arithmetic takes longer.
  SEAM_ASSIGN_OR_RETURN(const int64_t moved, MovedBytes(sized));
  if (!sized.shape.crossed() && moved >= sized.rows * sized.columns) {
    SEAM_ASSIGN_OR_RETURN(const std::optional<Schedule> widest, choose(kWidest));
    if (widest) {
      Schedule taken = *widest;
      SEAM_ASSIGN_OR_RETURN(const double part, TakeElements(sized, widest->vector, taken));
      if (part <= kMostByElement) return widest;
    }
  }
  const bool few = sized.columns <= kFewElements && single.registers <= kFewOfThread;
  if (few || DrawsNumbers(*sized.group)) {
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> four, choose(kSingleElements));
    if (four && CtasOf(sized, *four) >= sized.context.device.sms) return four;
  }
  return std::nullopt;
}

// Neighbouring columns as rows of their own; nothing where they cannot be that.
absl::StatusOr<std::optional<Schedule>> ChooseAsRows(const SizedGroup& sized, Schedule s) {
  s.neighbours = static_cast<int>(sized.run);
  const absl::StatusOr<SizedGroup> resized = SizeGroup(*sized.group, sized.context, s);
  if (!resized.ok()) return std::nullopt;
  // Columns of other tensors may lie among them.
  SEAM_ASSIGN_OR_RETURN(const int64_t merged,
                        ValueOf(*resized, resized->shape.Extent(resized->shape.merged)));
  if (merged != sized.run) return std::nullopt;
  SEAM_ASSIGN_OR_RETURN(s, ChooseFor(*resized, s));
  if (!CheckSchedule(s).ok()) return std::nullopt;
  return s;
}

// Columns as columns, all of them.
absl::StatusOr<Schedule> ChooseAsColumns(const SizedGroup& sized, const Schedule& s) {
  SEAM_ASSIGN_OR_RETURN(Schedule chosen, ChooseFor(sized, s));
  if (chosen.vector == 1 && !chosen.blocks) {
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> tiles,
                          ChooseRowsInTiles(*sized.group, sized.context));
    if (tiles) return *std::move(tiles);
  }
  if (!chosen.shift) {
    SEAM_ASSIGN_OR_RETURN(chosen, FitStencilOfRows(sized, std::move(chosen)));
    if (chosen.points_of_thread() > 1) return chosen;  // Windows are read once for several rows.
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> several, ChooseSeveralElements(sized, s, chosen));
    return several ? *std::move(several) : chosen;
  }
  // Single elements that rows share are fewer loads than vectors put together.
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, chosen));
  SEAM_ASSIGN_OR_RETURN(const double products, ProductsOfElement(sized));
  if (!rows.JoinsFirstLoad() && products < kMostlyProducts) return chosen;
  SEAM_ASSIGN_OR_RETURN(Schedule single, ChooseFor(sized, s, {.may_shift = false}));
  SEAM_ASSIGN_OR_RETURN(single, FitStencilOfRows(sized, std::move(single)));
  return single.points_of_thread() > 1 ? single : chosen;
}

}  // namespace

absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  SEAM_ASSIGN_OR_RETURN(SizedGroup sized, SizeGroup(group, context));
  if (!sized.shape.reduces) return pointwise::Choose(group, context);
  if (sized.shape.sections.size > 1) return ChooseFor(sized, s);
  // Neighbouring rows of many columns leave a state each of what is folded of all of them: threads
  // that take rows in turn would have no vectors.
  if (sized.shape.outer && sized.shape.crosses_all_rows() && sized.columns > kFewColumns) {
    SEAM_ASSIGN_OR_RETURN(const bool few_states, HasFewStatesOfRows(sized));
    if (few_states) {
      Schedule outer = s;
      outer.outer = true;
      SEAM_ASSIGN_OR_RETURN(sized, SizeGroup(group, context, outer));
    }
  }
  if (AreNeighboursShort(sized)) {
    SEAM_ASSIGN_OR_RETURN(std::optional<Schedule> as_rows, ChooseAsRows(sized, s));
    if (as_rows) return *std::move(as_rows);
  }
  return ChooseAsColumns(sized, s);
}

absl::StatusOr<std::optional<Schedule>> ChooseOtherNeighbours(const Fusion& group,
                                                              const ScheduleContext& context,
                                                              const Schedule& chosen) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context));
  if (chosen.neighbours == 1) {
    if (!MayBeRows(sized) || sized.shape.sections.size > 1) return std::nullopt;
    return ChooseAsRows(sized, s);
  }
  SEAM_ASSIGN_OR_RETURN(s, ChooseAsColumns(sized, s));
  return s;
}

}  // namespace seam::reduction
