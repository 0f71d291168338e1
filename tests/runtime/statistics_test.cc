// Mean and deviation of long rows far from zero, where f32's numbers are sparse: rounding the mean
// of a part of the row with each merge would show in the deviations.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ir/text/parser.h"
#include "runtime/executable.h"

namespace seam {
namespace {

TEST(Statistics, OfLongRowsFarFromZero) {
  constexpr int64_t kRows = 3, kColumns = 131072;
  absl::StatusOr<Fusion> fusion = ParseFusion(R"(fusion f {
    symbol M in [1, 1024]
    symbol N in [1, 1000000]
    input x: f32[M, N]
    y, mean, rstd = layer_norm(x, axes=[1], eps=0)
    output y
    output mean
    output rstd
  })");
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  options.device = "h200";
  const absl::StatusOr<Executable> executable = Compile(*std::move(fusion), options);
  ASSERT_TRUE(executable.ok()) << executable.status();
  // As f16 has them of a mean of 10,000 and a deviation of 1: multiples of 8.
  HostTensor x = *HostTensor::Make(DType::F32, {kRows, kColumns});
  std::vector<Scalar> values(kRows * kColumns);
  uint64_t state = 1;
  for (Scalar& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t dice = (state >> 33) % 20000;
    value.f = 10000 + (dice == 0 ? 8 : dice == 1 ? -8 : 0);
  }
  x.FromScalars(values);
  const absl::StatusOr<std::vector<HostTensor>> outputs = executable->RunOnHost({x});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const std::vector<Scalar> means = (*outputs)[1].ToScalars(), rstds = (*outputs)[2].ToScalars();
  for (int64_t row = 0; row < kRows; ++row) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < kColumns; ++i) mean += values[row * kColumns + i].f / kColumns;
    for (int64_t i = 0; i < kColumns; ++i)
      squares += std::pow(values[row * kColumns + i].f - mean, 2);
    const double rstd = 1 / std::sqrt(squares / kColumns);
    EXPECT_NEAR(means[row].f, mean, 0.001) << "row " << row;  // A unit of f32's last place.
    EXPECT_NEAR(rstds[row].f / rstd, 1, 1e-4) << "row " << row;
  }
}

}  // namespace
}  // namespace seam
