// Rows whose length no power of two divides, to clusters whose threads do.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "scheduler/schedule.h"
#include "tests/support/group_runner.h"
#include "tests/support/norm_graphs.h"

namespace seam {
namespace {

using testing::Chosen;
using testing::GroupNorm;
using testing::GroupNormBackward;

// Clusters whose threads load rows that they divide evenly, instead of more of them with less each.
TEST(DividedRows, GoToClustersThatLoadThem) {
  const auto expect = [](const Schedule& s, int64_t columns, int cluster, bool even) {
    EXPECT_EQ(s.cluster, cluster) << s.ToString();
    EXPECT_EQ(s.stages == 0 && s.columns_at_once() == columns, even) << s.ToString();
  };
  // Groups of channels that lie in front: of two wide inputs beside sums over images, and of one.
  const auto images = [](const std::string& text, int64_t channels, int64_t pixels) {
    return Chosen(text, {16, channels, pixels});
  };
  const std::string backward = GroupNormBackward("f32", 32, /*last=*/false);
  expect(images(backward, 10, 4096), 40960, 8, true);
  expect(images(backward, 20, 4096), 81920, 16, true);
  EXPECT_GE(images(backward, 10, 4096).min_ctas_per_sm, 3);
  expect(images(GroupNorm("f32", 32, /*last=*/false), 40, 1024), 40960, 8, true);
  // Rows that meet twice in pieces that would be short; once is no wait, and long ones are not.
  const auto row = [](const std::string& op, int64_t columns) {
    return Chosen("fusion f {\n symbol M\n symbol N\n input x: f32[M, N]\n input w: f32[N]\n" + op +
                      "\n output y\n}",
                  {(1 << 28) / columns, columns});
  };
  expect(row("y = softmax(x, axis=1)", 40960), 40960, 8, true);
  expect(row("y = softmax(x, axis=1)", 65536), 65536, 16, false);
  expect(row("y, r = rms_norm(x, w, axes=[1])", 40960), 40960, 16, false);
  // No number of threads divides these.
  EXPECT_GT(row("y = softmax(x, axis=1)", 40968).stages, 0);
}

}  // namespace
}  // namespace seam
