// Builds a Fusion, one expression at a time.
//
// Extents and attributes may use symbols of the builder's own ShapeEnv only.
// Errors stick: the first illegal call is remembered, later calls return invalid ids and do
// nothing, and status() and Finish() report it. So a graph is written as straight-line code and
// checked once.
//
// Thread-safety: none; one builder belongs to one thread.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/fusion.h"

namespace seam {

// Largest extent and largest number of elements of a tensor: byte offsets stay far inside int64.
inline constexpr int64_t kMaxExtent = int64_t{1} << 48;
inline constexpr int kMaxRank = 16;

class FusionBuilder {
 public:
  explicit FusionBuilder(absl::string_view name);
  // Without an `env`, one of its own.
  FusionBuilder(absl::string_view name, std::shared_ptr<ShapeEnv> env);
  // Of the other one status() and Finish() say that it has been moved.
  FusionBuilder(FusionBuilder&& other);
  FusionBuilder& operator=(FusionBuilder&& other);

  // A new named extent with lo <= extent <= hi, both in 0..2^48, usable wherever an integer is.
  // Error when the name is taken.
  SymInt Symbol(absl::string_view name, int64_t lo = 0, int64_t hi = kMaxExtent);
  ShapeEnv& env() { return *fusion_.env_; }

  // A fusion input of shape `sizes`. `strides` in elements, one per axis; contiguous when absent.
  ValId Input(absl::string_view name, DType dtype, SymVector sizes,
              std::optional<SymVector> strides = std::nullopt);
  // Marks `v` as returned. `strides` as for Input, but no two elements may share a place: an error
  // here where constants say it, of whoever runs the Fusion where sizes do.
  void Output(ValId v, std::optional<SymVector> strides = std::nullopt);

  // Adds one expression and returns its first result; further results have the ids that follow.
  ValId Op(OpKind op, absl::Span<const ValId> operands, Attributes attributes = {});
  ValId Op(OpKind op, std::initializer_list<ValId> operands, Attributes attributes = {});
  static ValId ResultOf(ValId first, int i) {
    return first.valid() ? ValId(first.index() + i) : first;
  }

  // Short forms of what graphs are full of.
  ValId Add(ValId a, ValId b) { return Op(OpKind::Add, {a, b}); }
  ValId Sub(ValId a, ValId b) { return Op(OpKind::Sub, {a, b}); }
  ValId Mul(ValId a, ValId b) { return Op(OpKind::Mul, {a, b}); }
  ValId Div(ValId a, ValId b) { return Op(OpKind::Div, {a, b}); }
  ValId Constant(double value, DType dtype);  // 0-d; an integer type needs an integer in its range.
  ValId IntConstant(int64_t value, DType dtype);  // 0-d; exact for every integer type.
  ValId Size(SymInt size, DType dtype);           // 0-d; a constant when `size` is one.
  ValId Cast(ValId v, DType dtype);               // `v` itself when it has that type already.
  ValId Reduce(OpKind op, ValId v, AxisVector axes);
  ValId Welford(ValId v, AxisVector axes);    // First of average, m2, count.
  ValId Broadcast(ValId v, AxisVector axes);  // `axes`: positions in the result that get extent 1.
  ValId Reshape(ValId v, SymVector sizes);
  ValId Permute(ValId v, AxisVector order);  // Result axis i is axis order[i] of `v`.
  ValId Expand(ValId v, SymVector sizes);
  // Gives all of `vals` the same rank by inserting leading broadcast axes, as NumPy does. What is
  // 0-d stays so.
  std::vector<ValId> AlignRanks(absl::Span<const ValId> vals);

  // Names are [A-Za-z_][A-Za-z0-9_.]*. Error when taken. Finish() calls the unnamed values t0, t1
  // and so on.
  void SetName(ValId v, absl::string_view name);
  // For the expressions that follow.
  void SetLocation(SourceLoc location) { location_ = location; }
  std::optional<ValId> Find(absl::string_view name) const;  // Among the names given so far.

  TensorType type(ValId v) const;  // f32[] for an id that is no value's of this builder.
  int rank(ValId v) const { return IsVal(v) ? fusion_.rank(v) : 0; }
  DType dtype(ValId v) const { return IsVal(v) ? fusion_.dtype(v) : DType::F32; }
  SymInt extent(ValId v, int axis) const;  // Negative axes count from the end. Invalid if none.
  uint32_t num_vals() const { return fusion_.num_vals(); }

  const absl::Status& status() const { return status_; }
  ValId Fail(absl::Status status);  // Records the first error; returns an invalid id.

  // Freezes the graph. Linear in its size. The builder is empty afterwards.
  absl::StatusOr<Fusion> Finish();

 private:
  bool IsVal(ValId v) const { return v.valid() && v.index() < num_vals(); }
  ValId NewVal(const TensorType& type, ExprId definition);
  ValId OpWithAxes(OpKind op, ValId v, AxisVector axes);
  ValId OpWithSizes(OpKind op, ValId v, SymVector sizes);
  bool CheckVal(ValId v, absl::string_view what);  // Fails, naming `what`, when `v` is no value.
  absl::Status CheckOwned(absl::string_view what, absl::Span<const SymInt> values) const;
  absl::Status CheckStrides(ValId v, const SymVector& strides, bool written) const;
  void SetStrides(ValId v, const SymVector& strides, bool written);
  void AddConstraint(Guard guard);
  std::string Label(ValId v) const;
  void NameTheRest();

  Fusion fusion_;
  absl::Status status_;
  SourceLoc location_;
  absl::flat_hash_map<std::string, ValId> by_name_;
  absl::flat_hash_set<SymInt> constrained_;  // Conditions of fusion_.constraints_.
};

}  // namespace seam
