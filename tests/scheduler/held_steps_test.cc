// Steps that stay in shared memory between the phases of CTAs that share rows: which loads, right
// at every size, and as many as have room.
#include "scheduler/held_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "scheduler/kernel/access.h"
#include "scheduler/lower.h"
#include "scheduler/scheduler.h"
#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using ::testing::AllOf;
using testing::ExpectRight;
using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using ::testing::Not;

// Channels [C] that lie last, of P pixels: a batch norm and its backward pass.
std::string Forward(const std::string& dtype) {
  return absl::StrCat(R"(fusion forward {
  symbol P
  symbol C
  input x: )",
                      dtype, R"([P, C]
  input w: f32[C]
  f = cast(x, dtype=f32)
  mean, m2, n = welford(f, axes=[0])
  y = cast((f - mean[None, :]) * (rsqrt(m2 / n + 1e-5) * w)[None, :], dtype=)",
                      dtype, R"()
  output y
  output mean
})");
}
std::string Backward(const std::string& dtype) {
  return absl::StrCat(R"(fusion backward {
  symbol P
  symbol C
  input x: )",
                      dtype, R"([P, C]
  input g: )",
                      dtype, R"([P, C]
  input mean: f32[C]
  centered = cast(x, dtype=f32) - mean[None, :]
  gf = cast(g, dtype=f32)
  db = sum(gf, axes=[0])
  dw = sum(gf * centered, axes=[0])
  dx = cast(gf - db[None, :] * 0.01 - centered * dw[None, :] * 0.001, dtype=)",
                      dtype, R"()
  output dx
  output dw
  output db
})");
}
// Of 8 groups of K channels, which are rows of their own.
std::string OfGroups(const std::string& dtype) {
  return absl::StrCat(R"(fusion of_groups {
  symbol P
  symbol K
  input x: )",
                      dtype, R"([P, 8, K]
  f = cast(x, dtype=f32)
  mean, m2, n = welford(f, axes=[0, 2], keepdims=true)
  y = cast((f - mean) * rsqrt(m2 / n + 1e-5), dtype=)",
                      dtype, R"()
  output y
})");
}
// Rows [M] of N columns. Three phases: elements outside are -inf for the maximum, 0 for the sums.
constexpr char kThreePhases[] = R"(fusion three_phases {
  symbol M
  symbol N
  input x: bf16[M, N]
  f = cast(x, dtype=f32)
  s = sum(f, axes=[1], keepdims=true)
  m = amax(f - s * 0.01 - 3.0, axes=[1], keepdims=true)
  y = f - m
  output y
})";
// The second statistics find their pivots in memory.
constexpr char kStatisticsTwice[] = R"(fusion statistics_twice {
  symbol M
  symbol N
  input x: f32[M, N]
  m = amax(x, axes=[1], keepdims=true)
  mean, m2, n = welford((x - m) * 100.0, axes=[1], keepdims=true)
  y = (x - m) * 100.0 - mean * rsqrt(m2 / n + 1e-5)
  output y
})";

// Beside what is held the last phase loads weights.
constexpr char kWeights[] = R"(fusion weights {
  symbol M
  symbol N
  input x: bf16[M, N]
  input w: f32[N]
  y, mean, rstd = layer_norm(cast(x, dtype=f32), w, axes=[1], eps=1e-5)
  output y
})";

struct Lay {
  int split, held, registers = 2, vector = 8, lanes = 4, warps = 2;
};
GroupRun Laid(const Lay& lay, std::map<std::string, int64_t> sizes) {
  const auto edit = [=](Schedule& s) {
    s.vector = std::min(s.vector, lay.vector);
    s.lanes_per_row = lay.lanes;
    s.warps_per_row = lay.warps;
    s.row_warps = s.cluster = 1;
    s.registers = lay.registers;
    s.persistent = s.shift = s.early = false;
    s.grid = s.stages = 0;
    s.split = lay.split;
    s.one_launch = true;
    s.held = lay.held;
    // Kernels that know how many steps there are hold none of a single one.
    for (SymbolFact& fact : s.facts) {
      if (fact.value < 0) continue;
      fact.multiple = std::gcd(fact.value, int64_t{8});
      fact.value = -1;
    }
  };
  return {.sizes = std::move(sizes), .edit = edit};
}

// CTAs whose columns end inside a step, that have fewer than others or none; rows beyond the end,
// or that end inside a vector; all steps held, some, more than there are.
TEST(HeldSteps, RowsThatAreNeighbours) {
  testing::Part part;
  for (const char* dtype : {"bf16", "f32"}) {
    for (const std::string& text : {Forward(dtype), Backward(dtype)}) {
      for (const int held : {1, 2, 7}) {
        for (const int64_t pixels : {1, 40, 113, 400}) {
          for (const int64_t channels : {8, 40, 42}) {
            if (!part.TakesNext()) continue;
            const Lay lay = {.split = 3, .held = held, .registers = pixels == 113 ? 3 : 2};
            const GroupResult result =
                ExpectRight(text, Laid(lay, {{"P", pixels}, {"C", channels}}));
            EXPECT_THAT(result.kernel_text,
                        AllOf(HasSubstr("store shared.held_0["), HasSubstr("load shared.held_0["),
                              HasSubstr("one launch (together)")));
          }
        }
      }
    }
  }
}

TEST(HeldSteps, RowsThatLieBehindEachOther) {
  for (const int vector : {1, 2, 8}) {
    for (const int64_t columns : {1, 100, 1000, 1003}) {
      const Lay lay = {.split = 4, .held = 2, .vector = vector, .lanes = 8};
      for (const char* text : {kThreePhases, kStatisticsTwice, kWeights}) {
        const GroupResult result = ExpectRight(text, Laid(lay, {{"M", 5}, {"N", columns}}));
        EXPECT_THAT(result.kernel_text, HasSubstr("load shared.held_0["));
      }
    }
  }
}

// Nothing stays but what phases have in common, nor where CTAs have a single step.
TEST(HeldSteps, OnlyWhatIsReadAgain) {
  constexpr char kText[] = R"(fusion some {
    symbol M
    symbol N
    input x: f32[M, N]
    input y: f32[M, 2*N]
    input z: f32[M, N]
    input w: f32[N]
    a = sum(x * y[:, :N], axes=[1], keepdims=true)
    out = x * a + y[:, N:] + z + w
    output out
  })";
  const Lay lay = {.split = 2, .held = 1, .registers = 1, .vector = 4, .lanes = 32, .warps = 1};
  const std::string text = ExpectRight(kText, Laid(lay, {{"M", 3}, {"N", 1000}})).kernel_text;
  EXPECT_THAT(text, HasSubstr("  shared held_0: f32[128] lasting\n"));
  EXPECT_THAT(text, Not(HasSubstr("held_1")));
  GroupRun one_step = Laid(lay, {{"M", 3}, {"N", 256}});
  one_step.edit = [edit = one_step.edit](Schedule& s) {
    edit(s);
    s.facts = {{"N", 1, 256}};
  };
  EXPECT_THAT(ExpectRight(kText, one_step).kernel_text, Not(HasSubstr("held")));
}

// Visits all statements, those of `block` and below.
void ForEach(kernel::Block* block, const std::function<void(kernel::Stmt&)>& visit) {
  for (kernel::Stmt& stmt : *block) {
    visit(stmt);
    if (auto* loop = std::get_if<kernel::For>(&stmt.node)) ForEach(&loop->body, visit);
    if (auto* branch = std::get_if<kernel::If>(&stmt.node)) {
      ForEach(&branch->body, visit);
      ForEach(&branch->otherwise, visit);
    }
  }
}

// Wrong places and steps, and what would be read where each phase is a launch.
TEST(HeldSteps, BugsAreFound) {
  using Edit = std::function<void(kernel::Kernel&, kernel::Stmt&)>;
  const auto is_held = [](const kernel::Kernel& k, const auto* access) {
    return access != nullptr && access->space == kernel::Space::Shared &&
           k.shared[access->array].lasting >= 0;
  };
  const Edit bugs[] = {// Another thread's place.
                       [&](kernel::Kernel& k, kernel::Stmt& stmt) {
                         auto* load = std::get_if<kernel::Load>(&stmt.node);
                         if (is_held(k, load))
                           load->index = Mod(load->index + load->width, k.shared[0].count);
                       },
                       [&](kernel::Kernel& k, kernel::Stmt& stmt) {
                         auto* store = std::get_if<kernel::Store>(&stmt.node);
                         if (is_held(k, store))
                           store->index = Mod(store->index + store->width, k.shared[0].count);
                       },
                       // All steps are stored, or none.
                       [&](kernel::Kernel& k, kernel::Stmt& stmt) {
                         auto* store = std::get_if<kernel::Store>(&stmt.node);
                         if (is_held(k, store)) store->predicate = 1;
                       },
                       [&](kernel::Kernel& k, kernel::Stmt& stmt) {
                         auto* store = std::get_if<kernel::Store>(&stmt.node);
                         if (is_held(k, store)) store->predicate = 0;
                       },
                       // One phase is always taken to be in the other's launch.
                       [](kernel::Kernel& k, kernel::Stmt& stmt) {
                         auto* loop = std::get_if<kernel::For>(&stmt.node);
                         if (loop != nullptr)
                           loop->extent = kernel::Substitute(loop->extent, k.together, 1);
                       },
                       // A step too few from memory.
                       [](kernel::Kernel& k, kernel::Stmt& stmt) {
                         auto* loop = std::get_if<kernel::For>(&stmt.node);
                         if (loop != nullptr && kernel::DependsOn(loop->extent, k.together) &&
                             RangeOf(loop->extent).hi > 2) {
                           loop->extent -= 1;
                         }
                       }};
  for (const std::string& text : {Forward("bf16"), Backward("f32")}) {
    const Lay lay = {.split = 3, .held = 2, .vector = 4};
    GroupRun run = Laid(lay, {{"P", 400}, {"C", 40}});
    ExpectRight(text, run);
    for (size_t i = 0; i < std::size(bugs); ++i) {
      int planted = 0;
      run.edit_plan = [&](LaunchPlan& plan) {
        kernel::Kernel& k = plan.launches[0].kernel;
        const std::string before = kernel::PrintKernel(k);
        ForEach(&k.body, [&](kernel::Stmt& stmt) { bugs[i](k, stmt); });
        planted += kernel::PrintKernel(k) != before;
      };
      const GroupResult result = testing::RunGroupText(text, run);
      EXPECT_EQ(planted, 1) << "bug " << i;
      EXPECT_FALSE(result.status.ok()) << "bug " << i << " in\n" << result.kernel_text;
    }
  }
}

// Nothing is held beside weights of the columns, for want of registers.
TEST(HeldSteps, NotBesideWeights) {
  const absl::StatusOr<Fusion> group = ParseFusion(kWeights);
  ASSERT_TRUE(group.ok()) << group.status();
  ScheduleContext context;
  context.sizes = {4, 1 << 22};
  context.device = Devices()[0];
  const absl::StatusOr<Schedule> s =
      FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_GT(s->split, 1);
  EXPECT_EQ(s->held, 0);
}

// Less than a fifth of the data of a backward pass is not worth it.
TEST(HeldSteps, NotLittle) {
  for (const int64_t pixels : {200704, 802816}) {
    const absl::StatusOr<Fusion> group = ParseFusion(Backward("f32"));
    ASSERT_TRUE(group.ok()) << group.status();
    ScheduleContext context;
    context.sizes = {pixels, 64};
    context.device = Devices()[0];
    const absl::StatusOr<Schedule> s =
        FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_EQ(s->held > 0, pixels < 800000) << s->ToString();
  }
}

// What a CTA reads in its last step is a quarter of a step at least.
TEST(HeldSteps, TheLastOneIsNotNearlyEmpty) {
  for (const std::string dtype : {"bf16", "f32"}) {
    const absl::StatusOr<Fusion> group = ParseFusion(Forward(dtype));
    ASSERT_TRUE(group.ok()) << group.status();
    for (const int64_t channels : {512, 1024}) {
      for (const int64_t pixels : {12544, 13000, 16900, 25088, 50176}) {
        ScheduleContext context;
        context.sizes = {pixels, channels};
        context.device = Devices()[0];
        const absl::StatusOr<Schedule> s =
            FindScheduler(SchedulerKind::kReduction)->choose(*group, context);
        ASSERT_TRUE(s.ok()) << s.status();
        if (s->held == 0) continue;
        const int64_t at_once = s->columns_per_step() / s->registers * s->split;
        const int64_t vectors = (pixels + at_once - 1) / at_once;
        const int64_t last = (vectors - 1) % s->registers + 1;
        EXPECT_GE(4 * last, s->registers) << pixels << " x " << channels << s->ToString();
      }
    }
  }
}

// All that fits beside the states, for as many CTAs an SM as the launch needs.
TEST(HeldSteps, AsManyAsHaveRoom) {
  constexpr int64_t kSmBytes = 228 * 1024, kOfDriver = 1024;
  struct Case {
    std::string text;
    std::vector<int64_t> sizes;
    int64_t rows, columns;
  };
  std::vector<Case> cases;
  for (const char* text : {kThreePhases, kStatisticsTwice})
    cases.push_back({text, {4, 1 << 22}, 4, 1 << 22});
  for (const std::string dtype : {"bf16", "f32"}) {
    for (const std::string& text : {Forward(dtype), Backward(dtype)}) {
      for (const auto& [pixels, channels] :
           std::vector<std::pair<int64_t, int64_t>>{{200704, 64}, {12544, 256}, {3136, 64}}) {
        cases.push_back({text, {pixels, channels}, channels, pixels});
      }
    }
    cases.push_back({OfGroups(dtype), {65536, 10}, 8 * 10, 65536});
  }
  const DeviceInfo device = Devices()[0];
  for (const Case& c : cases) {
    const absl::StatusOr<Fusion> group = ParseFusion(c.text);
    ASSERT_TRUE(group.ok()) << group.status();
    ScheduleContext context;
    context.sizes = c.sizes;
    context.device = device;
    absl::StatusOr<LaunchPlan> plan = ScheduleGroup(*group, SchedulerKind::kReduction, context);
    ASSERT_TRUE(plan.ok()) << plan.status();
    Schedule s = plan->schedule;
    ASSERT_GT(s.split, 1) << s.ToString();
    EXPECT_GT(s.held, 0) << s.ToString();
    const int64_t ctas = (c.rows + s.rows_per_cta() - 1) / s.rows_per_cta() * s.split;
    const int64_t of_sm = (ctas + device.sms - 1) / device.sms;
    EXPECT_LE(of_sm * (plan->launches[0].kernel.SharedBytes() + kOfDriver), kSmBytes)
        << s.ToString();
    if (s.held * s.columns_per_step() * s.split >= c.columns) continue;  // That is all there is.
    ++s.held;
    plan = Lower(*group, s);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GT(of_sm * (plan->launches[0].kernel.SharedBytes() + kOfDriver), kSmBytes)
        << s.ToString();
  }
}

TEST(HeldSteps, OfOneLaunchInWhichCtasShareRows) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.held = 1;
  s.one_launch = true;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("steps are held"));
  s.split = 2;
  EXPECT_TRUE(CheckSchedule(s).ok());
  EXPECT_THAT(s.ToString(), HasSubstr("1 step of a CTA stays in shared memory until then"));
  s.one_launch = false;
  EXPECT_THAT(std::string(CheckSchedule(s).message()), HasSubstr("steps are held"));
}

}  // namespace
}  // namespace seam
