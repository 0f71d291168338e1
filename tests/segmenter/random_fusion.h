// Random graphs over all classes of operations, small enough to segment thousands of them.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"

namespace seam {

class RandomFusion {
 public:
  enum class Sizes { kAny, kLarge };  // kLarge: no scalars among the inputs, extents that weigh.
  // kChain: most expressions read the value before. kParts: several graphs side by side.
  enum class Shape { kAny, kChain, kParts };
  RandomFusion(uint32_t seed, int num_ops, Sizes sizes = Sizes::kAny, Shape shape = Shape::kAny)
      : rng_(seed), b_("random"), num_ops_(num_ops), sizes_(sizes), shape_(shape) {}

  absl::StatusOr<Fusion> Make() {
    extents_ = {b_.Symbol("M", 1, 4096),
                b_.Symbol("N", 1, 4096),
                SymInt(4),
                SymInt(6),
                SymInt(1),
                SymInt(24)};
    int inputs = 1 + Below(4);
    if (sizes_ == Sizes::kLarge) {
      extents_ = {SymInt(1024), SymInt(2048), SymInt(512), SymInt(96), SymInt(1024), SymInt(24)};
      inputs = 1 + Below(2);
    }
    AddInputs(inputs);
    for (int i = 0; i < num_ops_; ++i) {
      if (shape_ == Shape::kParts && i > 0 && Below(6) == 0) {
        part_ = vals_.size();
        AddInputs(1);
      }
      AddOp();
    }
    // Some results are returned, most often those that nobody reads; at least one.
    for (size_t i = inputs; i < vals_.size(); ++i) {
      if (IsInput(i)) continue;
      if (Below(i + 3 > vals_.size() ? 2 : 8) == 0 || i + 1 == vals_.size() || IsInput(i + 1)) {
        b_.Output(vals_[i]);
      }
    }
    return b_.Finish();
  }

 private:
  uint32_t Below(uint32_t n) { return rng_() % n; }
  void AddInputs(int count) {
    const int least_rank = sizes_ == Sizes::kLarge ? 2 : 0;
    for (; count > 0; --count) {
      SymVector sizes;
      for (int rank = least_rank + Below(4 - least_rank); rank > 0; --rank)
        sizes.push_back(extents_[Below(6)]);
      inputs_.push_back(vals_.size());
      vals_.push_back(b_.Input(absl::StrCat("x", inputs_.size() - 1), DType::F32, sizes));
    }
  }
  bool IsInput(size_t i) const {
    return std::find(inputs_.begin(), inputs_.end(), i) != inputs_.end();
  }
  ValId Pick() {  // Recent values of the part more often, so that graphs are deep.
    const size_t n = vals_.size() - part_;
    if (shape_ == Shape::kChain && Below(8) != 0) return vals_.back();
    return vals_[part_ + (Below(2) == 0 ? n - 1 - Below(std::min<uint32_t>(n, 4)) : Below(n))];
  }
  AxisVector SomeAxes(int rank) {
    AxisVector axes;
    for (int d = 0; d < rank; ++d) {
      if (Below(2) == 0) axes.push_back(d);
    }
    if (axes.empty()) axes.push_back(static_cast<int32_t>(Below(rank)));
    return axes;
  }
  ValId Like(ValId v) {  // A value that goes with `v` in an elementwise expression.
    for (int attempt = 0; attempt < 8; ++attempt) {
      const ValId w = Pick();
      if (b_.rank(w) == 0) return w;
      if (b_.rank(w) != b_.rank(v)) continue;
      bool fits = true;
      for (int d = 0; d < b_.rank(v); ++d) {
        const SymInt x = b_.extent(v, d), y = b_.extent(w, d);
        fits &= x == y || x == SymInt(1) || y == SymInt(1);
      }
      if (fits) return w;
    }
    return v;
  }

  void AddOp() {
    const ValId v = Pick();
    const int rank = b_.rank(v);
    ValId r;
    const uint32_t choice = Below(28);
    if (choice < 6) {
      r = b_.Op(Below(2) == 0 ? OpKind::Exp : OpKind::Tanh, {v});
    } else if (choice < 11) {
      r = b_.Add(v, Like(v));
    } else if (choice < 14 && rank > 0) {
      r = b_.Reduce(OpKind::Sum, v, SomeAxes(rank));
    } else if (choice < 16 && rank > 0) {  // Statistics taken off, by a sum or by Welford.
      const AxisVector axes = SomeAxes(rank);
      const ValId mean = Below(2) == 0 ? b_.Welford(v, axes) : b_.Reduce(OpKind::Sum, v, axes);
      vals_.push_back(mean);
      r = b_.Sub(v, b_.Broadcast(mean, axes));
    } else if (choice == 16) {
      r = b_.Mul(v, b_.Constant(0.5, DType::F32));
    } else if (choice == 17) {
      r = b_.Cast(b_.Cast(v, DType::F16), DType::F32);
    } else if (choice == 18 && rank > 1) {
      AxisVector order;
      for (int d = 0; d < rank; ++d) order.push_back(d);
      std::shuffle(order.begin(), order.end(), rng_);
      r = b_.Permute(v, order);
    } else if (choice == 19 && rank > 0) {
      r = Reshape(v);
    } else if (choice == 20 && rank > 0) {
      Attributes a;
      a.axes = {static_cast<int32_t>(Below(rank))};
      r = b_.Op(OpKind::Flip, {v}, a);
    } else if (choice == 21 && rank > 0) {
      Attributes a;
      const int axis = static_cast<int>(Below(rank));
      for (int d = 0; d < rank; ++d) {
        a.start.push_back(0);
        a.stop.push_back(b_.extent(v, d));
        a.step.push_back(1);
      }
      if (b_.extent(v, axis) == SymInt(24)) a.stop[axis] = 4;
      r = b_.Op(OpKind::Slice, {v}, a);
    } else if (choice == 22 && rank > 0) {
      Attributes a;
      a.axes = {static_cast<int32_t>(Below(rank))};
      r = b_.Op(OpKind::Cat, {v, v}, a);
    } else if (choice == 23 && rank > 0) {
      Attributes iota, select;
      iota.sizes = {SymInt(4)};
      iota.axes = {0};
      iota.dtype = DType::I64;
      select.axes = {static_cast<int32_t>(Below(rank))};
      r = b_.Op(OpKind::IndexSelect, {v, b_.Op(OpKind::Iota, {}, iota)}, select);
    } else if (choice == 24 && rank < 3) {
      r = b_.Broadcast(v, {static_cast<int32_t>(Below(rank + 1))});
      if (Below(2) == 0) {
        SymVector sizes;
        for (int d = 0; d < b_.rank(r); ++d) {
          sizes.push_back(b_.extent(r, d) == SymInt(1) ? extents_[Below(6)] : b_.extent(r, d));
        }
        r = b_.Expand(r, sizes);
      }
    } else if (choice == 25 && rank == 2 && b_.extent(v, 0) == b_.extent(v, 1)) {
      r = b_.Op(OpKind::Matmul, {v, v});
    } else if (choice == 26 && Below(4) == 0) {
      r = b_.Op(OpKind::SegmentSet, {v});
    } else if (choice == 27) {
      const ValId seed = b_.IntConstant(7, DType::I64);
      Attributes a;
      for (int d = 0; d < rank; ++d) a.sizes.push_back(b_.extent(v, d));
      r = b_.Add(v, b_.Op(OpKind::RandomUniform, {seed, seed}, a));
    } else {
      r = b_.Op(OpKind::Neg, {v});
    }
    vals_.push_back(r);
  }

  ValId Reshape(ValId v) {
    const int axis = static_cast<int>(Below(b_.rank(v)));
    SymVector sizes;
    const auto split = [&](int64_t whole, int64_t a) {
      sizes.push_back(a);
      sizes.push_back(whole / a);
    };
    for (int d = 0; d < b_.rank(v); ++d) {
      const SymInt n = b_.extent(v, d);
      if (d == axis && n == SymInt(24)) {
        split(24, Below(2) == 0 ? 4 : 6);
      } else if (d == axis && n == SymInt(6)) {
        split(6, Below(2) == 0 ? 2 : 3);
      } else if (d == axis && d > 0) {
        sizes.back() *= n;
      } else {
        sizes.push_back(n);
      }
    }
    return b_.Reshape(v, sizes);
  }

  std::mt19937 rng_;
  FusionBuilder b_;
  int num_ops_;
  Sizes sizes_;
  Shape shape_;
  size_t part_ = 0;             // In vals_: where the part begins whose values are read.
  std::vector<size_t> inputs_;  // In vals_.
  std::vector<SymInt> extents_;
  std::vector<ValId> vals_;
};

}  // namespace seam
