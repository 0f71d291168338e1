// Reduction: sums, extrema, statistics and everything that can be computed around them in one go,
// normalizations above all. Rows are what the reductions keep, columns what they fold. One
// mechanism, six arrangements:
//   inner    columns are neighbours in memory: a row to some lanes, some warps or a CTA;
//   blocks   the same of short rows that vectors do not divide, through shared memory;
//   outer    rows are neighbours in memory: lanes and vectors along rows, warps down the columns;
//            so they are where a few neighbouring columns are seen as rows, their states merged
//            (reduction_outer.h);
//   cluster  rows, or vectors of rows, longer than a CTA holds: the CTAs of a cluster take a piece
//            each;
//   split    few rows and long ones: several CTAs a row leave partial states;
//   crossed  some reductions go across the rows: CTAs take rows in turn and leave the states of
//            their columns or rows, or each row leaves those of the columns that are kept.
// What is left in parts is finished in the same launch, behind a barrier of the grid, where the
// device holds the grid at once.
// A row that fits is kept in registers between the passes, so that memory is read once; a longer
// one is read again, but for what CTAs that share it hold in shared memory. Which reductions may
// share a kernel says reduction_guard.cc.
#include <algorithm>
#include <numeric>

#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/held_steps.h"
#include "scheduler/kept_rows.h"
#include "scheduler/reduction_outer.h"
#include "scheduler/schedulers.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

// How many vectors a thread holds while a row takes at least and at most so many threads, in order
// of preference. 16-bit data want two for short rows, so that many CTAs fit an SM, and four, which
// is 64 bytes in flight, for long ones and beside weights; wider data few and narrow while that
// keeps memory busy, more for longer rows, one CTA an SM only for rows that need it. Source:
// schedules timed side by side on an H200, docs/schedulers.md.
struct Share {
  int registers, least, most;
};
constexpr Share kNarrow[] = {
    {4, 8, 768}, {2, 1, 128}, {8, 1, 1024}, {2, 1, 512}};  // 16-bit data and narrower.
constexpr Share kWide[] = {{2, 1, 256}, {4, 1, 768}, {8, 1, 512}, {4, 1, 1024}, {8, 1, 1024}};

// Instructions of a point that have so much under way that its threads want more registers: those
// of a random number are enough.
constexpr int kBusyInstructions = 96;

// Registers of a thread that unpacks narrow data, beside these, for masks where it has few, for
// a second input of four vectors, and for weights of more than a word a column of rows that are a
// warp's or less.
constexpr int kUnpackedWords = 34, kMaskWords = 6, kSecondInputWords = 6, kWideWeightWords = 24;

// Registers of a thread for an element of a row's ends, and for where these and the body are, of an
// input, and the same beside weights of up to a word a column, whose vectors lie unaligned; and for
// all that is beside the data where there are more of those: what that takes hides behind more
// CTAs.
constexpr int kEndWords = 8, kWeightedEndWords = 6;
constexpr double kUnalignedWords = 26.5;

// Words of weights at a point from which they are loaded late, more of which want four vectors a
// thread, and words of a thread that still are loaded early.
constexpr double kManyWeights = 1, kEarlyWords = 8;

// Registers that a thread has beside what it holds, as long as enough threads fit an SM.
constexpr int kFreeWords = 56;
// Fewer spill.
constexpr int kFewestFreeWords = 24;
// Registers for the addresses of a thread's many single elements.
constexpr int kSingleWords = 12;

// Rows that start anywhere are shifted from so many vectors on: shorter ones are mostly ends.
constexpr int64_t kShiftedVectors = 16;

// Shares a row of `vectors` vectors among lanes and warps: a power of two below a warp, whole warps
// above. A share that would idle more than a quarter of the row's threads is taken only if there is
// none better. False if no CTA holds the row.
bool ShareRow(const KeptRows& rows, int64_t vectors, absl::Span<const Share> shares, Schedule& s) {
  for (bool wasteful : {false, true}) {
    for (const Share& share : shares) {
      if (rows.Words(share.registers, s) > kMostWords) continue;
      int64_t threads = CeilDivide(vectors, share.registers);
      threads = threads < 32 ? PowerOfTwoAtLeast(threads, 32) : CeilDivide(threads, 32) * 32;
      if (threads < share.least || threads > share.most) continue;
      if (!wasteful && threads * share.registers * 4 > vectors * 5) continue;
      s.registers = share.registers;
      s.lanes_per_row = static_cast<int>(std::min<int64_t>(threads, 32));
      s.warps_per_row = static_cast<int>(CeilDivide(threads, 32));
      return true;
    }
  }
  return false;
}

// Gives rows so many warps that a thread has the same ones of the columns that are kept in all of
// its registers, if that idles few of them: it then leaves one state for all.
void AlignToKept(const KeptRows& rows, int64_t columns, Schedule& s) {
  constexpr int kMostWarps = 16;
  const int64_t period = rows.KeptPeriod();
  if (period == 0 || 2 * period > columns) return;
  const int64_t of_warp = int64_t{s.lanes_per_row} * (s.outer ? 1 : s.vector);
  const int64_t step = period / std::gcd(period, of_warp);
  int64_t warps = CeilDivide(s.warps_per_row, step) * step;
  if (!s.persistent && warps > kMostWarps) warps = kMostWarps / step * step;
  if (warps == 0 || warps == s.warps_per_row || warps > kMostWarps) return;
  const int64_t registers =
      s.persistent ? CeilDivide(columns, of_warp * warps * s.cluster) : s.registers;
  if (s.persistent && registers * of_warp * warps * s.cluster * 4 > columns * 5) return;
  s.warps_per_row = static_cast<int>(warps);
  s.registers = static_cast<int>(registers);
}

// Leaves room in shared memory for the states of columns that are kept: fewer rows a CTA, then
// fewer columns at once, of rows that are read again.
void FitKept(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const int64_t room = sized.context.device.smem_bytes_per_cta - kOtherSharedBytes;
  while (rows.KeptBytes(s) > room) {
    if (s.row_warps > 1) {
      s.row_warps = 1;
      continue;
    }
    s.persistent = false;
    if (s.registers > 1) {
      s.registers /= 2;
    } else if (s.warps_per_row > 1) {
      s.warps_per_row /= 2;
    } else if (s.vector > 1) {
      s.vector /= 2;
    } else {
      break;
    }
  }
  if (const int64_t bytes = rows.KeptBytes(s); bytes > 0) {
    s.min_ctas_per_sm =
        static_cast<int>(std::clamp<int64_t>(room / bytes, 1, std::max(1, s.min_ctas_per_sm)));
  }
}

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

// The same where rows share a warp: up to eight a thread, and no thread without.
bool ShareWarp(const SizedGroup& sized, int64_t vectors, Schedule& s) {
  constexpr int kMostVectors = 8;
  if (s.vector == 1 || s.vector * sized.widest_bytes >= 16) return false;
  const int lanes = PowerOfTwoAtLeast(CeilDivide(vectors, kMostVectors), 64);
  if (lanes >= 32) return false;
  s.lanes_per_row = lanes;
  s.warps_per_row = 1;
  s.registers = static_cast<int>(CeilDivide(vectors, lanes));
  return true;
}

void ChooseInner(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const int64_t vectors = VectorsOf(sized, s);
  const bool narrow = sized.widest_bytes < 4;
  const bool busy = WorkloadOf(*sized.group).instructions > kBusyInstructions;
  const double weights = rows.AlikeWords();
  const bool many_weights = weights >= kManyWeights;
  const bool wide_weights = weights > kManyWeights;
  const bool unaligned_weights = s.shift && many_weights && !wide_weights;
  // Beside many weights masks cost registers.
  const Share share_two = {2, !many_weights ? 16 : vectors % 64 == 0 ? 64 : 96, 256};
  const absl::Span<const Share> shares = narrow ? absl::MakeConstSpan(kNarrow) : kWide;
  const bool of_narrow_vectors = ShareRow(rows, vectors, OfNarrowVectors(shares, sized, s), s) ||
                                 (!s.shift && ShareWarp(sized, vectors, s));
  const bool two = !of_narrow_vectors && narrow && !s.shift && !busy && !wide_weights &&
                   ShareRow(rows, vectors, {&share_two, 1}, s);
  s.persistent = of_narrow_vectors || two || ShareRow(rows, vectors, shares, s);
  if (narrow && !s.shift && weights > 0 && (two ? many_weights : s.registers * s.vector > 32))
    PinColumns(sized, s);
  if (!s.persistent) {
    s.lanes_per_row = 32;
    s.warps_per_row = 16;
    // Compilers unpack narrow data of all inputs ahead.
    const bool room =
        rows.Words(2, s) <= kMostWords / 2 && (!narrow || sized.input_words + weights <= 1);
    s.registers = room ? 2 : 1;
  }
  // CTAs of at least 128 threads, several short rows in each.
  AlignToKept(rows, sized.columns, s);
  const int threads = s.lanes_per_row * s.warps_per_row;
  s.row_warps = threads >= 128 ? 1 : std::max(1, 4 / s.warps_per_row);
  // Weights are loaded early where they take few registers or rows share a warp.
  const int points = s.registers * s.vector;
  s.early = narrow && !s.shift && s.persistent && weights > 0 && !wide_weights &&
            ((weights * points <= kEarlyWords && threads <= 128) || s.lanes_per_row < 32);
  // Half of an SM's threads hide the latency of memory, more where each has little under way; more
  // registers than that leaves room for do not pay. Large CTAs want another one to go on while they
  // wait at a barrier.
  const double held = rows.Words(s.registers, s) + rows.KeptWords(s);
  const bool masks = s.columns_per_step() > sized.columns;
  const int hiding = busy                    ? 768
                     : two                   ? 1536
                     : unaligned_weights     ? 1280
                     : masks && many_weights ? 896
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
        !s.shift ? kUnpackedWords + (sized.large_inputs > 1 && !two ? kSecondInputWords : 0) +
                       (wide_weights && s.warps_per_row == 1 ? kWideWeightWords : 0)
        : unaligned_weights
            ? kUnalignedWords
            : kUnpackedWords + (weights > 0 ? kWeightedEndWords : kEndWords) * sized.large_inputs;
    const double words = (sized.input_words + (s.early ? weights : 0)) * points + beside +
                         (two && masks ? kMaskWords : 0) + rows.KeptWords(s);
    const int fit = static_cast<int>(65536 / (s.threads() * words));
    s.min_ctas_per_sm = std::clamp(fit, 1, s.min_ctas_per_sm);
  }
  // No more threads than have the registers for what they hold.
  const int fit = static_cast<int>(
      65536 /
      (s.threads() * (held + single + (held > kFreeWords ? kFreeWords : kFewestFreeWords))));
  s.min_ctas_per_sm = std::clamp(fit, 1, s.min_ctas_per_sm);
}

// Rows that are neighbours in memory a few columns at a time, as the groups of a group norm with
// the channels last: lanes along these columns, then along rows, so that a warp reads one piece of
// memory; warps down the other columns.
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

// Blocks of rows that CTAs take in turn: copies bring the next ones, if all are multiples of 16
// bytes. A thread has more of a row than where others hide its loads.
absl::StatusOr<bool> ChooseBlocksAhead(const SizedGroup& sized, Schedule& s) {
  constexpr int kWideBytes = 16, kRowWords = 64, kWarps = 4, kCtas = 3;
  const DeviceInfo& device = sized.context.device;
  if (!sized.shape.crossed() || device.max_cluster == 1 ||
      s.vector * sized.widest_bytes >= kWideBytes)
    return false;
  Schedule a = s;
  AddDivisibility(sized, 16 / sized.narrowest_bytes, a);
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, a));
  const int words = std::max(1, sized.widest_bytes / 4) * std::max(1, sized.large_inputs);
  a.row_warps = kWarps;
  a.min_ctas_per_sm = kCtas;
  const int64_t room = device.smem_bytes_per_cta / kCtas - kOtherSharedBytes;
  for (a.lanes_per_row = 1; a.lanes_per_row <= 32; a.lanes_per_row *= 2) {
    a.registers = static_cast<int>(CeilDivide(sized.columns, int64_t{a.lanes_per_row} * a.vector));
    const int64_t stage = rows.StageBytes(a);
    if (a.registers * a.vector * words > kRowWords || stage == 0 ||
        a.columns_per_step() * 4 > sized.columns * 5 ||
        CeilDivide(sized.rows, a.rows_per_cta()) < 2 * kCtas * device.sms) {
      continue;
    }
    // Room for blocks of all tensors, although what copies bring needs none beside the stages.
    const int64_t block = rows.BlockBytes(a);
    const int64_t stages = std::min<int64_t>(3, (room - block) / stage);
    if (block == 0 || stages < 2) continue;
    s = a;
    s.stages = static_cast<int>(stages);
    return true;
  }
  return false;
}

// Short rows that vectors do not divide: blocks of them through shared memory, few lanes a row,
// each with many single elements. Else threads load and store these one by one, a few bytes of a
// sector each, lanes idle where a row's length is no multiple of them, and shuffles merge few
// elements. Of rows in pieces a thread has a piece, so that no division says where its elements
// are. False where rows are not neighbours, too long for that, or too few for that many to each SM.
absl::StatusOr<bool> ChooseBlocks(const SizedGroup& sized, Schedule& s) {
  // Bytes of a vector that moves well enough; a thread's registers for its part of a row, and
  // beside it, and some more where it keeps states of columns; elements of a piece.
  constexpr int kWideBytes = 8, kRowWords = 36, kBesideWords = 36, kStatesWords = 8;
  constexpr int64_t kMostRun = 64;
  const DeviceInfo& device = sized.context.device;
  if (s.outer || s.alignment_bytes < 16 || sized.columns < 2 || sized.shape.keeps_columns() ||
      IsInterleaved(sized, s)) {
    return false;
  }
  // Longer rows have few ends beside the body of vectors that they have when shifted.
  constexpr int64_t kMostColumns = 256;
  const bool states = ColumnStates(sized) > 0;
  const int64_t pieces = sized.columns / sized.run;
  const int64_t shifted = kShiftedVectors * (16 / sized.narrowest_bytes);
  if (pieces == 1 && sized.columns >= (states || s.vector == 1 ? shifted : kMostColumns))
    return false;
  Schedule b = s;
  b.blocks = b.persistent = true;
  PinColumns(sized, b);
  if (pieces > 1) {
    // A block's pieces begin at multiples of 16 bytes if the number of rows allows.
    AddDivisibility(sized, 16 / sized.narrowest_bytes, b);
  }
  if (pieces == 1 && !states) {
    SEAM_ASSIGN_OR_RETURN(const bool ahead, ChooseBlocksAhead(sized, b));
    if (ahead) {
      s = b;
      return true;
    }
  }
  if (s.vector * sized.widest_bytes >= kWideBytes) return false;
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, b));
  // Of an element: itself, states of its column, and weights, half of which are on their way.
  const int row_words = std::max(1, sized.widest_bytes / 4) * std::max(1, sized.large_inputs);
  const double column_words = ColumnStates(sized) + rows.AlikeWords() / 2;
  const auto words = [&] {
    return b.registers * b.vector * ((b.reread ? 0 : row_words) + column_words);
  };
  const auto fits = [&] {
    const int64_t bytes = rows.BlockBytes(b);
    const int64_t room = device.smem_bytes_per_cta / (bytes + kOtherSharedBytes / 4);
    if (bytes == 0 || bytes + kOtherSharedBytes > device.smem_bytes_per_cta) return false;
    const auto ctas = static_cast<int64_t>(65536 / (b.threads() * (words() + kBesideWords)));
    b.min_ctas_per_sm = static_cast<int>(
        std::clamp<int64_t>(std::min(ctas, room), 1, device.max_threads_per_sm / b.threads()));
    s = b;
    return true;
  };
  if (pieces > 1) {
    constexpr int kPieceThreads = 1024;
    const Schedule before = s;
    if (sized.run % s.vector != 0 || sized.run > kMostRun || states) return false;
    b.runs = true;
    b.registers = static_cast<int>(sized.run / s.vector);
    b.reread = words() > kRowWords;
    for (b.lanes_per_row = 16; b.lanes_per_row >= 1; b.lanes_per_row /= 2) {
      b.warps_per_row = static_cast<int>(CeilDivide(pieces, b.lanes_per_row));
      if (b.warps_per_row > 32 || CeilDivide(sized.rows, b.rows_per_cta()) < device.sms) break;
      if (!fits()) continue;
      // Fewer threads hide less than those that load single elements.
      if (s.threads() * s.min_ctas_per_sm >= kPieceThreads) return true;
      s = before;
      return false;
    }
    return false;
  }
  for (b.lanes_per_row = 1; b.lanes_per_row <= 32; b.lanes_per_row *= 2) {
    b.registers = static_cast<int>(CeilDivide(sized.columns, int64_t{b.lanes_per_row} * b.vector));
    if (words() > kRowWords + (states ? kStatesWords : 0) ||
        CeilDivide(sized.rows, 4 * (32 / b.lanes_per_row)) < device.sms ||
        b.columns_per_step() * 4 > sized.columns * 5) {
      continue;
    }
    // CTAs of 128 threads, or of more where these have so few rows that blocks begin anywhere.
    for (b.row_warps = 4; b.row_warps <= 16; b.row_warps *= 2) {
      if (fits()) return true;
    }
  }
  return false;
}

// Registers for what a thread keeps of a row beside the states of its columns.
constexpr int kOtherRegisters = 40, kMostRowRegisters = 120;
// The same where copies bring rows to CTAs of their own.
constexpr int kAheadRegisters = 48;
// Threads of a CTA of shifted rows that is a large one: it has to keep pace, and rows in registers.
constexpr int kLargeShifted = 512, kLargeShiftedRegisters = 34;

// Whether rows that are summed up go by ticket if the caller lets them: longer ones, of one state a
// column and of several, and wider ones do as well in a fixed order. Source: schedules timed side
// by side on an H200, docs/schedulers.md.
bool TakesTickets(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kOneStateColumns = 12288, kStatesColumns = 4096;
  return sized.context.any_order && !s.shift && sized.widest_bytes < 4 &&
         sized.columns <= (ColumnStates(sized) == 1 ? kOneStateColumns : kStatesColumns);
}

// Whether CTAs that keep states of their columns, of 16-bit data and one CTA an SM, have few turns
// each: what then counts is how soon the last one is done, and how many states they leave. Source:
// as above.
bool HasFewTurns(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kFewest = 4, kMost = 64;
  const int sms = sized.context.device.sms;
  return ColumnStates(sized) > 0 && sized.widest_bytes < 4 && s.cluster == 1 &&
         s.min_ctas_per_sm == 1 && sized.rows >= kFewest * sms * s.rows_per_cta() &&
         sized.rows <= kMost * sms * s.rows_per_cta();
}

// Turns after which CTAs that take rows in a fixed order, with `stage_bytes` of each, look whether
// they are ahead: that must not cost more than a turn has to hide. CTAs that keep one state of each
// narrow column stay together by themselves unless rows are short or go to larger clusters. Source:
// as above.
int PaceOf(const SizedGroup& sized, int64_t stage_bytes, const Schedule& s) {
  constexpr int64_t kTurnBytes = 16000, kShortColumns = 512;
  constexpr int kMostThreads = 512;
  const bool narrow = sized.widest_bytes < 4;
  if (s.tickets || s.stages < 3 || HasFewTurns(sized, s)) return 0;
  if (s.shift && narrow) return s.threads() > kLargeShifted && ColumnStates(sized) > 1 ? 2 : 0;
  if (narrow && ColumnStates(sized) == 1 && sized.columns > kShortColumns && s.cluster <= 2)
    return 0;
  if (s.cluster > 1) return s.min_ctas_per_sm > 1 ? 2 : 1;
  const bool long_turn = s.rows_per_cta() == 1 && stage_bytes >= kTurnBytes;
  return long_turn && s.threads() <= kMostThreads ? 1 : 2;
}

// Brings the next rows ahead where the device can and a CTA takes several in turn: as many as have
// room, up to three. Rows for which there are too few registers are read from there by each pass.
void ChooseStages(const SizedGroup& sized, const KeptRows& rows, int states, Schedule& s) {
  const DeviceInfo& device = sized.context.device;
  const int64_t stage = rows.StageBytes(s);
  if (device.max_cluster == 1 || stage == 0 || sized.rows <= s.grid * s.rows_per_cta()) return;
  const int64_t room = device.smem_bytes_per_cta / std::max(1, s.min_ctas_per_sm) -
                       kOtherSharedBytes - rows.KeptBytes(s);
  const int stages = static_cast<int>(std::min<int64_t>(3, room / stage));
  if (stages < 2) return;
  s.stages = stages;
  s.tickets = TakesTickets(sized, s);
  s.pace = PaceOf(sized, stage, s);
  const int registers = std::min(255, 65536 / (s.threads() * std::max(1, s.min_ctas_per_sm)));
  const double ends = s.shift ? 1.5 * kEndWords : 0;
  const int beside =
      s.shift && s.threads() > kLargeShifted ? kLargeShiftedRegisters : kAheadRegisters;
  s.reread = s.registers * s.vector * (states + 0.5 + sized.input_words) + ends >
             std::min(registers - beside, kMostRowRegisters);
  constexpr int64_t kLongStage = 32768;
  if (!s.reread && stage >= kLongStage && HasFewTurns(sized, s)) s.stages = 2;
}

// The row of few turns: threads with one vector each, or two, in CTAs of 512 or more. False if
// there are more turns, or if rows of one state a column are short.
bool ShareFewTurns(const SizedGroup& sized, const KeptRows& rows, int states, Schedule& s) {
  constexpr int kThreads = 512, kLeastThreads = 32;
  constexpr Share kShares[] = {{1, kLeastThreads, kThreads}, {2, kLeastThreads, 768}};
  const int64_t vectors = VectorsOf(sized, s);
  if (sized.widest_bytes >= 4 || s.shift || (states == 1 && vectors < kThreads)) return false;
  Schedule few = s;
  if (!ShareRow(rows, vectors, kShares, few)) return false;
  few.persistent = true;
  few.row_warps = std::max(1, kThreads / 32 / few.warps_per_row);
  few.min_ctas_per_sm = 1;
  if (!HasFewTurns(sized, few)) return false;
  if (states == 1) PinColumns(sized, few);
  s = few;
  return true;
}

// Whether a CTA can hold a row, if with hardly a register for anything else.
bool HoldsRow(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const bool narrow = sized.widest_bytes < 4;
  return ShareRow(rows, VectorsOf(sized, s), narrow ? absl::MakeConstSpan(kNarrow) : kWide, s);
}

// Whether it fits well, in half an SM's registers if the CTA has 512 threads at most.
bool FitsCta(const SizedGroup& sized, const KeptRows& rows, Schedule s) {
  if (!HoldsRow(sized, rows, s)) return false;
  const int threads = static_cast<int>(CeilDivide(s.threads(), 128)) * 128;
  return rows.Words(s.registers, s) + kAheadRegisters <= 65536 / (threads <= 512 ? 1024 : threads);
}

// The row of CTAs that have no other one: the first share that leaves compilers room to unpack
// ahead, or the first that fits at all. False if there is none: the row is then read again, and the
// states of its columns are written as they come.
bool ShareOnlyRow(const SizedGroup& sized, const KeptRows& rows, int states,
                  absl::Span<const Share> shares, Schedule& s) {
  for (const int beside : {kOtherRegisters + kUnpackedWords, kOtherRegisters}) {
    for (const Share& share : shares) {
      Schedule c = s;
      if (!ShareRow(rows, VectorsOf(sized, s), {&share, 1}, c)) continue;
      // An SM's four schedulers have equal parts of its registers.
      const int warps = static_cast<int>(CeilDivide(c.lanes_per_row * c.warps_per_row, 128)) * 4;
      const double words = c.registers * c.vector * (sized.input_words + states);
      if (words + beside > std::min(255, 65536 / (32 * warps))) continue;
      s = c;
      return true;
    }
  }
  return false;
}

// A thread keeps the states of its columns through all turns. Where copies bring the next row, few
// threads with many columns each: 16 or 32 of them, of wider data 8 as long as that takes no more
// than a CTA of 512. Source: schedules timed side by side on an H200, docs/schedulers.md.
void ShareCrossedRow(const SizedGroup& sized, const KeptRows& rows, int states, Schedule& s) {
  const int64_t vectors = VectorsOf(sized, s);
  Schedule one = s;
  if (s.shift) one.lanes_per_row = 32;  // A CTA's rows would not start alike.
  const DeviceInfo& device = sized.context.device;
  const bool several_turns = sized.rows > device.sms;
  const bool ahead =
      device.max_cluster > 1 && several_turns && rows.StageBytes(one) > 0 && states <= 2;
  const int some = std::max(1, (states <= 2 ? 16 : 8) / s.vector);
  const int few = std::max(1, some / 2);
  const bool few_states = states == 1 && !s.shift;
  const bool by_ticket = ahead && TakesTickets(sized, s);
  if (ahead && !by_ticket && ShareFewTurns(sized, rows, states, s)) return;
  if (ahead && sized.widest_bytes >= 4) {
    const Share shares[] = {{few, 32, 512}, {2 * some, 128, 256}, {some, 1, 1024}};
    s.persistent = ShareRow(rows, vectors, shares, s);
  } else if (by_ticket) {
    const Share shares[] = {{2 * some, 1, 512}, {some, 32, 768}, {2 * some, 128, 1024}};
    s.persistent = ShareRow(rows, vectors, shares, s);
  } else if (ahead && s.shift && states > 1) {
    const Share shares[] = {{some, 32, 640}, {2 * some, 256, 512}, {few, 1, 1024}};
    s.persistent = ShareRow(rows, vectors, shares, s);
  } else if (ahead) {
    // 32 where each of an SM's four schedulers gets as many warps, and of short rows.
    const Share shares[] = {{2 * some, 1, few_states ? 8 : 128},
                            {2 * some, 256, 256},
                            {some, 32, 768},
                            {few, 1, 768},
                            {2 * some, 128, 1024}};
    // Of one state a column, fewer where that takes an odd number of many warps.
    const int64_t warps = CeilDivide(vectors, 32 * some);
    const int first = few_states && warps > 8 && warps <= 12 && warps % 2 == 1 ? 3 : 0;
    s.persistent = ShareRow(rows, vectors, absl::MakeConstSpan(shares).subspan(first), s);
  } else {
    const Share shares[] = {{some, 1, 512}, {some, 1, 1024}, {2 * some, 1, 1024}};
    s.persistent = several_turns ? ShareRow(rows, vectors, shares, s)
                                 : ShareOnlyRow(sized, rows, states, shares, s);
  }
  const int threads = s.lanes_per_row * s.warps_per_row;
  s.row_warps = threads >= 128 || (ahead && s.shift) ? 1 : std::max(1, 4 / s.warps_per_row);
  const int held = s.registers * s.vector;
  const int registers = held * sized.widest_bytes * sized.large_inputs / 4 + held * states + 40;
  s.min_ctas_per_sm = std::clamp(65536 / (registers * s.threads()), 1, 1024 / s.threads() + 1);
  if (!ahead) return;
  if (!s.shift && !by_ticket && s.registers == some && threads >= 256 &&
      (few_states || threads <= 384)) {
    PinColumns(sized, s);
  }
  // Threads of an SM: fewer the more columns each has.
  const bool few_threads = few_states || (s.shift && states > 1);
  const bool wide = sized.widest_bytes >= 4;
  const int threads_per_sm = s.registers >= 2 * some             ? 256
                             : s.registers == few                ? (wide ? 512 : 768)
                             : few_threads && s.threads() == 256 ? 512
                             : s.threads() > 256                 ? (few_states ? 480 : 768)
                                                                 : 480;
  s.min_ctas_per_sm = std::max(1, threads_per_sm / s.threads());
  // Of rows that go by ticket, and of small CTAs with many columns a thread, no SM has less.
  if (s.registers >= 2 * some && (by_ticket || s.threads() < 128))
    s.min_ctas_per_sm = static_cast<int>(CeilDivide(threads_per_sm, s.threads()));
}

// How CTAs that take rows in turn cut one that is long, in order of preference: columns a CTA at
// most, CTAs at most, of which a row takes one or a cluster, threads a CTA, CTAs an SM, stages at
// most or 0 if threads load rows, whether columns are read again from shared memory instead of
// staying in registers. Of several CTAs an SM one goes on while another waits for its cluster.
// Source: schedules timed side by side on an H200, docs/schedulers.md.
struct Piece {
  int64_t columns;
  int most_ctas, threads, ctas_per_sm, stages;
  bool reread = false;
};
// 16-bit data and narrower, without weights, beside some and beside many, then wider.
constexpr Piece kNarrowPieces[] = {{16384, 1, 512, 1, 3},        {8192, 8, 128, 2, 3},
                                   {8192, 16, 128, 3, 3},        {16384, 16, 256, 3, 2, true},
                                   {32768, 16, 512, 1, 2, true}, {16384, 16, 512, 1, 3}};
constexpr Piece kFewWeightsPieces[] = {{16384, 1, 512, 1, 3},        {8192, 8, 128, 2, 3},
                                       {8192, 16, 128, 3, 3},        {16384, 16, 256, 1, 3},
                                       {32768, 16, 512, 1, 2, true}, {16384, 16, 512, 1, 3}};
constexpr Piece kWeightedPieces[] = {{16384, 1, 1024, 1, 3},
                                     {8192, 8, 256, 2, 2},
                                     {32768, 16, 512, 1, 2, true},
                                     {16384, 16, 512, 1, 3}};
constexpr Piece kWidePieces[] = {
    {8192, 2, 1024, 1, 3}, {4096, 8, 256, 2, 3},   {4096, 16, 256, 3, 3},  {8192, 16, 256, 3, 2},
    {8192, 16, 256, 2, 2}, {16384, 16, 256, 2, 0}, {16384, 16, 256, 1, 2}, {8192, 16, 512, 1, 3}};
constexpr Piece kWideWeightedPieces[] = {{8192, 2, 1024, 1, 3},
                                         {4096, 8, 256, 2, 3},
                                         {16384, 8, 512, 1, 2, true},
                                         {16384, 16, 256, 1, 2, true},
                                         {8192, 16, 512, 1, 3}};
// Where a CTA keeps states of its columns, of 16-bit data: one state a column, and several.
constexpr Piece kOneStatePieces[] = {{6144, 2, 384, 1, 3},  {4096, 4, 256, 2, 3},
                                     {8192, 8, 512, 1, 3},  {16384, 16, 512, 1, 3, true},
                                     {8192, 16, 512, 1, 3}, {4096, 16, 512, 1, 3}};
constexpr Piece kStatesPieces[] = {{4096, 4, 256, 2, 3},
                                   {4096, 8, 128, 2, 3},
                                   {16384, 16, 256, 1, 3, true},
                                   {8192, 16, 512, 1, 3},
                                   {4096, 16, 512, 1, 3}};
// The same of wider data.
constexpr Piece kWideStatesPieces[] = {
    {4096, 2, 256, 1, 3}, {8192, 16, 512, 1, 3}, {4096, 16, 512, 1, 3}};

// Columns that one CTA handles as well, where it keeps states of them and elsewhere.
constexpr int64_t kCtaColumns = 12288, kStatesCtaColumns = 12288, kOneStateCtaColumns = 8192,
                  kWideStatesCtaColumns = 6144;

absl::Span<const Piece> PiecesFor(const SizedGroup& sized, double weights, int states) {
  const bool narrow = sized.widest_bytes < 4;
  if (states == 0) {
    const bool many_weights = weights >= (narrow ? 1 : 2) * kManyWeights;
    if (narrow) {
      return many_weights  ? absl::MakeSpan(kWeightedPieces)
             : weights > 0 ? absl::MakeSpan(kFewWeightsPieces)
                           : kNarrowPieces;
    }
    return many_weights ? absl::MakeSpan(kWideWeightedPieces) : kWidePieces;
  }
  if (!narrow) return kWideStatesPieces;
  return states == 1 ? absl::MakeSpan(kOneStatePieces) : kStatesPieces;
}

// Gives the row to a cluster whose CTAs have at most so many threads.
void ShareInCluster(const SizedGroup& sized, int cluster, int most_threads, int ctas_per_sm,
                    Schedule& s) {
  const int64_t vectors = CeilDivide(sized.columns, cluster * s.vector);
  s.cluster = cluster;
  s.registers = static_cast<int>(CeilDivide(vectors, most_threads));
  s.lanes_per_row = 32;
  s.warps_per_row = static_cast<int>(CeilDivide(vectors, s.registers * 32));
  s.row_warps = 1;
  s.min_ctas_per_sm = ctas_per_sm;
  s.persistent = true;
}

// Rows in pieces that lie apart, a channel of all images for example, which copies do not bring:
// few threads with many vectors each, if these hold the row, as many CTAs an SM as have the
// registers.
bool ChooseLoadingCta(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kThreads = 256, kLeastCtas = 2, kMostCtas = 4, kBesideWords = 38;
  Schedule alone = s;
  ShareInCluster(sized, 1, kThreads, kLeastCtas, alone);
  const double words = rows.Words(alone.registers, alone);
  if (sized.shape.crossed() || sized.rows < sized.context.device.sms ||
      words > 65536 / (kLeastCtas * kThreads) - kAheadRegisters) {
    return false;
  }
  alone.min_ctas_per_sm = std::clamp(static_cast<int>(65536 / (kThreads * (words + kBesideWords))),
                                     kLeastCtas, kMostCtas);
  s = alone;
  return true;
}

// The same of rows that a cluster holds: of two CTAs an SM one goes on while the other waits.
// Longer rows have one if there are registers for nothing else: that costs less than to read them
// again. Few rows that no CTA holds go to more CTAs than a cluster's.
bool ChooseLoadingCluster(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kThreads = 512;
  const DeviceInfo& device = sized.context.device;
  const bool bare = sized.widest_bytes >= 4 && rows.AlikeWords() == 0;
  for (int ctas = 2; ctas >= (bare ? 1 : 2); --ctas) {
    for (int cluster = 2; cluster <= device.max_cluster; cluster *= 2) {
      Schedule c = s;
      if (sized.columns > int64_t{cluster} * kThreads * kMostWords ||
          (sized.rows * cluster * 2 < device.sms && !HoldsRow(sized, rows, c))) {
        continue;
      }
      ShareInCluster(sized, cluster, kThreads, ctas, c);
      AlignToKept(rows, sized.columns, c);
      const int single = c.vector * sized.widest_bytes < 16 ? kSingleWords : 0;
      if (rows.Words(c.registers, c) + single > 65536 / (ctas * c.threads()) - kOtherRegisters ||
          rows.KeptBytes(c) > device.smem_bytes_per_cta / ctas - kOtherSharedBytes) {
        continue;
      }
      c.grid = static_cast<int>(std::min<int64_t>(
          {sized.rows * cluster, int64_t{ctas} * CtasInClusters(device, cluster), 65535}));
      if (ctas > 1 && c.columns_at_once() == sized.columns) PinColumns(sized, c);
      s = c;
      return true;
    }
  }
  return false;
}

// Rows of 16-byte vectors to CTAs or clusters that take them in turn and bring the next ones ahead,
// `states` of each column in registers. False if a CTA for each row does as well, if there are so
// few rows that more CTAs than a cluster's should share them, or if no cluster can hold a row and
// bring another one. Rows that copies do not bring go to CTAs or clusters that load them.
bool ChooseCluster(const SizedGroup& sized, const KeptRows& rows, int states, Schedule& s) {
  const DeviceInfo& device = sized.context.device;
  const double weights = rows.AlikeWords();
  const int64_t enough = states == 0                              ? kCtaColumns
                         : sized.widest_bytes >= 4                ? kWideStatesCtaColumns
                         : states == 1 && !TakesTickets(sized, s) ? kOneStateCtaColumns
                                                                  : kStatesCtaColumns;
  if (device.max_cluster == 1 || s.outer || s.shift || s.vector == 1 || sized.columns <= enough)
    return false;
  // Few rows: what goes ahead of the first one and lags behind the last costs more than it gains.
  constexpr int kFewTurns = 20;
  const bool fits = states == 0 && FitsCta(sized, rows, s);
  for (const Piece& piece : PiecesFor(sized, weights, states)) {
    Schedule c = s;
    const int cluster = PowerOfTwoAtLeast(CeilDivide(sized.columns, piece.columns), 32);
    // Nothing but a cluster shares the states of columns.
    const bool few_rows = states == 0 ? sized.rows * cluster * 2 < device.sms
                                      : cluster == 1 && sized.rows <= device.sms;
    if (cluster > std::min(piece.most_ctas, device.max_cluster) || few_rows) continue;
    ShareInCluster(sized, cluster, piece.threads, piece.ctas_per_sm, c);
    c.reread = piece.reread;
    // Which CTAs have which rows matters to nothing but what they sum over rows.
    c.tickets = piece.stages > 0 && !sized.shape.crosses_all_rows();
    const int registers = std::min(255, 65536 / (c.threads() * piece.ctas_per_sm));
    const double words = states + weights + (c.reread ? 0 : sized.input_words);
    if (c.registers * c.vector * words > registers - kOtherRegisters) continue;
    const int64_t stage = rows.StageBytes(c);
    if (stage == 0) continue;
    const int64_t room =
        device.smem_bytes_per_cta / piece.ctas_per_sm - kOtherSharedBytes - rows.KeptBytes(c);
    if (room < 0) continue;
    c.stages = static_cast<int>(std::min<int64_t>(piece.stages, room / stage));
    if (c.stages < 2 && piece.stages > 0) continue;
    c.pace = PaceOf(sized, stage, c);
    const int64_t resident = int64_t{piece.ctas_per_sm} * CtasInClusters(device, c.cluster);
    if (fits && sized.rows * c.cluster < kFewTurns * resident) return false;
    c.grid = static_cast<int>(std::min<int64_t>(sized.rows * c.cluster, resident));
    PinColumns(sized, c);
    s = c;
    return true;
  }
  if (states > 0) return false;
  // Pieces that give a warp's lanes a vector each.
  const bool pieces =
      sized.run < sized.columns && sized.run >= 32 * s.vector && sized.widest_bytes < 4;
  if ((!fits || pieces) && ChooseLoadingCta(sized, rows, s)) return true;
  return !fits && ChooseLoadingCluster(sized, rows, s);
}

// Rows that some reductions cross: CTAs take rows in turn, as many of them as the machine holds at
// once, and a thread keeps the states of its columns, so few of them.
void ChooseCrossed(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  // Lanes to what is contiguous all the same, vectors only to columns.
  const bool rows_are_neighbours = s.outer;
  s.outer = false;
  if (rows_are_neighbours) s.vector = 1;
  const int states = ColumnStates(sized);
  if (!rows_are_neighbours && !s.blocks && states <= 2 && ChooseCluster(sized, rows, states, s))
    return;
  if (s.blocks) {
    // Chosen.
  } else if (rows_are_neighbours) {
    const int row_lanes = PowerOfTwoAtLeast(sized.rows, 32);
    s.lanes_per_row = 32 / row_lanes;
    s.registers = 16;
    s.warps_per_row = static_cast<int>(
        std::clamp<int64_t>(CeilDivide(sized.columns, s.lanes_per_row * s.registers), 1, 32));
    s.row_warps = std::max(1, 4 / s.warps_per_row);
    s.persistent = s.columns_per_step() >= sized.columns;
  } else if (states == 0) {
    ChooseInner(sized, rows, s);
  } else {
    ShareCrossedRow(sized, rows, states, s);
  }
  FitKept(sized, rows, s);
  int64_t most = ResidentCtas(s, sized.context.device);
  if (states > 0 && !s.persistent) {
    // States in memory: a warp takes them up and puts them back. No more of them than stay in the
    // L2 cache, if that leaves work for every SM.
    s.lanes_per_row = 32;
    s.warps_per_row = 16;
    s.row_warps = s.min_ctas_per_sm = 1;
    s.registers = std::max(1, 8 / s.vector);
    FitKept(sized, rows, s);
    const int64_t place_bytes = std::max<int64_t>(sized.columns, 1) * states * 4;
    most = std::clamp(sized.context.device.l2_bytes / place_bytes, int64_t{1}, most);
  }
  const int64_t sets = CeilDivide(std::max<int64_t>(sized.rows, 1), s.rows_per_cta());
  int64_t grid = std::min<int64_t>({sets, most, 65535});
  if (s.shift) {
    // All rows that a CTA takes start equally far from an aligned address; CTAs without rows leave
    // neutral states, which is for nothing where these lie in memory.
    const int64_t step = s.vector / std::gcd<int64_t>(s.vector, s.rows_per_cta());
    const int64_t more = CeilDivide(grid, step) * step;
    if (s.persistent && more <= most) {
      grid = more;
    } else if (grid >= step) {
      grid = grid / step * step;
    }
  }
  s.grid = static_cast<int>(grid);
  if (s.persistent && !rows_are_neighbours && !s.blocks) ChooseStages(sized, rows, states, s);
}

int64_t CtasOf(const SizedGroup& sized, const Schedule& s) {
  return s.grid > 0 ? s.grid : CeilDivide(sized.rows, s.rows_per_cta()) * s.split * s.cluster;
}

// How what is left in parts is finished. More than one lane for a result where CTAs would have
// nothing to do; neighbouring lanes still read 32 bytes at least.
void ChooseFinish(const SizedGroup& sized, Schedule& s) {
  const int64_t ctas = CtasOf(sized, s);
  // Of few turns, finishing takes a part of the time that is worth more threads, by the states that
  // there are.
  const bool few_turns = s.stages > 0 && HasFewTurns(sized, s);
  const int64_t threads = (few_turns ? 64 * ColumnStates(sized) : 32) * ctas;
  while (sized.shape.crossed() && s.finish_lanes < 4 &&
         sized.finished * s.finish_lanes * 2 <= threads) {
    s.finish_lanes *= 2;
  }
  s.one_launch = s.cluster == 1 && ctas <= ResidentCtas(s, sized.context.device);
}

// What takes one pass, or one exchange, instead of two.
void ChoosePasses(const KeptRows& rows, Schedule& s) {
  s.chan_welford = !s.persistent;
  // An exchange of a cluster's CTAs costs less than the exponentials that it would save.
  s.online = !s.persistent && rows.GainsOnline(s);
}

// How a thread reaches its elements: the widest vector, at most `limit`, and what of the sizes the
// kernel knows.
absl::StatusOr<KeptRows> ChooseAccess(const SizedGroup& sized, int limit, Schedule& s) {
  SEAM_RETURN_IF_ERROR(ChooseVector(sized, limit, s));
  // Which of the kept columns a state belongs to is then known without a division.
  if (sized.shape.keeps_columns()) PinColumns(sized, s);
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, s));
  if (s.neighbours > 1) Pin(sized, FreeSymbols(sized.shape.Extent(sized.shape.merged)), s);
  // A vector's weights are then seen to be one, or neighbours.
  Pin(sized, rows.ColumnDivisors(true), s);
  return KeptRows::Of(sized, s);
}

absl::StatusOr<Schedule> ChooseRows(const SizedGroup& sized, Schedule s) {
  s.outer = sized.shape.outer;
  int limit = std::clamp(16 / sized.narrowest_bytes, 1, 8);
  while (limit > 1 && sized.input_words * limit > kMostWords / 2) limit /= 2;
  SEAM_ASSIGN_OR_RETURN(KeptRows rows, ChooseAccess(sized, limit, s));
  SEAM_ASSIGN_OR_RETURN(const bool in_blocks, ChooseBlocks(sized, s));
  if (!in_blocks && s.vector == 1 && !s.outer && !sized.shape.keeps_columns() &&
      sized.columns >= kShiftedVectors * limit) {
    s.shift = true;
    SEAM_ASSIGN_OR_RETURN(rows, ChooseAccess(sized, limit, s));
  }
  if (sized.shape.crosses_all_rows()) {
    ChooseCrossed(sized, rows, s);
    ChooseFinish(sized, s);
    ChoosePasses(rows, s);
    return s;
  }
  const auto choose_inner = [&](Schedule& inner) {
    const bool may_cluster = !sized.shape.crossed() || sized.shape.keeps_columns();
    if (!may_cluster || !ChooseCluster(sized, rows, 0, inner)) ChooseInner(sized, rows, inner);
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
      choose_inner(inner);
      // The sectors at a piece's ends are read twice, which a cluster does not make up for.
      const bool pays = inner.cluster == 1 || sized.shape.crossed() || filled >= 2 * kSectorBytes;
      if (inner.persistent && pays) {
        s = inner;
        interleaved = false;
      }
    }
  } else {
    choose_inner(s);
  }
  if (s.cluster == 1) FitKept(sized, rows, s);
  // Too few rows for the machine: CTAs share them.
  const int64_t ctas = CeilDivide(std::max<int64_t>(sized.rows, 1), s.rows_per_cta());
  const int64_t steps = CeilDivide(sized.columns, s.columns_per_step());
  const DeviceInfo& device = sized.context.device;
  const int64_t enough = interleaved ? ResidentCtas(s, device) : 2 * device.sms;
  if (!s.persistent && !sized.shape.crossed() &&
      ctas * (interleaved || s.outer ? 2 : 4) <= enough && steps >= 4) {
    s.split = static_cast<int>(std::min(enough / ctas, CeilDivide(steps, 2)));
    if (s.shift) {
      // Rows that do not start aligned are then read element by element.
      s.shift = false;
      SEAM_RETURN_IF_ERROR(ChooseAccess(sized, s.vector, s).status());
    }
  }
  if (sized.shape.crossed() && !s.outer && !s.shift && s.grid == 0)
    s.grid = static_cast<int>(std::min({ctas, ResidentCtas(s, device), int64_t{65535}}));
  if (sized.shape.crossed() || s.split > 1) ChooseFinish(sized, s);
  ChoosePasses(rows, s);
  if (!s.persistent) {
    // Rows that are read step by step are found by a few instructions each time, not by a division.
    Pin(sized, rows.ColumnDivisors(false), s);
  }
  // Beside weights of the columns there are no registers to hold steps from.
  if (s.split > 1 && s.one_launch && (s.outer || rows.AlikeWords() == 0)) {
    SEAM_ASSIGN_OR_RETURN(const HeldSteps held, HeldSteps::Of(sized, s));
    s.held = held.Most(s);
    // A little does not make up for what it costs. Source: docs/schedulers.md.
    constexpr double kLeastShare = 0.1;
    if (held.Share(s, s.held) < kLeastShare * sized.large_inputs) s.held = 0;
  }
  return s;
}

}  // namespace

absl::StatusOr<Schedule> Choose(const Fusion& group, const ScheduleContext& context) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  const auto choose = [](const SizedGroup& sized, const Schedule& s) -> absl::StatusOr<Schedule> {
    SEAM_ASSIGN_OR_RETURN(Schedule chosen, ChooseRows(sized, s));
    // Of so few CTAs no SM has two: registers kept free for another one would stay unused.
    if (CtasOf(sized, chosen) <= sized.context.device.sms) chosen.min_ctas_per_sm = 1;
    return chosen;
  };
  SEAM_ASSIGN_OR_RETURN(const SizedGroup sized, SizeGroup(group, context));
  if (AreNeighboursShort(sized)) {
    Schedule as_rows = s;
    as_rows.neighbours = static_cast<int>(sized.run);
    const absl::StatusOr<SizedGroup> resized = SizeGroup(group, context, as_rows);
    if (resized.ok()) {
      SEAM_ASSIGN_OR_RETURN(as_rows, choose(*resized, as_rows));
      if (CheckSchedule(as_rows).ok()) return as_rows;
    }
  }
  return choose(sized, s);
}

}  // namespace seam::reduction
