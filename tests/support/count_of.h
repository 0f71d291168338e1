// How often something stands in a kernel's text.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"

namespace seam::testing {

inline int CountOf(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Loads of this buffer.
inline int NumLoads(const std::string& text, const std::string& buffer) {
  return CountOf(text, absl::StrCat("load ", buffer, "["));
}

}  // namespace seam::testing
