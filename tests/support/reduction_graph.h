// Random graphs full of reductions: pointwise expressions, sums over some of the axes, and values
// from which sums over other axes are taken off. Here the cuts are hard to choose.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"

namespace seam {

class ReductionGraph {
 public:
  // About `num_exprs` expressions; broadcasts are not counted.
  ReductionGraph(uint32_t seed, int num_exprs)
      : rng_(seed * 2654435761u + 17), b_("random"), num_exprs_(num_exprs) {}

  absl::StatusOr<Fusion> Make() {
    const int rank = Below(4) == 0 ? 3 : 2;
    for (int d = 0; d < rank; ++d) extents_.push_back(SymInt(int64_t{64} << (2 * Below(3))));
    if (rank == 3) extents_[2] = SymInt(32);
    const int inputs = 1 + static_cast<int>(Below(3));
    for (int i = 0; i < inputs; ++i) {
      vals_.push_back({b_.Input(absl::StrCat("x", i), DType::F32, extents_), All()});
    }
    while (count_ < num_exprs_) AddExpr();
    // What nobody reads is returned, and now and then something that is read.
    for (size_t i = static_cast<size_t>(inputs); i < vals_.size(); ++i) {
      if (!vals_[i].read || Below(8) == 0) b_.Output(vals_[i].v);
    }
    return b_.Finish();
  }

 private:
  struct Val {
    ValId v;
    std::vector<bool> axes;  // Which of the extents it has.
    bool read = false;
  };
  uint32_t Below(uint32_t n) { return rng_() % n; }
  std::vector<bool> All() const { return std::vector<bool>(extents_.size(), true); }
  size_t Pick() {  // Recent values more often.
    const uint32_t n = static_cast<uint32_t>(vals_.size());
    return Below(2) == 0 ? n - 1 - Below(std::min<uint32_t>(n, 4)) : Below(n);
  }
  void Push(ValId v, std::vector<bool> axes) {
    ++count_;
    vals_.push_back({v, std::move(axes)});
  }
  // `x` with dimensions of size 1 for what it has not of `axes`.
  ValId Spread(const Val& x, const std::vector<bool>& axes) {
    AxisVector missing;
    for (size_t d = 0, position = 0; d < axes.size(); ++d) {
      if (!axes[d]) continue;
      if (!x.axes[d]) missing.push_back(static_cast<int32_t>(position));
      ++position;
    }
    return missing.empty() ? x.v : b_.Broadcast(x.v, missing);
  }
  // A sum over a random part of the axes of vals_[i].
  void AddSum(size_t i) {
    std::vector<bool> kept = vals_[i].axes;
    AxisVector axes;
    for (size_t d = 0, position = 0; d < kept.size(); ++d) {
      if (!kept[d]) continue;
      if (Below(2) == 0) {
        axes.push_back(static_cast<int32_t>(position));
        kept[d] = false;
      }
      ++position;
    }
    if (axes.empty()) return;
    vals_[i].read = true;
    Push(b_.Reduce(OpKind::Sum, vals_[i].v, axes), kept);
  }
  void AddBinary(size_t i, size_t j) {
    std::vector<bool> axes = vals_[i].axes;
    for (size_t d = 0; d < axes.size(); ++d) axes[d] = axes[d] || vals_[j].axes[d];
    vals_[i].read = vals_[j].read = true;
    const ValId a = Spread(vals_[i], axes), b = Spread(vals_[j], axes);
    Push(Below(2) == 0 ? b_.Sub(a, b) : b_.Mul(a, b), axes);
  }
  void AddExpr() {
    const size_t i = Pick();
    const uint32_t choice = Below(10);
    if (choice < 2) {
      vals_[i].read = true;
      Push(b_.Op(Below(2) == 0 ? OpKind::Exp : OpKind::Tanh, {vals_[i].v}), vals_[i].axes);
    } else if (choice < 5) {
      AddBinary(i, Pick());
    } else if (choice < 7) {
      AddSum(i);
    } else {  // A sum taken off what it is the sum of.
      const size_t before = vals_.size();
      AddSum(i);
      if (vals_.size() > before && count_ < num_exprs_) AddBinary(i, before);
    }
  }

  std::mt19937 rng_;
  FusionBuilder b_;
  int num_exprs_, count_ = 0;
  SymVector extents_;
  std::vector<Val> vals_;
};

}  // namespace seam
