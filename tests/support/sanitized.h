// What part of their random cases long tests try: under sanitizers, which are slow, half of what
// they try without.
#pragma once

namespace seam::testing {

#ifdef SEAM_SANITIZE
inline constexpr int kPart = 2;  // One in so many.
#else
inline constexpr int kPart = 1;
#endif

}  // namespace seam::testing
