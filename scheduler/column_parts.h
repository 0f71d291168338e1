// Parts of a row's columns: axes that no expression has some of two sets of, as tensors have that
// only what is folded of them brings together.
//
// Thread-safety: pure functions.
#pragma once

#include <vector>

#include "scheduler/group_shape.h"

namespace seam {

struct ColumnPart {
  AxisSet axes;
  SymInt columns = 0;  // The most that an expression has of them.
};

// In the order of the first expressions. Linear in the expressions for each part.
std::vector<ColumnPart> ColumnPartsOf(const GroupShape& shape);

// Which part has the columns of these axes; as many as there are parts where they are none.
size_t PartOf(const GroupShape& shape, const std::vector<ColumnPart>& parts, const AxisSet& axes);

}  // namespace seam
