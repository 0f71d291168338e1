// How a vector of elements meets memory: proven from index expressions alone.
#pragma once

#include "ir/symbolic/sym_int.h"

namespace seam::kernel {

// `e` with `symbol` replaced; every other symbol stays.
SymInt Substitute(SymInt e, SymInt symbol, SymInt value);
bool DependsOn(SymInt e, SymInt symbol);

struct Access {
  enum Kind : uint8_t {
    kUniform,    // The same element for the whole vector.
    kUnaligned,  // Neighbours that start anywhere, `width` at a time.
    kVector,     // `width` neighbours at a time, aligned.
    kWindow,     // Some of `elements` neighbours, `width` at a time, aligned.
    kScattered,  // Element by element.
  } kind = kScattered;
  int width = 1;
  SymInt base = 0;    // The index at vector coordinate 0, or of the window's first element.
  int elements = 0;   // Of a window,
  SymInt within = 0;  // and which of them the vector's element v is.
};

// Classifies index(v) for v in [0, vector). Elements of `dtype_bytes`; the tensor's base address is
// aligned to `base_alignment_bytes`.
Access ClassifyAccess(SymInt index, SymInt v, int vector, int dtype_bytes,
                      int base_alignment_bytes);

// The same of a load, wanted where `predicate` holds, of a tensor with so many elements. Every
// other element, pairs in another order, the columns of an image that are pooled: where a vector's
// elements lie close together, whole vectors that have them are loaded, none beyond the tensor's
// end. Quadratic in `vector`, at most.
Access ClassifyLoad(SymInt index, SymInt predicate, SymInt v, int vector, int dtype_bytes,
                    int base_alignment_bytes, SymInt num_elements);

}  // namespace seam::kernel
