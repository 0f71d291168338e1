// Comparisons of indices with numbers that a row's columns have alike, in 32 bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kColumns = 19;
const std::vector<int64_t> kNumbers = {0,
                                       7,
                                       kColumns - 1,
                                       kColumns,
                                       -1,
                                       -19,
                                       (int64_t{1} << 31) - 1,
                                       int64_t{1} << 31,
                                       (int64_t{1} << 32) + 7,
                                       -(int64_t{1} << 32) + 7,
                                       std::numeric_limits<int64_t>::min(),
                                       std::numeric_limits<int64_t>::max()};

std::string CountOf(const std::string& condition, const std::string& range) {
  return absl::StrCat(
      "fusion f {\n  symbol M\n  symbol N", range,
      "\n  input t: i64[M]\n  i = iota(sizes=[1, N], axis=1, dtype=i64)\n  c = ", condition,
      "\n  s = sum(where(c, 1.0: f32, 0.5: f32), axes=[1])\n  output s\n}\n");
}

testing::GroupResult RunOne(const std::string& text) {
  return testing::RunGroupText(
      text, {.sizes = {{"M", static_cast<int64_t>(kNumbers.size())}, {"N", kColumns}},
             .inputs = [](std::vector<HostTensor>& inputs) {
               for (size_t i = 0; i < kNumbers.size(); ++i)
                 reinterpret_cast<int64_t*>(inputs[0].data.data())[i] = kNumbers[i];
             }});
}

TEST(Compare, EveryComparisonWithNumbersOfAllSizes) {
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    for (const char* order : {"(i, t[:, None])", "(t[:, None], i)"}) {
      const testing::GroupResult result = RunOne(CountOf(absl::StrCat(op, order), " in [1, 1000]"));
      EXPECT_TRUE(result.status.ok()) << op << order << result.status;
      // The number once a row, not once a column.
      EXPECT_THAT(result.kernel_text, HasSubstr("i64 2147483647")) << op << order;
    }
  }
}

TEST(Compare, IndicesThatMayBeLongStayLong) {
  const testing::GroupResult result =
      RunOne(CountOf("eq(i, t[:, None])", " in [1, 1000000000000]"));
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.kernel_text, Not(HasSubstr("i64 2147483647")));
}

TEST(Compare, NumbersOfEachElementStayLong) {
  const testing::GroupResult result = testing::RunGroupText(
      "fusion f {\n  symbol M\n  symbol N in [1, 1000]\n  input t: i64[M, N]\n"
      "  i = iota(sizes=[1, N], axis=1, dtype=i64)\n"
      "  s = sum(where(eq(i, t), 1.0: f32, 0.0: f32), axes=[1])\n  output s\n}\n",
      {.sizes = {{"M", 5}, {"N", 7}}});
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.kernel_text, Not(HasSubstr("i64 2147483647")));
}

}  // namespace
}  // namespace seam
