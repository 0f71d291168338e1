// Threads with tiles: of tensors some have neighbours along the rows, others along the columns, and
// a thread moves each in vectors along its own axis. What it computes lies in between, element by
// element, so nothing is exchanged.
//
//                columns u              x[column][row]: for each u a vector along v
//            +---+---+---+---+          y[row][column]: for each v a vector along u
//   rows v   |   |   |   |   |
//            +---+---+---+---+
//            |   |   |   |   |
//            +---+---+---+---+
#include <algorithm>

#include "scheduler/kernel/expander.h"

namespace seam::kernel {

// Where the thread's columns of one row lie.
Access Expander::AcrossAccess(SymInt index, const Buffer& buffer) const {
  return ClassifyAccess(index, u_, static_cast<int>(registers_), DTypeBytes(buffer.dtype),
                        buffer.alignment_bytes);
}

bool Expander::IsAcrossLoad(const TileValue& value, SymImporter& importer) const {
  if (!tiles_ || value.kind != TileKind::Load || !value.lets.empty()) return false;
  return LoadKind(value, importer) != Access::kVector &&
         AcrossAccess(importer.Import(value.index), out_.buffers[value.buffer]).kind ==
             Access::kVector;
}

bool Expander::IsAcrossStore(const TileStore& store, SymImporter& importer) const {
  return tiles_ && AcrossAccess(importer.Import(store.index), out_.buffers[store.buffer]).kind ==
                       Access::kVector;
}

// In vectors where the first and the last column of a row are wanted, else one by one. What is
// stored is masked by bounds of the columns and by the row; what a load brings from between two
// places that are wanted is in the buffer, and nobody uses it if it is not.
void Expander::MoveAcross(SymInt predicate,
                          absl::FunctionRef<void(SymInt condition, bool whole)> move) {
  if (!DependsOn(predicate, u_)) return move(predicate, true);
  const SymInt whole =
      SymAnd(Substitute(predicate, u_, 0), Substitute(predicate, u_, registers_ - 1));
  w_.Branch(
      whole, [&] { move(1, true); }, [&] { move(predicate, false); });
}

void Expander::LoadAcross(TileId id, int fragment, SymImporter& importer, SymInt mask) {
  const TileValue& value = tile_.values[id];
  const bool of_rows = levels_[id] == Level::kElement;  // Else all of the thread's rows have it.
  const SymInt slot = of_rows ? SlotInTile() : u_;
  const Load element = LoadOf(id, fragment, slot, importer);
  const Access access = AcrossAccess(element.index, out_.buffers[value.buffer]);
  const auto row = [&] {
    const SymInt wanted = SymAnd(importer.Import(value.predicate), of_rows ? mask : UnitMask(mask));
    MoveAcross(wanted, [&](SymInt condition, bool whole) {
      Load load = element;
      load.predicate = condition;
      if (!whole) return w_.Loop(u_, registers_, true, [&] { w_.Emit(load); });
      load.width = access.width;
      for (int part = 0; part < registers_; part += access.width) {
        load.slot = Substitute(slot, u_, part);
        load.index = access.base + part;
        w_.Emit(load);
      }
    });
  };
  if (of_rows) return OverElements(row);
  row();
}

void Expander::StoreAcross(const TileStore& store, int fragment, SymImporter& importer,
                           SymInt mask) {
  Store element{fragment, SlotInTile()};
  SetPlace(store, importer, element);
  element.hint = stores_;
  const Access access = AcrossAccess(element.index, out_.buffers[store.buffer]);
  OverElements([&] {
    MoveAcross(SymAnd(importer.Import(store.predicate), mask), [&](SymInt condition, bool whole) {
      Store out = element;
      out.predicate = condition;
      if (!whole) return w_.Loop(u_, registers_, true, [&] { w_.Emit(out); });
      out.width = access.width;
      for (int part = 0; part < registers_; part += access.width) {
        out.slot = Substitute(element.slot, u_, part);
        out.index = access.base + part;
        w_.Emit(out);
      }
    });
  });
}

}  // namespace seam::kernel
