#include "runtime/cuda/compiler.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace seam::cuda {

std::vector<absl::StatusOr<CompiledKernel>> CompileAll(
    absl::Span<const CompileRequest> requests, CubinCache* cache, int threads,
    const std::function<void(int done, int total)>& progress) {
  using Result = absl::StatusOr<CompiledKernel>;
  std::vector<Result> results(requests.size());
  const absl::StatusOr<const Nvrtc*> nvrtc = Nvrtc::Get();
  if (!nvrtc.ok()) {
    std::fill(results.begin(), results.end(), Result(nvrtc.status()));
    return results;
  }

  // Equal requests form one job; its first request is compiled, the others get copies.
  struct Job {
    CubinKey key;
    std::vector<size_t> requests;
  };
  std::vector<Job> jobs;
  std::map<std::pair<uint64_t, uint64_t>, size_t> job_of_key;
  for (size_t i = 0; i < requests.size(); ++i) {
    const CubinKey key = MakeCubinKey(requests[i], (*nvrtc)->identity());
    const auto [at, is_new] = job_of_key.try_emplace({key.high, key.low}, jobs.size());
    if (is_new) jobs.push_back({key, {}});
    jobs[at->second].requests.push_back(i);
  }

  std::atomic<size_t> next_job = 0;
  std::mutex progress_mutex;
  size_t done = 0;
  auto work = [&] {
    for (size_t j = next_job++; j < jobs.size(); j = next_job++) {
      const Job& job = jobs[j];
      const CompileRequest& request = requests[job.requests.front()];
      std::optional<CompiledKernel> kept;
      if (cache != nullptr) kept = cache->Find(job.key);
      Result& result = results[job.requests.front()];
      result = kept.has_value() ? Result(*std::move(kept)) : (*nvrtc)->Compile(request);
      if (cache != nullptr && result.ok() && !result->from_cache) cache->Store(job.key, *result);
      for (size_t k = 1; k < job.requests.size(); ++k) results[job.requests[k]] = result;
      std::lock_guard<std::mutex> lock(progress_mutex);
      done += job.requests.size();
      if (progress) progress(static_cast<int>(done), static_cast<int>(requests.size()));
    }
  };

  size_t workers = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  workers = std::min(workers, jobs.size());
  std::vector<std::thread> pool;
  // This thread works too. Where the system gives fewer threads than asked for, fewer do.
  try {
    while (pool.size() + 1 < workers) pool.emplace_back(work);
  } catch (const std::system_error&) {
  }
  work();
  for (std::thread& thread : pool) thread.join();
  return results;
}

}  // namespace seam::cuda
