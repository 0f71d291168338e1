// WithinMemory: what allocates as much as its input asks for, without an exception across the API.
//
// Thread-safety: that of `compute`.
#pragma once

#include <new>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace seam {

// What `compute` gives, a Status or StatusOr, or kResourceExhausted where it ran out of memory:
// "no memory left for `what`".
template <typename Result>
Result WithinMemory(absl::string_view what, absl::FunctionRef<Result()> compute) {
  try {
    return compute();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory left for ", what));
  }
}

}  // namespace seam
