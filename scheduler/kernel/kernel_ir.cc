// What follows from a kernel's parts: its phases, the layout of its shared memory.
#include "scheduler/kernel/kernel_ir.h"

#include <algorithm>

namespace seam::kernel {

int Kernel::NumPhases() const {
  return 1 + static_cast<int>(std::count_if(body.begin(), body.end(), [](const Stmt& stmt) {
           return std::holds_alternative<GridSync>(stmt.node);
         }));
}

int64_t Kernel::SharedOffset(int array) const {
  int64_t offset = 0;
  for (int i = 0; i < array; ++i) {
    offset += (shared[i].count * DTypeBytes(shared[i].dtype) + 15) / 16 * 16;
  }
  return offset;
}

int64_t Kernel::SharedBytes() const {
  return SharedOffset(static_cast<int>(shared.size())) +
         int64_t{8} * (copy_barriers + store_barriers);
}

}  // namespace seam::kernel
