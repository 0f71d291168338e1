// A shared library opened at run time. Libraries stay open for the life of the process: both the
// CUDA driver and NVRTC keep threads and exit handlers of their own.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace seam::cuda {

class DynamicLibrary {
 public:
  // Opens `path`; a name without a slash is searched as the loader does. Errors, with the
  // loader's reason: kNotFound where there is no such file, kUnavailable where it cannot be loaded.
  static absl::StatusOr<DynamicLibrary> Open(const std::string& path);

  // Stores the address of the function `symbol`. Error: kNotFound.
  template <typename Function>
  absl::Status Find(const char* symbol, Function** function) const {
    *function = reinterpret_cast<Function*>(Address(symbol));
    return *function != nullptr ? absl::OkStatus() : Missing(symbol);
  }

  // The file that `address`, a function of this library, was loaded from; empty if unknown.
  static std::string FileOf(const void* address);

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* Address(const char* symbol) const;
  static absl::Status Missing(const char* symbol);

  void* handle_;
};

}  // namespace seam::cuda
