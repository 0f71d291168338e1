#include "runtime/simulator/index_evaluator.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace seam::simulator {
namespace {

using Wide = __int128;
constexpr Wide kLimit = Wide{1} << 63;  // Intervals are cut one past the ends of int64.

Wide Cut(Wide x) { return std::min(std::max(x, -kLimit - 1), kLimit); }
bool Fits64(Wide x) { return x >= INT64_MIN && x <= INT64_MAX; }
bool Fits32(Wide x) { return x >= INT32_MIN && x <= INT32_MAX; }

Wide WideFloorDiv(Wide a, Wide b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t WrappedFloorDiv(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t WrappedMod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int64_t WrappedMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t WrappedAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Calls `use` with the two-operand function of a kind whose children are folded from left to right.
template <typename Use>
void WithBinary(SymKind kind, bool divides32, Use use) {
  switch (kind) {
    case SymKind::Mul:
      return use(WrappedMul);
    case SymKind::FloorDiv:
      if (divides32) {
        return use([](int64_t a, int64_t b) -> int64_t {
          const uint32_t d = static_cast<uint32_t>(b);
          return d == 0 ? 0 : static_cast<uint32_t>(a) / d;
        });
      }
      return use(WrappedFloorDiv);
    case SymKind::Mod:
      if (divides32) {
        return use([](int64_t a, int64_t b) -> int64_t {
          const uint32_t d = static_cast<uint32_t>(b);
          return d == 0 ? 0 : static_cast<uint32_t>(a) % d;
        });
      }
      return use(WrappedMod);
    case SymKind::Min:
      return use([](int64_t a, int64_t b) { return std::min(a, b); });
    case SymKind::Max:
      return use([](int64_t a, int64_t b) { return std::max(a, b); });
    case SymKind::Eq:
      return use([](int64_t a, int64_t b) -> int64_t { return a == b; });
    case SymKind::Ne:
      return use([](int64_t a, int64_t b) -> int64_t { return a != b; });
    case SymKind::Lt:
      return use([](int64_t a, int64_t b) -> int64_t { return a < b; });
    case SymKind::Le:
      return use([](int64_t a, int64_t b) -> int64_t { return a <= b; });
    case SymKind::And:
      return use([](int64_t a, int64_t b) -> int64_t { return a != 0 && b != 0; });
    default:  // Or. Add and Select have code of their own, Not is never stored.
      return use([](int64_t a, int64_t b) -> int64_t { return a != 0 || b != 0; });
  }
}

}  // namespace

int IndexEvaluator::AddNode(Node node) {
  const Wide lo = node.range.lo, hi = node.range.hi;
  node.risky |= index32_ ? !Fits32(lo) || !Fits32(hi) : !Fits64(lo) || !Fits64(hi);
  if (!node.uniform) {
    node.array = static_cast<int>(arrays_.size());
    arrays_.emplace_back(threads_, 0);
  }
  std::vector<int> below;
  for (const int child : node.children) {
    below.insert(below.end(), symbols_below_[child].begin(), symbols_below_[child].end());
  }
  std::sort(below.begin(), below.end());
  below.erase(std::unique(below.begin(), below.end()), below.end());
  const int id = static_cast<int>(nodes_.size());
  for (const int symbol : below) dependents_[nodes_[symbol].source].push_back(id);
  symbols_below_.push_back(std::move(below));
  current_.push_back(0);
  nodes_.push_back(std::move(node));
  return id;
}

void IndexEvaluator::DeclareUniform(const SymNode* symbol, int64_t lo, int64_t hi) {
  Node node{.kind = SymKind::Symbol, .uniform = true, .range = {lo, hi}, .source = symbol};
  const int id = AddNode(std::move(node));
  symbols_below_[id].push_back(id);
  current_[id] = 1;
  index_[symbol] = id;
}

void IndexEvaluator::DeclareVarying(const SymNode* symbol, int64_t lo, int64_t hi) {
  Node node{.kind = SymKind::Symbol, .uniform = false, .range = {lo, hi}, .source = symbol};
  const int id = AddNode(std::move(node));
  symbols_below_[id].push_back(id);
  current_[id] = 1;
  index_[symbol] = id;
}

std::pair<int64_t, int64_t> IndexEvaluator::DeclaredBounds(const SymNode* symbol) {
  int64_t hi = symbol->range.hi;
  bool known = symbol->upper.is_valid();
  for (const SymNode* s : FreeSymbols(symbol->upper)) known = known && index_.contains(s);
  if (known) {
    hi = static_cast<int64_t>(std::min<Wide>(hi, nodes_[NodeOf(symbol->upper)].range.hi));
  }
  return {symbol->range.lo, hi};
}

int IndexEvaluator::NodeOf(SymInt e) {
  if (const std::optional<int64_t> value = e.maybe_int()) {
    const auto [it, inserted] = constants_.emplace(*value, 0);
    if (inserted) {
      it->second = AddNode({.kind = SymKind::Constant,
                            .uniform = true,
                            .value = *value,
                            .range = {*value, *value},
                            .source = nullptr});
      current_[it->second] = 1;
    }
    return it->second;
  }
  if (const auto found = index_.find(e.node()); found != index_.end()) return found->second;
  const SymInt roots[] = {e};
  for (const SymNode* source : TopologicalNodes(roots)) {
    if (source->kind == SymKind::Constant || index_.contains(source)) continue;
    Node node{
        .kind = source->kind, .uniform = true, .constant = source->constant, .source = source};
    for (const SymInt child : source->children) {
      node.children.push_back(child.maybe_int().has_value() ? NodeOf(child)
                                                            : index_.at(child.node()));
      node.uniform = node.uniform && nodes_[node.children.back()].uniform;
    }
    node.coefficients.assign(source->coefficients.begin(), source->coefficients.end());
    node.range = Range(node);
    if (node.kind == SymKind::FloorDiv || node.kind == SymKind::Mod) {
      const Interval a = nodes_[node.children[0]].range, b = nodes_[node.children[1]].range;
      node.divides32 = a.lo >= 0 && a.hi <= UINT32_MAX && b.lo >= 0 && b.hi <= UINT32_MAX;
      node.risky = b.lo <= 0 && b.hi >= 0;
    }
    const int id = AddNode(std::move(node));
    index_[source] = id;
  }
  return index_.at(e.node());
}

IndexEvaluator::Interval IndexEvaluator::Range(const Node& node) const {
  const auto range = [&](int i) { return nodes_[node.children[i]].range; };
  const auto corners = [](Interval a, Interval b, Wide (*f)(Wide, Wide)) {
    const Wide values[] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
    return Interval{Cut(*std::min_element(values, values + 4)),
                    Cut(*std::max_element(values, values + 4))};
  };
  switch (node.kind) {
    case SymKind::Add: {
      Interval sum{node.constant, node.constant};
      for (size_t i = 0; i < node.children.size(); ++i) {
        const Interval term = corners(range(i), {node.coefficients[i], node.coefficients[i]},
                                      [](Wide a, Wide b) { return a * b; });
        sum = {Cut(sum.lo + term.lo), Cut(sum.hi + term.hi)};
      }
      return sum;
    }
    case SymKind::Mul: {
      Interval product = range(0);
      for (size_t i = 1; i < node.children.size(); ++i) {
        product = corners(product, range(i), [](Wide a, Wide b) { return a * b; });
      }
      return product;
    }
    case SymKind::FloorDiv: {
      if (range(1).lo > 0) return corners(range(0), range(1), WideFloorDiv);
      const Wide most = Cut(std::max(-range(0).lo, range(0).hi));
      return {-most, most};
    }
    case SymKind::Mod: {
      const Interval a = range(0), b = range(1);
      if (b.lo > 0) return a.lo >= 0 && a.hi < b.lo ? a : Interval{0, b.hi - 1};
      const Wide most = Cut(std::max(-b.lo, b.hi));
      return {-most, most};
    }
    case SymKind::Min:
    case SymKind::Max: {
      Interval best = range(0);
      for (size_t i = 1; i < node.children.size(); ++i) {
        const Interval other = range(i);
        best = node.kind == SymKind::Min
                   ? Interval{std::min(best.lo, other.lo), std::min(best.hi, other.hi)}
                   : Interval{std::max(best.lo, other.lo), std::max(best.hi, other.hi)};
      }
      return best;
    }
    case SymKind::Select:
      return {std::min(range(1).lo, range(2).lo), std::max(range(1).hi, range(2).hi)};
    default:
      return {0, 1};
  }
}

int IndexEvaluator::Compile(SymInt e) {
  Root root{NodeOf(e), {}, {}};
  std::vector<int> pending = {root.node};
  std::vector<int> seen;
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    if (std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
    seen.push_back(node);
    pending.insert(pending.end(), nodes_[node].children.begin(), nodes_[node].children.end());
  }
  std::sort(seen.begin(), seen.end());  // Children were added before their parents.
  root.order = std::move(seen);
  for (const int node : root.order) {
    if (nodes_[node].risky) root.risky.push_back(node);
  }
  roots_.push_back(std::move(root));
  return static_cast<int>(roots_.size()) - 1;
}

void IndexEvaluator::SetUniform(const SymNode* symbol, int64_t value) {
  nodes_[index_.at(symbol)].value = value;
  Changed(symbol);
}

int64_t* IndexEvaluator::MutableVarying(const SymNode* symbol) {
  return arrays_[nodes_[index_.at(symbol)].array].data();
}

void IndexEvaluator::Changed(const SymNode* symbol) {
  const auto found = dependents_.find(symbol);
  if (found == dependents_.end()) return;
  for (const int node : found->second) current_[node] = 0;
}

const int64_t* IndexEvaluator::Values(int expr) {
  Update(roots_[expr]);
  const Node& node = nodes_[roots_[expr].node];
  if (!node.uniform) return arrays_[node.array].data();
  broadcast_.assign(threads_, node.value);
  return broadcast_.data();
}

void IndexEvaluator::Update(const Root& root) {
  if (current_[root.node]) return;
  for (const int id : root.order) {
    if (current_[id]) continue;
    Node& node = nodes_[id];
    if (node.uniform) {
      Compute(node);
    } else {
      ComputeVarying(node);
    }
    current_[id] = 1;
  }
}

void IndexEvaluator::Compute(Node& node) {
  const auto child = [&](size_t i) { return nodes_[node.children[i]].value; };
  if (node.kind == SymKind::Add) {
    int64_t sum = node.constant;
    for (size_t i = 0; i < node.children.size(); ++i) {
      sum = WrappedAdd(sum, WrappedMul(node.coefficients[i], child(i)));
    }
    node.value = sum;
  } else if (node.kind == SymKind::Select) {
    node.value = child(0) != 0 ? child(1) : child(2);
  } else {
    WithBinary(node.kind, node.divides32, [&](auto f) {
      int64_t value = child(0);
      for (size_t i = 1; i < node.children.size(); ++i) value = f(value, child(i));
      node.value = value;
    });
  }
}

void IndexEvaluator::ComputeVarying(Node& node) {
  int64_t* out = arrays_[node.array].data();
  const int n = threads_;
  const auto array = [&](int child) -> const int64_t* {
    return nodes_[child].uniform ? nullptr : arrays_[nodes_[child].array].data();
  };
  if (node.kind == SymKind::Add) {
    int64_t base = node.constant;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const Node& child = nodes_[node.children[i]];
      if (child.uniform) base = WrappedAdd(base, WrappedMul(node.coefficients[i], child.value));
    }
    std::fill(out, out + n, base);
    for (size_t i = 0; i < node.children.size(); ++i) {
      const int64_t* x = array(node.children[i]);
      const int64_t c = node.coefficients[i];
      if (x == nullptr) continue;
      for (int t = 0; t < n; ++t) out[t] = WrappedAdd(out[t], WrappedMul(c, x[t]));
    }
    return;
  }
  if (node.kind == SymKind::Select) {
    for (int t = 0; t < n; ++t) {
      out[t] = ValueAt(node.children[ValueAt(node.children[0], t) != 0 ? 1 : 2], t);
    }
    return;
  }
  WithBinary(node.kind, node.divides32, [&](auto f) {
    const Node& first = nodes_[node.children[0]];
    if (first.uniform) {
      std::fill(out, out + n, first.value);
    } else {
      std::memcpy(out, array(node.children[0]), n * sizeof(int64_t));
    }
    for (size_t i = 1; i < node.children.size(); ++i) {
      if (const int64_t* x = array(node.children[i])) {
        for (int t = 0; t < n; ++t) out[t] = f(out[t], x[t]);
      } else {
        const int64_t value = nodes_[node.children[i]].value;
        for (int t = 0; t < n; ++t) out[t] = f(out[t], value);
      }
    }
  });
}

__int128 IndexEvaluator::Exact(int id, int thread) const {
  const Node& node = nodes_[id];
  const auto child = [&](size_t i) { return static_cast<Wide>(ValueAt(node.children[i], thread)); };
  if (node.kind == SymKind::Add) {
    Wide sum = node.constant;
    for (size_t i = 0; i < node.children.size(); ++i)
      sum = Cut(sum + Cut(node.coefficients[i] * child(i)));
    return sum;
  }
  if (node.kind == SymKind::Mul) {
    Wide product = child(0);
    for (size_t i = 1; i < node.children.size(); ++i) product = Cut(product * child(i));
    return product;
  }
  if (node.kind == SymKind::FloorDiv) return WideFloorDiv(child(0), child(1));
  return ValueAt(id, thread);
}

std::optional<IndexEvaluator::Overflow> IndexEvaluator::Check(int expr,
                                                              absl::Span<const int> lanes) {
  const Root& root = roots_[expr];
  if (root.risky.empty()) return std::nullopt;
  Update(root);
  for (const int id : root.risky) {
    const Node& node = nodes_[id];
    const auto text = [&] {
      return node.source ? SymInt::FromNode(node.source).ToString() : absl::StrCat(node.value);
    };
    const bool divides = node.kind == SymKind::FloorDiv || node.kind == SymKind::Mod;
    for (const int t : lanes) {
      if (divides && ValueAt(node.children[1], t) == 0) {
        return Overflow{t, absl::StrCat(text(), " divides by zero")};
      }
      const Wide value = Exact(id, t);
      if (!Fits64(value)) return Overflow{t, absl::StrCat(text(), " overflows 64 bits")};
      if (index32_ && !Fits32(value)) {
        return Overflow{t, absl::StrCat(text(), " is ", static_cast<int64_t>(value),
                                        ", beyond the 32 bits that the kernel promises")};
      }
      if (node.uniform) break;
    }
  }
  return std::nullopt;
}

}  // namespace seam::simulator
