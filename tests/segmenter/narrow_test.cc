// The pass `narrow`: in what types values cross between groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/reference/host_tensor.h"
#include "ir/reference/interpreter.h"
#include "ir/scalar.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "nlohmann/json.hpp"
#include "segmenter/dump.h"
#include "segmenter/extract.h"
#include "segmenter/load_segmentation.h"
#include "segmenter/segment.h"
#include "segmenter/traffic.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

Fusion Parse(const std::string& body) {
  absl::StatusOr<Fusion> f = ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
  if (!f.ok()) ADD_FAILURE() << f.status();
  return *std::move(f);
}

SegmentedFusion Cut(const Fusion& f, Narrowing narrow_edges, bool off = false) {
  SegmentOptions options;
  options.verify_each_merge = true;
  options.narrow_edges = narrow_edges;
  if (off) options.disabled_passes = {"narrow"};
  return *Segment(f, RuleGuard(), options);
}

// "v f32 as bf16 exact" for every value that crosses narrower, "rounded" for one that loses by it.
std::string Narrowed(const std::string& body, Narrowing narrow_edges = Narrowing::kExact) {
  const Fusion f = Parse(body);
  const SegmentedFusion s = Cut(f, narrow_edges);
  std::vector<std::string> all;
  for (GroupId g : s.groups()) {
    for (ValId v : s.outputs(g)) {
      const Buffer& b = s.buffer(s.buffer_of(v));
      if (b.dtype == f.dtype(v)) continue;
      all.push_back(absl::StrCat(std::string(f.name(v)), " ", DTypeName(f.dtype(v)), " as ",
                                 DTypeName(b.dtype), b.rounds ? " rounded" : " exact"));
    }
  }
  return absl::StrJoin(all, ", ");
}

// A value `h` of f32 that crosses a border to whatever `readers` make of `s`.
std::string Crossing(const std::string& readers) {
  return absl::StrCat("input x: f32[64, 32]\nh = exp(x)\ns = segment_set(h)\n", readers);
}

TEST(NarrowTest, WhatAllReadersRoundCrossesRounded) {
  EXPECT_EQ(Narrowed(Crossing("a = cast(s, dtype=bf16)\noutput a")),
            "h f32 as bf16 exact, s f32 as bf16 exact");
  EXPECT_EQ(Narrowed(Crossing("a = cast(s, dtype=f16)\nb = cast(s, dtype=f16) * 2.0\n"
                              "output a\noutput b")),
            "h f32 as f16 exact, s f32 as f16 exact");
  EXPECT_EQ(Narrowed(Crossing("a = cast(s, dtype=f8e4m3)\noutput a")),
            "h f32 as f8e4m3 exact, s f32 as f8e4m3 exact");
}

TEST(NarrowTest, RoundingCommutesWithMovingAndSelecting) {
  EXPECT_EQ(Narrowed(Crossing("p = pad(permute(s, axes=[1, 0]), before=[1, 0], after=[0, 2], "
                              "value=0.1)\nm = maximum(relu(-p), 0.3)\na = cast(m, dtype=bf16)\n"
                              "output a")),
            "h f32 as bf16 exact, s f32 as bf16 exact");
  EXPECT_EQ(Narrowed(Crossing("m = amax(s, axes=[1])\na = cast(m, dtype=f16)\noutput a")),
            "h f32 as f16 exact, s f32 as f16 exact");
  EXPECT_EQ(Narrowed(Crossing("m = sum(s, axes=[1])\na = cast(m, dtype=f16)\noutput a")), "");
  EXPECT_EQ(Narrowed(Crossing("a = cast(s * 3.0, dtype=f16)\noutput a")), "");
}

TEST(NarrowTest, ReadersThatDifferKeepTheType) {
  EXPECT_EQ(Narrowed(Crossing("a = cast(s, dtype=f16)\nb = cast(s, dtype=bf16)\n"
                              "output a\noutput b")),
            "");
  EXPECT_EQ(Narrowed(Crossing("a = cast(s, dtype=f16)\nb = s + 1.0\noutput a\noutput b")), "");
  EXPECT_EQ(Narrowed(Crossing("a = cast(s, dtype=i32)\noutput a")), "");
  // What the caller gets has the type that it asked for, and so does what shares its memory.
  EXPECT_EQ(Narrowed(Crossing("a = cast(s, dtype=f16)\noutput a\noutput s")), "");
}

TEST(NarrowTest, ReadersInsideTheGroupDoNotMatter) {
  // `h` is read as f32 in its own group.
  EXPECT_EQ(Narrowed("input x: f32[64, 32]\nh = exp(x)\ny = h * h\ns = segment_set(h)\n"
                     "a = cast(s, dtype=bf16)\noutput a\noutput y"),
            "h f32 as bf16 exact, s f32 as bf16 exact");
}

// f64 to f16 in one step is another number than through f32, so it may only cross as f32.
TEST(NarrowTest, NothingIsRoundedTwice) {
  const std::string body =
      "input x: f64[64]\nh = exp(x)\ns = segment_set(h)\nw = cast(s, dtype=f32)\n"
      "a = cast(w, dtype=f16)\noutput a";
  EXPECT_EQ(Narrowed(body), "h f64 as f32 exact, s f64 as f32 exact");
  EXPECT_EQ(Narrowed(body, Narrowing::kF16), "h f64 as f32 exact, s f64 as f32 exact");
}

TEST(NarrowTest, WhatAHalfTypeHoldsAlreadyCrossesInIt) {
  const std::string body =
      "input x: bf16[64, 32]\ninput y: bf16[64, 32]\n"
      "m = where(x > y, cast(x, dtype=f32), -cast(y, dtype=f32))\ns = segment_set(m)\n"
      "z = exp(s)\noutput z";
  EXPECT_EQ(Narrowed(body), "m f32 as bf16 exact, s f32 as bf16 exact");
  EXPECT_EQ(Narrowed("input x: bf16[64]\ninput y: f16[64]\n"
                     "m = maximum(cast(x, dtype=f32), cast(y, dtype=f32))\ns = segment_set(m)\n"
                     "z = exp(s)\noutput z"),
            "");
  EXPECT_EQ(Narrowed("input x: f16[64]\nm = maximum(cast(x, dtype=f32), 0.1)\n"
                     "s = segment_set(m)\nz = exp(s)\noutput z"),
            "");  // No f16 is 0.1.
}

TEST(NarrowTest, LibraryCallsReadAndWriteWhatTheirTypesSay) {
  for (const Narrowing narrowing : {Narrowing::kExact, Narrowing::kF16, Narrowing::kBF16}) {
    EXPECT_EQ(
        Narrowed("input x: f32[8, 8]\nh = x @ x\na = cast(h, dtype=bf16)\noutput a", narrowing),
        "");
    EXPECT_EQ(Narrowed("input x: f32[8, 8]\nh = tanh(x)\ny = h @ x\noutput y", narrowing), "");
  }
}

// A cat reads what is stored through a cast, as any other reader does.
TEST(NarrowTest, OperandsOfACat) {
  EXPECT_EQ(Narrowed(Crossing("c = cat(s, x, axis=1)\na = cast(c, dtype=bf16)\noutput a")),
            "h f32 as bf16 exact, s f32 as bf16 exact");
  EXPECT_EQ(Narrowed(Crossing("c = cat(s, x, axis=1)\ny = c + 1.0\noutput y")), "");
  EXPECT_EQ(Narrowed(Crossing("c = cat(s, x, axis=1)\ny = c + 1.0\noutput y"), Narrowing::kBF16),
            "h f32 as bf16 rounded, s f32 as bf16 rounded");
}

// An input that is returned keeps its strides by itself.
TEST(NarrowTest, RoundedFusionReturnsInputsAsTheyAre) {
  const Fusion f = Parse(
      "input x: f32[64, 32] order [1, 0]\nh = exp(x)\ns = segment_set(h)\ny = s + 1.0\n"
      "output y\noutput x");
  const absl::StatusOr<Fusion> rounded = RoundedFusion(Cut(f, Narrowing::kBF16));
  ASSERT_TRUE(rounded.ok()) << rounded.status();
  EXPECT_EQ(rounded->strides(rounded->outputs()[1]), f.strides(f.inputs()[0]));
}

TEST(NarrowTest, PermittedRoundingsAndTheirLimits) {
  const auto bf16 = [](const std::string& readers) {
    return Narrowed(Crossing(readers), Narrowing::kBF16);
  };
  const std::string both = "h f32 as bf16 rounded, s f32 as bf16 rounded";
  EXPECT_EQ(Narrowed(Crossing("y = s + 1.0\noutput y")), "");
  EXPECT_EQ(bf16("y = s + 1.0\noutput y"), both);
  EXPECT_EQ(bf16("y = s + 1.0\na = cast(s, dtype=f8e5m2)\noutput y\noutput a"), both);
  // Indices, comparisons, integers and steps.
  EXPECT_EQ(bf16("i = cast(s, dtype=i64)\ny = gather(x, i, axis=0)\noutput y"), "");
  EXPECT_EQ(bf16("y = where(s > 1.0, x, 0.0)\noutput y"), "");
  EXPECT_EQ(bf16("y = argmax(s * 2.0, axis=1)\noutput y"), "");
  EXPECT_EQ(bf16("y = floor(s) * x\noutput y"), "");
  // The other half type on either side of it, but not beside it.
  EXPECT_EQ(bf16("y = cast(s + 1.0, dtype=f16)\noutput y"), "");
  EXPECT_EQ(Narrowed("input x: f16[64]\nh = exp(cast(x, dtype=f32))\ns = segment_set(h)\n"
                     "y = s + 1.0\noutput y",
                     Narrowing::kBF16),
            "");
  EXPECT_EQ(bf16("y = s + 1.0\nz = cast(x, dtype=f16)\noutput y\noutput z"), both);
  // Statistics, f64.
  EXPECT_EQ(Narrowed("input x: f32[64, 32]\nh = sum(x, axes=[1]) * 2.0\ns = segment_set(h)\n"
                     "y = s + 1.0\noutput y",
                     Narrowing::kBF16),
            "");
  EXPECT_EQ(Narrowed("input x: f64[64]\nh = exp(x)\ns = segment_set(h)\ny = s + 1.0\noutput y",
                     Narrowing::kBF16),
            "");
}

TEST(NarrowTest, F16OnlyWhereTheRangeFits) {
  const auto f16 = [](const std::string& h) {
    return Narrowed(absl::StrCat("input x: f32[64]\ninput u: u8[64]\nh = ", h,
                                 "\ns = segment_set(h)\ny = s + 1.0\noutput y"),
                    Narrowing::kF16);
  };
  const std::string both = "h f32 as f16 rounded, s f32 as f16 rounded";
  EXPECT_EQ(f16("exp(x)"), "");
  EXPECT_EQ(f16("x * 2.0"), "");
  EXPECT_EQ(f16("tanh(x) * 65000.0"), both);
  EXPECT_EQ(f16("tanh(x) * 65504.0 + sin(x)"), "");
  EXPECT_EQ(f16("square(cast(u, dtype=f32))"), both);  // 255 * 255 = 65025.
  EXPECT_EQ(f16("square(cast(u, dtype=f32)) + cast(u, dtype=f32) * 2.0"), "");  // 65535.
  EXPECT_EQ(f16("clamp(x, -100.0, 3e4)"), both);
  EXPECT_EQ(f16("exp(sigmoid(x) * 10.0)"), both);  // e^10 = 22026.
  EXPECT_EQ(f16("exp(sigmoid(x) * 11.2)"), "");    // e^11.2 = 73130.
}

TEST(NarrowTest, TheBoundsOfTheErrorHoldAndAreNear) {
  std::mt19937_64 rng(1);
  for (const DType half : {DType::F16, DType::BF16}) {
    const RoundingError bound = RoundingErrorOf(half);
    double largest = 0;
    // Magnitudes from below the smallest subnormal to above the smallest normal number and to 2^15.
    for (const int lowest : {half == DType::F16 ? -28 : -140, -2}) {
      for (int i = 0; i < 200000; ++i) {
        const int exponent = lowest + static_cast<int>(rng() % 17);
        const double x = static_cast<float>(
            std::ldexp(1 + static_cast<double>(rng() % (1 << 23)) / (1 << 23), exponent));
        const double error = std::fabs(RoundToDType(half, x) - x);
        ASSERT_LE(error, bound.relative * x + bound.absolute) << DTypeName(half) << " " << x;
        largest = std::max(largest, error / (bound.relative * x + bound.absolute));
      }
    }
    EXPECT_GT(largest, 0.98) << DTypeName(half);
  }
}

TEST(NarrowTest, ThePassCanBeSwitchedOff) {
  const Fusion f = Parse(Crossing("a = cast(s, dtype=bf16)\noutput a"));
  const SegmentedFusion s = Cut(f, Narrowing::kBF16, /*off=*/true);
  EXPECT_EQ(s.narrowing(), Narrowing::kOff);
  for (GroupId g : s.groups()) {
    for (BufferId b : s.buffers(g)) EXPECT_EQ(s.buffer(b).dtype, f.dtype(s.buffer(b).val));
  }
}

constexpr char kThreeGroups[] = R"(fusion f {
  symbol M in [1, 64]
  input x: f32[M, 32]
  h = exp(x)
  s = segment_set(h)
  z = s[:, 0:16] * sum(s, axes=[1], keepdims=true)
  output z
})";

TEST(NarrowTest, GroupsRoundWhatTheyWriteAndWidenWhatTheyRead) {
  const Fusion f = *ParseFusion(kThreeGroups);
  const SegmentedFusion s = Cut(f, Narrowing::kBF16);
  ASSERT_EQ(s.num_groups(), 3);
  EXPECT_EQ(PrintFusion(ExtractGroup(s, GroupId(0))->fusion), R"(fusion g0 {
  symbol M in [1, 64]
  input x: f32[M, 32]
  h: f32[M, 32] = exp(x)
  h.bf16: bf16[M, 32] = cast(h, dtype=bf16)
  output h.bf16
}
)");
  EXPECT_EQ(PrintFusion(ExtractGroup(s, GroupId(1))->fusion), R"(fusion g1 {
  symbol M in [1, 64]
  input h.bf16: bf16[M, 32]
  s.bf16: bf16[M, 32] = segment_set(h.bf16)
  output s.bf16
}
)");
  // The slice reads memory; it is no view of something computed.
  EXPECT_EQ(PrintFusion(ExtractGroup(s, GroupId(2))->fusion), R"(fusion g2 {
  symbol M in [1, 64]
  input s.bf16: bf16[M, 32]
  t0.bf16: bf16[M, 16] = slice(s.bf16, start=[0, 0], stop=[M, 16], step=[1, 1])
  s: f32[M, 32] = cast(s.bf16, dtype=f32)
  t1: f32[M] = sum(s, axes=[1])
  t2: f32[M, 1] = broadcast(t1, axes=[1])
  t0: f32[M, 16] = cast(t0.bf16, dtype=f32)
  z: f32[M, 16] = mul(t0, t2)
  output z
}
)");
}

TEST(NarrowTest, DumpsTellBytesAndErrors) {
  const Fusion f = *ParseFusion(kThreeGroups);
  const SegmentedFusion s = Cut(f, Narrowing::kBF16), wide = Cut(f, Narrowing::kExact);
  const SizeHints sizes = *SizeHints::Create(f, {{"M", 64}});
  // Two values of 64 * 32 elements, each written once and read once, at 2 bytes less.
  EXPECT_EQ(TotalsOf(wide, sizes).bytes - TotalsOf(s, sizes).bytes, 2 * 64 * 32 * 2 * 2);
  const std::string text = *DumpText(s, {&sizes});
  EXPECT_TRUE(absl::StrContains(text, "edges: bf16\n")) << text;
  EXPECT_TRUE(absl::StrContains(text,
                                "out  h: f32[M, 32] as bf16  4.0 KiB, to g1; 8.0 KiB saved, "
                                "off by at most 2^-8 of itself + 2^-134\n"))
      << text;
  const auto json = nlohmann::json::parse(*DumpJson(s, {&sizes}));
  EXPECT_EQ(json["narrow_edges"], "bf16");
  EXPECT_EQ(json["edges"][0].at("dtype"), "bf16");
  EXPECT_EQ(json["edges"][0].at("bytes"), 64 * 32 * 2);
  EXPECT_EQ(json["edges"][0].at("narrowed").at("from"), "f32");
  EXPECT_EQ(json["edges"][0].at("narrowed").at("saved"), 64 * 32 * 2);
  EXPECT_EQ(json["edges"][0].at("narrowed").at("relative_error"), 1.0 / 256);
  EXPECT_EQ(ExplainCrossings(s, sizes),
            "\nin what types values cross\n"
            "  h: f32[M, 32] as bf16, g0 to g1; 8.0 KiB saved, off by at most 2^-8 of itself + "
            "2^-134\n"
            "  s: f32[M, 32] as bf16, g1 to g2; 8.0 KiB saved, off by at most 2^-8 of itself + "
            "2^-134\n");
  EXPECT_EQ(
      ExplainCrossings(Cut(f, Narrowing::kF16), sizes),
      "\nin what types values cross\n"
      "  h: f32[M, 32], g0 to g1; not as f16: it may be larger than 65504, the largest f16\n"
      "  s: f32[M, 32], g1 to g2; not as f16: it may be larger than 65504, the largest f16\n");
  EXPECT_EQ(ExplainCrossings(wide, sizes), "");
}

TEST(NarrowTest, FilesKeepTheTypesAndMayNotWidenTheRule) {
  const Fusion f = *ParseFusion(kThreeGroups);
  const SizeHints sizes = *SizeHints::Create(f, {{"M", 64}});
  for (const Narrowing narrowing : {Narrowing::kExact, Narrowing::kF16, Narrowing::kBF16}) {
    for (const bool off : {false, true}) {
      const SegmentedFusion s = Cut(f, narrowing, off);
      const std::string json = *DumpJson(s, {&sizes}), text = *DumpText(s, {&sizes});
      for (const std::string& file : {json, text}) {
        const absl::StatusOr<LoadedSegmentation> loaded = LoadSegmentation(f, file);
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        EXPECT_EQ(loaded->segmented.narrowing(), s.narrowing());
        EXPECT_EQ(*DumpJson(loaded->segmented, {&sizes}), json);
      }
    }
  }
  const auto refusal = [&](nlohmann::ordered_json json, const char* pointer,
                           const nlohmann::ordered_json& value) {
    json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return std::string(LoadSegmentation(f, json.dump()).status().message());
  };
  const auto json = nlohmann::ordered_json::parse(*DumpJson(Cut(f, Narrowing::kExact), {&sizes}));
  EXPECT_EQ(refusal(json, "/edges/0/dtype", "bf16"),
            "edges[0].dtype: found \"bf16\", by the graph and the groups it is \"f32\"");
  EXPECT_EQ(refusal(json, "/narrow_edges", "f8"),
            "narrow_edges: found `f8`, expected off, exact, f16 or bf16");
  std::string text = *DumpText(Cut(f, Narrowing::kBF16), {&sizes});
  text.replace(text.find("edges: bf16"), 11, "edges: f16");
  EXPECT_TRUE(absl::StrContains(LoadSegmentation(f, text).status().message(), "line 1: found "))
      << LoadSegmentation(f, text).status();
}

// Inputs at these sizes, one in eight of their elements halfway between two of bf16.
std::vector<HostTensor> InputsOf(const Fusion& f, const SizeHints& sizes, uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (ValId v : f.inputs()) {
    std::vector<int64_t> shape;
    for (const IterDomain& d : f.domain(v)) shape.push_back(sizes.Extent(d.extent));
    inputs.push_back(*HostTensor::Make(f.dtype(v), shape));
    FillRandom(inputs.back(), seed++);
    if (!IsFloat(f.dtype(v))) continue;
    std::vector<Scalar> values = inputs.back().ToScalars();
    for (size_t i = 0; i < values.size(); i += 8) {
      const double near = RoundToDType(DType::BF16, values[i].f);
      values[i] = FloatScalar(RoundToDType(f.dtype(v), near * (1 + 1.0 / 256)));
    }
    inputs.back().FromScalars(values);
  }
  return inputs;
}

// The groups put together again, with the casts at their borders: a Fusion of the same inputs and
// outputs, and of the same results in every bit where no edge rounds.
TEST(NarrowTest, ExactEdgesChangeNoBit) {
  int exact = 0, rounded = 0;
  for (uint32_t seed = 0; seed < 600 / testing::kPart; ++seed) {
    SCOPED_TRACE(seed);
    const Fusion f = *RandomFusion(seed + 900000, 3 + static_cast<int>(seed % 38)).Make();
    SegmentOptions options;
    for (const Narrowing narrowing : {Narrowing::kExact, Narrowing::kF16, Narrowing::kBF16}) {
      options.narrow_edges = narrowing;
      const absl::StatusOr<SegmentedFusion> s = Segment(f, MoodyGuard(seed), options);
      ASSERT_TRUE(s.ok()) << s.status();
      const absl::StatusOr<Fusion> together = RoundedFusion(*s);
      ASSERT_TRUE(together.ok()) << together.status();
      ASSERT_EQ(Verify(*together), absl::OkStatus());
      int narrowed = 0;
      for (GroupId g : s->groups()) {
        for (BufferId b : s->buffers(g))
          narrowed += s->buffer(b).dtype != f.dtype(s->buffer(b).val);
      }
      if (RoundsEdges(*s)) {
        EXPECT_NE(narrowing, Narrowing::kExact);
        ++rounded;
        continue;
      }
      if (narrowed == 0) continue;
      ++exact;
      SymbolSizes symbols = SizeHints::Create(f, {})->symbols();
      int64_t size = 2;
      for (auto& [name, value] : symbols) value = size++;
      const SizeHints sizes = *SizeHints::Create(f, symbols);
      const std::vector<HostTensor> inputs = InputsOf(f, sizes, seed);
      const SymbolBindings bindings(symbols.begin(), symbols.end());
      const auto expected = Interpret(f, bindings, inputs);
      const auto actual = Interpret(*together, bindings, inputs);
      ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
      for (size_t i = 0; i < expected->size(); ++i)
        EXPECT_EQ((*expected)[i].data, (*actual)[i].data) << PrintFusion(*together);
    }
  }
  EXPECT_GT(exact, 20 / testing::kPart);
  EXPECT_GT(rounded, 20 / testing::kPart);
}

}  // namespace
}  // namespace seam
