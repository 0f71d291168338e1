// Products that are added to something: contracted where no bit of the result is promised, as
// written elsewhere, right at every size.
#include "scheduler/kernel/contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/group_runner.h"

namespace seam::kernel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Kernel text of rows x with a mean m and its reciprocal r, one of each a row.
std::string TextOf(const std::string& body, int64_t columns = 129,
                   const std::string& dtype = "f32") {
  const std::string text = absl::StrCat(
      "fusion contract {\n symbol M\n symbol N\n input x: ", dtype, "[M, N]\n input y: ", dtype,
      "[M, N]\n m = sum(x, axes=[1])[:, None]\n", body, " output z\n}");
  const seam::testing::GroupResult result =
      seam::testing::RunGroupText(text, {.sizes = {{"M", 5}, {"N", columns}}});
  EXPECT_TRUE(result.status.ok()) << result.status << "\n" << text << result.kernel_text;
  return result.kernel_text;
}

TEST(ContractProducts, InSumsAndDifferences) {
  const auto contracted = AllOf(HasSubstr("fma("), Not(HasSubstr("= mul(")));
  EXPECT_THAT(TextOf(" z = x * m + y\n"), AllOf(contracted, Not(HasSubstr("neg("))));
  EXPECT_THAT(TextOf(" z = y + x * m\n"), AllOf(contracted, Not(HasSubstr("neg("))));
  EXPECT_THAT(TextOf(" z = y - x * m\n"), AllOf(contracted, HasSubstr("neg(")));
  EXPECT_THAT(TextOf(" z = x * m - y\n"), AllOf(contracted, HasSubstr("neg(")));
  EXPECT_THAT(TextOf(" z = (x * m - y) * y - x\n"), contracted);
  EXPECT_THAT(TextOf(" z = exp(x) * y + m\n", 64, "f64"), contracted);
}

TEST(ContractProducts, NotWhatIsAsked) {
  const auto as_written = AllOf(Not(HasSubstr("fma(")), HasSubstr("= mul("));
  // Every bit is promised.
  EXPECT_THAT(TextOf(" s = x * y + y\n z = s\n n = -m\n output n\n"), as_written);
  // The product is read twice.
  EXPECT_THAT(TextOf(" p = x * m\n z = (p + y) / p\n"), as_written);
  // Two products, which may be equal.
  EXPECT_THAT(TextOf(" z = x * m - y * m\n"), as_written);
  // One of a row: a variance that shall be zero where it is.
  EXPECT_THAT(TextOf(" q = sum(x + y, axes=[1])[:, None]\n z = x - (q - m * m)\n"), as_written);
  // Rounded to fewer bits first.
  EXPECT_THAT(TextOf(" z = x * cast(cast(m, dtype=bf16), dtype=f32) + y\n"), as_written);
}

TEST(ContractProducts, AreRightAtEverySize) {
  for (const int64_t columns : {0, 1, 7, 64, 1000, 4099}) {
    for (const char* dtype : {"f32", "bf16", "f64"}) {
      TextOf(
          " w = cast(x, dtype=f32) * sum(cast(y, dtype=f32), axes=[1])[:, None]\n"
          " z = cast(y, dtype=f32) - w * 0.01\n",
          columns, dtype);
    }
  }
}

}  // namespace
}  // namespace seam::kernel
