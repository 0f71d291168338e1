// Values of a row where a thread has a vector of rows. Each of the row's threads would compute them
// for all rows that it has: a division and a root for each, say. So the thread that merges a row's
// states goes on to what follows from them and from what is loaded once a row, and leaves of it
// what other threads need:
//
//   sum, weight ->  mean = sum / n    first thread of each row, in registers
//                   mean, weight      through shared memory to all of the row's threads
//
// What is stored once a row it stores too: neighbouring threads have neighbouring rows.
//
// What is loaded is under way since the CTA took the rows, of rows in registers only where that is
// a few values.
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

// More would take registers that rows need.
constexpr size_t kMostRowLoads = 4;

}  // namespace

// Whether the row's first thread has a value or can compute it, by what its states are by now. In
// order, since operands come first.
std::vector<bool> Expander::KnownByRow() const {
  std::vector<bool> known(tile_.values.size());
  for (size_t id = 0; id < known.size(); ++id) {
    const TileValue& v = tile_.values[id];
    const bool of_column = absl::c_any_of(tile_.spaces, [&](const TileSpace& space) {
      return UsesColumn(v.index, space) || UsesColumn(v.predicate, space);
    });
    if (of_column || !v.lets.empty()) continue;
    switch (v.kind) {
      case TileKind::Constant:
        known[id] = true;
        break;
      case TileKind::ReduceResult:
        known[id] = row_view_->states.contains(v.reduction);
        break;
      case TileKind::Load:
      case TileKind::Map:
      case TileKind::Index:
        // Of types that shared memory moves in whole words.
        known[id] = DTypeBytes(v.dtype) >= 4 &&
                    absl::c_all_of(v.operands, [&](TileId operand) { return known[operand]; });
        break;
      case TileKind::Random:
        break;
    }
  }
  return known;
}

// Whether rows have values of their own of each; what has not every thread computes at no cost. In
// order, since operands come first.
std::vector<bool> Expander::DiffersByRow() const {
  std::vector<bool> differs(tile_.values.size());
  for (size_t id = 0; id < differs.size(); ++id) {
    const TileValue& v = tile_.values[id];
    differs[id] = v.kind == TileKind::Load || v.kind == TileKind::ReduceResult || IsOfRow(v) ||
                  absl::c_any_of(v.operands, [&](TileId operand) { return differs[operand]; });
  }
  return differs;
}

// Of each reduction's components, whether passes behind that one need them beside values that have
// been left.
std::vector<std::vector<bool>> Expander::WantedStates(int pass,
                                                      const std::vector<RowValue>& left) const {
  std::vector<bool> kept(tile_.values.size());
  for (const auto& entry : row_values_) kept[entry.first] = true;
  for (const RowValue& value : left) kept[value.id] = true;
  std::vector<std::vector<bool>> wanted;
  for (const TileReduction& r : tile_.reductions) wanted.emplace_back(NumComponents(r), false);
  for (int later = pass + 1; later < static_cast<int>(tile_.passes.size()); ++later) {
    const std::vector<bool> needed = NeededBy(later, kept);
    for (size_t id = 0; id < needed.size(); ++id) {
      const TileValue& v = tile_.values[id];
      if (needed[id] && v.kind == TileKind::ReduceResult) wanted[v.reduction][v.component] = true;
    }
  }
  return wanted;
}

// Of what is known, what later passes need that the row's other threads cannot do without.
std::vector<TileId> Expander::WantedOfRow(int pass, const std::vector<bool>& known) const {
  std::vector<bool> needed(tile_.values.size()), wanted(tile_.values.size());
  for (int later = pass + 1; later < static_cast<int>(tile_.passes.size()); ++later) {
    const std::vector<bool> by = NeededBy(later, std::vector<bool>(tile_.values.size()));
    for (size_t id = 0; id < by.size(); ++id) needed[id] = needed[id] || by[id];
    for (const TileReduction& r : tile_.reductions) {
      if (r.pass == later)
        for (TileId operand : r.operands) wanted[operand] = true;
    }
    for (size_t i = 0; i < tile_.stores.size(); ++i) {
      if (tile_.stores[i].pass == later && !stored_[i]) wanted[tile_.stores[i].value] = true;
    }
  }
  for (size_t id = 0; id < needed.size(); ++id) {
    const TileValue& v = tile_.values[id];
    if (!needed[id] || known[id]) continue;
    for (TileId operand : v.operands) wanted[operand] = true;
    for (int let : v.lets) wanted[tile_.lets[let].value] = true;
  }
  const std::vector<bool> differs = DiffersByRow();
  std::vector<TileId> ids;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const TileId id = static_cast<TileId>(i);
    const TileKind kind = tile_.values[i].kind;
    if (wanted[i] && known[i] && kind != TileKind::Constant && kind != TileKind::ReduceResult &&
        !row_values_.contains(id) && differs[id]) {
      ids.push_back(id);
    }
  }
  return ids;
}

// A value and what it follows from, by the first thread of each row.
void Expander::ComputeByRow(TileId id, SymImporter& importer) {
  const TileValue& value = tile_.values[id];
  if (value.kind == TileKind::Constant || value.kind == TileKind::ReduceResult ||
      row_values_.contains(id)) {
    return;
  }
  for (TileId operand : value.operands) ComputeByRow(operand, importer);
  row_values_[id] = w_.NewFragment("r", value.dtype);
  EmitPoint(id, row_values_[id], 0, importer, row_mask_);
}

// Begins to load what passes behind the first one need of a row.
void Expander::LoadByRow() {
  if (!MergesByRow()) return;
  row_view_->states.clear();
  row_view_->row_values.clear();
  const std::vector<bool> nothing(tile_.values.size()), known = KnownByRow(),
                                                        now = NeededBy(0, nothing);
  std::vector<bool> later = nothing;
  for (int pass = 1; pass < static_cast<int>(tile_.passes.size()); ++pass) {
    const std::vector<bool> by = NeededBy(pass, nothing);
    for (size_t id = 0; id < by.size(); ++id) later[id] = later[id] || by[id];
  }
  std::vector<TileId> loads;
  for (size_t id = 0; id < later.size(); ++id) {
    if (tile_.values[id].kind == TileKind::Load && known[id] && later[id] && !now[id])
      loads.push_back(static_cast<TileId>(id));
  }
  // Rows in registers leave few for what is used later.
  const bool in_shared = !async_.empty() && options_.reread;
  if (loads.empty() || (!in_shared && loads.size() > kMostRowLoads)) return;
  SwapRowView();
  AtFirstOfRows([&] {
    SymImporter importer = RowImporter();
    for (TileId id : loads) ComputeByRow(id, importer);
  });
  SwapRowView();
}

// In the view of a row a thread, behind the merge of states of that pass: what later passes would
// store of a row and is known by now.
void Expander::StoreByRow(int pass, const std::vector<bool>& known) {
  const auto follows = [&](TileId id) {
    const TileValue& v = tile_.values[id];
    return known[id] ||
           (v.kind == TileKind::Map && v.lets.empty() &&
            absl::c_all_of(v.operands, [&](TileId operand) { return known[operand]; }));
  };
  std::vector<const TileStore*> stores;
  for (size_t i = 0; i < tile_.stores.size(); ++i) {
    const TileStore& store = tile_.stores[i];
    const int index = tile_.passes[store.pass].space;
    const TileSpace& space = tile_.spaces[index];
    if (store.pass <= pass || stored_[i] || !spaces_[index].extent.is_same(1) ||
        UsesColumn(store.index, space) || UsesColumn(store.predicate, space) ||
        !follows(store.value)) {
      continue;
    }
    stored_[i] = true;
    stores.push_back(&store);
  }
  if (stores.empty()) return;
  AtFirstOfRows([&] {
    SymImporter importer = RowImporter();
    for (const TileStore* store : stores) ComputeByRow(store->value, importer);
    for (const TileStore* store : stores) EmitRowStore(*store, importer);
  });
}

// There too: what follows from the states is left in shared memory.
std::vector<Expander::RowValue> Expander::LeaveRowValues(int pass) {
  SwapRowView();  // `row_values_` are those of vectors of rows.
  const std::vector<bool> known = KnownByRow();
  SwapRowView();
  StoreByRow(pass, known);
  SwapRowView();
  const std::vector<TileId> wanted = WantedOfRow(pass, known);
  SwapRowView();
  std::vector<RowValue> left;
  if (wanted.empty()) return left;
  AtFirstOfRows([&] {
    SymImporter importer = RowImporter();
    for (TileId id : wanted) {
      ComputeByRow(id, importer);
      left.push_back({id, LeaveRow(row_values_.at(id))});
    }
  });
  return left;
}

// Behind a barrier, by all threads.
void Expander::TakeRowValues(const std::vector<RowValue>& left) {
  for (const RowValue& value : left) {
    const int fragment = w_.NewFragment("r", tile_.values[value.id].dtype, RowSlots());
    TakeRow(fragment, value.array);
    row_values_[value.id] = fragment;
  }
}

}  // namespace seam::kernel
