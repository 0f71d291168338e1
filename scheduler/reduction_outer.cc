// Rows that are neighbours in memory: tiles of them and of columns that a CTA or a cluster has in
// hand.
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "scheduler/kernel/tile.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

// Instructions of a point, an error function's, of which two vectors of two inputs at once fill the
// registers.
constexpr int kManyInstructions = 32;

// Bytes of neighbouring rows that a warp reads of a column, and CTAs an SM, in order of preference:
// of several CTAs one loads while another computes. Fewer rows have more threads a row, which then
// hold it all; less than a sector pays for nothing.
struct OuterTile {
  int bytes, ctas, cluster = 1;
};
constexpr OuterTile kOuterTiles[] = {{128, 4}, {128, 2}, {64, 2}, {128, 2, 8},
                                     {32, 2},  {128, 1}, {64, 1}, {32, 1}};
// The same of many single elements a thread, which take an instruction and a mask each: fewer of
// them in more warps. Source: timed on an H100, docs/schedulers/single-elements.md, "Single
// elements down columns".
constexpr OuterTile kSingleTiles[] = {{128, 1}, {64, 1}, {32, 1}};
// The same of rows that are read again.
constexpr OuterTile kStreamedTiles[] = {{128, 2}, {128, 2, 2}, {128, 2, 4}, {64, 2}, {32, 2}};

// Warps side by side that merge so many neighbours.
int64_t OddPart(int64_t n) { return n / (n & -n); }

// Whether anything over the columns of a row waits for what they are folded to.
bool WaitsForFolds(const SizedGroup& sized) {
  const Fusion& group = *sized.group;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (sized.shape.Columns(sized.shape.axes.space(e)).empty()) continue;
    for (ValId v : group.operands(e))
      if (sized.shape.depth[v.index()] > 0) return true;
  }
  return false;
}

// Whether some input's columns are wanted in several passes. Linear in the expressions.
bool HasColumnsOfManyPasses(const SizedGroup& sized) {
  const Fusion& group = *sized.group;
  const GroupShape& shape = sized.shape;
  // Per value the passes that want it, a bit each.
  std::vector<uint64_t> passes(group.num_vals(), 0);
  const auto pass_of = [&](ValId v) { return uint64_t{1} << std::min(shape.depth[v.index()], 63); };
  for (ValId v : group.outputs()) passes[v.index()] |= pass_of(v);
  for (uint32_t i = group.num_exprs(); i-- > 0;) {
    const ExprId e(i);
    uint64_t wanted = 0;
    if (shape.folds[i] || shape.crosses[i] != Crossing::kNone) {
      for (ValId v : group.operands(e)) wanted = std::max(wanted, pass_of(v));
    } else {
      for (int r = 0; r < group.num_results(e); ++r) wanted |= passes[group.result(e, r).index()];
    }
    for (ValId v : group.operands(e)) passes[v.index()] |= wanted;
  }
  return absl::c_any_of(group.inputs(), [&](ValId v) {
    return std::popcount(passes[v.index()]) > 1 && !shape.Columns(shape.axes.axes(v)).empty();
  });
}

// Whether rows are better held than read step by step. Those that nothing crosses are so also where
// each input is read once: docs/schedulers/not-held.md, "Rows that fold little".
bool ReadsRowsAgain(const SizedGroup& sized) {
  return WaitsForFolds(sized) && (!sized.shape.crossed() || HasColumnsOfManyPasses(sized));
}

// Of rows that are neighbours: threads of an SM that have 128 registers each, registers for
// addresses, and points in hand that are few.
constexpr int kOuterThreads = 512, kAddressWords = 28, kFewPoints = 32;

// Warps down the columns too. Vectors that a thread has then, if it has all of them.
int64_t TakeTile(const SizedGroup& sized, const OuterTile& tile, Schedule& s) {
  constexpr int kFewVectors = 8;
  LieAlongRows(sized, tile.bytes, s);
  s.cluster = tile.cluster;
  const int64_t per_warp = CeilDivide(sized.columns, s.lanes_per_row * s.cluster);
  const int64_t most = std::max(1, kOuterThreads / 32 / tile.ctas / s.row_warps);
  int64_t warps = std::clamp<int64_t>(CeilDivide(per_warp, kFewVectors), 1, most);
  if (s.neighbours > 1) {  // As many of the CTA's threads to each of its rows.
    const int64_t least = std::max(1, s.vector / s.lanes_per_row);
    warps = CeilDivide(warps, least) * least;
  }
  s.warps_per_row = static_cast<int>(warps);
  return CeilDivide(per_warp, warps);
}

// Each of a CTA's rows has as many of its threads.
bool MayCluster(const SizedGroup& sized, const Schedule& s) {
  return s.cluster == 1 || (s.cluster <= sized.context.device.max_cluster && s.vector > 1 &&
                            !sized.shape.keeps_columns() && s.threads() % s.rows_per_cta() == 0);
}

// Rows that a CTA or a cluster holds whole.
bool HoldOuter(const SizedGroup& sized, const KeptRows& rows, bool reads_again, Schedule& s) {
  constexpr int kWaves = 4;
  const double most = 65536 / kOuterThreads - kAddressWords - RowWords(sized) * s.vector;
  const DeviceInfo& device = sized.context.device;
  // Narrow data lie unpacked.
  constexpr int64_t kMostSingleWords = 64;
  const auto singles = [&](const OuterTile& tile) {
    Schedule t = s;
    return TakeTile(sized, tile, t);
  };
  const bool single =
      s.vector == 1 && singles(kOuterTiles[0]) > kFewPoints &&
      singles(kSingleTiles[0]) * sized.large_inputs * (sized.widest_bytes < 4 ? 2 : 1) <=
          kMostSingleWords;
  for (const OuterTile& tile : single ? absl::MakeConstSpan(kSingleTiles) : kOuterTiles) {
    Schedule t = s;
    const int64_t registers = TakeTile(sized, tile, t);
    const int64_t ctas = OuterCtas(sized, t);
    const bool few = registers * t.vector <= kFewPoints;
    // Of what threads fold by themselves a word an element is kept.
    const double words = sized.shape.unrolls ? static_cast<double>(registers) * t.vector
                                             : rows.Words(static_cast<int>(registers), t);
    const bool fits = registers <= most && words <= most && ctas * 2 >= device.sms;
    // A cluster waits for its slowest CTA, while others go on where there are many.
    const bool pays = tile.cluster == 1 || (!sized.shape.crossed() && MayCluster(sized, t) &&
                                            ctas >= kWaves * tile.ctas * device.sms);
    const bool in_hand = few && tile.cluster == 1 && (reads_again || tile.bytes == 128);
    if (!pays || !((fits && reads_again) || in_hand)) continue;
    s = t;
    s.registers = static_cast<int>(std::max<int64_t>(registers, 1));
    s.persistent = true;
    // Without masks, which each single element would have.
    if (s.vector == 1 && !few && s.columns_at_once() == sized.columns) PinColumns(sized, s);
    if (!few) s.min_ctas_per_sm = kOuterThreads / s.threads();
    return true;
  }
  return false;
}

// Whether columns begin anywhere in a sector of memory.
bool BeginAnywhere(const SizedGroup& sized, const Schedule& s) {
  return sized.beside * sized.narrowest_bytes % kSectorBytes != 0 && s.vector > 1 &&
         s.neighbours == 1 && !sized.shape.crossed() && !sized.shape.unrolls;
}

// Such columns: neighbouring rows twice as many as else, so that fewer of the sectors are those at
// their ends, which two CTAs read, and write in part.
// Source: docs/schedulers/columns.md, "Columns that begin anywhere".
bool HoldLongPieces(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kRows = 64, kWarps = 16, kMostWords = 96, kBesideWords = 24, kMostCtas = 4;
  if (!BeginAnywhere(sized, s)) return false;
  Schedule t = s;
  LieAlongRows(sized, kRows * sized.widest_bytes, t);
  t.cluster = 1;
  t.warps_per_row = kWarps;
  t.registers = static_cast<int>(
      std::min<int64_t>(CeilDivide(sized.columns, int64_t{t.lanes_per_row} * kWarps), 256));
  // Narrow data lie unpacked while they are computed with.
  const double points = static_cast<double>(t.registers) * t.vector * sized.large_inputs;
  const double words =
      std::max(rows.Words(t.registers, t), sized.widest_bytes < 4 ? 0.75 * points : 0);
  // Narrow data that are gone over three times have more to lose by masks.
  const bool uneven = t.columns_at_once() * 20 > sized.columns * 21;
  if (t.columns_at_once() < sized.columns || words > kMostWords ||
      OuterCtas(sized, t) < sized.context.device.sms ||
      (uneven && sized.widest_bytes < 4 && sized.shape.max_depth > 1)) {
    return false;
  }
  t.min_ctas_per_sm =
      std::clamp(static_cast<int>(65536 / ((words + kBesideWords) * t.threads())), 1, kMostCtas);
  t.persistent = true;
  PinColumns(sized, t);
  s = t;
  return true;
}

// Rows of two narrow inputs whose columns begin anywhere and whose long pieces no CTA would hold,
// although there are enough of them: read again, from the cache, by as many warps as a CTA has.
// Source: docs/schedulers/columns.md, "Columns that begin anywhere".
bool ReadPiecesAgain(const SizedGroup& sized, Schedule& s) {
  constexpr int kBytes = 64, kWarps = 32, kVectors = 2;
  constexpr int kMostRowWords = 32;       // More would not fit the registers of so many threads.
  constexpr int64_t kMostColumns = 4096;  // Longer ones were not timed.
  if (!BeginAnywhere(sized, s) || sized.widest_bytes > 2 || sized.large_inputs != 2 ||
      s.vector * RowWords(sized) > kMostRowWords || sized.columns > kMostColumns) {
    return false;
  }
  Schedule t = s;
  LieAlongRows(sized, kBytes, t);
  t.cluster = 1;
  t.warps_per_row = kWarps;
  t.registers = kVectors;
  t.min_ctas_per_sm = 1;
  if (t.columns_at_once() >= sized.columns || OuterCtas(sized, t) < 2 * sized.context.device.sms)
    return false;
  s = t;
  return true;
}

// Rows of so few columns that a warp which reads a cache line of each has them all in hand:
// experts' results, heads that share keys. No lane without two of them but along the rows, and
// several warps side by side.
bool HoldFewColumns(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kThreads = 256, kThreadsPerSm = 1024, kWaves = 2;
  Schedule t = s;
  LieAlongRows(sized, 128, t);
  if (sized.columns < 1 || sized.shape.crossed() ||
      CeilDivide(sized.columns, t.lanes_per_row) * t.vector > kFewPoints) {
    return false;
  }
  while (t.lanes_per_row > 1 && sized.columns < 2 * t.lanes_per_row) t.lanes_per_row /= 2;
  t.warps_per_row = t.cluster = 1;
  t.registers = static_cast<int>(CeilDivide(sized.columns, t.lanes_per_row));
  const DeviceInfo& device = sized.context.device;
  while (t.threads() < kThreads) {
    Schedule more = t;
    more.row_warps *= 2;
    if (OuterCtas(sized, more) < kWaves * device.sms) break;
    t = more;
  }
  const double words =
      rows.Words(t.registers, t) + kAddressWords + static_cast<double>(RowWords(sized) * t.vector);
  t.min_ctas_per_sm = std::clamp(static_cast<int>(65536 / (words * t.threads())), 1,
                                 std::max(1, kThreadsPerSm / t.threads()));
  t.persistent = true;
  s = t;
  return true;
}

// So many CTAs a row, of rows that are read once, that nearly all that the device has room for have
// work as long as any has: all of them at once, if tiles of one cache line or two make that
// possible, since the same kernel then finishes what they leave; else in several waves.
void ShareColumnsEvenly(const SizedGroup& sized, Schedule& s) {
  constexpr int64_t kManyWaves = 4, kMostCtas = 8, kLeastSteps = 4;
  constexpr double kEven = 0.9, kEvenAtOnce = 0.8;
  const int64_t at_once = ResidentCtas(s, sized.context.device);
  const auto most = [&](const Schedule& t) {
    return std::min(kMostCtas, CeilDivide(sized.columns, t.columns_per_step()) / kLeastSteps);
  };
  const auto evenness = [&](int64_t ctas) {
    const int64_t places = CeilDivide(ctas, at_once) * at_once;
    return ctas == 0 ? 1 : static_cast<double>(ctas) / static_cast<double>(places);
  };
  std::optional<Schedule> best;
  double most_even = 0;
  for (const int bytes : {128, 256}) {
    Schedule t = s;
    TakeTile(sized, {bytes, t.min_ctas_per_sm}, t);
    const int64_t ctas = OuterCtas(sized, t);  // None of no rows.
    t.split = static_cast<int>(std::min(at_once / std::max<int64_t>(ctas, 1), most(t)));
    const double even = t.split > 0 ? evenness(ctas * t.split) : 0;
    if (t.threads() != s.threads() || even < kEvenAtOnce || even <= most_even) continue;
    most_even = even;
    best = t;
  }
  if (best) {
    s = *best;
    return;
  }
  const int64_t ctas = OuterCtas(sized, s);
  if (ctas >= kManyWaves * at_once) return;
  for (int64_t split = 1; split <= most(s); ++split) {
    if (evenness(ctas * split) < kEven) continue;
    s.split = static_cast<int>(split);
    return;
  }
}

// Many rows of narrow data of which nothing but what they fold to is written: longer pieces of each
// column, fewer of them at once, and more CTAs, some of which load while others begin or end.
// Source: docs/schedulers/columns.md, "Longer pieces".
void FoldLongPieces(const SizedGroup& sized, Schedule& s) {
  constexpr int kBytes = 256, kWarps = 8, kCtas = 4, kMostWords = 56, kMostStates = 2;
  if (sized.widest_bytes >= 4 || s.neighbours > 1 || sized.shape.unrolls ||
      StateWords(sized) > kMostStates) {
    return;
  }
  Schedule t = s;
  LieAlongRows(sized, kBytes, t);
  t.warps_per_row = kWarps;
  t.registers = std::max(1, s.registers / 2);
  t.min_ctas_per_sm = kCtas;
  const double words = t.vector * (t.registers * sized.input_words + RowWords(sized));
  if (words <= kMostWords && OuterCtas(sized, t) >= 2 * sized.context.device.sms) s = t;
}

}  // namespace

void ChooseOuter(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kMostVectors = 8, kMostRowWords = 48, kStreamedBytes = 128,
                kMostStreamedWords = 120;
  const bool reads_again = ReadsRowsAgain(sized);
  if (s.neighbours > 1 && reads_again && HoldNeighbours(sized, rows, s)) return;
  // Narrower vectors leave more registers for columns.
  const int row_words = RowWords(sized);
  while (s.vector * sized.widest_bytes > 8 && s.vector * row_words > kMostRowWords) s.vector /= 2;
  if (s.neighbours == 1 && HoldFewColumns(sized, rows, s)) return;
  if (reads_again && (HoldLongPieces(sized, rows, s) || ReadPiecesAgain(sized, s))) return;
  if (s.neighbours == 1 && reads_again && BringOuter(sized, rows, s)) return;
  if (s.neighbours == 1 && HoldOuter(sized, rows, reads_again, s)) return;
  // Clusters share rows that other CTAs cannot, else these are as few as leave work for most SMs.
  for (const OuterTile& tile : kStreamedTiles) {
    TakeTile(sized, tile, s);
    if (!MayCluster(sized, s)) continue;
    if (!sized.shape.crossed() || OuterCtas(sized, s) * 4 >= sized.context.device.sms * 3 ||
        tile.bytes == 32) {
      break;
    }
  }
  // The next step's vectors are under way beside those and what a thread has of its rows.
  // What threads fold by themselves is as many inputs.
  const int inputs = sized.shape.unrolls
                         ? static_cast<int>(sized.input_words * 4) / sized.widest_bytes
                         : sized.large_inputs;
  s.registers = std::max(1, kStreamedBytes / (s.vector * sized.widest_bytes * std::max(1, inputs)));
  while (s.registers > 1 &&
         s.vector * (s.registers * sized.input_words + row_words) > kMostStreamedWords) {
    s.registers /= 2;
  }
  s.min_ctas_per_sm = 2;
  // Compilers work on all of a step's vectors at once where there is much to compute.
  if (!reads_again && s.registers > 1 &&
      WorkloadOf(*sized.group).instructions > kManyInstructions) {
    s.registers /= 2;
  }
  if (sized.shape.crossed()) return;
  s.registers = std::min(s.registers, kMostVectors);
  if (!reads_again && s.cluster == 1)
    WritesColumns(sized) ? ShareColumnsEvenly(sized, s) : FoldLongPieces(sized, s);
}

bool LieAlongMoreRows(const SizedGroup& sized, Schedule& s) {
  constexpr int kBytes = 256;
  if (s.persistent || s.cluster > 1 || sized.shape.crossed() || !ReadsRowsAgain(sized))
    return false;
  TakeTile(sized, {kBytes, s.min_ctas_per_sm}, s);
  return true;
}

bool MayBeRows(const SizedGroup& sized) {
  constexpr int64_t kMostWarps = 15, kMostRun = 4096;
  return sized.beside > 1 && sized.run > 1 && sized.run < sized.columns && sized.run <= kMostRun &&
         OddPart(sized.run) <= kMostWarps;
}

bool AreNeighboursShort(const SizedGroup& sized) {
  constexpr int64_t kMostBytes = 128, kWideRun = 4;
  constexpr int64_t kFewWarps = 7, kManyPoints = 128, kLongBytes = 65536;
  // States of columns are left for each row. Threads that load vectors of a run are as good for
  // short rows, and for longer ones where many warps would merge neighbours, unless a row in their
  // registers leaves the SM none for another CTA that would load meanwhile. Source:
  // docs/schedulers/columns.md, "Neighbouring columns as rows".
  const double bytes = static_cast<double>(sized.columns) * sized.input_words * 4;
  const int64_t short_bytes = sized.columns >= kManyPoints * sized.run ? 4096 : 8192;
  const bool is_long = OddPart(sized.run) <= kFewWarps
                           ? bytes > short_bytes
                           : sized.widest_bytes < 4 && bytes > kLongBytes;
  if (sized.shape.crossed() && sized.run % kWideRun == 0 && !is_long) return false;
  return MayBeRows(sized) && sized.run * sized.widest_bytes < kMostBytes;
}

}  // namespace seam::reduction
