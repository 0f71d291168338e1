// HostTensor: strides, what it refuses, comparison and random filling.
#include "ir/reference/host_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/host_tensors.h"
#include "tests/support/special_values.h"

namespace seam {
namespace {

using testing::Floats;
using testing::Integers;
using testing::kInf;
using testing::kNan;
using testing::Random;

using Index = std::vector<int64_t>;

TEST(HostTensorTest, StridesAndContiguity) {
  HostTensor t = HostTensor::MakeStrided(DType::I16, {3, 4}, {1, 3}).value();
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_EQ(t.span_elements(), 12);
  EXPECT_EQ(t.data.size(), 24u);
  std::vector<Scalar> values(12);
  for (int i = 0; i < 12; ++i) values[static_cast<size_t>(i)].i = i;
  t.FromScalars(values);
  EXPECT_EQ(t.at({1, 2}).i, 6);
  EXPECT_EQ(LoadScalar(DType::I16, t.data.data() + 2 * 7).i, 6);
  const std::vector<Scalar> back = t.ToScalars();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(back[static_cast<size_t>(i)].i, i);
  EXPECT_TRUE(HostTensor::MakeStrided(DType::F32, {1, 5}, {99, 1}).value().is_contiguous());
  EXPECT_TRUE(HostTensor::Make(DType::F32, {3, 0, 2}).value().data.empty());
  EXPECT_EQ(HostTensor::Make(DType::F64, {}).value().data.size(), 8u);
}

TEST(HostTensorTest, RefusesWhatCannotBe) {
  EXPECT_FALSE(HostTensor::Make(DType::F32, {-1}).ok());
  EXPECT_FALSE(HostTensor::Make(DType::F32, {int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(HostTensor::Make(DType::F64, {0, int64_t{1} << 62, 16}).ok());
  EXPECT_FALSE(HostTensor::MakeStrided(DType::F32, {4}, {1, 1}).ok());
  EXPECT_FALSE(HostTensor::MakeStrided(DType::F32, {4}, {-1}).ok());
  EXPECT_FALSE(HostTensor::MakeStrided(DType::F32, {4, 4}, {INT64_MAX, INT64_MAX}).ok());
}

TEST(HostTensorTest, ComparesInUnitsOfTheLastPlace) {
  const HostTensor a = Floats(DType::F16, {2, 3}, {1, 2, 3, kNan, kInf, 0});
  EXPECT_EQ(CompareTensors(a, a)->num_different, 0);
  HostTensor b = a;
  b.set({0, 1}, FloatScalar(2 + 3 * 0x1p-9));
  TensorError error = CompareTensors(a, b).value();
  EXPECT_EQ(error.num_different, 1);
  EXPECT_EQ(error.max_ulps, 3);
  EXPECT_EQ(error.worst, (Index{0, 1}));
  b.set({1, 0}, FloatScalar(0));
  EXPECT_EQ(CompareTensors(a, b)->max_ulps, kInf);
  EXPECT_EQ(CompareTensors(a, b)->worst, (Index{1, 0}));
  EXPECT_FALSE(CompareTensors(a, Floats(DType::F16, {6}, {0, 0, 0, 0, 0, 0})).ok());
  EXPECT_EQ(
      CompareTensors(Integers(DType::I64, {1}, {INT64_MIN}), Integers(DType::I64, {1}, {INT64_MAX}))
          ->num_different,
      1);
}

TEST(HostTensorTest, RandomFillingIsSpreadAndSeeded) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    const HostTensor a = Random(dtype, {1000}, 5), same = Random(dtype, {1000}, 5);
    EXPECT_EQ(a.data, same.data);
    EXPECT_NE(a.data, Random(dtype, {1000}, 6).data);
    double low = kInf, high = -kInf;
    for (Scalar x : a.ToScalars()) {
      const double value = IsFloat(dtype) ? x.f : static_cast<double>(x.i);
      low = std::min(low, value);
      high = std::max(high, value);
    }
    EXPECT_EQ(low, dtype == DType::Bool || dtype == DType::U8 ? 0 : low);
    EXPECT_GE(high - low, 1) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace seam
