// Why two values are in one kernel or in two, and how two ways to cut a graph differ.
#include "segmenter/explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "segmenter/dump_diff.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"

namespace seam {
namespace {

struct Case {
  explicit Case(const std::string& body, SegmentOptions options = {})
      : fusion(*ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"))) {
    options.trace = true;
    result.emplace(*SegmentWithLog(fusion, RuleGuard(), options));
    sizes.emplace(*SizeHints::Create(fusion, {}));
  }
  // In one line.
  std::string Explain(absl::string_view a, absl::string_view b) {
    const absl::StatusOr<std::string> text =
        ExplainValues(result->segmented, result->log, RuleGuard(), *sizes, a, b);
    return text.ok() ? absl::StrReplaceAll(*text, {{"\n", " "}})
                     : std::string(text.status().message());
  }
  Fusion fusion;
  std::optional<Segmentation> result;
  std::optional<SizeHints> sizes;
};

constexpr char kTwoKernels[] = R"(input x: f16[8, 64]
  xf = cast(x, dtype=f32)
  a = exp(xf)
  s = sum(a)
  y = xf / s
  dead = exp(y)
  output y)";

TEST(ExplainTest, TwoKernelsAndTheRefusal) {
  Case c(kTwoKernels);
  EXPECT_EQ(c.Explain("s", "y"),
            "`s` is computed in g0 (reduction, 3 expressions) and `y` in g1 (pointwise, 2 "
            "expressions). g0 hands `s` (f32[], 4 B) to g1. Both read `x` (f16[8, 64], 1.0 KiB). "
            "The pass vertical tried to make one kernel of them, which would have saved 4.0 MiB of "
            "memory traffic and launches; the reduction scheduler refuses it: grid-barrier: its "
            "result is needed in every tile (`s = sum(a)`, line 5). That is, a reduction's result "
            "would be needed by tiles that do not compute it, and the tiles of a kernel do not "
            "wait for one another. ");
  EXPECT_TRUE(absl::StartsWith(c.Explain("y", "s"), "`y` is computed in g1"));
}

TEST(ExplainTest, OneKernel) {
  Case c(kTwoKernels);
  EXPECT_EQ(c.Explain("a", "s"),
            "`a` and `s` are computed in one kernel, g0 (reduction, 3 expressions). Merge 1 of 1 "
            "(pass vertical) joined `xf` and 1 more + `s` and so saved 4.0 MiB of memory traffic "
            "and launches. ");
  EXPECT_EQ(c.Explain("xf", "y"),
            "`xf` and `y` are computed in one kernel, g1 (pointwise, 2 expressions). `xf` is cheap "
            "to compute again: its home is g0, and g1 has a copy of its own. ");
  EXPECT_EQ(c.Explain("y", "y"), "`y` is computed in g1 (pointwise, 2 expressions). ");
  Case welford("input x: f32[8, 64]\n m, m2, n = welford(x, axes=[1])\n output m\n output n");
  EXPECT_TRUE(absl::StrContains(welford.Explain("m", "n"), "They are results of one expression."));
}

TEST(ExplainTest, ValuesThatNoKernelComputes) {
  Case c(kTwoKernels);
  EXPECT_EQ(c.Explain("x", "y"),
            "`x` is an input of the graph, which no kernel computes; g0 and g1 read it. `y` is "
            "computed in g1 (pointwise, 2 expressions), which reads `x`. ");
  EXPECT_EQ(c.Explain("dead", "dead"),
            "`dead` is needed by no output of the graph; no kernel computes it. ");
  EXPECT_EQ(c.Explain("deed", "y"), "f has no value `deed`; it has `dead`");
  EXPECT_EQ(c.Explain("y", "something_else"), "f has no value `something_else`");
  EXPECT_EQ(c.Explain("y", ""), "f has no value ``; it has `a`, `s`, `x`, `y`");
}

TEST(ExplainTest, PairsThatNobodyTried) {
  Case unrelated(
      "input x: f32[8]\n input y: f32[8]\n a = exp(x)\n b = sum(y, axes=[0])\n output a\n output "
      "b");
  EXPECT_EQ(unrelated.Explain("a", "b"),
            "`a` is computed in g1 (pointwise, 1 expression) and `b` in g0 (reduction, 1 "
            "expression). Nothing passes between these two, and they read nothing in common. No "
            "pass tried to make one kernel of the two; asked now, the reduction scheduler refuses "
            "it: unconnected: nothing is shared. That is, nothing flows between them and they read "
            "nothing in common. ");
  Case chain("input x: f32[8]\n a = exp(x)\n b = segment_set(a)\n c = exp(b)\n output c");
  EXPECT_TRUE(absl::StrContains(chain.Explain("a", "c"),
                                "g2 also depends on g0 through g1. No "
                                "pass tried to make one kernel of all "
                                "these; asked now, the library"))
      << chain.Explain("a", "c");
  std::string long_chain = "input x: f32[8]\n a0 = exp(x)\n";
  for (int i = 1; i <= 100; ++i)
    absl::StrAppend(&long_chain, " a", i, " = segment_set(a", i - 1, ")\n");
  Case far(long_chain + " output a100");
  EXPECT_TRUE(
      absl::StrContains(far.Explain("a0", "a100"),
                        "g100 depends on g0 by way of g1, g2, g3, g4 and 95 more. On that way "
                        "g0 and g1 are not one kernel either; the library scheduler refuses "
                        "it: barrier"))
      << far.Explain("a0", "a100");
  SegmentOptions none;
  for (const SegmentPass& pass : SegmentPasses()) none.disabled_passes.push_back(pass.name);
  Case apart("input x: f32[8]\n a = exp(x)\n b = sin(a)\n output b", none);
  EXPECT_TRUE(absl::StrContains(apart.Explain("a", "b"),
                                "asked now, the pointwise scheduler would take it"));
}

TEST(ExplainTest, AnyPairOfAnyGraph) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Fusion f = *RandomFusion(seed + 800000, 25).Make();
    SegmentOptions options;
    options.trace = seed % 2 == 0;
    Segmentation s = *SegmentWithLog(f, MoodyGuard(seed), options);
    const SizeHints sizes = *SizeHints::Create(f, {});
    for (uint32_t a = 0; a < f.num_vals(); a += 3) {
      for (uint32_t b = 0; b < f.num_vals(); ++b) {
        const absl::StatusOr<std::string> text = ExplainValues(
            s.segmented, s.log, MoodyGuard(seed), sizes, f.name(ValId(a)), f.name(ValId(b)));
        ASSERT_TRUE(text.ok()) << text.status();
        EXPECT_TRUE(absl::EndsWith(*text, ".\n")) << *text;
      }
    }
  }
}

TEST(ExplainTest, EveryReasonHasASentence) {
  for (int c = 0; ReasonName(static_cast<ReasonCode>(c)) != "unknown"; ++c) {
    EXPECT_NE(ReasonSentence(static_cast<ReasonCode>(c)), "the schedulers do not take it")
        << ReasonName(static_cast<ReasonCode>(c));
  }
}

SegmentedFusion Cut(const Fusion& f, const std::vector<std::vector<uint32_t>>& groups) {
  Partition p;
  p.num_groups = static_cast<uint32_t>(groups.size());
  p.home.resize(f.num_exprs());
  for (uint32_t g = 0; g < groups.size(); ++g) {
    for (uint32_t e : groups[g]) p.home[e] = GroupId(g);
  }
  SegmentedFusion s =
      *SegmentedFusion::Create(f, std::make_shared<const AxisMap>(AxisMap::Build(f)), p);
  for (GroupId g : s.groups()) s.set_scheduler(g, SchedulerKind::kPointwise);
  return s;
}

TEST(DiffTest, SameSplitMergedRegrouped) {
  const Fusion f = *ParseFusion(
      "fusion f {\n input x: f32[256]\n a = exp(x)\n b = sin(a)\n c = exp(b)\n d = sin(c)\n e = "
      "exp(d)\n g = sin(e)\n h = exp(g)\n output h\n}");
  const SizeHints sizes = *SizeHints::Create(f, {});
  const auto diff = [&](const auto& left, const auto& right) {
    return *DiffSegmentations(Cut(f, left), sizes, Cut(f, right), sizes);
  };
  using Groups = std::vector<std::vector<uint32_t>>;
  const SegmentationDiff d =
      diff(Groups{{0}, {1, 2}, {3}, {4, 5}, {6}}, Groups{{0}, {1}, {2}, {3, 4}, {5, 6}});
  EXPECT_EQ(DiffText(d, false),
            "f: 5 kernels, 10.0 KiB of device memory traffic -> 5 kernels, 10.0 KiB\n"
            "  split      g1 -> g1 g2  (1 kernel, 2.0 KiB -> 2 kernels, 4.0 KiB)\n"
            "  regrouped  g2 g3 g4 -> g3 g4  (3 kernels, 6.0 KiB -> 2 kernels, 4.0 KiB)\n"
            "  same       g0\n");
  EXPECT_FALSE(d.same());
  EXPECT_EQ(
      DiffText(diff(Groups{{0, 1, 2}, {3, 4}, {5, 6}}, Groups{{0, 1, 2}, {3, 4, 5, 6}}), false),
      "f: 3 kernels, 6.0 KiB of device memory traffic -> 2 kernels, 4.0 KiB\n"
      "  merged     g1 g2 -> g1  (2 kernels, 4.0 KiB -> 1 kernel, 2.0 KiB)\n"
      "  same       g0\n");
  const nlohmann::json json = nlohmann::json::parse(DiffJson(d));
  EXPECT_EQ(json["changes"][1]["kind"], "split");
  EXPECT_EQ(json["changes"][1]["right"], nlohmann::json({1, 2}));
  EXPECT_EQ(json["changes"][1]["right_totals"]["bytes"], 4096);
  EXPECT_EQ(json["left"]["kernels"], 5);
}

TEST(DiffTest, OtherSizesAreNamed) {
  const Fusion f =
      *ParseFusion("fusion f {\n symbol N\n input x: f32[N]\n a = exp(x)\n output a\n}");
  const SizeHints few = *SizeHints::Create(f, {{"N", 256}}),
                  many = *SizeHints::Create(f, {{"N", 512}});
  const SegmentationDiff d = *DiffSegmentations(Cut(f, {{0}}), few, Cut(f, {{0}}), many);
  EXPECT_EQ(
      DiffText(d, false),
      "f: 1 kernel, 2.0 KiB of device memory traffic at N = 256 -> 1 kernel, 4.0 KiB at N = 512\n"
      "  same       g0\n");
  EXPECT_EQ(nlohmann::json::parse(DiffJson(d))["right"]["symbols"]["N"], 512);
}

TEST(DiffTest, CopiesAndOtherGraphs) {
  Case c(kTwoKernels);
  SegmentOptions none;
  none.disabled_passes = {"privatize", "recompute"};
  Case other(kTwoKernels, none);
  const SegmentationDiff d =
      *DiffSegmentations(c.result->segmented, *c.sizes, other.result->segmented, *other.sizes);
  EXPECT_TRUE(absl::StrContains(DiffText(d, false), "copies     g1 -> g1")) << DiffText(d, false);
  Case third("input x: f16[8, 64]\n y = exp(x)\n output y");
  EXPECT_TRUE(absl::StrContains(
      DiffSegmentations(c.result->segmented, *c.sizes, third.result->segmented, *third.sizes)
          .status()
          .message(),
      "cannot be compared"));
  const SegmentationDiff same =
      *DiffSegmentations(c.result->segmented, *c.sizes, c.result->segmented, *c.sizes);
  EXPECT_TRUE(same.same());
}

}  // namespace
}  // namespace seam
