#include "scheduler/reduction_share.h"

#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "scheduler/lower.h"
#include "scheduler/workload.h"

namespace seam::reduction {

absl::Span<const Share> SharesFor(const SizedGroup& sized) {
  static constexpr Share kNarrow[] = {{4, 8, 768}, {2, 1, 128}, {8, 1, 1024}, {2, 1, 512}};
  static constexpr Share kWide[] = {
      {2, 1, 256}, {4, 1, 768}, {8, 1, 512}, {4, 1, 1024}, {8, 1, 1024}};
  return sized.widest_bytes < 4 ? absl::MakeConstSpan(kNarrow) : kWide;
}

bool HasWideWeights(const SizedGroup& sized, const KeptRows& rows) {
  return sized.widest_bytes < 4 && rows.AlikeBytes() > sized.widest_bytes;
}

int RegistersFor(const DeviceInfo& device, int threads) {
  constexpr int kSchedulers = 4;
  const auto warps = static_cast<int>(CeilDivide(threads, 32 * kSchedulers));
  return device.registers_per_sm / (kSchedulers * 32 * warps);
}

int CtasOfRegisters(const DeviceInfo& device, int threads, double need, int most_registers,
                    int most) {
  const auto registers = [&](int ctas) {
    return std::min(RegistersFor(device, ctas * threads) / 8 * 8, most_registers);
  };
  int ctas = 0;
  while (ctas < most && need <= registers(ctas + 1)) ++ctas;
  return ctas;
}

bool HoldsRow(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  return ShareRow(rows, VectorsOf(sized, s), SharesFor(sized), s);
}

bool FitsCta(const SizedGroup& sized, const KeptRows& rows, Schedule s) {
  if (!HoldsRow(sized, rows, s)) return false;
  const int threads = s.threads() <= 512 ? 1024 : s.threads();
  return rows.Words(s.registers, s) + kAheadRegisters <=
         RegistersFor(sized.context.device, threads);
}

bool WritesColumns(const SizedGroup& sized) {
  const GroupShape& shape = sized.shape;
  return absl::c_any_of(sized.group->outputs(),
                        [&](ValId v) { return !shape.Columns(shape.axes.axes(v)).empty(); });
}

bool IsForSteps(const SizedGroup& sized, const KeptRows& rows, const Schedule& s) {
  constexpr int64_t kLeastColumns = 12288, kLeastOnlineVectors = 64, kRowsOfSm = 8;
  const GroupShape& shape = sized.shape;
  Schedule steps = s;
  steps.persistent = false;
  const bool online = rows.GainsOnline(steps);
  const bool are_long =
      online ? VectorsOf(sized, s) > kLeastOnlineVectors : sized.columns > kLeastColumns;
  if (!are_long || sized.run < sized.columns || sized.rows < kRowsOfSm * sized.context.device.sms)
    return false;
  // Beside weights of the columns, which every row reads again, a short row in registers costs less
  // than the exponentials that make one pass of two.
  constexpr int64_t kShortBesideWeights = 4096;
  if (online && rows.AlikeWords() > 0 && sized.columns <= kShortBesideWeights) return false;
  // What waits for what rows are reduced to goes over them again, but for sums beside a maximum.
  int again = 0;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    const ExprId e(i);
    const size_t v = sized.group->result(e, 0).index();
    if (!shape.folds[i] || shape.finished[v]) continue;
    if (shape.depth[v] > 2) return false;
    again += shape.depth[v] == 2;
  }
  return !WritesColumns(sized) && again <= (online ? rows.online_sums() : 0);
}

bool IsOneInputWithStates(const SizedGroup& sized) {
  const int states = ColumnStates(sized);
  if (states == 0 || states > 2 || sized.large_inputs != 1) return false;
  for (uint32_t i = 0; i < sized.group->num_exprs(); ++i) {
    const ExprId e(i);
    if (sized.shape.crosses[i] == Crossing::kRows &&
        DTypeBytes(sized.group->dtype(sized.group->result(e))) > 4) {
      return false;
    }
  }
  return true;
}

int ThreadsFor(int64_t vectors, int registers) {
  const int64_t threads = CeilDivide(vectors, registers);
  return threads < 32 ? PowerOfTwoAtLeast(threads, 32)
                      : static_cast<int>(CeilDivide(threads, 32) * 32);
}

void GiveThreads(int threads, int registers, Schedule& s) {
  s.registers = registers;
  s.lanes_per_row = std::min(threads, 32);
  s.warps_per_row = static_cast<int>(CeilDivide(threads, 32));
}

bool ShareRow(const KeptRows& rows, int64_t vectors, absl::Span<const Share> shares, Schedule& s) {
  for (bool wasteful : {false, true}) {
    for (const Share& share : shares) {
      if (rows.Words(share.registers, s) > kMostWords) continue;
      const int64_t threads = ThreadsFor(vectors, share.registers);
      if (threads < share.least || threads > share.most) continue;
      if (!wasteful && threads * share.registers * 4 > vectors * 5) continue;
      GiveThreads(static_cast<int>(threads), share.registers, s);
      return true;
    }
  }
  return false;
}

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

void FitKept(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  const int64_t room = sized.context.device.smem_bytes_per_cta - kOtherSharedBytes;
  while (rows.StateBytes(s) > room) {
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
  if (const int64_t bytes = rows.StateBytes(s); bytes > 0) {
    const int64_t fit = sized.context.device.smem_bytes_per_cta / (bytes + kOtherSharedBytes);
    s.min_ctas_per_sm =
        static_cast<int>(std::clamp<int64_t>(fit, 1, std::max(1, s.min_ctas_per_sm)));
  }
}

int64_t SmSharedBytes(const DeviceInfo& device) {
  return device.smem_bytes_per_cta + kDriverSharedBytes;
}

bool HasRoom(const SizedGroup& sized, const Schedule& s, bool any) {
  const absl::StatusOr<LaunchPlan> plan = Lower(*sized.group, s);
  if (!plan.ok()) return false;
  // Of several some may finish states in the same kernel.
  const int ctas = any ? 1 : std::max(1, s.min_ctas_per_sm);
  const int64_t beside = any ? kDriverSharedBytes : kOtherSharedBytes;
  return absl::c_all_of(plan->launches, [&](const KernelLaunch& launch) {
    return (launch.kernel.SharedBytes() + beside) * ctas <= SmSharedBytes(sized.context.device);
  });
}

int StateWords(const SizedGroup& sized) {
  return StateWords(sized, [](ExprId) { return true; });
}

int StateWords(const SizedGroup& sized, absl::FunctionRef<bool(ExprId)> of) {
  const Fusion& group = *sized.group;
  int words = 0;
  for (uint32_t i = 0; i < group.num_exprs(); ++i) {
    const ExprId e(i);
    if (!of(e)) continue;
    const OpClass c = group.info(e).op_class;
    if (c == OpClass::Welford) words += 2;  // Of rows that are held, mean and squares.
    if (c == OpClass::Reduction) words += kernel::NumComponents(group.op(e));
  }
  return words;
}

int RowWords(const SizedGroup& sized) {
  return static_cast<int>(sized.group->inputs().size()) - sized.large_inputs + StateWords(sized);
}

void LieAlongRows(const SizedGroup& sized, int bytes, Schedule& s) {
  const int even = s.neighbours & -s.neighbours;
  s.row_warps = s.neighbours / even;
  // An odd number of neighbours that many warps side by side merge: twice as long pieces.
  constexpr int kManyWarps = 7;
  if (even == 1 && s.row_warps >= kManyWarps) bytes *= 2;
  const int row_vector = s.vector * s.row_warps;
  const int lanes = PowerOfTwoAtLeast(CeilDivide(bytes, row_vector * sized.widest_bytes), 32);
  // Of rows that are few to lie beside each other a warp has no others, which lie elsewhere.
  const bool few = s.neighbours == 1 && sized.beside * sized.narrowest_bytes < kSectorBytes;
  const int64_t near = few ? std::min(sized.beside, sized.rows) : sized.rows;
  const int enough = PowerOfTwoAtLeast(CeilDivide(near, row_vector), lanes);
  s.lanes_per_row = 32 / std::min(32, std::max(enough, even / std::min(even, s.vector)));
}

int64_t OuterCtas(const SizedGroup& sized, const Schedule& s) {
  return CeilDivide(sized.rows, s.rows_per_cta()) * s.cluster;
}

}  // namespace seam::reduction
