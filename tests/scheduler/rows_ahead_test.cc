// Rows that bulk copies bring into shared memory ahead of the threads: right at every size, in
// every arrangement, and every hazard found.
#include "scheduler/kernel/rows_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using testing::NormBackward;
using ::testing::Not;
using testing::RunGroupText;

TEST(RowsAhead, EveryArrangementIsRight) {
  for (const std::string dtype : {"bf16", "f32"}) {
    for (int stages : {1, 2, 3}) {
      for (bool reread : {false, true}) {
        for (int row_warps : {1, 3}) {
          for (int warps : {1, 2}) {
            for (int64_t rows : {1, 5, 40}) {
              const bool tickets = rows != 5 && stages > 1;
              const auto edit = [&](Schedule& s) {
                s.grid = 2;
                s.stages = stages;
                s.reread = reread;
                s.tickets = tickets;
                s.lanes_per_row = warps == 1 ? 16 : 32;
                s.warps_per_row = warps;
                s.row_warps = row_warps;
                s.registers = warps == 1 ? 3 : 1;
              };
              const GroupResult result = ExpectRight(
                  NormBackward(dtype), {.sizes = {{"M", rows}, {"N", 88}}, .edit = edit});
              EXPECT_THAT(result.kernel_text, HasSubstr("await copies"));
              EXPECT_EQ(tickets, absl::StrContains(result.kernel_text, "ticket of"));
            }
          }
        }
      }
    }
  }
}

// CTAs and clusters that are ahead wait: as many tickets as turns that look, whatever their number.
TEST(RowsAhead, KeepingPace) {
  for (int cluster : {1, 2}) {
    for (int pace : {1, 2, 3}) {
      for (int64_t rows : {1, 5, 12, 13, 41}) {
        const auto edit = [&](Schedule& s) {
          s.grid = 3 * cluster;
          s.cluster = cluster;
          s.stages = 3;
          s.pace = pace;
          s.lanes_per_row = 32;
          s.warps_per_row = s.row_warps = s.registers = 1;
          s.one_launch = cluster == 1;
        };
        const GroupResult result =
            ExpectRight(NormBackward("bf16"), {.sizes = {{"M", rows}, {"N", 88}}, .edit = edit});
        EXPECT_THAT(result.kernel_text, HasSubstr("tickets for a while"));
        EXPECT_THAT(
            result.schedule.ToString(),
            HasSubstr(pace == 1 ? ", CTAs keep pace, "
                                : absl::StrCat(", CTAs keep pace every ", pace, " turns, ")));
      }
    }
  }
}

// Copies bring the bodies of rows that start anywhere; their ends are loaded a turn ahead.
TEST(RowsAhead, RowsThatStartAnywhere) {
  for (const std::string dtype : {"bf16", "f32"}) {
    for (bool reread : {false, true}) {
      for (int warps : {1, 2}) {
        for (int64_t n : {23, 24, 101, 127}) {
          const auto edit = [&](Schedule& s) {
            s.shift = s.persistent = true;
            s.vector = 8;
            s.grid = 8;
            s.stages = 2;
            s.reread = reread;
            s.lanes_per_row = 32;
            s.warps_per_row = warps;
            s.row_warps = 1;
            s.registers = 1;
            s.facts.clear();
          };
          const GroupResult result =
              ExpectRight(NormBackward(dtype), {.sizes = {{"M", 35}, {"N", n}}, .edit = edit});
          EXPECT_THAT(result.kernel_text, HasSubstr("await copies"));
        }
      }
    }
  }
}

// Rows that come in slices, which are all there, cut short or empty, to one CTA and to clusters;
// with one pass over them, two, and three.
TEST(RowsAhead, RowsInSlices) {
  constexpr char kSoftmax[] = R"(fusion softmax {
  symbol M
  symbol N
  input x: f32[M, N]
  y = softmax(x, axis=1)
  output y
})";
  constexpr char kStatistics[] = R"(fusion statistics {
  symbol M
  symbol N
  input x: f32[M, N]
  avg, m2, n = welford(x, axes=[1])
  columns = sum(x, axes=[0])
  output avg
  output m2
  output columns
})";
  const std::string texts[] = {NormBackward("bf16"), NormBackward("f32"), kSoftmax, kStatistics};
  testing::Part part;
  for (const std::string& text : texts) {
    for (const int cluster : {1, 2}) {
      for (const int stages : {1, 2}) {
        for (const int slices : {2, 3, 6}) {
          for (const int64_t columns : {8, 400, 768 * cluster}) {
            for (const int64_t rows : {1, 9, 25}) {
              if (!part.TakesNext()) continue;
              const auto edit = [&](Schedule& s) {
                s.persistent = s.reread = true;
                s.shift = s.outer = s.one_launch = s.blocks = s.tickets = false;
                s.chan_welford = rows == 9;
                s.online = rows == 9;
                s.vector = 4;
                s.grid = 3 * cluster;
                s.cluster = cluster;
                s.stages = stages;
                s.slices = slices;
                s.spare = rows == 9 ? 0 : slices / 2;
                s.pace = rows == 25 ? 1 : 0;
                s.lanes_per_row = 32;
                s.warps_per_row = s.row_warps = 1;
                s.registers = 6;
                s.facts = {{"N", 8}};
              };
              const GroupResult result =
                  ExpectRight(text, {.sizes = {{"M", rows}, {"N", columns}}, .edit = edit});
              EXPECT_THAT(result.schedule.ToString(),
                          HasSubstr(absl::StrCat(" ahead in ", slices, " slices")));
              const int places = slices * stages + result.schedule.spare;
              EXPECT_THAT(result.kernel_text,
                          HasSubstr(absl::StrCat("copy barriers ", places, ",")));
            }
          }
        }
      }
    }
  }
}

TEST(RowsAhead, RowsThatLieUnaligned) {
  const auto edit = [](Schedule& s) {
    s.stages = 2;
    s.grid = 2;
    s.shift = false;
  };
  // 84 elements of 2 bytes are no multiple of 16 bytes: the threads load them.
  const GroupResult result =
      ExpectRight(NormBackward("bf16"), {.sizes = {{"M", 9}, {"N", 84}}, .edit = edit});
  EXPECT_THAT(result.kernel_text, Not(HasSubstr("await copies")));
}

// Rows that begin anywhere in a line of memory lie so in shared memory, too, those of a cluster
// from where each CTA's piece begins; a kernel that knows that all begin with a line says nothing
// of it.
TEST(RowsAhead, LieAsInTheLinesOfMemory) {
  // Of shared memory for so many columns of a CTA, in stages.
  const auto array = [](const std::string& dtype, int64_t elements, int stages) {
    return absl::StrCat(": ", dtype, "[", elements * stages, "]");
  };
  for (const std::string dtype : {"bf16", "f32"}) {
    const int vector = dtype == "bf16" ? 8 : 4, line = 8 * vector, columns = 32 * vector;
    for (const int cluster : {1, 2}) {
      for (const bool reread : {false, true}) {
        for (const int64_t more : {88, 104, 120}) {
          const int64_t n = more + (cluster - 1) * columns;
          const auto edit = [&](Schedule& s) {
            s.grid = 2 * cluster;
            s.cluster = cluster;
            s.stages = 3;
            s.reread = reread;
            s.tickets = more == 104;
            s.one_launch = cluster == 1;
            s.lanes_per_row = 32;
            s.warps_per_row = s.row_warps = s.registers = 1;
          };
          const GroupResult result =
              ExpectRight(NormBackward(dtype), {.sizes = {{"M", 21}, {"N", n}}, .edit = edit});
          EXPECT_THAT(result.kernel_text,
                      HasSubstr(array(dtype, kernel::StagePitch(columns, line), 3)));
        }
      }
    }
  }
  const auto whole_lines = [](Schedule& s) {
    s.grid = 2;
    s.stages = 2;
    s.lanes_per_row = 32;
    s.warps_per_row = s.row_warps = s.registers = 1;
    s.facts = {{"N", 64}};
  };
  const GroupResult result =
      ExpectRight(NormBackward("bf16"), {.sizes = {{"M", 21}, {"N", 128}}, .edit = whole_lines});
  EXPECT_THAT(result.kernel_text, HasSubstr(array("bf16", 256, 2)));
}

// Of rows that copies bring, vectors outside are skipped: no element is selected by a mask, in the
// passes that reduce nor, of what is kept between them, in later ones.
TEST(RowsAhead, VectorsOutsideAreSkipped) {
  for (const bool reread : {false, true}) {
    const auto edit = [&](Schedule& s) {
      s.grid = 2;
      s.stages = 2;
      s.reread = reread;
      s.one_launch = false;
      s.lanes_per_row = 32;
      s.warps_per_row = s.row_warps = 1;
      s.registers = 2;
    };
    for (const int64_t n : {88, 256, 264, 392}) {
      const GroupResult result =
          ExpectRight(NormBackward("bf16"), {.sizes = {{"M", 21}, {"N", n}}, .edit = edit});
      // Not of the kernel that finishes what CTAs leave.
      const std::string text =
          result.kernel_text.substr(0, result.kernel_text.find("kernel backward_reduction_finish"));
      EXPECT_THAT(text, HasSubstr("if thread + 32*u < N_by8")) << n;
      EXPECT_THAT(text, Not(HasSubstr("where("))) << n;
    }
  }
}

TEST(RowsAhead, PitchHasRoomForEveryPlaceInALine) {
  EXPECT_EQ(kernel::StagePitch(1000, 0), 1000);
  for (const int64_t line : {32, 64, 128}) {
    const int64_t unit = line / 8;
    for (int64_t elements = unit; elements <= 3 * line; elements += unit) {
      const int64_t pitch = kernel::StagePitch(elements, line);
      EXPECT_EQ(pitch % line, 0);
      EXPECT_GE(pitch, line - unit + elements);
      EXPECT_LT(pitch, elements + 2 * line);
    }
  }
}

// Of a vector that ends behind the row only the row's elements have come.
TEST(RowsAhead, RowsThatEndInsideAVector) {
  for (const bool reread : {false, true}) {
    const auto edit = [&](Schedule& s) {
      s.vector = 16;
      s.stages = 2;
      s.grid = 2;
      s.reread = reread;
    };
    ExpectRight(NormBackward("bf16"), {.sizes = {{"M", 9}, {"N", 88}}, .edit = edit});
  }
}

TEST(RowsAhead, AreChosenWhereCtasTakeTurnsOnADeviceThatHasBulkCopies) {
  const absl::StatusOr<Fusion> group = ParseFusion(NormBackward("bf16"));
  ASSERT_TRUE(group.ok()) << group.status();
  const auto stages = [&](const char* device, int64_t rows, int64_t columns = 4096) {
    const ScheduleContext context{.sizes = {rows, columns}, .device = *FindDevice(device)};
    return FindScheduler(SchedulerKind::kReduction)->choose(*group, context)->stages;
  };
  EXPECT_GT(stages("sm_90a", 8192), 1);
  EXPECT_GT(stages("sm_90a", 8192, 4099), 1);
  EXPECT_EQ(stages("sm_90a", 100), 0);
  EXPECT_EQ(stages("sm_80", 8192), 0);
}

TEST(RowsAhead, ScheduleNeedsATurn) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.stages = 2;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("take them in turn"));
  s.stages = 0;
  s.reread = true;
  EXPECT_FALSE(CheckSchedule(s).ok());
}

}  // namespace
}  // namespace seam
