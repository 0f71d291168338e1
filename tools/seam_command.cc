#include "tools/seam_command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "CLI/CLI.hpp"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ir/fusion_builder.h"
#include "ir/symbolic/sym_program.h"
#include "ir/text/parser.h"

namespace seam::tool {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".seam";

// Where the examples lie: in the source tree that this program was built from, or beside an
// installed one.
std::vector<fs::path> ExampleDirectories() {
  std::vector<fs::path> directories = {SEAM_EXAMPLES_DIR};
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) directories.push_back(program.parent_path().parent_path() / "share/seam/examples");
  return directories;
}

std::vector<std::string> ExampleNames() {
  std::vector<std::string> names;
  for (const fs::path& directory : ExampleDirectories()) {
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().extension() == kSuffix) names.push_back(it->path().stem().string());
    }
    if (!names.empty()) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsTerminal(int fd) { return isatty(fd) == 1; }

bool progress_shown = false;

void EraseProgress() {
  if (progress_shown) std::fprintf(stderr, "\r\x1b[K");
  progress_shown = false;
}

}  // namespace

int Fail(ExitCode code, absl::string_view message) {
  EraseProgress();
  std::fflush(stdout);
  std::fprintf(stderr, "seam: %.*s\n", static_cast<int>(message.size()), message.data());
  return code;
}

void Warn(absl::string_view message) {
  EraseProgress();
  std::fflush(stdout);
  std::fprintf(stderr, "seam: warning: %.*s\n", static_cast<int>(message.size()), message.data());
}

int Fail(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
      return Fail(kEnvironmentLacks, status.message());
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
      return Fail(kBadGraph, status.message());
    case absl::StatusCode::kUnimplemented:
      return Fail(kCheckFailed, absl::StrCat("not built yet: ", status.message()));
    default:
      return Fail(kCheckFailed, status.message());
  }
}

void AddGraphArgument(CLI::App& app, std::string* graph) {
  app.add_option("graph", *graph,
                 "A graph in text: a file, - for standard input, or the name of an example")
      ->required()
      ->type_name("");
}

void AddSetOption(CLI::App& app, std::vector<std::string>* settings, absl::string_view otherwise) {
  app.add_option(
         "--set", *settings,
         absl::StrCat("Sizes of symbols: NAME=INTEGER, several with commas between. ", otherwise))
      ->type_name("M=4096,N=1000");
}

void AddOutputOption(CLI::App& app, std::string* path) {
  app.add_option("-o,--output", *path, "Write to this file instead of standard output")
      ->check(CheckNamed)
      ->type_name("FILE");
}

std::string CheckNamed(const std::string& path) {
  return path.empty() ? "expected the name of a file or folder" : "";
}

std::function<std::string(const std::string&)> IntegerFrom(int64_t least, int64_t most) {
  return [=](const std::string& text) {
    int64_t value = 0;
    const bool is_one = absl::SimpleAtoi(text, &value) && value >= least && value <= most;
    return is_one
               ? std::string()
               : absl::StrCat("found '", text, "', expected an integer from ", least, " to ", most);
  };
}

absl::StatusOr<Fusion> LoadGraph(const std::string& name) {
  std::error_code error;
  const bool is_name = name.find_first_of("/.") == std::string::npos && name != "-";
  if (is_name && !fs::exists(name, error)) {
    for (const fs::path& directory : ExampleDirectories()) {
      const fs::path path = directory / (name + kSuffix);
      if (fs::exists(path, error)) return LoadFusion(path.string());
    }
    const std::vector<std::string> names = ExampleNames();
    return absl::NotFoundError(
        absl::StrCat("there is no file and no example '", name, "'; the examples are ",
                     names.empty() ? "not here" : absl::StrJoin(names, ", ")));
  }
  absl::StatusOr<Fusion> fusion = LoadFusion(name);
  if (!fusion.ok() && !absl::IsInvalidArgument(fusion.status()))
    return absl::NotFoundError(fusion.status().message());
  return fusion;
}

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  const auto failed = [&] {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  };
  if (file == nullptr) return failed();
  std::string content;
  char buffer[1 << 16];
  const auto most = static_cast<size_t>(kMaxTextBytes);
  while (content.size() <= most) {
    const size_t n = std::fread(buffer, 1, sizeof(buffer), file);
    if (n == 0) break;
    content.append(buffer, n);
  }
  absl::Status status = std::ferror(file) != 0 ? failed() : absl::OkStatus();
  if (content.size() > most)
    status = absl::InvalidArgumentError(absl::StrCat(path, " is longer than ", most, " bytes"));
  if (file != stdin) std::fclose(file);
  if (!status.ok()) return status;
  return content;
}

int ParseSizes(const Fusion& fusion, const std::vector<std::string>& settings, Sizes* sizes) {
  for (const std::string& setting : settings) {
    for (absl::string_view item : absl::StrSplit(setting, ',')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(item, absl::MaxSplits('=', 1));
      const std::string name(absl::StripAsciiWhitespace(parts.first));
      int64_t value = 0;
      if (name.empty() || !absl::SimpleAtoi(parts.second, &value)) {
        // It takes all arguments up to the next option.
        const bool is_other = !absl::StrContains(item, '=') && settings.size() > 1;
        return Fail(kWrongUsage,
                    absl::StrCat("--set: found '", item,
                                 "', expected NAME=INTEGER, as in --set M=4096,N=1000",
                                 is_other ? "; what is no size goes in front of --set" : ""));
      }
      const SymNode* symbol = nullptr;
      std::vector<std::string> known;
      for (const SymNode* s : fusion.env().symbols()) {
        known.emplace_back(s->name);
        if (s->name == name) symbol = s;
      }
      if (symbol == nullptr) {
        return Fail(
            kWrongUsage,
            absl::StrCat("--set: ", std::string(fusion.name()), " has no symbol '", name, "'; ",
                         known.empty()
                             ? "it has none"
                             : absl::StrCat("its symbols are ", absl::StrJoin(known, ", "))));
      }
      if (value < symbol->range.lo || value > symbol->range.hi) {
        return Fail(kWrongUsage,
                    absl::StrCat("--set: ", name, " = ", value, " is outside its range [",
                                 symbol->range.lo, ", ", symbol->range.hi, "]"));
      }
      if (!sizes->emplace(name, value).second) {
        return Fail(kWrongUsage, absl::StrCat("--set: ", name, " is set twice"));
      }
    }
  }
  return kGood;
}

namespace {

const SymNode* AsSymbol(SymInt e) {
  return e.node() != nullptr && e.node()->kind == SymKind::Symbol ? e.node() : nullptr;
}

// What the caller hands over: inputs and outputs.
std::vector<ValId> TensorsOf(const Fusion& fusion) {
  std::vector<ValId> tensors(fusion.inputs().begin(), fusion.inputs().end());
  tensors.insert(tensors.end(), fusion.outputs().begin(), fusion.outputs().end());
  return tensors;
}

// The symbols without a size that are strides of inputs or outputs and nothing else.
absl::flat_hash_set<const SymNode*> StrideSymbols(const Fusion& fusion, const Sizes& sizes) {
  absl::flat_hash_set<const SymNode*> symbols;
  for (ValId v : TensorsOf(fusion)) {
    if (!fusion.has_explicit_strides(v)) continue;
    for (SymInt stride : fusion.strides(v)) {
      const SymNode* s = AsSymbol(stride);
      if (s != nullptr && !sizes.contains(std::string(s->name))) symbols.insert(s);
    }
  }
  for (uint32_t v = 0; v < fusion.num_vals() && !symbols.empty(); ++v) {
    for (const IterDomain& axis : fusion.domain(ValId(v))) {
      for (const SymNode* s : FreeSymbols(axis.extent)) symbols.erase(s);
    }
  }
  return symbols;
}

}  // namespace

void FillSizes(const Fusion& fusion, const std::function<int64_t(int)>& otherwise, Sizes* sizes) {
  const absl::flat_hash_set<const SymNode*> strides = StrideSymbols(fusion, *sizes);
  int position = 0;
  for (const SymNode* s : fusion.env().symbols()) {
    const int64_t value = std::clamp(otherwise(position++), s->range.lo, s->range.hi);
    if (!strides.contains(s)) sizes->emplace(std::string(s->name), value);
  }
  // Each larger than all offsets along the axes before it, first those whose strides are known,
  // then from the last: without gaps, and no two elements in one place.
  const auto value = [&](SymInt e) {
    return Evaluate(e, [&](const SymNode* s) -> std::optional<int64_t> {
      const auto it = sizes->find(std::string(s->name));
      return it == sizes->end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
  };
  Sizes chosen;
  for (ValId v : TensorsOf(fusion)) {
    if (!fusion.has_explicit_strides(v)) continue;
    int64_t reach = 0;  // The largest offset so far.
    for (const bool known : {true, false}) {
      for (int axis = fusion.rank(v); axis-- > 0;) {
        const SymInt stride = fusion.strides(v)[axis];
        const SymNode* s = AsSymbol(stride);
        if (strides.contains(s) == known) continue;
        const int64_t step = known ? value(stride).value_or(0) : reach + 1;
        if (!known) {
          int64_t& size = chosen[std::string(s->name)];
          size = std::max(size, std::clamp(step, s->range.lo, s->range.hi));
        }
        const int64_t extent = value(fusion.domain(v)[axis].extent).value_or(1);
        const __int128 last =
            reach + static_cast<__int128>(step) * std::max<int64_t>(extent - 1, 0);
        reach = static_cast<int64_t>(std::min<__int128>(last, kMaxExtent));
      }
    }
  }
  sizes->insert(chosen.begin(), chosen.end());
}

std::vector<SymbolValue> SymbolsOf(const Sizes& sizes) {
  std::vector<SymbolValue> symbols;
  for (const auto& [name, value] : sizes) symbols.push_back({name, value});
  return symbols;
}

namespace {

// 0 or errno.
int WriteAndClose(std::FILE* file, absl::string_view content) {
  if (file == nullptr) return errno;
  int error = std::fwrite(content.data(), 1, content.size(), file) == content.size() ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  return error;
}

// Under a name of its own beside `path` until it is whole: what cannot be written, on a full disk,
// leaves the old file, which may be the input, as it is. What is no plain file (a link such as
// /dev/stdout, a device, a pipe) is written where it is, and so is a file in a folder that takes no
// other. 0 or errno.
int WriteFile(const std::string& path, absl::string_view content) {
  struct stat old;
  const bool is_new = lstat(path.c_str(), &old) != 0;
  std::string temporary = (fs::path(path).parent_path() / ".seam-XXXXXX").string();
  if (is_new ? errno != ENOENT : !S_ISREG(old.st_mode) || access(path.c_str(), W_OK) != 0)
    return WriteAndClose(std::fopen(path.c_str(), "wb"), content);
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0 && (errno == EACCES || errno == EPERM))
    return WriteAndClose(std::fopen(path.c_str(), "wb"), content);
  if (fd < 0) return errno;
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(fd, is_new ? 0666 & ~mask : old.st_mode & 07777);
  int error = WriteAndClose(fdopen(fd, "wb"), content);
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

}  // namespace

absl::Status WriteOutput(const std::string& path, absl::string_view content) {
  const auto failed = [&](absl::string_view what, int error) {
    return absl::UnavailableError(absl::StrCat("cannot write ", what, ": ", std::strerror(error)));
  };
  EraseProgress();
  if (path.empty()) {
    if (std::fwrite(content.data(), 1, content.size(), stdout) != content.size() ||
        std::fflush(stdout) != 0) {
      return failed("standard output", errno);
    }
    return absl::OkStatus();
  }
  const int error = WriteFile(path, content);
  return error == 0 ? absl::OkStatus() : failed(path, error);
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot make the folder ", path, ": ", error.message()));
  return absl::OkStatus();
}

bool IsColoured() {
  static const bool enabled = IsTerminal(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
  return enabled;
}

std::string Coloured(Colour colour, absl::string_view text) {
  if (!IsColoured()) return std::string(text);
  static constexpr const char* kCodes[] = {"\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[2m"};
  return absl::StrCat(kCodes[static_cast<int>(colour)], text, "\x1b[0m");
}

void ShowProgress(absl::string_view text) {
  static const bool enabled = IsTerminal(STDERR_FILENO);
  if (!enabled) return;
  std::fprintf(stderr, "\r\x1b[K%.*s", static_cast<int>(std::min<size_t>(text.size(), 78)),
               text.data());
  std::fflush(stderr);
  progress_shown = true;
}

}  // namespace seam::tool
