// What a closer look finds: the spaces that a group runs over, and how often it computes a value.
#include "segmenter/closer_look.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "segmenter/segment.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"

namespace seam {
namespace {

// A graph as one group.
class Group {
 public:
  explicit Group(const std::string& body)
      : fusion_(*ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"))),
        axes_(AxisMap::Build(fusion_)),
        facts_(FactsOf(fusion_)) {
    for (uint32_t e = 0; e < fusion_.num_exprs(); ++e) exprs_.push_back(ExprId(e));
  }

  GroupSummary Summary() const { return Summarize(fusion_, axes_, facts_, exprs_); }
  GroupSummary Look() const {
    GroupSummary summary = Summary();
    LookCloser(fusion_, axes_, facts_, exprs_, summary);
    return summary;
  }
  int Times(const std::string& name) const {
    for (const GroupSummary::Computed& c : Look().computed) {
      if (fusion_.name(fusion_.result(c.expr)) == name) return c.times;
    }
    ADD_FAILURE() << "nothing is called " << name;
    return 0;
  }
  Decision Ask() const { return AskGuard(RuleGuard(), fusion_, axes_, facts_, exprs_); }
  bool ReadsElsewhere() const { return seam::ReadsElsewhere(fusion_, axes_, exprs_); }

 private:
  Fusion fusion_;
  AxisMap axes_;
  ValueFacts facts_;
  std::vector<ExprId> exprs_;
};

constexpr char kPadded[] =
    "input u: f32[40, 50]\np = pad(exp(u), before=[1, 1], after=[1, 1])\n"
    "out = p[0:40, 1:51] + p[2:42, 1:51] + p[1:41, 0:50]\noutput out\n";

TEST(CloserLook, NobodyRunsOverWhatIsOnlyReadElsewhere) {
  const Group group(kPadded);
  EXPECT_TRUE(group.ReadsElsewhere());
  EXPECT_TRUE(group.Summary().GridAxes().empty());
  const GroupSummary look = group.Look();
  ASSERT_EQ(look.spaces.size(), 1);
  EXPECT_EQ(look.GridAxes().size(), 2);
  EXPECT_TRUE(group.Ask().ok);
}

TEST(CloserLook, WhatIsHandedOnIsRunOver) {
  const Group group(absl::StrCat(kPadded, "output p"));
  EXPECT_EQ(group.Look().spaces.size(), 2);
  EXPECT_EQ(group.Ask().reason, ReasonCode::kNoCommonAxis);
}

// Results of reductions are where they were folded.
TEST(CloserLook, WhatIsReducedIsRunOver) {
  const Group group(
      "input x: f32[40, 50]\ns = sum(x, axes=[1])\nout = s[0:39] + s[1:40]\noutput out");
  EXPECT_FALSE(group.Ask().ok);
}

TEST(CloserLook, GroupsThatReadNothingElsewhereKeepTheirSpaces) {
  const Group group("input x: f32[40, 50]\ny = exp(x)\nout = y + 1.0\noutput out\noutput y");
  EXPECT_FALSE(group.ReadsElsewhere());
  EXPECT_EQ(group.Look().spaces, group.Summary().spaces);
  EXPECT_EQ(group.Times("y"), 1);
}

std::string Window(const std::string& of) {
  std::string sum;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      absl::StrAppend(&sum, i + j == 0 ? "" : " + ", of, "[", i, ":", 32 + i, ", ", j, ":", 32 + j,
                      "]");
    }
  }
  return sum;
}

TEST(CloserLook, AValueIsComputedForEachNeighbourAndItsWeightsOnce) {
  const Group group(absl::StrCat(
      "input x: f32[34, 34]\ninput w: f32[]\nv = exp(w)\na = relu(x) * v\nout = ", Window("a"),
      "\noutput out"));
  EXPECT_EQ(group.Times("a"), 9);
  EXPECT_EQ(group.Times("v"), 1);
  EXPECT_EQ(group.Summary().recompute_factor, 9);
}

TEST(CloserLook, WeightsOfOneAxisAreTheSameForNeighboursAlongOthers) {
  const Group group(
      "input x: f32[34, 50]\ninput w: f32[50]\nv = exp(w)\na = relu(x) * v\n"
      "out = a[0:32] + a[1:33] + a[2:34]\noutput out");
  EXPECT_EQ(group.Times("a"), 3);
  EXPECT_EQ(group.Times("v"), 1);
}

// The product of both counts each way for each way of the other.
TEST(CloserLook, ValuesThatDoNotLeadToEachOtherDoNotMultiply) {
  const Group group(
      "input x: f32[34, 50]\ninput y: f32[34, 50]\na = exp(x)\nb = exp(y)\n"
      "out = a[0:32] + a[1:33] * a[2:34] + b[0:32] + b[1:33] * b[2:34]\noutput out");
  EXPECT_EQ(group.Times("a"), 3);
  EXPECT_EQ(group.Times("b"), 3);
  EXPECT_EQ(group.Summary().recompute_factor, 9);
}

TEST(CloserLook, ShiftsThatAddUpToTheSameAreOne) {
  const Group group(
      "input x: f32[34, 50]\na = exp(x)\nb = a[0:33] + a[1:34]\nc = b[0:32] * b[1:33]\noutput c");
  EXPECT_EQ(group.Times("b"), 2);
  EXPECT_EQ(group.Times("a"), 3);
  // Padding takes a slice back.
  const Group back(
      "input x: f32[34, 50]\na = exp(x)\nb = pad(a, before=[2, 0], after=[0, 0])\n"
      "out = a + b[2:36]\noutput out");
  EXPECT_EQ(back.Times("a"), 1);
}

TEST(CloserLook, TheSameSliceTwiceIsOne) {
  const Group group(
      "input x: f32[34, 50]\na = exp(x)\nout = a[1:33] + a[1:33] * a[0:32]\noutput out");
  EXPECT_EQ(group.Times("a"), 2);
}

TEST(CloserLook, TransposedNeighboursAreNeighbours) {
  const Group group(
      "input x: f32[34, 50]\na = exp(x)\nt = permute(a, axes=[1, 0])\n"
      "out = permute(a[1:33], axes=[1, 0]) + t[:, 0:32] + t[:, 1:33]\noutput out");
  EXPECT_EQ(group.Times("a"), 2);
}

// Behind a reduction as well: at its own points only who hands it on, or is folded.
TEST(CloserLook, BehindReductionsAsElsewhere) {
  const std::string rows =
      "input x: f32[40, 64]\na = x / sum(x, axes=[1], keepdims=true)\n"
      "out = cat(a[:, 32:64] - a[:, 0:32], a[:, 0:32] * 2.0, axis=1)\noutput out\n";
  EXPECT_EQ(Group(rows).Times("a"), 3);
  EXPECT_EQ(Group(absl::StrCat(rows, "output a")).Times("a"), 4);
}

// Of slices in another order one is wanted at a point; of computed pieces all are computed.
TEST(CloserLook, WhatIsReorderedIsComputedOnce) {
  const Group roll(
      "input x: f32[34, 50]\na = exp(x)\nout = cat(a[3:34], a[0:3], axis=0)\noutput out");
  EXPECT_EQ(roll.Times("a"), 1);
  const Group pieces(
      "input x: f32[34, 50]\na = exp(x)\nout = cat(relu(a[3:34]), a[0:3], axis=0)\noutput out");
  EXPECT_EQ(pieces.Times("a"), 2);
}

TEST(CloserLook, TooManyPlacesAreCountedAsThat) {
  std::string sum = "a[0:100]";
  for (int i = 1; i < 80; ++i) absl::StrAppend(&sum, " + a[", i, ":", 100 + i, "]");
  const Group group(absl::StrCat("input x: f32[200]\na = exp(x)\nout = ", sum, "\noutput out"));
  EXPECT_EQ(group.Times("a"), GroupSummary::kMostTimes + 1);
}

// To compute anything costs as much as four bytes of traffic.
class FourBytesGuard : public RuleGuard {
 public:
  double BytesOfArithmetic(const Fusion&, ExprId) const override { return kCostlyBytes; }
};

TEST(CloserLook, ArithmeticSpreadsToMoreAxes) {
  const auto spreads = [](const std::string& body) {
    const Fusion f = *ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
    std::vector<ExprId> exprs;
    for (uint32_t e = 0; e < f.num_exprs(); ++e) exprs.push_back(ExprId(e));
    return SpreadsArithmetic(FourBytesGuard(), f, AxisMap::Build(f), exprs);
  };
  EXPECT_TRUE(spreads("input x: f32[40, 50]\ninput w: f32[50]\ny = x * exp(w)\noutput y"));
  EXPECT_FALSE(spreads("input x: f32[40, 50]\ninput w: f32[40, 50]\ny = x * exp(w)\noutput y"));
}

TEST(CloserLook, WhatSpreadsIsMergedLast) {
  const Fusion f = *ParseFusion(
      "fusion f {\ninput x: f32[40, 50]\ninput w: f32[50]\ny = relu(x * exp(w))\noutput y\n}\n");
  SegmentOptions options;
  options.trace = true;
  const absl::StatusOr<Segmentation> s = SegmentWithLog(f, FourBytesGuard(), options);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->segmented.groups().size(), 1);
  int waiting = 0;
  for (const MergeTrial& trial : s->log.trials)
    waiting += trial.decision.reason == ReasonCode::kSlower;
  EXPECT_GT(waiting, 0);
  EXPECT_TRUE(s->log.trials.back().decision.ok);
}

// Of any graph: what it runs over it has, and nothing is computed less than once.
TEST(CloserLook, RandomGraphs) {
  int others = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const absl::StatusOr<Fusion> f = RandomFusion(seed, 3 + static_cast<int>(seed % 30)).Make();
    ASSERT_TRUE(f.ok()) << f.status();
    const Group group([&] {
      std::string text = PrintFusion(*f);
      return text.substr(text.find('{') + 1, text.rfind('}') - text.find('{') - 1);
    }());
    const GroupSummary plain = group.Summary(), look = group.Look();
    others += plain.spaces != look.spaces;
    for (const AxisSet& space : look.spaces) {
      bool is_part = false;
      for (const AxisSet& all : plain.spaces) is_part |= IsSubset(space, all);
      EXPECT_TRUE(is_part) << "seed " << seed;
    }
    ASSERT_EQ(look.computed.size(), plain.num_exprs);
    for (const GroupSummary::Computed& c : look.computed) {
      EXPECT_GE(c.times, 1) << "seed " << seed;
      EXPECT_TRUE(c.at.valid()) << "seed " << seed;
    }
    EXPECT_TRUE(group.ReadsElsewhere() || plain.spaces == look.spaces) << "seed " << seed;
  }
  EXPECT_GT(others, 5);
}

}  // namespace
}  // namespace seam
