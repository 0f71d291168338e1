// What of a value holds whatever the groups are.
#include "segmenter/summary.h"

#include <gtest/gtest.h>

#include "ir/text/parser.h"

namespace seam {
namespace {

// Strides give the caller views of what he has or gets, not of what he does not, nor where he says
// himself how a result lies in memory.
TEST(ValueFactsTest, ViewsThatAreFreeToReturn) {
  const absl::StatusOr<Fusion> f = ParseFusion(R"(fusion views {
  symbol M
  symbol N
  input x: f32[M, N]
  input w: f32[M, N]
  of_input = permute(x, axes=[1, 0])
  hidden = x * w
  of_hidden = permute(hidden, axes=[1, 0])
  of_copy = permute(of_hidden, axes=[1, 0])
  given = x + w
  of_given = permute(given, axes=[1, 0])
  named = permute(w, axes=[1, 0])
  padded = pad(w, before=[1, 0], after=[0, 0])
  part = x[:, 0:N//2]
  output of_input
  output of_hidden
  output of_copy
  output given
  output of_given
  output named strides [M, 1]
  output padded
  output part
})");
  ASSERT_TRUE(f.ok()) << f.status();
  const ValueFacts facts = FactsOf(*f);
  const auto is_free = [&](const char* name) {
    for (ValId v : f->outputs()) {
      if (f->name(v) == name) return static_cast<bool>(facts.is_free_to_return[v.index()]);
    }
    ADD_FAILURE() << name;
    return false;
  };
  EXPECT_TRUE(is_free("of_input"));
  EXPECT_FALSE(is_free("of_hidden"));
  EXPECT_TRUE(is_free("of_copy"));  // Of what has been copied.
  EXPECT_TRUE(is_free("given"));
  EXPECT_TRUE(is_free("of_given"));
  EXPECT_FALSE(is_free("named"));
  EXPECT_FALSE(is_free("padded"));
  EXPECT_TRUE(is_free("part"));
}

}  // namespace
}  // namespace seam
