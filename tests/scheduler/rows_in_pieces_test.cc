// Rows that lie in pieces, a channel of all images for example, brought to shared memory ahead: a
// copy for each piece that a CTA has a part of, right wherever its columns begin and end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/choose.h"
#include "scheduler/kept_rows.h"
#include "tests/support/expect_right.h"

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
  const struct {
    int64_t images, pixels;
  } sizes[] = {{1, 512}, {4, 128}, {3, 152}, {7, 64}, {2, 88}, {5, 96}, {16, 32}};
  for (const std::string dtype : {"bf16", "f32"}) {
    for (const auto& [images, pixels] : sizes) {
      for (const int cluster : {1, 2, 4}) {
        for (const bool reread : {false, true}) {
          for (const int stages : {1, 2, 3}) {
            Lay lay{.cluster = cluster, .stages = stages, .reread = reread};
            lay.tickets = stages > 1 && reread;
            lay.vector = dtype == "f32" ? 4 : 8;
            const int64_t vectors = images * pixels / lay.vector / cluster + 1;
            lay.registers = static_cast<int>(vectors / 32 + 1);
            SCOPED_TRACE(absl::StrCat(dtype, " ", images, " x ", pixels, ", clusters of ", cluster,
                                      ", ", stages, " stages"));
            const GroupResult result =
                ExpectRight(Channels(dtype), {.sizes = {{"N", images}, {"C", 7}, {"P", pixels}},
                                              .edit = Laid(lay, images, pixels)});
            EXPECT_THAT(result.kernel_text, HasSubstr("await copies"));
          }
        }
      }
    }
  }
}

// Threads load pieces that do not begin at multiples of 16 bytes, that are too many for one thread
// to start copies of, or whose length the kernel does not know.
TEST(RowsInPieces, WhatThreadsLoad) {
  const auto text = [](int64_t images, int64_t pixels, bool know = true) {
    const auto edit = [=](Schedule& s) {
      Laid({.registers = 16, .vector = 1}, images, pixels)(s);
      if (!know) std::erase_if(s.facts, [](const SymbolFact& f) { return f.symbol == "P"; });
    };
    return ExpectRight(Channels("bf16"),
                       {.sizes = {{"N", images}, {"C", 5}, {"P", pixels}}, .edit = edit})
        .kernel_text;
  };
  EXPECT_THAT(text(8, 56), HasSubstr("await copies"));
  EXPECT_THAT(text(8, 49), Not(HasSubstr("await copies")));
  EXPECT_THAT(text(64, 8), Not(HasSubstr("await copies")));
  EXPECT_THAT(text(8, 56, false), Not(HasSubstr("await copies")));
}

// What ends inside a piece is no multiple of anything that is known.
TEST(RowsInPieces, APartOfEachImage) {
  const auto edit = Laid({.registers = 4}, 6, 128);
  const std::string text = R"(fusion part {
  symbol N
  symbol C
  symbol P
  input x: bf16[N, C, P]
  xf = cast(x[:, :, 8:72], dtype=f32)
  a = sum(xf, axes=[0, 2])
  y = xf - a[None, :, None]
  output y
}
)";
  ExpectRight(text, {.sizes = {{"N", 6}, {"C", 7}, {"P", 128}}, .edit = edit});
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
