#include "scheduler/kernel/kept_window.h"

#include <optional>

namespace seam::kernel {

KeptWindow KeptWindowOf(SymInt kept, SymInt inner, int vector, int64_t columns, int64_t registers) {
  KeptWindow window;
  const std::optional<int64_t> period = (kept * inner).maybe_int();
  window.by_step = !period || columns / registers % *period != 0;
  window.columns = window.by_step ? columns : columns / registers;
  if (ProvablyDivisible(inner, vector)) window.per_state = vector;
  return window;
}

}  // namespace seam::kernel
