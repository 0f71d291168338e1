// Which rows and columns a thread has: the layout's modes as coordinates, the columns of a space
// step by step, and the masks of what lies outside.
//
// Rows that start anywhere are a body of aligned vectors and fewer than three vectors' worth of
// ends, one element a thread:
//
//   row  e e e | b b b b | b b b b | ... | b b b b | e e e e e e        b: body, e: ends
//              `- aligned                          `- a vector, and fewer than another
//
// Behind each vector of the body there is another one: what lies unaligned beside such rows,
// weights above all, is cut out of aligned pieces, none of which leaves its buffer.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {

absl::Status Expander::PlaceThreads() {
  const SymInt lane = Mod(out_.thread_x, 32), warp = FloorDiv(out_.thread_x, 32);
  SymInt cta = options_.split > 1 ? FloorDiv(out_.block_x, options_.split) : team_;
  if (options_.grid > 0) {
    // One round after the other, the last one without those for whom no rows are left.
    int64_t rows_per_cta = 1;
    for (const Mode& m : options_.layout.modes) {
      if (m.axis == Axis::Row && m.place != Place::Grid) rows_per_cta *= *m.extent.maybe_int();
    }
    teams_ = options_.grid / cluster_;
    batches_ = base_->Import(options_.batches);
    const bool batched = !batches_.is_same(1);
    const SymInt rows = batched ? base_->Import(options_.batch_rows) : rows_;
    batch_ = batched ? FloorDiv(team_, teams_) : SymInt(0);
    nth_team_ = batched ? Mod(team_, teams_) : team_;
    if (batched && options_.stages == 0 && !options_.blocks &&
        !ProvablyDivisible(rows, rows_per_cta))
      uneven_batch_rows_ = rows;
    sets_ =
        batched && !uneven_batch_rows_ ? FloorDiv(rows, rows_per_cta) : CeilDiv(rows, rows_per_cta);
    all_turns_ = CeilDiv(sets_ - nth_team_, teams_);
    tickets_ = options_.tickets && CanPassTickets();
    if (tickets_) {
      turns_ = sets_;
      turn_ = out_.env->FreshSymbol("turn", 0, sets_ - 1);
      set_ = out_.env->FreshSymbol("set", 0, sets_ - 1);
    } else {
      turns_ = all_turns_;
      turn_ = out_.env->FreshSymbol("turn", 0, CeilDiv(rows, rows_per_cta * teams_) - 1);
      if (stretched()) PlaceStretches();
      set_ = SetInOrder(turn_);
    }
    cta = uneven_batch_rows_ ? turn_ * teams_ + nth_team_ : set_;
  }
  int64_t lane_bits = 1, warp_bits = 1;
  SymInt row = 0, row_local = 0, column = 0;
  at_.column_lane = at_.column_warp = 0;
  for (const Mode& m : options_.layout.modes) {
    SymInt coordinate = 0;
    SymInt stride = m.stride;
    const int64_t extent = m.extent.maybe_int().value_or(0);
    switch (m.place) {
      case Place::Vector:
        coordinate = v_;
        break;
      case Place::Register:
        if (options_.odd_run == 0) coordinate = u_;
        break;
      case Place::Lane:
        coordinate = Mod(FloorDiv(lane, lane_bits), extent);
        if (m.axis == Axis::Column) at_.column_lane = coordinate;
        for (int64_t bit = 1; bit < extent; bit *= 2) {
          (m.axis == Axis::Column ? at_.column_lane_masks : at_.row_lane_masks)
              .push_back(static_cast<int>(lane_bits * bit));
        }
        lane_bits *= extent;
        break;
      case Place::Warp:
        coordinate = Mod(FloorDiv(warp, warp_bits), extent);
        if (m.axis == Axis::Column) {
          at_.column_warp = coordinate;
          at_.column_warps = extent;
        }
        warp_bits *= extent;
        break;
      case Place::Grid:
        if (m.axis == Axis::Row) coordinate = cta;
        break;
      case Place::Step:
        break;
      case Place::Cluster:
        coordinate = rank_;
        if (even_piece_ > 0) stride = even_piece_;
        break;
    }
    if (m.axis == Axis::Column) {
      column += coordinate * stride;
    } else {
      row += coordinate * stride;
      if (m.place != Place::Grid) {
        row_local += coordinate * stride;
        at_.rows_per_cta *= extent;
      }
    }
  }
  at_.row = FirstOfBatch() + row;
  at_.row_local = row_local;
  at_.column = column;
  if (options_.odd_run > 0) PlaceInPairs();
  return absl::OkStatus();
}

// `per_step`: columns that all threads have at once.
Expander::SpaceState Expander::PlaceSpace(int index, bool persistent, int64_t per_step) {
  const TileSpace& space = tile_.spaces[index];
  SpaceState state;
  state.extent = base_->Import(space.extent);
  const int split = space.whole ? 1 : options_.split;
  state.persistent = persistent && split == 1;
  const bool cut = has_ends_ && space.column.is_symbolic();
  const SymInt head = cut ? ends_.head : SymInt(0);
  const SymInt covered = cut ? Max(FloorDiv(state.extent, vector_) * vector_, 1) : state.extent;
  state.column = head + at_.column;
  state.end = state.extent;
  if (even_piece_ > 0 && state.persistent) state.end = Min(state.end, (rank_ + 1) * even_piece_);
  // No columns at all: one step, in which all of them are masked.
  if (!state.persistent && !covered.is_same(0)) {
    // CTAs that share a row take its vectors in turn: no CTA has less to do than others but for one
    // vector a thread, and all of them read what lies close together, which memory answers sooner.
    state.steps = CeilDiv(covered, per_step * split);
    if (!state.steps.is_same(1)) {
      state.step = out_.env->FreshSymbol(absl::StrCat("step", index), 0, state.steps - 1);
      state.column += state.step * (per_step * split);
    }
    if (split > 1) {
      const int64_t of_vector = tiles_ ? per_step : per_step / registers_;
      state.column += part_ * of_vector;
      if (!tiles_) state.column += u_ * (of_vector * (split - 1));
    }
  }
  state.mask = options_.odd_run > 0 ? MaskOfPairs(state) : MaskOf(state, cut);
  if (state.persistent) state.mask = MaskOfLast(state.mask);
  if (has_ends_) ends_.spaces.push_back(EndsOf(space, state, cut));
  MapColumn(space, state, lets_);
  return state;
}

// Of CTAs of a cluster that have vectors of rows each has as many columns, to one or so, if it is
// known how many there are: no vectors need to begin there. Those of spaces that take several steps
// lie as the layout has them.
void Expander::CutEvenly() {
  if (cluster_ == 1 || !outer_) return;
  int64_t columns = 0;
  for (size_t s = 0; s < tile_.spaces.size(); ++s) {
    const int64_t extent = base_->Import(tile_.spaces[s].extent).maybe_int().value_or(0);
    if (extent == 1) continue;
    const bool persistent = s < options_.persistent.size() && options_.persistent[s];
    if (!persistent || extent == 0 || (columns > 0 && extent != columns)) return;
    columns = extent;
  }
  even_piece_ = (columns + cluster_ - 1) / cluster_;
}

// A mask that says where it is known to hold: for all of a thread's vectors but the last ones.
SymInt Expander::MaskOfLast(SymInt mask) const {
  if (!outer_ || registers_ == 1 || DependsOn(mask, v_)) return mask;
  int64_t inside = 0;
  while (inside < registers_ && Substitute(mask, u_, inside).is_same(1)) ++inside;
  return inside == 0 ? mask : SymOr(SymLt(u_, inside), mask);
}

// Whether the columns, of a row's body or of a row without ends, are inside.
SymInt Expander::MaskOf(const SpaceState& state, bool body) const {
  const SymInt first = Substitute(state.column, v_, 0);
  if (body) return SymLe(first + 2 * vector_, state.extent);
  // So does a run of columns.
  if (tiles_) {
    const SymInt start = Substitute(state.column, u_, 0);
    const bool runs =
        ProvablyDivisible(state.extent, registers_) && ProvablyDivisible(start, registers_);
    return SymLt(runs ? start : state.column, state.end);
  }
  // A vector lies wholly inside or outside when both ends are multiples of it.
  const bool whole =
      !outer_ && ProvablyDivisible(state.extent, vector_) && ProvablyDivisible(first, vector_);
  return SymLt(whole ? first : state.column, state.end);
}

void Expander::MapColumn(const TileSpace& space, SpaceState& state, std::vector<SymInt>& lets) {
  state.importer = std::make_unique<SymImporter>(RowImporter());
  if (space.column.is_symbolic()) state.importer->Map(space.column.node(), state.column);
  MapLets(*state.importer, lets);
}

SymImporter Expander::RowImporter() {
  SymImporter importer(out_.env.get());
  for (const auto& [node, copy] : parameter_map_) importer.Map(node, copy);
  if (tile_.row.is_symbolic()) importer.Map(tile_.row.node(), at_.row);
  return importer;
}

void Expander::MapLets(SymImporter& importer, std::vector<SymInt>& lets) {
  if (lets.empty()) {
    for (const TileLet& let : tile_.lets) {
      const SymNode* node = let.symbol.node();
      lets.push_back(out_.env->FreshSymbol(node->name, node->range.lo, base_->Import(node->upper)));
    }
  }
  for (size_t i = 0; i < lets.size(); ++i) importer.Map(tile_.lets[i].symbol.node(), lets[i]);
}

// A row's elements outside its body, fewer than three vectors: one a thread, from the last of the
// row's threads on, of a cluster's last CTA, since these have the least to do in the body's last
// register.
void Expander::PlaceEnds() {
  has_ends_ = true;
  const int64_t lanes = options_.layout.Extent(Axis::Column, Place::Lane);
  const int64_t threads = lanes * at_.column_warps;
  ends_.registers = (3 * vector_ - 2 + threads - 1) / threads;
  if (ends_.registers > 1) ends_.u = out_.env->FreshSymbol("end", 0, ends_.registers - 1);
  ends_.element = threads - 1 - (at_.column_warp * lanes + at_.column_lane) + ends_.u * threads;
  ends_.slot = registers_ * vector_;
  if (anywhere_) {
    ends_.head = Mod(-RowImporter().Import(*options_.start), vector_);
    return;
  }
  // A thread has the same columns in all turns. The body's first vector is a number of its own,
  // so that `vector_` divides the addresses there and what else depends on it stays short.
  const SymInt start = Substitute(RowImporter().Import(*options_.start), turn_, 0);
  SymInt first = CeilDiv(start, vector_);
  if (first.is_symbolic()) {
    const SymInt symbol = out_.env->FreshSymbol("first", RangeOf(first).lo, RangeOf(first).hi);
    if (stretched()) {
      first_vector_ = {symbol, first};
    } else {
      w_.Bind(symbol, w_.Index(DType::I64, first));
    }
    first = symbol;
  }
  ends_.head = first * vector_ - start;
}

// Before the body the columns in front of it, behind it the others.
Expander::SpaceState Expander::EndsOf(const TileSpace& space, const SpaceState& body, bool cut) {
  SpaceState ends;
  ends.extent = body.extent;
  ends.persistent = body.persistent;
  ends.mask = 0;
  if (cut) {
    const SymInt in_body = InBody(body.extent, ends_.head);
    ends.column = ends_.element + SymSelect(SymLt(ends_.element, ends_.head), 0, in_body);
    ends.mask = SymLt(ends_.element, body.extent - in_body);
    if (!space.whole) ends.mask = SymAnd(ends.mask, SymEq(part_, 0));
    ends.mask = SymAnd(ends.mask, SymEq(rank_, cluster_ - 1));
  }
  MapColumn(space, ends, ends_.lets);
  return ends;
}

// So many of a row's columns are in its body.
SymInt Expander::InBody(SymInt extent, SymInt head) const {
  return FloorDiv(Max(extent - head - vector_, 0), vector_) * vector_;
}

void Expander::SwapEnds() {
  at_ends_ = !at_ends_;
  std::swap(vector_, ends_.vector);
  std::swap(registers_, ends_.registers);
  std::swap(u_, ends_.u);
  std::swap(v_, ends_.v);
  std::swap(slot_, ends_.slot);
  std::swap(spaces_, ends_.spaces);
  std::swap(lets_, ends_.lets);
  std::swap(levels_, ends_.levels);
  std::swap(early_, ends_.early);
  std::swap(late_, ends_.late);
}

// The mask holds for every element of the vector. Masks are conjunctions of bounds that are
// monotone in v.
SymInt Expander::WholeVector(SymInt mask) const {
  return SymAnd(Substitute(mask, v_, 0), Substitute(mask, v_, vector_ - 1));
}

// The same for every element of a thread's step.
SymInt Expander::WholeStep(SymInt mask) const {
  return SymAnd(WholeVector(Substitute(mask, u_, 0)),
                WholeVector(Substitute(mask, u_, registers_ - 1)));
}

// A point that stands for a whole vector is wanted where any element is: where each bound holds
// at one of the vector's ends.
SymInt Expander::UnitMask(SymInt mask) const {
  if (!DependsOn(mask, v_)) return mask;
  const auto at_an_end = [&](SymInt bound) {
    return SymOr(Substitute(bound, v_, 0), Substitute(bound, v_, vector_ - 1));
  };
  if (mask.node()->kind != SymKind::And) return at_an_end(mask);
  SymInt touched = 1;
  for (const SymInt bound : mask.node()->children) touched = SymAnd(touched, at_an_end(bound));
  return touched;
}

}  // namespace seam::kernel
