// Rows that start anywhere, in the order of where they start, for teams of CTAs of which no number
// has rows that all start alike. Every `alike_every_`-th row does, so these come one after the
// other, and each team has as many neighbours of that order as any other, to one:
//
//   starts 0          1          2        3         14 rows, vectors of four, three teams:
//   rows   0 4 8 12 | 1 5 9 13 | 2 6 10 | 3 7 11    team 1 has two stretches,
//   teams  0 0 0 0    0 1 1 1    1 1 2    2 2 2     of three rows and of two
//
// Between two stretches a team leaves its states of columns and loads again what rows have in
// common, since a thread's columns move by the difference. Copies go on: they ask for a row by its
// number among all of the team's.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {

// Whether threads keep something of their columns from row to row: states, or what rows have in
// common. One state of all columns would do without, but has a place in memory for each stretch.
bool Expander::KeepsColumns() const {
  for (const TileReduction& r : tile_.reductions) {
    if (r.over == Over::Rows || r.over == Over::All) return true;
  }
  return absl::c_any_of(tile_.values, [&](const TileValue& v) {
    return v.kind == TileKind::Load && v.lets.empty() && !DependsOn(v.index, tile_.row) &&
           absl::c_any_of(tile_.spaces, [&](const TileSpace& s) {
             return s.column.is_symbolic() && DependsOn(v.index, s.column);
           });
  });
}

void Expander::PlaceStretches() {
  alike_every_ = vector_;
  const SymInt longest = CeilDiv(sets_, std::max(alike_every_, teams_));
  stretch_ = out_.env->FreshSymbol("stretch", 0, options_.stretches - 1);
  first_row_ = out_.env->FreshSymbol("first_row", 0, Max(sets_ - 1, 0));
  begun_ = out_.env->FreshSymbol("begun", 0, all_turns_);
  turns_ = out_.env->FreshSymbol("turns", 0, longest);
  turn_ = out_.env->FreshSymbol("turn", 0, longest - 1);
}

// A symbol for what is computed once. What others are computed from it is to stay within 32 bits.
SymInt Expander::Bound(absl::string_view name, SymInt value, SymInt most) {
  const SymInt symbol = out_.env->FreshSymbol(name, 0, most);
  w_.Bind(symbol, w_.Index(DType::I64, value));
  return symbol;
}

// Rows that start alike are a class: the first ones, as many as there are rows to spare, have one
// row more than others.
void Expander::FindClasses() {
  const SymInt in_class = FloorDiv(sets_, alike_every_);
  in_class_ = Bound("in_class", in_class, in_class);
  larger_ = Bound("larger", Mod(sets_, alike_every_), alike_every_ - 1);
  const SymInt before = nth_team_ * FloorDiv(sets_, teams_) + Min(nth_team_, Mod(sets_, teams_));
  position_ = Bound("position", before, sets_);
}

SymInt Expander::FirstOfClass(SymInt number) const {
  return number * in_class_ + Min(number, larger_);
}

SymInt Expander::ClassOf(SymInt position) const {
  const SymInt in_larger = larger_ * (in_class_ + 1);
  return SymSelect(SymLt(position, in_larger), FloorDiv(position, in_class_ + 1),
                   larger_ + FloorDiv(position - in_larger, Max(in_class_, 1)));
}

// The row that is `number`-th of the team's.
SymInt Expander::NthSet(SymInt number) {
  if (!stretched()) return SetInOrder(number);
  const SymInt position = position_ + number;
  const SymInt its = Bound("starts", ClassOf(position), alike_every_ - 1);
  return Bound("row", its + alike_every_ * (position - FirstOfClass(its)), Max(sets_ - 1, 0));
}

void Expander::BeginStretch() {
  const auto bind = [&](SymInt symbol, SymInt value) {
    w_.Bind(symbol, w_.Index(DType::I64, value));
  };
  // There may be no such class, and a team without rows begins behind all of them.
  const SymInt its =
      Bound("starts", ClassOf(position_) + stretch_, alike_every_ + (options_.stretches - 1));
  const SymInt first = Bound("from", Min(Max(position_, FirstOfClass(its)), sets_), sets_);
  bind(begun_, Min(first - position_, all_turns_));
  bind(turns_, Max(0, Min(position_ + all_turns_, FirstOfClass(its + 1)) - first));
  bind(first_row_, Max(0, Min(sets_ - 1, its + alike_every_ * (first - FirstOfClass(its)))));
  if (first_vector_) bind(first_vector_->first, first_vector_->second);
}

// Columns in front of the body of a set's row.
SymInt Expander::HeadOf(SymInt set) const {
  if ((!stretched() && !anywhere_) || set.is_same(set_)) return ends_.head;
  // Of the stretch at hand, whose rows start alike.
  if (stretched() && ProvablyDivisible(set - set_, alike_every_)) return ends_.head;
  return Mod(-SetImporter(set).Import(*options_.start), vector_);
}

}  // namespace seam::kernel
