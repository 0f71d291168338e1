// Which values are computed alike.
#include "ir/alike.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "ir/text/parser.h"

namespace seam {
namespace {

// The name of the value that `name` is alike, itself if there is none before.
std::string First(const std::string& body, const std::string& name) {
  const absl::StatusOr<Fusion> f = ParseFusion(absl::StrCat(
      "fusion f {\nsymbol N in [1, 64]\ninput x: f32[8, N]\ninput z: f32[8, N]\n", body, "\n}\n"));
  if (!f.ok()) return f.status().ToString();
  const std::vector<ValId> first = FirstAlike(*f);
  for (uint32_t v = 0; v < f->num_vals(); ++v) {
    if (f->name(ValId(v)) == name) return std::string(f->name(first[v]));
  }
  return "nothing is called so";
}

TEST(Alike, TheSameOperationOfTheSameOperands) {
  EXPECT_EQ(First("a = exp(x)\nb = exp(x)\noutput a\noutput b", "b"), "a");
  EXPECT_EQ(First("a = exp(x)\nb = exp(x)\noutput a\noutput b", "a"), "a");
  EXPECT_EQ(First("a = exp(x)\nb = exp(z)\noutput a\noutput b", "b"), "b");
  EXPECT_EQ(First("a = exp(x)\nb = sin(x)\noutput a\noutput b", "b"), "b");
  EXPECT_EQ(First("a = x - z\nb = z - x\noutput a\noutput b", "b"), "b");
}

TEST(Alike, OperandsThatAreAlike) {
  EXPECT_EQ(First("a = exp(x)\nb = exp(x)\nc = a + z\nd = b + z\noutput c\noutput d", "d"), "c");
}

TEST(Alike, AttributesTellApart) {
  EXPECT_EQ(First("a = sum(x, axes=[0])\nb = sum(x, axes=[0])\noutput a\noutput b", "b"), "a");
  EXPECT_EQ(First("a = sum(x, axes=[0])\nb = sum(x, axes=[1])\noutput a\noutput b", "b"), "b");
  EXPECT_EQ(First("a = x[0:4]\nb = x[0:4]\noutput a\noutput b", "b"), "a");
  EXPECT_EQ(First("a = x[0:4]\nb = x[1:5]\noutput a\noutput b", "b"), "b");
  EXPECT_EQ(First("a = cast(x, dtype=f16)\nb = cast(x, dtype=bf16)\noutput a\noutput b", "b"), "b");
  EXPECT_EQ(First("a = x * 0.5\nb = x * 0.25\noutput a\noutput b", "b"), "b");
  EXPECT_EQ(First("a = x * 0.0\nb = x * -0.0\noutput a\noutput b", "b"), "b");
  EXPECT_EQ(
      First("a = pad(x, before=[0, 0], after=[0, N])\nb = pad(x, before=[0, 0], after=[0, N])\n"
            "output a\noutput b",
            "b"),
      "a");
}

TEST(Alike, EachResultOfSeveral) {
  const std::string body =
      "m, v = moments(x, axes=[1])\nn, w = moments(x, axes=[1])\noutput m\noutput v\noutput "
      "n\noutput w";
  EXPECT_EQ(First(body, "n"), "m");
  EXPECT_EQ(First(body, "w"), "v");
}

TEST(Alike, BordersThatTheGraphAsksForAreLikeNoOther) {
  EXPECT_EQ(First("a = segment_set(x)\nb = segment_set(x)\noutput a\noutput b", "b"), "b");
}

}  // namespace
}  // namespace seam
