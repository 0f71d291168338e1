// Powers with exponents that are known are as right as any, and so are those of zeros, infinities
// and NaN.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/expect_right.h"

namespace seam {
namespace {

using testing::ExpectRight;

std::string Text(const char* dtype, const char* values, const char* exponent) {
  return absl::StrCat("fusion powers {\n  symbol M\n  symbol N\n  input x: ", dtype,
                      "[M, N]\n  v = ", values, "\n  y = v ** ", exponent, "\n  output y\n}\n");
}

TEST(Powers, OfKnownExponents) {
  // What is large or small, of either sign: zeros, infinities, denormal numbers and NaN.
  const char* values[] = {"x",
                          "abs(x)",
                          "x * 0.0",
                          "1.0 / (x * 0.0)",
                          "where(x > 0.5, x * 0.0 / (x * 0.0), x * 0.0)",
                          "x * exp2(x * 100.0)"};
  for (const char* dtype : {"f32", "f64", "f16", "bf16"}) {
    for (const char* v : values) {
      for (const char* exponent :
           {"0.0", "1.0", "2.0", "3.0", "4.0", "-1.0", "-2.0", "0.5", "-0.5", "1.5", "-3.0"}) {
        SCOPED_TRACE(absl::StrCat(dtype, " ", v, " ", exponent));
        ExpectRight(Text(dtype, v, exponent), {.sizes = {{"M", 3}, {"N", 40}}});
      }
    }
  }
}

TEST(Powers, AreMultiplied) {
  for (const char* exponent : {"1.0", "2.0", "3.0", "4.0", "-1.0", "-2.0", "0.5", "-0.5"}) {
    const testing::GroupResult result =
        ExpectRight(Text("f32", "x", exponent), {.sizes = {{"M", 3}, {"N", 40}}});
    EXPECT_FALSE(absl::StrContains(result.kernel_text, "pow(")) << result.kernel_text;
  }
  const testing::GroupResult result =
      ExpectRight(Text("f32", "x", "1.5"), {.sizes = {{"M", 3}, {"N", 40}}});
  EXPECT_TRUE(absl::StrContains(result.kernel_text, "pow(")) << result.kernel_text;
}

}  // namespace
}  // namespace seam
