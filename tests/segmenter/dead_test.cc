// The pass `dead`: what no output depends on, left out or cut like the rest.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "scheduler/scheduler.h"
#include "segmenter/dump.h"
#include "segmenter/dump_diff.h"
#include "segmenter/extract.h"
#include "segmenter/load_segmentation.h"
#include "segmenter/segment.h"
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

Segmentation Cut(const Fusion& f, std::vector<std::string> without) {
  SegmentOptions options;
  options.verify_each_merge = true;
  options.disabled_passes = std::move(without);
  absl::StatusOr<Segmentation> s = SegmentWithLog(f, RuleGuard(), options);
  if (!s.ok()) ADD_FAILURE() << s.status() << "\n" << PrintFusion(f);
  return *std::move(s);
}

// "h d -> d s | ...": for each group its own expressions and what it writes.
std::string Groups(const SegmentedFusion& s) {
  const Fusion& f = s.fusion();
  std::vector<std::string> groups;
  for (GroupId g : s.groups()) {
    std::vector<std::string> exprs, outputs;
    for (ExprId e : s.exprs(g)) exprs.emplace_back(f.name(f.result(e)));
    for (ValId v : s.outputs(g)) outputs.emplace_back(f.name(v));
    groups.push_back(absl::StrCat(absl::StrJoin(exprs, " "), " -> ", absl::StrJoin(outputs, " ")));
  }
  return absl::StrJoin(groups, " | ");
}

std::string Cut(const std::string& body, std::vector<std::string> without) {
  const Fusion f = Parse(body);
  return Groups(Cut(f, std::move(without)).segmented);
}

const std::vector<std::string> kMerges = {"vertical", "siblings", "closures", "split", "borders"};

std::vector<std::string> WithoutMerges(std::vector<std::string> without) {
  without.insert(without.end(), kMerges.begin(), kMerges.end());
  return without;
}

// `d` reads what is needed and is needed by nothing, nor is what leads to `t` alone.
constexpr char kBody[] = R"(
    input x: f32[8, 4]
    h = exp(x)
    c = cos(x)
    t = c * h
    d = sin(h)
    s = h + 1.0
    output s)";

TEST(DeadTest, IsLeftOut) {
  EXPECT_EQ(Cut(kBody, {}), "h t0 s -> s");
  EXPECT_EQ(Cut(kBody, WithoutMerges({})), "h -> h | t0 s -> s");
}

// A value that is read is written for its readers only; what ends dead code is written for nobody.
TEST(DeadTest, SwitchedOffItsEndsAreWritten) {
  EXPECT_EQ(Cut(kBody, {"dead"}), "h c t d t0 s -> t d s");
  EXPECT_EQ(Cut(kBody, WithoutMerges({"dead"})), "h -> h | t0 s -> s | d -> d | c -> c | t -> t");
}

// Of several results that nobody reads one is enough; where one is read the others are not written.
TEST(DeadTest, SeveralResults) {
  const std::string body = R"(
    input x: f32[8, 4]
    a, m, n = welford(x, axes=[1])
    b, k, l = welford(x, axes=[1])
    r = sqrt(k)
    s = x + 1.0
    output s)";
  EXPECT_EQ(Cut(body, {"dead"}), "a b r t0 s -> a r s");
}

// Who reads a value for dead code alone makes it cross as it is.
TEST(DeadTest, ReadersCountForTypesThatCross) {
  const std::string body = R"(
    input x: f32[8, 4]
    h = exp(x)
    d = sin(h)
    s = cast(h, dtype=bf16)
    output s)";
  const Fusion f = Parse(body);
  const auto type_of_h = [&](std::vector<std::string> without) {
    const Segmentation s = Cut(f, WithoutMerges(std::move(without)));
    return s.segmented.buffer(s.segmented.buffer_of(f.result(ExprId(0)))).dtype;
  };
  EXPECT_EQ(type_of_h({}), DType::BF16);
  EXPECT_EQ(type_of_h({"dead"}), DType::F32);
}

TEST(DeadTest, DumpsShowItAndLoad) {
  const Fusion f = Parse(kBody);
  const SizeHints sizes = *SizeHints::Create(f, {});
  for (const std::vector<std::string>& without : {std::vector<std::string>{"dead"}, kMerges}) {
    const Segmentation s = Cut(f, without);
    for (const auto dump : {DumpText, DumpJson}) {
      const std::string text = *dump(s.segmented, {&sizes, &s.log, false});
      const absl::StatusOr<LoadedSegmentation> loaded = LoadSegmentation(f, text);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(Groups(loaded->segmented), Groups(s.segmented));
      EXPECT_EQ(*dump(loaded->segmented, {&sizes, &loaded->log, false}), text);
    }
  }
  const Segmentation s = Cut(f, {"dead"});
  EXPECT_NE(DumpText(s.segmented, {&sizes, &s.log, false})
                ->find("  out  d: f32[8, 4]  128 B, to nobody\n"),
            std::string::npos);
}

TEST(DeadTest, DiffTellsWhichSideHasIt) {
  const Fusion f = Parse(kBody);
  const SizeHints sizes = *SizeHints::Create(f, {});
  const Segmentation left_out = Cut(f, WithoutMerges({})), cut = Cut(f, WithoutMerges({"dead"}));
  const auto diff = [&](const Segmentation& a, const Segmentation& b) {
    const std::string text =
        DiffText(*DiffSegmentations(a.segmented, sizes, b.segmented, sizes), false);
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(diff(left_out, cut),
            "  dead       none -> g2  (0 kernels, 0 B -> 1 kernel, 256 B)\n"
            "  dead       none -> g3  (0 kernels, 0 B -> 1 kernel, 256 B)\n"
            "  dead       none -> g4  (0 kernels, 0 B -> 1 kernel, 384 B)\n"
            "  same       g0, g1\n");
  EXPECT_EQ(diff(cut, left_out).substr(0, 26), "  dead       g2 -> none  (");
  // A group with dead code and the same one without it are two.
  const Segmentation all = Cut(f, {"dead"}), live = Cut(f, {});
  EXPECT_EQ(diff(live, all), "  regrouped  g0 -> g0  (1 kernel, 256 B -> 1 kernel, 512 B)\n");
}

// Every merge and change of borders, with invariants from scratch after each; every expression has
// a home then, and every group is a Fusion of its own.
TEST(DeadTest, RandomGraphs) {
  int with_dead_code = 0;
  for (uint32_t seed = 1; seed <= 300 / testing::kPart; ++seed) {
    const Fusion f = *RandomFusion(seed, 3 + static_cast<int>(seed % 25)).Make();
    const Segmentation live = Cut(f, {}), all = Cut(f, {"dead"});
    bool dead = false;
    for (uint32_t e = 0; e < f.num_exprs(); ++e) {
      dead |= !live.segmented.home(ExprId(e)).valid();
      ASSERT_TRUE(all.segmented.home(ExprId(e)).valid()) << seed;
    }
    with_dead_code += dead;
    EXPECT_EQ(dead, Groups(live.segmented) != Groups(all.segmented)) << seed;
    for (GroupId g : all.segmented.groups())
      EXPECT_TRUE(ExtractGroup(all.segmented, g).ok()) << seed;
  }
  EXPECT_GT(with_dead_code, 30 / testing::kPart);
}

// What is read by nothing but dead code beside its readers stays with these, however they read it.
TEST(DeadTest, ReadersThatAreLeftOutAskForNothing) {
  const std::string body = R"(
    symbol B in [16, 100000]
    input x: f32[B, B]
    v = x + 7.0
    DEAD
    out = amax(v[:, B//3:], axes=[0])
    output out)";
  const auto groups = [&](const std::string& dead) {
    const Fusion f = Parse(absl::StrReplaceAll(body, {{"DEAD", dead}}));
    const absl::StatusOr<SegmentedFusion> s = Segment(f, RealGuard(), SegmentOptions());
    EXPECT_TRUE(s.ok()) << s.status();
    return s.ok() ? s->groups().size() : 0;
  };
  EXPECT_EQ(groups(""), 1);
  EXPECT_EQ(groups("dead = v / v"), 1);
  EXPECT_EQ(groups("dead = sum(v, axes=[1])"), 1);
  EXPECT_EQ(groups("dead = permute(v, axes=[1, 0])"), 1);
  EXPECT_EQ(groups("dead = v / v\n output dead"), 2);
}

}  // namespace
}  // namespace seam
