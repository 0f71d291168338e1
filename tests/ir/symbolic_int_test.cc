// Symbolic integers: constants, canonical forms, index arithmetic of generated kernels, limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "ir/symbolic/sym_int.h"

namespace seam {
namespace {

constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;

class SymbolicIntTest : public ::testing::Test {
 protected:
  SymInt Sym(absl::string_view name, int64_t lo, SymInt hi) {
    return env_.NewSymbol(name, lo, hi).value();
  }
  // An extent of a tensor.
  SymInt Dim(absl::string_view name) { return Sym(name, 1, int64_t{1} << 30); }

  ShapeEnv env_;
};

#define EXPECT_SYM_EQ(a, b) \
  EXPECT_TRUE((a).is_same(b)) << #a << " is " << (a).ToString() << ", not " << SymInt(b).ToString()

TEST_F(SymbolicIntTest, IsEightTriviallyCopyableBytes) {
  static_assert(sizeof(SymInt) == 8);
  static_assert(std::is_trivially_copyable_v<SymInt>);
  constexpr SymInt seven = 7;
  static_assert(seven.is_inline() && seven.is_valid());
  EXPECT_EQ(SymInt().maybe_int(), 0);
}

TEST_F(SymbolicIntTest, HoldsEveryInt64) {
  for (const int64_t v : {int64_t{0}, int64_t{-1}, kMax, kMin, kMin + 1, -(int64_t{1} << 62),
                          -(int64_t{1} << 62) - 1, (int64_t{1} << 62)}) {
    EXPECT_EQ(SymInt(v).maybe_int(), v);
    EXPECT_TRUE(SymInt(v).is_constant());
    EXPECT_FALSE(SymInt(v).is_symbolic());
    EXPECT_TRUE(SymInt(v).is_valid());
    EXPECT_TRUE(SymInt(v).is_same(v));
    EXPECT_EQ(RangeOf(v), (SymRange{v, v}));
    EXPECT_EQ(SymInt(v).ToString(), std::to_string(v));
  }
  EXPECT_EQ((SymInt(kMin) + SymInt(kMax)).maybe_int(), -1);
  EXPECT_EQ((SymInt(kMin) - SymInt(kMin)).maybe_int(), 0);
}

TEST_F(SymbolicIntTest, OverflowAndDivisionByZeroAreInvalid) {
  const SymInt x = Sym("x", 0, 10);
  for (const SymInt e :
       {SymInt(kMax) + 1, SymInt(kMin) - 1, SymInt(kMax) * 2, -SymInt(kMin), FloorDiv(3, 0),
        Mod(3, 0), FloorDiv(x, 0), Mod(x, 0), FloorDiv(kMin, -1), x * kMax * 2,
        SymInt::Invalid() + 1, x - SymInt::Invalid(), Min(SymInt::Invalid(), 1),
        SymEq(SymInt::Invalid(), SymInt::Invalid()), SymAnd(0, SymInt::Invalid()),
        SymNot(SymInt::Invalid()), SymSelect(1, x, SymInt::Invalid()),
        SymSelect(SymInt::Invalid(), x, x), CeilDiv(SymInt::Invalid(), 2)}) {
    EXPECT_FALSE(e.is_valid()) << e.ToString();
    EXPECT_FALSE(e.maybe_int().has_value());
    EXPECT_EQ(e.node(), nullptr);
    EXPECT_EQ(Decide(e), std::nullopt);
    EXPECT_EQ(KnownDivisor(e), 1);
  }
  EXPECT_EQ(Mod(kMin, -1).maybe_int(), 0);
}

TEST_F(SymbolicIntTest, TwoEnvironmentsDoNotMix) {
  ShapeEnv other;
  const SymInt x = Sym("x", 0, 10), y = other.NewSymbol("x", 0, 10).value();
  for (const SymInt e :
       {x + y, x - y, x * y, FloorDiv(x, y), Mod(x, y), Min(x, y), SymEq(x, y), SymLe(x, y),
        SymAnd(x, y), SymSelect(x, y, y), SymSelect(SymEq(x, 3), 1, y)}) {
    EXPECT_FALSE(e.is_valid()) << e.ToString();
  }
  EXPECT_FALSE(env_.NewSymbol("z", 0, y).ok());
}

TEST_F(SymbolicIntTest, ConstantDivisionFloorsAsInPython) {
  for (int64_t a = -9; a <= 9; ++a) {
    for (const int64_t b : {-4, -3, -1, 1, 3, 4}) {
      const int64_t q =
          static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(FloorDiv(SymInt(a), b).maybe_int(), q) << a << "//" << b;
      EXPECT_EQ(Mod(SymInt(a), b).maybe_int(), a - q * b) << a << "%" << b;
      EXPECT_EQ(CeilDiv(SymInt(a), b).maybe_int(), -*FloorDiv(SymInt(-a), b).maybe_int());
    }
  }
  EXPECT_EQ(Align(SymInt(17), 8).maybe_int(), 24);
  EXPECT_EQ(Mod(kMin, 3).maybe_int(), 1);
  EXPECT_EQ(Mod(kMax, kMin).maybe_int(), -1);
}

TEST_F(SymbolicIntTest, SymbolsAreNamedOnceAndChecked) {
  const SymInt n = Sym("N", 0, 100);
  EXPECT_EQ(env_.NewSymbol("N", 0, 1).status().code(), absl::StatusCode::kAlreadyExists);
  for (const char* name : {"", "1x", "a b", "min", "max", "select", ".x", "a-b", "\xc3\xa4"}) {
    EXPECT_EQ(env_.NewSymbol(name, 0, 1).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_FALSE(env_.NewSymbol("empty", 1, 0).ok());
  EXPECT_FALSE(env_.NewSymbol("empty", 101, n).ok());
  EXPECT_FALSE(env_.NewSymbol("bad", 0, SymInt::Invalid()).ok());
  EXPECT_FALSE(env_.FreshSymbol("x", 1, 0).is_valid());
  EXPECT_SYM_EQ(*env_.Find("N"), n);
  EXPECT_EQ(env_.Find("M"), std::nullopt);
  EXPECT_EQ(env_.FreshSymbol("N", 0, 1).ToString(), "N_1");
  EXPECT_EQ(env_.FreshSymbol("N", 0, 1).ToString(), "N_2");
  EXPECT_EQ(env_.symbols().size(), 3u);
  const SymInt r = Sym("r", 0, n - 1);
  EXPECT_SYM_EQ(r.node()->upper, n - 1);
  EXPECT_EQ(RangeOf(r), (SymRange{0, 99}));
}

TEST_F(SymbolicIntTest, SumsAndProductsHaveOneForm) {
  const SymInt m = Dim("M"), n = Dim("N"), k = Dim("K");
  EXPECT_SYM_EQ(m + n, n + m);
  EXPECT_SYM_EQ((m + n) + k, m + (k + n));
  EXPECT_SYM_EQ(m * n * k, k * (n * m));
  EXPECT_SYM_EQ((m + n) * k, k * n + m * k);
  EXPECT_SYM_EQ((m + 1) * (m - 1), m * m - 1);
  EXPECT_SYM_EQ(m - m, 0);
  EXPECT_SYM_EQ(m + 0, m);
  EXPECT_SYM_EQ(m * 1, m);
  EXPECT_SYM_EQ(m * 0, 0);
  EXPECT_SYM_EQ(-(-m), m);
  EXPECT_SYM_EQ(m * 3 - m - m - m, 0);
  EXPECT_EQ((2 * m + n * k - 3).ToString(), "2*M + N*K - 3");
  const SymNode* sum = (2 * m + n - 3).node();
  ASSERT_EQ(sum->kind, SymKind::Add);
  EXPECT_EQ(sum->constant, -3);
  EXPECT_EQ(std::vector<int64_t>(sum->coefficients.begin(), sum->coefficients.end()),
            (std::vector<int64_t>{2, 1}));
  EXPECT_SYM_EQ(sum->children[0], m);
}

TEST_F(SymbolicIntTest, SymbolsOfOneValueFoldInOperations) {
  const SymInt one = Sym("one", 1, 1), zero = Sym("zero", 0, 0), m = Dim("M");
  EXPECT_TRUE(one.is_symbolic());
  EXPECT_SYM_EQ(one * m, m);
  EXPECT_SYM_EQ(zero * m + m, m);
  EXPECT_SYM_EQ(FloorDiv(m, one), m);
  EXPECT_SYM_EQ(Mod(m, one), 0);
  EXPECT_SYM_EQ(SymEq(one, 1), 1);
}

TEST_F(SymbolicIntTest, DivisionIdentities) {
  const SymInt x = Sym("x", -100, 100), n = Dim("N"), t = Sym("t", 0, 1000);
  EXPECT_SYM_EQ(FloorDiv(x, 1), x);
  EXPECT_SYM_EQ(Mod(x, 1), 0);
  EXPECT_SYM_EQ(FloorDiv(x, -1), -x);
  EXPECT_SYM_EQ(FloorDiv(0, n), 0);
  EXPECT_SYM_EQ(Mod(0, n), 0);
  EXPECT_SYM_EQ(FloorDiv(n, n), 1);
  EXPECT_SYM_EQ(Mod(n, n), 0);
  EXPECT_SYM_EQ(FloorDiv(FloorDiv(x, 3), 5), FloorDiv(x, 15));
  EXPECT_SYM_EQ(FloorDiv(FloorDiv(x, n), 5), FloorDiv(x, 5 * n));
  EXPECT_SYM_EQ(Mod(Mod(x, 24), 8), Mod(x, 8));
  EXPECT_SYM_EQ(FloorDiv(Mod(x, 24), 8), Mod(FloorDiv(x, 8), 3));
  EXPECT_SYM_EQ(FloorDiv(8 * x + 4, 8), x);
  EXPECT_SYM_EQ(FloorDiv(6 * x + 4, 8), FloorDiv(3 * x + 2, 4));
  EXPECT_SYM_EQ(Mod(16 * n + x, 8), Mod(x, 8));
  EXPECT_SYM_EQ(FloorDiv(16 * n + x, 8), 2 * n + FloorDiv(x, 8));
  EXPECT_SYM_EQ(FloorDiv(n * x + x, n), x + FloorDiv(x, n));
  EXPECT_SYM_EQ(FloorDiv(x, -4), FloorDiv(-x, 4));
  EXPECT_SYM_EQ(-FloorDiv(-x, 4), CeilDiv(x, 4));
  EXPECT_SYM_EQ(Mod(x, -4), -Mod(-x, 4));
  EXPECT_SYM_EQ(FloorDiv(t, 1001), 0);
  EXPECT_SYM_EQ(Mod(t, 1001), t);
  EXPECT_SYM_EQ(FloorDiv(t - 1001, 1001), -1);
  EXPECT_SYM_EQ(FloorDiv(n * n - 1, n + 1), n - 1);
}

TEST_F(SymbolicIntTest, QuotientAndRemainderFuse) {
  const SymInt x = Sym("x", -100, 100), n = Dim("N"), m = Dim("M");
  for (const SymInt c : {SymInt(8), SymInt(3), n, n + 1, 2 * n, n * m, n * m + n, -n}) {
    EXPECT_SYM_EQ(c * FloorDiv(x, c) + Mod(x, c), x);
    EXPECT_SYM_EQ(m * c * FloorDiv(x, c) + m * Mod(x, c), m * x);
    EXPECT_SYM_EQ(5 * c * FloorDiv(x, c) + 5 * Mod(x, c) - 5 * x, 0);
    EXPECT_SYM_EQ(x - Mod(x, c), c * FloorDiv(x, c));
    EXPECT_SYM_EQ(x - c * FloorDiv(x, c), Mod(x, c));
  }
  EXPECT_EQ(Mod(x, 8).node()->kind, SymKind::Mod);
  EXPECT_SYM_EQ(Mod(x, 8).node()->quotient, FloorDiv(x, 8));
  EXPECT_SYM_EQ(Mod(x, 8) * Mod(m, 3) - Mod(m, 3) * Mod(x, 8), 0);
}

// Whichever of the quotients was made first, so that what lanes and warps share is not negative.
TEST_F(SymbolicIntTest, RemaindersAreOfWholeNumerators) {
  for (const bool lanes_first : {false, true}) {
    const SymInt t = Sym(lanes_first ? "a" : "b", 0, 255);
    const SymInt first = FloorDiv(t, lanes_first ? 8 : 32);
    EXPECT_SYM_EQ(first, FloorDiv(t, lanes_first ? 8 : 32));
    const SymInt column = Mod(t, 8) + 8 * FloorDiv(t, 32);
    EXPECT_EQ(RangeOf(column).lo, 0) << column.ToString();
    EXPECT_EQ(RangeOf(column).hi, 63) << column.ToString();
  }
}

TEST_F(SymbolicIntTest, LoopIndexIsBelowItsSymbolicExtent) {
  const SymInt m = Dim("M"), n = Dim("N"), a = Sym("a", 0, m - 1), r = Sym("r", 0, n - 1);
  EXPECT_SYM_EQ(FloorDiv(r, n), 0);
  EXPECT_SYM_EQ(Mod(r, n), r);
  EXPECT_SYM_EQ(FloorDiv(a * n + r, n), a);
  EXPECT_SYM_EQ(Mod(a * n + r, n), r);
  EXPECT_SYM_EQ(FloorDiv(a * n + r, m * n), 0);
  EXPECT_SYM_EQ(SymLt(a * n + r, m * n), 1);
  EXPECT_SYM_EQ(SymLt(r, n), 1);
  EXPECT_SYM_EQ(SymLe(r, n), 1);
  EXPECT_SYM_EQ(SymEq(r, n), 0);
  EXPECT_SYM_EQ(Min(r, n - 1), r);
  EXPECT_SYM_EQ(Max(r, n), n);
  EXPECT_SYM_EQ(FloorDiv(4 * r + 3, 4 * n), 0);
  EXPECT_SYM_EQ(FloorDiv(r - n, n), -1);
  EXPECT_TRUE(SymLt(r, m).is_symbolic());
  EXPECT_TRUE(FloorDiv(r, m).is_symbolic());
  EXPECT_TRUE(FloorDiv(r + 1, n).is_symbolic());  // 1 for the last index.
  // Extents that may be 0: an index that exists says that the extent is positive.
  const SymInt z = Sym("Z", 0, 1 << 20), i = Sym("i", 0, z - 1);
  EXPECT_SYM_EQ(FloorDiv(i, z), 0);
  EXPECT_SYM_EQ(Mod(a * z + i, z), i);
}

TEST_F(SymbolicIntTest, ExtentsThatAreSums) {
  // A concatenation has the extent M + N, a padded tensor N + 2.
  const SymInt m = Dim("M"), n = Dim("N"), b = Dim("B");
  for (const SymInt extent : {m + n, n + 2, 2 * n + 1}) {
    const SymInt a = env_.FreshSymbol("a", 0, b - 1), r = env_.FreshSymbol("r", 0, extent - 1);
    EXPECT_SYM_EQ(FloorDiv(a * extent + r, extent), a);
    EXPECT_SYM_EQ(Mod(a * extent + r, extent), r);
    EXPECT_SYM_EQ(SymLt(a * extent + r, b * extent), 1);
    EXPECT_SYM_EQ(FloorDiv(a * extent + r, 4 * extent), FloorDiv(a, 4));
    EXPECT_SYM_EQ(Mod(a * extent + r, 4 * extent), Mod(a, 4) * extent + r);
  }
}

// The digits of a linear index in a mixed radix, and back: the address of a reshaped contiguous
// tensor.
TEST_F(SymbolicIntTest, MixedRadixDigitsFuse) {
  const SymInt t = Sym("t", 0, int64_t{1} << 40);
  const SymInt b = Dim("B"), c = Dim("C"), d = Dim("D");
  std::vector<std::vector<SymInt>> radices = {{4, 8}, {3, 5, 7},  {b, c},         {b, 8},
                                              {8, b}, {b, c, d},  {b, 4, c},      {2, b, c, 3},
                                              {b, b}, {b + 1, c}, {2, 2, 2, 2, 2}};
  for (const auto& radix : radices) {
    SymInt rest = t, stride = 1, sum = 0;
    for (size_t i = 0; i < radix.size(); ++i) {  // From the fastest digit.
      const SymInt digit = Mod(rest, radix[i]);
      EXPECT_SYM_EQ(digit, Mod(FloorDiv(t, stride), radix[i]));
      EXPECT_GE(RangeOf(digit).lo, 0);
      EXPECT_SYM_EQ(SymLt(digit, radix[i]), 1);
      sum += digit * stride;
      rest = FloorDiv(rest, radix[i]);
      stride *= radix[i];
    }
    EXPECT_SYM_EQ(sum + rest * stride, t);
  }
}

// Digits to a linear index and back: a tile's coordinates from its linear index.
TEST_F(SymbolicIntTest, MixedRadixDigitsComeBack) {
  const SymInt b = Dim("B"), c = Dim("C"), d = Dim("D");
  std::vector<std::vector<SymInt>> radices = {{4, 8}, {3, 5, 7},  {b, c},       {b, 8},
                                              {8, b}, {b, c, d},  {b, 4, c},    {2, b, c, 3},
                                              {b, b}, {b + 1, c}, {b + c, d, b}};
  for (const auto& radix : radices) {
    std::vector<SymInt> digits;
    SymInt t = 0, stride = 1;
    for (const SymInt extent : radix) {
      digits.push_back(env_.FreshSymbol("d", 0, extent - 1));
      t += digits.back() * stride;
      stride *= extent;
    }
    SymInt below = 1;
    for (size_t i = 0; i < radix.size(); ++i) {
      EXPECT_SYM_EQ(Mod(FloorDiv(t, below), radix[i]), digits[i]);
      below *= radix[i];
    }
    EXPECT_SYM_EQ(SymLt(t, stride), 1);
    EXPECT_SYM_EQ(FloorDiv(t, stride), 0);
  }
}

// A quotient that stands for itself as well hides no remainder: its terms would be far larger than
// what they add up to.
TEST_F(SymbolicIntTest, RemaindersBesideTheirQuotients) {
  const SymInt t = Sym("t", 0, 255), x = Sym("x", 0, 1 << 20), n = Dim("N"), m = Dim("M");
  const SymInt index = n * Mod(t, 32) + 5 * FloorDiv(t, 32) + m * Mod(t, 32);
  EXPECT_EQ(RangeOf(index).lo, 0) << index.ToString();
  EXPECT_EQ(index.ToString(), "M*(t%32) + N*(t%32) + 5*(t//32)");
  const SymInt digits = m * Mod(x, n) + 3 * Mod(FloorDiv(x, n), 7) + n * FloorDiv(x, 7 * n);
  EXPECT_EQ(RangeOf(digits).lo, 0) << digits.ToString();
  EXPECT_SYM_EQ(digits - 3 * Mod(FloorDiv(x, n), 7),
                m * x - m * n * FloorDiv(x, n) + n * FloorDiv(x, 7 * n));
  // Rows of eight lanes, of which a CTA has 16.
  const SymInt row = 16 * x + FloorDiv(t, 8);
  const SymInt turned = m * Mod(row, n) + FloorDiv(row, n);
  EXPECT_EQ(RangeOf(turned).lo, 0) << turned.ToString();
}

// The digits of x by 3 and 65 swapped and taken apart again: coefficients beyond half of the
// divisor are rounded up, so that nothing stands in for x//3.
TEST_F(SymbolicIntTest, TransposedDigitsComeBack) {
  const SymInt x = Sym("x", 0, 3 * 65 - 1);
  const SymInt transposed = 65 * Mod(x, 3) + FloorDiv(x, 3);
  EXPECT_SYM_EQ(Mod(transposed, 65), FloorDiv(x, 3));
  EXPECT_SYM_EQ(FloorDiv(transposed, 65), Mod(x, 3));
  EXPECT_SYM_EQ(Mod(64 * x, 65), Mod(-x, 65));
}

// x taken apart once, with a digit of blocks between: rows of blocks of 32 columns of N.
TEST_F(SymbolicIntTest, OneDigitComesBack) {
  const SymInt n = Dim("N"), t = Dim("T"), c = env_.FreshSymbol("c", 0, 31);
  const SymInt x = env_.FreshSymbol("x", 0, n * t - 1);
  const SymInt flat = n * (32 * FloorDiv(x, n) + c) + Mod(x, n);
  EXPECT_SYM_EQ(FloorDiv(flat, 32 * n), FloorDiv(x, n));
  EXPECT_SYM_EQ(Mod(flat, n), Mod(x, n));
}

// The digits of x in any other order, taken apart again: what permute and reshape make of pixels
// that are shuffled or merged.
TEST_F(SymbolicIntTest, DigitsInAnyOrderComeBack) {
  const SymInt c = Dim("C");
  for (const std::vector<SymInt>& radices :
       {std::vector<SymInt>{2, 2, 8 * c}, {2, 8 * c, 2}, {3, 5, 4}, {2, c, 3}, {2, 3, 2, 8 * c}}) {
    SymInt size = 1;
    for (SymInt r : radices) size = size * r;
    const SymInt x = env_.FreshSymbol("x", 0, size - 1);
    std::vector<SymInt> digits(radices.size());
    SymInt rest = x;
    for (size_t i = radices.size(); i-- > 0;) {
      digits[i] = Mod(rest, radices[i]);
      rest = FloorDiv(rest, radices[i]);
    }
    std::vector<size_t> order(radices.size());
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      SymInt flat = 0;
      for (size_t i : order) flat = flat * radices[i] + digits[i];
      SCOPED_TRACE(flat.ToString());
      SymInt again = flat;
      for (size_t i = order.size(); i-- > 0;) {
        EXPECT_SYM_EQ(Mod(again, radices[order[i]]), digits[order[i]]);
        again = FloorDiv(again, radices[order[i]]);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// One reshape read through another: [B, C*D] seen as [B*C, D].
TEST_F(SymbolicIntTest, ReshapesCompose) {
  const SymInt b = Dim("B"), c = Dim("C"), d = Dim("D");
  const SymInt i = Sym("i", 0, b * c - 1), j = Sym("j", 0, d - 1);
  const SymInt linear = i * d + j;
  const SymInt row = FloorDiv(linear, c * d), column = Mod(linear, c * d);
  EXPECT_SYM_EQ(row, FloorDiv(i, c));
  EXPECT_SYM_EQ(column, Mod(i, c) * d + j);
  EXPECT_SYM_EQ(row * (c * d) + column, linear);
  EXPECT_SYM_EQ(SymLt(row, b), 1);
  EXPECT_SYM_EQ(FloorDiv(column, d), Mod(i, c));
}

// A stride of three through a multiple of eight.
TEST_F(SymbolicIntTest, ReshapesComposeOverQuotients) {
  const SymInt s = Sym("s", 1, 1 << 17), b = Dim("B");
  const SymInt extent = FloorDiv(8 * s + 1, 3);
  EXPECT_EQ(RangeOf(extent).lo, 3);
  const SymInt row = Sym("row", 0, b * extent - 1);
  const SymInt linear = Mod(row, b) * extent + FloorDiv(row, b);
  EXPECT_SYM_EQ(FloorDiv(FloorDiv(row, b), extent), 0);
  EXPECT_SYM_EQ(FloorDiv(linear, extent), Mod(row, b));
  EXPECT_SYM_EQ(Mod(linear, extent), FloorDiv(row, b));
}

TEST_F(SymbolicIntTest, KnownDivisors) {
  const SymInt n = Dim("N"), p = Dim("P"), i = Sym("i", 0, 63), m = Dim("M"), x = Sym("x", -50, 50);
  EXPECT_EQ(KnownDivisor(0), 0);
  EXPECT_EQ(KnownDivisor(-12), 12);
  EXPECT_EQ(KnownDivisor(n), 1);
  EXPECT_EQ(KnownDivisor(8 * n * p + 8 * i), 8);
  EXPECT_EQ(KnownDivisor(8 * n * p + 4), 4);
  EXPECT_EQ(KnownDivisor(12 * n + 18 * m), 6);
  EXPECT_EQ(KnownDivisor((4 * n) * (6 * m)), 24);
  EXPECT_EQ(KnownDivisor(n - Mod(n, 8)), 8);
  EXPECT_EQ(KnownDivisor(Align(n, 16)), 16);
  EXPECT_EQ(KnownDivisor(Mod(4 * n, 6)), 2);
  EXPECT_EQ(KnownDivisor(Min(8 * n, 12 * m)), 4);
  EXPECT_EQ(KnownDivisor(Max(8 * n, 12 * x)), 4);
  EXPECT_EQ(KnownDivisor(FloorDiv(Min(16 * n, 24 * m), 4)), 2);
  EXPECT_EQ(KnownDivisor(FloorDiv(Min(16 * n, 24 * m), 3)), 1);
  EXPECT_EQ(KnownDivisor(SymSelect(SymLt(n, m), 6 * n, 9 * m)), 3);
  EXPECT_EQ(KnownDivisor(SymLt(n, m)), 1);
  EXPECT_TRUE(ProvablyDivisible(8 * n, 4));
  EXPECT_TRUE(ProvablyDivisible(8 * n, -8));
  EXPECT_TRUE(ProvablyDivisible(0, 5));
  EXPECT_FALSE(ProvablyDivisible(8 * n, 16));
  EXPECT_FALSE(ProvablyDivisible(8 * n, 0));
  EXPECT_FALSE(ProvablyDivisible(SymInt::Invalid(), 1));
  EXPECT_TRUE(ProvablyDivisible(kMin, kMin));
}

TEST_F(SymbolicIntTest, RangesFollowIntervalArithmetic) {
  const SymInt x = Sym("x", -3, 5), y = Sym("y", 2, 4), big = Sym("big", 0, kMax),
               all = Sym("all", kMin, kMax);
  EXPECT_EQ(RangeOf(x + y), (SymRange{-1, 9}));
  EXPECT_EQ(RangeOf(x - y), (SymRange{-7, 3}));
  EXPECT_EQ(RangeOf(x * y), (SymRange{-12, 20}));
  EXPECT_EQ(RangeOf(FloorDiv(x, y)), (SymRange{-2, 2}));
  EXPECT_EQ(RangeOf(Mod(x, y)), (SymRange{0, 3}));
  EXPECT_EQ(RangeOf(Mod(x, 16)), (SymRange{0, 15}));
  EXPECT_EQ(RangeOf(FloorDiv(y, x)), (SymRange{-4, 4}));
  EXPECT_EQ(RangeOf(Min(x, y)), (SymRange{-3, 4}));
  EXPECT_EQ(RangeOf(Max(x, y)), (SymRange{2, 5}));
  EXPECT_EQ(RangeOf(SymSelect(SymLt(x, 0), x, y)), (SymRange{-3, 5}));
  EXPECT_EQ(RangeOf(big + 1), (SymRange{1, kMax}));
  EXPECT_EQ(RangeOf(-big), (SymRange{kMin, 0}));
  EXPECT_EQ(RangeOf(big * big), (SymRange{0, kMax}));
  EXPECT_EQ(RangeOf(all * 2), (SymRange{kMin, kMax}));
  EXPECT_EQ(RangeOf(FloorDiv(big, y)), (SymRange{0, kMax}));
  EXPECT_EQ(RangeOf(FloorDiv(y, big)), (SymRange{0, 4}));
  EXPECT_EQ(RangeOf(Mod(all, 8)), (SymRange{0, 7}));
  // The unbounded side of a difference stays unbounded.
  EXPECT_EQ(RangeOf(5 - big).lo, kMin);
  EXPECT_EQ(RangeOf(5 - big).hi, 5);
  // Divisions are drawn together: this is (x%8 + y)//4.
  EXPECT_EQ(RangeOf(FloorDiv(Mod(x, 8) + y, 4)), (SymRange{0, 2}));
}

TEST_F(SymbolicIntTest, MinAndMax) {
  const SymInt m = Dim("M"), n = Dim("N"), x = Sym("x", 0, 7), y = Sym("y", 8, 9);
  EXPECT_EQ(Min(SymInt(3), -4).maybe_int(), -4);
  EXPECT_SYM_EQ(Min(x, y), x);
  EXPECT_SYM_EQ(Max(x, y), y);
  EXPECT_SYM_EQ(Min(x, 7), x);
  EXPECT_SYM_EQ(Min(m, m), m);
  EXPECT_SYM_EQ(Min(m, n), Min(n, m));
  EXPECT_SYM_EQ(Min(Min(m, n), 8), Min(m, Min(8, n)));
  EXPECT_SYM_EQ(Min(Min(m, 8), Min(n, 4)), Min(Min(m, n), 4));
  EXPECT_SYM_EQ(Min(m, m + 1), m);
  EXPECT_SYM_EQ(Max(m, m + n), m + n);
  EXPECT_SYM_EQ(Min(Min(m, n), m), Min(m, n));
  EXPECT_SYM_EQ(Max(Min(m, n), m), m);
  EXPECT_SYM_EQ(SymLe(Min(m, n), m), 1);
  EXPECT_SYM_EQ(SymLe(m, Max(m, n)), 1);
  EXPECT_SYM_EQ(SymLt(Min(m, n), Min(m, n) + 1), 1);
  EXPECT_EQ(Min(Min(m, n), 8).ToString(), "min(M, N, 8)");
  // The last tile of a row.
  const SymInt tile = Sym("tile", 0, CeilDiv(n, 128) - 1);
  const SymInt size = Min(128, n - 128 * tile);
  EXPECT_SYM_EQ(SymLe(128 * tile + size, n), 1);
}

TEST_F(SymbolicIntTest, Comparisons) {
  const SymInt m = Dim("M"), n = Dim("N"), x = Sym("x", -10, 10);
  EXPECT_SYM_EQ(SymLt(m, n), SymLe(m + 1, n));
  EXPECT_SYM_EQ(SymLt(m, n), SymGt(n, m));
  EXPECT_SYM_EQ(SymLt(m, n), SymNot(SymLe(n, m)));
  EXPECT_SYM_EQ(SymLe(2 * m, 2 * n + 1), SymLe(m, n));
  EXPECT_SYM_EQ(SymLt(8 * m, 8 * n + 8), SymLe(m, n));
  // What no multiple reaches does not matter.
  const SymInt v = Sym("v", 0, 7), w = Sym("w", -3, 4);
  EXPECT_SYM_EQ(SymLe(8 * m, 8 * n + v), SymLe(m, n));
  EXPECT_SYM_EQ(SymLt(8 * n + v, 8 * m), SymLt(n, m));
  EXPECT_SYM_EQ(SymLe(8 * m, 8 * n + w + 3), SymLe(m, n));
  EXPECT_SYM_EQ(SymLe(16 * m + 8 * x, 16 * n + v + 80), SymLe(2 * m + x, 2 * n + 10));
  EXPECT_FALSE(SymLe(8 * m, 8 * n + w).is_same(SymLe(m, n)));
  EXPECT_FALSE(SymLe(8 * m, 8 * n + v + 1).is_same(SymLe(m, n)));
  EXPECT_SYM_EQ(SymEq(2 * m, 2 * n), SymEq(n, m));
  EXPECT_SYM_EQ(SymEq(2 * m, 2 * n + 1), 0);
  EXPECT_SYM_EQ(SymNe(4 * m, 6), 1);
  EXPECT_SYM_EQ(SymEq(m + x, n + x), SymEq(m, n));
  EXPECT_SYM_EQ(SymNot(SymEq(m, n)), SymNe(m, n));
  EXPECT_SYM_EQ(SymLe(x, 10), 1);
  EXPECT_SYM_EQ(SymLt(x, -10), 0);
  EXPECT_SYM_EQ(SymEq(x, 11), 0);
  EXPECT_EQ(SymLt(m, n).ToString(), "M < N");
  EXPECT_EQ(SymLe(m, n).ToString(), "M <= N");
  EXPECT_EQ(SymLe(m, 5).ToString(), "M <= 5");
  EXPECT_EQ(SymGe(m, 5).ToString(), "5 <= M");
  EXPECT_EQ(SymLt(m + 3, n).ToString(), "M + 3 < N");
  EXPECT_EQ(SymEq(Mod(n, 8), 0).ToString(), "N%8 == 0");
  EXPECT_EQ(Decide(SymLt(m, n)), std::nullopt);
  EXPECT_EQ(Decide(m), true);
  EXPECT_EQ(Decide(x), std::nullopt);
  EXPECT_EQ(Decide(0), false);
  EXPECT_TRUE(ProvablyEqual(m + n, n + m));
  EXPECT_TRUE(ProvablyLt(x, 11));
  EXPECT_TRUE(ProvablyLe(x, 10));
  EXPECT_TRUE(ProvablyGe(x, -10));
  EXPECT_FALSE(ProvablyEqual(m, n));
  EXPECT_FALSE(ProvablyLt(x, 10));
  EXPECT_SYM_EQ(SymGe(Align(n, 8), n), 1);
  EXPECT_SYM_EQ(SymLt(Align(n, 8), n + 8), 1);
  EXPECT_SYM_EQ(SymGe(Align(n, m), n), 1);
}

TEST_F(SymbolicIntTest, FewPointsAreAllTried) {
  const SymInt few = Sym("few", 0, 3), more = Sym("more", 0, 4), many = Sym("many", 0, 1000);
  EXPECT_TRUE(ProvablyEqual(few - FloorDiv(few + 2, 4) - FloorDiv(few, 2), Mod(few, 2)));
  EXPECT_FALSE(ProvablyEqual(more - FloorDiv(more + 2, 4) - FloorDiv(more, 2), Mod(more, 2)));
  EXPECT_FALSE(ProvablyEqual(many - FloorDiv(many + 2, 4) - FloorDiv(many, 2), Mod(many, 2)));
}

TEST_F(SymbolicIntTest, Conditions) {
  const SymInt m = Dim("M"), n = Dim("N"), x = Sym("x", -10, 10);
  const SymInt a = SymLt(m, n), b = SymEq(x, 3), c = SymNe(Mod(n, 8), 0);
  EXPECT_SYM_EQ(SymAnd(a, 1), a);
  EXPECT_SYM_EQ(SymAnd(a, 0), 0);
  EXPECT_SYM_EQ(SymOr(a, 1), 1);
  EXPECT_SYM_EQ(SymOr(a, 0), a);
  EXPECT_SYM_EQ(SymAnd(a, a), a);
  EXPECT_SYM_EQ(SymAnd(a, SymNot(a)), 0);
  EXPECT_SYM_EQ(SymOr(a, SymNot(a)), 1);
  EXPECT_SYM_EQ(SymAnd(SymAnd(a, b), c), SymAnd(c, SymAnd(b, a)));
  EXPECT_SYM_EQ(SymNot(SymAnd(a, b)), SymOr(SymNot(a), SymNot(b)));
  EXPECT_SYM_EQ(SymNot(SymNot(SymOr(a, SymAnd(b, c)))), SymOr(a, SymAnd(b, c)));
  EXPECT_SYM_EQ(SymNot(x), SymEq(x, 0));
  EXPECT_SYM_EQ(SymAnd(x, 1), SymNe(x, 0));
  // Of bounds a constant apart one is enough.
  EXPECT_SYM_EQ(SymAnd(a, SymLt(m + 7, n)), SymLt(m + 7, n));
  EXPECT_SYM_EQ(SymOr(a, SymLt(m + 7, n)), a);
  EXPECT_SYM_EQ(SymAnd(SymAnd(SymLt(m, n + 1), b), SymLe(m, n)), SymAnd(SymLe(m, n), b));
  EXPECT_SYM_EQ(SymOr(SymGe(x, m), SymOr(b, SymGt(x + 2, m))), SymOr(SymGt(x + 2, m), b));
  EXPECT_EQ(SymAnd(a, SymGe(m, n - 5)).ToString(), "M < N && N <= M + 5");
  EXPECT_SYM_EQ(SymAnd(5, 7), 1);
  EXPECT_SYM_EQ(SymOr(5, 0), 1);
  EXPECT_SYM_EQ(SymNot(7), 0);
  EXPECT_SYM_EQ(SymEq(a, 0), SymNot(a));
  EXPECT_SYM_EQ(SymEq(a, 1), a);
  EXPECT_SYM_EQ(SymNe(a, 0), a);
  EXPECT_SYM_EQ(SymLt(a, 2), 1);
  EXPECT_SYM_EQ(SymSelect(1, m, n), m);
  EXPECT_SYM_EQ(SymSelect(a, m, m), m);
  EXPECT_SYM_EQ(SymSelect(a, 1, 0), a);
  EXPECT_SYM_EQ(SymSelect(a, 0, 1), SymNot(a));
  EXPECT_SYM_EQ(SymSelect(SymNe(x, 3), m, n), SymSelect(SymEq(x, 3), n, m));
  // Whichever is made first.
  const SymInt greater = Max(m, n), selected = SymSelect(a, m, n);
  EXPECT_SYM_EQ(SymLe(selected, greater), 1);
  const SymInt selected_before = SymSelect(b, m, x);
  EXPECT_SYM_EQ(SymLe(selected_before, Max(m, x)), 1);
}

TEST_F(SymbolicIntTest, Evaluation) {
  const SymInt x = Sym("x", -100, 100), y = Sym("y", -5, 5), big = Sym("big", 0, kMax);
  const auto at = [&](int64_t vx, int64_t vy) {
    return [=](const SymNode* s) -> std::optional<int64_t> {
      if (s->name == "x") return vx;
      if (s->name == "y") return vy;
      return kMax;
    };
  };
  EXPECT_EQ(Evaluate(FloorDiv(x, 4) + 2 * y, at(-7, 3)).value(), 4);
  EXPECT_EQ(Evaluate(5, at(0, 0)).value(), 5);
  EXPECT_EQ(Evaluate(FloorDiv(x, y), at(3, 0)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Evaluate(Mod(x, y), at(3, 0)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Evaluate(big * x, at(2, 0)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Evaluate(FloorDiv(x, y), at(3, 0)).status().message(),
            "value of x//y: division by zero");
  EXPECT_EQ(Evaluate(big * x, at(0, 0)).value(), 0);
  EXPECT_EQ(Evaluate(big + x, at(1, 0)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Evaluate(2 * big - 2 * big + x, at(1, 0)).value(), 1);
  EXPECT_EQ(Evaluate(2 * big - x * big, at(2, 0)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(Evaluate(x, at(101, 0)).ok());
  EXPECT_FALSE(Evaluate(SymInt::Invalid(), at(0, 0)).ok());
  EXPECT_EQ(Evaluate(x, [](const SymNode*) { return std::optional<int64_t>(); }).status().code(),
            absl::StatusCode::kNotFound);
  // The arm that is not taken may fail.
  EXPECT_EQ(Evaluate(SymSelect(SymNe(y, 0), FloorDiv(x, y), -1), at(3, 0)).value(), -1);
  EXPECT_EQ(Evaluate(SymAnd(SymNe(y, 0), SymLt(FloorDiv(x, y), 3)), at(3, 0)).value(), 0);
  EXPECT_EQ(Evaluate(SymOr(SymEq(y, 0), SymLt(FloorDiv(x, y), 3)), at(3, 0)).value(), 1);
  EXPECT_EQ(FreeSymbols(x + y * x + 3).size(), 2u);
  EXPECT_TRUE(FreeSymbols(3).empty());
}

TEST_F(SymbolicIntTest, ImportReplacesSymbols) {
  const SymInt m = Dim("M"), n = Dim("N"), r = Sym("r", 0, n - 1);
  const SymInt e = FloorDiv(m * n + r, 4) + Mod(m, n) + Min(m, n) + SymSelect(SymLt(m, n), m, r);
  ShapeEnv target;
  const SymInt k = target.NewSymbol("K", 1, 100).value();
  SymImporter importer(&target);
  importer.Map(m.node(), 12);
  importer.Map(n.node(), k);
  importer.Map(r.node(), 0);
  EXPECT_SYM_EQ(importer.Import(e),
                3 * k + Mod(12, k) + Min(12, k) + SymSelect(SymLt(12, k), 12, 0));
  EXPECT_SYM_EQ(importer.Import(7), 7);
  SymImporter partial(&target);
  partial.Map(m.node(), 12);
  EXPECT_SYM_EQ(partial.Import(m * 2), 24);
  EXPECT_FALSE(partial.Import(m + n).is_valid());
  SymImporter foreign(&target);
  foreign.Map(m.node(), n);
  EXPECT_FALSE(foreign.Import(m).is_valid());
  // A division by zero that the replacement makes.
  SymImporter zero(&target);
  zero.Map(m.node(), 3);
  zero.Map(n.node(), 0);
  EXPECT_FALSE(zero.Import(Mod(m, n)).is_valid());
}

TEST_F(SymbolicIntTest, TextReadsBack) {
  const SymInt m = Dim("M"), n = Dim("N"), x = Sym("x.1", -10, 10);
  for (const SymInt e : {SymInt(0),
                         SymInt(-7),
                         SymInt(kMin),
                         SymInt(kMax),
                         m,
                         -m,
                         2 * m,
                         -2 * m + n,
                         m * n * n,
                         -m * n,
                         FloorDiv(m, 8),
                         -FloorDiv(m, 8),
                         n - FloorDiv(m, 8),
                         8 * FloorDiv(m, 8),
                         Mod(m, n),
                         -Mod(m, n),
                         n * Mod(m, 8) * FloorDiv(n, 3),
                         FloorDiv(m + n, m * n),
                         Mod(m * n, m + n),
                         Min(m, n + 1),
                         Max(Min(m, n), 3),
                         SymLt(m, n),
                         SymEq(x, -3),
                         SymAnd(SymLt(m, n), SymOr(SymEq(x, 1), SymLe(n, 4))),
                         SymLt(m, n) + n,
                         SymSelect(SymLt(m, n), m - 1, -n),
                         FloorDiv(x, -m),
                         SymOr(SymAnd(SymLt(m, n), x), SymEq(x, 2))}) {
    const std::string text = e.ToString();
    absl::string_view rest = text;
    const auto read = ParseSymInt(&rest, env_);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status();
    EXPECT_EQ(rest, "") << text;
    EXPECT_SYM_EQ(*read, e);
  }
  const auto parse = [&](absl::string_view text) {
    const auto e = ParseSymInt(&text, env_);
    return e.ok() ? e->ToString() + "|" + std::string(text) : std::string(e.status().message());
  };
  EXPECT_EQ(parse("2*M+N//8 - -1, 3"), "2*M + N//8 + 1|, 3");
  EXPECT_EQ(parse(" ( M ) ]"), "M| ]");
  EXPECT_EQ(parse("-7//2"), "-4|");
  EXPECT_EQ(parse("7 - 2 - 1"), "4|");
  EXPECT_EQ(parse("2*3%4"), "2|");
  EXPECT_EQ(parse("M >= N"), "N <= M|");
  EXPECT_EQ(parse("min(3, 4, 2)"), "2|");
  EXPECT_EQ(parse("select(1, M, N)"), "M|");
  EXPECT_EQ(parse("1 || M//0"),
            "symbolic expression, byte 8: overflow, division by zero, or an expression that is too "
            "large");
  EXPECT_EQ(parse("Q + 1"), "symbolic expression, byte 0: unknown symbol \"Q\"");
  EXPECT_EQ(parse("M + "), "symbolic expression, byte 4: expected an integer, a name or '('");
  EXPECT_EQ(parse("(M"), "symbolic expression, byte 2: expected ')'");
  EXPECT_EQ(parse(""), "symbolic expression, byte 0: expected an integer, a name or '('");
  EXPECT_EQ(parse("M < N < 3"),
            "symbolic expression, byte 6: a comparison of a comparison needs parentheses");
  EXPECT_EQ(parse("9223372036854775808"),
            "symbolic expression, byte 0: the integer does not fit 64 bits");
  EXPECT_EQ(parse("select(M, N)"), "symbolic expression, byte 0: select takes 3 arguments");
  EXPECT_FALSE(parse("min(M").empty());
  EXPECT_NE(parse(std::string(100000, '(')).find("nested too deep"), std::string::npos);
  EXPECT_EQ(parse(std::string(100000, '-') + "M"), "M|");
}

TEST_F(SymbolicIntTest, LongChainsAreFastAndDeepOnesEnd) {
  constexpr int kTerms = 10000;
  const SymInt x = Sym("x", 0, kMax);
  // Many different terms.
  SymInt sum = 0;
  for (int i = 0; i < kTerms; ++i) sum += env_.FreshSymbol("s", 0, 10);
  EXPECT_TRUE(sum.is_valid());
  EXPECT_EQ(RangeOf(sum), (SymRange{0, 10 * kTerms}));
  EXPECT_EQ(FreeSymbols(sum).size(), size_t{kTerms});
  EXPECT_EQ(Evaluate(sum, [](const SymNode*) { return 1; }).value(), kTerms);
  ShapeEnv target;
  SymImporter importer(&target);
  for (const SymNode* s : FreeSymbols(sum)) importer.Map(s, 2);
  EXPECT_SYM_EQ(importer.Import(sum), 2 * kTerms);
  absl::string_view rest;
  const std::string text = sum.ToString();
  rest = text;
  EXPECT_EQ(FreeSymbols(ParseSymInt(&rest, env_).value()).size(), size_t{kTerms});
  // Many terms and divisions that nest.
  SymInt e = x;
  int steps = 0;
  for (; steps < 10000 && e.is_valid(); ++steps) e = FloorDiv(e + Mod(e, 5), 3) + Min(e, 7);
  EXPECT_FALSE(e.is_valid());
  SymInt nested = x;
  for (steps = 0; steps < 10000 && nested.is_valid(); ++steps)
    nested = Max(FloorDiv(nested, 2), steps) + 1;
  SymInt product = 1;
  for (int i = 0; i < 200; ++i) product *= x + i;
  SymInt minimum = kMax, conjunction = 1;
  for (int i = 0; i < 400; ++i) {
    const SymInt s = env_.FreshSymbol("m", 0, 1000);
    minimum = Min(minimum, s);
    conjunction = SymAnd(conjunction, SymLt(s, x));
  }
  EXPECT_TRUE(minimum.is_valid());
  EXPECT_EQ(FreeSymbols(minimum).size(), 400u);
  EXPECT_EQ(FreeSymbols(conjunction).size(), 401u);
  EXPECT_EQ(FreeSymbols(SymNot(conjunction)).size(), 401u);
}

TEST_F(SymbolicIntTest, NodesAreMadeFromManyThreads) {
  const SymInt m = Dim("M"), n = Dim("N");
  std::vector<std::vector<SymInt>> made(4);
  std::vector<std::thread> threads;
  for (auto& list : made) {
    threads.emplace_back([&list, m, n] {
      for (int i = 1; i < 300; ++i) {
        list.push_back(FloorDiv(m * i + n, 8) * n + Mod(n, i) + Min(m, n + i));
        list.push_back(SymLt(m * i, n) + i * FloorDiv(n, i) + Mod(n, i));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& list : made) {
    for (size_t i = 0; i < list.size(); ++i) EXPECT_SYM_EQ(list[i], made[0][i]);
  }
}

}  // namespace
}  // namespace seam
