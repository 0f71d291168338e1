// FileCache: small results on disk, one file each, shared by all processes of a user. It only ever
// saves time: whatever is wrong with it, it finds nothing. Of a disk that is full or a directory
// that cannot be written warning() says so; a damaged file is written anew without a word.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace seam::cuda {

// 128-bit hash of everything that a result depends on.
struct FileKey {
  uint64_t high = 0;
  uint64_t low = 0;

  static FileKey Of(absl::string_view bytes);
  friend bool operator==(const FileKey& a, const FileKey& b) {
    return a.high == b.high && a.low == b.low;
  }
  std::string Hex() const;  // 32 digits
};

// Where a user's caches lie and how large they may be.
struct CacheLocation {
  std::string directory;  // Empty: nothing is kept.
  int64_t capacity_bytes = 0;
  std::string warning;  // One sentence about what is wrong with the environment; empty: nothing.

  // $SEAM_CACHE_DIR, else $XDG_CACHE_HOME/seam, else ~/.cache/seam, with at most $SEAM_CACHE_MB
  // (default 512) megabytes. SEAM_CACHE_DIR=off: nothing is kept. `what` opens the warning:
  // "Compiled kernels".
  static CacheLocation FromEnvironment(absl::string_view what);
};

// Files are called as their key, with the cache's suffix behind it; several caches may share a
// directory. Files appear by rename, so readers never see half of one. Safe from many threads and
// processes at once.
class FileCache {
 public:
  // Touches no file before the first Find or Store. `what` opens the warnings: "Compiled kernels".
  FileCache(CacheLocation location, std::string suffix, std::string what);

  // Reads the file of `key` and asks `believe` whether its bytes are what they should be. OK: they
  // are, and the file counts as used now. Errors: kNotFound where there is no file, kUnavailable
  // saying why one cannot be read, kDataLoss where it is not believed.
  absl::Status Find(const FileKey& key, absl::FunctionRef<bool(absl::string_view)> believe);

  // Keeps `bytes`, replacing what is there. Over the capacity, the files unused for longest are
  // deleted: linear in the number of files, once per sixteenth of the capacity written.
  void Store(const FileKey& key, absl::string_view bytes);

  const std::string& directory() const { return location_.directory; }
  std::string FilePath(const FileKey& key) const;
  // One sentence about the first thing that kept the cache from working; empty if nothing did.
  std::string warning() const;

 private:
  enum class FileKind { kForeign, kResult, kTemporary };
  // What the cache may delete: its own files, whatever else lies in the directory.
  FileKind KindOf(absl::string_view name) const;
  void Warn(std::string sentence);
  void Evict();

  const CacheLocation location_;
  const std::string suffix_, what_;
  mutable std::mutex mutex_;
  std::string warning_;
  int64_t bytes_until_eviction_ = 0;  // May still be written before the directory is scanned.
};

}  // namespace seam::cuda
