// Reads a Fusion from its text form; docs/text-format.md has the grammar.
//
// Thread-safety: free functions without shared state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ir/fusion.h"

namespace seam {

inline constexpr int64_t kMaxTextBytes = int64_t{256} << 20;
// Levels of parentheses, calls and unary operators around a value.
inline constexpr int kMaxTextNesting = 200;

struct ParseOptions {
  std::string file_name = "<text>";  // In errors.
};

// The Fusion that `text` describes. Every expression has the line and column where it is written.
// Errors: kInvalidArgument "file:line:column: found X, expected Y", then the source line and a
// caret. Linear in the size of the text.
absl::StatusOr<Fusion> ParseFusion(absl::string_view text, const ParseOptions& options = {});

// ParseFusion of the file at `path`, or of standard input where `path` is "-".
// Errors: as ParseFusion; kNotFound, kPermissionDenied or kUnavailable where there is nothing to
// read.
absl::StatusOr<Fusion> LoadFusion(absl::string_view path);

}  // namespace seam
