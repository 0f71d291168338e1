#include "scheduler/kernel/block_writer.h"

#include "absl/strings/str_cat.h"

namespace seam::kernel {

int BlockWriter::NewFragment(absl::string_view name, DType dtype, int count, bool packed) {
  const int id = static_cast<int>(kernel_->fragments.size());
  kernel_->fragments.push_back({absl::StrCat(name, "_", id), dtype, count, packed});
  return id;
}

int BlockWriter::NewShared(absl::string_view name, DType dtype, int64_t count) {
  const int id = static_cast<int>(kernel_->shared.size());
  kernel_->shared.push_back({absl::StrCat(name, "_", id), dtype, count});
  return id;
}

}  // namespace seam::kernel
