// Reductions of a few elements that threads compute by themselves, beside those that rows fold.
#include "scheduler/unrolled.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/group_shape.h"
#include "scheduler/scheduler.h"
#include "segmenter/extract.h"
#include "segmenter/segment.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;

// What is made of K streams, s, and a norm of it.
std::string Text(int k, const std::string& body, const std::string& dtype = "bf16") {
  return absl::StrCat("fusion streams {\n  symbol M\n  symbol N\n  input h: ", dtype, "[M, ", k,
                      ", N]\n  input a: f32[M, ", k, "]\n  f = cast(h, dtype=f32)\n  ", body,
                      "\n  y = cast(rms_norm(s, axes=[1]), dtype=f16)\n  output y\n}\n");
}

TEST(UnrolledTest, EveryReductionOfStreams) {
  const char* bodies[] = {
      "s = sum(f * a[:, :, None], axes=[1])",
      "s = amax(f, axes=[1]) - amin(f, axes=[1])",
      "s = prod(f, axes=[1])",
      "s = cast(any(f > 0.5, axes=[1]), dtype=f32) + cast(all(f < 0.5, axes=[1]), dtype=f32)",
      // Weights are a softmax over the streams themselves, and results are wanted as well.
      "p = softmax(a, axis=1)\n  s = sum(f * p[:, :, None], axes=[1])\n  output s\n  output p",
      "t = f * a[:, :, None]\n  s = sum(t, axes=[1])\n  output t",
      // Of what is folded by others, too: of all rows.
      "s = sum(f, axes=[1])\n  c = sum(s * s, axes=[0])\n  output c",
  };
  testing::Part part;
  for (const char* body : bodies) {
    for (const int k : {1, 2, 4, 16}) {
      for (const int64_t n : {1, 33, 136}) {
        SCOPED_TRACE(absl::StrCat(body, ", ", k, ", ", n));
        if (!part.TakesNext()) continue;
        for (const char* dtype : {"bf16", "f32"})
          ExpectRight(Text(k, body, dtype), {.sizes = {{"M", 5}, {"N", n}}});
      }
    }
  }
}

// The sum of negative zeros is a positive one, as that of any others: its reciprocal says so.
TEST(UnrolledTest, SumsOfNegativeZeros) {
  for (const int k : {1, 2, 4}) {
    const std::string text = absl::StrCat("fusion zeros {\n  symbol M\n  input x: f32[M, ", k,
                                          "]\n  y = 1.0 / sum(x, axes=[1])\n"
                                          "  z = sum(y)\n  output y\n  output z\n}\n");
    testing::GroupRun run{.sizes = {{"M", 37}}};
    run.inputs = [](std::vector<HostTensor>& inputs) {
      HostTensor& x = inputs[0];
      for (int64_t m = 0; m < x.shape[0]; ++m)
        for (int64_t i = 0; i < x.shape[1]; ++i) x.set({m, i}, FloatScalar(-0.0));
    };
    ExpectRight(text, run);
  }
}

TEST(UnrolledTest, EmptyOnes) {
  const std::string text = Text(4, "s = sum(f * a[:, :, None], axes=[1])");
  ExpectRight(text, {.sizes = {{"M", 0}, {"N", 8}}});
  ExpectRight(text, {.sizes = {{"M", 3}, {"N", 0}}});
}

TEST(UnrolledTest, AStreamIsNoColumn) {
  const absl::StatusOr<Fusion> group = ParseFusion(Text(4, "s = sum(f * a[:, :, None], axes=[1])"));
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_TRUE(shape->unrolls);
  EXPECT_EQ(shape->order.size(), 2u);
  EXPECT_FALSE(shape->outer);
}

// Windows of windows of windows would have a thread compute their pixels 64 times over.
TEST(UnrolledTest, PoolsOfPools) {
  const RealGuard guard;
  std::string text = "fusion pools {\n  symbol N\n  input x0: f32[N, 16*N, 16*N]\n";
  for (int i = 1; i <= 4; ++i) {
    absl::StrAppend(&text, "  r", i, " = reshape(x", i - 1, ", sizes=[N, ", 16 >> i, "*N, 2, ",
                    16 >> i, "*N, 2])\n  x", i, " = amax(r", i, " * 1.5, axes=[2, 4])\n");
    const absl::StatusOr<Fusion> fusion = ParseFusion(absl::StrCat(text, "  output x", i, "\n}\n"));
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const absl::StatusOr<SegmentedFusion> segmented = Segment(*fusion, guard);
    ASSERT_TRUE(segmented.ok()) << segmented.status();
    EXPECT_EQ(segmented->groups().size(), (i + 1) / 2) << i;
  }
}

// Windows that have nothing in common but their own axes are no one kernel's: there is no axis that
// both results have.
TEST(UnrolledTest, PoolsWithoutCommonAxes) {
  const RealGuard guard;
  for (const char* results : {"  r = sum(x * w, axes=[1, 2])\n  s = sum(z * w, axes=[1, 2])\n",
                              "  r = sum(x * w, axes=[1, 2])\n  s = z * w\n",
                              "  r = sum(x * w, axes=[0, 1, 2])\n  s = z * w\n"}) {
    const absl::StatusOr<Fusion> fusion = ParseFusion(
        absl::StrCat("fusion apart {\n  input x: f32[4, 2, 2]\n  input z: f32[3, 2, 2]\n"
                     "  input w: f32[2, 2]\n",
                     results, "  output r\n  output s\n}\n"));
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const absl::StatusOr<SegmentedFusion> segmented = Segment(*fusion, guard);
    ASSERT_TRUE(segmented.ok()) << segmented.status();
    for (GroupId g : segmented->groups()) {
      const absl::StatusOr<ExtractedGroup> group = ExtractGroup(*segmented, g);
      ASSERT_TRUE(group.ok()) << group.status();
      const testing::GroupResult result = testing::RunGroup(group->fusion, {});
      EXPECT_TRUE(result.status.ok()) << result.status;
    }
  }
}

// A small reduction whose result is read at other rows is computed by whoever wants it: as a row's,
// others could not read it.
TEST(UnrolledTest, ReadAtOtherRows) {
  const RealGuard guard;
  const char* const bodies[] = {
      "  input x: f32[6, 5, 6]\n  a = sum(x, axes=[0])\n  c = sum(flip(a, axes=[1]))\n",
      "  input x: f32[N, 8, 4]\n  a = amin(x, axes=[1])\n  d = argmin(a, axis=1)\n"
      "  c = a[:, 3:]\n  output d\n"};
  for (const char* body : bodies) {
    const std::string text = absl::StrCat("fusion moved {\n  symbol N\n", body, "  output c\n}\n");
    const absl::StatusOr<Fusion> fusion = ParseFusion(text);
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const absl::StatusOr<SegmentedFusion> segmented = Segment(*fusion, guard);
    ASSERT_TRUE(segmented.ok()) << segmented.status();
    EXPECT_EQ(segmented->groups().size(), 1) << text;
    for (const int64_t n : {1, 7, 40}) ExpectRight(text, {.sizes = {{"N", n}}});
  }
}

// Where each row would leave a state of what folds some of the rows, and where all are small: those
// that keep the fewest axes are the rows'.
TEST(UnrolledTest, InsteadOfStatesOfRows) {
  const struct {
    const char* body;
    size_t axes;  // That remain.
  } cases[] = {
      {"  input e: f32[M, 4, 4]\n  input x: bf16[M, 4, N]\n"
       "  m = sum(e[..., None] * cast(x, dtype=f32)[:, None], axes=[2])\n"
       "  r = mean(m * m, axes=[1, 2])\n  output m\n  output r\n",
       3},
      {"  input p: f32[M, 8]\n  input u: f32[M]\n  i = iota(axis=0, sizes=[8, 8], dtype=i32)\n"
       "  j = iota(axis=1, sizes=[8, 8], dtype=i32)\n"
       "  c = sum(where(j <= i, p[:, None, :], 0.0), axes=[2])\n"
       "  r = sum(c < u[:, None], axes=[1]) + size(sizes=[N], dtype=i64)\n  output r\n",
       2},
      {"  input x: f16[M, 3, 3, N]\n  f = cast(x, dtype=f32)\n  w = exp(-sum(f * f, axes=[2]))\n"
       "  z = sum(w, axes=[1])\n  r = w / z[:, None]\n  output r\n",
       3},
  };
  testing::Part part;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    const std::string text =
        absl::StrCat("fusion small {\n  symbol M\n  symbol N\n", c.body, "}\n");
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_TRUE(shape->unrolls);
    EXPECT_FALSE(shape->crossed());
    EXPECT_EQ(shape->order.size(), c.axes);
    const absl::StatusOr<SegmentedFusion> segmented = Segment(*group, RealGuard());
    ASSERT_TRUE(segmented.ok()) << segmented.status();
    EXPECT_EQ(segmented->groups().size(), 1);
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {5, 33}, {70, 136}}) {
      if (part.TakesNext()) ExpectRight(text, {.sizes = {{"M", m}, {"N", n}}});
    }
  }
}

// Colors of pixels that become planes, and planes that become colors, are no rows; of more, or
// where all lie alike, they are.
TEST(UnrolledTest, ColorsThatLieAcross) {
  const auto text = [](int colors, const std::string& dtype, const std::string& body) {
    return absl::StrCat("fusion colors {\n  symbol M\n  symbol N\n  input x: ", dtype, "[2, M, N, ",
                        colors, "]\n  input p: ", dtype, "[2, ", colors,
                        ", M, N]\n  f = cast(x, dtype=f32)\n  g = cast(p, dtype=f32)\n", body,
                        "}\n");
  };
  const struct {
    const char* body;
    int colors;
    bool across;
  } cases[] = {
      {"  y = permute(f / sum(f, axes=[3], keepdims=true), axes=[0, 3, 1, 2])\n  output y\n", 3,
       true},
      {"  y = permute(g - amax(g, axes=[1], keepdims=true), axes=[0, 2, 3, 1])\n  output y\n", 2,
       true},
      {"  y = amax(f, axes=[3]) - amin(f, axes=[3])\n  output y\n", 3, true},
      {"  a = amax(f, axes=[3])\n  b = amin(f, axes=[3])\n"
       "  y = cast(cat(a[:, None], b[:, None], (a - b)[:, None], axis=1), dtype=f16)\n  output y\n",
       3, true},
      {"  y = f / sum(f, axes=[3], keepdims=true)\n  output y\n", 3, false},
      {"  input z: f16[M, 900]\n  input q: f32[3, M]\n"
       "  y = cast(z, dtype=f32) * rsqrt(1.0 + sum(q * q, axes=[0]))[:, None]\n  output y\n",
       3, false},
      {"  y = permute(f / sum(f, axes=[3], keepdims=true), axes=[0, 3, 1, 2])\n  output y\n", 4,
       false},
  };
  testing::Part part;
  for (const auto& c : cases) {
    for (const char* dtype : {"u8", "f16", "f32"}) {
      SCOPED_TRACE(c.body);
      const std::string graph = text(c.colors, dtype, c.body);
      const absl::StatusOr<Fusion> group = ParseFusion(graph);
      ASSERT_TRUE(group.ok()) << group.status();
      const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
      ASSERT_TRUE(shape.ok()) << shape.status();
      EXPECT_EQ(shape->reduces, !c.across);
      for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {5, 33}, {16, 24}, {0, 8}}) {
        if (part.TakesNext()) ExpectRight(graph, {.sizes = {{"M", m}, {"N", n}}});
      }
    }
  }
}

// What rows fold with these axes stays a reduction, and what is large.
TEST(UnrolledTest, WhichOnes) {
  const struct {
    const char* body;
    int k, unrolled;
  } cases[] = {
      {"s = sum(f, axes=[1])", 16, 1},
      {"s = sum(f, axes=[1])", 17, 0},
      {"p = softmax(a, axis=1)\n  s = sum(f * p[:, :, None], axes=[1])", 4, 3},
      {"r = rms_norm(f, axes=[2])\n  s = sum(r, axes=[1])", 4, 0},
      {"i = argmax(f, axis=1)\n  s = sum(f, axes=[1]) * cast(i, dtype=f32)", 4, 0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    const absl::StatusOr<Fusion> group = ParseFusion(Text(c.k, c.body));
    ASSERT_TRUE(group.ok()) << group.status();
    const AxisMap axes = AxisMap::Build(*group);
    std::vector<ExprId> reductions;
    for (uint32_t i = 0; i < group->num_exprs(); ++i) {
      if (IsReduction(group->info(ExprId(i)).op_class)) reductions.push_back(ExprId(i));
    }
    EXPECT_EQ(FindUnrolled(*group, axes, reductions).size(), static_cast<size_t>(c.unrolled));
  }
}

}  // namespace
}  // namespace seam
