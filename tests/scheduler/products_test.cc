// Sums of products: rewritten where nothing else reads the products, right at every size.
#include "scheduler/kernel/products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/group_runner.h"

namespace seam::kernel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// %2 = mul(%0, %1), which reductions read.
TileKernel ProductKernel(DType dtype, std::vector<OpKind> reductions) {
  TileKernel tile;
  tile.values.resize(3);
  for (TileValue& value : tile.values) value.dtype = dtype;
  tile.values[0].kind = tile.values[1].kind = TileKind::Load;
  tile.values[2].kind = TileKind::Map;
  tile.values[2].op = OpKind::Mul;
  tile.values[2].operands = {0, 1};
  for (const OpKind op : reductions) tile.reductions.push_back({op, DType::F32, {2}});
  return tile;
}

TEST(SumProducts, EverySumThatReadsTheProduct) {
  TileKernel tile = ProductKernel(DType::F32, {OpKind::Sum, OpKind::Sum});
  tile.reductions[1].over = Over::Rows;
  SumProducts(tile);
  for (const TileReduction& r : tile.reductions) {
    EXPECT_TRUE(r.products);
    EXPECT_THAT(r.operands, ElementsAre(0, 1));
  }
}

TEST(SumProducts, NotWhatSomethingElseReads) {
  TileKernel stored = ProductKernel(DType::F32, {OpKind::Sum});
  stored.stores.push_back({2});
  TileKernel with_extremum = ProductKernel(DType::F32, {OpKind::Sum, OpKind::Max});
  TileKernel narrow = ProductKernel(DType::BF16, {OpKind::Sum});  // It rounds each product.
  for (TileKernel* tile : {&stored, &with_extremum, &narrow}) {
    SumProducts(*tile);
    for (const TileReduction& r : tile->reductions) {
      EXPECT_FALSE(r.products);
      EXPECT_THAT(r.operands, ElementsAre(2));
    }
  }
}

// Rows that end inside a vector: what lies outside has no number, one factor of it perhaps zero.
TEST(SumProducts, AreRightBesideTheRow) {
  constexpr char kText[] = R"(fusion products {
  symbol M
  symbol N
  input x: f32[M, N]
  input y: f32[M, N]
  s = sum(x * (1.0 / y), axes=[1])
  c = sum(x * y, axes=[0])
  output s
  output c
})";
  for (const int64_t columns : {1, 7, 64, 129}) {
    const testing::GroupResult result =
        testing::RunGroupText(kText, {.sizes = {{"M", 5}, {"N", columns}}});
    EXPECT_TRUE(result.status.ok()) << result.status << "\n" << result.kernel_text;
    EXPECT_THAT(result.kernel_text, HasSubstr("fma("));
    EXPECT_THAT(result.kernel_text, Not(HasSubstr("= mul(")));
  }
}

}  // namespace
}  // namespace seam::kernel
