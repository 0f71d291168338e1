// Every operation on every dtype compiles with NVRTC, for the oldest and the newest ways of
// converting, and what the spelling helpers promise holds.
#include "runtime/codegen/prelude.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/support/op_samples.h"

namespace seam {
namespace {

// Kernels k0, k1, ... of all samples with this operand dtype.
std::string AllKernels(DType dtype) {
  std::string kernels;
  int count = 0;
  for (const testing::OpSample& sample : testing::AllOpSamples()) {
    if (sample.in != dtype) continue;
    absl::StrAppend(&kernels, testing::SampleKernel(sample, absl::StrCat("k", count++)));
  }
  // Pairs and random numbers, which no elementwise operation uses.
  if (IsFloat(dtype)) {
    for (OpKind kind : {OpKind::RandomUniform, OpKind::RandomNormal}) {
      absl::StrAppend(
          &kernels, "extern \"C\" __global__ void k", count++, "(", CudaStorageType(dtype),
          "* out, long long seed) { out[threadIdx.x] = ",
          CudaStoreConvert(dtype, CudaRandom(kind, dtype, "seed", "7ll", "threadIdx.x")), "; }\n");
    }
  }
  if (HasCudaPairs(dtype)) {
    absl::StrAppend(&kernels, "extern \"C\" __global__ void k", count++, "(unsigned* p) { p[0] = ",
                    CudaStorePair(dtype, CudaLoadPairElement(dtype, "p[1]", 1),
                                  CudaLoadPairElement(dtype, "p[1]", 0)),
                    "; }\n");
  }
  return kernels;
}

class PreludeCompileTest : public ::testing::TestWithParam<std::pair<std::string, DType>> {};

TEST_P(PreludeCompileTest, EveryOperation) {
  const auto nvrtc = cuda::Nvrtc::Get();
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
  const auto& [arch, dtype] = GetParam();
  if (!(*nvrtc)->CheckArch(arch).ok()) GTEST_SKIP() << "this NVRTC does not know " << arch;
  const std::string kernels = AllKernels(dtype);
  cuda::CompileRequest request;
  request.name = absl::StrCat("prelude ", DTypeName(dtype));
  request.source = PreludeFor(kernels) + kernels;
  request.arch = arch;
  request.entry = "k0";
  const auto compiled = (*nvrtc)->Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
}

std::vector<std::pair<std::string, DType>> ArchsAndDTypes() {
  std::vector<std::pair<std::string, DType>> cases;
  for (int d = 0; d < kNumDTypes; ++d) cases.emplace_back("sm_90a", static_cast<DType>(d));
  for (DType d : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    cases.emplace_back("sm_75", d);  // Without bf16, NaN-propagating minimum and f8 instructions.
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, PreludeCompileTest, ::testing::ValuesIn(ArchsAndDTypes()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.first, "_", DTypeName(info.param.second));
                         });

TEST(PreludeTest, CarriesOnlyWhatIsCalled) {
  EXPECT_EQ(PreludeFor("y = a + b;"), "");
  EXPECT_EQ(PreludeFor("my_seam_philox(1); seam_unknown(2);"), "");
  const std::string prelude = PreludeFor("y = seam_round_f16(a);");
  EXPECT_NE(prelude.find("seam_f16_bits("), std::string::npos);
  EXPECT_NE(prelude.find("seam_f16_value("), std::string::npos);
  EXPECT_EQ(prelude.find("bf16"), std::string::npos);
  EXPECT_LT(prelude.find("seam_f16_bits(float"), prelude.find("seam_round_f16(float"));
}

TEST(PreludeTest, ExpressionsKeepPrecedence) {
  EXPECT_EQ(CudaExpression(OpKind::Mul, DType::F32, DType::F32, {"x + y", "f(z, 1)"}),
            "(x + y) * f(z, 1)");
  EXPECT_EQ(CudaExpression(OpKind::Neg, DType::F32, DType::F32, {"-x"}), "-(-x)");
  EXPECT_EQ(CudaExpression(OpKind::Exp, DType::F32, DType::F32, {"v[3]"}), "expf(v[3])");
  EXPECT_EQ(CudaExpression(OpKind::Exp, DType::F64, DType::F64, {"v[3]"}), "exp(v[3])");
  EXPECT_EQ(CudaExpression(OpKind::Add, DType::BF16, DType::BF16, {"x", "y"}),
            "seam_round_bf16(x + y)");
  EXPECT_EQ(CudaExpression(OpKind::Add, DType::I8, DType::I8, {"x", "y"}),
            "(int)(signed char)(seam_add(x, y))");
  EXPECT_EQ(CudaExpression(OpKind::Clz, DType::I16, DType::I16, {"x"}),
            "(int)(short)(seam_clz(x, 16))");
}

TEST(PreludeTest, Constants) {
  EXPECT_EQ(CudaConstant(DType::F32, FloatScalar(1.5)), "0x1.8p+0f");
  EXPECT_EQ(CudaConstant(DType::F64, FloatScalar(-0.0)), "(-0x0p+0)");
  EXPECT_EQ(CudaConstant(DType::F16, FloatScalar(-std::numeric_limits<double>::infinity())),
            "__int_as_float(0xff800000)");
  EXPECT_EQ(CudaConstant(DType::I64, IntScalar(std::numeric_limits<int64_t>::min())),
            "(-9223372036854775807ll - 1)");
  EXPECT_EQ(CudaConstant(DType::I32, IntScalar(-2147483648ll)), "(-2147483647 - 1)");
  EXPECT_EQ(CudaConstant(DType::I8, IntScalar(-128)), "(-128)");
  EXPECT_EQ(CudaConstant(DType::Bool, IntScalar(1)), "true");
}

}  // namespace
}  // namespace seam
