// Segmentation of named graphs with the rule of legality as the guard, and of random ones.
#include "segmenter/segment.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "scheduler/scheduler.h"
#include "segmenter/closer_look.h"
#include "segmenter/traffic.h"
#include "segmenter/verify.h"
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

std::string Names(const Fusion& f, const std::vector<ValId>& vals) {
  return absl::StrJoin(
      vals, " ", [&](std::string* s, ValId v) { absl::StrAppend(s, std::string(f.name(v))); });
}

// "inputs -> outputs" of every group that launches, in order.
std::vector<std::string> Kernels(const Fusion& f, const SegmentOptions& options = {},
                                 const SchedulabilityGuard& guard = RuleGuard()) {
  SegmentOptions checked = options;
  checked.verify_each_merge = true;
  absl::StatusOr<SegmentedFusion> s = Segment(f, guard, checked);
  if (!s.ok()) {
    ADD_FAILURE() << s.status();
    return {};
  }
  std::vector<std::string> kernels;
  for (GroupId g : s->groups()) {
    if (s->scheduler(g) == SchedulerKind::kAlias) continue;
    kernels.push_back(absl::StrCat(Names(f, s->inputs(g)), " -> ", Names(f, s->outputs(g))));
  }
  return kernels;
}
std::vector<std::string> Kernels(const std::string& body) { return Kernels(Parse(body)); }

using Strings = std::vector<std::string>;

std::vector<std::string> KernelsOfExample(const std::string& name) {
  absl::StatusOr<Fusion> f = LoadFusion(absl::StrCat(SEAM_SOURCE_DIR, "/examples/", name, ".seam"));
  if (!f.ok()) {
    ADD_FAILURE() << f.status();
    return {};
  }
  return Kernels(*f);
}

TEST(SegmentTest, Examples) {
  // One pattern of reductions each, statistics used inside the row: one kernel.
  EXPECT_EQ(KernelsOfExample("instance_norm").size(), 1u);
  EXPECT_EQ(KernelsOfExample("layer_norm").size(), 1u);
  EXPECT_EQ(KernelsOfExample("rms_norm").size(), 1u);
  EXPECT_EQ(KernelsOfExample("softmax").size(), 1u);
  EXPECT_EQ(KernelsOfExample("group_norm_nhwc").size(), 1u);
  EXPECT_EQ(KernelsOfExample("residual_dropout_layer_norm").size(), 1u);
  EXPECT_EQ(KernelsOfExample("swiglu").size(), 1u);
  // dx holds the rows, dgamma and dbeta are free and finish from partials.
  EXPECT_EQ(KernelsOfExample("layer_norm_backward").size(), 1u);
  EXPECT_EQ(KernelsOfExample("batch_norm_train").size(), 1u);
  EXPECT_LE(KernelsOfExample("rope").size(), 2u);
  EXPECT_LE(KernelsOfExample("cross_entropy").size(), 2u);
}

TEST(SegmentTest, WelfordResultsAreInternal) {
  EXPECT_EQ(KernelsOfExample("instance_norm").size(), 1u);
  EXPECT_EQ(Kernels(R"(symbol M in [1, 64]
    symbol N in [1, 64]
    input x: f32[M, N]
    mean, m2, count = welford(x, axes=[1])
    y = (x - mean[:, None]) * rsqrt(m2 / count + 1e-5)[:, None]
    output y)"),
            Strings{"x -> y"});
}

TEST(SegmentTest, TwoReadersOfAnInputAreOneKernel) {
  EXPECT_EQ(Kernels("input x: f32[8]\n a = sin(x)\n b = cos(x)\n output a\n output b"),
            Strings{"x -> a b"});
}

// Views are nobody's kernel, but what a pad puts around them is written.
TEST(SegmentTest, APadIsWritten) {
  const char* const kPadded = "input x: f32[4, 8]\n p = pad(x, before=[0, 1], after=[0, 1])\n";
  EXPECT_EQ(Kernels(absl::StrCat(kPadded, " output p")), Strings{"x -> p"});
  EXPECT_EQ(Kernels(absl::StrCat(kPadded, " a = p[:, :8]\n b = p[:, 2:]\n output a\n output b")),
            Strings{"x -> a b"});
  EXPECT_EQ(Kernels("input x: f32[4, 8]\n a = x[:, 1:]\n output a"), Strings{});
}

TEST(SegmentTest, ReductionsOverDifferentAxesOfOneTensor) {
  // Both are free: one pass over x.
  EXPECT_EQ(
      Kernels(
          "input x: f32[8, 4]\n a = sum(x, axes=[0])\n b = sum(x, axes=[1])\n output a\n output b"),
      Strings{"x -> a b"});
}

TEST(SegmentTest, ColumnStatisticsOfNormalizedRowsNeedAGridBarrier) {
  // The column maximum is held by what uses it, the row sum too: no axis is common.
  EXPECT_EQ(Kernels(R"(input x: f32[8, 4]
    r = x - sum(x, axes=[1])[:, None]
    y = r - sum(r, axes=[0])[None, :]
    output y)")
                .size(),
            2u);
}

TEST(SegmentTest, AFullReductionUsedByItsInputIsTwoKernels) {
  EXPECT_EQ(Kernels("input x: f32[8, 4]\n y = x / sum(x)\n output y").size(), 2u);
  EXPECT_EQ(Kernels("input x: f32[8, 4]\n y = sum(x) / 32.0\n output y"), Strings{"x -> y"});
}

TEST(SegmentTest, ConstantsAreNeverInputs) {
  const Strings kernels = Kernels(R"(input x: f32[8, 4]
    c = constant(2.0, dtype=f32)
    s = sum(x * c)
    y = x * c / s
    output y)");
  EXPECT_EQ(kernels, (Strings{"x -> s", "x s -> y"}));
}

TEST(SegmentTest, UpcastsCrossNarrow) {
  // y is computed in f32 and rounded to f16; both readers take the f16.
  const Strings kernels = Kernels(R"(input x: f32[8, 4]
    h = cast(x * 2.0, dtype=f16)
    w = cast(h, dtype=f32)
    s = sum(w)
    z = w * s
    output z)");
  EXPECT_EQ(kernels, (Strings{"x -> h s", "h s -> z"}));
}

TEST(SegmentTest, LibraryCallsAndBarriersStandAlone) {
  EXPECT_EQ(Kernels(R"(input a: f32[8, 8]
    input b: f32[8, 8]
    p = exp(a)
    m = matmul(p, permute(b, axes=[1, 0]))
    q = exp(m)
    output q)"),
            (Strings{"a -> p", "p t0 -> m", "m -> q"}));
  EXPECT_EQ(
      Kernels("input a: f32[8]\n p = exp(a)\n s = segment_set(p)\n q = exp(s)\n output q").size(),
      3u);
}

// a reaches c directly and through b: a and c alone are not convex.
TEST(SegmentTest, ClosureMergesWhatNoPairCan) {
  class NoPairs : public RuleGuard {
    Decision CanSchedule(const Fusion& f, const AxisMap& axes,
                         const GroupSummary& s) const override {
      if (s.num_reductions == 1 && s.num_exprs > 1 && s.num_exprs < 4) {
        return Decision::Refuse(SchedulerKind::kReduction, ReasonCode::kUnsupported, {}, "a half");
      }
      return RuleGuard::CanSchedule(f, axes, s);
    }
  };
  const Fusion f = Parse(
      "input x: f32[8, 4]\n a = exp(x)\n b = sum(a, axes=[1])\n c = a / b[:, None]\n output c");
  SegmentOptions options;
  absl::StatusOr<Segmentation> s = SegmentWithLog(f, NoPairs(), options);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->segmented.num_groups(), 1u);
  options.disabled_passes = {"closures", "split", "borders"};
  s = SegmentWithLog(f, NoPairs(), options);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->segmented.num_groups(), 3u);
}

// What joins first is the row sum and y, which saves as much as anything. Then y is written for the
// rest; computed there, from x, which is read anyway, it is not.
TEST(SegmentTest, SplitGivesAValueToTheOtherSide) {
  const Fusion f = Parse(R"(
    input x: f32[1024, 1024]
    r = sum(x, axes=[1])
    y = x - r[:, None]
    w = tanh(x)
    c = sum(y, axes=[0])
    p = y * c[None, :]
    q = w * (c[None, :] * y)
    output p
    output q)");
  SegmentOptions options;
  options.disabled_passes = {"split", "borders", "recompute"};
  EXPECT_EQ(Kernels(f, options), (Strings{"x -> y", "x y -> p q"}));
  options.disabled_passes = {"borders", "recompute"};
  EXPECT_EQ(Kernels(f, options), (Strings{"x -> r", "x r -> p q"}));
}

// The sums of x and of w belong together with what reads both x and w, and q and t on the other
// side: to get there several units move, and the first of them saves nothing.
TEST(SegmentTest, BordersMoveSeveralUnits) {
  const Fusion f = Parse(R"(
    input x: f32[256, 1024]
    r = sum(x, axes=[0])
    w = tanh(x)
    p = w * r[None, :]
    s = sum(r, axes=[0])
    q = r - s[None]
    c = sum(w, axes=[0])
    t = c * s[None] - r
    output p
    output q
    output t)");
  SegmentOptions options;
  options.disabled_passes = {"borders"};
  EXPECT_EQ(Kernels(f, options), (Strings{"x -> r s", "x r s -> p q t"}));
  EXPECT_EQ(Kernels(f), (Strings{"x -> r p s c", "r s c -> q t"}));
}

TEST(SegmentTest, ViewsThatAreReturnedStayFree) {
  // The view of x costs nothing; a kernel that also makes y would write it.
  EXPECT_EQ(Kernels(R"(input x: f32[8, 4]
    t = permute(x, axes=[1, 0])
    y = exp(t)
    output t
    output y)"),
            (Strings{"x -> y"}));
}

TEST(SegmentTest, ReturnedAndConsumedValues) {
  EXPECT_EQ(Kernels("input x: f32[8]\n a = exp(x)\n b = sin(a)\n output a\n output b"),
            Strings{"x -> a b"});
  EXPECT_EQ(Kernels("input x: f32[8]\n output x"), Strings{});
  EXPECT_EQ(Kernels("c = constant(2.0, dtype=f32)\n output c"), Strings{" -> c"});
}

TEST(SegmentTest, UnconnectedPartsStayApart) {
  EXPECT_EQ(
      Kernels(
          "input x: f32[8]\n input y: f32[8]\n a = x * 2.0\n b = y * 2.0\n output a\n output b"),
      (Strings{"x -> a", "y -> b"}));
}

// The groups' schedulers and outputs with a guard that takes islands.
Strings Islands(const std::string& body, const SegmentOptions& options = {}) {
  const Fusion f = Parse(body);
  SegmentOptions checked = options;
  checked.verify_each_merge = true;
  const absl::StatusOr<SegmentedFusion> s = Segment(f, IslandGuard(), checked);
  if (!s.ok()) return {s.status().ToString()};
  Strings groups;
  for (GroupId g : s->groups()) {
    groups.push_back(
        absl::StrCat(std::string(SchedulerName(s->scheduler(g))), ": ", Names(f, s->outputs(g))));
  }
  return groups;
}

TEST(SegmentTest, UnconnectedPartsAreIslands) {
  const std::string two =
      "input x: f32[8]\n input y: f32[9]\n a = x * 2.0\n b = y * 2.0\n output a\n output b";
  EXPECT_EQ(Islands(two), Strings{"horizontal: a b"});
  SegmentOptions without;
  without.disabled_passes = {"horizontal"};
  EXPECT_EQ(Islands(two, without), (Strings{"pointwise: b", "pointwise: a"}));
}

// One number that all read, the norm of all gradients, say, keeps no islands apart.
TEST(SegmentTest, IslandsShareOneElement) {
  EXPECT_EQ(Islands(R"(input x: f32[8, 3]
    input y: f32[9]
    n = sum(y, axes=[0])
    c = segment_set(n)
    a = x * c
    b = y * c
    output a
    output b)"),
            (Strings{"reduction: n", "library: c", "horizontal: a b"}));
}

// The same weights for two images, also as copies of a wider type: each reads them for itself.
TEST(SegmentTest, IslandsShareWhatIsSmallerThanThey) {
  const std::string images = R"(input x: f32[8, 16]
    input y: f32[9, 16]
    input w: f16[16]
    c = cast(w, dtype=f32)
    a = x / sum(x, axes=[1], keepdims=true) * c
    b = y / sum(y, axes=[1], keepdims=true) * c
    output a
    output b)";
  EXPECT_EQ(Islands(images), Strings{"horizontal: a b"});
}

// Queries and keys in one tensor, but not windows that overlap.
TEST(SegmentTest, IslandsShareATensorInParts) {
  const auto of = [](int begin) {
    return absl::StrCat("input x: f32[8, 64]\n q = x[:, 0:32]\n k = x[:, ", begin, ":64]\n",
                        "a = q / sum(q * q, axes=[1], keepdims=true)\n"
                        "b = sum(reshape(k, sizes=[8, 2, ",
                        (64 - begin) / 2, "]), axes=[2])\n output a\n output b");
  };
  SegmentOptions apart;
  apart.disabled_passes = {"siblings", "split", "borders"};
  EXPECT_EQ(Islands(of(32), apart), Strings{"horizontal: a b"});
  EXPECT_EQ(Islands(of(30), apart), (Strings{"reduction: b", "reduction: a"}));
}

// Reductions as well, but for large ones, and not with what reduces nothing.
TEST(SegmentTest, ReductionsAreIslands) {
  EXPECT_EQ(Islands(R"(input x: f32[8, 16]
    input y: f32[9]
    input z: f32[4096, 2048]
    input w: f32[7]
    a = sum(x, axes=[1])
    b = sum(y)
    c = sum(z, axes=[1])
    d = exp(w)
    output a
    output b
    output c
    output d)"),
            (Strings{"horizontal: a b", "reduction: c", "pointwise: d"}));
}

// From the results: u has to wait for two reductions, v for none, and both for nobody.
TEST(SegmentTest, IslandsOfUnlikeDepths) {
  EXPECT_EQ(Islands(R"(input x: f32[8, 16]
    input y: f32[9]
    s = sum(x, axes=[0])
    b = segment_set(s)
    u = exp(b)
    v = exp(y)
    output u
    output v)"),
            (Strings{"reduction: s", "library: b", "horizontal: u v"}));
}

// Not u with v, which waits for it through the reduction; with w, for which nobody waits.
TEST(SegmentTest, IslandsMakeNoCycle) {
  EXPECT_EQ(Islands(R"(input x: f32[8, 16]
    input y: f32[9]
    u = exp(x)
    s = segment_set(u)
    v = exp(s)
    w = exp(y)
    output v
    output w)"),
            (Strings{"pointwise: u", "library: s", "horizontal: v w"}));
}

// Each goes into the first launch that reads nothing that it reads, however many come before it
// that could not.
TEST(SegmentTest, IslandsAreFoundBehindManyThatShare) {
  constexpr int kMany = 300;
  std::string body = "input x: f32[8]\n input y: f32[8]\n";
  for (const char* input : {"x", "y"}) {
    for (int i = 0; i < kMany; ++i) {
      absl::StrAppend(&body, " ", input, i, " = ", input, " * ", i, ".5\n output ", input, i, "\n");
    }
  }
  SegmentOptions options;
  options.disabled_passes = {"siblings", "split", "borders"};
  const absl::StatusOr<SegmentedFusion> s = Segment(Parse(body), IslandGuard(), options);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->num_groups(), kMany);
  for (GroupId g : s->groups()) EXPECT_EQ(s->inputs(g).size(), 2u);
}

// The rate at which groups move data, by their number of expressions.
class SlowFrom : public RuleGuard {
 public:
  SlowFrom(int num_exprs, double fraction) : num_exprs_(num_exprs), fraction_(fraction) {}
  double FractionOfPeak(const Fusion&, const AxisMap&, const SizeHints&,
                        const GroupSummary& s) const override {
    return s.num_exprs >= num_exprs_ ? fraction_ : 1;
  }

 private:
  int num_exprs_;
  double fraction_;
};

uint32_t NumGroups(const std::string& body, const SchedulabilityGuard& guard,
                   const SegmentOptions& options) {
  const Fusion f = Parse(body);
  const absl::StatusOr<SegmentedFusion> s = Segment(f, guard, options);
  EXPECT_TRUE(s.ok()) << s.status();
  return s.ok() ? s->num_groups() : 0;
}

// Apart, 6 MiB, 6 MiB less what is wider than it crosses, and two launches of 4: 18 in all. As one
// kernel 6 MiB at half the rate and a launch: 16. In f32 it would have been 22 against 24.
TEST(SegmentTest, WhatCrossesNarrowerIsWeighedSo) {
  SegmentOptions options;
  options.disabled_passes = {"split", "borders"};
  EXPECT_EQ(NumGroups(R"(input x: bf16[1024, 1024]
    a = neg(cast(x, dtype=f32))
    b = exp(a)
    output b)",
                      SlowFrom(3, 0.5), options),
            1u);
}

// Views that launch nothing read and write nothing either: a merge with them saves nothing, and one
// that is a little slower is not made.
TEST(SegmentTest, WhatViewsDoNotMoveIsNotSaved) {
  SegmentOptions options;
  options.disabled_passes = {"privatize", "split", "borders"};
  const std::string body = R"(input x: f32[1024, 1024]
    v = permute(x, axes=[1, 0])
    y = exp(v)
    output y)";
  EXPECT_EQ(NumGroups(body, SlowFrom(2, 0.9), options), 2u);
  EXPECT_EQ(NumGroups(body, SlowFrom(2, 1), options), 1u);
}

// Values of more bytes than there are numbers count as very large ones, however they are added up.
TEST(SegmentTest, BytesSaturate) {
  const Fusion f = Parse(R"(symbol N in [0, 1099511627776]
    input x: bf16[N, N, N]
    input e: f64[N, N, 0]
    a = cast(x, dtype=f64)
    b = sum(a, axes=[1])
    c = exp(e)
    output a
    output b
    output c)");
  SegmentOptions options;
  options.sizes = {{"N", int64_t{1} << 40}};
  const absl::StatusOr<SizeHints> sizes = SizeHints::Create(f, options.sizes);
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->Bytes(ValId(0)), kMostBytes);
  EXPECT_EQ(sizes->BytesAs(ValId(0), DType::F64), kMostBytes);
  EXPECT_EQ(sizes->BytesAs(ValId(0), DType::F8E4M3), kMostBytes);
  EXPECT_EQ(sizes->Bytes(ValId(1)), 0);
  const absl::StatusOr<SegmentedFusion> s = Segment(f, RuleGuard(), options);
  ASSERT_TRUE(s.ok()) << s.status();
  const int64_t bytes = TotalsOf(*s, *sizes).bytes;
  EXPECT_GE(bytes, 2 * kMostBytes);
  EXPECT_LE(bytes, 4 * kMostBytes);
}

// A sum over everything has no tiles for what lies across the rest.
TEST(SegmentTest, SumsOfAllStayApartFromWhatIsTurned) {
  const Fusion f = *ParseFusion(R"(fusion f {
    symbol N
    input x: bf16[N, N]
    q = cast(x * 2.0, dtype=f8e4m3)
    most = amax(abs(x))
    turned = permute(q, axes=[1, 0])
    output most
    output q
    output turned order [0, 1]
  })");
  const auto s = Segment(f, RealGuard(), {.sizes = {{"N", 8192}}});
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_GT(s->num_groups(), 1);
}

// Columns so long that no CTA holds their states beside vectors of neighbouring rows would be gone
// down in single elements.
TEST(SegmentTest, LongColumnsOfNeighbouringRowsStayApart) {
  const Fusion f = *ParseFusion(R"(fusion f {
    symbol M
    symbol K
    input x: f16[M, K]
    s = amax(where(amax(x, axes=[0]) >= 6.0, 0.0, x), axes=[1])
    output s
  })");
  for (const auto& [m, groups] : {std::pair(1024, 1), {8192, 2}}) {
    const auto s = Segment(f, RealGuard(), {.sizes = {{"M", m}, {"K", 5120}}});
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->num_groups(), groups) << m;
  }
}

// Rows that no CTA holds lie in clusters where nothing sums those of a batch.
TEST(SegmentTest, SumsOfBatchesStayApartFromLongRows) {
  const Fusion f = *ParseFusion(R"(fusion f {
    symbol N
    input x: bf16[16, 5, N]
    p = softmax(cast(x, dtype=f32), axis=2)
    s = amin(amax(p, axes=[2]), axes=[1])
    y = cast(p, dtype=bf16)
    output s
    output y
  })");
  for (const auto& [n, groups] : {std::pair(4096, 1), {128256, 2}}) {
    const auto s = Segment(f, RealGuard(), {.sizes = {{"N", n}}});
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->num_groups(), groups) << n;
  }
}

TEST(SegmentTest, SizesOfNothingAndOne) {
  EXPECT_EQ(Kernels("input x: f32[0, 4]\n y = x - sum(x, axes=[1])[:, None]\n output y"),
            Strings{"x -> y"});
  EXPECT_EQ(Kernels("input x: f32[1, 1]\n y = x - sum(x, axes=[1])[:, None]\n output y"),
            Strings{"x -> y"});
}

TEST(SegmentTest, ExchangeOfAReducedValue) {
  // Of a value of the inputs alone it is two loads with some work done twice; after a reduction it
  // needs the rows of other tiles.
  EXPECT_EQ(Kernels("input x: f32[8, 8]\n y = exp(x)\n z = y + permute(y, axes=[1, 0])\n output z"),
            Strings{"x -> z"});
  EXPECT_EQ(Kernels(R"(input x: f32[8, 8]
    y = x - sum(x, axes=[1])[:, None]
    z = y + permute(y, axes=[1, 0])
    output z)")
                .size(),
            2u);
}

TEST(SegmentTest, LayoutsFollowTheInputs) {
  const Fusion f = Parse(R"(symbol N in [1, 8]
    input x: f32[N, 4, 8] strides [32, 1, 4]
    y = exp(x)
    s = segment_set(y)
    z = s + y
    output z)");
  absl::StatusOr<SegmentedFusion> s = Segment(f, RuleGuard());
  ASSERT_TRUE(s.ok()) << s.status();
  const ValId y = f.result(ExprId(0));
  EXPECT_EQ(s->buffer(s->buffer_of(y)).order, (AxisVector{0, 2, 1}));
}

// Rows and columns both need y, and cannot be one kernel.
constexpr char kTwoNorms[] = R"(
    input x: f32[512, 512]
    y = exp(x)
    a = y / sum(y, axes=[1])[:, None]
    b = y / sum(y, axes=[0])[None, :]
    output a
    output b)";

TEST(SegmentTest, RecomputedValuesAreNotWritten) {
  EXPECT_EQ(Kernels(kTwoNorms), (Strings{"x -> b", "x -> a"}));
  SegmentOptions options;
  options.disabled_passes = {"recompute"};
  EXPECT_EQ(Kernels(Parse(kTwoNorms), options), (Strings{"x -> y b", "y -> a"}));
  EXPECT_EQ(Kernels(Parse(kTwoNorms), {}, CostlyArithmeticGuard()),
            (Strings{"x -> y b", "y -> a"}));
}

// What joined the updates is not written any more: they read the same instead.
TEST(SegmentTest, ReadersThatRecomputeAreMerged) {
  const Fusion f = Parse(R"(
    symbol N
    input g: f16[N]
    input m: bf16[N]
    input w: f32[N]
    gf = cast(g, dtype=f32) / 3.0
    ok = all(isfinite(gf))
    mf = cast(m, dtype=f32)
    u = sign(0.9 * mf + 0.1 * gf)
    keep = u * gf > 0.0
    fr = mean(cast(keep, dtype=f32), axes=[0])
    nw = where(ok, w - where(keep, u, 0.0) / maximum(fr, 0.01), w)
    nm = where(ok, cast(0.99 * mf + 0.01 * gf, dtype=bf16), m)
    output nw
    output nm
    output ok)");
  SegmentOptions options{.sizes = {{"N", 16777216}}};
  const auto kernels = [&] { return Kernels(f, options, RealGuard()).size(); };
  EXPECT_EQ(kernels(), 2);
  options.disabled_passes = {"siblings"};
  EXPECT_EQ(kernels(), 3);
}

// A shifted view of what is in memory is read there by who wants all of it and a part as well, but
// nothing is computed again for a part.
TEST(SegmentTest, ViewsThatAreReadInPartAsWell) {
  const auto hands_on = [](const std::string& left) {
    const Fusion f = Parse(absl::StrCat(R"(
    symbol N
    input q: f32[8, N]
    p = pad(q, before=[0, 1], after=[0, 0])
    l = )",
                                        left, R"(p[:, 0:N]
    c = amax(square(l) + q)
    n = l * l[0:1] / c
    output n)"));
    const SegmentedFusion s = *Segment(f, RealGuard(), {.sizes = {{"N", 1 << 22}}});
    bool crosses = false;
    for (ValId v : s.outputs(s.groups()[0])) crosses |= f.name(v) == "l";
    return crosses;
  };
  EXPECT_FALSE(hands_on(""));
  EXPECT_TRUE(hands_on("2.0 * "));
}

// As much would be read as is read now.
TEST(SegmentTest, WhatIsReturnedIsReadAgain) {
  EXPECT_EQ(Kernels(absl::StrCat(kTwoNorms, "\n output y")), (Strings{"x -> y a", "y -> b"}));
}

// The value is returned, but what it is computed from is smaller to read.
TEST(SegmentTest, RecomputedFromWhatIsSmaller) {
  EXPECT_EQ(Kernels(R"(
    input x: f16[512, 512]
    y = exp(cast(x, dtype=f32))
    s = sum(y, axes=[0, 1])
    z = y * s
    output y
    output z)"),
            (Strings{"x -> y s", "x s -> z"}));
}

TEST(SegmentTest, DisabledPassesAndBadOptions) {
  const Fusion f = Parse("input x: f32[8]\n a = exp(x)\n b = sin(a) + 1.0\n output b");
  SegmentOptions none;
  for (const SegmentPass& pass : SegmentPasses()) none.disabled_passes.push_back(pass.name);
  EXPECT_EQ(Kernels(f, none).size(), 4u);
  SegmentOptions unknown;
  unknown.disabled_passes = {"diagonal"};
  EXPECT_EQ(Segment(f, RuleGuard(), unknown).status().message(),
            "there is no pass `diagonal`; the passes are dead, privatize, vertical, siblings, "
            "closures, split, borders, recompute, horizontal, late, narrow");
  SegmentOptions sizes;
  sizes.sizes = {{"M", 3}};
  EXPECT_EQ(Segment(f, RuleGuard(), sizes).status().message(),
            "the graph has no symbol M; it has none");
  const Fusion symbolic = Parse("symbol M in [2, 9]\n input x: f32[M]\n a = exp(x)\n output a");
  EXPECT_EQ(Segment(symbolic, RuleGuard(), {{{"M", 10}}}).status().message(),
            "symbol M = 10 is not in 2..9");
}

TEST(SegmentTest, LogTellsEveryTrial) {
  const Fusion f = Parse("input x: f32[8, 4]\n y = x / sum(x)\n output y");
  SegmentOptions options;
  options.trace = true;
  absl::StatusOr<Segmentation> s = SegmentWithLog(f, RuleGuard(), options);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->log.trials.size(), static_cast<size_t>(s->log.num_trials));
  ASSERT_EQ(s->log.borders.size(), 1u);
  EXPECT_EQ(s->log.borders[0].from, GroupId(0));
  EXPECT_EQ(s->log.borders[0].decision.reason, ReasonCode::kGridBarrier);
  EXPECT_EQ(s->log.borders[0].decision.about, std::vector<ExprId>{ExprId(0)});
}

// All invariants after every merge, with a guard that keeps the rule and with one that refuses at
// will.
TEST(SegmentTest, RandomGraphs) {
  using testing::kPart;
  int merges = 0, refusals = 0, closures = 0;
  for (uint32_t seed = 0; seed < 1500 / kPart; ++seed) {
    absl::StatusOr<Fusion> f = RandomFusion(seed + 100000, 3 + static_cast<int>(seed % 38)).Make();
    ASSERT_TRUE(f.ok()) << f.status();
    SegmentOptions options;
    options.verify_each_merge = true;
    options.trace = true;
    for (const bool moody : {false, true}) {
      absl::StatusOr<Segmentation> s = moody ? SegmentWithLog(*f, MoodyGuard(seed), options)
                                             : SegmentWithLog(*f, RuleGuard(), options);
      if (moody && !s.ok() &&
          s.status().message().find("no scheduler accepts") != std::string::npos)
        continue;
      ASSERT_TRUE(s.ok()) << s.status() << "\nseed " << seed << "\n" << PrintFusion(*f);
      merges += s->log.num_merges;
      refusals += s->log.num_trials - s->log.num_merges;
      for (const MergeTrial& trial : s->log.trials)
        closures += trial.decision.ok && trial.members.size() > 2;
      for (GroupId g : s->segmented.groups()) {
        EXPECT_NE(s->segmented.scheduler(g), SchedulerKind::kNone);
        if (moody) continue;
        EXPECT_TRUE(AskGuard(RuleGuard(), *f, s->segmented.axes(), s->segmented.facts(),
                             s->segmented.all_exprs(g))
                        .ok)
            << "seed " << seed << "\n"
            << PrintFusion(*f);
      }
    }
  }
  EXPECT_GT(merges, 10000 / kPart);
  EXPECT_GT(refusals, 1000 / kPart);
  EXPECT_GT(closures, 10 / kPart);
}

}  // namespace
}  // namespace seam
