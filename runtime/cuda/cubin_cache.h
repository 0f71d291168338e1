// Compiled kernels on disk, one file each, shared by all processes of a user. The cache only ever
// saves time: whatever is wrong with it (a cut-off or altered file, a full disk, a directory that
// cannot be written), a kernel compiles as if it were not there, and warning() says why.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "runtime/cuda/file_cache.h"
#include "runtime/cuda/nvrtc.h"

namespace seam::cuda {

using CubinKey = FileKey;

// `compiler` is Nvrtc::identity(). The request's name does not count.
CubinKey MakeCubinKey(const CompileRequest& request, absl::string_view compiler);

// Invariant: Find returns only what Store was given under the same key, byte for byte; a file is
// believed only if its magic, version, key, sizes and checksum agree. Safe from many threads and
// processes at once.
class CubinCache {
 public:
  // The user's cache; see CacheLocation.
  static std::unique_ptr<CubinCache> FromEnvironment();

  // Touches no file before the first Find or Store. An empty `directory` keeps nothing.
  CubinCache(std::string directory, int64_t capacity_bytes)
      : CubinCache(CacheLocation{std::move(directory), capacity_bytes}) {}

  // The kernel kept under `key`, with from_cache set; nullopt if there is none to be believed.
  std::optional<CompiledKernel> Find(const CubinKey& key);

  // Keeps `kernel`, replacing what is there; cost as of FileCache::Store.
  void Store(const CubinKey& key, const CompiledKernel& kernel);

  const std::string& directory() const { return files_.directory(); }
  // One sentence about the first thing that kept the cache from working; empty if nothing did.
  std::string warning() const { return files_.warning(); }

 private:
  explicit CubinCache(CacheLocation location);
  FileCache files_;
};

}  // namespace seam::cuda
