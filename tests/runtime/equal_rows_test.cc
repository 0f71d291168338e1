// A row of equal elements deviates by nothing: its mean is the element and its norm 0, whatever the
// sum of so many of them is rounded to.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"
#include "runtime/executable.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

constexpr char kNorm[] = R"(fusion norm {
  symbol M
  symbol N
  input x: f32[M, N]
  y, mean, rstd = layer_norm(x, axes=[1])
  s, v = moments(x, axes=[1])
  output y
  output mean
  output v
}
)";

std::vector<float> Elements(const HostTensor& t) {
  std::vector<float> elements(t.numel());
  std::memcpy(elements.data(), t.data.data(), elements.size() * sizeof(float));
  return elements;
}

TEST(EqualRows, DeviateByNothing) {
  constexpr int64_t kRows = 2;
  absl::StatusOr<Fusion> fusion = ParseFusion(kNorm);
  ASSERT_TRUE(fusion.ok()) << fusion.status();
  const absl::StatusOr<Executable> norm =
      Compile(*std::move(fusion), {.backend = BackendKind::kSimulator});
  ASSERT_TRUE(norm.ok()) << norm.status();
  testing::Part part;
  for (const int64_t n : {1, 3, 31, 1000, 4099, 10007, 15457, 70001, 262144}) {
    for (const float value : {3.3F, 100003.3F, -1000003.3F, 1e-15F}) {
      if (!part.TakesNext()) continue;
      SCOPED_TRACE(absl::StrCat(n, " times ", value));
      HostTensor x = *HostTensor::Make(DType::F32, {kRows, n});
      x.FromScalars(std::vector<Scalar>(kRows * n, FloatScalar(value)));
      const absl::StatusOr<std::vector<HostTensor>> outputs = norm->RunOnHost({x});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_EQ(Elements(outputs->at(0)), std::vector<float>(kRows * n));
      EXPECT_EQ(Elements(outputs->at(1)), std::vector<float>(kRows, value));
      EXPECT_EQ(Elements(outputs->at(2)), std::vector<float>(kRows));
    }
  }
}

}  // namespace
}  // namespace seam
