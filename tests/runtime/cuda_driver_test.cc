// Opening the CUDA driver where there is none, or something else under its name.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/cuda/driver.h"

namespace seam::cuda {
namespace {

TEST(Driver, SaysWhatIsMissing) {
  const absl::Status missing = Driver::Open("no_such_libcuda.so.1").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(missing.message(), "no_such_libcuda.so.1")) << missing;
  EXPECT_TRUE(absl::StrContains(missing.message(), "Install NVIDIA's driver")) << missing;

  const absl::Status other = Driver::Open("libm.so.6").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(other.message(), "libm.so.6 is no CUDA driver")) << other;

  const absl::Status text = Driver::Open(std::string(SEAM_SOURCE_DIR) + "/CMakeLists.txt").status();
  EXPECT_EQ(text.code(), absl::StatusCode::kUnavailable);
}

TEST(Driver, AnswersTheSameToAll) {
  std::vector<absl::StatusOr<const Driver*>> answers(8, absl::UnknownError("not asked"));
  std::vector<std::thread> threads;
  for (auto& answer : answers) threads.emplace_back([&answer] { answer = Driver::Get(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& answer : answers) {
    EXPECT_EQ(answer.status(), answers[0].status());
    if (answer.ok()) {
      EXPECT_EQ(*answer, *answers[0]);
      EXPECT_GE((*answer)->device_count(), 1);
      EXPECT_GE((*answer)->version(), 12000);
    } else {
      EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable) << answer.status();
      EXPECT_TRUE(absl::StrContains(answer.status().message(), "Kernels cannot run here"));
    }
  }
}

}  // namespace
}  // namespace seam::cuda
