#include "scheduler/kernel/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string KernelOf(const std::string& body) {
  const testing::GroupResult result = testing::RunGroupText(
      "fusion f {\n  symbol M\n  symbol N\n  input x: f32[M, N]\n  input z: f32[M, N]\n" + body +
          "}\n",
      {.sizes = {{"M", 3}, {"N", 40}}});
  EXPECT_TRUE(result.status.ok()) << result.status;
  return result.kernel_text;
}

TEST(Precision, LooseExponentialsAndQuotientsThatAreRoundedAfterwards) {
  const std::string kernel = KernelOf(R"(
  e = exp(x)
  s = sum(e, axes=[1])
  y = cast(e / s[:, None], dtype=bf16)
  output y
)");
  EXPECT_THAT(kernel, ContainsRegex("= exp\\([^\n]*\\) loose\n"));
  EXPECT_THAT(kernel, ContainsRegex("= div\\([^\n]*\\) loose\n"));
}

TEST(Precision, NotLooseWhatIsStoredComparedAddedOrExact) {
  for (const char* body : {
           "  e = exp(x)\n  output e\n",
           "  y = cast(exp(x) + z, dtype=bf16)\n  output y\n",
           "  s = sum(exp(x), axes=[1])\n  output s\n",
           "  e = exp(x)\n  s = sum(e, axes=[1])\n  l = log(s)\n  y = cast(e / s[:, None], "
           "dtype=bf16)\n  output y\n  output l\n",
           "  s = sum(exp(x) * z, axes=[1])\n  y = cast(x / s[:, None] + z, dtype=f16)\n  output "
           "y\n",
           "  y = cast(x / z, dtype=bf16)\n  output y\n",
       }) {
    EXPECT_THAT(KernelOf(body), Not(ContainsRegex("= exp\\([^\n]*\\) loose\n"))) << body;
  }
  EXPECT_THAT(KernelOf("  y = cast(x / z, dtype=bf16)\n  output y\n"), Not(HasSubstr("loose")));
  EXPECT_THAT(KernelOf("  y = cast(exp(x) / z, dtype=bf16)\n  output y\n"), HasSubstr("loose"));
  // A maximum has one right answer, a sum has not, nor has a maximum of what has none.
  for (const auto& [row, loose] :
       std::vector<std::pair<std::string, bool>>{{"amax(x, axes=[1])", false},
                                                 {"sum(x, axes=[1])", true},
                                                 {"amax(exp(x), axes=[1])", true}}) {
    const std::string kernel =
        KernelOf("  m = " + row + "\n  y = cast(x / m[:, None], dtype=bf16)\n  output y\n");
    EXPECT_EQ(absl::StrContains(kernel, "loose\n"), loose) << row << kernel;
  }
}

TEST(Precision, ErrorFunctionsBesideOne) {
  const auto is_loose = [](const std::string& body) {
    return absl::StrContains(KernelOf(body), ") loose\n");
  };
  EXPECT_TRUE(is_loose("  y = cast(x * (erf(z) + 1.0) * 0.5, dtype=bf16)\n  output y\n"));
  // Small results want their digits, and so do f32 ones and differences.
  EXPECT_FALSE(is_loose("  y = cast(erf(x), dtype=bf16)\n  output y\n"));
  EXPECT_FALSE(is_loose("  y = cast(x * erf(z), dtype=bf16)\n  output y\n"));
  EXPECT_FALSE(is_loose("  y = x * (erf(z) + 1.0)\n  output y\n"));
  EXPECT_FALSE(is_loose("  y = cast(x * (erf(z) + 0.5), dtype=bf16)\n  output y\n"));
  EXPECT_FALSE(is_loose("  e = erf(z)\n  y = cast(x * (e + 1.0) * e, dtype=bf16)\n  output y\n"));
}

TEST(Precision, TermsOfSumsBesideTheirMaximum) {
  const auto count = [](const std::string& body) {
    const std::string kernel = KernelOf(body);
    size_t terms = 0;
    for (size_t at = 0; (at = kernel.find(" of a term\n", at)) != std::string::npos; ++at) ++terms;
    return terms;
  };
  const std::string max = "  m = amax(x, axes=[1])\n", sum = "  s = sum(e, axes=[1])\n";
  const std::string of_max = max + "  e = exp(x - m[:, None])\n" + sum;
  EXPECT_GT(count(of_max + "  y = log(s) + m\n  output y\n"), 0);
  EXPECT_GT(count(max + "  e = exp2(x - m[:, None])\n" + sum + "  y = log(s)\n  output y\n"), 0);
  // What is stored as well, or lacks something of another maximum, is wanted whole, and so is what
  // sums of which more is wanted than a logarithm are made of.
  EXPECT_EQ(count(of_max + "  output s\n"), 0);
  EXPECT_EQ(count(of_max + "  y = log(s)\n  t = m / s\n  output y\n  output t\n"), 0);
  EXPECT_EQ(count(of_max + "  y = log(s)\n  output y\n  output e\n"), 0);
  EXPECT_EQ(count(max + "  e = exp(z - m[:, None])\n" + sum + "  y = log(s)\n  output y\n"), 0);
  EXPECT_EQ(
      count(max +
            "  e = exp(x - m[:, None])\n  s = sum(e * z, axes=[1])\n  y = log(s)\n  output y\n"),
      0);
  EXPECT_EQ(count("  m = amin(x, axes=[1])\n  e = exp(x - m[:, None])\n" + sum +
                  "  y = log(s)\n  output y\n"),
            0);
}

}  // namespace
}  // namespace seam
