// Two elements share a byte if a number, the distance of their tensors, is a sum of multiples of
// the strides, each up to a bound. Strides of real tensors mostly divide one another: terms then
// come together, and what is left is found by trying the multiples of the largest step first.
#include "ir/footprint.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace seam {
namespace {

constexpr int kMaxSteps = 4096;

// The same sums in as few terms as possible, by ascending steps.
Footprint::Terms Simplified(Footprint::Terms terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Footprint::Term& a, const Footprint::Term& b) { return a.step < b.step; });
  Footprint::Terms result;
  for (const Footprint::Term& term : terms) {
    if (term.step == 0 || term.count == 0) continue;
    // Multiples up to `count` reach the next multiple of a larger step: no gap is left between.
    if (!result.empty() && term.step % result.back().step == 0 &&
        term.step / result.back().step <= result.back().count + 1) {
      result.back().count += term.step / result.back().step * term.count;
    } else {
      result.push_back(term);
    }
  }
  return result;
}

class DistanceSearch {
 public:
  explicit DistanceSearch(Footprint::Terms terms) : terms_(Simplified(std::move(terms))) {
    for (const Footprint::Term& term : terms_) {
      below_.push_back({reach_, divisor_});
      reach_ += term.step * term.count;
      divisor_ = std::gcd(divisor_, term.step);
    }
  }

  // Whether `target` is a sum, or that may be.
  bool Reaches(int64_t target) { return Reaches(terms_.size(), target, reach_, divisor_); }

 private:
  // The same for sums of the first `n` terms, which come to `reach` at most and which `divisor`
  // divides.
  bool Reaches(size_t n, int64_t target, int64_t reach, int64_t divisor) {
    if (target < 0 || target > reach) return false;
    if (target == 0) return true;
    if (target % divisor != 0) return false;
    if (n == 1 || --steps_ < 0) return true;
    const Footprint::Term& largest = terms_[n - 1];
    const auto [rest, rest_divisor] = below_[n - 1];
    const int64_t least = target <= rest ? 0 : (target - rest - 1) / largest.step + 1;
    for (int64_t i = std::min(largest.count, target / largest.step); i >= least; --i) {
      if (Reaches(n - 1, target - i * largest.step, rest, rest_divisor)) return true;
    }
    return false;
  }

  const Footprint::Terms terms_;
  absl::InlinedVector<std::pair<int64_t, int64_t>, 6> below_;  // Per term: of those before it.
  int64_t reach_ = 0, divisor_ = 0;
  int steps_ = kMaxSteps;
};

}  // namespace

Footprint::Footprint(int64_t element_bytes, absl::Span<const int64_t> sizes,
                     absl::Span<const int64_t> strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  Terms terms = {{1, element_bytes - 1}};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] > 1) terms.push_back({strides[axis] * element_bytes, sizes[axis] - 1});
  }
  bytes_ = 1;
  for (const Term& term : terms) bytes_ += term.step * term.count;
  terms_ = Simplified(std::move(terms));
}

bool Footprint::Shares(const Footprint& other, int64_t distance) const {
  if (bytes_ == 0 || other.bytes_ == 0) return false;
  if (distance >= bytes_ || distance <= -other.bytes_) return false;
  // Offsets of this one plus what the other one's lack to its last.
  Terms terms = terms_;
  terms.insert(terms.end(), other.terms_.begin(), other.terms_.end());
  return DistanceSearch(std::move(terms)).Reaches(distance + other.bytes_ - 1);
}

bool ElementsOverlap(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides) {
  Footprint::Terms terms;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 0) return false;
    if (sizes[axis] > 1) terms.push_back({strides[axis], sizes[axis] - 1});
  }
  std::sort(terms.begin(), terms.end(),
            [](const Footprint::Term& a, const Footprint::Term& b) { return a.step < b.step; });
  int64_t reach = 0;
  bool nested = true;  // Each step leads beyond all smaller ones.
  for (const Footprint::Term& term : terms) {
    if (term.step == 0) return true;
    nested &= term.step > reach;
    reach += term.step * term.count;
  }
  if (nested) return false;
  // Two elements differ by steps of both signs; counted from the lowest end, those of an axis go
  // from 0 to twice its own. One axis after the other is that along which the second is ahead.
  for (size_t ahead = 0; ahead < terms.size(); ++ahead) {
    Footprint::Terms differences;
    for (size_t i = 0; i < terms.size(); ++i) {
      const int64_t count = i == ahead ? terms[i].count - 1 : 2 * terms[i].count;
      differences.push_back({terms[i].step, count});
    }
    const int64_t target = reach - terms[ahead].step * (terms[ahead].count + 1);
    if (DistanceSearch(std::move(differences)).Reaches(target)) return true;
  }
  return false;
}

}  // namespace seam
