// A group's schedule where the heuristic's does not do: its kernels spill registers, take more
// shared memory than there is, or the terms of their indices more than 32 bits.
#include "runtime/group_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/text/parser.h"

namespace seam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GroupProgram Reduction(const std::string& text) {
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  EXPECT_TRUE(fusion.ok()) << fusion.status();
  GroupProgram group;
  group.group = std::make_shared<const Fusion>(*std::move(fusion));
  group.scheduler = SchedulerKind::kReduction;
  return group;
}

TEST(GroupProgram, EasesWhatSpills) {
  GroupProgram group = Reduction(R"(fusion norm {
  symbol M
  symbol N
  input x: bf16[M, N]
  y = softmax(x, axis=-1)
  output y
})");
  const ScheduleContext context{.sizes = {65536, 1024}, .device = Devices()[0]};
  const auto choose = [&] { return group.Choose(SchedulerKind::kReduction, context, nullptr); };

  const absl::StatusOr<GroupProgram::Choice> first = choose();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->chosen.has_value());
  EXPECT_EQ(first->variant->plan().schedule, *first->chosen);
  EXPECT_THAT(first->origin, Not(HasSubstr("spill")));
  const int chosen = first->chosen->min_ctas_per_sm;
  ASSERT_GE(chosen, 4);
  // Each spills less than the one before, but for the last one.
  std::vector<int> ctas;
  int spills = 100;
  while (group.Ease(*first->chosen, spills, context.device)) {
    const absl::StatusOr<GroupProgram::Choice> next = choose();
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(*next->chosen, *first->chosen);
    ctas.push_back(next->variant->plan().schedule.min_ctas_per_sm);
    EXPECT_THAT(next->origin, HasSubstr("with which it would spill registers"));
    EXPECT_TRUE(next->variant->Sizes(context.sizes).ok());
    spills = ctas.back() * 2 > chosen ? spills - 8 : 200;
  }
  // Down to half of them, then the best for good.
  ASSERT_GE(ctas.size(), 3u);
  const auto half = std::min_element(ctas.begin(), ctas.end());
  EXPECT_EQ(*half, (chosen + 1) / 2);
  EXPECT_EQ(half + 2, ctas.end());
  EXPECT_EQ(ctas.back(), *(half - 1));
  EXPECT_FALSE(group.Ease(*first->chosen, spills, context.device));
  EXPECT_EQ(choose()->variant->plan().schedule.min_ctas_per_sm, ctas.back());

  // Calls of other sizes have schedules of their own.
  const ScheduleContext other{.sizes = {65536, 4099}, .device = Devices()[0]};
  const auto others = group.Choose(SchedulerKind::kReduction, other, nullptr);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_EQ(others->variant->plan().schedule, *others->chosen);
}

// Points of a thread leave as many states for other warps: fewer where a CTA has no room for them.
TEST(GroupProgram, HasFewerPointsWhereThereIsNoRoom) {
  GroupProgram group = Reduction(R"(fusion product {
  symbol M
  input x: bf16[M, 4096]
  input w: bf16[4, 4096]
  y = sum(cast(x, dtype=f32)[:, None] * cast(w, dtype=f32), axes=[2])
  output y
})");
  ScheduleContext context{.sizes = {65536}, .device = Devices()[0]};
  const auto choose = [&] { return group.Choose(SchedulerKind::kReduction, context, nullptr); };
  const absl::StatusOr<GroupProgram::Choice> first = choose();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto bytes = [](const GroupProgram::Choice& choice) {
    return choice.variant->plan().launches[0].kernel.SharedBytes();
  };
  const int points = first->chosen->points;
  ASSERT_GT(points, 1) << first->chosen->ToString();
  ASSERT_GT(bytes(*first), 0);

  context.device.smem_bytes_per_cta = bytes(*first) - 1;
  const absl::StatusOr<GroupProgram::Choice> second = choose();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->variant->plan().schedule.points, points / 2);
  EXPECT_LT(bytes(*second), bytes(*first));
  EXPECT_THAT(second->origin, HasSubstr("would take more shared memory than a CTA has"));
  context.device.smem_bytes_per_cta = 0;
  EXPECT_THAT(choose().status().ToString(), HasSubstr("more than a h200 has"));
}

// What was chosen for a call's sizes is not worked out again: this makes CompileFor serve a later
// Run.
TEST(GroupProgram, ChoosesOnceForTheSameSizes) {
  GroupProgram group = Reduction(
      "fusion f {\n symbol M\n symbol N\n input x: f32[M, N]\n y = softmax(x, axis=-1)\n"
      "output y\n}");
  ScheduleContext context{.sizes = {64, 1024}, .device = Devices()[0]};
  const auto choose = [&] {
    const auto choice = group.Choose(SchedulerKind::kReduction, context, nullptr);
    EXPECT_TRUE(choice.ok()) << choice.status();
    return choice->variant->plan().schedule;
  };
  const Schedule first = choose();
  EXPECT_EQ(choose(), first);
  EXPECT_EQ(group.chosen.size(), 1u);
  context.alignment_bytes = 4;
  EXPECT_FALSE(choose() == first);
  context.sizes = {64, 1000};
  choose();
  EXPECT_EQ(group.chosen.size(), 3u);
  // More sizes than are kept.
  for (int64_t m = 1; m <= 600; ++m) {
    context.sizes = {m, 1000};
    ASSERT_TRUE(group.ChooseByHeuristic(SchedulerKind::kReduction, context).ok());
  }
  EXPECT_LE(group.chosen.size(), 256u);
}

// Variants that no call has any more are forgotten, not those that one has.
TEST(GroupProgram, DropsWhatNobodyUses) {
  GroupProgram group = Reduction(
      "fusion f {\n symbol M\n symbol N\n input x: f32[M, N]\n y = softmax(x, axis=-1)\n"
      "output y\n}");
  std::vector<std::shared_ptr<Variant>> used;
  for (const int64_t n : {64, 1024, 4099}) {
    const auto choice = group.Choose(SchedulerKind::kReduction,
                                     {.sizes = {64, n}, .device = Devices()[0]}, nullptr);
    ASSERT_TRUE(choice.ok()) << choice.status();
    group.Keep(choice->variant);
    used.push_back(choice->variant);
  }
  ASSERT_EQ(group.variants.size(), 3u);
  used.pop_back();
  used.erase(used.begin());
  group.DropUnused();
  EXPECT_EQ(group.variants, used);
}

// Tensors that 32 bits index, but the terms of indices of threads that have no element, not.
TEST(GroupProgram, HasIndicesOf64BitsWhereTermsNeedThem) {
  absl::StatusOr<Fusion> fusion = ParseFusion(R"(fusion product {
  symbol N
  symbol M
  input x: f32[N, M]
  input y: f32[M, N]
  z = permute(x, axes=[1, 0]) * y
  output z
})");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  GroupProgram group;
  group.group = std::make_shared<const Fusion>(*std::move(fusion));
  group.scheduler = SchedulerKind::kPointwise;
  const ScheduleContext large{.sizes = {1024, 1 << 20}, .device = Devices()[0]};
  const auto choice = group.Choose(SchedulerKind::kPointwise, large, nullptr);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->chosen->index32);
  EXPECT_FALSE(choice->variant->plan().schedule.index32);
  EXPECT_TRUE(choice->variant->Sizes(large.sizes).ok());
  const ScheduleContext context{.sizes = {8192, 8192}, .device = Devices()[0]};
  const auto usual = group.Choose(SchedulerKind::kPointwise, context, nullptr);
  ASSERT_TRUE(usual.ok()) << usual.status();
  EXPECT_TRUE(usual->variant->plan().schedule.index32);
}

}  // namespace
}  // namespace seam
