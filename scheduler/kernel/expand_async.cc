// Rows that threads bring to shared memory themselves, each the vectors that it has of them, to
// places that no other thread touches: no barrier orders anything here, pieces may be short, and
// nothing takes registers until it is used.
//
//   turn           0            1            2         CTAs that take rows in turn
//   in hand        row 0        row 1        row 2     in registers, or where they have come to
//   on their way   row 1        row 2        row 3     to the places from which row 0, 1, 2 came,
//                                                      or to others
//
// Rows of a CTA that takes no others stay where they have come to, and each pass reads them there.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

// What a thread brings at once.
constexpr int kLeastBytes = 4, kMostCopyBytes = 16;
// Vectors from which on a pass over them is a loop: unrolled, compilers load many ahead of their
// use and run out of registers.
constexpr int kRolled = 8;

}  // namespace

void Expander::PrepareAsync() {
  if (!options_.async || options_.blocks) return;
  for (size_t id = 0; id < tile_.values.size(); ++id) {
    const TileValue& value = tile_.values[id];
    for (size_t s = 0; s < spaces_.size(); ++s) {
      const SpaceState& space = spaces_[s];
      // What several rows or columns have in common, weights above all, comes from a cache.
      if (!space.persistent || !IsOfEachElement(tile_, value, static_cast<int>(s)) ||
          LoadKind(value, *space.importer) != Access::kVector ||
          DependsOn(SymAnd(space.mask, row_mask_), v_)) {
        continue;
      }
      const Access access = ClassifyAccess(space.importer->Import(value.index), v_, vector_,
                                           DTypeBytes(value.dtype), BufferAlignment(value.buffer));
      if (access.width * DTypeBytes(value.dtype) < kLeastBytes) continue;
      const int array = w_.NewShared(tile_.buffers[value.buffer].name, value.dtype,
                                     AsyncSlots() * registers_ * out_.threads * vector_);
      async_[static_cast<TileId>(id)] = {static_cast<int>(s), array};
    }
  }
}

// Rows that stay where they are while the next ones come have places of their own every other turn.
int64_t Expander::AsyncSlots() const { return options_.grid > 0 && options_.reread ? 2 : 1; }

// Where the thread's vector is in that turn, beside those of the neighbouring threads: no bank
// conflicts.
SymInt Expander::InAsync(SymInt turn) const {
  const SymInt first = Mod(turn, AsyncSlots()) * registers_;
  return ((first + u_) * out_.threads + out_.thread_x) * vector_;
}

// Begins to bring the rows of that turn.
void Expander::BringOwnRows(SymInt turn) {
  const auto at = [&](SymInt e) { return options_.grid > 0 ? Substitute(e, turn_, turn) : e; };
  for (const auto& [id, row] : async_) {
    const TileValue& value = tile_.values[id];
    const SpaceState& space = spaces_[row.space];
    const Access access = ClassifyAccess(at(space.importer->Import(value.index)), v_, vector_,
                                         DTypeBytes(value.dtype), BufferAlignment(value.buffer));
    const SymInt inside = SymAnd(at(space.importer->Import(value.predicate)), at(space.mask));
    const SymInt of_rows = IsThere(Substitute(at(at_.row), v_, 0));
    const SymInt in_turn = options_.grid > 0 ? SymLt(turn, turns_) : SymInt(1);
    const SymInt predicate = SymAnd(inside, SymAnd(in_turn, of_rows));
    if (predicate.is_same(0)) continue;
    OverUnits([&, &from = row, &load = value] {
      const int width = std::min(access.width, kMostCopyBytes / DTypeBytes(load.dtype));
      for (int part = 0; part < vector_; part += width) {
        w_.Emit(AsyncLoad{from.array, InAsync(turn) + part, load.buffer, access.base + part, width,
                          predicate});
      }
    });
  }
}

// This turn's rows into registers, unless they are read where they are, and the next ones are on
// their way.
void Expander::TakeOwnRows() {
  if (async_.empty()) return;
  BeginRowLoads(0);
  w_.Emit(AwaitLoads{});
  if (!options_.reread) {
    for (const auto& [id, row] : async_) {
      SpaceState& space = spaces_[row.space];
      LoadForStep(id, space, *space.importer, SymAnd(space.mask, row_mask_));
    }
  }
  BringOwnRows(turn_ + 1);
}

// Whether a pass over vectors that stay in shared memory is a loop: nothing that lies in registers
// is found by the number of the vector.
bool Expander::RollsUnits(const std::vector<Accumulator>& accumulators) const {
  const auto is_of_sections = [](auto& r) { return r.over == Over::Sections; };
  return !async_.empty() && options_.reread && registers_ >= kRolled && !at_ends_ &&
         absl::c_none_of(tile_.reductions, is_of_sections) &&
         absl::c_none_of(places_,
                         [&](const auto& entry) { return DependsOn(entry.second.slot, u_); }) &&
         absl::c_none_of(accumulators, [&](const Accumulator& a) {
           return IsKeptByStep(a) || DependsOn(SlotOf(a), u_);
         });
}

}  // namespace seam::kernel
