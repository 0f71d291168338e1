// A program that knows Seam only by its installed copy: builds a graph with the C++ builder,
// compiles it, runs it where it can (GPU or simulator), and checks the numbers against its own.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/fusion_builder.h"
#include "ir/reference/host_tensor.h"
#include "ir/status.h"
#include "runtime/executable.h"

namespace {

constexpr int64_t kRows = 3, kColumns = 100;

// y = x - mean(x) over the columns, [rows, columns].
absl::StatusOr<seam::Fusion> Centered() {
  seam::FusionBuilder b("centered");
  const seam::SymInt rows = b.Symbol("M", 1, 1 << 20);
  const seam::ValId x = b.Input("x", seam::DType::F32, {rows, seam::SymInt(kColumns)});
  const seam::ValId sum = b.Reduce(seam::OpKind::Sum, x, {1});
  const seam::ValId mean = b.Div(sum, b.Constant(kColumns, seam::DType::F32));
  b.Output(b.Sub(x, b.Broadcast(mean, {1})));
  return b.Finish();
}

absl::Status Check(const seam::HostTensor& x, const seam::HostTensor& y) {
  for (int64_t i = 0; i < kRows; ++i) {
    double mean = 0;
    for (int64_t j = 0; j < kColumns; ++j) mean += x.at({i, j}).f / kColumns;
    for (int64_t j = 0; j < kColumns; ++j) {
      if (std::abs(y.at({i, j}).f - (x.at({i, j}).f - mean)) > 1e-5) {
        return absl::InternalError(absl::StrCat("wrong at [", i, ", ", j, "]"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Run() {
  SEAM_ASSIGN_OR_RETURN(seam::Fusion fusion, Centered());
  SEAM_ASSIGN_OR_RETURN(const seam::Executable executable, seam::Compile(std::move(fusion)));
  std::printf("on the %s\n", std::string(seam::BackendName(executable.backend())).c_str());
  SEAM_ASSIGN_OR_RETURN(seam::HostTensor x,
                        seam::HostTensor::Make(seam::DType::F32, {kRows, kColumns}));
  seam::FillRandom(x, 1);
  SEAM_ASSIGN_OR_RETURN(const std::vector<seam::HostTensor> outputs, executable.RunOnHost({x}));
  return Check(x, outputs[0]);
}

}  // namespace

int main() {
  const absl::Status status = Run();
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
