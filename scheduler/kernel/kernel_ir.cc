// The layout of a kernel's shared memory.
#include "scheduler/kernel/kernel_ir.h"

namespace seam::kernel {

int64_t Kernel::SharedOffset(int array) const {
  int64_t offset = 0;
  for (int i = 0; i < array; ++i) {
    offset += (shared[i].count * DTypeBytes(shared[i].dtype) + 15) / 16 * 16;
  }
  return offset;
}

int64_t Kernel::SharedBytes() const { return SharedOffset(static_cast<int>(shared.size())); }

}  // namespace seam::kernel
