// Where a thread has a vector of rows, it would merge the states of each of them, and so would all
// threads that share these rows. So states are merged with a row a thread, as they lie in shared
// memory or in parts in that of the device, and the results go back through shared memory:
//
//   warp 0   rows 0..7 8..15 ...      thread 0   row 0 of warps 0, 1, ...      all warps
//   warp 1   rows 0..7 8..15 ...  ->  thread 1   row 1 of warps 0, 1, ...  ->  rows 0..7 8..15 ...
//   ...                               ...
//
// So are those of neighbouring rows that are folded together.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

// Parts of a row that a thread has under way at once.
constexpr int64_t kMostParts = 20;

}  // namespace

// Threads in sets of one a row; those of a set are as warps are that share a row.
void Expander::PlaceRows() {
  const int64_t rows = at_.rows_per_cta;
  if (!outer_ || out_.threads % rows != 0) return;
  RowView view;
  view.at.rows_per_cta = rows;
  view.at.row_local = Mod(out_.thread_x, rows);
  view.at.row = at_.row - at_.row_local + view.at.row_local;
  view.at.column_warps = out_.threads / rows;
  view.at.column_warp = FloorDiv(out_.thread_x, rows);
  view.at.column_lane = 0;
  for (int mask = 1; mask < 32 && rows % (2 * mask) == 0; mask *= 2)
    view.at.row_lane_masks.push_back(mask);
  view.row_mask = IsThere(view.at.row);
  row_view_ = std::move(view);
}

// Whether all that a pass does is to merge states that lie in memory.
bool Expander::MergesByRow(int pass) const {
  if (!MergesByRow()) return false;
  const auto merges = [&](const TileReduction& r) {
    return r.merge && r.over == Over::Columns && absl::c_all_of(r.operands, [&](TileId id) {
             return tile_.values[id].kind == TileKind::Load && tile_.values[id].lets.empty();
           });
  };
  bool any = false;
  for (const TileReduction& r : tile_.reductions) {
    if (r.pass != pass) continue;
    if (!merges(r)) return false;
    any = true;
  }
  return any && absl::c_none_of(tile_.stores, [&](const TileStore& s) { return s.pass == pass; });
}

// Whether states that a pass has folded are merged with a row a thread: where others than the lanes
// of a warp have a part in them.
bool Expander::MergesByRow(const std::vector<Accumulator>& accumulators) const {
  return MergesByRow() && (at_.column_warps > 1 || cluster_ > 1 || MergesNeighbours(accumulators));
}

void Expander::SwapRowView() {
  std::swap(at_, row_view_->at);
  std::swap(row_mask_, row_view_->row_mask);
  std::swap(u_, row_view_->u);
  std::swap(v_, row_view_->v);
  std::swap(registers_, row_view_->registers);
  std::swap(vector_, row_view_->vector);
  std::swap(outer_, row_view_->outer);
  std::swap(tiles_, row_view_->tiles);
  std::swap(states_, row_view_->states);
  std::swap(row_values_, row_view_->row_values);
}

// Whether nothing is folded, and the last row need not be the last one of a vector.
bool Expander::EndsInVector() const {
  return outer_ && options_.grid == 0 && tile_.reductions.empty() && DependsOn(row_mask_, v_) &&
         async_.empty() && !options_.blocks &&
         absl::c_all_of(spaces_, [](const SpaceState& s) { return s.extent.is_same(1); });
}

// Vectors of rows that lie inside as a whole, which are all but one, without masks; the rows of
// that one by themselves.
void Expander::OverVectorsOrRows(absl::FunctionRef<void()> passes) {
  const SymInt mask = row_mask_;
  const auto whole = [&] {
    row_mask_ = 1;
    passes();
    row_mask_ = mask;
    row_values_.clear();
    stored_.assign(stored_.size(), false);
  };
  const auto each = [&] {
    const auto vector = std::exchange(vector_, 1);
    outer_ = false;
    w_.Loop(v_, vector, false, passes);
    vector_ = vector;
    outer_ = true;
  };
  w_.Branch(WholeVector(mask), whole, each);
}

// Statements in which threads neither wait for each other nor for copies. Where rows are neighbours
// some threads may have none and skip them: their zeros would take the slow path of divisions, and
// hold up their SM. On an H100 an L2 norm of 65536x288 bf16 columns took twice as long.
void Expander::WhereRows(absl::FunctionRef<void()> body) {
  const bool neighbours = outer_ || absl::c_find_if(options_.layout.modes, [](const Mode& m) {
                                      return m.place == Place::Lane;
                                    })->axis == Axis::Row;
  if (row_mask_.is_same(1) || !neighbours) return body();
  const SymInt mask = row_mask_;
  if (!DependsOn(mask, v_)) row_mask_ = 1;
  w_.Branch(Substitute(mask, v_, 0), body, [] {});
  row_mask_ = mask;
}

// The pass with a row a thread, which has several parts of it under way.
absl::Status Expander::MergeParts(int pass) {
  const int index = tile_.passes[pass].space;
  SwapRowView();
  const int64_t sets = at_.column_warps;
  const int64_t parts = spaces_[index].extent.maybe_int().value_or(kMostParts * sets);
  const int64_t each = std::max<int64_t>(1, (parts + sets - 1) / sets);
  const int64_t steps = (each + kMostParts - 1) / kMostParts;
  registers_ = (each + steps - 1) / steps;
  u_ = registers_ > 1 ? out_.env->FreshSymbol("part", 0, registers_ - 1) : SymInt(0);
  at_.column = at_.column_warp + u_ * sets;
  SpaceState in_vectors =
      std::exchange(spaces_[index], PlaceSpace(index, false, registers_ * sets));
  const absl::Status status = ExpandPass(pass);
  std::swap(spaces_[index], in_vectors);
  std::vector<Accumulator> merged;
  for (size_t i = 0; i < tile_.reductions.size(); ++i) {
    const int id = static_cast<int>(i);
    if (tile_.reductions[i].pass == pass) merged.push_back({id, states_.at(id)});
  }
  MergeNeighbours(merged);
  std::vector<Accumulator> vectors = merged;
  for (Accumulator& a : vectors) {
    for (int& fragment : a.fragments)
      fragment = w_.NewFragment("acc", w_.dtype(fragment), static_cast<int>(row_view_->vector));
  }
  ShareRows(merged, vectors, pass);
  for (const Accumulator& a : vectors) states_[a.id] = a.fragments;
  return status;
}

// The states that warps have left in `arrays`: of each row by one thread, then those of
// neighbouring rows, then those of a cluster's CTAs, which go from there to each of them:
//
//   rank 0   row 0, 1, ...  ->  [0][row] [1][row] ...   in the shared memory of every CTA
//   rank 1   row 0, 1, ...  ->
void Expander::MergeByRow(const std::vector<Accumulator>& accumulators,
                          const std::vector<std::vector<int>>& arrays) {
  const int64_t warps = at_.column_warps;
  SwapRowView();
  std::vector<Accumulator> merged;
  AtFirstOfRows([&] {
    for (size_t i = 0; i < accumulators.size(); ++i) {
      merged.push_back(OfOneRow(accumulators[i]));
      MergeShared(merged[i], arrays[i], warps, 0, at_.rows_per_cta);
      states_[merged[i].id] = merged[i].fragments;
    }
  });
  MergeNeighbours(merged);
  if (cluster_ > 1) MergeAcrossCluster(merged);
  if (absl::c_any_of(merged, [&](auto& a) {
        return LeavesParts(a.id) || tile_.reductions[a.id].exponential;
      })) {
    AtFirstOfRows([&] {
      for (const Accumulator& a : merged) StorePartial(a.id, a.fragments);
      for (const Accumulator& a : merged) FinishSum(a);
    });
  }
  ShareRows(merged, accumulators, tile_.reductions[accumulators.front().id].pass);
}

bool Expander::MergesNeighbours(const std::vector<Accumulator>& accumulators) const {
  return absl::c_any_of(
      accumulators, [&](const Accumulator& a) { return tile_.reductions[a.id].neighbours > 1; });
}

// Rows beside each other that have one result: each of them merges the states of all, which go
// through shared memory.
//
//   row     0   1   2    3   4   5        neighbours = 3
//           a   b   c    d   e   f
//        -> abc abc abc  def def def
void Expander::MergeNeighbours(std::vector<Accumulator>& rows) {
  if (!MergesNeighbours(rows)) return;
  const auto over_them = [&](auto body) {
    AtFirstOfRows([&] {
      for (size_t i = 0; i < rows.size(); ++i) {
        const int64_t neighbours = tile_.reductions[rows[i].id].neighbours;
        if (neighbours > 1) body(i, neighbours);
      }
    });
  };
  std::vector<std::vector<int>> arrays(rows.size());
  over_them([&](size_t i, int64_t) {
    for (int fragment : rows[i].fragments) arrays[i].push_back(LeaveRow(fragment));
  });
  w_.Emit(CtaSync{});
  over_them([&](size_t i, int64_t neighbours) {
    rows[i] = OfOneRow(rows[i]);
    MergeShared(rows[i], arrays[i], neighbours, -Mod(at_.row_local, neighbours), 1);
    states_[rows[i].id] = rows[i].fragments;
  });
}

// Of neighbouring rows, which have one state by now, the first one sends it; those that stay apart
// nobody does. As for other exchanges of clusters, two folds of a turn or one fold's even and odd
// turns have barriers and arrays of their own.
void Expander::MergeAcrossCluster(std::vector<Accumulator>& all) {
  std::vector<Accumulator*> rows;
  for (Accumulator& a : all) {
    if (!tile_.reductions[a.id].apart) rows.push_back(&a);
  }
  if (rows.empty()) return;
  const SymInt even = fold_turns_ > 1 ? Mod(fold_turn_, fold_turns_) : SymInt(0);
  const SymInt barrier = out_.store_barriers + even;
  out_.store_barriers += fold_turns_;
  int64_t bytes = 0;
  std::vector<std::vector<int>> received;
  AtFirstOfRows([&] {
    for (const Accumulator* a : rows) received.push_back(SendRows(*a, barrier, even, &bytes));
  });
  bytes += SendSigns(barrier);
  w_.Emit(AwaitStores{barrier, FloorDiv(fold_turn_, fold_turns_), bytes});
  AtFirstOfRows([&] {
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t neighbours = tile_.reductions[rows[i]->id].neighbours;
      const int64_t states = at_.rows_per_cta / neighbours;
      const SymInt row = std::exchange(at_.row_local, FloorDiv(at_.row_local, neighbours));
      MergeShared(*rows[i], received[i], cluster_, even * (cluster_ * states), states);
      at_.row_local = row;
    }
  });
}

Expander::Accumulator Expander::OfOneRow(const Accumulator& a) {
  Accumulator one = a;
  for (int& fragment : one.fragments) fragment = w_.NewFragment("acc", w_.dtype(fragment));
  if (one.pivot >= 0) one.pivot = w_.NewFragment("pivot", w_.dtype(one.pivot));
  return one;
}

// To every CTA of the cluster: the arrays of the components.
std::vector<int> Expander::SendRows(const Accumulator& a, SymInt barrier, SymInt even,
                                    int64_t* bytes) {
  const int64_t neighbours = tile_.reductions[a.id].neighbours;
  const int64_t states = at_.rows_per_cta / neighbours;
  std::vector<int> arrays;
  const SymInt to = out_.env->FreshSymbol("to", 0, cluster_ - 1);
  std::vector<int> exchanged;
  for (int fragment : a.fragments) {
    exchanged.push_back(Exchanged(fragment));
    const DType dtype = w_.dtype(exchanged.back());
    arrays.push_back(w_.NewShared("rows", dtype, fold_turns_ * cluster_ * states));
    *bytes += cluster_ * states * DTypeBytes(dtype);
  }
  w_.Loop(to, cluster_, true, [&] {
    for (size_t c = 0; c < arrays.size(); ++c) {
      RemoteStore out{exchanged[c], 0, arrays[c]};
      out.index = (even * cluster_ + rank_) * states + FloorDiv(at_.row_local, neighbours);
      out.predicate = neighbours > 1 ? SymEq(Mod(at_.row_local, neighbours), 0) : SymInt(1);
      out.cta = to;
      out.barrier = barrier;
      w_.Emit(out);
    }
  });
  return arrays;
}

// A word from every warp to every CTA, since some have no rows to send. Its bytes. Nobody reads it,
// so that all exchanges have one place for it.
int64_t Expander::SendSigns(SymInt barrier) {
  const int64_t warps = out_.threads / 32;
  const int fragment = w_.NewFragment("sign", DType::I32);
  w_.Set(fragment, 0, OpKind::Copy, {BlockWriter::Number(DType::I32, 1)});
  if (signs_ < 0) signs_ = w_.NewShared("signs", DType::I32, cluster_ * warps);
  RemoteStore out{fragment, 0, signs_};
  out.index = rank_ * warps + FloorDiv(out_.thread_x, 32);
  out.predicate = SymLt(Mod(out_.thread_x, 32), cluster_);
  out.cta = Mod(out_.thread_x, cluster_);
  out.barrier = barrier;
  w_.Emit(out);
  return cluster_ * warps * DTypeBytes(DType::I32);
}

// What follows from a pass, from the first thread of each row to all of its threads, as far as
// later passes need it: `rows` are its states, `vectors` what takes those of a vector of rows.
void Expander::ShareRows(const std::vector<Accumulator>& rows,
                         const std::vector<Accumulator>& vectors, int pass) {
  const std::vector<RowValue> values = LeaveRowValues(pass);
  SwapRowView();
  const std::vector<std::vector<bool>> wanted = WantedStates(pass, values);
  SwapRowView();
  std::vector<std::pair<int, int>>
      left;  // Fragments of vectors of rows, those of rows, then arrays.
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t c = 0; c < rows[i].fragments.size(); ++c) {
      if (wanted[rows[i].id][c]) left.emplace_back(vectors[i].fragments[c], rows[i].fragments[c]);
    }
  }
  if (!left.empty()) {
    AtFirstOfRows([&] {
      for (auto& [fragment, of_row] : left) of_row = LeaveRow(of_row);
    });
  }
  SwapRowView();
  // Of turns, the next one's states go where these have been read.
  if (left.empty() && values.empty() && options_.grid == 0) return;
  w_.Emit(CtaSync{});
  TakeRowValues(values);
  for (const auto& [fragment, array] : left) TakeRow(fragment, array);
}

int Expander::LeaveRow(int fragment) {
  Store out{fragment};
  out.space = Space::Shared;
  out.array = w_.NewShared("row", w_.dtype(fragment), at_.rows_per_cta);
  out.index = at_.row_local;
  out.predicate = SymEq(at_.column_warp, 0);
  w_.Emit(out);
  return out.array;
}

void Expander::TakeRow(int fragment, int array) {
  Load load{fragment, RowSlot()};
  load.space = Space::Shared;
  load.array = array;
  load.index = at_.row_local;
  EmitForVector(load);
}

}  // namespace seam::kernel
