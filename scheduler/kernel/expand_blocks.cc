// Rows of a CTA that go through shared memory as a block: in before the first pass, out behind the
// last one, in vectors of 16 bytes; in between each row's threads read and write single elements
// or a few there. The last block may have fewer rows, and then ends in fewer elements than a
// vector.
#include <algorithm>
#include <vector>

#include "scheduler/kernel/expander.h"

namespace seam::kernel {
namespace {

// Moves of a thread that are written one after the other.
constexpr int64_t kMostUnrolled = 16;

}  // namespace

void Expander::PrepareBlocks() {
  blocks_.loads.resize(tile_.values.size());
  blocks_.stores.resize(tile_.stores.size());
  if (!options_.blocks) return;
  std::vector<bool> held;
  for (const SpaceState& space : spaces_) held.push_back(space.persistent);
  blocks_ = FindRowBlocks(tile_, at_.rows_per_cta, held, options_.reread, options_.stages == 0);
  for (DType dtype : blocks_.arrays)
    block_arrays_.push_back(w_.NewShared("rows", dtype, at_.rows_per_cta * CtaColumns()));
}

// Where a row's column is in a shared array.
SymInt Expander::InRun(SymInt column, SymInt run) const {
  return FloorDiv(column, run) * (at_.rows_per_cta * run) + at_.row_local * run + Mod(column, run);
}

// Where the point at hand is in the shared array.
SymInt Expander::InBlock(const RowBlock& block) const {
  const SymInt column = spaces_[block.space].column, run = base_->Import(block.run);
  if (options_.odd_run > 0) return FloorDiv(InRun(at_.first, run), 2) * 2 + u_ * vector_ + v_;
  if (block.pieces.is_same(1)) return at_.row_local * run + column;
  return InRun(column, run);
}

// Neighbours of an odd number, two at a time as they lie in shared memory: half of a row's threads
// begin with the second of a pair, the others end with the first of one.
//
//   shared   | 0 1 | 2 3 | 4 5 | 6 7 | 8 9 |
//   thread 0   a a   a a   a
//   thread 1               . b   b b   b b
void Expander::PlaceInPairs() {
  at_.first = at_.column;
  at_.in_first = Mod(InRun(at_.first, options_.odd_run), 2);
  at_.column = at_.first - at_.in_first + u_ * vector_ + v_;
}

// The thread's own elements of rows that end with those of a thread.
SymInt Expander::MaskOfPairs(const SpaceState& state) const {
  const int64_t own = registers_ * vector_ - 1;
  const SymInt nth = u_ * vector_ + v_ - at_.in_first;
  const SymInt inner = SymAnd(SymGe(u_, 1), SymLt(u_, registers_ - 1));
  const SymInt mine = SymOr(inner, SymAnd(SymGe(nth, 0), SymLt(nth, own)));
  const bool ends_with_them = ProvablyDivisible(state.extent, own);
  const SymInt first = state.column - at_.column + at_.first;  // Of the step.
  return SymAnd(SymLt(ends_with_them ? first : state.column, state.end), mine);
}

// Behind it all threads may read what has come. What is loaded once a row is under way meanwhile.
void Expander::BringBlocks() {
  std::vector<const RowBlock*> blocks;
  for (const auto& block : blocks_.loads) {
    if (block) blocks.push_back(&*block);
  }
  if (blocks.empty()) return;
  for (size_t pass = 0; pass < tile_.passes.size(); ++pass) BeginRowLoads(static_cast<int>(pass));
  MoveBlocks(blocks, Space::Global);
  if (options_.async) w_.Emit(AwaitLoads{});
  w_.Emit(CtaSync{});
}

// Behind it, or the last pass, the arrays are free for the next turn's rows.
void Expander::TakeBlocksOut() {
  if (block_arrays_.empty()) return;
  std::vector<const RowBlock*> blocks;
  for (const auto& block : blocks_.stores) {
    if (block) blocks.push_back(&*block);
  }
  if (!blocks.empty()) {
    w_.Emit(CtaSync{});
    MoveBlocks(blocks, Space::Shared);
  }
  // Where rows are brought ahead there is one barrier more in any case.
  if (options_.grid > 0 && passed_on_) w_.Emit(CtaSync{});
}

// Moves blocks from there to the other space, their vectors under way together: all of them, where
// loads are asynchronous, else as many as registers take.
void Expander::MoveBlocks(const std::vector<const RowBlock*>& blocks, Space from) {
  const int64_t cta_rows = at_.rows_per_cta, threads = out_.threads;
  const SymInt first_row = at_.row - at_.row_local;
  const bool whole = ProvablyDivisible(rows_, cta_rows);
  const SymInt rows = whole ? SymInt(cta_rows) : Min(cta_rows, rows_ - first_row);
  struct Moved {
    const RowBlock* block;
    int fragment;
    SymInt run;
    int64_t unit;    // Elements of a vector.
    SymInt vectors;  // Of one piece of a whole block.
  };
  std::vector<Moved> all;
  int64_t each = 1;  // Vectors of a thread.
  for (const RowBlock* block : blocks) {
    const int64_t unit = kMoveBytes / DTypeBytes(out_.buffers[block->buffer].dtype);
    const SymInt run = base_->Import(block->run);
    const SymInt vectors = FloorDiv(cta_rows * run, unit);
    const int64_t held = cta_rows * CtaColumns() / unit;
    const int64_t total = (vectors * block->pieces).maybe_int().value_or(held);
    each = std::max(each, (total + threads - 1) / threads);
    all.push_back({block, -1, run, unit, vectors});
  }
  const bool async = options_.async && from == Space::Global;
  const int64_t at_once =
      async
          ? each
          : std::min(each, std::max<int64_t>(1, kMostUnderWay / static_cast<int64_t>(all.size())));
  for (Moved& m : all) {
    if (async && ProvablyDivisible(rows_ * m.run, m.unit)) continue;  // No single elements.
    const DType dtype = out_.buffers[m.block->buffer].dtype;
    const int64_t elements = async ? 1 : at_once * m.unit;
    m.fragment = w_.NewFragment("move", dtype, static_cast<int>(elements), IsNarrow(dtype));
  }
  // Where an element of a piece is.
  const auto in_shared = [&](const Moved& m, SymInt piece, SymInt element) {
    return piece * (cta_rows * m.run) + element;
  };
  const auto in_buffer = [&](const Moved& m, SymInt piece, SymInt element) {
    SymImporter importer(out_.env.get());
    for (const auto& [symbol, copy] : parameter_map_) importer.Map(symbol, copy);
    importer.Map(tile_.row.node(), first_row);
    importer.Map(tile_.spaces[m.block->space].column.node(), piece * m.run);
    return importer.Import(m.block->index) + element;
  };
  // `width` elements from `element` on of a piece, between a slot and a space.
  const auto access = [&](auto node, const Moved& m, Space space, SymInt slot, int64_t width,
                          SymInt piece, SymInt element, SymInt predicate) {
    node.fragment = m.fragment;
    node.slot = slot;
    node.width = static_cast<int>(width);
    node.space = space;
    node.predicate = predicate;
    if (space == Space::Shared) {
      node.array = block_arrays_[m.block->array];
      node.index = in_shared(m, piece, element);
    } else {
      node.array = m.block->buffer;
      node.index = in_buffer(m, piece, element);
    }
    w_.Emit(std::move(node));
  };
  const Space to = from == Space::Global ? Space::Shared : Space::Global;
  const auto both = [&](auto move) {
    for (const Moved& m : all) move(Load{}, m, from);
    for (const Moved& m : all) move(Store{}, m, to);
  };

  const int64_t rounds = (each + at_once - 1) / at_once;
  const SymInt round = rounds > 1 ? out_.env->FreshSymbol("round", 0, rounds - 1) : SymInt(0);
  const SymInt k = at_once > 1 ? out_.env->FreshSymbol("k", 0, at_once - 1) : SymInt(0);
  const auto over_vectors = [&](const Moved& m, auto body) {
    const auto one = [&] {
      const SymInt number = (round * at_once + k) * threads + out_.thread_x;
      const bool single = m.block->pieces.is_same(1);
      const SymInt piece = single ? SymInt(0) : FloorDiv(number, m.vectors);
      const SymInt element = (single ? number : Mod(number, m.vectors)) * m.unit;
      SymInt inside = SymLt(number, m.vectors * m.block->pieces);
      if (!whole) {
        const SymInt ends = SymLe(element + m.unit, rows * m.run);
        inside = single ? ends : SymAnd(inside, ends);
      }
      body(piece, element, inside);
    };
    if (at_once > 1) {
      w_.Loop(k, at_once, at_once <= kMostUnrolled, one);
    } else {
      one();
    }
  };
  const auto vectors = [&](auto node, const Moved& m, Space space) {
    over_vectors(m, [&](SymInt piece, SymInt element, SymInt inside) {
      access(node, m, space, k * m.unit, m.unit, piece, element, inside);
    });
  };
  if (async) {
    for (const Moved& m : all) {
      over_vectors(m, [&](SymInt piece, SymInt element, SymInt inside) {
        w_.Emit(AsyncLoad{block_arrays_[m.block->array], in_shared(m, piece, element),
                          m.block->buffer, in_buffer(m, piece, element), static_cast<int>(m.unit),
                          inside});
      });
    }
  } else if (rounds > 1) {
    w_.Loop(round, rounds, false, [&] { both(vectors); });
  } else {
    both(vectors);
  }
  // What is left of each piece, fewer than a vector, an element a thread.
  for (const Moved& m : all) {
    if (ProvablyDivisible(rows_ * m.run, m.unit)) continue;
    const bool single = m.block->pieces.is_same(1);
    const int64_t pieces = m.block->pieces.maybe_int().value_or(1);
    const int64_t times = (pieces * m.unit + threads - 1) / threads;
    const SymInt time = times > 1 ? out_.env->FreshSymbol("rest", 0, times - 1) : SymInt(0);
    const SymInt number = time * threads + out_.thread_x, count = rows * m.run;
    const SymInt piece = single ? SymInt(0) : FloorDiv(number, m.unit);
    const SymInt within = single ? number : Mod(number, m.unit);
    const SymInt element = FloorDiv(count, m.unit) * m.unit + within;
    SymInt inside = SymLt(within, Mod(count, m.unit));
    if (!single) inside = SymAnd(inside, SymLt(number, pieces * m.unit));
    const auto one = [&] {
      w_.Branch(
          inside,
          [&] {
            access(Load{}, m, from, 0, 1, piece, element, 1);
            access(Store{}, m, to, 0, 1, piece, element, 1);
          },
          [] {});
    };
    if (times > 1) {
      w_.Loop(time, times, false, one);
    } else {
      one();
    }
  }
}

}  // namespace seam::kernel
