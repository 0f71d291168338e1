// Random graphs from text to results: on the simulator against the reference, and through NVRTC.
// SEAM_RANDOM_GRAPHS sets how many (1000), SEAM_RANDOM_SEED the first seed (1), SEAM_RANDOM_NVRTC
// how many of them are compiled as well (40).
#include "tests/support/random_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/cuda/nvrtc.h"
#include "tests/support/graph_check.h"

namespace seam::testing {
namespace {

constexpr int kShards = 8;  // So that ctest can run them side by side.

int64_t Setting(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

class RandomGraphs : public ::testing::TestWithParam<int> {
 protected:
  // check(seed) for this shard's part of `count` seeds. A defect fails many graphs; a few say
  // enough.
  template <typename Check>
  void ForEachSeed(int64_t count, Check check) {
    const int64_t first = Setting("SEAM_RANDOM_SEED", 1);
    int64_t failed = 0;
    for (int64_t i = GetParam(); i < count; i += kShards) {
      const absl::Status status = check(static_cast<uint64_t>(first + i));
      if (status.ok()) continue;
      if (++failed <= 3) ADD_FAILURE() << status;
    }
    EXPECT_EQ(failed, 0);
  }
};

TEST_P(RandomGraphs, AgreeWithTheReference) {
  ForEachSeed(Setting("SEAM_RANDOM_GRAPHS", 1000),
              [](uint64_t seed) { return CheckSeed(seed, BackendKind::kSimulator); });
}

// One extent everywhere: what lies along one axis meets all others.
TEST_P(RandomGraphs, AgreeWithTheReferenceWhereAxesMeet) {
  ForEachSeed(Setting("SEAM_RANDOM_GRAPHS", 1000) / 2, [](uint64_t seed) {
    return CheckSeed(seed, BackendKind::kSimulator, {}, /*use_cache=*/false, /*square=*/true);
  });
}

// Those that once found what the first ones do not: pooled windows beside results with no axis of
// theirs; columns of several tensors, a few of them neighbours; states of sections that are read at
// other columns, twice; a vector that has a gap of a strided output beside what it wants.
TEST(RandomGraphsAgain, AgreeWithTheReference) {
  for (const uint64_t seed : {5001605, 7004824, 7302719, 7302753, 9021552})
    EXPECT_TRUE(CheckSeed(seed, BackendKind::kSimulator).ok()) << seed;
}

// Values that cross as f16 and bf16: the reference rounds them at the same places.
TEST_P(RandomGraphs, AgreeWithTheReferenceWhereEdgesRound) {
  ForEachSeed(Setting("SEAM_RANDOM_GRAPHS", 1000) / 4, [](uint64_t seed) {
    SegmentOptions segment;
    segment.narrow_edges = seed % 2 == 0 ? Narrowing::kF16 : Narrowing::kBF16;
    return CheckSeed(seed, BackendKind::kSimulator, segment);
  });
}

// Each pass switched off in turn, which changes how a graph is cut and no result.
TEST_P(RandomGraphs, AgreeWithTheReferenceWithoutAPass) {
  const absl::Span<const SegmentPass> passes = SegmentPasses();
  ForEachSeed(Setting("SEAM_RANDOM_GRAPHS", 1000) / 2, [&](uint64_t seed) {
    SegmentOptions segment;
    segment.disabled_passes = {passes[seed / kShards % passes.size()].name};
    return CheckSeed(seed, BackendKind::kSimulator, segment);
  });
}

TEST_P(RandomGraphs, CompileForAGpu) {
  const auto nvrtc = cuda::Nvrtc::Get();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
  ForEachSeed(Setting("SEAM_RANDOM_NVRTC", 40),
              [](uint64_t seed) { return CompileSeed(seed, "sm_90a"); });
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomGraphs, ::testing::Range(0, kShards));

}  // namespace
}  // namespace seam::testing
