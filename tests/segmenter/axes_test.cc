// Which axes are one, on graphs small enough to say by hand.
#include "segmenter/axes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ir/text/parser.h"
#include "segmenter/atoms.h"

namespace seam {
namespace {

Fusion Parse(const std::string& body) {
  absl::StatusOr<Fusion> f = ParseFusion(absl::StrCat("fusion f {\n", body, "\n}\n"));
  if (!f.ok()) ADD_FAILURE() << f.status();
  return *std::move(f);
}

// A Fusion with its axes, addressed by names.
struct Graph {
  explicit Graph(const std::string& body) : f(Parse(body)), axes(AxisMap::Build(f)) {}

  ValId Val(const std::string& name) const {
    for (uint32_t v = 0; v < f.num_vals(); ++v) {
      if (f.name(ValId(v)) == name) return ValId(v);
    }
    ADD_FAILURE() << "no value " << name;
    return ValId(0);
  }
  ExprId Def(const std::string& name) const { return f.definition(Val(name)); }
  static std::string Text(absl::Span<const AxisId> ids) {
    return absl::StrJoin(ids, ",", [](std::string* s, AxisId a) { absl::StrAppend(s, a.index()); });
  }
  std::vector<std::string> Dims(const std::string& name) const {
    std::vector<std::string> dims;
    for (int d = 0; d < f.rank(Val(name)); ++d) dims.push_back(Text(axes.atoms(Val(name), d)));
    return dims;
  }
  std::vector<std::string> Read(const std::string& reader, int i) const {
    std::vector<std::string> dims;
    const ExprId e = Def(reader);
    for (int d = 0; d < f.rank(f.operands(e)[i]); ++d)
      dims.push_back(Text(axes.operand_atoms(e, i, d)));
    return dims;
  }
  std::string Space(const std::string& name) const { return Text(axes.space(Def(name))); }
  std::string Exchanged(const std::string& reader, int i) const {
    return Text(axes.exchanged(Def(reader), i));
  }
  size_t NumExchanges() const {
    size_t n = 0;
    for (uint32_t e = 0; e < f.num_exprs(); ++e) {
      for (size_t i = 0; i < f.operands(ExprId(e)).size(); ++i) {
        n += !axes.exchanged(ExprId(e), static_cast<int>(i)).empty();
      }
    }
    return n;
  }

  Fusion f;
  AxisMap axes;
};

using Dims = std::vector<std::string>;

TEST(AxisSetTest, SetOperations) {
  const AxisSet a = {AxisId(1), AxisId(3)}, b = {AxisId(1), AxisId(2), AxisId(3)};
  EXPECT_TRUE(IsSubset(a, b));
  EXPECT_FALSE(IsSubset(b, a));
  EXPECT_TRUE(IsSubset({}, a));
  EXPECT_EQ(Union(a, {AxisId(2)}), b);
  EXPECT_EQ(Intersection(a, b), a);
  EXPECT_EQ(Difference(b, a), AxisSet{AxisId(2)});
}

TEST(AxesTest, PointwiseWithBroadcast) {
  Graph g("input x: f32[8, 16]\n input w: f32[16]\n y = x * w[None, :]\n z = exp(y)\n output z");
  EXPECT_EQ(g.Dims("z"), g.Dims("y"));
  EXPECT_EQ(g.Read("y", 0), g.Dims("y"));
  EXPECT_EQ(g.Read("y", 1), (Dims{"", g.Dims("y")[1]}));
  EXPECT_EQ(g.axes.num_axes(), 2u);
  EXPECT_EQ(g.Dims("w"), Dims{g.Dims("y")[1]});
  EXPECT_EQ(g.NumExchanges(), 0u);
}

TEST(AxesTest, ConstantExtentOfOneIsNoAxisASymbolIs) {
  Graph g("symbol M in [1, 1]\n input x: f32[1, M, 4]\n y = exp(x)\n output y");
  EXPECT_EQ(g.Dims("y")[0], "");
  EXPECT_EQ(g.Space("y").empty(), false);
}

// The row axis of Welford and that of x - mean are one through the shared input, and so are the
// columns.
TEST(AxesTest, LayerNormByWelford) {
  Graph g(R"(symbol M in [1, 65536]
    symbol N in [1, 65536]
    input x: f32[M, N]
    mean, m2, count = welford(x, axes=[1])
    d = x - mean[:, None]
    y = d * rsqrt(m2 / count + 1e-5)[:, None]
    output y)");
  EXPECT_EQ(g.Read("mean", 0), g.Dims("y"));
  EXPECT_EQ(g.Dims("mean"), Dims{g.Dims("y")[0]});
  EXPECT_EQ(g.Dims("m2"), g.Dims("mean"));
  EXPECT_EQ(g.Space("mean"), g.Space("y"));
  EXPECT_EQ(g.axes.num_axes(), 2u);
  EXPECT_EQ(g.axes.kept(g.Def("mean")), g.axes.axes(g.Val("m2")));
  EXPECT_EQ(g.axes.extent(g.axes.atoms(g.Val("y"), 0)[0]).ToString(), "M");
}

TEST(AxesTest, InputAndItsTransposeAreTwoLoads) {
  Graph g(
      "symbol M in [1, 64]\n input x: f32[M, M]\n t = permute(x, axes=[1, 0])\n y = x + t\n output "
      "y");
  EXPECT_EQ(g.NumExchanges(), 0u);
  EXPECT_EQ(g.Dims("t"), g.Dims("y"));
  EXPECT_EQ(g.Read("t", 0), (Dims{g.Dims("y")[1], g.Dims("y")[0]}));
  EXPECT_EQ(g.axes.num_axes(), 2u);
}

TEST(AxesTest, ComputedValueAndItsTransposeIsAnExchange) {
  Graph g(R"(symbol M in [1, 64]
    input x: f32[7, M, M]
    y = exp(x)
    z = y + permute(y, axes=[0, 2, 1])
    output z)");
  const ExprId permute = g.f.definition(g.f.operands(g.Def("z"))[1]);
  const AxisSet expected = {g.axes.atoms(g.Val("z"), 1)[0], g.axes.atoms(g.Val("z"), 2)[0]};
  EXPECT_EQ(g.axes.exchanged(permute, 0), expected);  // The batch is no part of it.
  EXPECT_EQ(g.NumExchanges(), 1u);
  EXPECT_EQ(g.Dims("y"), g.Dims("z"));
}

TEST(AxesTest, OneComputedVectorAlongRowsAndColumns) {
  Graph g("input x: i32[9]\n p = x + 1\n m = p[:, None] >= p[None, :]\n output m");
  EXPECT_EQ(g.NumExchanges(), 1u);
  EXPECT_NE(g.Dims("m")[0], g.Dims("m")[1]);
  Graph of_input("input p: i32[9]\n m = p[:, None] >= p[None, :]\n output m");
  EXPECT_EQ(of_input.NumExchanges(), 0u);
}

TEST(AxesTest, GroupNormThroughReshapes) {
  Graph g(R"(symbol N in [1, 64]
    symbol H in [1, 64]
    symbol W in [1, 64]
    input x: f32[N, 32, H, W]
    input w: f32[32]
    r = reshape(x, sizes=[N, 8, 4*H*W])
    mean, m2, count = welford(r, axes=[2])
    d = r - mean[:, :, None]
    back = reshape(d, sizes=[N, 32, H, W])
    y = back * w[None, :, None, None]
    output y)");
  EXPECT_EQ(g.NumExchanges(), 0u);
  const Dims y = g.Dims("y"), r = g.Dims("r");
  EXPECT_EQ(y[1], g.Dims("mean")[1] + "," + r[2].substr(0, r[2].find(',')));
  EXPECT_EQ(r[2], y[1].substr(y[1].find(',') + 1) + "," + y[2] + "," + y[3]);
  EXPECT_EQ(g.axes.num_axes(), 5u);
  EXPECT_EQ(g.Dims("w"), Dims{y[1]});
}

TEST(AxesTest, AtomsAreTheCommonRefinementOfSeveralReshapes) {
  Graph g(R"(input x: f32[24]
    a = reshape(exp(x), sizes=[2, 12])
    b = reshape(exp(x), sizes=[4, 6])
    c = reshape(exp(x), sizes=[8, 3])
    output a
    output b
    output c)");
  EXPECT_EQ(g.axes.atoms(g.Val("a"), 1).size(), 3u);  // 24 = 2 * 2 * 2 * 3.
  EXPECT_EQ(g.axes.atoms(g.Val("b"), 0).size(), 2u);
  EXPECT_EQ(g.axes.atoms(g.Val("c"), 0).size(), 3u);
  EXPECT_EQ(g.NumExchanges(), 0u);
  EXPECT_EQ(g.axes.num_axes(), 4u);  // All through x, read three times.
}

// Blocks of dimensions of any size, which are all of their blocks wherever the reshape is taken.
TEST(AxesTest, DimensionsThatAreCutIntoBlocks) {
  Graph g(R"(symbol M
    symbol N
    input x: f32[M, N]
    b = reshape(exp(x), sizes=[M//8, 8, N//4, 4])
    s = amax(b, axes=[1, 3])
    y = b / s[:, None, :, None]
    back = reshape(y, sizes=[M, N])
    other = reshape(exp(x), sizes=[N//4, 4, M//8, 8])
    output back
    output other)");
  const Dims b = g.Dims("b"), back = g.Dims("back");
  EXPECT_EQ(back, (Dims{b[0] + "," + b[1], b[2] + "," + b[3]}));
  EXPECT_EQ(g.Dims("x"), back);
  EXPECT_NE(g.Dims("other")[0], b[2]);
}

TEST(AxesTest, ReshapeThatDoesNotNest) {
  Graph g(R"(input x: f32[5, 2, 3]
    y = exp(x)
    z = reshape(y, sizes=[5, 3, 2])
    output z)");
  EXPECT_EQ(g.Dims("z")[0], g.Dims("y")[0]);
  EXPECT_EQ(g.Exchanged("z", 0), g.Dims("y")[1] + "," + g.Dims("y")[2]);
  Graph of_input("input x: f32[2, 3]\n z = reshape(x, sizes=[3, 2])\n output z");
  EXPECT_EQ(of_input.NumExchanges(), 0u);
}

TEST(AxesTest, TwoReshapesThatDoNotNestInEachOther) {
  Graph g(R"(input x: f32[6]
    y = exp(x)
    a = exp(reshape(y, sizes=[2, 3]))
    b = exp(reshape(y, sizes=[3, 2]))
    output a
    output b)");
  EXPECT_EQ(g.NumExchanges(), 1u);
}

TEST(AxesTest, ReshapesOfNothingAndCycles) {
  Graph g(R"(symbol A in [0, 64]
    symbol B in [0, 64]
    symbol N in [0, 64]
    input x: f32[0]
    input n: f32[N]
    input a: f32[A]
    y = reshape(exp(x), sizes=[0, 5])
    z = reshape(exp(y), sizes=[7, 0])
    p = reshape(exp(n), sizes=[A, B])
    q = reshape(exp(a), sizes=[N])
    r = exp(n) + q
    output z
    output p
    output r)");
  EXPECT_GT(g.axes.num_axes(),
            0u);  // N = A * B and A = N only where B is 1: no class is a part of itself.
}

TEST(AxesTest, SlicesPadsAndFlips) {
  Graph g(R"(symbol N in [2, 64]
    input x: f32[4, N]
    y = exp(x)
    a = y[:, 1:N]
    b = y[:, 0:N]
    c = pad(y, before=[0, 1], after=[0, 0])
    d = flip(y, axes=[1])
    output a
    output b
    output c
    output d)");
  EXPECT_EQ(g.Exchanged("a", 0), g.Dims("y")[1]);
  EXPECT_EQ(g.Dims("a")[0], g.Dims("y")[0]);
  EXPECT_NE(g.Dims("a")[1], g.Dims("y")[1]);
  EXPECT_EQ(g.Exchanged("c", 0), g.Dims("y")[1]);
  EXPECT_EQ(g.Exchanged("d", 0), g.Dims("y")[1]);
  EXPECT_EQ(g.NumExchanges(), 3u);  // b is all of y.
}

TEST(AxesTest, CatGatherAndIndexSelect) {
  Graph g(R"(input x: f32[4, 6]
    input i: i64[4, 3]
    input j: i64[5]
    y = exp(x)
    c = cat(y, y, axis=1)
    s = gather(y, i, axis=1)
    t = index_select(y, j, axis=0)
    output c
    output s
    output t)");
  EXPECT_EQ(g.Exchanged("c", 0), g.Dims("y")[1]);
  EXPECT_EQ(g.Exchanged("c", 1), g.Dims("y")[1]);
  EXPECT_EQ(g.Dims("c")[0], g.Dims("y")[0]);
  EXPECT_EQ(g.Exchanged("s", 0), g.Dims("y")[1]);
  EXPECT_EQ(g.Read("s", 1), g.Dims("s"));
  EXPECT_EQ(g.Exchanged("t", 0), g.Dims("y")[0]);
  EXPECT_EQ(g.Read("t", 1), Dims{g.Dims("t")[0]});
}

TEST(AxesTest, ExpandMakesANewAxis) {
  Graph g("input x: f32[4, 1]\n y = expand(exp(x), sizes=[4, 8])\n z = exp(y)\n output z");
  EXPECT_EQ(g.Space("z").size(), 3u);  // "0,1"
  EXPECT_EQ(g.NumExchanges(), 0u);
}

TEST(AxesTest, NothingIsUnifiedThroughLibraryCallsAndBarriers) {
  Graph g(R"(input a: f32[8, 8]
    input b: f32[8, 8]
    p = exp(a)
    m = matmul(p, b)
    q = exp(m)
    s = segment_set(q)
    r = exp(s)
    output r)");
  EXPECT_NE(g.Dims("p")[0], g.Dims("m")[0]);
  EXPECT_NE(g.Dims("q")[0], g.Dims("s")[0]);
  EXPECT_NE(g.Dims("q")[0], g.Dims("r")[0]);
  EXPECT_EQ(g.NumExchanges(), 0u);
  EXPECT_EQ(g.Read("q", 0), g.Dims("q"));
}

TEST(AxesTest, ReductionsOverDifferentAxesOfOneTensor) {
  Graph g(
      "input x: f32[4, 6]\n a = sum(x, axes=[0])\n b = sum(x, axes=[1])\n c = sum(x)\n output a\n "
      "output b\n output c");
  EXPECT_EQ(g.Space("a"), g.Space("b"));
  EXPECT_EQ(g.Space("a"), g.Space("c"));
  EXPECT_EQ(g.Dims("c"), Dims{});
}

TEST(AxesTest, UnreadInputsHaveAxes) {
  Graph g("input x: f32[4, 6]\n input y: f32[3]\n output x\n z = exp(y)\n output z");
  EXPECT_EQ(g.Dims("x").size(), 2u);
  EXPECT_NE(g.Dims("x")[0], g.Dims("x")[1]);
}

// A concatenation has an axis of its own, unless it is written twice.
TEST(AxesTest, WhatIsComputedAlikeHasTheSameAxes) {
  const std::string body =
      "input x: f32[4, 6]\n a = exp(x)\n b = sin(x)\n c = cat(a, b, axis=1)\n d = cat(OPERANDS, "
      "axis=1)\n"
      " output c\n output d";
  const Graph same(absl::StrReplaceAll(body, {{"OPERANDS", "a, b"}}));
  EXPECT_EQ(same.Dims("c"), same.Dims("d"));
  const Graph other(absl::StrReplaceAll(body, {{"OPERANDS", "b, a"}}));
  EXPECT_NE(other.Dims("c"), other.Dims("d"));
}

TEST(AtomsTest, DeepChainsOfSplitsStayBounded) {
  AtomForest atoms;
  const AtomForest::Node whole = atoms.Add(int64_t{1} << 40);
  AtomForest::Node rest = whole;
  for (int bit = 39; bit >= 1; --bit) {
    const AtomForest::Node two = atoms.Add(2), next = atoms.Add(int64_t{1} << bit);
    ASSERT_TRUE(atoms.JoinProducts({rest}, {two, next}));
    rest = next;
  }
  EXPECT_LE(atoms.Atoms(whole).size(), static_cast<size_t>(AtomForest::kMaxAtoms));
  EXPECT_EQ(atoms.Atoms(whole).size(), 40u);
}

TEST(AtomsTest, AClassIsNoPartOfItself) {
  AtomForest atoms;
  const AtomForest::Node n = atoms.Add(6), a = atoms.Add(5), b = atoms.Add(2);
  EXPECT_TRUE(atoms.JoinProducts({n}, {a, b}));  // Wrong sizes, as a false constraint would give.
  EXPECT_FALSE(atoms.Join(n, a));
  EXPECT_EQ(atoms.Atoms(n).size(), 2u);
}

}  // namespace
}  // namespace seam
