// Nodes lie in an arena of their environment. A look-up key is a node on the stack whose spans
// point to the caller's arrays; only a miss copies them.
#include "ir/symbolic/sym_node_factory.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <numeric>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ir/symbolic/sym_range.h"

namespace seam {
namespace {

struct NodeHash {
  size_t operator()(const SymNode* n) const {
    return absl::HashOf(n->kind, n->children, n->coefficients, n->constant);
  }
};
struct NodeEq {
  bool operator()(const SymNode* a, const SymNode* b) const {
    return a->kind == b->kind && a->constant == b->constant && a->children == b->children &&
           a->coefficients == b->coefficients;
  }
};

// Bump allocation; everything in it is trivially destructible.
class Arena {
 public:
  template <typename T>
  T* Allocate(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    const size_t bytes = (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    if (bytes > left_) {
      left_ = std::max(bytes, kBlockBytes);
      blocks_.push_back(std::make_unique<std::byte[]>(left_));
      next_ = blocks_.back().get();
    }
    std::byte* p = next_;
    next_ += bytes;
    left_ -= bytes;
    return reinterpret_cast<T*>(p);
  }
  template <typename T>
  absl::Span<const T> Copy(absl::Span<const T> from) {
    if (from.empty()) return {};
    T* to = Allocate<T>(from.size());
    std::uninitialized_copy(from.begin(), from.end(), to);
    return {to, from.size()};
  }

 private:
  static constexpr size_t kAlignment = alignof(SymNode);
  static constexpr size_t kBlockBytes = size_t{1} << 15;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace

struct ShapeEnv::Impl {
  mutable std::mutex mutex;
  Arena arena;
  uint32_t next_id = 0;
  absl::flat_hash_set<const SymNode*, NodeHash, NodeEq> nodes;
  absl::flat_hash_map<std::tuple<SymKind, uint64_t, uint64_t>, SymInt> memo;
  std::vector<const SymNode*> symbols;
  absl::flat_hash_map<absl::string_view, const SymNode*> by_name;  // Keys lie in the arena.

  absl::flat_hash_map<std::string, int64_t>
      next_suffix;  // The last one FreshSymbol tried, by prefix.

  // Requires the lock and a free name.
  SymInt AddSymbol(ShapeEnv* env, absl::string_view name, int64_t lo, SymInt hi) {
    char* copy = arena.Allocate<char>(name.size());
    std::memcpy(copy, name.data(), name.size());
    SymNode* node = new (arena.Allocate<SymNode>(1)) SymNode;
    node->kind = SymKind::Symbol;
    node->id = next_id++;
    node->env = env;
    node->range = {lo, RangeOf(hi).hi};
    node->name = absl::string_view(copy, name.size());
    node->upper = hi;
    symbols.push_back(node);
    by_name.emplace(node->name, node);
    return SymInt::FromNode(node);
  }
};

ShapeEnv::ShapeEnv() : impl_(std::make_unique<Impl>()) {}
ShapeEnv::~ShapeEnv() = default;

namespace {

absl::Status CheckSymbol(const ShapeEnv* env, absl::string_view name, int64_t lo, SymInt hi) {
  bool valid = !name.empty() && !absl::ascii_isdigit(name[0]) && name[0] != '.';
  for (const char c : name) valid = valid && (absl::ascii_isalnum(c) || c == '_' || c == '.');
  if (!valid) return absl::InvalidArgumentError(absl::StrCat("symbol \"", name, "\": not a name"));
  if (name == "min" || name == "max" || name == "select") {
    return absl::InvalidArgumentError(
        absl::StrCat("symbol \"", name, "\": the name of a function"));
  }
  if (!hi.is_valid() || (hi.env() != nullptr && hi.env() != env)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "symbol \"", name, "\": its upper bound is invalid or of another environment"));
  }
  if (lo > RangeOf(hi).hi) {
    return absl::InvalidArgumentError(absl::StrCat("symbol \"", name, "\": its lower bound ", lo,
                                                   " is above its upper bound ", hi.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SymInt> ShapeEnv::NewSymbol(absl::string_view name, int64_t lo, SymInt hi) {
  if (absl::Status status = CheckSymbol(this, name, lo, hi); !status.ok()) return status;
  std::lock_guard lock(impl_->mutex);
  if (impl_->by_name.contains(name)) {
    return absl::AlreadyExistsError(absl::StrCat("symbol \"", name, "\" exists already"));
  }
  return impl_->AddSymbol(this, name, lo, hi);
}

absl::StatusOr<SymInt> ShapeEnv::NewSymbol(absl::string_view name, int64_t lo, int64_t hi) {
  return NewSymbol(name, lo, SymInt(hi));
}

SymInt ShapeEnv::FreshSymbol(absl::string_view prefix, int64_t lo, SymInt hi) {
  if (!CheckSymbol(this, prefix, lo, hi).ok()) return SymInt::Invalid();
  std::lock_guard lock(impl_->mutex);
  std::string name(prefix);
  if (impl_->by_name.contains(name)) {
    int64_t& suffix = impl_->next_suffix[prefix];
    do {
      name = absl::StrCat(prefix, "_", ++suffix);
    } while (impl_->by_name.contains(name));
  }
  return impl_->AddSymbol(this, name, lo, hi);
}

SymInt ShapeEnv::FreshSymbol(absl::string_view prefix, int64_t lo, int64_t hi) {
  return FreshSymbol(prefix, lo, SymInt(hi));
}

std::optional<SymInt> ShapeEnv::Find(absl::string_view name) const {
  std::lock_guard lock(impl_->mutex);
  const auto it = impl_->by_name.find(name);
  if (it == impl_->by_name.end()) return std::nullopt;
  return SymInt::FromNode(it->second);
}

std::vector<const SymNode*> ShapeEnv::symbols() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->symbols;
}

// Constants below -2^62 live as long as the process.
uint64_t SymInt::InternConstant(int64_t v) {
  struct Table {
    std::mutex mutex;
    absl::flat_hash_map<int64_t, const SymNode*> nodes;
  };
  static Table& table = *new Table;
  std::lock_guard lock(table.mutex);
  const SymNode*& node = table.nodes[v];
  if (node == nullptr) {
    auto* made = new SymNode;
    made->range = {v, v};
    made->constant = v;
    made->divisor = v == INT64_MIN ? INT64_MIN / -2 : -v;
    node = made;
  }
  return SymInt::FromNode(node).bits();
}

SymRange RangeOf(SymInt e) {
  if (!e.is_valid()) return {};
  if (const auto v = e.maybe_int()) return {*v, *v};
  return e.node()->range;
}

int64_t KnownDivisor(SymInt e) {
  if (!e.is_valid()) return 1;
  if (e.is_inline()) return std::abs(*e.maybe_int());
  return e.node()->divisor;
}

namespace {

SymRange DeriveRange(const SymNode& n) {
  using namespace sym_internal;
  const auto range = [&](size_t i) { return RangeOf(n.children[i]); };
  SymRange r = range(0);
  switch (n.kind) {
    case SymKind::Add:
      return RangeOfSum(n.children, n.coefficients, n.constant);
    case SymKind::Mul:
      for (size_t i = 1; i < n.children.size(); ++i) r = MulRange(r, range(i));
      return r;
    case SymKind::FloorDiv:
      return FloorDivRange(r, range(1));
    case SymKind::Mod:
      return ModRange(r, range(1));
    case SymKind::Min:
      for (size_t i = 1; i < n.children.size(); ++i) {
        r = {std::min(r.lo, range(i).lo), std::min(r.hi, range(i).hi)};
      }
      return r;
    case SymKind::Max:
      for (size_t i = 1; i < n.children.size(); ++i) {
        r = {std::max(r.lo, range(i).lo), std::max(r.hi, range(i).hi)};
      }
      return r;
    case SymKind::Select:
      return UnionRange(range(1), range(2));
    default:
      return {0, 1};
  }
}

int64_t DeriveDivisor(const SymNode& n) {
  const auto divisor = [&](size_t i) { return KnownDivisor(n.children[i]); };
  int64_t d = divisor(0);
  switch (n.kind) {
    case SymKind::Add:
      d = n.constant == INT64_MIN ? INT64_MIN / -2 : std::abs(n.constant);
      for (size_t i = 0; i < n.children.size(); ++i) {
        int64_t term;
        const int64_t k = n.coefficients[i];
        if (k == INT64_MIN || __builtin_mul_overflow(std::abs(k), divisor(i), &term))
          term = divisor(i);
        d = std::gcd(d, term);
      }
      return d;
    case SymKind::Mul:
      for (size_t i = 1; i < n.children.size(); ++i) {
        int64_t product;
        d = __builtin_mul_overflow(d, divisor(i), &product) ? std::max(d, divisor(i)) : product;
      }
      return d;
    case SymKind::FloorDiv: {
      const int64_t c = n.children[1].maybe_int().value_or(0);
      return c > 0 && d % c == 0 ? d / c : 1;
    }
    case SymKind::Mod:
    case SymKind::Min:
    case SymKind::Max:
      for (size_t i = 1; i < n.children.size(); ++i) d = std::gcd(d, divisor(i));
      return d;
    case SymKind::Select:
      return std::gcd(divisor(1), divisor(2));
    default:
      return 1;
  }
}

}  // namespace

SymInt SymNodeFactory::Make(SymKind kind, absl::Span<const SymInt> children,
                            absl::Span<const int64_t> coefficients, int64_t constant,
                            SymInt quotient) {
  SymNode key;
  key.kind = kind;
  key.constant = constant;
  key.children = children;
  key.coefficients = coefficients;
  key.quotient = quotient;
  uint64_t tree_size = 1;
  int depth = 0;
  for (const SymInt child : children) {
    if (!child.is_valid()) return SymInt::Invalid();
    const SymNode* node = child.node();
    tree_size += node == nullptr ? 1 : node->tree_size;
    if (node == nullptr || node->env == nullptr) continue;
    depth = std::max(depth, node->depth + 1);
    if (key.env != nullptr && key.env != node->env) return SymInt::Invalid();
    key.env = node->env;
  }
  if (depth > kMaxSymDepth || tree_size > kMaxSymTreeSize) return SymInt::Invalid();
  key.depth = static_cast<uint16_t>(depth);
  key.tree_size = static_cast<uint32_t>(tree_size);

  ShapeEnv::Impl& impl = *key.env->impl_;
  {
    std::lock_guard lock(impl.mutex);
    if (const auto it = impl.nodes.find(&key); it != impl.nodes.end()) return SymInt::FromNode(*it);
  }
  key.range = DeriveRange(key);
  if (sym_internal::IsSingle(key.range)) return key.range.lo;
  key.divisor = DeriveDivisor(key);

  std::lock_guard lock(impl.mutex);
  if (const auto it = impl.nodes.find(&key); it != impl.nodes.end()) return SymInt::FromNode(*it);
  SymNode* node = new (impl.arena.Allocate<SymNode>(1)) SymNode(key);
  node->id = impl.next_id++;
  node->children = impl.arena.Copy(children);
  node->coefficients = impl.arena.Copy(coefficients);
  impl.nodes.insert(node);
  return SymInt::FromNode(node);
}

std::optional<SymInt> SymNodeFactory::Recall(ShapeEnv* env, SymKind op, SymInt a, SymInt b) {
  std::lock_guard lock(env->impl_->mutex);
  const auto it = env->impl_->memo.find({op, a.bits(), b.bits()});
  if (it == env->impl_->memo.end()) return std::nullopt;
  return it->second;
}

void SymNodeFactory::Remember(ShapeEnv* env, SymKind op, SymInt a, SymInt b, SymInt result) {
  std::lock_guard lock(env->impl_->mutex);
  env->impl_->memo.emplace(std::make_tuple(op, a.bits(), b.bits()), result);
}

}  // namespace seam
