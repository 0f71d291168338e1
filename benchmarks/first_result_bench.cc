// From text to the first result: how long a process takes from the text of a layer norm to its
// output, without a cache, and for a second graph with its kernels in the cache on disk.
//
//   first_result_bench
//
// Where there is no GPU, the clock stops when the machine code is there.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ir/status.h"
#include "ir/text/parser.h"
#include "runtime/cuda/cubin_cache.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/executable.h"

namespace seam {
namespace {

constexpr char kLayerNorm[] = R"(
fusion layer_norm {
  symbol M in [1, 1048576]
  symbol N in [1, 65536]
  input x: bf16[M, N]
  input gamma: f32[N]
  input beta: f32[N]
  xf = cast(x, dtype=f32)
  mean, m2, count = welford(xf, axes=[-1])
  rstd = rsqrt(m2 / count + 1e-5)
  y = (xf - mean[:, None]) * rstd[:, None] * gamma + beta
  out = cast(y, dtype=bf16)
  output out
}
)";
constexpr char kRmsNorm[] = R"(
fusion rms_norm {
  symbol M in [1, 1048576]
  symbol N in [1, 65536]
  input x: bf16[M, N]
  input weight: bf16[N]
  xf = cast(x, dtype=f32)
  y = xf * rsqrt(sum(xf * xf, axes=[1], keepdims=true) / size(sizes=[N], dtype=f32) + 1e-6) * cast(weight, dtype=f32)
  out = cast(y, dtype=bf16)
  output out
}
)";

class Clock {
 public:
  double LapMs() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Parses, compiles and, on a GPU, runs with M = 64, N = 4096, and prints what took how long.
absl::Status Time(absl::string_view what, absl::string_view text, cuda::CubinCache* cache) {
  Clock clock;
  SEAM_ASSIGN_OR_RETURN(Fusion fusion, ParseFusion(text));
  const double parse_ms = clock.LapMs();
  const bool gpu = cuda::Driver::Get().ok();
  CompileOptions options;
  options.backend = BackendKind::kCuda;
  options.load = gpu;
  if (!gpu) options.device = "h200";
  options.use_cache = cache != nullptr;
  options.cache = cache;
  SEAM_ASSIGN_OR_RETURN(const Executable executable, Compile(std::move(fusion), options));
  const double segment_ms = clock.LapMs();
  const std::vector<SymbolValue> symbols = {{"M", 64}, {"N", 4096}};
  double nvrtc_ms = 0;
  if (gpu) {
    SEAM_ASSIGN_OR_RETURN(const SizeBinding binding, BindGiven(executable.fusion(), symbols));
    std::vector<HostTensor> inputs;
    for (ValId v : executable.fusion().inputs()) {
      SEAM_ASSIGN_OR_RETURN(const Tensor type, TensorFor(executable.fusion(), v, binding));
      SEAM_ASSIGN_OR_RETURN(HostTensor input, HostTensor::Make(type.dtype, type.sizes));
      inputs.push_back(std::move(input));
    }
    SEAM_RETURN_IF_ERROR(executable.RunOnHost(inputs, symbols).status());
  } else {
    SEAM_RETURN_IF_ERROR(executable.CompileFor(symbols).status());
  }
  const double run_ms = clock.LapMs();
  SEAM_ASSIGN_OR_RETURN(const std::vector<GroupReport> groups, executable.CompileFor(symbols));
  bool from_cache = true;
  for (const GroupReport& group : groups) {
    for (const KernelReport& kernel : group.kernels) {
      from_cache &= kernel.from_cache;
      if (!kernel.from_cache) nvrtc_ms += kernel.compile_ms;
    }
  }
  std::printf(
      "%-36s %7.2f ms: parse %.2f, verify and segment %.2f, schedule to %s %.2f (NVRTC %.2f%s)\n",
      std::string(what).c_str(), parse_ms + segment_ms + run_ms, parse_ms, segment_ms,
      gpu ? "result" : "machine code", run_ms, nvrtc_ms, from_cache ? "; all from the cache" : "");
  return absl::OkStatus();
}

absl::Status Run() {
  SEAM_RETURN_IF_ERROR(cuda::Nvrtc::Get().status());
  if (cuda::Driver::Get().ok()) {
    // The context takes a while, and any program with a GPU pays for it.
    Clock clock;
    SEAM_ASSIGN_OR_RETURN(const cuda::Driver* const driver, cuda::Driver::Get());
    SEAM_RETURN_IF_ERROR(driver->device(0).status());
    std::printf("%-36s %7.2f ms\n", "CUDA context, once a process", clock.LapMs());
  }
  SEAM_RETURN_IF_ERROR(Time("layer norm, no cache", kLayerNorm, nullptr));
  cuda::CubinCache cache(std::filesystem::temp_directory_path() / "seam_first_result",
                         int64_t{64} << 20);
  SEAM_RETURN_IF_ERROR(Time("rms norm, filling the cache", kRmsNorm, &cache));
  SEAM_RETURN_IF_ERROR(Time("layer norm, filling the cache", kLayerNorm, &cache));
  for (int i = 0; i < 3; ++i) SEAM_RETURN_IF_ERROR(Time("rms norm, warm cache", kRmsNorm, &cache));
  return Time("layer norm, warm cache", kLayerNorm, &cache);
}

}  // namespace
}  // namespace seam

int main() {
  const absl::Status status = seam::Run();
  if (!status.ok())
    std::fprintf(stderr, "first_result_bench: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 4;
}
