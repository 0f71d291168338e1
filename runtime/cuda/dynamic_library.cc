#include "runtime/cuda/dynamic_library.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace seam::cuda {

absl::StatusOr<DynamicLibrary> DynamicLibrary::Open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = dlerror();
    const std::string reason = error != nullptr ? error : path;
    // What a library that is there needs and lacks is called otherwise.
    const bool is_absent =
        absl::StartsWith(reason, path + ":") && absl::EndsWith(reason, std::strerror(ENOENT));
    return is_absent ? absl::NotFoundError(reason) : absl::UnavailableError(reason);
  }
  return DynamicLibrary(handle);
}

std::string DynamicLibrary::FileOf(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

void* DynamicLibrary::Address(const char* symbol) const { return dlsym(handle_, symbol); }

absl::Status DynamicLibrary::Missing(const char* symbol) {
  return absl::NotFoundError(absl::StrCat("it has no function ", symbol));
}

}  // namespace seam::cuda
