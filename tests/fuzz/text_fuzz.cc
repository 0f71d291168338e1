// Fuzzes the text form: any bytes give an error with a place, or a Fusion that verifies and whose
// canonical text reads back as itself.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"

namespace {

void Require(bool holds, const char* what, const std::string& detail) {
  if (holds) return;
  std::fprintf(stderr, "%s\n%s\n", what, detail.c_str());
  std::abort();
}

std::string Print(const seam::Fusion& fusion) {
  const absl::Status verified = seam::Verify(fusion);
  Require(verified.ok(), "parsed, but not valid:", verified.ToString());
  return seam::PrintFusion(fusion);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<seam::Fusion> fusion = seam::ParseFusion(text);
  if (!fusion.ok()) {
    const std::string message(fusion.status().message());
    Require(fusion.status().code() == absl::StatusCode::kInvalidArgument &&
                message.rfind("<text>:", 0) == 0,
            "an error without a place:", message);
    return 0;
  }
  // How far an extent of nested min and max is simplified may depend on what else the text holds;
  // that settles after one more reading.
  std::string printed = Print(*fusion);
  for (int round = 0; round < 4; ++round) {
    const absl::StatusOr<seam::Fusion> again = seam::ParseFusion(printed);
    Require(again.ok(), "printed, but not read back:", again.status().ToString() + "\n" + printed);
    std::string second = Print(*again);
    if (second == printed) return 0;
    Require(printed.find("min(") != std::string::npos ||
                printed.find("max(") != std::string::npos ||
                printed.find("select(") != std::string::npos,
            "read back as something else:", printed + "\n" + second);
    printed = std::move(second);
  }
  Require(false, "does not settle:", printed);
  return 0;
}
