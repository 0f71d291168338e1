// Executables on the host backends: results, sizes of every kind, memory that callers bring or do
// not, errors, threads.
#include "runtime/executable.h"

#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/reference/envelope.h"
#include "ir/reference/interpreter.h"
#include "ir/text/parser.h"
#include "runtime/random_inputs.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Symbols = std::vector<SymbolValue>;

absl::StatusOr<Executable> CompileText(const std::string& body,
                                       BackendKind backend = BackendKind::kSimulator) {
  absl::StatusOr<Fusion> fusion = ParseFusion("fusion f {\n" + body + "\n}");
  if (!fusion.ok()) return fusion.status();
  CompileOptions options;
  options.backend = backend;
  return Compile(*std::move(fusion), options);
}

#define ASSERT_OK_AND_ASSIGN(lhs, expr)            \
  auto lhs##_or = (expr);                          \
  ASSERT_TRUE(lhs##_or.ok()) << lhs##_or.status(); \
  auto& lhs = *lhs##_or

absl::StatusOr<std::vector<HostTensor>> RandomInputs(const Executable& executable,
                                                     const Symbols& symbols) {
  const absl::StatusOr<SizeBinding> binding = BindGiven(executable.fusion(), symbols);
  if (!binding.ok()) return binding.status();
  return RandomInputs(executable.fusion(), *binding, /*seed=*/1);
}

// Runs on random inputs; the first output outside its envelope is the error.
absl::Status RunAndCheck(const Executable& executable, const Symbols& symbols) {
  const absl::StatusOr<std::vector<HostTensor>> inputs = RandomInputs(executable, symbols);
  if (!inputs.ok()) return inputs.status();
  const absl::StatusOr<std::vector<HostTensor>> outputs = executable.RunOnHost(*inputs, symbols);
  if (!outputs.ok()) return outputs.status();
  SymbolBindings bindings;
  for (const SymbolValue& s : symbols) bindings.emplace(s.name, s.value);
  const absl::StatusOr<std::vector<Envelope>> envelopes =
      MakeEnvelopes(executable.fusion(), bindings, *inputs);
  if (!envelopes.ok()) return envelopes.status();
  for (size_t j = 0; j < outputs->size(); ++j) {
    const absl::Status within = CheckWithin((*envelopes)[j], (*outputs)[j]);
    if (!within.ok())
      return absl::InternalError(absl::StrCat("output ", j, ": ", within.message()));
  }
  return absl::OkStatus();
}

Tensor FloatTensor(std::vector<float>& data, std::vector<int64_t> sizes) {
  return ContiguousTensor(data.data(), DType::F32, sizes);
}

// --- Every example of the tree, at sizes that divide vectors and at sizes that do not. ---
// A symbol has another size than the two before it.

class Examples : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> ExampleNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SEAM_SOURCE_DIR "/examples")) {
    if (entry.path().extension() == ".seam") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_P(Examples, OnTheSimulator) {
  for (const int64_t base : {1, 3, 8}) {
    absl::StatusOr<Fusion> fusion =
        LoadFusion(absl::StrCat(SEAM_SOURCE_DIR, "/examples/", GetParam(), ".seam"));
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    Symbols symbols;
    for (const SymNode* s : fusion->env().symbols()) {
      const auto nth = static_cast<int64_t>(symbols.size()) % 3;
      const int64_t size = base == 1 ? 1 : base + nth * (base == 3 ? 2 : 8);
      symbols.push_back({std::string(s->name), size});
    }
    CompileOptions options;
    options.backend = BackendKind::kSimulator;
    ASSERT_OK_AND_ASSIGN(executable, Compile(*std::move(fusion), options));
    const absl::Status status = RunAndCheck(executable, symbols);
    EXPECT_TRUE(status.ok()) << "base size " << base << ": " << status;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Examples, ::testing::ValuesIn(ExampleNames()),
                         [](const auto& info) { return info.param; });

// --- Sizes ---

TEST(Executable, EmptyAxesGiveNeutralValues) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText(R"(
    symbol M in [0, 100]
    symbol N in [0, 100]
    input x: f32[M, N]
    input b: bool[M, N]
    s = sum(x, axes=[1])
    p = prod(x, axes=[1])
    l = all(b, axes=[1])
    y = any(b, axes=[1])
    mean, m2, count = welford(x, axes=[1])
    e = exp(x)
    output s
    output p
    output l
    output y
    output mean
    output count
    output e)"));
  for (const Symbols& symbols : {Symbols{{"M", 3}, {"N", 0}}, Symbols{{"M", 0}, {"N", 5}},
                                 Symbols{{"M", 0}, {"N", 0}}, Symbols{{"M", 2}, {"N", 5}}}) {
    const absl::Status status = RunAndCheck(executable, symbols);
    EXPECT_TRUE(status.ok()) << symbols[0].value << " x " << symbols[1].value << ": " << status;
  }
  ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable, {{"M", 2}, {"N", 0}}));
  ASSERT_OK_AND_ASSIGN(outputs, executable.RunOnHost(inputs));
  EXPECT_EQ(outputs[0].at({1}).f, 0);
  EXPECT_EQ(outputs[1].at({1}).f, 1);
  EXPECT_EQ(outputs[2].at({1}).i, 1);
  EXPECT_EQ(outputs[3].at({1}).i, 0);
}

// No tensor is as large as the sizes that these compute with.
TEST(Executable, SizesBeyond32Bits) {
  const char* bodies[] = {
      "input x: f32[4]\n y = x / size(sizes=[M*N], dtype=f32)",
      "input x: f32[4]\n y = x + cast(size(sizes=[M*N], dtype=i64), dtype=f32)",
      "input x: f32[(M*N) // 1048576]\n y = -x",
      "input x: f32[8, (M*N) // 1048576]\n y = sum(x, axes=[1]) / size(sizes=[M*N], dtype=f32)",
  };
  for (const char* body : bodies) {
    ASSERT_OK_AND_ASSIGN(executable,
                         CompileText(absl::StrCat("symbol M\n symbol N\n ", body, "\n output y")));
    for (int64_t n : {1024, 46341, 65536}) {
      const absl::Status status = RunAndCheck(executable, {{"M", n}, {"N", n}});
      EXPECT_TRUE(status.ok()) << body << ", " << n << ": " << status;
    }
  }
}

TEST(Executable, OneTextServesManySizes) {
  ASSERT_OK_AND_ASSIGN(
      executable, CompileText("symbol M in [0, 1000]\n symbol N in [1, 1000]\n input x: f32[M, N]\n"
                              "y = x / sum(x, axes=[1], keepdims=true)\n output y"));
  for (int64_t m : {1, 2, 3, 5, 7, 33}) {
    const absl::Status status = RunAndCheck(executable, {{"M", m}, {"N", 41}});
    EXPECT_TRUE(status.ok()) << m << ": " << status;
  }
  EXPECT_EQ(executable.statistics().prepared, 6);
  const int64_t kernels = executable.statistics().kernels;
  for (int64_t m : {1, 33}) EXPECT_TRUE(RunAndCheck(executable, {{"M", m}, {"N", 41}}).ok());
  EXPECT_EQ(executable.statistics().prepared, 6)
      << "what was worked out for these sizes is used again";
  EXPECT_EQ(executable.statistics().kernels, kernels);
}

// What serves a size does not depend on which sizes came before.
TEST(Executable, SchedulesDoNotDependOnHistory) {
  const std::string text =
      "symbol N in [1, 100000]\n input x: f32[7, N]\n y = x - amax(x, axes=[1], keepdims=true)\n "
      "output y";
  ASSERT_OK_AND_ASSIGN(fresh, CompileText(text));
  ASSERT_OK_AND_ASSIGN(used, CompileText(text));
  for (int64_t n : {1, 999, 1001, 4096}) ASSERT_TRUE(used.CompileFor({{"N", n}}).ok());
  ASSERT_OK_AND_ASSIGN(expected, fresh.CompileFor({{"N", 1024}}));
  ASSERT_OK_AND_ASSIGN(actual, used.CompileFor({{"N", 1024}}));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t g = 0; g < actual.size(); ++g) {
    EXPECT_EQ(actual[g].schedule, expected[g].schedule);
    ASSERT_EQ(actual[g].kernels.size(), expected[g].kernels.size());
    for (size_t k = 0; k < actual[g].kernels.size(); ++k) {
      EXPECT_EQ(actual[g].kernels[k].kernel_text, expected[g].kernels[k].kernel_text);
    }
  }
}

TEST(Executable, SymbolsThatNoInputDeterminesAreGiven) {
  ASSERT_OK_AND_ASSIGN(executable,
                       CompileText("symbol G in [1, 64]\n symbol K in [1, 64]\n input x: f32[G*K]\n"
                                   "y = sum(reshape(x, sizes=[G, K]), axes=[1])\n output y"));
  EXPECT_TRUE(RunAndCheck(executable, {{"G", 5}, {"K", 3}}).ok());
  ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable, {{"G", 5}, {"K", 3}}));
  EXPECT_THAT(std::string(executable.RunOnHost(inputs).status().message()),
              HasSubstr("no value of the symbol"));
  ASSERT_OK_AND_ASSIGN(given, executable.RunOnHost(inputs, Symbols{{"G", 3}}));
  EXPECT_THAT(given[0].shape, ElementsAre(3));
}

TEST(Executable, UnusedSymbolsNeedNoValue) {
  ASSERT_OK_AND_ASSIGN(
      executable, CompileText("symbol M in [1, 64]\n symbol Unused in [1, 64]\n input x: f32[M]\n"
                              "y = exp(x)\n output y"));
  EXPECT_TRUE(RunAndCheck(executable, {{"M", 5}}).ok());
}

// --- Graphs of several groups ---

TEST(Executable, IntermediateValuesShareMemory) {
  // Each total is over everything, so that nothing fuses across it.
  ASSERT_OK_AND_ASSIGN(executable, CompileText(R"(
    symbol M in [1, 500]
    input x: f32[M, 3]
    a = x - sum(x)
    b = a * sum(abs(a))
    c = b + amax(b)
    d = segment_set(c)
    e = d - sum(d, axes=[0], keepdims=true)
    output e
    output b)"));
  for (int64_t m : {1, 3, 50}) {
    const absl::Status status = RunAndCheck(executable, {{"M", m}});
    EXPECT_TRUE(status.ok()) << m << ": " << status;
  }
}

TEST(Executable, LibraryCallsRunOnTheHost) {
  ASSERT_OK_AND_ASSIGN(
      executable, CompileText("symbol M in [0, 64]\n symbol K in [0, 64]\n input a: f32[M, K]\n"
                              "input b: f32[K, 5]\n c = relu(matmul(exp(a), b))\n output c"));
  EXPECT_TRUE(RunAndCheck(executable, {{"M", 4}, {"K", 3}}).ok());
  EXPECT_TRUE(RunAndCheck(executable, {{"M", 0}, {"K", 3}}).ok());
  EXPECT_TRUE(RunAndCheck(executable, {{"M", 4}, {"K", 0}}).ok());
}

TEST(Executable, TheReferenceBackendIsTheInterpreter) {
  ASSERT_OK_AND_ASSIGN(
      executable,
      CompileText("symbol M in [0, 64]\n input x: f32[M]\n y = tanh(x)\n output y\n output x",
                  BackendKind::kReference));
  ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable, {{"M", 9}}));
  ASSERT_OK_AND_ASSIGN(outputs, executable.RunOnHost(inputs));
  ASSERT_OK_AND_ASSIGN(expected, Interpret(executable.fusion(), {}, inputs));
  EXPECT_EQ(outputs[0].data, expected[0].data);
  EXPECT_EQ(outputs[1].data, inputs[0].data);
  EXPECT_EQ(executable.statistics().kernels, 0);
}

// --- Memory of callers ---

constexpr char kScale[] =
    "symbol M in [0, 100]\n symbol N in [0, 100]\n input x: f32[M, N]\n y = x * 2.0\n output y";

TEST(Executable, AllocatesOutputsWithoutData) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText(kScale));
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  Tensor out;
  ASSERT_TRUE(executable.Run({FloatTensor(x, {2, 3})}, absl::MakeSpan(&out, 1)).ok());
  EXPECT_EQ(out.ToString(), "f32[2, 3]");
  ASSERT_NE(out.allocation, nullptr);
  EXPECT_EQ(out.allocation, out.data);
  EXPECT_EQ(static_cast<float*>(out.data)[5], 12);
  executable.allocator().Free(out.allocation, nullptr);

  out = Tensor();
  ASSERT_TRUE(executable.Run({FloatTensor(x, {0, 6})}, absl::MakeSpan(&out, 1)).ok());
  EXPECT_EQ(out.ToString(), "f32[0, 6]");
  executable.allocator().Free(out.allocation, nullptr);
}

TEST(Executable, AnyAlignmentOfElements) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText(kScale));
  alignas(16) float x[40], y[40];
  for (int shift = 0; shift < 4; ++shift) {
    for (int i = 0; i < 40; ++i) x[i] = static_cast<float>(i), y[i] = -1;
    Tensor out = ContiguousTensor(y + shift, DType::F32, {4, 8});
    ASSERT_TRUE(
        executable
            .Run({ContiguousTensor(x + 3 - shift, DType::F32, {4, 8})}, absl::MakeSpan(&out, 1))
            .ok());
    for (int i = 0; i < 32; ++i) ASSERT_EQ(y[shift + i], 2 * x[3 - shift + i]);
    EXPECT_EQ(y[shift + 32], -1) << "nothing is written behind the end";
  }
}

TEST(Executable, StridedTensors) {
  ASSERT_OK_AND_ASSIGN(
      executable,
      CompileText(
          "symbol M in [0, 100]\n symbol S in [1, 100]\n input x: f32[M, 3] strides [S, 1]\n"
          "y = x * 2.0\n output y strides [1, M]"));
  std::vector<float> x(40);
  for (int i = 0; i < 40; ++i) x[i] = static_cast<float>(i);
  Tensor in = FloatTensor(x, {4, 3});
  in.strides = {10, 1};
  Tensor out;
  ASSERT_TRUE(executable.Run({in}, absl::MakeSpan(&out, 1)).ok());
  EXPECT_THAT(out.strides, ElementsAre(1, 4));
  EXPECT_EQ(static_cast<float*>(out.data)[2 * 4 + 3], 64);  // Of [3, 2].
  executable.allocator().Free(out.allocation, nullptr);
}

// A buffer's columns may be several tensors; an output shares no element with another tensor.
TEST(Executable, ColumnsOfOneBuffer) {
  for (const BackendKind backend : {BackendKind::kSimulator, BackendKind::kReference}) {
    ASSERT_OK_AND_ASSIGN(executable,
                         CompileText("symbol M in [0, 100]\n input x: f32[M, 8] strides [24, 1]\n"
                                     "p = x + 1.0\n q = flip(x, axes=[0]) * 2.0\n"
                                     "output p strides [24, 1]\n output q strides [24, 1]",
                                     backend));
    const auto columns = [](float* data) { return Tensor{data, DType::F32, {4, 8}, {24, 1}}; };
    std::vector<float> buffer(200), other(200);
    const auto run = [&](float* p, float* q) {
      std::fill(buffer.begin(), buffer.end(), -1.0f);
      for (int i = 0; i < 32; ++i) buffer[i / 8 * 24 + i % 8] = static_cast<float>(i);
      std::vector<Tensor> out = {columns(p), columns(q)};
      return std::string(executable.Run({columns(buffer.data())}, absl::MakeSpan(out)).message());
    };
    float* const b = buffer.data();
    EXPECT_EQ(run(b + 8, b + 16), "");
    for (int i = 0; i < 32; ++i) {
      const int row = i / 8, column = i % 8;
      ASSERT_EQ(b[row * 24 + column], i);
      ASSERT_EQ(b[row * 24 + 8 + column], i + 1);
      ASSERT_EQ(b[row * 24 + 16 + column], 2 * ((3 - row) * 8 + column));
    }
    EXPECT_EQ(b[4 * 24], -1);
    EXPECT_EQ(run(other.data(), b + 13), "");  // Its last columns lie before the next row's.
    EXPECT_EQ(run(other.data(), other.data() + 8), "");
    EXPECT_THAT(run(other.data(), other.data()), HasSubstr("output q and output p share memory"));
    EXPECT_THAT(run(other.data(), other.data() + 7), HasSubstr("share memory"));
    EXPECT_THAT(run(other.data() + 24, other.data() + 17), HasSubstr("share memory"));
    EXPECT_THAT(run(other.data(), b), HasSubstr("output q and input x share memory"));
    EXPECT_THAT(run(b + 4, other.data()), HasSubstr("output p and input x share memory"));
  }
}

TEST(Executable, ElementsOfAnOutputShareNoPlace) {
  ASSERT_OK_AND_ASSIGN(
      executable, CompileText("symbol M in [0, 100]\n symbol N in [0, 100]\n symbol S in [0, 100]\n"
                              "input x: f32[M, N]\n y = exp(x)\n output y strides [S, 1]"));
  const auto messages = [&](int64_t m, int64_t s) {
    std::vector<std::string> found;
    const auto add = [&](const absl::Status& status) {
      found.push_back(std::string(status.message()));
    };
    const Symbols symbols = {{"S", s}};
    RunOptions options;
    options.symbols = symbols;
    std::vector<HostTensor> inputs = {*HostTensor::Make(DType::F32, {m, 5})};
    std::vector<float> y(1000);
    std::vector<Tensor> out(2);
    out[0] = {y.data(), DType::F32, {m, 5}, {s, 1}};
    for (int i = 0; i < 2; ++i)
      add(executable.Run({ViewOf(inputs[0])}, absl::MakeSpan(&out[i], 1), options));
    executable.allocator().Free(out[1].allocation, nullptr);
    add(executable.InferOutputs({ViewOf(inputs[0])}, options).status());
    add(executable.RunOnHost(inputs, symbols).status());
    add(executable.CompileFor({{"M", m}, {"N", 5}, {"S", s}}).status());
    add(Interpret(executable.fusion(), {{"S", s}}, inputs).status());
    return found;
  };
  for (const int64_t s : {5, 7}) EXPECT_THAT(messages(3, s), Each(""));
  for (const int64_t s : {0, 1, 4}) EXPECT_THAT(messages(3, s), Each(HasSubstr("output y")));
  for (const int64_t s : {0, 1, 4}) EXPECT_THAT(messages(3, s), Each(HasSubstr("overlap")));
  for (const int64_t m : {0, 1}) EXPECT_THAT(messages(m, 4), Each("")) << m;
}

TEST(Executable, ViewsOfInputs) {
  ASSERT_OK_AND_ASSIGN(
      executable,
      CompileText("symbol M in [1, 100]\n symbol N in [3, 100]\n input x: f32[M, N]\n"
                  "y = permute(x, axes=[1, 0])\n z = x[:, 1:3]\n output y\n output z\n output x"));
  std::vector<float> x = {0, 1, 2, 3, 10, 11, 12, 13};
  std::vector<Tensor> out(3);
  ASSERT_TRUE(executable.Run({FloatTensor(x, {2, 4})}, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out[0].data, x.data());
  EXPECT_THAT(out[0].sizes, ElementsAre(4, 2));
  EXPECT_THAT(out[0].strides, ElementsAre(1, 4));
  EXPECT_EQ(out[1].data, x.data() + 1);
  EXPECT_THAT(out[1].strides, ElementsAre(4, 1));
  EXPECT_EQ(out[2].data, x.data());
  for (const Tensor& tensor : out) EXPECT_EQ(tensor.allocation, nullptr);
  EXPECT_EQ(executable.statistics().kernels, 0);

  // Memory that the caller brings is filled.
  std::vector<float> y(8), z(4), copy(8);
  out = {FloatTensor(y, {4, 2}), FloatTensor(z, {2, 2}), FloatTensor(copy, {2, 4})};
  ASSERT_TRUE(executable.Run({FloatTensor(x, {2, 4})}, absl::MakeSpan(out)).ok());
  EXPECT_THAT(y, ElementsAre(0, 10, 1, 11, 2, 12, 3, 13));
  EXPECT_THAT(z, ElementsAre(1, 2, 11, 12));
  EXPECT_EQ(copy, x);
}

TEST(Executable, ViewsOfResults) {
  ASSERT_OK_AND_ASSIGN(
      executable,
      CompileText("symbol M in [1, 100]\n input x: f32[M, 4]\n e = segment_set(exp(x))\n"
                  "y = flip(e, axes=[1])\n w = y + 1.0\n output e\n output y\n output w"));
  EXPECT_TRUE(RunAndCheck(executable, {{"M", 3}}).ok());
  ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable, {{"M", 3}}));
  std::vector<Tensor> out(3);
  ASSERT_TRUE(executable.Run({ViewOf(inputs[0])}, absl::MakeSpan(out)).ok());
  ASSERT_OK_AND_ASSIGN(expected, Interpret(executable.fusion(), {}, inputs));
  for (int j = 0; j < 3; ++j) {
    std::vector<float> values(12);
    ASSERT_TRUE(CopyElements(out[j], FloatTensor(values, {3, 4})).ok());
    for (int i = 0; i < 12; ++i) EXPECT_NEAR(values[i], expected[j].at({i / 4, i % 4}).f, 1e-5);
  }
  for (const Tensor& tensor : out) executable.allocator().Free(tensor.allocation, nullptr);
}

// --- Errors ---

TEST(Executable, TensorsThatDoNotFit) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText(kScale));
  std::vector<float> x(100), y(100);
  const auto run = [&](const Tensor& in, Tensor out) {
    return std::string(executable.Run({in}, absl::MakeSpan(&out, 1)).message());
  };
  const Tensor in = FloatTensor(x, {4, 5});
  EXPECT_THAT(run(in, FloatTensor(y, {5, 4})),
              HasSubstr("output y, axis 0: found 5, expected M = 4"));
  EXPECT_THAT(run(in, ContiguousTensor(y.data(), DType::F16, {4, 5})),
              HasSubstr("output y: found f16"));
  EXPECT_THAT(run(ContiguousTensor(nullptr, DType::F32, {4, 5}), FloatTensor(y, {4, 5})),
              HasSubstr("input x: found a null pointer"));
  EXPECT_THAT(
      run(ContiguousTensor(reinterpret_cast<char*>(x.data()) + 2, DType::F32, {4, 5}),
          FloatTensor(y, {4, 5})),
      HasSubstr("input x: found an address that is a multiple of 2 bytes, expected one of 4"));
  EXPECT_THAT(run(in, ContiguousTensor(x.data() + 19, DType::F32, {4, 5})),
              HasSubstr("share memory"));
  EXPECT_EQ(run(in, ContiguousTensor(x.data() + 20, DType::F32, {4, 5})), "");
  EXPECT_THAT(std::string(executable.Run({}, {}).message()),
              HasSubstr("found 0 inputs and 0 outputs, expected 1 and 1"));
  Tensor strided = FloatTensor(y, {4, 5});
  strided.strides = {6, 1};
  EXPECT_THAT(run(in, strided), HasSubstr("output y, axis 0: found the stride 6, expected"));
  EXPECT_THAT(run(FloatTensor(x, {101, 0}), FloatTensor(y, {101, 0})),
              HasSubstr("symbol M is 101, expected a value in [0, 100]"));
}

TEST(Executable, ExtentsBeyond64Bits) {
  ASSERT_OK_AND_ASSIGN(
      executable,
      CompileText("symbol M in [1, 100]\n input x: f32[M]\n"
                  "y = exp(x[:(M * 4611686018427387904) // 9223372036854775807])\n output y"));
  std::vector<float> x(8);
  Tensor out;
  const absl::Status status = executable.Run({FloatTensor(x, {8})}, absl::MakeSpan(&out, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("overflow"));
}

// Which no sum of a step and an extent may overflow.
TEST(Executable, TheLargestStepTakesTheFirstElement) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText("symbol M in [0, 100]\n input x: f32[M]\n"
                                               "y = x[::9223372036854775807] + 1.0\n output y"));
  std::vector<float> x = {3, 4, 5, 6}, y(1);
  Tensor out = FloatTensor(y, {1});
  const absl::Status status = executable.Run({FloatTensor(x, {4})}, absl::MakeSpan(&out, 1));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(y[0], 4);
}

TEST(Executable, WhatTheAllocatorRefusesIsReported) {
  class Refusing : public DeviceAllocator {
   public:
    absl::StatusOr<void*> Allocate(size_t bytes, StreamHandle) override {
      return absl::ResourceExhaustedError(absl::StrCat("not one of these ", bytes, " bytes"));
    }
    void Free(void* pointer, StreamHandle) override { EXPECT_EQ(pointer, nullptr); }
  } refusing;
  absl::StatusOr<Fusion> fusion = ParseFusion(absl::StrCat("fusion f {\n", kScale, "\n}"));
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  options.allocator = &refusing;
  ASSERT_OK_AND_ASSIGN(executable, Compile(*std::move(fusion), options));
  std::vector<float> x(6);
  Tensor out;
  const absl::Status status = executable.Run({FloatTensor(x, {2, 3})}, absl::MakeSpan(&out, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("24 bytes"));
  EXPECT_EQ(out.data, nullptr);
}

// Calls of more sizes than are kept: the oldest are dropped and worked out again when they come
// back, those that were made since are not.
TEST(Executable, DropsTheOldestCalls) {
  constexpr int64_t kSizes = 4200;
  ASSERT_OK_AND_ASSIGN(executable,
                       CompileText("symbol N in [1, 5000]\n input x: f32[N]\n y = x + 1.0\n"
                                   "output y"));
  std::vector<float> x(kSizes, 1.0f), y(kSizes);
  const auto run = [&](int64_t n) {
    Tensor out = FloatTensor(y, {n});
    return executable.Run({FloatTensor(x, {n})}, absl::MakeSpan(&out, 1));
  };
  for (int64_t n = 1; n <= kSizes; ++n) {
    ASSERT_TRUE(run(n).ok()) << n;
    if (n % 100 == 0) {
      ASSERT_TRUE(run(7).ok());
    }
  }
  const auto prepared = [&] { return executable.statistics().prepared; };
  EXPECT_LE(prepared(), 4096);
  EXPECT_GT(prepared(), 3000);
  const int64_t before = prepared();
  for (const int64_t n : {int64_t{7}, kSizes}) EXPECT_TRUE(run(n).ok());
  EXPECT_EQ(prepared(), before);
  EXPECT_TRUE(run(1).ok());
  EXPECT_EQ(prepared(), before + 1);
  EXPECT_EQ(y[0], 2.0f);
}

// What the simulator remembers of what it has written does not fit, nothing else does either.
TEST(Executable, WithoutMemoryThereIsAnError) {
  if (testing::kPart > 1) GTEST_SKIP() << "sanitizers end the process";
  constexpr int64_t kElements = int64_t{1} << 39;
  void* const memory =
      mmap(nullptr, 2 * kElements, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no such addresses";
  ASSERT_OK_AND_ASSIGN(executable, CompileText("symbol N in [0, 1099511627776]\n input x: u8[N]\n"
                                               "y = x + cast(1, dtype=u8)\n output y"));
  Tensor out = ContiguousTensor(static_cast<char*>(memory) + kElements, DType::U8, {kElements});
  const absl::Status status =
      executable.Run({ContiguousTensor(memory, DType::U8, {kElements})}, absl::MakeSpan(&out, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  munmap(memory, 2 * kElements);
}

// An input whose elements lie on each other can be returned, but not copied to such a tensor.
TEST(Executable, AnOverlappingInputIsReturnedAsAView) {
  const std::string text =
      "symbol M\n symbol N\n input x: f32[M, N] strides [0, 1]\n y = x + x\n output x\n output y";
  ASSERT_OK_AND_ASSIGN(executable, CompileText(text));
  std::vector<float> x = {1, 2, 3, 4, 5}, copy(5);
  const Tensor in{x.data(), DType::F32, {3, 5}, {0, 1}};
  std::vector<Tensor> out(2);
  const absl::Status status = executable.Run({in}, absl::MakeSpan(out));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].data, x.data());
  executable.allocator().Free(out[1].allocation, nullptr);
  out.assign(2, Tensor());
  out[0] = {copy.data(), DType::F32, {3, 5}, {0, 1}};
  EXPECT_THAT(executable.Run({in}, absl::MakeSpan(out)).ToString(),
              HasSubstr("output x, f32[3, 5]"));
  for (const BackendKind backend : {BackendKind::kSimulator, BackendKind::kReference}) {
    ASSERT_OK_AND_ASSIGN(again, CompileText(text, backend));
    const absl::Status on_host = RunAndCheck(again, {{"M", 3}, {"N", 5}});
    EXPECT_TRUE(on_host.ok()) << on_host;
  }
}

// What is no tensor is an error also where a call was prepared that has the same numbers in the
// same order: strides of an axis of one element may be any.
TEST(Executable, MalformedTensorsAreOtherCalls) {
  ASSERT_OK_AND_ASSIGN(executable,
                       CompileText("symbol A\n symbol B\n symbol S\n input x: f32[A, B] strides "
                                   "[S, 1]\n input w: f32[B]\n y = x * w\n output y"));
  alignas(16) float x[8] = {}, w[8] = {}, y[8] = {};
  Tensor out = ContiguousTensor(y, DType::F32, {1, 5});
  const auto run = [&](const Int64Vector& strides, const Int64Vector& sizes_of_w,
                       const Int64Vector& strides_of_w) {
    return executable
        .Run({{x, DType::F32, {1, 5}, strides}, {w, DType::F32, sizes_of_w, strides_of_w}},
             absl::MakeSpan(&out, 1))
        .ok();
  };
  for (const int64_t flags : {0, 1 << 25}) {  // As numbers of strides may be told apart or not.
    const int64_t of_x = int64_t{16} << 32 | flags | int64_t{1} << 16 | 4;
    const int64_t of_w = int64_t{16} << 32 | flags | int64_t{1} << 16 | 1;
    EXPECT_TRUE(run({of_x, 1}, {5}, {1}));
    EXPECT_FALSE(run({}, {1, of_w, 5, 1}, {}));
  }
}

// A failed call leaves the caller's tensors as they were, and another one may follow.
TEST(Executable, AFailedRunChangesNoTensor) {
  class Failing : public DeviceAllocator {
   public:
    absl::StatusOr<void*> Allocate(size_t bytes, StreamHandle) override {
      if (left-- == 0) return absl::ResourceExhaustedError("no memory left");
      memory.push_back(std::make_unique<std::max_align_t[]>(bytes));
      return memory.back().get();
    }
    void Free(void* pointer, StreamHandle) override { freed.push_back(pointer); }
    int left = 0;
    std::vector<std::unique_ptr<std::max_align_t[]>> memory;
    std::vector<void*> freed;
  } allocator;
  absl::StatusOr<Fusion> fusion = ParseFusion(
      "fusion f {\n symbol M in [0, 100]\n input x: f32[M]\n y = exp(x)\n"
      "z = log(segment_set(y))\n w = reshape(x, sizes=[M, 1])\n"
      "output y\n output w\n output z\n}");
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  options.allocator = &allocator;
  ASSERT_OK_AND_ASSIGN(executable, Compile(*std::move(fusion), options));
  std::vector<float> x(40);
  int not_ours = 0;
  std::vector<Tensor> out(3);
  out[2].allocation = &not_ours;
  for (const int left : {0, 1}) {
    allocator.left = left;
    EXPECT_EQ(executable.Run({FloatTensor(x, {40})}, absl::MakeSpan(out)).code(),
              absl::StatusCode::kResourceExhausted);
    for (const Tensor& tensor : out) {
      EXPECT_EQ(tensor.data, nullptr);
      EXPECT_EQ(tensor.rank(), 0);
    }
    EXPECT_EQ(out[2].allocation, &not_ours);
  }
  for (void* pointer : allocator.freed) EXPECT_NE(pointer, &not_ours);
  allocator.left = 2;
  EXPECT_TRUE(executable.Run({FloatTensor(x, {40})}, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out[1].data, x.data());
}

// --- Threads ---

TEST(Executable, ManyThreadsManySizes) {
  ASSERT_OK_AND_ASSIGN(
      executable,
      CompileText("symbol M in [1, 100]\n symbol N in [1, 100]\n input x: f32[M, N]\n"
                  "y = x - sum(x, axes=[1], keepdims=true)\n z = y * sum(y)\n output z"));
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const Symbols symbols = {{"M", 1 + (t + i) % 4}, {"N", 5}};
        const absl::StatusOr<std::vector<HostTensor>> inputs = RandomInputs(executable, symbols);
        const auto outputs = executable.RunOnHost(*inputs);
        const auto expected = Interpret(executable.fusion(), {}, *inputs);
        if (!outputs.ok() || !expected.ok() ||
            CompareTensors((*expected)[0], (*outputs)[0])->max_absolute > 1e-4)
          ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(executable.statistics().prepared, 4);
}

TEST(RunOnHost, ArgumentsThatDoNotFit) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText(kScale));
  const HostTensor whole = *HostTensor::Make(DType::F32, {4, 5});
  const auto run = [&](const HostTensor& x, int64_t offset = 0) {
    HostPlacement placement;
    placement.offset = offset;
    return std::string(executable.RunOnHost({x}, {}, placement).status().message());
  };
  EXPECT_EQ(run(whole), "");
  HostTensor x = whole;
  x.data.resize(79);
  EXPECT_EQ(run(x), "input x: found 79 bytes of data, expected 80 for f32[4, 5]");
  EXPECT_EQ(std::string(Interpret(executable.fusion(), {}, {x}).status().message()), run(x));
  x = whole;
  x.strides = {5};
  EXPECT_THAT(run(x), HasSubstr("input x: found 2 sizes and 1 strides"));
  x = whole;
  x.dtype = static_cast<DType>(99);
  EXPECT_THAT(run(x), HasSubstr("input x: found no dtype, expected f32[M, N]"));
  EXPECT_THAT(run(whole, -1), HasSubstr("offset: found -1, expected 0 to"));
  EXPECT_THAT(run(whole, INT64_MAX / 2), HasSubstr("offset: found"));
}

TEST(RunOnHost, PutsTensorsWhereTold) {
  for (BackendKind backend : {BackendKind::kReference, BackendKind::kSimulator}) {
    ASSERT_OK_AND_ASSIGN(executable, CompileText("input x: u8[2, 8]\ny = x + 1\n"
                                                 "output y strides [12, 1]",
                                                 backend));
    ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable, {}));
    HostPlacement placement;
    placement.fill = 0xa5;
    ASSERT_OK_AND_ASSIGN(aligned, executable.RunOnHost(inputs, {}, placement));
    const int64_t variants = executable.statistics().variants;
    placement.offset = 1;
    ASSERT_OK_AND_ASSIGN(offset, executable.RunOnHost(inputs, {}, placement));
    EXPECT_EQ(aligned[0].data, offset[0].data);
    // Between the rows is what was there before.
    EXPECT_EQ(offset[0].data[8], std::byte{0xa5});
    EXPECT_NE(aligned[0].data[0], inputs[0].data[0]);
    // An unaligned tensor gets another schedule.
    if (backend == BackendKind::kSimulator) {
      EXPECT_GT(executable.statistics().variants, variants);
    }
  }
}

}  // namespace
}  // namespace seam
