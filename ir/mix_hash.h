// MixHash: a hash that is the same in every process and on every machine, which absl::Hash is not.
// For what is printed or decided by. Thread-safety: a pure function.
#pragma once

#include <cstdint>

namespace seam {

// `hash` with `x` mixed in; the order matters. Source: splitmix64's finalizer.
constexpr uint64_t MixHash(uint64_t hash, uint64_t x) {
  hash += x + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

}  // namespace seam
