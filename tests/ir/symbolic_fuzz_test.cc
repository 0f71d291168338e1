// Random expressions: the canonical form against the tree as it was written.
//
// A tree is evaluated directly, and its canonical form by a SymProgram, at random points inside the
// ranges of the symbols. Where the tree is defined the two agree, the range holds the value and the
// known divisor divides it; the text reads back as the same node. SEAM_FUZZ_ROUNDS multiplies the
// work, SEAM_FUZZ_SEED moves it elsewhere.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "ir/symbolic/guard.h"
#include "ir/symbolic/sym_int.h"
#include "ir/symbolic/sym_program.h"

namespace seam {
namespace {

enum class Op {
  Const,
  Symbol,
  Add,
  Sub,
  Mul,
  Div,
  Mod,
  CeilDiv,
  Align,
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

struct Tree {
  Op op;
  int a = 0, b = 0, c = 0;  // Indices of operands; the symbol.
  int64_t value = 0;
};

struct Value {
  bool defined = false;
  int64_t v = 0;
};

struct SymbolSpec {
  SymInt sym;
  int64_t lo, hi;
  int bound = -1;  // Or: hi is another symbol's value plus `offset`.
  int64_t offset = 0;
};

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : random_(seed) {
    Add(0, 20);
    Add(1, 12);
    Add(1, 7);
    Add(-9, 30);
    Add(-5, -1);
    Add(3, 3);
    AddBelow(0, 1, -1);
    AddBelow(0, 2, -1);
    AddBelow(0, 0, 0);
    AddBelow(0, 6, 0);
    // A digit of a product: 0 .. S1*S2 - 1.
    symbols_.push_back(
        {env_.FreshSymbol("p", 0, symbols_[1].sym * symbols_[2].sym - 1), 0, 0, -2, 0});
  }

  int64_t Uniform(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }

  void Add(int64_t lo, int64_t hi) { symbols_.push_back({env_.FreshSymbol("s", lo, hi), lo, hi}); }
  void AddBelow(int64_t lo, int bound, int64_t offset) {
    symbols_.push_back(
        {env_.FreshSymbol("r", lo, symbols_[bound].sym + offset), lo, 0, bound, offset});
  }

  // Adds a tree of about `size` nodes and returns its index.
  int Generate(int size) {
    if (size <= 1 || (!trees_.empty() && Uniform(0, 5) == 0)) {
      if (size > 1) return static_cast<int>(Uniform(0, trees_.size() - 1));  // Shared.
      if (Uniform(0, 2) == 0) {
        static constexpr int64_t kConstants[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, -1, -2, -3, -8, 5, 7};
        return Push({Op::Const, 0, 0, 0, kConstants[Uniform(0, 14)]});
      }
      return Push({Op::Symbol, static_cast<int>(Uniform(0, symbols_.size() - 1))});
    }
    static constexpr Op kOps[] = {
        Op::Add, Op::Add, Op::Add, Op::Sub, Op::Sub, Op::Mul,    Op::Mul,     Op::Mul,  Op::Div,
        Op::Div, Op::Div, Op::Mod, Op::Mod, Op::Mod, Op::Min,    Op::Max,     Op::Eq,   Op::Ne,
        Op::Lt,  Op::Le,  Op::And, Op::Or,  Op::Not, Op::Select, Op::CeilDiv, Op::Align};
    Tree t = {kOps[Uniform(0, std::size(kOps) - 1)]};
    const int left = static_cast<int>(Uniform(1, size - 1));
    t.a = Generate(left);
    t.b = Generate(std::max(1, size - 1 - left));
    if (t.op == Op::Select) t.c = Generate(std::max(1, size / 3));
    return Push(t);
  }

  SymInt Canonical(const Tree& t) const {
    const SymInt a = t.op > Op::Symbol ? canonical_[t.a] : SymInt(0);
    const SymInt b = t.op > Op::Symbol ? canonical_[t.b] : SymInt(0);
    switch (t.op) {
      case Op::Const:
        return t.value;
      case Op::Symbol:
        return symbols_[t.a].sym;
      case Op::Add:
        return a + b;
      case Op::Sub:
        return a - b;
      case Op::Mul:
        return a * b;
      case Op::Div:
        return FloorDiv(a, b);
      case Op::Mod:
        return Mod(a, b);
      case Op::CeilDiv:
        return CeilDiv(a, b);
      case Op::Align:
        return Align(a, b);
      case Op::Min:
        return Min(a, b);
      case Op::Max:
        return Max(a, b);
      case Op::Eq:
        return SymEq(a, b);
      case Op::Ne:
        return SymNe(a, b);
      case Op::Lt:
        return SymLt(a, b);
      case Op::Le:
        return SymLe(a, b);
      case Op::And:
        return SymAnd(a, b);
      case Op::Or:
        return SymOr(a, b);
      case Op::Not:
        return SymNot(a);
      case Op::Select:
        return SymSelect(canonical_[t.c], a, b);
    }
    return SymInt::Invalid();
  }

  static Value Apply(const Tree& t, const std::vector<Value>& values,
                     const std::vector<int64_t>& point) {
    if (t.op == Op::Const) return {true, t.value};
    if (t.op == Op::Symbol) return {true, point[t.a]};
    const Value a = values[t.a], b = values[t.b];
    if (t.op == Op::Select) {
      const Value c = values[t.c];
      return !c.defined ? Value{} : c.v != 0 ? a : b;
    }
    if (!a.defined || !b.defined) return {};
    __int128 r = 0;
    const __int128 x = a.v, y = b.v;
    const bool divides =
        t.op == Op::Div || t.op == Op::Mod || t.op == Op::CeilDiv || t.op == Op::Align;
    if (divides && y == 0) return {};
    const auto floor = [](__int128 p, __int128 q) {
      return p / q - (p % q != 0 && (p % q < 0) != (q < 0) ? 1 : 0);
    };
    switch (t.op) {
      case Op::Add:
        r = x + y;
        break;
      case Op::Sub:
        r = x - y;
        break;
      case Op::Mul:
        r = x * y;
        break;
      case Op::Div:
        r = floor(x, y);
        break;
      case Op::Mod:
        r = x - y * floor(x, y);
        break;
      case Op::CeilDiv:
        r = -floor(-x, y);
        break;
      case Op::Align:
        r = -floor(-x, y) * y;
        break;
      case Op::Min:
        r = std::min(x, y);
        break;
      case Op::Max:
        r = std::max(x, y);
        break;
      case Op::Eq:
        r = x == y;
        break;
      case Op::Ne:
        r = x != y;
        break;
      case Op::Lt:
        r = x < y;
        break;
      case Op::Le:
        r = x <= y;
        break;
      case Op::And:
        r = x != 0 && y != 0;
        break;
      case Op::Or:
        r = x != 0 || y != 0;
        break;
      default:
        r = x == 0;
        break;
    }
    // Far from the limits of int64, so that no canonical form of these small trees overflows.
    if (r > (int64_t{1} << 40) || r < -(int64_t{1} << 40)) return {};
    return {true, static_cast<int64_t>(r)};
  }

  int Push(const Tree& t) {
    trees_.push_back(t);
    canonical_.push_back(Canonical(t));
    return static_cast<int>(trees_.size()) - 1;
  }

  std::vector<int64_t> Point() {
    std::vector<int64_t> p;
    for (const SymbolSpec& s : symbols_) {
      int64_t hi = s.hi;
      if (s.bound >= 0) hi = p[s.bound] + s.offset;
      if (s.bound == -2) hi = p[1] * p[2] - 1;
      // The ends of a range matter most.
      const int64_t pick = Uniform(0, 5);
      p.push_back(pick == 0 ? s.lo : pick == 1 ? hi : Uniform(s.lo, hi));
    }
    return p;
  }

  std::string Describe(int i) const {
    const Tree& t = trees_[i];
    if (t.op == Op::Const) return std::to_string(t.value);
    if (t.op == Op::Symbol) return symbols_[t.a].sym.ToString();
    static constexpr const char* kNames[] = {
        "",    "",   "add", "sub", "mul", "div", "mod", "ceildiv", "align", "min",
        "max", "eq", "ne",  "lt",  "le",  "and", "or",  "not",     "select"};
    std::string s = std::string(kNames[static_cast<int>(t.op)]) + "(";
    if (t.op == Op::Select) s += Describe(t.c) + ", ";
    return s + Describe(t.a) + ", " + Describe(t.b) + ")";
  }

  // Pairs of trees of which the first makes the second true.
  std::vector<std::pair<int, int>> Implications() const {
    std::vector<int> conditions;
    for (size_t i = 0; i < trees_.size(); ++i) {
      const bool compares = trees_[i].op >= Op::Eq && trees_[i].op <= Op::Not;
      if (compares && canonical_[i].is_symbolic()) conditions.push_back(static_cast<int>(i));
    }
    std::vector<std::pair<int, int>> pairs;
    for (const int i : conditions) {
      for (const int j : conditions) {
        if (!canonical_[i].is_same(canonical_[j]) && Implies(canonical_[i], canonical_[j])) {
          pairs.push_back({i, j});
        }
      }
    }
    return pairs;
  }

  // Checks all trees at `points` points; returns the number of values that were compared.
  int64_t Check(int points) {
    std::vector<const SymNode*> inputs;
    for (const SymbolSpec& s : symbols_) inputs.push_back(s.sym.node());
    std::vector<SymInt> outputs;
    for (const SymInt e : canonical_) outputs.push_back(e.is_valid() ? e : SymInt(0));
    const auto program = SymProgram::Compile(outputs, inputs);
    // The same expressions rebuilt in another environment whose symbols have their ranges and no
    // bounds.
    ShapeEnv other;
    SymImporter importer(&other);
    std::vector<const SymNode*> other_inputs;
    for (const SymNode* s : inputs) {
      const SymInt copy = other.FreshSymbol(s->name, s->range.lo, s->range.hi);
      importer.Map(s, copy);
      other_inputs.push_back(copy.node());
    }
    std::vector<SymInt> imported;
    std::vector<bool> is_imported;
    for (const SymInt e : outputs) {
      // Without the bounds an expression is longer and may pass a limit.
      const SymInt copy = importer.Import(e);
      is_imported.push_back(copy.is_valid());
      imported.push_back(copy.is_valid() ? copy : SymInt(0));
    }
    const auto other_program = SymProgram::Compile(imported, other_inputs);
    EXPECT_TRUE(program.ok() && other_program.ok()) << program.status() << other_program.status();
    if (!program.ok() || !other_program.ok()) return 0;
    std::vector<int64_t> got(outputs.size()), got_imported(outputs.size());
    std::vector<Value> want(trees_.size());
    const auto implications = Implications();
    int64_t compared = 0;
    for (int n = 0; n < points; ++n) {
      const std::vector<int64_t> point = Point();
      program->Run(point.data(), got.data());
      other_program->Run(point.data(), got_imported.data());
      for (size_t i = 0; i < trees_.size(); ++i) {
        want[i] = Apply(trees_[i], want, point);
        if (!want[i].defined || !canonical_[i].is_valid()) continue;
        ++compared;
        const int64_t v = want[i].v;
        const SymRange range = RangeOf(canonical_[i]);
        const int64_t d = KnownDivisor(canonical_[i]);
        if (v == got[i] && (!is_imported[i] || v == got_imported[i]) && v >= range.lo &&
            v <= range.hi && (d == 0 ? v == 0 : v % d == 0))
          continue;
        std::string where;
        for (size_t s = 0; s < point.size(); ++s) {
          where += symbols_[s].sym.ToString() + "=" + std::to_string(point[s]) + " ";
        }
        ADD_FAILURE() << Describe(i) << "\n is " << v << "\n canonical " << canonical_[i].ToString()
                      << "\n gives " << got[i] << "\n imported " << imported[i].ToString()
                      << "\n gives " << got_imported[i] << "\n range " << range.lo << ".."
                      << range.hi << " divisor " << d << "\n at " << where;
        return compared;
      }
      for (const auto& [i, j] : implications) {
        if (!want[i].defined || !want[j].defined || want[i].v == 0) continue;
        ++implied_;
        EXPECT_NE(want[j].v, 0) << canonical_[i].ToString() << " does not imply "
                                << canonical_[j].ToString();
      }
    }
    return compared;
  }

  void CheckText() {
    for (const SymInt e : canonical_) {
      if (!e.is_valid()) continue;
      const std::string text = e.ToString();
      absl::string_view rest = text;
      const auto parsed = ParseSymInt(&rest, env_);
      ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
      EXPECT_TRUE(rest.empty()) << text;
      reread_differently_ += !parsed->is_same(e);
    }
  }

  int Valid() const {
    return static_cast<int>(
        std::count_if(canonical_.begin(), canonical_.end(), [](SymInt e) { return e.is_valid(); }));
  }

  ShapeEnv env_;
  std::mt19937_64 random_;
  std::vector<SymbolSpec> symbols_;
  std::vector<Tree> trees_;
  std::vector<SymInt> canonical_;
  int reread_differently_ = 0;
  int64_t implied_ = 0;
};

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

TEST(SymbolicFuzzTest, CanonicalFormsAgreeWithTheTreesTheyComeFrom) {
  const int64_t rounds = 300 * FromEnvironment("SEAM_FUZZ_ROUNDS", 1);
  const int64_t seed = FromEnvironment("SEAM_FUZZ_SEED", 1);
  int64_t compared = 0, implied = 0, valid = 0, reread_differently = 0;
  for (int64_t round = 0; round < rounds && !HasFailure(); ++round) {
    Fuzzer fuzzer(seed * 1000003 + round);
    for (int i = 0; i < 30; ++i) fuzzer.Generate(static_cast<int>(fuzzer.Uniform(2, 14)));
    compared += fuzzer.Check(50);
    implied += fuzzer.implied_;
    fuzzer.CheckText();
    EXPECT_GT(fuzzer.Valid(), static_cast<int>(fuzzer.trees_.size() / 2));
    valid += fuzzer.Valid();
    reread_differently += fuzzer.reread_differently_;
  }
  EXPECT_GT(compared, rounds * 1000);
  EXPECT_GT(implied, rounds);
  // The form that a search for proofs with bounded work finds may depend on how an expression came
  // about, rarely.
  EXPECT_LE(reread_differently, valid / 10000);
}

}  // namespace
}  // namespace seam
