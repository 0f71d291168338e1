// A group's kernels, expected to give on the simulator what the reference does.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/support/group_runner.h"

namespace seam::testing {

inline GroupResult ExpectRight(const std::string& text, const GroupRun& run) {
  GroupResult result = RunGroupText(text, run);
  EXPECT_TRUE(result.status.ok()) << result.status << "\n"
                                  << result.schedule.ToString() << "\n"
                                  << text << result.kernel_text;
  return result;
}

}  // namespace seam::testing
