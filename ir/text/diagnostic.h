// Errors of the text form: a place, what was found, what was expected, and the line itself.
//
// Thread-safety: free functions, all pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ir/fusion.h"

namespace seam::text {

// What is parsed and how it is called in errors.
struct TextSource {
  absl::string_view text;
  absl::string_view file_name;
};

// The 1-based line and column (in bytes) of the byte at `offset`. Linear in `offset`.
SourceLoc LocationAt(absl::string_view text, size_t offset);

// kInvalidArgument "file:line:column: message", then the source line and a caret below the byte at
// `offset`. Of a long line only the part around the caret is shown; what does not print becomes
// `?`. Linear in `offset`.
absl::Status ErrorAt(const TextSource& source, size_t offset, absl::string_view message);

// "; did you mean 'softmax'?" with the candidate that takes the fewest edits, the first of equals;
// empty where none is close. Linear in the number of candidates.
std::string DidYouMean(absl::string_view name, const std::vector<absl::string_view>& candidates);

// `text` in quotes, cut to a readable length.
std::string Quoted(absl::string_view text);

}  // namespace seam::text
