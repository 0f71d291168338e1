#include "ir/reshape_blocks.h"

#include <algorithm>

namespace seam {
namespace {

constexpr size_t kMostParts = 4;

bool DivideUp(SymInt whole, absl::Span<const SymInt> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    SymInt others = 1;
    for (size_t j = 0; j < parts.size(); ++j) {
      if (j != i) others *= parts[j];
    }
    if (!others.is_valid() || others == SymInt(0)) return false;
    if (FloorDiv(whole, others).is_same(parts[i])) return true;
  }
  return false;
}

}  // namespace

absl::InlinedVector<size_t, 8> PartsOfEach(absl::Span<const SymInt> wholes,
                                           absl::Span<const SymInt> parts) {
  absl::InlinedVector<size_t, 8> ends;
  size_t at = 0;
  for (const SymInt& whole : wholes) {
    if (whole == SymInt(0)) return {};
    const size_t most = std::min(kMostParts, parts.size() - at);
    const auto are = [&](size_t n) {
      return n == 1 ? ProvablyEqual(whole, parts[at]) : DivideUp(whole, parts.subspan(at, n));
    };
    size_t n = 1;
    while (n <= most && !are(n)) ++n;
    if (n > most) return {};
    ends.push_back(at += n);
  }
  if (at != parts.size()) ends.clear();
  return ends;
}

}  // namespace seam
