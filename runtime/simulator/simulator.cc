#include "runtime/simulator/simulator.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "ir/philox.h"
#include "ir/status.h"
#include "ir/within_memory.h"
#include "runtime/simulator/simulation.h"

namespace seam::simulator {

absl::Status Simulation::Run() {
  // Order of the clusters: position i runs cluster (step * i + offset) mod their number.
  const int64_t clusters = grid_ / kernel_.cluster;
  int64_t step = 1, offset = 0;
  if (options_.seed != 0 && clusters > 1) {
    const auto lanes = Philox4x32(options_.seed, 0, 0);
    offset = lanes[0] % clusters;
    step = 1 + lanes[1] % clusters;
    while (std::gcd(step, clusters) != 1) ++step;
  }
  for (const CompiledBlock& phase : phases_) {
    first_of_phase_ = interval_ + 1;
    for (int64_t i = 0; i < clusters; ++i) {
      SEAM_RETURN_IF_ERROR(RunCluster((step * i + offset) % clusters, phase));
    }
  }
  if (tickets_in_all_.has_value() && tickets_taken_ != *tickets_in_all_) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel ", kernel_.name, ": ", tickets_taken_, " tickets taken of ",
                     *tickets_in_all_, ", and the next launch counts on from there"));
  }
  if (!options_.require_all_written) return absl::OkStatus();
  for (const Memory& memory : buffers_) {
    if (memory.read_only) continue;
    for (int64_t element = 0; element < memory.num_elements; ++element) {
      if (memory.tracker->Written(element)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("kernel ", kernel_.name, ": no thread writes element ", element,
                       " of buffer ", memory.name, " of ", memory.num_elements));
    }
  }
  return absl::OkStatus();
}

absl::Status Simulation::RunCluster(int64_t cluster, const CompiledBlock& phase) {
  cta_ = cluster * kernel_.cluster;
  first_interval_ = ++interval_;
  begun_ = false;
  std::fill(written_.begin(), written_.end(), 0);
  std::fill(written_count_.begin(), written_count_.end(), 0);
  cluster_tickets_ = 0;
  copies_.Reset();
  remote_stores_.Reset();
  const SymNode* block = kernel_.block_x.node();
  if (kernel_.cluster == 1) {
    integers_.SetUniform(block, cta_);
  } else {
    int64_t* blocks = integers_.MutableVarying(block);
    for (int t = 0; t < threads_; ++t) blocks[t] = cta_ + RankOf(t);
    integers_.Changed(block);
  }
  SEAM_RETURN_IF_ERROR(Spend(threads_));
  SEAM_RETURN_IF_ERROR(RunBlock(phase, all_));
  if (const int barrier = copies_.Pending(); barrier >= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel ", kernel_.name, ", CTA ", cta_ + barrier / kernel_.copy_barriers,
                     ": it ends before all threads have waited for the copies at ",
                     barrier % kernel_.copy_barriers));
  }
  for (int t = 0; t < threads_; ++t) {
    if (loads_.UnderWay(t).empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("kernel ", kernel_.name, ", CTA ", cta_ + RankOf(t), ", thread ", InCta(t),
                     ": it ends before it has waited for a load that statement ",
                     loads_.UnderWay(t).front().statement, " has begun"));
  }
  if (remote_stores_.Pending()) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel ", kernel_.name, ", CTA ", cta_,
                     ": its cluster may end before what CTAs store to each other has come"));
  }
  return absl::OkStatus();
}

absl::Status Simulate(const kernel::Kernel& kernel, absl::Span<const SimBuffer> buffers,
                      absl::Span<const int64_t> parameters, const SimOptions& options) {
  SEAM_RETURN_IF_ERROR(VerifyKernel(kernel));
  const auto simulate = [&]() -> absl::Status {
    Simulation simulation(kernel, options);
    SEAM_RETURN_IF_ERROR(simulation.Prepare(buffers, parameters));
    return simulation.Run();
  };
  return WithinMemory<absl::Status>(absl::StrCat("simulating the kernel ", kernel.name), simulate);
}

}  // namespace seam::simulator
