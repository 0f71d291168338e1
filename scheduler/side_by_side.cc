#include "scheduler/side_by_side.h"

#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/status.h"

namespace seam {

size_t ParameterBytes(const KernelLaunch& launch, kernel::Parameters parameters) {
  const size_t own = parameters == kernel::Parameters::kOwn ? launch.arguments.size() : 0;
  return (launch.buffers.size() + own + 1) * sizeof(int64_t);  // And where its CTAs end.
}

absl::StatusOr<KernelLaunch> SideBySide(const Fusion& group, std::string name,
                                        std::vector<KernelLaunch> launches,
                                        kernel::Parameters parameters) {
  if (launches.size() == 1) {
    launches[0].kernel.name = std::move(name);
    return std::move(launches[0]);
  }
  KernelLaunch joined;
  std::vector<kernel::Kernel> kernels;
  SymInt end = 0;
  for (KernelLaunch& launch : launches) {
    absl::c_copy(launch.buffers, std::back_inserter(joined.buffers));
    SymImporter values(group.shared_env().get());
    for (size_t i = 0; i < launch.arguments.size(); ++i)
      values.Map(launch.kernel.parameters[i].node(), launch.arguments[i]);
    if (parameters == kernel::Parameters::kOwn || kernels.empty())
      absl::c_copy(launch.arguments, std::back_inserter(joined.arguments));
    end = end + values.Import(launch.kernel.grid_x);
    joined.arguments.push_back(end);
    kernels.push_back(std::move(launch.kernel));
  }
  SEAM_ASSIGN_OR_RETURN(joined.kernel, kernel::SideBySide(std::move(name), kernels, parameters));
  return joined;
}

}  // namespace seam
