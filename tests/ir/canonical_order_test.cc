// The canonical order is the same however a graph is written.
#include "ir/canonical_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/fusion_builder.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "tests/support/random_graph.h"
#include "tests/support/reduction_graph.h"
#include "tests/support/shuffled_fusion.h"

namespace seam {
namespace {

Fusion Parse(const std::string& body) {
  absl::StatusOr<Fusion> f = ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
  if (!f.ok()) ADD_FAILURE() << f.status();
  return *std::move(f);
}

// The names of the first results in canonical order.
std::string Order(const Fusion& f) {
  return absl::StrJoin(CanonicalOrderOf(f).exprs, " ", [&](std::string* s, ExprId e) {
    absl::StrAppend(s, std::string(f.name(f.result(e))));
  });
}

// The graph in canonical order, without the names of what it computes.
std::string Form(const Fusion& written) {
  const Fusion f = Renumbered(written, CanonicalOrderOf(written));
  EXPECT_TRUE(Verify(f).ok()) << Verify(f) << "\n" << PrintFusion(written);
  std::string form;
  for (uint32_t e = 0; e < f.num_exprs(); ++e) {
    absl::StrAppend(&form, OpName(f.op(ExprId(e))), "(",
                    absl::StrJoin(f.attributes(ExprId(e)).axes, ","), "|",
                    absl::StrJoin(f.operands(ExprId(e)), ",",
                                  [](std::string* s, ValId v) { absl::StrAppend(s, v.index()); }),
                    f.is_output(f.result(ExprId(e))) ? ") returned\n" : ")\n");
  }
  return form;
}

TEST(CanonicalOrderTest, IsTheOrderOfAGraphWrittenFromTopToBottom) {
  EXPECT_EQ(Order(Parse(R"(input x: f32[8]
    a = exp(x)
    b = sin(a)
    c = b + a
    d = cos(c)
    e = d + b
    output e)")),
            "a b c d e");
  // What every layer returns stays with its layer.
  EXPECT_EQ(Order(Parse(R"(input x: f32[8]
    a1 = exp(x)
    r1 = sum(a1)
    a2 = exp(a1)
    r2 = sum(a2)
    a3 = exp(a2)
    r3 = sum(a3)
    output r3
    output r2
    output r1)")),
            "a1 r1 a2 r2 a3 r3");
}

TEST(CanonicalOrderTest, OperandsBeforeUsersAndFirstOperandsFirst) {
  EXPECT_EQ(Order(Parse(R"(input x: f32[8]
    b = sin(x)
    unread = tan(x)
    a = exp(x)
    c = a + b
    output c)")),
            "a b c unread");
}

// The ends look alike from above; what else reads on the way tells them apart.
TEST(CanonicalOrderTest, ReadersTellAlikeEndsApart) {
  const auto form = [](const std::string& first, const std::string& second) {
    return Form(Parse(absl::StrCat(R"(input x: f32[8]
      input y: f32[8]
      a = exp(x)
      b = exp(y)
      )",
                                   first, " = sin(a)\n", second, R"( = sin(b)
      c = tan(sin(cos(b)))
      output p
      output q
      output c)")));
  };
  EXPECT_EQ(form("p", "q"), form("q", "p"));
}

TEST(CanonicalOrderTest, InputsAndOutputsAreRenumberedToo) {
  const Fusion f = Parse(R"(input unread: f32[8]
    input y: f32[8]
    input x: f32[8]
    b = sin(y)
    a = exp(x)
    c = a + b
    output c
    output a)");
  const Fusion r = Renumbered(f, CanonicalOrderOf(f));
  EXPECT_EQ(PrintFusion(r), R"(fusion f {
  input x: f32[8]
  input y: f32[8]
  input unread: f32[8]
  a: f32[8] = exp(x)
  b: f32[8] = sin(y)
  c: f32[8] = add(a, b)
  output a
  output c
}
)");
  EXPECT_EQ(Order(r), "a b c");
}

TEST(CanonicalOrderTest, LinesAndNamesDoNotMatter) {
  testing::Dice dice(1);
  const auto check = [&](const Fusion& f) {
    const std::string form = Form(f), order = Order(f);
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Fusion> renamed = testing::Shuffled(f, dice, /*rename=*/true);
      ASSERT_TRUE(renamed.ok()) << renamed.status();
      EXPECT_EQ(Form(*renamed), form) << PrintFusion(f) << PrintFusion(*renamed);
      const absl::StatusOr<Fusion> moved = testing::Shuffled(f, dice, /*rename=*/false);
      ASSERT_TRUE(moved.ok()) << moved.status();
      EXPECT_EQ(Order(*moved), order) << PrintFusion(f) << PrintFusion(*moved);
    }
  };
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const absl::StatusOr<testing::RandomGraph> graph = testing::MakeRandomGraph(seed);
    ASSERT_TRUE(graph.ok()) << graph.status();
    check(graph->fusion);
    const absl::StatusOr<Fusion> reductions =
        ReductionGraph(static_cast<uint32_t>(seed), 3 + static_cast<int>(seed % 40)).Make();
    ASSERT_TRUE(reductions.ok()) << reductions.status();
    check(*reductions);
  }
}

}  // namespace
}  // namespace seam
