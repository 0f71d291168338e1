// The structure under random merges: after every one, all invariants from scratch.
#include "segmenter/segmented_fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "segmenter/passes.h"
#include "segmenter/traffic.h"
#include "segmenter/verify.h"
#include "tests/segmenter/random_fusion.h"

namespace seam {
namespace {

Fusion Parse(const std::string& body) {
  absl::StatusOr<Fusion> f = ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
  if (!f.ok()) ADD_FAILURE() << f.status();
  return *std::move(f);
}

SegmentedFusion Make(const Fusion& f, Partition p) {
  absl::StatusOr<SegmentedFusion> s =
      SegmentedFusion::Create(f, std::make_shared<AxisMap>(AxisMap::Build(f)), std::move(p));
  if (!s.ok()) ADD_FAILURE() << s.status();
  return *std::move(s);
}

// Every live expression alone.
Partition Singletons(const Fusion& f) {
  Partition p;
  p.home.resize(f.num_exprs());
  const std::vector<bool> live = LeaveOutDeadCode(f, true);
  for (uint32_t e = 0; e < f.num_exprs(); ++e) {
    if (live[e]) p.home[e] = GroupId(p.num_groups++);
  }
  return p;
}

// Whether a path leaves `members` and returns, by brute force.
bool PathReturns(const SegmentedFusion& s, const std::vector<GroupId>& members) {
  const auto is_member = [&](GroupId g) {
    return std::find(members.begin(), members.end(), g) != members.end();
  };
  std::vector<GroupId> stack;
  std::vector<bool> seen(s.group_limit());
  for (GroupId m : members) {
    for (EdgeId e : s.out_edges(m)) {
      if (!is_member(s.edge(e).to)) stack.push_back(s.edge(e).to);
    }
  }
  while (!stack.empty()) {
    const GroupId g = stack.back();
    stack.pop_back();
    if (is_member(g)) return true;
    if (seen[g.index()]) continue;
    seen[g.index()] = true;
    for (EdgeId e : s.out_edges(g)) stack.push_back(s.edge(e).to);
  }
  return false;
}

GroupId MergeByName(SegmentedFusion& s, const std::vector<std::string>& names) {
  std::vector<GroupId> members;
  for (uint32_t v = 0; v < s.fusion().num_vals(); ++v) {
    if (std::find(names.begin(), names.end(), s.fusion().name(ValId(v))) == names.end()) continue;
    const GroupId g = s.home(s.fusion().definition(ValId(v)));
    if (std::find(members.begin(), members.end(), g) == members.end()) members.push_back(g);
  }
  Placement placement;
  EXPECT_EQ(s.CheckConvex(members, 1000, &placement), Convexity::kConvex);
  const GroupId g = s.Merge(members, placement);
  EXPECT_EQ(VerifySegmentation(s), absl::OkStatus());
  return g;
}

std::vector<std::string> Names(const Fusion& f, const std::vector<ValId>& vals) {
  std::vector<std::string> names;
  for (ValId v : vals) names.emplace_back(std::string(f.name(v)));
  return names;
}

using Strings = std::vector<std::string>;

constexpr char kInstanceNorm[] = R"(
  symbol N in [1, 64]
  symbol C in [1, 64]
  symbol S in [1, 4096]
  input x: f32[N, C, S]
  mean, m2, count = welford(x, axes=[2])
  b = broadcast(mean, axes=[2])
  d = sub(x, b)
  v = div(m2, count)
  r = rsqrt(v)
  rb = broadcast(r, axes=[2])
  y = mul(d, rb)
  output y)";

// Seed 002: whatever the order of the merges, what Welford computes is never an input of its own
// group.
TEST(SegmentedFusionTest, WelfordResultsBecomeInternal) {
  const Fusion f = Parse(kInstanceNorm);
  SegmentedFusion s = Make(f, Singletons(f));
  ASSERT_EQ(VerifySegmentation(s), absl::OkStatus());
  const GroupId welford = s.home(ExprId(0));
  EXPECT_EQ(Names(f, s.outputs(welford)), (Strings{"mean", "m2", "count"}));
  const GroupId pointwise = MergeByName(s, {"b", "d", "v", "r", "rb", "y"});
  EXPECT_EQ(Names(f, s.inputs(pointwise)), (Strings{"x", "mean", "m2", "count"}));
  const GroupId all = MergeByName(s, {"mean", "y"});
  EXPECT_EQ(Names(f, s.inputs(all)), Strings{"x"});
  EXPECT_EQ(Names(f, s.outputs(all)), Strings{"y"});
  EXPECT_EQ(s.num_groups(), 1u);
  EXPECT_EQ(s.summary(all).held.size(), 1u);
}

TEST(SegmentedFusionTest, AnyOrderOfMergesGivesTheSameGroup) {
  const Fusion f = Parse(kInstanceNorm);
  const Strings names = {"mean", "b", "d", "v", "r", "rb", "y"};
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 rng(seed);
    SegmentedFusion s = Make(f, Singletons(f));
    while (s.num_groups() > 1) {
      std::vector<GroupId> groups = s.groups();
      std::shuffle(groups.begin(), groups.end(), rng);
      groups.resize(2 + rng() % std::min<size_t>(2, groups.size() - 1));
      Placement placement;
      if (s.CheckConvex(groups, 1000, &placement) != Convexity::kConvex) continue;
      s.Merge(groups, placement);
      ASSERT_EQ(VerifySegmentation(s), absl::OkStatus());
    }
    EXPECT_EQ(Names(f, s.inputs(s.groups()[0])), Strings{"x"});
    EXPECT_EQ(Names(f, s.outputs(s.groups()[0])), Strings{"y"});
  }
}

TEST(SegmentedFusionTest, AValueStaysAnOutputUntilItsLastReaderMergesIn) {
  const Fusion f = Parse(R"(input x: f32[8]
    a = exp(x)
    p = sin(a)
    q = cos(a)
    r = tan(a)
    output p
    output q
    output r)");
  SegmentedFusion s = Make(f, Singletons(f));
  const BufferId b = s.buffer_of(f.result(ExprId(0)));
  EXPECT_EQ(s.readers(b).size(), 3u);
  GroupId g = MergeByName(s, {"a", "p"});
  EXPECT_EQ(Names(f, s.outputs(g)), (Strings{"a", "p"}));
  g = MergeByName(s, {"a", "q"});
  EXPECT_EQ(Names(f, s.outputs(g)), (Strings{"a", "p", "q"}));
  EXPECT_EQ(s.readers(b).size(), 1u);
  g = MergeByName(s, {"a", "r"});
  EXPECT_EQ(Names(f, s.outputs(g)), (Strings{"p", "q", "r"}));
  EXPECT_FALSE(s.buffer_of(f.result(ExprId(0))).valid());
}

TEST(SegmentedFusionTest, AReturnedValueIsAlwaysAnOutput) {
  const Fusion f = Parse("input x: f32[8]\n a = exp(x)\n p = sin(a)\n output a\n output p");
  SegmentedFusion s = Make(f, Singletons(f));
  EXPECT_EQ(Names(f, s.outputs(MergeByName(s, {"a", "p"}))), (Strings{"a", "p"}));
}

TEST(SegmentedFusionTest, CopiesOfOneExpressionBecomeOne) {
  const Fusion f = Parse(R"(input x: f16[8]
    w = cast(x, dtype=f32)
    p = sin(w)
    q = cos(w)
    r = tan(w)
    output p
    output q
    output r)");
  Partition p;
  p.num_groups = 3;
  p.home = {GroupId(0), GroupId(0), GroupId(1), GroupId(2)};
  p.copies = {{ExprId(0), GroupId(1)}, {ExprId(0), GroupId(2)}};
  SegmentedFusion s = Make(f, std::move(p));
  ASSERT_EQ(VerifySegmentation(s), absl::OkStatus());
  EXPECT_EQ(Names(f, s.inputs(s.home(ExprId(2)))), Strings{"x"});
  EXPECT_EQ(s.all_exprs({GroupId(2), GroupId(0)}),
            (std::vector<ExprId>{ExprId(0), ExprId(1), ExprId(3)}));
  const GroupId two = MergeByName(s, {"q", "r"});
  EXPECT_EQ(s.copies(two).size(), 1u);
  EXPECT_EQ(s.num_exprs(two), 3);
  const GroupId three = MergeByName(s, {"p", "q"});
  EXPECT_EQ(s.copies(three).size(), 0u);
  EXPECT_EQ(s.num_exprs(three), 4);
}

// A group that has a copy of what another member reads from its home serves that reader.
TEST(SegmentedFusionTest, ACopyServesTheReadsThatMergeIn) {
  const Fusion f = Parse(R"(input x: f32[8, 4]
    m = sum(x, axes=[1])
    w = broadcast(m, axes=[1])
    p = mul(x, w)
    q = exp(w)
    output p
    output q)");
  Partition p;  // w at home alone, copied beside p; q reads it from its home.
  p.num_groups = 4;
  p.home = {GroupId(0), GroupId(1), GroupId(2), GroupId(3)};
  p.copies = {{ExprId(1), GroupId(2)}};
  SegmentedFusion s = Make(f, std::move(p));
  EXPECT_EQ(Names(f, s.inputs(GroupId(2))), (Strings{"x", "m"}));
  EXPECT_EQ(Names(f, s.inputs(GroupId(3))), Strings{"w"});
  const GroupId g = MergeByName(s, {"p", "q"});
  EXPECT_EQ(Names(f, s.inputs(g)), (Strings{"x", "m"}));
  EXPECT_EQ(s.outputs(s.home(ExprId(1))).size(), 0u);
}

TEST(SegmentedFusionTest, DeadCodeHasNoHome) {
  const Fusion f = Parse("input x: f32[8]\n a = exp(x)\n dead = sin(a)\n output a");
  SegmentedFusion s = Make(f, Singletons(f));
  EXPECT_FALSE(s.home(ExprId(1)).valid());
  EXPECT_EQ(s.num_groups(), 1u);
  EXPECT_EQ(VerifySegmentation(s), absl::OkStatus());
}

TEST(SegmentedFusionTest, GraphsWithoutExpressions) {
  const Fusion f = Parse("input x: f32[8]\n output x");
  SegmentedFusion s = Make(f, Singletons(f));
  EXPECT_EQ(s.num_groups(), 0u);
  EXPECT_EQ(VerifySegmentation(s), absl::OkStatus());
}

TEST(SegmentedFusionTest, BadPartitionsAreRefused) {
  const Fusion f =
      Parse("input x: f32[8]\n a = exp(x)\n b = sin(a)\n c = b + a\n dead = cos(a)\n output c");
  auto axes = std::make_shared<AxisMap>(AxisMap::Build(f));
  const GroupId none;
  const auto error = [&](Partition p) {
    return std::string(SegmentedFusion::Create(f, axes, std::move(p)).status().message());
  };
  EXPECT_EQ(error({1, {GroupId(0)}, {}, {}}), "homes of 1 expressions given, the graph has 4");
  EXPECT_EQ(error({1, {GroupId(0), none, GroupId(0), none}, {}, {}}),
            "expression `b`: has no home, but `c` needs it");
  EXPECT_EQ(error({1, {GroupId(0), GroupId(0), none, none}, {}, {}}),
            "expression `c`: has no home, but the caller needs it");
  EXPECT_EQ(error({1, {GroupId(0), GroupId(1), GroupId(0), none}, {}, {}}),
            "expression `b`: its home is no group");
  EXPECT_EQ(error({2, {GroupId(0), GroupId(0), GroupId(0), none}, {}, {}}),
            "group 1 has no expressions of its own");
  EXPECT_EQ(error({2, {GroupId(0), GroupId(1), GroupId(0), none}, {}, {}}),
            "groups depend on each other in a cycle, group 0 among them or after it");
  EXPECT_EQ(error({1, {GroupId(0), GroupId(0), GroupId(0), none}, {{ExprId(0), GroupId(0)}}, {}}),
            "expression `a` is copied into group 0, which has it, or is dead code");
  EXPECT_EQ(error({1, {GroupId(0), GroupId(0), GroupId(0), none}, {{ExprId(9), GroupId(0)}}, {}}),
            "a copy of no expression or in no group");
}

TEST(SegmentedFusionTest, OrderEdgesMergeAsDataEdgesDo) {
  const Fusion f = Parse(
      "input x: f32[8]\n a = exp(x)\n b = sin(x)\n c = cos(x)\n output a\n output b\n output c");
  Partition p = Singletons(f);
  const ValId x = f.inputs()[0];
  p.order = {{ExprId(2), ExprId(0), x}, {ExprId(1), ExprId(0), x}};
  SegmentedFusion s = Make(f, std::move(p));
  EXPECT_EQ(VerifySegmentation(s), absl::OkStatus());
  EXPECT_EQ(s.groups().back(), s.home(ExprId(0)));
  const GroupId g = MergeByName(s, {"b", "c"});
  EXPECT_EQ(s.out_edges(g).size(), 1u);  // Two reasons, one edge.
  MergeByName(s, {"a", "b"});
  EXPECT_EQ(s.num_groups(), 1u);
}

TEST(SegmentedFusionTest, ConvexityBudget) {
  const Fusion f =
      Parse("input x: f32[8]\n a = exp(x)\n b = sin(a)\n c = cos(b)\n d = c + a\n output d");
  SegmentedFusion s = Make(f, Singletons(f));
  const GroupId a = s.home(ExprId(0)), d = s.home(ExprId(3));
  Placement placement;
  EXPECT_EQ(s.CheckConvex({a, d}, 1000, &placement), Convexity::kNotConvex);
  EXPECT_EQ(s.CheckConvex({a, d}, 2, &placement), Convexity::kBudget);
  EXPECT_EQ(s.Closure(a, d, 10, 1000).size(), 4u);
  EXPECT_EQ(s.Closure(a, d, 3, 1000).size(), 0u);
  EXPECT_EQ(s.Closure(a, d, 10, 2).size(), 0u);
}

// Makes the group two: what leads to one of its expressions, and the rest, with the copies.
// Returns whether there was a rest.
bool SplitAtRandom(SegmentedFusion& s, GroupId g, std::mt19937& rng) {
  const Fusion& f = s.fusion();
  const std::vector<ExprId> own = s.exprs(g), all = s.all_exprs(g), copies = s.copies(g);
  std::vector<bool> needed(f.num_exprs());
  needed[own[rng() % (own.size() - 1)].index()] = true;
  std::vector<GroupPart> parts(2);
  for (auto e = all.rbegin(); e != all.rend(); ++e) {
    for (const OrderConstraint& c : s.order_constraints()) {
      if (needed[c.after.index()]) needed[c.before.index()] = true;
    }
    if (s.home(*e) == g) parts[needed[e->index()] ? 0 : 1].own.push_back(*e);
    if (!needed[e->index()]) continue;
    for (ValId v : f.operands(*e)) {
      if (f.definition(v).valid()) needed[f.definition(v).index()] = true;
    }
  }
  if (parts[1].own.empty()) return false;
  parts[1].copies = copies;
  for (ExprId e : copies) {
    if (needed[e.index()]) parts[0].copies.push_back(e);
  }
  s.Replace(g, parts);
  return true;
}

// What a group reads and writes, from its expressions: of what it only slices or looks up as much
// as that returns.
int64_t MovedBytesOf(const SegmentedFusion& s, GroupId g, const std::vector<int64_t>& bytes) {
  const Fusion& f = s.fusion();
  int64_t moved = 0;
  for (ValId v : s.outputs(g)) moved += bytes[v.index()];
  for (ValId v : s.inputs(g)) {
    int64_t parts = 0;
    bool whole = false;
    for (ExprId e : s.all_exprs({g})) {
      for (int i = 0; i < static_cast<int>(f.operands(e).size()); ++i) {
        if (f.operands(e)[i] != v) continue;
        whole |= !ReadsInPart(f, e, i);
        parts += bytes[f.result(e).index()];
      }
    }
    moved += whole ? bytes[v.index()] : std::min(parts, bytes[v.index()]);
  }
  return moved;
}

// Random partitions into copies and homes, random merges: everything equals what is computed from
// scratch, convexity equals brute force, and the estimate of a merge equals what the merge then
// makes.
TEST(SegmentedFusionTest, RandomMerges) {
  int merges = 0, splits = 0, refused = 0, exact = 0, held = 0, saved = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    std::mt19937 rng(seed * 7919 + 1);
    absl::StatusOr<Fusion> fusion = RandomFusion(seed, 3 + static_cast<int>(rng() % 28)).Make();
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const Fusion& f = *fusion;
    Partition p = Singletons(f);
    if (seed % 2 == 1) {  // Copies of cheap expressions beside some of their readers.
      for (uint32_t e = 0; e < f.num_exprs(); ++e) {
        if (!p.home[e].valid() || f.num_results(ExprId(e)) != 1) continue;
        const OpClass c = f.info(ExprId(e)).op_class;
        if (c != OpClass::Broadcast && c != OpClass::View && c != OpClass::Factory &&
            rng() % 4 != 0)
          continue;
        for (ExprId reader : f.uses(f.result(ExprId(e)))) {
          if (p.home[reader.index()].valid() && rng() % 2 == 0)
            p.copies.emplace_back(ExprId(e), p.home[reader.index()]);
        }
      }
    }
    if (seed % 3 == 0) {
      for (uint32_t e = 1; e < f.num_exprs(); ++e) {
        const uint32_t before = rng() % e;
        if (rng() % 5 == 0 && p.home[e].valid() && p.home[before].valid()) {
          p.order.push_back({ExprId(before), ExprId(e), f.result(ExprId(before))});
        }
      }
    }
    SegmentedFusion s = Make(f, std::move(p));
    ASSERT_EQ(VerifySegmentation(s), absl::OkStatus()) << "seed " << seed << "\n" << PrintFusion(f);
    std::vector<int64_t> bytes(f.num_vals());
    for (int64_t& of_value : bytes) of_value = 1 + rng() % 9;
    for (int attempt = 0; attempt < 40 && s.num_groups() > 1; ++attempt) {
      std::vector<GroupId> members = s.groups();
      const size_t first = rng() % members.size();
      std::rotate(members.begin(), members.begin() + first, members.end());
      if (rng() % 2 == 0) std::shuffle(members.begin() + 1, members.end(), rng);
      members.resize(std::min<size_t>(members.size(), 2 + (rng() % 4 == 0) + (rng() % 4 == 0)));
      Placement placement;
      const Convexity convexity = s.CheckConvex(members, 100000, &placement);
      ASSERT_EQ(convexity == Convexity::kNotConvex, PathReturns(s, members)) << "seed " << seed;
      if (convexity == Convexity::kNotConvex) {
        ++refused;
        continue;
      }
      if (rng() % 4 == 0 && s.exprs(members[0]).size() > 1) {
        splits += SplitAtRandom(s, members[0], rng);
        ASSERT_EQ(VerifySegmentation(s), absl::OkStatus()) << "seed " << seed << "\n"
                                                           << PrintFusion(f);
        continue;
      }
      const MergeEstimate estimate = s.Estimate(members, bytes);
      int64_t io_before = 0;
      size_t copies_before = 0;
      for (GroupId g : members) {
        io_before += MovedBytesOf(s, g, bytes);
        copies_before += s.copies(g).size();
      }
      const GroupId g = s.Merge(members, placement);
      ++merges;
      ASSERT_EQ(VerifySegmentation(s), absl::OkStatus()) << "seed " << seed << "\n"
                                                         << PrintFusion(f);
      const GroupSummary actual = s.summary(g);
      EXPECT_EQ(estimate.summary.spaces, actual.spaces);
      EXPECT_EQ(estimate.summary.kept, actual.kept);
      EXPECT_EQ(estimate.summary.reductions, actual.reductions);
      EXPECT_EQ(estimate.summary.connected, actual.connected) << "seed " << seed;
      EXPECT_EQ(estimate.summary.num_exprs, actual.num_exprs) << "seed " << seed;
      EXPECT_EQ(estimate.summary.num_reductions, actual.num_reductions) << "seed " << seed;
      EXPECT_EQ(estimate.summary.recompute_factor, actual.recompute_factor) << "seed " << seed;
      if (estimate.exact) {
        EXPECT_EQ(estimate.summary.held, actual.held) << "seed " << seed << "\n" << PrintFusion(f);
        ++exact;
      } else {
        for (const AxisSet& set : actual.held) {  // Too many, never too few.
          EXPECT_TRUE(std::any_of(estimate.summary.held.begin(), estimate.summary.held.end(),
                                  [&](const AxisSet& h) { return IsSubset(h, set); }));
        }
      }
      held += !actual.held.empty();
      if (copies_before == 0) {
        EXPECT_EQ(estimate.saved_bytes, io_before - MovedBytesOf(s, g, bytes)) << "seed " << seed;
        saved += estimate.saved_bytes > 0;
      }
    }
  }
  EXPECT_GT(merges, 8000);
  EXPECT_GT(splits, 1000);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(exact, 5000);
  EXPECT_GT(held, 1000);
  EXPECT_GT(saved, 1000);
}

}  // namespace
}  // namespace seam
