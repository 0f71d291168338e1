// Rows that go through shared memory in blocks: right at every length, type and arrangement, and
// only where they lie as blocks.
#include "scheduler/kernel/row_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "ir/text/parser.h"
#include "tests/support/count_of.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"

namespace seam {
namespace {

using testing::CountOf;
using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::NormBackward;
using ::testing::Not;
using testing::RunGroupText;

// A layer norm from elementwise operations, of a sum that is an output too.
std::string ResidualNorm(const std::string& dtype) {
  const std::string wide = dtype == "f64" ? "f64" : "f32";
  return absl::StrCat("fusion norm {\n  symbol M\n  symbol N\n  input x: ", dtype,
                      "[M, N]\n  input residual: ", dtype, "[M, N]\n  input w: ", wide,
                      R"([N]
  sum0 = x + residual
  h = cast(sum0, dtype=)",
                      wide, R"()
  n = size(sizes=[N], dtype=)",
                      wide, R"()
  mean = sum(h, axes=[1]) / n
  d = h - mean[:, None]
  rstd = rsqrt(sum(d * d, axes=[1]) / n + 1e-3)
  y = cast(d * rstd[:, None] * w, dtype=)",
                      dtype, R"()
  output sum0
  output y
  output mean
})");
}

// As many lanes and warps of rows as that, a row whole; the length a constant or a parameter.
auto InBlocks(int64_t columns, int lanes, int row_warps, bool pinned = true) {
  return [=](Schedule& s) {
    s.blocks = s.persistent = true;
    s.shift = s.reread = s.tickets = s.outer = s.async = false;
    s.stages = 0;
    s.split = s.cluster = s.warps_per_row = s.vector = s.neighbours = 1;
    s.lanes_per_row = lanes;
    s.row_warps = row_warps;
    s.registers = static_cast<int>((columns + lanes - 1) / lanes);
    s.facts.clear();
    if (pinned) s.facts.push_back({"N", 1, columns});
  };
}

TEST(RowBlocks, EveryTypeAndLength) {
  for (const std::string dtype : {"f64", "f32", "f16", "bf16", "f8e4m3"}) {
    for (int64_t n : {2, 3, 7, 33, 49, 129, 196}) {
      // A block has 64 rows: none, one, a whole block, two and a bit.
      for (int64_t m : {0, 1, 64, 131}) {
        const bool pinned = (n + m) % 2 == 0, async = (n + m) % 3 == 0;
        const auto edit = [&](Schedule& s) {
          InBlocks(n, 4, 8, pinned)(s);
          s.async = async;
          if (m == 0) s.facts.push_back({"M", 1, 0});
        };
        const GroupResult result =
            ExpectRight(ResidualNorm(dtype), {.sizes = {{"M", m}, {"N", n}}, .edit = edit});
        EXPECT_EQ(m > 0, absl::StrContains(result.kernel_text, "load shared.rows_")) << dtype << n;
        EXPECT_EQ(m > 0 && async, absl::StrContains(result.kernel_text, "await loads"));
      }
    }
  }
}

TEST(RowBlocks, IntegersAndBooleans) {
  for (const std::string dtype : {"i64", "i32", "i16", "i8", "u8"}) {
    const std::string text = absl::StrCat("fusion f {\n  symbol M\n  symbol N\n  input x: ", dtype,
                                          R"([M, N]
  most = amax(x, axes=[1])
  is_most = x == most[:, None]
  y = minimum(x, most[:, None])
  output y
  output is_most
})");
    for (int64_t m : {1, 67}) {
      const GroupResult result =
          ExpectRight(text, {.sizes = {{"M", m}, {"N", 7}}, .edit = InBlocks(7, 2, 2)});
      EXPECT_THAT(result.kernel_text, HasSubstr("store shared.rows_"));
    }
  }
}

TEST(RowBlocks, EveryShareOfARow) {
  for (int lanes : {1, 2, 8, 32}) {
    for (int row_warps : {8, 24}) {
      for (int64_t m : {5, 300}) {
        for (const bool chan_welford : {false, true}) {
          const auto edit = [&](Schedule& s) {
            InBlocks(49, lanes, row_warps)(s);
            s.chan_welford = chan_welford;
          };
          ExpectRight(ResidualNorm("bf16"), {.sizes = {{"M", m}, {"N", 49}}, .edit = edit});
        }
      }
    }
  }
}

// Several warps a row, which exchange states through shared memory besides, and vectors of a few
// elements.
TEST(RowBlocks, WarpsAndNarrowVectors) {
  for (int warps : {1, 3}) {
    const auto edit = [&](Schedule& s) {
      InBlocks(196, 32, 2)(s);
      s.vector = 4;
      s.warps_per_row = warps;
      s.registers = warps == 1 ? 2 : 1;
    };
    const GroupResult result =
        ExpectRight(ResidualNorm("f16"), {.sizes = {{"M", 13}, {"N", 196}}, .edit = edit});
    EXPECT_THAT(result.kernel_text, HasSubstr("load shared.rows_"));
  }
}

// As the heuristic has it, of rows whose vectors are pairs.
TEST(RowBlocks, Pairs) {
  const GroupResult result = ExpectRight(ResidualNorm("bf16"), {.sizes = {{"M", 4230}, {"N", 50}}});
  EXPECT_TRUE(result.schedule.blocks);
  EXPECT_EQ(result.schedule.vector, 2);
  EXPECT_THAT(result.kernel_text, HasSubstr(":+2] = load shared.rows_"));
}

TEST(RowBlocks, InTurnWithStatesOfColumnsAndRows) {
  for (const std::string dtype : {"bf16", "f32"}) {
    for (int64_t m : {1, 40, 131}) {
      for (int64_t n : {7, 49}) {
        const auto edit = [&](Schedule& s) {
          InBlocks(n, 4, 4)(s);
          s.grid = 3;
          s.async = m == 40;
        };
        const GroupResult result =
            ExpectRight(NormBackward(dtype), {.sizes = {{"M", m}, {"N", n}}, .edit = edit});
        EXPECT_THAT(result.kernel_text, HasSubstr("store shared.rows_"));
      }
    }
  }
}

// Copies bring blocks of unaligned rows if all of them are multiples of 16 bytes.
TEST(RowBlocks, BroughtAhead) {
  for (const bool reread : {false, true}) {
    for (const bool tickets : {false, true}) {
      for (int64_t m : {8, 64, 200}) {
        const auto edit = [&](Schedule& s) {
          InBlocks(33, 4, 2)(s);
          s.grid = 3;
          s.stages = 2;
          s.reread = reread;
          s.tickets = tickets;
          s.facts.push_back({"M", 8});
        };
        const GroupResult result =
            ExpectRight(NormBackward("bf16"), {.sizes = {{"M", m}, {"N", 33}}, .edit = edit});
        EXPECT_EQ(CountOf(result.kernel_text, "copy shared."), 2 * 3);
        EXPECT_THAT(result.kernel_text, HasSubstr("store shared.rows_"));
      }
    }
  }
}

TEST(RowBlocks, TheSameBitsInEveryOrderOfCtas) {
  const auto edit = [](Schedule& s) {
    InBlocks(33, 4, 4)(s);
    s.grid = 5;
  };
  std::vector<HostTensor> first;
  for (uint64_t order : {0, 1, 2, 3}) {
    GroupResult result = ExpectRight(
        NormBackward("bf16"), {.sizes = {{"M", 300}, {"N", 33}}, .order = order, .edit = edit});
    if (first.empty()) first = std::move(result.outputs);
    for (size_t i = 0; i < result.outputs.size(); ++i)
      EXPECT_EQ(result.outputs[i].data, first[i].data) << "output " << i << ", order " << order;
  }
  EXPECT_EQ(first.size(), 2u);
}

// A channel of all images: its pieces lie apart, each beside those of the next channels.
constexpr char kBatchNorm[] = R"(fusion batch_norm {
  symbol N
  symbol C
  symbol S
  input x: bf16[N, C, S]
  input w: f32[C]
  xf = cast(x, dtype=f32)
  avg, m2, n = welford(xf, axes=[0, 2])
  rstd = rsqrt(m2 / n + 1e-3)
  y = cast((xf - avg[None, :, None]) * (rstd * w)[None, :, None], dtype=bf16)
  output y
  output avg
})";

TEST(RowBlocks, RowsInPieces) {
  for (int64_t c : {8, 16, 40}) {
    for (int64_t s : {3, 49}) {
      const int64_t columns = 5 * s;
      const auto edit = [&](Schedule& schedule) {
        InBlocks(columns, 16, 8)(schedule);
        schedule.facts = {{"N", 1, 5}, {"S", 1, s}, {"C", 8}};
      };
      const GroupResult result =
          ExpectRight(kBatchNorm, {.sizes = {{"N", 5}, {"C", c}, {"S", s}}, .edit = edit});
      EXPECT_THAT(result.kernel_text, HasSubstr("load shared.rows_"));
      // What is loaded once a row is under way before anything waits.
      EXPECT_LT(result.kernel_text.find("= load w["), result.kernel_text.find("barrier"));
    }
  }
  // Of 9 channels the second image's begin anywhere.
  const auto edit = [](Schedule& schedule) {
    InBlocks(15, 16, 8)(schedule);
    schedule.facts = {{"N", 1, 5}, {"S", 1, 3}};
  };
  const GroupResult result =
      ExpectRight(kBatchNorm, {.sizes = {{"N", 5}, {"C", 9}, {"S", 3}}, .edit = edit});
  EXPECT_THAT(result.kernel_text, Not(HasSubstr("load shared.rows_")));
}

// A thread has a piece, and each pass reads it from shared memory: two elements at a time, of odd
// pieces those that lie so.
TEST(RowBlocks, PiecesToThreads) {
  for (const std::string dtype : {"bf16", "f16", "f32"}) {
    for (const int s : {3, 7, 8}) {
      for (int64_t c : {16, 48}) {
        int loads = 0;
        for (const bool reread : {false, true}) {
          const auto edit = [&](Schedule& schedule) {
            InBlocks(15 * s, 2, 1)(schedule);
            schedule.runs = true;
            schedule.chan_welford = false;
            schedule.reread = reread;
            schedule.async = c == 16;
            schedule.registers = s;
            schedule.warps_per_row = 8;
            schedule.facts = {{"N", 1, 15}, {"S", 1, s}, {"C", 16}};
          };
          const std::string text = absl::StrReplaceAll(kBatchNorm, {{"bf16", dtype}});
          const GroupResult result =
              ExpectRight(text, {.sizes = {{"N", 15}, {"C", c}, {"S", s}}, .edit = edit});
          const bool pairs = s % 2 == 1 && dtype != "f32";
          EXPECT_EQ(CountOf(result.kernel_text, ":+2] = load shared.rows_") > 0, pairs) << dtype;
          EXPECT_GT(CountOf(result.kernel_text, "= load shared.rows_"), loads);
          loads = CountOf(result.kernel_text, "= load shared.rows_");
        }
      }
    }
  }
}

// States of columns lie where elements do, of all rows alike: one by one.
TEST(RowBlocks, PartsOfRowsWithStatesOfColumns) {
  const auto edit = [](Schedule& s) {
    InBlocks(15, 4, 4)(s);
    s.runs = true;
    s.registers = 5;
    s.grid = 3;
  };
  ExpectRight(NormBackward("bf16"), {.sizes = {{"M", 131}, {"N", 15}}, .edit = edit});
}

// Parts of pieces that begin at odd places of these.
TEST(RowBlocks, PartsOfPiecesToThreads) {
  const auto edit = [](Schedule& schedule) {
    InBlocks(4 * 15, 4, 1)(schedule);
    schedule.runs = true;
    schedule.chan_welford = false;
    schedule.registers = 5;
    schedule.warps_per_row = 3;
    schedule.facts = {{"N", 1, 4}, {"S", 1, 15}, {"C", 8}};
  };
  const GroupResult result =
      ExpectRight(kBatchNorm, {.sizes = {{"N", 4}, {"C", 24}, {"S", 15}}, .edit = edit});
  EXPECT_THAT(result.kernel_text, HasSubstr(":+2] = load shared.rows_"));
}

// More elements of a piece than registers hold as numbers stay two in a word; of the last word only
// one is there.
TEST(RowBlocks, LongPiecesStayPacked) {
  for (const auto& [text, packed] : {std::pair(std::string(kBatchNorm), true),
                                     {absl::StrReplaceAll(kBatchNorm, {{"bf16", "f32"}}), false}}) {
    const auto edit = [](Schedule& schedule) {
      InBlocks(5 * 49, 4, 1)(schedule);
      schedule.runs = true;
      schedule.chan_welford = schedule.reread = false;
      schedule.registers = 49;
      schedule.warps_per_row = 2;
      schedule.facts = {{"N", 1, 5}, {"S", 1, 49}, {"C", 8}};
    };
    const GroupResult result =
        ExpectRight(text, {.sizes = {{"N", 5}, {"C", 16}, {"S", 49}}, .edit = edit});
    EXPECT_EQ(CountOf(result.kernel_text, "[50] packed"), packed ? 1 : 0);
  }
}

// What is not finite stays in its row.
TEST(RowBlocks, NansAndInfinities) {
  const auto inputs = [](std::vector<HostTensor>& tensors) {
    const double odd[] = {std::nan(""), std::numeric_limits<double>::infinity(),
                          -std::numeric_limits<double>::infinity()};
    for (int64_t row : {0, 3, 64, 66}) tensors[0].set({row, row % 33}, FloatScalar(odd[row % 3]));
  };
  ExpectRight(ResidualNorm("bf16"),
              {.sizes = {{"M", 67}, {"N", 33}}, .edit = InBlocks(33, 4, 8), .inputs = inputs});
}

// A result takes the place of an input that is in registers by then: the sum that of `x`, `y` that
// of the residual.
TEST(RowBlocks, ResultsTakeThePlaceOfInputs) {
  const GroupResult two = ExpectRight(ResidualNorm("bf16"),
                                      {.sizes = {{"M", 9}, {"N", 33}}, .edit = InBlocks(33, 4, 8)});
  EXPECT_EQ(CountOf(two.kernel_text, "shared rows_"), 2);
  // Other types have arrays of their own.
  constexpr char kCast[] = R"(fusion f {
  symbol M
  symbol N
  input x: f32[M, N]
  y = cast(x - amax(x, axes=[1])[:, None], dtype=f16)
  output y
})";
  const GroupResult other =
      ExpectRight(kCast, {.sizes = {{"M", 9}, {"N", 33}}, .edit = InBlocks(33, 4, 8)});
  EXPECT_EQ(CountOf(other.kernel_text, "shared rows_"), 2);
}

TEST(RowBlocks, WhatLiesOtherwiseIsLoadedWhereItIs) {
  // Bases aligned to 2 bytes; rows read backward; rows with gaps.
  const auto misaligned = [](Schedule& s) {
    InBlocks(33, 4, 8)(s);
    s.alignment_bytes = 2;
  };
  const GroupResult base =
      ExpectRight(ResidualNorm("bf16"),
                  {.sizes = {{"M", 9}, {"N", 33}}, .alignment_bytes = 2, .edit = misaligned});
  EXPECT_THAT(base.kernel_text, Not(HasSubstr("shared.rows_")));
  constexpr char kGaps[] = R"(fusion f {
  symbol M
  symbol N
  input x: bf16[M, N + 2]
  z = x[:, 1:N + 1]
  y = z - amax(z, axes=[1])[:, None]
  output y
})";
  const GroupResult gaps =
      ExpectRight(kGaps, {.sizes = {{"M", 70}, {"N", 33}}, .edit = InBlocks(33, 4, 8)});
  EXPECT_EQ(CountOf(gaps.kernel_text, "shared rows_"), 1);  // Of the result.
}

TEST(RowBlocks, AreChosenForShortRowsThatVectorsDoNotDivide) {
  const auto chosen = [&](const std::string& dtype, int64_t columns, int alignment = 16) {
    const absl::StatusOr<Fusion> group = ParseFusion(ResidualNorm(dtype));
    EXPECT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{
        .sizes = {100000, columns}, .alignment_bytes = alignment, .device = *FindDevice("h200")};
    return *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  };
  for (int64_t n : {3, 33, 49}) {
    EXPECT_TRUE(chosen("bf16", n).blocks) << n;
    EXPECT_TRUE(chosen("f32", n).blocks) << n;
    EXPECT_FALSE(chosen("bf16", n, 2).blocks) << n;
  }
  for (int64_t n : {48, 64, 4096, 4099}) EXPECT_FALSE(chosen("bf16", n).blocks) << n;
  const Schedule s = chosen("bf16", 49);
  EXPECT_THAT(s.ToString(),
              HasSubstr(absl::StrCat("through shared memory in blocks of ", s.rows_per_cta())));
}

// Vectors of 8 bytes of one narrow input do better in blocks, unless weights lie beside them.
TEST(RowBlocks, AreChosenForVectorsOfEightBytes) {
  const auto in_blocks = [](const std::string& dtype, const std::string& weight, int64_t columns) {
    const absl::StatusOr<Fusion> group = ParseFusion(absl::StrCat(
        "fusion f {\n  symbol M\n  symbol N\n  input x: ", dtype, "[M, N]\n  input w: ", dtype,
        "[N]\n  y = softmax(x", weight, ", axis=1)\n  output y\n}"));
    EXPECT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {100000, columns}, .device = *FindDevice("h200")};
    return FindScheduler(SchedulerKind::kReduction)->choose(*group, context)->blocks;
  };
  for (const int64_t n : {68, 100, 196, 508}) {
    EXPECT_TRUE(in_blocks("bf16", "", n)) << n;
    EXPECT_TRUE(in_blocks("f16", "", n)) << n;
    EXPECT_FALSE(in_blocks("bf16", " * w", n)) << n;
    EXPECT_FALSE(in_blocks("f32", "", n)) << n;
  }
  EXPECT_FALSE(in_blocks("bf16", "", 200));  // Vectors of 16 bytes.
  EXPECT_FALSE(in_blocks("bf16", "", 516));
}

// The backward pass of an instance norm: two sums of a row, of which others go across the images.
std::string Backward(const std::string& dtype) {
  return absl::StrCat("fusion backward {\n  symbol N\n  symbol C\n  symbol S\n  input x: ", dtype,
                      "[N, C, S]\n  input g: ", dtype, R"([N, C, S]
  xf = cast(x, dtype=f32)
  gf = cast(g, dtype=f32)
  a = sum(gf, axes=[2])
  b = sum(gf * xf, axes=[2])
  dw = sum(gf * xf, axes=[0, 2])
  dx = cast(gf - a[:, :, None] * 0.01 - xf * b[:, :, None] * 0.001, dtype=)",
                      dtype, R"()
  output dx
  output dw
})");
}

TEST(RowBlocks, AreBroughtAheadWhereRowsAreCrossed) {
  const auto chosen = [&](const std::string& dtype, int64_t channels, int64_t columns,
                          const char* device = "h200") {
    const absl::StatusOr<Fusion> group = ParseFusion(Backward(dtype));
    EXPECT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {64, channels, columns}, .device = *FindDevice(device)};
    const Schedule s = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_TRUE(CheckSchedule(s).ok()) << s.ToString();
    return s;
  };
  for (const char* dtype : {"bf16", "f32"}) {
    const Schedule s = chosen(dtype, 2048, 49);
    EXPECT_TRUE(s.blocks) << s.ToString();
    EXPECT_GE(s.stages, 2) << s.ToString();
    EXPECT_EQ(chosen(dtype, 2048, 49, "a100").stages, 0);  // It has no such copies.
    EXPECT_EQ(chosen(dtype, 8, 49).stages, 0);             // No CTA takes a second turn.
  }
  EXPECT_GE(chosen("bf16", 1024, 196).stages, 2);  // Else in vectors of 8 bytes.
  EXPECT_FALSE(chosen("bf16", 1024, 3136).blocks);
  // The same for fewer rows, of which three CTAs take several turns.
  for (const int64_t columns : {49, 196}) {
    const GroupRun run{.sizes = {{"N", 8}, {"C", 64}, {"S", columns}}, .edit = [&](Schedule& s) {
                         s = chosen("bf16", 2048, columns);
                         s.grid = 3;
                       }};
    ExpectRight(Backward("bf16"), run);
  }
}

// And where rows leave states of their columns, if vectors of 16 bytes do not divide them, up to
// some length.
TEST(RowBlocks, AreBroughtAheadWhereRowsLeaveStates) {
  const auto text = [](const char* dtype, int64_t columns) {
    return absl::Substitute(R"(fusion states {
  symbol M
  input g: $0[M, $1]
  input x: $0[M, $1]
  input w: f32[$1]
  input mean: f32[M]
  input rstd: f32[M]
  dx, dw, db = layer_norm_backward(cast(g, dtype=f32), cast(x, dtype=f32), mean, rstd, w, axes=[1])
  o = cast(dx, dtype=$0)
  output o
  output dw
  output db
})",
                            dtype, columns);
  };
  const auto chosen = [&](const std::string& of) {
    const absl::StatusOr<Fusion> group = ParseFusion(of);
    EXPECT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {80000}, .device = *FindDevice("h200")};
    const Schedule s = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_TRUE(CheckSchedule(s).ok()) << s.ToString();
    return s;
  };
  for (const int64_t columns : {36, 77, 130, 257, 300, 301, 750}) {
    const std::string of = text("bf16", columns);
    const Schedule s = chosen(of);
    EXPECT_TRUE(s.blocks) << s.ToString();
    EXPECT_GE(s.stages, 2) << s.ToString();
    // The same for fewer rows, of which three CTAs take several turns.
    const GroupRun run{.sizes = {{"M", 8 * 37}}, .edit = [&](Schedule& edited) {
                         edited = s;
                         edited.grid = 3;
                       }};
    ExpectRight(of, run);
  }
  EXPECT_TRUE(chosen(text("f32", 301)).blocks);
  // Not 32 single elements a thread, whose places, states and weights would leave room for two
  // CTAs.
  for (const int64_t columns : {125, 501})
    EXPECT_LE(chosen(text("bf16", columns)).registers, 26) << columns;
  for (const int64_t columns : {256, 304, 772, 1001})
    EXPECT_FALSE(chosen(text("bf16", columns)).blocks);
}

TEST(RowBlocks, ScheduleNeedsWholeRowsThatThreadsLoad) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.blocks = true;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("through shared memory"));
  s.persistent = true;
  EXPECT_TRUE(CheckSchedule(s).ok());
  s.shift = true;
  EXPECT_FALSE(CheckSchedule(s).ok());
  s.shift = false;
  s.outer = true;
  EXPECT_FALSE(CheckSchedule(s).ok());
}

}  // namespace
}  // namespace seam
