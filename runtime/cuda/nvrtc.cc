#include "runtime/cuda/nvrtc.h"

#include <nvrtc.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ir/status.h"
#include "runtime/cuda/dynamic_library.h"

namespace seam::cuda {

// The functions of NVRTC that Seam calls, as found in the opened library.
struct NvrtcFunctions {
  decltype(&::nvrtcVersion) version = nullptr;
  decltype(&::nvrtcGetErrorString) error_string = nullptr;
  decltype(&::nvrtcGetNumSupportedArchs) arch_count = nullptr;
  decltype(&::nvrtcGetSupportedArchs) archs = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile_program = nullptr;
  decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&::nvrtcGetProgramLog) log = nullptr;
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) ptx = nullptr;
};

namespace {

absl::Status FindFunctions(const DynamicLibrary& library, NvrtcFunctions* f) {
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcVersion", &f->version));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetErrorString", &f->error_string));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetNumSupportedArchs", &f->arch_count));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetSupportedArchs", &f->archs));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcCreateProgram", &f->create_program));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcDestroyProgram", &f->destroy_program));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcCompileProgram", &f->compile_program));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetProgramLogSize", &f->log_size));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetProgramLog", &f->log));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetCUBINSize", &f->cubin_size));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetCUBIN", &f->cubin));
  SEAM_RETURN_IF_ERROR(library.Find("nvrtcGetPTXSize", &f->ptx_size));
  return library.Find("nvrtcGetPTX", &f->ptx);
}

// What the source is called inside NVRTC. One name for all: it shows in debug information.
constexpr char kFileName[] = "kernel.cu";

// One program in NVRTC, from text to result.
class Program {
 public:
  Program(const NvrtcFunctions& f, const std::string& source) : f_(f) {
    created_ = f_.create_program(&program_, source.c_str(), kFileName, 0, nullptr, nullptr);
  }
  ~Program() {
    if (created_ == NVRTC_SUCCESS) f_.destroy_program(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcResult Compile(const std::vector<std::string>& options) {
    if (created_ != NVRTC_SUCCESS) return created_;
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return f_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string Log() const { return Text(f_.log_size, f_.log); }
  std::string Ptx() const { return Text(f_.ptx_size, f_.ptx); }
  nvrtcResult Cubin(std::string* cubin) const {
    size_t bytes = 0;
    nvrtcResult result = f_.cubin_size(program_, &bytes);
    if (result != NVRTC_SUCCESS) return result;
    cubin->resize(bytes);
    return f_.cubin(program_, cubin->data());
  }

 private:
  // A text that NVRTC gives with its final zero; empty if there is none.
  std::string Text(nvrtcResult (*size)(nvrtcProgram, size_t*),
                   nvrtcResult (*get)(nvrtcProgram, char*)) const {
    size_t bytes = 0;
    if (created_ != NVRTC_SUCCESS || size(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) {
      return "";
    }
    std::string text(bytes, '\0');
    if (get(program_, text.data()) != NVRTC_SUCCESS) return "";
    text.pop_back();
    return text;
  }

  const NvrtcFunctions& f_;
  nvrtcProgram program_ = nullptr;
  nvrtcResult created_;
};

// "std" of "--std=c++17".
absl::string_view OptionKey(absl::string_view option) {
  while (absl::ConsumePrefix(&option, "-")) {
  }
  return option.substr(0, option.find('='));
}

std::vector<std::string> AllOptions(const CompileRequest& request, const std::string& arch,
                                    bool has_minimal, bool has_cache) {
  std::vector<std::string> options = {absl::StrCat("--gpu-architecture=", arch), "-default-device",
                                      "--ptxas-options=-v"};
  // Kernels that need no texture or runtime types compile some 2 ms faster without them.
  if (has_minimal) options.push_back("-minimal");
  // NVRTC's own cache gives code without the log that tells its registers; Seam has a cache itself.
  if (has_cache) options.push_back("--no-cache");
  if (request.max_registers > 0) {
    options.push_back(absl::StrCat("--maxrregcount=", request.max_registers));
  }
  // A value is rounded where it is defined, so that a fused kernel gives the bits of an unfused
  // one: no contraction unless it is asked for.
  for (const char* option : {"--std=c++17", "--fmad=false"}) {
    auto same_key = [&](const std::string& other) { return OptionKey(other) == OptionKey(option); };
    if (std::none_of(request.options.begin(), request.options.end(), same_key)) {
      options.push_back(option);
    }
  }
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

// The number before `unit` at its first place in `text`; 0 if it is not there.
int64_t NumberBefore(absl::string_view text, absl::string_view unit) {
  const size_t end = text.find(unit);
  if (end == absl::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  int64_t number = 0;
  return absl::SimpleAtoi(text.substr(begin, end - begin), &number) ? number : 0;
}

// Reads ptxas's figures for the entry kernel out of the log, which looks like
//   ptxas info    : Compiling entry function 'k' for 'sm_90a'
//   ptxas info    : Function properties for k
//   ptxas         .     400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem
// in NVRTC 12.4 and 13.0 alike. They stay unknown if the log has no such lines.
void ReadFigures(absl::string_view log, CompiledKernel* kernel) {
  size_t at = log.find(absl::StrCat("Compiling entry function '", kernel->entry, "'"));
  if (at == absl::string_view::npos) return;
  absl::string_view block = log.substr(at);
  block = block.substr(0, block.find("Compiling entry function", 1));
  at = block.find(absl::StrCat("Function properties for ", kernel->entry, "\n"));
  if (at != absl::string_view::npos) {
    const absl::string_view properties = block.substr(at);
    kernel->stack_bytes = static_cast<int>(NumberBefore(properties, " bytes stack frame"));
    kernel->spill_store_bytes = static_cast<int>(NumberBefore(properties, " bytes spill stores"));
    kernel->spill_load_bytes = static_cast<int>(NumberBefore(properties, " bytes spill loads"));
  }
  kernel->registers = static_cast<int>(NumberBefore(block, " registers"));
  kernel->static_smem_bytes = NumberBefore(block, " bytes smem");
}

// Lines line-2 .. line+2 of `text`, numbered from one, the line itself marked.
std::string LinesAround(absl::string_view text, int64_t line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  std::string out;
  for (int64_t i = std::max<int64_t>(line - 2, 1);
       i <= std::min<int64_t>(line + 2, static_cast<int64_t>(lines.size())); ++i) {
    absl::StrAppend(&out, i == line ? "  > " : "    ", i, " | ", lines[i - 1].substr(0, 200), "\n");
  }
  return out;
}

// The line that a message of the front end ("name(12): error: ...") or of ptxas ("... ptx input,
// line 26; error ...") is about; 0 if it names none.
int64_t LineOf(absl::string_view message, absl::string_view before, absl::string_view after) {
  const size_t begin = message.find(before);
  if (begin == absl::string_view::npos) return 0;
  const absl::string_view rest = message.substr(begin + before.size());
  int64_t line = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find(after)), &line) ? line : 0;
}

constexpr int kErrorsShown = 3;

// The first errors of `log` with the lines that they are about: of `source` for the front end's,
// of `ptx` for ptxas's. The whole log, shortened, where no error is recognised.
std::string DescribeErrors(absl::string_view log, absl::string_view source, absl::string_view ptx) {
  std::string out;
  int shown = 0;
  for (absl::string_view message : absl::StrSplit(log, '\n')) {
    const bool is_error = absl::StrContains(message, "error:") ||
                          absl::StrContains(message, "error   :") ||
                          absl::StrContains(message, "fatal   :");
    if (!is_error) continue;
    if (shown == kErrorsShown) {
      absl::StrAppend(&out, "(and more)\n");
      break;
    }
    ++shown;
    absl::StrAppend(&out, message.substr(0, 500), "\n");
    if (int64_t line = LineOf(message, absl::StrCat(kFileName, "("), ")"); line > 0) {
      absl::StrAppend(&out, LinesAround(source, line));
    } else if (int64_t line = LineOf(message, "ptx input, line ", ";"); line > 0 && !ptx.empty()) {
      absl::StrAppend(&out, "  in the PTX of it:\n", LinesAround(ptx, line));
    }
  }
  if (out.empty()) out = std::string(log.substr(0, 2000));
  return std::string(absl::StripTrailingAsciiWhitespace(out));
}

std::string EnvironmentOr(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::vector<std::string> LibraryCandidates() {
  const std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  std::vector<std::string> directories = {""};
  const std::string home = EnvironmentOr("CUDA_HOME", "");
  if (!home.empty()) directories.push_back(absl::StrCat(home, "/lib64/"));
  directories.push_back("/usr/local/cuda/lib64/");
  directories.push_back("/opt/cuda/lib64/");
  const std::string unpacked = EnvironmentOr("SEAM_CUDA_DIR", "");
  if (!unpacked.empty()) directories.push_back(absl::StrCat(unpacked, "/lib/"));
#ifdef SEAM_CUDA_DEPS_DIR
  directories.push_back(SEAM_CUDA_DEPS_DIR "/lib/");
#endif
  std::vector<std::string> candidates;
  for (const std::string& directory : directories) {
    for (const std::string& name : names) candidates.push_back(absl::StrCat(directory, name));
  }
  return candidates;
}

absl::StatusOr<const Nvrtc*> OpenFirst() {
  constexpr char kAdvice[] =
      "Install the CUDA toolkit (12.0 or newer) or the nvidia-cuda-nvrtc wheel, or name the "
      "library "
      "file in SEAM_NVRTC";
  if (const std::string file = EnvironmentOr("SEAM_NVRTC", ""); !file.empty()) {
    absl::StatusOr<std::unique_ptr<const Nvrtc>> opened = Nvrtc::Open(file);
    if (!opened.ok()) {
      return absl::UnavailableError(absl::StrCat("SEAM_NVRTC names a library that does not serve: ",
                                                 opened.status().message()));
    }
    return opened->release();
  }
  absl::Status first_misfit;  // Of a library that is there but cannot be used.
  for (const std::string& path : LibraryCandidates()) {
    absl::StatusOr<std::unique_ptr<const Nvrtc>> opened = Nvrtc::Open(path);
    if (opened.ok()) return opened->release();
    if (!absl::IsNotFound(opened.status()) && first_misfit.ok()) first_misfit = opened.status();
  }
  return absl::UnavailableError(absl::StrCat(
      "Kernels cannot be compiled: ",
      first_misfit.ok() ? "NVRTC (libnvrtc.so.13 or .12) was not found" : first_misfit.message(),
      ". ", kAdvice));
}

}  // namespace

Nvrtc::Nvrtc() : functions_(std::make_unique<NvrtcFunctions>()) {}
Nvrtc::~Nvrtc() = default;

absl::StatusOr<const Nvrtc*> Nvrtc::Get() {
  static const absl::StatusOr<const Nvrtc*>* const opened =
      new absl::StatusOr<const Nvrtc*>(OpenFirst());
  return *opened;
}

absl::StatusOr<std::unique_ptr<const Nvrtc>> Nvrtc::Open(const std::string& path) {
  absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open(path);
  if (!library.ok()) {
    return absl::Status(library.status().code(),
                        absl::StrCat("NVRTC could not be opened: ", library.status().message()));
  }
  std::unique_ptr<Nvrtc> nvrtc(new Nvrtc());
  NvrtcFunctions& f = *nvrtc->functions_;
  if (absl::Status found = FindFunctions(*library, &f); !found.ok()) {
    return absl::UnavailableError(
        absl::StrCat(path, " is no NVRTC of CUDA 12 or newer: ", found.message()));
  }
  int major = 0, minor = 0, arch_count = 0;
  if (f.version(&major, &minor) != NVRTC_SUCCESS || f.arch_count(&arch_count) != NVRTC_SUCCESS ||
      arch_count <= 0) {
    return absl::UnavailableError(absl::StrCat(path, " does not say what it compiles for"));
  }
  if (major < 12) {
    return absl::UnavailableError(
        absl::StrCat(path, " is NVRTC ", major, ".", minor, "; Seam needs 12.0 or newer"));
  }
  nvrtc->version_ = absl::StrCat(major, ".", minor);
  nvrtc->has_minimal_ = major > 12 || minor >= 4;
  nvrtc->has_cache_ = major >= 13;
  std::vector<int> archs(arch_count);
  f.archs(archs.data());
  for (int arch : archs) nvrtc->archs_.push_back(absl::StrCat("sm_", arch));

  nvrtc->path_ = DynamicLibrary::FileOf(reinterpret_cast<const void*>(f.version));
  struct stat file;
  const bool has_file = stat(nvrtc->path_.c_str(), &file) == 0;
  // NVRTC cannot tell its patch level, which may change the code; the size of the file does.
  nvrtc->identity_ =
      absl::StrCat(nvrtc->version_, ":", has_file ? static_cast<int64_t>(file.st_size) : 0);
  // NVRTC opens its built-ins by name when it first compiles. In the toolkit they lie beside it
  // where the loader does not look by itself; once opened, they are found by name.
  const std::string directory = nvrtc->path_.substr(0, nvrtc->path_.rfind('/') + 1);
  (void)DynamicLibrary::Open(absl::StrCat(directory, "libnvrtc-builtins.so.", nvrtc->version_));
  return nvrtc;
}

absl::Status Nvrtc::CheckArch(absl::string_view arch) const {
  absl::string_view base = arch;
  const bool is_specific = absl::ConsumeSuffix(&base, "a");
  const bool is_family = !is_specific && absl::ConsumeSuffix(&base, "f");
  const bool is_known = std::find(archs_.begin(), archs_.end(), base) != archs_.end();
  int number = 0;
  if (is_known && absl::SimpleAtoi(base.substr(3), &number) && (!is_specific || number >= 90) &&
      (!is_family || number >= 100)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "NVRTC ", version_, " does not compile for \"", arch, "\"; it knows ",
      absl::StrJoin(archs_, ", "), " (from sm_90 also with an a, from sm_100 also with an f)"));
}

absl::StatusOr<CompiledKernel> Nvrtc::Compile(const CompileRequest& request) const {
  SEAM_RETURN_IF_ERROR(CheckArch(request.arch));
  const std::string what =
      absl::StrCat("Compiling ", request.name.empty() ? kFileName : request.name);
  bool has_zero = absl::StrContains(request.source, '\0');
  for (const std::string& option : request.options) has_zero |= absl::StrContains(option, '\0');
  if (request.entry.empty() || request.max_registers < 0 || has_zero) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ",
                                                   request.entry.empty() ? "no kernel is named"
                                                   : request.max_registers < 0
                                                       ? "max_registers is negative"
                                                       : "a zero byte in the source or an option"));
  }

  const NvrtcFunctions& f = *functions_;
  const auto start = std::chrono::steady_clock::now();
  Program program(f, request.source);
  const nvrtcResult result =
      program.Compile(AllOptions(request, request.arch, has_minimal_, has_cache_));

  CompiledKernel kernel;
  kernel.log = program.Log();
  if (result == NVRTC_ERROR_INVALID_OPTION) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", absl::StripAsciiWhitespace(kernel.log)));
  }
  if (result != NVRTC_SUCCESS) {
    std::string ptx;
    if (absl::StrContains(kernel.log, "ptx input, line ")) {
      // ptxas speaks of lines of a text that NVRTC does not show: make it once more.
      Program again(f, request.source);
      const std::string virtual_arch = absl::StrCat("compute_", request.arch.substr(3));
      if (again.Compile(AllOptions(request, virtual_arch, has_minimal_, has_cache_)) ==
          NVRTC_SUCCESS) {
        ptx = again.Ptx();
      }
    }
    return absl::InternalError(absl::StrCat(what, " for ", request.arch, ": ",
                                            f.error_string(result), "\n",
                                            DescribeErrors(kernel.log, request.source, ptx)));
  }
  if (const nvrtcResult got = program.Cubin(&kernel.cubin); got != NVRTC_SUCCESS) {
    return absl::InternalError(
        absl::StrCat(what, ": no machine code came back: ", f.error_string(got)));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  kernel.compile_ms = took.count();
  kernel.entry = request.entry;
  kernel.arch = request.arch;
  // A kernel's code is a section of the cubin, named after it.
  if (!absl::StrContains(kernel.cubin,
                         absl::StrCat(".text.", request.entry, std::string(1, '\0')))) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": it has no kernel extern \"C\" ", request.entry));
  }
  ReadFigures(kernel.log, &kernel);
  return kernel;
}

}  // namespace seam::cuda
