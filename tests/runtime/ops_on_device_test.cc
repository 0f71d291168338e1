// Every operation on every dtype on the GPU against the reference, within the table's bounds.
// Skipped without a GPU. What is printed at the end is the largest error seen of each inexact
// operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/op_semantics.h"
#include "ir/philox.h"
#include "ir/status.h"
#include "runtime/codegen/prelude.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/support/op_samples.h"

namespace seam {
namespace {

using testing::OpSample;

// A device buffer that frees itself.
class DeviceArray {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceArray>> Make(cuda::PoolAllocator* allocator,
                                                           size_t bytes, StreamHandle stream) {
    SEAM_ASSIGN_OR_RETURN(void* pointer, allocator->Allocate(std::max<size_t>(bytes, 1), stream));
    return std::unique_ptr<DeviceArray>(new DeviceArray(allocator, pointer, stream));
  }
  ~DeviceArray() { allocator_->Free(pointer_, stream_); }
  void* pointer() const { return pointer_; }

 private:
  DeviceArray(cuda::PoolAllocator* allocator, void* pointer, StreamHandle stream)
      : allocator_(allocator), pointer_(pointer), stream_(stream) {}
  cuda::PoolAllocator* allocator_;
  void* pointer_;
  StreamHandle stream_;
};

class OpsOnDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto driver = cuda::Driver::Get();
    if (!driver.ok()) GTEST_SKIP() << driver.status();
    const auto nvrtc = cuda::Nvrtc::Get();
    if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
    nvrtc_ = *nvrtc;
    const auto device = (*driver)->device(0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
    auto stream = cuda::Stream::Create(device_);
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_.emplace(*std::move(stream));
    auto allocator = cuda::PoolAllocator::Create(device_);
    ASSERT_TRUE(allocator.ok()) << allocator.status();
    allocator_ = *std::move(allocator);
  }

  absl::StatusOr<cuda::Module> Load(const std::string& kernels) {
    cuda::CompileRequest request;
    request.name = "operations";
    request.source = PreludeFor(kernels) + kernels;
    request.arch = device_->properties().arch;
    request.entry = "k0";
    SEAM_ASSIGN_OR_RETURN(const cuda::CompiledKernel compiled, nvrtc_->Compile(request));
    return cuda::Module::Load(device_, compiled.cubin, compiled.arch);
  }

  // Runs a kernel of SampleKernel's signature. Operands and results travel in storage format.
  absl::StatusOr<std::vector<Scalar>> Run(const cuda::Kernel& kernel,
                                          absl::Span<const DType> operand_dtypes,
                                          absl::Span<const std::vector<Scalar>> operands, DType out,
                                          size_t n) {
    std::vector<std::unique_ptr<DeviceArray>> arrays;
    void* pointers[3] = {};
    for (size_t k = 0; k < operands.size(); ++k) {
      const size_t size = static_cast<size_t>(DTypeBytes(operand_dtypes[k]));
      std::vector<std::byte> bytes(n * size);
      StoreScalars(operand_dtypes[k], operands[k].data(), bytes.data(),
                   static_cast<ptrdiff_t>(size), n);
      SEAM_ASSIGN_OR_RETURN(auto array,
                            DeviceArray::Make(allocator_.get(), bytes.size(), stream_->handle()));
      SEAM_RETURN_IF_ERROR(
          device_->CopyToDevice(array->pointer(), bytes.data(), bytes.size(), stream_->handle()));
      SEAM_RETURN_IF_ERROR(stream_->Synchronize());
      pointers[k] = array->pointer();
      arrays.push_back(std::move(array));
    }
    const size_t out_size = static_cast<size_t>(DTypeBytes(out));
    SEAM_ASSIGN_OR_RETURN(auto result,
                          DeviceArray::Make(allocator_.get(), n * out_size, stream_->handle()));
    void* result_pointer = result->pointer();
    long long count = static_cast<long long>(n);
    void* params[] = {&pointers[0], &pointers[1], &pointers[2], &result_pointer, &count};
    cuda::LaunchConfig config;
    config.block = {256, 1, 1};
    config.grid = {static_cast<uint32_t>((n + 255) / 256), 1, 1};
    SEAM_RETURN_IF_ERROR(kernel.Launch(config, stream_->handle(), params));
    std::vector<std::byte> bytes(n * out_size);
    SEAM_RETURN_IF_ERROR(
        device_->CopyToHost(bytes.data(), result_pointer, bytes.size(), stream_->handle()));
    SEAM_RETURN_IF_ERROR(stream_->Synchronize());
    std::vector<Scalar> values(n);
    LoadScalars(out, bytes.data(), static_cast<ptrdiff_t>(out_size), values.data(), n);
    return values;
  }

  // Compiles the samples together and checks each.
  void CheckSamples(const std::vector<OpSample>& samples) {
    std::string kernels;
    for (size_t k = 0; k < samples.size(); ++k) {
      absl::StrAppend(&kernels, testing::SampleKernel(samples[k], absl::StrCat("k", k)));
    }
    const auto module = Load(kernels);
    ASSERT_TRUE(module.ok()) << module.status();
    for (size_t k = 0; k < samples.size(); ++k) {
      const OpSample& sample = samples[k];
      const auto kernel = module->GetKernel(absl::StrCat("k", k));
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      const auto values = Run(*kernel, sample.operand_dtypes, sample.operands, sample.out,
                              sample.operands[0].size());
      ASSERT_TRUE(values.ok()) << sample.Name() << ": " << values.status();
      Compare(sample, *values);
    }
  }

  void Compare(const OpSample& sample, const std::vector<Scalar>& values) {
    const std::vector<Scalar> reference = sample.Reference();
    const double max_ulps = GetOpInfo(sample.kind).max_ulps;
    std::vector<Scalar> exact = reference;
    if (max_ulps > 0) {
      std::vector<const Scalar*> args;
      for (const auto& operand : sample.operands) args.push_back(operand.data());
      EvalElementwiseUnrounded(sample.kind, sample.in, args.data(), exact.data(), exact.size());
    }
    // The host's libm errs by up to a unit of f64 itself.
    const double bound = max_ulps + (sample.in == DType::F64 ? 1 : 0);
    int wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const Scalar got = values[i], want = reference[i];
      bool ok;
      if (!IsFloat(sample.out)) {
        ok = got.i == want.i;
      } else if (want.f != want.f || got.f != got.f) {
        ok = want.f != want.f && got.f != got.f;
      } else if (max_ulps == 0) {
        ok = got.f == want.f && std::signbit(got.f) == std::signbit(want.f);
      } else {
        const double ulp = UlpOf(ComputeType(sample.in), exact[i].f);
        ok = got.f >= RoundToDType(sample.out, exact[i].f - bound * ulp) &&
             got.f <= RoundToDType(sample.out, exact[i].f + bound * ulp);
        const bool compute_type = sample.out == ComputeType(sample.in);
        if (compute_type && std::isfinite(got.f) && std::isfinite(exact[i].f)) {
          double& seen = seen_ulps_[sample.Name()];
          seen = std::max(seen, std::fabs(got.f - exact[i].f) / ulp);
        }
      }
      if (ok || ++wrong > 3) continue;
      std::string arguments;
      for (size_t k = 0; k < sample.operands.size(); ++k) {
        const Scalar x = sample.operands[k][i];
        absl::StrAppend(&arguments, " ", CudaConstant(sample.operand_dtypes[k], x));
      }
      ADD_FAILURE() << sample.Name() << " of" << arguments << ": got "
                    << CudaConstant(sample.out, got) << ", reference "
                    << CudaConstant(sample.out, want);
    }
    EXPECT_EQ(wrong, 0) << sample.Name() << ", of " << values.size();
  }

  void TearDown() override {
    for (const auto& [name, ulps] : seen_ulps_) {
      if (ulps > 0) std::printf("  %-16s %.3f units in the last place\n", name.c_str(), ulps);
    }
  }

  const cuda::Nvrtc* nvrtc_ = nullptr;
  const cuda::Device* device_ = nullptr;
  std::optional<cuda::Stream> stream_;
  std::unique_ptr<cuda::PoolAllocator> allocator_;
  std::map<std::string, double> seen_ulps_;
};

TEST_F(OpsOnDeviceTest, AllSamples) {
  for (int d = 0; d < kNumDTypes; ++d) {
    std::vector<OpSample> samples;
    for (OpSample& sample : testing::AllOpSamples()) {
      if (sample.in == static_cast<DType>(d)) samples.push_back(std::move(sample));
    }
    CheckSamples(samples);
  }
}

// Functions of one f32: a million values spread over all bit patterns.
TEST_F(OpsOnDeviceTest, UnaryF32OverAllMagnitudes) {
  std::vector<Scalar> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    values.push_back(DecodeBits(DType::F32, bits));
  }
  // Arguments of moderate size, where most functions vary.
  for (int i = -200000; i < 200000; ++i) {
    values.push_back(FloatScalar(static_cast<float>(i * 0.0001f * (1 + i % 7))));
  }
  std::vector<OpSample> samples;
  for (const OpInfo& op : AllOps()) {
    if (op.op_class != OpClass::Elementwise || op.num_operands != 1) continue;
    if (!TakesDType(op.kind, DType::F32)) continue;
    const DType out = InferDType(op.kind, {DType::F32}).value();
    samples.push_back({op.kind, DType::F32, out, {DType::F32}, {values}});
  }
  CheckSamples(samples);
}

// Conversions at every value of the narrow formats, halfway between each two, and just beside.
TEST_F(OpsOnDeviceTest, CastsAroundEveryRoundingBoundary) {
  std::vector<OpSample> samples;
  for (DType to : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    std::vector<Scalar> values;
    const uint64_t max_bits = EncodeBits(to, FloatScalar(MaxFinite(to)));
    for (uint64_t bits = 0; bits <= max_bits; ++bits) {
      const double value = DecodeBits(to, bits).f;
      const float middle = static_cast<float>(value + UlpOf(to, value) / 2);
      for (float x : {static_cast<float>(value), middle, std::nextafter(middle, 0.0f),
                      std::nextafter(middle, INFINITY)}) {
        values.push_back(FloatScalar(x));
        values.push_back(FloatScalar(-x));
      }
    }
    samples.push_back({OpKind::Cast, DType::F32, to, {DType::F32}, {values}});
    samples.push_back({OpKind::Cast, DType::F64, to, {DType::F64}, {values}});
  }
  for (DType from : {DType::F16, DType::BF16}) {
    std::vector<Scalar> values;
    for (uint64_t bits = 0; bits < 65536; ++bits) values.push_back(DecodeBits(from, bits));
    for (int d = 0; d < kNumDTypes; ++d) {
      samples.push_back({OpKind::Cast, from, static_cast<DType>(d), {from}, {values}});
    }
  }
  CheckSamples(samples);
}

TEST_F(OpsOnDeviceTest, RandomNumbers) {
  const int64_t seed = 0x123456789abcdef, offset = -77;
  const std::vector<DType> dtypes = {DType::F64,  DType::F32,    DType::F16,
                                     DType::BF16, DType::F8E4M3, DType::F8E5M2};
  std::string kernels;
  for (size_t k = 0; k < 2 * dtypes.size(); ++k) {
    const DType dtype = dtypes[k / 2];
    const OpKind kind = k % 2 == 0 ? OpKind::RandomUniform : OpKind::RandomNormal;
    absl::StrAppend(&kernels, "extern \"C\" __global__ void k", k,
                    "(const void*, const void*, const void*, void* out, long long n) {\n"
                    "  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
                    "  if (i < n) ((",
                    CudaStorageType(dtype), "*)out)[i] = ",
                    CudaStoreConvert(dtype, CudaRandom(kind, dtype, absl::StrCat(seed, "ll"),
                                                       absl::StrCat(offset, "ll"), "i")),
                    ";\n}\n");
  }
  const auto module = Load(kernels);
  ASSERT_TRUE(module.ok()) << module.status();
  for (size_t k = 0; k < 2 * dtypes.size(); ++k) {
    const DType dtype = dtypes[k / 2];
    const auto kernel = module->GetKernel(absl::StrCat("k", k));
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const auto values = Run(*kernel, {}, {}, dtype, 100000);
    ASSERT_TRUE(values.ok()) << values.status();
    for (size_t i = 0; i < values->size(); ++i) {
      const double got = (*values)[i].f;
      const int64_t index = static_cast<int64_t>(i);
      if (k % 2 == 0) {
        ASSERT_EQ(got, RandomUniformValue(dtype, seed, offset, index))
            << DTypeName(dtype) << " " << i;
        continue;
      }
      const double exact = RandomNormalValue(dtype, seed, offset, index);
      const double slack =
          GetOpInfo(OpKind::RandomNormal).max_ulps * UlpOf(ComputeType(dtype), exact);
      ASSERT_GE(got, RoundToDType(dtype, exact - slack)) << DTypeName(dtype) << " " << i;
      ASSERT_LE(got, RoundToDType(dtype, exact + slack)) << DTypeName(dtype) << " " << i;
    }
  }
}

// Two elements at a time: every pair of patterns that differs in both halves, there and back.
TEST_F(OpsOnDeviceTest, PairConversions) {
  for (DType dtype : {DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2}) {
    const bool wide = DTypeBytes(dtype) == 2;
    const std::string pair = wide ? "unsigned" : "unsigned short";
    const std::string kernels = absl::StrCat(
        "extern \"C\" __global__ void k0(const void* a, const void*, const void*, void* out, long "
        "long n) "
        "{\n  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
        "  if (i >= n) return;\n  const unsigned x = ((const ",
        pair, "*)a)[i];\n  ((", pair, "*)out)[i] = ",
        CudaStorePair(dtype, CudaLoadPairElement(dtype, "x", 1),
                      CudaLoadPairElement(dtype, "x", 0)),
        ";\n}\n");
    const auto module = Load(kernels);
    ASSERT_TRUE(module.ok()) << module.status();
    const auto kernel = module->GetKernel("k0");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const int width = 8 * DTypeBytes(dtype);
    std::vector<Scalar> packed;
    for (int64_t bits = 0; bits < (int64_t{1} << width); ++bits) {
      const int64_t other = (bits * 40503 + 17) & ((int64_t{1} << width) - 1);
      const auto is_nan = [&](int64_t b) {
        return std::isnan(DecodeBits(dtype, static_cast<uint64_t>(b)).f);
      };
      if (!is_nan(bits) && !is_nan(other)) packed.push_back(IntScalar(other << width | bits));
    }
    const DType carrier = wide ? DType::I32 : DType::I16;
    for (Scalar& x : packed) x.i = WrapToDType(carrier, x.i);
    const auto swapped = Run(*kernel, {carrier}, {packed}, carrier, packed.size());
    ASSERT_TRUE(swapped.ok()) << swapped.status();
    for (size_t i = 0; i < packed.size(); ++i) {
      const uint64_t x = static_cast<uint64_t>(packed[i].i), mask = (uint64_t{1} << width) - 1;
      const int64_t expected =
          WrapToDType(carrier, static_cast<int64_t>((x & mask) << width | (x >> width & mask)));
      ASSERT_EQ((*swapped)[i].i, expected) << DTypeName(dtype) << " " << i;
    }
  }
}

}  // namespace
}  // namespace seam
