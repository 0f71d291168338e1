// A Fusion: a frozen graph of tensor values and the expressions that define them.
//
// Invariants (checked by Verify in ir/verify.h):
//  - ids are dense and in topological order: an expression's operands are fusion inputs or results
//    of expressions with smaller ids, so the graph is acyclic by construction;
//  - every value is a fusion input or the result of exactly one expression;
//  - the type of every result is what InferTypes says of the operands and attributes;
//  - every extent and stride belongs to the Fusion's own ShapeEnv.
// Thread-safety: a Fusion is immutable; it may be read from many threads at once.
//
// A FusionBuilder (ir/fusion_builder.h) or ParseFusion (ir/text/parser.h) makes one. A rewriting
// pass builds a new Fusion and an id map; nothing edits one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/dtype.h"
#include "ir/ids.h"
#include "ir/ops.h"
#include "ir/symbolic/guard.h"
#include "ir/symbolic/sym_int.h"

namespace seam {

// One logical axis of a tensor. A broadcast axis has extent 1 and stands for any extent that it
// meets in an elementwise expression; a constant extent of 1 is always a broadcast axis, a symbol
// never is.
struct IterDomain {
  SymInt extent = 1;
  bool is_broadcast() const {
    auto n = extent.maybe_int();
    return n.has_value() && *n == 1;
  }
};

using SymVector = absl::InlinedVector<SymInt, 4>;
using AxisVector = absl::InlinedVector<int32_t, 4>;

std::string ShapeToString(absl::Span<const SymInt> sizes);  // "[M, 4]"

// Element type and logical shape.
struct TensorType {
  DType dtype = DType::F32;
  absl::InlinedVector<IterDomain, 4> domain;

  int rank() const { return static_cast<int>(domain.size()); }
  SymInt numel() const;          // Product of the extents; 1 for rank 0.
  std::string ToString() const;  // "f32[M, 4]"
};

// What an operation needs besides its operands. Which fields an operation reads is fixed by its
// row's kind (AttributesOf); the others stay empty and are not printed.
struct Attributes {
  // Reductions, broadcast, squeeze, permute, flip. One axis: cat, gather, index_select, iota.
  AxisVector axes;
  // The result's extents: reshape, expand, full, iota, random_*. The one value of size.
  SymVector sizes;
  SymVector start;           // slice: first index per axis. pad: elements added before.
  SymVector stop;            // slice: one past the last index. pad: elements added after.
  SymVector step;            // slice: stride per axis, at least 1.
  DType dtype = DType::F32;  // cast, constant, iota, size, random_*: the result's element type.
  double value = 0;          // constant and pad of a float type.
  int64_t int_value = 0;     // constant and pad of an integer or bool type.
};

enum AttributeField : uint32_t {
  kAttrAxes = 1,
  kAttrSizes = 2,
  kAttrStart = 4,
  kAttrStop = 8,
  kAttrStep = 16,
  kAttrDType = 32,
  kAttrValue = 64,
};
// The fields of Attributes that `op` reads, as a set of AttributeField bits.
uint32_t AttributesOf(OpKind op);

struct SourceLoc {
  int32_t line = 0;  // 1-based; 0 when the expression does not come from a text.
  int32_t column = 0;
};

struct CanonicalOrder;

class Fusion {
 public:
  Fusion(Fusion&&) = default;
  Fusion& operator=(Fusion&&) = default;

  absl::string_view name() const { return name_; }
  const ShapeEnv& env() const { return *env_; }
  const std::shared_ptr<ShapeEnv>& shared_env() const { return env_; }

  uint32_t num_vals() const { return static_cast<uint32_t>(vals_.size()); }
  uint32_t num_exprs() const { return static_cast<uint32_t>(exprs_.size()); }
  absl::Span<const ValId> inputs() const { return inputs_; }
  absl::Span<const ValId> outputs() const { return outputs_; }  // A value may be listed once.

  // Values.
  DType dtype(ValId v) const { return vals_[v.index()].dtype; }
  absl::Span<const IterDomain> domain(ValId v) const {
    return absl::MakeConstSpan(domains_).subspan(vals_[v.index()].domain_begin,
                                                 vals_[v.index()].rank);
  }
  int rank(ValId v) const { return vals_[v.index()].rank; }
  TensorType type(ValId v) const;
  absl::string_view name(ValId v) const { return names_[vals_[v.index()].name]; }
  bool is_input(ValId v) const { return !vals_[v.index()].definition.valid(); }
  bool is_output(ValId v) const { return vals_[v.index()].is_output; }
  ExprId definition(ValId v) const { return vals_[v.index()].definition; }  // Invalid for an input.
  // Expressions that read `v`, ascending; one that reads it twice is listed once.
  absl::Span<const ExprId> uses(ValId v) const {
    return absl::MakeConstSpan(uses_).subspan(uses_begin_[v.index()],
                                              uses_begin_[v.index() + 1] - uses_begin_[v.index()]);
  }
  // Strides in elements, one per axis. Row-major contiguous unless an input or output says
  // otherwise.
  SymVector strides(ValId v) const;
  bool has_explicit_strides(ValId v) const { return vals_[v.index()].strides_begin >= 0; }

  // Expressions.
  OpKind op(ExprId e) const { return exprs_[e.index()].op; }
  const OpInfo& info(ExprId e) const { return GetOpInfo(op(e)); }
  absl::Span<const ValId> operands(ExprId e) const {
    return absl::MakeConstSpan(operands_).subspan(exprs_[e.index()].operands_begin,
                                                  exprs_[e.index()].num_operands);
  }
  // Results are consecutive ids.
  int num_results(ExprId e) const { return exprs_[e.index()].num_results; }
  ValId result(ExprId e, int i = 0) const {
    return ValId(exprs_[e.index()].first_result.index() + i);
  }
  const Attributes& attributes(ExprId e) const;
  SourceLoc location(ExprId e) const { return exprs_[e.index()].location; }

  // Conditions on the symbols that the builder could not prove, such as that a reshape keeps the
  // number of elements. Checked when sizes are known.
  absl::Span<const Guard> constraints() const { return constraints_; }

  // Bytes that this object holds, names and uses included, its ShapeEnv excluded.
  int64_t MemoryBytes() const;

 private:
  friend class FusionBuilder;
  friend class FusionVerifier;     // ir/verify.cc: reads the arrays before it trusts their indices.
  friend struct FusionTestAccess;  // tests/ir/verify_test.cc: breaks invariants on purpose.
  friend Fusion Renumbered(const Fusion& fusion, const CanonicalOrder& order);
  Fusion() = default;
  Fusion(const Fusion&) = default;

  void IndexUses();  // Makes uses_ from the operands.

  struct Val {
    ExprId definition;
    uint32_t domain_begin = 0;
    uint32_t name = 0;
    int32_t strides_begin = -1;
    DType dtype = DType::F32;
    uint8_t rank = 0;
    bool is_output = false;
  };
  struct Expr {
    OpKind op;
    uint8_t num_results = 1;
    uint32_t num_operands = 0;
    uint32_t operands_begin = 0;
    ValId first_result;
    int32_t attributes = -1;
    SourceLoc location;
  };

  std::string name_;
  std::shared_ptr<ShapeEnv> env_;
  std::vector<Val> vals_;
  std::vector<Expr> exprs_;
  std::vector<IterDomain> domains_;
  std::vector<SymInt> strides_;
  std::vector<ValId> operands_;
  std::vector<Attributes> attributes_;
  std::vector<std::string> names_;
  std::vector<ValId> inputs_, outputs_;
  std::vector<ExprId> uses_;
  std::vector<uint32_t> uses_begin_;
  std::vector<Guard> constraints_;
};

// Row-major strides of a shape, in elements.
SymVector ContiguousStrides(absl::Span<const IterDomain> domain);

}  // namespace seam
