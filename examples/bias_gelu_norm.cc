// The README's example in C++: bias, gelu, layer norm. Builds the graph, compiles it, runs it and
// checks the result.
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ir/composites.h"
#include "ir/fusion_builder.h"
#include "ir/reference/envelope.h"
#include "ir/status.h"
#include "runtime/executable.h"

namespace {

using namespace seam;

absl::StatusOr<Fusion> BiasGeluNorm() {
  FusionBuilder b("bias_gelu_norm");
  const SymInt rows = b.Symbol("M", 1, 1 << 20);
  const SymInt columns = b.Symbol("N", 1, 1 << 16);
  const ValId x = b.Input("x", DType::BF16, {rows, columns});
  const ValId bias = b.Input("bias", DType::F32, {columns});
  const ValId weight = b.Input("weight", DType::F32, {columns});

  // The builder promotes no types and adds no axes: both are written down.
  const ValId h = Gelu(b, b.Add(b.Cast(x, DType::F32), b.Broadcast(bias, {0})), GeluKind::Erf);
  const NormResult norm = LayerNorm(b, h, {1}, weight, /*bias=*/ValId(), /*eps=*/1e-5);
  b.Output(b.Cast(norm.y, DType::BF16));
  return b.Finish();  // Or the first error of all the calls above.
}

absl::Status Run() {
  SEAM_ASSIGN_OR_RETURN(Fusion fusion, BiasGeluNorm());
  SEAM_ASSIGN_OR_RETURN(const Executable executable, Compile(std::move(fusion)));

  // One Executable serves all sizes; new ones may have it compile more kernels.
  for (const int64_t columns : {1024, 4099}) {
    SEAM_ASSIGN_OR_RETURN(HostTensor x, HostTensor::Make(DType::BF16, {8, columns}));
    SEAM_ASSIGN_OR_RETURN(HostTensor bias, HostTensor::Make(DType::F32, {columns}));
    SEAM_ASSIGN_OR_RETURN(HostTensor weight, HostTensor::Make(DType::F32, {columns}));
    FillRandom(x, 1);
    FillRandom(bias, 2);
    FillRandom(weight, 3);
    const std::vector<HostTensor> inputs = {x, bias, weight};
    SEAM_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs, executable.RunOnHost(inputs));

    // What a correct backend may give for these inputs, by the reference interpreter.
    SEAM_ASSIGN_OR_RETURN(const std::vector<Envelope> ranges,
                          MakeEnvelopes(executable.fusion(), {}, inputs));
    SEAM_RETURN_IF_ERROR(CheckWithin(ranges[0], outputs[0]));
    std::printf("%s on the %s: right\n", outputs[0].ShapeString().c_str(),
                std::string(BackendName(executable.backend())).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
