// Symbolic integers: the extents of tensors and the index expressions of generated kernels.
//
// A SymInt is eight bytes: an integer, or a handle to a node that is hash-consed in a ShapeEnv.
// Every operation returns a canonical form, so that equal canonical forms are the same handle and a
// kernel's address is proven contiguous by comparing two words.
//
// Meaning: an expression is a function over the mathematical integers. Division floors and a
// remainder has the sign of its divisor, as in Python. Simplification is exact wherever the
// original expression is defined and every symbol is in its range; it may extend an expression to
// points where the original divided by zero, never the reverse. Overflow is found when constants
// are folded and when a value is computed (Evaluate, SymProgram::RunChecked).
//
// Canonical form:
//  - Add is `constant + sum of coefficient * child`, children sorted by id, no coefficient zero;
//  never a lone
//    child with coefficient 1. `3*M` is an Add of one term. Sums of sums are flattened up to
//    kMaxSumTerms terms; a longer one keeps an Add as a child.
//  - Mul is a sorted product of at least two non-constant factors (a power repeats its factor).
//  Products of
//    sums are expanded, unless the expansion has more than kMaxExpandedTerms terms.
//  - FloorDiv and Mod have children {numerator, divisor}; a constant divisor is at least 2. Sums
//    are compared with every `y % c` written as `y - c*(y//c)`, which is what makes
//    c*(x//c) + x%c collapse to x and mixed-radix chains re-fuse; a stored Add shows the Mods that
//    can be put back.
//  - Min, Max, And, Or have two or more children, constants last; of bounds that differ by a
//    constant And keeps the tightest, Or the loosest. Eq, Ne, Lt and Le are {left, right} with
//    every term on the side where its coefficient is positive. Not is pushed inwards to the
//    comparisons (of a non-boolean x it is `x == 0`), so that no node has kind Not.
//  - Select has children {condition, if true, if false}.
//
// Thread-safety: SymInt is a value and nodes are immutable. A ShapeEnv may be used from many
// threads; node ids then depend on their interleaving, and with them the order of terms, never the
// value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace seam {

class ShapeEnv;
struct SymNode;

enum class SymKind : uint8_t {
  Constant,
  Symbol,
  Add,
  Mul,
  FloorDiv,
  Mod,
  Min,
  Max,
  Eq,
  Ne,
  Lt,
  Le,
  And,
  Or,
  Not,
  Select
};

// Inclusive. A bound at a limit of int64 says that nothing is known on that side.
struct SymRange {
  int64_t lo = INT64_MIN;
  int64_t hi = INT64_MAX;
  friend bool operator==(SymRange a, SymRange b) { return a.lo == b.lo && a.hi == b.hi; }
};

class SymInt {
 public:
  constexpr SymInt(int64_t v = 0)  // NOLINT: an integer is a SymInt.
      : bits_(v >= kMinInline ? static_cast<uint64_t>(v) : InternConstant(v)) {}
  // The value of an overflow, of a division by the constant zero, of an operation on two
  // environments or on Invalid, and of an expression deeper or larger than the limits below.
  static constexpr SymInt Invalid() { return FromBits(kTag); }
  static SymInt FromNode(const SymNode* node) {
    return FromBits(kTag | static_cast<uint64_t>(reinterpret_cast<uintptr_t>(node)));
  }

  constexpr bool is_inline() const { return static_cast<int64_t>(bits_) >= kMinInline; }
  constexpr bool is_valid() const { return bits_ != kTag; }
  inline bool is_constant() const;
  bool is_symbolic() const { return is_valid() && !is_constant(); }
  inline std::optional<int64_t> maybe_int() const;
  // Null for an inline integer and for Invalid. Integers below -2^62 have a node without an
  // environment.
  const SymNode* node() const {
    return is_inline() ? nullptr : reinterpret_cast<const SymNode*>(bits_ & ~kTag);
  }
  inline ShapeEnv* env() const;  // Null for constants and Invalid.

  // Same integer or same node: structural equality of canonical forms. Two different handles may
  // still be equal for all values of their symbols; see ProvablyEqual.
  constexpr bool is_same(SymInt o) const { return bits_ == o.bits_; }
  friend constexpr bool operator==(SymInt a, SymInt b) { return a.bits_ == b.bits_; }
  template <typename H>
  friend H AbslHashValue(H h, SymInt e) {
    return H::combine(std::move(h), e.bits_);
  }
  constexpr uint64_t bits() const { return bits_; }

  // As Python would write it: "2*M + N//8 - 1", "min(M, 4)", "select(M < N, M, 0)", "M < N && N !=
  // 3". Read back by ParseSymInt. "<invalid>" for Invalid.
  std::string ToString() const;

  SymInt& operator+=(SymInt o);
  SymInt& operator-=(SymInt o);
  SymInt& operator*=(SymInt o);

 private:
  // Bits 63 and 62 are `10` for a handle: no int64 from -2^62 upwards has them.
  static constexpr int64_t kMinInline = -(int64_t{1} << 62);
  static constexpr uint64_t kTag = uint64_t{1} << 63;
  static constexpr SymInt FromBits(uint64_t bits) {
    SymInt e;
    e.bits_ = bits;
    return e;
  }
  static uint64_t InternConstant(int64_t v);

  uint64_t bits_;
};
static_assert(sizeof(SymInt) == 8 && std::is_trivially_copyable_v<SymInt>);

// Immutable; lives as long as its environment. Do not create one: the operations below do.
struct SymNode {
  SymKind kind = SymKind::Constant;
  uint16_t depth = 0;      // 0 for leaves; at most kMaxSymDepth.
  uint32_t id = 0;         // Order of creation in `env`; children have lower ids.
  uint32_t tree_size = 1;  // Nodes of the expression written as a tree; at most kMaxSymTreeSize.
  ShapeEnv* env = nullptr;
  SymRange range;
  int64_t constant = 0;  // Constant: its value. Add: the constant term.
  int64_t divisor = 1;   // What KnownDivisor returns.
  absl::Span<const SymInt> children;
  absl::Span<const int64_t> coefficients;  // Add only: one for each child.
  absl::string_view name;                  // Symbols only.
  SymInt upper;     // Symbols: the inclusive upper bound they were declared with. Others: 0.
  SymInt quotient;  // Mod: children[0] // children[1]. Others: 0.
};

// Constants that lie in a SymInt itself have no node and are of no kind.
inline bool IsKind(SymInt e, SymKind kind) { return e.node() != nullptr && e.node()->kind == kind; }

inline constexpr int kMaxSymDepth = 1000;
inline constexpr int kMaxSymTreeSize = 1 << 20;
inline constexpr int kMaxExpandedTerms = 64;
inline constexpr int kMaxSumTerms = 128;
inline constexpr size_t kMaxFactors = 256;  // Of a product; one with more is Invalid.

namespace sym_internal {
SymInt Add(SymInt a, SymInt b);
SymInt Sub(SymInt a, SymInt b);
SymInt Mul(SymInt a, SymInt b);
SymInt Divide(SymInt a, SymInt b);
SymInt Remainder(SymInt a, SymInt b);
}  // namespace sym_internal

// --- Arithmetic. On constants: no allocation, no environment. ---

inline SymInt operator+(SymInt a, SymInt b) {
  int64_t r;
  if (a.is_inline() && b.is_inline() &&
      !__builtin_add_overflow(static_cast<int64_t>(a.bits()), static_cast<int64_t>(b.bits()), &r)) {
    return r;
  }
  return sym_internal::Add(a, b);
}
inline SymInt operator-(SymInt a, SymInt b) {
  int64_t r;
  if (a.is_inline() && b.is_inline() &&
      !__builtin_sub_overflow(static_cast<int64_t>(a.bits()), static_cast<int64_t>(b.bits()), &r)) {
    return r;
  }
  return sym_internal::Sub(a, b);
}
inline SymInt operator*(SymInt a, SymInt b) {
  int64_t r;
  if (a.is_inline() && b.is_inline() &&
      !__builtin_mul_overflow(static_cast<int64_t>(a.bits()), static_cast<int64_t>(b.bits()), &r)) {
    return r;
  }
  return sym_internal::Mul(a, b);
}
inline SymInt operator-(SymInt a) { return SymInt(0) - a; }
inline SymInt& SymInt::operator+=(SymInt o) { return *this = *this + o; }
inline SymInt& SymInt::operator-=(SymInt o) { return *this = *this - o; }
inline SymInt& SymInt::operator*=(SymInt o) { return *this = *this * o; }

inline SymInt FloorDiv(SymInt a, SymInt b) {
  if (a.is_inline() && b.is_inline() && static_cast<int64_t>(b.bits()) > 0) {
    const int64_t x = static_cast<int64_t>(a.bits()), y = static_cast<int64_t>(b.bits());
    return x / y - (x % y < 0);
  }
  return sym_internal::Divide(a, b);
}
inline SymInt Mod(SymInt a, SymInt b) {
  if (a.is_inline() && b.is_inline() && static_cast<int64_t>(b.bits()) > 0) {
    const int64_t x = static_cast<int64_t>(a.bits()), y = static_cast<int64_t>(b.bits());
    return x % y < 0 ? x % y + y : x % y;
  }
  return sym_internal::Remainder(a, b);
}
SymInt CeilDiv(SymInt a, SymInt b);  // -((-a) // b).
SymInt Align(SymInt a, SymInt b);    // a rounded up to a multiple of b: b * CeilDiv(a, b).
SymInt Min(SymInt a, SymInt b);
SymInt Max(SymInt a, SymInt b);

// --- Conditions: 0 or 1. As an operand, any integer other than zero is true. ---
SymInt SymEq(SymInt a, SymInt b);
SymInt SymNe(SymInt a, SymInt b);
SymInt SymLt(SymInt a, SymInt b);
SymInt SymLe(SymInt a, SymInt b);
SymInt SymGt(SymInt a, SymInt b);
SymInt SymGe(SymInt a, SymInt b);
SymInt SymAnd(SymInt a, SymInt b);
SymInt SymOr(SymInt a, SymInt b);
SymInt SymNot(SymInt a);
SymInt SymSelect(SymInt condition, SymInt a, SymInt b);  // a where condition holds, else b.

// --- Facts. What cannot be proven is reported as unknown, never guessed. ---
SymRange RangeOf(SymInt e);  // All values of `e`; the full range for Invalid.
// The truth of `condition` for all values of its symbols, if it is the same for all.
std::optional<bool> Decide(SymInt condition);
bool ProvablyEqual(SymInt a, SymInt b);
bool ProvablyLt(SymInt a, SymInt b);
bool ProvablyLe(SymInt a, SymInt b);
bool ProvablyGe(SymInt a, SymInt b);
// A divisor of every value of `e`, as large as is known; at least 1, except 0 for the constant 0,
// which every integer divides. 1 for Invalid.
int64_t KnownDivisor(SymInt e);
bool ProvablyDivisible(SymInt e, int64_t k);  // k != 0

// The value of `e`. `lookup` gives a symbol's value, or nothing, which is an error like overflow,
// division by zero, a value outside its symbol's range, and Invalid. Linear in the distinct nodes
// of `e`. For many points compile a SymProgram once.
absl::StatusOr<int64_t> Evaluate(
    SymInt e, absl::FunctionRef<std::optional<int64_t>(const SymNode* symbol)> lookup);

// The distinct symbols of `e`, by id.
std::vector<const SymNode*> FreeSymbols(SymInt e);

// Every distinct node below the `roots`, constants left out, children before parents.
std::vector<const SymNode*> TopologicalNodes(absl::Span<const SymInt> roots);

// Owner of nodes and symbols. Not copyable: nodes point to it.
class ShapeEnv {
 public:
  ShapeEnv();
  ~ShapeEnv();
  ShapeEnv(const ShapeEnv&) = delete;
  ShapeEnv& operator=(const ShapeEnv&) = delete;

  // A new symbol with values lo..hi, inclusive. Names are [A-Za-z_][A-Za-z0-9_.]* and unique; the
  // functions and keywords of the text (min, max, select) are no names. Errors: a bad or used name,
  // lo > hi.
  absl::StatusOr<SymInt> NewSymbol(absl::string_view name, int64_t lo, int64_t hi);
  // The same with a symbolic upper bound of this environment, as of a loop index 0..N-1. A point
  // where hi < lo is outside every expression's domain, as a loop without iterations is.
  absl::StatusOr<SymInt> NewSymbol(absl::string_view name, int64_t lo, SymInt hi);
  // The same under the first free name of `prefix`, `prefix_1`, ... Invalid where NewSymbol is an
  // error.
  SymInt FreshSymbol(absl::string_view prefix, int64_t lo, int64_t hi);
  SymInt FreshSymbol(absl::string_view prefix, int64_t lo, SymInt hi);

  std::optional<SymInt> Find(absl::string_view name) const;
  std::vector<const SymNode*> symbols()
      const;  // By id. A copy, since others may add symbols meanwhile.

 private:
  friend class SymNodeFactory;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Rebuilds expressions of any environment inside `target`, replacing their symbols. Nodes are
// memoised: many expressions that share nodes cost one visit a node. Specialising a dimension is an
// importer that maps its symbol to a constant. Not thread-safe.
class SymImporter {
 public:
  explicit SymImporter(ShapeEnv* target) : target_(target) {}
  void Map(const SymNode* symbol,
           SymInt replacement);  // Before the first Import that meets `symbol`.
  SymInt Import(SymInt e);       // Invalid where `e` holds a symbol that is not mapped.

 private:
  ShapeEnv* target_;
  absl::flat_hash_map<const SymNode*, SymInt> done_;
};

// Reads the longest expression that starts `*text` and removes it from there. `env` resolves the
// names. Errors name the byte offset, and `*text` then starts there.
// Operands nest up to 256 deep.
absl::StatusOr<SymInt> ParseSymInt(absl::string_view* text, const ShapeEnv& env);

// --- Definitions ---
inline bool SymInt::is_constant() const {
  return is_inline() || (is_valid() && node()->kind == SymKind::Constant);
}
inline std::optional<int64_t> SymInt::maybe_int() const {
  if (is_inline()) return static_cast<int64_t>(bits_);
  if (is_valid() && node()->kind == SymKind::Constant) return node()->constant;
  return std::nullopt;
}
inline ShapeEnv* SymInt::env() const { return is_inline() || !is_valid() ? nullptr : node()->env; }

}  // namespace seam
