// Which values a pass needs, at which level it computes each of them, and which loads come in an
// earlier pass or only where they are used.
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

// Words of a thread's registers for what a pass reads, where it leaves room for as many threads as
// hide latency.
constexpr double kMostWordsInHand = 56;
// The same for all that is loaded: of a thread's 255 registers what is left beside arithmetic.
constexpr double kMostWordsAhead = 176;

}  // namespace

// Whether the pass needs a value, seen from what is in registers or `kept` by then.
std::vector<bool> Expander::NeededBy(int pass, const std::vector<bool>& kept) const {
  std::vector<bool> needed(tile_.values.size());
  std::vector<TileId> stack;
  auto need = [&](TileId id) {
    if (!needed[id]) {
      needed[id] = true;
      stack.push_back(id);
    }
  };
  for (const TileReduction& r : tile_.reductions) {
    if (r.pass == pass)
      for (TileId id : r.operands) need(id);
  }
  for (size_t i = 0; i < tile_.stores.size(); ++i) {
    if (tile_.stores[i].pass == pass && !stored_[i]) need(tile_.stores[i].value);
  }
  const SpaceState& state = spaces_[tile_.passes[pass].space];
  while (!stack.empty()) {
    const TileId id = stack.back();
    const TileValue& value = tile_.values[id];
    stack.pop_back();
    if (kept[id] || state.resident.contains(id)) continue;
    for (TileId operand : value.operands) need(operand);
    for (int let : value.lets) need(tile_.lets[let].value);
  }
  return needed;
}

// Values that the pass needs, in order, and their levels in it.
std::vector<TileId> Expander::Collect(int pass) {
  const std::vector<bool> needed = NeededBy(pass, std::vector<bool>(tile_.values.size()));
  std::vector<TileId> ids;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) ids.push_back(static_cast<TileId>(i));
  }
  const TileSpace& space = tile_.spaces[tile_.passes[pass].space];
  SpaceState& state = spaces_[tile_.passes[pass].space];
  for (TileId id : ids) {
    if (!state.resident.contains(id)) levels_[id] = LevelOf(tile_.values[id], space, state);
  }
  return ids;
}

Expander::Level Expander::LevelOf(const TileValue& value, const TileSpace& space,
                                  SpaceState& state) {
  if (value.kind == TileKind::Constant) return Level::kConstant;
  if (value.kind == TileKind::ReduceResult)
    return IsOfSection(tile_, value) ? Level::kUnit : Level::kRow;
  bool column = UsesColumn(value.index, space) || UsesColumn(value.predicate, space);
  bool lane = DependsOn(state.importer->Import(value.index), v_) ||
              DependsOn(state.importer->Import(value.predicate), v_);
  auto inherit = [&](TileId id) {
    const Level level = levels_[id];
    column |= level >= Level::kUnit;
    lane |= level == Level::kElement || (outer_ && level == Level::kRow);
  };
  for (TileId id : value.operands) inherit(id);
  for (int let : value.lets) inherit(tile_.lets[let].value);
  if (!column) return Level::kRow;
  return lane ? Level::kElement : Level::kUnit;
}

bool Expander::LetsBelowElement(const TileValue& value) const {
  for (int let : value.lets) {
    const Level level = levels_[tile_.lets[let].value];
    if (level == Level::kElement || (outer_ && level == Level::kRow)) return false;
  }
  return true;
}

bool Expander::UsesColumn(SymInt e, const TileSpace& space) const {
  return space.column.is_symbolic() && DependsOn(e, space.column);
}

bool Expander::IsOfRow(const TileValue& value) const {
  return tile_.row.is_symbolic() &&
         (DependsOn(value.index, tile_.row) || DependsOn(value.predicate, tile_.row));
}

// A load that every row does alike, in vectors.
bool Expander::IsSameForRows(TileId id, SymImporter& importer) const {
  const TileValue& value = tile_.values[id];
  return !IsOfRow(value) && value.kind == TileKind::Load && value.lets.empty() &&
         levels_[id] >= Level::kUnit &&
         (vector_ == 1 || LoadKind(value, importer) != Access::kScattered);
}

// A load of vectors that several rows or columns have in common, weights above all, so from a
// cache.
bool Expander::IsShared(TileId id, const SpaceState& space) const {
  const TileValue& value = tile_.values[id];
  return value.kind == TileKind::Load && value.lets.empty() && levels_[id] >= Level::kUnit &&
         (vector_ == 1 || LoadKind(value, *space.importer) != Access::kScattered) &&
         !ProvablyLe(rows_ * space.extent, out_.buffers[value.buffer].num_elements);
}

// Loads of later passes over this pass's space that are the same for all rows.
void Expander::CollectEarly(int pass) {
  const int space = tile_.passes[pass].space;
  SymImporter& importer = *spaces_[space].importer;
  for (int later = pass + 1; later < static_cast<int>(tile_.passes.size()); ++later) {
    if (tile_.passes[later].space != space) continue;
    for (TileId id : Collect(later)) {
      if (IsSameForRows(id, importer)) early_.push_back(id);
    }
  }
}

// What no later pass reads is loaded where it is used, if it would not fit beside what is kept: of
// what rows have in common sooner than of a row's own, whose loads are to be under way early.
void Expander::CollectLate(int pass, const std::vector<TileId>& ids) {
  late_.clear();
  const int space = tile_.passes[pass].space;
  if (!spaces_[space].persistent) return;
  double words = holds_.words, all_words = holds_.words;
  std::vector<TileId> others;
  for (TileId id : ids) {
    const TileValue& value = tile_.values[id];
    if (spaces_[space].resident.contains(id)) continue;
    const double more = DTypeBytes(value.dtype) / 4.0;
    if (IsShared(id, spaces_[space])) {
      words += more;
      late_.push_back(id);
    } else if (value.kind == TileKind::Load && value.lets.empty() && levels_[id] > Level::kRow) {
      others.push_back(id);
    } else {
      continue;
    }
    all_words += more;
  }
  const double points = static_cast<double>(registers_) * vector_;
  if (words * points <= kMostWordsInHand) late_.clear();
  if (all_words * points > kMostWordsAhead) late_.insert(late_.end(), others.begin(), others.end());
  if (late_.empty()) return;
  std::vector<bool> kept(tile_.values.size());
  for (TileId id : ids) kept[id] = holds_.computed[id];
  for (int later = pass + 1; later < static_cast<int>(tile_.passes.size()); ++later) {
    if (tile_.passes[later].space != space) continue;
    const std::vector<bool> needed = NeededBy(later, kept);
    std::erase_if(late_, [&](TileId id) { return needed[id]; });
  }
}

}  // namespace seam::kernel
