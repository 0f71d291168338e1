// Maxima and sums of exponentials in one pass: right in every arrangement, whatever the elements
// are, and found wherever there is one.
#include "scheduler/online.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "scheduler/alternatives.h"
#include "scheduler/trace.h"
#include "tests/support/count_of.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using testing::CountOf;
using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Graphs over x: T[M, N].
constexpr char kSoftmax[] = "  y = softmax(x)\n  output y\n";
constexpr char kLogSoftmax[] = "  y = log_softmax(x)\n  output y\n";
constexpr char kLogSumExp[] = R"(
  w = cast(x, dtype=f32)
  m = amax(w, axes=[1])
  s = sum(exp(w - m[:, None]), axes=[1])
  lse = m + log(s)
  output m
  output s
  output lse
)";
constexpr char kMasked[] = R"(
  input mask: f32[M, N]
  a = cast(x, dtype=f32) * 0.125 + mask
  e = exp(a - amax(a, axes=[1])[:, None])
  y = cast(e / sum(e, axes=[1])[:, None], dtype=T)
  output y
)";
constexpr char kPowersOfTwo[] = R"(
  a = cast(x, dtype=f32) * 1.5
  e = exp2(a - amax(a, axes=[1])[:, None])
  y = cast(e / sum(e, axes=[1])[:, None], dtype=T)
  output y
)";
constexpr char kCrossEntropy[] = R"(
  input target: i64[M]
  loss, lse = cross_entropy(x, target)
  output loss
  output lse
)";
// Beside other reductions of the same pass, of the next one, and of one that waits for the sum.
constexpr char kAmongOthers[] = R"(
  w = cast(x, dtype=f32)
  avg, m2, n = welford(w, axes=[1])
  m = amax(w, axes=[1])
  e = exp(w - m[:, None])
  s = sum(e, axes=[1])
  d = sum(e * w, axes=[1])
  p = e / s[:, None]
  q = sum(p * p, axes=[1])
  y = cast(p * q[:, None] + avg[:, None], dtype=T)
  output y
  output d
  output m2
)";

std::string Graph(const std::string& dtype, absl::string_view body) {
  return absl::StrReplaceAll(
      absl::StrCat("fusion f {\n  symbol M\n  symbol N\n  input x: T[M, N]\n", body, "}"),
      {{": T[", absl::StrCat(": ", dtype, "[")}, {"=T)", absl::StrCat("=", dtype, ")")}});
}

struct Lay {
  const char* name;
  std::function<void(Schedule&, int64_t columns)> edit;
};

void Plain(Schedule& s) {
  s.split = s.cluster = s.row_warps = 1;
  s.stages = s.pace = 0;
  s.persistent = s.shift = s.reread = s.tickets = s.blocks = s.runs = false;
}

void Hold(Schedule& s, int64_t columns) {
  s.persistent = true;
  for (s.registers = 1; s.columns_at_once() < columns;) ++s.registers;
}

void Share(Schedule& s, int64_t columns, int cluster, int stages, bool reread = false) {
  Plain(s);
  s.one_launch = false;
  s.lanes_per_row = 32;
  s.warps_per_row = 2;
  s.cluster = cluster;
  Hold(s, columns);
  s.grid = 2 * cluster;
  s.stages = stages;
  s.reread = reread;
}

// Some need a group whose reductions do not cross the rows.
std::vector<Lay> Lays(bool crossed) {
  std::vector<Lay> lays = {
      {"held", [](Schedule& s, int64_t columns) { Plain(s), Hold(s, columns); }},
      {"streamed",
       [](Schedule& s, int64_t) {
         Plain(s);
         s.lanes_per_row = 32;
         s.warps_per_row = s.registers = 2;
       }},
      {"streamed, a lane a row, an element a step",
       [](Schedule& s, int64_t) {
         Plain(s);
         s.vector = s.lanes_per_row = s.warps_per_row = s.registers = 1;
       }},
      {"in clusters", [](Schedule& s, int64_t columns) { Share(s, columns, 4, 0); }},
      {"in clusters, ahead", [](Schedule& s, int64_t columns) { Share(s, columns, 2, 2); }},
      {"in clusters, read again",
       [](Schedule& s, int64_t columns) { Share(s, columns, 8, 3, true); }},
  };
  if (crossed) return lays;
  for (const bool one_launch : {false, true}) {
    lays.push_back({one_launch ? "split, one launch" : "split", [=](Schedule& s, int64_t) {
                      Plain(s);
                      s.lanes_per_row = 32;
                      s.warps_per_row = s.registers = 1;
                      s.split = one_launch ? 3 : 40;
                      s.one_launch = one_launch;
                    }});
  }
  return lays;
}

GroupRun Laid(const Lay& lay, std::map<std::string, int64_t> sizes, bool online = true) {
  const int64_t columns = sizes.at("N");
  const auto edit = [=](Schedule& s) {
    lay.edit(s, columns);
    if (s.grid > 0 && !s.persistent) s.grid = 1;  // Each CTA has rows.
    s.online = online;
  };
  return {.sizes = std::move(sizes), .edit = edit};
}

GroupResult ExpectRightOnline(const std::string& text, const GroupRun& run) {
  GroupResult result = ExpectRight(text, run);
  EXPECT_THAT(result.kernel_text, HasSubstr("terms")) << text;
  return result;
}

TEST(Online, RowsOfEverySize) {
  testing::Part part;
  for (const char* dtype : {"f32", "bf16", "f16", "f64"}) {
    for (const Lay& lay : Lays(false)) {
      for (const int64_t columns : {1, 7, 64, 257, 1000}) {
        SCOPED_TRACE(lay.name);
        const GroupRun run = Laid(lay, {{"M", 5}, {"N", columns}});
        for (const char* body : {kSoftmax, kLogSumExp}) {
          if (!part.TakesNext()) continue;
          if (std::string(dtype) == "f64" && body == kLogSumExp) continue;
          ExpectRightOnline(Graph(dtype, body), run);
        }
      }
    }
  }
}

// A value that is the same in all columns is masked nowhere.
TEST(Online, OneColumn) {
  for (const Lay& lay : Lays(false)) {
    SCOPED_TRACE(lay.name);
    GroupRun run = Laid(lay, {{"M", 7}, {"N", 1}});
    const auto edit = run.edit;
    run.edit = [=](Schedule& s) {
      edit(s);
      s.facts = {{"N", 1, 1}};
    };
    for (const char* body : {kSoftmax, kLogSumExp, kMasked})
      ExpectRightOnline(Graph("f32", body), run);
  }
}

TEST(Online, EveryGraph) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (const int64_t columns : {40, 515}) {
      for (const Lay& lay : Lays(false)) {
        SCOPED_TRACE(lay.name);
        for (const char* body : {kLogSoftmax, kMasked, kPowersOfTwo, kAmongOthers})
          ExpectRightOnline(Graph(dtype, body), Laid(lay, {{"M", 3}, {"N", columns}}));
      }
      for (const Lay& lay : Lays(true)) {
        SCOPED_TRACE(lay.name);
        GroupRun run = Laid(lay, {{"M", 6}, {"N", columns}});
        run.inputs = [](std::vector<HostTensor>& inputs) {
          FillRandomIntegers(inputs[1], 3, 0, inputs[0].shape[1] - 1);
        };
        ExpectRightOnline(Graph(dtype, kCrossEntropy), run);
      }
    }
  }
}

TEST(Online, RowsThatStartAnywhere) {
  for (const int64_t columns : {41, 333, 515}) {
    for (const bool persistent : {false, true}) {
      GroupRun run{.sizes = {{"M", 5}, {"N", columns}}};
      run.edit = [=](Schedule& s) {
        Plain(s);
        s.vector = 4;
        s.shift = true;
        s.lanes_per_row = 32;
        s.warps_per_row = 1;
        s.registers = 2;
        if (persistent) Hold(s, columns);
        s.online = true;
      };
      for (const char* body : {kSoftmax, kMasked}) ExpectRightOnline(Graph("bf16", body), run);
    }
  }
}

// Rows of -infinity, with +infinity, with NaN, of huge values, that rise or fall all the way, where
// one element stands out, and where most are -infinity: what a thread, a step, a warp or a part has
// may be nothing else.
void Strange(std::vector<HostTensor>& inputs) {
  HostTensor& x = inputs[0];
  const int64_t columns = x.shape[1];
  std::mt19937 random(5);
  const double huge = x.dtype == DType::F16 ? 60000 : 3e38;
  for (int64_t c = 0; c < columns; ++c) {
    const double any = static_cast<double>(random() % 1000) / 100;
    const double rows[] = {
        -kInfinity,
        c == columns / 2 ? kInfinity : any,
        c == columns - 1 ? std::nan("") : any,
        c % 3 == 0 ? huge : -huge,
        static_cast<double>(c) / 4,
        static_cast<double>(-c) / 4,
        c == columns / 3 ? 50 : any,
        c == columns - 1 || c == columns / 5 ? any : -kInfinity,
        c == 0   ? -kInfinity
        : c == 1 ? kInfinity
                 : any,
        kInfinity,
        std::nan(""),
        c == 0 ? std::nan("") : -kInfinity,
        c < columns / 2 ? -kInfinity : -huge,
    };
    for (int64_t r = 0; r < x.shape[0]; ++r) x.set({r, c}, FloatScalar(rows[r % std::size(rows)]));
  }
}

TEST(Online, StrangeRows) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const int64_t columns : {2, 33, 515}) {
      for (const Lay& lay : Lays(false)) {
        SCOPED_TRACE(lay.name);
        GroupRun run = Laid(lay, {{"M", 13}, {"N", columns}});
        run.inputs = Strange;
        for (const char* body : {kSoftmax, kLogSumExp}) ExpectRightOnline(Graph(dtype, body), run);
      }
    }
  }
}

// The mask leaves nothing of some rows, and of others nothing to some threads.
TEST(Online, Masks) {
  for (const Lay& lay : Lays(false)) {
    SCOPED_TRACE(lay.name);
    GroupRun run = Laid(lay, {{"M", 7}, {"N", 515}});
    run.inputs = [](std::vector<HostTensor>& inputs) {
      for (int64_t r = 0; r < 7; ++r) {
        for (int64_t c = 0; c < 515; ++c)
          inputs[1].set({r, c}, FloatScalar(c * 6 < r * 515 ? 0 : -kInfinity));
      }
    };
    ExpectRightOnline(Graph("bf16", kMasked), run);
  }
}

// Rows beside each other in memory: a thread has a vector of them.
TEST(Online, DownTheColumns) {
  constexpr char kText[] = R"(fusion f {
  symbol N
  symbol M
  input x: bf16[N, M]
  w = cast(x, dtype=f32)
  m = amax(w, axes=[0])
  e = exp(w - m[None, :])
  s = sum(e, axes=[0])
  y = cast(e / s[None, :], dtype=bf16)
  z = log(s)
  output y
  output z
})";
  for (const int64_t columns : {1, 37, 300}) {
    for (const int cluster : {1, 4}) {
      for (const int split : {1, 5}) {
        for (const bool persistent : {false, true}) {
          if (split > 1 && (cluster > 1 || persistent)) continue;
          GroupRun run{.sizes = {{"N", columns}, {"M", 72}}};
          run.edit = [=](Schedule& s) {
            ASSERT_TRUE(s.outer);
            Plain(s);
            s.vector = 4;
            s.lanes_per_row = 2;
            s.warps_per_row = 4;
            s.cluster = cluster;
            s.split = split;
            s.registers = 2;
            if (persistent) Hold(s, columns);
            s.one_launch = false;
            s.online = true;
          };
          run.inputs = [&](std::vector<HostTensor>& inputs) {
            for (int64_t c = 0; c < columns; ++c) {
              inputs[0].set({c, 3}, FloatScalar(-kInfinity));
              inputs[0].set({c, 7}, FloatScalar(c == columns / 2 ? 3 : -kInfinity));
            }
            inputs[0].set({columns / 2, 11}, FloatScalar(std::nan("")));
          };
          ExpectRightOnline(kText, run);
        }
      }
    }
  }
}

TEST(Online, SavesAnExchangeAndAPass) {
  const std::string softmax = Graph("bf16", kSoftmax);
  for (const Lay& lay : Lays(false)) {
    SCOPED_TRACE(lay.name);
    const auto with = ExpectRight(softmax, Laid(lay, {{"M", 5}, {"N", 4096}}));
    const auto without = ExpectRight(softmax, Laid(lay, {{"M", 5}, {"N", 4096}}, false));
    const std::string name = lay.name;
    const auto both = [&](const char* what) {
      return std::pair(CountOf(with.kernel_text, what), CountOf(without.kernel_text, what));
    };
    if (name.find("clusters") != std::string::npos) {
      EXPECT_EQ(both("await stores"), std::pair(1, 2)) << with.kernel_text;
    } else if (name == "streamed") {
      const auto forward = both("for step"), backward = both("for behind");
      EXPECT_EQ(forward.first + backward.first, 2) << with.kernel_text;
      EXPECT_EQ(forward.second + backward.second, 3) << without.kernel_text;
    } else if (name == "split") {
      EXPECT_EQ(both("kernel "), std::pair(2, 3)) << with.kernel_text;
    }
  }
}

// Chosen for rows that no cluster holds, not where it saves nothing or there is no such sum.
TEST(Online, WhereItSaves) {
  const auto chosen = [](absl::string_view body, int64_t rows, int64_t columns) {
    const absl::StatusOr<Fusion> group = ParseFusion(Graph("bf16", body));
    EXPECT_TRUE(group.ok()) << group.status();
    const ScheduleContext context{.sizes = {rows, columns}, .device = *FindDevice("h200")};
    return *FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  };
  const Schedule saves = chosen(kSoftmax, 1, 700000);
  EXPECT_TRUE(saves.online);
  EXPECT_THAT(saves.ToString(), HasSubstr("maximum and sum in one pass"));
  EXPECT_FALSE(chosen(kSoftmax, 4, 512).online);
  EXPECT_FALSE(chosen("  y = sum(exp(x), axes=[1])\n  output y\n", 1, 700000).online);
}

// Both are worth timing where the one may save something.
TEST(Online, Alternatives) {
  for (const int64_t columns : {1000, 200000}) {
    const absl::StatusOr<Fusion> group = ParseFusion(Graph("bf16", kSoftmax));
    ASSERT_TRUE(group.ok()) << group.status();
    ScheduleContext context;
    context.sizes = {512, columns};
    context.device = Devices()[0];
    const absl::StatusOr<Schedule> chosen =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_FALSE(chosen->online) << chosen->ToString();
    const absl::StatusOr<std::vector<Schedule>> list = Alternatives(*group, *chosen, context);
    ASSERT_TRUE(list.ok()) << list.status();
    std::set<bool> in_clusters, held;
    for (const Schedule& s : *list) {
      if (s.persistent) (s.cluster > 1 ? in_clusters : held).insert(s.online);
    }
    EXPECT_FALSE(held.contains(true));
    EXPECT_EQ(in_clusters.size(), columns > 100000 ? 2 : 0);
  }
}

TEST(Online, OnlyOfTheMaximumOfTheSameElements) {
  const auto found = [](absl::string_view body) {
    const absl::StatusOr<Fusion> group = ParseFusion(Graph("f32", body));
    EXPECT_TRUE(group.ok()) << group.status();
    const absl::StatusOr<GroupShape> shape = AnalyzeGroup(*group);
    EXPECT_TRUE(shape.ok()) << shape.status();
    const absl::StatusOr<TracedKernel> traced = Trace(*group, *shape, {});
    EXPECT_TRUE(traced.ok()) << traced.status();
    return FindOnlineSums(*traced).size();
  };
  const auto sum = [](absl::string_view of, absl::string_view max) {
    return absl::StrCat("  m = ", max, "\n  s = sum(", of, ", axes=[1])\n  output s\n");
  };
  const std::string m = "amax(x, axes=[1])[:, None]";
  EXPECT_EQ(found(sum("exp(x - m)", m)), 1);
  EXPECT_EQ(found(sum("exp2(x - m)", m)), 1);
  EXPECT_EQ(found(sum("exp(m - x)", m)), 0);
  EXPECT_EQ(found(sum("exp(x * 2.0 - m)", m)), 0);
  EXPECT_EQ(found(sum("exp(x - m) * x", m)), 0);
  EXPECT_EQ(found(sum("exp(x - m)", "amin(x, axes=[1])[:, None]")), 0);
  EXPECT_EQ(found(sum("exp(x - m)", "amax(x * 2.0, axes=[1])[:, None]")), 0);
  EXPECT_EQ(found("  m = amax(x, axes=[1])[:, None]\n  s = sum(exp(x - m), axes=[1])\n"
                  "  t = sum(exp2(x - m), axes=[1])\n  output s\n  output t\n"),
            1);
}

TEST(Online, PrecisionOfExponentials) {
  const Lay lay = Lays(false)[1];
  const GroupRun run = Laid(lay, {{"M", 3}, {"N", 515}});
  const std::string rounded = ExpectRight(Graph("bf16", kSoftmax), run).kernel_text;
  const std::string exact = ExpectRight(Graph("f32", kLogSumExp), run).kernel_text;
  const auto count = [](const std::string& text, const std::string& precision) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(" = exp(", at)) != std::string::npos; ++at) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      count += line.find(precision) != std::string::npos;
    }
    return count;
  };
  EXPECT_GE(count(rounded, "loose"), 1) << rounded;
  EXPECT_GE(count(rounded, "of a term"), 1) << rounded;
  EXPECT_EQ(count(exact, "loose") + count(exact, "of a term"), 0) << exact;
  const std::string log_alone =
      ExpectRight(Graph("f32", absl::StrReplaceAll(kLogSumExp, {{"  output s\n", ""}})), run)
          .kernel_text;
  EXPECT_GE(count(log_alone, "of a term"), 1) << log_alone;
}

}  // namespace
}  // namespace seam
