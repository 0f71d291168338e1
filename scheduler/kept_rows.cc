#include "scheduler/kept_rows.h"

#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/hold.h"
#include "scheduler/kernel/row_blocks.h"
#include "scheduler/kernel/rows_ahead.h"

namespace seam {

KeptRows::KeptRows(const SizedGroup& sized, TracedKernel traced)
    : input_words_(sized.input_words),
      traced_(std::move(traced)),
      online_sums_(static_cast<int>(FindOnlineSums(traced_).size())) {
  resident_.resize(traced_.tile.spaces.size());
  for (int space : traced_.held_spaces) resident_[space] = true;
}

absl::StatusOr<KeptRows> KeptRows::Of(const SizedGroup& sized, const Schedule& s) {
  TraceOptions options;
  options.facts = s.facts;
  options.alignment_bytes = s.alignment_bytes;
  SEAM_ASSIGN_OR_RETURN(TracedKernel traced, Trace(*sized.group, sized.shape, options));
  return KeptRows(sized, std::move(traced));
}

bool KeptRows::GainsOnline(const Schedule& s) const {
  return online_sums_ > 0 && (!s.persistent || (s.cluster > 1 && !s.outer));
}

double KeptRows::Words(int registers, const Schedule& s) const {
  const int points = registers * s.vector;
  const kernel::Holds holds =
      kernel::ChooseHolds(traced_.tile, resident_, kernel::HoldLimits(points));
  const bool computed = absl::c_linear_search(holds.computed, true);
  return points * (computed ? std::max(holds.words, input_words_) : input_words_);
}

bool KeptRows::IsOfRowAndColumn(SymInt index) const {
  const kernel::TileKernel& tile = traced_.tile;
  return tile.row.is_symbolic() && kernel::DependsOn(index, tile.row) &&
         kernel::DependsOnColumn(tile, index);
}

// Fewer elements than a row has columns, in all rows.
bool KeptRows::IsShared(const kernel::TileValue& value) const {
  const kernel::TileKernel& tile = traced_.tile;
  return value.kind == kernel::TileKind::Load &&
         absl::c_none_of(tile.spaces, [&](const kernel::TileSpace& space) {
           return ProvablyLe(tile.rows * space.extent, tile.buffers[value.buffer].num_elements);
         });
}

std::vector<const SymNode*> KeptRows::ColumnDivisors(bool of_shared) const {
  const kernel::TileKernel& tile = traced_.tile;
  std::vector<SymInt> indices;
  for (const kernel::TileValue& v : tile.values) {
    if (!of_shared || IsShared(v) || v.kind == kernel::TileKind::Index) indices.push_back(v.index);
  }
  for (const kernel::TileStore& store : tile.stores) {
    if (!of_shared) indices.push_back(store.index);
  }
  std::vector<const SymNode*> found;
  for (const SymNode* node : TopologicalNodes(indices)) {
    if (node->kind != SymKind::FloorDiv && node->kind != SymKind::Mod) continue;
    if (!kernel::DependsOnColumn(tile, node->children[0])) continue;
    for (size_t p = 0; p < tile.parameters.size(); ++p) {
      if (!kernel::DependsOn(node->children[1], tile.parameters[p])) continue;
      for (const SymNode* symbol : FreeSymbols(traced_.arguments[p])) {
        if (!absl::c_linear_search(found, symbol)) found.push_back(symbol);
      }
    }
  }
  return found;
}

template <typename Visitor>
void KeptRows::VisitAlike(Visitor visit) const {
  const kernel::TileKernel& tile = traced_.tile;
  for (const kernel::TileValue& v : tile.values) {
    const bool of_row = tile.row.is_symbolic() && kernel::DependsOn(v.index, tile.row);
    const bool of_column = kernel::DependsOnColumn(tile, v.index);
    if (v.kind == kernel::TileKind::Load && of_column && !of_row) visit(DTypeBytes(v.dtype));
  }
}

double KeptRows::AlikeWords() const {
  double words = 0;
  VisitAlike([&](int bytes) { words += bytes / 4.0; });
  return words;
}

int KeptRows::AlikeBytes() const {
  int widest = 0;
  VisitAlike([&](int bytes) { widest = std::max(widest, bytes); });
  return widest;
}

kernel::KeptWindow KeptRows::WindowOf(const kernel::TileReduction& r, const Schedule& s) const {
  return kernel::KeptWindowOf(r.kept, r.inner, s.outer ? 1 : s.vector, s.columns_per_step(),
                              s.registers);
}

int KeptRows::KeptWords(const Schedule& s) const {
  int words = 0;
  for (const kernel::TileReduction& r : traced_.tile.reductions) {
    if (r.over != kernel::Over::SomeColumns) continue;
    const int states = s.vector / (s.outer ? 1 : WindowOf(r, s).per_state);
    for (int c = 0; c < kernel::NumComponents(r.op); ++c)
      words += states * std::max(1, DTypeBytes(kernel::ComponentType(r.op, r.dtype, c)) / 4);
  }
  return words;
}

int64_t KeptRows::StateBytes(const Schedule& s) const {
  // Of rows that are shifted each has columns of its own in the same lane, and its ends.
  const int64_t sets = s.shift ? s.rows_per_cta() : s.row_warps;
  const int64_t columns = s.columns_per_step() + (s.shift ? 2 * s.vector : 0);
  int64_t bytes = 0;
  for (const kernel::TileReduction& r : traced_.tile.reductions) {
    int64_t states = 0;
    if (r.over == kernel::Over::SomeColumns) states = WindowOf(r, s).states() * s.rows_per_cta();
    if (r.over == kernel::Over::Rows) states = sets / 2 * columns;
    for (int c = 0; c < kernel::NumComponents(r.op); ++c)
      bytes += states * DTypeBytes(kernel::ComponentType(r.op, r.dtype, c));
  }
  return bytes;
}

int64_t KeptRows::KeptPeriod() const {
  int64_t period = 1;
  for (const kernel::TileReduction& r : traced_.tile.reductions) {
    if (r.over == kernel::Over::SomeColumns)
      period = std::lcm(period, (r.kept * r.inner).maybe_int().value_or(0));
  }
  return period;
}

int64_t KeptRows::StageBytes(const Schedule& s) const {
  int64_t bytes = 0;
  const auto copies = kernel::FindRowCopies(traced_.tile, s.rows_per_cta(), s.shift ? s.vector : 1);
  for (size_t id = 0; id < copies.size(); ++id) {
    if (!copies[id] || !resident_[copies[id]->space]) continue;
    const kernel::TileValue& value = traced_.tile.values[id];
    const int64_t line = kernel::LineOf(traced_.tile, value, *copies[id], s.rows_per_cta(),
                                        s.columns_per_step(), s.shift ? s.vector : 1);
    bytes +=
        kernel::StagePitch(s.rows_per_cta() * s.columns_per_step(), line) * DTypeBytes(value.dtype);
  }
  return bytes;
}

KeptRows::Rest KeptRows::NotBrought(const Schedule& s) const {
  const kernel::TileKernel& tile = traced_.tile;
  const auto copies = kernel::FindRowCopies(tile, s.rows_per_cta(), s.shift ? s.vector : 1);
  Rest words;
  for (size_t id = 0; id < tile.values.size(); ++id) {
    const kernel::TileValue& v = tile.values[id];
    const bool brought = copies[id] && resident_[copies[id]->space];
    if (v.kind != kernel::TileKind::Load || brought || !IsOfRowAndColumn(v.index)) continue;
    (IsShared(v) ? words.of_tables : words.of_tensors) += DTypeBytes(v.dtype) / 4.0;
  }
  return words;
}

int64_t KeptRows::AsyncBytes(const Schedule& s) const {
  const kernel::TileKernel& tile = traced_.tile;
  int64_t bytes = 0;
  for (const kernel::TileValue& value : tile.values) {
    for (size_t space = 0; space < tile.spaces.size(); ++space) {
      if (resident_[space] && kernel::IsOfEachElement(tile, value, static_cast<int>(space)))
        bytes += s.rows_per_cta() * s.columns_per_step() * DTypeBytes(value.dtype);
    }
  }
  return s.grid > 0 && s.reread ? 2 * bytes : bytes;
}

bool KeptRows::AreAllBrought() const {
  const kernel::TileKernel& tile = traced_.tile;
  return absl::c_all_of(tile.values, [&](const kernel::TileValue& value) {
    if (value.kind != kernel::TileKind::Load) return true;
    for (size_t space = 0; space < tile.spaces.size(); ++space) {
      const SymInt column = tile.spaces[space].column;
      if (column.is_symbolic() && kernel::DependsOn(value.index, column) &&
          !(resident_[space] && kernel::IsOfEachElement(tile, value, static_cast<int>(space)))) {
        return false;
      }
    }
    return true;
  });
}

int64_t KeptRows::BlockBytes(const Schedule& s) const {
  const kernel::TileKernel& tile = traced_.tile;
  const kernel::RowBlocks blocks =
      kernel::FindRowBlocks(tile, s.rows_per_cta(), resident_, s.reread, s.stages == 0);
  for (size_t id = 0; id < tile.values.size(); ++id) {
    const kernel::TileValue& v = tile.values[id];
    if (v.kind == kernel::TileKind::Load && s.stages == 0 && !blocks.loads[id] &&
        IsOfRowAndColumn(v.index)) {
      return 0;
    }
  }
  for (size_t i = 0; i < tile.stores.size(); ++i) {
    if (!blocks.stores[i] && IsOfRowAndColumn(tile.stores[i].index)) return 0;
  }
  int64_t bytes = 0;
  for (DType dtype : blocks.arrays)
    bytes += s.rows_per_cta() * s.columns_per_step() * DTypeBytes(dtype);
  return bytes;
}

}  // namespace seam
