// CUDA C++ text to machine code, by NVRTC, which is opened at run time: a program that links Seam
// starts without it, and learns from Get() what is missing. Needs no GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace seam::cuda {

struct CompileRequest {
  std::string name;    // In messages; changes nothing in the result, so equal sources share one.
  std::string source;  // CUDA C++. Functions without a target are device functions.
  std::string arch;    // "sm_90a"
  // NVRTC's options, in `--key=value` form. They replace the defaults (--std=c++17,
  // --fmad=false) of the same key.
  std::vector<std::string> options;
  std::string entry;      // Name of the extern "C" kernel.
  int max_registers = 0;  // Limit per thread; 0: none.
};

struct CompiledKernel {
  std::string cubin;
  std::string entry;
  std::string arch;
  // Per thread, of the entry kernel, as ptxas reports them. registers is -1, and the others say
  // nothing, if an NVRTC unknown to Seam reports them in another form.
  int registers = -1;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int64_t static_smem_bytes = 0;  // Per block, without what the system reserves.
  double compile_ms = 0;          // What compiling took, also when this came from the cache.
  bool from_cache = false;
  std::string log;  // All that the compiler said: warnings, ptxas's figures.
};

struct NvrtcFunctions;

// One opened NVRTC library. Immutable, thread-safe; lives until the process ends.
class Nvrtc {
 public:
  // The library of this process, opened by the first call. Looked for in this order: the file
  // that SEAM_NVRTC names (nothing else is tried if it is set); the loader's path;
  // $CUDA_HOME/lib64; /usr/local/cuda/lib64, then /opt/cuda/lib64; $SEAM_CUDA_DIR/lib;
  // .deps/cuda/lib of the source tree Seam was built in. Error: kUnavailable, with what to do about
  // it.
  static absl::StatusOr<const Nvrtc*> Get();

  // Opens the library at `path`. For programs and tests that choose it themselves.
  static absl::StatusOr<std::unique_ptr<const Nvrtc>> Open(const std::string& path);

  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  const std::string& version() const { return version_; }  // "13.0"
  const std::string& path() const { return path_; }
  // Version and build: two libraries with equal identities compile to the same code.
  const std::string& identity() const { return identity_; }
  // The architectures it compiles for, without the variants ("sm_90" stands for "sm_90a" as well).
  const std::vector<std::string>& archs() const { return archs_; }

  // OK if this library compiles for `arch`: "sm_90", from compute capability 9.0 also "sm_90a",
  // and from 10.0 also "sm_100f". Error: kInvalidArgument, listing those that it knows.
  absl::Status CheckArch(absl::string_view arch) const;

  // Compiles one kernel; some 60 ms for a small one, and calls run in parallel. Errors:
  // kInvalidArgument (architecture, option, no kernel named `entry`), kInternal (the source does
  // not compile: the first errors, each with the lines of source around it).
  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request) const;

 private:
  Nvrtc();

  std::unique_ptr<NvrtcFunctions> functions_;
  std::string version_;
  std::string path_;
  std::string identity_;
  std::vector<std::string> archs_;
  bool has_cache_ = false;    // Takes --no-cache.
  bool has_minimal_ = false;  // The option -minimal is known: from 12.4 on.
};

}  // namespace seam::cuda
