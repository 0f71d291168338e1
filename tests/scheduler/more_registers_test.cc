// What spills has other schedules: fewer CTAs an SM by steps that give a thread some registers,
// down to one CTA, fewer vectors, a second kernel.
#include "scheduler/more_registers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "scheduler/choose.h"

namespace seam {
namespace {

using ::testing::ElementsAre;

const DeviceInfo& H200() { return Devices()[0]; }

Schedule OfThreads(int threads, int ctas) {
  Schedule s;
  s.kind = SchedulerKind::kReduction;
  s.lanes_per_row = 32;
  s.warps_per_row = threads / 32;
  s.min_ctas_per_sm = ctas;
  return s;
}

std::vector<int> Steps(Schedule s) {
  std::vector<int> ctas;
  while (const std::optional<Schedule> next = WithMoreRegisters(s, H200())) {
    s = *next;
    ctas.push_back(s.min_ctas_per_sm);
  }
  return ctas;
}

TEST(MoreRegisters, EachStepGivesSome) {
  EXPECT_THAT(Steps(OfThreads(512, 4)), ElementsAre(3, 2, 1));
  // Eight of 256 threads have 32 registers each, seven have no more than 36, which are 32 again.
  EXPECT_THAT(Steps(OfThreads(256, 8)), ElementsAre(6, 5, 4, 3, 2, 1));
  // Two of 128 threads have all that a thread can have.
  EXPECT_THAT(Steps(OfThreads(128, 3)), ElementsAre(2));
  EXPECT_THAT(Steps(OfThreads(1024, 1)), ElementsAre());
  EXPECT_THAT(Steps(OfThreads(128, 0)), ElementsAre());
}

// Threads with several points: fewer of them.
TEST(MoreRegisters, FewerPoints) {
  Schedule s = OfThreads(128, 0);
  s.points = 8;
  std::vector<int> points;
  for (const Schedule& easier : EasierSchedules(s, H200())) {
    if (easier.registers == s.registers) points.push_back(easier.points);
  }
  EXPECT_THAT(points, ElementsAre(4, 2, 1));
}

// And of points along a second axis, until there is one, which divides everything.
TEST(MoreRegisters, FewerPointsAlongTwoAxes) {
  Schedule s = OfThreads(128, 0);
  s.points = 4;
  s.beside = 1;
  s.beside_points = 5;
  s.uneven = true;
  std::vector<int> points;
  for (const Schedule& easier : EasierSchedules(s, H200())) {
    EXPECT_TRUE(CheckSchedule(easier).ok()) << CheckSchedule(easier);
    if (easier.registers == s.registers) points.push_back(easier.points_of_thread());
  }
  EXPECT_THAT(points, ElementsAre(10, 5, 1));
}

// Less shared memory: less of rows ahead, then none, then fewer rows a CTA.
TEST(MoreRegisters, LessSharedMemory) {
  Schedule s = OfThreads(128, 2);
  s.persistent = true;
  s.lanes_per_row = 8;
  s.warps_per_row = 1;
  s.row_warps = 4;
  s.grid = 264;
  s.stages = 3;
  std::vector<int> stages, rows;
  for (const Schedule& smaller : SmallerSchedules(s, H200())) {
    EXPECT_TRUE(CheckSchedule(smaller).ok()) << smaller.ToString();
    if (smaller.min_ctas_per_sm != 2) continue;
    stages.push_back(smaller.stages);
    rows.push_back(smaller.row_warps);
  }
  EXPECT_THAT(stages, ElementsAre(2, 1, 0, 0, 0));
  EXPECT_THAT(rows, ElementsAre(4, 4, 4, 2, 1));
}

// Clusters whose rows do not all start alike stay as many as the device holds; others come in as
// many as their rows start alike, if so many are held.
TEST(MoreRegisters, ClustersOfShiftedRows) {
  Schedule s = OfThreads(256, 2);
  s.persistent = s.shift = true;
  s.vector = 8;
  s.cluster = 16;
  s.grid = 14 * 16;
  ASSERT_GT(s.stretches(), 1);
  const std::optional<Schedule> eased = WithMoreRegisters(s, H200());
  ASSERT_TRUE(eased.has_value());
  EXPECT_EQ(eased->grid, 7 * 16);
  EXPECT_GT(eased->stretches(), 1);
  s.grid = 8 * 16;
  EXPECT_FALSE(WithMoreRegisters(s, H200()).has_value());
  s.cluster = 8;
  s.grid = 24 * 8;
  EXPECT_EQ(WithMoreRegisters(s, H200())->grid, 8 * 8);
}

// Islands that share a launch have as many registers as the one that takes the most; then each has
// its own.
TEST(MoreRegisters, IslandsThatSpillAreApart) {
  Schedule s;
  s.kind = SchedulerKind::kHorizontal;
  s.islands = {OfThreads(512, 1), OfThreads(512, 1)};
  const std::vector<Schedule> easier = EasierSchedules(s, H200());
  ASSERT_EQ(easier.size(), 1u);
  EXPECT_TRUE(easier[0].islands[0].apart && easier[0].islands[1].apart);
  EXPECT_TRUE(EasierSchedules(easier[0], H200()).empty());
  // And then each its own easier one, if it has one.
  s.islands[1].registers = 8;
  const std::vector<Schedule> more = EasierSchedules(s, H200());
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[0].islands[1].registers, 8);
  EXPECT_EQ(more[1].islands[0], more[0].islands[0]);
  EXPECT_LT(more[1].islands[1].registers, 8);
  EXPECT_TRUE(more[1].islands[1].apart);
}

TEST(MoreRegisters, CtasInTurnAreAsManyAsThereIsRoomFor) {
  Schedule s = OfThreads(256, 4);
  s.persistent = true;
  s.grid = 4 * H200().sms;
  EXPECT_EQ(WithMoreRegisters(s, H200())->grid, 3 * H200().sms);
  s.grid = 100;
  EXPECT_EQ(WithMoreRegisters(s, H200())->grid, 100);
  // Rows that CTAs take start alike, and clusters are whole.
  s.grid = 4 * H200().sms;
  s.shift = true;
  s.vector = 8;
  const Schedule shifted = *WithMoreRegisters(s, H200());
  EXPECT_EQ(shifted.grid % 8, 0);
  EXPECT_LE(shifted.grid, ResidentCtas(shifted, H200()));
  s.shift = false;
  s.cluster = 16;
  s.grid = static_cast<int>(ResidentCtas(s, H200()));
  const Schedule clusters = *WithMoreRegisters(s, H200());
  EXPECT_EQ(clusters.grid % 16, 0);
  EXPECT_GT(clusters.grid, 0);
  EXPECT_TRUE(CheckSchedule(clusters).ok());
}

TEST(MoreRegisters, NotOfCtasThatHaveToBeThereAtOnce) {
  Schedule s = OfThreads(256, 4);
  s.split = 3;
  EXPECT_TRUE(WithMoreRegisters(s, H200()).has_value());
  s.one_launch = true;
  EXPECT_FALSE(WithMoreRegisters(s, H200()).has_value());
}

TEST(MoreRegisters, FewerVectors) {
  Schedule s = OfThreads(512, 2);
  s.registers = 2;
  EXPECT_EQ(WithFewerVectors(s)->registers, 1);
  s.registers = 1;
  EXPECT_FALSE(WithFewerVectors(s).has_value());
  // Rows that are held have the same columns then.
  s = OfThreads(320, 1);
  s.persistent = true;
  s.vector = 4;
  s.registers = 8;
  const Schedule held = *WithFewerVectors(s);
  EXPECT_EQ(held.registers, 5);
  EXPECT_EQ(held.columns_at_once(), s.columns_at_once());
  s = OfThreads(1024, 1);
  s.persistent = true;
  s.registers = 2;
  EXPECT_FALSE(WithFewerVectors(s).has_value());
}

TEST(MoreRegisters, InThisOrder) {
  Schedule s = OfThreads(256, 4);
  s.split = 3;
  s.registers = 2;
  const std::vector<Schedule> easier = EasierSchedules(s, H200());
  ASSERT_EQ(easier.size(), 3u);
  EXPECT_EQ(easier[0].min_ctas_per_sm, 3);
  EXPECT_EQ(easier[1].min_ctas_per_sm, 2);
  EXPECT_EQ(easier[2].registers, 1);
  s.one_launch = true;
  const std::vector<Schedule> at_once = EasierSchedules(s, H200());
  std::vector<int> registers, ctas;
  for (const Schedule& t : at_once) {
    EXPECT_EQ(t.one_launch, &t == &at_once.front());
    registers.push_back(t.registers);
    ctas.push_back(t.min_ctas_per_sm);
  }
  EXPECT_THAT(registers, ElementsAre(1, 2, 2, 1, 1));
  EXPECT_THAT(ctas, ElementsAre(4, 4, 3, 4, 3));
}

// Of rows that are held the next fewer that have the same columns, and the next, down to a half.
TEST(MoreRegisters, FewerVectorsAgain) {
  Schedule s = OfThreads(160, 1);
  s.persistent = true;
  s.vector = 8;
  s.registers = 8;
  std::vector<int> registers;
  for (const Schedule& t : EasierSchedules(s, H200())) {
    EXPECT_EQ(t.columns_at_once(), s.columns_at_once()) << t.ToString();
    registers.push_back(t.registers);
  }
  EXPECT_THAT(registers, ElementsAre(5, 4));
}

}  // namespace
}  // namespace seam
