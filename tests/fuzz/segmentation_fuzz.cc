// Fuzzes segmentation files: any bytes give an error that says where and why, or a segmentation
// that verifies and whose dump reads back as itself.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ir/text/parser.h"
#include "segmenter/dump.h"
#include "segmenter/load_segmentation.h"
#include "segmenter/verify.h"

namespace {

constexpr char kGraph[] = R"(fusion f {
  symbol M in [1, 4096]
  input x: f16[M, 64]
  xf = cast(x, dtype=f32)
  s = sum(xf)
  y = xf / s
  average, m2, count = welford(y)
  z = y - average
  output z
})";

void Require(bool holds, const char* what, const std::string& detail) {
  if (holds) return;
  std::fprintf(stderr, "%s\n%s\n", what, detail.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const seam::Fusion* const fusion = new seam::Fusion(*seam::ParseFusion(kGraph));
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<seam::LoadedSegmentation> loaded = seam::LoadSegmentation(*fusion, text);
  if (!loaded.ok()) {
    Require(loaded.status().code() == absl::StatusCode::kInvalidArgument &&
                !loaded.status().message().empty(),
            "an error without a reason:", loaded.status().ToString());
    return 0;
  }
  const absl::Status verified = seam::VerifySegmentation(loaded->segmented);
  Require(verified.ok(), "loaded, but not valid:", verified.ToString());
  const seam::SizeHints sizes = *seam::SizeHints::Create(*fusion, loaded->sizes);
  const std::string dump = *seam::DumpJson(loaded->segmented, {&sizes, &loaded->log});
  const absl::StatusOr<seam::LoadedSegmentation> again = seam::LoadSegmentation(*fusion, dump);
  Require(again.ok(), "dumped, but not read back:", again.status().ToString() + "\n" + dump);
  Require(*seam::DumpJson(again->segmented, {&sizes, &again->log}) == dump,
          "read back as something else:", dump);
  return 0;
}
