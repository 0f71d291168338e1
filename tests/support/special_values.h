// What tests of numbers name so often.
#pragma once

#include <limits>

namespace seam::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace seam::testing
