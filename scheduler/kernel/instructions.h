// What operations cost in a kernel. Thread-safety: pure functions.
#pragma once

#include "ir/ops.h"

namespace seam::kernel {

// Instructions of one operation in f32. Source: size of the text that NVRTC 13.0 makes for sm_90,
// out-of-line parts without.
int InstructionsOf(OpKind op);

}  // namespace seam::kernel
