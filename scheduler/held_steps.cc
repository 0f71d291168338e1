#include "scheduler/held_steps.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/status.h"
#include "scheduler/kernel/access.h"

namespace seam {
namespace {

using kernel::HeldLoad;
using kernel::TileKernel;
using kernel::TileSpace;
using kernel::TileValue;

// Shared memory that the driver takes of each CTA's, which has whole units.
constexpr int64_t kDriverBytes = 1024, kUnitBytes = 256;

// A load by what it reads, in terms that kernels have in common: two of the same are the same
// element for the same row and column.
struct Read {
  int input;
  SymInt extent, index, predicate;
  bool operator==(const Read& other) const {
    return input == other.input && extent.is_same(other.extent) && index.is_same(other.index) &&
           predicate.is_same(other.predicate);
  }
};

// The kernels' reads in one environment: parameters have the same order, rows and columns the
// same meaning where there are as many.
class Reads {
 public:
  std::vector<std::pair<kernel::TileId, Read>> Of(const TracedKernel& traced) {
    const TileKernel& tile = traced.tile;
    SymImporter importer(env_.get());
    for (size_t i = 0; i < tile.parameters.size(); ++i) {
      if (i == parameters_.size()) {
        const SymNode* node = tile.parameters[i].node();
        parameters_.push_back(env_->FreshSymbol(node->name, node->range.lo, node->range.hi));
      }
      importer.Map(tile.parameters[i].node(), parameters_[i]);
    }
    if (tile.row.is_symbolic())
      importer.Map(tile.row.node(), Coordinate(importer.Import(tile.rows), rows_));
    for (const TileSpace& space : tile.spaces) {
      if (space.column.is_symbolic())
        importer.Map(space.column.node(), Coordinate(importer.Import(space.extent), columns_));
    }
    std::vector<std::pair<kernel::TileId, Read>> reads;
    for (size_t id = 0; id < tile.values.size(); ++id) {
      const TileValue& value = tile.values[id];
      if (value.kind != kernel::TileKind::Load || !value.lets.empty() ||
          traced.sources[value.buffer].kind != BufferSource::kInput ||
          (tile.row.is_symbolic() && !kernel::DependsOn(value.index, tile.row))) {
        continue;
      }
      for (const TileSpace& space : tile.spaces) {
        if (space.whole || !space.column.is_symbolic() ||
            !kernel::DependsOn(value.index, space.column)) {
          continue;
        }
        reads.emplace_back(static_cast<kernel::TileId>(id),
                           Read{traced.sources[value.buffer].index, importer.Import(space.extent),
                                importer.Import(value.index), importer.Import(value.predicate)});
        break;
      }
    }
    return reads;
  }

 private:
  // The coordinate along so many rows or columns.
  SymInt Coordinate(SymInt extent, std::vector<std::pair<SymInt, SymInt>>& known) {
    for (const auto& [other, coordinate] : known) {
      if (other.is_same(extent)) return coordinate;
    }
    known.emplace_back(extent, env_->FreshSymbol("at", 0, extent - 1));
    return known.back().second;
  }

  const std::unique_ptr<ShapeEnv> env_ = std::make_unique<ShapeEnv>();
  std::vector<SymInt> parameters_;
  std::vector<std::pair<SymInt, SymInt>> rows_, columns_;  // By extent.
};

}  // namespace

std::vector<std::vector<HeldLoad>> FindHeldLoads(absl::Span<const TracedKernel> kernels) {
  Reads reads;
  std::vector<Read> known;    // By the number of the array,
  std::vector<size_t> first;  // and the kernel that leaves it there.
  std::vector<bool> found;    // Whether another one finds it.
  std::vector<std::vector<HeldLoad>> loads(kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (const auto& [id, read] : reads.Of(kernels[k])) {
      const size_t array = absl::c_find(known, read) - known.begin();
      if (array == known.size()) {
        known.push_back(read);
        first.push_back(k);
        found.push_back(false);
        loads[k].push_back({id, static_cast<int>(array), false});
      } else if (first[array] < k) {
        found[array] = true;
        loads[k].push_back({id, static_cast<int>(array), true});
      }
    }
  }
  for (std::vector<HeldLoad>& of_kernel : loads)
    std::erase_if(of_kernel, [&](const HeldLoad& load) { return !found[load.array]; });
  return loads;
}

HeldSteps::HeldSteps(const SizedGroup& sized, absl::Span<const TracedKernel> kernels)
    : rows_(sized.rows), columns_(sized.columns), device_(sized.context.device) {
  const std::vector<std::vector<HeldLoad>> loads = FindHeldLoads(kernels);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const TileKernel& tile = kernels[k].tile;
    for (const HeldLoad& load : loads[k]) {
      if (!load.found) point_bytes_ += DTypeBytes(tile.values[load.load].dtype);
    }
    for (const kernel::TileReduction& r : tile.reductions) {
      for (int c = 0; c < kernel::NumComponents(r); ++c) {
        components_.emplace_back(DTypeBytes(kernel::ComponentType(r.op, r.dtype, c)), r.merge);
      }
    }
  }
}

absl::StatusOr<HeldSteps> HeldSteps::Of(const SizedGroup& sized, const Schedule& s) {
  if (sized.shape.crossed()) return HeldSteps(sized, {});  // CTAs do not share such rows.
  TraceOptions options;
  options.facts = s.facts;
  options.alignment_bytes = s.alignment_bytes;
  options.chan_welford = true;
  if (s.online) {
    SEAM_ASSIGN_OR_RETURN(const TracedKernel whole, Trace(*sized.group, sized.shape, options));
    options.online = FindOnlineSums(whole);
  }
  options.split = std::max(2, s.split);
  options.neighbours = s.neighbours;
  std::vector<TracedKernel> kernels;
  for (options.stage = 0; options.stage <= sized.shape.max_depth; ++options.stage) {
    SEAM_ASSIGN_OR_RETURN(TracedKernel traced, Trace(*sized.group, sized.shape, options));
    kernels.push_back(std::move(traced));
  }
  return HeldSteps(sized, kernels);
}

// Beside what stays there are the states of the CTA's rows: of each warp, or of each thread where
// these merge a row each; then those of rows, and of neighbouring rows together.
int HeldSteps::Most(const Schedule& s) const {
  const int64_t rows = s.rows_per_cta();
  const int64_t ctas = CeilDivide(std::max<int64_t>(rows_, 1), rows) * s.split;
  const bool row_a_thread = s.outer && s.vector > 1 && s.threads() % rows == 0;
  const auto array = [](int64_t bytes) { return CeilDivide(bytes, 16) * 16; };
  int64_t states = 0;
  for (const auto& [bytes, merged] : components_) {
    const int64_t of_threads = merged && row_a_thread ? s.threads() : s.warps_per_row * rows;
    const int by_row = row_a_thread ? 1 + (merged && s.neighbours > 1) : 0;
    states += array(bytes * of_threads) + by_row * array(bytes * rows);
  }
  const int64_t of_cta =
      (device_.smem_bytes_per_cta + kDriverBytes) / CeilDivide(ctas, device_.sms);
  const int64_t room = of_cta / kUnitBytes * kUnitBytes - kDriverBytes;
  const int64_t step = point_bytes_ * s.registers * s.vector * s.threads();
  if (step == 0) return 0;
  const int64_t steps = CeilDivide(ColumnsOfCta(s), s.columns_per_step());
  return static_cast<int>(std::clamp<int64_t>((room - states) / step, 0, steps));
}

double HeldSteps::Share(const Schedule& s, int steps) const {
  return std::min(1.0, static_cast<double>(steps * s.columns_per_step()) /
                           static_cast<double>(ColumnsOfCta(s)));
}

}  // namespace seam
