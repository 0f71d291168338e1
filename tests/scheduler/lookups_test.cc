// Rows of a table that are looked up and folded: what a step looks up is its own, also where the
// statistics of all steps deviate from a pivot that the first one finds.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

struct Lookup {
  const char* name;
  const char* text;  // v of a table x and indices.
};

constexpr Lookup kLookups[] = {
    {"Rows", "input x: DTYPE[3, N, 6]\n  input at: i32[M]\n  v = index_select(x, at, axis=0)"},
    {"Columns", "input x: DTYPE[7, N]\n  input at: i32[M]\n  v = index_select(x, at, axis=1)"},
    {"Elements", "input x: DTYPE[5, N]\n  input at: i64[5, M]\n  v = gather(x, at, axis=1)"},
    {"RowsOfRows",
     "input x: DTYPE[N, 40]\n  input at: i32[8, M]\n  v = index_select(x, reshape(at, "
     "sizes=[8*M]), axis=0)"},
};

constexpr Lookup kFolds[] = {
    {"Welford", "a, b, c = welford(cast(v, dtype=f32))"},
    {"Moments", "a, b = moments(cast(v, dtype=f32), axes=[0])"},
    {"Sum", "a = sum(cast(v, dtype=f32))"},
    {"Softmax", "a = softmax(cast(v, dtype=f32), axis=0)"},
};

class Lookups : public ::testing::TestWithParam<std::tuple<int, int, std::string>> {};

TEST_P(Lookups, AreOfTheirStep) {
  const auto& [lookup, fold, dtype] = GetParam();
  std::string text =
      absl::StrCat("fusion looked_up {\n  symbol M\n  symbol N\n  ", kLookups[lookup].text, "\n  ",
                   kFolds[fold].text, "\n  output v\n  output a\n}\n");
  text.replace(text.find("DTYPE"), 5, dtype);
  testing::Part part;
  for (const auto& [m, n] : {std::pair(3, 5), {300, 300}, {513, 130}}) {
    if (part.TakesNext()) testing::ExpectRight(text, {.sizes = {{"M", m}, {"N", n}}});
  }
}

INSTANTIATE_TEST_SUITE_P(All, Lookups,
                         ::testing::Combine(::testing::Range(0, 4), ::testing::Range(0, 4),
                                            ::testing::Values("bf16", "f32")),
                         [](const auto& info) {
                           return absl::StrCat(kLookups[std::get<0>(info.param)].name,
                                               kFolds[std::get<1>(info.param)].name,
                                               std::get<2>(info.param));
                         });

}  // namespace
}  // namespace seam
