// Neighbours become one access where that is proven, and only where nothing comes between.
#include "scheduler/kernel/wide_accesses.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "ir/text/parser.h"
#include "scheduler/scheduler.h"
#include "tests/support/count_of.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sample_kernels.h"

namespace seam::testing {
namespace {

using kernel::Block;
using kernel::CtaSync;
using kernel::Load;
using kernel::Space;
using kernel::Store;

// Loads elements of x to f, and stores elements of f to y.
struct Draft {
  explicit Draft(DType dtype, int alignment_bytes = 16, SymInt elements = 1 << 20)
      : d("neighbours") {
    x = d.Buffer("x", dtype, elements, false, alignment_bytes);
    y = d.Buffer("y", dtype, elements, true, alignment_bytes);
    f = d.Fragment("f", dtype, 16);
  }

  void LoadFrom(SymInt index, int slot, SymInt predicate = 1) {
    Load load{f, slot, 1, Space::Global, x, index};
    load.predicate = predicate;
    Emit(&d.k.body, load);
  }
  void StoreTo(SymInt index, int slot) {
    Emit(&d.k.body, Store{f, slot, 1, Space::Global, y, index});
  }

  // The statements, one a line, without what was declared before them.
  std::string Widened() {
    kernel::WidenAccesses(d.k);
    EXPECT_TRUE(VerifyKernel(d.k).ok()) << VerifyKernel(d.k);
    const std::string text = PrintKernel(d.k);
    return text.substr(text.find("   0: "));
  }

  KernelDraft d;
  int x, y, f;
};

TEST(WideAccesses, NeighboursFromAMultipleOfTheWidth) {
  Draft d(DType::F32);
  for (int i = 0; i < 6; ++i) d.LoadFrom(8 * d.d.thread + i - 1, i);
  EXPECT_EQ(d.Widened(),
            "   0: f[0] = load x[8*thread - 1]\n"
            "   1: wide[0 :+4] = load x[8*thread :+4]\n"
            "   2: f[1] = copy(wide[0])\n"
            "   3: f[2] = copy(wide[1])\n"
            "   4: f[3] = copy(wide[2])\n"
            "   5: f[4] = copy(wide[3])\n"
            "   6: f[5] = load x[8*thread + 4]\n");
}

TEST(WideAccesses, StoresComeWithTheLastOne) {
  Draft d(DType::BF16);
  d.StoreTo(2 * d.d.thread, 3);
  d.LoadFrom(d.d.thread, 3);  // Not what is stored.
  d.StoreTo(2 * d.d.thread + 1, 4);
  EXPECT_EQ(d.Widened(),
            "   0: wide[0] = copy(f[3])\n"
            "   1: f[3] = load x[thread]\n"
            "   2: wide[1] = copy(f[4])\n"
            "   3: store y[2*thread :+2] = wide[0 :+2]\n");
}

TEST(WideAccesses, NoWiderThanWhatIsKnown) {
  // 16 bytes; what the base is aligned to; what divides the index.
  for (const auto& [dtype, alignment, factor, width] : {std::tuple(DType::BF16, 16, 16, 8),
                                                        {DType::BF16, 8, 16, 4},
                                                        {DType::BF16, 16, 6, 2},
                                                        {DType::U8, 16, 16, 16},
                                                        {DType::F64, 16, 4, 2},
                                                        {DType::F32, 4, 16, 1}}) {
    Draft d(dtype, alignment);
    for (int i = 0; i < 16; ++i) d.LoadFrom(factor * d.d.thread + i, i);
    const std::string text = d.Widened();
    EXPECT_EQ(CountOf(text, " = load x["), 16 / width) << text;
  }
}

TEST(WideAccesses, LoadsOfHalfBringTheRestIfItIsThere) {
  for (const int elements : {1024, 1022}) {
    Draft d(DType::F32, 16, elements);
    d.LoadFrom(4 * d.d.thread, 0);
    d.LoadFrom(4 * d.d.thread + 2, 1);
    EXPECT_EQ(NumLoads(d.Widened(), "x"), elements == 1024 ? 1 : 2);
  }
  // Stores write nothing else.
  Draft d(DType::F32);
  d.StoreTo(4 * d.d.thread, 0);
  d.StoreTo(4 * d.d.thread + 2, 1);
  EXPECT_EQ(CountOf(d.Widened(), "store y["), 2);
}

TEST(WideAccesses, WantedInTheSameCase) {
  Draft d(DType::F32);
  d.LoadFrom(2 * d.d.thread, 0, SymLt(d.d.thread, 7));
  d.LoadFrom(2 * d.d.thread + 1, 1, SymLt(d.d.thread, 8));
  EXPECT_EQ(NumLoads(d.Widened(), "x"), 2);
  Draft same(DType::F32);
  for (int i = 0; i < 2; ++i) same.LoadFrom(2 * same.d.thread + i, i, SymLt(same.d.thread, 7));
  EXPECT_EQ(NumLoads(same.Widened(), "x"), 1);
}

TEST(WideAccesses, NotAcrossABarrier) {
  Draft d(DType::F32);
  d.LoadFrom(2 * d.d.thread, 0);
  d.StoreTo(2 * d.d.thread, 0);
  Emit(&d.d.k.body, CtaSync{});
  d.LoadFrom(2 * d.d.thread + 1, 1);
  d.StoreTo(2 * d.d.thread + 1, 1);
  const std::string text = d.Widened();
  EXPECT_EQ(NumLoads(text, "x"), 2);
  EXPECT_EQ(CountOf(text, "store y["), 2);
}

TEST(WideAccesses, WhatIsWrittenIsReadInItsTime) {
  Draft d(DType::F32);
  d.d.k.buffers[d.x].written = true;
  for (int i = 0; i < 2; ++i) d.LoadFrom(2 * d.d.thread + i, i);
  EXPECT_EQ(NumLoads(d.Widened(), "x"), 2);
  // Nor is a store behind such a load.
  Draft y(DType::F32);
  y.StoreTo(2 * y.d.thread, 0);
  Emit(&y.d.k.body, Load{y.f, 5, 1, Space::Global, y.y, 2 * y.d.thread});
  y.StoreTo(2 * y.d.thread + 1, 1);
  EXPECT_EQ(CountOf(y.Widened(), "store y["), 2);
}

TEST(WideAccesses, TwoStoresToAnElementKeepTheirOrder) {
  Draft d(DType::F32);
  d.StoreTo(2 * d.d.thread, 0);
  d.StoreTo(2 * d.d.thread + 1, 1);
  d.StoreTo(2 * d.d.thread, 2);
  EXPECT_EQ(CountOf(d.Widened(), "store y["), 3);
}

// Points along the axis in which memory runs.
GroupRun Points(std::map<std::string, int64_t> sizes, int points, int along) {
  return {.sizes = std::move(sizes), .edit = [=](Schedule& s) {
            s.vector = 1;
            s.points = points;
            s.along = along;
            for (const char* symbol : {"N", "W"}) s.facts.push_back({symbol, 8, -1});
          }};
}

constexpr char kTaps[] = R"(fusion taps {
  symbol N
  symbol W
  input x: f32[N, W]
  p = pad(x, before=[0, 1], after=[0, 1])
  y = cast(p[:, 0:W] + 2.0 * x + p[:, 2:W+2], dtype=bf16)
  output y
})";

TEST(WideAccesses, PointsThatReadNeighboursOfEachOther) {
  for (const int64_t w : {8, 24, 64}) {
    const GroupResult result = ExpectRight(kTaps, Points({{"N", 8}, {"W", w}}, 8, 1));
    EXPECT_EQ(NumLoads(result.kernel_text, "x"), 4)
        << result.kernel_text;  // Two of four, two ends.
    EXPECT_EQ(CountOf(result.kernel_text, "store y["), 1) << result.kernel_text;
  }
}

// Each result pairs two columns; an axis of two is the fastest, and the next has the other points.
constexpr char kPairs[] = R"(fusion pairs {
  symbol N
  symbol W
  input x: bf16[N, 2*W]
  input c: f32[W]
  a = cast(x[:, 0:2*W:2], dtype=f32)
  b = cast(x[:, 1:2*W:2], dtype=f32)
  y = cast(reshape(cat((a * c - b)[..., None], (b * c + a)[..., None], axis=2), sizes=[N, 2*W]), dtype=bf16)
  output y
})";

TEST(WideAccesses, PointsOfSeveralAxes) {
  for (const int points : {2, 4, 8, 16}) {
    const GroupResult result = ExpectRight(kPairs, Points({{"N", 8}, {"W", 24}}, points, 2));
    EXPECT_EQ(NumLoads(result.kernel_text, "x"), points <= 8 ? 1 : 2) << result.kernel_text;
    EXPECT_EQ(CountOf(result.kernel_text, "store y["), points <= 8 ? 1 : 2);
  }
  GroupRun odd = Points({{"N", 8}, {"W", 7}}, 4, 2);
  odd.edit = [](Schedule& s) {
    s.vector = 1;
    s.points = 4;
    s.along = 2;
  };
  const GroupResult refused = RunGroupText(kPairs, odd);
  EXPECT_NE(refused.status.message().find("threads have 2 points each along an axis"),
            std::string::npos)
      << refused.status;
}

// Channels that lie last, and in front in the result.
constexpr char kImages[] = R"(fusion images {
  symbol N
  symbol H
  symbol W
  input x: u8[N, H, W, 3]
  input m: f32[3]
  y = cast(permute(cast(x, dtype=f32) - m, axes=[0, 3, 1, 2]), dtype=f16)
  output y
})";

TEST(WideAccesses, AllChannelsOfSeveralPixels) {
  for (const int points : {1, 2, 4, 8}) {
    GroupRun run{.sizes = {{"N", 2}, {"H", 3}, {"W", 24}}};
    run.edit = [=](Schedule& s) {
      s = Schedule{.kind = SchedulerKind::kPointwise, .outer = true};
      s.points = points;
      s.along = 3;
      s.beside = 1;
      s.beside_points = 3;
      s.alignment_bytes = 16;
      s.facts.push_back({"W", 8, -1});
    };
    const GroupResult result = ExpectRight(kImages, run);
    EXPECT_EQ(NumLoads(result.kernel_text, "m"), 2);  // Of two, and of one.
    EXPECT_EQ(NumLoads(result.kernel_text, "x"), 3) << result.kernel_text;
    EXPECT_EQ(CountOf(result.kernel_text, "store y["), 3) << result.kernel_text;
  }
}

TEST(WideAccesses, PointsThatDoNotDivideTheirAxis) {
  GroupRun run{.sizes = {{"N", 2}, {"H", 3}, {"W", 24}}};
  run.edit = [](Schedule& s) {
    s = Schedule{.kind = SchedulerKind::kPointwise, .outer = true};
    s.along = 3;
    s.beside = 2;
    s.beside_points = 2;
  };
  const GroupResult result = RunGroupText(kImages, run);
  EXPECT_NE(result.status.message().find("threads have 2 points each along an axis"),
            std::string::npos)
      << result.status;
  run.edit = [edit = run.edit](Schedule& s) {
    edit(s);
    s.uneven = true;
  };
  ExpectRight(kImages, run);
}

TEST(WideAccesses, ImagesWhoseChannelsMoveAreChosenSo) {
  ScheduleContext context;
  context.alignment_bytes = 16;
  context.device = *FindDevice("h100");
  context.sizes = {64, 224, 224};
  const Fusion images = *ParseFusion(kImages);
  const absl::StatusOr<Schedule> even =
      FindScheduler(SchedulerKind::kPointwise)->choose(images, context);
  ASSERT_TRUE(even.ok()) << even.status();
  EXPECT_EQ(even->beside, 1) << even->ToString();
  EXPECT_EQ(even->points, 8) << even->ToString();
  context.sizes = {64, 224, 223};
  const absl::StatusOr<Schedule> odd =
      FindScheduler(SchedulerKind::kPointwise)->choose(images, context);
  ASSERT_TRUE(odd.ok()) << odd.status();
  EXPECT_EQ(odd->points, 1) << odd->ToString();
}

// Points along one axis are far from each other in a tensor that lies across: tiles have both.
TEST(WideAccesses, NotOfTensorsThatLieAcross) {
  ScheduleContext context;
  context.alignment_bytes = 16;
  context.device = *FindDevice("h100");
  const Fusion group = *ParseFusion(R"(fusion across {
  symbol N
  symbol M
  input x: f32[N, M]
  input y: f32[M, N]
  z = permute(x, axes=[1, 0]) + y
  output z
})");
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{8192, 8192}, {8190, 8192}, {1024, 1 << 20}}) {
    context.sizes = sizes;
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kPointwise)->choose(group, context);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_TRUE(s->tiles) << s->ToString();
    EXPECT_EQ(s->points, 1) << s->ToString();
  }
}

}  // namespace
}  // namespace seam::testing
