// The generator behind MakeRandomGraph: the values made so far and the steps that add to them.
// Internal to tests/support/random_graph*.cc.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/fusion_builder.h"
#include "tests/support/dice.h"
#include "tests/support/random_graph.h"

namespace seam::testing {

class GraphGenerator {
 public:
  GraphGenerator(uint64_t seed, const RandomGraphOptions& options);
  absl::StatusOr<RandomGraph> Run();

 private:
  static constexpr int kNumSizes = 2;
  // An extent with what it is at each set of sizes.
  struct Extent {
    SymInt extent;
    std::array<int64_t, kNumSizes> values;

    static Extent Constant(int64_t n) { return {n, {n, n}}; }
    int64_t lowest() const { return std::min(values[0], values[1]); }
    friend Extent operator*(const Extent& a, const Extent& b) {
      return {a.extent * b.extent, {a.values[0] * b.values[0], a.values[1] * b.values[1]}};
    }
    friend Extent operator+(const Extent& a, const Extent& b) {
      return {a.extent + b.extent, {a.values[0] + b.values[0], a.values[1] + b.values[1]}};
    }
  };
  using Shape = std::vector<Extent>;
  struct Value {
    ValId id;
    Shape shape;
    int rank() const { return static_cast<int>(shape.size()); }
  };

  // Extents, inputs, outputs (random_graph.cc).
  void MakeExtents();
  Extent NewSymbol(const std::string& name, std::array<int64_t, kNumSizes> values, int64_t lo);
  int64_t AnySize();
  void AddInput();
  std::optional<SymVector> AnyStrides(const Shape& shape, bool written);
  void AddOutputs();
  void Step();

  // Looking around.
  static SymVector Syms(const Shape& shape);
  static bool SameShape(const Shape& a, const Shape& b);
  bool Fits(const Shape& shape) const;
  DType AnyDType();
  DType AnyFloat();
  Value Pick();  // A recent value more often than an old one: graphs get deep as well as wide.
  Value PickRanked();  // One that has axes, if there is one.
  Extent Evaluate(SymInt extent) const;

  // Adding values.
  Value Add(ValId id);  // Its shape is what the builder says.
  ValId NewInput(DType dtype, const Shape& shape, bool strided);
  ValId Scalar(double value, DType dtype);
  ValId Partner(const Value& like, DType dtype);     // Same shape or 0-d, cast to `dtype`.
  ValId SameShaped(const Value& like, DType dtype);  // Same shape.
  std::optional<ValId> BroadcastPartner(const Value& like, DType dtype);
  ValId Parameter(DType dtype, const Shape& shape);  // Of just this shape.
  ValId MaybeParameter(DType dtype, const Shape& shape) {
    return dice_.Chance(0.6) ? Parameter(dtype, shape) : ValId();
  }

  // Steps (random_graph_math.cc).
  void Elementwise();
  void Cast();
  void Reduce();
  void Barrier();
  void Product();
  void Composite();
  void Normalization(const Value& a, ValId x);
  void ChannelNormalization(const Value& a, ValId x);
  void Activation(const Value& a, ValId x);
  void Loss(const Value& a, ValId x);
  AxisVector SomeAxes(const Value& a);
  bool HasEmptyAxis(const Value& a, const AxisVector& axes) const;

  // Steps (random_graph_views.cc).
  void View();
  void Permute();
  void MergeOrSplit();
  void Reshape();
  void Slice();
  void Flip();
  void Pad();
  void Repeat();
  void Squeeze();
  void Cat();
  void AxesThatMeet();
  void Factory();
  void Lookup();

  Dice dice_;
  const RandomGraphOptions& options_;
  int64_t max_elements_;
  FusionBuilder b_;
  std::vector<Extent> extents_;
  std::vector<Value> values_;
  std::vector<ValId> inputs_, repeating_;  // Those with a stride of 0.
  std::array<RandomGraph::Sizes, kNumSizes> sizes_;
};

}  // namespace seam::testing
