// Extrema of 16-bit data that are folded two at once: right for every value, and only where rows
// are read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

using testing::GroupResult;
using testing::GroupRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunGroupText;

// The largest and the smallest of what is read, of the same in f32, and what is no load.
constexpr char kExtrema[] = R"(fusion extrema {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  f = cast(x, dtype=f32)
  low = amin(x, axes=[1])
  high = amax(f, axes=[1])
  size = amax(abs(f), axes=[1])
  top = argmax(f, axes=[1])
  total = sum(f, axes=[1])
  output low
  output high
  output size
  output top
  output total
})";
constexpr char kSoftmax[] = R"(fusion softmax {
  symbol M
  symbol N
  input x: DTYPE[M, N]
  y = softmax(x, axis=1)
  output y
})";

std::string Of(const char* text, const char* dtype) {
  return absl::StrReplaceAll(text, {{"DTYPE", dtype}});
}

// Rows that are read again, in vectors of so many.
GroupRun ReadAgain(int64_t columns, int vector, int registers) {
  return {.sizes = {{"M", 5}, {"N", columns}}, .edit = [=](Schedule& s) {
            s.persistent = s.blocks = s.shift = s.early = s.outer = s.online = false;
            s.vector = columns % vector == 0 ? vector : 1;
            s.lanes_per_row = 8;
            s.warps_per_row = 2;
            s.row_warps = s.split = 1;
            s.registers = registers;
            s.facts.clear();
          }};
}

TEST(Pairs, RightAtEveryLength) {
  for (const char* text : {kExtrema, kSoftmax}) {
    for (const char* dtype : {"bf16", "f16"}) {
      for (const int64_t columns : {1, 2, 8, 33, 36, 40, 510, 512, 1000}) {
        for (const int registers : {1, 3}) {
          const GroupResult result =
              RunGroupText(Of(text, dtype), ReadAgain(columns, 4, registers));
          EXPECT_TRUE(result.status.ok()) << dtype << " " << columns << ": " << result.status;
        }
      }
    }
  }
}

TEST(Pairs, NaNAndInfinity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* dtype : {"bf16", "f16"}) {
    for (const int64_t columns : {40, 104}) {
      GroupRun run = ReadAgain(columns, 8, 2);
      run.inputs = [&](std::vector<HostTensor>& inputs) {
        HostTensor& x = inputs[0];
        x.set({0, 7}, FloatScalar(std::nan("")));
        x.set({1, columns - 1}, FloatScalar(-kInfinity));
        x.set({3, 0}, FloatScalar(kInfinity));
        for (int64_t n = 0; n < columns; ++n) {
          x.set({2, n}, FloatScalar(-kInfinity));
          x.set({4, n}, FloatScalar(n % 2 == 0 ? 0.0 : -0.0));
        }
      };
      const GroupResult result = RunGroupText(Of(kExtrema, dtype), run);
      EXPECT_TRUE(result.status.ok()) << dtype << ": " << result.status;
      EXPECT_THAT(result.kernel_text, HasSubstr("pairs"));
    }
  }
}

TEST(Pairs, WhereRowsAreReadAgain) {
  EXPECT_THAT(RunGroupText(Of(kSoftmax, "bf16"), ReadAgain(512, 8, 2)).kernel_text,
              HasSubstr("packed\n"));
  const auto text = [](const char* dtype, const GroupRun& run) {
    const GroupResult result = RunGroupText(Of(kSoftmax, dtype), run);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.kernel_text;
  };
  EXPECT_THAT(text("bf16", ReadAgain(512, 8, 2)), HasSubstr("pairs"));
  EXPECT_THAT(text("f32", ReadAgain(512, 4, 2)), Not(HasSubstr("pairs")));
  // What is not a load alone, and what stays in registers.
  EXPECT_THAT(text("bf16", {.sizes = {{"M", 5}, {"N", 512}}}), Not(HasSubstr("pairs")));
  const std::string sum = absl::StrReplaceAll(kSoftmax, {{"softmax(x,", "softmax(x + x,"}});
  EXPECT_THAT(RunGroupText(Of(sum.c_str(), "bf16"), ReadAgain(512, 8, 2)).kernel_text,
              Not(HasSubstr("pairs")));
}

}  // namespace
}  // namespace seam
