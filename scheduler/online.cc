#include "scheduler/online.h"

#include "absl/algorithm/container.h"
#include "scheduler/trace.h"

namespace seam {

using kernel::TileKind;
using kernel::TileReduction;
using kernel::TileValue;

std::vector<OnlineSum> FindOnlineSums(const TracedKernel& traced) {
  const kernel::TileKernel& tile = traced.tile;
  std::vector<OnlineSum> found;
  const auto along_columns = [](const TileReduction& r, OpKind op) {
    return r.op == op && r.over == kernel::Over::Columns && !r.merge && !r.products;
  };
  for (size_t i = 0; i < tile.reductions.size(); ++i) {
    const TileReduction& sum = tile.reductions[i];
    if (!along_columns(sum, OpKind::Sum)) continue;
    const TileValue& term = tile.values[sum.operands[0]];
    if (term.kind != TileKind::Map || (term.op != OpKind::Exp && term.op != OpKind::Exp2)) continue;
    const TileValue& lack = tile.values[term.operands[0]];
    if (lack.kind != TileKind::Map || lack.op != OpKind::Sub || lack.dtype != sum.dtype) continue;
    const TileValue& result = tile.values[lack.operands[1]];
    if (result.kind != TileKind::ReduceResult) continue;
    const TileReduction& max = tile.reductions[result.reduction];
    const ExprId of = traced.reductions[result.reduction];
    if (along_columns(max, OpKind::Max) && max.dtype == sum.dtype &&
        max.operands[0] == lack.operands[0] &&
        tile.passes[max.pass].space == tile.passes[sum.pass].space &&
        absl::c_none_of(found, [&](const OnlineSum& other) { return other.max == of; })) {
      found.push_back({traced.reductions[i], of, term.op});
    }
  }
  return found;
}

}  // namespace seam
