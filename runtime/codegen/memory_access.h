// Vector loads and stores, and the packing of elements into the 32-bit words that they move.
//
// Memory is moved in pieces of 1, 2, 4, 8 or 16 bytes. A piece is held in one to four words: an
// `unsigned`, a uint2 or a uint4. Elements narrower than a word share it, the first in the low
// bits. Thread-safety: AccessFunctions none, the rest pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/scalar.h"
#include "scheduler/kernel/kernel_ir.h"

namespace seam {

absl::string_view PieceType(int bytes);                         // "unsigned", "uint2", "uint4"
std::string WordOf(absl::string_view piece, int bytes, int w);  // "p" or "p.x" ... "p.w"
std::string PieceOf(absl::Span<const std::string> words);       // An expression of PieceType.

// The register value of element `e` of a piece held in `words`.
std::string ElementOf(DType dtype, absl::Span<const std::string> words, int e);
// The words that hold `elements` of register type, in order. `rounded` false: they are still to be
// rounded to `dtype`, which costs nothing here where the conversion rounds anyway.
std::vector<std::string> PackWords(DType dtype, absl::Span<const std::string> elements,
                                   bool rounded);
// The same when all `count` elements are the constant `value`.
std::vector<std::string> PackConstant(DType dtype, Scalar value, int count);

// The device functions for accesses with a cache hint that one kernel uses.
class AccessFunctions {
 public:
  // An expression of PieceType (of `unsigned` below 4 bytes): the piece at `pointer`. `written`:
  // this kernel may also write there.
  std::string Load(absl::string_view pointer, int bytes, kernel::CacheHint hint, bool written);
  // An expression of `unsigned`: the piece of at most 4 bytes at `pointer`, where this kernel
  // writes nothing, if `predicate` holds, else `otherwise`. One instruction: the compiler makes a
  // branch of a load that C++ makes conditional, and computes the address in it.
  std::string LoadIf(absl::string_view predicate, absl::string_view pointer, int bytes,
                     absl::string_view otherwise);
  // An expression of uint4: 16 bytes from bit `bit` of three uint2 or two uint4 that follow each
  // other on, a multiple of 32 inside the first; of three also of 16, if `halves`.
  std::string Join(absl::Span<const std::string> pieces, absl::string_view bit, bool halves);
  // A statement without its semicolon.
  std::string Store(absl::string_view pointer, int bytes, kernel::CacheHint hint,
                    absl::string_view piece);
  // Calls for elements of packed fragments, 16 or 8 bits wide: `word` with `bits` at `place`.
  std::string Insert(absl::string_view word, absl::string_view place, int element_bytes,
                     absl::string_view bits);
  // Two values in one word of bf16, rounding them.
  void UseRoundingPairs();
  std::string Definitions() const;

 private:
  std::set<std::string> definitions_;
};

}  // namespace seam
