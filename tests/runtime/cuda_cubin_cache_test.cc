// The cache of compiled kernels against damaged, foreign and contended files, and full disks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/cuda/cubin_cache.h"

namespace seam::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::ExitedWithCode;

// An empty directory that goes away with the test.
class CubinCacheTest : public ::testing::Test {
 protected:
  CubinCacheTest() {
    std::string path = ::testing::TempDir() + "/seam_cubin_cache_XXXXXX";
    const char* made = mkdtemp(path.data());
    root_ = made != nullptr ? made : "";
    EXPECT_FALSE(root_.empty());
  }
  ~CubinCacheTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  std::string Path(const CubinKey& key) const { return root_ + "/" + key.Hex() + ".cubin"; }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::string root_;
};

constexpr int64_t kPlenty = 1 << 30;
constexpr CubinKey kKey = {0x0123456789abcdef, 0x1};

CompiledKernel Example(std::string cubin = "machine code") {
  CompiledKernel kernel;
  kernel.cubin = std::move(cubin);
  kernel.entry = "k";
  kernel.arch = "sm_90a";
  kernel.registers = 32;
  kernel.spill_store_bytes = 4;
  kernel.spill_load_bytes = 8;
  kernel.stack_bytes = 16;
  kernel.static_smem_bytes = 1024;
  kernel.compile_ms = 51.5;
  kernel.log = "a warning";
  return kernel;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(CubinCacheTest, GivesBackWhatWasStored) {
  CubinCache cache(root_ + "/deeper/still", kPlenty);
  EXPECT_FALSE(cache.Find(kKey).has_value());
  CompiledKernel kernel =
      Example(std::string("\0\x7f"
                          "ELF\0",
                          6));
  cache.Store(kKey, kernel);
  // Another process would be another object.
  const std::optional<CompiledKernel> found =
      CubinCache(root_ + "/deeper/still", kPlenty).Find(kKey);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->cubin, kernel.cubin);
  EXPECT_EQ(found->entry, kernel.entry);
  EXPECT_EQ(found->arch, kernel.arch);
  EXPECT_EQ(found->registers, kernel.registers);
  EXPECT_EQ(found->spill_store_bytes, kernel.spill_store_bytes);
  EXPECT_EQ(found->spill_load_bytes, kernel.spill_load_bytes);
  EXPECT_EQ(found->stack_bytes, kernel.stack_bytes);
  EXPECT_EQ(found->static_smem_bytes, kernel.static_smem_bytes);
  EXPECT_EQ(found->compile_ms, kernel.compile_ms);
  EXPECT_EQ(found->log, kernel.log);
  EXPECT_TRUE(found->from_cache);
  EXPECT_EQ(cache.warning(), "");
}

TEST_F(CubinCacheTest, KeepsEmptyTextsAndReplaces) {
  CubinCache cache(root_, kPlenty);
  cache.Store(kKey, CompiledKernel());
  ASSERT_TRUE(cache.Find(kKey).has_value());
  EXPECT_EQ(cache.Find(kKey)->cubin, "");
  cache.Store(kKey, Example());
  EXPECT_EQ(cache.Find(kKey)->cubin, "machine code");
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(CubinCacheTest, IgnoresFilesCutOffAnywhere) {
  CubinCache cache(root_, kPlenty);
  cache.Store(kKey, Example());
  const std::string whole = ReadFile(Path(kKey));
  for (size_t length = 0; length < whole.size(); ++length) {
    WriteFile(Path(kKey), whole.substr(0, length));
    EXPECT_FALSE(cache.Find(kKey).has_value()) << length;
  }
  WriteFile(Path(kKey), whole + "x");
  EXPECT_FALSE(cache.Find(kKey).has_value());
  WriteFile(Path(kKey), whole);
  EXPECT_TRUE(cache.Find(kKey).has_value());
}

TEST_F(CubinCacheTest, IgnoresFilesWithAnyBitFlipped) {
  CubinCache cache(root_, kPlenty);
  cache.Store(kKey, Example());
  const std::string whole = ReadFile(Path(kKey));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string altered = whole;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(Path(kKey), altered);
    EXPECT_FALSE(cache.Find(kKey).has_value()) << bit;
  }
  cache.Store(kKey, Example());
  EXPECT_TRUE(cache.Find(kKey).has_value()) << "an altered file is overwritten";
}

TEST_F(CubinCacheTest, IgnoresAFileOfAnotherKey) {
  CubinCache cache(root_, kPlenty);
  cache.Store(kKey, Example());
  for (const CubinKey& other :
       {CubinKey{kKey.high, kKey.low + 1}, CubinKey{kKey.low, kKey.high}, CubinKey{}}) {
    fs::copy_file(Path(kKey), Path(other));
    EXPECT_FALSE(cache.Find(other).has_value());
  }
}

TEST_F(CubinCacheTest, SurvivesWhateverLiesInItsPlace) {
  CubinCache cache(root_, kPlenty);
  ASSERT_EQ(mkfifo(Path(kKey).c_str(), 0600), 0);
  EXPECT_FALSE(cache.Find(kKey).has_value()) << "and does not wait for a writer";
  cache.Store(kKey, Example());
  EXPECT_TRUE(cache.Find(kKey).has_value());

  const CubinKey huge = {2, 2};
  WriteFile(Path(huge), "");
  ASSERT_EQ(truncate(Path(huge).c_str(), off_t{1} << 40), 0);
  EXPECT_FALSE(cache.Find(huge).has_value());
  EXPECT_EQ(cache.warning(), "");

  const CubinKey directory = {3, 3};
  fs::create_directories(Path(directory) + "/inside");
  EXPECT_FALSE(cache.Find(directory).has_value());
  cache.Store(directory, Example());
  EXPECT_FALSE(cache.Find(directory).has_value());
  EXPECT_TRUE(absl::StrContains(cache.warning(), root_)) << cache.warning();
}

// Root may write anywhere, but not below a file.
TEST_F(CubinCacheTest, WarnsOnceWhereItCannotWrite) {
  WriteFile(root_ + "/file", "");
  CubinCache cache(root_ + "/file/cache", kPlenty);
  cache.Store(kKey, Example());
  EXPECT_FALSE(cache.Find(kKey).has_value());
  const std::string warning = cache.warning();
  EXPECT_TRUE(absl::StrContains(warning, root_ + "/file/cache: Not a directory.")) << warning;
  cache.Store(kKey, Example());
  EXPECT_EQ(cache.warning(), warning);

  CubinCache proc("/proc/seam", kPlenty);
  proc.Store(kKey, Example());
  EXPECT_FALSE(proc.warning().empty());
}

TEST_F(CubinCacheTest, KeepsNothingWithoutADirectory) {
  CubinCache cache("", kPlenty);
  cache.Store(kKey, Example());
  EXPECT_FALSE(cache.Find(kKey).has_value());
  EXPECT_EQ(cache.warning(), "");
}

// A limit on the size of files fails writes midway, as a full disk does, and raises a signal.
TEST_F(CubinCacheTest, AFailedWriteLeavesNothing) {
  const auto child = [this] {
    const rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    CubinCache cache(root_, kPlenty);
    cache.Store(kKey, Example(std::string(100000, 'x')));
    if (cache.Find(kKey).has_value()) return 1;
    if (!absl::StrContains(cache.warning(), "File too large")) return 2;
    cache.Store({4, 4}, Example());
    if (!cache.Find({4, 4}).has_value()) return 3;
    if (Files().size() != 1) return 4;
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGXFSZ) ? 5 : 0;
  };
  EXPECT_EXIT(std::exit(child()), ExitedWithCode(0), "");
}

TEST_F(CubinCacheTest, DeletesWhatWasUnusedForLongest) {
  const std::string megabyte(1 << 20, 'x');
  CubinCache cache(root_, 8 << 20);
  for (uint64_t i = 0; i < 6; ++i) {
    cache.Store({i, i}, Example(megabyte));
    const timespec times[2] = {{static_cast<time_t>(1000 + i), 0},
                               {static_cast<time_t>(1000 + i), 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, Path({i, i}).c_str(), times, 0), 0);
  }
  EXPECT_TRUE(cache.Find({0, 0}).has_value());  // Used now, so younger than the others.
  for (uint64_t i = 6; i < 9; ++i) cache.Store({i, i}, Example(megabyte));
  std::set<uint64_t> kept;
  int64_t total_bytes = 0;
  for (uint64_t i = 0; i < 9; ++i) {
    if (!fs::exists(Path({i, i}))) continue;
    kept.insert(i);
    total_bytes += fs::file_size(Path({i, i}));
  }
  EXPECT_LE(total_bytes, 8 << 20);
  EXPECT_EQ(kept, (std::set<uint64_t>{0, 3, 4, 5, 6, 7, 8}));
}

TEST_F(CubinCacheTest, DeletesOnlyItsOwnFiles) {
  const std::string hex(32, 'a');
  const std::vector<std::string> foreign = {
      "notes.txt", hex, hex + ".cubin.orig", hex + "b.cubin", std::string(32, 'A') + ".cubin",
      ".cubin"};
  for (const std::string& name : foreign) WriteFile(root_ + "/" + name, std::string(4096, 'x'));
  fs::create_directory(root_ + "/" + std::string(32, 'd') + ".cubin");
  const std::string stale = root_ + "/" + hex + ".cubin.AbCd12";
  const std::string fresh = root_ + "/" + hex + ".cubin.AbCd13";
  for (const std::string& path : {stale, fresh}) WriteFile(path, "half");
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, stale.c_str(), old, 0), 0);

  CubinCache cache(root_, 1000);
  for (uint64_t i = 0; i < 50; ++i) cache.Store({i, i}, Example());
  for (const std::string& name : foreign) EXPECT_TRUE(fs::exists(root_ + "/" + name)) << name;
  EXPECT_TRUE(fs::exists(root_ + "/" + std::string(32, 'd') + ".cubin"));
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(fresh)) << "another process may be writing it";
  EXPECT_TRUE(fs::exists(Path({49, 49})));
  EXPECT_FALSE(fs::exists(Path({0, 0})));
}

TEST_F(CubinCacheTest, DoesNotStoreMoreThanItsCapacity) {
  CubinCache cache(root_, 1000);
  cache.Store(kKey, Example(std::string(2000, 'x')));
  EXPECT_FALSE(cache.Find(kKey).has_value());
  EXPECT_EQ(cache.warning(), "");
}

// Writers, readers and evictions of several processes and threads on few keys: whatever is found
// is whole and belongs to its key.
TEST_F(CubinCacheTest, IsSafeAmongThreadsAndProcesses) {
  auto content = [](uint64_t k) { return std::string(2000 + k, static_cast<char>('a' + k)); };
  auto run = [&](unsigned seed) {
    CubinCache cache(root_, 12 << 10);
    bool ok = true;
    auto work = [&](unsigned thread_seed) {
      unsigned state = thread_seed;
      for (int i = 0; i < 300; ++i) {
        const uint64_t k = rand_r(&state) % 8;
        if (rand_r(&state) % 2 == 0) {
          cache.Store({k, k}, Example(content(k)));
        } else if (const auto found = cache.Find({k, k}); found.has_value()) {
          if (found->cubin != content(k)) ok = false;
        }
      }
    };
    std::thread other(work, seed * 2 + 1);
    work(seed * 2);
    other.join();
    return ok && cache.warning().empty();
  };
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(run(i + 1) ? 0 : 1);
    children.push_back(child);
  }
  EXPECT_TRUE(run(0));
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (const std::string& name : Files()) EXPECT_EQ(name.size(), 38u) << name << " was left behind";
}

TEST(CubinKey, CountsAllThatChangesTheBinary) {
  CompileRequest request;
  request.source = "source";
  request.arch = "sm_90a";
  request.entry = "k";
  request.options = {"a", "b"};
  std::vector<CompileRequest> others(8, request);
  others[0].source = "source ";
  others[1].arch = "sm_90";
  others[2].entry = "kk";
  others[3].options = {"ab"};
  others[4].options = {"b", "a"};
  others[5].options = {};
  others[6].max_registers = 32;
  others[7].arch = "sm_90ak";
  others[7].entry = "";
  std::set<std::string> keys = {MakeCubinKey(request, "13.0:1").Hex(),
                                MakeCubinKey(request, "13.0:2").Hex()};
  for (const CompileRequest& other : others) keys.insert(MakeCubinKey(other, "13.0:1").Hex());
  EXPECT_EQ(keys.size(), 10u);
  for (const std::string& key : keys) EXPECT_EQ(key.size(), 32u);

  CompileRequest renamed = request;
  renamed.name = "renamed";
  EXPECT_EQ(MakeCubinKey(renamed, "13.0:1"), MakeCubinKey(request, "13.0:1"));
  // On disk the key is a name for years: if this changes, change the format's version.
  EXPECT_EQ(CubinKey({0xab, 1}).Hex(), "00000000000000ab0000000000000001");
}

// Sets environment variables for one test; null unsets.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    had_ = before != nullptr;
    if (had_) before_ = before;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~ScopedVariable() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  bool had_;
  std::string before_;
};

TEST(CubinCacheEnvironment, SaysWhereTheCacheIs) {
  ScopedVariable directory("SEAM_CACHE_DIR", nullptr), cache_home("XDG_CACHE_HOME", nullptr),
      home("HOME", nullptr), megabytes("SEAM_CACHE_MB", nullptr);
  EXPECT_EQ(CubinCache::FromEnvironment()->directory(), "");
  EXPECT_TRUE(absl::StrContains(CubinCache::FromEnvironment()->warning(), "SEAM_CACHE_DIR"));
  setenv("HOME", "/h", 1);
  EXPECT_EQ(CubinCache::FromEnvironment()->directory(), "/h/.cache/seam");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(CubinCache::FromEnvironment()->directory(), "/x/seam");
  setenv("SEAM_CACHE_DIR", "/s", 1);
  EXPECT_EQ(CubinCache::FromEnvironment()->directory(), "/s");
  EXPECT_EQ(CubinCache::FromEnvironment()->warning(), "");
  setenv("SEAM_CACHE_DIR", "off", 1);
  EXPECT_EQ(CubinCache::FromEnvironment()->directory(), "");
  EXPECT_EQ(CubinCache::FromEnvironment()->warning(), "");
}

TEST_F(CubinCacheTest, TakesItsCapacityFromTheEnvironment) {
  ScopedVariable directory("SEAM_CACHE_DIR", root_.c_str());
  const CompiledKernel two_megabytes = Example(std::string(2 << 20, 'x'));
  auto keeps = [&](const char* megabytes) {
    ScopedVariable capacity("SEAM_CACHE_MB", megabytes);
    std::unique_ptr<CubinCache> cache = CubinCache::FromEnvironment();
    std::error_code ignored;
    fs::remove(Path(kKey), ignored);
    cache->Store(kKey, two_megabytes);
    return std::make_pair(cache->Find(kKey).has_value(), cache->warning().empty());
  };
  EXPECT_EQ(keeps(nullptr), std::make_pair(true, true));
  EXPECT_EQ(keeps("3"), std::make_pair(true, true));
  EXPECT_EQ(keeps("1"), std::make_pair(false, true));
  EXPECT_EQ(keeps("0"), std::make_pair(false, true));
  EXPECT_EQ(keeps("9223372036854775807"), std::make_pair(true, true));
  EXPECT_EQ(keeps("-1"), std::make_pair(true, false));
  EXPECT_EQ(keeps("much"), std::make_pair(true, false));
}

}  // namespace
}  // namespace seam::cuda
