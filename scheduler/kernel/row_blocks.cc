#include "scheduler/kernel/row_blocks.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "scheduler/kernel/access.h"

namespace seam::kernel {
namespace {

std::optional<RowBlock> RowBlockOf(const TileKernel& tile, int space_id, int buffer_id,
                                   SymInt index, int64_t rows) {
  const TileSpace& space = tile.spaces[space_id];
  const Buffer& buffer = tile.buffers[buffer_id];
  if (buffer.alignment_bytes < kMoveBytes || !tile.row.is_symbolic() ||
      !space.column.is_symbolic() || !DependsOn(index, space.column)) {
    return std::nullopt;
  }
  RowBlock block{space_id, buffer_id, index, space.extent, 1};
  // The next row's column lies a piece behind.
  const SymInt pitch = Substitute(index, tile.row, tile.row + 1) - index;
  if (!pitch.is_same(space.extent)) {
    const std::optional<int64_t> run = pitch.maybe_int(), extent = space.extent.maybe_int();
    if (!run || !extent || *run < 1 || *extent % *run != 0) return std::nullopt;
    block.run = *run;
    block.pieces = *extent / *run;
  }
  ShapeEnv& env = *tile.env;
  const SymInt piece = env.FreshSymbol("piece", 0, INT32_MAX);
  const SymInt within = block.pieces.is_same(1)
                            ? space.column
                            : env.FreshSymbol("within", 0, *block.run.maybe_int() - 1);
  const SymInt first = block.pieces.is_same(1) ? SymInt(0) : piece * block.run;
  const SymInt start = Substitute(index, space.column, first);
  if (!(Substitute(index, space.column, first + within) - start).is_same(within))
    return std::nullopt;
  const SymInt set = env.FreshSymbol("set", 0, INT32_MAX);
  const int64_t unit = kMoveBytes / DTypeBytes(buffer.dtype);
  if (!ProvablyDivisible(rows * block.run, unit) ||
      !ProvablyDivisible(Substitute(start, tile.row, set * rows), unit)) {
    return std::nullopt;
  }
  return block;
}

// Per value: the first or the last pass that needs it.
std::vector<int> Passes(const TileKernel& tile, bool last) {
  const int none = last ? -1 : static_cast<int>(tile.passes.size());
  std::vector<int> passes(tile.values.size(), none);
  const auto need = [&](TileId id, int pass) {
    passes[id] = last ? std::max(passes[id], pass) : std::min(passes[id], pass);
  };
  for (const TileReduction& r : tile.reductions) {
    for (TileId operand : r.operands) need(operand, r.pass);
  }
  for (const TileStore& s : tile.stores) need(s.value, s.pass);
  for (size_t id = tile.values.size(); id-- > 0;) {
    for (TileId operand : tile.values[id].operands) need(operand, passes[id]);
    for (int let : tile.values[id].lets) need(tile.lets[let].value, passes[id]);
  }
  return passes;
}

}  // namespace

RowBlocks FindRowBlocks(const TileKernel& tile, int64_t rows, const std::vector<bool>& held,
                        bool reread, bool loads) {
  RowBlocks blocks;
  for (const TileValue& value : tile.values) {
    std::optional<RowBlock>& block = blocks.loads.emplace_back();
    if (!loads || value.kind != TileKind::Load || !value.lets.empty() ||
        !value.predicate.is_same(1) || tile.buffers[value.buffer].written) {
      continue;
    }
    for (size_t s = 0; s < tile.spaces.size() && !block; ++s) {
      if (held[s]) block = RowBlockOf(tile, static_cast<int>(s), value.buffer, value.index, rows);
    }
    if (!block) continue;
    block->array = static_cast<int>(blocks.arrays.size());
    blocks.arrays.push_back(value.dtype);
  }
  const std::vector<int> read = Passes(tile, reread);
  std::vector<bool> taken(blocks.arrays.size());
  for (const TileStore& store : tile.stores) {
    std::optional<RowBlock>& block = blocks.stores.emplace_back();
    const int space = tile.passes[store.pass].space;
    const DType dtype = tile.buffers[store.buffer].dtype;
    if (!store.predicate.is_same(1) || !held[space]) continue;
    block = RowBlockOf(tile, space, store.buffer, store.index, rows);
    if (!block) continue;
    // The same thread has a column of a row in both, and has read the load's by then.
    const auto free = absl::c_find_if(blocks.loads, [&](const std::optional<RowBlock>& load) {
      return load && !taken[load->array] && blocks.arrays[load->array] == dtype &&
             load->space == space && load->run.is_same(block->run) &&
             read[&load - blocks.loads.data()] <= store.pass;
    });
    if (free != blocks.loads.end()) {
      block->array = (*free)->array;
      taken[block->array] = true;
    } else {
      block->array = static_cast<int>(blocks.arrays.size());
      blocks.arrays.push_back(dtype);
    }
  }
  return blocks;
}

int64_t OddRun(const RowBlocks& blocks, int64_t part) {
  const bool narrow = absl::c_any_of(blocks.arrays, [](DType t) { return DTypeBytes(t) < 4; });
  int64_t run = 0;
  for (const auto* all : {&blocks.loads, &blocks.stores}) {
    for (const std::optional<RowBlock>& block : *all) {
      if (!block) continue;
      const int64_t length = block->run.maybe_int().value_or(0);
      if (length == 0 || length % part != 0 || (run != 0 && length != run)) return 0;
      run = length;
    }
  }
  return narrow && part > 1 && part % 2 == 1 ? run : 0;
}

}  // namespace seam::kernel
