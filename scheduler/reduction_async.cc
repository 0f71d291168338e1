// Rows along the columns that threads load themselves: whether they bring them to shared memory
// instead, the next turn's while they work on this one's, or all that a CTA has, which leaves the
// registers to more CTAs. Which do was timed: docs/schedulers.md.
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

// Bytes that lie together, at the least: threads bring each sector by itself, which takes several
// times as long where they want a part of it.
constexpr int64_t kLeastPieceBytes = 128;

// The next turn's, of rows in pieces, or with states of columns. Wider data of several CTAs an SM
// are under way in these in any case, and so are two inputs of clusters; in many turns CTAs that
// load and such that compute come to alternate.
bool GainsAhead(const SizedGroup& sized, const Schedule& s) {
  constexpr int64_t kFewTurns = 8;
  const int64_t at_once = s.rows_at_once();
  if (sized.rows <= at_once) return false;
  if (!sized.shape.crossed()) return sized.large_inputs == 1 && sized.run < sized.columns;
  return sized.widest_bytes < 4 || (s.min_ctas_per_sm == 1 && sized.rows <= kFewTurns * at_once);
}

}  // namespace

void ChooseAsync(const SizedGroup& sized, const KeptRows& rows, Schedule& s) {
  if (s.outer || !s.persistent || s.vector == 1 || s.shift || s.stages > 0 || s.blocks ||
      sized.run * sized.narrowest_bytes < kLeastPieceBytes) {
    return;
  }
  const DeviceInfo& device = sized.context.device;
  const auto bytes = static_cast<int64_t>(
      static_cast<double>(s.rows_per_cta() * s.columns_per_step()) * sized.input_words * 4);
  const int64_t of_cta = bytes + kOtherSharedBytes + rows.KeptBytes(s);
  const int64_t room = device.smem_bytes_per_cta;
  if (s.grid > 0) {
    s.async = GainsAhead(sized, s) && of_cta * std::max(1, s.min_ctas_per_sm) <= room;
    return;
  }
  const bool whole = s.vector * sized.widest_bytes == 16;
  if (sized.widest_bytes >= 4 || !whole || sized.large_inputs != 1 || sized.shape.crossed() ||
      bytes < kLeastStaying || of_cta > room ||
      CeilDivide(sized.rows, s.rows_per_cta()) > kMostStaying * device.sms) {
    return;
  }
  s.async = s.reread = true;
  const int64_t by_registers = device.registers_per_sm / (s.threads() * kStayingRegisters);
  s.min_ctas_per_sm = static_cast<int>(std::max<int64_t>(1, std::min(room / of_cta, by_registers)));
}

}  // namespace seam::reduction
