// Text within the markup of the pages and pictures that dumps write.
#pragma once

#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace seam {

// `text` as the content of an element or a quoted attribute of HTML or SVG.
inline std::string EscapedMarkup(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace seam
