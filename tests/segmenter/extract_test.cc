// Groups as graphs of their own.
#include "segmenter/extract.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "segmenter/segment.h"
#include "tests/segmenter/random_fusion.h"
#include "tests/segmenter/rule_guard.h"

namespace seam {
namespace {

std::string Extracted(const std::string& body, uint32_t group) {
  absl::StatusOr<Fusion> f = ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
  if (!f.ok()) return f.status().ToString();
  absl::StatusOr<SegmentedFusion> s = Segment(*f, RuleGuard());
  if (!s.ok()) return s.status().ToString();
  absl::StatusOr<ExtractedGroup> g = ExtractGroup(*s, GroupId(group));
  if (!g.ok()) return g.status().ToString();
  return PrintFusion(g->fusion);
}

TEST(ExtractTest, KeepsNamesSymbolsInUseAndCopies) {
  constexpr char kBody[] = R"(symbol A in [1, 7]
    symbol M in [1, 64]
    symbol N in [2, 99]
    input u: f32[A]
    input x: f16[M, 2*N]
    w = cast(x, dtype=f32)
    s = sum(w)
    y = w / s
    z = exp(u)
    output y
    output z)";
  EXPECT_EQ(Extracted(kBody, 1), R"(fusion g1 {
  symbol M in [1, 64]
  symbol N in [2, 99]
  input x: f16[M, 2*N]
  w: f32[M, 2*N] = cast(x, dtype=f32)
  s: f32[] = sum(w, axes=[0, 1])
  output s
}
)");
  EXPECT_EQ(Extracted(kBody, 2), R"(fusion g2 {
  symbol M in [1, 64]
  symbol N in [2, 99]
  input x: f16[M, 2*N]
  input s: f32[]
  w: f32[M, 2*N] = cast(x, dtype=f32)
  y: f32[M, 2*N] = div(w, s)
  output y
}
)");
  EXPECT_EQ(Extracted(kBody, 7), "INVALID_ARGUMENT: there is no group 7");
}

TEST(ExtractTest, LayoutsAreThoseOfTheBuffers) {
  constexpr char kBody[] = R"(symbol N in [1, 8]
    symbol S in [64, 128]
    input x: f32[N, 4, 8] strides [S, 1, 4]
    y = exp(x)
    s = segment_set(y)
    z = s + y
    output z strides [40, 8, 1])";
  EXPECT_TRUE(absl::StrContains(Extracted(kBody, 0), "input x: f32[N, 4, 8] strides [S, 1, 4]\n"))
      << Extracted(kBody, 0);
  EXPECT_TRUE(absl::StrContains(Extracted(kBody, 0), "output y strides [32, 1, 4]\n"))
      << Extracted(kBody, 0);
  EXPECT_TRUE(absl::StrContains(Extracted(kBody, 1), "input y: f32[N, 4, 8] strides [32, 1, 4]\n"));
  EXPECT_TRUE(absl::StrContains(Extracted(kBody, 2), "output z strides [40, 8, 1]\n"))
      << Extracted(kBody, 2);
}

TEST(ExtractTest, RandomGroupsVerifyAndFitTogether) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    absl::StatusOr<Fusion> f = RandomFusion(seed + 500000, 3 + static_cast<int>(seed % 38)).Make();
    ASSERT_TRUE(f.ok()) << f.status();
    absl::StatusOr<SegmentedFusion> s = Segment(*f, RuleGuard());
    ASSERT_TRUE(s.ok()) << s.status();
    for (GroupId g : s->groups()) {
      absl::StatusOr<ExtractedGroup> group = ExtractGroup(*s, g);
      ASSERT_TRUE(group.ok()) << group.status() << "\n" << PrintFusion(*f);
      EXPECT_EQ(Verify(group->fusion), absl::OkStatus());
      ASSERT_EQ(group->inputs.size(), group->fusion.inputs().size());
      ASSERT_EQ(group->outputs.size(), group->fusion.outputs().size());
      ASSERT_EQ(group->exprs.size(), group->fusion.num_exprs());
      // What crosses has its name, and behind it the type if that is not its own.
      const auto expect_crossing = [&](ValId in_group, ValId v) {
        const DType stored = s->buffer(s->buffer_of(v)).dtype;
        TensorType type = f->type(v);
        std::string name(f->name(v));
        if (stored != type.dtype) absl::StrAppend(&name, ".", DTypeName(stored));
        type.dtype = stored;
        EXPECT_EQ(group->fusion.name(in_group), name);
        EXPECT_EQ(group->fusion.type(in_group).ToString(), type.ToString());
      };
      for (size_t i = 0; i < group->inputs.size(); ++i)
        expect_crossing(group->fusion.inputs()[i], group->inputs[i]);
      for (size_t i = 0; i < group->outputs.size(); ++i)
        expect_crossing(group->fusion.outputs()[i], group->outputs[i]);
      // The axes of the group alone tell the same: what one kernel can hold is no matter of what is
      // around it, up to axes that only the rest of the graph makes one.
      const GroupSummary whole = s->summary(g);
      const AxisMap axes = AxisMap::Build(group->fusion);
      std::vector<ExprId> all;
      for (uint32_t e = 0; e < group->fusion.num_exprs(); ++e) all.push_back(ExprId(e));
      const GroupSummary alone = Summarize(group->fusion, axes, FactsOf(group->fusion), all);
      EXPECT_EQ(alone.num_reductions, whole.num_reductions);
      EXPECT_EQ(alone.views_only, whole.views_only);
    }
  }
}

TEST(ExtractTest, WhatDoesNotExistIsAnError) {
  const absl::StatusOr<Fusion> f =
      ParseFusion("fusion f {\n input x: f32[8]\n y = exp(x)\n z = exp(y)\n output z\n}");
  ASSERT_TRUE(f.ok()) << f.status();
  const absl::StatusOr<SegmentedFusion> s = Segment(*f, RuleGuard());
  ASSERT_TRUE(s.ok()) << s.status();
  const GroupId group = s->groups()[0];
  const ValId z = f->outputs()[0];
  EXPECT_TRUE(ExtractOutput(*s, group, z).ok());
  EXPECT_FALSE(ExtractOutput(*s, GroupId(7), z).ok());
  EXPECT_FALSE(ExtractOutput(*s, group, ValId(99)).ok());
  EXPECT_FALSE(ExtractGroup(*s, GroupId(7)).ok());
  const auto part = [&](const std::vector<ExprId>& exprs) {
    return ExtractPart(*f, "part", exprs, {z}).ok();
  };
  EXPECT_TRUE(part({ExprId(0), ExprId(1)}));
  EXPECT_FALSE(part({ExprId(1), ExprId(0)}));
  EXPECT_FALSE(part({ExprId(1)})) << "y is computed elsewhere";
  EXPECT_FALSE(part({ExprId(0), ExprId(99)}));
  EXPECT_FALSE(part({ExprId(0)})) << "z is computed elsewhere";
}

}  // namespace
}  // namespace seam
