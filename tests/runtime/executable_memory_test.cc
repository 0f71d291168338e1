// Placement of intermediate values: nothing that lives at once may share bytes, and nothing is
// wasted where it is easy.
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/memory_plan.h"

namespace seam {
namespace {

void ExpectNoOverlap(const std::vector<MemoryRequest>& requests, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kBufferAlignmentBytes, 0);
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      if (requests[i].first > requests[j].last || requests[j].first > requests[i].last) continue;
      const bool apart = plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + requests[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart || requests[i].bytes == 0 || requests[j].bytes == 0) << i << " and " << j;
    }
  }
}

TEST(MemoryPlan, NothingWantedNothingTaken) {
  EXPECT_EQ(PlanMemory({}).bytes, 0);
  const MemoryPlan plan = PlanMemory({{0, 0, 3}, {0, 1, 1}});
  EXPECT_EQ(plan.bytes, 0);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0}));
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<MemoryRequest> requests;
  for (int i = 0; i < 10; ++i) requests.push_back({1000, i, i + 1});
  const MemoryPlan plan = PlanMemory(requests);
  ExpectNoOverlap(requests, plan);
  EXPECT_EQ(plan.bytes, 2 * 1024);
}

TEST(MemoryPlan, SmallBuffersFitBesideLargeOnes) {
  const std::vector<MemoryRequest> requests = {{256, 0, 1}, {4096, 1, 2}, {256, 2, 3}, {256, 0, 3}};
  const MemoryPlan plan = PlanMemory(requests);
  ExpectNoOverlap(requests, plan);
  EXPECT_EQ(plan.bytes, 4096 + 2 * 256);
}

TEST(MemoryPlan, RandomLifetimes) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<MemoryRequest> requests(random() % 60);
    for (MemoryRequest& r : requests) {
      r.first = static_cast<int>(random() % 20);
      r.last = r.first + static_cast<int>(random() % 6);
      r.bytes = static_cast<int64_t>(random() % 5000);
    }
    ExpectNoOverlap(requests, PlanMemory(requests));
  }
}

}  // namespace
}  // namespace seam
