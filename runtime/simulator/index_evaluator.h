// Values of SymInts for all threads of a CTA at once.
//
// Expressions that hold neither the thread's number nor a register are evaluated once for the CTA,
// the others once a thread. Nodes are shared between expressions and keep their value until a
// symbol below them changes, so that what is invariant in a loop is computed once outside it.
//
// Arithmetic wraps and a division by zero gives 0, since inactive threads are evaluated too.
// Check() finds the active threads for which that, or leaving the promised 32 bits, made a
// difference; intervals computed at Compile tell the expressions that need no look. Thread-safety:
// none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ir/symbolic/sym_int.h"

namespace seam::simulator {

class IndexEvaluator {
 public:
  IndexEvaluator(int threads, bool index32) : threads_(threads), index32_(index32) {}

  // Before the first Compile, symbols are declared. `lo..hi` are the values that it will take.
  void DeclareUniform(const SymNode* symbol, int64_t lo, int64_t hi);
  void DeclareVarying(const SymNode* symbol, int64_t lo, int64_t hi);
  // The bounds of a symbol's declaration, given those of the symbols declared so far.
  std::pair<int64_t, int64_t> DeclaredBounds(const SymNode* symbol);

  // The handle of a valid expression whose symbols are declared. Linear in its distinct nodes.
  int Compile(SymInt e);

  void SetUniform(const SymNode* symbol, int64_t value);
  int64_t* MutableVarying(const SymNode* symbol);  // [threads]; call Changed after writing.
  void Changed(const SymNode* symbol);

  bool is_uniform(int expr) const { return nodes_[roots_[expr].node].uniform; }
  int64_t Uniform(int expr) {  // Of a uniform expression.
    Update(roots_[expr]);
    return nodes_[roots_[expr].node].value;
  }
  // [threads], valid until the next call.
  const int64_t* Values(int expr);

  // What went wrong in computing `expr` for the threads `lanes`: the first one for which a node
  // overflows.
  struct Overflow {
    int thread;
    std::string message;
  };
  std::optional<Overflow> Check(int expr, absl::Span<const int> lanes);

 private:
  struct Interval {
    __int128 lo, hi;
  };
  struct Node {
    SymKind kind;
    bool uniform;
    bool risky = false;      // Its interval leaves 64 bits, or 32 where they are promised.
    bool divides32 = false;  // Operands of the division fit in 32 bits without sign.
    int64_t value = 0;       // If uniform.
    int64_t constant = 0;
    int array = -1;  // If varying: index into arrays_.
    Interval range;
    std::vector<int> children;
    std::vector<int64_t> coefficients;
    const SymNode* source;  // Null for constants.
  };
  struct Root {
    int node;
    std::vector<int> order;  // All nodes below and itself, children first.
    std::vector<int> risky;  // Of those.
  };

  int NodeOf(SymInt e);
  int AddNode(Node node);
  Interval Range(const Node& node) const;
  void Update(const Root& root);
  void Compute(Node& node);
  void ComputeVarying(Node& node);
  __int128 Exact(int id, int thread) const;  // From its children's values.
  int64_t ValueAt(int node, int thread) const {
    const Node& n = nodes_[node];
    return n.uniform ? n.value : arrays_[n.array][thread];
  }

  const int threads_;
  const bool index32_;
  std::vector<Node> nodes_;
  std::vector<uint8_t> current_;  // By node: the value is that of the symbols now.
  std::vector<std::vector<int64_t>> arrays_;
  std::vector<Root> roots_;
  absl::flat_hash_map<const SymNode*, int> index_;
  absl::flat_hash_map<int64_t, int> constants_;
  absl::flat_hash_map<const SymNode*, std::vector<int>> dependents_;  // Of symbols.
  std::vector<std::vector<int>> symbols_below_;                       // By node: symbol nodes.
  std::vector<int64_t> broadcast_;
};

}  // namespace seam::simulator
