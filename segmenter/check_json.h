// JSON from files of a user's (segmentations, tuned schedules, measured times), ahead of parsing.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace seam {

// OK where `text` is JSON in which nothing lies in more than 64 arrays and objects, so that whoever
// reads, copies or prints it may recurse, and no object has a key twice. Error: kInvalidArgument
// saying what is wrong, and where the text is no JSON.
absl::Status CheckJson(absl::string_view text);

}  // namespace seam
