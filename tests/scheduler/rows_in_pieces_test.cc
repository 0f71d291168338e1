// Rows that lie in pieces, a channel of all images for example, brought to shared memory ahead: a
// copy for each piece that a CTA has a part of, right wherever its columns begin and end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/choose.h"
#include "scheduler/kernel/rows_ahead.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupResult;
using ::testing::HasSubstr;
using ::testing::Not;

// Each channel over all images, as batch norm has it, whose pixels are `pixels`; `other` is a
// second input that is read again.
std::string Channels(const std::string& dtype, const std::string& pixels = "P") {
  return absl::StrCat(R"(fusion channels {
  symbol N
  symbol C
  symbol P
  input x: )",
                      dtype, "[N, C, ", pixels, R"(]
  input other: )",
                      dtype, "[N, C, ", pixels, R"(]
  input weight: f32[C]
  xf = cast(x, dtype=f32)
  of = cast(other, dtype=f32)
  a = sum(xf * of, axes=[0, 2])
  y = cast((xf - a[None, :, None]) * weight[None, :, None] + of, dtype=)",
                      dtype, R"()
  output y
  output a
}
)");
}

void Know(Schedule& s, const std::string& symbol, int64_t value) {
  std::erase_if(s.facts, [&](const SymbolFact& f) { return f.symbol == symbol; });
  s.facts.push_back({symbol, 1, value});
}

struct Lay {
  int cluster = 1, stages = 2, warps = 1, registers = 2, vector = 8;
  bool reread = false, tickets = false;
  int slices = 1, spare = 0;
};

std::function<void(Schedule&)> Laid(const Lay& lay, int64_t images, int64_t pixels) {
  return [=](Schedule& s) {
    s.persistent = true;
    s.outer = s.shift = s.blocks = s.runs = s.one_launch = false;
    s.split = s.neighbours = 1;
    s.held = s.pace = 0;
    s.vector = lay.vector;
    s.cluster = lay.cluster;
    s.grid = 2 * lay.cluster;
    s.stages = lay.stages;
    s.reread = lay.reread;
    s.tickets = lay.tickets;
    s.slices = lay.slices;
    s.spare = lay.spare;
    s.lanes_per_row = 32;
    s.warps_per_row = lay.warps;
    s.row_warps = 1;
    s.registers = lay.registers;
    Know(s, "N", images);
    Know(s, "P", pixels);
  };
}

// Pieces that a CTA's columns are a multiple of, a part of, and neither; the last CTA may have
// none.
TEST(RowsInPieces, WhereverACtaBegins) {
  testing::Part part;
  for (const std::string dtype : {"bf16", "f32"}) {
    const int64_t least = kernel::kLeastPieceBytes / (dtype == "f32" ? 4 : 2);
    for (const auto& [images, pixels] :
         {std::pair(1, 2 * least), std::pair(2, least), std::pair(3, least + 8),
          std::pair(4, least), std::pair(2, least + 1032)}) {
      for (const int cluster : {1, 2, 4}) {
        for (const bool reread : {false, true}) {
          for (const int stages : {1, 2}) {
            if (!part.TakesNext()) continue;
            Lay lay{.cluster = cluster, .stages = stages, .warps = 8, .reread = reread};
            lay.tickets = stages > 1 && reread;
            lay.vector = dtype == "f32" ? 4 : 8;
            const int64_t threads = 32 * lay.warps * cluster;
            lay.registers = static_cast<int>(CeilDivide(images * pixels, lay.vector * threads)) + 1;
            SCOPED_TRACE(absl::StrCat(dtype, " ", images, " x ", pixels, ", clusters of ", cluster,
                                      ", ", stages, " stages"));
            const GroupResult result =
                ExpectRight(Channels(dtype), {.sizes = {{"N", images}, {"C", 5}, {"P", pixels}},
                                              .edit = Laid(lay, images, pixels)});
            EXPECT_THAT(result.kernel_text, HasSubstr("await copies"));
            if (!reread || lay.registers % 2 != 0) continue;
            lay.tickets = false;
            lay.slices = 2;
            lay.spare = stages - 1;
            ExpectRight(Channels(dtype), {.sizes = {{"N", images}, {"C", 5}, {"P", pixels}},
                                          .edit = Laid(lay, images, pixels)});
          }
        }
      }
    }
  }
}

// Threads load pieces that are short, that do not begin at multiples of 16 bytes, or whose length
// the kernel does not know.
TEST(RowsInPieces, WhatThreadsLoad) {
  const auto text = [](int64_t pixels, bool know = true) {
    const auto edit = [=](Schedule& s) {
      Laid({.warps = 8, .registers = 32, .vector = 1}, 2, pixels)(s);
      if (!know) std::erase_if(s.facts, [](const SymbolFact& f) { return f.symbol == "P"; });
    };
    return ExpectRight(Channels("bf16"),
                       {.sizes = {{"N", 2}, {"C", 5}, {"P", pixels}}, .edit = edit})
        .kernel_text;
  };
  EXPECT_THAT(text(3080), HasSubstr("await copies"));
  EXPECT_THAT(text(3064), Not(HasSubstr("await copies")));
  EXPECT_THAT(text(3081), Not(HasSubstr("await copies")));
  EXPECT_THAT(text(3080, false), Not(HasSubstr("await copies")));
}

// A part of each image is a piece of a row, if it begins at a multiple of 16 bytes.
TEST(RowsInPieces, APartOfEachImage) {
  const auto text = [](const char* part) {
    const auto edit = Laid({.warps = 8, .registers = 32, .vector = 1}, 2, 4096);
    return ExpectRight(absl::StrCat("fusion part {\n  symbol N\n  symbol C\n  symbol P\n",
                                    "  input x: bf16[N, C, P]\n  xf = cast(x[:, :, ", part,
                                    "], dtype=f32)\n  a = sum(xf, axes=[0, 2])\n",
                                    "  y = xf - a[None, :, None]\n  output y\n}\n"),
                       {.sizes = {{"N", 2}, {"C", 5}, {"P", 4096}}, .edit = edit})
        .kernel_text;
  };
  EXPECT_THAT(text("8:3848"), HasSubstr("await copies"));
  EXPECT_THAT(text("4:3844"), Not(HasSubstr("await copies")));
}

// Inputs of which copies bring some: shared memory is counted for as many as the kernel has
// brought.
TEST(RowsInPieces, SharedMemoryIsCounted) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion backward {
  symbol B
  symbol T
  symbol H
  symbol D
  input x: f32[B, T, H, D]
  input g0: f32[B, H, T, D]
  input h0: f32[B, H, T, D]
  g = permute(g0, axes=[0, 2, 1, 3])
  h = permute(h0, axes=[0, 2, 1, 3])
  a = sum(x * (g + h), axes=[2, 3])
  y = (x - a[:, :, None, None]) * h + g
  dw = sum(x * (g + h), axes=[0, 1])
  db = sum(g + h, axes=[0, 1])
  output y
  output dw
  output db
}
)");
  ASSERT_TRUE(group.ok()) << group.status();
  bool ahead = false;
  for (const char* device : {"h200", "sm_120a"}) {
    for (const auto& [heads, width] : {std::pair(64, 256), std::pair(16, 1024), std::pair(8, 2048),
                                       std::pair(4, 1536), std::pair(2, 2048)}) {
      const ScheduleContext context{.sizes = {8, 512, heads, width}, .device = *FindDevice(device)};
      const absl::StatusOr<LaunchPlan> plan =
          ScheduleGroup(*group, SchedulerKind::kReduction, context);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ahead |= plan->schedule.stages > 0;
      for (const KernelLaunch& launch : plan->launches) {
        const int ctas = std::max(1, plan->schedule.min_ctas_per_sm);
        EXPECT_LE(launch.kernel.SharedBytes() * ctas, context.device.smem_bytes_per_cta)
            << device << " " << heads << " x " << width << ": " << plan->schedule.ToString();
      }
    }
  }
  EXPECT_TRUE(ahead);
}

// The heuristic has copies bring long pieces to clusters, and threads load short ones.
TEST(RowsInPieces, AreChosenWhereTheyAreLong) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion channels {
  symbol N
  symbol C
  symbol P
  input x: bf16[N, C, P]
  mean, m2, count = welford(cast(x, dtype=f32), axes=[0, 2])
  y = cast((cast(x, dtype=f32) - mean[None, :, None]) * rsqrt(m2 / count + 1e-5)[None, :, None], dtype=bf16)
  output y
}
)");
  ASSERT_TRUE(group.ok()) << group.status();
  const auto chosen = [&](const char* device, int64_t images, int64_t channels, int64_t pixels) {
    const ScheduleContext context{.sizes = {images, channels, pixels},
                                  .device = *FindDevice(device)};
    return *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  };
  const Schedule long_pieces = chosen("sm_90a", 64, 256, 3136);
  EXPECT_EQ(long_pieces.stages, 2) << long_pieces.ToString();
  EXPECT_EQ(long_pieces.cluster, 16);
  const Schedule short_pieces = chosen("sm_90a", 256, 256, 784);
  EXPECT_EQ(short_pieces.stages, 0) << short_pieces.ToString();
  EXPECT_GT(short_pieces.cluster, 1);
  EXPECT_EQ(chosen("sm_80", 64, 256, 3136).stages, 0);
}

}  // namespace
}  // namespace seam
