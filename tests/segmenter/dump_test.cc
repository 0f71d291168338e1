// What people and other tools get to see.
#include "segmenter/dump.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "segmenter/dump_html.h"
#include "segmenter/layered_layout.h"
#include "segmenter/traffic.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

struct Case {
  explicit Case(const std::string& body, const SymbolSizes& bindings = {}, bool trace = false)
      : fusion(Parse(body)) {
    SegmentOptions o;
    o.sizes = bindings;
    o.trace = trace;
    result.emplace(*SegmentWithLog(fusion, RuleGuard(), o));
    sizes.emplace(*SizeHints::Create(fusion, bindings));
    options = {&*sizes, &result->log, false};
  }
  static Fusion Parse(const std::string& body) {
    absl::StatusOr<Fusion> f = ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
    if (!f.ok()) ADD_FAILURE() << f.status();
    return *std::move(f);
  }
  Fusion fusion;
  std::optional<Segmentation> result;
  std::optional<SizeHints> sizes;
  DumpOptions options;
};

constexpr char kTwoKernels[] = R"(symbol M in [1, 4096]
  input x: f16[M, 64]
  xf = cast(x, dtype=f32)
  s = sum(xf)
  y = xf / s
  output y)";

TEST(DumpTest, Text) {
  const Case c(kTwoKernels, {{"M", 8}});
  EXPECT_EQ(*DumpText(c.result->segmented, c.options),
            R"(f: 2 kernels, 4.0 KiB of device memory traffic at M = 8

g0  reduction, 2 expressions, 1.0 KiB
  in   x: f16[M, 64]  1.0 KiB
       xf = cast(x, dtype=f32)
       s = sum(xf, axes=[0, 1])
  out  s: f32[]  4 B, to g1

g1  pointwise, 2 expressions, 3.0 KiB
  in   x: f16[M, 64]  1.0 KiB
  in   s: f32[]  4 B, from g0
  copy xf = cast(x, dtype=f32)
       y = div(xf, s)
  out  y: f32[M, 64]  2.0 KiB, to the caller

borders
  g0 | g1  reduction refuses: grid-barrier: its result is needed in every tile (`s = sum(xf)`, line 5)
)");
  DumpOptions colored = c.options;
  colored.color = true;
  EXPECT_TRUE(absl::StrContains(*DumpText(c.result->segmented, colored), "\x1b[1mg0\x1b[0m"));
}

TEST(DumpTest, Json) {
  const Case c(kTwoKernels, {{"M", 8}});
  const nlohmann::json json = nlohmann::json::parse(*DumpJson(c.result->segmented, c.options));
  EXPECT_EQ(json["fusion"], "f");
  EXPECT_EQ(json["symbols"], (nlohmann::json{{"M", 8}}));
  EXPECT_EQ(json["kernels"], 2);
  EXPECT_EQ(json["bytes"], 1024 + 4 + 1024 + 4 + 2048);
  EXPECT_EQ(json["groups"][1]["id"], 1);
  EXPECT_EQ(json["groups"][1]["scheduler"], "pointwise");
  EXPECT_EQ(json["groups"][1]["exprs"], nlohmann::json({"y"}));
  EXPECT_EQ(json["groups"][1]["copies"], nlohmann::json({"xf"}));
  EXPECT_EQ(json["groups"][1]["inputs"], nlohmann::json({"x", "s"}));
  EXPECT_EQ(json["groups"][1]["outputs"], nlohmann::json({"y"}));
  ASSERT_EQ(json["edges"].size(), 1u);
  EXPECT_EQ(json["edges"][0]["from"], 0);
  EXPECT_EQ(json["edges"][0]["to"], 1);
  EXPECT_EQ(json["edges"][0]["val"], "s");
  EXPECT_EQ(json["edges"][0]["dtype"], "f32");
  EXPECT_EQ(json["edges"][0]["shape"], nlohmann::json::array());
  EXPECT_EQ(json["edges"][0]["bytes"], 4);
  EXPECT_EQ(json["edges"][0]["kind"], "data");
  EXPECT_EQ(json["borders"][0]["reason"], "grid-barrier");
  EXPECT_EQ(json["borders"][0]["about"], nlohmann::json({"s"}));
}

TEST(DumpTest, DotHasAClusterAGroupAndAnEdgeAValue) {
  const Case c(kTwoKernels);
  const std::string dot = *DumpDot(c.result->segmented, c.options);
  EXPECT_TRUE(absl::StrContains(dot, "subgraph cluster_g0"));
  EXPECT_TRUE(absl::StrContains(dot, "g0_e1 -> g1_e2 [penwidth=2, label=\"s: f32[]\\n4 B\"]"))
      << dot;
  EXPECT_TRUE(absl::StrContains(dot, "g1_e0 -> g1_e2;")) << dot;  // The copy.
}

TEST(DumpTest, SvgIsWellFormedAndShowsEverything) {
  const Case c(kTwoKernels);
  const std::string svg = *DumpSvg(c.result->segmented, c.options);
  for (const char* text : {"<title>f</title>", ">g0<", ">reduction<", "s = sum(xf, axes=[0, 1])",
                           "s: f32[], 4 B", "y: f32[M, 64]", "2 kernels"}) {
    EXPECT_TRUE(absl::StrContains(svg, text)) << text;
  }
  int open = 0;
  for (size_t i = 0; i + 1 < svg.size(); ++i) {
    if (svg[i] == '<') open += svg[i + 1] == '/' ? -1 : 1;
    if (svg[i] == '/' && svg[i + 1] == '>') --open;
  }
  EXPECT_EQ(open, 0);
  EXPECT_FALSE(absl::StrContains(svg, "nan"));
}

TEST(DumpTest, SvgOfTooMuchIsRefused) {
  FusionBuilder b("big");
  const ValId x = b.Input("x", DType::F32, {8, 8});
  ValId v = x;
  for (int i = 0; i < 500; ++i) v = b.Op(OpKind::Matmul, {v, x});
  b.Output(v);
  const Fusion f = *b.Finish();
  const SegmentedFusion s = *Segment(f, RuleGuard());
  const SizeHints sizes = *SizeHints::Create(f, {});
  EXPECT_TRUE(absl::StrContains(DumpSvg(s, {&sizes}).status().message(), "would not be readable"));
}

TEST(DumpTest, ExplainTellsWhoRefusedAndWhy) {
  const Case c(kTwoKernels, {}, /*trace=*/true);
  EXPECT_EQ(ExplainMerges(c.result->segmented, c.result->log, false),
            R"(f: 1 merge tried, 0 made, 2 groups left
refused vertical: xf (+1) + y (+1), gain 4.1 MiB
        reduction refuses: grid-barrier: its result is needed in every tile (`s = sum(xf)`, line 5)

what keeps the groups apart
  g0 | g1  reduction refuses: grid-barrier: its result is needed in every tile (`s = sum(xf)`, line 5)
)");
}

TEST(DumpTest, ExplainTellsWhatCuttingAnewMade) {
  const Case c(R"(input x: f32[1024, 1024]
    r = sum(x, axes=[1])
    y = x - r[:, None]
    w = tanh(x)
    c = sum(y, axes=[0])
    p = y * c[None, :]
    q = w * (c[None, :] * y)
    output p
    output q)",
               {}, /*trace=*/true);
  EXPECT_TRUE(absl::StrContains(ExplainMerges(c.result->segmented, c.result->log, false),
                                "recut   split: r (+2) + w (+6) -> r, t0 (+8), gain 8.0 MiB\n"));
}

TEST(DumpTest, WithoutSizesThereIsAnError) {
  Case c(kTwoKernels);
  const DumpOptions none;
  const auto dumps = {DumpText, DumpJson, DumpDot, DumpSvg};
  for (const auto dump : dumps)
    EXPECT_EQ(dump(c.result->segmented, none).status().code(), absl::StatusCode::kInvalidArgument);
  SegmentedFusion& s = c.result->segmented;
  EXPECT_FALSE(DumpHtml(s, none, {}).ok());
  EXPECT_FALSE(DumpHtml(s, c.options, {}).ok()) << "who says why borders are borders?";
  const RuleGuard guard;
  HtmlOptions html{.guard = &guard};
  EXPECT_TRUE(DumpHtml(s, c.options, html).ok());
  html.code.push_back({.group = GroupId(99)});
  EXPECT_FALSE(DumpHtml(s, c.options, html).ok());
}

TEST(DumpTest, GraphsWithoutKernels) {
  const Case c("input x: f32[8]\n output x");
  EXPECT_EQ(*DumpText(c.result->segmented, c.options),
            "f: 0 kernels, 0 B of device memory traffic\n");
  EXPECT_TRUE(DumpSvg(c.result->segmented, c.options).ok());
  EXPECT_TRUE(DumpDot(c.result->segmented, c.options).ok());
  EXPECT_EQ(nlohmann::json::parse(*DumpJson(c.result->segmented, c.options))["groups"].size(), 0u);
}

TEST(DumpTest, AnyGraphCanBeDumped) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Fusion f = *RandomFusion(seed + 900000, 30).Make();
    const Segmentation s = *SegmentWithLog(f, RuleGuard());
    const SizeHints sizes = *SizeHints::Create(f, {});
    const DumpOptions options{&sizes, &s.log, false};
    EXPECT_TRUE(DumpText(s.segmented, options).ok());
    EXPECT_TRUE(DumpDot(s.segmented, options).ok());
    EXPECT_TRUE(DumpSvg(s.segmented, options).ok());
    const nlohmann::json json = nlohmann::json::parse(*DumpJson(s.segmented, options));
    const SegmentationTotals totals = TotalsOf(s.segmented, sizes);
    EXPECT_EQ(json["bytes"], totals.bytes);
    int64_t sum = 0;
    for (const auto& group : json["groups"]) sum += group["bytes"].get<int64_t>();
    EXPECT_EQ(sum, totals.bytes);
  }
}

// Hash tables order their entries differently in every object; nothing of that may be seen.
TEST(DumpTest, TheSameGraphGivesTheSameBytes) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    std::string first;
    for (int run = 0; run < 10 / testing::kPart; ++run) {
      const Fusion f = *RandomFusion(seed + 950000, 60).Make();
      SegmentOptions trace;
      trace.trace = true;
      const Segmentation s = *SegmentWithLog(f, RuleGuard(), trace);
      const SizeHints sizes = *SizeHints::Create(f, {});
      const std::string text = absl::StrCat(*DumpJson(s.segmented, {&sizes, &s.log, false}),
                                            ExplainMerges(s.segmented, s.log, false));
      if (run == 0) first = text;
      ASSERT_EQ(text, first);
    }
  }
}

TEST(TrafficTest, PartsAndLookUps) {
  const Case c(R"(input x: f32[100, 10]
    input table: f32[1000, 8]
    input i: i64[5]
    a = exp(x[0:10, :])
    b = exp(index_select(table, i, axis=0))
    output a
    output b)");
  EXPECT_EQ(TotalsOf(c.result->segmented, *c.sizes).bytes, 400 + 400 + 160 + 40 + 160);
}

TEST(TrafficTest, Bytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{1} << 20), "1.0 MiB");
  EXPECT_EQ(FormatBytes(INT64_MAX), "8.0 EiB");
}

TEST(SizeHintsTest, DefaultsAreInRangeAndHugeSizesSaturate) {
  const Case c(
      "symbol A in [2000, 3000]\n symbol B in [1, 7]\n input x: f32[A, 2*B]\n y = exp(x)\n output "
      "y");
  EXPECT_EQ(c.sizes->symbols(), (SymbolSizes{{"A", 2000}, {"B", 7}}));
  EXPECT_EQ(c.sizes->Bytes(ValId(0)), 2000 * 14 * 4);
  const Case huge("symbol A in [0, 281474976710656]\n input x: f32[A, A]\n y = exp(x)\n output y",
                  {{"A", int64_t{1} << 48}});
  EXPECT_EQ(huge.sizes->Bytes(ValId(0)), kMostBytes);
}

TEST(LayeredLayoutTest, NothingOverlapsAndEdgesGoDown) {
  std::mt19937 rng(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<LayoutNode> nodes(2 + rng() % 20);
    for (LayoutNode& n : nodes) n = {20.0 + rng() % 200, 20.0 + rng() % 100};
    std::vector<LayoutEdge> edges;
    for (int to = 1; to < static_cast<int>(nodes.size()); ++to) {
      for (uint32_t k = rng() % 3; k > 0; --k) {
        LayoutEdge e;
        e.from = static_cast<int>(rng() % to);
        e.to = to;
        e.label_width = 100;
        e.label_height = 20;
        edges.push_back(e);
      }
    }
    const LayoutSize size = LayOut(nodes, edges);
    for (size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_GE(nodes[i].x - nodes[i].width / 2, -1e-6);
      EXPECT_LE(nodes[i].x + nodes[i].width / 2, size.width + 1e-6);
      EXPECT_LE(nodes[i].y + nodes[i].height / 2, size.height + 1e-6);
      for (size_t j = 0; j < i; ++j) {
        const bool apart =
            std::abs(nodes[i].x - nodes[j].x) >= (nodes[i].width + nodes[j].width) / 2 - 1e-6 ||
            std::abs(nodes[i].y - nodes[j].y) >= (nodes[i].height + nodes[j].height) / 2 - 1e-6;
        EXPECT_TRUE(apart);
      }
    }
    for (const LayoutEdge& e : edges) {
      EXPECT_NEAR(e.route.front().y, nodes[e.from].y + nodes[e.from].height / 2, 1e-6);
      EXPECT_NEAR(e.route.back().y, nodes[e.to].y - nodes[e.to].height / 2, 1e-6);
      for (size_t i = 1; i < e.route.size(); ++i) EXPECT_GE(e.route[i].y, e.route[i - 1].y - 1e-6);
    }
  }
}

}  // namespace
}  // namespace seam
