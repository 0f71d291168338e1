// AxisMap: which axes of which tensors are the same axis, found once per Fusion.
//
// Every dimension of every computed value is an ordered product of atoms (outermost first), the
// common refinement of all reshapes that nest; every atom has an axis id. Two atoms have one id
// when some chain of expressions makes one index run along both. A broadcast dimension has no
// atoms.
//
// An operand position where identity is lost is an exchange: the operand's axes that the expression
// reads under another map (slice with an offset or a step, pad, flip, cat, gather, index_select's
// indexed axis, a reshape that does not nest, and a computed value read under two maps, such as y +
// transpose(y)). A permutation, a broadcast, a squeeze and a nesting reshape are no exchanges. An
// input has no axes of its own: each reading position has those of the reader, so reading an input
// under two maps is two loads and never an exchange.
//
// Order of unification, as conflicts go to the later: values that are computed alike (ir/alike.h);
// elementwise, cast, broadcast and reduction edges of computed values; views; consumers of cats;
// last the reads of shared inputs, and only where no conflict arises. A conflict is two axes of one
// expression's space becoming one. Results of library calls and of segment_set count as inputs.
// Among edges of a kind the earlier one in canonical order (ir/canonical_order.h) wins.
// Thread-safety: immutable once built. The Fusion must outlive it and stay where it is.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/canonical_order.h"
#include "ir/fusion.h"

namespace seam {

using AxisId = Id<struct AxisTag>;

// A sorted set of axis ids without repeats. A handful of elements.
using AxisSet = absl::InlinedVector<AxisId, 6>;
bool IsSubset(const AxisSet& a, const AxisSet& b);  // a within b.
AxisSet Union(const AxisSet& a, const AxisSet& b);
AxisSet Intersection(const AxisSet& a, const AxisSet& b);
AxisSet Difference(const AxisSet& a, const AxisSet& b);

class AxisMap {
 public:
  // Near-linear in the size of the graph. `order` is that of the Fusion.
  static AxisMap Build(const Fusion& fusion);
  static AxisMap Build(const Fusion& fusion, const CanonicalOrder& order);
  // The same axes for `renumbered`, which is Renumbered(fusion, order). Linear.
  AxisMap For(const Fusion& renumbered, const CanonicalOrder& order) const;

  uint32_t num_axes() const;
  SymInt extent(AxisId axis) const;

  // Atoms of dimension `dim` of `v`, outermost first, with their axis ids. For a fusion input the
  // atoms are there but their ids are those of its first reader (an input nobody reads has fresh
  // ones).
  absl::Span<const AxisId> atoms(ValId v, int dim) const;
  const AxisSet& axes(ValId v) const { return sets_[axes_number(v)]; }

  // The axes of dimension `dim` of operand `i` of `e` as the expression reads it: what atoms() says
  // of the value for a computed one, the reader's own for an input.
  absl::Span<const AxisId> operand_atoms(ExprId e, int i, int dim) const;

  // The iteration space of `e`: the axes of its results and of what it reduces over.
  const AxisSet& space(ExprId e) const { return sets_[space_number(e)]; }
  // For a reduction or Welford: the axes that it keeps, those of its results.
  const AxisSet& kept(ExprId e) const { return axes(fusion_->result(e)); }

  // Axes of operand `i` (in the operand's own ids) that `e` reads under another map; empty for no
  // exchange.
  const AxisSet& exchanged(ExprId e, int i) const;

  // The sets that axes() and space() return, each once: a large graph has few. The first is empty.
  const std::vector<AxisSet>& sets() const { return sets_; }
  uint32_t axes_number(ValId v) const { return axes_number_[v.index()]; }
  uint32_t space_number(ExprId e) const { return space_number_[e.index()]; }

  // Whether reading `v` is reading memory whatever the groups are: a fusion input, or the result of
  // a library call, a segment_set or another operation that shares no kernel.
  static bool IsSource(const Fusion& fusion, ValId v);

 private:
  friend class AxisMapBuilder;
  // A position is one dimension of a computed value, or of one operand that reads an input.
  absl::Span<const AxisId> At(uint32_t position) const {
    return absl::MakeConstSpan(flat_).subspan(
        position_begin_[position], position_begin_[position + 1] - position_begin_[position]);
  }

  const Fusion* fusion_ = nullptr;
  std::vector<SymInt> extents_;             // Per axis.
  std::vector<AxisId> flat_;                // Of all positions, one after the other.
  std::vector<uint32_t> position_begin_;    // Per position: where in flat_.
  std::vector<uint32_t> val_position_;      // Per value: the position of its dimension 0.
  std::vector<uint32_t> operand_begin_;     // Per expression: where in operand_position_ its are.
  std::vector<uint32_t> operand_position_;  // Per operand: the position of its dimension 0.
  absl::flat_hash_map<uint32_t, AxisSet> exchanged_;  // By index in operand_position_.
  std::vector<bool> exchanges_;                       // Per expression: whether it has any there.
  std::vector<AxisSet> sets_;
  std::vector<uint32_t> axes_number_, space_number_;  // Per value and per expression.
};

}  // namespace seam
