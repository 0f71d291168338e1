// Writes the CUDA text of every operation's kernel, as C++ that a host compiler takes (see
// run_kernels.cc).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/codegen/emitter.h"
#include "runtime/codegen/prelude.h"
#include "tests/support/op_samples.h"
#include "tests/support/sample_kernels.h"

namespace seam {
namespace {

// Removes the function with this signature: one that is a single instruction, which run_kernels.cc
// replaces.
void RemoveFunction(const std::string& signature, std::string& text) {
  const size_t begin = text.find("__device__ __forceinline__ " + signature);
  const size_t end = begin == std::string::npos ? begin : text.find("\n}\n", begin);
  if (end == std::string::npos) {
    std::fprintf(stderr, "the prelude has no function %s\n", signature.c_str());
    std::exit(1);
  }
  text.erase(begin, end + 3 - begin);
}

// y[n] = x[s], y[n + 1] = x[s + 1], ... in vectors that start anywhere; -1 where there is no x, or
// too little beyond for those inside. `beside_narrower`: there is a buffer of 16-bit data as well,
// which nobody uses.
std::string UnalignedKernel(DType dtype, int width, kernel::Start start,
                            bool beside_narrower = false) {
  const std::string type(DTypeName(dtype));
  testing::KernelDraft d("copy", 32);
  const SymInt s = d.Parameter("s"), n = d.Parameter("n");
  const int x = d.Buffer("x", dtype, n, false), y = d.Buffer("y", dtype, 32 * width, true);
  if (beside_narrower) d.Buffer("z", DType::BF16, n, false);
  const int f = d.Fragment("f", dtype, width);
  const SymInt at = s + width * d.thread;
  const bool inside = start == kernel::Start::Inside;
  const int room = inside ? 2 * width : width;
  kernel::Load load{f, 0, width, kernel::Space::Global, x, at, SymLe(at + room, n)};
  load.fill = FloatScalar(-1);
  load.start = start;
  testing::Emit(&d.k.body, load);
  for (int v = 0; v < width; ++v) {
    testing::Emit(&d.k.body,
                  kernel::Store{f, v, 1, kernel::Space::Global, y, width * d.thread + v});
  }
  const absl::StatusOr<std::string> text = EmitCuda(d.k);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", text.status().ToString().c_str());
    std::exit(1);
  }
  return absl::StrCat("namespace ", inside ? "inside_" : "unaligned_", type,
                      beside_narrower ? "_beside_narrower" : "", " {\n",
                      absl::StrReplaceAll(*text, {{"extern \"C\"", "static"}}), "}\n");
}

void Write() {
  std::string kernels, table;
  int count = 0;
  for (const testing::OpSample& sample : testing::AllOpSamples()) {
    absl::StrAppend(&kernels, testing::SampleKernel(sample, absl::StrCat("k", count)));
    absl::StrAppend(&table, "k", count++, ", ");
  }
  // run_kernels.cc tries the quotients by themselves.
  std::string prelude = PreludeFor(kernels + " seam_divides_signed seam_quotient_signed");
  RemoveFunction("unsigned short seam_f16_bits(float x)", prelude);
  RemoveFunction("float seam_f16_value(unsigned short x)", prelude);
  kernels = absl::StrReplaceAll(kernels, {{"extern \"C\"", "static"}});
  std::printf("%s\n%s\nSampleKernelFunction* const kKernels[] = {%s};\n", prelude.c_str(),
              kernels.c_str(), table.c_str());
  for (const kernel::Start start : {kernel::Start::Anywhere, kernel::Start::Inside}) {
    std::printf("%s%s%s\n", UnalignedKernel(DType::BF16, 8, start).c_str(),
                UnalignedKernel(DType::F32, 4, start).c_str(),
                UnalignedKernel(DType::F64, 2, start).c_str());
  }
  std::printf("%s\n", UnalignedKernel(DType::F32, 4, kernel::Start::Inside, true).c_str());
}

}  // namespace
}  // namespace seam

int main() {
  seam::Write();
  return std::fflush(stdout) == 0 ? 0 : 1;
}
