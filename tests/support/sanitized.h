// What part of their cases long tests try: under sanitizers, which are slow, a fifth of what they
// try without.
#pragma once

namespace seam::testing {

#ifdef SEAM_SANITIZE
inline constexpr int kPart = 5;  // One in so many.
#else
inline constexpr int kPart = 1;
#endif

// Of cases counted one after the other, those to try.
class Part {
 public:
  bool TakesNext() { return next_++ % kPart == 0; }

 private:
  int next_ = 0;
};

}  // namespace seam::testing
