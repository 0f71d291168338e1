// Values of a pass, point by point or in vectors: loads, from memory or the copy of a row,
// arithmetic in between, and stores.
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

// Of a thread's load of the step that comes next.
constexpr int kLeastBytesAhead = 8;
// Registers for what a step loads.
constexpr double kMostStepWords = 64;

}  // namespace

Operand Expander::Read(TileId id) {
  const TileValue& value = tile_.values[id];
  if (value.kind == TileKind::Constant) return Operand::Const(value.dtype, value.constant);
  if (const auto copy = cleared_.find(id); copy != cleared_.end()) return copy->second;
  if (value.kind == TileKind::ReduceResult) {
    return Operand::Reg(states_.at(value.reduction)[value.component],
                        IsOfSection(tile_, value) ? u_ : RowSlot());
  }
  if (auto row = row_values_.find(id); row != row_values_.end())
    return Operand::Reg(row->second, RowSlot());
  const FragmentSlot& place = places_.at(id);
  return Operand::Reg(place.fragment, place.slot);
}

void Expander::EmitLets(const TileValue& value) {
  for (int let : value.lets) w_.Bind(lets_[let], Read(tile_.lets[let].value));
}

// A load of the element at hand, or from there on, from shared memory if a copy, a thread, a
// block or an earlier phase has brought it.
Load Expander::LoadOf(TileId id, int fragment, SymInt slot, SymImporter& importer) const {
  const TileValue& value = tile_.values[id];
  Load load{fragment, slot};
  load.array = value.buffer;
  load.index = importer.Import(value.index);
  load.fill = FillOf(id);
  load.fills = folded_[id];
  if (const auto copied = copied_.find(id); copied != copied_.end() && !at_ends_) {
    const SpaceState& space = spaces_[copied->second.from.space];
    load.space = Space::Shared;
    load.array = copied->second.array;
    const SymInt slice = SliceOfUnit();
    load.index = InStage(copied->second, place_, set_) + at_.row_local * space.extent +
                 space.column - ends_.head - rank_ * CtaColumns() - slice * SliceColumns();
  }
  if (const auto row = async_.find(id); row != async_.end()) {
    load.space = Space::Shared;
    load.array = row->second.array;
    load.index = InAsync(turn_) + v_;
  }
  if (const auto& block = blocks_.loads[id]) {
    load.space = Space::Shared;
    load.array = block_arrays_[block->array];
    load.index = InBlock(*block);
  }
  if (const auto held = held_.find(id); held_step_ && held != held_.end() && held->second.found) {
    load.space = Space::Shared;
    load.array = held->second.array;
    load.index = InHeld(*held_step_) + v_;
  }
  return load;
}

// One value at one point; for loads without vectors.
void Expander::EmitPoint(TileId id, int fragment, SymInt slot, SymImporter& importer, SymInt mask) {
  const TileValue& value = tile_.values[id];
  EmitLets(value);
  switch (value.kind) {
    case TileKind::Load: {
      Load load = LoadOf(id, fragment, slot, importer);
      load.predicate = SymAnd(importer.Import(value.predicate), mask);
      w_.Emit(load);
      break;
    }
    case TileKind::Map: {
      Map map{value.op, fragment, slot, {}, precisions_[id]};
      for (TileId operand : value.operands) map.arguments.push_back(Read(operand));
      w_.Emit(std::move(map));
      break;
    }
    case TileKind::Index:
      w_.Emit(IndexValue{fragment, slot, importer.Import(value.index)});
      break;
    case TileKind::Random:
      w_.Emit(Random{value.op, fragment, slot, Read(value.operands[0]), Read(value.operands[1]),
                     importer.Import(value.index)});
      break;
    case TileKind::Constant:
    case TileKind::ReduceResult:
      break;
  }
}

// A whole vector of a load into slots [slot, slot + vector).
void Expander::EmitVectorLoad(TileId id, int fragment, SymInt slot, SymImporter& importer,
                              SymInt mask) {
  const TileValue& value = tile_.values[id];
  EmitLets(value);
  if (const std::optional<Access> window = WindowOf(value, importer))
    return EmitWindow(id, *window, fragment, slot, importer, mask);
  const SymInt predicate = SymAnd(importer.Import(value.predicate), mask);
  const Load element = LoadOf(id, fragment, slot + v_, importer);
  const Access access =
      ClassifyAccess(element.index, v_, vector_, DTypeBytes(value.dtype),
                     element.space == Space::Shared ? 16 : BufferAlignment(value.buffer));
  auto scalar = [&] {
    w_.Loop(v_, vector_, true, [&] {
      Load load = element;
      load.predicate = predicate;
      w_.Emit(load);
    });
  };
  const bool movable = access.kind == Access::kUnaligned && element.space == Space::Global;
  if (access.kind != Access::kVector && !movable) return scalar();
  const bool inside = access.width * DTypeBytes(value.dtype) == 16 && HasRoomBehind(value);
  const Start start = access.kind == Access::kVector ? Start::Aligned
                      : inside                       ? Start::Inside
                                                     : Start::Anywhere;
  auto vectors = [&](SymInt condition) {
    for (int part = 0; part < vector_; part += access.width) {
      Load load = element;
      load.slot = slot + part;
      load.width = access.width;
      load.index = access.base + part;
      load.predicate = condition;
      load.start = start;
      w_.Emit(load);
    }
  };
  if (!DependsOn(predicate, v_)) return vectors(predicate);
  // A vector that is partly outside its row is read whole all the same where there is memory:
  // nobody uses what the mask excludes, and element by element the row's ends would take longer
  // than all the rest of it.
  // Copies bring the row and no more.
  const SymInt in_memory =
      element.space == Space::Shared
          ? WholeVector(predicate)
          : SymAnd(SymGe(access.base, 0),
                   SymLe(access.base + vector_, out_.buffers[value.buffer].num_elements));
  // Where the row ends with the memory, being in the memory says it all.
  const SymInt wanted = WholeVector(predicate).is_same(in_memory) ? 1 : UnitMask(predicate);
  w_.Branch(
      in_memory, [&] { vectors(wanted); }, scalar);
}

// Whether what a vector of a shifted row's body reads here lies in front of more: columns of the
// same tensor, as many as another vector has. Where CTAs take rows in turn that is not asked: they
// read it once, and need the registers.
bool Expander::HasRoomBehind(const TileValue& value) const {
  if (!has_ends_ || options_.grid > 0 || at_ends_ || outer_ || !value.predicate.is_same(1) ||
      out_.buffers[value.buffer].written) {
    return false;
  }
  // States in parts: written by the phase before.
  const bool merged = absl::c_any_of(tile_.reductions, [&](const TileReduction& r) {
    return r.merge && absl::c_any_of(r.operands, [&](TileId id) {
             return tile_.values[id].kind == TileKind::Load &&
                    tile_.values[id].buffer == value.buffer;
           });
  });
  if (merged) return false;
  return absl::c_any_of(tile_.spaces, [&](const TileSpace& space) {
    return space.column.is_symbolic() && DependsOn(value.index, space.column) &&
           !DependsOn(value.index - space.column, space.column);
  });
}

Access::Kind Expander::LoadKind(const TileValue& value, SymImporter& importer) const {
  if (value.kind != TileKind::Load || vector_ == 1) return Access::kScattered;
  if (WindowOf(value, importer)) return Access::kWindow;
  if (DependsOn(importer.Import(value.predicate), v_)) return Access::kScattered;
  // Pairs lie in shared memory as they do nowhere else.
  const auto id = &value - tile_.values.data();
  const bool pairs = options_.odd_run > 0 && blocks_.loads[id];
  return ClassifyAccess(pairs ? InBlock(*blocks_.loads[id]) : importer.Import(value.index), v_,
                        vector_, DTypeBytes(value.dtype), BufferAlignment(value.buffer))
      .kind;
}

bool Expander::IsVectorLoad(const TileValue& value, SymImporter& importer) const {
  const Access::Kind kind = LoadKind(value, importer);
  return kind == Access::kVector || kind == Access::kUnaligned || kind == Access::kWindow;
}

// The vectors that have what a thread wants of a tensor, if it does not want them whole.
std::optional<Access> Expander::WindowOf(const TileValue& value, SymImporter& importer) const {
  const TileId id = static_cast<TileId>(&value - tile_.values.data());
  if (!MayLoadWindows() || !value.lets.empty() || copied_.contains(id) || async_.contains(id))
    return std::nullopt;
  const Access access =
      ClassifyLoad(importer.Import(value.index), importer.Import(value.predicate), v_, vector_,
                   DTypeBytes(value.dtype), BufferAlignment(value.buffer),
                   out_.buffers[value.buffer].num_elements);
  return access.kind == Access::kWindow ? std::make_optional(access) : std::nullopt;
}

// Loads of a window, from which a thread picks its elements.
void Expander::EmitWindow(TileId id, const Access& access, int fragment, SymInt slot,
                          SymImporter& importer, SymInt mask) {
  const TileValue& value = tile_.values[id];
  // What depends on the element says which are wanted, and all that are lie in the window.
  const SymInt predicate = importer.Import(value.predicate);
  const SymInt of_vector = DependsOn(predicate, v_) ? SymInt(1) : predicate;
  const Load element = LoadOf(id, fragment, slot + v_, importer);
  const auto window = [&](SymInt condition) {
    const int whole =
        w_.NewFragment("near", value.dtype, access.elements, IsNarrow(value.dtype) && packs_);
    for (int part = 0; part < access.elements; part += access.width) {
      Load load = element;
      load.fragment = whole;
      load.slot = part;
      load.width = access.width;
      load.index = access.base + part;
      load.predicate = SymAnd(of_vector, condition);
      load.start = Start::Aligned;
      w_.Emit(load);
    }
    OverElements(
        [&] { w_.Set(fragment, slot + v_, OpKind::Copy, {Operand::Reg(whole, access.within)}); });
  };
  if (!DependsOn(mask, v_)) return window(mask);
  w_.Branch(
      WholeVector(mask), [&] { window(1); },
      [&] {
        OverElements([&] {
          Load load = element;
          load.predicate = SymAnd(predicate, mask);
          w_.Emit(load);
        });
      });
}

void Expander::ComputeRowValues(const std::vector<TileId>& ids, int pass) {
  const int space = tile_.passes[pass].space;
  // What is there already needs nothing any more of what it followed from.
  std::vector<bool> kept(tile_.values.size());
  for (const auto& entry : row_values_) kept[entry.first] = true;
  const std::vector<bool> needed = NeededBy(pass, kept);
  std::vector<TileId> todo;
  for (TileId id : ids) {
    if (levels_[id] == Level::kRow && tile_.values[id].kind != TileKind::ReduceResult &&
        needed[id] && !row_values_.contains(id)) {
      todo.push_back(id);
    }
  }
  if (todo.empty()) return;
  SymImporter& importer = *spaces_[space].importer;
  for (TileId id : todo) row_values_[id] = w_.NewFragment("r", tile_.values[id].dtype, RowSlots());
  if (!outer_) {
    for (TileId id : todo) EmitPoint(id, row_values_[id], 0, importer, row_mask_);
    return;
  }
  std::vector<TileId> rest;
  std::map<TileId, Operand> alike;  // Loads of one element for all of a vector.
  for (TileId id : todo) {
    const TileValue& value = tile_.values[id];
    if (value.lets.empty() && IsVectorLoad(value, importer)) {
      EmitVectorLoad(id, row_values_[id], 0, importer, row_mask_);
      continue;
    }
    rest.push_back(id);
    if (value.lets.empty() && LoadKind(value, importer) == Access::kUniform) {
      const Operand one = Operand::Reg(w_.NewFragment("r", value.dtype));
      EmitPoint(id, one.fragment, 0, importer, Substitute(row_mask_, v_, 0));
      alike.emplace(id, one);
    }
  }
  if (rest.empty()) return;
  w_.Loop(v_, vector_, true, [&] {
    for (TileId id : rest) {
      if (const auto found = alike.find(id); found != alike.end()) {
        w_.Set(row_values_[id], v_, OpKind::Copy, {found->second});
      } else {
        EmitPoint(id, row_values_[id], v_, importer, row_mask_);
      }
    }
  });
}

// What a pass loads once a row is under way before anything waits for the row itself.
void Expander::BeginRowLoads(int pass) {
  std::vector<TileId> loads = Collect(pass);
  std::erase_if(loads, [&](TileId id) {
    return tile_.values[id].kind != TileKind::Load || !tile_.values[id].lets.empty();
  });
  ComputeRowValues(loads, pass);
}

// A computed value that is kept: where it is. Whether an earlier pass has put it there.
bool Expander::HoldAcrossPasses(TileId id, SpaceState& space) {
  const bool element = levels_[id] == Level::kElement;
  auto [it, first] = space.resident.try_emplace(id, -1);
  if (first) {
    it->second = w_.NewFragment("kept", tile_.values[id].dtype,
                                static_cast<int>(registers_) * (element ? vector_ : 1));
  }
  places_[id] = {it->second, element ? u_ * vector_ + v_ : u_};
  return !first;
}

// A value of the vector at hand.
void Expander::SetZero(TileId id) {
  const auto [fragment, slot] = places_.at(id);
  const auto set = [&, fragment = fragment, slot = slot] {
    w_.Set(fragment, slot, OpKind::Copy, {BlockWriter::Number(w_.dtype(fragment), 0)});
  };
  if (DependsOn(slot, v_)) {
    OverElements(set);
  } else {
    set();
  }
}

// Whether there are too few registers for all that a step loads: partial states above all.
bool Expander::IsTooMuchForAStep(const std::vector<TileId>& ids, const SpaceState& space) const {
  if (space.persistent || at_ends_) return false;
  double words = 0;
  for (TileId id : ids) {
    const TileValue& value = tile_.values[id];
    if (value.kind != TileKind::Load || !value.lets.empty() || levels_[id] <= Level::kRow) continue;
    const int64_t elements = registers_ * (levels_[id] == Level::kElement ? vector_ : 1);
    words += static_cast<double>(elements) * DTypeBytes(value.dtype) / 4;
  }
  return words > kMostStepWords;
}

// Whether the loads of a step come before anything uses one of them. Those of elements that lie
// anywhere, broadcasts mostly and in cache, come with their use, unless a row of them is kept.
bool Expander::IsLoadedFirst(TileId id, const SpaceState& space) const {
  const TileValue& value = tile_.values[id];
  if (value.kind != TileKind::Load || !value.lets.empty()) return false;
  if (IsAcrossLoad(value, *space.importer)) return true;
  if (by_unit_ && !at_ends_) return false;
  if (absl::c_linear_search(late_, id) || (options_.reread && !at_ends_ && IsInShared(id)))
    return false;
  if (vector_ == 1 || levels_[id] != Level::kElement || space.resident.contains(id) ||
      blocks_.loads[id]) {
    return true;
  }
  const Access::Kind kind = LoadKind(value, *space.importer);
  const bool stays = space.persistent && IsOfRow(value);
  return kind != Access::kScattered && (kind != Access::kUnaligned || stays);
}

void Expander::LoadForStep(TileId id, SpaceState& space, SymImporter& importer, SymInt mask) {
  const TileValue& value = tile_.values[id];
  const bool element = levels_[id] == Level::kElement;
  const bool across = IsAcrossLoad(value, importer);
  const SymInt slot = !element ? u_ : across ? SlotInTile() : u_ * vector_ + v_;
  if (auto it = space.resident.find(id); it != space.resident.end()) {
    places_[id] = {it->second, slot};
    return;
  }
  for (const auto* loads : {&next_step_.fragments, &step_loads_}) {
    if (auto it = loads->find(id); it != loads->end()) {
      places_[id] = {it->second, slot};
      return;
    }
  }
  const bool packed = IsNarrow(value.dtype) && packs_ && !WindowOf(value, importer) &&
                      (across ? element : IsVectorLoad(value, importer));
  const int fragment = w_.NewFragment(
      "ld", value.dtype, static_cast<int>(registers_) * (element ? vector_ : 1), packed);
  places_[id] = {fragment, slot};
  if (space.persistent && !(options_.reread && IsInShared(id))) {
    space.resident[id] = fragment;
  } else if (loads_again_) {
    step_loads_[id] = fragment;
  }
  if (across) return LoadAcross(id, fragment, importer, mask);
  OverUnits([&] { LoadUnit(id, fragment, importer, mask); });
}

void Expander::LoadUnit(TileId id, int fragment, SymImporter& importer, SymInt mask) {
  if (IsVectorLoad(tile_.values[id], importer)) {
    EmitVectorLoad(id, fragment, u_ * vector_, importer, mask);
  } else if (levels_[id] == Level::kElement) {
    OverElements([&] { EmitPoint(id, fragment, u_ * vector_ + v_, importer, mask); });
  } else {
    EmitPoint(id, fragment, u_, importer, UnitMask(mask));
  }
}

// A step of a space's columns, where it is there.
Expander::SpaceState Expander::StepAt(int index, SymInt step, SymInt is_there) {
  const SpaceState& space = spaces_[index];
  SpaceState state;
  state.extent = space.extent;
  state.column = Substitute(space.column, space.step, step);
  state.mask = SymAnd(Substitute(space.mask, space.step, step), is_there);
  MapColumn(tile_.spaces[index], state, state.lets);
  return state;
}

// Steps over columns, from `begin` on or back to it: the loads of the first one, which is returned,
// and what is to be loaded in each for the next. Narrow loads are not: docs/schedulers/not-held.md,
// "Read again, step by step".
Expander::SpaceState Expander::LoadFirstStep(const std::vector<TileId>& ids, int index,
                                             SymInt begin, bool backward) {
  SpaceState& space = spaces_[index];
  const SymInt step = space.step;
  std::vector<TileId> loads;
  for (TileId id : ids) {
    const bool wide = vector_ * DTypeBytes(tile_.values[id].dtype) >= kLeastBytesAhead &&
                      IsVectorLoad(tile_.values[id], *space.importer);
    if (wide && levels_[id] > Level::kRow && IsLoadedFirst(id, space)) loads.push_back(id);
  }
  SpaceState first = StepAt(index, backward ? space.steps - 1 : begin, SymGt(space.steps, begin));
  std::map<TileId, int> fragments;
  for (TileId id : loads) {
    LoadForStep(id, first, *first.importer, SymAnd(first.mask, row_mask_));
    fragments[id] = places_[id].fragment;
  }
  next_step_.at = backward ? StepAt(index, step - 1, SymGt(step, begin))
                           : StepAt(index, step + 1, SymLt(step + 1, space.steps));
  next_step_.backward = backward;
  next_step_.fragments = std::move(fragments);
  return first;
}

void Expander::LoadNextStep() {
  const SymInt mask = SymAnd(next_step_.at.mask, row_mask_);
  if (mask.is_same(0)) return;
  for (const auto& [id, fragment] : next_step_.fragments)
    LoadUnit(id, fragment, *next_step_.at.importer, mask);
}

Access Expander::StoreAccess(const TileStore& store, SymImporter& importer) const {
  if (vector_ == 1 || store.section > 1 || DependsOn(importer.Import(store.predicate), v_))
    return {};
  Store out{};
  SetPlace(store, importer, out);
  const Access access =
      ClassifyAccess(out.index, v_, vector_, DTypeBytes(tile_.buffers[store.buffer].dtype),
                     BufferAlignment(store.buffer));
  return access.kind == Access::kVector ? access : Access{};
}

// In memory, or in the block that goes there.
void Expander::SetPlace(const TileStore& store, SymImporter& importer, Store& out) const {
  out.array = store.buffer;
  out.index = importer.Import(store.index);
  if (const auto& block = blocks_.stores[&store - tile_.stores.data()]) {
    out.space = Space::Shared;
    out.array = block_arrays_[block->array];
    out.index = InBlock(*block);
  }
}

void Expander::EmitScalarStore(const TileStore& store, SymImporter& importer, SymInt mask) {
  const Operand value = Read(store.value);
  int fragment = value.fragment;
  SymInt slot = value.slot;
  if (fragment < 0) {
    fragment = w_.NewFragment("c", value.dtype);
    slot = 0;
    w_.Set(fragment, 0, OpKind::Copy, {value});
  }
  Store out{fragment, slot};
  SetPlace(store, importer, out);
  out.predicate = SymAnd(importer.Import(store.predicate), mask);
  w_.Emit(out);
}

// A value of the section that the vector at hand is in, if it is the first of one.
void Expander::EmitSectionStore(const TileStore& store, const SpaceState& space, SymInt mask) {
  const SymInt first = SymEq(Mod(space.column, store.section), 0);
  const auto at_first = [&] { EmitScalarStore(store, *space.importer, SymAnd(mask, first)); };
  if (vector_ == 1) return at_first();
  w_.Loop(v_, 1, true, at_first);
}

void Expander::EmitVectorStore(const TileStore& store, int fragment, SymImporter& importer,
                               SymInt mask) {
  const Access access = StoreAccess(store, importer);
  const SymInt predicate = SymAnd(importer.Import(store.predicate), mask);
  auto vectors = [&](SymInt condition) {
    for (int part = 0; part < vector_; part += access.width) {
      Store out{fragment, part, access.width};
      SetPlace(store, importer, out);
      out.index = access.base + part;
      out.predicate = condition;
      out.hint = stores_;
      w_.Emit(out);
    }
  };
  if (!DependsOn(predicate, v_)) return vectors(predicate);
  w_.Branch(
      WholeVector(predicate), [&] { vectors(1); },
      [&] {
        w_.Loop(v_, vector_, true, [&] {
          Store out{fragment, v_};
          SetPlace(store, importer, out);
          out.predicate = predicate;
          w_.Emit(out);
        });
      });
}

// A value of the row: one of the row's threads stores it, of a vector of rows all at once.
void Expander::EmitRowStore(const TileStore& store, SymImporter& importer) {
  const SymInt mask = SymAnd(SymEq(part_, 0), SymAnd(Leader(), row_mask_));
  if (outer_ && StoreAccess(store, importer).kind == Access::kVector) {
    const int fragment = w_.NewFragment("out", tile_.values[store.value].dtype, vector_);
    OverRowSlots([&] { w_.Set(fragment, RowSlot(), OpKind::Copy, {Read(store.value)}); });
    return EmitVectorStore(store, fragment, importer, mask);
  }
  OverRowSlots([&] { EmitScalarStore(store, importer, mask); });
}

}  // namespace seam::kernel
