// NVRTC: what it compiles, what it reports, and how it refuses. Needs the library, no GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/cuda/nvrtc.h"

namespace seam::cuda {
namespace {

using ::testing::ExitedWithCode;

const Nvrtc& Compiler() {
  const absl::StatusOr<const Nvrtc*> nvrtc = Nvrtc::Get();
  if (!nvrtc.ok()) {
    ADD_FAILURE() << nvrtc.status();
    std::exit(1);
  }
  return **nvrtc;
}

CompileRequest Request(std::string source) {
  CompileRequest request;
  request.name = "example";
  request.source = std::move(source);
  request.arch = "sm_90a";
  request.entry = "k";
  return request;
}

constexpr char kAxpy[] =
    "extern \"C\" __global__ void k(const float* x, float* y, float a, long long n) {\n"
    "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = a * x[i] + y[i];\n"
    "}\n";

TEST(Nvrtc, KnowsItsVersionAndArchs) {
  const Nvrtc& nvrtc = Compiler();
  EXPECT_GE(std::atoi(nvrtc.version().c_str()), 12);
  EXPECT_TRUE(absl::StartsWith(nvrtc.identity(), nvrtc.version()));
  EXPECT_GT(nvrtc.identity().size(), nvrtc.version().size() + 2) << "the size of the file is in it";
  EXPECT_TRUE(absl::StrContains(nvrtc.path(), "nvrtc"));
  EXPECT_TRUE(nvrtc.CheckArch("sm_90").ok());
  EXPECT_TRUE(nvrtc.CheckArch("sm_90a").ok());
}

TEST(Nvrtc, CompilesForEveryArchItLists) {
  for (const std::string& arch : Compiler().archs()) {
    CompileRequest request = Request(kAxpy);
    request.arch = arch;
    const absl::StatusOr<CompiledKernel> kernel = Compiler().Compile(request);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(kernel->cubin.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_EQ(kernel->arch, arch);
    EXPECT_EQ(kernel->entry, "k");
    EXPECT_GT(kernel->registers, 4);
    EXPECT_EQ(kernel->stack_bytes, 0);
    EXPECT_EQ(kernel->static_smem_bytes, 0);
    EXPECT_GT(kernel->compile_ms, 0);
    EXPECT_FALSE(kernel->from_cache);
  }
}

TEST(Nvrtc, RefusesUnknownArchsAndListsTheKnown) {
  for (const char* arch : {"", "sm", "sm_", "sm_9", "sm_999", "sm_90b", "sm_90aa", "sm_90af",
                           "sm_75a", "sm_90f", "compute_90", "90", " sm_90", "sm_90 "}) {
    CompileRequest request = Request(kAxpy);
    request.arch = arch;
    const absl::Status status = Compiler().Compile(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << arch;
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("\"", arch, "\""))) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "it knows sm_")) << status;
  }
}

TEST(Nvrtc, ReportsSharedMemoryOfTheEntryKernelOnly) {
  const absl::StatusOr<CompiledKernel> kernel = Compiler().Compile(
      Request("extern \"C\" __global__ void kk(float* p) {\n"
              "  __shared__ float s[256]; s[threadIdx.x] = p[threadIdx.x]; __syncthreads();\n"
              "  p[threadIdx.x] = s[255 - threadIdx.x];\n}\n"
              "extern \"C\" __global__ void k(float* p) {\n"
              "  __shared__ float s[1000]; s[threadIdx.x] = p[threadIdx.x]; __syncthreads();\n"
              "  p[threadIdx.x] = s[999 - threadIdx.x];\n}\n"
              "extern \"C\" __global__ void k_other(float* p) { *p = 1; }\n"));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->static_smem_bytes, 4000);
}

TEST(Nvrtc, ReportsSpillsUnderARegisterLimit) {
  std::string source = "extern \"C\" __global__ void k(float* p, int n) {\n  float v[96];\n";
  absl::StrAppend(&source,
                  "#pragma unroll\n  for (int i = 0; i < 96; ++i) v[i] = p[i * n];\n"
                  "  __syncthreads();\n"
                  "#pragma unroll\n  for (int i = 0; i < 96; ++i) p[i] = v[i] * v[95 - i];\n}\n");
  CompileRequest request = Request(source);
  const absl::StatusOr<CompiledKernel> free = Compiler().Compile(request);
  request.max_registers = 40;
  const absl::StatusOr<CompiledKernel> limited = Compiler().Compile(request);
  ASSERT_TRUE(free.ok()) << free.status();
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_GT(free->registers, 40);
  EXPECT_EQ(free->spill_store_bytes, 0);
  EXPECT_LE(limited->registers, 40);
  EXPECT_GT(limited->spill_store_bytes, 0);
  EXPECT_GT(limited->spill_load_bytes, 0);
  EXPECT_GT(limited->stack_bytes, 0);
}

TEST(Nvrtc, DoesNotContractUnlessAsked) {
  CompileRequest request = Request(kAxpy);
  const absl::StatusOr<CompiledKernel> plain = Compiler().Compile(request);
  request.options = {"--fmad=false"};
  const absl::StatusOr<CompiledKernel> same = Compiler().Compile(request);
  request.options = {"-fmad=true", "--std=c++20"};
  const absl::StatusOr<CompiledKernel> contracted = Compiler().Compile(request);
  ASSERT_TRUE(plain.ok() && same.ok() && contracted.ok()) << contracted.status();
  EXPECT_EQ(plain->cubin, same->cubin);
  EXPECT_NE(plain->cubin, contracted->cubin);
  EXPECT_FALSE(absl::StrContains(contracted->log, "warning")) << contracted->log;
}

TEST(Nvrtc, TheNameChangesNoBinary) {
  CompileRequest request = Request(kAxpy);
  request.options = {"-lineinfo"};
  const absl::StatusOr<CompiledKernel> one = Compiler().Compile(request);
  request.name = "another name, (with) \n everything";
  const absl::StatusOr<CompiledKernel> two = Compiler().Compile(request);
  ASSERT_TRUE(one.ok() && two.ok()) << two.status();
  EXPECT_EQ(one->cubin, two->cubin);
}

TEST(Nvrtc, ShowsTheSourceAroundErrors) {
  std::string source = "// one\n// two\nextern \"C\" __global__ void k(float* p) {\n";
  for (int i = 0; i < 5; ++i) absl::StrAppend(&source, "  *p = missing", i, ";\n");
  absl::StrAppend(&source, "}\n");
  const absl::Status status = Compiler().Compile(Request(source)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  const absl::string_view message = status.message();
  EXPECT_TRUE(absl::StrContains(message, "example for sm_90a")) << status;
  EXPECT_TRUE(absl::StrContains(message, "\"missing0\" is undefined")) << status;
  EXPECT_TRUE(absl::StrContains(message, "    2 | // two\n")) << status;
  EXPECT_TRUE(absl::StrContains(message, "  > 4 |   *p = missing0;\n")) << status;
  EXPECT_TRUE(absl::StrContains(message, "\"missing2\" is undefined")) << status;
  EXPECT_FALSE(absl::StrContains(message, "\"missing3\" is undefined")) << status;
}

TEST(Nvrtc, ShowsThePtxAroundErrorsOfTheAssembler) {
  const absl::Status status =
      Compiler()
          .Compile(Request("extern \"C\" __global__ void k(int* p) {\n"
                           "  asm volatile(\"bogus.u32 %0, 1;\" : \"=r\"(*p));\n}\n"))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "instruction: 'bogus'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "| \tbogus.u32 %r")) << status;
}

TEST(Nvrtc, RefusesWhatIsNoKernel) {
  auto code = [](const CompileRequest& request) {
    const absl::Status status = Compiler().Compile(request).status();
    EXPECT_TRUE(status.ok() || absl::StrContains(status.message(), "example")) << status;
    return status.code();
  };
  EXPECT_EQ(code(Request("")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Request("__global__ void k() {}")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Request("extern \"C\" void k() {}")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Request("extern \"C\" __global__ void k() {}\n// \\")), absl::StatusCode::kOk);
  EXPECT_EQ(code(Request("#include <no_such_file.h>")), absl::StatusCode::kInternal);
  EXPECT_EQ(code(Request("\x01 ` \"")), absl::StatusCode::kInternal);

  CompileRequest request = Request(kAxpy);
  request.source.push_back('\0');
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = Request(kAxpy);
  request.entry = "";
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request.entry = "kk";
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = Request(kAxpy);
  request.max_registers = -1;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = Request(kAxpy);
  request.options = {"--no-such-option=3"};
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request.options = {std::string("--std=c++17\0", 12)};
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
}

TEST(Nvrtc, CompilesFromManyThreads) {
  const absl::StatusOr<CompiledKernel> alone = Compiler().Compile(Request(kAxpy));
  ASSERT_TRUE(alone.ok()) << alone.status();
  std::vector<std::string> cubins(6);
  std::vector<std::thread> threads;
  for (std::string& cubin : cubins) {
    threads.emplace_back([&cubin] {
      const absl::StatusOr<CompiledKernel> kernel = Compiler().Compile(Request(kAxpy));
      cubin = kernel.ok() ? kernel->cubin : kernel.status().ToString();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& cubin : cubins) EXPECT_EQ(cubin, alone->cubin);
}

TEST(Nvrtc, OpenRefusesOtherFiles) {
  const std::string text = std::string(SEAM_SOURCE_DIR) + "/CMakeLists.txt";
  EXPECT_EQ(Nvrtc::Open("/no/such/libnvrtc.so").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Nvrtc::Open(text).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(Nvrtc::Open(text).status().message(), "ELF"));
  const absl::Status other = Nvrtc::Open("libm.so.6").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(other.message(), "nvrtcVersion")) << other;
}

// A process of its own, as the library is opened once a process.
TEST(NvrtcDeathTest, TheNamedFileIsTheOnlyOneTried) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("SEAM_NVRTC", "/no/such/libnvrtc.so", 1);
        const absl::Status status = Nvrtc::Get().status();
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        std::exit(absl::IsUnavailable(status) && absl::IsUnavailable(Nvrtc::Get().status()) ? 0
                                                                                            : 1);
      },
      ExitedWithCode(0), "SEAM_NVRTC.*/no/such/libnvrtc.so");
}

}  // namespace
}  // namespace seam::cuda
