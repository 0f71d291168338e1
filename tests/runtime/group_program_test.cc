// A group's schedule where the kernels of the heuristic's spill registers: others in its place, one
// after the other, and itself again if all of them do.
#include "runtime/group_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/parser.h"

namespace seam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GroupProgram, EasesWhatSpills) {
  absl::StatusOr<Fusion> fusion = ParseFusion(R"(fusion norm {
  symbol M
  symbol N
  input x: bf16[M, N]
  y = softmax(x, axis=-1)
  output y
})");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  GroupProgram group;
  group.group = std::make_shared<const Fusion>(*std::move(fusion));
  group.scheduler = SchedulerKind::kReduction;
  const ScheduleContext context{.sizes = {65536, 1024}, .device = Devices()[0]};
  const auto choose = [&] { return group.Choose(SchedulerKind::kReduction, context, nullptr); };

  const absl::StatusOr<GroupProgram::Choice> first = choose();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->chosen.has_value());
  EXPECT_EQ(first->variant->plan().schedule, *first->chosen);
  EXPECT_THAT(first->origin, Not(HasSubstr("spill")));
  int ctas = first->chosen->min_ctas_per_sm;
  ASSERT_GT(ctas, 2);
  while (group.Ease(*first->chosen, context.device)) {
    const absl::StatusOr<GroupProgram::Choice> next = choose();
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(*next->chosen, *first->chosen);
    const Schedule& taken = next->variant->plan().schedule;
    if (taken == *first->chosen) break;
    EXPECT_LT(taken.min_ctas_per_sm, ctas);
    ctas = taken.min_ctas_per_sm;
    EXPECT_THAT(next->origin, HasSubstr("with which it would spill registers"));
    EXPECT_TRUE(next->variant->Sizes(context.sizes).ok());
  }
  EXPECT_LT(ctas, first->chosen->min_ctas_per_sm);
  // None helped: what was chosen, for good.
  EXPECT_EQ(choose()->variant->plan().schedule, *first->chosen);
  EXPECT_FALSE(group.Ease(*first->chosen, context.device));

  // Calls of other sizes have schedules of their own.
  const ScheduleContext other{.sizes = {65536, 4099}, .device = Devices()[0]};
  const auto others = group.Choose(SchedulerKind::kReduction, other, nullptr);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_EQ(others->variant->plan().schedule, *others->chosen);
}

}  // namespace
}  // namespace seam
