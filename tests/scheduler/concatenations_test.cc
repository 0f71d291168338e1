// Concatenations of what is read along other axes beside them, and whose parts read the same: rows
// and columns of the same tensors in one kernel.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/expect_right.h"
#include "tests/support/group_runner.h"

namespace seam {
namespace {

struct Concatenation {
  const char* name;
  const char* body;  // Of sizes A and B.
};

// What is folded has other axes than the result, which lies along something of a part.
constexpr Concatenation kFolded[] = {
    {"SumOfColumns",
     "input a: f32[A, A]\n input r: f32[A]\n i = exp(r)\n"
     " y = sum(cat(a, a + i, axis=1), axis=1) + i\n output y"},
    {"LeastOfSquares",
     "input a: f32[A, A]\n input b: f32[A, A]\n e = exp(a + b)\n"
     " s = amin(cat(a, e, axis=1), axis=1)\n y = e + s\n output y"},
    {"WhereTheLargestIs",
     "input a: f32[A, A]\n input r: f32[A]\n i = exp(r)\n"
     " y = cast(argmax(cat(a, a + i, axis=1), axis=1), dtype=f32) + i\n output y"},
    {"Bytes",
     "input v: u8[A, A]\n input b: i64[A]\n c = cast(b, dtype=u8)\n"
     " s = sum(cat(minimum(v, c), v, axis=1), axes=[1])\n y = minimum(cast(s, dtype=u8), c)\n"
     " output s\n output y"},
    {"LookedUp",
     "input v: i8[A, A]\n i = iota(axis=0, sizes=[A], dtype=i64)\n"
     " s = sum(cat(v, index_select(v, i, axis=0), axis=0), axes=[0])\n y = s + i\n output y"},
    {"OtherAxes",
     "input c: f16[2, A]\n input x: bf16[1, 2, A, A]\n w = cast(c, dtype=bf16)\n"
     " t = x * w[:, None, :]\n"
     " y = amax(cat(t, t, axis=0), axes=[3], keepdims=true) - w[:, :, None]\n output y"},
    {"Statistics",
     "input a: f32[A, A]\n input r: f32[A]\n i = exp(r)\n"
     " m, v, n = welford(cat(a, a + i, axis=1), axes=[1])\n y = m + i\n output y\n output v"},
};

// Parts of which each reads the same where the others do not, in columns of two kinds.
constexpr Concatenation kOfParts[] = {
    {"Padded",
     "input v: f32[A, B]\n input i: f32[A]\n x = v + i[:, None]\n c = cat(x, x, x, axis=0)\n"
     " p = pad(c, before=[0, 1], after=[0, 0])\n output c\n output p"},
    {"PartsThatDiffer",
     "input v: f32[A, B]\n input u: f32[A, B]\n input i: f32[A]\n"
     " c = cat(v + i[:, None], u - i[:, None], v * i[:, None], axis=0)\n"
     " p = pad(c, before=[0, 1], after=[0, 0])\n output c\n output p"},
    {"SummedAndPadded",
     "input v: f32[A, B]\n input i: f32[A]\n x = v + i[:, None]\n c = cat(x, x, x, axis=0)\n"
     " s = sum(c, axes=[1])\n p = pad(c, before=[0, 1], after=[0, 0])\n output s\n output p"},
    {"Twice",
     "input v: f32[A, B]\n input i: f32[A]\n x = v + i[:, None]\n c = cat(x, x, x, axis=0)\n"
     " y = cat(c, c, axis=1)\n output c\n output y"},
    {"RowsLookedUp",
     "input v: f32[A, B, 8]\n input i: i32[B]\n x = index_select(v, i, axis=1)\n"
     " c = cat(x, x, x, axis=0)\n p = pad(c, before=[0, 0, 1], after=[0, 0, 0])\n"
     " output c\n output p"},
    {"OfOneElement",
     "input v: f32[1, A]\n input p: f32[1, 3*A]\n w = cat(v, v, v, axis=1)\n"
     " y = sum(cat(p, w + sum(w, axes=[0], keepdims=true), axis=0))\n output y"},
};

void ExpectRightAtAllSizes(const Concatenation& c) {
  const std::string text = std::string("fusion f {\n symbol A\n symbol B\n ") + c.body + "\n}\n";
  for (const int64_t a : {1, 3, 4, 33, 100}) {
    for (const int64_t b : {1, 8, 9}) {
      SCOPED_TRACE(c.name);
      testing::ExpectRight(text, {.sizes = {{"A", a}, {"B", b}}});
    }
  }
}

TEST(Concatenations, FoldedAlongOtherAxes) {
  for (const Concatenation& c : kFolded) ExpectRightAtAllSizes(c);
}

TEST(Concatenations, PartsThatReadTheSame) {
  for (const Concatenation& c : kOfParts) ExpectRightAtAllSizes(c);
}

}  // namespace
}  // namespace seam
