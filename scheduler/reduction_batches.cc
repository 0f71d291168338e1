// Rows of batches, each of which has states of its own columns (GroupShape::batch): CTAs take rows
// of one batch in turn, and so many of them each that all together fill the machine.
//
//   batch 0   CTA 0: rows 0, 2 ...    CTA 1: rows 1, 3 ...    two states of each column of batch 0
//   batch 1   CTA 2: rows 0, 2 ...    CTA 3: rows 1, 3 ...    and of batch 1
#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {
namespace {

// As many warps with rows of their own as share a batch's rows evenly, or false.
bool DivideEvenly(int64_t rows, Schedule& s) {
  Schedule t = s;
  for (; t.row_warps >= 1; --t.row_warps) {
    if (rows % t.rows_per_cta() != 0) continue;
    s = t;
    return true;
  }
  return false;
}

// Sets of as many rows as leave few threads of the last one without a row. Copies bring whole sets;
// where that would take more lanes a row, threads load the rows.
void DivideBatch(int64_t rows, Schedule& s) {
  constexpr double kMostIdle = 0.15;
  if (s.takes_whole_sets()) {
    if (DivideEvenly(rows, s)) return;
    while (s.blocks && !DivideEvenly(rows, s)) {
      s.lanes_per_row *= 2;
      s.registers = (s.registers + 1) / 2;
    }
    if (s.blocks) return;
    s.stages = 0;
    s.reread = s.settled = false;
  }
  const auto times = [&](int warps) {
    Schedule t = s;
    t.row_warps = warps;
    const int64_t set = t.rows_per_cta();
    return static_cast<double>(CeilDivide(rows, set) * set) / static_cast<double>(rows);
  };
  int best = s.row_warps;
  for (int warps = s.row_warps; warps >= 1 && times(best) > 1 + kMostIdle; --warps) {
    if (times(warps) < times(best)) best = warps;
  }
  s.row_warps = best;
  while (s.row_warps == 1 && s.registers > 1 && 2 * rows <= s.rows_per_cta()) {
    s.lanes_per_row *= 2;
    s.registers = (s.registers + 1) / 2;
  }
}

// CTAs, or clusters of them, of each batch, with several turns each: as few as leave little of the
// machine without work; then as many times as many as go with states that are little beside the
// rows, since CTAs that are done make room for others, and none waits for the slowest.
int64_t TeamsOf(const SizedGroup& sized, int64_t batches, int64_t sets, int64_t resident) {
  constexpr int64_t kLeastTurns = 4, kMostTimes = 16;
  constexpr double kEnough = 0.9, kLittle = 0.02, kMuch = 0.1, kStateBytes = 8;
  int64_t best = 1;
  double most = 0;
  // Of each element of the rows the inputs are read, and one is written.
  const double row_bytes = sized.input_words * 4 + sized.widest_bytes;
  const double states = kStateBytes * std::max(1, ColumnStates(sized));
  const double rows = static_cast<double>(sized.rows) / static_cast<double>(batches);
  const auto whose_states_are = [&](double part) {
    return static_cast<int64_t>(part * row_bytes * rows / states);
  };
  int64_t limit = std::clamp<int64_t>(sets / kLeastTurns, 1, resident);
  // Every SM has several batches: what more CTAs leave takes longer than some that are idle.
  if (batches >= 2 * sized.context.device.sms)
    limit = std::clamp<int64_t>(whose_states_are(kMuch), 1, limit);
  for (int64_t teams = 1; teams <= limit; ++teams) {
    const int64_t all = batches * teams, waves = CeilDivide(all, resident);
    const double busy = static_cast<double>(all) / static_cast<double>(waves * resident);
    if (busy <= most) continue;
    most = busy;
    best = teams;
    if (busy >= kEnough) break;
  }
  return std::max(best, std::min({best * kMostTimes, limit, whose_states_are(kLittle)}));
}

// Whether the rows of a batch lie beside each other in memory.
bool BatchesAreSlow(const GroupShape& shape) {
  size_t nth = 0;
  for (AxisId a : shape.order) {
    if (!absl::c_linear_search(shape.rows, a)) continue;
    if (nth == shape.batch.size()) return true;
    if (!absl::c_linear_search(shape.batch, a)) return false;
    ++nth;
  }
  return true;
}

// Short rows that do not lie beside each other, which threads load: of one input few threads with
// up to five vectors each, of wider data two, and of many narrow inputs one vector. False: they are
// others, too few, or have too many states.
bool ShareApart(const SizedGroup& sized, int64_t batch_rows, Schedule& s) {
  constexpr int kMostThreads = 128, kManyInputs = 3, kMostStates = 2, kLeastTurns = 4;
  const bool narrow = sized.widest_bytes < 4;
  const int64_t vectors = VectorsOf(sized, s);
  const auto share = [&](int most_each, int threads, int ctas) {
    const int lanes = PowerOfTwoAtLeast(CeilDivide(vectors, most_each), 2 * kMostThreads);
    const int64_t each = CeilDivide(vectors, lanes);
    if (lanes > kMostThreads || lanes * each * 4 > vectors * 5) return false;
    Schedule t = s;
    GiveThreads(lanes, static_cast<int>(each), t);
    t.row_warps = threads / 32 / t.warps_per_row;
    t.min_ctas_per_sm = ctas;
    if (batch_rows < kLeastTurns * t.rows_per_cta()) return false;
    s = t;
    return true;
  };
  if (s.vector == 1 || ColumnStates(sized) > kMostStates) return false;
  if (sized.large_inputs == 1) return narrow ? share(5, 128, 4) : share(2, 256, 3);
  return sized.large_inputs >= kManyInputs && narrow && s.lanes_per_row == 32 && share(1, 256, 3);
}

}  // namespace

absl::Status ChooseBatches(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const GroupShape& shape = sized.shape;
  const int64_t batches = std::max<int64_t>(1, sized.batches);
  // A batch on its share of the machine.
  SizedGroup one = sized;
  one.rows = std::max<int64_t>(1, sized.rows / batches);
  one.context.device.sms = static_cast<int>(std::max<int64_t>(1, one.context.device.sms / batches));
  one.context.device.l2_bytes = std::max<int64_t>(1, one.context.device.l2_bytes / batches);
  SEAM_RETURN_IF_ERROR(ChooseCrossed(one, rows, s));
  s.pace = 0;
  s.tickets = false;
  // Copies bring no rows that do not lie beside each other.
  const bool apart = s.stages == 0 && s.cluster == 1 && s.persistent && !BatchesAreSlow(shape) &&
                     ShareApart(sized, one.rows, s);
  const int threads = s.threads();
  DivideBatch(one.rows, s);
  std::vector<const SymNode*> symbols;
  for (AxisId a : shape.RowsOfBatch()) {
    for (const SymNode* symbol : FreeSymbols(shape.axes.extent(a))) symbols.push_back(symbol);
  }
  AddMultiples(sized, symbols, s.rows_per_cta(), s);
  if (apart) {
    constexpr int kMostCtas = 32;
    s.min_ctas_per_sm = std::min(s.min_ctas_per_sm * threads / s.threads(), kMostCtas);
  }
  ChooseTeams(sized, s);
  return absl::OkStatus();
}

bool ChooseTeams(const SizedGroup& sized, Schedule& s) {
  const int64_t batches = std::max<int64_t>(1, sized.batches);
  const int64_t rows = std::max<int64_t>(1, sized.rows / batches);
  if (s.takes_whole_sets() && rows % s.rows_per_cta() != 0) return false;
  const int64_t resident = std::max<int64_t>(1, ResidentCtas(s, sized.context.device) / s.cluster);
  const int64_t teams = TeamsOf(sized, batches, CeilDivide(rows, s.rows_per_cta()), resident);
  s.grid = static_cast<int>(teams * s.cluster);
  return true;
}

}  // namespace seam::reduction
