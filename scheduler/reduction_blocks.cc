// Short rows through shared memory, many of them together.
#include <algorithm>

#include "absl/status/statusor.h"
#include "ir/status.h"
#include "scheduler/kernel/hold.h"
#include "scheduler/kernel/row_blocks.h"
#include "scheduler/reduction_arrangements.h"
#include "scheduler/reduction_share.h"

namespace seam::reduction {
namespace {

// Blocks of rows that CTAs take in turn: copies bring the next ones, if all are multiples of 16
// bytes. A thread has more of a row than where others hide its loads, and with the states and the
// weights of its columns no more than was timed (docs/schedulers/single-elements.md, "Blocks of
// rows that leave states").
absl::StatusOr<bool> ChooseBlocksAhead(const SizedGroup& sized, Schedule& s) {
  constexpr int kWideBytes = 16, kRowWords = 64, kWarps = 4, kCtas = 3;
  // Single elements take registers for their places, too.
  constexpr double kAllWords = 160, kAllSingleWords = 130;
  constexpr int64_t kMostColumns = 768;
  const DeviceInfo& device = sized.context.device;
  if (!sized.shape.crossed() || device.max_cluster == 1 ||
      s.vector * sized.widest_bytes >= kWideBytes)
    return false;
  Schedule a = s;
  AddDivisibility(sized, 16 / sized.narrowest_bytes, a);
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, a));
  const int words = std::max(1, sized.widest_bytes / 4) * std::max(1, sized.large_inputs);
  const int states = ColumnStates(sized);
  if (states > 0 && sized.columns > kMostColumns) return false;
  a.row_warps = kWarps;
  a.min_ctas_per_sm = kCtas;
  const int64_t room = device.smem_bytes_per_cta / kCtas - kOtherSharedBytes;
  for (a.lanes_per_row = 1; a.lanes_per_row <= 32; a.lanes_per_row *= 2) {
    a.registers = static_cast<int>(CeilDivide(sized.columns, int64_t{a.lanes_per_row} * a.vector));
    const int64_t stage = rows.StageBytes(a);
    const int points = a.registers * a.vector;
    const double all_words = points * (words + states + rows.AlikeWords());
    if (points * words > kRowWords || stage == 0 ||
        (states > 0 && all_words > (a.vector == 1 ? kAllSingleWords : kAllWords)) ||
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

}  // namespace

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
  const bool states = ColumnStates(sized) > 0;
  const int64_t pieces = sized.columns / sized.run;
  // Of one narrow input without weights vectors of 8 bytes keep less under way than blocks do.
  const bool eight_bytes = s.vector * sized.widest_bytes == 8 && sized.widest_bytes < 4 &&
                           sized.large_inputs == 1 && !states && pieces == 1;
  // Longer rows have few ends beside the body of vectors that they have when shifted.
  constexpr int64_t kMostColumns = 256, kMostEightBytes = 512;
  const int64_t shifted = kShiftedVectors * (16 / sized.narrowest_bytes);
  const bool is_long = pieces == 1 && sized.columns >= (eight_bytes               ? kMostEightBytes
                                                        : states || s.vector == 1 ? shifted
                                                                                  : kMostColumns);
  if (is_long && !states) return false;
  Schedule b = s;
  b.blocks = b.persistent = true;
  PinColumns(sized, b);
  if (pieces > 1) {
    // A block's pieces begin at multiples of 16 bytes if the number of rows allows.
    AddDivisibility(sized, 16 / sized.narrowest_bytes, b);
  }
  if (pieces == 1) {
    SEAM_ASSIGN_OR_RETURN(const bool ahead, ChooseBlocksAhead(sized, b));
    if (ahead) {
      s = b;
      return true;
    }
  }
  if (is_long) return false;
  if (s.vector * sized.widest_bytes >= kWideBytes && !eight_bytes) return false;
  SEAM_ASSIGN_OR_RETURN(const KeptRows rows, KeptRows::Of(sized, b));
  if (eight_bytes && rows.AlikeWords() > 0) return false;
  // Of an element: itself, states of its column, and weights, half of which are on their way. Many
  // narrow ones lie several in a word.
  const bool packed = pieces > 1 && sized.run > kernel::kMostKeptWords;
  const double element_words =
      packed ? sized.widest_bytes / 4.0 : std::max(1, sized.widest_bytes / 4);
  const double row_words = element_words * std::max(1, sized.large_inputs);
  const double column_words = ColumnStates(sized) + rows.AlikeWords() / 2;
  const auto words = [&] {
    return b.registers * b.vector * ((b.reread ? 0 : row_words) + column_words);
  };
  const auto fits = [&] {
    const int64_t block = rows.BlockBytes(b), bytes = block + rows.StateBytes(b);
    const int64_t room = device.smem_bytes_per_cta / (bytes + kOtherSharedBytes / 4);
    if (block == 0 || bytes + kOtherSharedBytes > device.smem_bytes_per_cta) return false;
    const auto ctas = static_cast<int64_t>(65536 / (b.threads() * (words() + kBesideWords)));
    b.min_ctas_per_sm = static_cast<int>(
        std::clamp<int64_t>(std::min(ctas, room), 1, device.max_threads_per_sm / b.threads()));
    s = b;
    // What would not be under way at once in registers.
    const int64_t vectors = CeilDivide(b.rows_per_cta() * sized.columns * sized.narrowest_bytes,
                                       int64_t{kernel::kMoveBytes} * b.threads());
    s.async = device.async_loads && vectors * sized.large_inputs > kernel::kMostUnderWay;
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

}  // namespace seam::reduction
