// Tuning on a GPU; skipped where there is none. Figures are not judged: that every alternative is
// right, and that the winner is used.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text/parser.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/tune.h"

namespace seam {
namespace {

using ::testing::HasSubstr;

// Rows, reductions across them, sums of columns, points.
constexpr const char* kBodies[] = {
    "y = x / sum(x * x, axes=[1], keepdims=true)",
    "y = x - sum(x, axes=[1], keepdims=true)\n  c = sum(x, axes=[0])\n  output c",
    "y = sum(x * x, axes=[0])",
    "y = exp(x) * 2.0",
};

TEST(TuneOnGpu, EveryAlternativeIsRightAndTheWinnerIsUsed) {
  if (const auto driver = cuda::Driver::Get(); !driver.ok()) GTEST_SKIP() << driver.status();
  if (const auto nvrtc = cuda::Nvrtc::Get(); !nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
  std::string root = ::testing::TempDir() + "/seam_tune_gpu_XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  TunedSchedules store(root, int64_t{1} << 20);
  for (const char* body : kBodies) {
    for (const int64_t columns : {1024, 1003}) {
      const std::string text =
          std::string(
              "fusion f {\n  symbol M in [1, 1048576]\n  symbol N in [1, 65536]\n"
              "  input x: f32[M, N]\n  ") +
          body + "\n  output y\n}";
      const std::vector<SymbolValue> symbols = {{"M", 2048}, {"N", columns}};
      CompileOptions options;
      options.backend = BackendKind::kCuda;
      options.use_cache = false;
      options.tuned = &store;
      const absl::StatusOr<Executable> executable = Compile(*ParseFusion(text), options);
      ASSERT_TRUE(executable.ok()) << executable.status();
      TuneOptions tune;
      tune.seconds = 10;
      tune.store = &store;
      const absl::StatusOr<TuneResult> result = Tune(*executable, symbols, tune);
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_EQ(result->groups.size(), 1u);
      const TunedGroup& g = result->groups[0];
      EXPECT_GT(g.tried, 0) << TuneText(*result);
      EXPECT_EQ(g.wrong + g.failed, 0) << TuneText(*result);
      EXPECT_GE(g.ratio(), 1.0);

      const absl::StatusOr<Executable> tuned = Compile(*ParseFusion(text), options);
      ASSERT_TRUE(tuned.ok()) << tuned.status();
      const absl::StatusOr<std::vector<GroupReport>> reports = tuned->CompileFor(symbols);
      ASSERT_TRUE(reports.ok()) << reports.status();
      EXPECT_EQ((*reports)[0].schedule, g.best);
      EXPECT_THAT((*reports)[0].kernels[0].cuda_text, HasSubstr("// tuned for M = 2048"));
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(root, ignored);
}

}  // namespace
}  // namespace seam
