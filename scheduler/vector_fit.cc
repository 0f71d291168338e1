#include "scheduler/vector_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"
#include "scheduler/kernel/rows_ahead.h"

namespace seam {
namespace {

using kernel::TileKernel;
using kernel::TileSpace;
using kernel::TileValue;

// Whether threads load vectors of which they want some elements (kernel/access.h): not of rows that
// start anywhere, nor in tiles.
bool MayLoadWindows(const Schedule& s) { return !s.shift && !s.tiles && !s.blocks; }

// Whether an access is a whole vector, or one element for all of a vector.
class Fit {
 public:
  Fit(const TileKernel& tile, const Schedule& s) : tile_(tile), s_(s) {
    const int most = std::max(s.vector, s.tiles ? s.registers : 1);
    q_ = tile.env->FreshSymbol("q", 0, INT32_MAX);
    v_ = tile.env->FreshSymbol("v", 0, std::max(1, most - 1));
    if (s.shift) row_start_ = kernel::RowStart(tile);
  }

  bool Holds(const kernel::TileStore& store) const {
    return Holds(store.buffer, store.index, nullptr);
  }
  bool Holds(const TileValue& load) const { return Holds(load.buffer, load.index, &load); }

  // Per value: whether rows of a vector beside each other all have the same, however it varies
  // along their columns. Linear in the values.
  std::vector<bool> AlikeForRows() const {
    const SymInt row = s_.vector * q_ + v_;
    const auto is_alike = [&](SymInt e) {
      return !kernel::DependsOn(kernel::Substitute(e, tile_.row, row), v_);
    };
    std::vector<bool> alike;
    for (const TileValue& value : tile_.values) {
      alike.push_back(
          value.kind != kernel::TileKind::ReduceResult && is_alike(value.index) &&
          is_alike(value.predicate) &&
          absl::c_all_of(value.operands, [&](kernel::TileId of) { return alike[of]; }) &&
          absl::c_all_of(value.lets, [&](int let) { return alike[tile_.lets[let].value]; }));
    }
    return alike;
  }

 private:
  // `load`: what is loaded, and not stored.
  bool Holds(int buffer, SymInt index, const TileValue* load) const {
    const kernel::Buffer& of = tile_.buffers[buffer];
    const int bytes = DTypeBytes(of.dtype);
    const auto is_vector = [&](SymInt at, int vector, SymInt predicate = 1) {
      const kernel::Access access =
          load != nullptr && MayLoadWindows(s_)
              ? kernel::ClassifyLoad(at, predicate, v_, vector, bytes, of.alignment_bytes,
                                     of.num_elements)
              : kernel::ClassifyAccess(at, v_, vector, bytes, of.alignment_bytes);
      return access.kind == kernel::Access::kUniform || access.kind == kernel::Access::kWindow ||
             (access.kind == kernel::Access::kVector &&
              (access.width == vector || access.width * bytes == 16));
    };
    const auto of_rows = [&] {
      const SymInt row = s_.vector * q_ + v_;
      return is_vector(kernel::Substitute(index, tile_.row, row), s_.vector,
                       load != nullptr ? kernel::Substitute(load->predicate, tile_.row, row) : 1);
    };
    if (s_.tiles) {
      const SymInt at = InColumns(index, [&](auto&) { return s_.registers * q_ + v_; });
      const SymInt first = InColumns(index, [&](auto&) { return s_.registers * q_; });
      const bool in_row = (at - first).is_same(v_);
      return (s_.registers > 1 ? is_vector(at, s_.registers) : in_row) ||
             (s_.vector > 1 ? of_rows() : !in_row);
    }
    if (s_.outer) return of_rows();
    const auto of_row = [&](const TileSpace& space) {
      const SymInt start = kernel::Substitute(index, space.column, 0);
      // The body of a shifted row starts at an aligned address by construction, and so does
      // whatever lies as that row; of loads that do not, neighbouring words are joined.
      const bool as_row = s_.shift && (index - start).is_same(space.column);
      const SymInt head =
          as_row ? Mod(-(load != nullptr ? start : row_start_), s_.vector) : SymInt(0);
      return head + s_.vector * q_ + v_;
    };
    return is_vector(InColumns(index, of_row), s_.vector,
                     load != nullptr ? InColumns(load->predicate, of_row) : 1);
  }

  SymInt InColumns(SymInt index, absl::FunctionRef<SymInt(const TileSpace&)> at) const {
    for (const TileSpace& space : tile_.spaces) {
      if (space.column.is_symbolic() && kernel::DependsOn(index, space.column))
        index = kernel::Substitute(index, space.column, at(space));
    }
    return index;
  }

  const TileKernel& tile_;
  const Schedule& s_;
  SymInt q_, v_, row_start_;
};

// How many points an access has, each of which it moves an element at.
class Points {
 public:
  static absl::StatusOr<Points> Of(const SizedGroup& sized, const TracedKernel& traced) {
    Points points(traced.tile);
    for (size_t p = 0; p < traced.arguments.size(); ++p) {
      SEAM_ASSIGN_OR_RETURN(points.values_[traced.tile.parameters[p].node()],
                            ValueOf(sized, traced.arguments[p]));
    }
    return points;
  }

  absl::StatusOr<double> Count(SymInt index, SymInt predicate, const std::vector<int>& lets) {
    const auto depends = [&](SymInt symbol) {
      return symbol.is_symbolic() &&
             (kernel::DependsOn(index, symbol) || kernel::DependsOn(predicate, symbol));
    };
    const bool of_rows = depends(tile_->row) || absl::c_any_of(lets, [&](int let) {
                           return varies_[tile_->lets[let].value];
                         });
    int64_t rows = 1, columns = 1;
    if (of_rows) {
      SEAM_ASSIGN_OR_RETURN(rows, Value(tile_->rows));
    }
    SymInt column;
    for (const TileSpace& space : tile_->spaces) {
      if (!depends(space.column)) continue;
      SEAM_ASSIGN_OR_RETURN(columns, Value(space.extent));
      column = space.column;
    }
    const double all = static_cast<double>(rows) * static_cast<double>(columns);
    return all * Wanted(predicate, rows, column, columns);
  }

 private:
  explicit Points(const TileKernel& tile) : tile_(&tile), varies_(kernel::VaryingWithRow(tile)) {}

  absl::StatusOr<int64_t> Value(SymInt e) const {
    return Evaluate(e, [&](const SymNode* symbol) -> std::optional<int64_t> {
      const auto known = values_.find(symbol);
      return known == values_.end() ? std::nullopt : std::make_optional(known->second);
    });
  }

  // The part of so many rows and columns where `predicate` holds, by a sample of them: a sequence
  // of low discrepancy. All of them where it follows from data.
  double Wanted(SymInt predicate, int64_t rows, SymInt column, int64_t columns) {
    if (!predicate.is_symbolic()) return predicate.is_same(0) ? 0 : 1;
    constexpr int kPoints = 256;
    // The powers of the plastic number's inverse, which spread points evenly over a square. Source:
    // M. Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences", 2018.
    constexpr double kAlongRows = 0.7548776662466927, kAlongColumns = 0.5698402909980532;
    const auto place = [&](SymInt symbol, int i, double step, int64_t extent) {
      const double x = 0.5 + i * step;
      if (symbol.is_symbolic()) {
        values_[symbol.node()] =
            static_cast<int64_t>((x - std::floor(x)) * static_cast<double>(extent));
      }
    };
    int wanted = 0;
    for (int i = 0; i < kPoints; ++i) {
      place(tile_->row, i, kAlongRows, rows);
      place(column, i, kAlongColumns, columns);
      const absl::StatusOr<int64_t> holds = Value(predicate);
      if (!holds.ok()) return 1;
      wanted += *holds != 0;
    }
    return static_cast<double>(wanted) / kPoints;
  }

  const TileKernel* tile_;
  std::vector<bool> varies_;
  absl::flat_hash_map<const SymNode*, int64_t> values_;  // Of parameters, and of a point.
};

}  // namespace

absl::StatusOr<double> BytesByElement(const SizedGroup& sized, const TracedKernel& traced,
                                      const std::vector<ValId>& large, const Schedule& s,
                                      double limit) {
  const Fusion& group = *sized.group;
  const TileKernel& tile = traced.tile;
  const auto is_large = [&](int buffer) {
    const BufferSource& source = traced.sources[buffer];
    if (source.kind == BufferSource::kWorkspace) return false;
    return absl::c_linear_search(large, source.kind == BufferSource::kInput
                                            ? group.inputs()[source.index]
                                            : group.outputs()[source.index]);
  };
  const Fit fit(tile, s);
  std::optional<Points> points;
  double bytes = 0;
  const auto add = [&](int buffer, SymInt index, SymInt predicate,
                       const std::vector<int>& lets) -> absl::Status {
    if (!points) {
      SEAM_ASSIGN_OR_RETURN(points, Points::Of(sized, traced));
    }
    SEAM_ASSIGN_OR_RETURN(const double n, points->Count(index, predicate, lets));
    bytes += n * DTypeBytes(tile.buffers[buffer].dtype);
    return absl::OkStatus();
  };
  const std::vector<bool> varies = kernel::VaryingWithColumn(tile);
  const std::vector<bool> alike =
      s.outer && !tile.lets.empty() ? fit.AlikeForRows() : std::vector<bool>(tile.values.size());
  for (size_t id = 0; id < tile.values.size() && bytes <= limit; ++id) {
    const TileValue& value = tile.values[id];
    if (value.kind != kernel::TileKind::Load || !is_large(value.buffer)) continue;
    // Where a row's elements are looked up together, their vectors lie as any others, unless these
    // are shifted: what is looked up starts elsewhere. So do those of neighbouring rows whose
    // columns are looked up for all of them.
    const bool alone = absl::c_any_of(value.lets, [&](int let) {
      const kernel::TileId at = tile.lets[let].value;
      return s.shift || (s.outer ? !varies[at] || !alike[at] : varies[at]);
    });
    // Once a row, that is no matter of vectors.
    if (!value.lets.empty() && !s.outer && !varies[id]) continue;
    if (alone || !fit.Holds(value))
      SEAM_RETURN_IF_ERROR(add(value.buffer, value.index, value.predicate, value.lets));
  }
  for (const kernel::TileStore& store : tile.stores) {
    if (bytes > limit) break;
    if (is_large(store.buffer) && !fit.Holds(store))
      SEAM_RETURN_IF_ERROR(add(store.buffer, store.index, store.predicate, {}));
  }
  return bytes;
}

}  // namespace seam
