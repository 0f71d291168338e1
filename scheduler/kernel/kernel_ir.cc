// What follows from a kernel's parts: its phases, the layout of its shared memory.
#include "scheduler/kernel/kernel_ir.h"

#include <algorithm>

namespace seam::kernel {
namespace {

bool TakesTicketsIn(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Stmt& stmt) {
    if (const For* loop = std::get_if<For>(&stmt.node)) return TakesTicketsIn(loop->body);
    if (const If* branch = std::get_if<If>(&stmt.node))
      return TakesTicketsIn(branch->body) || TakesTicketsIn(branch->otherwise);
    return std::holds_alternative<TakeTicket>(stmt.node);
  });
}

}  // namespace

bool Kernel::TakesTickets() const { return TakesTicketsIn(body); }

int Kernel::NumPhases() const {
  return 1 + static_cast<int>(std::count_if(body.begin(), body.end(), [](const Stmt& stmt) {
           return std::holds_alternative<GridSync>(stmt.node);
         }));
}

int64_t Kernel::SharedOffset(int array) const {
  const auto up = [](int64_t offset, int64_t multiple) {
    return (offset + multiple - 1) / multiple * multiple;
  };
  int64_t offset = 0;
  for (int i = 0; i < array; ++i) {
    offset = up(offset, shared[i].alignment);
    offset = up(offset + shared[i].count * DTypeBytes(shared[i].dtype), 16);
  }
  const bool is_array = array < static_cast<int>(shared.size());
  return is_array ? up(offset, shared[array].alignment) : offset;
}

int64_t Kernel::SharedBytes() const {
  return SharedOffset(static_cast<int>(shared.size())) +
         int64_t{8} * (copy_barriers + store_barriers);
}

}  // namespace seam::kernel
