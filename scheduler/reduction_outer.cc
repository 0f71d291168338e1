// Rows that are neighbours in memory: tiles of them and of columns that a CTA or a cluster has in
// hand.
#include <algorithm>
#include <utility>

#include "scheduler/kernel/tile.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"
#include "scheduler/workload.h"

namespace seam::reduction {
namespace {

// Bytes of neighbouring rows that a warp reads of a column, and CTAs an SM, in order of preference:
// of several CTAs one loads while another computes. Fewer rows have more threads a row, which then
// hold it all; less than a sector pays for nothing.
struct OuterTile {
  int bytes, ctas, cluster = 1;
};
constexpr OuterTile kOuterTiles[] = {{128, 4}, {128, 2}, {64, 2}, {128, 2, 8},
                                     {32, 2},  {128, 1}, {64, 1}, {32, 1}};
// The same of rows that are read again.
constexpr OuterTile kStreamedTiles[] = {{128, 2}, {128, 2, 2}, {128, 2, 4}, {64, 2}, {32, 2}};

// Words of a row's states.
int StateWords(const SizedGroup& sized) {
  const Fusion& group = *sized.group;
  int words = 0;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    const OpClass c = group.info(e).op_class;
    if (c == OpClass::Welford) words += 2;  // Of rows that are held, mean and squares.
    if (c == OpClass::Reduction) words += kernel::NumComponents(group.op(e));
  }
  return words;
}

// Registers of a thread for each of its rows: states, and what is read once a row.
int RowWords(const SizedGroup& sized) {
  return static_cast<int>(sized.group->inputs().size()) - sized.large_inputs + StateWords(sized);
}

// Whether anything over the columns of a row waits for what they are folded to.
bool ReadsRowsAgain(const SizedGroup& sized) {
  const Fusion& group = *sized.group;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (sized.shape.Columns(sized.shape.axes.space(e)).empty()) continue;
    for (ValId v : group.operands(e))
      if (sized.shape.depth[v.index()] > 0) return true;
  }
  return false;
}

// Of rows that are neighbours: threads of an SM that have 128 registers each, registers for
// addresses, and points in hand that are few.
constexpr int kOuterThreads = 512, kAddressWords = 28, kFewPoints = 32;

// Lanes along so many bytes of neighbouring rows, the others down the columns. Rows whose states
// are merged lie in a CTA all together: the lanes, and the warps side by side, that this takes.
// Where one warp's lanes are not enough the schedule is refused.
void LieAlongRows(const SizedGroup& sized, int bytes, Schedule& s) {
  const int even = s.neighbours & -s.neighbours;
  s.row_warps = s.neighbours / even;
  const int row_vector = s.vector * s.row_warps;
  const int lanes = PowerOfTwoAtLeast(CeilDivide(bytes, row_vector * sized.widest_bytes), 32);
  const int enough = PowerOfTwoAtLeast(CeilDivide(sized.rows, row_vector), lanes);
  s.lanes_per_row = 32 / std::min(32, std::max(enough, even / std::min(even, s.vector)));
}

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

int64_t OuterCtas(const SizedGroup& sized, const Schedule& s) {
  return CeilDivide(sized.rows, s.rows_per_cta()) * s.cluster;
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
  for (const OuterTile& tile : kOuterTiles) {
    Schedule t = s;
    const int64_t registers = TakeTile(sized, tile, t);
    const int64_t ctas = OuterCtas(sized, t);
    const bool few = registers * t.vector <= kFewPoints;
    const bool fits = registers <= most && rows.Words(static_cast<int>(registers), t) <= most &&
                      ctas * 2 >= device.sms;
    // A cluster waits for its slowest CTA, while others go on where there are many.
    const bool pays = tile.cluster == 1 || (!sized.shape.crossed() && MayCluster(sized, t) &&
                                            ctas >= kWaves * tile.ctas * device.sms);
    const bool in_hand = few && tile.cluster == 1 && (reads_again || tile.bytes == 128);
    if (!pays || !((fits && reads_again) || in_hand)) continue;
    s = t;
    s.registers = static_cast<int>(std::max<int64_t>(registers, 1));
    s.persistent = true;
    if (!few) s.min_ctas_per_sm = kOuterThreads / s.threads();
    return true;
  }
  return false;
}

// Rows that threads bring to shared memory: eight lanes along them, or four, vectors of 64 bytes to
// 128 together. Where CTAs have room for their rows, or a cluster for one input of wide data, these
// stay there, two CTAs an SM, of narrow data three. Other clusters take rows in turn, the next ones
// on their way while these are in registers. All that where there is enough of it. Source: images
// timed side by side on an H200, docs/schedulers.md.
constexpr int kWordBytes = 4, kLeastWaves = 4, kLeastTurns = 7;

// Bytes of shared memory of a CTA: its rows, and states and values of them on their way.
int64_t BroughtBytes(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kRowValues = 8;
  const auto rows =
      static_cast<int64_t>(static_cast<double>(s.rows_per_cta() * s.columns_per_step()) *
                           sized.input_words * kWordBytes);
  const int64_t exchanged = s.cluster > 1 ? s.cluster : 0;
  return rows + s.rows_per_cta() * kWordBytes *
                    (StateWords(sized) * (s.warps_per_row + exchanged) + kRowValues);
}

// CTAs of an SM that have room for that.
int CtasThatFit(const SizedGroup& sized, const Schedule& s) {
  const DeviceInfo& device = sized.context.device;
  const int64_t room = device.smem_bytes_per_cta - kOtherSharedBytes;
  return static_cast<int>(std::min<int64_t>(room / BroughtBytes(sized, s),
                                            device.max_threads_per_sm / 2 / s.threads()));
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

Brought StayBrought(const SizedGroup& sized, Schedule& t) {
  constexpr int kMostCtas = 6;
  const DeviceInfo& device = sized.context.device;
  const bool narrow = sized.widest_bytes < 4;
  const int fit = CtasThatFit(sized, t);
  if ((t.cluster > 1 && (narrow || sized.large_inputs > 1)) || fit < (narrow ? 3 : 2))
    return Brought::kTooLong;
  t.reread = true;
  t.min_ctas_per_sm = std::min(fit, kMostCtas);
  const int64_t ctas = OuterCtas(sized, t), at_once = ResidentCtas(t, device);
  const bool pays = t.cluster == 1 || ctas <= at_once || ctas >= kLeastWaves * at_once;
  return ctas >= device.sms && pays ? Brought::kFits : Brought::kTooFew;
}

Brought TakeBroughtInTurn(const SizedGroup& sized, int ctas, Schedule& t) {
  constexpr double kFewWords = 56, kManyWords = 104;
  t.min_ctas_per_sm = ctas;
  if (t.cluster == 1 || CtasThatFit(sized, t) < ctas ||
      t.registers * t.vector * sized.input_words > (ctas > 1 ? kFewWords : kManyWords)) {
    return Brought::kTooLong;
  }
  const int64_t at_once = ResidentCtas(t, sized.context.device);
  t.grid = static_cast<int>(at_once);
  return OuterCtas(sized, t) < kLeastTurns * at_once ? Brought::kTooFew : Brought::kFits;
}

// The fewest CTAs that have room for a row.
bool BringOuter(const SizedGroup& sized, Schedule& s) {
  if (s.vector == 1 || sized.large_inputs == 0 || sized.shape.keeps_columns() ||
      sized.shape.crosses_all_rows()) {
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
    Brought brought = StayBrought(sized, t);
    if (brought == Brought::kTooLong) {
      brought = TakeBroughtInTurn(sized, ctas, in_turn);
      t = in_turn;
    }
    if (brought != Brought::kFits) return brought;
    s = t;
    PinColumns(sized, s);
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

// The same of neighbouring columns that are rows: the fewest CTAs of a cluster that hold a cache
// line of each of the other columns, or half of one, such that an SM holds two of them, else one. A
// thread of so few has many registers.
bool HoldNeighbours(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kMostThreads = 640, kNarrowBytes = 8, kMostCtas = 8, kMostRegisters = 240;
  // More elements of narrow data than these compilers do not keep packed.
  constexpr int kMostNarrowPoints = 192;
  const DeviceInfo& device = sized.context.device;
  const int row_words = RowWords(sized);
  const auto registers = [&](const Schedule& t, int ctas) {
    return std::min(RegistersFor(device, ctas * t.threads()) / 8 * 8, kMostRegisters);
  };
  const auto hold = [&](Schedule t, int bytes, int least_ctas, int64_t least_in_all) {
    LieAlongRows(sized, bytes, t);
    const int64_t per_warp = CeilDivide(sized.columns, t.lanes_per_row * t.cluster);
    for (t.warps_per_row = 1; t.threads() <= kMostThreads; t.warps_per_row *= 2) {
      t.registers = static_cast<int>(std::min<int64_t>(CeilDivide(per_warp, t.warps_per_row), 256));
      const bool few = t.cluster == 1 && t.registers * t.vector <= kFewPoints;
      const bool idle = t.columns_at_once() * 4 > sized.columns * 5;
      if (t.columns_at_once() < sized.columns || t.threads() % t.rows_per_cta() != 0 ||
          (idle && t.warps_per_row * t.cluster > 1) ||
          (sized.widest_bytes < 4 && t.registers * t.vector > kMostNarrowPoints) ||
          (OuterCtas(sized, t) < least_in_all && !(few && least_ctas == 1))) {
        continue;
      }
      const double need = rows.Words(t.registers, t) + kAddressWords + row_words * t.vector;
      const int most = std::min(kMostCtas, device.max_threads_per_sm / t.threads());
      int ctas = 0;
      while (ctas < most && need <= registers(t, ctas + 1)) ++ctas;
      if (ctas < least_ctas) continue;
      t.min_ctas_per_sm = ctas;
      t.persistent = true;
      if (t.columns_at_once() == sized.columns) PinColumns(sized, t);
      s = t;
      return true;
    }
    return false;
  };
  const std::pair<int, int64_t> choices[] = {{2, device.sms}, {1, device.sms}, {1, device.sms / 2}};
  for (const auto& [least_ctas, least_in_all] : choices) {
    for (Schedule t = s; t.vector > 1 && t.vector * sized.widest_bytes >= kNarrowBytes;
         t.vector /= 2) {
      for (const int bytes : {128, 64}) {
        for (t.cluster = 1; t.cluster <= device.max_cluster; t.cluster *= 2)
          if (hold(t, bytes, least_ctas, least_in_all)) return true;
      }
    }
  }
  return false;
}

// Neighbouring columns that are rows and that a cluster holds: in shared memory rather than in
// registers, where narrow data are unpacked, or two inputs.
bool BringNeighbours(const SizedGroup& sized, Schedule& s) {
  constexpr int kLineBytes = 128, kMostWarps = 2, kFewVectors = 16;
  const DeviceInfo& device = sized.context.device;
  if (sized.widest_bytes >= 4 && sized.large_inputs == 1) return false;
  for (int cluster = 2; cluster <= device.max_cluster; cluster *= 2) {
    Schedule t = s;
    LieAlongRows(sized, kLineBytes, t);
    t.cluster = cluster;
    const int64_t per_warp = CeilDivide(sized.columns, t.lanes_per_row * cluster);
    t.warps_per_row = per_warp > kFewVectors ? kMostWarps : 1;
    t.registers = static_cast<int>(std::min<int64_t>(CeilDivide(per_warp, t.warps_per_row), 256));
    t.persistent = t.async = t.reread = true;
    const int fit = CtasThatFit(sized, t);
    if (t.columns_at_once() < sized.columns || t.threads() % t.rows_per_cta() != 0 || fit < 2)
      continue;
    t.min_ctas_per_sm = fit;
    const int64_t ctas = OuterCtas(sized, t);
    if (ctas < device.sms ||
        (fit < 4 && ctas > ResidentCtas(t, device) && cluster < device.max_cluster)) {
      continue;
    }
    PinColumns(sized, t);
    s = t;
    return true;
  }
  return false;
}

}  // namespace

void ChooseOuter(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  constexpr int kMostRowWords = 48, kStreamedBytes = 128, kMostStreamedWords = 120;
  const bool reads_again = ReadsRowsAgain(sized);
  if (s.neighbours > 1 && reads_again) {
    Schedule held = s;
    const bool holds = HoldNeighbours(sized, rows, held);
    if ((!holds || held.cluster > 1) && BringNeighbours(sized, s)) return;
    if (holds) {
      s = held;
      return;
    }
  }
  // Narrower vectors leave more registers for columns.
  const int row_words = RowWords(sized);
  while (s.vector * sized.widest_bytes > 8 && s.vector * row_words > kMostRowWords) s.vector /= 2;
  if (s.neighbours == 1 && reads_again && BringOuter(sized, s)) return;
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
  s.registers = std::max(
      1, kStreamedBytes / (s.vector * sized.widest_bytes * std::max(1, sized.large_inputs)));
  while (s.registers > 1 &&
         s.vector * (s.registers * sized.input_words + row_words) > kMostStreamedWords) {
    s.registers /= 2;
  }
  s.min_ctas_per_sm = 2;
}

bool AreNeighboursShort(const SizedGroup& sized) {
  constexpr int64_t kMostBytes = 128, kMostWarps = 15, kWideRun = 4;
  if (sized.shape.crossed() && sized.run % kWideRun == 0) return false;
  const int64_t odd = sized.run / (sized.run & -sized.run);
  return sized.beside > 1 && sized.run > 1 && sized.run < sized.columns && odd <= kMostWarps &&
         sized.run * sized.widest_bytes < kMostBytes;
}

}  // namespace seam::reduction
