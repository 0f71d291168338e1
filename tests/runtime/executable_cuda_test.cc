// Executables on a GPU; skipped where there is none. Results against the reference, streams,
// captures, memory.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/reference/envelope.h"
#include "ir/reference/interpreter.h"
#include "ir/text/parser.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/executable.h"
#include "runtime/random_inputs.h"

namespace seam {
namespace {

using ::testing::HasSubstr;

using Symbols = std::vector<SymbolValue>;

#define ASSERT_OK_AND_ASSIGN(lhs, expr)            \
  auto lhs##_or = (expr);                          \
  ASSERT_TRUE(lhs##_or.ok()) << lhs##_or.status(); \
  auto& lhs = *lhs##_or

class ExecutableOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto driver = cuda::Driver::Get();
    if (!driver.ok()) GTEST_SKIP() << driver.status();
    const auto nvrtc = cuda::Nvrtc::Get();
    if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
    device_ = *(*driver)->device(0);
  }

  absl::StatusOr<Executable> CompileText(const std::string& body, bool early_launch = true) const {
    absl::StatusOr<Fusion> fusion = ParseFusion("fusion f {\n" + body + "\n}");
    if (!fusion.ok()) return fusion.status();
    CompileOptions options;
    options.backend = BackendKind::kCuda;
    options.use_cache = false;
    options.early_launch = early_launch;
    return Compile(*std::move(fusion), options);
  }

  // Device memory with a host tensor's elements, `shift` elements behind an aligned address.
  Tensor Upload(const Executable& executable, const HostTensor& host, int64_t shift = 0) {
    Tensor tensor = ViewOf(const_cast<HostTensor&>(host));
    const absl::StatusOr<void*> memory =
        executable.allocator().Allocate(host.data.size() + 512, nullptr);
    EXPECT_TRUE(memory.ok()) << memory.status();
    tensor.allocation = *memory;
    tensor.data = static_cast<char*>(*memory) + shift * DTypeBytes(host.dtype);
    EXPECT_TRUE(
        device_->CopyToDevice(tensor.data, host.data.data(), host.data.size(), nullptr).ok());
    EXPECT_TRUE(device_->Synchronize(nullptr).ok());
    return tensor;
  }

  HostTensor Download(const Tensor& tensor) {
    absl::StatusOr<HostTensor> host =
        HostTensor::MakeStrided(tensor.dtype, tensor.sizes, tensor.strides);
    EXPECT_TRUE(host.ok()) << host.status();
    EXPECT_TRUE(
        device_->CopyToHost(host->data.data(), tensor.data, host->data.size(), nullptr).ok());
    EXPECT_TRUE(device_->Synchronize(nullptr).ok());
    return *std::move(host);
  }

  const cuda::Device* device_ = nullptr;
};

absl::StatusOr<std::vector<HostTensor>> RandomInputs(const Fusion& fusion, const Symbols& symbols,
                                                     uint64_t seed = 1) {
  const absl::StatusOr<SizeBinding> binding = BindGiven(fusion, symbols);
  if (!binding.ok()) return binding.status();
  return RandomInputs(fusion, *binding, seed);
}

absl::Status Check(const Fusion& fusion, const Symbols& symbols,
                   absl::Span<const HostTensor> inputs, absl::Span<const HostTensor> outputs) {
  SymbolBindings bindings;
  for (const SymbolValue& s : symbols) bindings.emplace(s.name, s.value);
  const absl::StatusOr<std::vector<Envelope>> envelopes = MakeEnvelopes(fusion, bindings, inputs);
  if (!envelopes.ok()) return envelopes.status();
  for (size_t j = 0; j < outputs.size(); ++j) {
    const absl::Status within = CheckWithin((*envelopes)[j], outputs[j]);
    if (!within.ok())
      return absl::InternalError(absl::StrCat("output ", j, ": ", within.message()));
  }
  return absl::OkStatus();
}

TEST_F(ExecutableOnGpu, ExamplesAgreeWithTheReference) {
  for (const char* name :
       {"adamw", "batch_norm_train", "cross_entropy", "group_norm_nhwc", "instance_norm",
        "layer_norm", "layer_norm_backward", "residual_dropout_layer_norm", "rms_norm", "rope",
        "softmax", "swiglu"}) {
    absl::StatusOr<Fusion> fusion =
        LoadFusion(absl::StrCat(SEAM_SOURCE_DIR, "/examples/", name, ".seam"));
    ASSERT_TRUE(fusion.ok()) << fusion.status();
    const int rank = static_cast<int>(fusion->env().symbols().size());
    CompileOptions options;
    options.backend = BackendKind::kCuda;
    options.use_cache = false;
    ASSERT_OK_AND_ASSIGN(executable, Compile(*std::move(fusion), options));
    for (const int64_t base : {int64_t{1}, int64_t{3}, int64_t{8},
                               int64_t{rank > 3    ? 12
                                       : rank == 3 ? 40
                                                   : 300}}) {
      Symbols symbols;
      for (const SymNode* s : executable.fusion().env().symbols()) {
        const int64_t size =
            base == 1 ? 1
                      : base + static_cast<int64_t>(symbols.size()) * (base == 3 ? 2 : base / 2);
        symbols.push_back({std::string(s->name), std::min(size, s->range.hi)});
      }
      ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable.fusion(), symbols));
      ASSERT_OK_AND_ASSIGN(outputs, executable.RunOnHost(inputs, symbols));
      const absl::Status status = Check(executable.fusion(), symbols, inputs, outputs);
      EXPECT_TRUE(status.ok()) << name << ", base size " << base << ": " << status;
    }
  }
}

// Several groups, exact in integers: a value that another call overwrote shows.
constexpr char kGroups[] =
    "symbol M in [1, 100000]\n input x: i32[M, 16]\n a = cast(x, dtype=i64) - sum(x)\n"
    "b = a * sum(abs(a))\n c = b + amax(b)\n output c";

TEST_F(ExecutableOnGpu, SizesZeroAndMisalignedPointers) {
  ASSERT_OK_AND_ASSIGN(
      executable,
      CompileText("symbol M in [0, 1000]\n symbol N in [0, 1000]\n input x: f16[M, N]\n"
                  "y = exp(x)\n s = sum(cast(x, dtype=f32), axes=[1])\n output y\n output s"));
  for (const Symbols& symbols :
       {Symbols{{"M", 0}, {"N", 5}}, Symbols{{"M", 5}, {"N", 0}}, Symbols{{"M", 5}, {"N", 64}}}) {
    ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable.fusion(), symbols));
    for (int64_t shift = 0; shift < 9; ++shift) {
      const Tensor in = Upload(executable, inputs[0], shift);
      std::vector<Tensor> out(2);
      const absl::Status run = executable.Run({in}, absl::MakeSpan(out));
      ASSERT_TRUE(run.ok()) << run;
      const absl::Status status =
          Check(executable.fusion(), symbols, inputs, {Download(out[0]), Download(out[1])});
      EXPECT_TRUE(status.ok()) << shift << ": " << status;
      for (const Tensor& tensor : {in, out[0], out[1]})
        executable.allocator().Free(tensor.allocation, nullptr);
    }
  }
}

TEST_F(ExecutableOnGpu, ThreadsWithAndWithoutStreamsOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText(kGroups));
  ASSERT_OK_AND_ASSIGN(shared, cuda::Stream::Create(device_));
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const absl::StatusOr<cuda::Stream> own = cuda::Stream::Create(device_);
      const StreamHandle stream = t % 2 == 0 ? shared.handle() : own->handle();
      for (int i = 0; i < 20; ++i) {
        const Symbols symbols = {{"M", 1 + 37 * ((t + i) % 3)}};
        const auto inputs = RandomInputs(executable.fusion(), symbols, t * 100 + i);
        const auto expected = Interpret(executable.fusion(), {}, *inputs);
        const Tensor in = Upload(executable, (*inputs)[0]);
        Tensor out;
        RunOptions options;
        options.stream = stream;
        bool good = executable.Run({in}, absl::MakeSpan(&out, 1), options).ok() &&
                    device_->Synchronize(stream).ok();
        good = good && CompareTensors((*expected)[0], Download(out))->num_different == 0;
        if (!good) ++failures;
        executable.allocator().Free(in.allocation, stream);
        executable.allocator().Free(out.allocation, stream);
      }
      (void)device_->Synchronize(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(executable.statistics().prepared, 3);
}

TEST_F(ExecutableOnGpu, CapturedCallsReplay) {
  ASSERT_OK_AND_ASSIGN(executable, CompileText(kGroups));
  const Symbols symbols = {{"M", 50}};
  ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable.fusion(), symbols));
  ASSERT_OK_AND_ASSIGN(stream, cuda::Stream::Create(device_));
  const Tensor in = Upload(executable, inputs[0]);
  ASSERT_OK_AND_ASSIGN(zeros, HostTensor::Make(DType::I64, inputs[0].shape));
  Tensor out = Upload(executable, zeros);
  RunOptions options;
  options.stream = stream.handle();

  // Nothing is prepared yet, and a capture is not the time to compile.
  ASSERT_TRUE(stream.BeginCapture().ok());
  absl::Status status = executable.Run({in}, absl::MakeSpan(&out, 1), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("run once before"));
  ASSERT_TRUE(stream.EndCapture().ok());

  ASSERT_TRUE(executable.Run({in}, absl::MakeSpan(&out, 1), options).ok());
  Tensor missing;
  ASSERT_TRUE(executable.Run({in}, absl::MakeSpan(&missing, 1), options).ok());
  executable.allocator().Free(missing.allocation, stream.handle());
  missing = Tensor();

  ASSERT_TRUE(stream.BeginCapture().ok());
  status = executable.Run({in}, absl::MakeSpan(&missing, 1), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bring its memory"));
  status = executable.Run({in}, absl::MakeSpan(&out, 1), options);
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_OK_AND_ASSIGN(graph, stream.EndCapture());
  EXPECT_GE(graph.node_count(), 3);

  // Other calls come between, and a larger one outgrows the block that the graph uses.
  const Symbols more = {{"M", 5000}};
  ASSERT_OK_AND_ASSIGN(larger, RandomInputs(executable.fusion(), more));
  const Tensor large_in = Upload(executable, larger[0]);
  Tensor large_out;
  ASSERT_TRUE(executable.Run({large_in}, absl::MakeSpan(&large_out, 1), options).ok());
  executable.ReleaseMemory();

  ASSERT_OK_AND_ASSIGN(other, RandomInputs(executable.fusion(), symbols, 99));
  ASSERT_TRUE(
      device_->CopyToDevice(in.data, other[0].data.data(), other[0].data.size(), stream.handle())
          .ok());
  ASSERT_TRUE(device_->Fill(out.data, 0, zeros.data.size(), stream.handle()).ok());
  ASSERT_TRUE(graph.Launch(stream.handle()).ok());
  ASSERT_TRUE(stream.Synchronize().ok());
  status = Check(executable.fusion(), symbols, other, {Download(out)});
  EXPECT_TRUE(status.ok()) << status;
  for (const Tensor& tensor : {in, out, large_in, large_out})
    executable.allocator().Free(tensor.allocation, nullptr);
}

class FinishesOnGpu : public ExecutableOnGpu, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(EarlyLaunch, FinishesOnGpu, ::testing::Bool());

// Partial states are finished behind a barrier of the grid or, where launches begin early, by
// another launch of the kernel: the same bits every time, in graphs, and beside other grids that
// wait for themselves.
TEST_P(FinishesOnGpu, ReductionsAcrossRows) {
  ASSERT_OK_AND_ASSIGN(executable,
                       CompileText("symbol M in [1, 100000]\n symbol N in [1, 100000]\n"
                                   "input x: f32[M, N]\n s = sum(x, axes=[1], keepdims=true)\n"
                                   "y = x * s\n c = sum(x, axes=[0])\n output y\n output c",
                                   GetParam()));
  const bool twice = GetParam() && device_->properties().compute_capability_major >= 9;
  // So short that no copies bring rows ahead, behind which a kernel of its own would finish.
  const Symbols symbols = {{"M", 3000}, {"N", 100}};
  ASSERT_OK_AND_ASSIGN(inputs, RandomInputs(executable.fusion(), symbols));
  const Tensor in = Upload(executable, inputs[0]);
  const auto zeros = [](const HostTensor& t) { return *HostTensor::Make(t.dtype, t.shape); };
  std::vector<Tensor> first(2);
  const absl::Status run = executable.Run({in}, absl::MakeSpan(first));
  ASSERT_TRUE(run.ok()) << run;
  const std::vector<HostTensor> expected = {Download(first[0]), Download(first[1])};
  const absl::Status right = Check(executable.fusion(), symbols, inputs, expected);
  EXPECT_TRUE(right.ok()) << right;

  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const absl::StatusOr<cuda::Stream> stream = cuda::Stream::Create(device_);
      std::vector<Tensor> out = {Upload(executable, zeros(expected[0])),
                                 Upload(executable, zeros(expected[1]))};
      RunOptions options;
      options.stream = stream->handle();
      bool good = true;
      for (int i = 0; i < 20; ++i) good &= executable.Run({in}, absl::MakeSpan(out), options).ok();
      good &=
          stream->BeginCapture().ok() && executable.Run({in}, absl::MakeSpan(out), options).ok();
      const absl::StatusOr<cuda::Graph> graph = stream->EndCapture();
      good &= graph.ok() && graph->node_count() == (twice ? 2 : 1);
      for (int i = 0; i < 20 && good; ++i) good &= graph->Launch(stream->handle()).ok();
      good &= stream->Synchronize().ok();
      for (size_t j = 0; j < out.size(); ++j) {
        good &= Download(out[j]).data == expected[j].data;
        executable.allocator().Free(out[j].allocation, stream->handle());
      }
      good &= stream->Synchronize().ok();
      if (!good) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (const Tensor& tensor : {in, first[0], first[1]})
    executable.allocator().Free(tensor.allocation, nullptr);
}

TEST_F(ExecutableOnGpu, LibraryCallsAreRefused) {
  // There are no symbols to wait for, so that Compile tells.
  const absl::Status status =
      CompileText("input a: f32[4, 8]\n input b: f32[8, 4]\n c = matmul(a, b)\n output c").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no GPU code yet"));
}

}  // namespace
}  // namespace seam
