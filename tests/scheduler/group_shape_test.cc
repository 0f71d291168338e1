// Along which axes of a group its tensors lie in memory, where views change these axes.
#include "scheduler/group_shape.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/schedulers.h"
#include "tests/support/expect_right.h"

namespace seam {
namespace {

using testing::ExpectRight;

struct Case {
  const char* what;
  const char* input;
  const char* body;  // Makes f, rows of f32, of x.
};

const Case kCases[] = {
    {"slice", "f16[M, 3*N]", "f = cast(x[:, N:2*N], dtype=f32)"},
    {"slices", "f16[M, 2*N]", "a = cast(x, dtype=f32)\n  f = a[:, 0:N] * a[:, N:2*N]"},
    {"slice of a slice", "f16[M, 4*N]", "a = x[:, 0:2*N]\n  f = cast(a[:, N:2*N], dtype=f32)"},
    {"pad", "f16[M, N-8]", "f = cast(pad(x, before=[0, 8], after=[0, 0]), dtype=f32)"},
    {"flip", "f16[M, N]", "f = cast(flip(x, axes=[1]), dtype=f32)"},
    {"cat", "f16[M, N]", "f = cast(cat(x, x, axis=1), dtype=f32)"},
    {"parts of a slice", "f16[M, 2*N]",
     "a = reshape(x[:, 0:N], sizes=[M, N//8, 8])\n"
     "  f = cast(reshape(a, sizes=[M, N]), dtype=f32)"},
};

std::string Text(const Case& c, int axis) {
  return absl::StrCat("fusion part {\n  symbol M\n  symbol N in [16, 65536]\n  input x: ", c.input,
                      "\n  ", c.body, "\n  s = sum(f, axes=[", axis,
                      "], keepdims=true)\n  y = cast(f - s, dtype=f16)\n  output y\n}\n");
}

// Whichever way they are read, columns are neighbours: of rows that are folded, of rows that are
// not.
TEST(GroupShapeTest, ViewsLieAlongWhatTheyBecome) {
  for (const Case& c : kCases) {
    for (const int axis : {0, 1}) {
      SCOPED_TRACE(absl::StrCat(c.what, ", ", axis));
      const absl::StatusOr<Fusion> group = ParseFusion(Text(c, axis));
      ASSERT_TRUE(group.ok()) << group.status();
      const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
      ASSERT_TRUE(shape.ok()) << shape.status();
      EXPECT_EQ(shape->outer, axis == 0);
    }
  }
}

TEST(GroupShapeTest, PartsAreReadInVectors) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const absl::StatusOr<Fusion> group = ParseFusion(Text(c, 1));
    ASSERT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {32768, 2048}, .device = *FindDevice("h200")};
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->vector, 8) << s->ToString();
    const bool of_eights = std::string(c.what) == "parts of a slice";
    for (const int64_t n : {16, 72, of_eights ? 1032 : 1026}) {
      ExpectRight(Text(c, 1), {.sizes = {{"M", 5}, {"N", n}}});
      ExpectRight(Text(c, 0), {.sizes = {{"M", 37}, {"N", n}}});
    }
  }
}

// A tensor that is read as a whole as well lies along its own axis.
TEST(GroupShapeTest, WhatIsReadWholeLiesAlongItsOwnAxis) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion both {
  symbol M
  symbol N
  input x: f32[M, 2*N]
  s = sum(x, axes=[1], keepdims=true)
  y = x * s
  output y
})");
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_TRUE(shape->lies_along.empty());
}

// Halves of each head change places behind a norm of all heads: what the result has in place of the
// axis that is folded lies where that does, of queries and of fewer keys.
TEST(GroupShapeTest, OtherAxesOfResultsLieWhereTheyHaveThem) {
  const std::string text = R"(fusion heads {
  symbol T in [1, 65536]
  input x: bf16[T, 640]
  q = cast(x[:, 0:512], dtype=f32)
  k = cast(x[:, 512:640], dtype=f32)
  nq = reshape(q / sum(q * q, axes=[1], keepdims=true), sizes=[T, 8, 64])
  nk = reshape(k / sum(k * k, axes=[1], keepdims=true), sizes=[T, 2, 64])
  yq = cast(cat(nq[..., 32:64], nq[..., 0:32], axis=2), dtype=bf16)
  yk = cast(cat(nk[..., 32:64], nk[..., 0:32], axis=2), dtype=bf16)
  output yq
  output yk
})";
  const absl::StatusOr<Fusion> group = ParseFusion(text);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
  ASSERT_TRUE(shape.ok()) << shape.status();
  for (ValId v : group->outputs()) {
    std::vector<size_t> places;
    for (int d = 0; d < group->rank(v); ++d) {
      for (AxisId a : shape->axes.atoms(v, d))
        places.push_back(absl::c_find(shape->order, a) - shape->order.begin());
    }
    EXPECT_EQ(places.size(), 3);
    EXPECT_LT(places[1], places[2]) << group->name(v);
  }
  const ScheduleContext context{.sizes = {8192}, .device = *FindDevice("h200")};
  const absl::StatusOr<Schedule> s =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(s->vector, 8) << s->ToString();
  for (const int64_t t : {1, 7}) ExpectRight(text, {.sizes = {{"T", t}}});
}

// Rows that read the same of a large input are neighbours, wherever the axis that it lacks stands.
TEST(GroupShapeTest, RowsThatShareWhatTheyReadAreNeighbours) {
  for (const char* const sum :
       {"input w: f32[4, 96]\n  o = sum(cast(x, dtype=f32)[:, None] * w, axes=[2])",
        "input w: f32[96, 4]\n  o = sum(cast(x, dtype=f32)[:, :, None] * w, axes=[1])"}) {
    const std::string text =
        absl::StrCat("fusion heads {\n  symbol M in [1, 65536]\n  input x: bf16[M, 96]\n  ", sum,
                     "\n  output o\n}");
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    ASSERT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
    ASSERT_TRUE(shape.ok()) << shape.status();
    std::vector<AxisId> rows;
    for (int d : {0, 1}) {
      for (AxisId a : shape->axes.atoms(group->outputs()[0], d)) rows.push_back(a);
    }
    EXPECT_EQ(shape->rows, rows) << text;
    for (const int64_t m : {1, 7}) ExpectRight(text, {.sizes = {{"M", m}}});
  }
}

// What lies beside each other does so whatever is known of the extents, also where none may be.
TEST(GroupShapeTest, MemoryOrderOfAnyExtents) {
  for (const char* range : {"", " in [0, 4096]", " in [1, 4096]", " in [2, 4096]"}) {
    const absl::StatusOr<Fusion> group = ParseFusion(absl::StrReplaceAll(R"(fusion channels_last {
  symbol N?
  symbol C?
  symbol H?
  symbol W?
  input x: f16[N, C, H, W] order [0, 2, 3, 1]
  s = sum(cast(x, dtype=f32), axes=[2, 3], keepdims=true)
  y = cast(cast(x, dtype=f32) * s, dtype=f16)
  output y order [0, 2, 3, 1]
})",
                                                                         {{"?", range}}));
    ASSERT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_TRUE(shape->outer) << range;
    ASSERT_EQ(shape->order.size(), 4) << range;
    EXPECT_TRUE(absl::c_linear_search(shape->rows, shape->order.back())) << range;
  }
}

}  // namespace
}  // namespace seam
