// AtomForest: a union-find whose classes can be split: the common refinement of dimensions through
// reshapes.
//
// A node stands for one dimension at one place of the graph. A class of nodes (places whose index
// is the same) is either an atom or an ordered product of other classes, outermost first. Joining
// two classes that are split differently refines both, where their parts nest; where they do not,
// the join fails and changes no meaning: the two places then have different atoms, and whoever
// compares them sees it.
//
// Invariants: no class is a part of itself; a class has at most kMaxAtoms atoms (one that would
// have more is left whole). Parts are at least two and the extents of a class's members are equal
// wherever the graph's constraints hold.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"

namespace seam {

class AtomForest {
 public:
  using Node = uint32_t;
  using NodeList = absl::InlinedVector<Node, 8>;
  static constexpr int kMaxAtoms = 64;

  Node Add(SymInt extent);
  Node Find(Node n);
  SymInt extent(Node n) { return nodes_[Find(n)].extent; }

  // Makes the two one class. False, when their parts do not nest or one is a part of the other.
  bool Join(Node a, Node b) { return Join(a, b, 0); }
  // The same for two products with equal numbers of elements, such as the two sides of a reshape.
  // Joins what nests from the left and from the right; false if something is left between.
  bool JoinProducts(absl::Span<const Node> a, absl::Span<const Node> b) {
    return JoinProducts(a, b, 0);
  }

  // The classes' representatives that `n` consists of. Call after all joins; linear in their
  // number.
  absl::Span<const Node> Atoms(Node n);

 private:
  struct Entry {
    Node parent;
    int32_t parts = -1;  // Index into parts_; -1 for an atom.
    int32_t atoms = -1;  // Index into flat_, once known.
    SymInt extent;
  };
  bool Join(Node a, Node b, int depth);
  bool JoinProducts(absl::Span<const Node> a, absl::Span<const Node> b, int depth);
  std::optional<bool> JoinBlocks(absl::Span<const Node> a, absl::Span<const Node> b, int depth);
  bool Split(Node n, Node first, Node second, int depth, bool first_is_outer);
  bool Contains(Node whole, Node part);
  const NodeList& Flatten(Node root, int depth);

  std::vector<Entry> nodes_;
  std::vector<NodeList> parts_;
  std::vector<NodeList> flat_;
};

}  // namespace seam
