#include "scheduler/kernel/index_terms.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace seam::kernel {
namespace {

// -below <= value <= above; neither is negative.
struct Bounds {
  SymInt below = 0, above = 0;
};

// Of two that are not negative, of which one is often 0.
SymInt Larger(SymInt a, SymInt b) { return a.is_same(0) ? b : b.is_same(0) ? a : Max(a, b); }

Bounds Union(const Bounds& a, const Bounds& b) {
  return {Larger(a.below, b.below), Larger(a.above, b.above)};
}

Bounds Product(const Bounds& a, const Bounds& b) {
  return {Larger(a.below * b.above, a.above * b.below),
          Larger(a.above * b.above, a.below * b.below)};
}

class Walk {
 public:
  explicit Walk(const Kernel& kernel) {
    for (SymInt parameter : kernel.parameters) parameters_.insert(parameter.node());
    if (kernel.block_x.is_symbolic()) bounds_[kernel.block_x.node()] = {0, kernel.grid_x};
    Visit(kernel.body);
  }

  SymInt largest() const { return largest_; }

 private:
  Bounds Of(SymInt e) {
    if (const std::optional<int64_t> value = e.maybe_int())
      return *value < 0 ? Bounds{0 - SymInt(*value), 0} : Bounds{0, *value};
    if (!e.is_valid()) return {largest_ = SymInt::Invalid(), SymInt::Invalid()};
    // Children come before parents, and what is known already has been visited.
    for (const SymNode* node : TopologicalNodes({&e, 1})) {
      if (!bounds_.contains(node)) {
        const Bounds bounds = OfNode(node);
        bounds_[node] = bounds;
      }
    }
    return bounds_.at(e.node());
  }

  Bounds OfNode(const SymNode* node) {
    const auto child = [&](size_t i) { return Of(node->children[i]); };
    // What a launch has one value of is computed as it is written.
    if (const SymInt e = SymInt::FromNode(node); IsOfLaunch(e)) {
      Record(e);
      if (node->range.lo < 0) Record(0 - e);
    }
    switch (node->kind) {
      case SymKind::Symbol: {
        Bounds symbol;
        if (node->range.lo < 0) symbol.below = 0 - SymInt(node->range.lo);
        if (IsOfLaunch(SymInt::FromNode(node))) {
          symbol.above = SymInt::FromNode(node);
        } else if (node->range.hi > 0) {
          symbol.above = node->upper.is_symbolic() ? Of(node->upper).above : SymInt(node->range.hi);
        }
        return symbol;
      }
      case SymKind::Add:
        return OfSum(node);
      case SymKind::Mul: {
        Bounds product = child(0);
        for (size_t i = 1; i < node->children.size(); ++i) product = Product(product, child(i));
        return product;
      }
      case SymKind::FloorDiv: {
        // Divisors are at least 1. One that differs between threads bounds nothing.
        Bounds quotient = child(0);
        Record(quotient.below);
        Record(quotient.above);
        const SymInt divisor = node->children[1];
        if (IsOfLaunch(divisor)) {
          quotient.below = CeilDiv(quotient.below, Max(divisor, 1));
          quotient.above = FloorDiv(quotient.above, Max(divisor, 1));
        }
        return quotient;
      }
      case SymKind::Mod: {
        const Bounds numerator = child(0);
        Record(numerator.below);
        Record(numerator.above);
        return {0, child(1).above};
      }
      case SymKind::Min:
      case SymKind::Max: {
        Bounds bounds = child(0);
        for (size_t i = 1; i < node->children.size(); ++i) bounds = Union(bounds, child(i));
        return bounds;
      }
      case SymKind::Select:
        return Union(child(1), child(2));
      default:
        return {0, 1};
    }
  }

  Bounds OfSum(const SymNode* node) {
    Bounds sum;
    for (size_t i = 0; i < node->children.size(); ++i) {
      Bounds term = Of(node->children[i]);
      if (node->coefficients[i] < 0) std::swap(term.below, term.above);
      const SymInt coefficient = node->coefficients[i];
      const SymInt factor = node->coefficients[i] < 0 ? 0 - coefficient : coefficient;
      sum.below += factor * term.below;
      sum.above += factor * term.above;
    }
    const bool cancels = !sum.below.is_same(0) && !sum.above.is_same(0);
    (node->constant < 0 ? sum.below : sum.above) +=
        node->constant < 0 ? 0 - SymInt(node->constant) : SymInt(node->constant);
    if (cancels) {
      Record(sum.below);
      Record(sum.above);
    }
    return sum;
  }

  void Record(SymInt value) {
    if (!ProvablyLe(value, INT32_MAX)) largest_ = Larger(largest_, value);
  }

  // Whether it is made of parameters alone: the same for all CTAs.
  bool IsOfLaunch(SymInt e) const {
    for (const SymNode* symbol : FreeSymbols(e)) {
      if (!parameters_.contains(symbol)) return false;
    }
    return true;
  }

  template <typename... Indices>
  void Use(Indices... indices) {
    (Of(indices), ...);
  }
  void Visit(const Block& block) {
    for (const Stmt& stmt : block)
      std::visit([&](const auto& node) { VisitNode(node); }, stmt.node);
  }
  void VisitNode(const For& node) {
    Use(node.extent);
    Visit(node.body);
  }
  void VisitNode(const If& node) {
    Use(node.condition);
    Visit(node.body);
    Visit(node.otherwise);
  }
  void VisitNode(const Leave& node) { Use(node.condition); }
  void VisitNode(const Load& node) { Use(node.index, node.predicate); }
  void VisitNode(const Store& node) { Use(node.index, node.predicate); }
  void VisitNode(const Random& node) { Use(node.index); }
  void VisitNode(const RemoteStore& node) { Use(node.index, node.predicate); }
  void VisitNode(const BulkCopy& node) { Use(node.to, node.from, node.count); }
  void VisitNode(const AsyncLoad& node) { Use(node.to, node.from, node.predicate); }
  void VisitNode(const IndexValue& node) {
    Bounds& held = held_[node.fragment];
    held = Union(held, Of(node.value));
  }
  // What has a symbolic upper bound needs no other.
  void VisitNode(const LetSymbol& node) {
    const auto held = held_.find(node.value.fragment);
    if (held != held_.end() && !node.symbol.node()->upper.is_symbolic())
      bounds_[node.symbol.node()] = held->second;
  }
  // Data, and numbers that are no index: of tickets, barriers and cycles.
  template <typename Other>
  void VisitNode(const Other&) {}

  SymInt largest_ = 0;
  absl::flat_hash_set<const SymNode*> parameters_;
  absl::flat_hash_map<const SymNode*, Bounds> bounds_;
  absl::flat_hash_map<int, Bounds> held_;  // Of fragments that hold indices.
};

}  // namespace

SymInt LargestNumber(const Kernel& kernel) { return Walk(kernel).largest(); }

}  // namespace seam::kernel
