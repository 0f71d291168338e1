// What a Fusion derives on demand, and the table of attributes.
#include "ir/fusion.h"

#include <string>

#include "gtest/gtest.h"
#include "ir/fusion_builder.h"

namespace seam {
namespace {

TEST(TensorType, PrintsAndCounts) {
  ShapeEnv env;
  const SymInt m = env.NewSymbol("M", 0, 100).value();
  EXPECT_EQ((TensorType{DType::BF16, {{m}, {4}}}).ToString(), "bf16[M, 4]");
  EXPECT_EQ((TensorType{DType::BF16, {{m}, {4}}}).numel(), m * 4);
  EXPECT_EQ((TensorType{DType::Bool, {}}).ToString(), "bool[]");
  EXPECT_EQ((TensorType{DType::Bool, {}}).numel(), 1);
  EXPECT_EQ((TensorType{DType::F32, {{3}, {0}}}).numel(), 0);
}

TEST(IterDomain, OnlyAConstantOneIsBroadcast) {
  ShapeEnv env;
  EXPECT_TRUE(IterDomain{}.is_broadcast());
  EXPECT_FALSE(IterDomain{2}.is_broadcast());
  EXPECT_FALSE(IterDomain{0}.is_broadcast());
  EXPECT_FALSE(IterDomain{env.NewSymbol("M", 0, 100).value()}.is_broadcast());
}

TEST(ContiguousStrides, AreRowMajor) {
  ShapeEnv env;
  const SymInt m = env.NewSymbol("M", 0, 100).value();
  const auto strides = [](SymVector sizes) {
    std::vector<IterDomain> domain;
    for (SymInt size : sizes) domain.push_back({size});
    return ContiguousStrides(domain);
  };
  EXPECT_EQ(strides({}), SymVector{});
  EXPECT_EQ(strides({7}), SymVector{1});
  EXPECT_EQ(strides({2, 3, 4}), (SymVector{12, 4, 1}));
  EXPECT_EQ(strides({2, m, 4}), (SymVector{4 * m, 4, 1}));
  EXPECT_EQ(strides({2, 1, 4}), (SymVector{4, 4, 1}));
}

TEST(AttributesOf, FollowsTheTable) {
  EXPECT_EQ(AttributesOf(OpKind::Add), 0u);
  EXPECT_EQ(AttributesOf(OpKind::Matmul), 0u);
  EXPECT_EQ(AttributesOf(OpKind::SegmentSet), 0u);
  EXPECT_EQ(AttributesOf(OpKind::Sum), kAttrAxes);
  EXPECT_EQ(AttributesOf(OpKind::Welford), kAttrAxes);
  EXPECT_EQ(AttributesOf(OpKind::Cast), kAttrDType);
  EXPECT_EQ(AttributesOf(OpKind::Constant), kAttrDType | kAttrValue);
  EXPECT_EQ(AttributesOf(OpKind::Slice), kAttrStart | kAttrStop | kAttrStep);
  EXPECT_EQ(AttributesOf(OpKind::Pad), kAttrStart | kAttrStop | kAttrValue);
  EXPECT_EQ(AttributesOf(OpKind::Iota), kAttrAxes | kAttrSizes | kAttrDType);
  EXPECT_EQ(AttributesOf(OpKind::RandomNormal), kAttrSizes | kAttrDType);
  for (const OpInfo& info : AllOps()) {
    if (info.op_class == OpClass::Elementwise) {
      EXPECT_EQ(AttributesOf(info.kind), 0u) << info.name;
    }
    if (info.num_operands == 0) {
      EXPECT_NE(AttributesOf(info.kind), 0u) << info.name;
    }
  }
}

TEST(Fusion, MemoryCountsWhatGrows) {
  const auto bytes = [](int exprs, const std::string& name) {
    FusionBuilder b("f");
    ValId v = b.Input("x", DType::F32, {4});
    for (int i = 0; i < exprs; ++i) v = b.Op(OpKind::Neg, {v});
    b.SetName(v, name);
    return b.Finish().value().MemoryBytes();
  };
  EXPECT_GE(bytes(1000, "y") - bytes(10, "y"), 990 * 60);
  EXPECT_GE(bytes(10, std::string(1000, 'y')) - bytes(10, "y"), 1000);
}

TEST(Fusion, MovesAndKeepsItsEnvironment) {
  FusionBuilder b("f");
  const SymInt m = b.Symbol("M");
  b.Output(b.Op(OpKind::Neg, {b.Input("x", DType::F32, {m})}));
  Fusion f = b.Finish().value();
  const std::shared_ptr<ShapeEnv> env = f.shared_env();
  const Fusion moved = std::move(f);
  EXPECT_EQ(&moved.env(), env.get());
  EXPECT_EQ(moved.type(moved.outputs()[0]).ToString(), "f32[M]");
}

}  // namespace
}  // namespace seam
