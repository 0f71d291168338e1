// HeldSteps: what CTAs that share rows may leave in shared memory from one phase of a launch to the
// next, and for how many steps of each there is room.
//
// Thread-safety: immutable once built.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/choose.h"
#include "scheduler/kernel/expand.h"
#include "scheduler/trace.h"

namespace seam {

// Of each of the kernels, which run one after the other: loads of inputs, at a row and column of a
// space that CTAs share, that several of them make. The first one leaves what the others find.
std::vector<std::vector<kernel::HeldLoad>> FindHeldLoads(absl::Span<const TracedKernel> kernels);

class HeldSteps {
 public:
  // With the facts and the alignment of `s`. Errors: those of Trace.
  static absl::StatusOr<HeldSteps> Of(const SizedGroup& sized, const Schedule& s);

  // How many steps a CTA has room for, where the device holds all CTAs at once; at most those that
  // there are.
  int Most(const Schedule& s) const;
  // What share of all columns that is.
  double Share(const Schedule& s, int steps) const;

 private:
  int64_t ColumnsOfCta(const Schedule& s) const { return CeilDivide(columns_, s.split); }
  HeldSteps(const SizedGroup& sized, absl::Span<const TracedKernel> kernels);

  int64_t rows_, columns_;
  DeviceInfo device_;
  int64_t point_bytes_ = 0;  // Of all loads that stay.
  // Of the states of a row: their bytes, and whether they are merged from others.
  std::vector<std::pair<int64_t, bool>> components_;
};

}  // namespace seam
