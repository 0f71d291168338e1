#include "tests/support/op_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "ir/op_semantics.h"
#include "runtime/codegen/prelude.h"

namespace seam::testing {
namespace {

std::vector<Scalar> SpecialValues(DType dtype) {
  std::vector<Scalar> values;
  if (IsFloat(dtype)) {
    const double quantum = UlpOf(dtype, 0);
    const double normal = std::ldexp(quantum, SignificandBits(dtype) - 1);
    for (double x : {0.0,
                     quantum,
                     3 * quantum,
                     normal - quantum,
                     normal,
                     0.25,
                     0.3,
                     0.5,
                     0.75,
                     1.0,
                     1.0 + UlpOf(dtype, 1),
                     1.5,
                     2.0,
                     2.5,
                     3.0,
                     7.0,
                     10.0,
                     88.5,
                     104.5,
                     1e5,
                     3e9,
                     1e19,
                     MaxFinite(dtype),
                     std::numeric_limits<double>::infinity()}) {
      values.push_back(FloatScalar(RoundToDType(dtype, x)));
      values.push_back(FloatScalar(RoundToDType(dtype, -x)));
    }
    values.push_back(FloatScalar(std::numeric_limits<double>::quiet_NaN()));
    return values;
  }
  for (int64_t x : {int64_t{0},          int64_t{1},
                    int64_t{2},          int64_t{3},
                    int64_t{5},          int64_t{7},
                    int64_t{8},          int64_t{15},
                    int64_t{16},         int64_t{31},
                    int64_t{32},         int64_t{33},
                    int64_t{63},         int64_t{64},
                    int64_t{100},        int64_t{-1},
                    int64_t{-2},         int64_t{-3},
                    int64_t{-7},         int64_t{-100},
                    int64_t{46341},      int64_t{16777217},
                    int64_t{4294967297}, int64_t{3037000500},
                    MinInteger(dtype),   MinInteger(dtype) + 1,
                    MaxInteger(dtype),   MaxInteger(dtype) - 1}) {
    values.push_back(IntScalar(WrapToDType(dtype, x)));
  }
  return values;
}

// Moderate magnitudes, some near one, some over the whole range.
Scalar RandomValue(DType dtype, std::mt19937_64& random) {
  if (!IsFloat(dtype)) {
    const int64_t bits = static_cast<int64_t>(random());
    return IntScalar(WrapToDType(dtype, random() % 2 ? bits : bits % 50));
  }
  const auto unit = [&] { return std::ldexp(static_cast<double>(random() >> 11), -52) - 1; };
  switch (random() % 3) {
    case 0:
      return FloatScalar(RoundToDType(dtype, unit()));
    case 1:
      return FloatScalar(RoundToDType(dtype, 20 * unit()));
    default:
      return FloatScalar(RoundToDType(
          dtype, std::ldexp(unit(), static_cast<int>(unit() * std::ilogb(MaxFinite(dtype))))));
  }
}

OpSample MakeSample(OpKind kind, DType in, DType out, std::vector<DType> operand_dtypes) {
  OpSample sample{kind, in, out, std::move(operand_dtypes), {}};
  std::mt19937_64 random(static_cast<uint64_t>(kind) * 100 + static_cast<uint64_t>(in));
  const size_t arity = sample.operand_dtypes.size();
  for (size_t k = 0; k < arity; ++k) {
    const DType dtype = sample.operand_dtypes[k];
    std::vector<Scalar> values;
    if (arity == 1) {
      values = SampleValues(dtype);
    } else {
      // All pairs of the special values in the last two operands; a third walks through its own
      // meanwhile.
      const std::vector<Scalar> mine = SpecialValues(dtype);
      const std::vector<Scalar> data = SpecialValues(in);
      const size_t pairs = data.size() * data.size();
      for (size_t i = 0; i < pairs; ++i) {
        values.push_back(k + 1 == arity   ? data[i % data.size()]
                         : k + 2 == arity ? data[i / data.size()]
                                          : mine[(i + i / 7) % mine.size()]);
      }
      for (int i = 0; i < 1000; ++i) values.push_back(RandomValue(dtype, random));
    }
    sample.operands.push_back(std::move(values));
  }
  return sample;
}

}  // namespace

std::vector<Scalar> SampleValues(DType dtype) {
  std::vector<Scalar> values = SpecialValues(dtype);
  if (DTypeBytes(dtype) == 1) {  // Every value there is.
    for (int bits = 0; bits < (dtype == DType::Bool ? 2 : 256); ++bits) {
      values.push_back(DecodeBits(dtype, static_cast<uint64_t>(bits)));
    }
    return values;
  }
  std::mt19937_64 random(static_cast<uint64_t>(dtype));
  for (int i = 0; i < 2000; ++i) values.push_back(RandomValue(dtype, random));
  return values;
}

std::string OpSample::Name() const {
  std::string name = absl::StrCat(OpName(kind), ".", DTypeName(in));
  if (kind == OpKind::Cast) absl::StrAppend(&name, ".", DTypeName(out));
  return name;
}

std::vector<Scalar> OpSample::Reference() const {
  std::vector<Scalar> results(operands[0].size());
  if (kind == OpKind::Cast) {
    CastScalars(in, out, operands[0].data(), results.data(), results.size());
    return results;
  }
  std::vector<const Scalar*> args;
  for (const auto& operand : operands) args.push_back(operand.data());
  EvalElementwise(kind, in, out, args.data(), results.data(), results.size());
  return results;
}

std::vector<OpSample> AllOpSamples() {
  std::vector<OpSample> samples;
  for (const OpInfo& op : AllOps()) {
    for (int d = 0; d < kNumDTypes; ++d) {
      const DType in = static_cast<DType>(d);
      if (op.op_class == OpClass::Cast) {
        for (int o = 0; o < kNumDTypes; ++o) {
          samples.push_back(MakeSample(op.kind, in, static_cast<DType>(o), {in}));
        }
      } else if (op.op_class == OpClass::Elementwise && TakesDType(op.kind, in)) {
        std::vector<DType> operands(static_cast<size_t>(op.num_operands), in);
        if (op.type_rule == TypeRule::kWhere) operands[0] = DType::Bool;
        samples.push_back(MakeSample(op.kind, in, InferDType(op.kind, operands).value(), operands));
      }
    }
  }
  return samples;
}

std::string SampleKernel(const OpSample& sample, const std::string& kernel) {
  static constexpr const char* kNames[] = {"a", "b", "c"};
  std::string body;
  std::vector<std::string> args;
  for (size_t k = 0; k < sample.operand_dtypes.size(); ++k) {
    const DType dtype = sample.operand_dtypes[k];
    args.push_back(absl::StrCat("x", k));
    absl::StrAppend(&body, "  const ", CudaRegisterType(dtype), " x", k, " = ",
                    CudaLoadConvert(dtype, absl::StrCat("((const ", CudaStorageType(dtype), "*)",
                                                        kNames[k], ")[i]")),
                    ";\n");
  }
  absl::StrAppend(&body, "  const ", CudaRegisterType(sample.out),
                  " y = ", CudaExpression(sample.kind, sample.in, sample.out, args), ";\n  ((",
                  CudaStorageType(sample.out), "*)out)[i] = ", CudaStoreConvert(sample.out, "y"),
                  ";\n");
  return absl::StrCat("extern \"C\" __global__ void ", kernel,
                      "(const void* a, const void* b, const void* c, void* out, long long n) {\n"
                      "  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
                      "  if (i >= n) return;\n",
                      body, "}\n");
}

}  // namespace seam::testing
