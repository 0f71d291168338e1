// Propagation of absl::Status: the two macros that the whole project uses.
// Nothing in Seam throws across its API; every fallible function returns Status or StatusOr.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SEAM_STATUS_CONCAT_INNER(a, b) a##b
#define SEAM_STATUS_CONCAT(a, b) SEAM_STATUS_CONCAT_INNER(a, b)

// Returns from the calling function if `expr` is not OK.
#define SEAM_RETURN_IF_ERROR(expr)                                \
  do {                                                            \
    if (absl::Status seam_status_ = (expr); !seam_status_.ok()) { \
      return seam_status_;                                        \
    }                                                             \
  } while (false)

// `lhs` = value of the StatusOr `expr`, or returns its error.
#define SEAM_ASSIGN_OR_RETURN(lhs, expr) \
  SEAM_ASSIGN_OR_RETURN_IMPL(SEAM_STATUS_CONCAT(seam_status_or_, __LINE__), lhs, expr)
#define SEAM_ASSIGN_OR_RETURN_IMPL(var, lhs, expr) \
  auto var = (expr);                               \
  if (!var.ok()) return std::move(var).status();   \
  lhs = std::move(var).value()
