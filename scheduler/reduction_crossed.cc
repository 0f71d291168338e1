// Rows that some reductions cross, to CTAs that take several in turn: how many columns a thread
// keeps the states of, and which rows copies bring ahead.
#include <algorithm>

#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/reduction_turns.h"

namespace seam::reduction {
namespace {

// Registers of a row and the states of its columns, at most.
constexpr int kMostRowRegisters = 120;
// Threads from which on a CTA of shifted rows is a large one, and what a thread of these has beside
// a row and its states: it is worth the last register that rows need not be read again.
constexpr int kLargeShifted = 512, kLargeShiftedRegisters = 34;
// The same of threads with three vectors.
constexpr int kThreeVectorsRegisters = 64;

// Whether the rows are crossed by two sums, a layer norm's, which is what odd rows were timed with:
// other states take more registers.
bool AreTwoSums(const SizedGroup& sized) {
  int sums = 0;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    if (sized.shape.crosses[i] != Crossing::kRows) continue;
    if (sized.group->op(ExprId(i)) != OpKind::Sum) return false;
    ++sums;
  }
  return sums == 2;
}

// CTAs that take rows in turn, none of them without a row, `most` at most.
void FitGrid(const SizedGroup& sized, int64_t most, Schedule& s) {
  const int64_t sets = CeilDivide(std::max<int64_t>(sized.rows, 1), s.rows_per_cta());
  s.grid = static_cast<int>(std::min<int64_t>({sets, most, 65535}));
}

// Rows of which copies bring a part: threads wait for the rest of a row in each turn, so that few
// of them with many elements each are too few. Where the rest is a large tensor in another order,
// threads load all of a row that a warp has: false, nothing is brought. Source:
// docs/schedulers/turns.md, "What copies do not bring".
bool ShareForStages(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kThreads = 128, kCtas = 4, kManyElements = 24;
  if (s.shift || !sized.shape.batch.empty()) return true;
  const auto [of_tables, of_tensors] = rows.NotBrought(s);
  const bool many = s.registers * s.vector >= kManyElements;
  const int threads = s.lanes_per_row * s.warps_per_row;
  Schedule shared = s;
  if (of_tables > 0 && many) GiveThreads(2 * threads, (s.registers + 1) / 2, shared);
  shared.row_warps = std::max(1, kThreads / 32 / shared.warps_per_row);
  shared.min_ctas_per_sm = std::max(1, kCtas * kThreads / shared.threads());
  FitGrid(sized, ResidentCtas(shared, sized.context.device), shared);
  if (of_tensors > 0) {
    const bool few_wide = sized.widest_bytes >= 4 && of_tables > 0 && !many;
    if (s.warps_per_row > 1 || sized.large_inputs > 2 || few_wide) return true;
    s = shared;
    return false;
  }
  constexpr int kLeastThreads = 16, kMostThreads = 64;
  if (of_tables > 0 && many && threads >= kLeastThreads && threads <= kMostThreads &&
      rows.StageBytes(shared) > 0) {
    s = shared;
  }
  return true;
}

}  // namespace

// Brings the next rows ahead where the device can and a CTA takes several in turn: as many as have
// room, up to three. Rows for which there are too few registers are read from there by each pass.
absl::Status ChooseStages(const SizedGroup& sized, int states, Schedule& s) {
  const DeviceInfo& device = sized.context.device;
  if (device.max_cluster == 1 || sized.rows <= s.grid * s.rows_per_cta()) return absl::OkStatus();
  Schedule lines = s;
  AddLines(sized, lines);
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, lines));
  if (rows.StageBytes(s) == 0 || !ShareForStages(sized, rows, s)) return absl::OkStatus();
  const int64_t stage = rows.StageBytes(s);
  const int64_t room = device.smem_bytes_per_cta / std::max(1, s.min_ctas_per_sm) -
                       kOtherSharedBytes - rows.StateBytes(s);
  const int stages = static_cast<int>(std::min<int64_t>(3, room / stage));
  if (stages < 2) return absl::OkStatus();
  s.facts = lines.facts;
  s.stages = stages;
  s.tickets = TakesTickets(sized, s);
  StayTogether(sized, stage, s);
  const int registers = std::min(255, 65536 / (s.threads() * std::max(1, s.min_ctas_per_sm)));
  const double ends = s.shift ? 1.5 * kEndWords : 0;
  const bool is_large = s.threads() > kLargeShifted || s.registers == 3;
  const int beside = s.shift && is_large            ? kLargeShiftedRegisters
                     : s.registers == 3 && !s.shift ? kThreeVectorsRegisters
                                                    : kAheadRegisters;
  s.reread = s.registers * s.vector * (states + 0.5 + sized.input_words) + ends >
             std::min(registers - beside, kMostRowRegisters);
  constexpr int64_t kEnoughAhead = 32768;  // Of an SM.
  if (!s.reread && stage * s.min_ctas_per_sm >= kEnoughAhead && HasFewTurns(sized, s)) s.stages = 2;
  return absl::OkStatus();
}

namespace {

// The row of few turns: threads with two vectors each, or one where that idles fewer, 512 of an SM
// with so many rows that they have one or several at once, short ones as two CTAs. The kernel knows
// the rows' length where that was measured to be faster. False if there are more turns.
bool ShareFewTurns(const SizedGroup& sized, const KeptRows& rows, int states, Schedule& s) {
  constexpr int kThreads = 512, kShortRow = 64;
  constexpr Share kShares[] = {{2, 1, kThreads}, {1, 32, kThreads}, {2, kThreads, 768}};
  const int64_t vectors = VectorsOf(sized, s);
  if (sized.widest_bytes >= 4 || s.shift) return false;
  Schedule few = s;
  if (!ShareRow(rows, vectors, kShares, few)) return false;
  const int threads = few.lanes_per_row * few.warps_per_row;
  few.persistent = true;
  few.min_ctas_per_sm = threads <= kShortRow ? 2 : 1;
  few.row_warps = std::max(1, kThreads / few.min_ctas_per_sm / 32 / few.warps_per_row);
  if (!HasFewTurns(sized, few)) return false;
  constexpr int kPinnedThreads = 256;
  if (threads == kPinnedThreads || (threads > kPinnedThreads && states == 1))
    PinColumns(sized, few);
  s = few;
  return true;
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
      const double words = c.registers * c.vector * (sized.input_words + states);
      const int threads = c.lanes_per_row * c.warps_per_row;
      if (words + beside > std::min(255, RegistersFor(sized.context.device, threads))) continue;
      s = c;
      return true;
    }
  }
  return false;
}

// Short rows of 16-bit data that leave threads idle: three to five vectors each, 64 threads a row
// at most, those of 128 threads in a CTA. False: they do well as they are, or are shorter than what
// was timed.
bool ShareShortUnevenly(const KeptRows& rows, int64_t vectors, int states, Schedule& s) {
  constexpr int64_t kLeastVectors = 64;
  if (vectors <= kLeastVectors) return false;
  const int had = s.lanes_per_row * s.warps_per_row;
  const int64_t places = int64_t{had} * s.registers;
  const double idle = static_cast<double>(places - vectors) / static_cast<double>(places);
  if (states > 1) {
    if (s.registers > 1 && idle <= (s.registers > 2 ? 0.2 : 0.1)) return false;
  } else if (s.registers > 1 && had <= 64 && idle <= 0.25) {
    return false;
  }
  int threads = 0, each = 0;
  for (const int registers : {4, 3, 5}) {
    const int t = PowerOfTwoAtLeast(CeilDivide(vectors, registers), 64);
    if (t * registers < vectors || (each > 0 && t * registers >= threads * each)) continue;
    // More than a state and a weight or two of each of so many columns leave few threads.
    if (registers == 5 && states + rows.AlikeWords() > 3) continue;
    // Of one state, and where three idle no more than a quarter, timed to be slower.
    if (registers == 5 && t < 32 && (states == 1 || vectors * 4 > 3 * 32 * 3)) continue;
    threads = t;
    each = registers;
  }
  if (each == 0) return false;
  GiveThreads(threads, each, s);
  s.row_warps = std::max(1, 4 / s.warps_per_row);
  s.min_ctas_per_sm = each == 3 || states == 1 ? 3 : 2;
  return true;
}

// Rows of 16-bit data of which half a warp has seven vectors each where a
// warp would idle a quarter of its four: in step, since each thread has much. False: other rows, or
// a thread has no registers for that. Source: docs/schedulers/any-length.md, "Few vectors, many
// CTAs".
bool ShareHalfWarp(const SizedGroup& sized, const KeptRows& rows, int64_t vectors, int states,
                   Schedule& s) {
  constexpr int kThreads = 16, kEach = 7, kMostRegisters = 210;
  if (states != 2 || rows.AlikeWords() > 1) return false;
  if (vectors <= kThreads * (kEach - 1) || vectors > kThreads * kEach) return false;
  if (kEach * s.vector * (sized.input_words + states) + kOtherRegisters > kMostRegisters)
    return false;
  GiveThreads(kThreads, kEach, s);
  s.row_warps = 4;
  s.min_ctas_per_sm = 2;
  return true;
}

// Rows of 16-bit data that leave threads idle, in whole warps: two or three vectors a thread where
// a CTA has few enough threads for another one beside it on an SM, three of one state a column and
// four of two where it has not, and instead of four of which a row has fewer; of shifted rows two
// of short ones, three of two states a column where two take 288 threads, and four where two take
// 320 to 512. False: they do well as they are. Source: docs/schedulers/any-length.md, "Rows of any
// length".
bool ShareCrossedUnevenly(const SizedGroup& sized, const KeptRows& rows, int64_t vectors,
                          int states, Schedule& s) {
  constexpr int kTwo = 256, kTwoOfOneState = 288, kMostOfTwoCtas = 320, kMostThreads = 512,
                kMostOfOneState = 576;
  constexpr int kShiftedTwo = 320;
  constexpr int64_t kShortVectors = 256, kFewVectors = 320, kMostInThrees = 384;
  if (!s.shift && vectors <= kShortVectors) {
    return ShareHalfWarp(sized, rows, vectors, states, s) ||
           ShareShortUnevenly(rows, vectors, states, s);
  }
  const int in_twos = ThreadsFor(vectors, 2);
  int each = 4;
  bool in_fours = false;
  if (s.shift && vectors <= kShortVectors) {
    if (vectors <= kShortVectors / 2) return false;
    GiveThreads(in_twos, 2, s);
    s.row_warps = 1;
    s.min_ctas_per_sm = (states == 1 ? kMostOfOneState : kMostThreads) / in_twos;
    return true;
  }
  if (s.shift && states == 2 && vectors > kFewVectors && vectors <= kMostInThrees) {
    GiveThreads(kMostInThrees / 4, 4, s);
    s.row_warps = 1;
    s.min_ctas_per_sm = 4;
    return true;
  }
  if (s.shift && states == 2 && in_twos > kTwo && in_twos <= kTwoOfOneState) {
    GiveThreads(ThreadsFor(vectors, 3), 3, s);
    s.row_warps = 1;
    s.min_ctas_per_sm = 2;
    return true;
  }
  if (s.shift) {
    if (in_twos <= kShiftedTwo || in_twos > kMostThreads) return false;
  } else if (states > 1 && s.registers == 4 && vectors > kFewVectors && vectors <= kMostInThrees) {
    GiveThreads(kMostInThrees / 3, 3, s);
    s.row_warps = 1;
    s.min_ctas_per_sm = 3;
    return true;
  } else {
    if (s.registers > 2 || in_twos <= kTwo) return false;
    // Four on an odd number of warps were slower than three.
    in_fours =
        states == 2 && ThreadsFor(vectors, 3) > kMostOfTwoCtas && ThreadsFor(vectors, 4) % 64 == 0;
    each = states == 1 && in_twos <= kTwoOfOneState ? 2 : in_fours ? 4 : 3;
  }
  const int threads = ThreadsFor(vectors, each);
  if (threads > kMostThreads) return false;
  GiveThreads(threads, each, s);
  s.row_warps = 1;
  s.min_ctas_per_sm = threads <= kMostOfTwoCtas && !in_fours ? 2 : 1;
  return true;
}

// The same of wider data: two CTAs an SM, and short rows that are not shifted with three vectors a
// thread.
void ShareWideUnevenly(int64_t vectors, int few, Schedule& s) {
  constexpr int64_t kLeastVectors = 128, kMostVectors = 192;
  constexpr int kMostOfTwoCtas = 384;
  if (s.registers != few) return;
  if (!s.shift && vectors > kLeastVectors && vectors <= kMostVectors) {
    GiveThreads(kMostVectors / 3, 3, s);
    s.row_warps = 2;
    s.min_ctas_per_sm = 5;
  } else if (s.threads() <= kMostOfTwoCtas) {
    s.min_ctas_per_sm = std::max(2, s.min_ctas_per_sm);
  }
}

// Rows of one input: threads with 32 columns each, a warp on each of an SM's four schedulers twice,
// of narrow short ones three times. There is half as much to bring as beside a gradient, and more
// threads would wait at barriers. Source: docs/schedulers/crossed.md, "States of columns of one
// input". False: they are too long for that, or weights take the registers.
bool ShareOneInput(const SizedGroup& sized, const KeptRows& rows, int states, Schedule& s) {
  constexpr int kColumns = 32, kThreads = 128, kThreadsOfSm = 256, kCtasOfShortRows = 3;
  constexpr int kMostThreads = 512;
  constexpr int64_t kLeastColumns = 512;
  const int threads = ThreadsFor(VectorsOf(sized, s), kColumns / s.vector);
  const double words = rows.Words(kColumns / s.vector, s) +
                       kColumns * (states + rows.AlikeWords()) + kOtherRegisters;
  if (sized.columns < kLeastColumns || s.vector * sized.widest_bytes != 16 ||
      threads > kMostThreads ||
      words > std::min(255, RegistersFor(sized.context.device, std::max(threads, kThreadsOfSm)))) {
    return false;
  }
  GiveThreads(threads, kColumns / s.vector, s);
  s.row_warps = std::max(1, kThreads / 32 / s.warps_per_row);
  s.min_ctas_per_sm = std::max(1, (kThreadsOfSm + s.threads() / 2) / s.threads());
  if (sized.widest_bytes < 4 && s.warps_per_row == 1) s.min_ctas_per_sm = kCtasOfShortRows;
  return s.persistent = true;
}

// A thread keeps the states of its columns through all turns. Where copies bring the next row, few
// threads with many columns each: 16 or 32 of them, of wider data 8 as long as that takes no more
// than a CTA of 512. Source: schedules timed side by side on an H200, docs/schedulers/tuning.md,
// "Rows that are crossed".
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
  if (ahead && !by_ticket && !s.shift && IsOneInputWithStates(sized) &&
      ShareOneInput(sized, rows, states, s)) {
    return;
  }
  if (ahead && !by_ticket && ShareFewTurns(sized, rows, states, s)) return;
  if (ahead && sized.widest_bytes >= 4) {
    // The threads of a larger CTA of shifted rows would have no registers for their ends.
    const Share shares[] = {{few, 32, 512}, {2 * some, 128, s.shift ? 512 : 256}, {some, 1, 1024}};
    s.persistent = ShareRow(rows, vectors, shares, s);
  } else if (by_ticket) {
    const Share shares[] = {{2 * some, 1, 512}, {some, 32, 768}, {2 * some, 128, 1024}};
    s.persistent = ShareRow(rows, vectors, shares, s);
  } else if (ahead && s.shift && states > 1) {
    // Three vectors, for which weights of wider elements leave no registers.
    const int three = AreTwoSums(sized) && !HasWideWeights(sized, rows) ? 512 : 0;
    const Share shares[] = {
        {some, 32, 640}, {some + few, 448, three}, {2 * some, 256, 512}, {few, 1, 1024}};
    s.persistent = ShareRow(rows, vectors, shares, s);
  } else if (ahead) {
    // 32 of short rows, and of one state a column where each of an SM's four schedulers gets as
    // many warps.
    const Share shares[] = {{2 * some, 1, few_states ? 8 : 128},
                            {2 * some, 256, few_states ? 256 : 0},
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
  const int registers =
      held * sized.widest_bytes * sized.large_inputs / 4 + held * states + kOtherRegisters;
  s.min_ctas_per_sm = std::clamp(65536 / (registers * s.threads()), 1, 1024 / s.threads() + 1);
  if (!ahead) return;
  const bool masks = s.persistent && s.columns_per_step() > sized.columns;
  if (sized.widest_bytes < 4 && !by_ticket && masks &&
      ShareCrossedUnevenly(sized, rows, vectors, states, s))
    return;
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
  if (wide && masks) ShareWideUnevenly(vectors, few, s);
  // Of rows that go by ticket, and of small CTAs with many columns a thread, no SM has less.
  if (s.registers >= 2 * some && (by_ticket || s.threads() < 128))
    s.min_ctas_per_sm = static_cast<int>(CeilDivide(threads_per_sm, s.threads()));
}

// Rows that are neighbours, in vectors, the next ones on their way to shared memory: lanes along a
// cache line of them or half of one, warps down the columns, of which a thread has a few with their
// states.
bool HoldCrossedOuter(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kMostThreads = 1024, kOther = 48, kMostPoints = 64;
  constexpr int64_t kBesideRows = 8192;  // Of shared memory: states on their way between warps.
  const DeviceInfo& device = sized.context.device;
  const int states = ColumnStates(sized);
  if (s.vector == 1 || states == 0 || sized.columns <= kFewColumns || !sized.shape.batch.empty())
    return false;
  for (const int vector_bytes : {16, 8}) {
    Schedule t = s;
    while (t.vector > 2 && t.vector * sized.widest_bytes > vector_bytes) t.vector /= 2;
    for (const int bytes : {128, 64}) {
      LieAlongRows(sized, bytes, t);
      const int64_t per_warp = CeilDivide(sized.columns, t.lanes_per_row);
      for (t.warps_per_row = 1; t.threads() <= kMostThreads; t.warps_per_row *= 2) {
        t.registers =
            static_cast<int>(std::min<int64_t>(CeilDivide(per_warp, t.warps_per_row), 256));
        // What a column has is read as it is used.
        const double words = t.registers * (t.vector * sized.input_words + states) + kOther +
                             t.vector * static_cast<double>(sized.group->inputs().size());
        const int ctas = std::clamp(512 / t.threads(), 1, 4);
        if (t.registers * t.vector > kMostPoints) continue;
        if (words > RegistersFor(device, t.threads() * ctas)) continue;
        const int64_t sets = CeilDivide(sized.rows, t.rows_per_cta());
        if (sets < device.sms / 2) continue;
        t.persistent = t.async = true;
        t.reread = false;
        t.min_ctas_per_sm = ctas;
        t.grid = static_cast<int>(std::min(sets, ResidentCtas(t, device)));
        if ((rows.AsyncBytes(t) + kBesideRows) * ctas > SmSharedBytes(device)) continue;
        s = t;
        return true;
      }
    }
  }
  return false;
}

}  // namespace

absl::Status ChooseCrossed(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  // Lanes to what is contiguous all the same, vectors only to columns, unless a thread has room for
  // the states of its columns beside vectors of rows.
  const bool rows_are_neighbours = s.outer;
  if (rows_are_neighbours && HoldCrossedOuter(sized, rows, s)) return absl::OkStatus();
  s.outer = false;
  if (rows_are_neighbours) s.vector = 1;
  const int states = ColumnStates(sized);
  if (!rows_are_neighbours && !s.blocks && states <= 2) {
    SEAM_ASSIGN_OR_RETURN(const bool in_cluster, ChooseCluster(sized, rows, states, s));
    if (in_cluster) return absl::OkStatus();
  }
  if (s.blocks) {
    // Chosen.
  } else if (rows_are_neighbours) {
    const int row_lanes = PowerOfTwoAtLeast(sized.rows, 32);
    s.lanes_per_row = 32 / row_lanes;
    const int64_t each = CeilDivide(sized.columns, s.lanes_per_row);
    // A thread has few columns whole.
    constexpr int kThreadsPerSm = 768, kOtherRegisters = 24;
    const bool few = each <= kFewColumns;
    s.registers = few ? static_cast<int>(std::max<int64_t>(each, 1)) : kFewColumns / 2;
    s.warps_per_row = static_cast<int>(std::clamp<int64_t>(CeilDivide(each, s.registers), 1, 32));
    s.row_warps = std::max(1, 4 / s.warps_per_row);
    s.persistent = s.columns_per_step() >= sized.columns;
    if (few) PinColumns(sized, s);
    if (few || states == 0) {
      const int words = s.registers * (sized.input_words + states) + kOtherRegisters;
      s.min_ctas_per_sm = std::clamp(std::min(65536 / words, kThreadsPerSm) / s.threads(), 1, 32);
    }
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
  FitGrid(sized, most, s);
  if (s.shift) {
    // CTAs without rows leave neutral states, which is for nothing where these lie in memory.
    const int64_t step = s.grid_step(), more = CeilDivide(s.grid, step) * step;
    if (s.persistent && more <= most) {
      s.grid = static_cast<int>(more);
    } else if (s.grid >= step) {
      s.grid -= s.grid % static_cast<int>(step);
    }
  }
  if (s.persistent && !rows_are_neighbours && !s.blocks) return ChooseStages(sized, states, s);
  return absl::OkStatus();
}

}  // namespace seam::reduction
