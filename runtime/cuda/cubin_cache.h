// Compiled kernels on disk, one file each, shared by all processes of a user. The cache only ever
// saves time: whatever is wrong with it (a cut-off or altered file, a full disk, a directory that
// cannot be written), a kernel compiles as if it were not there, and warning() says why.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/cuda/nvrtc.h"

namespace seam::cuda {

// 128-bit hash of everything that changes the binary.
struct CubinKey {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const CubinKey& a, const CubinKey& b) {
    return a.high == b.high && a.low == b.low;
  }
  std::string Hex() const;  // 32 digits
};

// `compiler` is Nvrtc::identity(). The request's name does not count.
CubinKey MakeCubinKey(const CompileRequest& request, absl::string_view compiler);

// Invariant: Find returns only what Store was given under the same key, byte for byte; a file is
// believed only if its magic, version, key, sizes and checksum agree. Files appear by rename, so
// readers never see half of one. Safe from many threads and processes at once.
class CubinCache {
 public:
  // The user's cache: $SEAM_CACHE_DIR, else $XDG_CACHE_HOME/seam, else ~/.cache/seam, with at most
  // $SEAM_CACHE_MB (default 512) megabytes. SEAM_CACHE_DIR=off: a cache that keeps nothing.
  static std::unique_ptr<CubinCache> FromEnvironment();

  // Touches no file before the first Find or Store. An empty `directory` keeps nothing.
  CubinCache(std::string directory, int64_t capacity_bytes);

  // The kernel kept under `key`, with from_cache set; nullopt if there is none to be believed.
  std::optional<CompiledKernel> Find(const CubinKey& key);

  // Keeps `kernel`, replacing what is there. Over the capacity, the files unused for longest are
  // deleted: linear in the number of files, once per sixteenth of the capacity written.
  void Store(const CubinKey& key, const CompiledKernel& kernel);

  const std::string& directory() const { return directory_; }
  // One sentence about the first thing that kept the cache from working; empty if nothing did.
  std::string warning() const;

 private:
  std::string FilePath(const CubinKey& key) const;
  void Warn(std::string sentence);
  void Evict();

  const std::string directory_;
  const int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  std::string warning_;
  int64_t bytes_until_eviction_ = 0;  // May still be written before the directory is scanned.
};

}  // namespace seam::cuda
