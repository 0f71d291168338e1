// Columns apart: tensors that share no columns, whose sums only single numbers bring together, as
// the norm of all gradients does. CTAs that share a row would go through them one after the other,
// with an exchange between warps for each; so each tensor's columns have CTAs of their own, all at
// once. Of few or short ones a barrier of the grid costs more. Source: docs/schedulers/islands.md,
// "Columns apart".
#include <algorithm>
#include <vector>

#include "ir/status.h"
#include "scheduler/choose.h"
#include "scheduler/column_parts.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/side_by_side.h"
#include "scheduler/trace.h"

namespace seam::reduction {
namespace {

struct PartColumns {
  int64_t number;
  bool known;  // Whatever the sizes.
};
absl::StatusOr<std::vector<PartColumns>> ColumnsOfParts(const SizedGroup& sized) {
  std::vector<PartColumns> columns;
  for (const ColumnPart& part : ColumnPartsOf(sized.shape)) {
    SEAM_ASSIGN_OR_RETURN(const int64_t value, ValueOf(sized, part.columns));
    columns.push_back({value, part.columns.is_constant()});
  }
  return columns;
}

}  // namespace

absl::StatusOr<bool> ChooseColumnsApart(const SizedGroup& sized, Schedule& s) {
  constexpr int64_t kLeastParts = 8, kLeastShortParts = 64, kShortColumns = 8192;
  constexpr int kWarps = 8, kMostSplit = 128, kMostTurns = 4, kBusyWords = 16;
  constexpr int64_t kMostStates = 7680;  // Of all parts: registers of the warp that merges them.
  const GroupShape& shape = sized.shape;
  const DeviceInfo& device = sized.context.device;
  if (shape.outer || shape.crossed() || shape.unrolls || shape.sections.size > 1 ||
      shape.points > 1 || !shape.merged.empty() || shape.max_depth == 0) {
    return false;
  }
  SEAM_ASSIGN_OR_RETURN(const std::vector<PartColumns> columns, ColumnsOfParts(sized));
  const auto parts = static_cast<int64_t>(columns.size());
  if (parts < (sized.columns > kShortColumns ? kLeastParts : kLeastShortParts)) return false;
  const bool one_row = shape.rows.empty();
  if (!one_row && sized.rows * parts > device.sms) return false;
  Schedule apart;
  apart.kind = s.kind;
  SEAM_RETURN_IF_ERROR(ChooseVector(sized, std::clamp(16 / sized.narrowest_bytes, 1, 8), apart));
  apart.columns_apart = true;
  apart.lanes_per_row = 32;
  apart.warps_per_row = kWarps;
  const double words = sized.input_words / static_cast<double>(parts) * apart.vector;
  apart.registers = std::clamp(static_cast<int>(kBusyWords / std::max(words, 1.0)), 1, 4);
  // All at once, if nobody has much to do then.
  const int64_t steps = CeilDivide(sized.columns, apart.columns_per_step());
  const auto ctas = [&](int64_t split) {
    int64_t sum = 0;
    for (const auto& [n, known] : columns) {
      const int64_t needed = CeilDivide(n, apart.columns_per_step() / apart.registers);
      sum += one_row && known ? std::clamp<int64_t>(needed, 1, split) : sized.rows * split;
    }
    return sum;
  };
  const int64_t most = std::clamp<int64_t>(CeilDivide(steps, 2), 2,
                                           std::clamp<int64_t>(kMostStates / parts, 2, kMostSplit));
  // A thread that merges has a state or more of each part.
  constexpr int kRegisters = 65536 / (32 * kWarps), kOtherRegisters = 40, kMostCtas = 4;
  Schedule at_once = apart;
  at_once.one_launch = true;
  at_once.split = static_cast<int>(most);
  const auto fits = [&] {
    const int64_t taken = parts * CeilDivide(at_once.split, 32) + kOtherRegisters;
    at_once.min_ctas_per_sm =
        static_cast<int>(std::clamp<int64_t>(kRegisters / taken, 1, kMostCtas));
    return ctas(at_once.split) <= ResidentCtas(at_once, device);
  };
  while (!fits() && at_once.split > 2) --at_once.split;
  apart.split = static_cast<int>(most);
  apart.min_ctas_per_sm = kMostCtas;
  const Fusion& group = *sized.group;
  const size_t parameters = group.inputs().size() + group.outputs().size() +
                            2 * (PartialSlots(group, shape).size() + group.env().symbols().size()) +
                            columns.size() + 4;
  const bool has_room = parameters * sizeof(int64_t) <= kMaxParameterBytes;
  if (has_room && fits() && CeilDivide(steps, at_once.split) <= kMostTurns) apart = at_once;
  s = apart;
  return true;
}

}  // namespace seam::reduction
