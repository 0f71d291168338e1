// Rows whose columns are neighbours in memory, to some lanes, some warps or a CTA: as many vectors
// a thread, and as many CTAs an SM, as its registers are good for.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/reduction_uneven.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

// Instructions of a point that have so much under way that its threads want more registers: those
// of a random number are enough.
constexpr int kBusyInstructions = 96;

// Registers of a thread for masks where it has few, for a second input of four vectors, and for
// weights of more than a word a column of rows that are a warp's or less.
constexpr int kMaskWords = 6, kSecondInputWords = 6, kWideWeightWords = 24;

// kEndWords beside weights of odd rows, and all that is beside the data next to weights of a word a
// column: these lie unaligned there, and what it takes to join them hides behind more CTAs.
constexpr int kWeightedEndWords = 6;
constexpr double kUnalignedWords = 26.5;

// Words of weights of a thread that still are loaded early.
constexpr double kEarlyWords = 8;

// Registers that a thread has beside what it holds, as long as enough threads fit an SM.
constexpr int kFreeWords = 56;
// What a thread with two vectors and few weights has beside what it holds.
constexpr int kTwoUnpackedWords = 28;

// More of vectors that memory keeps narrower than 16 bytes, while these leave a CTA's threads: as
// much under way, and as much to do beside what a thread does once.
std::vector<Share> OfNarrowVectors(absl::Span<const Share> shares, const SizedGroup& sized,
                                   const Schedule& s) {
  constexpr int kLeastThreads = 128, kMostPoints = 32;
  std::vector<Share> more;
  for (int times = 16 / (s.vector * sized.widest_bytes); times > 1; times /= 2) {
    for (const Share& share : shares) {
      if (share.registers * times * s.vector > kMostPoints) continue;
      more.push_back({share.registers * times, std::max(share.least, kLeastThreads), share.most});
    }
  }
  return more;
}

// A row of one narrow input without weights, whose lanes with two vectors each would idle more than
// an eighth of the time: fewer lanes with up to eight, the most that idle no more than that, or
// else those that idle least.
bool ShareEvenly(int64_t vectors, Schedule& s) {
  constexpr int kMostVectors = 8, kIdle = 8;
  const auto idles = [&](int64_t places) { return (places - vectors) * kIdle > places; };
  const int64_t in_twos = 2 * int64_t{ThreadsFor(vectors, 2)};
  if (vectors < kMostVectors || !idles(in_twos)) return false;
  int64_t fewest = in_twos;
  for (int lanes = 32; lanes >= 4 && idles(fewest); lanes /= 2) {
    const int64_t each = CeilDivide(vectors, lanes);
    if (each > kMostVectors) break;
    if (each * lanes >= fewest) continue;
    fewest = each * lanes;
    GiveThreads(lanes, static_cast<int>(each), s);
  }
  return fewest < in_twos;
}

// The same beside a few weights, where two vectors each would idle a quarter of two warps or of
// three: three each, on half as many lanes or on two warps.
bool ShareFewWeights(int64_t vectors, Schedule& s) {
  const int threads = vectors > 64 && vectors <= 96 ? 32 : vectors > 128 && vectors <= 160 ? 64 : 0;
  if (threads > 0) GiveThreads(threads, 3, s);
  return threads > 0;
}

// Narrow vectors of rows that share a warp: up to eight a thread, of several inputs four, and no
// thread without.
bool ShareWarp(const SizedGroup& sized, int64_t vectors, Schedule& s) {
  constexpr int kMostVectors = 8, kMostOfSeveral = 4;
  if (s.vector == 1 || s.vector * sized.widest_bytes >= 16) return false;
  const int most = sized.large_inputs > 1 ? kMostOfSeveral : kMostVectors;
  const int lanes = PowerOfTwoAtLeast(CeilDivide(vectors, most), 64);
  if (lanes >= 32) return false;
  s.lanes_per_row = lanes;
  s.warps_per_row = 1;
  s.registers = static_cast<int>(CeilDivide(vectors, lanes));
  return true;
}

// Those of rows beside weights of wider elements, in order of preference.
absl::Span<const VectorShare> VectorSharesFor(const SizedGroup& sized, const KeptRows& rows,
                                              bool shift) {
  static constexpr VectorShare kInputs[] = {{6, 64}, {8, 72}, {5, 56}, {7, 64}};
  static constexpr VectorShare kOneWord[] = {{5, 40}, {6, 40}, {8, 56}, {7, 56}};
  static constexpr VectorShare kShifted[] = {{8, 48}, {5, 44}, {6, 48}};
  static constexpr VectorShare kEven[] = {{5, 40}, {6, 48}, {8, 64}, {7, 64}};
  if (sized.large_inputs > 1) return kInputs;
  if (rows.AlikeWords() <= kManyWeights) return kOneWord;
  return shift ? absl::MakeConstSpan(kShifted) : kEven;
}

// The one of these that idles few threads and, with as many CTAs an SM as have the registers, has
// enough under way. False: no CTA holds the row. Source: docs/schedulers/rows.md, "Weights wider
// than the data".
bool ShareBesideWideWeights(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kMostThreads = 768, kLeastShifted = 96;
  constexpr double kEnoughBytes = 60000, kGain = 0.02, kInputsGain = 0.15;
  const double gain = sized.large_inputs > 1 ? kInputsGain : kGain;
  const int64_t vectors = VectorsOf(sized, s);
  const auto row_bytes =
      static_cast<double>(sized.columns * sized.widest_bytes * sized.large_inputs);
  std::optional<Schedule> best;
  double best_score = 0;
  for (const VectorShare& share : VectorSharesFor(sized, rows, s.shift)) {
    const int threads = ThreadsFor(vectors, share.vectors);
    if (threads > kMostThreads || (s.shift && threads > 32 && threads < kLeastShifted)) continue;
    Schedule t = s;
    GiveThreads(threads, share.vectors, t);
    t.persistent = true;
    t.row_warps = std::max(1, 4 / t.warps_per_row);
    t.min_ctas_per_sm =
        std::max(1, sized.context.device.registers_per_sm / (t.threads() * share.words));
    const double used = static_cast<double>(vectors) / (threads * share.vectors);
    const double under_way = t.min_ctas_per_sm * t.row_warps * row_bytes;
    const double score = used * std::min(1.0, under_way / kEnoughBytes);
    if (best && score <= best_score + gain) continue;
    best_score = score;
    best = t;
  }
  if (best) s = *best;
  return best.has_value();
}

// Rows that are gone through step by step. What a row costs at its end, where its threads put their
// states together, counts by its warps, so there are few of these: one of rows of some thousand
// columns, else four. More where rows are few, or where the last turn of CTAs would have few.
// Source: timed on an H200, docs/schedulers/not-held.md, "Rows that are read once".
void GoInSteps(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int64_t kWarpVectors = 768;
  constexpr int kMostWarps = 16, kNarrowWords = 28, kWideWords = 24, kOfAll = 4;
  constexpr double kOtherWarps = 0.05, kTwoVectors = 0.02;
  const DeviceInfo& device = sized.context.device;
  const int64_t vectors = VectorsOf(sized, s);
  const int best_warps = vectors <= kWarpVectors ? 1 : 4;
  const bool narrow = sized.widest_bytes < 4;
  s.persistent = false;
  s.lanes_per_row = 32;
  double best = -1;
  for (int warps = 1; warps <= kMostWarps; warps *= 2) {
    for (const int registers : {4, 2}) {
      Schedule t = s;
      t.warps_per_row = warps;
      t.row_warps = std::max(1, kOfAll / warps);
      t.registers = registers;
      // Narrow data are unpacked in part.
      const double row_words = (narrow ? 1.5 : 1) * rows.Words(registers, t);
      const double words = row_words + rows.KeptWords(t) + (narrow ? kNarrowWords : kWideWords);
      t.min_ctas_per_sm = static_cast<int>(
          std::clamp<int64_t>(static_cast<int64_t>(device.registers_per_sm / (t.threads() * words)),
                              1, device.max_threads_per_sm / t.threads()));
      const double turns = static_cast<double>(sized.rows) /
                           static_cast<double>(t.rows_per_cta() * ResidentCtas(t, device));
      const int64_t step = int64_t{32} * warps * registers;
      const double used =
          static_cast<double>(vectors) / static_cast<double>(CeilDivide(vectors, step) * step);
      // CTAs that are left in the end are faster than all were.
      const double last = turns - std::floor(turns);
      const double score =
          turns / (std::floor(turns) + std::sqrt(last)) * std::sqrt(used) *
          (1 - kOtherWarps * std::abs(std::log2(static_cast<double>(warps) / best_warps))) *
          (registers == 2 ? 1 - kTwoVectors : 1);
      if (score <= best) continue;
      best = score;
      s = t;
    }
  }
}

// Whether a row is gone over so often that what masks cost each time is worth a kernel of its own,
// which serves rows of that length alone: for more than two sums, one after the other, of which
// Welford's are two, or for two beside weights. Source: docs/schedulers/rows.md, "Rows that are
// gone over often".
bool IsGoneOverOften(const SizedGroup& sized, double weights) {
  const Fusion& group = *sized.group;
  std::vector<int> sums(sized.shape.max_depth + 1);
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (!sized.shape.folds[i]) continue;
    int& of_depth = sums[sized.shape.depth[group.result(e).index()]];
    of_depth = std::max(of_depth, group.op(e) == OpKind::Welford ? 2 : 1);
  }
  const int all = std::accumulate(sums.begin(), sums.end(), 0);
  return all > 2 || (all == 2 && sized.shape.max_depth == 2 && weights > 0);
}

// Rows of which some results are a part, the gates of a recurrent cell above all: threads whose
// vectors are one of each part, or as many of each, find what the parts have in common in their own
// registers. False: no whole warps have them.
bool ShareParts(const SizedGroup& sized, const KeptRows& rows, int64_t vectors, Schedule& s) {
  constexpr int kMostParts = 8, kLeastThreads = 64, kMostThreads = 512;
  const int64_t part = sized.fewest_columns;
  if (s.shift || part <= 1 || part == sized.columns || sized.columns % part != 0) return false;
  const int64_t parts = sized.columns / part;
  for (int64_t registers = parts; registers <= kMostParts; registers += parts) {
    const int64_t threads = vectors / registers;
    if (vectors % (registers * 32) != 0 || threads > kMostThreads) continue;
    if (threads < kLeastThreads || rows.Words(static_cast<int>(registers), s) > kMostWords) break;
    GiveThreads(static_cast<int>(threads), static_cast<int>(registers), s);
    return true;
  }
  return false;
}

// Whether CTAs of 16 warps, two an SM, that read rows again would leave a part of the device idle
// in the last of a few turns; of a quarter as many rows as there are places they share each. Rows
// that the cache keeps until they are read again, as many as are under way at once, are left to
// them. Source: docs/schedulers/not-held.md, "Turns that are not full".
bool LeavesTurnsUneven(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kCtasPerSm = 2, kFewRows = 4;
  constexpr double kFull = 0.85;
  if (s.shift || sized.shape.crossed()) return false;
  const DeviceInfo& device = sized.context.device;
  const int64_t at_once = kCtasPerSm * device.sms;
  const int64_t rows = std::max<int64_t>(sized.rows, 1);
  const int64_t ctas = rows * kFewRows <= at_once ? at_once / rows * rows : rows;
  const int64_t places = CeilDivide(ctas, at_once) * at_once;
  const int64_t row_bytes = sized.columns * sized.widest_bytes * sized.large_inputs;
  const bool kept = at_once * row_bytes < device.l2_bytes && rows > at_once;
  return static_cast<double>(ctas) < kFull * static_cast<double>(places) && !kept;
}

}  // namespace

bool IsOneNarrowInputBesideWeights(const SizedGroup& sized, const KeptRows& rows,
                                   const Schedule& s) {
  return sized.widest_bytes < 4 && sized.widest_bytes * s.vector == 16 &&
         rows.AlikeWords() == kManyWeights && sized.large_inputs == 1 && !sized.shape.crossed() &&
         WorkloadOf(*sized.group).instructions <= kBusyInstructions;
}

bool IsBesideWideWeights(const SizedGroup& sized, const KeptRows& rows, const Schedule& s) {
  constexpr int64_t kLeastColumns = 512;
  return HasWideWeights(sized, rows) && (rows.AlikeWords() > kManyWeights || s.shift) &&
         sized.columns > kLeastColumns && sized.run == sized.columns && !sized.shape.crossed() &&
         !s.outer && !s.blocks && s.vector * rows.AlikeBytes() >= 16;
}

bool IsReadInPairs(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kSingles = 2560, kPairs = 8192;
  return sized.widest_bytes < 4 && s.vector <= 2 &&
         sized.columns > (s.vector == 1 ? kSingles : kPairs) && sized.run == sized.columns &&
         sized.shape.crossed() && sized.shape.keeps_columns() && !s.outer && !s.shift;
}

void ChooseStreamed(const KeptRows& rows, Schedule& s) {
  constexpr int kWarps = 8, kMostVectors = 4, kMostCtas = 4;
  s.persistent = false;
  s.lanes_per_row = 32;
  s.warps_per_row = kWarps;
  s.registers = kMostVectors;
  while (s.registers > 1 && rows.Words(s.registers, s) > kMostWords / 2) s.registers /= 2;
  s.row_warps = 1;
  const double words = rows.Words(s.registers, s) + kFreeWords;
  s.min_ctas_per_sm = std::clamp(static_cast<int>(65536 / (s.threads() * words)), 1, kMostCtas);
}

void ChooseInner(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const int64_t vectors = VectorsOf(sized, s);
  if (IsForSteps(sized, rows, s)) return GoInSteps(sized, rows, s);
  if (IsBesideWideWeights(sized, rows, s) && ShareBesideWideWeights(sized, rows, s)) return;
  const bool narrow = sized.widest_bytes < 4;
  const bool busy = WorkloadOf(*sized.group).instructions > kBusyInstructions;
  const double weights = rows.AlikeWords();
  const bool many_weights = weights >= kManyWeights;
  const bool wide_weights = weights > kManyWeights;
  // Beside many weights masks cost registers.
  const Share share_two = {2, !many_weights ? 16 : vectors % 64 == 0 ? 64 : 96, 256};
  const absl::Span<const Share> shares = SharesFor(sized);
  const bool chosen = ShareParts(sized, rows, vectors, s) ||
                      ShareRow(rows, vectors, OfNarrowVectors(shares, sized, s), s) ||
                      (!s.shift && ShareWarp(sized, vectors, s));
  // Long odd rows of one input: few threads with much under way each, and four CTAs of them an SM.
  constexpr Share kShareEight = {8, 160, 256};
  constexpr int kCtasOfEight = 4, kLongVectors = 1408;
  const bool eight = !chosen && narrow && !busy && s.shift && weights == 0 &&
                     sized.large_inputs == 1 && vectors > kLongVectors &&
                     rows.Words(kShareEight.registers, s) + kFewestFreeWords <=
                         65536 / (kCtasOfEight * kShareEight.most) &&
                     ShareRow(rows, vectors, {&kShareEight, 1}, s);
  const bool evenly = !chosen && narrow && !s.shift && !busy && weights == 0 &&
                      sized.large_inputs == 1 && ShareEvenly(vectors, s);
  const bool in_threes = !chosen && narrow && !s.shift && !busy && weights > 0 && !many_weights &&
                         sized.large_inputs == 1 && ShareFewWeights(vectors, s);
  // Of results of a byte there are half as many to write, and so more to have under way.
  const bool to_bytes =
      sized.narrowest_bytes == 1 && absl::c_any_of(sized.group->outputs(), [&](ValId v) {
        return DTypeBytes(sized.group->dtype(v)) == 1;
      });
  const bool two = !chosen && !evenly && !in_threes && narrow && !s.shift && !busy &&
                   !wide_weights && !to_bytes && ShareRow(rows, vectors, {&share_two, 1}, s);
  s.persistent =
      chosen || evenly || in_threes || eight || two || ShareRow(rows, vectors, shares, s);
  const bool much_beside =
      narrow && weights > 0 && (two ? many_weights : s.registers * s.vector > 32);
  const bool covered = s.persistent && s.columns_per_step() == sized.columns;
  // A kernel that knows the sizes leaves out the vectors that no result has, a third of them or
  // more.
  const bool leaves_out =
      s.persistent &&
      CeilDivide(sized.fewest_columns, s.columns_per_step() / s.registers) * 3 <= s.registers * 2;
  if (!s.shift &&
      (much_beside || leaves_out || (covered && (to_bytes || IsGoneOverOften(sized, weights))))) {
    PinColumns(sized, s);
  }
  constexpr int kSmallCtas = 8;
  const bool again = IsReadInPairs(sized, s);
  s.persistent &= !again;
  if (!s.persistent) {
    s.lanes_per_row = 32;
    // Compilers unpack narrow data of all inputs ahead.
    const bool room =
        rows.Words(2, s) <= kMostWords / 2 && (!narrow || sized.input_words + weights <= 1);
    // Single elements are few bytes under way each: small CTAs have many, or share a row. Of more
    // rows those that are under way at once would not stay in the cache until they are read again.
    const bool many_rows = sized.rows * 2 > int64_t{sized.context.device.sms} * kSmallCtas;
    const bool small = again || (s.vector == 1 ? !many_rows : LeavesTurnsUneven(sized, s));
    s.warps_per_row = small ? 4 : 16;
    s.registers = again ? 4 : s.vector == 1 ? 8 : (small ? 2 : 1) * (room ? 2 : 1);
  }
  // CTAs of at least 128 threads, several short rows in each.
  AlignToKept(rows, sized.columns, s);
  const bool masks = s.columns_per_step() > sized.columns;
  const bool uneven = s.persistent && masks && IsOneNarrowInputBesideWeights(sized, rows, s);
  if (uneven && !s.shift && ShareUnevenly(vectors, s)) return PinColumns(sized, s);
  const int threads = s.lanes_per_row * s.warps_per_row;
  s.row_warps = threads >= 128 ? 1 : std::max(1, 4 / s.warps_per_row);
  // Beside fewer weights, large CTAs do better with as few registers too.
  constexpr int kLarge = 416;
  const bool unaligned_weights =
      s.shift && weights > 0 && !wide_weights && (many_weights || (narrow && threads >= kLarge));
  // Weights are loaded early where they take few registers or rows share a warp.
  const int points = s.registers * s.vector;
  s.early =
      narrow && !s.shift && s.persistent && weights > 0 && !wide_weights &&
      ((weights * points <= kEarlyWords && threads <= 128) || s.lanes_per_row < 32 || in_threes);
  // Half of an SM's threads hide the latency of memory, more where each has little under way; more
  // registers than that leaves room for do not pay. Large CTAs want another one to go on while they
  // wait at a barrier.
  const double held = rows.Words(s.registers, s) + rows.KeptWords(s);
  const int hiding = busy                    ? 768
                     : two                   ? 1536
                     : unaligned_weights     ? 1280
                     : masks && many_weights ? (narrow ? 896 : 1152)
                                             : 1024;
  // Where weights lie unaligned, rather more of them.
  const int rounding = unaligned_weights ? s.threads() - 1 : s.threads() / 2;
  s.min_ctas_per_sm = std::max(s.threads() <= 768 ? 2 : 1, (hiding + rounding) / s.threads());
  // Addresses of many vectors of a few bytes, and single elements that lie unpacked.
  double single = s.vector <= 2 && s.registers > 8 ? kSingleWords : 0;
  if (single > 0 && narrow && s.vector == 1)
    single += points * (sized.large_inputs - sized.input_words);
  // Compilers unpack narrow data of several inputs ahead, and spill where that does not fit.
  if (narrow) {
    const double beside =
        two && !many_weights ? kTwoUnpackedWords + (sized.large_inputs > 1 ? kMaskWords : 0)
        : !s.shift ? kUnpackedWords + (sized.large_inputs > 1 && !two ? kSecondInputWords : 0) +
                         (wide_weights && s.warps_per_row == 1 ? kWideWeightWords : 0)
        : unaligned_weights
            ? kUnalignedWords
            : kUnpackedWords + (weights > 0 ? kWeightedEndWords : kEndWords) * sized.large_inputs;
    const double words = (sized.input_words + (s.early ? weights : 0)) * points + beside +
                         (two && masks && many_weights ? kMaskWords : 0) + rows.KeptWords(s);
    const int fit = static_cast<int>(65536 / (s.threads() * words));
    s.min_ctas_per_sm = std::clamp(fit, 1, s.min_ctas_per_sm);
  }
  // No more threads than have the registers for what they hold.
  const int fit = static_cast<int>(
      65536 /
      (s.threads() * (held + single + (held > kFreeWords ? kFreeWords : kFewestFreeWords))));
  s.min_ctas_per_sm = eight ? kCtasOfEight : std::clamp(fit, 1, s.min_ctas_per_sm);
  constexpr int64_t kTimedVectors = 128;
  if (s.persistent && masks && !busy && sized.large_inputs == 1 && !sized.shape.crossed() &&
      sized.run == sized.columns && vectors >= kTimedVectors &&
      s.vector * sized.widest_bytes == 16 && WritesColumns(sized)) {
    RaiseCtas(sized.context.device, held, weights, s);
  }
  if (uneven && s.shift) ShareUnevenlyShifted(vectors, s);
  // Two CTAs of so many threads, of shifted rows of wide data, have too few registers beside four
  // vectors.
  constexpr int kTightAbove = 576, kTightUpTo = 640;
  if (!narrow && s.shift && s.persistent && !sized.shape.crossed() && s.registers == 4 &&
      s.min_ctas_per_sm == 2 && s.threads() > kTightAbove && s.threads() <= kTightUpTo) {
    GiveThreads(ThreadsFor(vectors, 5), 5, s);
  }
  if (sized.widest_bytes == 4 && !busy && s.shift && s.persistent && !sized.shape.crossed())
    ShareWideShifted(sized, rows, s);
  if (narrow && !busy && s.shift && s.persistent && !many_weights && sized.large_inputs == 1 &&
      !sized.shape.crossed() && s.vector * sized.widest_bytes == 16) {
    ShareShortShifted(vectors, weights, s);
  }
}

bool IsInterleaved(const SizedGroup& sized, const Schedule& s) {
  constexpr int kFewVectors = 8;
  return sized.beside > 1 && sized.run < sized.columns && sized.run <= kFewVectors * s.vector;
}

void ChooseInterleaved(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  s.lanes_per_row = PowerOfTwoAtLeast(CeilDivide(sized.run, s.vector), 32);
  s.lanes_per_row = std::max<int>(s.lanes_per_row, 32 / PowerOfTwoAtLeast(sized.beside, 32));
  // Rows that CTAs cannot share: fewer beside each other, as long as those of a warp fill a sector.
  while (sized.shape.crossed() && s.lanes_per_row < 32 &&
         16 / s.lanes_per_row * sized.run * sized.widest_bytes >= kSectorBytes &&
         CeilDivide(sized.rows, 32 / s.lanes_per_row) < 2 * sized.context.device.sms) {
    s.lanes_per_row *= 2;
  }
  const int64_t vectors = CeilDivide(sized.columns, int64_t{s.vector} * s.lanes_per_row);
  s.registers = rows.Words(4, s) <= kMostWords / 2 ? 4 : 2;
  if (sized.shape.crossed() && vectors > 16 * s.registers && rows.Words(8, s) <= kMostWords / 2)
    s.registers = 8;
  s.warps_per_row = static_cast<int>(std::clamp<int64_t>(CeilDivide(vectors, s.registers), 1, 16));
  s.persistent = s.columns_per_step() >= sized.columns;
  AlignToKept(rows, sized.columns, s);
  s.row_warps = std::max(1, 4 / s.warps_per_row);
  if (!s.persistent) {
    // As many points in hand, whatever the vector: memory is as busy, and the chunks of statistics
    // are as large.
    constexpr int kPoints = 32;
    s.registers = std::clamp(kPoints / s.vector, 2, 8);
    while (s.registers > 2 && rows.Words(s.registers, s) > kMostWords / 2) s.registers /= 2;
    s.warps_per_row = sized.shape.crossed() ? 16 : 8;
    AlignToKept(rows, sized.columns, s);
  }
  const bool light = !s.persistent && sized.widest_bytes < 4;
  const double words = rows.Words(s.registers, s) + rows.KeptWords(s) + kFewestFreeWords;
  const int fit = light ? static_cast<int>(65536 / (s.threads() * words)) : 768 / s.threads();
  s.min_ctas_per_sm = std::clamp(fit, 1, std::max(1, 1024 / s.threads()));
}

}  // namespace seam::reduction
