#include "runtime/cuda/file_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace seam::cuda {
namespace {

// No result comes near this; a larger file is foreign.
constexpr size_t kMaxFileBytes = 64u << 20;
constexpr size_t kKeyDigits = 32;
// A temporary file this old belongs to a process that died.
constexpr int64_t kStaleSeconds = 3600;

// Writing past RLIMIT_FSIZE raises SIGXFSZ, which would end the process. While this lives, the
// write of this thread fails with EFBIG instead.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalBlock() {
    const timespec now = {};
    while (sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t signal_;
  sigset_t before_;
};

// 0 or errno.
int WriteAll(int fd, absl::string_view bytes) {
  FileSizeSignalBlock block;
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(written);
    } else if (written == 0 || errno != EINTR) {
      return written == 0 ? EIO : errno;
    }
  }
  return 0;
}

// False if not `bytes->size()` bytes come.
bool ReadAll(int fd, std::string* bytes) {
  size_t have = 0;
  while (have < bytes->size()) {
    const ssize_t got = read(fd, bytes->data() + have, bytes->size() - have);
    if (got > 0) {
      have += got;
    } else if (got == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::string ErrorText(int error) { return std::generic_category().message(error); }

}  // namespace

FileKey FileKey::Of(absl::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string FileKey::Hex() const {
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

CacheLocation CacheLocation::FromEnvironment(absl::string_view what) {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  CacheLocation location;
  location.directory = variable("SEAM_CACHE_DIR");
  if (location.directory == "off") return {};
  if (location.directory.empty()) {
    const std::string cache_home = variable("XDG_CACHE_HOME");
    const std::string home = variable("HOME");
    if (!cache_home.empty()) {
      location.directory = absl::StrCat(cache_home, "/seam");
    } else if (!home.empty()) {
      location.directory = absl::StrCat(home, "/.cache/seam");
    } else {
      location.warning =
          absl::StrCat(what, " are not kept: set SEAM_CACHE_DIR, as neither it nor HOME is set.");
    }
  }
  int64_t megabytes = 512;
  if (const std::string text = variable("SEAM_CACHE_MB"); !text.empty()) {
    int64_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= 0) {
      megabytes = std::min<int64_t>(number, std::numeric_limits<int64_t>::max() >> 20);
    } else {
      location.warning = absl::StrCat("SEAM_CACHE_MB is no number of megabytes (\"", text,
                                      "\"): the cache on disk keeps to ", megabytes, ".");
    }
  }
  location.capacity_bytes = megabytes << 20;
  return location;
}

FileCache::FileCache(CacheLocation location, std::string suffix, std::string what)
    : location_(std::move(location)),
      suffix_(std::move(suffix)),
      what_(std::move(what)),
      warning_(location_.warning) {}

std::string FileCache::FilePath(const FileKey& key) const {
  return absl::StrCat(location_.directory, "/", key.Hex(), suffix_);
}

std::string FileCache::warning() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return warning_;
}

void FileCache::Warn(std::string sentence) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (warning_.empty()) warning_ = std::move(sentence);
}

FileCache::FileKind FileCache::KindOf(absl::string_view name) const {
  const size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
  if (digits != kKeyDigits || !absl::StartsWith(name.substr(kKeyDigits), suffix_)) {
    return FileKind::kForeign;
  }
  const absl::string_view end = name.substr(kKeyDigits + suffix_.size());
  if (end.empty()) return FileKind::kResult;
  return end.size() == 7 && end[0] == '.' ? FileKind::kTemporary : FileKind::kForeign;
}

absl::Status FileCache::Find(const FileKey& key,
                             absl::FunctionRef<bool(absl::string_view)> believe) {
  const auto unreadable = [](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat("it cannot be read: ", why));
  };
  if (location_.directory.empty()) return absl::NotFoundError("nothing is kept");
  // O_NONBLOCK: opening a FIFO that lies there must not wait for a writer.
  const int fd = open(FilePath(key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) return absl::NotFoundError("there is no such file");
    const std::string why = ErrorText(errno);
    Warn(absl::StrCat(what_, " cannot be read from ", location_.directory, ": ", why, "."));
    return unreadable(why);
  }
  absl::Status status;
  struct stat file;
  std::string bytes;
  if (fstat(fd, &file) != 0) {
    status = unreadable(ErrorText(errno));
  } else if (!S_ISREG(file.st_mode)) {
    status = unreadable("it is no file");
  } else if (static_cast<uint64_t>(file.st_size) > kMaxFileBytes) {
    status = unreadable("it is too large");
  } else if (bytes.resize(static_cast<size_t>(file.st_size)); !ReadAll(fd, &bytes)) {
    status = unreadable("it ends early");
  } else if (!believe(bytes)) {
    status = absl::DataLossError("it is not what it should be");
  } else {
    futimens(fd, nullptr);  // The time of modification is the time of last use, for Evict.
  }
  close(fd);
  return status;
}

void FileCache::Store(const FileKey& key, absl::string_view bytes) {
  if (location_.directory.empty()) return;
  if (bytes.size() > kMaxFileBytes ||
      static_cast<int64_t>(bytes.size()) > location_.capacity_bytes) {
    return;
  }
  auto fail = [&](int error) {
    Warn(
        absl::StrCat(what_, " are not kept in ", location_.directory, ": ", ErrorText(error), "."));
  };
  const std::string path = FilePath(key);
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    std::error_code error;
    std::filesystem::create_directories(location_.directory, error);
    if (error) return fail(error.value());
    temporary = absl::StrCat(path, ".XXXXXX");
    fd = mkostemp(temporary.data(), O_CLOEXEC);
  }
  if (fd < 0) return fail(errno);
  int error = WriteAll(fd, bytes);
  // No fsync: a file that a crash cut off fails its checksum. But a full disk may show only here.
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    return fail(error);
  }

  std::lock_guard<std::mutex> lock(mutex_);
  bytes_until_eviction_ -= static_cast<int64_t>(bytes.size());
  if (bytes_until_eviction_ <= 0) Evict();
}

void FileCache::Evict() {
  const int64_t slack_bytes = location_.capacity_bytes / 16;
  bytes_until_eviction_ = slack_bytes;
  struct Entry {
    timespec used;
    std::string name;
    int64_t bytes;
  };
  std::vector<Entry> entries;
  int64_t total_bytes = 0;
  DIR* directory = opendir(location_.directory.c_str());
  if (directory == nullptr) return;
  const int directory_fd = dirfd(directory);
  const int64_t now = std::time(nullptr);
  while (const dirent* item = readdir(directory)) {
    struct stat file;
    const FileKind kind = KindOf(item->d_name);
    if (kind == FileKind::kForeign ||
        fstatat(directory_fd, item->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(file.st_mode)) {
      continue;
    }
    if (kind == FileKind::kTemporary) {
      if (now - file.st_mtim.tv_sec > kStaleSeconds) unlinkat(directory_fd, item->d_name, 0);
      continue;
    }
    entries.push_back({file.st_mtim, item->d_name, static_cast<int64_t>(file.st_size)});
    total_bytes += file.st_size;
  }
  if (total_bytes > location_.capacity_bytes - slack_bytes) {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      if (a.used.tv_sec != b.used.tv_sec) return a.used.tv_sec < b.used.tv_sec;
      if (a.used.tv_nsec != b.used.tv_nsec) return a.used.tv_nsec < b.used.tv_nsec;
      return a.name < b.name;
    });
    for (const Entry& entry : entries) {
      if (total_bytes <= location_.capacity_bytes - slack_bytes) break;
      if (unlinkat(directory_fd, entry.name.c_str(), 0) == 0 || errno == ENOENT) {
        total_bytes -= entry.bytes;
      }
    }
  }
  closedir(directory);
}

}  // namespace seam::cuda
