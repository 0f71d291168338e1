// Dense typed ids: an index that cannot be confused with the index of something else.
// A default-constructed id is invalid. Order and hash are those of the index.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace seam {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(uint32_t index) : index_(index) {}
  constexpr uint32_t index() const { return index_; }
  constexpr bool valid() const { return index_ != kInvalid; }
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id, Id) = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.index_);
  }

 private:
  static constexpr uint32_t kInvalid = 0xffffffffu;
  uint32_t index_ = kInvalid;
};

using ValId = Id<struct ValTag>;
using ExprId = Id<struct ExprTag>;

}  // namespace seam
