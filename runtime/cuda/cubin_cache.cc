#include "runtime/cuda/cubin_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
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

// A file is a Header, the four texts, and the checksum of all before it. Change the version with
// any change of this, or of how a request becomes a cubin.
constexpr uint32_t kFormatVersion = 1;
constexpr char kMagic[8] = {'S', 'E', 'A', 'M', 'C', 'U', 'B', '\n'};

struct Header {
  char magic[8];
  uint32_t version;
  int32_t registers;
  int32_t spill_store_bytes;
  int32_t spill_load_bytes;
  int64_t stack_bytes;
  uint64_t key_high;
  uint64_t key_low;
  int64_t static_smem_bytes;
  double compile_ms;
  uint64_t cubin_bytes;
  uint64_t entry_bytes;
  uint64_t arch_bytes;
  uint64_t log_bytes;
};
static_assert(sizeof(Header) == 96, "padding would be written uninitialised");

constexpr size_t kChecksumBytes = sizeof(XXH128_canonical_t);
// No kernel comes near this; a larger file is foreign.
constexpr size_t kMaxFileBytes = 64u << 20;
constexpr char kSuffix[] = ".cubin";
constexpr size_t kKeyDigits = 32;
// A temporary file this old belongs to a process that died.
constexpr int64_t kStaleSeconds = 3600;

XXH128_canonical_t Checksum(absl::string_view bytes) {
  XXH128_canonical_t checksum;
  XXH128_canonicalFromHash(&checksum, XXH3_128bits(bytes.data(), bytes.size()));
  return checksum;
}

absl::string_view BytesOf(const void* object, size_t bytes) {
  return absl::string_view(static_cast<const char*>(object), bytes);
}

std::string Encode(const CubinKey& key, const CompiledKernel& kernel) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kFormatVersion;
  header.registers = kernel.registers;
  header.spill_store_bytes = kernel.spill_store_bytes;
  header.spill_load_bytes = kernel.spill_load_bytes;
  header.stack_bytes = kernel.stack_bytes;
  header.key_high = key.high;
  header.key_low = key.low;
  header.static_smem_bytes = kernel.static_smem_bytes;
  header.compile_ms = kernel.compile_ms;
  header.cubin_bytes = kernel.cubin.size();
  header.entry_bytes = kernel.entry.size();
  header.arch_bytes = kernel.arch.size();
  header.log_bytes = kernel.log.size();
  std::string file = absl::StrCat(BytesOf(&header, sizeof(header)), kernel.cubin, kernel.entry,
                                  kernel.arch, kernel.log);
  const XXH128_canonical_t checksum = Checksum(file);
  absl::StrAppend(&file, BytesOf(&checksum, sizeof(checksum)));
  return file;
}

std::optional<CompiledKernel> Decode(const CubinKey& key, absl::string_view file) {
  if (file.size() < sizeof(Header) + kChecksumBytes) return std::nullopt;
  Header header;
  std::memcpy(&header, file.data(), sizeof(header));
  const CubinKey kept = {header.key_high, header.key_low};
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kFormatVersion ||
      !(kept == key)) {
    return std::nullopt;
  }
  const absl::string_view covered = file.substr(0, file.size() - kChecksumBytes);
  const XXH128_canonical_t checksum = Checksum(covered);
  if (std::memcmp(&checksum, file.data() + covered.size(), kChecksumBytes) != 0) {
    return std::nullopt;
  }
  absl::string_view rest = covered.substr(sizeof(Header));
  bool fits = true;
  auto take = [&](uint64_t bytes) {
    fits = fits && bytes <= rest.size();
    const absl::string_view text = rest.substr(0, fits ? bytes : 0);
    rest.remove_prefix(text.size());
    return std::string(text);
  };
  CompiledKernel kernel;
  kernel.cubin = take(header.cubin_bytes);
  kernel.entry = take(header.entry_bytes);
  kernel.arch = take(header.arch_bytes);
  kernel.log = take(header.log_bytes);
  if (!fits || !rest.empty()) return std::nullopt;
  kernel.registers = header.registers;
  kernel.spill_store_bytes = header.spill_store_bytes;
  kernel.spill_load_bytes = header.spill_load_bytes;
  kernel.stack_bytes = static_cast<int>(header.stack_bytes);
  kernel.static_smem_bytes = header.static_smem_bytes;
  kernel.compile_ms = header.compile_ms;
  kernel.from_cache = true;
  return kernel;
}

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

// What the cache may delete: its own files, whatever else lies in the directory.
enum class FileKind { kForeign, kKernel, kTemporary };

FileKind KindOf(absl::string_view name) {
  const size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
  if (digits != kKeyDigits || !absl::StartsWith(name.substr(kKeyDigits), kSuffix)) {
    return FileKind::kForeign;
  }
  const absl::string_view end = name.substr(kKeyDigits + sizeof(kSuffix) - 1);
  if (end.empty()) return FileKind::kKernel;
  return end.size() == 7 && end[0] == '.' ? FileKind::kTemporary : FileKind::kForeign;
}

}  // namespace

std::string CubinKey::Hex() const {
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

CubinKey MakeCubinKey(const CompileRequest& request, absl::string_view compiler) {
  // Lengths before texts, so that no two requests make the same bytes.
  std::string bytes;
  auto add = [&](absl::string_view text) { absl::StrAppend(&bytes, text.size(), ":", text); };
  absl::StrAppend(&bytes, "seam cubin ", kFormatVersion, ";");
  add(compiler);
  add(request.arch);
  add(request.entry);
  absl::StrAppend(&bytes, request.max_registers, ";", request.options.size(), ";");
  for (const std::string& option : request.options) add(option);
  add(request.source);
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::unique_ptr<CubinCache> CubinCache::FromEnvironment() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string directory = variable("SEAM_CACHE_DIR");
  if (directory == "off") return std::make_unique<CubinCache>("", 0);
  std::string warning;
  if (directory.empty()) {
    const std::string cache_home = variable("XDG_CACHE_HOME");
    const std::string home = variable("HOME");
    if (!cache_home.empty()) {
      directory = absl::StrCat(cache_home, "/seam");
    } else if (!home.empty()) {
      directory = absl::StrCat(home, "/.cache/seam");
    } else {
      warning = "Compiled kernels are not kept: set SEAM_CACHE_DIR, as neither it nor HOME is set.";
    }
  }
  int64_t megabytes = 512;
  if (const std::string text = variable("SEAM_CACHE_MB"); !text.empty()) {
    int64_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= 0) {
      megabytes = std::min<int64_t>(number, std::numeric_limits<int64_t>::max() >> 20);
    } else {
      warning = absl::StrCat("SEAM_CACHE_MB is no number of megabytes (\"", text,
                             "\"): the cache of compiled kernels keeps to ", megabytes, ".");
    }
  }
  auto cache = std::make_unique<CubinCache>(std::move(directory), megabytes << 20);
  cache->warning_ = std::move(warning);
  return cache;
}

CubinCache::CubinCache(std::string directory, int64_t capacity_bytes)
    : directory_(std::move(directory)), capacity_bytes_(capacity_bytes) {}

std::string CubinCache::FilePath(const CubinKey& key) const {
  return absl::StrCat(directory_, "/", key.Hex(), kSuffix);
}

std::string CubinCache::warning() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return warning_;
}

void CubinCache::Warn(std::string sentence) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (warning_.empty()) warning_ = std::move(sentence);
}

std::optional<CompiledKernel> CubinCache::Find(const CubinKey& key) {
  if (directory_.empty()) return std::nullopt;
  // O_NONBLOCK: opening a FIFO that lies there must not wait for a writer.
  const int fd = open(FilePath(key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno != ENOENT) {
      Warn(absl::StrCat("Kernels compiled earlier cannot be read from ", directory_, ": ",
                        ErrorText(errno), "."));
    }
    return std::nullopt;
  }
  std::optional<CompiledKernel> kernel;
  struct stat file;
  if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size >= 0 &&
      static_cast<uint64_t>(file.st_size) <= kMaxFileBytes) {
    std::string bytes(static_cast<size_t>(file.st_size), '\0');
    if (ReadAll(fd, &bytes)) kernel = Decode(key, bytes);
    // The time of modification is the time of last use, for Evict.
    if (kernel.has_value()) futimens(fd, nullptr);
  }
  close(fd);
  return kernel;
}

void CubinCache::Store(const CubinKey& key, const CompiledKernel& kernel) {
  if (directory_.empty()) return;
  const std::string bytes = Encode(key, kernel);
  if (bytes.size() > kMaxFileBytes || static_cast<int64_t>(bytes.size()) > capacity_bytes_) return;

  auto fail = [&](int error) {
    Warn(
        absl::StrCat("Compiled kernels are not kept in ", directory_, ": ", ErrorText(error), "."));
  };
  const std::string path = FilePath(key);
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    std::error_code error;
    std::filesystem::create_directories(std::string(directory_), error);
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

void CubinCache::Evict() {
  const int64_t slack_bytes = capacity_bytes_ / 16;
  bytes_until_eviction_ = slack_bytes;
  struct Entry {
    timespec used;
    std::string name;
    int64_t bytes;
  };
  std::vector<Entry> entries;
  int64_t total_bytes = 0;
  DIR* directory = opendir(directory_.c_str());
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
  if (total_bytes > capacity_bytes_ - slack_bytes) {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      if (a.used.tv_sec != b.used.tv_sec) return a.used.tv_sec < b.used.tv_sec;
      if (a.used.tv_nsec != b.used.tv_nsec) return a.used.tv_nsec < b.used.tv_nsec;
      return a.name < b.name;
    });
    for (const Entry& entry : entries) {
      if (total_bytes <= capacity_bytes_ - slack_bytes) break;
      if (unlinkat(directory_fd, entry.name.c_str(), 0) == 0 || errno == ENOENT) {
        total_bytes -= entry.bytes;
      }
    }
  }
  closedir(directory);
}

}  // namespace seam::cuda
