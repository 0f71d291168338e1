// Bad text: the line and column of every error, what was found and what was expected.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"

namespace seam {
namespace {

// The first line of the error, without the file name.
std::string ErrorOf(const std::string& text) {
  absl::StatusOr<Fusion> fusion = ParseFusion(text, ParseOptions{"f.seam"});
  if (fusion.ok()) return "no error";
  EXPECT_EQ(fusion.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(fusion.status().message());
  EXPECT_TRUE(absl::StartsWith(message, "f.seam:")) << message;
  const size_t begin = message.find(':') + 1;
  return message.substr(begin, message.find('\n') - begin);
}

// Of a statement on line 5.
std::string ErrorIn(const std::string& statement) {
  return ErrorOf(absl::StrCat("fusion f {\n  symbol M in [0, 64]\n  input x: f32[M, 8]\n",
                              "  input i: i8[M, 8]\n", statement, "\n}\n"));
}

TEST(TextErrorTest, ShowsTheLineAndACaret) {
  absl::StatusOr<Fusion> fusion =
      ParseFusion("fusion f {\r\n\tinput x: f32[3]\r\n\tz = exp(x) + xx\r\n}\r\n", {"f.seam"});
  EXPECT_EQ(std::string(fusion.status().message()),
            "f.seam:3:15: found unknown value 'xx'; did you mean 'x'?\n"
            "  \tz = exp(x) + xx\n"
            "  \t             ^");
}

TEST(TextErrorTest, ShowsPartOfALongLine) {
  std::string text = "fusion f { # " + std::string(500, '-') +
                     "\n input x: " + std::string(300, ' ') + "f31[3]" + std::string(300, ' ') +
                     "\n}";
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  const std::string message(fusion.status().message());
  EXPECT_EQ(message,
            absl::StrCat("<text>:2:311: found 'f31', expected an element type such as f32; did "
                         "you mean 'f32'?\n  ...",
                         std::string(50, ' '), "f31[3]", std::string(44, ' '), "...\n     ",
                         std::string(50, ' '), "^"));
}

TEST(TextErrorTest, Frame) {
  EXPECT_EQ(ErrorOf(""), "1:1: found end of file, expected 'fusion NAME {'");
  EXPECT_EQ(ErrorOf("\n # only this\n"), "3:1: found end of file, expected 'fusion NAME {'");
  EXPECT_EQ(ErrorOf("graph f {}"), "1:1: found 'graph', expected 'fusion NAME {'");
  EXPECT_EQ(ErrorOf("fusion {}"), "1:8: found '{', expected the name of the fusion");
  EXPECT_EQ(ErrorOf("fusion f\n{}"),
            "1:9: found end of line, expected '{' before the statements of the fusion");
  EXPECT_EQ(ErrorOf("fusion f {\n"),
            "2:1: found end of file, expected '}' at the end of the fusion");
  EXPECT_EQ(ErrorOf("fusion f {}\n}"), "2:1: found '}', expected the end of the file");
}

TEST(TextErrorTest, Statements) {
  EXPECT_EQ(ErrorIn("z"), "5:2: found end of line, expected '=', ':' or ','");
  EXPECT_EQ(
      ErrorIn("inptu y: f32[3]"),
      "5:1: found 'inptu', expected symbol, input, output or a definition 'name = ...'; did you "
      "mean 'input'?");
  EXPECT_EQ(ErrorIn("= x"),
            "5:1: found '=', expected symbol, input, output or a definition 'name = ...'");
  EXPECT_EQ(ErrorIn("z = exp(x) exp(x)"), "5:12: found 'exp', expected the end of the line");
  EXPECT_EQ(ErrorIn("z = "), "5:5: found end of line, expected a value");
  EXPECT_EQ(ErrorIn("z: = x"), "5:4: found '=', expected an element type such as f32");
  EXPECT_EQ(ErrorIn("z, 3 = x"), "5:4: found number '3', expected the name of a result");
  EXPECT_EQ(ErrorIn("output exp(x)"), "5:8: found unknown value 'exp'");
}

TEST(TextErrorTest, Operations) {
  EXPECT_EQ(ErrorIn("z = sofmax(x)"),
            "5:5: found unknown operation 'sofmax'; did you mean 'softmax'?");
  EXPECT_EQ(ErrorIn("z = x + rsqr(x)"),
            "5:9: found unknown operation 'rsqr'; did you mean 'rsqrt'?");
  EXPECT_EQ(ErrorIn("z = nonsense(x)"), "5:5: found unknown operation 'nonsense'");
  // What other languages call otherwise; what none of ours does.
  EXPECT_EQ(ErrorIn("z = min(x, 0.0)"),
            "5:5: found unknown operation 'min'; write minimum(a, b) or, along axes, amin(a, "
            "axes=[0])");
  EXPECT_EQ(ErrorIn("z = max(x, axes=[1])"),
            "5:5: found unknown operation 'max'; write maximum(a, b) or, along axes, amax(a, "
            "axes=[0])");
  EXPECT_EQ(ErrorIn("z = arange(M)"),
            "5:5: found unknown operation 'arange'; write iota(sizes=[...], axis=0, dtype=i64)");
  EXPECT_EQ(ErrorIn("z = stack(x, x)"),
            "5:5: found unknown operation 'stack'; write cat(a[None], b[None], axis=0)");
  EXPECT_EQ(
      ErrorIn("z = sum(x, dim=1)"),
      "5:12: found unknown attribute 'dim' of sum, expected axes, axis, keepdims; write axis");
  EXPECT_EQ(ErrorIn("z = sum(x, axis=1, keepdims=True)"),
            "5:29: found unknown value 'True'; write true");
  EXPECT_EQ(
      ErrorIn("z = x if x > 0.0 else exp(x)"),
      "5:7: found 'if', expected the end of the line; write where(c, a, b) for a if c else b");
  EXPECT_EQ(ErrorIn("z = topk(x, 5)"),
            "5:5: found unknown operation 'topk', and there is none like it");
  EXPECT_EQ(ErrorIn("z = permute(x, [1, 0])"),
            "5:16: found '[', expected an operand: lists have names, as in axes=[1, 0] or "
            "sizes=[M, N]");
  EXPECT_EQ(ErrorIn("z = cast(x, bf16)"),
            "5:13: found unknown value 'bf16'; types have names, as in dtype=bf16");
  EXPECT_EQ(ErrorIn("z = softmax(x, axes=[0, 1])"),
            "5:16: found a list for 'axis', expected one axis");
  EXPECT_EQ(
      ErrorIn("z = softmax(x, axes=[0], axis=1)"),
      "5:16: found unknown attribute 'axes' of softmax, expected x, axis; did you mean 'axis'?");
  EXPECT_EQ(ErrorIn("z = x / size(sizes=[M, 8], dtype=f32)"),
            "5:9: size: one size expected, 2 given; a number of elements is a product, [M*N]");
  EXPECT_EQ(ErrorIn("z = add(x)"), "5:5: found 1 operand of add, expected 2");
  EXPECT_EQ(ErrorIn("z = exp()"), "5:5: found 0 operands of exp, expected 1");
  EXPECT_EQ(ErrorIn("z = exp(x, x)"), "5:5: found 2 operands of exp, expected 1");
  EXPECT_EQ(
      ErrorIn("z = sum(x, axs=[1])"),
      "5:12: found unknown attribute 'axs' of sum, expected axes, axis, keepdims; did you mean "
      "'axes'?");
  EXPECT_EQ(ErrorIn("z = exp(x, axes=[1])"),
            "5:12: found unknown attribute 'axes' of exp, expected none");
  EXPECT_EQ(ErrorIn("z = broadcast(x)"), "5:5: found no axes for broadcast, expected axes=...");
  EXPECT_EQ(ErrorIn("z = cast(x)"), "5:5: found no dtype for cast, expected dtype=...");
  EXPECT_EQ(ErrorIn("z = cast(x, dtype=f33)"),
            "5:19: found 'f33', expected an element type such as f32; did you mean 'f32'?");
  EXPECT_EQ(ErrorIn("z = sum(x, axes=[1], axes=[1])"), "5:22: found a second 'axes', expected one");
  EXPECT_EQ(ErrorIn("z = sum(axes=[1], x)"),
            "5:19: found 'x', expected a keyword: operands come first");
  EXPECT_EQ(ErrorIn("z = sum(x, axes=[M])"),
            "5:12: found axis M, expected an integer from -16 to 15");
  EXPECT_EQ(ErrorIn("z = sum(x, axes=x)"),
            "5:12: found a value for 'axes', expected a list such as [0, 1]");
  EXPECT_EQ(ErrorIn("z = sum(x, axes=1.5)"),
            "5:12: found number '1.5' for 'axes', expected an integer of 32 bits");
  EXPECT_EQ(ErrorIn("z = softmax(x, axis=4294967296)"),
            "5:16: found number '4294967296' for 'axis', expected an integer of 32 bits");
  EXPECT_EQ(ErrorIn("z = sum(x, axes=[0], axis=1)"), "5:22: found axis beside axes, expected one");
  EXPECT_EQ(ErrorIn("z = cast(x, dtype=[1])"),
            "5:13: found a list for 'dtype', expected an element type");
  EXPECT_EQ(ErrorIn("z = layer_norm(x, weight=[8], axes=[1])"),
            "5:19: found a list for 'weight', expected a tensor");
  EXPECT_EQ(ErrorIn("z = sum(x, keepdims=1)"),
            "5:12: found number '1' for 'keepdims', expected true or false");
  EXPECT_EQ(ErrorIn("z = pad(x, before=[0, 0], after=[0, 0], value=x)"),
            "5:41: found a value for 'value', expected a literal");
  EXPECT_EQ(ErrorIn("z = constant(1.5)"),
            "5:5: expected a literal and its type, as in constant(1.5, dtype=f32)");
  EXPECT_EQ(ErrorIn("z = layer_norm(x)"),
            "5:5: found no axes for layer_norm, expected x, weight, bias, axes, eps");
  EXPECT_EQ(ErrorIn("z = softmax(x, x)"),
            "5:16: found more tensors than softmax takes, expected x, axis");
  EXPECT_EQ(
      ErrorIn("z = layer_norm(x, axes=[1], epsilon=1)"),
      "5:29: found unknown attribute 'epsilon' of layer_norm, expected x, weight, bias, axes, "
      "eps");
  EXPECT_EQ(ErrorIn("z = layer_norm(x, axes=[1], eps=x)"),
            "5:29: found a value for 'eps', expected a number");
}

TEST(TextErrorTest, ComesFromTheTypingRulesWithThePlaceOfTheOperation) {
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = exp(x) + i"), "5:12: add: "));
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = sum(x, axes=[2])"), "5:5: sum: axis 2 "));
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = sum(x, axes=[0, -2])"), "5:5: sum: axis 0 "));
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = x + x[:, 0:3]"), "5:7: add: axis 1 is 8 "));
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = x @ x"), "5:7: matmul: "));
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = layer_norm(x, axes=[5])"), "5:5: "));
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = i + sqrt(i)"), "5:9: sqrt: "));
}

TEST(TextErrorTest, Names) {
  EXPECT_EQ(ErrorIn("z = exp(w)\n"), "5:9: found unknown value 'w'");
  EXPECT_EQ(ErrorIn("z = exp(unheard_of)"), "5:9: found unknown value 'unheard_of'");
  EXPECT_EQ(ErrorIn("alpha = exp(x)\nz = exp(alhpa)"),
            "6:9: found unknown value 'alhpa'; did you mean 'alpha'?");
  EXPECT_EQ(ErrorIn("z = exp(w)\nw = exp(x)"), "5:9: found 'w' before its definition on line 6");
  EXPECT_EQ(ErrorIn("z = exp(w)\na: f32[M], w, c = welford(x, axes=[1])"),
            "5:9: found 'w' before its definition on line 6");
  EXPECT_EQ(ErrorIn("z = exp(z)"), "5:9: found unknown value 'z'");
  EXPECT_EQ(
      ErrorIn("z = exp(M)"),
      "5:9: found unknown value 'M', which is a symbol: symbols stand for extents, in types and "
      "attributes; its value is size(sizes=[M], dtype=f32)");
  EXPECT_EQ(
      ErrorIn("z = exp(x)\nz = exp(x)"),
      "6:1: found a second definition of 'z', which is defined on line 5, expected a new name");
  EXPECT_EQ(
      ErrorIn("input x: f32[3]"),
      "5:7: found a second definition of 'x', which is defined on line 3, expected a new name");
  EXPECT_EQ(
      ErrorIn("a, a, b = welford(x)"),
      "5:4: found a second definition of 'a', which is defined on line 5, expected a new name");
  EXPECT_EQ(ErrorIn("symbol M in [1, 2]"), "5:8: found a second symbol 'M', expected a new name");
  EXPECT_EQ(ErrorIn("inf = exp(x)"), "5:1: found the reserved word 'inf', expected a name");
  EXPECT_EQ(ErrorIn("output x\noutput x"), "6:8: output x: already an output");
  EXPECT_EQ(ErrorIn("a, b = welford(x)"), "5:1: found 2 names, expected 3, one for each result");
  EXPECT_EQ(ErrorIn("a, b = exp(x)"), "5:1: found 2 names, expected 1, one for each result");
  EXPECT_EQ(
      ErrorIn("a = exp(welford(x))"),
      "5:9: found an operation of 3 results inside an expression, expected a line of its own: a, "
      "b, ... = welford(...)");
  EXPECT_EQ(ErrorIn("a = welford(x)"), "5:1: found 1 name, expected 3, one for each result");
}

TEST(TextErrorTest, Types) {
  EXPECT_EQ(ErrorIn("z: f32[M, 9] = exp(x)"), "5:4: found f32[M, 9] for 'z', expected f32[M, 8]");
  EXPECT_EQ(ErrorIn("z: f16[M, 8] = exp(x)"), "5:4: found f16[M, 8] for 'z', expected f32[M, 8]");
  EXPECT_EQ(ErrorIn("z: f32[M] = exp(x)"), "5:4: found f32[M] for 'z', expected f32[M, 8]");
  EXPECT_EQ(ErrorIn("a, b: f32[8], c = welford(x, axes=[1])"),
            "5:7: found f32[8] for 'b', expected f32[M]");
  EXPECT_EQ(ErrorIn("input y: float[3]"),
            "5:10: found 'float', expected an element type such as f32");
  EXPECT_EQ(ErrorIn("input y: f32[3"), "6:1: found '}', expected ']' or ',' after an extent");
  EXPECT_EQ(ErrorIn("input y: f32[,]"), "5:14: found ',', expected an extent");
  EXPECT_EQ(ErrorIn("input y f32[3]"), "5:9: found 'f32', expected ':' and the type of the input");
  EXPECT_EQ(ErrorIn("input y: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"),
            "5:46: found more than 16 axes, which is the limit");
}

TEST(TextErrorTest, Extents) {
  EXPECT_EQ(ErrorIn("input y: f32[MM]"), "5:14: found unknown symbol 'MM'; did you mean 'M'?");
  EXPECT_EQ(
      ErrorIn("input y: f32[batch]"),
      "5:14: found unknown symbol 'batch', expected an integer or a declared symbol (symbol batch "
      "in [lo, hi])");
  EXPECT_EQ(
      ErrorIn("input y: f32[2*batch]"),
      "5:16: found unknown symbol 'batch', expected an integer or a declared symbol (symbol batch "
      "in [lo, hi])");
  EXPECT_EQ(ErrorIn("input y: f32[-1]"), "5:14: found extent -1, expected one from 0 to 2^48");
  EXPECT_EQ(ErrorIn("input y: f32[M - 65]"),
            "5:14: found extent M - 65, expected one from 0 to 2^48");
  EXPECT_EQ(ErrorIn("input y: f32[281474976710657]"),
            "5:14: found extent 281474976710657, expected one from 0 to 2^48");
  EXPECT_EQ(ErrorIn("input y: f32[9223372036854775808]"),
            "5:14: found number '9223372036854775808', expected an integer below 2^63");
  EXPECT_TRUE(absl::StartsWith(ErrorIn("input y: f32[4611686018427387904 * 4]"), "5:"));
  EXPECT_TRUE(absl::StrContains(ErrorIn("input y: f32[4611686018427387904 * 4]"), "overflow"));
  EXPECT_TRUE(absl::StrContains(ErrorIn("input y: f32[M // 0]"), "division by zero"));
  EXPECT_EQ(ErrorIn("input y: f32[1.5]"), "5:14: found number '1.5', expected an integer");
  EXPECT_TRUE(absl::StartsWith(ErrorIn("input y: f32[M +]"), "5:17: found ']' in an extent: "));
  EXPECT_TRUE(absl::StartsWith(ErrorIn("input y: f32[M + * 2]"), "5:18: found '*' in an extent: "));
  EXPECT_EQ(ErrorIn("input y: f32[M M]"),
            "5:16: found 'M' in an extent, expected an operator, ',' or ']'");
  EXPECT_EQ(ErrorIn("input y: f32[M / 2]"),
            "5:16: found '/' in an extent, expected an operator, ',' or ']'");
  EXPECT_EQ(ErrorIn("input y: f32[(M]"),
            "5:16: found ']' in an extent: symbolic expression, byte 4: "
            "expected ')'");
  EXPECT_TRUE(absl::StartsWith(ErrorIn("input y: f32[281474976710656, 2]"), "5:7: input y: "));
}

TEST(TextErrorTest, LongProducts) {
  const auto of_factors = [](int factors) {
    std::string product = "K";
    for (int i = 1; i < factors; ++i) product += "*K";
    return ErrorIn(absl::StrCat("symbol K in [0, 1]\ninput y: f32[", product, "]"));
  };
  EXPECT_EQ(of_factors(256), "no error");
  // The place is that of the first factor too many.
  EXPECT_TRUE(absl::StartsWith(of_factors(257), "6:526: found 'K' in an extent: "))
      << of_factors(257);
  EXPECT_TRUE(absl::StrContains(of_factors(257), "too large"));
  EXPECT_TRUE(absl::StrContains(of_factors(300000), "too large"));
}

TEST(TextErrorTest, Ranges) {
  const std::string range = ", expected 0 <= smallest <= largest <= 2^48";
  EXPECT_EQ(ErrorIn("symbol N in [5, 4]"), "5:14: found the range [5, 4]" + range);
  EXPECT_EQ(ErrorIn("symbol N in [-1, 4]"), "5:14: found the range [-1, 4]" + range);
  EXPECT_EQ(ErrorIn("symbol N in [0, 281474976710657]"),
            "5:14: found the range [0, 281474976710657]" + range);
  EXPECT_EQ(ErrorIn("symbol N in [0]"),
            "5:15: found ']', expected ',' between the limits of the range");
  EXPECT_EQ(ErrorIn("symbol N in [0, M]"), "5:17: found M as largest value, expected an integer");
  EXPECT_EQ(ErrorIn("symbol N of"), "5:10: found 'of', expected the end of the line");
  EXPECT_TRUE(absl::StartsWith(ErrorIn("symbol min"), "5:8: "));
}

TEST(TextErrorTest, Strides) {
  EXPECT_EQ(ErrorIn("input y: f32[M, 8] strides [1]"),
            "5:30: found 1 strides, expected 2, one for each axis");
  EXPECT_EQ(ErrorIn("input y: f32[M, 8] strides [1, 1, 1]"),
            "5:36: found more than 2 strides, expected 2, one for each axis");
  EXPECT_TRUE(absl::StrContains(ErrorIn("input y: f32[M, 8] strides [-1, 1]"), "negative"));
  EXPECT_EQ(ErrorIn("input y: f32[M, 8] order [0, 0]"),
            "5:20: found an order that is not a permutation of the 2 axes");
  EXPECT_EQ(ErrorIn("input y: f32[M, 8] order [0]"),
            "5:20: found an order that is not a permutation of the 2 axes");
  EXPECT_EQ(ErrorIn("input y: f32[M, 8] order [0, 5]"),
            "5:20: found an order that is not a permutation of the 2 axes");
}

TEST(TextErrorTest, Literals) {
  EXPECT_EQ(ErrorIn("z = i + 1.5"), "5:9: found number '1.5' for i8, expected an integer");
  EXPECT_EQ(ErrorIn("z = i + 128"),
            "5:9: found number '128' for i8, expected an integer from -128 to 127");
  EXPECT_EQ(ErrorIn("z = i + -129"),
            "5:9: found number '-129' for i8, expected an integer from -128 to 127");
  EXPECT_EQ(ErrorIn("z: u8 = -1"),
            "5:9: found number '-1' for u8, expected an integer from 0 to 255");
  EXPECT_EQ(ErrorIn("z = i + 99999999999999999999"),
            "5:9: found number '99999999999999999999', expected an integer below 2^64");
  EXPECT_EQ(ErrorIn("z = x + true"), "5:9: found 'true' for f32, expected a number");
  EXPECT_EQ(
      ErrorIn("z = where(1, x, x)"),
      "5:11: found number '1' where no value gives it a type, expected one behind it, as in 1: "
      "i32");
  EXPECT_EQ(ErrorIn("z = 1 + 2"),
            "5:5: found number '1 + 2' where no value gives it a type, expected one behind it, as "
            "in 1: i32");
  EXPECT_EQ(ErrorIn("z = x + 1e39"),
            "5:9: found number '1e39' for f32, expected a number that rounds to at most "
            "3.4028235e+38, or inf");
  EXPECT_EQ(ErrorIn("z = x + 1e309"),
            "5:9: found number '1e309', expected a number within f64 or inf");
  EXPECT_EQ(
      ErrorIn("z = 65520: f16"),
      "5:5: found number '65520' for f16, expected a number that rounds to at most 65504.0, or "
      "inf");
  EXPECT_EQ(ErrorIn("z = 480.5: f8e4m3"),
            "5:5: found number '480.5' for f8e4m3, expected a number that rounds to at most 448.0");
  EXPECT_EQ(ErrorIn("z = -inf: f8e4m3"),
            "5:5: found '-inf' for f8e4m3, expected a number that rounds to at most 448.0");
  EXPECT_EQ(
      ErrorIn("z = 61440: f8e5m2"),
      "5:5: found number '61440' for f8e5m2, expected a number that rounds to at most 57344.0, "
      "or inf");
  EXPECT_EQ(ErrorIn("z = i * (0.5 * 3)"),
            "5:9: found number '(0.5 * 3)' for i8, expected an integer");
  EXPECT_EQ(ErrorIn("z = i * (4611686018427387904 * 2)"),
            "5:10: found number '4611686018427387904 * 2', whose value is beyond i64");
  for (const std::string beyond : {"1 << 63", "3 << 62", "1 << 100", "9223372036854775807 + 1",
                                   "-9223372036854775807 - 2", "square(4294967296)"}) {
    EXPECT_EQ(ErrorIn(absl::StrCat("z = i * (", beyond, ")")),
              absl::StrCat("5:10: found number '", beyond, "', whose value is beyond i64"));
  }
  for (const std::string within :
       {"9223372036854775806 + 1", "0 - 9223372036854775807", "9223372036854775807 // 1",
        "maximum(9223372036854775807, 1)", "-4611686018427387904 * 2", "1 << 62"}) {
    EXPECT_EQ(ErrorIn(absl::StrCat("z = cast(i, dtype=i64) + (", within, ")")), "no error")
        << within;
  }
  EXPECT_EQ(ErrorIn("z = i * (1 // 0)"), "5:10: found number '1 // 0', a division by zero");
  EXPECT_EQ(ErrorIn("z = i * (7 % 0)"), "5:10: found number '7 % 0', a division by zero");
  EXPECT_EQ(ErrorIn("z, m, r = layer_norm(x, axes=[0], eps=1e39)"),
            "5:11: layer_norm: 1e+39 given, a number that f32 holds expected");
  EXPECT_EQ(ErrorIn("z = variance(x, axes=[0], correction=nan)"),
            "5:5: variance: nan given, a number that f32 holds expected");
  EXPECT_EQ(ErrorIn("z = x * (true + 1)"), "5:10: found 'true' for i64, expected a number");
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = x * (true + true)"), "5:10: add: "));
  EXPECT_EQ(ErrorIn("z = full(x[0:1, 0:1], sizes=[M], dtype=f16)"),
            "5:34: found dtype=f16 for a value of f32, expected a cast");
  EXPECT_EQ(ErrorIn("z = where(x > 0, 1, 0)"),
            "5:18: found number '1' where no value gives it a type, expected one behind it, as in "
            "1: i32");
  EXPECT_EQ(ErrorIn("z = where(1.5, x, x)"),
            "5:11: found number '1.5' where no value gives it a type, expected one behind it, as "
            "in 1.5: f32");
  EXPECT_EQ(ErrorIn("z = 1.5: g16"),
            "5:10: found 'g16', expected an element type such as f32; did you "
            "mean 'f16'?");
  EXPECT_EQ(ErrorIn("z = 2x"), "5:5: found '2x', expected a number");
  EXPECT_EQ(ErrorIn("z = 1.5.2"), "5:5: found '1.5.2', expected a number");
  EXPECT_EQ(ErrorIn("z = 0xfg"), "5:5: found '0xfg', expected a number");
  EXPECT_EQ(ErrorIn("z = -2 ** x"),
            "5:8: found '**', expected parentheses: is it (-a) ** b or -(a ** "
            "b)?");
}

TEST(TextErrorTest, Expressions) {
  EXPECT_EQ(ErrorIn("z = x + "), "5:9: found end of line, expected a value");
  EXPECT_EQ(ErrorIn("z = (x + x"), "6:1: found '}', expected ')' for the '(' on line 5");
  EXPECT_EQ(ErrorIn("z = x + )"), "5:9: found ')', expected a value");
  EXPECT_EQ(ErrorIn("z = exp(x"), "6:1: found '}', expected ')' or ',' in the call of exp");
  EXPECT_EQ(ErrorIn("z = x < x < x"),
            "5:11: found a second comparison '<', expected parentheses: comparisons do not chain");
  const std::string parentheses =
      ", expected integers or bool; it binds tighter than comparisons: write (a < b) & (c < d)";
  EXPECT_EQ(ErrorIn("z = x > 0 & (x > 1)"), "5:11: found '&' of i64 and bool" + parentheses);
  EXPECT_EQ(ErrorIn("z = (x > 1) & x > 0"), "5:13: found '&' of bool and f32" + parentheses);
  EXPECT_EQ(ErrorIn("z = x > 1 & x > 0"), "5:11: found '&' of i64 and f32" + parentheses);
  EXPECT_EQ(ErrorIn("z = not x"), "5:5: found unknown value 'not'; write ~a for not a");
  EXPECT_EQ(ErrorIn("z = x and x"),
            "5:7: found 'and', expected the end of the line; write (a) & (b) for a and b");
  EXPECT_EQ(ErrorIn("z = x ! x"), "5:7: found '!', expected the end of the line");
  EXPECT_EQ(ErrorIn("z = x $ x"), "5:7: found '$', which begins nothing in this language");
}

TEST(TextErrorTest, Indices) {
  EXPECT_EQ(
      ErrorIn("z = x[0]"),
      "5:7: found index '0' without ':', expected a range: i:i+1, and squeeze to drop the axis");
  EXPECT_EQ(ErrorIn("z = x[:, :, :]"), "5:13: found more indices than the 2 axes of f32[M, 8]");
  EXPECT_EQ(ErrorIn("z = x[..., ...]"),
            "5:12: found a second '...', expected at most one in an index");
  EXPECT_EQ(ErrorIn("z = x[:"), "6:1: found '}', expected an extent");
  EXPECT_TRUE(absl::StartsWith(ErrorIn("z = x[:, ::0]"), "5:6: slice: "));
}

TEST(TextErrorTest, Bytes) {
  EXPECT_EQ(ErrorIn("z = \xC3\xA9"),
            "5:5: found a character that is not ASCII, which only comments may hold");
  EXPECT_EQ(ErrorIn("z = x \xFF"), "5:7: found byte 0xFF at offset 80, expected UTF-8");
  EXPECT_EQ(ErrorIn("# ok \xE2\x82 not"), "5:6: found byte 0xE2 at offset 79, expected UTF-8");
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xE2\x82"}) {
    EXPECT_TRUE(absl::StartsWith(ErrorIn(absl::StrCat("# ", bad)), "5:3: found byte 0x")) << bad;
  }
  EXPECT_EQ(ErrorIn("# \xED\x9F\xBF \xF4\x8F\xBF\xBF \xE2\x82\xAC"), "no error");
  EXPECT_EQ(ErrorIn(std::string("z = x\0", 6)),
            "5:6: found control character byte 0x00 at offset 79, expected text");
  EXPECT_EQ(ErrorIn(std::string("# \0", 3)), "5:3: found a NUL byte at offset 76, expected text");
  EXPECT_EQ(ErrorIn("z = x\rw = x"),
            "5:6: found control character byte 0x0D at offset 79, expected text");
}

TEST(TextErrorTest, DeepNesting) {
  const auto repeat = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  const std::string limit =
      ": found an expression nested more than 200 levels deep, which is the limit";
  EXPECT_EQ(ErrorIn(absl::StrCat("z = ", repeat("(", 199), "x", repeat(")", 199))), "no error");
  EXPECT_EQ(ErrorIn(absl::StrCat("z = ", repeat("(", 200), "x", repeat(")", 200))),
            "5:205" + limit);
  for (const char* opening : {"(", "exp(", "- ", "~", "+", "x ** ", "x + (", "x[0:(",
                              "sum(x, axes=[(", "sum(x, keepdims=("}) {
    const std::string error = ErrorIn(absl::StrCat("z = ", repeat(opening, 1000000)));
    EXPECT_NE(error, "no error") << opening;
  }
  EXPECT_NE(
      ErrorIn(absl::StrCat("input y: f32[", repeat("(", 1000000), "M", repeat(")", 1000000), "]")),
      "no error");
  EXPECT_NE(ErrorIn(absl::StrCat("input y: f32[", repeat("min(M, ", 1000000))), "no error");
  // Long is not deep.
  EXPECT_EQ(ErrorIn(absl::StrCat("z = x", repeat(" + x", 20000))), "no error");
  EXPECT_EQ(ErrorIn(absl::StrCat("z = x", repeat("[None][0:1, ...]", 1), "\nw = cat(x",
                                 repeat(", x", 20000), ", axis=0)")),
            "no error");
}

TEST(TextErrorTest, TooLarge) {
  const std::string text(kMaxTextBytes + 1, ' ');
  EXPECT_EQ(ErrorOf(text),
            "1:1: found a text of 268435457 bytes, expected at most 268435456 (256 MiB)");
}

TEST(TextErrorTest, ManyTokensWithoutAMeaning) {
  for (const char* part : {"a,", "[", "]", "\n", "a\n", "0x", "#", "x = x\n", "{", "9", ".", "?"}) {
    std::string text = "fusion f {\n";
    while (text.size() < 1 << 20) text += part;
    EXPECT_NE(ErrorOf(text), "no error") << part;
  }
}

class LoadFusionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "seam_load_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::remove((folder_ + "/f.seam").c_str());
    rmdir(folder_.c_str());
  }
  std::string folder_;
};

TEST_F(LoadFusionTest, ReadsAFile) {
  std::ofstream(folder_ + "/f.seam") << "fusion f {\n  input x: f32[3]\n}\n";
  absl::StatusOr<Fusion> fusion = LoadFusion(folder_ + "/f.seam");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_EQ(fusion->inputs().size(), 1u);
}

TEST_F(LoadFusionTest, NamesTheFile) {
  const std::string path = folder_ + "/f.seam";
  std::ofstream(path) << "fusion";
  EXPECT_TRUE(absl::StartsWith(LoadFusion(path).status().message(),
                               path + ":1:7: found end of file, expected the name"));
}

TEST_F(LoadFusionTest, SaysWhatCannotBeRead) {
  EXPECT_EQ(LoadFusion(folder_ + "/none").status(),
            absl::NotFoundError(absl::StrCat("cannot open ", folder_,
                                             "/none: No such file or "
                                             "directory")));
  EXPECT_EQ(LoadFusion(folder_).status(),
            absl::UnavailableError(
                absl::StrCat("cannot read ", folder_, ": it is a directory, expected a file")));
  if (geteuid() != 0) {
    std::ofstream(folder_ + "/f.seam") << "fusion";
    chmod((folder_ + "/f.seam").c_str(), 0);
    EXPECT_EQ(LoadFusion(folder_ + "/f.seam").status().code(), absl::StatusCode::kPermissionDenied);
  }
}

}  // namespace
}  // namespace seam
