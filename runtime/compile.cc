// Compile: from a Fusion to an Executable.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/verify.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/executable_impl.h"
#include "runtime/segment_program.h"

namespace seam {

namespace {

absl::Status CheckNumbers(const CompileOptions& options) {
  const auto error = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("CompileOptions::", parts...));
  };
  if (options.backend > BackendKind::kAuto)
    return error("backend: found ", static_cast<int>(options.backend), ", which is none");
  if (options.narrow_edges > Narrowing::kBF16)
    return error("narrow_edges: found ", static_cast<int>(options.narrow_edges), ", which is none");
  if (options.threads < 0) return error("threads: found ", options.threads, ", expected 0 or more");
  if (options.ordinal < 0) return error("ordinal: found ", options.ordinal, ", expected 0 or more");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Executable> Compile(Fusion fusion, const CompileOptions& options) {
  SEAM_RETURN_IF_ERROR(Verify(fusion));
  const auto whole = std::make_shared<const Fusion>(std::move(fusion));
  // Complains about hints that the graph does not know before anything is built.
  SEAM_ASSIGN_OR_RETURN(const SizeBinding hints, BindGiven(*whole, options.size_hints));
  SEAM_RETURN_IF_ERROR(CheckNumbers(options));
  BackendKind kind = options.backend;
  if (kind == BackendKind::kAuto) {
    const bool gpu = cuda::Nvrtc::Get().ok() && (!options.load || cuda::Driver::Get().ok());
    kind = gpu ? BackendKind::kCuda : BackendKind::kSimulator;
  }
  SEAM_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, kind == BackendKind::kCuda
                                                              ? MakeCudaBackend(options)
                                                              : MakeHostBackend(options));
  Program program;
  if (kind == BackendKind::kReference) {
    program = WholeProgram(whole);
  } else {
    SEAM_ASSIGN_OR_RETURN(program, SegmentProgram(*whole, options));
  }
  std::shared_ptr<TunedSchedules> tuned;
  const bool use_tuned = options.use_tuned && kind != BackendKind::kReference;
  if (use_tuned && options.tuned != nullptr) {
    tuned =
        std::shared_ptr<TunedSchedules>(options.tuned, [](TunedSchedules*) {});  // The caller's.
  } else if (use_tuned) {
    tuned = TunedSchedules::FromEnvironment();
  }
  Executable executable(std::make_unique<Executable::Impl>(
      whole, kind, std::move(backend), std::move(program), std::move(tuned), options.any_order));
  bool complete = true;
  for (const std::optional<int64_t>& value : hints.values) complete &= value.has_value();
  if (complete && kind != BackendKind::kReference) {
    SEAM_RETURN_IF_ERROR(executable.CompileFor(options.size_hints).status());
  }
  return executable;
}

}  // namespace seam
