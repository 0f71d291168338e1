// Times the text form on a large graph: parse, verify, print, and parse what was printed.
//
//   text_bench [EXPRESSIONS]    at least so many, 100000 unless told
//
// The graph is of elementwise operations over [M, N] with a reduction along the rows every eighth
// expression, whose result is read again further down. Each time is the least of three. Memory is
// what the Fusion holds and how much the process grew at its peak, the text itself included.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"

namespace seam {
namespace {

constexpr int kRepetitions = 3;

std::string LargeGraph(int num_exprs) {
  std::string text =
      "fusion large {\n"
      "  symbol M in [1, 65536]\n"
      "  symbol N in [1, 65536]\n"
      "  input x: f32[M, N]\n"
      "  input y: f32[M, N]\n\n"
      "  v0 = x + y\n"
      "  v1 = x * y\n";
  const char* const unary[] = {"exp", "tanh", "sqrt", "sigmoid"};
  const char* const binary[] = {"+", "-", "*", "/"};
  const char* const reductions[] = {"sum", "amax", "amin"};
  int next = 2;
  auto value = [&](int back) { return absl::StrCat("v", std::max(0, next - back)); };
  for (int made = 2; made < num_exprs; ++next) {
    const std::string name = absl::StrCat("  v", next, " = ");
    if (next % 8 == 7) {  // The reduction, the axis put back, and their reader.
      absl::StrAppend(&text, name, value(3), " - ", reductions[next / 8 % 3], "(", value(1),
                      ", axes=[1], keepdims=true)\n");
      made += 3;
    } else if (next % 3 == 0) {
      absl::StrAppend(&text, name, unary[next / 3 % 4], "(", value(1), ")\n");
      ++made;
    } else {
      absl::StrAppend(&text, name, value(1), " ", binary[next % 4], " ", value(2 + next % 5), "\n");
      ++made;
    }
  }
  return absl::StrCat(text, "  output ", value(1), "\n}\n");
}

// The least of some runs, in milliseconds.
template <typename F>
double TimeMs(F f) {
  double best = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    best = i == 0 ? ms.count() : std::min(best, ms.count());
  }
  return best;
}

int64_t PeakBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

absl::Status Run(int num_exprs) {
  const int64_t start_bytes = PeakBytes();
  const std::string text = LargeGraph(num_exprs);

  // Once through before the repetitions, for the peak of a single use.
  absl::StatusOr<Fusion> fusion = ParseFusion(text);
  SEAM_RETURN_IF_ERROR(fusion.status());
  SEAM_RETURN_IF_ERROR(Verify(*fusion));
  std::string printed = PrintFusion(*fusion);
  const int64_t peak_bytes = PeakBytes() - start_bytes;
  SEAM_ASSIGN_OR_RETURN(const Fusion again, ParseFusion(printed));
  if (PrintFusion(again) != printed)
    return absl::InternalError("the text does not print as it was read");

  const double parse_ms = TimeMs([&] { fusion = ParseFusion(text); });
  absl::Status verified;
  const double verify_ms = TimeMs([&] { verified = Verify(*fusion); });
  SEAM_RETURN_IF_ERROR(verified);
  const double print_ms = TimeMs([&] { printed = PrintFusion(*fusion); });
  const double parse_printed_ms = TimeMs([&] { fusion = ParseFusion(printed); });
  SEAM_RETURN_IF_ERROR(fusion.status());

  const double n = fusion->num_exprs();
  std::printf("%u expressions, %zu bytes of text, %zu bytes printed\n", fusion->num_exprs(),
              text.size(), printed.size());
  std::printf("parse %.1f ms, verify %.1f ms, print %.1f ms; together %.1f ms\n", parse_ms,
              verify_ms, print_ms, parse_ms + verify_ms + print_ms);
  std::printf("parse what was printed %.1f ms\n", parse_printed_ms);
  std::printf("bytes an expression: %.0f in the Fusion, %.0f at the peak of the process\n",
              fusion->MemoryBytes() / n, peak_bytes / n);
  return absl::OkStatus();
}

}  // namespace
}  // namespace seam

int main(int argc, char** argv) {
  const int num_exprs = argc > 1 ? std::atoi(argv[1]) : 100000;
  if (argc > 2 || num_exprs < 2 || num_exprs > 10000000) {
    std::fprintf(stderr, "usage: text_bench [EXPRESSIONS]    (2 to 10000000)\n");
    return 2;
  }
  const absl::Status status = seam::Run(num_exprs);
  if (!status.ok()) std::fprintf(stderr, "text_bench: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
