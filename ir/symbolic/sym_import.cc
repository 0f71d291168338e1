// Walks over the nodes of expressions. All of them are loops: an expression may be deep.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "ir/symbolic/sym_int.h"

namespace seam {
namespace {

// The nodes reachable from `roots` for which `enter` is true the first time they are met, by id.
template <typename F>
std::vector<const SymNode*> Reachable(absl::Span<const SymInt> roots, F enter) {
  std::vector<const SymNode*> nodes;
  const auto visit = [&](SymInt e) {
    if (e.is_symbolic() && enter(e.node())) nodes.push_back(e.node());
  };
  for (const SymInt root : roots) visit(root);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const SymInt child : nodes[i]->children) visit(child);
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const SymNode* a, const SymNode* b) { return a->id < b->id; });
  return nodes;
}

SymInt Rebuild(const SymNode& n, absl::Span<const SymInt> c) {
  const auto fold = [&](SymInt (*op)(SymInt, SymInt)) {
    SymInt r = c[0];
    for (size_t i = 1; i < c.size(); ++i) r = op(r, c[i]);
    return r;
  };
  switch (n.kind) {
    case SymKind::Add: {
      absl::InlinedVector<SymInt, 8> terms = {n.constant};
      for (size_t i = 0; i < c.size(); ++i) terms.push_back(c[i] * SymInt(n.coefficients[i]));
      for (; terms.size() > 1;
           terms.resize((terms.size() + 1) / 2)) {  // Halving keeps partial sums short.
        for (size_t i = 0; 2 * i < terms.size(); ++i) {
          terms[i] = 2 * i + 1 < terms.size() ? terms[2 * i] + terms[2 * i + 1] : terms[2 * i];
        }
      }
      return terms[0];
    }
    case SymKind::Mul:
      return fold([](SymInt a, SymInt b) { return a * b; });
    case SymKind::FloorDiv:
      return FloorDiv(c[0], c[1]);
    case SymKind::Mod:
      return Mod(c[0], c[1]);
    case SymKind::Min:
      return fold(Min);
    case SymKind::Max:
      return fold(Max);
    case SymKind::Eq:
      return SymEq(c[0], c[1]);
    case SymKind::Ne:
      return SymNe(c[0], c[1]);
    case SymKind::Lt:
      return SymLt(c[0], c[1]);
    case SymKind::Le:
      return SymLe(c[0], c[1]);
    case SymKind::And:
      return fold(SymAnd);
    case SymKind::Or:
      return fold(SymOr);
    case SymKind::Select:
      return SymSelect(c[0], c[1], c[2]);
    case SymKind::Constant:
    case SymKind::Symbol:
    case SymKind::Not:
      break;
  }
  return SymInt::Invalid();
}

}  // namespace

std::vector<const SymNode*> TopologicalNodes(absl::Span<const SymInt> roots) {
  absl::flat_hash_set<const SymNode*> seen;
  return Reachable(roots, [&](const SymNode* n) { return seen.insert(n).second; });
}

std::vector<const SymNode*> FreeSymbols(SymInt e) {
  std::vector<const SymNode*> nodes = TopologicalNodes({&e, 1});
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                             [](const SymNode* n) { return n->kind != SymKind::Symbol; }),
              nodes.end());
  return nodes;
}

void SymImporter::Map(const SymNode* symbol, SymInt replacement) {
  const bool foreign = replacement.env() != nullptr && replacement.env() != target_;
  done_[symbol] = foreign ? SymInt::Invalid() : replacement;
}

SymInt SymImporter::Import(SymInt e) {
  if (!e.is_symbolic()) return e;
  absl::flat_hash_set<const SymNode*> seen;
  const auto nodes = Reachable(
      {&e, 1}, [&](const SymNode* n) { return !done_.contains(n) && seen.insert(n).second; });
  absl::InlinedVector<SymInt, 8> children;
  for (const SymNode* n : nodes) {
    children.clear();
    for (const SymInt child : n->children) {
      children.push_back(child.is_constant() ? child : done_.at(child.node()));
    }
    done_.emplace(n, Rebuild(*n, children));
  }
  return done_.at(e.node());
}

}  // namespace seam
