// Groups as kernels: every arrangement of rows and columns, odd sizes, views, many dtypes, on the
// simulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "ir/text/parser.h"
#include "scheduler/device.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::RunGroupText;

constexpr char kBias[] = R"(fusion bias {
  symbol M
  symbol N
  input x: bf16[M, N]
  input b: f32[N]
  y = cast(cast(x, dtype=f32) * 2.0 + b, dtype=bf16)
  output y
})";

TEST(Pointwise, BroadcastAtManySizes) {
  for (int64_t m : {0, 1, 3, 17}) {
    for (int64_t n : {0, 1, 7, 8, 64, 1000, 1003})
      ExpectRight(kBias, {.sizes = {{"M", m}, {"N", n}}});
  }
}

TEST(Pointwise, MisalignedBases) {
  for (int alignment : {1, 2, 4, 8}) {
    ExpectRight(kBias, {.sizes = {{"M", 5}, {"N", 64}}, .alignment_bytes = alignment});
  }
}

constexpr char kLayerNorm[] = R"(fusion layer_norm {
  symbol M
  symbol N
  input x: bf16[M, N]
  input w: f32[N]
  input b: f32[N]
  xf = cast(x, dtype=f32)
  avg, m2, n = welford(xf, axes=[1])
  rstd = rsqrt(m2 / n + 1e-5)
  y = cast((xf - broadcast(avg, axes=[1])) * broadcast(rstd, axes=[1]) * w + b, dtype=bf16)
  output y
  output avg
  output rstd
})";

// The rows' extent is a quotient: it takes a proof that they survive the reshape.
constexpr char kStridedRows[] = R"(fusion strided_rows {
  symbol N
  symbol S
  input x: f32[1, N, S, S]
  y = x[:, :, 1:S:3, :]
  m = amax(cat(y, y, axis=3), axes=[3])
  z = reshape(m, sizes=[N, (S + 1) // 3])
  output z
})";

TEST(Reduction, RowsThatAreAQuotient) {
  for (int64_t s : {2, 8, 9, 16}) ExpectRight(kStridedRows, {.sizes = {{"N", 2}, {"S", s}}});
}

TEST(Reduction, LayerNormAtManySizes) {
  for (int64_t n : {1, 2, 31, 64, 96, 256, 1000, 1003, 4096, 4099}) {
    ExpectRight(kLayerNorm, {.sizes = {{"M", 5}, {"N", n}}});
  }
}

TEST(Reduction, LayerNormInEveryArrangement) {
  for (int64_t n : {40, 256, 1001}) {
    for (int lanes : {1, 4, 32}) {
      for (int warps : {1, 3}) {
        for (int registers : {1, 2}) {
          ExpectRight(kLayerNorm, {.sizes = {{"M", 7}, {"N", n}}, .edit = [&](Schedule& s) {
                                     s.lanes_per_row = lanes;
                                     s.warps_per_row = warps;
                                     s.row_warps = 2;
                                     s.registers = registers;
                                     s.persistent = false;
                                     s.chan_welford = true;
                                   }});
        }
      }
    }
  }
}

// Behind each vector of a shifted row's body there is another one: what lies unaligned beside it is
// cut out of aligned pieces, to the last weight of the tensor. The simulator checks that they lie
// inside.
TEST(Reduction, WeightsBesideShiftedRows) {
  for (const absl::string_view dtype : {"bf16", "f16", "f32", "f64"}) {
    const std::string text = absl::StrFormat(R"(fusion weighted {
    symbol M
    symbol N
    input x: %1$s[M, N]
    input w: %1$s[N]
    y, rstd = rms_norm(x, w, axes=[1])
    output y
  })",
                                             dtype);
    for (const int64_t n : {257, 258, 259, 263, 271, 1001}) {
      const GroupResult result =
          ExpectRight(text, {.sizes = {{"M", 9}, {"N", n}}, .edit = [&](Schedule& s) {
                               s = {.kind = s.kind};
                               s.shift = true;
                               s.vector = dtype == "f64" ? 2 : dtype == "f32" ? 4 : 8;
                               s.lanes_per_row = 32;
                               s.registers = 16;
                               s.persistent = true;
                             }});
      EXPECT_THAT(result.kernel_text, HasSubstr(" unaligned inside"));
    }
  }
}

// Equal terms, whose sums all round the same way: a chain of them would err by a hundred units.
TEST(Reduction, LongRowsAreSummedByStep) {
  constexpr char kSums[] = R"(fusion sums {
  symbol M
  symbol N
  input x: f32[M, N]
  s = sum(x, axes=[1])
  output s
})";
  for (const bool outer : {false, true}) {
    ExpectRight(kSums, {.sizes = {{"M", 2}, {"N", 4099}},
                        .edit =
                            [&](Schedule& s) {
                              s = {.kind = s.kind};
                              s.outer = outer;
                              s.registers = 64;
                            },
                        .inputs =
                            [](std::vector<HostTensor>& inputs) {
                              std::vector<float> ones(inputs[0].data.size() / 4, 0.1f);
                              std::memcpy(inputs[0].data.data(), ones.data(), ones.size() * 4);
                            }});
  }
}

TEST(Reduction, RowsSplitAmongCtas) {
  for (int split : {2, 5}) {
    ExpectRight(kLayerNorm, {.sizes = {{"M", 3}, {"N", 3000}}, .edit = [&](Schedule& s) {
                               s.persistent = false;
                               s.shift = false;
                               s.split = split;
                             }});
  }
}

// What is read again is read from its end, where the pass before ended, in the same kernel or not.
TEST(Reduction, EverySecondPassGoesBackward) {
  constexpr char kSoftmax[] = R"(fusion softmax {
    symbol M
    symbol N
    input x: f32[M, N]
    y = softmax(x, axis=1)
    output y
  })";
  for (const int split : {1, 3}) {
    const GroupResult result =
        RunGroupText(kSoftmax, {.sizes = {{"M", 3}, {"N", 3000}}, .edit = [&](Schedule& s) {
                                  s.persistent = false;
                                  s.shift = false;
                                  s.split = split;
                                }});
    EXPECT_TRUE(result.status.ok()) << result.status;
    size_t loops = 0;  // Of three passes over the row the second.
    for (size_t at = 0; (at = result.kernel_text.find("for behind", at)) != std::string::npos; ++at)
      ++loops;
    EXPECT_EQ(loops, 1) << result.kernel_text;
  }
  const GroupResult result =
      RunGroupText(kLayerNorm, {.sizes = {{"M", 3}, {"N", 3000}}, .edit = [](Schedule& s) {
                                  s.persistent = s.shift = false;
                                  s.chan_welford = true;
                                }});
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_NE(result.kernel_text.find("streaming"), std::string::npos) << result.kernel_text;
}

TEST(Reduction, ColumnsDownTheRows) {
  constexpr char text[] = R"(fusion column_stats {
    symbol M
    symbol N
    input x: f32[M, N]
    s = sum(x, axes=[0])
    y = x - broadcast(s, axes=[0])
    output s
    output y
  })";
  for (int64_t m : {1, 5, 64, 700}) {
    for (int64_t n : {1, 3, 64, 130}) ExpectRight(text, {.sizes = {{"M", m}, {"N", n}}});
  }
}

TEST(Reduction, EveryKind) {
  for (const char* op : {"sum", "prod", "amax", "amin", "argmax", "argmin"}) {
    for (const char* dtype : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"}) {
      for (const char* axis : {"0", "1"}) {
        const std::string text = std::string("fusion f {\n  input x: ") + dtype +
                                 "[9, 70]\n  y = " + op + "(x, axes=[" + axis +
                                 "])\n  output y\n}\n";
        ExpectRight(text, {});
      }
    }
  }
  for (const char* op : {"any", "all"}) {
    ExpectRight(std::string("fusion f {\n  input x: bool[9, 70]\n  y = ") + op +
                    "(x, axes=[1])\n  output y\n}\n",
                {});
  }
}

// A softmax and its logarithm's denominator, as people write them.
TEST(Reduction, WhatIsWrittenTwiceIsComputedOnce) {
  const std::string once = R"(fusion softmax {
  symbol M
  symbol N
  input x: bf16[M, N]
  xf = cast(x, dtype=f32)
  m = amax(xf, axes=[1], keepdims=true)
  s = sum(exp(xf - m), axes=[1], keepdims=true)
  y = cast(exp(xf - m) / s, dtype=bf16)
  l = log(s) + m
  output y
  output l
})";
  const std::string again = absl::StrReplaceAll(
      once,
      {{"l = log(s) + m",
        "l = log(sum(exp(xf - amax(xf, axes=[1], keepdims=true)), axes=[1], keepdims=true)) + "
        "amax(xf, axes=[1], keepdims=true)"}});
  for (const int64_t n : {1, 7, 64, 1003, 4096}) {
    const GroupRun run = {.sizes = {{"M", 3}, {"N", n}}};
    const GroupResult a = RunGroupText(once, run), b = RunGroupText(again, run);
    EXPECT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
    EXPECT_EQ(a.kernel_text, b.kernel_text);
  }
}

TEST(Views, ComposeIntoIndices) {
  const char* bodies[] = {
      "y = permute(x, axes=[1, 0]) + 1.0",
      "y = exp(reshape(x, sizes=[4, 3, 10]))",
      "y = slice(x, start=[1, 2], stop=[6, 19], step=[2, 3]) * 2.0",
      "y = flip(x, axes=[0, 1]) * x",
      "y = pad(x * 2.0, before=[1, 0], after=[2, 3], value=7.0)",
      "y = cat(x, flip(x, axes=[1]), exp(x), axes=[0])",
      ("z = exp(x)\n y = reshape(permute(z, axes=[1, 0]), sizes=[12, 10])"
       " + reshape(z, sizes=[12, 10])"),
      "y = iota(sizes=[12, 10], axes=[1], dtype=f32) + x",
  };
  for (const char* body : bodies) {
    ExpectRight(std::string("fusion f {\n  input x: f32[12, 10]\n  ") + body + "\n  output y\n}\n",
                {});
  }
}

// Blocks of rows and columns, none of a known number, and back again: one plan.
TEST(Views, BlocksOfAnySize) {
  constexpr char kText[] = R"(fusion blocks {
  symbol M
  symbol N
  input x: bf16[M, N]
  b = reshape(cast(x, dtype=f32), sizes=[BLOCKS])
  y = reshape(b / maximum(amax(abs(b), axes=[AXES], keepdims=true), 1e-6), sizes=[M, N])
  output y
})";
  const std::string rows = absl::StrReplaceAll(kText, {{"BLOCKS", "M//8, 8, N"}, {"AXES", "1"}});
  const std::string both =
      absl::StrReplaceAll(kText, {{"BLOCKS", "M//8, 8, N//4, 4"}, {"AXES", "1, 3"}});
  const std::string strange =
      absl::StrReplaceAll(kText, {{"BLOCKS", "M//8, 2, 4, N"}, {"AXES", "1, 2"}});
  for (const std::string& text : {rows, both, strange}) {
    ExpectRight(text, {.sizes = {{"M", 8}, {"N", 4}}});
    ExpectRight(text, {.sizes = {{"M", 24}, {"N", 76}}});
    ExpectRight(text, {.sizes = {{"M", 128}, {"N", 52}}, .alignment_bytes = 2});
  }
}

TEST(Indexing, GatherAndIndexSelect) {
  ExpectRight(R"(fusion f {
    input x: f32[9, 64]
    input i: i64[5]
    y = index_select(x, i, axes=[0]) * 2.0
    output y
  })",
              {});
  ExpectRight(R"(fusion f {
    input x: f32[9, 10]
    input i: i32[4, 10]
    y = gather(exp(x), i, axes=[0]) + 1.0
    output y
  })",
              {});
}

// Groups of a few channels that lie last: a warp reads neighbouring groups, their channels as rows
// if vectors divide them.
constexpr char kGroupNormChannelsLast[] = R"(fusion group_norm {
  symbol N
  symbol P
  symbol G
  symbol K
  input x: bf16[N, P, G*K]
  input weight: f32[G*K]
  g = reshape(cast(x, dtype=f32), sizes=[N, P, G, K])
  mean, m2, count = welford(g, axes=[1, 3])
  y = (g - mean[:, None, :, None]) * rsqrt(m2 / count + 1e-5)[:, None, :, None]
  out = cast(reshape(y, sizes=[N, P, G*K]) * weight, dtype=bf16)
  output out
})";

// Of vectors that memory keeps narrow a thread has more, as long as they fill a CTA.
TEST(Reduction, NarrowVectorsAreMore) {
  const auto points = [&](absl::string_view text, int64_t columns, int alignment) {
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    EXPECT_TRUE(group.ok()) << group.status();
    ScheduleContext context{.sizes = {1000, columns}, .device = *FindDevice("h200")};
    context.alignment_bytes = alignment;
    const Schedule s = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_TRUE(s.persistent) << s.ToString();
    EXPECT_LE(s.vector, alignment / 2) << s.ToString();
    return s.registers * s.vector;
  };
  const std::string bare = absl::StrReplaceAll(
      kLayerNorm, {{"  input w: f32[N]\n", ""}, {"  input b: f32[N]\n", ""}, {" * w + b", ""}});
  EXPECT_GE(points(bare, 3136, 4), points(bare, 3136, 16));
  EXPECT_EQ(points(bare, 64, 4), 16);  // Eight vectors a thread at most.
  EXPECT_EQ(points(kLayerNorm, 64, 4), 16);
}

// A vector of 16 bytes is one of the weights, whose lanes then read what is contiguous; the kernel
// still knows that rows are whole vectors of the data.
TEST(Reduction, WideWeightsSetTheVector) {
  const absl::StatusOr<Fusion> group = ParseFusion(kLayerNorm);
  ASSERT_TRUE(group.ok()) << group.status();
  for (int64_t columns : {520, 664, 1024, 1711, 2648, 4099, 7064, 8192, 11465, 15151}) {
    const Schedule s = *FindScheduler(SchedulerKind::kReduction)
                            ->choose(*group, {.sizes = {(1 << 28) / columns, columns},
                                              .device = *FindDevice("h200")});
    EXPECT_EQ(s.vector, 4) << s.ToString();
    EXPECT_EQ(s.shift, columns % 8 != 0) << s.ToString();
    EXPECT_TRUE(s.persistent) << s.ToString();
    EXPECT_GE(s.columns_per_step(), columns - (s.shift ? 2 * s.vector : 0)) << s.ToString();
    EXPECT_EQ(s.facts.empty(), s.shift) << s.ToString();
    for (const SymbolFact& fact : s.facts) EXPECT_EQ(fact.multiple, 8) << s.ToString();
    if (columns > 1000) {
      EXPECT_GE(s.min_ctas_per_sm * s.row_warps * columns * 2, 48 * 1024) << s.ToString();
    }
    const GroupResult result = ExpectRight(
        kLayerNorm, {.sizes = {{"M", 7}, {"N", columns}}, .edit = [&](Schedule& t) { t = s; }});
    // Weights are folded into nothing: the simulator has NaN there where a row ends, and no result
    // shows it.
    if (s.shift) {
      EXPECT_THAT(result.kernel_text, HasSubstr(" else anything"));
    }
  }
}

// Vectors of 8 bytes and less that divide a row give way to shifted ones of 16, but beside weights
// that lie aligned with the narrow ones, and where a row is hardly more than its ends.
TEST(Reduction, NarrowVectorsGiveWayToShiftedOnes) {
  const auto chosen = [](absl::string_view text, int64_t columns) {
    const absl::StatusOr<Fusion> group = ParseFusion(text);
    EXPECT_TRUE(group.ok()) << group.status();
    return *FindScheduler(SchedulerKind::kReduction)
                ->choose(*group,
                         {.sizes = {(1 << 28) / columns, columns}, .device = *FindDevice("h200")});
  };
  const std::string narrow_weights =
      absl::StrReplaceAll(kLayerNorm, {{"w: f32", "w: bf16"},
                                       {"b: f32", "b: bf16"},
                                       {"* w + b", "* cast(w, dtype=f32) + cast(b, dtype=f32)"}});
  for (const int64_t columns : {258, 1002, 4098, 4100, 14430}) {
    const Schedule s = chosen(narrow_weights, columns);
    EXPECT_TRUE(s.shift) << s.ToString();
    EXPECT_EQ(s.vector, 8) << s.ToString();
  }
  EXPECT_FALSE(chosen(narrow_weights, 196).shift);
  EXPECT_FALSE(chosen(narrow_weights, 4104).shift);
  EXPECT_FALSE(chosen(kLayerNorm, 4100).shift);
  EXPECT_EQ(chosen(kLayerNorm, 4100).vector, 4);
  EXPECT_TRUE(chosen(kLayerNorm, 4098).shift);
  EXPECT_GT(chosen(kLayerNorm, 50260).cluster, 1);
}

// 98 vectors of eight: two for each of 64 threads would leave a quarter of these idle.
TEST(Reduction, RowsThatIdleInTwosAreSharedEvenly) {
  const absl::StatusOr<Fusion> group = ParseFusion(R"(fusion f {
  symbol M
  symbol N
  input x: bf16[M, N]
  y = cast(cast(x, dtype=f32) - (sum(cast(x, dtype=f32), axes=[1]) / 7.0)[:, None], dtype=bf16)
  output y
})");
  ASSERT_TRUE(group.ok()) << group.status();
  const auto lanes = [&](int64_t columns) {
    const ScheduleContext context{.sizes = {30000, columns}, .device = *FindDevice("h200")};
    const Schedule s = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_GE(s.columns_per_step(), columns) << s.ToString();
    return s.lanes_per_row * s.warps_per_row;
  };
  EXPECT_EQ(lanes(784), 16);
  EXPECT_EQ(lanes(1024), 64);
  EXPECT_EQ(lanes(3136), 224);  // An eighth is little.
}

TEST(Lowering, InterleavedRows) {
  testing::Part part;
  for (const int64_t g : {1, 3, 32}) {
    for (const int64_t k : {1, 3, 8, 34, 40}) {
      for (const int64_t p : {1, 300}) {
        if (!part.TakesNext()) continue;
        const GroupResult result = testing::RunGroupText(
            kGroupNormChannelsLast, {.sizes = {{"N", 2}, {"P", p}, {"G", g}, {"K", k}}});
        EXPECT_TRUE(result.status.ok()) << result.status << "\n" << result.schedule.ToString();
        const bool as_rows = p > 1 && (k % 8 == 0 ? g > 1 : k == 3 && g == 32);
        EXPECT_EQ(result.schedule.neighbours, as_rows ? k : 1);
      }
    }
  }
}

// Instance norm of images whose channels lie last, whatever they are called first, and its
// gradient.
std::string ChannelsLast(const std::string& dtype, bool backward) {
  const std::string image = dtype + "[N, C, H, W] order [0, 2, 3, 1]";
  const std::string head = absl::StrCat("fusion channels_last {\n  symbol N in [1, 64]\n",
                                        "  symbol C in [1, 4096]\n  symbol H in [1, 4096]\n",
                                        "  symbol W in [1, 4096]\n  input x: ", image, "\n");
  if (!backward) {
    return absl::StrCat(head, "  y, mean, rstd = instance_norm(x)\n",
                        "  output y order [0, 2, 3, 1]\n  output mean\n}");
  }
  return absl::StrCat(head, "  input grad: ", image, "\n",
                      "  input mean: f32[N, C]\n  input rstd: f32[N, C]\n  input weight: f32[C]\n",
                      "  dx, dw, db = instance_norm_backward(grad, x, mean, rstd, weight)\n",
                      "  output dx order [0, 2, 3, 1]\n  output dw\n  output db\n}");
}

TEST(Reduction, ChannelsLast) {
  for (const bool backward : {false, true}) {
    for (const char* dtype : {"bf16", "f32"}) {
      for (const int64_t c : {1, 5, 8, 72}) {
        for (const int64_t h : {1, 13}) {
          ExpectRight(ChannelsLast(dtype, backward),
                      {.sizes = {{"N", 2}, {"C", c}, {"H", h}, {"W", 11}}});
        }
      }
    }
    // Statistics a step at a time, by one CTA and, where nothing crosses the rows, by several.
    for (const int split : {1, 3}) {
      if (backward && split > 1) continue;
      const GroupRun run{.sizes = {{"N", 1}, {"C", 40}, {"H", 20}, {"W", 13}},
                         .edit = [&](Schedule& s) {
                           s.persistent = false;
                           s.chan_welford = true;
                           s.registers = 2;
                           s.split = split;
                         }};
      ExpectRight(ChannelsLast("bf16", backward), run);
    }
  }
}

TEST(Reduction, ChannelsLastAreBroughtByThreads) {
  const auto choose = [](bool backward, int64_t n, int64_t c, int64_t size) {
    const absl::StatusOr<Fusion> group = ParseFusion(ChannelsLast("bf16", backward));
    EXPECT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {n, c, size, size}, .device = *FindDevice("h200")};
    Schedule s = *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    EXPECT_TRUE(CheckSchedule(s).ok()) << s.ToString();
    EXPECT_TRUE(s.outer) << s.ToString();
    EXPECT_EQ(s.vector, backward ? 4 : 8) << s.ToString();
    EXPECT_EQ(s.persistent, s.columns_at_once() >= size * size) << s.ToString();
    EXPECT_EQ(s.persistent, s.async) << s.ToString();
    return s;
  };
  EXPECT_EQ(choose(false, 64, 1024, 14).rows_per_cta(), 64);  // A cache line of a column.
  EXPECT_EQ(choose(false, 64, 512, 28).rows_per_cta(), 32);
  // They stay in shared memory where a CTA has room for them.
  EXPECT_TRUE(choose(false, 64, 512, 28).reread);
  EXPECT_EQ(choose(false, 64, 512, 28).grid, 0);
  // Longer ones a cluster takes in turn.
  const Schedule long_rows = choose(false, 64, 256, 56);
  EXPECT_EQ(long_rows.rows_per_cta(), 64);
  EXPECT_EQ(long_rows.cluster, 8);
  EXPECT_GT(long_rows.grid, 0);
  EXPECT_FALSE(long_rows.reread);
  // Two tensors take more CTAs.
  EXPECT_EQ(choose(true, 64, 512, 28).cluster, 2);
  EXPECT_EQ(choose(true, 64, 256, 56).cluster, 8);
  EXPECT_EQ(choose(true, 64, 64, 112).cluster, 16);
  // What no cluster holds is read again, by CTAs that share rows.
  EXPECT_GT(choose(false, 64, 64, 448).split, 1);
  EXPECT_FALSE(choose(true, 64, 64, 448).persistent);
}

}  // namespace
}  // namespace seam
