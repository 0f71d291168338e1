// The exit code of every kind of error.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/seam_command.h"

namespace seam::tool {
namespace {

using ::testing::HasSubstr;

TEST(ExitCodes, TellTheMachineFromTheGraphFromSeam) {
  ::testing::internal::CaptureStderr();
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kResourceExhausted}) {
    EXPECT_EQ(Fail(absl::Status(code, "it lacks")), kEnvironmentLacks);
  }
  EXPECT_EQ(Fail(absl::InvalidArgumentError("it is bad")), kBadGraph);
  EXPECT_EQ(Fail(absl::InternalError("it broke")), kCheckFailed);
  // No other machine would do better.
  EXPECT_EQ(Fail(absl::UnimplementedError("no scheduler takes it")), kCheckFailed);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("not built yet: no scheduler"));
}

}  // namespace
}  // namespace seam::tool
