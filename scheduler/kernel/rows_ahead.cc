#include "scheduler/kernel/rows_ahead.h"

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "scheduler/kernel/access.h"

namespace seam::kernel {
namespace {

// Where rows start that are accessed along the columns, if they are.
std::optional<SymInt> StartOf(const TileKernel& tile, SymInt index) {
  for (const TileSpace& space : tile.spaces) {
    if (!space.column.is_symbolic() || space.whole || !DependsOn(index, space.column)) continue;
    const SymInt start = Substitute(index, space.column, 0);
    if ((index - start).is_same(space.column)) return start;
  }
  return std::nullopt;
}

// Columns of a row before the first of its body.
SymInt HeadOf(const TileKernel& tile, int body) {
  return body > 1 ? Mod(-RowStart(tile), body) : SymInt(0);
}

// The index of the first element of the rows that a CTA has, over the number of their set.
SymInt FirstOfSet(const TileKernel& tile, SymInt start, int64_t rows_per_cta) {
  const SymInt set = tile.env->FreshSymbol("set", 0, INT32_MAX);
  return Substitute(start, tile.row, set * rows_per_cta);
}

// Columns of the pieces in which a row lies: what its column is divided by. 0: there are none, or
// they are not known to be as long each.
int64_t RunOf(const TileValue& value, const TileSpace& space) {
  int64_t run = 0;
  for (const SymNode* node : TopologicalNodes({value.index})) {
    if ((node->kind != SymKind::FloorDiv && node->kind != SymKind::Mod) ||
        !node->children[0].is_same(space.column)) {
      continue;
    }
    const int64_t divisor = node->children[1].maybe_int().value_or(0);
    if (divisor <= 1 || (run > 0 && run != divisor)) return 0;
    run = divisor;
  }
  return run;
}

// A row whose pieces have `run` columns each.
std::optional<RowCopy> PiecesOf(const TileKernel& tile, const TileValue& value, int space,
                                int64_t run, int64_t unit) {
  const SymInt piece = tile.env->FreshSymbol("piece", 0, INT32_MAX);
  const SymInt in_piece = tile.env->FreshSymbol("in_piece", 0, run - 1);
  const SymInt column = tile.spaces[space].column;
  const SymInt start = Substitute(value.index, column, piece * run);
  const SymInt inside = Substitute(value.index, column, piece * run + in_piece) - start;
  if (run * DTypeBytes(value.dtype) < kLeastPieceBytes || run % unit != 0 ||
      !ProvablyDivisible(tile.spaces[space].extent, unit) || !inside.is_same(in_piece) ||
      !ProvablyDivisible(start, unit)) {
    return std::nullopt;
  }
  return RowCopy{space, start, piece, run};
}

std::optional<RowCopy> RowCopyOf(const TileKernel& tile, const TileValue& value,
                                 int64_t rows_per_cta, int body, SymInt head) {
  if (value.kind != TileKind::Load || !value.lets.empty() || !value.predicate.is_same(1) ||
      !tile.row.is_symbolic() || !DependsOn(value.index, tile.row)) {
    return std::nullopt;
  }
  const Buffer& buffer = tile.buffers[value.buffer];
  if (buffer.written || buffer.alignment_bytes < kCopyBytes) return std::nullopt;
  const int64_t unit = kCopyBytes / DTypeBytes(value.dtype);
  for (size_t s = 0; s < tile.spaces.size(); ++s) {
    const TileSpace& space = tile.spaces[s];
    if (!space.column.is_symbolic() || !DependsOn(value.index, space.column)) continue;
    if (const int64_t run = RunOf(value, space); run > 0 && body == 1 && rows_per_cta == 1)
      return PiecesOf(tile, value, static_cast<int>(s), run, unit);
    const SymInt start = Substitute(value.index, space.column, 0);
    // Rows of any length, if those of a CTA and of all CTAs are so many.
    const bool whole = body > 1 ? rows_per_cta == 1 && body % unit == 0
                                : ProvablyDivisible(rows_per_cta * space.extent, unit) &&
                                      ProvablyDivisible(tile.rows * space.extent, unit);
    const SymInt first = FirstOfSet(tile, start + head, rows_per_cta);
    if (!(value.index - start).is_same(space.column) || !ProvablyDivisible(first, unit) || !whole)
      return std::nullopt;
    const SymInt pitch = Substitute(start, tile.row, tile.row + 1) - start;
    if (rows_per_cta > 1 && !pitch.is_same(space.extent)) return std::nullopt;
    return RowCopy{static_cast<int>(s), start};
  }
  return std::nullopt;
}

}  // namespace

SymInt RowStart(const TileKernel& tile) {
  struct Candidate {
    SymInt start;
    size_t votes = 0;
  };
  absl::InlinedVector<Candidate, 4> candidates;
  const auto vote = [&](SymInt index, size_t votes) {
    const std::optional<SymInt> start = StartOf(tile, index);
    if (!start) return;
    auto it =
        absl::c_find_if(candidates, [&](const Candidate& c) { return c.start.is_same(*start); });
    if (it == candidates.end()) it = candidates.insert(it, {*start});
    it->votes += votes;
  };
  for (const TileValue& v : tile.values) {
    if (v.kind == TileKind::Load && v.lets.empty()) vote(v.index, 1);
  }
  for (const TileStore& s : tile.stores) vote(s.index, tile.values.size());
  const auto most = absl::c_max_element(
      candidates, [](const Candidate& a, const Candidate& b) { return a.votes < b.votes; });
  return most == candidates.end() ? SymInt(0) : most->start;
}

bool IsFirstLoadElsewhere(const TileKernel& tile) {
  for (const TileValue& v : tile.values) {
    if (v.kind != TileKind::Load || !v.lets.empty()) continue;
    const std::optional<SymInt> start = StartOf(tile, v.index);
    if (start) return !start->is_same(RowStart(tile));
  }
  return false;
}

std::vector<std::optional<RowCopy>> FindRowCopies(const TileKernel& tile, int64_t rows_per_cta,
                                                  int body) {
  std::vector<std::optional<RowCopy>> copies;
  const SymInt head = HeadOf(tile, body);
  for (const TileValue& value : tile.values)
    copies.push_back(RowCopyOf(tile, value, rows_per_cta, body, head));
  return copies;
}

int64_t LineOf(const TileKernel& tile, const TileValue& value, const RowCopy& copy,
               int64_t rows_per_cta, int64_t cta_columns, int body) {
  const int64_t line = kLineBytes / DTypeBytes(value.dtype);
  const SymInt first = FirstOfSet(tile, copy.start + HeadOf(tile, body), rows_per_cta);
  const bool whole = ProvablyDivisible(first, line) && cta_columns % line == 0;
  return copy.run > 0 || whole ? 0 : line;
}

int64_t StagePitch(int64_t elements, int64_t line) {
  return line == 0 ? elements : (elements + 2 * line - 2) / line * line;
}

int64_t CopiesOf(const RowCopy& copy, int64_t cta_columns) {
  if (copy.run == 0) return 1;
  const bool whole = cta_columns % copy.run == 0 || copy.run % cta_columns == 0;
  return (cta_columns + copy.run - 1) / copy.run + (whole ? 0 : 1);
}

bool IsOfEachElement(const TileKernel& tile, const TileValue& value, int space) {
  if (value.kind != TileKind::Load || !value.lets.empty() || !tile.row.is_symbolic()) return false;
  const TileSpace& of = tile.spaces[space];
  const Buffer& buffer = tile.buffers[value.buffer];
  return !buffer.written && of.column.is_symbolic() && DependsOn(value.index, of.column) &&
         DependsOn(value.index, tile.row) && ProvablyLe(tile.rows * of.extent, buffer.num_elements);
}

}  // namespace seam::kernel
