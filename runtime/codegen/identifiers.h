// Unique C++ identifiers for the names that people and passes give to symbols, buffers and
// fragments.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

namespace seam {

// Whether identifiers may contain it: a letter, a digit or an underscore.
bool IsWordChar(char c);

// The identifiers of one kernel's text. No name that it gives is a keyword, a CUDA name or function
// that emitted text uses, or one that it gave before. Thread-safety: none.
class Identifiers {
 public:
  Identifiers();
  // `wanted` with other characters than letters, digits and underscores replaced; with a number
  // behind it where that is taken.
  std::string Unique(absl::string_view wanted);

 private:
  absl::flat_hash_set<std::string> taken_;
};

}  // namespace seam
