// Writes a Fusion in the canonical text form: symbols with their ranges, inputs, one operation a
// line with the type of every result, outputs.
//
// Thread-safety: free functions without shared state.
#pragma once

#include <string>

#include "ir/fusion.h"

namespace seam {

// ParseFusion(PrintFusion(f)) is f, source locations and symbols that nothing mentions aside, and
// printing that gives the same text. A name that the text form reserves gets underscores behind it.
// Linear in the size of the Fusion.
std::string PrintFusion(const Fusion& fusion);

// `value` as a literal of the text form that reads back as the same value of `dtype`: the shortest
// one, with a point or an exponent.
std::string PrintFloat(double value, DType dtype);

}  // namespace seam
