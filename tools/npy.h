// Tensors as .npy files, the format in which NumPy keeps an array (numpy.lib.format).
//
// Elements of bf16 and f8, which NumPy itself does not have, are bytes without a type there, as
// NumPy writes those of the package ml_dtypes: '<V2' and '|V1'; '<u2' and '|u1' are read as well.
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ir/dtype.h"
#include "ir/reference/host_tensor.h"

namespace seam::tool {

// The array in `content`, a whole file, whose elements are to be of `dtype`. Its strides are those
// of the file: row-major or column-major. Any bytes may be given. Error: kInvalidArgument, with
// what was found and expected.
absl::StatusOr<HostTensor> ParseNpy(absl::string_view content, DType dtype);

// The same of the file at `path`, or of standard input where that is "-". What is no such array is
// found at its head; no more is read than the header promises. Also kNotFound: it cannot be read.
absl::StatusOr<HostTensor> ReadNpy(const std::string& path, DType dtype);

// A row-major array of version 1.0 with the tensor's elements.
absl::StatusOr<std::string> FormatNpy(const HostTensor& tensor);

}  // namespace seam::tool
