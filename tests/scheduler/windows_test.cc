// Vectors of elements that lie close together but not side by side, loaded with what lies between
// them: every other element, pairs, mirrored rows, pixels that are pooled or repeated.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "scheduler/kernel/access.h"
#include "tests/support/expect_right.h"
#include "tests/support/sanitized.h"

namespace seam {
namespace {

using kernel::Access;
using testing::ExpectRight;

class ClassifyLoadTest : public ::testing::Test {
 protected:
  Access Of(SymInt index, int vector, SymInt predicate = 1, SymInt elements = 1 << 20,
            int alignment = 16) {
    return kernel::ClassifyLoad(index, predicate, v_, vector, 2, alignment, elements);
  }
  ShapeEnv env_;
  SymInt q_ = env_.FreshSymbol("q", 0, 1 << 20), v_ = env_.FreshSymbol("v", 0, 7);
};

TEST_F(ClassifyLoadTest, Windows) {
  const struct {
    SymInt index;
    int elements;
    SymInt base;
  } cases[] = {
      {2 * (8 * q_ + v_), 16, 16 * q_},
      {2 * (8 * q_ + v_) + 1, 16, 16 * q_},
      {3 * (8 * q_ + v_) + 2, 24, 24 * q_},
      {8 * q_ + 7 - v_, 8, 8 * q_},
      {8 * q_ + 2 * FloorDiv(v_, 2), 8, 8 * q_},
      {8 * q_ + FloorDiv(v_, 2), 8, 8 * q_},
      {8 * q_ + 4 + v_ + FloorDiv(v_, 4), 16, 8 * q_},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.index.ToString());
    const Access access = Of(c.index, 8);
    ASSERT_EQ(access.kind, Access::kWindow);
    EXPECT_EQ(access.width, 8);
    EXPECT_EQ(access.elements, c.elements);
    EXPECT_TRUE(access.base.is_same(c.base)) << access.base.ToString();
    for (int i = 0; i < 8; ++i) {
      const SymInt at = access.base + kernel::Substitute(access.within, v_, i);
      EXPECT_TRUE(at.is_same(kernel::Substitute(c.index, v_, i))) << i;
    }
  }
}

TEST_F(ClassifyLoadTest, NoWindows) {
  const SymInt every_other = 2 * (8 * q_ + v_);
  EXPECT_EQ(Of(8 * q_ + v_, 8).kind, Access::kVector);
  EXPECT_EQ(Of(8 * q_, 8).kind, Access::kUniform);
  EXPECT_EQ(Of(every_other, 8, 1, 1 << 20, 2).kind, Access::kScattered);     // The base.
  EXPECT_EQ(Of(every_other, 8, 1, (1 << 20) - 1).kind, Access::kScattered);  // The end.
  EXPECT_EQ(Of(64 * (8 * q_ + v_), 8).kind, Access::kScattered);             // Far apart.
  EXPECT_EQ(Of(q_ * v_, 8).kind, Access::kScattered);
  EXPECT_EQ(Of(2 * (8 * q_ + v_) + q_, 8).kind, Access::kScattered);
}

// Elements that a mask which depends on nothing else excludes may lie anywhere.
TEST_F(ClassifyLoadTest, Masks) {
  const SymInt even = SymEq(Mod(v_, 2), 0);
  const Access access = Of(SymSelect(even, 8 * q_ + v_, 1000 * q_), 8, even);
  EXPECT_EQ(access.kind, Access::kScattered);  // Of which one might be on the way there.
  const Access pairs = Of(8 * q_ + v_ + 1 - 64 * Mod(v_, 2), 8, even);
  ASSERT_EQ(pairs.kind, Access::kWindow);
  EXPECT_EQ(pairs.elements, 8);
  EXPECT_EQ(Of(8 * q_ + 2 * v_, 8, SymLt(8 * q_ + v_, 100)).kind, Access::kScattered);
}

struct Case {
  const char* what;
  const char* text;  // Of x: T[A, 2*B] to y.
  bool in_vectors = true;
};

const Case kCases[] = {
    {"every other", "y = f[:, 0:2*B:2] - f[:, 1:2*B:2]"},
    {"every fourth", "r = reshape(f, sizes=[A, B // 2, 4])\n  y = r[:, :, 0:1] * r[:, :, 3:4]"},
    {"mirrored", "y = flip(f, axes=[1])"},
    {"pairs exchanged",
     "r = reshape(f, sizes=[A, B, 2])\n  y = reshape(flip(r, axes=[2]), sizes=[A, 2*B])"},
    {"rotary",
     "r = reshape(f, sizes=[A, B, 2])\n  a = r[:, :, 0:1]\n  b = r[:, :, 1:2]\n"
     "  y = reshape(cat(a * 0.5 - b, b + a * 0.25, axis=2), sizes=[A, 2*B])"},
    {"pooled", "y = amax(reshape(f, sizes=[A // 2, 2, B, 2]), axes=[1, 3])"},
    {"pooled, and which was taken",
     "r = reshape(f, sizes=[A // 2, 2, B, 2])\n  m = amax(r, axes=[1, 3], keepdims=true)\n"
     "  y = reshape(where(r == m, r, 0.0), sizes=[A, 2*B])"},
    {"repeated",
     "r = reshape(f[:, 0:B], sizes=[A, B, 1])\n  y = reshape(expand(r, sizes=[A, B, 2]), "
     "sizes=[A, 2*B])"},
    {"rows of every other", "g = f[:, 0:2*B:2]\n  y = g - sum(g, axes=[1], keepdims=true)"},
    {"norm of pooled",
     "p = sum(reshape(f, sizes=[A // 2, 2, B, 2]), axes=[1, 3])\n"
     "  y = p * rsqrt(sum(p * p, axes=[1], keepdims=true) + 1.0)"},
};

std::string Text(const Case& c, const std::string& dtype) {
  return absl::StrCat("fusion window {\n  symbol A\n  symbol B\n  input x: ", dtype,
                      "[A, 2*B]\n  f = cast(x, dtype=", dtype == "f64" ? "f64" : "f32", ")\n  ",
                      c.text, "\n  z = cast(y, dtype=", dtype, ")\n  output z\n}\n");
}

TEST(Windows, AreRight) {
  testing::Part part;
  for (const Case& c : kCases) {
    for (const char* dtype : {"bf16", "f32", "f64", "f8e5m2"}) {
      for (const int64_t b : {2, 6, 32, 50, 96}) {
        for (const int alignment : {16, 1}) {
          SCOPED_TRACE(absl::StrCat(c.what, " ", dtype, " ", b, " ", alignment));
          if (!part.TakesNext()) continue;
          ExpectRight(Text(c, dtype),
                      {.sizes = {{"A", 6}, {"B", b}}, .alignment_bytes = alignment});
        }
      }
    }
  }
}

TEST(Windows, AreLoadedInVectors) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const testing::GroupResult result =
        ExpectRight(Text(c, "bf16"), {.sizes = {{"A", 8}, {"B", 64}}});
    EXPECT_EQ(result.schedule.vector, 8) << result.schedule.ToString();
    EXPECT_TRUE(absl::StrContains(result.kernel_text, "near")) << result.kernel_text;
  }
}

}  // namespace
}  // namespace seam
