// Random graphs on a backend against the reference, many at once: for machines with a GPU, where
// the tests of the tree need not be. The last line is "N passed, M failed".
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/support/graph_check.h"

namespace {

struct Options {
  int64_t count = 1000;
  uint64_t seed = 1;
  std::string backend = "cuda";
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int shown = 20;
  bool use_cache = false, square = false;
  seam::SegmentOptions segment;
};

int Run(const Options& options) {
  const seam::BackendKind backend =
      options.backend == "cuda" ? seam::BackendKind::kCuda : seam::BackendKind::kSimulator;
  std::atomic<int64_t> next = 0, failed = 0;
  std::mutex mutex;
  // A thread takes one graph after the other: its kernels compile while those of other graphs run.
  const auto work = [&] {
    for (int64_t i; (i = next++) < options.count;) {
      const absl::Status status =
          seam::testing::CheckSeed(options.seed + static_cast<uint64_t>(i), backend,
                                   options.segment, options.use_cache, options.square);
      if (status.ok()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      if (failed++ < options.shown) std::printf("%s\n\n", status.ToString().c_str());
      std::fflush(stdout);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  std::printf("%lld passed, %lld failed\n", static_cast<long long>(options.count - failed),
              static_cast<long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Random graphs on a backend against the reference interpreter");
  Options options;
  app.add_option("--count", options.count, "How many graphs")->capture_default_str();
  app.add_option("--seed", options.seed, "Of the first; each has the next one")
      ->capture_default_str();
  app.add_option("--backend", options.backend, "cuda or simulator")
      ->check(CLI::IsMember({"cuda", "simulator"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Graphs at once")->capture_default_str();
  app.add_option("--shown", options.shown, "Failures that are printed")->capture_default_str();
  app.add_flag("--use-cache", options.use_cache,
               "Compiled kernels are kept on disk: the same graphs again take less time");
  app.add_flag("--square", options.square,
               "Of one extent everywhere, with many concatenations: axes that meet others");
  app.add_option("--without", options.segment.disabled_passes,
                 "Passes of the segmenter that are switched off")
      ->delimiter(',');
  app.add_option_function<std::string>(
         "--narrow-edges",
         [&](const std::string& name) {
           options.segment.narrow_edges = *seam::ParseNarrowing(name);
         },
         "In what types values may cross between kernels")
      ->check(CLI::IsMember({"off", "exact", "f16", "bf16"}));
  CLI11_PARSE(app, argc, argv);
  return Run(options);
}
