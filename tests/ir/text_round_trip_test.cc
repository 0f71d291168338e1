// Parse(Print(f)) == f: for every operation of the table and every dtype it takes, every composite,
// every example, every example cut off at every byte, and thousands of mutations.
#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/fusion_builder.h"
#include "ir/scalar.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"

namespace seam {
namespace {

template <typename Extents>
std::string Text(const Extents& extents) {
  return absl::StrJoin(extents, ", ",
                       [](std::string* s, SymInt e) { absl::StrAppend(s, e.ToString()); });
}

// All that two Fusions must have in common, names of values and places in a text aside. Extents
// belong to different environments, so that they are compared as text. Values are numbered inputs
// first.
std::vector<std::string> Structure(const Fusion& fusion) {
  std::map<ValId, int> number;
  for (ValId v : fusion.inputs()) number.emplace(v, number.size());
  for (uint32_t v = 0; v < fusion.num_vals(); ++v) number.emplace(ValId(v), number.size());
  const auto type = [&](ValId v) {
    return absl::StrCat(
        " %", number[v], " ", fusion.type(v).ToString(),
        fusion.has_explicit_strides(v) ? absl::StrCat(" strides ", Text(fusion.strides(v))) : "",
        fusion.is_output(v) ? " out" : "");
  };
  std::vector<std::string> lines;
  for (ValId v : fusion.inputs()) lines.push_back("input" + type(v));
  for (uint32_t i = 0; i < fusion.num_exprs(); ++i) {
    const ExprId e(i);
    std::string line(fusion.info(e).name);
    for (ValId v : fusion.operands(e)) absl::StrAppend(&line, " %", number[v]);
    for (int r = 0; r < fusion.num_results(e); ++r)
      absl::StrAppend(&line, type(fusion.result(e, r)));
    const Attributes& a = fusion.attributes(e);
    uint64_t bits;
    std::memcpy(&bits, &a.value, sizeof(bits));
    absl::StrAppend(&line, " axes ", absl::StrJoin(a.axes, ","), " sizes ", Text(a.sizes),
                    " start ", Text(a.start), " stop ", Text(a.stop), " step ", Text(a.step),
                    " dtype ", DTypeName(a.dtype), " value ", std::isnan(a.value) ? 1 : bits, " ",
                    a.int_value);
    lines.push_back(line);
  }
  for (ValId v : fusion.outputs()) lines.push_back("output" + type(v));
  for (const Guard& guard : fusion.constraints()) lines.push_back(guard.condition.ToString());
  return lines;
}

void ExpectRoundTrip(const Fusion& fusion) {
  ASSERT_TRUE(Verify(fusion).ok()) << Verify(fusion);
  const std::string text = PrintFusion(fusion);
  absl::StatusOr<Fusion> again = ParseFusion(text);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_TRUE(Verify(*again).ok()) << Verify(*again);
  EXPECT_EQ(PrintFusion(*again), text);
  EXPECT_EQ(Structure(*again), Structure(fusion)) << text;
}

void ExpectTextRoundTrip(const std::string& text) {
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  ExpectRoundTrip(*fusion);
}

// The operands of an elementwise operation on `dtype`; the first of three may be a condition.
std::string ElementwiseCall(const OpInfo& info, DType dtype) {
  std::string text = "fusion f {\n  symbol M\n";
  std::string operands;
  for (int i = 0; i < info.num_operands; ++i) {
    const DType own = info.type_rule == TypeRule::kWhere && i == 0 ? DType::Bool : dtype;
    // A tensor, one that is broadcast, a scalar.
    const char* shapes[] = {"[M, 3]", "[1, 3]", "[]"};
    absl::StrAppend(&text, "  input a", i, ": ", DTypeName(own), shapes[i % 3], "\n");
    absl::StrAppend(&operands, i > 0 ? ", a" : "a", i);
  }
  return absl::StrCat(text, "  r = ", info.name, "(", operands, ")\n  output r\n}\n");
}

// Statements for each operation that is not elementwise; T is a dtype it takes.
const std::map<OpKind, std::string>& Statements() {
  static const auto& rows = *new std::map<OpKind, std::string>{
      {OpKind::Cast, "input a: T[M, 3]\nr = cast(a, dtype=f32)\nq = cast(r, dtype=T)"},
      {OpKind::Sum, "input a: T[M, 3]\nr = sum(a, axes=[0])\nq = sum(a)\ns = sum(1: T)"},
      {OpKind::Prod, "input a: T[M, 3]\nr = prod(a, axes=[0, 1])"},
      {OpKind::Max, "input a: T[M, 3]\nr = amax(a, axes=[0])"},
      {OpKind::Min, "input a: T[M, 3]\nr = amin(a, axes=[1])"},
      {OpKind::Any, "input a: T[M, 3]\nr = any(a, axes=[0])"},
      {OpKind::All, "input a: T[M, 3]\nr = all(a, axes=[0])"},
      {OpKind::ArgMax, "input a: T[M, 3]\nr = argmax(a, axes=[1])"},
      {OpKind::ArgMin, "input a: T[M, 3]\nr = argmin(a, axes=[1])"},
      {OpKind::Welford, "input a: T[M, 3]\nr, s, t = welford(a, axes=[1])\noutput s"},
      {OpKind::Broadcast, "input a: T[M, 3]\nr = broadcast(a, axes=[0, 2, 4])"},
      {OpKind::Reshape,
       "input a: T[M, 6]\nr = reshape(a, sizes=[2*M, 3, -1])\nq = reshape(r, sizes=[K*M, M])"},
      {OpKind::Permute, "input a: T[M, 3, 5]\nr = permute(a, axes=[2, 0, 1])"},
      {OpKind::Squeeze, "input a: T[M, 1, 1]\nr = squeeze(a, axes=[2, 1])"},
      {OpKind::Expand, "input a: T[M, 1]\nr = expand(a, sizes=[M, K + 2])"},
      {OpKind::Slice,
       "input a: T[M, 9]\nr = slice(a, start=[0, 1], stop=[M//2, 7], step=[1, 2])\n"
       "q = slice(a, start=[K, 1], stop=[M, 7])"},
      {OpKind::Flip, "input a: T[M, 3]\nr = flip(a, axes=[0])"},
      {OpKind::Pad, "input a: T[M, 3]\nr = pad(a, before=[K, 0], after=[1, M%2])"},
      {OpKind::Cat,
       "input a: T[M, 3]\ninput b: T[K, 3]\nr = cat(a, b, a, axes=[0])\nq = cat(a, axis=1)"},
      {OpKind::Constant, "r = LITERAL: T"},
      {OpKind::Full, "r = full(LITERAL: T, sizes=[M, 2*K, 0])"},
      {OpKind::Iota, "r = iota(axis=-1, sizes=[M, 3], dtype=T)"},
      {OpKind::Size, "r = size(sizes=[M*K - 1], dtype=T)"},
      {OpKind::RandomUniform, "r = random_uniform(7, -1, sizes=[M, 3], dtype=T)"},
      {OpKind::RandomNormal, "input s: i64[]\nr = random_normal(s, s, sizes=[M, 3], dtype=T)"},
      {OpKind::Gather, "input a: T[M, 3]\ninput i: i32[M, 5]\nr = gather(a, i, axis=1)"},
      {OpKind::IndexSelect, "input a: T[M, 3]\ninput i: i64[K]\nr = index_select(a, i, axis=1)"},
      {OpKind::Matmul, "input a: T[2, M, K]\ninput b: T[2, K, 3]\nr = matmul(a, b)"},
      {OpKind::SegmentSet, "input a: T[M, 3]\nr = segment_set(a)"},
  };
  return rows;
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(TextRoundTripTest, EveryOperationOfTheTable) {
  for (const OpInfo& info : AllOps()) {
    int dtypes = 0;
    for (int d = 0; d < kNumDTypes; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (!TakesDType(info.kind, dtype)) continue;
      const bool is_counter = info.kind == OpKind::Iota || info.kind == OpKind::Size;
      if (is_counter && dtype == DType::Bool) continue;
      ++dtypes;
      SCOPED_TRACE(absl::StrCat(info.name, " on ", DTypeName(dtype)));
      if (info.op_class == OpClass::Elementwise) {
        ExpectTextRoundTrip(ElementwiseCall(info, dtype));
        continue;
      }
      auto row = Statements().find(info.kind);
      ASSERT_NE(row, Statements().end()) << "no row for " << info.name;
      const std::string literal = dtype == DType::Bool ? "true" : IsFloat(dtype) ? "0.1" : "7";
      std::string text = Replace(row->second, "LITERAL", literal);
      if (dtype == DType::Bool) text = Replace(text, "1: T", "true: T");
      text = Replace(text, ": T", absl::StrCat(": ", DTypeName(dtype)));
      text = Replace(text, "=T", absl::StrCat("=", DTypeName(dtype)));
      ExpectTextRoundTrip(absl::StrCat("fusion f {\nsymbol M in [2, 9]\nsymbol K in [0, 2]\n", text,
                                       "\noutput r\n}\n"));
    }
    EXPECT_GT(dtypes, 0) << info.name;
  }
}

TEST(TextRoundTripTest, EveryComposite) {
  const char* statements[] = {
      "a = mean(x, axes=[1])",
      "a = mean(x)",
      "a = mean(x, axes=[-1], keepdims=true) + x",
      "a = variance(x, axes=[0], correction=1)",
      "a = variance(x, keepdims=true) + x",
      "a, b = moments(x, axes=[-1])",
      "a, b = moments(x, axes=[0], keepdims=true)",
      "a, b = moments_two_pass(x, axes=[1])",
      "a = softmax(x)",
      "a = softmax_backward(x, x, axis=0)",
      "a = log_softmax(x, axis=1)",
      "a = log_softmax_backward(x, x)",
      "a, b, c = layer_norm(x, w, bias=w, axes=[1], eps=1e-3)",
      "a = layer_norm(x, axes=[0, 1])",
      "a, b, c = layer_norm_backward(x, x, m, m, w, axes=[1])",
      "a = layer_norm_backward(x, x, m, m, axes=[1])",
      "a, b = rms_norm(x, w, axes=[1])",
      "a, b = rms_norm_backward(x, x, m, w, axes=[1])",
      "a, b, c, d, e = batch_norm(x, w, w, w, w, momentum=0.2)",
      "a, b, c = batch_norm(x, channel_axis=-1)",
      "a = batch_norm_inference(x, w, w, w, w)",
      "a, b, c = batch_norm_backward(x, x, w, w, w)",
      "a, b, c = batch_norm_inference_backward(x, x, w, w, w)",
      "a, b, c = instance_norm(y, v, v)",
      "a, b, c = instance_norm_backward(y, y, s, s, v)",
      "a, b, c = group_norm(y, v, v, groups=2)",
      "a, b, c = group_norm_backward(y, y, g, g, v, groups=2)",
      "a = gelu(x)",
      "a = gelu_backward(x, x)",
      "a = gelu_tanh(x)",
      "a = gelu_tanh_backward(x, x)",
      "a = silu(x)",
      "a = silu_backward(x, x)",
      "a = swiglu(x, up=x)",
      "a, b = dropout(x, 1, 2, p=0.5)",
      "k = x > 0\na = dropout_backward(x, k, p=0.5)",
      "a, b = cross_entropy(x, t)",
      "a = cross_entropy_backward(l, x, t, m)",
      "a = rotary_embedding(x, h, h)",
  };
  for (const char* statement : statements) {
    SCOPED_TRACE(statement);
    ExpectTextRoundTrip(
        absl::StrCat("fusion f {\nsymbol M in [1, 64]\nsymbol N in [1, 64]\ninput x: f32[M, 2*N]\n"
                     "input y: f16[M, 4, N]\ninput w: f32[2*N]\ninput v: f16[4]\ninput m: f32[M]\n"
                     "input s: f32[M, 4]\ninput g: f32[M, 2]\ninput t: i64[M]\ninput l: f32[]\n"
                     "input h: f32[M, N]\n",
                     statement, "\nz = exp(a)\noutput z\n}\n"));
  }
}

// Constants of every dtype as the builder makes them, signed zeros and NaN included.
TEST(TextRoundTripTest, Constants) {
  std::mt19937_64 random(1);
  FusionBuilder builder("constants");
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (int i = 0; i < 300; ++i) {
      uint64_t bits = random();
      if (DTypeBytes(dtype) < 8) bits &= (uint64_t{1} << (8 * DTypeBytes(dtype))) - 1;
      if (dtype == DType::Bool) bits &= 1;
      const Scalar value = DecodeBits(dtype, bits);
      IsFloat(dtype) ? builder.Constant(value.f, dtype) : builder.IntConstant(value.i, dtype);
    }
    if (IsFloat(dtype)) {
      for (double value : {0.0, -0.0, 1.0, MaxFinite(dtype), -MaxFinite(dtype), 1 / 3.0,
                           double{INFINITY}, -double{INFINITY}, double{NAN}, UlpOf(dtype, 0)}) {
        builder.Constant(value, dtype);
      }
    }
  }
  absl::StatusOr<Fusion> fusion = builder.Finish();
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  ExpectRoundTrip(*fusion);
}

std::map<std::string, std::string> Examples() {
  std::map<std::string, std::string> examples;
  const std::string folder = std::string(SEAM_SOURCE_DIR) + "/examples";
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return examples;
  while (dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (!absl::EndsWith(name, ".seam")) continue;
    std::stringstream text;
    text << std::ifstream(folder + "/" + name).rdbuf();
    examples[name] = text.str();
  }
  closedir(dir);
  return examples;
}

TEST(TextRoundTripTest, Examples) {
  const auto examples = Examples();
  for (const char* name :
       {"instance_norm", "layer_norm", "layer_norm_backward", "rms_norm", "softmax",
        "batch_norm_train", "group_norm_nhwc", "residual_dropout_layer_norm", "rope", "swiglu",
        "adamw", "cross_entropy"}) {
    EXPECT_TRUE(examples.count(absl::StrCat(name, ".seam"))) << name;
  }
  for (const auto& [name, text] : examples) {
    SCOPED_TRACE(name);
    ExpectTextRoundTrip(text);
    EXPECT_TRUE(absl::StartsWith(text, "# ")) << "the first line says what it is";
  }
}

// Whatever the text, the outcome is an error with a place or a valid Fusion that reads back.
void ExpectErrorOrFusion(const std::string& text) {
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  if (!fusion.ok()) {
    EXPECT_EQ(fusion.status().code(), absl::StatusCode::kInvalidArgument) << fusion.status();
    int line = 0, column = 0;
    const std::string message(fusion.status().message());
    EXPECT_EQ(std::sscanf(message.c_str(), "<text>:%d:%d: ", &line, &column), 2) << message;
    EXPECT_GE(line, 1);
    EXPECT_LE(line, 1 + std::count(text.begin(), text.end(), '\n'));
    EXPECT_GE(column, 1);
    return;
  }
  ASSERT_TRUE(Verify(*fusion).ok()) << Verify(*fusion);
  // How far an extent with min and max inside one another is simplified may depend on the symbols
  // and expressions that the environment has seen; what is printed of that settles.
  std::string printed = PrintFusion(*fusion);
  for (int round = 0; round < 4; ++round) {
    fusion = ParseFusion(printed);
    ASSERT_TRUE(fusion.ok()) << fusion.status() << "\n" << printed;
    ASSERT_TRUE(Verify(*fusion).ok()) << Verify(*fusion);
    std::string again = PrintFusion(*fusion);
    if (again == printed) return;
    ASSERT_TRUE(absl::StrContains(printed, "min(") || absl::StrContains(printed, "max(") ||
                absl::StrContains(printed, "select("))
        << printed << again;
    printed = std::move(again);
  }
  FAIL() << "does not settle: " << printed;
}

TEST(TextRoundTripTest, ExamplesCutOffAnywhere) {
  for (const auto& [name, text] : Examples()) {
    SCOPED_TRACE(name);
    const size_t closing = text.rfind('}');
    for (size_t size = 0; size < text.size(); ++size) {
      absl::StatusOr<Fusion> fusion = ParseFusion(text.substr(0, size));
      ASSERT_EQ(fusion.ok(), size > closing) << size;
      if (!fusion.ok()) {
        ASSERT_TRUE(absl::StartsWith(fusion.status().message(), "<text>:")) << fusion.status();
      }
    }
  }
}

TEST(TextRoundTripTest, MutatedExamples) {
  std::mt19937 random(7);
  const auto examples = Examples();
  std::string all;
  for (const auto& [name, text] : examples) all += text;
  ASSERT_FALSE(all.empty());
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (const auto& [name, original] : examples) {
    for (int i = 0; i < 500; ++i) {
      std::string text = original;
      for (size_t edits = 1 + below(3); edits > 0; --edits) {
        const size_t at = below(text.size()),
                     length = below(std::min<size_t>(12, text.size() - at));
        switch (below(5)) {
          case 0:
            text[at] = static_cast<char>(random());
            break;
          case 1:
            text[at] = " \n()[]{},:=+-*/%@<>&|^~?!.#0129MNxy"[below(35)];
            break;
          case 2:
            text.erase(at, length);
            break;
          case 3:
            text.insert(at, text.substr(at, length));
            break;
          default:
            text.insert(at, all.substr(below(all.size() - 12), length));
        }
        if (text.empty()) text = " ";
      }
      SCOPED_TRACE(text);
      ExpectErrorOrFusion(text);
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

TEST(TextRoundTripTest, RandomTokens) {
  std::mt19937 random(11);
  const char* tokens[] = {
      "x",       "y",     "exp", "add", "sum",  "(",        ")",      "[",       "]",      ",",
      ":",       "=",     "+",   "-",   "*",    "//",       "%",      "**",      "@",      "<",
      "&",       "~",     "1",   "2.5", "inf",  "axes",     "dtype",  "f32",     "i8",     "\n",
      "\n",      "None",  "...", "M",   "true", "_",        "output", "input",   "symbol", "?",
      "strides", "order", "0",   "-1",  "axis", "keepdims", "where",  "welford", "}"};
  for (int i = 0; i < 20000; ++i) {
    std::string text = "fusion f {\n symbol M\n input x: f32[M, 2]\n input y: bool[M, 2]\n z = ";
    for (int length = 1 + random() % 12; length > 0; --length) {
      absl::StrAppend(&text, tokens[random() % std::size(tokens)], " ");
    }
    text += "\n}\n";
    SCOPED_TRACE(text);
    ExpectErrorOrFusion(text);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Structure alone would not notice an order of terms that depends on the history of an environment.
TEST(TextRoundTripTest, SharedEnvironmentWithAHistory) {
  FusionBuilder builder("f");
  SymInt m = builder.Symbol("M", 0, 99), unused = builder.Symbol("U", 0, 9),
         n = builder.Symbol("N", 1, 99);
  const SymInt late = FloorDiv(n, 3), early = FloorDiv(m, 2);
  ValId x = builder.Input("x", DType::F32, {early, late, Min(early, late) + unused});
  ValId y = builder.Input("y", DType::F32, {early + late, early * late, Max(late, Mod(m, 7))});
  builder.Output(builder.Reduce(OpKind::Sum, x, {0}));
  builder.Output(builder.Reduce(OpKind::Sum, y, {0}));
  absl::StatusOr<Fusion> fusion = builder.Finish();
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  ExpectRoundTrip(*fusion);
}

TEST(TextRoundTripTest, RandomExtents) {
  std::mt19937 random(5);
  const auto below = [&](unsigned n) { return random() % n; };
  const std::function<std::string(int)> extent = [&](int depth) -> std::string {
    if (depth == 0 || below(4) == 0) {
      return below(3) == 0 ? absl::StrCat(below(9)) : std::string(1, "MNKS"[below(4)]);
    }
    const std::string a = extent(depth - 1), b = extent(depth - 1);
    switch (below(8)) {
      case 0:
        return absl::StrCat("min(", a, ", ", b, ")");
      case 1:
        return absl::StrCat("max(", a, ", ", b, ")");
      case 2:
        return absl::StrCat("select(", a, " < ", b, ", M, ", a, ")");
      default:
        static constexpr const char* kOperators[] = {" + ", " - ", " * ", " // ", " % "};
        return absl::StrCat("(", a, kOperators[below(5)], b, ")");
    }
  };
  int parsed = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text =
        "fusion f {\n symbol M in [1, 9]\n symbol N in [2, 8]\n symbol K in [1, 64]\n"
        " symbol S in [3, 3000]\n";
    for (int axes = 0; axes < 3; ++axes)
      absl::StrAppend(&text, " input x", axes, ": f32[", extent(3), "]\n");
    text += "}\n";
    SCOPED_TRACE(text);
    parsed += ParseFusion(text).ok();
    ExpectErrorOrFusion(text);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(parsed, 300);
}

TEST(TextRoundTripTest, AHundredThousandExpressions) {
  std::string text =
      "fusion big {\n  symbol M in [1, 65536]\n  symbol N in [1, 65536]\n  input x: f32[M, N]\n"
      "  v0 = x * 2\n";
  constexpr int kExprs = 100000;
  for (int i = 1; i < kExprs; ++i) {
    if (i % 10 == 5) {
      absl::StrAppend(&text, "  r", i, " = sum(v", i - 1, ", axes=[1], keepdims=true)\n  v", i,
                      " = v", i - 1, " - r", i, "\n");
    } else {
      absl::StrAppend(&text, "  v", i, ": f32[M, N] = add(v", i - 1, ", v", std::max(0, i - 7),
                      ")\n");
    }
  }
  absl::StrAppend(&text, "  output v", kExprs - 1, "\n}\n");
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  EXPECT_GE(fusion->num_exprs(), static_cast<uint32_t>(kExprs));
  EXPECT_LT(fusion->MemoryBytes() / fusion->num_exprs(), 1024);
  ExpectRoundTrip(*fusion);
}

}  // namespace
}  // namespace seam
