#include "segmenter/atoms.h"

#include <optional>
#include <utility>

#include "ir/reshape_blocks.h"

namespace seam {
namespace {

constexpr int kMaxDepth = 64;

bool IsOne(SymInt e) { return e == SymInt(1); }

// a / b when that is exact for all values of the symbols and is not 1; else Invalid.
SymInt ExactQuotient(SymInt a, SymInt b) {
  if (b.maybe_int() == 0 || a.maybe_int() == 0) return SymInt::Invalid();
  const SymInt q = FloorDiv(a, b);
  if (!q.is_valid() || IsOne(q) || !ProvablyEqual(q * b, a)) return SymInt::Invalid();
  return q;
}

}  // namespace

AtomForest::Node AtomForest::Add(SymInt extent) {
  const Node n = static_cast<Node>(nodes_.size());
  nodes_.push_back(Entry{n, -1, -1, extent});
  return n;
}

AtomForest::Node AtomForest::Find(Node n) {
  while (nodes_[n].parent != n) n = nodes_[n].parent = nodes_[nodes_[n].parent].parent;
  return n;
}

// Whether the class `part` occurs in `whole` or, to be safe, whether `whole` is too large to tell.
bool AtomForest::Contains(Node whole, Node part) {
  absl::InlinedVector<Node, 16> stack = {Find(whole)};
  part = Find(part);
  for (int visited = 0; !stack.empty(); ++visited) {
    const Node n = stack.back();
    stack.pop_back();
    if (n == part || visited > 2 * kMaxAtoms) return true;
    if (nodes_[n].parts < 0) continue;
    for (Node child : parts_[nodes_[n].parts]) stack.push_back(Find(child));
  }
  return false;
}

bool AtomForest::Join(Node a, Node b, int depth) {
  a = Find(a);
  b = Find(b);
  if (a == b) return true;
  if (depth > kMaxDepth) return false;
  if (nodes_[a].parts >= 0 || nodes_[b].parts >= 0) {
    if (Contains(a, b) || Contains(b, a)) return false;
    if (nodes_[a].parts >= 0 && nodes_[b].parts >= 0) {
      const NodeList left = parts_[nodes_[a].parts], right = parts_[nodes_[b].parts];
      if (!JoinProducts(left, right, depth + 1)) return false;
      a = Find(a);
      b = Find(b);
      if (a == b) return true;
    }
  }
  // The lower node represents the class; it takes over the parts, and a constant where one is
  // known.
  if (b < a) std::swap(a, b);
  nodes_[b].parent = a;
  if (nodes_[a].parts < 0) nodes_[a].parts = nodes_[b].parts;
  if (nodes_[a].extent.is_symbolic() && !nodes_[b].extent.is_symbolic()) {
    nodes_[a].extent = nodes_[b].extent;
  }
  return true;
}

// Makes `n` the product of `first` and `second`, in this order if `first_is_outer`.
bool AtomForest::Split(Node n, Node first, Node second, int depth, bool first_is_outer) {
  const Node product = Add(nodes_[Find(n)].extent);
  nodes_[product].parts = static_cast<int32_t>(parts_.size());
  parts_.push_back(first_is_outer ? NodeList{first, second} : NodeList{second, first});
  return Join(n, product, depth + 1);
}

// JoinProducts where each of several dimensions of one product is cut into some of the other's.
std::optional<bool> AtomForest::JoinBlocks(absl::Span<const Node> a, absl::Span<const Node> b,
                                           int depth) {
  if (a.size() == b.size() || a.size() == 1 || b.size() == 1) return std::nullopt;
  const auto extents = [&](absl::Span<const Node> nodes) {
    absl::InlinedVector<SymInt, 8> list;
    for (Node n : nodes) list.push_back(extent(n));
    return list;
  };
  const std::vector<ReshapeBlock> blocks = CutBlocks(extents(a), extents(b));
  if (blocks.empty()) return std::nullopt;
  bool all = true;
  for (const ReshapeBlock& block : blocks) {
    NodeList left, right;
    for (size_t d : block.from) left.push_back(a[d]);
    for (size_t d : block.to) right.push_back(b[d]);
    all &= JoinProducts(left, right, depth + 1);
  }
  return all;
}

bool AtomForest::JoinProducts(absl::Span<const Node> a_in, absl::Span<const Node> b_in, int depth) {
  if (depth > kMaxDepth) return false;
  if (const auto joined = JoinBlocks(a_in, b_in, depth)) return *joined;
  NodeList a(a_in.begin(), a_in.end()), b(b_in.begin(), b_in.end());
  bool all = true;
  // One side of the two products: what stands there on both, and how to take it away.
  for (const bool left : {true, false}) {
    const auto end = [left](NodeList& list) -> Node& { return left ? list.front() : list.back(); };
    const auto drop = [left](NodeList& list) {
      if (left) {
        list.erase(list.begin());
      } else {
        list.pop_back();
      }
    };
    while (!a.empty() && !b.empty()) {
      const SymInt x = extent(end(a)), y = extent(end(b));
      if (ProvablyEqual(x, y)) {
        all &= Join(end(a), end(b), depth + 1);
        drop(a);
        drop(b);
        continue;
      }
      if (a.size() == 1 || b.size() == 1) break;  // One dimension is all of the others: below.
      SymInt q = ExactQuotient(x, y);
      NodeList& large = q.is_valid() ? a : b;
      NodeList& small = q.is_valid() ? b : a;
      if (!q.is_valid()) q = ExactQuotient(y, x);
      if (!q.is_valid()) break;
      const Node rest = Add(q);
      if (!Split(end(large), end(small), rest, depth, left)) return false;
      end(large) = rest;
      drop(small);
    }
    if (a.size() == 1 || b.size() == 1) break;
  }
  if (a.empty() || b.empty()) return all && a.size() == b.size();
  if (a.size() != 1 && b.size() != 1) return false;
  if (a.size() == 1 && b.size() == 1) return all && Join(a[0], b[0], depth + 1);
  const NodeList& many = a.size() == 1 ? b : a;
  const Node one = a.size() == 1 ? a[0] : b[0];
  if (extent(one).maybe_int() == 0) return false;
  const Node product = Add(extent(one));
  nodes_[product].parts = static_cast<int32_t>(parts_.size());
  parts_.push_back(many);
  return Join(one, product, depth + 1) && all;
}

const AtomForest::NodeList& AtomForest::Flatten(Node root, int depth) {
  if (nodes_[root].atoms < 0) {
    NodeList atoms;
    if (nodes_[root].parts >= 0 && depth < kMaxDepth) {
      const NodeList parts = parts_[nodes_[root].parts];
      for (Node part : parts) {
        const NodeList& inner = Flatten(Find(part), depth + 1);
        atoms.insert(atoms.end(), inner.begin(), inner.end());
      }
    }
    if (atoms.empty() || atoms.size() > kMaxAtoms) atoms = {root};
    nodes_[root].atoms = static_cast<int32_t>(flat_.size());
    flat_.push_back(std::move(atoms));
  }
  return flat_[nodes_[root].atoms];
}

absl::Span<const AtomForest::Node> AtomForest::Atoms(Node n) { return Flatten(Find(n), 0); }

}  // namespace seam
