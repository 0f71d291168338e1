// Rows that threads bring to shared memory themselves (kernel/expand_async.cc): the next turn's
// while they work on this one's, or all that a CTA has, which leaves the registers to more CTAs.
// Source of all numbers: images timed side by side on an H200, docs/schedulers/turns.md, "Rows that
// threads bring".
#include <algorithm>

#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

// Of a CTA's rows, at least, that stay in shared memory, and of these CTAs for each SM, at the
// most: those of shorter ones fit the registers of as many CTAs as an SM has use for, and where
// many come one after the other it has always some that load.
constexpr int64_t kLeastStaying = 16384, kMostStaying = 4;
// Registers of a thread that reads its row from shared memory, at the least.
constexpr int kStayingRegisters = 48;

// Bytes that lie together, at the least: shorter pieces threads load as fast, or faster.
constexpr int64_t kLeastPieceBytes = 128;

// The next turn's, of rows in pieces, or with states of columns. Wider data of several CTAs an SM
// are under way in these in any case, and so are two inputs of clusters; in many turns CTAs that
// load and such that compute come to alternate.
bool GainsAhead(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kFewTurns = 8;
  const int64_t at_once = s.rows_at_once();
  if (sized.rows <= at_once) return false;
  if (!sized.shape.crossed()) return sized.large_inputs == 1 && sized.run < sized.columns;
  // Of long rows that are only read there are several CTAs an SM: other CTAs' are on their way.
  if (sized.large_outputs == 0 && s.cluster == 1 && sized.columns > kCtaColumns) return false;
  return sized.widest_bytes < 4 || (s.min_ctas_per_sm == 1 && sized.rows <= kFewTurns * at_once);
}

// Vectors of rows: eight lanes along them, or four, 64 bytes to 128 together. Where CTAs have room
// for their rows, or a cluster for one input of wide data, these stay there, two CTAs an SM, of
// narrow data three. Other clusters take rows in turn, the next ones on their way while these are
// in registers. All that where there is enough of it.
constexpr int kWordBytes = 4, kLeastWaves = 4, kLeastTurns = 7, kLeastWideTurns = 4;

// Bytes of shared memory of a CTA: its rows, and states and values of them on their way, of a row
// six or eight. Neighbours send one state together, and have a place to merge theirs; what crosses
// rows no CTA sends.
int64_t BroughtBytes(const SizedGroup& sized, const KeptRows& rows, const Schedule& s) {
  const int64_t row_values = s.neighbours > 1 ? 6 : 8;
  const int sent = StateWords(
      sized, [&](ExprId e) { return s.cluster > 1 && !sized.shape.FoldsColumnsForRows(e); });
  const int64_t exchanged = s.neighbours > 1 ? 1 + CeilDivide(s.cluster, s.neighbours) : s.cluster;
  const int64_t words = StateWords(sized) * s.warps_per_row + sent * exchanged + row_values;
  return rows.AsyncBytes(s) + s.rows_per_cta() * kWordBytes * words;
}

// Gives rows so many lanes and warps, a power of two of these, that a thread has some vectors.
Schedule ShareBrought(const SizedGroup& sized, int lanes, int cluster, const Schedule& s) {
  constexpr int kMostWarps = 8, kFewVectors = 8;
  Schedule t = s;
  t.row_warps = 1;
  t.cluster = cluster;
  t.lanes_per_row = 32 / lanes;
  const int64_t per_warp = CeilDivide(CeilDivide(sized.columns, cluster), t.lanes_per_row);
  const int least = static_cast<int>(CeilDivide(t.vector * lanes, 32));  // Threads as rows.
  t.warps_per_row = 1;
  while (t.warps_per_row < kMostWarps &&
         (t.warps_per_row < least || per_warp > kFewVectors * t.warps_per_row)) {
    t.warps_per_row *= 2;
  }
  t.registers =
      static_cast<int>(std::clamp<int64_t>(CeilDivide(per_warp, t.warps_per_row), 1, 256));
  t.persistent = t.async = true;
  return t;
}

// What the rows of a CTA that holds them should be: in shared memory, or in registers while the
// next ones come, or neither.
enum class Brought : uint8_t { kTooLong, kTooFew, kFits };

Brought StayBrought(const SizedGroup& sized, const KeptRows& rows, Schedule& t) {
  constexpr int kMostCtas = 6;
  const DeviceInfo& device = sized.context.device;
  const bool narrow = sized.widest_bytes < 4;
  const int fit = CtasThatFit(sized, rows, t);
  if ((t.cluster > 1 && (narrow || sized.large_inputs > 1)) || fit < (narrow ? 3 : 2))
    return Brought::kTooLong;
  t.reread = true;
  t.min_ctas_per_sm = std::min(fit, kMostCtas);
  const int64_t ctas = OuterCtas(sized, t), at_once = ResidentCtas(t, device);
  const bool pays = t.cluster == 1 || ctas <= at_once || ctas >= kLeastWaves * at_once;
  return ctas >= device.sms && pays ? Brought::kFits : Brought::kTooFew;
}

Brought TakeBroughtInTurn(const SizedGroup& sized, const KeptRows& rows, int ctas, Schedule& t) {
  constexpr double kFewWords = 56, kManyWords = 104;
  t.min_ctas_per_sm = ctas;
  if (t.cluster == 1 || CtasThatFit(sized, rows, t) < ctas ||
      t.registers * t.vector * sized.input_words > (ctas > 1 ? kFewWords : kManyWords)) {
    return Brought::kTooLong;
  }
  const int64_t at_once = ResidentCtas(t, sized.context.device);
  t.grid = static_cast<int>(at_once);
  const int turns = sized.widest_bytes < 4 ? kLeastTurns : kLeastWideTurns;
  return OuterCtas(sized, t) < turns * at_once ? Brought::kTooFew : Brought::kFits;
}

}  // namespace

int CtasThatFit(const SizedGroup& sized, const KeptRows& rows, const Schedule& s) {
  const DeviceInfo& device = sized.context.device;
  const int64_t room = device.smem_bytes_per_cta - kOtherSharedBytes;
  return static_cast<int>(std::min<int64_t>(room / BroughtBytes(sized, rows, s),
                                            device.max_threads_per_sm / 2 / s.threads()));
}

void ChooseAsync(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  if (!sized.context.device.async_loads || s.outer || !s.persistent || s.vector == 1 || s.shift ||
      s.stages > 0 || s.blocks || sized.run * sized.narrowest_bytes < kLeastPieceBytes) {
    return;
  }
  const DeviceInfo& device = sized.context.device;
  Schedule t = s;
  t.async = true;
  if (s.grid > 0) {
    if (!GainsAhead(sized, s)) return;
    // Two rows at a time, of which one is folded while the other is loaded and stored.
    constexpr int kLeastWarps = 5, kMostWarps = 8, kTwoRowsRegisters = 72;
    if (s.cluster == 1 && s.row_warps == 1 && s.lanes_per_row == 32 &&
        s.warps_per_row >= kLeastWarps && s.warps_per_row <= kMostWarps) {
      t.row_warps = 2;
      t.min_ctas_per_sm = std::max(1, device.registers_per_sm / (t.threads() * kTwoRowsRegisters));
      t.grid = static_cast<int>(
          std::min<int64_t>(CeilDivide(sized.rows, t.rows_per_cta()), ResidentCtas(t, device)));
    }
    if (HasRoom(sized, t, /*any=*/false)) s = t;
    return;
  }
  const bool whole = s.vector * sized.widest_bytes == 16;
  const int64_t bytes = rows.AsyncBytes(s);
  const bool wide = sized.widest_bytes >= 4;
  const int64_t ctas = CeilDivide(sized.rows, s.rows_per_cta());
  if ((wide && s.min_ctas_per_sm > 1) || !whole || sized.large_inputs != 1 ||
      sized.shape.crossed() || bytes < kLeastStaying || ctas > kMostStaying * device.sms) {
    return;
  }
  t.reread = true;
  const auto by_registers = [&] {
    return device.registers_per_sm / (int64_t{t.threads()} * kStayingRegisters);
  };
  const int64_t by_room = SmSharedBytes(device) / (bytes + kOtherSharedBytes);
  // Half of the threads, if that many more CTAs have room, and all are then there at once.
  constexpr int kMostVectors = 8;
  while (by_registers() * device.sms < ctas && by_registers() < by_room &&
         t.warps_per_row % 2 == 0 && t.registers * 2 <= kMostVectors) {
    t.warps_per_row /= 2;
    t.registers *= 2;
  }
  t.min_ctas_per_sm = static_cast<int>(std::max<int64_t>(1, std::min(by_room, by_registers())));
  if ((!wide || t.min_ctas_per_sm > 1) && HasRoom(sized, t, /*any=*/true)) s = t;
}

bool BringOuter(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  // What came from elsewhere would lie in registers.
  if (!sized.context.device.async_loads || !rows.AreAllBrought() || s.vector == 1 ||
      sized.large_inputs == 0 || sized.shape.keeps_columns() || sized.shape.crosses_all_rows()) {
    return false;
  }
  const int most = sized.context.device.max_cluster;
  const auto bring = [&](int lanes, int cluster, int ctas) {
    Schedule t = ShareBrought(sized, lanes, cluster, s);
    const int piece = lanes * s.vector * sized.narrowest_bytes;
    if (t.columns_at_once() < sized.columns || piece < kSectorBytes ||
        (lanes == 4 && piece < 2 * kSectorBytes)) {
      return Brought::kTooLong;
    }
    Schedule in_turn = t;
    Brought brought = StayBrought(sized, rows, t);
    if (brought == Brought::kTooLong) {
      brought = TakeBroughtInTurn(sized, rows, ctas, in_turn);
      t = in_turn;
    }
    if (brought != Brought::kFits) return brought;
    PinColumns(sized, t);
    if (!HasRoom(sized, t, /*any=*/true)) return Brought::kTooLong;
    s = t;
    return brought;
  };
  const int ctas = sized.widest_bytes < 4 ? 2 : 1;
  for (int cluster = 1; cluster <= most; cluster *= 2) {
    Brought brought = bring(8, cluster, ctas);
    // Half a line of each column where none can share a row with others, or no more of them.
    if (brought == Brought::kTooLong && (cluster == 1 || (cluster == most && ctas == 1)))
      brought = bring(4, cluster, ctas);
    if (brought == Brought::kFits) return true;
    // Few rows: those of a sector in a CTA, if it holds them.
    if (brought == Brought::kTooFew)
      return sized.widest_bytes >= 4 && bring(2, 1, ctas) == Brought::kFits;
  }
  return most > 1 && bring(8, most, 1) == Brought::kFits;
}

}  // namespace seam::reduction
