// The text form, text in and canonical text out: every construct of the grammar and what it stands
// for.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"
#include "ir/scalar.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"

namespace seam {
namespace {

constexpr char kInputs[] =
    "  symbol M in [0, 64]\n"
    "  symbol N in [1, 64]\n"
    "  input x: f32[M, N]\n"
    "  input y: f32[M, N]\n"
    "  input v: f32[N]\n"
    "  input i: i32[M, N]\n"
    "  input p: bool[M, N]\n";

std::string Fused(const std::string& statements) {
  return absl::StrCat("fusion f {\n", kInputs, statements, "}\n");
}

// The canonical text of `statements` behind the inputs above, which must parse, verify and read
// back.
std::string Canonical(const std::string& statements) {
  absl::StatusOr<Fusion> fusion = ParseFusion(Fused(statements));
  if (!fusion.ok()) return std::string(fusion.status().message());
  EXPECT_TRUE(Verify(*fusion).ok()) << Verify(*fusion);
  const std::string text = PrintFusion(*fusion);
  absl::StatusOr<Fusion> again = ParseFusion(text);
  EXPECT_TRUE(again.ok()) << again.status() << "\n" << text;
  if (again.ok()) {
    EXPECT_EQ(PrintFusion(*again), text);
  }
  const size_t begin = text.find("p: bool[M, N]\n") + 14;
  return text.substr(begin, text.size() - begin - 2);
}

TEST(TextParserTest, PrintsOneOperationALineWithEveryType) {
  EXPECT_EQ(Canonical("  z = x + y * x\n  output z\n"),
            "  t0: f32[M, N] = mul(y, x)\n"
            "  z: f32[M, N] = add(x, t0)\n"
            "  output z\n");
}

TEST(TextParserTest, KeepsCanonicalText) {
  const std::string text =
      "fusion canonical {\n"
      "  symbol M in [1, 1048576]\n"
      "  symbol S in [0, 281474976710656]\n"
      "  input x: bf16[M, 8]\n"
      "  input y: f32[M, 8] strides [S, 1]\n"
      "  xf: f32[M, 8] = cast(x, dtype=f32)\n"
      "  avg: f32[M], m2: f32[M], n: f32[M] = welford(xf, axes=[1])\n"
      "  c: f32[] = constant(0.1, dtype=f32)\n"
      "  z: f32[M] = add(m2, c)\n"
      "  output z\n"
      "  output xf strides [1, M]\n"
      "}\n";
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_EQ(PrintFusion(*fusion), text);
}

TEST(TextParserTest, InfixOperators) {
  const std::pair<const char*, const char*> rows[] = {
      {"x + y", "add(x, y)"},           {"x - y", "sub(x, y)"},
      {"x * y", "mul(x, y)"},           {"x / y", "div(x, y)"},
      {"x // y", "floor_divide(x, y)"}, {"x % y", "remainder(x, y)"},
      {"x ** y", "pow(x, y)"},          {"x == y", "eq(x, y)"},
      {"x != y", "ne(x, y)"},           {"x < y", "lt(x, y)"},
      {"x <= y", "le(x, y)"},           {"x > y", "gt(x, y)"},
      {"x >= y", "ge(x, y)"},           {"i & i", "bitwise_and(i, i)"},
      {"i | i", "bitwise_or(i, i)"},    {"i ^ i", "bitwise_xor(i, i)"},
      {"~i", "bitwise_not(i)"},         {"i << i", "shift_left(i, i)"},
      {"i >> i", "shift_right(i, i)"},  {"p & p", "logical_and(p, p)"},
      {"p | p", "logical_or(p, p)"},    {"p ^ p", "logical_xor(p, p)"},
      {"~p", "logical_not(p)"},         {"-x", "neg(x)"},
  };
  for (const auto& [sugar, call] : rows) {
    EXPECT_EQ(Canonical(absl::StrCat("  z = ", sugar, "\n")),
              Canonical(absl::StrCat("  z = ", call, "\n")))
        << sugar;
    EXPECT_NE(Canonical(absl::StrCat("  z = ", sugar, "\n")).find(call), std::string::npos)
        << sugar;
  }
}

TEST(TextParserTest, PrecedenceIsPythons) {
  const std::pair<const char*, const char*> rows[] = {
      {"x - y - x", "sub(sub(x, y), x)"},
      {"x - y * x", "sub(x, mul(y, x))"},
      {"(x - y) * x", "mul(sub(x, y), x)"},
      {"x / y * x", "mul(div(x, y), x)"},
      {"x ** y ** x", "pow(x, pow(y, x))"},
      {"-x ** y", "neg(pow(x, y))"},
      {"x ** -y", "pow(x, neg(y))"},
      {"-x * y", "mul(neg(x), y)"},
      {"- -x", "neg(neg(x))"},
      {"x + y < x * y", "lt(add(x, y), mul(x, y))"},
      {"i | i ^ i & i << i + i",
       "bitwise_or(i, bitwise_xor(i, bitwise_and(i, shift_left(i, add(i, "
       "i)))))"},
      {"(x < y) & ~p | p", "logical_or(logical_and(lt(x, y), logical_not(p)), p)"},
      {"(x < y) == (y < x)", "eq(lt(x, y), lt(y, x))"},
  };
  for (const auto& [sugar, calls] : rows) {
    EXPECT_EQ(Canonical(absl::StrCat("  z = ", sugar, "\n")),
              Canonical(absl::StrCat("  z = ", calls, "\n")))
        << sugar;
  }
  EXPECT_EQ(Canonical("  z = exp(+x)\n"), Canonical("  z = exp(x)\n"));
}

TEST(TextParserTest, LiteralsTakeTheTypeOfTheirNeighbour) {
  EXPECT_EQ(Canonical("  z = 2 * x\n"),
            "  t0: f32[] = constant(2.0, dtype=f32)\n"
            "  z: f32[M, N] = mul(t0, x)\n");
  EXPECT_EQ(Canonical("  z = i - 1\n"),
            "  t0: i32[] = constant(1, dtype=i32)\n"
            "  z: i32[M, N] = sub(i, t0)\n");
  EXPECT_EQ(Canonical("  z = where(p, -1, i)\n"),
            "  t0: i32[] = constant(-1, dtype=i32)\n"
            "  z: i32[M, N] = where(p, t0, i)\n");
  EXPECT_EQ(Canonical("  z = p & true\n"),
            "  t0: bool[] = constant(true, dtype=bool)\n"
            "  z: bool[M, N] = logical_and(p, t0)\n");
  EXPECT_EQ(Canonical("  z = clamp(x, -inf, nan)\n"),
            "  t0: f32[] = constant(-inf, dtype=f32)\n"
            "  t1: f32[] = constant(nan, dtype=f32)\n"
            "  z: f32[M, N] = clamp(x, t0, t1)\n");
  EXPECT_EQ(Canonical("  z = i & 0xff\n"),
            "  t0: i32[] = constant(255, dtype=i32)\n"
            "  z: i32[M, N] = bitwise_and(i, t0)\n");
}

TEST(TextParserTest, LiteralsWithATypeOfTheirOwn) {
  const std::string expected = "  z: f16[] = constant(1.5, dtype=f16)\n";
  EXPECT_EQ(Canonical("  z = 1.5: f16\n"), expected);
  EXPECT_EQ(Canonical("  z: f16 = 1.5\n"), expected);
  EXPECT_EQ(Canonical("  z: f16[] = 1.5\n"), expected);
  EXPECT_EQ(Canonical("  z = constant(1.5, dtype=f16)\n"), expected);
  EXPECT_EQ(Canonical("  z = true\n"), "  z: bool[] = constant(true, dtype=bool)\n");
  EXPECT_EQ(Canonical("  z = full(-2: i64, sizes=[M, 3])\n"),
            "  t0: i64[] = constant(-2, dtype=i64)\n"
            "  z: i64[M, 3] = full(t0, sizes=[M, 3])\n");
}

TEST(TextParserTest, OperationsOnLiteralsAreLiterals) {
  const std::pair<const char*, const char*> rows[] = {
      {"0.5 * 2.0 * x", "1.0"},       {"(1.0 - 0.9) * x", "0.1"},  // In f64, 0.09999999999999998.
      {"sqrt(2.0) * x", "1.4142135"}, {"x * -(2.0)", "-2.0"},
      {"x * (1 / 4)", "0.25"},        {"x * (7 // 2 + 0.5)", "3.5"},
      {"x * (2 ** 3)", "8.0"},        {"x * where(1 < 2, 3, 4)", "3.0"},
      {"x * sqrt(16)", "4.0"},        {"x * exp(log(1.0 / 0.0))", "inf"},
  };
  for (const auto& [sugar, value] : rows) {
    const std::string text = Canonical(absl::StrCat("  z = ", sugar, "\n"));
    EXPECT_NE(text.find(absl::StrCat("  t0: f32[] = constant(", value, ", dtype=f32)\n")),
              std::string::npos)
        << sugar << "\n"
        << text;
    EXPECT_NE(text.find("  z: f32[M, N] = mul("), std::string::npos) << sugar << "\n" << text;
  }
  EXPECT_EQ(Canonical("  z = i + (0xf0 | 3 << 2)\n"),
            "  t0: i32[] = constant(252, dtype=i32)\n"
            "  z: i32[M, N] = add(i, t0)\n");
  EXPECT_EQ(Canonical("  z = p & ((1 < 2) | ~true)\n"), Canonical("  z = p & true\n"));
  EXPECT_EQ(Canonical("  z: f64 = 0.1 + 0.2\n"),
            "  z: f64[] = constant(0.30000000000000004, dtype=f64)\n");
  EXPECT_EQ(Canonical("  z = pad(v, before=[1], after=[0], value=-(1 / 2))\n"),
            "  z: f32[N + 1] = pad(v, before=[1], after=[0], value=-0.5)\n");
}

TEST(TextParserTest, FloatsThatNothingGivesATypeAreF32WhereTheyFill) {
  EXPECT_EQ(Canonical("  z = where(p, 1, 0.5)\n"),
            "  t0: f32[] = constant(1.0, dtype=f32)\n"
            "  t1: f32[] = constant(0.5, dtype=f32)\n"
            "  z: f32[M, N] = where(p, t0, t1)\n");
  EXPECT_EQ(Canonical("  z = full(0.0, sizes=[M])\n"),
            "  t0: f32[] = constant(0.0, dtype=f32)\n"
            "  z: f32[M] = full(t0, sizes=[M])\n");
  EXPECT_EQ(Canonical("  z = full(0, sizes=[M], dtype=i8)\n"),
            "  t0: i8[] = constant(0, dtype=i8)\n"
            "  z: i8[M] = full(t0, sizes=[M])\n");
  EXPECT_EQ(Canonical("  z = cast(1.5, dtype=f16)\n"), Canonical("  z = 1.5: f16\n"));
}

TEST(TextParserTest, LiteralsAreRoundedOnce) {
  const std::tuple<DType, const char*, double> rows[] = {
      {DType::BF16, "1.0039062500009095", 1.0078125},
      {DType::BF16, "-1.0039062500009095", -1.0078125},
      {DType::BF16, "1.00390625", 1},
      {DType::F16, "1.00048828125005", 1.0009765625},
      {DType::F16, "1.00048828124995", 1},
      {DType::F16, "2.98023223876954e-8", 0x1p-24},
      {DType::F16, "2.98023223876953125e-8", 0},
      {DType::F16, "65519.99999999", 65504},
      {DType::F8E4M3, "1.06250000001", 1.125},
      {DType::F8E4M3, "464", 448},
      {DType::F8E5M2, "61439.9999999", 57344},
  };
  for (const auto& [dtype, written, value] : rows) {
    absl::StatusOr<Fusion> fusion = ParseFusion(
        absl::StrCat("fusion f {\n  z = constant(", written, ", dtype=", DTypeName(dtype), ")\n}"));
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    EXPECT_EQ(fusion->attributes(ExprId(0)).value, value) << written << " " << DTypeName(dtype);
  }
}

TEST(TextParserTest, NumbersInEverySpelling) {
  const std::pair<const char*, const char*> rows[] = {
      {"1", "1.0"},
      {"1.", "1.0"},
      {".5", "0.5"},
      {"1e3", "1000.0"},
      {"1E-3", "0.001"},
      {"1.5e+2", "150.0"},
      {"-0.0", "-0.0"},
      {"-1e-400", "-0.0"},
      {"0.1", "0.1"},
      {"1e30", "1e+30"},
      {"16777217", "16777216.0"},
      {"-inf", "-inf"},
      {"1e-45", "1e-45"},
      {"3.4028234663852886e38", "3.4028235e+38"},
  };
  for (const auto& [written, printed] : rows) {
    const std::string text = Canonical(absl::StrCat("  z: f32 = ", written, "\n"));
    EXPECT_EQ(text, absl::StrCat("  z: f32[] = constant(", printed, ", dtype=f32)\n")) << written;
  }
}

TEST(TextParserTest, LimitsOfIntegerTypes) {
  for (DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8, DType::U8}) {
    for (int64_t value : {MinInteger(dtype), MaxInteger(dtype)}) {
      EXPECT_EQ(Canonical(absl::StrCat("  z: ", DTypeName(dtype), " = ", value, "\n")),
                absl::StrCat("  z: ", DTypeName(dtype), "[] = constant(", value,
                             ", dtype=", DTypeName(dtype), ")\n"));
    }
  }
}

TEST(TextParserTest, RanksAlignAsInNumPy) {
  EXPECT_EQ(Canonical("  z = x * v\n"),
            "  t0: f32[1, N] = broadcast(v, axes=[0])\n"
            "  z: f32[M, N] = mul(x, t0)\n");
  EXPECT_EQ(Canonical("  z = fma(v, x, 1)\n"),
            "  t0: f32[] = constant(1.0, dtype=f32)\n"
            "  t1: f32[1, N] = broadcast(v, axes=[0])\n"
            "  z: f32[M, N] = fma(t1, x, t0)\n");
}

TEST(TextParserTest, Reductions) {
  EXPECT_EQ(Canonical("  z = sum(x, axes=[-1])\n"), "  z: f32[M] = sum(x, axes=[1])\n");
  EXPECT_EQ(Canonical("  z = sum(x, axis=0)\n"), "  z: f32[N] = sum(x, axes=[0])\n");
  EXPECT_EQ(Canonical("  z = sum(x)\n"), "  z: f32[] = sum(x, axes=[0, 1])\n");
  EXPECT_EQ(Canonical("  z = sum(x, axis=-1, keepdims=true)\n"),
            "  t0: f32[M] = sum(x, axes=[1])\n"
            "  z: f32[M, 1] = broadcast(t0, axes=[1])\n");
  EXPECT_EQ(Canonical("  z = sum(x, keepdims=true)\n"),
            "  t0: f32[] = sum(x, axes=[0, 1])\n"
            "  z: f32[1, 1] = broadcast(t0, axes=[0, 1])\n");
  for (const char* composite : {"mean", "softmax", "rms_norm"}) {
    EXPECT_EQ(Canonical(absl::StrCat("  z = ", composite, "(x, axes=[1])\n")),
              Canonical(absl::StrCat("  z = ", composite, "(x, axis=1)\n")))
        << composite;
    EXPECT_NE(Canonical(absl::StrCat("  z = ", composite, "(x, axis=1)\n")).find("z: f32["),
              std::string::npos);
  }
  EXPECT_EQ(Canonical("  z = sum(x, axes=[1], keepdims=false)\n"),
            "  z: f32[M] = sum(x, axes=[1])\n");
  EXPECT_EQ(Canonical("  a, b, c = welford(x, axes=[1], keepdims=true)\n"),
            "  t0: f32[M], t1: f32[M], t2: f32[M] = welford(x, axes=[1])\n"
            "  a: f32[M, 1] = broadcast(t0, axes=[1])\n"
            "  b: f32[M, 1] = broadcast(t1, axes=[1])\n"
            "  c: f32[M, 1] = broadcast(t2, axes=[1])\n");
}

TEST(TextParserTest, SeveralResults) {
  EXPECT_EQ(Canonical("  a, b: f32[M], _ = welford(x, axes=[1])\n"),
            "  a: f32[M], b: f32[M], t0: f32[M] = welford(x, axes=[1])\n");
}

TEST(TextParserTest, Indexing) {
  EXPECT_EQ(Canonical("  z = v[:, None]\n"), "  z: f32[N, 1] = broadcast(v, axes=[1])\n");
  EXPECT_EQ(Canonical("  z = x[None, :, None, :, None]\n"),
            "  z: f32[1, M, 1, N, 1] = broadcast(x, axes=[0, 2, 4])\n");
  EXPECT_EQ(Canonical("  z = x[..., None]\n"), "  z: f32[M, N, 1] = broadcast(x, axes=[2])\n");
  EXPECT_EQ(Canonical("  z = x[None]\n"), "  z: f32[1, M, N] = broadcast(x, axes=[0])\n");
  EXPECT_EQ(Canonical("  z = x[..., 0:N//2]\n"),
            "  z: f32[M, N//2] = slice(x, start=[0, 0], stop=[M, N//2], step=[1, 1])\n");
  EXPECT_EQ(Canonical("  z = x[:, ::2]\n"),
            "  z: f32[M, (N + 1)//2] = slice(x, start=[0, 0], stop=[M, N], step=[1, 2])\n");
  EXPECT_EQ(Canonical("  z = x[:, -1:, None]\n"),
            "  t0: f32[M, 1] = slice(x, start=[0, N - 1], stop=[M, N], step=[1, 1])\n"
            "  z: f32[M, 1, 1] = broadcast(t0, axes=[2])\n");
  EXPECT_EQ(Canonical("  z = x[0:M]\n  w = exp(z[:])\n"), "  w: f32[M, N] = exp(x)\n");
  EXPECT_EQ(Canonical("  z = exp(x)[None][:, None]\n"),
            "  t0: f32[M, N] = exp(x)\n"
            "  t1: f32[1, M, N] = broadcast(t0, axes=[0])\n"
            "  z: f32[1, 1, M, N] = broadcast(t1, axes=[1])\n");
}

TEST(TextParserTest, LimitsBeforeTheStartAreClamped) {
  const std::string three =
      "  t0: f32[] = constant(1.0, dtype=f32)\n"
      "  q: f32[3] = full(t0, sizes=[3])\n";
  const auto sliced = [&](const std::string& index) {
    const std::string text =
        Canonical("  q = full(1: f32, sizes=[3])\n  z = exp(q" + index + ")\n");
    EXPECT_EQ(text.substr(0, three.size()), three) << text;
    return text.substr(three.size());
  };
  const std::string none =
      "  t1: f32[0] = slice(q, start=[0], stop=[0], step=[1])\n"
      "  z: f32[0] = exp(t1)\n";
  for (const char* whole : {"[-3:]", "[-4:]", "[-5:]", "[-7:]", "[-4:3]"}) {
    EXPECT_EQ(sliced(whole), "  z: f32[3] = exp(q)\n") << whole;
  }
  for (const char* empty : {"[:-3]", "[:-4]", "[:-6]", "[-5:-4]"}) {
    EXPECT_EQ(sliced(empty), none) << empty;
  }
  EXPECT_EQ(sliced("[-4:-1]"),
            "  t1: f32[2] = slice(q, start=[0], stop=[2], step=[1])\n"
            "  z: f32[2] = exp(t1)\n");
  EXPECT_EQ(Canonical("  z = exp(v[-65:])\n"), "  z: f32[N] = exp(v)\n");
}

TEST(TextParserTest, Matmul) {
  EXPECT_EQ(Canonical("  z = x @ permute(x, axes=[1, 0]) + 1\n"),
            "  t0: f32[N, M] = permute(x, axes=[1, 0])\n"
            "  t1: f32[M, M] = matmul(x, t0)\n"
            "  t2: f32[] = constant(1.0, dtype=f32)\n"
            "  z: f32[M, M] = add(t1, t2)\n");
}

TEST(TextParserTest, PadTakesAValueOfTheOperandsType) {
  EXPECT_EQ(Canonical("  z = pad(x, before=[1, 0], after=[0, 2])\n"),
            "  z: f32[M + 1, N + 2] = pad(x, before=[1, 0], after=[0, 2], value=0.0)\n");
  EXPECT_EQ(Canonical("  z = pad(i, before=[1, 0], after=[0, 2], value=-7)\n"),
            "  z: i32[M + 1, N + 2] = pad(i, before=[1, 0], after=[0, 2], value=-7)\n");
  EXPECT_EQ(Canonical("  z = pad(p, before=[1, 0], after=[0, 2], value=true)\n"),
            "  z: bool[M + 1, N + 2] = pad(p, before=[1, 0], after=[0, 2], value=true)\n");
}

TEST(TextParserTest, Extents) {
  const std::pair<const char*, const char*> rows[] = {
      {"7", "7"},          {"M + N", "M + N"},         {"2*M", "2*M"},
      {"M*2 + M", "3*M"},  {"(M + 1) * 2", "2*M + 2"}, {"M // 2", "M//2"},
      {"M % 3", "M%3"},    {"min(M, N)", "min(M, N)"}, {"max(M, 4)", "max(M, 4)"},
      {"N - 1", "N - 1"},  {"-1 + N", "N - 1"},        {"M * N", "M*N"},
      {"2 + 3 * 4", "14"},
  };
  for (const auto& [written, printed] : rows) {
    EXPECT_EQ(Canonical(absl::StrCat("  z = full(1: f32, sizes=[", written, "])\n")),
              absl::StrCat("  t0: f32[] = constant(1.0, dtype=f32)\n  z: f32[", printed,
                           "] = full(t0, sizes=[", printed, "])\n"))
        << written;
  }
}

TEST(TextParserTest, ReshapeResolvesMinusOne) {
  EXPECT_EQ(Canonical("  z = reshape(x, sizes=[-1])\n"),
            "  z: f32[M*N] = reshape(x, sizes=[M*N])\n");
}

TEST(TextParserTest, Strides) {
  const auto printed = [](const std::string& declaration) {
    absl::StatusOr<Fusion> fusion = ParseFusion(absl::StrCat(
        "fusion f {\n  symbol M in [1, 9]\n  symbol N in [1, 9]\n  symbol S in [1, 9]\n",
        declaration, "\n}\n"));
    if (!fusion.ok()) return std::string(fusion.status().message());
    const std::string text = PrintFusion(*fusion);
    return text.substr(text.find("  input"));
  };
  EXPECT_EQ(printed("input x: f32[M, N] strides [S, 1]"),
            "  input x: f32[M, N] strides [S, 1]\n}\n");
  EXPECT_EQ(printed("input x: f32[M, N] strides [N + 3, 1]"),
            "  input x: f32[M, N] strides [N + 3, 1]\n}\n");
  EXPECT_EQ(printed("input x: f32[M, N] strides [0, 1]"),
            "  input x: f32[M, N] strides [0, 1]\n}\n");
  EXPECT_EQ(printed("input x: f32[M, N] strides [?, ?]"),
            "  input x: f32[M, N] strides [x_stride0, x_stride1]\n}\n");
  EXPECT_EQ(printed("input x: f32[M, N] order [1, 0]"), "  input x: f32[M, N] strides [1, M]\n}\n");
  EXPECT_EQ(printed("input x: f32[2, 3, 5, 7] order [0, 2, 3, 1]"),
            "  input x: f32[2, 3, 5, 7] strides [105, 1, 21, 3]\n}\n");
  EXPECT_EQ(printed("input x: f32[] strides []"), "  input x: f32[] strides []\n}\n");
  EXPECT_EQ(printed("input x: f32[M, N]\n  z = exp(x)\n  output z order [1, 0]"),
            "  input x: f32[M, N]\n  z: f32[M, N] = exp(x)\n  output z strides [1, M]\n}\n");
}

TEST(TextParserTest, SymbolsNobodyMentionsAreLeftOut) {
  absl::StatusOr<Fusion> fusion =
      ParseFusion("fusion f {\n  symbol A\n  symbol B in [2, 2*3]\n  input x: f32[B]\n}\n");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_EQ(PrintFusion(*fusion), "fusion f {\n  symbol B in [2, 6]\n  input x: f32[B]\n}\n");
  fusion = ParseFusion("fusion f {\n  symbol A\n  input x: f32[A]\n}\n");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_EQ(PrintFusion(*fusion),
            "fusion f {\n  symbol A in [0, 281474976710656]\n  input x: f32[A]\n}\n");
}

TEST(TextParserTest, WordsOfTheLanguageCanBeNames) {
  const std::string text =
      "fusion fusion {\n"
      "  symbol symbol in [0, 9]\n"
      "  input input: f32[symbol]\n"
      "  output: f32[symbol] = exp(input)\n"
      "  exp: f32[symbol] = exp(output)\n"
      "  order: f32[symbol] = sin(exp)\n"
      "  layer.0.weight: f32[symbol] = sin(order)\n"
      "  output output\n"
      "  output order\n"
      "}\n";
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_EQ(PrintFusion(*fusion), text);
}

TEST(TextParserTest, AFurtherNameOfAValueIsOnlyInTheText) {
  EXPECT_EQ(Canonical("  z = x\n  w: f32[M, N] = exp(z)\n  u = w\n  output w\n"),
            "  w: f32[M, N] = exp(x)\n  output w\n");
}

TEST(TextParserTest, OutputsHaveTheNamesThatAreWritten) {
  for (const char* same : {"w", "+w", "w[:]", "w[0:M, 0:N]"}) {
    EXPECT_EQ(Canonical(absl::StrCat("  w = exp(x)\n  u = ", same, "\n  output u\n  output w\n")),
              "  w: f32[M, N] = exp(x)\n"
              "  u: f32[M, N] = reshape(w, sizes=[M, N])\n"
              "  output u\n"
              "  output w\n")
        << same;
  }
  EXPECT_EQ(Canonical("  u = x[0:M]\n  output u\n"),
            "  u: f32[M, N] = reshape(x, sizes=[M, N])\n  output u\n");
  EXPECT_EQ(Canonical("  s = sum(x)\n  u = s\n  output u\n"),
            "  s: f32[] = sum(x, axes=[0, 1])\n  u: f32[] = reshape(s, sizes=[])\n  output u\n");
  EXPECT_EQ(Canonical("  u, m, r = layer_norm(x, axes=[1])\n  output u\n").find("output t"),
            std::string::npos);
}

TEST(TextParserTest, LayoutIsFree) {
  const std::string expected = Canonical("  z = where(p, x, y)\n  output z\n");
  EXPECT_EQ(
      Canonical("\n\n z=where( # first\n   p ,\r\n\tx,\n # a line of its own \xC3\xA9\n y)\r\n"
                "output\tz # last"
                "\n\n"),
      expected);
  absl::StatusOr<Fusion> fusion =
      ParseFusion("\xEF\xBB\xBF# \xE2\x82\xAC\n\nfusion f {}\n# behind");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_EQ(PrintFusion(*fusion), "fusion f {\n}\n");
  EXPECT_TRUE(ParseFusion("fusion f { input x: f32[3] }").ok());
}

TEST(TextParserTest, ExpressionsKnowTheirPlace) {
  absl::StatusOr<Fusion> fusion =
      ParseFusion("fusion f {\n  input x: f32[3]\n  z = exp(x +\n      sin(x))\n}\n");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  const std::pair<int, int> places[] = {{4, 7}, {3, 13}, {3, 7}};  // sin, +, exp
  ASSERT_EQ(fusion->num_exprs(), 3u);
  for (uint32_t e = 0; e < 3; ++e) {
    EXPECT_EQ(fusion->location(ExprId(e)).line, places[e].first);
    EXPECT_EQ(fusion->location(ExprId(e)).column, places[e].second);
  }
}

TEST(TextPrinterTest, FloatsReadBackAsTheSameValue) {
  for (DType dtype :
       {DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    uint64_t state = 88172645463325252;
    const int bytes = DTypeBytes(dtype);
    const uint64_t count = bytes <= 2 ? uint64_t{1} << (8 * bytes) : 20000;
    for (uint64_t n = 0; n < count; ++n) {
      uint64_t bits = n;
      if (bytes > 2) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        bits = bytes == 4 ? state >> 32 : state;
      }
      const double value = DecodeBits(dtype, bits).f;
      const std::string literal = PrintFloat(value, dtype);
      if (std::isnan(value)) {
        EXPECT_EQ(literal, "nan");
        continue;
      }
      const double read = RoundToDType(dtype, std::strtod(literal.c_str(), nullptr));
      ASSERT_EQ(read, value) << literal << " of " << DTypeName(dtype);
      ASSERT_EQ(std::signbit(read), std::signbit(value)) << literal;
    }
  }
  EXPECT_EQ(PrintFloat(RoundToDType(DType::F16, 0.1), DType::F16), "0.1");
  EXPECT_EQ(PrintFloat(150, DType::F16), "150.0");
  EXPECT_EQ(PrintFloat(448, DType::F8E4M3), "448.0");
  EXPECT_EQ(PrintFloat(RoundToDType(DType::F32, 0.1), DType::F32), "0.1");
  EXPECT_EQ(PrintFloat(0.1, DType::F64), "0.1");
  EXPECT_EQ(PrintFloat(1.0 / 3, DType::F64), "0.3333333333333333");
}

TEST(TextPrinterTest, ReservedNamesGetUnderscores) {
  FusionBuilder builder("1 bad name");
  ValId x = builder.Input("inf", DType::F32, {3});
  ValId y = builder.Input("inf_", DType::F32, {3});
  builder.Output(builder.Add(x, y));
  absl::StatusOr<Fusion> fusion = builder.Finish();
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_EQ(PrintFusion(*fusion),
            "fusion _1_bad_name {\n"
            "  input inf__: f32[3]\n"
            "  input inf_: f32[3]\n"
            "  t0: f32[3] = add(inf__, inf_)\n"
            "  output t0\n"
            "}\n");
}

TEST(TextPrinterTest, RenamingKeepsNamesDistinct) {
  FusionBuilder builder("f");
  ValId x = builder.Input("_", DType::F32, {3});
  ValId y = builder.Input("nan", DType::F32, {3});
  ValId z = builder.Input("true", DType::F32, {3});
  builder.Output(builder.Add(builder.Add(x, y), z));
  absl::StatusOr<Fusion> fusion = builder.Finish();
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  const std::string text = PrintFusion(*fusion);
  absl::StatusOr<Fusion> again = ParseFusion(text);
  ASSERT_TRUE(again.ok()) << again.status() << text;
  EXPECT_EQ(PrintFusion(*again), text);
}

}  // namespace
}  // namespace seam
