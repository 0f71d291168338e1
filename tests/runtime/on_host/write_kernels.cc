// Writes the CUDA text of every operation's kernel, as C++ that a host compiler takes (see
// run_kernels.cc).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/codegen/prelude.h"
#include "tests/support/op_samples.h"

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

void Write() {
  std::string kernels, table;
  int count = 0;
  for (const testing::OpSample& sample : testing::AllOpSamples()) {
    absl::StrAppend(&kernels, testing::SampleKernel(sample, absl::StrCat("k", count)));
    absl::StrAppend(&table, "k", count++, ", ");
  }
  // run_kernels.cc tries the quotients by themselves.
  std::string prelude = PreludeFor(kernels + " seam_divides seam_quotient");
  RemoveFunction("unsigned short seam_f16_bits(float x)", prelude);
  RemoveFunction("float seam_f16_value(unsigned short x)", prelude);
  kernels = absl::StrReplaceAll(kernels, {{"extern \"C\"", "static"}});
  std::printf("%s\n%s\nSampleKernelFunction* const kKernels[] = {%s};\n", prelude.c_str(),
              kernels.c_str(), table.c_str());
}

}  // namespace
}  // namespace seam

int main() {
  seam::Write();
  return std::fflush(stdout) == 0 ? 0 : 1;
}
