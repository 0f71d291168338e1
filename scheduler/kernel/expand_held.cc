// Steps that stay: CTAs that share rows read their vectors for the states of these rows, and again
// behind the barrier of the grid, where the states are merged. In one launch a CTA and its shared
// memory stay, and there the first steps that it takes of a row:
//
//   first phase    0  1  2 | 3  4  5    from memory; what is loaded of 0, 1 and 2 is stored
//   barrier of the grid
//   next phase     5  4  3 | 0  1  2    5, 4 and 3 from memory, or a cache that has what was read
//                                       last; 0, 1 and 2 from shared memory
//
// A thread finds what it has left itself, each vector beside those of the neighbouring threads: no
// barrier, no bank conflicts. Where each phase is a launch, all steps are read again.
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {

// Loads in vectors, or of single elements if all are, in spaces of several steps.
void Expander::PrepareHeld() {
  for (const HeldLoad& held : options_.held_loads) {
    const TileValue& value = tile_.values[held.load];
    const auto space = absl::c_find_if(
        tile_.spaces, [&](const TileSpace& s) { return UsesColumn(value.index, s); });
    const int index = static_cast<int>(space - tile_.spaces.begin());
    const SpaceState& state = spaces_[index];
    if (!state.step.is_symbolic() || (vector_ > 1 && !IsVectorLoad(value, *state.importer))) {
      continue;
    }
    if (!out_.together.is_symbolic()) out_.together = out_.env->FreshSymbol("together", 0, 1);
    const int array =
        w_.NewShared("held", value.dtype, options_.held * registers_ * out_.threads * vector_);
    out_.shared[array].lasting = held.array;
    held_[held.load] = {index, array, held.found};
  }
}

// How many of the first steps the pass finds in shared memory; 0 if none of its loads is there.
SymInt Expander::HeldSteps(const std::vector<TileId>& ids, int space) const {
  const bool any = absl::c_any_of(ids, [&](TileId id) {
    const auto held = held_.find(id);
    return held != held_.end() && held->second.found && held->second.space == space;
  });
  return any ? Min(options_.held, spaces_[space].steps) * out_.together : SymInt(0);
}

// Where the thread's vector of that step is.
SymInt Expander::InHeld(SymInt step) const {
  return ((step * registers_ + u_) * out_.threads + out_.thread_x) * vector_;
}

// Writes `step` for each of the first steps, as found in shared memory; or for each vector of them,
// which is shorter text, where no load is left that should be under way early.
void Expander::OverHeldSteps(const std::vector<TileId>& ids, int index, SymInt steps,
                             absl::FunctionRef<void()> step) {
  places_.clear();
  RenewStep(index);
  const auto over = [&](SymInt extent) {
    held_step_ = spaces_[index].step;
    w_.Loop(*held_step_, extent, false, step);
    held_step_.reset();
  };
  if (registers_ == 1 || !FindsAll(ids)) return over(steps);
  const int64_t registers = registers_;
  SpaceState in_steps = std::exchange(spaces_[index], VectorByVector(index));
  const SymInt u = std::exchange(u_, 0);
  registers_ = 1;
  over(steps * registers);
  registers_ = registers;
  u_ = u;
  spaces_[index] = std::move(in_steps);
}

bool Expander::FindsAll(const std::vector<TileId>& ids) const {
  return absl::c_all_of(ids, [&](TileId id) {
    const auto held = held_.find(id);
    return tile_.values[id].kind != TileKind::Load || levels_[id] <= Level::kRow ||
           (held != held_.end() && held->second.found);
  });
}

// The space in steps of one vector a thread.
Expander::SpaceState Expander::VectorByVector(int index) {
  const SpaceState& steps = spaces_[index];
  SpaceState vectors;
  vectors.extent = steps.extent;
  vectors.end = steps.end;
  vectors.steps = steps.steps * registers_;
  vectors.step = out_.env->FreshSymbol("vector", 0, vectors.steps - 1);
  const SymInt first = Substitute(Substitute(steps.column, u_, 0), steps.step, 0);
  vectors.column = first + vectors.step * (options_.columns_per_step / registers_ * options_.split);
  vectors.mask = MaskOf(vectors, has_ends_);
  MapColumn(tile_.spaces[index], vectors, lets_);
  return vectors;
}

// Stores what the step at hand has loaded, if it is one of those that stay.
void Expander::LeaveHeld(const SpaceState& space) {
  if (loads_again_) return;  // So does what comes after this.
  for (const auto& [id, held] : held_) {
    if (held.found || at_ends_ || &space != &spaces_[held.space] || !places_.contains(id)) continue;
    const FragmentSlot& place = places_.at(id);
    Store out{place.fragment, Substitute(place.slot, v_, 0), vector_};
    out.space = Space::Shared;
    out.array = held.array;
    out.index = InHeld(space.step);
    out.predicate = SymAnd(SymLt(space.step, options_.held), SymEq(out_.together, 1));
    w_.Emit(out);
  }
}

}  // namespace seam::kernel
