#include "runtime/codegen/shared_divisions.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "scheduler/kernel/access.h"

namespace seam {
namespace {

using kernel::Map;
using kernel::Operand;

// Not by a power of two, which is one multiplication, nor zero, infinity or NaN, nor a negative
// number.
bool IsWorthSharing(double constant) {
  int exponent;
  const double significand = std::abs(std::frexp(constant, &exponent));
  return constant > 0 && significand > 0.5 && significand < 1;
}

bool Same(const Operand& a, const Operand& b) {
  return a.fragment == b.fragment &&
         (a.fragment < 0 ? a.constant.f == b.constant.f : a.slot.is_same(b.slot));
}

}  // namespace

SharedDivisions::SharedDivisions(const kernel::Kernel& kernel, const kernel::For& loop) {
  if (!loop.unrolled) return;
  absl::flat_hash_set<int> read_first, written;
  for (const kernel::Stmt& stmt : loop.body) {
    int target = -1;
    std::vector<const Operand*> operands;
    if (const auto* map = std::get_if<Map>(&stmt.node)) {
      target = map->fragment;
      for (const Operand& operand : map->arguments) operands.push_back(&operand);
    } else if (const auto* index = std::get_if<kernel::IndexValue>(&stmt.node)) {
      target = index->fragment;
    } else if (const auto* random = std::get_if<kernel::Random>(&stmt.node)) {
      target = random->fragment;
      operands = {&random->seed, &random->offset};
    } else if (const auto* store = std::get_if<kernel::Store>(&stmt.node);
               store != nullptr && store->space == kernel::Space::Shared) {
      // Others see it behind a barrier, and nothing in the loop reads it.
      if (!written.contains(store->fragment)) read_first.insert(store->fragment);
      continue;
    } else {
      return;  // Memory and other threads see what runs twice.
    }
    for (const Operand* operand : operands) {
      if (operand->fragment >= 0 && !written.contains(operand->fragment))
        read_first.insert(operand->fragment);
    }
    written.insert(target);
  }
  for (int fragment : written) {
    if (!read_first.contains(fragment)) continue;
    const kernel::Fragment& f = kernel.fragments[fragment];
    if (f.count > 1 || f.packed) return;
    carried_.push_back(fragment);
  }
  absl::c_sort(carried_);
  for (const kernel::Stmt& stmt : loop.body) {
    const auto* map = std::get_if<Map>(&stmt.node);
    if (map == nullptr || map->op != OpKind::Div) continue;
    const Operand& divisor = map->arguments[1];
    const bool constant = divisor.fragment < 0;
    if ((constant ? divisor.dtype : kernel.fragments[divisor.fragment].dtype) != DType::F32)
      continue;
    if (constant
            ? !IsWorthSharing(divisor.constant.f)
            : written.contains(divisor.fragment) || kernel::DependsOn(divisor.slot, loop.symbol)) {
      continue;
    }
    divisions_.push_back(map);
    if (absl::c_none_of(divisors_, [&](const Operand& d) { return Same(d, divisor); }))
      divisors_.push_back(divisor);
  }
}

bool SharedDivisions::Contains(const Map& map) const {
  return absl::c_linear_search(divisions_, &map);
}

}  // namespace seam
