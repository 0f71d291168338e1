// Compile: what it refuses, what size hints do, what the reports say; machine code where NVRTC is
// at hand.
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/text/parser.h"
#include "runtime/cuda/cubin_cache.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/executable.h"

namespace seam {
namespace {

using ::testing::HasSubstr;

constexpr char kSoftmax[] =
    "symbol M in [1, 100000]\n symbol N in [1, 100000]\n input x: f32[M, N]\n"
    "e = exp(x - amax(x, axes=[1], keepdims=true))\n y = e / sum(e, axes=[1], keepdims=true)\n "
    "output y";

Fusion Parse(const std::string& body) {
  absl::StatusOr<Fusion> fusion = ParseFusion("fusion f {\n" + body + "\n}");
  EXPECT_TRUE(fusion.ok()) << fusion.status();
  return *std::move(fusion);
}

CompileOptions MachineCode() {
  CompileOptions options;
  options.backend = BackendKind::kCuda;
  options.device = "sm_90a";
  options.load = false;
  options.use_cache = false;
  return options;
}

TEST(Compile, HintsAreChecked) {
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  options.size_hints = {{"Q", 4}};
  EXPECT_THAT(std::string(Compile(Parse(kSoftmax), options).status().message()),
              HasSubstr("no symbol Q"));
  options.size_hints = {{"M", 0}};
  EXPECT_THAT(std::string(Compile(Parse(kSoftmax), options).status().message()),
              HasSubstr("expected a value in [1, 100000]"));
  options.size_hints = {{"M", 3}, {"M", 4}};
  EXPECT_THAT(std::string(Compile(Parse(kSoftmax), options).status().message()),
              HasSubstr("symbol M is given twice, as 3 and 4"));
}

TEST(Compile, OptionsThatDoNotExist) {
  const auto message = [](auto change) {
    CompileOptions options;
    options.backend = BackendKind::kSimulator;
    change(options);
    return std::string(Compile(Parse(kSoftmax), options).status().message());
  };
  EXPECT_THAT(message([](CompileOptions& o) { o.backend = static_cast<BackendKind>(9); }),
              HasSubstr("CompileOptions::backend: found 9"));
  EXPECT_THAT(message([](CompileOptions& o) { o.threads = -5; }),
              HasSubstr("CompileOptions::threads: found -5, expected 0 or more"));
  EXPECT_THAT(message([](CompileOptions& o) { o.ordinal = -1; }),
              HasSubstr("CompileOptions::ordinal: found -1, expected 0 or more"));
}

TEST(Compile, CompleteHintsCompileAtOnce) {
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  options.size_hints = {{"M", 4}};
  auto partial = Compile(Parse(kSoftmax), options);
  ASSERT_TRUE(partial.ok()) << partial.status();
  EXPECT_EQ(partial->statistics().kernels, 0);
  options.size_hints.push_back({"N", 8});
  auto complete = Compile(Parse(kSoftmax), options);
  ASSERT_TRUE(complete.ok()) << complete.status();
  EXPECT_EQ(complete->statistics().kernels, 1);
  EXPECT_THAT(std::string(complete->CompileFor({{"M", 4}}).status().message()),
              HasSubstr("no value of the symbol N"));
}

TEST(Compile, ReportsSayWhatRuns) {
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  options.device = "a100";
  auto executable = Compile(Parse(kSoftmax), options);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ(std::string(executable->device().name), "a100");
  const auto reports = executable->CompileFor({{"M", 64}, {"N", 512}});
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_EQ(reports->size(), 1u);
  const GroupReport& group = reports->front();
  EXPECT_EQ(group.scheduler, SchedulerKind::kReduction);
  EXPECT_THAT(group.schedule, HasSubstr("reduction"));
  EXPECT_FALSE(group.guards.empty());
  EXPECT_TRUE(ParseFusion(group.text).ok());
  ASSERT_EQ(group.kernels.size(), 1u);
  EXPECT_THAT(group.kernels[0].kernel_text, HasSubstr(group.kernels[0].name));
  EXPECT_GE(group.kernels[0].threads, 32);
}

TEST(Compile, DevicesMustBeKnown) {
  CompileOptions options = MachineCode();
  options.device = "sm_1";
  EXPECT_EQ(Compile(Parse(kSoftmax), options).status().code(), absl::StatusCode::kNotFound);
  options.device.clear();
  EXPECT_EQ(Compile(Parse(kSoftmax), options).status().code(), absl::StatusCode::kInvalidArgument);
  options.backend = BackendKind::kSimulator;
  options.device = "h300";
  EXPECT_THAT(std::string(Compile(Parse(kSoftmax), options).status().message()),
              HasSubstr("known: h200"));
}

TEST(Compile, TheCutMayBeGiven) {
  const std::string body = "input x: f32[8]\n a = exp(x)\n b = sin(a)\n output b";
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  const auto kernels = [&](const std::string& segmentation) -> absl::StatusOr<size_t> {
    options.segmentation = segmentation;
    absl::StatusOr<Executable> executable = Compile(Parse(body), options);
    if (!executable.ok()) return executable.status();
    HostTensor x = *HostTensor::Make(DType::F32, {8});
    FillRandom(x, 1);
    if (auto outputs = executable->RunOnHost({x}); !outputs.ok()) return outputs.status();
    return executable->CompileFor({})->size();
  };
  const std::string a = R"({"scheduler": "pointwise", "exprs": ["a"]})";
  const std::string b = R"({"scheduler": "pointwise", "exprs": ["b"]})";
  EXPECT_EQ(*kernels(""), 1u);
  EXPECT_EQ(*kernels("{\"fusion\": \"f\", \"groups\": [" + a + ", " + b + "]}"), 2u);
  const absl::Status cycle =
      kernels("{\"fusion\": \"f\", \"groups\": [" + b + ", " + a + "]}").status();
  EXPECT_EQ(cycle.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cycle.message()), HasSubstr("comes later"));
  EXPECT_THAT(std::string(kernels("{\"fusion\": \"f\", \"groups\": [{\"scheduler\": "
                                  "\"reduction\", \"exprs\": [\"a\", \"b\"]}]}")
                              .status()
                              .message()),
              HasSubstr("group 0 is no plan of the scheduler reduction"));
}

// Over the graph a computed table connects nobody; alone it is an input that all islands share, and
// together they are too much for one island.
TEST(Compile, IslandsThatAreOneAloneRunAllTheSame) {
  std::string body = "input lr: f32[]\n t = exp(iota(sizes=[64], axes=[0], dtype=f32) * 0.001)\n";
  for (int i = 0; i < 50; ++i) {
    absl::StrAppend(&body, "input p", i, ": f32[64]\n input g", i, ": f32[64]\n");
    absl::StrAppend(&body, "y", i, " = p", i, " - g", i, " * t * lr\n output y", i, "\n");
  }
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  const auto executable = Compile(Parse(body), options);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_TRUE(executable->CompileFor({}).ok());
}

// A flip and a cat read values in other orders than who else reads them, so that one kernel of all
// would compute `a` eight times over, at four times as many points. The group of `y` begins with
// its own copy of `c`, which it alone reads; when the two groups meet, so do their readers.
TEST(Compile, ReadersOfCopiesThatMeetCountTogether) {
  const std::string body =
      "input x: f32[320000, 4, 4]\n a = exp(x)\n b = a / flip(a, axes=[0])\n"
      "c = reshape(b, sizes=[1280000, 4])\n d = exp(c)\n e = tanh(d)\n g = sin(e)\n"
      "y = cat(c, d, e, g, axes=[1])\n output y";
  CompileOptions options;
  options.backend = BackendKind::kSimulator;
  const auto executable = Compile(Parse(body), options);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ(executable->CompileFor({})->size(), 2u);
}

class MachineCodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto nvrtc = cuda::Nvrtc::Get(); !nvrtc.ok()) GTEST_SKIP() << nvrtc.status();
  }
};

// Many tensors, or much text: what a thread has in hand at once must fit its registers.
std::string ManyInputs(int n, const std::string& dtype, const std::string& shape) {
  std::string body;
  for (int i = 0; i < n; ++i) absl::StrAppend(&body, "input x", i, ": ", dtype, shape, "\n");
  absl::StrAppend(&body, "s0 = cast(x0, dtype=f32)\n");
  for (int i = 1; i < n; ++i) {
    absl::StrAppend(&body, "s", i, " = s", i - 1, " + cast(x", i, ", dtype=f32) * cast(x", n - i,
                    ", dtype=f32)\n");
  }
  return absl::StrCat(body, "total = s", n - 1, "\n");
}

TEST_F(MachineCodeTest, WideKernelsDoNotSpill) {
  const std::string normalized = "m = mean(total, axes=[1])\n y = total - m[:, None]\n output y\n";
  std::string sines = "input x: bf16[1048576]\n xf = cast(x, dtype=f32)\n";
  for (int i = 0; i < 16; ++i)
    absl::StrAppend(&sines, "s", i, " = sin(xf + ", i, ".0)\n output s", i, "\n");
  const std::vector<std::string> bodies = {
      ManyInputs(100, "f32", "[1048576]") + "output total",
      ManyInputs(40, "bf16", "[1048576]") + "output total",
      ManyInputs(8, "bf16", "[4096, 8192]") + normalized,
      ManyInputs(12, "f32", "[4096, 4096]") + normalized,
      ManyInputs(32, "f32", "[4096, 1000]") + normalized,
      sines,
  };
  for (const std::string& body : bodies) {
    auto executable = Compile(Parse(body), MachineCode());
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto reports = executable->CompileFor({});
    ASSERT_TRUE(reports.ok()) << reports.status();
    ASSERT_EQ(reports->size(), 1u);
    for (const KernelReport& kernel : reports->front().kernels) {
      EXPECT_EQ(kernel.spill_store_bytes, 0) << reports->front().schedule << "\n" << body;
    }
  }
}

// Rows that keep what they compute, make random numbers, or unpack two inputs.
TEST_F(MachineCodeTest, RowsKeptInRegistersDoNotSpill) {
  const std::string dropout =
      " input r: bf16[M, N]\n input w: f32[N]\n input b: f32[N]\n input seed: i64[]\n"
      " keep = random_uniform(seed, seed, sizes=[M, N], dtype=f32) >= 0.1\n"
      " s = cast(r, dtype=f32) + where(keep, cast(x, dtype=f32) / 0.9, 0.0)\n"
      " n, mean, rstd = layer_norm(s, w, b, axes=[1], eps=1e-5)\n"
      " y = cast(n, dtype=bf16)\n sum_out = cast(s, dtype=bf16)\n output y\n output sum_out\n";
  const std::string backward =
      " input g: bf16[M, N]\n y = softmax_backward(g, x, axis=1)\n output y\n";
  const std::pair<std::string, int> cases[] = {
      {dropout, 4096}, {" y = softmax(x, axis=1)\n output y\n", 4099}, {backward, 12288}};
  for (const auto& [body, columns] : cases) {
    auto executable =
        Compile(Parse(" symbol M\n symbol N\n input x: bf16[M, N]\n" + body), MachineCode());
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto reports = executable->CompileFor({{"M", 65536}, {"N", columns}});
    ASSERT_TRUE(reports.ok()) << reports.status();
    ASSERT_EQ(reports->size(), 1u);
    for (const KernelReport& kernel : reports->front().kernels) {
      EXPECT_EQ(kernel.spill_store_bytes, 0) << reports->front().schedule << "\n" << body;
    }
  }
}

// The heuristic asks for more CTAs an SM than these have the registers for, by NVRTC 13.0.
TEST_F(MachineCodeTest, WhatSpillsHasFewerCtas) {
  for (const auto& [dtype, channels, side] :
       {std::tuple("bf16", 128, 9), std::tuple("f16", 256, 9), std::tuple("f32", 256, 33)}) {
    const std::string image = absl::StrCat(dtype, "[N, 32*K, S, S]");
    auto executable = Compile(
        Parse(absl::StrCat(" symbol N\n symbol K in [1, 64]\n symbol S\n input g: ", image,
                           "\n input x: ", image, "\n input mean: f32[N, 32]\n",
                           " input rstd: f32[N, 32]\n input w: f32[32*K]\n",
                           " dx, dw, db = group_norm_backward(g, x, mean, rstd, w, groups=32)\n",
                           " output dx\n output dw\n output db\n")),
        MachineCode());
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto reports = executable->CompileFor({{"N", 128}, {"K", channels / 32}, {"S", side}});
    ASSERT_TRUE(reports.ok()) << reports.status();
    for (const KernelReport& kernel : reports->front().kernels) {
      EXPECT_EQ(kernel.spill_store_bytes + kernel.spill_load_bytes, 0)
          << reports->front().schedule << ": " << reports->front().origin;
    }
  }
}

TEST_F(MachineCodeTest, IsMadeWithoutAGpuAndCannotRun) {
  auto executable = Compile(Parse(kSoftmax), MachineCode());
  ASSERT_TRUE(executable.ok()) << executable.status();
  const auto reports = executable->CompileFor({{"M", 64}, {"N", 512}});
  ASSERT_TRUE(reports.ok()) << reports.status();
  const KernelReport& kernel = reports->front().kernels.front();
  EXPECT_THAT(kernel.cuda_text, HasSubstr("__global__"));
  EXPECT_EQ(kernel.cubin.substr(1, 3), "ELF");
  EXPECT_EQ(kernel.entry, kernel.name);
  EXPECT_GT(kernel.registers, 0);
  EXPECT_GT(kernel.compile_ms, 0);

  std::vector<float> x(64 * 512), y(64 * 512);
  Tensor out = ContiguousTensor(y.data(), DType::F32, {64, 512});
  const absl::Status run =
      executable->Run({ContiguousTensor(x.data(), DType::F32, {64, 512})}, absl::MakeSpan(&out, 1));
  EXPECT_EQ(run.code(), absl::StatusCode::kFailedPrecondition) << run;
  EXPECT_THAT(std::string(run.message()), HasSubstr("not loaded"));
}

// How many threads compile, and in what order they end, shows nowhere.
TEST_F(MachineCodeTest, ThreadsChangeNoKernel) {
  std::string body = "symbol M in [1, 100000]\n input x0: f32[M, 64]\n";
  for (int i = 0; i < 6; ++i) {
    absl::StrAppend(&body, "y", i, " = ", i % 2 == 0 ? "exp" : "sin", "(x", i, ") + sum(x", i,
                    ", axes=[1])[:, None]\n x", i + 1, " = segment_set(y", i, ")\n");
  }
  std::vector<std::string> all;
  for (const int threads : {1, 2, 8, 8}) {
    CompileOptions options = MachineCode();
    options.threads = threads;
    auto executable = Compile(Parse(body + "output x6"), options);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const auto reports = executable->CompileFor({{"M", 100}});
    ASSERT_TRUE(reports.ok()) << reports.status();
    std::string& text = all.emplace_back();
    for (const GroupReport& group : *reports) {
      absl::StrAppend(&text, group.schedule, group.text);
      for (const KernelReport& kernel : group.kernels) {
        absl::StrAppend(&text, kernel.name, kernel.entry, kernel.kernel_text, kernel.cuda_text,
                        kernel.cubin);
      }
    }
  }
  for (const std::string& text : all) EXPECT_TRUE(text == all[0]);
}

// The layers of a model are alike but for their names.
TEST_F(MachineCodeTest, KernelsThatDifferInNamesAloneAreOne) {
  std::string body = "symbol M in [1, 100000]\n input x0: f32[M, 64]\n";
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&body, "x", i + 1, " = segment_set(exp(x", i, "))\n");
  }
  int told = 0;
  CompileOptions options = MachineCode();
  options.progress = [&](int, int total) { told = total; };
  auto executable = Compile(Parse(body + "output x4"), options);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const auto reports = executable->CompileFor({{"M", 100}});
  ASSERT_TRUE(reports.ok()) << reports.status();
  std::set<std::string> names, entries;
  for (const GroupReport& group : *reports) {
    for (const KernelReport& kernel : group.kernels) {
      names.insert(kernel.name);
      entries.insert(kernel.entry);
    }
  }
  EXPECT_GE(names.size(), 4u);
  EXPECT_LT(entries.size(), names.size());
  EXPECT_EQ(executable->statistics().kernels, static_cast<int64_t>(entries.size()));
  EXPECT_EQ(told, static_cast<int>(entries.size()));
}

TEST_F(MachineCodeTest, ACacheIsSharedAndMayBeLeftOut) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/seam_compile_test_cache");
  cuda::CubinCache cache(folder, int64_t{16} << 20);
  CompileOptions options = MachineCode();
  options.use_cache = true;
  options.cache = &cache;
  const auto from_cache = [&] {
    auto executable = Compile(Parse(kSoftmax), options);
    const auto reports = executable->CompileFor({{"M", 64}, {"N", 511}});
    return reports->front().kernels.front().from_cache;
  };
  from_cache();
  EXPECT_TRUE(from_cache());
  options.use_cache = false;
  EXPECT_FALSE(from_cache());
}

}  // namespace
}  // namespace seam
